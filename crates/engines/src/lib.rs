//! The registry of engines, and which one to take.
//!
//! This is the only crate that knows all engines; they do not know each other. To add one: a line
//! in [`all`], and, if it should be taken without being asked for, its place in [`auto`].
//!
//! # Algorithm
//! `auto` is a list of engines in order of preference. The crate `margay` asks them in that order.
//!
//! # Invariants
//! - Every engine of [`all`] has a name of [`NAMES`], and no two have the same.
//! - Nothing here asks an engine.

use std::fmt;

use margay_certify::{Certify, Replay};
use margay_follow::Follow;
use margay_history::{History, OpKind, Outcome};
use margay_infer::Infer;
pub use margay_infer::{Ambiguity, Assume, ambiguities, assumed};
use margay_levels::definition::Family;
use margay_levels::profile::{Dbms, NoProfile};
use margay_levels::{Level, UnknownName};
use margay_mirror::{Engine as Mirror, Mechanisms};
use margay_naive::Naive;
use margay_solve::{Solve, SolveWith};
pub use margay_verdict::execution::Reading;
use margay_verdict::last_writes::LastWrites;
use margay_verdict::{Checker, Question};

#[cfg(feature = "sql")]
mod observe;
mod strategies;

#[cfg(feature = "sql")]
pub use observe::{Backend, first_sight, observe_with};
pub use strategies::strategies;

/// An engine of the registry.
pub type Engine = &'static (dyn Checker + Sync);

/// The names of all engines, in the order of the command line.
pub const NAMES: [&str; 8] = ["solve", "follow", "mirror", "certify", "replay", "observe", "infer", "naive"];

/// The engines of this version, in the order in which `auto` prefers them.
#[must_use]
pub fn all() -> &'static [Engine] {
    &[
        #[cfg(feature = "sql")]
        &margay_observe::Observe::DEFAULT,
        &Replay,
        &Certify,
        &Follow,
        &Infer::DEFAULT,
        &Naive,
        &Solve,
        &MIRROR,
    ]
}

/// The mirror takes its mechanisms from the profile that the history names.
const MIRROR: Mirror = Mirror { mechanisms: None, profile: None };

/// Up to so many transactions [`auto`] asks `naive`.
const NAIVE_UP_TO: usize = 8;

/// Up to so many transactions [`auto`] asks `infer` even if it may have no answer.
const INFER_UP_TO: usize = 20_000;

/// From more transactions than this on, [`auto`] asks `follow` about conditions and values that
/// repeat.
const FOLLOW_FROM: usize = 64;

/// From more transactions than this on, [`auto`] asks `follow` about registers too, before `solve`.
const ALWAYS_FOLLOW_FROM: usize = 100_000;

/// Which engine to use.
#[derive(Clone, Copy)]
pub enum Choice {
    /// The one that suits the history and the question.
    Auto,
    /// This one.
    Engine(Engine),
    /// The mirror of a database whose mechanisms do not come from the history.
    Mirror(Mirror),
    /// The engine that executes statements, with options.
    #[cfg(feature = "sql")]
    Observe(margay_observe::Observe),
    /// The engine that searches, with some strategies switched off.
    Solve(SolveWith),
}

/// The mirror of a database with these mechanisms.
#[must_use]
pub fn mirror_of(mechanisms: Mechanisms) -> Choice {
    Choice::Mirror(Mirror { mechanisms: Some(mechanisms), profile: None })
}

impl Choice {
    /// The engine; none if it depends on the history.
    #[must_use]
    pub fn engine(&self) -> Option<&dyn Checker> {
        match self {
            Choice::Auto => None,
            Choice::Engine(engine) => Some(*engine),
            Choice::Mirror(mirror) => Some(mirror),
            #[cfg(feature = "sql")]
            Choice::Observe(observe) => Some(observe),
            Choice::Solve(solve) => Some(solve),
        }
    }

    /// Whether it is the engine of this name.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        self.engine().is_some_and(|engine| engine.name() == name)
    }

    /// Whether it answers for the mechanisms of a database, so that naming one makes sense.
    #[must_use]
    pub fn asks_for_dbms(self) -> bool {
        self.is_named(MIRROR.name())
    }

    /// The same choice for a database that is named with the question.
    ///
    /// # Errors
    /// When no profile fits, or it does not promise the level.
    pub fn for_dbms(self, dbms: &Dbms, history: &History, level: Level) -> Result<Self, NoProfile> {
        if !self.asks_for_dbms() {
            return Ok(self);
        }
        Mirror::of(dbms, history, level).map(Choice::Mirror)
    }
}

/// The engines that may answer, the preferred one first.
///
/// Histories of SQL statements go to the engine that executes them. Where there is evidence, the
/// linear engines that need it come first; they hand over if it is not complete. Conditions, and
/// values that repeat, say little about who saw whom; where there are times, such transactions are
/// run in the order of real time. Then comes the engine that infers: it is linear, it decides lists
/// and the weak levels, it finds most of what is wrong with registers, and it names what it finds
/// as people know it. What it leaves open goes to the definitions themselves if the history is
/// tiny, and else to the engine that searches.
#[must_use]
pub fn auto(history: &History, question: Question) -> Vec<Engine> {
    let suits = |engine: &Engine| match engine.name() {
        // Only its own question is about statements; what it cannot execute may still be read as
        // rows.
        "observe" => history.has_kind(OpKind::Sql),
        "naive" => history.txn_count() <= NAIVE_UP_TO,
        "replay" => has_order(history, question),
        "certify" => has_versions(history),
        "follow" => may_follow(history, question),
        "infer" => may_infer(history, question),
        // It answers for the mechanisms of one database, not for the level as such: only who asks
        // for it gets it.
        "mirror" => false,
        _ => true,
    };
    all().iter().copied().filter(suits).collect()
}

/// Whether inference is worth its time: lists tell the order of their versions, and the weak levels
/// do not need it. Of many registers it tells too little to decide.
fn may_infer(history: &History, question: Question) -> bool {
    let searched = matches!(question.level.family(), Family::Serial | Family::Snapshot);
    !searched || history.has_kind(OpKind::Append) || history.txn_count() <= INFER_UP_TO
}

/// Whether to run the transactions in the order of real time first: where every one has its
/// interval, and conditions say what was seen; or values repeat, and real time counts, so that its
/// answer is final; or there is very much to search. The other engines decide the rest quickly, and
/// name what they find as people know it; so they come first where there are few transactions.
fn may_follow(history: &History, question: Question) -> bool {
    let timed = |txn| match history.outcome(txn) {
        Outcome::Committed => history.start(txn).is_some() && history.end(txn).is_some(),
        Outcome::Unknown => history.start(txn).is_some(),
        Outcome::Aborted => true,
    };
    let conditions = history.has_kind(OpKind::Scan) || history.has_kind(OpKind::Update);
    let searched = matches!(question.level.family(), Family::Serial | Family::Snapshot);
    let large = history.txn_count() > ALWAYS_FOLLOW_FROM && searched && !history.has_kind(OpKind::Append);
    // No other engine of large histories places points at instants.
    if question.uses_instants() {
        return history.txns().all(timed);
    }
    history.txn_count() > FOLLOW_FROM
        && (conditions || large || question.uses_real_time())
        && history.txns().all(timed)
        && (conditions || large || values_repeat(history))
}

/// Whether some value was written to an object twice.
fn values_repeat(history: &History) -> bool {
    let mut writes = Vec::new();
    for txn in history.txns() {
        for op in history.ops(txn).filter(|op| op.kind == OpKind::Write) {
            writes.extend(op.accesses.iter().map(|access| (access.object, access.value, txn)));
        }
    }
    !LastWrites::of(history.object_count(), &writes).are_unique()
}

/// Whether timestamps may order everything, at this level.
fn has_order(history: &History, question: Question) -> bool {
    let evidence = history.evidence();
    match question.level.family() {
        Family::Snapshot => !evidence.snapshots.is_empty() && !evidence.commits.is_empty(),
        _ => !evidence.serializations.is_empty(),
    }
}

/// Whether something may order the versions, or say which were seen.
fn has_versions(history: &History) -> bool {
    let evidence = history.evidence();
    !(evidence.version_orders.is_empty() && evidence.version_sets.is_empty() && evidence.commits.is_empty())
}

/// The database of this name, a simulated one among them.
///
/// # Errors
/// When there is no profile of it.
pub fn dbms(name: &str) -> Result<Dbms, UnknownName> {
    match margay_mirror::simulated(name) {
        Some(_) => Ok(Dbms::Named(name.to_owned())),
        None => Dbms::named(name),
    }
}

/// The choice of this name: `auto` or an engine's.
///
/// # Errors
/// When this version has no such engine.
pub fn by_name(name: &str) -> Result<Choice, NoEngine> {
    if name == "auto" {
        return Ok(Choice::Auto);
    }
    match all().iter().find(|engine| engine.name() == name) {
        Some(&engine) => Ok(Choice::Engine(engine)),
        None if NAMES.contains(&name) => Err(NoEngine::NotYet(name.to_owned())),
        None => {
            Err(NoEngine::Unknown(UnknownName::among("engine", name, std::iter::once("auto").chain(NAMES))))
        }
    }
}

/// Why there is no such engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoEngine {
    /// It is planned, but not in this version.
    NotYet(String),
    /// Nothing has this name.
    Unknown(UnknownName),
}

impl fmt::Display for NoEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let present = || all().iter().map(|engine| engine.name()).collect::<Vec<_>>().join(", ");
        match self {
            NoEngine::NotYet(name) => {
                write!(f, "the engine {name} is not in this version; there are: auto, {}", present())
            }
            NoEngine::Unknown(unknown) if unknown.nearest.is_empty() => {
                write!(f, "{unknown}; there are: auto, {}", present())
            }
            NoEngine::Unknown(unknown) => write!(f, "{unknown}"),
        }
    }
}

impl std::error::Error for NoEngine {}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_engine_is_found_by_its_own_pinned_name() {
        let mut seen = HashSet::new();
        for engine in all() {
            let name = engine.name();
            assert!(NAMES.contains(&name) && seen.insert(name), "{name}");
            assert!(matches!(by_name(name), Ok(Choice::Engine(found)) if found.name() == name));
        }
        assert!(matches!(by_name("auto"), Ok(Choice::Auto)));
    }

    #[test]
    fn what_is_not_there_says_what_is() {
        let Err(error) = by_name("naiv") else { panic!("there is no such engine") };
        assert_eq!(error.to_string(), "unknown engine `naiv`; did you mean naive?");
        let Err(error) = by_name("warp-drive") else { panic!("there is no such engine") };
        assert!(error.to_string().contains("there are: auto"), "{error}");
        for name in NAMES.iter().filter(|name| !all().iter().any(|engine| engine.name() == **name)) {
            assert_eq!(by_name(name).err(), Some(NoEngine::NotYet((*name).to_owned())));
        }
    }
}
