//! From a verdict and its history to a [`Report`].

use crate::explain;
use margay_audit::reach::boundary;
use margay_audit::{Reach, reach};
use margay_history::{History, TxnId};
use margay_levels::{Anomaly as Name, Level};
use margay_verdict::{
    Breach, Broken, Budget, Certificate, Checked, Claim, Dialect, Edge, Finding, Question, Standing,
    Translation, Verdict, name,
};
use serde_json::Map;

use crate::limit::{ALL_BYTES, CASES, LINE, bytes, clean, clean_lines};
use crate::picture::Picture;
use crate::series;
use crate::slice;
use crate::touches::Touches;
use crate::view::{self, Again, Anomaly, Case, Details, EngineFault, Report, Stats, Word};
use crate::{why, words};

/// What a report is made from.
pub struct Source<'a> {
    /// The history.
    pub history: &'a History,
    /// What the history is called.
    pub subject: &'a str,
    /// The level in question, by name.
    pub level: &'a str,
    /// The question, if an engine could be asked.
    pub question: Option<Question>,
    /// Who answered.
    pub engine: Option<&'a str>,
    /// The answer.
    pub verdict: &'a Verdict,
    /// What the statements of the history were taken for.
    pub translation: Translation,
    /// How much may be spent on finding out which other levels are broken.
    pub budget: &'a Budget,
    /// What came of the audit: `accepted`, `rejected`, `skipped` or `nothing`.
    pub audited: &'a str,
    /// The certificates that the audit rejected on the way.
    pub faults: Vec<EngineFault>,
    /// Sizes and times.
    pub stats: Stats,
    /// How to do it again.
    pub again: Again,
    /// Whether curves over time are wanted; they take a while on large histories.
    pub curves: bool,
}

impl Report {
    /// Gathers everything that there is to say.
    #[must_use]
    pub fn new(source: Source<'_>) -> Self {
        let findings = findings(source.verdict);
        let reaches = source.reaches();
        let mut report = Self::pinned(&source, &reaches);
        let cases = cases(&source, findings, &reaches);
        let shown = &findings[..findings.len().min(series::MARKS)];
        report.report = Some(Box::new(Details {
            version: 1,
            subject: clean(source.subject, LINE),
            headline: headline(&source),
            date: None,
            beyond: None,
            sql: None,
            promise: source.question.map_or("", |question| words::promise(question.level)).to_owned(),
            real_time: source.question.is_some_and(|question| question.real_time),
            proof: source.verdict.certificate().map(|certificate| proof(certificate).to_owned()),
            claim: claim(&source),
            audited: source.audited.to_owned(),
            faults: source.faults.into_iter().map(cleaned_fault).collect(),
            again: cleaned(source.again),
            checks: Vec::new(),
            expected: Vec::new(),
            cases,
            series: source.curves.then(|| series::of_history(source.history, shown)).flatten(),
        }));
        report
    }

    /// The object of `--json` as it always was.
    fn pinned(source: &Source<'_>, reaches: &[Reach]) -> Self {
        let reason = match source.verdict {
            Verdict::Unknown(why) => Some(clean(&why.to_string(), LINE)),
            _ => None,
        };
        let (not, also_not) = boundary(reaches).names();
        Report {
            verdict: word(source.verdict),
            level: source.level.to_owned(),
            engine: source.engine.map(str::to_owned),
            reason,
            anomalies: findings(source.verdict)
                .iter()
                .zip(reaches)
                .map(|(finding, reach)| anomaly(source.history, finding, reach))
                .collect(),
            not,
            also_not,
            stats: source.stats.clone(),
            run: None,
            report: None,
            more: Map::new(),
        }
    }
}

fn cleaned_fault(fault: EngineFault) -> EngineFault {
    EngineFault { reason: clean(&fault.reason, LINE), ..fault }
}

fn cleaned(again: Again) -> Again {
    let line = |text: String| clean(&text, LINE);
    Again { command: again.command.map(line), audit: line(again.audit), seed: again.seed }
}

impl Source<'_> {
    /// What each finding says about other levels. A proof that was not audited says nothing.
    fn reaches(&self) -> Vec<Reach> {
        let reach = |finding: &Finding| match self.question {
            Some(question) => reach(self.history, question, finding, self.translation, self.budget),
            None => Reach::default(),
        };
        findings(self.verdict).iter().map(reach).collect()
    }
}

/// A verdict's word.
#[must_use]
pub fn word(verdict: &Verdict) -> Word {
    match verdict {
        Verdict::Holds(_) => Word::Holds,
        Verdict::Clean => Word::Clean,
        Verdict::Violated(_) => Word::Violated,
        Verdict::Unknown(_) => Word::Unknown,
    }
}

/// What kind of proof a certificate is.
#[must_use]
pub fn proof(certificate: &Certificate) -> &'static str {
    match certificate {
        Certificate::Order(_) => "an order of the transactions",
        Certificate::Points(_) => "an order of begin and commit points",
        Certificate::Both(_) => "an order of the transactions, and begin and commit points",
        Certificate::Versions(_) => "version orders and what each read saw",
        Certificate::Operations { .. } => "operations that no order explains",
        Certificate::Refutation(lemmas) if lemmas.len() == 1 => "a cycle",
        Certificate::Refutation(_) => "cycles that leave no possibility",
        Certificate::DeadEnd(_) => "objects whose transactions have no order in real time",
        Certificate::Intervals(_) => "intervals that a mechanism of the database rules out",
        Certificate::Execution(_) => "an execution of its statements",
        Certificate::Unexplained(_) => "statements that no execution explains",
        Certificate::Invariant(_) => "an invariant of the statements that a result contradicts",
    }
}

/// A finding that a certificate of `violated` at this level proves; nothing for one of `holds`.
#[must_use]
pub fn finding(history: &History, level: Level, certificate: &Certificate) -> Option<Finding> {
    let of_edges =
        |edges: &[Edge]| -> Vec<TxnId> { edges.iter().flat_map(|edge| [edge.from, edge.to]).collect() };
    let (anomaly, mut txns) = match certificate {
        Certificate::Operations { anomaly, ops } => {
            (*anomaly, ops.iter().map(|&op| history.txn_of(op)).collect())
        }
        Certificate::Refutation(lemmas) => {
            let txns = lemmas.iter().flat_map(|lemma| of_edges(&lemma.edges)).collect();
            (name(history, level, lemmas), txns)
        }
        Certificate::Intervals(breach) => {
            let txns = match &breach.broken {
                Broken::Read { op } => vec![history.txn_of(*op)],
                Broken::Locks { ops, .. } => ops.map(|op| history.txn_of(op)).to_vec(),
                Broken::Updates { txns, .. } => txns.to_vec(),
                Broken::Dependencies(edges) => of_edges(edges),
            };
            (breach.broken.anomaly(), txns)
        }
        // Which level it was is not in the certificate: what both forbid.
        Certificate::DeadEnd(end) => (Name::PlSsCycleExists, end.txns.clone()),
        Certificate::Unexplained(unexplained) => (Name::ResultMismatch, unexplained.txns.clone()),
        Certificate::Invariant(invariant) => (Name::ResultMismatch, vec![history.txn_of(invariant.op)]),
        _ => return None,
    };
    txns.sort_unstable();
    txns.dedup();
    Some(Finding { anomaly, txns, certificate: certificate.clone() })
}

fn headline(source: &Source<'_>) -> String {
    let (subject, level) = (clean(source.subject, LINE), asked(source));
    match source.verdict {
        Verdict::Holds(_) => format!("{subject} is possible under {level}"),
        Verdict::Clean => format!("nothing in {subject} contradicts {level}; this is no proof"),
        // Mechanisms promise more than the level's definition.
        Verdict::Violated(findings) if breach(findings).is_some() => {
            let standing = breach(findings).map(Standing::of);
            format!("{subject} is {}", standing.map_or(String::new(), |standing| standing.sentence()))
        }
        Verdict::Violated(_) => format!("{subject} is impossible under {level}"),
        Verdict::Unknown(_) => format!("whether {subject} is possible under {level}"),
    }
}

/// The level, with what else the question asks for: a history may be impossible only because of
/// that.
fn asked(source: &Source<'_>) -> String {
    let question = source.question;
    let more = match question.map(|question| (question.real_time, question.instants)) {
        Some((_, true)) => " with instants",
        Some((true, false)) => " in the order of real time",
        _ => "",
    };
    format!("{}{more}", source.level)
}

/// The breach that a verdict is about, if it is about mechanisms.
fn breach(findings: &[Finding]) -> Option<&Breach> {
    findings.first()?.certificate.breach()
}

/// What exactly the proof proves.
fn claim(source: &Source<'_>) -> Option<view::Claim> {
    let (question, certificate) = (source.question?, source.verdict.certificate()?);
    let rows = source.translation.is_of_rows().then_some(source.translation);
    Some(claimed(&Claim::of(source.history, question, rows, certificate), certificate))
}

/// A claim as data, with words for what does not go without saying.
#[must_use]
pub fn claimed(claim: &Claim, certificate: &Certificate) -> view::Claim {
    let plain = claim.translation == Translation::Recorded && claim.dialect == Dialect::Generic;
    let rules = (!plain).then(|| claim.rules());
    let standing = certificate.breach().map(|breach| Standing::of(breach).note());
    let again = (certificate.checked() == Checked::Reexecuted).then(|| {
        "the audit re-executes this kind of proof with the engine's own code; it is no independent check"
            .to_owned()
    });
    view::Claim {
        about: if standing.is_some() { "mechanisms" } else { "level" }.to_owned(),
        dialect: claim.dialect.name().to_owned(),
        translation: claim.translation.name().to_owned(),
        reading: claim.reading.name().to_owned(),
        profile: claim.profile.clone(),
        checked: certificate.checked().name().to_owned(),
        words: rules.into_iter().chain(standing).chain(again).map(|words| clean(&words, LINE)).collect(),
    }
}

fn findings(verdict: &Verdict) -> &[Finding] {
    match verdict {
        Verdict::Violated(findings) => findings,
        _ => &[],
    }
}

fn anomaly(history: &History, finding: &Finding, reach: &Reach) -> Anomaly {
    Anomaly {
        name: finding.anomaly.name().to_owned(),
        transactions: finding.txns.iter().map(|&txn| history.txn_label(txn)).collect(),
        explanation: clean_lines(&explain::finding_with(history, finding, reach)),
    }
}

/// The first findings with pictures, as long as there is room.
fn cases(source: &Source<'_>, findings: &[Finding], reaches: &[Reach]) -> Vec<Case> {
    let shown = &findings[..findings.len().min(CASES)];
    let history = source.history;
    let touches = Touches::of(history, shown.iter().flat_map(|finding| slice::objects(history, finding)));
    let mut room = ALL_BYTES;
    let case = |(finding, reach): (&Finding, &Reach)| {
        let mut picture = slice::picture(history, &touches, finding);
        match room.checked_sub(bytes(&picture)) {
            Some(left) => room = left,
            None => picture = None,
        }
        case(source, finding, reach, picture)
    };
    shown.iter().zip(reaches).map(case).collect()
}

fn case(source: &Source<'_>, finding: &Finding, reach: &Reach, picture: Option<Picture>) -> Case {
    let (history, mechanism) = (source.history, finding.certificate.breach().is_some());
    let plain = words::case(finding.anomaly, picture.as_ref());
    let lines = explain::certificate(history, &finding.certificate);
    let steps: Vec<String> = lines.iter().map(|line| clean(line, LINE)).collect();
    let nothing = Picture::default();
    let known = explain::known(history, finding).map(|known| format!(" {}", clean(&known, LINE)));
    let txns: Vec<u64> = finding.txns.iter().map(|&txn| history.txn_label(txn)).collect();
    let names = |levels: &[Level]| levels.iter().map(|level| level.name().to_owned()).collect();
    Case {
        title: plain.title,
        meaning: plain.meaning,
        impossible: why::impossible(
            picture.as_ref().unwrap_or(&nothing),
            &txns,
            source.question.map(|question| question.level),
            mechanism,
        ) + &known.unwrap_or_default(),
        steps,
        breaks: names(&reach.broken),
        allowed: names(&reach.left),
        picture,
    }
}
