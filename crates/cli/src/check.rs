//! `margay check`: reads a history, has the library decide, prints.

use std::path::Path;
use std::time::Duration;

use margay::{Backend, Choice, Decision, Options, Reading};
#[cfg(feature = "cluster")]
use margay_cluster::Cluster;
use margay_history::{History, HistoryBuilder};
use margay_levels::Level;
use margay_levels::profile::Dbms;
use margay_report::text;
use margay_report::view::Again;
use margay_verdict::{Budget, Exhausted, Question, Verdict, Why, default_memory, wire};

use crate::args::{CheckArgs, CommonArgs, OutputArgs};
#[cfg(feature = "cluster")]
use crate::cluster::{self, Place};
use crate::elle;
use crate::expected::Expectation;
use crate::failure::{Failure, Status};
use crate::files::{self, Unread, WHILE_READING};
use crate::level::Asked;
use crate::limits::{self, Overdue};
use crate::progress::Progress;
use crate::report;
use crate::stream;
use crate::terminal::{self, Paint};
use crate::view::{Frame, ReportView, Stats, how_to_audit};

/// Up to this many operations `--json` has curves over time, which take a pass over the history.
const CURVES_UP_TO: usize = 1_000_000;

/// What is to be decided, and how.
#[derive(Clone)]
pub struct Task {
    pub level: Asked,
    pub real_time: bool,
    pub instants: bool,
    pub options: Options,
    pub budget: Budget,
}

/// Reads, asks the engine, audits, writes the certificate, prints.
pub fn run(args: Box<CheckArgs>) -> Result<Status, Failure> {
    let to_stdout = report::one_stream(args.common.json, &args.output, [args.certificate.as_deref()])?;
    let quiet = args.common.quiet;
    if let Some(question) = stream::question(&args)? {
        return stream::check(&args, question);
    }
    #[cfg(feature = "cluster")]
    let (args, cluster) = match cluster::place(args)? {
        Place::Here(args, cluster) => (args, cluster),
        Place::Above(status) => return Ok(status),
    };
    let expectation = Expectation::read(args.accept.as_deref(), false)?;
    let dbms = args.dbms.as_deref().map(|name| dbms(name, args.engine)).transpose()?;
    let task = Task {
        level: args.level,
        real_time: args.real_time,
        instants: instants(&args)?,
        options: Options {
            engine: switched(read_as(args.engine, args.reading, args.backend)?, &args.switch_off)?,
            dbms,
            audit: !args.no_audit,
        },
        budget: limits::budget(args.common.timeout, args.common.memory),
    };
    let (loaded, read) = match files::read_input(&args.history, &args.input, quiet, &task.budget) {
        Err(Unread::Exhausted(limit)) => return unread(&args, limit, to_stdout),
        read => read?,
    };
    let late = Late::of(&args, &loaded.history, read, to_stdout);
    let overdue = Overdue::guard(&task.budget, move |limit| late.text(limit));
    let mut decision = {
        let what = format!("checking {} transactions", loaded.history.txn_count());
        let _progress = Progress::show(&what, !quiet);
        decide(&task, &loaded.history)
    };
    drop(overdue);
    #[cfg(feature = "cluster")]
    if let Some(trouble) = cluster.and_then(Cluster::trouble) {
        return Err(Failure::new(trouble));
    }
    let decisions = std::iter::once((&mut decision, task.level));
    let aside = expectation.sort(&loaded.history, decisions, |part, _| decide(&task, part).verdict);
    let history = decision.about(&loaded.history);
    let in_time = task.budget.poll().is_ok();
    if !quiet && in_time {
        elle::notes(history).iter().for_each(|note| terminal::tell("note", note));
    }
    if let Some(path) = &args.certificate {
        write_certificate(path, &loaded.history, question(&task), &decision)?;
    }
    let stats = Stats::of(history, read, decision.took);
    let subject = args.history.display().to_string();
    let audit = how_to_audit(&args.history, args.certificate.as_deref());
    let frame = Frame {
        subject: &subject,
        budget: &task.budget,
        real_time: args.real_time,
        instants: args.instants,
        again: Again { command: Some(again(&args)), audit, seed: None },
        curves: args.output.report.is_some()
            || ((args.common.json || args.stats) && history.op_count() <= CURVES_UP_TO && in_time),
    };
    let mut view = ReportView::framed(history, args.level.name(), &decision, stats, frame);
    if !aside.shown.is_empty() {
        aside.show(&decision.verdict, args.level.name(), view.details());
    }
    show(&args, &view, to_stdout)?;
    expectation.status(&aside, status(&decision.verdict))
}

/// Writes and prints what is wanted.
pub fn show(args: &CheckArgs, view: &ReportView, to_stdout: bool) -> Result<(), Failure> {
    print(&args.output, &args.common, args.stats, view, to_stdout)
}

/// The same by the options that any command may have.
pub fn print(
    output: &OutputArgs,
    common: &CommonArgs,
    stats: bool,
    view: &ReportView,
    to_stdout: bool,
) -> Result<(), Failure> {
    report::write(output, &view.report)?;
    if common.json {
        terminal::print_json(&view.json())?;
    } else if !common.quiet && !to_stdout {
        let paint = Paint::for_stdout();
        let account = view.shown(paint, stats);
        terminal::print(&text::closed(&account, &view.report, paint.inner()))?;
    }
    Ok(())
}

/// The answer when the budget ended before there was a history.
fn unread(args: &CheckArgs, limit: Exhausted, to_stdout: bool) -> Result<Status, Failure> {
    let nothing = HistoryBuilder::new().finish().expect("an empty history");
    let why = Why::Exhausted(limit, WHILE_READING.to_owned());
    let view = without_answer(args, &nothing, args.common.timeout.unwrap_or_default(), why);
    show(args, &view, to_stdout)?;
    Ok(Status::Unknown)
}

/// A view of a history about which there is no answer, because of a limit.
fn without_answer(args: &CheckArgs, history: &History, read: Duration, why: Why) -> ReportView {
    let subject = args.history.display().to_string();
    let audit = how_to_audit(&args.history, args.certificate.as_deref());
    let again = Again { command: Some(again(args)), audit, seed: None };
    let budget = Budget::unlimited();
    let (real_time, instants) = (args.real_time, args.instants);
    let frame = Frame { subject: &subject, budget: &budget, real_time, instants, again, curves: false };
    let stats = Stats::of(history, read, Duration::ZERO);
    ReportView::framed(history, args.level.name(), &Decision::unknown(why), stats, frame)
}

/// What is printed if the answer is late. It is made before: then it is too late for it.
struct Late {
    time: String,
    memory: String,
}

impl Late {
    fn of(args: &CheckArgs, history: &History, read: Duration, to_stdout: bool) -> Self {
        let text = |limit: Exhausted| {
            let why = Why::Exhausted(limit, "and stopped by force".to_owned());
            let view = without_answer(args, history, read, why);
            match (args.common.json, args.common.quiet || to_stdout) {
                (true, _) => view.json(),
                (false, true) => String::new(),
                (false, false) => view.shown(Paint::for_stdout(), false),
            }
        };
        let memory = args.common.memory.or_else(default_memory).unwrap_or_default();
        let time = args.common.timeout.unwrap_or_default();
        Self { time: text(Exhausted::Time(time)), memory: text(Exhausted::Memory(memory)) }
    }

    fn text(self, limit: Exhausted) -> String {
        if matches!(limit, Exhausted::Time(_)) { self.time } else { self.memory }
    }
}

/// The command that gives the same answer.
fn again(args: &CheckArgs) -> String {
    let mut command = format!("margay check {} --level {}", args.history.display(), args.level.name());
    if let Some(engine) = args.engine.engine() {
        command += &format!(" --engine {}", engine.name());
    }
    for strategy in &args.switch_off {
        command += &format!(" --switch-off {strategy}");
    }
    if let Some(dbms) = &args.dbms {
        command += &format!(" --dbms {dbms}");
    }
    if args.real_time {
        command += " --real-time";
    }
    if args.instants {
        command += " --instants";
    }
    if args.no_audit {
        command += " --no-audit";
    }
    if let Some(file) = &args.accept {
        command += &format!(" --accept {}", file.display());
    }
    for (flag, given) in [
        (" --sequential-keys", args.input.sequential_keys),
        (" --linearizable-keys", args.input.linearizable_keys),
    ] {
        command += if given { flag } else { "" };
    }
    command
}

/// The decision about a history: by an engine, or `unknown` for what no engine decides.
pub fn decide(task: &Task, history: &History) -> Decision {
    let Some(question) = question(task) else {
        let why = format!("no engine decides Elle's model {}", task.level.name());
        return Decision::unknown(Why::Level(why));
    };
    margay::decide(history, question, &task.options, &task.budget)
}

/// The engine, if it is the one that reads statements, with what they may have seen and who
/// answers.
fn read_as(engine: Choice, reading: Reading, backend: Option<Backend>) -> Result<Choice, Failure> {
    match backend {
        _ if engine.is_named("observe") => {
            margay::observe_with(reading, backend.unwrap_or_default()).map_err(Failure::new)
        }
        None => Ok(engine),
        _ => Err(Failure::new("--backend is for the engine that executes statements: add --engine observe")),
    }
}

/// The engine without some of its strategies.
fn switched(engine: Choice, off: &[String]) -> Result<Choice, Failure> {
    let without = |engine: Choice, strategy: &String| engine.without(strategy);
    off.iter().try_fold(engine, without).map_err(|why| Failure::new(format!("--switch-off: {why}")))
}

/// The database that `--dbms` names: a profile, or the file of one.
fn dbms(name: &str, engine: Choice) -> Result<Dbms, Failure> {
    if !engine.asks_for_dbms() {
        return Err(Failure::new("--dbms is for an engine that verifies mechanisms: add --engine mirror"));
    }
    let path = Path::new(name);
    if path.extension().is_none_or(|extension| extension != "toml") {
        return margay::dbms(name).map_err(|error| Failure::new(error.to_string()));
    }
    let text = files::read_text(path)?;
    Dbms::from_toml(&text).map_err(|error| Failure::new(format!("{name}: {error}")))
}

/// Whether instants count; they are about one level.
fn instants(args: &CheckArgs) -> Result<bool, Failure> {
    match args.level {
        Asked::Level(Level::StrictSnapshotIsolation) => Ok(args.instants),
        _ if !args.instants => Ok(false),
        _ => Err(Failure::new(
            "--instants is a reading of strict-snapshot-isolation: add --level strict-snapshot-isolation",
        )),
    }
}

/// What the engine is asked; nothing where no engine could answer.
pub fn question(task: &Task) -> Option<Question> {
    match task.level {
        Asked::Level(level) => Some(Question { level, real_time: task.real_time, instants: task.instants }),
        Asked::Model(_) => None,
    }
}

/// Writes the certificate of `holds`, or of the first finding. Without one nothing is written, and
/// an old file is left alone.
pub fn write_certificate(
    path: &Path,
    history: &History,
    question: Option<Question>,
    decision: &Decision,
) -> Result<(), Failure> {
    let claim = question.and_then(|question| decision.claim(history, question));
    if let (Some(claim), Some(certificate)) = (claim, decision.verdict.certificate()) {
        return files::write_text(path, &wire::to_json(decision.about(history), &claim, certificate));
    }
    let (path, word) = (path.display(), decision.verdict.word());
    terminal::warn(&format!("{path}: not written, because `{word}` has no certificate"));
    Ok(())
}

/// The exit status of a verdict.
pub fn status(verdict: &Verdict) -> Status {
    match verdict {
        Verdict::Holds(_) | Verdict::Clean => Status::Fine,
        Verdict::Violated(_) => Status::Violated,
        Verdict::Unknown(_) => Status::Unknown,
    }
}
