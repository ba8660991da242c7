//! What is known before any graph is made: who committed, who wrote what in which order, and what
//! each write makes of a value.

use margay_history::{History, ObjectId, OpId, OpKind, TxnId, Version};
use margay_verdict::cell::{fold, observed_matches};
use margay_verdict::{Cell, Effect, Outside, Predicates};

use crate::chain::Chain;
use crate::orders::Orders;
use crate::touches::{Touch, Touches, strand};

/// A history with a complete version certificate.
pub(crate) struct World<'a> {
    pub history: &'a History,
    pub predicates: &'a Predicates<'a>,
    pub taken: &'a [bool],
    pub touches: &'a Touches,
    pub orders: Orders,
}

impl<'a> World<'a> {
    /// The version of an object that evidence says an operation saw.
    pub fn recorded(&self, op: OpId, object: ObjectId) -> Option<Version> {
        if self.history.evidence().version_sets.is_empty() {
            return None;
        }
        let set = self.history.evidence().version_set(op)?;
        set.versions.iter().find(|v| v.0 == object).map(|v| v.1)
    }

    /// The values of an object's versions.
    pub fn chain(&self, object: ObjectId) -> Result<Chain, Outside> {
        let touches = self.touches.of(object);
        let grows = touches.iter().filter(|t| t.kind.writes()).all(|t| t.kind == OpKind::Append);
        let mut chain = Chain::new(self.history, object, grows);
        let mut own = Vec::new();
        for &txn in self.orders.of(object) {
            own.clear();
            for touch in strand(self.history, touches, txn) {
                self.extend(object, &chain, touch, &mut own)?;
            }
            chain.push(self.history, &own);
        }
        Ok(chain)
    }

    /// Adds what a touch does to the object, if it writes.
    pub fn extend(
        &self,
        object: ObjectId,
        chain: &Chain,
        touch: &Touch,
        own: &mut Vec<Effect>,
    ) -> Result<(), Outside> {
        if touch.kind.writes() {
            own.push(self.effect(object, chain, touch, own)?);
        }
        Ok(())
    }

    fn effect(
        &self,
        object: ObjectId,
        chain: &Chain,
        touch: &Touch,
        own: &[Effect],
    ) -> Result<Effect, Outside> {
        let &Touch { op, txn, value, kind } = touch;
        match kind {
            OpKind::Append => Ok(Effect::Append(value)),
            OpKind::Update => {
                let set = self.history.update(op).and_then(|update| update.set.as_deref());
                self.predicates.assign(set, object, &self.updates(object, chain, txn, op, own))
            }
            _ if self.history.object(object).table.is_some() => Ok(Effect::Merge(value)),
            _ => Ok(Effect::Put(value)),
        }
    }

    /// What an update computes from: its transaction's own writes, the recorded version, or the one
    /// before its own.
    fn updates(&self, object: ObjectId, chain: &Chain, txn: TxnId, op: OpId, own: &[Effect]) -> Cell {
        if !own.is_empty() {
            return self.own_view(object, chain, txn, own);
        }
        let mine = self.orders.rank(object, txn).unwrap_or(1);
        let recorded = self.recorded(op, object).and_then(|v| self.orders.rank_of(object, v));
        chain.cell(recorded.filter(|&rank| rank < mine).unwrap_or(mine - 1)).into_owned()
    }

    /// The version before the transaction's own, with its own writes so far on top.
    pub fn own_view(&self, object: ObjectId, chain: &Chain, txn: TxnId, own: &[Effect]) -> Cell {
        if let [.., Effect::Put(value)] = own {
            return Cell::Value(*value);
        }
        let before = self.orders.rank(object, txn).map_or(0, |rank| rank - 1);
        let base = chain.cell(before).into_owned();
        own.iter().fold(base, |cell, effect| fold(self.history, cell, effect))
    }

    /// Whether the client can have seen what it recorded of an object that the operation returned,
    /// if it held `cell`.
    pub fn fits(&self, object: ObjectId, touch: &Touch, cell: &Cell) -> Result<bool, Outside> {
        let &Touch { op, value, kind, .. } = touch;
        match kind {
            OpKind::Scan => {
                // Values are compared sooner than conditions are evaluated.
                if !observed_matches(self.history, object, value, cell) {
                    return Ok(false);
                }
                match self.history.scan(op).filter(|scan| scan.observed) {
                    Some(scan) => self.predicates.matches(scan.predicate, object, cell),
                    None => Ok(true),
                }
            }
            OpKind::Update => {
                let Some(update) = self.history.update(op) else { return Ok(true) };
                if !self.predicates.matches(update.predicate, object, cell)? {
                    return Ok(false);
                }
                let effect = self.predicates.assign(update.set.as_deref(), object, cell)?;
                let new = fold(self.history, cell.clone(), &effect);
                Ok(observed_matches(self.history, object, value, &new))
            }
            _ => Ok(observed_matches(self.history, object, value, cell)),
        }
    }
}
