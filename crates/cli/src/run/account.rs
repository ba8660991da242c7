//! What a person reads of a run, and what `--json` tells of it.

use std::fmt::Write;
use std::path::Path;

use margay_drivers::Target;
use margay_levels::Level;
use margay_recover::Plugin;
use margay_report::view::{Check, Run};
use margay_report::{Word, text};
use margay_runner::{Job, Verified};
use serde_json::{Map, Value, json};

use super::drive::{Done, level_names, target};
use super::interrupt::Ending;
use crate::args::RunArgs;
use crate::duration;
use crate::level::Asked;
use crate::terminal::Paint;
use crate::view::ReportView;

/// What a person reads.
pub fn account(args: &RunArgs, done: &Done, view: &ReportView, page: Option<&Path>) -> String {
    let paint = Paint::for_stdout();
    let (job, counts) = (&done.job, done.recording.counts);
    let seconds = done.recording.elapsed.as_secs_f64();
    let shown = view.shown(paint, args.stats);
    let (verdict, rest) = shown.split_once('\n').unwrap_or((&shown, ""));
    let mut out = format!("{verdict}\n");
    let _ = writeln!(
        out,
        "  {} at {}: {} clients, workload {} ({})",
        paint.bold(&done.dbms),
        level_names(job),
        job.clients,
        job.workload,
        job.workload.description,
    );
    let _ = writeln!(
        out,
        "  {} transactions in {} ({:.0}/s): {} committed, {} aborted, {} of unknown outcome",
        counts.total(),
        duration::show(done.recording.elapsed),
        counts.total() as f64 / seconds.max(1e-9),
        counts.committed,
        counts.aborted,
        counts.unknown,
    );
    for line in asides(done) {
        let _ = writeln!(out, "  {line}");
    }
    let _ = writeln!(out, "{}", rest.trim_end());
    if let Some(page) = page {
        let _ = writeln!(out, "\n  report: {}", page.display());
    }
    let _ = writeln!(out, "{}", paint.dim(&format!("\n  again: {}", again(args, done))));
    text::closed(&out, &view.report, paint.inner())
}

/// What else is worth a line.
fn asides(done: &Done) -> Vec<String> {
    let recording = &done.recording;
    let mut lines = Vec::new();
    lines.extend(beyond(done));
    if !recording.waited.is_zero() {
        let waited = duration::show(recording.waited / done.job.clients.max(1));
        lines.push(format!("clients waited for the live verification, each {waited} of its time"));
    }
    lines.extend(interruption(done));
    if recording.lost.count > 0 {
        let first = recording.lost.first.as_deref().unwrap_or_default();
        lines.push(format!("connections lost: {}; the first: {first}", recording.lost.count));
    }
    for (harm, every) in &done.job.harms {
        let times = recording.harmed.iter().find(|(done, _)| done == harm).map_or(0, |(_, times)| *times);
        lines.push(match times {
            0 => format!(
                "fault {harm}: never, the run was over before its first time, after {}",
                duration::show(*every)
            ),
            times => format!("fault {harm}: {times} times"),
        });
    }
    let dropped = recording.dropped.iter();
    lines.extend(dropped.map(|why| format!("gave up before its time: {why}")));
    lines
}

/// That the database does not promise the claimed level, if it does not.
pub fn beyond(done: &Done) -> Option<String> {
    beyond_promise(&done.dbms, &done.job, done.claim, done.promised)
}

/// The same of a run that goes on.
pub fn beyond_promise(dbms: &str, job: &Job, claim: Asked, promised: Level) -> Option<String> {
    let claim = claim.level().filter(|&claim| !promised.implies(claim))?;
    Some(format!("{dbms} does not promise {claim} at {}; it promises {promised}", level_names(job)))
}

/// What part of the run the verdict is about, if somebody ended it.
fn interruption(done: &Done) -> Option<String> {
    let (word, recording) = (done.ending.word(), &done.recording);
    let limits = [
        done.job.duration.map(duration::show),
        done.job.transactions.map(|many| format!("{many} transactions")),
    ];
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    (done.ending != Ending::Complete).then(|| {
        format!(
            "{word} after {} of {}: the verdict is about the {} transactions recorded until then",
            duration::show(recording.elapsed),
            limits.join(" or "),
            recording.counts.total(),
        )
    })
}

/// The line of the live verification.
pub fn live_check(done: &Done) -> Option<Check> {
    let verified = done.recording.verified.as_ref()?;
    let (verdict, reason) = match verified {
        Verified { violations: 1.., found, .. } => {
            let first = found.first().map_or("", |(_, name)| *name);
            (Word::Violated, format!("{} violations during the run, first {first}", verified.violations))
        }
        Verified { ended: Some(why), .. } => (Word::Unknown, why.clone()),
        _ => {
            let lag = duration::show(done.recording.statistics.worst_lag());
            (Word::Clean, format!("during the run, at most {lag} behind"))
        }
    };
    Some(Check {
        engine: "mirror".to_owned(),
        level: done.promised.name().to_owned(),
        verdict,
        reason: Some(reason),
        seconds: done.recording.cpu.unwrap_or_default().as_secs_f64(),
    })
}

/// The line of the follower.
pub fn follow_check(done: &Done) -> Option<Check> {
    let (followed, level) = (done.recording.followed.as_ref()?, done.followed?);
    let (verdict, reason) = match &followed.stopped {
        Some(why) => (Word::Unknown, format!("stopped when {} were settled: {why}", followed.settled)),
        None => {
            let (lag, megabytes) =
                (duration::show(followed.worst_lag), followed.worst_memory as f64 / 1_000_000.0);
            let settled = followed.settled;
            (
                Word::Holds,
                format!("{settled} settled during the run, at most {lag} behind, {megabytes:.1} MB"),
            )
        }
    };
    let seconds = followed.worst_lag.as_secs_f64();
    Some(Check {
        engine: "follow, live".to_owned(),
        level: level.name().to_owned(),
        verdict,
        reason: Some(reason),
        seconds,
    })
}

/// What the object of `--json` says beyond that of `margay check`.
pub fn run_view(args: &RunArgs, done: &Done) -> Run {
    let (job, counts) = (&done.job, done.recording.counts);
    Run {
        target: target(args).to_string(),
        dbms: done.dbms.clone(),
        level: level_names(job),
        workload: job.workload.name.to_owned(),
        clients: job.clients,
        seed: job.seed,
        committed: counts.committed,
        aborted: counts.aborted,
        unknown: counts.unknown,
        seconds: done.recording.elapsed.as_secs_f64(),
        dropped: done.recording.dropped.clone(),
        again: again(args, done),
        more: more(done),
    }
}

/// The limits of a run, of which it reaches one.
pub fn asked(job: &Job) -> Value {
    json!({
        "transactions": job.transactions,
        "seconds": job.duration.map(|limit| limit.as_secs_f64()),
    })
}

fn more(done: &Done) -> Map<String, Value> {
    let recording = &done.recording;
    let live = recording.verified.as_ref().map(|verified| {
        json!({
            "verified": verified.transactions,
            "violations": verified.violations,
            "worst_lag_seconds": recording.statistics.worst_lag().as_secs_f64(),
            "waited_seconds": recording.waited.as_secs_f64(),
            "cpu_seconds": recording.cpu.map(|cpu| cpu.as_secs_f64()),
            "ended": verified.ended,
        })
    });
    let follow = recording.followed.as_ref().map(|followed| {
        json!({
            "level": done.followed.map(Level::name),
            "settled": followed.settled,
            "open": followed.open,
            "worst_lag_seconds": followed.worst_lag.as_secs_f64(),
            "p99_lag_seconds": followed.usual_lag.as_secs_f64(),
            "memory_bytes": followed.worst_memory,
            "whole": followed.whole,
            "stopped": followed.stopped,
        })
    });
    let faults: Map<String, Value> =
        recording.harmed.iter().map(|(harm, times)| (harm.to_string(), json!(times))).collect();
    let all = [
        ("promised", json!(done.promised.name())),
        ("live", json!(live)),
        ("follow", json!(follow)),
        ("faults", Value::Object(faults)),
        ("ended", json!(done.ending.word())),
        ("asked", asked(&done.job)),
        ("answered_seconds", json!(recording.answered.as_secs_f64())),
        ("lost_connections", json!(recording.lost.count)),
        ("first_loss", json!(recording.lost.first)),
    ];
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The command that gives clients the same plans on the same database.
pub fn again(args: &RunArgs, done: &Done) -> String {
    let job = &done.job;
    if let Some(script) = &args.script {
        let (target, level) = (quoted(&target(args)), level_names(job));
        let claim = done.claim.name();
        return format!("margay run {target} --script {} --level {level} --claim {claim}", script.display());
    }
    let mut command = format!("margay run {} --workload {}", quoted(&target(args)), job.workload);
    if let Some(folder) = &args.binaries {
        let _ = write!(command, " --binaries {}", folder.display());
    }
    if let Some(version) = &args.version {
        let _ = write!(command, " --version {version}");
    }
    if let Some(level) = args.promises {
        let _ = write!(command, " --promises {level}");
    }
    if let Some(keys) = args.keys {
        let _ = write!(command, " --keys {keys}");
    }
    if let Some(distribution) = args.distribution {
        let _ = write!(command, " --distribution {distribution}");
    }
    let _ = write!(command, " --level {} --claim {}", level_names(job), done.claim.name());
    let _ = write!(command, " --clients {} --seed {} --retries {}", job.clients, job.seed, job.retries);
    if args.certificate_recovery {
        command += " --certificate-recovery";
        if args.shadow_reads > 0 {
            command += &format!(" --shadow-reads {}", args.shadow_reads);
        }
        if args.decoding_plugin != Plugin::Auto {
            command += &format!(" --decoding-plugin {}", args.decoding_plugin);
        }
    }
    if let Some(limit) = args.statement_timeout {
        let _ = write!(command, " --statement-timeout {}ms", limit.as_millis());
    }
    if let Some(limit) = args.max_lag {
        let _ = write!(command, " --max-lag {}ms", limit.as_millis());
    }
    if let Some(limit) = args.give_up_after {
        let _ = write!(command, " --give-up-after {}ms", limit.as_millis());
    }
    if let Some(many) = args.require_transactions {
        let _ = write!(command, " --require-transactions {many}");
    }
    if args.strict {
        command += " --strict";
    }
    if let Some(file) = &args.accept {
        let _ = write!(command, " --accept {}", file.display());
    }
    for (harm, every) in &job.harms {
        let _ = write!(command, " --fault {harm}={}ms", every.as_millis());
    }
    if let Some(transactions) = job.transactions {
        let _ = write!(command, " --transactions {transactions}");
    }
    if let Some(limit) = job.duration {
        let _ = write!(command, " --duration {}ms", limit.as_millis());
    }
    command
}

/// A target as a shell reads it.
pub fn quoted(target: &Target) -> String {
    let plain = |c: char| !c.is_whitespace() && !"'\"$`&|;<>()*?".contains(c);
    let text = target.to_string();
    let is_option = matches!(target, Target::StartPostgres | Target::StartMariadb | Target::StartMysql);
    if is_option || text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
