//! The report for a terminal: short, aligned, at least 80 columns wide.
//!
//! ```text
//! violated: HISTORY is impossible under serializable
//!   engine solve; 2 transactions, 8 operations, 2 sessions; read in 201 µs, checked in 295 µs
//!
//! G2-item between T1, T2: write skew
//!   Transactions each decided on something that another was just changing, …
//!
//!   T1 → T2  rw  T1 read bob = "on call", the initial version, and T2 wrote "off" later
//!   T2 → T1  rw  T2 read alice = "on call", the initial version, and T1 wrote "off" later
//! ```

use crate::paint::Paint;
use crate::picture::{Cycle, Edge, Picture};
use crate::table::{Table, wrap};
use crate::view::{Anomaly, Case, Check, Details, EngineFault, Report, Stats, Word};

/// Anomalies that the text shows; JSON has all of them.
const SHOWN: usize = 5;
/// Transactions of one anomaly that its heading names.
const NAMED: usize = 8;
/// Fewer moments are no course of time: a run of a fraction of a second has no curves worth a table.
const MOMENTS: usize = 10;
/// Cycles of one anomaly that the text shows.
const CYCLES: usize = 2;
/// No text is narrower, and none wider, than this.
const WIDTHS: (usize, usize) = (80, 120);

/// The whole account, at most `width` columns wide (where its words allow).
#[must_use]
pub fn text(report: &Report, paint: Paint, width: usize) -> String {
    let mut out = Account { out: String::new(), paint, width: width.clamp(WIDTHS.0, WIDTHS.1) };
    out.head(report);
    for (i, anomaly) in report.anomalies.iter().take(SHOWN).enumerate() {
        let case = report.report.as_ref().and_then(|details| details.cases.get(i));
        let known = report.anomalies[..i].iter().any(|before| before.name == anomaly.name);
        out.anomaly(anomaly, case, known);
    }
    if report.anomalies.len() > SHOWN {
        out.line("");
        out.line(&format!("and {} more; --json has all", report.anomalies.len() - SHOWN));
    }
    out.models(report);
    if let Some(details) = &report.report {
        out.checks(&details.checks);
        out.statistics(details);
    }
    out.out
}

/// Sizes and times in words.
#[must_use]
pub fn stats(stats: &Stats) -> String {
    sizes(stats, "read")
}

/// The same, with what was done before checking: `read`, or `recorded`.
fn sizes(stats: &Stats, done: &str) -> String {
    format!(
        "{}, {}, {}; {done} in {}, checked in {}",
        count(stats.transactions, "transaction"),
        count(stats.operations, "operation"),
        count(stats.sessions, "session"),
        seconds(stats.read_seconds),
        seconds(stats.check_seconds),
    )
}

/// A duration in the unit that suits it.
#[must_use]
pub fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 0.001 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.1} s"),
    }
}

struct Account {
    out: String,
    paint: Paint,
    width: usize,
}

impl Account {
    fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    /// Wrapped, indented text.
    fn words(&mut self, text: &str, first: &str, indent: usize) {
        for line in wrap(text, self.width, first, indent) {
            self.line(&line);
        }
    }

    fn head(&mut self, report: &Report) {
        let word = self.paint.verdict(report.verdict.name());
        let details = report.report.as_deref();
        let headline = details.map_or(report.level.clone(), |details| details.headline.clone());
        self.line(&format!("{word}: {headline}"));
        let engine =
            report.engine.as_ref().map_or("no engine".to_owned(), |engine| format!("engine {engine}"));
        let done = if report.run.is_some() { "recorded" } else { "read" };
        let dim = self.paint.dim(&format!("  {engine}; {}", sizes(&report.stats, done)));
        self.line(&dim);
        if let Some(reason) = &report.reason {
            self.words(reason, "  reason: ", 4);
        }
        if let Some((details, proof)) = details.and_then(|details| Some((details, details.proof.as_ref()?))) {
            let audited = match details.audited.as_str() {
                "accepted" => "audited: accepted",
                "rejected" => "audited: rejected",
                _ => "not audited, because of --no-audit",
            };
            let dim = self.paint.dim(&format!("  proof: {proof}, {audited}; {}", details.again.audit));
            self.line(&dim);
        }
        for fault in details.iter().flat_map(|details| &details.faults) {
            let EngineFault { engine, claimed, reason } = fault;
            let text = format!("engine {engine} said {claimed}, and the audit rejected its proof: {reason}");
            self.words(&text, "  fault of an engine: ", 4);
        }
        for words in details.and_then(|details| details.claim.as_ref()).iter().flat_map(|claim| &claim.words)
        {
            for line in wrap(words, self.width, "  ", 4) {
                let dim = self.paint.dim(&line);
                self.line(&dim);
            }
        }
    }

    /// One anomaly; what its kind means is not told twice.
    fn anomaly(&mut self, anomaly: &Anomaly, case: Option<&Case>, known: bool) {
        let title = case.map_or(String::new(), |case| format!(": {}", case.title.to_lowercase()));
        let heading = format!("{} {}{title}", anomaly.name, among(&anomaly.transactions));
        self.line("");
        for line in wrap(&heading, self.width, "", 2) {
            let bold = self.paint.bold(&line);
            self.line(&bold);
        }
        match case {
            None => anomaly.explanation.lines().for_each(|line| self.words(line, "  ", 4)),
            Some(case) => self.case(case, known),
        }
    }

    fn case(&mut self, case: &Case, known: bool) {
        if !known {
            self.words(&case.meaning, "  ", 2);
            self.line("");
        }
        match &case.picture {
            Some(picture) if !picture.cycles.is_empty() => self.cycles(picture),
            _ => case.steps.iter().for_each(|step| self.words(step, "  ", 4)),
        }
        self.line("");
        self.words(&case.impossible, "  why not: ", 11);
        if !case.breaks.is_empty() && !known {
            self.words(&case.breaks.join(", "), "  breaks:  ", 11);
            let allowed = if case.allowed.is_empty() { "none".to_owned() } else { case.allowed.join(", ") };
            self.words(&allowed, "  allowed: ", 11);
        }
    }

    fn cycles(&mut self, picture: &Picture) {
        let many = picture.cycles.len() > 1;
        for (i, cycle) in picture.cycles.iter().take(CYCLES).enumerate() {
            if many {
                self.line(&format!("  cycle {} of {}", i + 1, picture.cycles.len()));
            }
            self.cycle(cycle);
        }
    }

    /// One line for each edge, the arrows under each other.
    fn cycle(&mut self, cycle: &Cycle) {
        let arrow = |edge: &Edge| format!("T{} → T{}", edge.from, edge.to);
        let widest = cycle.edges.iter().map(|edge| arrow(edge).chars().count()).max().unwrap_or(0);
        let kinds = cycle.edges.iter().map(|edge| edge.kind.len()).max().unwrap_or(0);
        for edge in &cycle.edges {
            let because = edge.reason.split_once(": ").map_or(edge.reason.as_str(), |(_, because)| because);
            let head = format!("  {:widest$}  {:kinds$}  ", arrow(edge), edge.kind);
            let indent = head.chars().count();
            for (i, line) in wrap(because.trim_end_matches('.'), self.width, &head, indent).iter().enumerate()
            {
                let painted = match line.strip_prefix(head.as_str()) {
                    Some(rest) if i == 0 => format!("{}{rest}", self.paint.arrow(&edge.kind, &head)),
                    _ => line.clone(),
                };
                self.line(&painted);
            }
        }
    }

    /// Which of Elle's models are ruled out.
    fn models(&mut self, report: &Report) {
        if !report.not.is_empty() {
            self.line("");
            self.words(&report.not.join(", "), "not, in Elle's words: ", 10);
        }
        if !report.also_not.is_empty() {
            for line in wrap(&report.also_not.join(", "), self.width, "also not: ", 10) {
                let dim = self.paint.dim(&line);
                self.line(&dim);
            }
        }
    }

    /// What each engine said.
    fn checks(&mut self, checks: &[Check]) {
        if checks.is_empty() {
            return;
        }
        let mut table = Table::new(&["engine", "level", "verdict", "time", "what it says"]);
        for check in checks {
            let reason = check.reason.clone().unwrap_or_default();
            table.row([
                check.engine.clone(),
                check.level.clone(),
                check.verdict.name().to_owned(),
                seconds(check.seconds),
                reason,
            ]);
        }
        self.line("");
        for line in table.lines(self.width) {
            self.line(&line);
        }
    }

    /// The curves as numbers.
    fn statistics(&mut self, details: &Details) {
        let Some(series) = details.series.as_ref().filter(|series| series.seconds.len() >= MOMENTS) else {
            return;
        };
        let mut table = Table::new(&["over time", "", "lowest", "mean", "highest", "unit"]);
        for curve in &series.curves {
            let values: Vec<f64> = curve.values.iter().copied().flatten().collect();
            if values.is_empty() {
                continue;
            }
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let ends = [
                values.iter().copied().fold(f64::MAX, f64::min),
                mean,
                values.iter().copied().fold(f64::MIN, f64::max),
            ];
            let [lowest, mean, highest] = ends.map(number);
            table.row([curve.plot.clone(), curve.name.clone(), lowest, mean, highest, curve.unit.clone()]);
        }
        self.line("");
        for line in table.lines(self.width) {
            self.line(&line);
        }
    }
}

/// Who takes part: `in T1`, `between T1 and T2`, or the first of many.
fn among(transactions: &[u64]) -> String {
    let names: Vec<_> = transactions.iter().take(NAMED).map(|label| format!("T{label}")).collect();
    match (names.as_slice(), transactions.len() - names.len()) {
        ([], _) => "of nobody".to_owned(),
        ([one], _) => format!("in {one}"),
        ([all @ .., last], 0) => format!("between {} and {last}", all.join(", ")),
        (all, more) => format!("between {} and {more} more", all.join(", ")),
    }
}

fn number(value: f64) -> String {
    match value.abs() {
        a if a >= 100.0 || a == 0.0 => format!("{value:.0}"),
        a if a >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// One line for lists of reports: the verdict and its sentence.
#[must_use]
pub fn one_line(report: &Report) -> String {
    let headline = report.report.as_ref().map_or(report.level.clone(), |details| details.headline.clone());
    match report.verdict {
        Word::Running => headline,
        word => format!("{}: {headline}", word.name()),
    }
}
