//! Runs that did too little for a verdict.
//!
//! A server that dies early leaves a short history, in which nothing is wrong. Whoever asked for
//! more than that must not read `holds`.

use margay::{Audited, Decision};
use margay_verdict::{Verdict, Why};

use super::drive::Done;
use super::interrupt::Ending;
use crate::args::RunArgs;
use crate::duration;

/// The part of a run that must have happened.
const REQUIRED: f64 = 0.5;

/// What a run lacks, if it lacks too much.
pub fn of(args: &RunArgs, done: &Done) -> Option<String> {
    let committed = done.recording.counts.committed;
    if let Some(required) = args.require_transactions
        && committed < required
    {
        let told =
            format!("{committed} transactions were committed, --require-transactions asks for {required}");
        return Some(with_reason(told, done));
    }
    match done.ending {
        Ending::Terminated => return Some("the run was terminated before its end".to_owned()),
        _ if committed == 0 => return Some(with_reason("no transaction was committed".to_owned(), done)),
        Ending::Interrupted => return None,
        Ending::Complete => {}
    }
    let too_little = args.require_transactions.is_none() && share(done) < REQUIRED;
    too_little.then(|| with_reason(stopped_short(done), done))
}

/// How much of what was asked for clients got answers to. A run is complete when it reaches one of
/// its limits.
fn share(done: &Done) -> f64 {
    let (job, recording) = (&done.job, &done.recording);
    let answered = recording.counts.total().saturating_sub(recording.lost.count);
    let by_count = job.transactions.map(|asked| answered as f64 / asked.max(1) as f64);
    let by_time = job.duration.map(|asked| {
        // The last transaction may end just before the time is over.
        recording.answered.as_secs_f64() / asked.as_secs_f64().max(1e-9)
    });
    by_count.into_iter().chain(by_time).fold(0.0, f64::max)
}

fn stopped_short(done: &Done) -> String {
    let (job, recording) = (&done.job, &done.recording);
    let answered = duration::show(recording.answered);
    match (job.duration, job.transactions) {
        (Some(asked), _) => {
            format!("clients got answers for {answered} of {} only", duration::show(asked))
        }
        (None, asked) => format!(
            "{} of {} transactions were answered only",
            recording.counts.total().saturating_sub(recording.lost.count),
            asked.unwrap_or_default(),
        ),
    }
}

/// And why, as far as clients know.
fn with_reason(told: String, done: &Done) -> String {
    let recording = &done.recording;
    match recording.dropped.first().or(recording.lost.first.as_ref()) {
        Some(why) => format!("{told} ({why})"),
        None => told,
    }
}

/// What is left of a verdict: a violation is one, however little happened.
pub fn apply(why: &str, decision: &mut Decision) {
    let kept = match decision.verdict {
        Verdict::Holds(_) => "what was recorded holds",
        Verdict::Clean => "nothing was found in what was recorded",
        Verdict::Violated(_) | Verdict::Unknown(_) => return,
    };
    decision.verdict = Verdict::Unknown(Why::Incomplete(format!("{why}; {kept}")));
    decision.audited = Audited::Nothing;
}
