//! `margay run --script FILE` plays the statements of a history again; `--reproduce FILE` writes
//! such a script of the transactions that broke a level.

use std::path::Path;
use std::time::{Duration, Instant};

use margay::Options;
use margay_drivers::{Database, Kind, Target, Wishes};
use margay_history::{History, Outcome};
use margay_runner::scripted::{Performance, play as perform};
use margay_runner::{Counts, Job, Recording, choose_level, level_name, script};
use margay_verdict::{Budget, Question, Verdict};
use margay_workloads::SCRIPT;
use margay_workloads::scripted::{Act, Script};

use super::Decided;
use super::drive::{Done, target};
use super::follow::Order;
use super::interrupt::Ending;
use crate::args::RunArgs;
use crate::convert::format_of;
use crate::failure::Failure;
use crate::files;
use crate::level::Asked;
use crate::progress::Progress;

/// How long a script is made smaller at most.
const SHRINKING: Duration = Duration::from_secs(60);
/// How long the check of a smaller script may take.
const SMALLER_CHECK_LIMIT: Duration = Duration::from_secs(5);

/// Plays the statements of the file, each when the one before it is answered or blocked.
pub fn play(args: &RunArgs, path: &Path) -> Result<Done, Failure> {
    let quiet = args.common.quiet;
    let told = |error: String| Failure::new(format!("{}: {error}", path.display()));
    let (loaded, _) = files::read_history(path, None, quiet, &Budget::unlimited()).map_err(Failure::from)?;
    let (target, start) = (target(args), Instant::now());
    let _progress = Progress::show(&format!("playing {} on {target}", path.display()), !quiet);
    let failed = |error: String| Failure::new(format!("{target}: {error}"));
    let (binaries, version) = (args.binaries.as_deref(), args.version.as_deref());
    let wishes = Wishes { binaries, version, promises: args.promises, ..Wishes::default() };
    let setting = Job::setting(&SCRIPT, 1, args.seed);
    let database = margay_drivers::open_for(&target, &setting, wishes).map_err(failed)?;
    let database = database.as_ref();
    let (own_name, promised) =
        choose_level(database, args.level.first().map(String::as_str)).map_err(failed)?;
    let claim = args.claim.unwrap_or(Asked::Level(promised));
    let (name, version) = database.identity();
    let script = script::whole(&loaded.history, &name).map_err(told)?;
    let mut played = perform(database, &own_name, script.clone()).map_err(failed)?;
    if args.reproduce.is_some() && is_violated(&played.history, claim) {
        played = shrink(database, &own_name, claim, (script, played)).map_err(failed)?;
    }
    if let Some(record) = &args.record {
        margay_formats::write(&played.history, format_of(record)?, files::target(record))?;
    }
    let counts = counts(&played.history);
    let job = Job {
        workload: SCRIPT,
        clients: counts.total() as u32,
        seed: args.seed,
        own_name,
        others: Vec::new(),
        retries: 0,
        harms: Vec::new(),
        transactions: Some(counts.total()),
        duration: None,
    };
    Ok(Done {
        recording: Recording::of(played.history, counts, start.elapsed()),
        dbms: format!("{name} {version}"),
        job,
        promised,
        claim,
        mechanisms: None,
        followed: None,
        order: Order::default(),
        ending: Ending::Complete,
        serving: None,
    })
}

/// Says no where there are no statements to write.
pub fn is_possible(args: &RunArgs) -> Result<(), Failure> {
    let asked = args.script.is_some() || args.reproduce.is_some();
    if asked && !understands_sql(args) {
        return Err(Failure::new("--script and --reproduce are for databases that understand SQL"));
    }
    Ok(())
}

fn understands_sql(args: &RunArgs) -> bool {
    let target = target(args);
    matches!(target, Target::Store(Kind::Duckdb | Kind::Turso, _))
        || !matches!(target, Target::Sim(..) | Target::Store(..))
}

/// The SQL of the transactions of the first anomaly, for a report; nothing where the database or
/// the workload has none.
pub fn sql(args: &RunArgs, done: &Done, decided: &Decided) -> Option<String> {
    understands_sql(args)
        .then(|| of_verdict(done, decided))?
        .ok()
        .flatten()
        .map(|script| script::shown(&script))
}

/// The script of what was played, or of the transactions of the first anomaly.
fn of_verdict(done: &Done, decided: &Decided) -> Result<Option<Script>, String> {
    let Verdict::Violated(findings) = &decided.decision.verdict else { return Ok(None) };
    let recorded = &done.recording.history;
    let dbms = done.dbms.split(' ').next().unwrap_or_default();
    let script = match findings.first() {
        Some(finding) if done.job.workload != SCRIPT => {
            script::script(recorded, decided.decision.about(recorded), &finding.txns, dbms)
        }
        _ => script::whole(recorded, dbms),
    };
    script.map(Some)
}

/// Writes what was played, or the transactions that break the level: a history for `--script`, or,
/// if the name ends in `.sql`, statements to type.
pub fn write(path: &Path, done: &Done, decided: &Decided) -> Result<(), Failure> {
    let failed = |error: String| Failure::new(format!("--reproduce {}: {error}", path.display()));
    let Some(script) = of_verdict(done, decided).map_err(failed)? else { return Ok(()) };
    if path.extension().is_some_and(|extension| extension == "sql") {
        let level = done.job.own_name.to_ascii_uppercase();
        return files::write_text(path, &format!("-- {} at {level}\n{}", done.dbms, script::shown(&script)));
    }
    let history = script::history(&script, &level_name(&done.job.own_name)).map_err(failed)?;
    Ok(margay_formats::write(&history, format_of(path)?, files::target(path))?)
}

/// The script without each transaction, statement and row that it does not need to break the level,
/// as far as time allows.
fn shrink(
    database: &dyn Database,
    own_name: &str,
    claim: Asked,
    (mut script, mut played): (Script, Performance),
) -> Result<Performance, String> {
    let start = Instant::now();
    let sessions = script.lines.iter().map(|line| line.session).max().unwrap_or(0);
    let lines = (0..script.lines.len()).rev().map(Part::Line);
    let rows = (0..script.schema.rows.len()).rev().map(Part::Row);
    for part in (1..=sessions).map(Part::Session).chain(lines).chain(rows) {
        let smaller = without(&script, part);
        if smaller == script || start.elapsed() > SHRINKING {
            continue;
        }
        let again = perform(database, own_name, smaller.clone())?;
        if is_violated(&again.history, claim) {
            (script, played) = (smaller, again);
        }
    }
    Ok(played)
}

/// What may be left out of a script.
#[derive(Clone, Copy)]
enum Part {
    /// A transaction.
    Session(u32),
    /// A line, by its number.
    Line(usize),
    /// An initial row, by its number.
    Row(usize),
}

/// The script without a part. The ends of transactions stay.
fn without(script: &Script, part: Part) -> Script {
    let mut smaller = script.clone();
    match part {
        Part::Session(session) => smaller.lines.retain(|line| line.session != session),
        Part::Line(at) if matches!(script.lines.get(at).map(|line| &line.act), Some(Act::Sql(..))) => {
            smaller.lines.remove(at);
        }
        Part::Row(at) if at < script.schema.rows.len() => _ = smaller.schema.rows.remove(at),
        Part::Line(_) | Part::Row(_) => {}
    }
    smaller
}

fn is_violated(history: &History, claim: Asked) -> bool {
    let Some(level) = claim.level() else { return false };
    let budget = Budget::unlimited().with_time(SMALLER_CHECK_LIMIT);
    let decision = margay::decide(history, Question::new(level), &Options::default(), &budget);
    matches!(decision.verdict, Verdict::Violated(_))
}

fn counts(history: &History) -> Counts {
    let ended = |outcome| history.txns().filter(|&txn| history.outcome(txn) == outcome).count() as u64;
    Counts {
        committed: ended(Outcome::Committed),
        aborted: ended(Outcome::Aborted),
        unknown: ended(Outcome::Unknown),
    }
}
