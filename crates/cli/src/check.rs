//! `margay check`.
//!
//! # Invariants
//! A verdict whose certificate the audit rejects is never reported: the engine is wrong then, and the answer is `unknown`.

use std::path::Path;
use std::time::{Duration, Instant};

use margay_engines::{Answer, Backend, Choice, Reading};
use margay_history::History;
use margay_levels::profile::Dbms;
use margay_report::view::Again;
use margay_verdict::{Budget, Claim, Question, Translation, Verdict, Why, audit, wire};

use crate::args::CheckArgs;
use crate::elle;
use crate::failure::{Failure, Status};
use crate::files;
use crate::level::Asked;
use crate::progress::Progress;
use crate::report;
use crate::rows;
use crate::terminal::{self, Paint};
use crate::view::{Audited, Frame, Stats, View, how_to_audit};

/// Up to so many operations a certificate is audited without being asked to: it takes a fraction of the check's time.
const AUDITED_ALWAYS: usize = 1_000_000;

/// What is to be decided, and how.
#[derive(Clone)]
pub struct Task {
    pub level: Asked,
    pub engine: Choice,
    /// The database, where the history does not name it.
    pub dbms: Option<Dbms>,
    pub real_time: bool,
    pub timeout: Option<Duration>,
    /// Whether the certificate is audited however large the history is.
    pub audit: bool,
}

/// Reads, asks the engine, audits, writes the certificate, prints.
pub fn run(args: CheckArgs) -> Result<Status, Failure> {
    let to_stdout = report::one_stream(args.common.json, &args.output, [args.certificate.as_deref()])?;
    let quiet = args.common.quiet;
    let dbms = args.dbms.as_deref().map(|name| dbms(name, args.engine)).transpose()?;
    let task = Task {
        level: args.level,
        engine: read_as(args.engine, args.reading, args.backend)?,
        dbms,
        real_time: args.real_time,
        timeout: args.common.timeout,
        audit: args.audit,
    };
    let (loaded, read) = files::read_input(&args.history, &args.input, quiet)?;
    let level = question(&task).map(|question| question.level);
    let mirror = task.dbms.as_ref().zip(level);
    let engine = mirror.and_then(|(dbms, level)| task.engine.for_dbms(dbms, &loaded.history, level).ok());
    let rows = rows::instead(&loaded.history, engine.unwrap_or(task.engine), level);
    let (rows, (answer, audited, checked)) = {
        let what = format!("checking {} transactions", loaded.history.txn_count());
        let _progress = Progress::show(&what, !quiet);
        decide_instead(&task, &loaded.history, rows)
    };
    let history = rows.as_ref().unwrap_or(&loaded.history);
    if !quiet {
        elle::notes(history).iter().for_each(|note| eprintln!("note: {note}"));
    }
    if let Some(path) = &args.certificate {
        write_certificate(path, history, rows.is_some(), question(&task), &answer.verdict)?;
    }
    let stats = Stats::of(history, read, checked);
    let subject = args.history.display().to_string();
    let audit = how_to_audit(&args.history, args.certificate.as_deref());
    let frame = Frame {
        subject: &subject,
        real_time: args.real_time,
        again: Again { command: Some(again(&args)), audit, seed: None },
        of_rows: rows.is_some(),
        curves: args.output.report.is_some() || (args.common.json && history.op_count() <= AUDITED_ALWAYS),
    };
    let view = View::framed(history, args.level.name(), &answer, &audited, stats, frame);
    report::write(&args.output, &view.report)?;
    if args.common.json {
        terminal::print(&view.json())?;
    } else if !quiet && !to_stdout {
        terminal::print(&view.shown(Paint::for_stdout()))?;
    }
    Ok(status(&answer.verdict))
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
    for (flag, given) in [
        (" --sequential-keys", args.input.sequential_keys),
        (" --linearizable-keys", args.input.linearizable_keys),
    ] {
        command += if given { flag } else { "" };
    }
    command
}

/// An answer, what the audit says of it, and the time of both.
pub type Decision = (Answer, Audited, Duration);

/// The decision about a history, or about the rows that its statements are, with what was decided about. If that leaves the question open, who chooses freely has the statements executed.
pub fn decide_instead(task: &Task, history: &History, rows: Option<History>) -> (Option<History>, Decision) {
    let Some(rows) = rows else { return (None, decide(task, history)) };
    let (answer, audited, took) = decide(task, &rows);
    if matches!((task.engine, &answer.verdict), (Choice::Auto, Verdict::Unknown(_))) {
        let timeout = task.timeout.map(|limit| limit.saturating_sub(took));
        let (executed, its_audit, more) = decide(&Task { timeout, ..task.clone() }, history);
        if !matches!(executed.verdict, Verdict::Unknown(_)) {
            return (None, (executed, its_audit, took + more));
        }
    }
    (Some(rows), (answer, audited, took))
}

/// The answer, what the audit says of it, and the time of both.
pub fn decide(task: &Task, history: &History) -> Decision {
    let start = Instant::now();
    let Some(question) = question(task) else {
        let why = Why::Level(format!("no engine decides Elle's model {}", task.level.name()));
        return (Answer { engine: None, verdict: Verdict::Unknown(why) }, Audited::Nothing, start.elapsed());
    };
    let budget = task.timeout.map_or(Budget::unlimited(), |limit| Budget::unlimited().with_time(limit));
    let engine = match &task.dbms {
        Some(dbms) => task.engine.for_dbms(dbms, history, question.level),
        None => Ok(task.engine),
    };
    let mut answer = match engine {
        Ok(engine) => engine.check(history, question, &budget),
        Err(why) => Answer { engine: None, verdict: Verdict::Unknown(Why::Level(why.to_string())) },
    };
    let wanted = task.audit || history.op_count() <= AUDITED_ALWAYS;
    let audited = if wanted {
        audit_answer(history, question, &answer.verdict)
    } else {
        Audited::skipped(&answer.verdict)
    };
    if let Audited::Rejected(reason) = &audited {
        answer.verdict = Verdict::Unknown(Why::Rejected(reason.clone()));
    }
    (answer, audited, start.elapsed())
}

/// The engine, if it is the one that reads statements, with what they may have seen and who answers.
fn read_as(engine: Choice, reading: Reading, backend: Option<Backend>) -> Result<Choice, Failure> {
    match (engine, backend) {
        (Choice::Engine(known), _) if known.name() == "observe" => {
            margay_engines::observe_with(reading, backend.unwrap_or_default()).map_err(Failure::new)
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
        return margay_engines::dbms(name).map_err(|error| Failure::new(error.to_string()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| Failure::new(format!("{name}: {error}")))?;
    Dbms::from_toml(&text).map_err(|error| Failure::new(format!("{name}: {error}")))
}

/// What the engine is asked; nothing where no engine could answer.
pub fn question(task: &Task) -> Option<Question> {
    match task.level {
        Asked::Level(level) => Some(Question { level, real_time: task.real_time }),
        Asked::Model(_) => None,
    }
}

fn audit_answer(history: &History, question: Question, verdict: &Verdict) -> Audited {
    let checked = match verdict {
        Verdict::Holds(certificate) => audit(history, question, certificate),
        Verdict::Violated(findings) => {
            findings.iter().try_for_each(|finding| audit(history, question, &finding.certificate))
        }
        Verdict::Clean | Verdict::Unknown(_) => return Audited::Nothing,
    };
    checked.map_or_else(|error| Audited::Rejected(error.to_string()), |()| Audited::Accepted)
}

/// Writes the certificate of `holds`, or of the first finding; `of_rows` says that statements became the operations of this history. Where there is none, none is written, and an old one is left alone.
pub fn write_certificate(
    path: &Path,
    history: &History,
    of_rows: bool,
    question: Option<Question>,
    verdict: &Verdict,
) -> Result<(), Failure> {
    if let (Some(question), Some(certificate)) = (question, verdict.certificate()) {
        let rows = of_rows.then(|| Translation::to_rows(question, certificate));
        let claim = Claim::of(history, question, rows, certificate);
        return files::write_text(path, &wire::to_json(history, &claim, certificate));
    }
    eprintln!("warning: {}: not written, because `{}` has no certificate", path.display(), verdict.word());
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
