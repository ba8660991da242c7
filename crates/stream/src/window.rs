//! Whether what is in memory has no order, whatever was there before.
//!
//! # Problem
//! No order continues the settled state. But settling was a choice: another order of what is settled may have left
//! another state.
//!
//! # Algorithm
//! Forget the state. Of the objects that have no order, take the transactions that are not settled, and let the objects
//! hold at first whatever reads of them saw, in all combinations: what nobody saw explains nothing. The audit's search
//! for dead ends looks at each. Transactions that began before the last settled one had ended may have taken effect
//! among the settled ones, and have an unknown outcome here. If no state has an order, the whole history has none.
//!
//! # Limits
//! Objects that are read and written as a whole. What lists and rows can have held before is not guessed.

use margay_audit::dead_end;
use margay_history::{
    Access, History, HistoryBuilder, ObjectId, OpDetail, OpKind, Outcome, TxnId, Value, ValueId,
};
use margay_verdict::{Budget, Question};

/// How many states may have been there.
const MOST_STATES: usize = 256;

/// The transactions of a window that concern some objects; all that is settled had ended by `settled`.
pub(crate) struct Window<'h> {
    pub part: &'h History,
    pub objects: &'h [ObjectId],
    pub settled: i64,
}

impl Window<'_> {
    /// The window on the settled state, if it has no order on any state.
    pub fn without_order(&self, question: Question, budget: &Budget) -> Option<History> {
        let states = self.states()?;
        let mut settled = None;
        for state in states {
            let window = self.on(&state)?;
            dead_end(&window, question, self.objects, budget).ok()??;
            settled.get_or_insert(window);
        }
        settled
    }

    /// What the objects can have held, the settled state first.
    fn states(&self) -> Option<Vec<Vec<ValueId>>> {
        let mut states = vec![Vec::new()];
        for &object in self.objects {
            let values = self.values(object)?;
            let with = |state: &Vec<ValueId>| -> Vec<Vec<ValueId>> {
                values.iter().map(|&value| state.iter().copied().chain([value]).collect()).collect()
            };
            states = states.iter().flat_map(with).collect();
            if states.len() > MOST_STATES {
                return None;
            }
        }
        Some(states)
    }

    /// What an object can have held: what is settled, nothing, or what was read.
    fn values(&self, object: ObjectId) -> Option<Vec<ValueId>> {
        let mut values = vec![self.part.initial(object), ValueId::NULL];
        for op in self.part.txns().flat_map(|txn| self.part.ops(txn)) {
            for access in op.accesses.iter().filter(|access| access.object == object) {
                let composed = matches!(self.part.value(access.value), Value::Row(_) | Value::List(_));
                if composed || !matches!(op.kind, OpKind::Read | OpKind::Write) {
                    return None;
                }
                if op.kind == OpKind::Read && access.value != ValueId::UNKNOWN {
                    values.push(access.value);
                }
            }
        }
        let mut seen = hashbrown::HashSet::new();
        values.retain(|&value| seen.insert(value));
        self.part.object(object).table.is_none().then_some(values)
    }

    /// The history of the objects on a state.
    fn on(&self, state: &[ValueId]) -> Option<History> {
        let mut builder = HistoryBuilder::like(self.part);
        builder.keep_initial(|_| false);
        let there = self.objects.iter().zip(state).filter(|(_, value)| **value != ValueId::NULL);
        there.into_iter().try_for_each(|(&object, &value)| builder.initial(object, value)).ok()?;
        self.part.txns().try_for_each(|txn| self.copy(txn, &mut builder))?;
        builder.finish().ok()
    }

    fn copy(&self, txn: TxnId, builder: &mut HistoryBuilder) -> Option<()> {
        let part = self.part;
        let concerns = |access: &Access| self.objects.contains(&access.object);
        if !part.ops(txn).any(|op| op.accesses.iter().any(concerns)) {
            return Some(());
        }
        let must = part.outcome(txn) == Outcome::Committed && part.start(txn)? > self.settled;
        let (session, label) = (part.session_label(part.session_of(txn)), part.txn_label(txn));
        for op in part.ops(txn).filter(|op| must || op.kind.outcome().is_none()) {
            let accesses: Vec<Access> = op.accesses.iter().copied().filter(concerns).collect();
            if op.kind == OpKind::Begin || op.kind.outcome().is_some() || !accesses.is_empty() {
                builder.push(session, label, op.at, op.kind, &accesses, OpDetail::None).ok()?;
            }
        }
        Some(())
    }
}
