//! `margay run`: drive a database, record what its clients see, decide, and say it.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use margay_drivers::Target;
use margay_formats::Format;
use margay_runner::{Extras, Job, Monitor, Recording, choose_level, level_name};
use margay_simdb::{Fault, Protocol};
use margay_workloads::WORKLOADS;
use serde::Serialize;

use crate::args::{EXIT_STATUS, RunArgs};
use crate::check::{self, Task};
use crate::failure::{Failure, Status};
use crate::level::Asked;
use crate::progress::Progress;
use crate::terminal::{self, Paint};
use crate::view::{Stats, View, how_to_audit, one_line};
use crate::{duration, files};

/// When neither limit is given, both of these are.
const TRANSACTIONS: u64 = 500;
const DURATION: Duration = Duration::from_secs(5);
/// How long the check may take when nobody says.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A run that is over.
struct Done {
    recording: Recording,
    /// The database and its version.
    dbms: String,
    job: Job,
    claim: Asked,
}

/// What the object of `--json` says beyond that of `margay check`.
#[derive(Serialize)]
struct RunView<'a> {
    #[serde(flatten)]
    view: &'a View,
    run: RunStats<'a>,
}

#[derive(Serialize)]
struct RunStats<'a> {
    target: String,
    dbms: &'a str,
    level: String,
    workload: &'a str,
    clients: u32,
    seed: u64,
    committed: u64,
    aborted: u64,
    unknown: u64,
    seconds: f64,
    dropped: &'a [String],
    again: String,
}

/// Runs, keeps what is to be kept, decides, prints.
pub fn run(args: RunArgs) -> Result<Status, Failure> {
    only_one_wants_standard_output(&args)?;
    let quiet = args.common.quiet;
    let done = drive(&args)?;
    let history = &done.recording.history;
    if let Some(path) = &args.record {
        margay_formats::write(history, Format::Margay, files::target(path))?;
    }
    let task = Task {
        level: done.claim,
        engine: args.engine,
        dbms: None,
        real_time: false,
        timeout: args.common.timeout.or(Some(TIMEOUT)),
        audit: false,
    };
    let (answer, audited, checked) = {
        let _progress = Progress::show(&format!("checking {} transactions", history.txn_count()), !quiet);
        check::decide(&task, history)
    };
    if let Some(path) = &args.certificate {
        check::write_certificate(path, history, check::question(&task), &answer.verdict)?;
    }
    let stats = Stats::of(history, done.recording.elapsed, checked);
    let view = View::new(history, done.claim.name(), &answer, audited, stats);
    if args.common.json {
        terminal::print(&one_line(&RunView { view: &view, run: stats_of(&args, &done) }))?;
    } else if !quiet && !to_stdout(&args) {
        terminal::print(&account(&args, &done, &view))?;
    }
    Ok(check::status(&answer.verdict))
}

fn to_stdout(args: &RunArgs) -> bool {
    [&args.record, &args.certificate].into_iter().flatten().any(|path| files::is_stream(path))
}

fn only_one_wants_standard_output(args: &RunArgs) -> Result<(), Failure> {
    let streams =
        [&args.record, &args.certificate].into_iter().flatten().filter(|path| files::is_stream(path));
    match streams.count() + usize::from(args.common.json) {
        0 | 1 => Ok(()),
        _ => {
            Err(Failure::new("of --json, --record - and --certificate -, only one can have standard output"))
        }
    }
}

/// The server, if one was started, ends before anything is checked.
fn drive(args: &RunArgs) -> Result<Done, Failure> {
    let quiet = args.common.quiet;
    let target = target(args);
    let failed = |error: String| Failure::new(format!("{target}: {error}"));
    let setting = Job::setting(&args.workload, args.clients, args.seed);
    let monitor = Arc::new(Monitor::default());
    let over = Arc::new(AtomicBool::new(false));
    stop_on_interrupt(&monitor, &over)?;
    let database = {
        let _progress = Progress::show(&format!("opening {target}"), !quiet);
        margay_drivers::open(&target, &setting).map_err(failed)?
    };
    let (own_name, promised) = choose_level(database.as_ref(), args.level.as_deref()).map_err(failed)?;
    let claim = args.claim.unwrap_or(Asked::Level(promised));
    let job = job(args, own_name);
    let recording = {
        let _progress = Progress::follow(live_line(&monitor), !quiet);
        margay_runner::run(database.as_ref(), &job, &monitor, Extras::default()).map_err(failed)?
    };
    let (name, version) = database.identity();
    drop(database);
    over.store(true, Ordering::Relaxed);
    Ok(Done { recording, dbms: format!("{name} {version}"), job, claim })
}

fn target(args: &RunArgs) -> Target {
    match args.start.as_deref() {
        Some("postgres") => Target::StartPostgres,
        Some(_) => Target::StartMariadb,
        None => args.target.clone().unwrap_or(Target::Embedded),
    }
}

fn job(args: &RunArgs, own_name: String) -> Job {
    let limited = args.transactions.is_some() || args.duration.is_some();
    Job {
        workload: args.workload,
        clients: args.clients,
        seed: args.seed,
        own_name,
        others: Vec::new(),
        retries: 3,
        transactions: if limited { args.transactions } else { Some(TRANSACTIONS) },
        duration: if limited { args.duration } else { Some(DURATION) },
    }
}

/// An interrupt ends the run, and what was recorded is checked; one that comes later, when no server has to be stopped, ends the program.
fn stop_on_interrupt(monitor: &Arc<Monitor>, over: &Arc<AtomicBool>) -> Result<(), Failure> {
    let (monitor, over) = (Arc::clone(monitor), Arc::clone(over));
    let interrupted = move || {
        monitor.stop();
        if over.load(Ordering::Relaxed) {
            std::process::exit(130);
        }
    };
    ctrlc::set_handler(interrupted)
        .map_err(|error| Failure::new(format!("no handler of interrupts: {error}")))
}

/// What is shown while clients run.
fn live_line(monitor: &Arc<Monitor>) -> impl Fn() -> String + Send + 'static {
    let (monitor, start) = (Arc::clone(monitor), Instant::now());
    move || {
        let counts = monitor.counts();
        let rate = counts.total() as f64 / start.elapsed().as_secs_f64().max(0.001);
        format!(
            "running: {} committed, {} aborted, {} unknown, {rate:.0}/s,",
            counts.committed, counts.aborted, counts.unknown
        )
    }
}

/// What a person reads.
fn account(args: &RunArgs, done: &Done, view: &View) -> String {
    let paint = Paint::for_stdout();
    let (job, counts) = (&done.job, done.recording.counts);
    let seconds = done.recording.elapsed.as_secs_f64();
    let mut out = format!(
        "{} at {}: {} clients, workload {} ({})\n",
        paint.bold(&done.dbms),
        level_name(&job.own_name),
        job.clients,
        job.workload,
        job.workload.description,
    );
    let _ = writeln!(
        out,
        "  {} transactions in {} ({:.0}/s): {} committed, {} aborted, {} of unknown outcome\n",
        counts.total(),
        duration::show(done.recording.elapsed),
        counts.total() as f64 / seconds.max(1e-9),
        counts.committed,
        counts.aborted,
        counts.unknown,
    );
    for why in &done.recording.dropped {
        let _ = writeln!(out, "  gave up before its time: {why}");
    }
    let audit = match (&args.record, &args.certificate) {
        (Some(record), certificate) => how_to_audit(record, certificate.as_deref()),
        (None, _) => "--record FILE and --certificate FILE keep both for margay audit".to_owned(),
    };
    out += &view.text(paint, "what the clients saw", &audit);
    let _ = writeln!(out, "{}", paint.dim(&format!("\n  again: {}", again(args, done))));
    out
}

fn stats_of<'a>(args: &RunArgs, done: &'a Done) -> RunStats<'a> {
    let (job, counts) = (&done.job, done.recording.counts);
    RunStats {
        target: target(args).to_string(),
        dbms: &done.dbms,
        level: level_name(&job.own_name),
        workload: job.workload.name,
        clients: job.clients,
        seed: job.seed,
        committed: counts.committed,
        aborted: counts.aborted,
        unknown: counts.unknown,
        seconds: done.recording.elapsed.as_secs_f64(),
        dropped: &done.recording.dropped,
        again: again(args, done),
    }
}

/// The command that gives clients the same plans on the same database.
fn again(args: &RunArgs, done: &Done) -> String {
    let job = &done.job;
    let mut command = format!("margay run {} --workload {}", target(args), job.workload);
    let _ = write!(command, " --level {} --claim {}", level_name(&job.own_name), done.claim.name());
    let _ = write!(command, " --clients {} --seed {}", job.clients, job.seed);
    if let Some(transactions) = job.transactions {
        let _ = write!(command, " --transactions {transactions}");
    }
    if let Some(limit) = job.duration {
        let _ = write!(command, " --duration {}ms", limit.as_millis());
    }
    command
}

/// What `--help` lists at its end.
pub fn names() -> String {
    let workloads: Vec<_> = WORKLOADS
        .iter()
        .map(|workload| format!("  {:<12} {}", workload.name, workload.description))
        .collect();
    let protocols = Protocol::ALL.map(Protocol::name).join(", ");
    let faults = Fault::ALL.map(Fault::name).join(", ");
    let workloads = workloads.join("\n");
    format!(
        "Workloads:\n{workloads}\n\nProtocols of sim: {protocols}\nFaults of sim: {faults}\n\n{EXIT_STATUS}"
    )
}
