//! JUnit's XML, which every CI server shows.
//!
//! The question is a test case, and so is each kind of anomaly that was found, and each engine's
//! answer where several were asked. `violated` is a failure. `unknown` is an error, so that it does
//! not pass for a success.

use std::fmt::Write;

use crate::escape::xml;
use crate::paint::Paint;
use crate::text;
use crate::view::{Report, Word};

/// The report as the result of a test suite.
#[must_use]
pub fn junit(report: &Report) -> String {
    let cases = test_cases(report);
    let count = |word: Word| cases.iter().filter(|case| case.word == word).count();
    let (failures, errors) = (count(Word::Violated), count(Word::Unknown));
    let totals = format!(
        "tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"0\" time=\"{:.3}\"",
        cases.len(),
        report.stats.read_seconds + report.stats.check_seconds
    );
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"margay\" {totals}>\n<testsuite name=\"{}\" {totals}>\n",
        xml(&subject(report))
    );
    cases.iter().for_each(|case| case.push(&mut out));
    out + "</testsuite>\n</testsuites>\n"
}

struct TestCase {
    class: String,
    name: String,
    seconds: f64,
    word: Word,
    kind: String,
    message: String,
    body: String,
}

fn test_cases(report: &Report) -> Vec<TestCase> {
    let account = text::text(report, Paint::OFF, 100);
    let mut all = vec![TestCase {
        class: format!("margay.{}", report.level),
        name: subject(report),
        seconds: report.stats.check_seconds,
        word: report.verdict,
        kind: report.anomalies.first().map_or("unknown".to_owned(), |anomaly| anomaly.name.clone()),
        message: headline(report),
        body: account,
    }];
    all.extend(anomaly_cases(report));
    let checks = report.report.iter().flat_map(|details| &details.checks);
    all.extend(checks.map(|check| TestCase {
        class: format!("margay.{}", check.level),
        name: format!("{} ({})", subject(report), check.engine),
        seconds: check.seconds,
        word: check.verdict,
        kind: check.engine.clone(),
        message: check.reason.clone().unwrap_or_default(),
        body: String::new(),
    }));
    all
}

/// A case for each kind of anomaly, so that a CI server tells a new kind from a known one.
fn anomaly_cases(report: &Report) -> Vec<TestCase> {
    let mut cases: Vec<TestCase> = Vec::new();
    let titles =
        report.report.iter().flat_map(|details| details.cases.iter().map(|case| case.title.as_str()));
    let titles = titles.map(Some).chain(std::iter::repeat(None));
    for (anomaly, title) in report.anomalies.iter().zip(titles) {
        if let Some(case) = cases.iter_mut().find(|case| case.kind == anomaly.name) {
            case.body += &format!("\n{}", anomaly.explanation);
            continue;
        }
        cases.push(TestCase {
            class: format!("margay.{}.{}", report.level, report.engine.as_deref().unwrap_or("none")),
            name: anomaly.name.clone(),
            seconds: 0.0,
            word: Word::Violated,
            kind: anomaly.name.clone(),
            message: title.unwrap_or(&anomaly.name).to_owned(),
            body: anomaly.explanation.clone(),
        });
    }
    cases
}

fn subject(report: &Report) -> String {
    report.report.as_ref().map_or("history".to_owned(), |details| details.subject.clone())
}

fn headline(report: &Report) -> String {
    let headline = report.report.as_ref().map_or(String::new(), |details| details.headline.clone());
    report.reason.as_ref().map_or(headline.clone(), |reason| format!("{headline}: {reason}"))
}

impl TestCase {
    fn push(&self, out: &mut String) {
        let _ = write!(
            out,
            "<testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\"",
            xml(&self.class),
            xml(&self.name),
            self.seconds
        );
        let element = match self.word {
            Word::Violated => "failure",
            Word::Unknown => "error",
            Word::Holds | Word::Clean | Word::Running => {
                out.push_str("/>\n");
                return;
            }
        };
        let _ = writeln!(
            out,
            "><{element} type=\"{}\" message=\"{}\">{}</{element}></testcase>",
            xml(&self.kind),
            xml(&self.message),
            xml(&self.body)
        );
    }
}
