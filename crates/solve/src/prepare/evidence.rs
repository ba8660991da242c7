//! What evidence says of the order of versions.

use margay_history::{History, Outcome, Version};

use crate::problem::{Draft, Fact, Item};

/// Adds what version orders and commit timestamps say of the versions of a draft.
pub(crate) fn add_evidence(history: &History, draft: &mut Draft) {
    let evidence = history.evidence();
    for order in &evidence.version_orders {
        add_order(history, draft, order.object.into(), &order.versions);
    }
    if evidence.commits.is_empty() {
        return;
    }
    let writes = draft.writes.iter();
    let mut stamped: Vec<_> =
        writes.filter_map(|&(txn, item)| evidence.commit(txn).map(|ts| (item, ts, txn))).collect();
    stamped.sort_unstable();
    for same in stamped.chunk_by(|a, b| a.0 == b.0) {
        // Of two with one timestamp neither is known to be first.
        for pair in same.chunk_by(|a, b| a.1 < b.1) {
            let versions: Vec<Version> = pair.iter().map(|&(_, _, txn)| Version::Of(txn)).collect();
            add_order(history, draft, same[0].0, &versions);
        }
        let times: Vec<_> = same.chunk_by(|a, b| a.1 == b.1).collect();
        for pair in times.windows(2) {
            let all = pair[0].iter().flat_map(|a| pair[1].iter().map(move |b| (a.2, b.2)));
            let (item, source) = (same[0].0, None);
            let fact = |(a, b)| Fact { item, first: Version::Of(a), second: Version::Of(b), source };
            draft.facts.extend(all.map(fact));
        }
    }
}

/// Each version before the next, and, since unknown ones may be missing, each certain one before the next certain one.
fn add_order(history: &History, draft: &mut Draft, item: Item, versions: &[Version]) {
    let certain = |version: &&Version| match version {
        Version::Initial => true,
        Version::Of(txn) => history.outcome(*txn) == Outcome::Committed,
    };
    let sure: Vec<Version> = versions.iter().filter(certain).copied().collect();
    let fact = |pair: &[Version]| Fact { item, first: pair[0], second: pair[1], source: None };
    draft.facts.extend(versions.windows(2).chain(sure.windows(2)).map(fact));
}
