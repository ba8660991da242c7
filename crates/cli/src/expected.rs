//! Findings that do not count: deviations that the product documents, and what the user accepts.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use margay::{Audited, Decision};
use margay_history::History;
use margay_report::accept::{AcceptList, Cause, Day, Expected, SetAside};
use margay_report::view::{Details, Expected as Shown};
use margay_verdict::Verdict;

use crate::failure::{Failure, Status};
use crate::files;
use crate::level::Asked;

/// What is expected to be found.
pub struct Expectation {
    list: AcceptList,
    /// The file of the list.
    path: String,
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
    /// Reads the file, if there is one; deviations that the product documents are expected or not.
    pub fn read(accept: Option<&Path>, deviations: bool) -> Result<Self, Failure> {
        let path = accept.map(|path| path.display().to_string()).unwrap_or_default();
        let list = match accept {
            None => AcceptList::default(),
            Some(file) => AcceptList::from_toml(&files::read_text(file)?)
                .map_err(|why| Failure::new(format!("{path}: {why}")))?,
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self { list, path, deviations, today: Day::of_unix_time(now.as_secs()) })
    }

    /// Takes what is expected out of the decisions. If nothing is left of one, nothing was found,
    /// and nothing proved.
    pub fn sort<'d>(&self, recorded: &History, decisions: impl Iterator<Item = &'d mut Decision>) -> Aside {
        let expected = Expected { deviations: self.deviations, list: &self.list, today: self.today };
        let (mut aside, mut all) = (Aside::default(), Vec::new());
        for decision in decisions {
            let Verdict::Violated(findings) = &mut decision.verdict else { continue };
            let history = decision.rows.as_ref().unwrap_or(recorded);
            let sorted = expected.sort(history, std::mem::take(findings));
            aside.shown.extend(sorted.set_aside.iter().map(|one| self.show(one, history)));
            all.extend(sorted.set_aside);
            if sorted.counted.is_empty() {
                (decision.verdict, decision.audited) = (Verdict::Clean, Audited::Nothing);
            } else {
                decision.verdict = Verdict::Violated(sorted.counted);
            }
        }
        aside.keeps = all.iter().find_map(|one| match &one.cause {
            Cause::Deviation(deviation, _) => Some(Asked::Level(deviation.keeps)),
            Cause::Rule(_) => None,
        });
        aside.unused = self.list.unused(&all).map(ToString::to_string).collect();
        aside
    }

    /// The status, unless a rule sets nothing aside any more: that rule has to go. A violation says
    /// more than such a rule, and without an answer nobody knows.
    pub fn status(&self, aside: &Aside, status: Status) -> Result<Status, Failure> {
        let Some(rule) = aside.unused.first() else { return Ok(status) };
        let path = &self.path;
        let unused = Failure::new(format!(
            "{path}: nothing was found that is accepted by {rule}; if it does not happen any more, remove it"
        ));
        if status == Status::Fine {
            return Err(unused);
        }
        unused.print_as_warning();
        Ok(status)
    }

    fn show(&self, one: &SetAside, history: &History) -> Shown {
        let transactions = one.finding.txns.iter().map(|&txn| history.txn_label(txn)).collect();
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

impl Aside {
    /// Shows what was set aside, and says so in the headline if nothing else was found.
    pub fn show(&self, verdict: &Verdict, level: &str, details: &mut Details) {
        details.expected.clone_from(&self.shown);
        if let (Verdict::Clean, Some(headline)) = (verdict, self.headline(level)) {
            details.headline = headline;
        }
    }

    /// The headline if nothing else was found.
    fn headline(&self, level: &str) -> Option<String> {
        let what = match (self.shown.iter().any(|one| one.deviation.is_some()), self.shown.is_empty()) {
            (_, true) => return None,
            (true, _) => "known deviations",
            (false, _) => "what is accepted",
        };
        Some(format!("nothing but {what} contradicts {level} in what the clients saw; this is no proof"))
    }
}
