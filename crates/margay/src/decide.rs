//! The one place where a verdict is made.
//!
//! # Problem
//! Several engines can answer a question about a history; each understands other histories. The
//! answer must be right whichever engine gave it.
//!
//! # Algorithm
//! 1. A large log of statements: `auto` asks `observe` for what it sees at first sight, in linear
//!    time. Translate: statements that are plain operations on rows become rows
//!    ([`crate::translations`]).
//! 2. Choose: the engine that was asked for, or the list of `auto`, the preferred one first.
//! 3. Ask an engine, and audit its certificate. An accepted one is the answer. A rejected one is
//!    recorded as a [`Fault`] of that engine, and the next engine is asked, as it is when an engine
//!    says that the question is outside of what it decides. An engine that ran out of time or
//!    memory does not hand over: the next one would start with less. A violation that is proved
//!    only by trying all orders is kept, and the other engines get a few seconds to explain it
//!    better.
//! 4. If rows left the question open, `auto` asks again about the statements themselves.
//! 5. If that leaves it open too, engines are asked about the part that is understood
//!    ([`crate::part`]).
//!
//! # Invariants
//! - No `holds` and no `violated` leaves this module unless the audit accepted its certificate, or
//!   the caller asked for no audit; the decision says which.
//! - A violation keeps only the findings that the audit accepted.
//! - A decision names the engine that answered, never `auto`.

use std::time::{Duration, Instant};

use margay_audit::{Unaudited, audit_within};
use margay_engines::{Choice, auto};
use margay_history::{History, OpKind, Value, ValueId};
use margay_levels::profile::Dbms;
use margay_verdict::mechanism::Deduced;
use margay_verdict::{Budget, Certificate, Checker, Claim, Finding, Question, Translation, Verdict, Why};

use crate::part::Coverage;
use crate::translate::{first, instead, part, unread};

/// How long other engines may look for a better explanation of a violation that is proved already.
const EXPLANATION_TIME: Duration = Duration::from_millis(300);

/// How to decide.
#[derive(Clone)]
pub struct Options {
    /// The engine.
    pub engine: Choice,
    /// The database whose mechanisms `mirror` verifies, where the history does not name it.
    pub dbms: Option<Dbms>,
    /// Whether certificates are audited. Without it nothing vouches for the answer but the engine.
    pub audit: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { engine: Choice::Auto, dbms: None, audit: true }
    }
}

impl Options {
    /// The defaults with this engine.
    #[must_use]
    pub fn with_engine(engine: Choice) -> Self {
        Self { engine, ..Self::default() }
    }
}

/// What became of the certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Audited {
    /// There is none.
    Nothing,
    /// The caller asked for no audit.
    Skipped,
    /// The audit accepted it.
    Accepted,
    /// The audit rejected the certificates of all engines that had one.
    Rejected,
}

impl Audited {
    /// The word in results and reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Audited::Accepted => "accepted",
            Audited::Rejected => "rejected",
            Audited::Skipped => "skipped",
            Audited::Nothing => "nothing",
        }
    }
}

/// A certificate that the audit rejected: a bug of the engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The engine.
    pub engine: &'static str,
    /// What it claimed: `holds` or `violated`.
    pub claimed: &'static str,
    /// Why the audit rejected it.
    pub reason: String,
}

/// What was decided, by whom, and about what.
#[derive(Debug)]
pub struct Decision {
    /// The engine that answered; none if no engine suits.
    pub engine: Option<&'static str>,
    /// The answer.
    pub verdict: Verdict,
    /// What became of its certificate.
    pub audited: Audited,
    /// The certificates that the audit rejected on the way.
    pub faults: Vec<Fault>,
    /// The history of rows that was decided about, where it was not the given one.
    pub rows: Option<History>,
    /// How much of the given history the answer covers, where it was not asked about as a whole.
    pub coverage: Option<Coverage>,
    /// The dependencies that the engine looked at, if it counts them.
    pub deduced: Option<Deduced>,
    /// The time that all of it took.
    pub took: Duration,
}

impl Decision {
    /// No answer, and why; no engine was asked.
    #[must_use]
    pub fn unknown(why: Why) -> Self {
        Self {
            engine: None,
            verdict: Verdict::Unknown(why),
            audited: Audited::Nothing,
            faults: Vec::new(),
            rows: None,
            coverage: None,
            deduced: None,
            took: Duration::ZERO,
        }
    }

    fn of(engine: &'static str, verdict: Verdict, audited: Audited) -> Self {
        let nothing = Self::unknown(Why::Incomplete(String::new()));
        Self { engine: Some(engine), verdict, audited, ..nothing }
    }

    /// The history that the certificate is about.
    #[must_use]
    pub fn about<'h>(&'h self, given: &'h History) -> &'h History {
        self.rows.as_ref().unwrap_or(given)
    }

    /// What the certificate proves, and by which rules; `None` if there is no certificate.
    #[must_use]
    pub fn claim(&self, given: &History, question: Question) -> Option<Claim> {
        let certificate = self.verdict.certificate()?;
        let rows = self.rows.is_some().then(|| match &self.coverage {
            Some(coverage) => Translation::to_part(question, coverage.is_whole()),
            None => Translation::to_rows(question, certificate),
        });
        Some(Claim::of(self.about(given), question, rows, certificate))
    }

    fn is_open(&self) -> bool {
        matches!(self.verdict, Verdict::Unknown(_))
    }
}

/// Answers `question` about `history`.
#[must_use]
pub fn decide(history: &History, question: Question, options: &Options, budget: &Budget) -> Decision {
    let start = Instant::now();
    let mut decision = match for_dbms(history, question, options) {
        Ok(choice) => {
            whole_or_part(history, choice, Terms { question, audit: options.audit, budget, in_vain: false })
        }
        Err(why) => Decision::unknown(why),
    };
    if hands_over(&decision.verdict)
        && let Some(text) = unread(history)
    {
        decision.verdict = Verdict::Unknown(Why::Outside(text));
    }
    decision.took = start.elapsed();
    decision
}

/// `holds` by a certificate that an engine made before; nothing if the audit does not accept it.
#[must_use]
pub fn accepted(
    history: &History,
    question: Question,
    engine: &'static str,
    certificate: Certificate,
    budget: &Budget,
) -> Option<Decision> {
    let start = Instant::now();
    audit_within(history, question, &certificate, budget)
        .ok()
        .filter(|()| certificate.proves() == "holds")?;
    let decision = Decision::of(engine, Verdict::Holds(certificate), Audited::Accepted);
    Some(Decision { took: start.elapsed(), ..decision })
}

/// The choice, with the mechanisms of the database that the options name.
fn for_dbms(history: &History, question: Question, options: &Options) -> Result<Choice, Why> {
    let Some(dbms) = &options.dbms else { return Ok(options.engine) };
    let choice = options.engine.for_dbms(dbms, history, question.level);
    choice.map_err(|none| Why::Level(none.to_string()))
}

/// What every engine is asked, and within which limits.
#[derive(Clone, Copy)]
struct Terms<'a> {
    question: Question,
    audit: bool,
    budget: &'a Budget,
    /// Whether an order in real time was looked for already, and was not found soon.
    in_vain: bool,
}

fn whole_or_part(history: &History, choice: Choice, terms: Terms<'_>) -> Decision {
    let mut decision = rows_or_statements(history, choice, terms);
    // Mechanisms depend on every statement, and so do instants.
    let partial = !choice.asks_for_dbms() && !choice.is_named("observe") && !terms.question.uses_instants();
    let unclear = history.has_kind(OpKind::Sql) || history.unseen_content().is_some();
    if !partial || !unclear || !hands_over(&decision.verdict) {
        return decision;
    }
    let Some((rows, mut coverage)) = part(history, terms.question.level) else { return decision };
    let mut about_part = ask(&rows, choice, terms);
    about_part.faults.splice(..0, std::mem::take(&mut decision.faults));
    coverage.verdict = about_part.verdict.word();
    if about_part.is_open() {
        decision.faults = about_part.faults;
        return Decision { coverage: Some(coverage), ..decision };
    }
    about_part.verdict = coverage.whole(about_part.verdict);
    if about_part.is_open() {
        about_part.audited = Audited::Nothing;
    }
    Decision { rows: Some(rows), coverage: Some(coverage), ..about_part }
}

fn rows_or_statements(history: &History, choice: Choice, terms: Terms<'_>) -> Decision {
    let (mut faults, mut terms) = (Vec::new(), terms);
    if let (Choice::Auto, Some(engine)) = (choice, first(history)) {
        let decision = first_answer([engine as &dyn Checker], history, terms);
        if !decision.is_open() {
            return decision;
        }
        faults = decision.faults;
        terms.in_vain = true;
    }
    let mut decision = translated(history, choice, terms);
    decision.faults.splice(..0, faults);
    decision
}

fn translated(history: &History, choice: Choice, terms: Terms<'_>) -> Decision {
    let Some(rows) = instead(history, choice, terms.question.level) else {
        return ask(history, choice, terms);
    };
    let mut decision = ask(&rows, choice, terms);
    if decision.is_open() && matches!(choice, Choice::Auto) {
        let mut executed = ask(history, choice, terms);
        if !executed.is_open() {
            executed.faults.splice(..0, decision.faults);
            return executed;
        }
        decision.faults.append(&mut executed.faults);
    }
    decision.rows = Some(rows);
    decision
}

fn ask(history: &History, choice: Choice, terms: Terms<'_>) -> Decision {
    match choice.engine() {
        Some(engine) => first_answer([engine], history, terms),
        None => {
            let mut engines = auto(history, terms.question);
            // What runs rows in the order of real time rarely finds more than what ran statements.
            if terms.in_vain && !terms.question.uses_real_time() {
                engines.sort_by_key(|engine| engine.name() == "follow");
            }
            let engines = engines.into_iter();
            first_answer(engines.map(|engine| engine as &dyn Checker), history, terms)
        }
    }
}

/// Asks one engine after the other until one answers and the audit agrees. If none does, the
/// preferred engine's reason is told.
fn first_answer<'e>(
    engines: impl IntoIterator<Item = &'e dyn Checker>,
    history: &History,
    terms: Terms<'_>,
) -> Decision {
    let (mut faults, mut preferred) = (Vec::new(), None);
    let mut engines = engines.into_iter();
    while let Some(engine) = engines.next() {
        let decision = answered_by(engine, history, terms, &mut faults);
        if is_dead_end(&decision.verdict) {
            let decision = better_explained(decision, engines, history, terms, &mut faults);
            return Decision { faults, ..decision };
        }
        if !hands_over(&decision.verdict) {
            return Decision { faults, ..decision };
        }
        preferred.get_or_insert(decision);
    }
    let preferred = preferred
        .unwrap_or_else(|| Decision::unknown(Why::Level("this version has no engine for it".to_owned())));
    Decision { faults, ..preferred }
}

/// The violation as another engine proves it, if one does soon; else as it is. An engine that
/// proves the opposite shows that one of the two is wrong: then nobody is believed.
fn better_explained<'e>(
    found: Decision,
    engines: impl Iterator<Item = &'e dyn Checker>,
    history: &History,
    terms: Terms<'_>,
    faults: &mut Vec<Fault>,
) -> Decision {
    let budget = terms.budget.clone().at_most(EXPLANATION_TIME);
    let terms = Terms { budget: &budget, ..terms };
    for engine in engines {
        let second = answered_by(engine, history, terms, faults);
        match second.verdict {
            Verdict::Violated(_) => return second,
            Verdict::Holds(_) => {
                let reason = format!("{} proves the opposite", engine.name());
                let engine = found.engine.unwrap_or_default();
                faults.push(Fault { engine, claimed: found.verdict.word(), reason: reason.clone() });
                return Decision::of(engine, Verdict::Unknown(Why::Rejected(reason)), Audited::Rejected);
            }
            Verdict::Clean | Verdict::Unknown(_) => {}
        }
    }
    found
}

/// What one engine says, as far as the audit accepts it.
fn answered_by(
    engine: &dyn Checker,
    history: &History,
    terms: Terms<'_>,
    faults: &mut Vec<Fault>,
) -> Decision {
    let (said, deduced) = said_by(engine, history, terms);
    let (verdict, audited) = audited(engine, history, said, terms, faults);
    Decision { deduced, ..Decision::of(engine.name(), verdict, audited) }
}

fn said_by(engine: &dyn Checker, history: &History, terms: Terms<'_>) -> (Verdict, Option<Deduced>) {
    if let Some(what) = history.unseen_content() {
        return (Verdict::Unknown(Why::Outside(what)), None);
    }
    if !matches!(engine.name(), "observe" | "mirror") && has_unknown_initial(history) {
        return (Verdict::Unknown(Why::Outside("initial values that are not known".to_owned())), None);
    }
    let (verdict, deduced) = engine.check_counting(history, terms.question, terms.budget);
    let verdict = match (verdict, terms.budget.poll()) {
        // Once the budget has ended, that is why there is no answer, whatever the engine lacks.
        (Verdict::Unknown(why), Err(limit)) if !matches!(why, Why::Exhausted(..)) => {
            Verdict::Unknown(Why::Exhausted(limit, String::new()))
        }
        (verdict, _) => verdict,
    };
    (verdict, deduced)
}

/// The verdict as far as the audit accepts it, and what became of its certificate.
fn audited(
    engine: &dyn Checker,
    history: &History,
    verdict: Verdict,
    terms: Terms<'_>,
    faults: &mut Vec<Fault>,
) -> (Verdict, Audited) {
    if verdict.certificate().is_none() {
        return (verdict, Audited::Nothing);
    }
    if !terms.audit {
        return (verdict, Audited::Skipped);
    }
    let claimed = verdict.word();
    let mut exhausted = None;
    let mut passes = |certificate: &Certificate| {
        match audit_within(history, terms.question, certificate, terms.budget) {
            Ok(()) => return true,
            Err(Unaudited::Exhausted(limit)) => exhausted = Some(limit),
            Err(Unaudited::Rejected(why)) => {
                faults.push(Fault { engine: engine.name(), claimed, reason: why.to_string() });
            }
        }
        false
    };
    let accepted = match verdict {
        Verdict::Holds(certificate) => passes(&certificate).then_some(Verdict::Holds(certificate)),
        Verdict::Violated(mut findings) => {
            findings.retain(|finding| passes(&finding.certificate));
            (!findings.is_empty()).then_some(Verdict::Violated(findings))
        }
        other @ (Verdict::Clean | Verdict::Unknown(_)) => return (other, Audited::Nothing),
    };
    match (accepted, exhausted) {
        (Some(verdict), _) => (verdict, Audited::Accepted),
        (None, Some(limit)) => {
            let progress = format!("{} said {claimed}, and the audit had not ended", engine.name());
            (Verdict::Unknown(Why::Exhausted(limit, progress)), Audited::Nothing)
        }
        (None, None) => {
            let reason = faults.last().map_or_else(String::new, |fault| fault.reason.clone());
            (Verdict::Unknown(Why::Rejected(reason)), Audited::Rejected)
        }
    }
}

/// Whether something was there initially whose value nobody knows: most engines would take it for
/// a value.
fn has_unknown_initial(history: &History) -> bool {
    let is_open = |value: ValueId| match history.value(value) {
        Value::Unknown => true,
        Value::Row(columns) => columns.iter().any(|column| column.1 == ValueId::UNKNOWN),
        _ => false,
    };
    history.initial_values().iter().any(|&(_, value)| is_open(value))
}

/// Whether a violation is proved by nothing but that all orders fail: other engines may name it.
fn is_dead_end(verdict: &Verdict) -> bool {
    let dead_end = |finding: &Finding| matches!(finding.certificate, Certificate::DeadEnd(_));
    matches!(verdict, Verdict::Violated(findings) if findings.iter().all(dead_end))
}

/// Whether the next engine is asked.
fn hands_over(verdict: &Verdict) -> bool {
    let Verdict::Unknown(why) = verdict else { return false };
    matches!(why, Why::MissingEvidence(_) | Why::Outside(_) | Why::Level(_) | Why::Rejected(_))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use margay_levels::{Anomaly, Level};
    use margay_verdict::{DeadEnd, Exhausted, Order};

    use super::*;

    /// An engine that always says the same.
    struct Says(&'static str, fn() -> Verdict);

    impl Checker for Says {
        fn name(&self) -> &'static str {
            self.0
        }

        fn check(&self, _: &History, _: Question, _: &Budget) -> Verdict {
            (self.1)()
        }
    }

    static CLEAN: Says = Says("clean", || Verdict::Clean);
    static OUTSIDE: Says = Says("outside", || Verdict::Unknown(Why::Outside("sql".to_owned())));
    static OTHER_LEVEL: Says = Says("level", || Verdict::Unknown(Why::Level("causal".to_owned())));
    static LATE: Says =
        Says("late", || Verdict::Unknown(Why::Exhausted(Exhausted::Time(Duration::ZERO), String::new())));
    /// Its order leaves out the only transaction.
    static WRONG: Says = Says("wrong", || Verdict::Holds(Certificate::Order(Order::default())));

    fn asked(engines: &[&'static dyn Checker]) -> Decision {
        asked_with(true, engines)
    }

    fn asked_with(audit: bool, engines: &[&'static dyn Checker]) -> Decision {
        let history = margay_testkit::history("T1: w(x,1)");
        let (question, budget) = (Question::new(Level::Serializable), Budget::unlimited());
        first_answer(
            engines.iter().copied(),
            &history,
            Terms { question, audit, budget: &budget, in_vain: false },
        )
    }

    #[test]
    fn an_engine_that_cannot_decide_hands_over_and_one_that_ran_out_does_not() {
        assert_eq!(asked(&[&OUTSIDE, &OTHER_LEVEL, &CLEAN]).engine, Some("clean"));
        assert_eq!(asked(&[&LATE, &CLEAN]).engine, Some("late"));
        let none = asked(&[&OUTSIDE, &OTHER_LEVEL]);
        assert_eq!(none.engine, Some("outside"), "the preferred engine's reason is told");
        assert_eq!(asked(&[]).engine, None);
    }

    /// In 0.1.0 the audit stood behind the hand-over: `auto` said `unknown` where the next engine
    /// had a proof.
    #[test]
    fn a_rejected_proof_is_a_fault_and_the_next_engine_is_asked() {
        let decision = asked(&[&WRONG, &CLEAN]);
        assert_eq!((decision.engine, decision.verdict.word()), (Some("clean"), "clean"));
        let [fault] = decision.faults.as_slice() else { panic!("{:?}", decision.faults) };
        assert_eq!((fault.engine, fault.claimed), ("wrong", "holds"));
        let alone = asked(&[&WRONG]);
        assert_eq!(alone.audited, Audited::Rejected);
        assert!(matches!(alone.verdict, Verdict::Unknown(Why::Rejected(_))), "{:?}", alone.verdict);
    }

    fn violated(certificate: Certificate) -> Verdict {
        Verdict::Violated(vec![Finding { anomaly: Anomaly::G2Item, txns: Vec::new(), certificate }])
    }

    static DEAD_END: Says = Says("dead end", || violated(Certificate::DeadEnd(DeadEnd::default())));
    static CYCLE: Says = Says("cycle", || violated(Certificate::Refutation(Vec::new())));

    /// Nothing here is audited: it is about which of two answers is taken.
    #[test]
    fn a_violation_that_only_trying_shows_is_explained_by_others_or_kept() {
        assert_eq!(asked_with(false, &[&DEAD_END, &OUTSIDE, &CYCLE]).engine, Some("cycle"));
        assert_eq!(asked_with(false, &[&DEAD_END, &OUTSIDE, &LATE]).engine, Some("dead end"));
        assert_eq!(asked_with(false, &[&CYCLE, &WRONG]).engine, Some("cycle"));
    }

    /// Two accepted proofs that contradict each other: a false alarm would be the worst of the two
    /// mistakes.
    #[test]
    fn contradicting_proofs_are_no_answer() {
        let decision = asked_with(false, &[&DEAD_END, &WRONG]);
        assert!(matches!(decision.verdict, Verdict::Unknown(Why::Rejected(_))), "{:?}", decision.verdict);
        assert_eq!(decision.faults.len(), 1);
    }
}
