//! Whether what is in memory has no order, whatever was there before.
//!
//! # Problem
//! No order continues the settled state. But settling was a choice: another order of what is
//! settled may have left another state.
//!
//! # Algorithm
//! Forget the state: the objects that have no order may have held anything before the transactions
//! that are not settled. The audit's search for dead ends allows for that. Transactions that began
//! before the last settled one had ended may have taken effect among the settled ones, and have an
//! unknown outcome here. If the rest has no order, the whole history has none.
//!
//! # Limits
//! What no read tells about an object that may have held anything is not held against anyone.

use margay_audit::dead_end;
use margay_history::{Access, History, HistoryBuilder, ObjectId, Op, OpKind, Outcome, TxnId, ValueId};
use margay_verdict::{Budget, Certificate, DeadEnd, Finding, Question};

/// The transactions of a window that concern some objects; all that is settled had ended by
/// `settled`.
pub(crate) struct Window<'h> {
    pub part: &'h History,
    pub objects: &'h [ObjectId],
    pub settled: i64,
}

impl Window<'_> {
    /// The window on objects that may have held anything, if it has no order; and the proof of
    /// that.
    pub fn without_order(
        &self,
        question: Question,
        found: &Finding,
        budget: &Budget,
    ) -> Option<(History, Finding)> {
        let window = self.history()?;
        let txns = dead_end(&window, question, self.objects, budget).ok()??;
        let mut shown = txns.clone();
        shown.sort_unstable();
        let certificate = Certificate::DeadEnd(DeadEnd { objects: self.objects.to_vec(), txns });
        Some((window, Finding { anomaly: found.anomaly, txns: shown, certificate }))
    }

    fn history(&self) -> Option<History> {
        let mut builder = HistoryBuilder::like(self.part);
        builder.keep_initial(|_| false);
        let mut objects = self.objects.iter();
        objects.try_for_each(|&object| builder.initial(object, ValueId::UNKNOWN)).ok()?;
        // The objects may have held anything, so nobody stands in for what may have changed them.
        let is_real = |txn: &TxnId| crate::perhaps::number(self.part.txn_label(*txn)).is_none();
        let concerns = |&txn: &TxnId| self.part.ops(txn).any(|op| self.concerns(&op));
        let mut txns = self.part.txns().filter(is_real).filter(concerns);
        txns.try_for_each(|txn| self.copy(txn, &mut builder))?;
        builder.finish().ok()
    }

    /// Whether an operation is about the objects.
    fn concerns(&self, op: &Op<'_>) -> bool {
        let part = self.part;
        let scanned = part.scan(op.id).map(|scan| scan.predicate);
        let searched = scanned.or_else(|| part.update(op.id).map(|update| update.predicate));
        let table = searched.map(|predicate| part.predicate(predicate).table);
        let in_table = |&object: &ObjectId| part.object(object).table == table;
        op.accesses.iter().any(|access| self.objects.contains(&access.object))
            || table.is_some() && self.objects.iter().any(in_table)
    }

    /// Copies what a transaction has to do with the objects.
    fn copy(&self, txn: TxnId, builder: &mut HistoryBuilder) -> Option<()> {
        let part = self.part;
        let must = part.outcome(txn) == Outcome::Committed && part.start(txn)? > self.settled;
        let (session, label) = (part.session_label(part.session_of(txn)), part.txn_label(txn));
        for op in part.ops(txn).filter(|op| must || op.kind.outcome().is_none()) {
            if op.kind == OpKind::Begin || op.kind.outcome().is_some() || self.concerns(&op) {
                let kept = |access: &&Access| self.objects.contains(&access.object);
                let accesses: Vec<Access> = op.accesses.iter().filter(kept).copied().collect();
                let observed = part.scan(op.id).is_some_and(|scan| scan.observed)
                    || part.update(op.id).is_some_and(|update| update.observed);
                builder.push(session, label, op.at, op.kind, &accesses, part.detail(op, observed)).ok()?;
            }
        }
        Some(())
    }
}
