//! One transaction, run on a state.

use margay_history::{ObjectId, Op, OpKind, PredicateId, TxnId, ValueId, Version};

use crate::meaning::Outside;
use crate::model::Model;

/// What committed transactions have made of all objects so far.
#[derive(Clone)]
pub struct State {
    /// The value of each object.
    pub values: Vec<ValueId>,
    /// Who made it.
    pub versions: Vec<Version>,
}

/// What a transaction does: writes and appends in order. A predicate update is the write of each
/// row that it changes.
pub type Effects = Vec<(OpKind, ObjectId, ValueId)>;

impl State {
    /// The initial state.
    pub fn initial(model: &Model<'_>) -> Self {
        let objects = model.history.objects();
        Self {
            versions: vec![Version::Initial; objects.len()],
            values: objects.map(|object| model.meaning.initial(object)).collect(),
        }
    }

    /// The state after a transaction's effects.
    pub fn after(&self, model: &Model<'_>, txn: TxnId, effects: &Effects) -> State {
        let mut next = self.clone();
        for &(kind, object, value) in effects {
            let old = next.values[object.index()];
            next.values[object.index()] = model.meaning.write(kind, object, old, value);
            next.versions[object.index()] = Version::Of(txn);
        }
        next
    }
}

/// What the transaction does when it runs alone on `state`; nothing if that contradicts what its
/// client saw or what evidence says it saw.
pub fn replay(model: &Model<'_>, txn: TxnId, state: &State) -> Result<Option<Effects>, Outside> {
    let mut run = Run { model, txn, state: state.clone(), effects: Vec::new() };
    for op in model.history.ops(txn) {
        if !run.saw_its_versions(op) || !run.op(op)? {
            return Ok(None);
        }
    }
    Ok(Some(run.effects))
}

struct Run<'a, 'h> {
    model: &'a Model<'h>,
    txn: TxnId,
    state: State,
    effects: Effects,
}

impl Run<'_, '_> {
    /// Evidence: which versions this operation saw.
    fn saw_its_versions(&self, op: Op<'_>) -> bool {
        let Some(set) = self.model.history.evidence().version_set(op.id) else { return true };
        set.versions.iter().all(|&(object, version)| self.state.versions[object.index()] == version)
    }

    /// Runs one operation; false if its client saw something else.
    fn op(&mut self, op: Op<'_>) -> Result<bool, Outside> {
        let history = self.model.history;
        match op.kind {
            OpKind::Read => Ok(op.accesses.iter().all(|a| self.agrees(a.object, a.value))),
            OpKind::Write | OpKind::Append => {
                op.accesses.iter().for_each(|a| self.write(op.kind, a.object, a.value));
                Ok(true)
            }
            OpKind::Scan => match history.scan(op.id) {
                Some(scan) if scan.observed => {
                    let found = self.matching(scan.predicate)?;
                    Ok(same_objects(op, &found) && op.accesses.iter().all(|a| self.agrees(a.object, a.value)))
                }
                _ => Ok(true),
            },
            OpKind::Update => self.update(op),
            _ => Ok(true),
        }
    }

    fn update(&mut self, op: Op<'_>) -> Result<bool, Outside> {
        let Some(update) = self.model.history.update(op.id) else { return Ok(true) };
        let found = self.matching(update.predicate)?;
        for &object in &found {
            let value = self.model.meaning.assign(op.id, object, self.state.values[object.index()])?;
            self.write(OpKind::Write, object, value);
        }
        let agrees = same_objects(op, &found) && op.accesses.iter().all(|a| self.agrees(a.object, a.value));
        Ok(!update.observed || agrees)
    }

    fn matching(&self, predicate: PredicateId) -> Result<Vec<ObjectId>, Outside> {
        let mut found = Vec::new();
        for &object in self.model.meaning.objects(self.model.history.predicate(predicate).table) {
            if self.model.meaning.matches(predicate, object, self.state.values[object.index()])? {
                found.push(object);
            }
        }
        Ok(found)
    }

    fn agrees(&self, object: ObjectId, seen: ValueId) -> bool {
        self.model.meaning.agrees(object, seen, self.state.values[object.index()])
    }

    fn write(&mut self, kind: OpKind, object: ObjectId, value: ValueId) {
        let old = self.state.values[object.index()];
        self.state.values[object.index()] = self.model.meaning.write(kind, object, old, value);
        self.state.versions[object.index()] = Version::Of(self.txn);
        self.effects.push((kind, object, value));
    }
}

fn same_objects(op: Op<'_>, found: &[ObjectId]) -> bool {
    op.shows_twice().is_none()
        && op.accesses.iter().all(|a| found.contains(&a.object))
        && found.iter().all(|&object| op.accesses.iter().any(|a| a.object == object))
}
