//! What `margay check` and `margay run` show: a report, gathered once, and the forms in which it is
//! wanted.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use margay::Decision;
use margay_history::History;
use margay_levels::Level;
use margay_report::accept::Day;
use margay_report::view::{Again, Details};
use margay_report::{Report, Source, text};
use margay_stream::Counts;
use margay_verdict::mechanism::{Deduced, Dependencies};
use margay_verdict::{Budget, Question, Translation};
use serde::Serialize;
use serde_json::{Value, json};

use crate::memory;
use crate::terminal::{Paint, width};

/// A report, and how its text is printed.
#[derive(Serialize)]
#[serde(transparent)]
pub struct ReportView {
    pub report: Report,
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

/// What a view says beside the answer.
pub struct Frame<'a> {
    /// What people call the history.
    pub subject: &'a str,
    /// How much may be spent on claims about other levels.
    pub budget: &'a Budget,
    pub real_time: bool,
    pub instants: bool,
    /// How to do it again.
    pub again: Again,
    /// Whether curves over time are wanted.
    pub curves: bool,
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

    /// Of a history that was followed while it was read.
    pub fn counted(counts: Counts, took: Duration) -> Self {
        Self {
            transactions: counts.transactions as usize,
            operations: counts.operations as usize,
            sessions: counts.sessions as usize,
            read_seconds: 0.0,
            check_seconds: took.as_secs_f64(),
            peak_rss_bytes: memory::peak_rss_bytes(),
        }
    }

    /// The same after a check that took this time.
    pub fn checked_in(self, check: Duration) -> Self {
        Self { check_seconds: check.as_secs_f64(), peak_rss_bytes: memory::peak_rss_bytes(), ..self }
    }

    /// In words.
    pub fn text(&self) -> String {
        text::stats(&self.for_report())
    }

    pub fn for_report(&self) -> margay_report::view::Stats {
        margay_report::view::Stats {
            transactions: self.transactions,
            operations: self.operations,
            sessions: self.sessions,
            read_seconds: self.read_seconds,
            check_seconds: self.check_seconds,
            peak_rss_bytes: self.peak_rss_bytes,
        }
    }
}

impl ReportView {
    /// Gathers what there is to say.
    pub fn framed(
        history: &History,
        level: &str,
        decision: &Decision,
        stats: Stats,
        frame: Frame<'_>,
    ) -> Self {
        let (real_time, instants) = (frame.real_time, frame.instants);
        let question = level.parse::<Level>().ok().map(|level| Question { level, real_time, instants });
        let claim = question.and_then(|question| decision.claim(history, question));
        let translation: Option<Translation> = claim.map(|claim| claim.translation);
        let mut report = Report::new(Source {
            history,
            subject: frame.subject,
            level,
            question,
            engine: decision.engine,
            verdict: &decision.verdict,
            translation: translation.unwrap_or_default(),
            budget: frame.budget,
            audited: decision.audited.word(),
            faults: decision.engine_faults(),
            stats: stats.for_report(),
            again: frame.again,
            curves: frame.curves,
        });
        report
            .more
            .extend(decision.deduced.map(|deduced| ("dependencies".to_owned(), dependencies(&deduced))));
        let coverage = decision.coverage.as_ref().map(|coverage| ("coverage".to_owned(), coverage.json()));
        report.more.extend(coverage);
        if let Some(details) = &mut report.report {
            details.date = Some(now());
        }
        Self { report }
    }

    /// One JSON object on one line.
    pub fn json(&self) -> String {
        one_line(self)
    }

    /// For people: the account, with the table of what happened over time where it is wanted.
    pub fn shown(&self, paint: Paint, statistics: bool) -> String {
        let mut account = text::text(&self.report, paint.inner(), width());
        if statistics {
            account += &text::statistics(&self.report, width());
        }
        account
    }

    pub fn details(&mut self) -> &mut Details {
        self.report.report.get_or_insert_default()
    }
}

/// The date and time in UTC: `2026-11-18 21:30 UTC`.
fn now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let minutes = seconds % 86_400 / 60;
    format!("{} {:02}:{:02} UTC", Day::of_unix_time(seconds), minutes / 60, minutes % 60)
}

/// The dependencies that engine mirror looked at, and Leopard's ratios of them.
fn dependencies(deduced: &Deduced) -> Value {
    let kind = |kind: &Dependencies| json!({ "certain": kind.certain, "deduced": kind.deduced, "uncertain": kind.uncertain });
    json!({
        "ww": kind(&deduced.ww),
        "wr": kind(&deduced.wr),
        "rw": kind(&deduced.rw),
        "overlap_ratio": deduced.overlap_ratio(),
        "deduced_ratio": deduced.deduced_ratio(),
    })
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
