//! Testing a database of your own: implement four methods, and every workload drives it.
//!
//! [`Store`] is for stores of keys and values, [`sql`] for databases that speak SQL, `blocking`
//! (feature `tokio`) for asynchronous ones. [`run`] lets the clients of a workload loose on it and
//! records what they see; [`verify`] also decides, and makes a violation small.

#[cfg(feature = "tokio")]
pub use margay_client::blocking;
pub use margay_client::{Begin, Bytes, Connection, Database, Store, Stored, Trouble, Txn, sql};
pub use margay_runner::Recording;
pub use margay_runner::drive::{Case, Options, Schedule, generic, run, shrink};
pub use margay_workloads::{WORKLOADS, Workload};

use margay_history::History;
use margay_levels::Level;

use crate::check;

/// Runs a workload on a database and checks what its clients saw. A violation is made small first:
/// fewer transactions, clients and keys, with the seed that shows it again.
///
/// `open` gives a fresh database each time.
///
/// # Errors
/// The account of a violation with its smallest case, why there was no answer, or what kept the
/// workload from running.
pub fn verify(
    mut open: impl FnMut() -> Result<Box<dyn Database>, String>,
    workload: Workload,
    options: &Options,
    level: Level,
) -> Result<(), String> {
    let history = run(&*open()?, workload, options)?.history;
    let report = check(&history, level);
    if report.holds() {
        return Ok(());
    }
    if !report.is_violated() {
        return Err(report.to_string());
    }
    let violated = |history: &History| check(history, level).is_violated();
    let Some(case) = shrink(&mut open, workload, options, violated)? else {
        return Err(format!("{report}\n\nThe violation was not seen again."));
    };
    let account = check(&case.recording.history, level);
    Err(format!("{account}\n\nsmallest case: {case}"))
}
