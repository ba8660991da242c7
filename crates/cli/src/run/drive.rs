//! From the command line to a recording.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use margay_drivers::{Database, Harm, Target, Wishes};
use margay_levels::Level;
use margay_report::view::Run;
use margay_runner::{
    Counts, Extras, Followed, Follows, Job, Mechanisms, Monitor, Phase, Progress as Progressed, Recording,
    choose_level, level_name, mechanisms,
};

use super::evidence::Subject;
use super::follow::{self, Live, Order};
use super::interrupt::{Ending, Interrupts};
use super::{account, curves, record};
use crate::args::RunArgs;
use crate::failure::Failure;
use crate::files;
use crate::level::Asked;
use crate::progress::{Progress, ProgressState, rate};
use crate::serve::{Serving, Shown};

/// When neither limit is given, both of these are.
const TRANSACTIONS: u64 = 3000;
const DURATION: Duration = Duration::from_secs(5);

/// A run that is over.
pub struct Done {
    pub recording: Recording,
    /// The database and its version.
    pub dbms: String,
    pub job: Job,
    /// What the database promises.
    pub promised: Level,
    /// What is verified.
    pub claim: Asked,
    /// By what it was verified while it ran.
    pub mechanisms: Option<Mechanisms>,
    /// The level at which it was followed, if it was.
    pub followed: Option<Level>,
    /// The order that was settled while it ran.
    pub order: Order,
    /// Whether a signal ended it.
    pub ending: Ending,
    /// The page on which it is shown.
    pub serving: Option<Serving>,
}

/// The server, if one was started, ends before anything is checked.
pub fn drive(args: &RunArgs) -> Result<Done, Failure> {
    let quiet = args.common.quiet;
    let target = target(args);
    let failed = |error: String| Failure::new(format!("{target}: {error}{}", nobody_there(&target, &error)));
    let setting = Job::setting(&args.workload, args.clients, args.seed);
    let monitor = Arc::new(Monitor::default());
    let interrupts = Interrupts::listen(&monitor)?;
    let subject = {
        let phase = match target.to_string().strip_prefix("--start ") {
            Some(server) => format!("starting {server}"),
            None => format!("opening {target}"),
        };
        let _progress = Progress::show(&phase, !quiet);
        let harms: Vec<Harm> = args.fault.iter().map(|(harm, _)| *harm).collect();
        let wishes = Wishes {
            harms: &harms,
            statement_timeout: args.statement_timeout,
            binaries: args.binaries.as_deref(),
            version: args.version.as_deref(),
            promises: args.promises,
            joins: false,
        };
        let opened = margay_drivers::open_for(&target, &setting, wishes).map_err(failed)?;
        Subject::new(opened, args.certificate_recovery, args.shadow_reads, args.decoding_plugin)
            .map_err(failed)?
    };
    let database = subject.database();
    let (levels, promised) = levels(database, args).map_err(failed)?;
    let job = job(args, levels);
    let mechanisms = live_mechanisms(database, &job);
    // Evidence comes in the end, when a stream cannot be written again.
    let streamed = |path: &&Path| args.certificate_recovery && files::is_stream(path);
    let record = args.record.as_deref();
    let output = record.filter(|path| !streamed(path)).map(record::open).transpose()?;
    let (name, version) = database.identity();
    let dbms = format!("{name} {version}");
    let claim = args.claim.unwrap_or(Asked::Level(promised));
    // Statements are read as rows only when the whole recording is there.
    let (order, is_sql) = (Order::default(), job.workload.program().is_some());
    let followed = follow::level(claim, promised, args.horizon).filter(|_| !is_sql);
    let serving = serve(args, &monitor, (claim, promised), &dbms, &job)?;
    let recording = {
        let _progress = Progress::follow(live_line(&monitor, &job), !quiet);
        let patience = super::timeout(args);
        let (max_lag, silence) = (args.max_lag, args.give_up_after);
        let follower =
            followed.map(|level| Box::new(Live::new(level, args.horizon, order.clone())) as Box<dyn Follows>);
        let extras = Extras { output, mechanisms, follower, max_lag, patience, silence, ..Extras::default() };
        let recording = margay_runner::run(database, &job, &monitor, extras).map_err(failed)?;
        subject.recover(recording, record, quiet)?
    };
    drop(subject);
    let ending = interrupts.end();
    Ok(Done { recording, dbms, job, promised, claim, mechanisms, followed, order, ending, serving })
}

/// The page of the run, if one is wanted.
fn serve(
    args: &RunArgs,
    monitor: &Arc<Monitor>,
    (claim, promised): (Asked, Level),
    dbms: &str,
    job: &Job,
) -> Result<Option<Serving>, Failure> {
    let run = Run {
        target: target(args).to_string(),
        dbms: dbms.to_owned(),
        level: level_names(job),
        workload: job.workload.name.to_owned(),
        clients: job.clients,
        seed: job.seed,
        more: [("asked", account::asked(job)), ("promised", promised.name().into())]
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect(),
        ..Run::default()
    };
    let beyond = account::beyond_promise(dbms, job, claim, promised);
    let curves = |monitor: &Monitor| curves::of(&monitor.statistics());
    let shown = Shown { claim: claim.name().to_owned(), promised: promised.name(), beyond, run, curves };
    Serving::start(&args.serving, args.common.quiet, monitor, shown)
}

pub fn target(args: &RunArgs) -> Target {
    match args.start.as_deref() {
        Some("postgres") => Target::StartPostgres,
        Some("mysql") => Target::StartMysql,
        Some(_) => Target::StartMariadb,
        None => args.target.clone().unwrap_or_default(),
    }
}

/// The levels that transactions are begun at, in the database's words, and what it promises to all
/// of them. The one whose promise it is comes first.
pub fn levels(database: &dyn Database, args: &RunArgs) -> Result<(Vec<String>, Level), String> {
    let Some(first) = args.level.first() else {
        return choose_level(database, None).map(|(own, level)| (vec![own], level));
    };
    let (mut names, mut promised) =
        choose_level(database, Some(first)).map(|(own, level)| (vec![own], level))?;
    for name in &args.level[1..] {
        let (own, level) = choose_level(database, Some(name))?;
        let common = Level::ALL.into_iter().rev().find(|&both| promised.implies(both) && level.implies(both));
        if common == Some(level) {
            names.insert(0, own)
        } else {
            names.push(own)
        }
        promised = common.ok_or_else(|| format!("{promised} and {level} have nothing in common"))?;
    }
    Ok((names, promised))
}

pub fn job(args: &RunArgs, mut levels: Vec<String>) -> Job {
    let limited = args.transactions.is_some() || args.duration.is_some();
    let others = levels.split_off(1);
    Job {
        workload: args.workload,
        clients: args.clients,
        seed: args.seed,
        own_name: levels.remove(0),
        others,
        retries: args.retries,
        harms: args.fault.clone(),
        transactions: if limited { args.transactions } else { Some(TRANSACTIONS) },
        duration: if limited { args.duration } else { Some(DURATION) },
    }
}

/// The mirror follows one level at a time.
fn live_mechanisms(database: &dyn Database, job: &Job) -> Option<Mechanisms> {
    if job.others.is_empty() { mechanisms(database, &job.own_name) } else { None }
}

/// What is shown while clients run, and while verification catches up.
pub fn live_line(monitor: &Arc<Monitor>, job: &Job) -> impl Fn() -> ProgressState + Send + 'static {
    let monitor = Arc::clone(monitor);
    let (many, long) = (job.transactions, job.duration);
    move || {
        let (counts, live, worked) = (monitor.counts(), monitor.progress(), monitor.worked());
        let followed = monitor.followed();
        match monitor.phase() {
            Phase::Preparing => ProgressState::phase("preparing the database"),
            Phase::Running => {
                let by_count = many.map(|many| counts.total() as f64 / many.max(1) as f64);
                let by_time = long.map(|long| worked.as_secs_f64() / long.as_secs_f64().max(0.001));
                ProgressState {
                    phase: "running".to_owned(),
                    share: by_count.into_iter().chain(by_time).reduce(f64::max),
                    rate: rate(counts.total(), worked, " transactions"),
                    details: at_work(counts, live, followed.as_ref()),
                    elapsed: Some(worked),
                }
            }
            Phase::CatchingUp => {
                // Whoever is slower is waited for.
                let settled = followed.filter(|followed| followed.stopped.is_none()).map(|all| all.settled);
                let verified = settled.map_or(live.verified, |settled| settled.min(live.verified));
                ProgressState {
                    phase: "catching up".to_owned(),
                    share: Some(verified as f64 / counts.committed.max(1) as f64),
                    details: format!(
                        "{verified} of {} transactions verified, {} violations",
                        counts.committed, live.violations
                    ),
                    ..ProgressState::default()
                }
            }
        }
    }
}

/// What clients and the live verification have done so far, the most telling first: a narrow
/// terminal cuts the rest.
fn at_work(counts: Counts, live: Progressed, followed: Option<&Followed>) -> String {
    let followed = followed.map_or(String::new(), |followed| match followed.stopped {
        Some(_) => ", follow has stopped".to_owned(),
        None => format!(", {} settled", followed.settled),
    });
    format!(
        "{} violations, {} ms behind, {} committed, {} aborted, {} unknown{followed}",
        live.violations,
        live.lag.as_millis(),
        counts.committed,
        counts.aborted,
        counts.unknown,
    )
}

/// What to do where no server answers.
fn nobody_there(target: &Target, error: &str) -> String {
    let start = match target {
        Target::Postgres(_) => "postgres",
        Target::Mysql(_) => "mariadb",
        _ => return String::new(),
    };
    if error.contains("refused") || error.contains("No such file") {
        return format!("; is the server running there? `margay run --start {start}` starts a private one");
    }
    String::new()
}

/// All levels of a job, as histories name them.
pub fn level_names(job: &Job) -> String {
    job.levels().map(level_name).collect::<Vec<_>>().join(",")
}
