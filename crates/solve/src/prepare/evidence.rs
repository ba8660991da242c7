//! What evidence says of the order of versions.

use margay_history::{History, Outcome, Version};

use crate::problem::{Draft, Fact, Item};

/// Adds what version orders and commit timestamps say of the versions of a draft.
pub(crate) fn add_evidence(history: &History, draft: &mut Draft) {
    let evidence = history.evidence();
    for order in &evidence.version_orders {
        let groups: Vec<&[Version]> = order.versions.chunks(1).collect();
        add_order(history, draft, order.object.into(), &groups);
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
        let times = same.chunk_by(|a, b| a.1 == b.1);
        let versions: Vec<Vec<Version>> =
            times.map(|time| time.iter().map(|&(_, _, txn)| Version::Of(txn)).collect()).collect();
        let groups: Vec<&[Version]> = versions.iter().map(Vec::as_slice).collect();
        add_order(history, draft, same[0].0, &groups);
    }
}

/// Groups of versions in order: each version before those of the later groups, as far as to the
/// first group that is certainly there. Those in between may be missing, so the next one alone
/// would not do; beyond, the order follows.
fn add_order(history: &History, draft: &mut Draft, item: Item, groups: &[&[Version]]) {
    let certain = |version: &Version| match version {
        Version::Initial => true,
        Version::Of(txn) => history.outcome(*txn) == Outcome::Committed,
    };
    for (i, group) in groups.iter().enumerate() {
        for later in &groups[i + 1..] {
            let pairs = group.iter().flat_map(|&first| later.iter().map(move |&second| (first, second)));
            draft.facts.extend(pairs.map(|(first, second)| Fact { item, first, second, source: None }));
            if later.iter().any(certain) {
                break;
            }
        }
    }
}
