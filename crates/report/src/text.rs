//! The report for a terminal: short, aligned, at least 80 columns wide.
//!
//! ```text
//! violated: HISTORY is impossible under serializable
//!   engine solve; 2 transactions, 8 operations, 2 sessions; read in 201 µs, checked in 295 µs
//!
//! Write skew between T1 and T2 (G2-item)
//!   Each transaction based a decision on data that another one was changing, …
//!
//!   T1 → T2  missed (rw)  T1 read bob = "on call", the initial version, and T2 wrote "off" later
//!   T2 → T1  missed (rw)  T2 read alice = "on call", the initial version, and T1 wrote "off" later
//! ```

use crate::paint::Paint;
use crate::picture::{Cycle, Edge, Picture};
use crate::table::{Table, wrap};
use crate::view::{Anomaly, Case, Check, Details, EngineFault, Expected, Report, Stats, Word};

/// Anomalies that the text shows; JSON has all of them.
const SHOWN: usize = 5;
/// Transactions of one anomaly that its heading names.
const NAMED: usize = 8;
/// Fewer moments are no course of time: a run of a fraction of a second has no curves worth a
/// table.
const MOMENTS: usize = 10;
/// Cycles of one anomaly that the text shows.
const CYCLES: usize = 6;
/// A shorter account does not repeat its verdict at the end.
const LONG_ACCOUNT: usize = 12;
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
    out.how_many(report);
    out.models(report);
    if let Some(details) = &report.report {
        out.expected(&details.expected);
        out.checks(&details.checks);
        out.no_contradiction(report, &details.checks);
    }
    out.out
}

/// What happened over time, as a table of numbers; empty where there is no course of time.
#[must_use]
pub fn statistics(report: &Report, width: usize) -> String {
    let mut out = Account { out: String::new(), paint: Paint::OFF, width: width.clamp(WIDTHS.0, WIDTHS.1) };
    if let Some(details) = &report.report {
        out.statistics(details);
    }
    out.out
}

/// The account as it ends on a terminal: where it is long, its verdict is the last line, too.
#[must_use]
pub fn closed(account: &str, report: &Report, paint: Paint) -> String {
    let account = account.trim_end();
    if account.lines().count() < LONG_ACCOUNT {
        return format!("{account}\n");
    }
    format!("{account}\n\n{}\n", verdict_line(report, paint))
}

/// How many of the anomalies are shown, where at most `most` are. Engines stop when they have a
/// proof.
pub(crate) fn extent(report: &Report, most: usize) -> Option<String> {
    let found = report.anomalies.len();
    if report.verdict != Word::Violated || found == 0 {
        return None;
    }
    let shown = match found {
        1 => "One anomaly is shown".to_owned(),
        _ if found <= most => format!("{found} anomalies are shown"),
        _ => format!("{most} of at least {found} anomalies are shown (--json has all)"),
    };
    Some(format!("{shown}. There may be more: the search stopped when it had a proof."))
}

fn verdict_line(report: &Report, paint: Paint) -> String {
    let headline = report.report.as_ref().map_or(&report.level, |details| &details.headline);
    format!("{}: {headline}", paint.verdict(report.verdict.name()))
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
        let details = report.report.as_deref();
        self.line(&verdict_line(report, self.paint));
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
        let heading = heading(anomaly, case);
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
            if !case.allowed.is_empty() {
                self.words(&case.allowed.join(", "), "  not ruled out: ", 11);
            }
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
        if picture.cycles.len() > CYCLES {
            self.line(&format!(
                "  and {} more; the report and --json have all",
                picture.cycles.len() - CYCLES
            ));
        }
    }

    /// One line for each edge, the arrows under each other.
    fn cycle(&mut self, cycle: &Cycle) {
        let arrow = |edge: &Edge| format!("T{} → T{}", edge.from, edge.to);
        let widest = cycle.edges.iter().map(|edge| arrow(edge).chars().count()).max().unwrap_or(0);
        let kinds = cycle.edges.iter().map(|edge| kind(&edge.kind).len()).max().unwrap_or(0);
        for edge in &cycle.edges {
            let because = edge.reason.split_once(": ").map_or(edge.reason.as_str(), |(_, because)| because);
            let head = format!("  {:widest$}  {:kinds$}  ", arrow(edge), kind(&edge.kind));
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

    /// How much of what there is was shown. Engines stop at the first anomalies that they can
    /// prove.
    fn how_many(&mut self, report: &Report) {
        let Some(extent) = extent(report, SHOWN) else { return };
        self.line("");
        self.words(&extent, "", 2);
    }

    /// Why an engine that found nothing does not contradict one that did.
    fn no_contradiction(&mut self, report: &Report, checks: &[Check]) {
        let fine = |check: &&Check| matches!(check.verdict, Word::Clean | Word::Holds);
        let Some(check) = checks.iter().find(fine).filter(|_| report.verdict == Word::Violated) else {
            return;
        };
        let Check { engine, level, verdict, .. } = check;
        let why = if *level == report.level {
            format!(
                "{engine} finds only what the clock proves: `{}` means that it found nothing",
                verdict.name()
            )
        } else {
            format!("{engine} verified {level}, but the verdict is about {}", report.level)
        };
        self.line("");
        self.words(&why, "  no contradiction: ", 4);
    }

    /// Which of Elle's models are ruled out.
    fn models(&mut self, report: &Report) {
        if !report.not.is_empty() {
            self.line("");
            self.words(&report.not.join(", "), "in Elle's terms, not: ", 10);
        }
        if !report.also_not.is_empty() {
            for line in wrap(&report.also_not.join(", "), self.width, "therefore also not: ", 10) {
                let dim = self.paint.dim(&line);
                self.line(&dim);
            }
        }
    }

    /// What does not count.
    fn expected(&mut self, all: &[Expected]) {
        let (deviations, accepted): (Vec<_>, Vec<_>) = all.iter().partition(|one| one.deviation.is_some());
        for (title, some) in [("known deviations", deviations), ("accepted", accepted)] {
            if some.is_empty() {
                continue;
            }
            self.line("");
            let bold = self.paint.bold(&format!("{title}: {}", some.len()));
            self.line(&bold);
            for one in some.iter().take(SHOWN) {
                let name = one.deviation.as_deref().map(|name| format!(", {name}")).unwrap_or_default();
                let head = format!("{} {}{name}: {}", one.anomaly, among(&one.transactions), one.reason);
                self.words(&head, "  ", 4);
            }
            if some.len() > SHOWN {
                self.line(&format!("  and {} more; --json has all", some.len() - SHOWN));
            }
        }
    }

    /// What each engine said.
    fn checks(&mut self, checks: &[Check]) {
        if checks.is_empty() {
            return;
        }
        let mut table = Table::new(&["engine", "level", "verdict", "time", "details"]);
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

/// The plain name first, the one of the literature in parentheses: `Write skew between T1 and T2
/// (G2-item)`.
fn heading(anomaly: &Anomaly, case: Option<&Case>) -> String {
    let (name, among) = (&anomaly.name, among(&anomaly.transactions));
    match case {
        Some(case) => format!("{} {among} ({name})", case.title),
        None => format!("{name} {among}"),
    }
}

/// An arrow's kind in words; `margay explain rw` says more.
fn kind(kind: &str) -> String {
    match kind {
        "ww" => "overwritten (ww)".to_owned(),
        "wr" => "read (wr)".to_owned(),
        "rw" => "missed (rw)".to_owned(),
        other => other.to_owned(),
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
