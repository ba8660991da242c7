//! `margay check`: reads a history, has the library decide, prints.

use std::path::Path;
use std::time::Duration;

use margay::{Backend, Choice, Decision, Options, Reading};
use margay_history::History;
use margay_levels::profile::Dbms;
use margay_report::view::Again;
use margay_verdict::{Budget, Question, Verdict, Why, wire};

use crate::args::CheckArgs;
use crate::elle;
use crate::failure::{Failure, Status};
use crate::files;
use crate::level::Asked;
use crate::progress::Progress;
use crate::report;
use crate::terminal::{self, Paint};
use crate::view::{Frame, Stats, View, how_to_audit};

/// Up to this many operations `--json` has curves over time, which take a pass over the history.
const CURVES_UP_TO: usize = 1_000_000;

/// What is to be decided, and how.
#[derive(Clone)]
pub struct Task {
    pub level: Asked,
    pub real_time: bool,
    pub options: Options,
    pub timeout: Option<Duration>,
}

/// Reads, asks the engine, audits, writes the certificate, prints.
pub fn run(args: CheckArgs) -> Result<Status, Failure> {
    let to_stdout = report::one_stream(args.common.json, &args.output, [args.certificate.as_deref()])?;
    let quiet = args.common.quiet;
    let dbms = args.dbms.as_deref().map(|name| dbms(name, args.engine)).transpose()?;
    let task = Task {
        level: args.level,
        real_time: args.real_time,
        options: Options {
            engine: read_as(args.engine, args.reading, args.backend)?,
            dbms,
            audit: !args.no_audit,
        },
        timeout: args.common.timeout,
    };
    let (loaded, read) = files::read_input(&args.history, &args.input, quiet)?;
    let decision = {
        let what = format!("checking {} transactions", loaded.history.txn_count());
        let _progress = Progress::show(&what, !quiet);
        decide(&task, &loaded.history)
    };
    let history = decision.about(&loaded.history);
    if !quiet {
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
        real_time: args.real_time,
        again: Again { command: Some(again(&args)), audit, seed: None },
        curves: args.output.report.is_some() || (args.common.json && history.op_count() <= CURVES_UP_TO),
    };
    let view = View::framed(history, args.level.name(), &decision, stats, frame);
    report::write(&args.output, &view.report)?;
    if args.common.json {
        terminal::print_json(&view.json())?;
    } else if !quiet && !to_stdout {
        terminal::print(&view.shown(Paint::for_stdout()))?;
    }
    Ok(status(&decision.verdict))
}

/// The command that gives the same answer.
fn again(args: &CheckArgs) -> String {
    let mut command = format!("margay check {} --level {}", args.history.display(), args.level.name());
    if let Choice::Engine(engine) = args.engine {
        command += &format!(" --engine {}", engine.name());
    }
    if let Some(dbms) = &args.dbms {
        command += &format!(" --dbms {dbms}");
    }
    if args.real_time {
        command += " --real-time";
    }
    if args.no_audit {
        command += " --no-audit";
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
    let budget = task.timeout.map_or(Budget::unlimited(), |limit| Budget::unlimited().with_time(limit));
    margay::decide(history, question, &task.options, &budget)
}

/// The engine, if it is the one that reads statements, with what they may have seen and who answers.
fn read_as(engine: Choice, reading: Reading, backend: Option<Backend>) -> Result<Choice, Failure> {
    match (engine, backend) {
        (Choice::Engine(known), _) if known.name() == "observe" => {
            margay::observe_with(reading, backend.unwrap_or_default()).map_err(Failure::new)
        }
        (other, None) => Ok(other),
        _ => Err(Failure::new("--backend is for the engine that executes statements: add --engine observe")),
    }
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

/// What the engine is asked; nothing where no engine could answer.
pub fn question(task: &Task) -> Option<Question> {
    match task.level {
        Asked::Level(level) => Some(Question { level, real_time: task.real_time }),
        Asked::Model(_) => None,
    }
}

/// Writes the certificate of `holds`, or of the first finding. Without one nothing is written, and an
/// old file is left alone.
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
