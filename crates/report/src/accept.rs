//! Findings that are expected: deviations that a product documents, and what a user accepts in a
//! file.
//!
//! # Invariants
//! - Nothing disappears: a finding that is set aside keeps its proof, and the reason stands beside
//!   it.
//! - A rule of a user ends on its day. A rule that sets nothing aside is told, so that the file
//!   does not outlive its reasons.

use std::fmt;
use std::str::FromStr;

use margay_history::{History, ObjectId, OpId};
use margay_levels::Anomaly;
use margay_levels::profile::Deviation;
use margay_verdict::{Broken, Certificate, Edge, Finding};
use toml::{Table, Value};

use crate::known::known;

/// A day of the calendar.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Day {
    year: u16,
    month: u8,
    day: u8,
}

impl Day {
    /// The day of a time in seconds since 1970, in UTC.
    #[must_use]
    pub fn of_unix_time(seconds: u64) -> Self {
        // Years begin in March here, so that the day that leap years have more is the last one. An
        // era is 400 years.
        let days = seconds / 86_400 + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = 400 * era + year_of_era + u64::from(month <= 2);
        Self { year: year as u16, month: month as u8, day: day as u8 }
    }
}

impl FromStr for Day {
    type Err = String;

    /// `2027-01-31`.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('-').collect();
        let day = match parts[..] {
            [year, month, day] if [year.len(), month.len(), day.len()] == [4, 2, 2] => {
                year.parse().ok().zip(month.parse().ok()).zip(day.parse().ok())
            }
            _ => None,
        };
        let day = day.map(|((year, month), day)| Self { year, month, day });
        let exists = |day: &Self| (1..=12).contains(&day.month) && (1..=31).contains(&day.day);
        day.filter(exists).ok_or_else(|| format!("`{text}` is no day; a day is 2027-01-31"))
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// What a user accepts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The anomaly.
    pub anomaly: Anomaly,
    /// The tables that the finding is about, and no others; any if there are none.
    pub tables: Vec<String>,
    /// Why.
    pub reason: String,
    /// The last day.
    pub until: Day,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.anomaly)?;
        if !self.tables.is_empty() {
            write!(f, " in {}", self.tables.join(", "))?;
        }
        write!(f, " until {}: {}", self.until, self.reason)
    }
}

/// The rules of a file.
///
/// ```
/// let text = r#"
/// [[accept]]
/// anomaly = "G2-item"
/// tables = ["accounts"]
/// reason = "ticket 123: the report may be skewed"
/// until = "2027-01-31"
/// "#;
/// assert_eq!(margay_report::accept::AcceptList::from_toml(text).expect("a list").rules.len(), 1);
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct AcceptList {
    /// In the order of the file.
    pub rules: Vec<Rule>,
}

impl AcceptList {
    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong with it, and in which rule.
    pub fn from_toml(text: &str) -> Result<Self, String> {
        let mut table: Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
        let Some(Value::Array(rules)) = table.remove("accept") else {
            return Err("there is no [[accept]]".to_owned());
        };
        if let Some(key) = table.keys().next() {
            return Err(format!("unknown key `{key}`; there is [[accept]]"));
        }
        let rules = rules.into_iter().enumerate();
        let rules =
            rules.map(|(at, rule)| rule_of(rule).map_err(|why| format!("[[accept]] {}: {why}", at + 1)));
        Ok(Self { rules: rules.collect::<Result<_, _>>()? })
    }

    /// The rules that set nothing aside.
    pub fn unused<'a>(&'a self, set_aside: &'a [SetAside]) -> impl Iterator<Item = &'a Rule> {
        let is_used = |at: &usize| set_aside.iter().any(|one| one.cause == Cause::Rule(*at));
        (0..self.rules.len()).filter(move |at| !is_used(at)).map(|at| &self.rules[at])
    }
}

fn rule_of(rule: Value) -> Result<Rule, String> {
    let Value::Table(mut rule) = rule else { return Err("this is no table".to_owned()) };
    let mut text = |key: &str| match rule.remove(key) {
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(text),
        Some(Value::Datetime(day)) if key == "until" => Ok(day.to_string()),
        Some(_) => Err(format!("`{key}` is no text, or an empty one")),
        None => Err(format!("`{key}` is missing")),
    };
    let anomaly: Anomaly =
        text("anomaly")?.parse().map_err(|error: margay_levels::UnknownName| error.to_string())?;
    let (reason, until) = (text("reason")?, text("until")?.parse()?);
    let tables = match rule.remove("tables") {
        None => Vec::new(),
        Some(Value::Array(names)) => names.iter().map(name).collect::<Result<_, _>>()?,
        Some(_) => return Err("`tables` is no list".to_owned()),
    };
    match rule.keys().next() {
        Some(key) => Err(format!("unknown key `{key}`; there are anomaly, tables, reason, until")),
        None => Ok(Rule { anomaly, tables, reason, until }),
    }
}

fn name(value: &Value) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| "a name of `tables` is no text".to_owned())
}

/// Why a finding is set aside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The product documents it: what, and what happened here in a sentence or two.
    Deviation(&'static Deviation, String),
    /// The user accepts it, by the rule at this place of the list.
    Rule(usize),
}

/// A finding that does not count.
#[derive(Clone, PartialEq, Debug)]
pub struct SetAside {
    /// The finding.
    pub finding: Finding,
    /// Why it does not count.
    pub cause: Cause,
}

/// What is expected.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// Whether deviations that the product documents are.
    pub deviations: bool,
    /// What a user accepts.
    pub list: &'a AcceptList,
    /// The day by which rules end.
    pub today: Day,
}

/// Findings that count, and the others.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Sorted {
    /// Those that count.
    pub counted: Vec<Finding>,
    /// Those that are expected.
    pub set_aside: Vec<SetAside>,
}

/// What is known of a history without the rows that a documented deviation may concern.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Rest {
    /// It holds, so that everything found is the deviation; what happened, in words.
    Holds(&'static Deviation, String),
    /// It is violated, so that not everything found is the deviation.
    Violated,
    /// Nothing: each finding tells for itself whether it is the deviation.
    #[default]
    Open,
}

impl Expected<'_> {
    /// Sorts the findings of a history; `rest` says what is known of it without the rows that a
    /// deviation concerns.
    #[must_use]
    pub fn sort(&self, history: &History, findings: Vec<Finding>, rest: &Rest) -> Sorted {
        let mut sorted = Sorted::default();
        for finding in findings {
            match self.cause(history, &finding, rest) {
                Some(cause) => sorted.set_aside.push(SetAside { finding, cause }),
                None => sorted.counted.push(finding),
            }
        }
        sorted
    }

    /// Why a finding does not count, if it does not.
    fn cause(&self, history: &History, finding: &Finding, rest: &Rest) -> Option<Cause> {
        let documented = || match rest {
            Rest::Holds(deviation, told) => Some(Cause::Deviation(deviation, told.clone())),
            Rest::Violated => None,
            Rest::Open => known(history, finding).map(|(deviation, told)| Cause::Deviation(deviation, told)),
        };
        let accepted = || self.list.rules.iter().position(|rule| self.accepts(rule, history, finding));
        self.deviations.then(documented).flatten().or_else(|| accepted().map(Cause::Rule))
    }

    fn accepts(&self, rule: &Rule, history: &History, finding: &Finding) -> bool {
        let in_tables = || {
            let objects = objects(history, finding);
            let table =
                |object: ObjectId| history.object(object).table.map(|table| &history.table(table).name);
            let is_listed =
                |object: &ObjectId| table(*object).is_some_and(|table| rule.tables.contains(table));
            !objects.is_empty() && objects.iter().all(is_listed)
        };
        rule.anomaly == finding.anomaly && self.today <= rule.until && (rule.tables.is_empty() || in_tables())
    }
}

/// The objects that a finding is about.
fn objects(history: &History, finding: &Finding) -> Vec<ObjectId> {
    let of_op = |op: OpId| history.op(op).accesses.iter().map(|access| access.object).collect();
    let of_edges = |edges: &[Edge]| edges.iter().filter_map(|edge| edge.reason.object()).collect();
    match &finding.certificate {
        Certificate::Operations { ops, .. } => ops.iter().flat_map(|&op| -> Vec<_> { of_op(op) }).collect(),
        Certificate::Refutation(lemmas) => {
            lemmas.iter().flat_map(|lemma| -> Vec<_> { of_edges(&lemma.edges) }).collect()
        }
        Certificate::Intervals(breach) => match &breach.broken {
            Broken::Read { op } => of_op(*op),
            Broken::Locks { object, .. } | Broken::Updates { object, .. } => vec![*object],
            Broken::Dependencies(edges) => of_edges(edges),
        },
        Certificate::DeadEnd(end) => end.objects.clone(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use margay_history::{HistoryBuilder, OpDetail, OpKind};

    use super::*;

    const LIST: &str = "[[accept]]\nanomaly = \"G1a\"\ntables = [\"accounts\"]\nreason = \"ticket 7\"\nuntil = 2027-01-31\n\
        [[accept]]\nanomaly = \"G1b\"\nreason = \"as agreed\"\nuntil = \"2026-12-31\"\n";

    fn list() -> AcceptList {
        AcceptList::from_toml(LIST).expect("a list")
    }

    /// A read of a row in each of these tables.
    fn history(tables: &[&str]) -> History {
        let mut builder = HistoryBuilder::new();
        for name in tables {
            let table = builder.table(name);
            let key = builder.values().int(1);
            let object = builder.object(Some(table), key);
            let access = margay_history::Access { object, value: builder.values().int(5) };
            builder.push(1, 1, None, OpKind::Read, &[access], OpDetail::None).expect("a read");
        }
        builder.finish().expect("a history")
    }

    fn finding(anomaly: Anomaly, history: &History) -> Finding {
        let ops = (0..history.op_count() as u32).map(OpId).collect();
        let certificate = Certificate::Operations { anomaly, ops };
        Finding { anomaly, txns: vec![margay_history::TxnId(0)], certificate }
    }

    fn sorted(anomaly: Anomaly, tables: &[&str], today: &str) -> (usize, Vec<Cause>, usize) {
        let (history, list) = (history(tables), list());
        let today = today.parse().expect("a day");
        let expected = Expected { deviations: true, list: &list, today };
        let Sorted { counted, set_aside } =
            expected.sort(&history, vec![finding(anomaly, &history)], &Rest::Open);
        let unused = list.unused(&set_aside).count();
        (counted.len(), set_aside.into_iter().map(|one| one.cause).collect(), unused)
    }

    #[test]
    fn what_a_rule_fits_is_set_aside() {
        let accepted = |at| (0, vec![Cause::Rule(at)], 1);
        let counts = (1, vec![], 2);
        assert_eq!(sorted(Anomaly::G1a, &["accounts"], "2026-11-16"), accepted(0));
        assert_eq!(sorted(Anomaly::G1a, &["accounts"], "2027-01-31"), accepted(0), "the last day");
        assert_eq!(sorted(Anomaly::G1a, &["accounts"], "2027-02-01"), counts, "the day after");
        assert_eq!(sorted(Anomaly::G1a, &["orders"], "2026-11-16"), counts, "another table");
        assert_eq!(sorted(Anomaly::G1a, &["accounts", "orders"], "2026-11-16"), counts, "another table, too");
        assert_eq!(sorted(Anomaly::G1b, &["orders"], "2026-11-16"), accepted(1), "any table");
        assert_eq!(sorted(Anomaly::G1c, &["accounts"], "2026-11-16"), counts, "another anomaly");
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        for (text, part) in [
            ("", "no [[accept]]"),
            ("x = 1\n[[accept]]\nanomaly=\"G1a\"\nreason=\"r\"\nuntil=2027-01-01", "unknown key `x`"),
            ("[[accept]]\nanomaly=\"G1a\"\nuntil=2027-01-01", "1: `reason` is missing"),
            ("[[accept]]\nanomaly=\"G1a\"\nreason=\" \"\nuntil=2027-01-01", "empty"),
            ("[[accept]]\nanomaly=\"G1a\"\nreason=\"r\"", "`until` is missing"),
            ("[[accept]]\nanomaly=\"G1a\"\nreason=\"r\"\nuntil=\"soon\"", "no day"),
            ("[[accept]]\nanomaly=\"G1a\"\nreason=\"r\"\nuntil=\"2027-13-01\"", "no day"),
            ("[[accept]]\nanomaly=\"G9\"\nreason=\"r\"\nuntil=2027-01-01", "G9"),
            ("[[accept]]\nanomaly=\"G1a\"\nreason=\"r\"\nuntil=2027-01-01\nwhy=1", "unknown key `why`"),
            ("[[accept]]\nanomaly=\"G1a\"\nreason=\"r\"\nuntil=2027-01-01\ntables=\"t\"", "no list"),
        ] {
            let why = AcceptList::from_toml(text).expect_err("it is wrong");
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    #[test]
    fn days() {
        let day = |seconds| Day::of_unix_time(seconds).to_string();
        assert_eq!(day(0), "1970-01-01");
        assert_eq!(day(951_782_400), "2000-02-29");
        assert_eq!(day(951_868_800), "2000-03-01");
        assert_eq!(day(1_798_761_599), "2026-12-31");
        assert_eq!(day(1_798_761_600), "2027-01-01");
        assert!("2026-09-30".parse::<Day>().expect("a day") < "2026-10-01".parse().expect("a day"));
    }
}
