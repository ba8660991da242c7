//! Driving a database from its author's own tests: one call records a history, another makes the
//! case small.
//!
//! ```no_run
//! # use margay_client::{Database, Trouble};
//! # use margay_history::History;
//! # fn open() -> Result<Box<dyn Database>, String> { unreachable!() }
//! # fn is_violated(history: &History) -> bool { unreachable!() }
//! use margay_runner::drive::{Options, run, shrink};
//!
//! let workload = "increment".parse().map_err(|error| format!("{error}"))?;
//! let options = Options { seed: 7, ..Options::default() };
//! let recording = run(&*open()?, workload, &options)?;
//! if is_violated(&recording.history) {
//!     let case = shrink(open, workload, &options, is_violated)?;
//!     panic!("{}", case.map_or("not seen again".to_owned(), |case| case.to_string()));
//! }
//! # Ok::<(), String>(())
//! ```

use std::fmt;
use std::time::Duration;

use margay_client::Database;
use margay_history::History;
use margay_levels::Level;
use margay_levels::profile::Profile;
use margay_mirror::Mechanisms;
use margay_workloads::{Body, Workload};

use crate::turns::Turns;
use crate::{Extras, Job, Monitor, Recording};

/// [`shrink`] runs the database no more often than this.
const MAX_RUNS: u32 = 400;

/// A smaller case is tried with so many seeds, the given one first.
const SEEDS: u64 = 12;

/// How to drive a database.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many clients there are.
    pub clients: u32,
    /// How many transactions they begin, all together.
    pub transactions: u64,
    /// How many keys there are, instead of the workload's own number.
    pub keys: Option<u32>,
    /// The seed of the plans of all clients, and of whose turn it is.
    pub seed: u64,
    /// One of [`Database::levels`]; the first if nothing is said.
    pub level: Option<String>,
    /// How clients are scheduled.
    pub schedule: Schedule,
    /// With [`Schedule::Turns`]: a call that takes longer is taken to wait for another client, for
    /// a lock say, and the others go on. From then on the run depends on the clock a little.
    pub patience: Duration,
    /// How often a transaction that the database refused is tried again, each time as a transaction
    /// of its own.
    pub retries: u32,
    /// The mechanisms by which the run is verified meanwhile; [`Recording::verified`] is the
    /// result.
    pub mechanisms: Option<Mechanisms>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clients: 4,
            transactions: 200,
            keys: None,
            seed: 0,
            level: None,
            schedule: Schedule::default(),
            patience: Duration::from_millis(100),
            retries: 0,
            mechanisms: None,
        }
    }
}

/// How clients are scheduled.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Schedule {
    /// They take turns: one call at a time, and the seed draws whose. A run of a database whose
    /// calls do not wait for each other can be repeated exactly.
    #[default]
    Turns,
    /// As threads are. Calls overlap, so races inside calls are met, too; no two runs are the same.
    Free,
}

/// Lets the clients of a workload loose on a database, and records what they see.
///
/// # Errors
/// When the workload is not one of clients (a scripted one, or a list of names), or asks for SQL
/// that the database does not understand; when the database cannot be prepared or connected to; or
/// when it says [`margay_client::Trouble::Failed`].
pub fn run(database: &dyn Database, workload: Workload, options: &Options) -> Result<Recording, String> {
    let workload = with_keys(workload, options.keys);
    if !matches!(workload.body, Body::Steps(_) | Body::Program(_)) {
        return Err(format!("the workload {workload} has no clients of its own"));
    }
    if options.clients == 0 {
        return Err("a run needs a client".to_owned());
    }
    let first = || database.levels().first().map(|level| (*level).to_owned());
    let own_name = options.level.clone().or_else(first).unwrap_or_default();
    let job = Job {
        workload,
        clients: options.clients,
        seed: options.seed,
        own_name,
        others: Vec::new(),
        retries: options.retries,
        harms: Vec::new(),
        transactions: Some(options.transactions),
        duration: None,
    };
    let extras = || Extras { mechanisms: options.mechanisms, ..Extras::default() };
    match options.schedule {
        Schedule::Free => crate::run(database, &job, &Monitor::default(), extras()),
        Schedule::Turns => {
            let turns = Turns::new(database, options.clients, options.seed, options.patience);
            crate::run(&turns, &job, &Monitor::default(), extras())
        }
    }
}

/// The mechanisms of any database that promises this level, for [`Options::mechanisms`]; there are
/// some for `strict-serializable` and `strict-snapshot-isolation`.
#[must_use]
pub fn generic(level: Level) -> Option<Mechanisms> {
    let own_name = level.name().replace('-', " ").to_ascii_uppercase();
    Profile::find("generic", None, Some(&own_name)).map(Mechanisms::of)
}

/// A small case of a violation.
#[derive(Debug)]
pub struct Case {
    /// The workload.
    pub workload: Workload,
    /// With these options [`run`] has shown the violation.
    pub options: Options,
    /// What it recorded then.
    pub recording: Recording,
    /// How many runs it took to find the case.
    pub runs: u32,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Options { clients, transactions, keys, seed, .. } = &self.options;
        let keys = keys.unwrap_or_else(|| self.workload.keys());
        write!(
            f,
            "workload {}, seed {seed}: {transactions} transactions of {clients} clients on {keys} keys",
            self.workload
        )
    }
}

/// Repeats a run with fewer transactions, clients and keys while `violated` says that the violation
/// is there. Every run gets a database of its own. The given seed is tried first, then those after
/// it.
///
/// Answers nothing if the violation was not seen again with the options as given.
///
/// # Errors
/// As [`run`], and when `open` fails.
pub fn shrink(
    mut open: impl FnMut() -> Result<Box<dyn Database>, String>,
    workload: Workload,
    options: &Options,
    mut violated: impl FnMut(&History) -> bool,
) -> Result<Option<Case>, String> {
    let mut runs = 0;
    let mut attempt = |options: &Options, seeds: u64| -> Result<Option<Case>, String> {
        for more in 0..seeds {
            if runs >= MAX_RUNS {
                break;
            }
            runs += 1;
            let options = Options { seed: options.seed.wrapping_add(more), ..options.clone() };
            let recording = run(open()?.as_ref(), workload, &options)?;
            if violated(&recording.history) {
                return Ok(Some(Case { workload, options, recording, runs }));
            }
        }
        Ok(None)
    };
    let Some(mut best) = attempt(options, SEEDS)? else { return Ok(None) };
    'smaller: loop {
        for candidate in smaller(&best.options, workload) {
            if let Some(case) = attempt(&candidate, SEEDS)? {
                best = case;
                continue 'smaller;
            }
        }
        best.runs = runs;
        return Ok(Some(best));
    }
}

/// Options of smaller cases, the smallest first in each dimension.
fn smaller(options: &Options, workload: Workload) -> Vec<Options> {
    let keys = options.keys.unwrap_or_else(|| workload.keys());
    let transactions = steps(options.transactions, 1);
    let clients = steps(options.clients.into(), 1);
    let keys = steps(keys.into(), 2);
    let all = transactions.map(|transactions| Options { transactions, ..options.clone() });
    let all = all.chain(clients.map(|clients| Options { clients: clients as u32, ..options.clone() }));
    all.chain(keys.map(|keys| Options { keys: Some(keys as u32), ..options.clone() })).collect()
}

/// Numbers below this one, from the least on: half of it, three quarters, one less.
fn steps(number: u64, least: u64) -> impl Iterator<Item = u64> {
    let mut steps = vec![number / 2, number - number.div_ceil(4), number.saturating_sub(1)];
    steps.retain(|&step| step >= least && step < number);
    steps.dedup();
    steps.into_iter()
}

fn with_keys(workload: Workload, keys: Option<u32>) -> Workload {
    let options = margay_workloads::Options { keys: keys.or(workload.options.keys), ..workload.options };
    Workload { options, ..workload }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_go_down_and_end() {
        assert_eq!(steps(8, 1).collect::<Vec<_>>(), [4, 6, 7]);
        assert_eq!(steps(2, 1).collect::<Vec<_>>(), [1]);
        assert_eq!(steps(1, 1).count() + steps(2, 2).count() + steps(0, 1).count(), 0);
    }
}
