//! `margay run`: drive a database, record what its clients see, verify it meanwhile, decide, and
//! say it.

mod account;
mod curves;
mod drive;
mod evidence;
mod follow;
pub mod interrupt;
pub mod record;
pub mod remote;
mod script;
mod scripted;
mod shortfall;

use std::path::PathBuf;
use std::time::Duration;

use margay::{Choice, Decision, Options as Deciding};
use margay_drivers::{Harm, Target};
use margay_history::History;
use margay_report::Word;
use margay_report::table::wrap;
use margay_report::view::{Again, Check};
use margay_runner::Every;
use margay_simdb::{Fault, Protocol};
use margay_verdict::{Budget, Exhausted, Verdict, Why};
use margay_workloads::{Body, Options, WORKLOADS, Workload};

use crate::args::{EXIT_STATUS, OutputArgs, RunArgs};
use crate::check::{self, Task};
use crate::expected::{Aside, Expectation, excuse};
use crate::failure::{Failure, Status};
use crate::level::Asked;
use crate::progress::Progress;
use crate::terminal;
use crate::view::{Frame, ReportView, Stats, how_to_audit};
use crate::{duration, limits, report};
use drive::Done;

/// How long the check may take when nobody says, and what is left of the live verification when
/// clients have gone.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long claims about other levels may take.
pub const CLAIMS_TIME: Duration = Duration::from_secs(10);
/// Where the report goes when nobody says.
const REPORT: &str = "margay-report.html";
/// How often harm is done when nobody says.
const HARM_EVERY: Duration = Duration::from_secs(2);

/// What one engine said of the whole history.
struct Decided {
    level: Asked,
    decision: Decision,
}

/// Runs, keeps what is to be kept, decides, prints.
pub fn run(mut args: RunArgs) -> Result<Status, Failure> {
    if args.check_driver {
        return check_driver(&args);
    }
    match args.workload.body {
        _ if args.script.is_some() => {}
        Body::List => return terminal::print(&list()),
        Body::Scripted(which) => return scripted::run(&args, which),
        Body::Steps(_) | Body::Program(_) => {}
    }
    args.workload = args.workload.with(Options { keys: args.keys, distribution: args.distribution });
    if let Some(verifier) = &args.remote.verify_at {
        return remote::run(&args, verifier);
    }
    script::is_possible(&args)?;
    let kept = [args.record.as_deref(), args.certificate.as_deref()];
    let to_stdout = report::one_stream(args.common.json, &args.output, kept)?;
    let expectation = Expectation::read(args.accept.as_deref(), !args.strict)?;
    let done = match &args.script {
        Some(path) => script::play(&args, path)?,
        None => drive::drive(&args)?,
    };
    let mut decided = decide_all(&args, &done);
    let aside = set_aside(&args, &done, &expectation, &mut decided);
    if let Some(why) = shortfall::of(&args, &done) {
        decided.iter_mut().for_each(|decided| shortfall::apply(&why, &mut decided.decision));
    }
    let main = decisive(&decided);
    let history = main.decision.about(&done.recording.history);
    if let Some(path) = &args.certificate {
        let question = check::question(&task(&args, main.level, Choice::Auto));
        check::write_certificate(path, &done.recording.history, question, &main.decision)?;
    }
    if let Some(path) = &args.reproduce {
        script::write(path, &done, main)?;
    }
    let view = view(&args, &done, &decided, main, history, &aside);
    report::write(&args.output, &view.report)?;
    if args.common.json {
        terminal::print_json(&view.json())?;
    } else if !args.common.quiet && !to_stdout {
        let page = page(&args, &view);
        let mut account = account::account(&args, &done, &view, page.as_deref());
        account.extend(more_time(&args, main));
        terminal::print(&account)?;
    }
    if let Some(serving) = &done.serving {
        serving.finish(&view.report, args.common.quiet);
    }
    expectation.status(&aside, check::status(&main.decision.verdict))
}

/// Tries a driver, and says how each step went.
fn check_driver(args: &RunArgs) -> Result<Status, Failure> {
    let Some(Target::Exec(command)) = &args.target else {
        return Err(Failure::new("--check-driver is for a target exec:COMMAND"));
    };
    let steps = margay_drivers::check_driver(command, args.statement_timeout).map_err(Failure::new)?;
    let mut text = String::new();
    for (name, went) in &steps {
        text += &match went {
            Ok(()) => format!("  ok: {name}\n"),
            Err(why) => format!("  FAILED: {name}: {why}\n"),
        };
    }
    terminal::print(&text)?;
    if steps.iter().any(|(_, went)| went.is_err()) {
        Err(Failure::new("the driver does not do what docs/EXEC.md says"))
    } else {
        Ok(Status::Fine)
    }
}

/// How to get an answer, if there was no time for it.
fn more_time(args: &RunArgs, decided: &Decided) -> Option<String> {
    let Verdict::Unknown(Why::Exhausted(Exhausted::Time(limit), _)) = decided.decision.verdict else {
        return None;
    };
    let (limit, level) = (duration::show(limit), decided.level.name());
    Some(match &args.record {
        Some(path) => format!(
            "\n  The check was given {limit}. The recording is {path}: `margay check {path} --level {level}` takes as long as it needs.\n",
            path = path.display()
        ),
        None => format!(
            "\n  The check was given {limit}: --timeout TIME gives it more, and --record FILE keeps the recording for `margay check FILE --level {level}`.\n"
        ),
    })
}

/// Takes out of the verdicts what does not count. If the live verification has found more than is
/// shown, nobody knows whether the rest is expected, too: then all of it counts.
fn set_aside(args: &RunArgs, done: &Done, expectation: &Expectation, decided: &mut [Decided]) -> Aside {
    let found = done.recording.verified.as_ref().map_or(0, |verified| verified.violations);
    let is_whole = |decision: &Decision| match &decision.verdict {
        Verdict::Violated(shown) => decision.engine != Some("mirror") || found <= shown.len() as u64,
        _ => true,
    };
    let decisions = decided.iter_mut().map(|decided| (&mut decided.decision, decided.level));
    let again = |part: &History, level| check::decide(&task(args, level, Choice::Auto), part).verdict;
    let recorded = &done.recording.history;
    let aside = expectation.sort(recorded, decisions.filter(|(decision, _)| is_whole(decision)), again);
    let is_promise = done.claim == Asked::Level(done.promised);
    if !args.strict && is_promise && margay_report::known::may_concern_statements(recorded) {
        decided.iter_mut().for_each(|decided| excuse(&mut decided.decision));
    }
    aside
}

/// Where the report is. A person who reads the account gets one without asking; if it cannot be
/// written, the verdict matters more.
fn page(args: &RunArgs, view: &ReportView) -> Option<PathBuf> {
    if args.no_report || args.output.report.is_some() {
        return args.output.report.clone();
    }
    let page = OutputArgs { report: Some(REPORT.into()), ..OutputArgs::default() };
    match report::write(&page, &view.report) {
        Ok(()) => page.report,
        Err(why) => {
            why.print_as_warning();
            None
        }
    }
}

fn task(args: &RunArgs, level: Asked, engine: Choice) -> Task {
    let budget = limits::budget(timeout(args), args.common.memory);
    Task { level, real_time: false, instants: false, options: Deciding::with_engine(engine), budget }
}

fn timeout(args: &RunArgs) -> Option<Duration> {
    args.common.timeout.or(Some(TIMEOUT))
}

/// Every engine that was asked for; and the mirror once more, if it has found something while
/// clients ran: now it can show what.
fn decide_all(args: &RunArgs, done: &Done) -> Vec<Decided> {
    let asked = args.engine.iter().map(|&engine| (done.claim, engine));
    let found = done.recording.verified.as_ref().is_some_and(|verified| verified.violations > 0);
    let mechanisms = done.mechanisms.filter(|_| found);
    let mirror = mechanisms.map(|mechanisms| {
        let engine = margay::mirror_of(mechanisms);
        (Asked::Level(done.promised), engine)
    });
    asked.chain(mirror).map(|(level, engine)| decide(args, done, level, engine)).collect()
}

fn decide(args: &RunArgs, done: &Done, level: Asked, engine: Choice) -> Decided {
    let task = task(args, level, engine);
    let recorded = &done.recording.history;
    if let Some(decision) = settled(done, &task) {
        return Decided { level, decision };
    }
    let what = format!("checking {} transactions", recorded.txn_count());
    let _progress = Progress::show(&what, !args.common.quiet);
    Decided { level, decision: check::decide(&task, recorded) }
}

/// The answer by the order that was settled while clients ran, if it is whole and the audit accepts
/// it.
fn settled(done: &Done, task: &Task) -> Option<Decision> {
    let may_answer = task.options.engine.engine().is_none_or(|engine| engine.name() == "follow");
    let whole = done.recording.followed.as_ref().is_some_and(|followed| followed.whole);
    if !may_answer || !whole {
        return None;
    }
    let (question, recorded) = (check::question(task)?, &done.recording.history);
    margay::accepted(recorded, question, "follow", done.order.certificate(recorded)?, &task.budget)
}

/// The verdict that counts: a violation, or else a proof, or else nothing found, or else no answer;
/// of equals the first.
fn decisive(decided: &[Decided]) -> &Decided {
    let weight = |decided: &&Decided| match decided.decision.verdict {
        Verdict::Violated(_) => 0,
        Verdict::Holds(_) => 1,
        Verdict::Clean => 2,
        Verdict::Unknown(_) => 3,
    };
    decided.iter().min_by_key(weight).expect("at least one engine is asked")
}

fn view(
    args: &RunArgs,
    done: &Done,
    decided: &[Decided],
    main: &Decided,
    history: &History,
    aside: &Aside,
) -> ReportView {
    let audit = match (&args.record, &args.certificate) {
        (Some(record), certificate) => how_to_audit(record, certificate.as_deref()),
        (None, _) => "--record FILE and --certificate FILE save both for margay audit".to_owned(),
    };
    let again = Again { command: Some(account::again(args, done)), audit, seed: Some(args.seed) };
    let subject = "what the clients saw";
    let budget = Budget::unlimited().with_time(CLAIMS_TIME);
    let frame = Frame { subject, budget: &budget, real_time: false, instants: false, again, curves: true };
    let stats = Stats::of(history, done.recording.elapsed, main.decision.took);
    let mut view = ReportView::framed(history, main.level.name(), &main.decision, stats, frame);
    view.report.run = Some(account::run_view(args, done));
    let curves = curves::of(&done.recording.statistics);
    let details = view.details();
    details.beyond = account::beyond(done).map(|sentence| sentence + ".");
    details.sql = script::sql(args, done, main);
    details.checks = checks(done, decided);
    aside.show(&main.decision.verdict, main.level.name(), details);
    if let Some(series) = &mut details.series {
        let marks = std::mem::take(&mut series.marks);
        let told = std::mem::replace(series, margay_report::series::Series { marks, ..curves });
        series.adopt(&told, "Overlap ratio");
    }
    view
}

/// A line for the live verification, and one for each engine.
fn checks(done: &Done, decided: &[Decided]) -> Vec<Check> {
    let after = decided.iter().map(|decided| Check {
        engine: decided.decision.engine.unwrap_or("none").to_owned(),
        level: decided.level.name().to_owned(),
        verdict: margay_report::gather::word(&decided.decision.verdict),
        reason: said(&decided.decision.verdict),
        seconds: decided.decision.took.as_secs_f64(),
    });
    let mirror = decided.iter().rfind(|decided| decided.decision.engine == Some("mirror"));
    let live = account::live_check(done).map(|check| as_expected(check, mirror));
    live.into_iter().chain(account::follow_check(done)).chain(after).collect()
}

/// The line of the live verification: what it found is what was looked at afterwards.
fn as_expected(check: Check, mirror: Option<&Decided>) -> Check {
    let kept = mirror.is_some_and(|mirror| matches!(mirror.decision.verdict, Verdict::Clean));
    if check.verdict != Word::Violated || !kept {
        return check;
    }
    let told = check.reason.unwrap_or_default();
    Check { verdict: Word::Clean, reason: Some(format!("expected: {told}")), ..check }
}

fn said(verdict: &Verdict) -> Option<String> {
    match verdict {
        Verdict::Unknown(why) => Some(why.to_string()),
        Verdict::Violated(findings) => findings.first().map(|finding| finding.anomaly.name().to_owned()),
        Verdict::Holds(_) | Verdict::Clean => None,
    }
}

/// A fault of the command line: `kill`, or `kill=5s`.
pub fn fault(text: &str) -> Result<Every, String> {
    let (name, every) = text.split_once('=').map_or((text, None), |(name, every)| (name, Some(every)));
    let every = every.map_or(Ok(HARM_EVERY), duration::parse)?;
    Ok((name.parse::<Harm>()?, every))
}

/// The workloads, with where they come from.
fn list() -> String {
    let line = |workload: &Workload| {
        format!("  {:<16} {}\n  {:<16} {}\n", workload.name, workload.description, "", workload.source)
    };
    WORKLOADS.iter().map(line).collect()
}

/// What `--help` lists at its end.
pub fn names() -> String {
    let lines =
        |workload: &Workload| wrap(workload.description, 96, &format!("  {:<16} ", workload.name), 19);
    let workloads: Vec<String> = WORKLOADS.iter().flat_map(lines).collect();
    let protocols = Protocol::ALL.map(Protocol::name).join(", ");
    let faults = Fault::ALL.map(Fault::name).join(", ");
    let workloads = workloads.join("\n");
    format!(
        "Workloads:\n{workloads}\n\nProtocols of sim: {protocols}\nFaults of sim: {faults}\n\n{EXIT_STATUS}"
    )
}
