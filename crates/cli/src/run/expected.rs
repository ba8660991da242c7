//! Findings that do not count in a run: deviations that the product documents, and what the user accepts.

use std::time::{SystemTime, UNIX_EPOCH};

use margay::Audited;
use margay_report::Word;
use margay_report::view::{Check, Expected as Shown};
use margay_verdict::accept::{AcceptList, Cause, Day, Expected, SetAside};
use margay_verdict::{Finding, Verdict};

use super::Decided;
use super::drive::Done;
use crate::args::RunArgs;
use crate::failure::Failure;
use crate::files;
use crate::level::Asked;

/// What a run expects to find.
pub struct Expectation {
    list: AcceptList,
    deviations: bool,
    today: Day,
}

/// What was set aside.
#[derive(Default)]
pub struct Aside {
    pub shown: Vec<Shown>,
    /// The level that a documented deviation leaves untouched, if there was one.
    pub keeps: Option<Asked>,
    /// The rules that set nothing aside.
    pub unused: Vec<String>,
}

impl Expectation {
    /// Reads the file, if there is one.
    pub fn read(args: &RunArgs) -> Result<Self, Failure> {
        let list = match &args.accept {
            None => AcceptList::default(),
            Some(path) => AcceptList::from_toml(&files::read_text(path)?)
                .map_err(|why| Failure::new(format!("{}: {why}", path.display())))?,
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self { list, deviations: !args.strict, today: Day::of_unix_time(now.as_secs()) })
    }

    /// Takes what is expected out of the verdicts. If nothing is left of one, nothing was found, and nothing proved.
    pub fn sort(&self, done: &Done, decided: &mut [Decided]) -> Aside {
        let expected = Expected { deviations: self.deviations, list: &self.list, today: self.today };
        let (mut aside, mut all) = (Aside::default(), Vec::new());
        for decided in decided {
            let Verdict::Violated(findings) = &mut decided.decision.verdict else { continue };
            if decided.decision.engine == Some("mirror") && are_more(done, findings.len()) {
                continue;
            }
            let history = decided.decision.rows.as_ref().unwrap_or(&done.recording.history);
            let sorted = expected.sort(history, std::mem::take(findings));
            let label = |finding: &Finding| finding.txns.iter().map(|&txn| history.txn_label(txn)).collect();
            aside.shown.extend(sorted.set_aside.iter().map(|one| self.show(one, label(&one.finding))));
            all.extend(sorted.set_aside);
            if sorted.counted.is_empty() {
                (decided.decision.verdict, decided.decision.audited) = (Verdict::Clean, Audited::Nothing);
            } else {
                decided.decision.verdict = Verdict::Violated(sorted.counted);
            }
        }
        aside.keeps = all.iter().find_map(|one| match &one.cause {
            Cause::Deviation(deviation, _) => Some(Asked::Level(deviation.keeps)),
            Cause::Rule(_) => None,
        });
        aside.unused = self.list.unused(&all).map(ToString::to_string).collect();
        aside
    }

    fn show(&self, one: &SetAside, transactions: Vec<u64>) -> Shown {
        let (deviation, reason) = match &one.cause {
            Cause::Deviation(known, told) => {
                (Some(known.name.to_owned()), format!("{told} See {}.", known.documented))
            }
            Cause::Rule(at) => {
                let rule = &self.list.rules[*at];
                (None, format!("{} (until {})", rule.reason, rule.until))
            }
        };
        Shown { deviation, anomaly: one.finding.anomaly.name().to_owned(), transactions, reason }
    }
}

/// Whether the live verification has found more than is shown. Nobody knows whether the rest is expected, too.
fn are_more(done: &Done, shown: usize) -> bool {
    done.recording.verified.as_ref().is_some_and(|verified| verified.violations > shown as u64)
}

impl Aside {
    /// The headline of a run in which nothing else was found.
    pub fn headline(&self, level: &str) -> Option<String> {
        let what = match (self.shown.iter().any(|one| one.deviation.is_some()), self.shown.is_empty()) {
            (_, true) => return None,
            (true, _) => "known deviations",
            (false, _) => "what is accepted",
        };
        Some(format!("nothing but {what} contradicts {level} in what the clients saw; this is no proof"))
    }

    /// The line of the live verification: what it found is what was looked at afterwards.
    pub fn live_check(&self, check: Check, mirror: Option<&Decided>) -> Check {
        let kept = mirror.is_some_and(|mirror| matches!(mirror.decision.verdict, Verdict::Clean));
        if check.verdict != Word::Violated || !kept {
            return check;
        }
        let told = check.reason.unwrap_or_default();
        Check { verdict: Word::Clean, reason: Some(format!("expected: {told}")), ..check }
    }

    /// A rule that sets nothing aside any more has to go.
    pub fn complain(&self, args: &RunArgs) -> Result<(), Failure> {
        let path = args.accept.as_deref().map(|path| path.display().to_string()).unwrap_or_default();
        match self.unused.first() {
            None => Ok(()),
            Some(rule) => Err(Failure::new(format!(
                "{path}: nothing was found that is accepted by {rule}; if it does not happen any more, remove it"
            ))),
        }
    }
}
