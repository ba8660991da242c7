//! What `margay check` shows: gathered once, then printed as text or as JSON.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use margay_engines::Answer;
use margay_history::History;
use margay_verdict::{Certificate, Finding, Verdict, explain};
use serde::Serialize;

use crate::terminal::Paint;
use crate::{duration, memory};

/// Findings that the text shows; JSON has all of them.
const SHOWN: usize = 5;

/// The pinned object of `--json`, and beside it what only the text tells.
#[derive(Serialize)]
pub struct View {
    verdict: &'static str,
    level: &'static str,
    engine: Option<&'static str>,
    reason: Option<String>,
    anomalies: Vec<AnomalyView>,
    /// The weakest of Elle's models that the anomalies rule out.
    not: Vec<&'static str>,
    /// The stronger ones, which are ruled out with them.
    also_not: Vec<&'static str>,
    stats: Stats,
    #[serde(skip)]
    proof: Option<&'static str>,
    #[serde(skip)]
    audited: Audited,
}

/// One anomaly.
#[derive(Serialize)]
pub struct AnomalyView {
    name: &'static str,
    /// The recorder's labels.
    transactions: Vec<u64>,
    explanation: String,
}

/// Sizes and times.
#[derive(Serialize)]
pub struct Stats {
    transactions: usize,
    operations: usize,
    sessions: usize,
    read_seconds: f64,
    check_seconds: f64,
    peak_rss_bytes: Option<u64>,
}

/// What came of the certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Audited {
    /// There is none.
    Nothing,
    /// It was not looked at.
    Skipped,
    /// It passed.
    Accepted,
    /// It did not, and why.
    Rejected(String),
}

impl Stats {
    /// Of a history that was read and checked in these times.
    pub fn of(history: &History, read: Duration, check: Duration) -> Self {
        Self {
            transactions: history.txn_count(),
            operations: history.op_count(),
            sessions: history.session_count(),
            read_seconds: read.as_secs_f64(),
            check_seconds: check.as_secs_f64(),
            peak_rss_bytes: memory::peak_rss_bytes(),
        }
    }

    /// The same after a check that took this time.
    pub fn checked_in(self, check: Duration) -> Self {
        Self { check_seconds: check.as_secs_f64(), peak_rss_bytes: memory::peak_rss_bytes(), ..self }
    }

    /// In words.
    pub fn text(&self) -> String {
        format!(
            "{}, {}, {}; read in {}, checked in {}",
            count(self.transactions, "transaction"),
            count(self.operations, "operation"),
            count(self.sessions, "session"),
            duration::show(Duration::from_secs_f64(self.read_seconds)),
            duration::show(Duration::from_secs_f64(self.check_seconds)),
        )
    }
}

impl View {
    /// Gathers what there is to say.
    pub fn new(
        history: &History,
        level: &'static str,
        answer: &Answer,
        audited: Audited,
        stats: Stats,
    ) -> Self {
        let reason = match &answer.verdict {
            Verdict::Unknown(why) => Some(why.to_string()),
            _ => None,
        };
        let anomalies = match &answer.verdict {
            Verdict::Violated(findings) => {
                findings.iter().map(|finding| AnomalyView::of(history, finding)).collect()
            }
            _ => Vec::new(),
        };
        let proof = answer.verdict.certificate().map(kind);
        let (not, also_not) = ruled_out(&answer.verdict);
        Self {
            verdict: answer.verdict.word(),
            level,
            engine: answer.engine,
            reason,
            anomalies,
            not,
            also_not,
            stats,
            proof,
            audited,
        }
    }

    /// One JSON object on one line.
    pub fn json(&self) -> String {
        one_line(self)
    }

    /// For people. `subject` is what they call the history, `again` how they can audit the proof themselves.
    pub fn text(&self, paint: Paint, subject: &str, again: &str) -> String {
        let mut out = format!("{}: {}\n", paint.verdict(self.verdict), self.sentence(subject));
        let engine = self.engine.map_or("no engine".to_owned(), |engine| format!("engine {engine}"));
        line(&mut out, &paint.dim(&format!("  {engine}; {}", self.stats.text())));
        if let Some(reason) = &self.reason {
            line(&mut out, &format!("  reason: {reason}"));
        }
        if let Some(proof) = self.proof {
            let text = format!("  proof: {proof}, {}; {again}", self.audited.text());
            line(&mut out, &paint.dim(&text));
        }
        for anomaly in self.anomalies.iter().take(SHOWN) {
            line(&mut out, "");
            line(&mut out, &paint.bold(&anomaly.heading()));
            anomaly.explanation.lines().for_each(|text| line(&mut out, &format!("  {text}")));
        }
        if self.anomalies.len() > SHOWN {
            line(&mut out, &format!("\nand {} more; --json has all", self.anomalies.len() - SHOWN));
        }
        if !self.not.is_empty() {
            line(&mut out, &format!("\nnot: {}", self.not.join(", ")));
        }
        if !self.also_not.is_empty() {
            line(&mut out, &paint.dim(&format!("also not: {}", self.also_not.join(", "))));
        }
        out
    }

    fn sentence(&self, history: &str) -> String {
        let level = self.level;
        match self.verdict {
            "holds" => format!("{history} is possible under {level}"),
            "clean" => format!("nothing in {history} contradicts {level}; this is no proof"),
            // The mirror judges mechanisms, which promise more than the level's definition.
            "violated" if self.engine == Some("mirror") => {
                format!("{history} breaks a mechanism by which its database keeps {level}")
            }
            "violated" => format!("{history} is impossible under {level}"),
            _ => format!("whether {history} is possible under {level}"),
        }
    }
}

impl AnomalyView {
    fn of(history: &History, finding: &Finding) -> Self {
        Self {
            name: finding.anomaly.name(),
            transactions: finding.txns.iter().map(|&txn| history.txn_label(txn)).collect(),
            explanation: explain::finding(history, finding),
        }
    }

    fn heading(&self) -> String {
        let txns: Vec<_> = self.transactions.iter().map(|label| format!("T{label}")).collect();
        format!("{} between {}", self.name, txns.join(", "))
    }
}

impl Audited {
    /// What to say of a verdict that is not audited.
    pub fn skipped(verdict: &Verdict) -> Self {
        if verdict.certificate().is_some() { Audited::Skipped } else { Audited::Nothing }
    }

    fn text(&self) -> &'static str {
        match self {
            Audited::Accepted => "audited: accepted",
            Audited::Rejected(_) => "audited: rejected",
            Audited::Skipped | Audited::Nothing => "not audited (--audit does)",
        }
    }
}

/// The models that findings rule out, by name: the weakest, and the others.
fn ruled_out(verdict: &Verdict) -> (Vec<&'static str>, Vec<&'static str>) {
    let Verdict::Violated(findings) = verdict else { return Default::default() };
    let boundary = margay_levels::model::boundary(findings.iter().map(|finding| finding.anomaly));
    let names = |models: Vec<margay_levels::Model>| {
        let mut names: Vec<_> = models.into_iter().map(margay_levels::Model::name).collect();
        names.sort_unstable();
        names
    };
    (names(boundary.not), names(boundary.also_not))
}

/// What to type to audit the proof, or to be able to.
pub fn how_to_audit(history: &Path, certificate: Option<&Path>) -> String {
    match certificate {
        Some(file) => format!("again: margay audit {} {}", history.display(), file.display()),
        None => "--certificate FILE keeps it for margay audit".to_owned(),
    }
}

/// A JSON object on one line.
pub fn one_line(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("strings and numbers always serialise")
}

/// What kind of proof a certificate is.
pub fn kind(certificate: &Certificate) -> &'static str {
    match certificate {
        Certificate::Order(_) => "an order of the transactions",
        Certificate::Points(_) => "an order of begin and commit points",
        Certificate::Versions(_) => "version orders and what each read saw",
        Certificate::Operations { .. } => "operations that no order explains",
        Certificate::Refutation(lemmas) if lemmas.len() == 1 => "a cycle",
        Certificate::Refutation(_) => "cycles that leave no possibility",
        Certificate::Intervals(_) => "intervals that a mechanism of the database rules out",
    }
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

fn line(out: &mut String, text: &str) {
    let _ = writeln!(out, "{text}");
}
