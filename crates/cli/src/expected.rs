//! Findings that do not count: deviations that the product documents, and what the user accepts.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use margay::{Audited, Decision};
use margay_history::History;
use margay_report::accept::{AcceptList, Cause, Day, Expected, Rest, SetAside};
use margay_report::view::{Details, Expected as Shown};
use margay_verdict::{Certificate, Verdict, Why};

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
    /// and nothing proved. `again` asks the question of a decision about another history.
    pub fn sort<'d>(
        &self,
        recorded: &History,
        decisions: impl Iterator<Item = (&'d mut Decision, Asked)>,
        again: impl Fn(&History, Asked) -> Verdict,
    ) -> Aside {
        let expected = Expected { deviations: self.deviations, list: &self.list, today: self.today };
        let (mut aside, mut all) = (Aside::default(), Vec::new());
        for (decision, asked) in decisions {
            let Verdict::Violated(findings) = &mut decision.verdict else { continue };
            let history = decision.rows.as_ref().unwrap_or(recorded);
            let rest = if self.deviations { rest(history, |part| again(part, asked)) } else { Rest::Open };
            let sorted = expected.sort(history, std::mem::take(findings), &rest);
            aside.shown.extend(sorted.set_aside.iter().map(|one| self.show(one, history)));
            all.extend(sorted.set_aside);
            if sorted.counted.is_empty() {
                (decision.verdict, decision.audited) = (Verdict::Clean, Audited::Nothing);
            } else {
                decision.verdict = Verdict::Violated(sorted.counted);
            }
        }
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

/// Statements that no execution explains may be what the product documents: `observe` does not say
/// which rows it is about. `mirror` and the engines of rows do, and there a documented deviation is
/// told from others.
pub fn excuse(decision: &mut Decision) {
    let Verdict::Violated(findings) = &decision.verdict else { return };
    if findings.iter().all(|finding| matches!(finding.certificate, Certificate::Unexplained(_))) {
        let why = "no execution explains some statements, unless by the exception that PostgreSQL documents for \
                   REPEATABLE READ: an insertion over a deletion that is not seen";
        decision.verdict = Verdict::Unknown(Why::Incomplete(why.to_owned()));
        decision.audited = Audited::Nothing;
    }
}

/// Asks about what is left of a history without the rows that a deviation of its database may
/// concern.
fn rest(history: &History, ask: impl Fn(&History) -> Verdict) -> Rest {
    let Some(concerned) = margay_report::known::concerned(history) else { return Rest::Open };
    let Some(part) = margay_rows::without(history, concerned.rows) else { return Rest::Open };
    match ask(&part) {
        Verdict::Holds(_) | Verdict::Clean => Rest::Holds(concerned.deviation, concerned.told),
        Verdict::Violated(_) => Rest::Violated,
        Verdict::Unknown(_) => Rest::Open,
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

#[cfg(test)]
mod tests {
    use margay::{Options, decide};
    use margay_formats::{Source, read};
    use margay_levels::Level;
    use margay_verdict::{Budget, Question};

    use super::*;

    const HEADER: &str = r#"{"margay":1,"dbms":"postgresql-15","level":"repeatable-read","tables":{"t":{"key":["k"],"columns":{"k":"int","v":"int"}}},"initial":[[["t",1],{"v":1}],[["t",2],{"v":1}]]}"#;

    /// T2 inserts row 1 over T1's deletion, which its snapshot does not show; T5 sees that T2 came
    /// later.
    const INSERTION: &str = r#"{"session":0,"txn":1,"at":[3,4],"write":[[["t",1],null]]}
{"session":0,"txn":1,"at":[10,11],"commit":true}
{"session":1,"txn":2,"at":[5,6],"read":[[["t",1],{"v":1}]]}
{"session":1,"txn":2,"at":[7,13],"write":[[["t",1],{"v":5}]]}
{"session":1,"txn":2,"at":[14,15],"commit":true}
{"session":4,"txn":5,"at":[20,21],"read":[[["t",1],{"v":5}]]}
{"session":4,"txn":5,"at":[22,23],"commit":true}"#;

    /// T3 and T4 change row 2, and neither sees the other's change.
    const LOST_UPDATE: &str = r#"{"session":2,"txn":3,"at":[3,4],"read":[[["t",2],{"v":1}]]}
{"session":2,"txn":3,"at":[5,6],"write":[[["t",2],{"v":2}]]}
{"session":2,"txn":3,"at":[10,11],"commit":true}
{"session":3,"txn":4,"at":[3,4],"read":[[["t",2],{"v":1}]]}
{"session":3,"txn":4,"at":[5,6],"write":[[["t",2],{"v":3}]]}
{"session":3,"txn":4,"at":[10,11],"commit":true}"#;

    fn sorted(operations: &[&str]) -> (Verdict, Aside) {
        let text = [&[HEADER], operations].concat().join("\n");
        let history = read(Source::bytes(text.as_bytes()), None).expect("a history").history;
        let ask = |history: &History| {
            let question = Question::new(Level::StrictSnapshotIsolation);
            decide(history, question, &Options::default(), &Budget::unlimited())
        };
        let mut decision = ask(&history);
        assert!(matches!(decision.verdict, Verdict::Violated(_)), "{:?}", decision.verdict);
        let level = Asked::Level(Level::StrictSnapshotIsolation);
        let expectation = Expectation::read(None, true).expect("no file");
        let again = |part: &History, _| ask(part).verdict;
        let aside = expectation.sort(&history, std::iter::once((&mut decision, level)), again);
        (decision.verdict, aside)
    }

    /// A regression: one run in ten on PostgreSQL at REPEATABLE READ ended as violated, because the
    /// finding was a dead end of `follow`, in which no cycle shows the insertion.
    #[test]
    fn what_only_the_rows_of_a_deviation_show_is_set_aside() {
        let (verdict, aside) = sorted(&[INSERTION]);
        assert!(matches!(verdict, Verdict::Clean), "{verdict:?}");
        assert_eq!(aside.shown[0].deviation.as_deref(), Some("insert-over-unseen-deletion"));
        assert!(aside.shown[0].reason.contains("left out; what is left holds: t/1."), "{:?}", aside.shown);
    }

    /// A regression: a lost update beside such an insertion could be set aside with it.
    #[test]
    fn what_other_rows_show_counts() {
        let (verdict, aside) = sorted(&[INSERTION, LOST_UPDATE]);
        assert!(matches!(verdict, Verdict::Violated(_)), "{verdict:?}");
        assert!(aside.shown.is_empty());
    }

    /// A regression: `observe` accused PostgreSQL at REPEATABLE READ of what it documents.
    #[test]
    fn statements_that_the_deviation_may_concern_accuse_nobody() {
        let statements = r#"{"session":0,"txn":1,"at":[3,4],"sql":"DELETE FROM t WHERE k = 1","count":1}
{"session":0,"txn":1,"at":[10,11],"commit":true}
{"session":1,"txn":2,"at":[5,6],"sql":"SELECT v FROM t WHERE k = 1","rows":[[1]]}
{"session":1,"txn":2,"at":[7,13],"sql":"INSERT INTO t (k, v) VALUES (1, 5)","count":1}
{"session":1,"txn":2,"at":[14,15],"commit":true}
{"session":4,"txn":5,"at":[20,21],"sql":"SELECT v FROM t WHERE k = 1","rows":[[5]]}
{"session":4,"txn":5,"at":[22,23],"commit":true}"#;
        let text = [HEADER, statements].join("\n");
        let history = read(Source::bytes(text.as_bytes()), None).expect("a history").history;
        let question = Question::new(Level::StrictSnapshotIsolation);
        let observe = Options::with_engine(margay::by_name("observe").expect("an engine"));
        let mut decision = decide(&history, question, &observe, &Budget::unlimited());
        assert!(matches!(decision.verdict, Verdict::Violated(_)), "{:?}", decision.verdict);
        assert!(margay_report::known::may_concern_statements(&history));
        excuse(&mut decision);
        assert!(matches!(decision.verdict, Verdict::Unknown(_)), "{:?}", decision.verdict);
    }
}
