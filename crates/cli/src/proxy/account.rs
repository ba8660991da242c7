//! What a person reads of a relay, and what `--json` tells of it.

use std::fmt::Write;

use margay_proxy::Logged;
use margay_report::Word;
use margay_report::view::{Again, Check, Run};
use margay_verdict::{Budget, Verdict};
use serde_json::{Map, Value, json};

use super::judge::{Decided, Judged, Judgement};
use super::{Done, logged_path, part_path};
use crate::args::ProxyArgs;
use crate::duration;
use crate::run::CLAIMS_TIME;
use crate::run::interrupt::Ending;
use crate::terminal::Paint;
use crate::view::{Frame, ReportView, Stats, how_to_audit};

/// What a person reads.
pub fn account(args: &ProxyArgs, done: &Done, judgement: &Judgement<'_>, view: &ReportView) -> String {
    let paint = Paint::for_stdout();
    let (recorded, counts) = (&done.recorded, done.recorded.counts());
    let mut out = format!(
        "{} at {}: {} sessions relayed in {}\n",
        paint.bold(&recorded.dbms.replacen('-', " ", 1)),
        levels(done),
        recorded.sessions,
        duration::show(recorded.elapsed),
    );
    let _ = writeln!(
        out,
        "  {} transactions: {} committed, {} aborted, {} of unknown outcome",
        counts.total(),
        counts.committed,
        counts.aborted,
        counts.unknown,
    );
    let _ = writeln!(out, "  {}", question(args, judgement.main()));
    for line in parts(judgement).into_iter().chain(coverage(judgement.main())) {
        let _ = writeln!(out, "  {line}");
    }
    for line in asides(done) {
        let _ = writeln!(out, "  {line}");
    }
    let _ = writeln!(out, "\n{}", view.shown(paint, false).trim_end());
    if let Some(page) = &args.output.report {
        let _ = writeln!(out, "\n  report: {}", page.display());
    }
    out
}

/// Every part with its verdict, if there are several.
fn parts(judgement: &Judgement<'_>) -> Vec<String> {
    if judgement.parts.len() == 1 {
        return Vec::new();
    }
    let (covered, all) = judgement.covered();
    let mut lines =
        vec![format!("Coverage: {covered} of {all} transactions, in {} parts", judgement.parts.len())];
    for (at, judged) in judgement.parts.iter().enumerate() {
        let (covered, all) = judged.covered();
        let verdict = &judged.main().decision.verdict;
        let word = verdict.word();
        let why = match verdict {
            Verdict::Unknown(why) => format!(": {why}"),
            _ => String::new(),
        };
        let database = &judged.part.database;
        lines.push(format!("  part {} of {database}: {covered} of {all} transactions, {word}{why}", at + 1));
    }
    lines
}

/// How much was understood, and what was not.
fn coverage(judged: &Judged<'_>) -> Vec<String> {
    let (followed, all) = (judged.part.followed, judged.part.counts.total());
    let mut lines =
        vec![format!("Coverage: the mirror followed {followed} of {all} transactions as a whole")];
    for decided in &judged.decided {
        if let Some(logged) = decided.logged {
            let Logged { others, lossy, .. } = logged;
            lines.push(format!(
                "With writes from the server's log: {others} transactions of others, {lossy} of the application in part"
            ));
        }
        if let Some(coverage) = &decided.decision.coverage {
            lines.push(format!("Coverage of the other engines: {}", coverage.sentence()));
            lines.extend(coverage.left_out.iter().map(|why| format!("  not covered: {why}")));
        }
    }
    lines
}

/// Who is judged.
fn question(args: &ProxyArgs, judged: &Judged<'_>) -> String {
    match args.claim {
        None => format!("Question: did the database keep {}, which it promises?", judged.promised),
        Some(claim) => {
            let claim = claim.name();
            format!("Question: did the application run into anything that {claim} forbids?")
        }
    }
}

fn asides(done: &Done) -> Vec<String> {
    let recorded = &done.recorded;
    let mut lines = Vec::new();
    if let Some(status) = done.command.filter(|status| !status.success()) {
        lines.push(format!("the command failed: {status}"));
    }
    if done.ending != Ending::Complete && done.command.is_some() {
        lines.push(format!("{}: the verdict is about what was recorded until then", done.ending.word()));
    }
    lines.extend(recorded.failed.iter().cloned());
    lines.extend(recorded.all_concerns());
    lines.extend(recorded.notes.iter().cloned());
    lines
}

fn levels(done: &Done) -> String {
    let name =
        |level: &Option<margay_proxy::OwnLevel>| level.map_or("a level that is not known", |it| it.name());
    let mut all: Vec<_> = done.recorded.parts.iter().flat_map(|part| part.levels.iter().copied()).collect();
    all.sort_unstable();
    all.dedup();
    match all.as_slice() {
        [] => "no level".to_owned(),
        levels => levels.iter().map(name).collect::<Vec<_>>().join(", "),
    }
}

/// Everything that is shown.
pub fn view(args: &ProxyArgs, done: &Done, judgement: &Judgement<'_>) -> ReportView {
    let (judged, main) = (judgement.main(), judgement.main().main());
    let history = main.decision.about(main.history);
    let record = args.record.as_ref().map(|path| part_path(path, judged.part.place.unwrap_or(0)));
    let record = record.map(|path| if main.logged.is_some() { logged_path(&path) } else { path });
    let audit = match (&record, &args.certificate) {
        (Some(record), certificate) => how_to_audit(record, certificate.as_deref()),
        (None, _) => "--record FILE and --certificate FILE save both for margay audit".to_owned(),
    };
    let level = main.level.name();
    let command = record.map(|path| format!("margay check {} --level {level}", path.display()));
    let again = Again { command: command.clone(), audit, seed: None };
    let budget = Budget::unlimited().with_time(CLAIMS_TIME);
    let subject = "what the application did";
    let frame = Frame { subject, budget: &budget, real_time: false, instants: false, again, curves: true };
    let stats = Stats::of(history, done.recorded.elapsed, main.decision.took);
    let mut view = ReportView::framed(history, level, &main.decision, stats, frame);
    view.report.run = Some(run_view(args, done, judgement, command.unwrap_or_default()));
    view.details().checks = checks(judged);
    view
}

fn run_view(args: &ProxyArgs, done: &Done, judgement: &Judgement<'_>, again: String) -> Run {
    let (recorded, counts) = (&done.recorded, done.recorded.counts());
    Run {
        target: args.target.to_string(),
        dbms: recorded.dbms.replacen('-', " ", 1),
        level: levels(done).to_ascii_lowercase(),
        workload: "an application".to_owned(),
        clients: u32::try_from(recorded.sessions).unwrap_or(u32::MAX),
        seed: 0,
        committed: counts.committed,
        aborted: counts.aborted,
        unknown: counts.unknown,
        seconds: recorded.elapsed.as_secs_f64(),
        dropped: Vec::new(),
        again,
        more: more(args, done, judgement),
    }
}

fn more(args: &ProxyArgs, done: &Done, judgement: &Judgement<'_>) -> Map<String, Value> {
    let (recorded, judged) = (&done.recorded, judgement.main());
    let verified = recorded.parts.iter().filter_map(|part| part.verified.as_ref());
    let live = verified.clone().next().map(|_| {
        json!({
            "verified": verified.clone().map(|it| it.transactions).sum::<u64>(),
            "violations": verified.clone().map(|it| it.violations).sum::<u64>(),
            "ended": verified.clone().find_map(|it| it.ended.clone()),
        })
    });
    let parts: Vec<Value> = judgement.parts.iter().map(part).collect();
    let all = [
        ("coverage", coverage_json(judgement)),
        ("parts", json!(parts)),
        ("logged", logged_json(judgement)),
        ("promised", json!(judged.promised.name())),
        ("judged", json!(if args.claim.is_some() { "application" } else { "database" })),
        ("live", json!(live)),
        ("ended", json!(done.ending.word())),
        ("command", json!(done.command.and_then(|status| status.code()))),
        ("concerns", json!(recorded.all_concerns())),
        ("notes", json!(recorded.notes)),
    ];
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// How much was understood of all parts; in tables, of the one that the report is about.
fn coverage_json(judgement: &Judgement<'_>) -> Value {
    let (covered, all) = judgement.covered();
    let followed: u64 = judgement.parts.iter().map(|judged| judged.part.followed).sum();
    let mut value = json!({ "transactions": covered, "all_transactions": all, "followed": followed });
    let of_main = judgement.main().decided.first().and_then(|decided| decided.decision.coverage.as_ref());
    if let Some(it) = of_main {
        value["tables"] = json!(it.tables);
        value["all_tables"] = json!(it.all_tables);
        value["left_out"] = json!(it.left_out);
        value["verdict"] = json!(it.verdict);
    }
    value
}

/// What the server's log added.
fn logged_json(judgement: &Judgement<'_>) -> Value {
    let all = judgement.parts.iter().filter_map(|judged| judged.part.logged.as_ref());
    let (mut parts, mut others, mut lossy) = (0, 0, 0);
    for logged in all {
        (parts, others, lossy) = (parts + 1, others + logged.others, lossy + logged.lossy);
    }
    json!({ "parts": parts, "others": others, "lossy": lossy })
}

fn part(judged: &Judged<'_>) -> Value {
    let (covered, all) = judged.covered();
    let decision = &judged.main().decision;
    let with_log = judged.decided.iter().find(|decided| decided.logged.is_some());
    json!({
        "database": judged.part.database,
        "verdict": decision.verdict.word(),
        "engine": decision.engine,
        "with_log": with_log.map(|decided| decided.decision.verdict.word()),
        "transactions": covered,
        "all_transactions": all,
        "reason": match &decision.verdict {
            Verdict::Unknown(why) => Some(why.to_string()),
            _ => None,
        },
    })
}

/// A line for the live verification, and one for each engine.
fn checks(judged: &Judged<'_>) -> Vec<Check> {
    let after = judged.decided.iter().map(|Decided { level, decision, logged, .. }| Check {
        engine: format!(
            "{}{}",
            decision.engine.unwrap_or("none"),
            if logged.is_some() { ", with the log" } else { "" }
        ),
        level: level.name().to_owned(),
        verdict: margay_report::gather::word(&decision.verdict),
        reason: match &decision.verdict {
            Verdict::Unknown(why) => Some(why.to_string()),
            Verdict::Violated(findings) => findings.first().map(|finding| finding.anomaly.name().to_owned()),
            Verdict::Holds(_) | Verdict::Clean => None,
        },
        seconds: decision.took.as_secs_f64(),
    });
    live(judged).into_iter().chain(after).collect()
}

fn live(judged: &Judged<'_>) -> Option<Check> {
    let verified = judged.part.verified.as_ref()?;
    let (verdict, reason) = match (&verified.ended, verified.violations) {
        (Some(why), _) => (Word::Unknown, why.clone()),
        (None, 1..) => (Word::Violated, format!("{} violations during the run", verified.violations)),
        (None, 0) => (Word::Clean, format!("{} transactions during the run", verified.transactions)),
    };
    Some(Check {
        engine: "mirror, live".to_owned(),
        level: judged.promised.name().to_owned(),
        verdict,
        reason: Some(reason),
        seconds: 0.0,
    })
}
