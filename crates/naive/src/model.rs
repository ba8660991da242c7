//! One question about one history, prepared: who may have committed, what must come before what,
//! and how much work is left.

use std::cell::Cell;

use hashbrown::{HashMap, HashSet};
use margay_history::{History, ObjectId, OpKind, Outcome, TxnId, Version};
use margay_levels::Level;
use margay_verdict::{Budget, Question, Why};

use crate::meaning::{Meaning, Outside};

/// A question about a history.
pub struct Model<'a> {
    /// The history.
    pub history: &'a History,
    /// What its operations mean.
    pub meaning: Meaning<'a>,
    /// The question.
    pub question: Question,
    /// What may be used.
    pub budget: &'a Budget,
    /// Steps that are left.
    steps: Cell<u64>,
    /// What evidence says of the order of one object's versions: `a` before `b`.
    version_pairs: HashMap<ObjectId, HashSet<(TxnId, TxnId)>>,
}

/// The steps after which a history is too large for this engine: about a minute of work.
const STEPS: u64 = 30_000_000;

/// Larger histories are not looked at: the definitions ask about every pair of operations, between
/// two looks at the budget.
const MAX_OPERATIONS: usize = 4096;

/// Why a search ended without an answer.
pub enum Stop {
    /// For the caller.
    Why(Why),
}

impl From<Outside> for Stop {
    fn from(outside: Outside) -> Self {
        Stop::Why(Why::Outside(outside.0))
    }
}

/// The outcome of a search that can end without an answer.
pub type Search<T> = Result<T, Stop>;

impl<'a> Model<'a> {
    /// The model of a question.
    pub fn new(history: &'a History, question: Question, budget: &'a Budget) -> Search<Self> {
        if let Some(op) = history.txns().flat_map(|t| history.ops(t)).find(|op| op.kind == OpKind::Sql) {
            let text = history.statement(op.id).map_or("", |s| &*s.text);
            return Err(Stop::Why(Why::Outside(format!("the SQL statement `{text}`"))));
        }
        if history.op_count() > MAX_OPERATIONS {
            return Err(Stop::Why(Why::Outside(format!(
                "a history of more than {MAX_OPERATIONS} operations"
            ))));
        }
        Ok(Self {
            history,
            meaning: Meaning::new(history),
            question,
            budget,
            steps: Cell::new(STEPS),
            version_pairs: version_pairs(history),
        })
    }

    /// Takes one step of a search.
    pub fn step(&self) -> Search<()> {
        self.budget.poll().map_err(|limit| Stop::Why(Why::Exhausted(limit, String::new())))?;
        match self.steps.get().checked_sub(1) {
            Some(left) => {
                self.steps.set(left);
                Ok(())
            }
            None => Err(Stop::Why(Why::Outside(format!(
                "a history that takes more than {STEPS} steps of plain enumeration"
            )))),
        }
    }

    /// Whether evidence puts `a`'s version of the object before `b`'s.
    pub fn version_before(&self, object: ObjectId, a: TxnId, b: TxnId) -> bool {
        let evidence = self.history.evidence();
        let commits = (evidence.commit(a), evidence.commit(b));
        matches!(commits, (Some(a), Some(b)) if a < b)
            || self.version_pairs.get(&object).is_some_and(|pairs| pairs.contains(&(a, b)))
    }

    /// Whether `a` must come before `b` by session order or real time, as far as the question
    /// counts them.
    pub fn precedes(&self, a: TxnId, b: TxnId) -> bool {
        let same_session = self.history.session_of(a) == self.history.session_of(b);
        self.question.uses_session_order() && same_session && a < b
            || self.question.uses_real_time() && self.history.precedes(a, b)
    }

    /// Whether the level is one of the snapshot levels.
    pub fn is_snapshot(&self) -> bool {
        self.question.level.family() == margay_levels::definition::Family::Snapshot
    }

    /// Whether the level is one of the serializable levels.
    pub fn is_serial(&self) -> bool {
        self.question.level.family() == margay_levels::definition::Family::Serial
    }

    /// Every set of transactions that may be the committed ones: those that did, and any of those
    /// whose outcome is unknown. Larger sets come last.
    pub fn committed_sets(&self) -> impl Iterator<Item = Vec<TxnId>> + use<> {
        let with =
            |outcome| self.history.txns().filter(|&t| self.history.outcome(t) == outcome).collect::<Vec<_>>();
        let (committed, unknown) = (with(Outcome::Committed), with(Outcome::Unknown));
        let count = if self.question.level == Level::ReadUncommitted { 0 } else { unknown.len().min(32) };
        (0_u64..1 << count).map(move |mask| {
            let taken = unknown.iter().enumerate().filter(|&(i, _)| mask >> i & 1 == 1).map(|(_, &t)| t);
            let mut all: Vec<TxnId> = committed.iter().copied().chain(taken).collect();
            all.sort_unstable();
            all
        })
    }
}

fn version_pairs(history: &History) -> HashMap<ObjectId, HashSet<(TxnId, TxnId)>> {
    let mut pairs: HashMap<_, HashSet<_>> = HashMap::new();
    for order in &history.evidence().version_orders {
        let txns: Vec<TxnId> = order
            .versions
            .iter()
            .filter_map(|v| if let Version::Of(t) = v { Some(*t) } else { None })
            .collect();
        let into = pairs.entry(order.object).or_default();
        for (i, &a) in txns.iter().enumerate() {
            into.extend(txns[i + 1..].iter().map(|&b| (a, b)));
        }
    }
    pairs
}
