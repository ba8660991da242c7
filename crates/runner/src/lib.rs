//! Lets clients loose on a database and records what they see.
//!
//! Every client is a thread with its own connection, its own stream of plans and its own trace. All share one monotonic clock, so the recorded intervals
//! `[before, after]` are comparable without skew. When all have ended, the traces become one [`History`].
//!
//! # Invariants
//! - An interval is read on the client's own thread, immediately around the call.
//! - A transaction is recorded as committed or aborted only when that is certain; the rest is unknown.
//! - A client that lost its connection goes on in a new session: what is left of the old one may still happen.

mod client;
mod trace;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use client::Client;
use margay_drivers::{Database, Setting};
use margay_history::History;
use margay_levels::Level;
use margay_simdb::{BuilderSink, Protocol, Sink, Start, initial_state};
use margay_workloads::{Program, Workload};
use trace::Trace;

/// What to run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    /// What clients ask.
    pub workload: Workload,
    /// How many clients there are.
    pub clients: u32,
    /// Where their plans come from.
    pub seed: u64,
    /// The database's level, in its own words.
    pub own_name: String,
    /// No more transactions than this are begun, shared evenly by the clients.
    pub transactions: Option<u64>,
    /// None is begun after this time.
    pub duration: Option<Duration>,
}

impl Job {
    /// What a simulated database has to know of it.
    #[must_use]
    pub fn setting(workload: &Workload, clients: u32, seed: u64) -> Setting {
        Setting { clients, keys: workload.keys(), domain: workload.domain(), seed }
    }

    /// How many transactions client number `client` may begin.
    fn share(&self, client: u32) -> u64 {
        let clients = u64::from(self.clients);
        self.transactions.map_or(u64::MAX, |all| all / clients + u64::from(u64::from(client) < all % clients))
    }
}

/// How far a run has come, for whoever watches it; and a way to end it early.
#[derive(Default, Debug)]
pub struct Monitor {
    committed: AtomicU64,
    aborted: AtomicU64,
    unknown: AtomicU64,
    stop: AtomicBool,
}

/// How transactions have ended so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Committed.
    pub committed: u64,
    /// Refused by the database, or rolled back on purpose.
    pub aborted: u64,
    /// Nobody knows.
    pub unknown: u64,
}

impl Counts {
    /// All of them.
    #[must_use]
    pub fn total(self) -> u64 {
        self.committed + self.aborted + self.unknown
    }
}

impl Monitor {
    /// The numbers of this moment.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let number = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            committed: number(&self.committed),
            aborted: number(&self.aborted),
            unknown: number(&self.unknown),
        }
    }

    /// Ends the run after the transactions that are open now.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether the run was ended.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// What came of a run.
#[derive(Debug)]
pub struct Recording {
    /// What clients saw.
    pub history: History,
    /// How their transactions ended.
    pub counts: Counts,
    /// How long they took, all in all.
    pub elapsed: Duration,
    /// Why clients had to stop early, if some had to.
    pub dropped: Vec<String>,
}

/// What clients share.
struct Shared<'a> {
    database: &'a dyn Database,
    job: &'a Job,
    /// What clients do, if they speak SQL.
    program: Option<&'a dyn Program>,
    monitor: &'a Monitor,
    clock: Instant,
    ready: Barrier,
    /// The first thing that no client can go on with.
    failure: Mutex<Option<String>>,
}

impl Shared<'_> {
    fn fail(&self, why: String) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        self.monitor.stop();
    }
}

/// Prepares the database, runs the job, and cleans up.
///
/// # Errors
/// When the database cannot be prepared or connected to, or does not understand a statement.
pub fn run(database: &dyn Database, job: &Job, monitor: &Monitor) -> Result<Recording, String> {
    let program = job.workload.program();
    let start = start(database, job, program.as_deref());
    match program {
        Some(_) => database.prepare_sql(&job.own_name, &start.schema)?,
        None => database.prepare(&job.own_name, &start)?,
    }
    let recording = record(database, job, program.as_deref(), monitor, &start);
    match program {
        Some(_) => database.clean_up_sql(&start.schema),
        None => database.clean_up(),
    }
    recording
}

fn record(
    database: &dyn Database,
    job: &Job,
    program: Option<&dyn Program>,
    monitor: &Monitor,
    start: &Start,
) -> Result<Recording, String> {
    let clients = job.clients as usize;
    let (clock, ready) = (Instant::now(), Barrier::new(clients));
    let shared = Shared { database, job, program, monitor, clock, ready, failure: Mutex::new(None) };
    let traces: Vec<Trace> = thread::scope(|scope| {
        let spawn = |client| {
            let shared = &shared;
            scope.spawn(move || Client::run(shared, client))
        };
        let threads: Vec<_> = (0..job.clients).map(spawn).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let elapsed = traces.iter().filter_map(Trace::span).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    if traces.len() < clients {
        return Err("a client panicked".to_owned());
    }
    if let Some(why) = shared.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(why);
    }
    Ok(Recording {
        history: history(start, &traces)?,
        counts: monitor.counts(),
        elapsed: elapsed.map_or(Duration::ZERO, |(from, to)| Duration::from_nanos((to - from) as u64)),
        dropped: traces.into_iter().filter_map(|trace| trace.dropped).collect(),
    })
}

fn history(start: &Start, traces: &[Trace]) -> Result<History, String> {
    let build = || {
        let mut sink = BuilderSink::default();
        sink.start(start)?;
        traces.iter().try_for_each(|trace| trace.replay(|op| sink.op(op)))?;
        sink.finish()
    };
    build().map_err(|error| format!("the recording is no history: {error}"))
}

/// The initial state is the one of the simulated databases, or the program's.
fn start(database: &dyn Database, job: &Job, program: Option<&dyn Program>) -> Start {
    let setting = Job::setting(&job.workload, job.clients, job.seed);
    let (dbms, version) = database.identity();
    let level = level_name(&job.own_name);
    if let Some(program) = program {
        let (dbms, schema) = (format!("{dbms}-{version}"), program.schema());
        return Start { dbms, level, skew: 0, table: false, initial: Vec::new(), schema };
    }
    Start {
        dbms: format!("{dbms}-{version}"),
        level,
        skew: 0,
        ..initial_state(&setting.config(Protocol::Serial))
    }
}

/// What a level of the database's own is called in a history.
#[must_use]
pub fn level_name(own_name: &str) -> String {
    own_name.to_ascii_lowercase().replace(' ', "-")
}

/// The database's own level of this name, and what it promises.
///
/// # Errors
/// When the database has no such level: says which it has.
pub fn choose_level(database: &dyn Database, asked: Option<&str>) -> Result<(String, Level), String> {
    let offered = database.levels();
    let Some(name) = asked else {
        let own = offered.first().copied().unwrap_or_default();
        return promise(database, own);
    };
    let wanted = level_name(name);
    let own = offered.iter().find(|own| level_name(own) == wanted);
    own.map_or_else(|| Err(no_level(database, name)), |own| promise(database, own))
}

fn promise(database: &dyn Database, own: &str) -> Result<(String, Level), String> {
    let level = database.promise(own);
    level.map(|level| (own.to_owned(), level)).ok_or_else(|| no_level(database, own))
}

fn no_level(database: &dyn Database, name: &str) -> String {
    let (dbms, version) = database.identity();
    let offered: Vec<_> = database.levels().into_iter().map(level_name).collect();
    format!("{dbms} {version} does not offer the level `{name}`; it offers {}", offered.join(", "))
}
