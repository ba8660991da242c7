//! How far a proof reaches: what it says about other levels, and about Elle's models.
//!
//! # Problem
//! A finding proves that the level in question is violated. People want to know which other levels
//! are violated too. The name of the anomaly does not tell: a cycle through session order refutes
//! no level without sessions, and of several cycles each may refute less than the first.
//!
//! # Algorithm
//! A level is broken if the audit accepts the finding's certificate as a proof against it, or if it
//! implies a level that is broken. Levels are asked weakest first, and only those that the shape of
//! the proof can refute. One of Elle's models that is no level is ruled out if it implies a broken
//! level, or if it forbids every cycle of the proof.
//!
//! # Invariants
//! - Nothing is claimed that the audit did not accept. What is not claimed may still be violated.
//! - Every output takes from here which levels it names as broken.

use margay_history::{History, ObjectId};
use margay_levels::definition::Family;
use margay_levels::model::Boundary;
use margay_levels::{Anomaly, Level, Model};
use margay_verdict::execution::Reading;
use margay_verdict::{Budget, Certificate, Edge, Finding, Lemma, Question, Reason, Translation};

use crate::{Unaudited, audit_within};

/// What a finding says about levels and models.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reach {
    /// The levels that the proof refutes, weakest first.
    pub broken: Vec<Level>,
    /// The levels that were asked about and that the proof does not refute, weakest first.
    pub left: Vec<Level>,
    /// Elle's models that the proof refutes.
    pub models: Vec<Model>,
    /// The anomaly that the finding is.
    pub anomaly: Option<Anomaly>,
}

/// What an audited finding says about levels and models. `question` is what was asked. Once the
/// budget has ended, nothing more is claimed.
#[must_use]
pub fn reach(
    history: &History,
    question: Question,
    finding: &Finding,
    translation: Translation,
    budget: &Budget,
) -> Reach {
    let proof = Proof { history, question, certificate: &finding.certificate, translation, budget };
    let (broken, left) = proof.levels();
    let models = Model::ALL.iter().copied().filter(|&model| proof.refutes(model, &broken)).collect();
    Reach { broken, left, models, anomaly: Some(finding.anomaly) }
}

impl Reach {
    /// The weakest levels that are broken.
    #[must_use]
    pub fn weakest(&self) -> Vec<Level> {
        let weakest =
            |level: &Level| !self.broken.iter().any(|other| other != level && level.implies(*other));
        self.broken.iter().copied().filter(weakest).collect()
    }

    /// The models that Elle rules out by an anomaly of this name, as far as they are refuted. An
    /// anomaly that Elle does not know rules out all that are refuted.
    fn in_elles_words(&self) -> impl Iterator<Item = Model> {
        let anomaly = self.anomaly;
        let prohibits = move |model: Model| anomaly.is_some_and(|anomaly| model.prohibits(anomaly));
        let known = Model::ALL.iter().any(|&model| prohibits(model));
        let named = |model: &Model| !model.prohibited_anomalies().is_empty();
        self.models.iter().copied().filter(named).filter(move |&model| !known || prohibits(model))
    }
}

/// The models that findings rule out: Elle's `:not` and `:also-not`.
#[must_use]
pub fn boundary<'a>(reaches: impl IntoIterator<Item = &'a Reach>) -> Boundary {
    Boundary::of(reaches.into_iter().flat_map(Reach::in_elles_words))
}

struct Proof<'a> {
    history: &'a History,
    question: Question,
    certificate: &'a Certificate,
    translation: Translation,
    budget: &'a Budget,
}

impl Proof<'_> {
    /// Whether the audit accepts the certificate as an answer to a question; `None` if there was no
    /// time to ask.
    fn accepted(&self, question: Question) -> Option<bool> {
        match audit_within(self.history, question, self.certificate, self.budget) {
            Ok(()) => Some(true),
            Err(Unaudited::Rejected(_)) => Some(false),
            Err(Unaudited::Exhausted(_)) => None,
        }
    }

    /// The levels that are broken, and those that are not ruled out.
    fn levels(&self) -> (Vec<Level>, Vec<Level>) {
        let (mut broken, mut left) = (Vec::new(), Vec::new());
        if matches!(self.certificate, Certificate::Intervals(_)) {
            return (broken, left);
        }
        for level in Level::ALL.into_iter().filter(|&level| self.stands_for(level)) {
            let implied = broken.iter().any(|&weaker| level.implies(weaker));
            match self.asked(level) {
                _ if implied => broken.push(level),
                Some(true) => broken.push(level),
                Some(false) => left.push(level),
                None => {}
            }
        }
        (broken, left)
    }

    /// Whether statements were translated as if each transaction saw one state.
    fn one_state(&self) -> bool {
        self.translation.is_stable()
    }

    /// Whether the history stands for what a level asks about: one that was translated as if each
    /// transaction saw one state only where that is so.
    fn stands_for(&self, level: Level) -> bool {
        !self.one_state() || matches!(level.family(), Family::Serial | Family::Snapshot)
    }

    /// Whether the audit accepts the certificate as a proof against a level; `None` if that would
    /// take a search.
    fn asked(&self, level: Level) -> Option<bool> {
        let question = Question::new(level);
        match self.certificate {
            Certificate::Unexplained(unexplained) => {
                // One state for each statement is more than the level's definition asks for; what
                // contradicts that contradicts the levels where each transaction sees one state.
                let more = self.question.real_time
                    || self.question.uses_instants()
                    || unexplained.reading == Reading::Statement;
                let one_state = matches!(level.family(), Family::Serial | Family::Snapshot);
                let implied = level.implies(self.question.level)
                    && !self.question.uses_instants()
                    && (!self.question.real_time || level.real_time())
                    && (unexplained.reading == Reading::Item || one_state);
                (implied || level == self.question.level && !more).then_some(true)
            }
            _ if question == self.question => Some(true),
            Certificate::Invariant(_) => self.accepted(question),
            Certificate::Refutation(lemmas) => {
                let may = lemmas.iter().all(|lemma| may_refute(level, lemma));
                if may { self.accepted(question) } else { Some(false) }
            }
            Certificate::Operations { anomaly, .. } => {
                if may_show(level, *anomaly) {
                    self.accepted(question)
                } else {
                    Some(false)
                }
            }
            _ => Some(false),
        }
    }

    /// Whether the proof refutes a model, given the levels that it refutes.
    fn refutes(&self, model: Model, broken: &[Level]) -> bool {
        if let Some(level) = model.meaning() {
            return broken.contains(&level);
        }
        let stronger = |other: &Model| other.level().is_some_and(|level| broken.contains(&level));
        Model::ALL.iter().any(|other| model.implies(*other) && stronger(other))
            || !self.one_state() && (self.nobody_allows() || self.refutes_without_level(model, broken))
    }

    /// Values that nobody wrote: no model whatsoever explains them.
    fn nobody_allows(&self) -> bool {
        let anomalies = [Anomaly::GarbageRead, Anomaly::DuplicateElements];
        matches!(self.certificate, Certificate::Operations { anomaly, .. } if anomalies.contains(anomaly))
    }

    fn refutes_without_level(&self, model: Model, broken: &[Level]) -> bool {
        let Certificate::Refutation(lemmas) = self.certificate else { return false };
        if let Some(level) = model.without_sessions() {
            return broken.contains(&level) && !lemmas.iter().any(|lemma| lemma.uses(is_session));
        }
        if !model.implies(Model::ReadCommitted) {
            return self.refutes_writes(model, lemmas);
        }
        // At read-uncommitted a proof knows less of what reads saw, so it stands at all levels.
        lemmas.iter().all(|lemma| forbids(self.history, model, lemma))
    }

    /// Elle's read-uncommitted with session order, or with real time.
    fn refutes_writes(&self, model: Model, lemmas: &[Lemma]) -> bool {
        let timed = lemmas.iter().any(|lemma| lemma.uses(is_real_time));
        let known = match model {
            Model::StrongSessionReadUncommitted => !timed,
            Model::StrongReadUncommitted => true,
            _ => return false,
        };
        let question = Question { real_time: true, ..Question::new(Level::ReadUncommitted) };
        known && self.accepted(question) == Some(true)
    }
}

/// Whether a model that is at least read-committed forbids the cycle, whatever the level in
/// question: by its shape, or because it is a lost update.
fn forbids(history: &History, model: Model, lemma: &Lemma) -> bool {
    let foreign = |reason: &Reason| matches!(reason, Reason::Visible { .. } | Reason::Recorded(_));
    !lemma.uses(foreign)
        && (model.prohibits(lemma.anomaly(history))
            || is_lost_update(lemma) && model.prohibits(Anomaly::LostUpdate)
            || is_of_updates(history, lemma) && model.prohibits(Anomaly::GUpdate))
}

/// A cycle of dependencies among transactions of which all but one write.
fn is_of_updates(history: &History, lemma: &Lemma) -> bool {
    let writes = |edge: &&Edge| history.ops(edge.from).any(|op| op.kind.writes() && !op.accesses.is_empty());
    let readers = lemma.edges.len() - lemma.edges.iter().filter(writes).count();
    readers <= 1 && !lemma.uses(is_session) && !lemma.uses(is_real_time)
}

/// A cycle of one anti-dependency and write dependencies of one and the same object.
fn is_lost_update(lemma: &Lemma) -> bool {
    let object = |edge: &Edge| -> Option<ObjectId> {
        match edge.reason {
            Reason::Write { object } | Reason::AntiRead { object, .. } => Some(object),
            _ => None,
        }
    };
    let first = lemma.edges.first().and_then(object);
    let antis = lemma.edges.iter().filter(|edge| edge.reason.is_anti()).count();
    first.is_some() && antis == 1 && lemma.edges.iter().all(|edge| object(edge) == first)
}

fn is_session(reason: &Reason) -> bool {
    *reason == Reason::Session
}

fn is_real_time(reason: &Reason) -> bool {
    *reason == Reason::RealTime
}

/// Whether a level can forbid a cycle at all, by the kinds of its edges: what is certain without a
/// look at the history. The audit has the last word.
fn may_refute(level: Level, lemma: &Lemma) -> bool {
    let antis = lemma.edges.iter().filter(|edge| edge.reason.is_anti()).count();
    let axiomatic = matches!(level, Level::BeReadCommitted | Level::ReadAtomic | Level::Causal);
    let orders = (level.session_order() || !lemma.uses(is_session))
        && (level.real_time() || !lemma.uses(is_real_time));
    let shape = match level {
        Level::ReadUncommitted => antis == 0 && !lemma.uses(Reason::is_read),
        Level::ReadCommitted => antis == 0,
        Level::ParallelSnapshot | Level::BeReadCommitted | Level::ReadAtomic | Level::Causal => antis <= 1,
        _ => true,
    };
    orders && shape && (axiomatic || !lemma.uses(|reason| matches!(reason, Reason::Visible { .. })))
}

/// Whether a level can forbid what single operations show.
fn may_show(level: Level, anomaly: Anomaly) -> bool {
    level != Level::ReadUncommitted || matches!(anomaly, Anomaly::GarbageRead | Anomaly::DuplicateElements)
}
