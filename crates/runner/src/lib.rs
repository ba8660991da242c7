//! Lets clients loose on a database, records what they see, and verifies it while they run.
//!
//! Every client is a thread with its own connection, its own stream of plans and its own tape. All
//! share one monotonic clock, so the recorded intervals `[before, after]` are comparable without
//! skew. One more thread collects what is on the tapes: it builds the [`History`], writes it to a
//! file if one is wanted, and leads it through the mirror (`live`).
//!
//! # Invariants
//! - An interval is read on the client's own thread, immediately around the call.
//! - A transaction is recorded as committed or aborted only when that is certain; the rest is
//!   unknown.
//! - A client that lost its connection goes on in a new session: what is left of the old one may
//!   still happen.
//! - Clients never wait for the collector, unless [`Extras::max_lag`] wants them to; then only
//!   between transactions, when nobody waits for them.

mod client;
mod collect;
pub mod drive;
mod follow;
mod harm;
mod job;
mod lines;
mod live;
mod monitor;
pub mod script;
pub mod scripted;
mod statements;
mod statistics;
mod team;
mod trace;
mod turns;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use client::Client;
pub use collect::Output;
use collect::{Collected, Collector, Patience};
pub use follow::{Followed, Follows};
pub use harm::Every;
pub use job::{Job, choose_level, level_name, mechanisms};
pub use live::{Live, Verified};
use margay_client::{Database, Harm, Start};
use margay_history::History;
use margay_levels::Anomaly;
pub use margay_mirror::Mechanisms;
use margay_workloads::Program;
pub use monitor::{Counts, Monitor, Phase, Progress};
pub use statements::{MirrorInput, Statements, declare};
use statistics::Thread;
pub use statistics::{PART, Point, Statistics};
pub use team::Team;
use trace::Tape;

/// A server that was killed and does not come back within this time is taken for dead.
pub const SILENCE: Duration = Duration::from_secs(15);

/// What a run does beside running.
#[derive(Default)]
pub struct Extras<'a> {
    /// Where the history is written, line by line, while it is recorded.
    pub output: Option<Output<'a>>,
    /// The mechanisms by which it is verified while it is recorded.
    pub mechanisms: Option<Mechanisms>,
    /// Who follows what is recorded, line by line.
    pub follower: Option<Box<dyn Follows + 'a>>,
    /// How far the collector may be behind, with the verification that it does: clients begin no
    /// transaction before it has come nearer.
    pub max_lag: Option<Duration>,
    /// How long the verification may go on when all clients have gone; without end if nothing is
    /// said. What is left then is not verified.
    pub patience: Option<Duration>,
    /// After how long without an answer to any client a client that has lost its connection gives
    /// up. By default [`SILENCE`].
    pub silence: Option<Duration>,
    /// Whether nothing is recorded at all: only how fast clients are is of interest.
    pub silent: bool,
    /// Other machines that run the same job at the same time. All of them together have as many
    /// clients as a job has, times their number, and as many transactions as the job has.
    pub team: Option<&'a dyn Team>,
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
    /// How long it was from when clients began until one of them got its last answer.
    pub answered: Duration,
    /// Connections that clients lost.
    pub lost: Lost,
    /// Why clients had to stop early, if some had to.
    pub dropped: Vec<String>,
    /// What the live verification came to, if there was one.
    pub verified: Option<Verified>,
    /// What the follower came to, if there was one.
    pub followed: Option<Followed>,
    /// How long all clients together waited for it, as [`Extras::max_lag`] wants.
    pub waited: Duration,
    /// What collecting, recording and verifying has cost, where the system tells.
    pub cpu: Option<Duration>,
    /// What of that came after the last client had gone: the rest of the verification, and the
    /// completion of the history.
    pub completing: Option<Duration>,
    /// What happened over time.
    pub statistics: Statistics,
    /// How often the server was harmed, and how.
    pub harmed: Vec<(Harm, u32)>,
}

impl Recording {
    /// What was recorded without clients that run freely.
    #[must_use]
    pub fn of(history: History, counts: Counts, elapsed: Duration) -> Self {
        Self {
            history,
            counts,
            elapsed,
            answered: elapsed,
            lost: Lost::default(),
            dropped: Vec::new(),
            verified: None,
            followed: None,
            waited: Duration::ZERO,
            cpu: None,
            completing: None,
            statistics: Statistics::default(),
            harmed: Vec::new(),
        }
    }
}

/// Connections that clients lost.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Lost {
    /// How many.
    pub count: u64,
    /// Why the first one was.
    pub first: Option<String>,
}

/// What clients share.
struct Shared<'a> {
    database: &'a dyn Database,
    /// Its name.
    dbms: String,
    job: &'a Job,
    /// What clients do, if they speak SQL.
    program: Option<&'a dyn Program>,
    monitor: &'a Monitor,
    clock: Instant,
    silent: bool,
    max_lag: Option<Duration>,
    silence: Duration,
    /// The number of the first client here, and how many there are on all machines.
    first: u32,
    all: u32,
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
pub fn run(
    database: &dyn Database,
    job: &Job,
    monitor: &Monitor,
    extras: Extras<'_>,
) -> Result<Recording, String> {
    fits(database, job)?;
    let program = job.workload.program();
    let team = extras.team;
    let (machine, machines) = team.map_or((0, 1), Team::place);
    let (first, all) = (machine * job.clients, machines * job.clients);
    let start = start(database, job, all, program.as_deref());
    let prepares = team.map_or(Ok(true), Team::may_prepare)?;
    match program {
        _ if !prepares => {}
        Some(_) => database.prepare_sql(&job.own_name, &start.schema)?,
        None => database.prepare(&job.own_name, &start)?,
    }
    team.map_or(Ok(()), Team::begin)?;
    // Clients begin together, and so does who harms the server.
    let clock = team.map_or_else(Instant::now, Team::clock);
    let ready = Barrier::new(job.clients as usize + 1);
    let program = program.as_deref();
    let shared = Shared {
        database,
        dbms: database.identity().0,
        job,
        program,
        monitor,
        clock,
        silent: extras.silent,
        max_lag: extras.max_lag,
        silence: extras.silence.unwrap_or(silence(job)),
        first,
        all,
        ready,
        failure: Mutex::new(None),
    };
    let recording = record(&shared, &start, extras);
    let failure = shared.failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(team) = team {
        let why = failure.as_ref().or(recording.as_ref().err());
        team.end(why.map_or("", String::as_str));
        if prepares {
            team.wait_for_others();
        }
    }
    match program {
        _ if !prepares => {}
        Some(_) => database.clean_up_sql(&start.schema),
        None => database.clean_up(),
    }
    match failure {
        Some(why) => Err(why),
        None => recording,
    }
}

/// Says no to a workload whose recording would accuse a store of what its level allows: an append
/// that is a read and a write is lost where updates are.
fn fits(database: &dyn Database, job: &Job) -> Result<(), String> {
    let careless = |own_name: &&String| {
        database.promise(own_name).is_some_and(|level| !level.forbids(Anomaly::LostUpdate))
    };
    let own_names = std::iter::once(&job.own_name).chain(&job.others);
    let weak = own_names.into_iter().find(careless);
    match weak.filter(|_| database.reads_to_change() && job.workload.changes_what_is_there()) {
        Some(own_name) => Err(format!(
            "{} appends to a list by reading and writing it, and updates may get lost at {own_name}: the workload {} \
             would prove nothing. Try rw-register, increment, write-skew, ycsb-a or one of the blindw family",
            database.identity().0,
            job.workload.name
        )),
        None => Ok(()),
    }
}

/// A server that we kill ourselves is also started again by us, which may take long on a busy
/// machine.
fn silence(job: &Job) -> Duration {
    if job.harms.is_empty() { SILENCE } else { 4 * SILENCE }
}

fn record(shared: &Shared<'_>, start: &Start, extras: Extras<'_>) -> Result<Recording, String> {
    let tapes: Vec<Tape> = (0..shared.job.clients).map(|_| Tape::new(shared.silent)).collect();
    let Extras { output, mechanisms, follower, patience, team, .. } = extras;
    let (over, gone, itself) = (AtomicBool::new(false), OnceLock::new(), OnceLock::new());
    let patience = Patience { limit: patience, gone: &gone };
    let interrupt = follower.as_ref().map(|follower| follower.interrupt());
    let connected = follower.map(|follower| follow::connect(follower, start, tapes.len(), shared.clock));
    let (feed, follow) = connected.transpose()?.unzip();
    let collector =
        Collector::new(&tapes, shared.monitor, shared.clock, start, output, mechanisms, patience)?
            .feeding(feed)
            .with(team);
    let (collected, meanwhile, spans, harmed, followed) = thread::scope(|scope| -> Result<_, String> {
        let follow = follow.map(|follow| scope.spawn(move || follow.run(shared.monitor, patience)));
        let collect = || {
            _ = itself.set(Thread::current());
            collector.run().inspect_err(|why| shared.fail(why.clone()))
        };
        let collector = thread::Builder::new().name("collector".to_owned()).spawn_scoped(scope, collect);
        let collector = collector.map_err(|error| format!("no thread for the collector: {error}"))?;
        let harm = scope.spawn(|| harm::inflict(shared, &over));
        let spawn = |(client, tape)| scope.spawn(move || Client::run(shared, client, tape));
        let threads: Vec<_> = (shared.first..).zip(&tapes).map(spawn).collect();
        let spans: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
        // A client that panicked has not said that it is gone.
        tapes.iter().for_each(Tape::close);
        shared.monitor.ends();
        _ = gone.set(Instant::now());
        let meanwhile = itself.get().and_then(Option::as_ref).and_then(Thread::cpu);
        over.store(true, Ordering::Relaxed);
        collector.thread().unpark();
        let collected = collector.join();
        let followed = follow.zip(interrupt).map(|(thread, stop)| follow::join(thread, stop, patience));
        Ok((collected, meanwhile, spans, harm.join(), followed))
    })?;
    let followed = followed.transpose().map_err(|_| "the follower panicked".to_owned())?;
    let Collected { history, verified, cpu } =
        collected.map_err(|_| "the collector panicked".to_owned())??;
    let spans =
        spans.into_iter().collect::<Result<Vec<_>, _>>().map_err(|_| "a client panicked".to_owned())?;
    let first = spans.iter().filter_map(|span| span.first).min().unwrap_or_default();
    let last = spans.iter().map(|span| span.last).max().unwrap_or_default();
    let answered = spans.iter().filter_map(|span| span.answered).max().unwrap_or(first);
    let first_lost = spans.iter().filter_map(|span| span.lost.as_ref()).min();
    let lost = Lost { count: shared.monitor.lost(), first: first_lost.map(|(_, why)| why.clone()) };
    let time = |nanos: i64| Duration::from_nanos(nanos.max(0) as u64);
    Ok(Recording {
        history,
        counts: shared.monitor.counts(),
        elapsed: time(last - first),
        answered: time(answered - first),
        lost,
        followed,
        waited: spans.iter().map(|span| span.waited).sum(),
        dropped: spans.into_iter().filter_map(|span| span.dropped).collect(),
        verified,
        cpu,
        completing: cpu.zip(meanwhile).map(|(all, meanwhile)| all.saturating_sub(meanwhile)),
        statistics: shared.monitor.statistics(),
        harmed: harmed.unwrap_or_default(),
    })
}

/// The initial state is the one of the simulated databases, or the program's.
fn start(database: &dyn Database, job: &Job, clients: u32, program: Option<&dyn Program>) -> Start {
    let setting = Job::setting(&job.workload, clients, job.seed);
    let (dbms, version) = database.identity();
    let level = level_name(&job.own_name);
    if let Some(program) = program {
        let (dbms, schema) = (format!("{dbms}-{version}"), program.schema());
        return Start { dbms, level, skew: 0, table: false, initial: Vec::new(), schema };
    }
    setting.start(format!("{dbms}-{version}"), level)
}
