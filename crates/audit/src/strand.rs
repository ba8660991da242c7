//! One object in one operation: whether the client can have seen what it recorded of this object,
//! and what the operation does to it.
//!
//! Conditions and assignments look at one row only, so scans and updates come apart into their
//! objects. That lets each read choose its version object by object, as the levels below snapshots
//! allow.

use hashbrown::HashSet;
use margay_history::{Access, History, NameId, ObjectId, Op, OpId, OpKind, TxnId, Value, ValueId};
use margay_verdict::cell::{fold, key_column, observed_matches};
use margay_verdict::state::plain_effect;
use margay_verdict::{Cell, Effect, Fault, Mismatch, Outside, Predicates, statement_outside};

use super::{Rejected, reject};

/// That an operation touches an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Touch {
    pub(super) object: ObjectId,
    pub(super) op: OpId,
    pub(super) txn: TxnId,
    pub(super) kind: OpKind,
    /// Which of the operation's accesses it is; none for an object that a scan or an update looked
    /// at and left out.
    access: u32,
}

const LEFT_OUT: u32 = u32::MAX;

impl Touch {
    /// What the client saw or wrote; `None` for an object that was left out.
    pub(super) fn access<'h>(&self, op: &Op<'h>) -> Option<&'h Access> {
        op.accesses.get(self.access as usize)
    }

    /// Whether it makes a new version of the object.
    pub(super) fn writes(&self) -> bool {
        self.kind.writes() && !self.left_out()
    }

    /// By object, and then as it happened.
    pub(super) fn place(&self) -> (ObjectId, OpId, u32) {
        (self.object, self.op, self.access)
    }

    /// Whether the object was looked at and left out.
    pub(super) fn left_out(&self) -> bool {
        self.access == LEFT_OUT
    }
}

/// Adds every touch of a transaction.
pub(super) fn touches(
    predicates: &Predicates<'_>,
    txn: TxnId,
    into: &mut Vec<Touch>,
) -> Result<(), Rejected> {
    let history = predicates.history();
    for op in history.ops(txn) {
        predicates.budget().poll()?;
        let range = match op.kind {
            OpKind::Scan => history.scan(op.id).filter(|scan| scan.observed).map(|scan| scan.predicate),
            OpKind::Update => match history.update(op.id) {
                Some(update) if update.observed => Some(update.predicate),
                _ => {
                    return reject(format!(
                        "{} updates rows that were not recorded: only a replay can tell which",
                        history.show_txn(txn)
                    ));
                }
            },
            OpKind::Sql => match predicates.summary(op.id) {
                Some(asked) => Some(asked.predicate).filter(|_| predicates.is_answered(op.id)),
                None => return Err(statement_outside(history, &op).into()),
            },
            _ => None,
        };
        let touch = |object, access| Touch { object, op: op.id, txn, kind: op.kind, access };
        let all = 0..op.accesses.len() as u32;
        let seen =
            all.filter(|&i| op.kind != OpKind::Read || op.accesses[i as usize].value != ValueId::UNKNOWN);
        into.extend(seen.map(|access| touch(op.accesses[access as usize].object, access)));
        if let Some(predicate) = range {
            let returned: HashSet<ObjectId> = op.accesses.iter().map(|a| a.object).collect();
            let left_out = predicates.domain(predicate).iter().filter(|o| !returned.contains(*o));
            into.extend(left_out.map(|&object| touch(object, LEFT_OUT)));
        }
        by_evidence(history, &op, touch, into);
    }
    Ok(())
}

/// What a client did not observe counts when evidence tells which version it was.
fn by_evidence(
    history: &History,
    op: &Op<'_>,
    touch: impl Fn(ObjectId, u32) -> Touch,
    into: &mut Vec<Touch>,
) {
    let Some(set) = history.evidence().version_set(op.id) else { return };
    for &(object, _) in &set.versions {
        if !into.iter().rev().take_while(|t| t.op == op.id).any(|t| t.object == object) {
            let access = op.accesses.iter().position(|a| a.object == object);
            into.push(touch(object, access.map_or(LEFT_OUT, |i| i as u32)));
        }
    }
}

/// Whether the client can have seen what it recorded, if the object held `cell`.
pub(super) fn explain(predicates: &Predicates<'_>, touch: &Touch, cell: &Cell) -> Result<(), Fault> {
    let history = predicates.history();
    let op = history.op(touch.op);
    let access = touch.access(&op);
    let predicate = match op.kind {
        OpKind::Read => None,
        OpKind::Scan => history.scan(op.id).filter(|s| s.observed).map(|s| s.predicate),
        OpKind::Update => history.update(op.id).filter(|u| u.observed).map(|u| u.predicate),
        _ => return Ok(()),
    };
    if let Some(predicate) = predicate {
        let matched = predicates.matches(predicate, touch.object, cell)?;
        if matched != access.is_some() {
            return Err(mismatch(
                history,
                touch,
                cell,
                if matched { "no matching row" } else { "a matching row" },
            ));
        }
    }
    let Some(access) = access else { return Ok(()) };
    if op.shows_twice() == Some(touch.object) {
        return Err(mismatch(history, touch, cell, "two rows"));
    }
    let new = match op.kind {
        OpKind::Update => assigned(predicates, &op, touch, cell)?,
        _ => None,
    };
    match observed_matches(history, touch.object, access.value, new.as_ref().unwrap_or(cell)) {
        true => Ok(()),
        false => Err(mismatch(history, touch, cell, &history.show_value(access.value))),
    }
}

/// Whether what a client saw shows something of the version before its transaction's own: what
/// stands before the own elements of a list, or a column that the own writes leave alone.
pub(super) fn shows_version_before(history: &History, touch: &Touch, own: &[Effect]) -> bool {
    let op = history.op(touch.op);
    let Some(access) = touch.access(&op).filter(|_| matches!(op.kind, OpKind::Read | OpKind::Scan)) else {
        return false;
    };
    if access.value == ValueId::UNKNOWN {
        return false;
    }
    if own.iter().all(|effect| matches!(effect, Effect::Append(_))) {
        return !own.is_empty();
    }
    let sets = |effect: &Effect, column: NameId| match effect {
        Effect::Merge(row) if matches!(history.value(*row), Value::Row(_)) => {
            history.values().column(*row, column).is_some()
        }
        Effect::Set(columns) => columns.iter().any(|set| set.0 == column),
        _ => true,
    };
    let Value::Row(columns) = history.value(access.value) else { return false };
    columns.iter().any(|&(name, value)| {
        let key = key_column(history, touch.object, history.name(name)).is_some();
        value != ValueId::UNKNOWN && !key && !own.iter().any(|effect| sets(effect, name))
    })
}

fn assigned(
    predicates: &Predicates<'_>,
    op: &Op<'_>,
    touch: &Touch,
    cell: &Cell,
) -> Result<Option<Cell>, Outside> {
    let effect = effect(predicates, op, touch, cell)?;
    Ok(effect.map(|effect| fold(predicates.history(), cell.clone(), &effect)))
}

fn mismatch(history: &History, touch: &Touch, cell: &Cell, observed: &str) -> Fault {
    let expected = cell.show(history);
    Fault::Mismatch(Mismatch { op: touch.op, object: touch.object, expected, observed: observed.to_string() })
}

/// What the operation does to the object, if it held `cell`.
pub(super) fn effect(
    predicates: &Predicates<'_>,
    op: &Op<'_>,
    touch: &Touch,
    cell: &Cell,
) -> Result<Option<Effect>, Outside> {
    let Some(access) = touch.access(op) else { return Ok(None) };
    let history = predicates.history();
    Ok(match op.kind {
        OpKind::Write | OpKind::Append => Some(plain_effect(history, op.kind, access)),
        OpKind::Update => {
            let set = history.update(op.id).and_then(|update| update.set.as_deref());
            Some(predicates.assign(set, touch.object, cell)?)
        }
        _ => None,
    })
}
