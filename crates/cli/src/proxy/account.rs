//! What a person reads of a relay, and what `--json` tells of it.

use std::fmt::Write;

use margay_report::Word;
use margay_report::view::{Again, Check, Run};
use margay_verdict::{Budget, Verdict};
use serde_json::{Map, Value, json};

use super::{Decided, Done};
use crate::args::ProxyArgs;
use crate::duration;
use crate::run::CLAIMS_TIME;
use crate::run::interrupt::Ending;
use crate::terminal::Paint;
use crate::view::{Frame, Stats, View, how_to_audit};

/// What a person reads.
pub fn account(args: &ProxyArgs, done: &Done, decided: &[Decided], view: &View) -> String {
    let paint = Paint::for_stdout();
    let (recorded, counts) = (&done.recorded, done.recorded.counts);
    let mut out = format!(
        "{} at {}: {} sessions relayed in {}\n",
        paint.bold(&format!("postgresql {}", recorded.version)),
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
    let _ = writeln!(out, "  {}", question(args, done));
    for line in coverage(done, decided) {
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

/// How much was understood, and what was not.
fn coverage(done: &Done, decided: &[Decided]) -> Vec<String> {
    let (followed, all) = (done.recorded.followed, done.recorded.counts.total());
    let mut lines =
        vec![format!("Coverage: the mirror followed {followed} of {all} transactions as a whole")];
    let Some(coverage) = decided.first().and_then(|decided| decided.decision.coverage.as_ref()) else {
        return lines;
    };
    lines.push(format!("Coverage of the other engines: {}", coverage.sentence()));
    lines.extend(coverage.left_out.iter().map(|why| format!("  not covered: {why}")));
    lines
}

/// Who is judged.
fn question(args: &ProxyArgs, done: &Done) -> String {
    match args.claim {
        None => format!("Question: did the database keep {}, which it promises?", done.promised),
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
    lines.extend(recorded.concerns.iter().cloned());
    lines.extend(recorded.notes.iter().cloned());
    lines
}

fn levels(done: &Done) -> String {
    let name =
        |level: &Option<margay_proxy::OwnLevel>| level.map_or("a level that is not known", |it| it.name());
    match done.recorded.levels.as_slice() {
        [] => "no level".to_owned(),
        levels => levels.iter().map(name).collect::<Vec<_>>().join(", "),
    }
}

/// Everything that is shown.
pub fn view(args: &ProxyArgs, done: &Done, decided: &[Decided], main: &Decided) -> View {
    let history = main.decision.about(&done.recorded.history);
    let audit = match (&args.record, &args.certificate) {
        (Some(record), certificate) => how_to_audit(record, certificate.as_deref()),
        (None, _) => "--record FILE and --certificate FILE keep both for margay audit".to_owned(),
    };
    let level = main.level.name();
    let command = args.record.as_ref().map(|path| format!("margay check {} --level {level}", path.display()));
    let again = Again { command: command.clone(), audit, seed: None };
    let budget = Budget::unlimited().with_time(CLAIMS_TIME);
    let subject = "what the application did";
    let frame = Frame { subject, budget: &budget, real_time: false, instants: false, again, curves: true };
    let stats = Stats::of(history, done.recorded.elapsed, main.decision.took);
    let mut view = View::framed(history, level, &main.decision, stats, frame);
    view.report.run = Some(run_view(args, done, decided, command.unwrap_or_default()));
    view.details().checks = checks(done, decided);
    view
}

fn run_view(args: &ProxyArgs, done: &Done, decided: &[Decided], again: String) -> Run {
    let (recorded, counts) = (&done.recorded, done.recorded.counts);
    Run {
        target: args.target.to_string(),
        dbms: format!("postgresql {}", recorded.version),
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
        more: more(args, done, decided),
    }
}

fn more(args: &ProxyArgs, done: &Done, decided: &[Decided]) -> Map<String, Value> {
    let recorded = &done.recorded;
    let live = recorded.verified.as_ref().map(|verified| {
        json!({
            "verified": verified.transactions,
            "violations": verified.violations,
            "ended": verified.ended,
        })
    });
    let all = done.recorded.history.txn_count();
    let coverage = decided.first().and_then(|decided| decided.decision.coverage.as_ref()).map_or_else(
        || json!({ "transactions": all, "all_transactions": all, "followed": recorded.followed }),
        |it| {
            json!({
                "tables": it.tables,
                "all_tables": it.all_tables,
                "transactions": it.transactions,
                "all_transactions": it.all_transactions,
                "followed": recorded.followed,
                "left_out": it.left_out,
                "verdict": it.verdict,
            })
        },
    );
    let all = [
        ("coverage", coverage),
        ("promised", json!(done.promised.name())),
        ("judged", json!(if args.claim.is_some() { "application" } else { "database" })),
        ("live", json!(live)),
        ("ended", json!(done.ending.word())),
        ("command", json!(done.command.and_then(|status| status.code()))),
        ("concerns", json!(recorded.concerns)),
        ("notes", json!(recorded.notes)),
    ];
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A line for the live verification, and one for each engine.
fn checks(done: &Done, decided: &[Decided]) -> Vec<Check> {
    let after = decided.iter().map(|decided| Check {
        engine: decided.decision.engine.unwrap_or("none").to_owned(),
        level: decided.level.name().to_owned(),
        verdict: margay_report::gather::word(&decided.decision.verdict),
        reason: match &decided.decision.verdict {
            Verdict::Unknown(why) => Some(why.to_string()),
            Verdict::Violated(findings) => findings.first().map(|finding| finding.anomaly.name().to_owned()),
            Verdict::Holds(_) | Verdict::Clean => None,
        },
        seconds: decided.decision.took.as_secs_f64(),
    });
    live(done).into_iter().chain(after).collect()
}

fn live(done: &Done) -> Option<Check> {
    let verified = done.recorded.verified.as_ref()?;
    let (verdict, reason) = match (&verified.ended, verified.violations) {
        (Some(why), _) => (Word::Unknown, why.clone()),
        (None, 1..) => (Word::Violated, format!("{} violations while it ran", verified.violations)),
        (None, 0) => (Word::Clean, format!("{} transactions while it ran", verified.transactions)),
    };
    Some(Check {
        engine: "mirror, live".to_owned(),
        level: done.promised.name().to_owned(),
        verdict,
        reason: Some(reason),
        seconds: 0.0,
    })
}
