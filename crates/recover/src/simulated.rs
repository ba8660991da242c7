//! The simulated databases: they know everything, and tell it in the end.
//!
//! # Invariants
//! What they tell is the truth about them, faults included. A transaction of which the client was
//! told that it did not commit is left out, with its versions.

use std::collections::HashMap;

use margay_client::{DatabaseEvidence, Obj, Space, Testimony};
use margay_history::{Evidence, History, Outcome, TxnId, Version, VersionOrder};

use crate::certificate::Recovered;
use crate::log::{Change, Datum};
use crate::names::Names;

/// Puts together what was told.
pub(crate) fn assemble(history: &History, told: &DatabaseEvidence, named: &[Testimony]) -> Recovered {
    let labels = named.iter().filter_map(|testimony| {
        let txn = history.find_txn(testimony.txn).filter(|&t| history.outcome(t) != Outcome::Aborted)?;
        Some((testimony.id.as_deref()?.parse().ok()?, txn))
    });
    let labels: HashMap<u64, TxnId> = labels.collect();
    let names = Names::new(history);
    let version = |label: u64| match label {
        0 => Some(Version::Initial),
        label => labels.get(&label).copied().map(Version::Of),
    };
    let order = |&(obj, earlier, later): &(Obj, u64, u64)| {
        let versions = vec![version(earlier)?, version(later)?];
        Some(VersionOrder { object: names.object(&change(obj))?, versions })
    };
    let stamped = |all: &[(u64, i64)]| {
        let known = all.iter().filter_map(|(label, ts)| Some((*labels.get(label)?, *ts)));
        let mut known: Vec<(TxnId, i64)> = known.collect();
        known.sort_unstable();
        known
    };
    let mut orders: Vec<VersionOrder> = told.successions.iter().filter_map(order).collect();
    orders.sort_by_key(|order| order.object);
    let commits = stamped(&told.commits);
    let evidence = Evidence {
        version_orders: orders,
        serializations: if told.serial { commits.clone() } else { Vec::new() },
        snapshots: stamped(&told.snapshots),
        commits,
        ..Evidence::default()
    };
    Recovered { evidence, commits: told.commits.len(), ..Recovered::default() }
}

/// An object as a log would name it.
fn change(obj: Obj) -> Change {
    let table = match obj.space {
        Space::Register => "margay_registers",
        Space::List => "margay_lists",
        Space::Row => "margay_rows",
    };
    let key = vec![Datum::Int(i64::from(obj.key))];
    Change { table: table.to_owned(), key, row: None, inserted: false }
}
