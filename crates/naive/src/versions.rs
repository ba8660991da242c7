//! The versions of one object: every order of its writers, and for each what every read may have
//! seen.
//!
//! # Problem
//! A version is what a committed transaction's last write made of an object; its value is what that
//! transaction's writes make of the value before. A read that comes before its transaction's own
//! first write of the object is *external* and must have seen some version; one that comes after
//! must show the own writes so far, on top of the version before the own one. If it shows something
//! of that version (what stands before the own elements of a list, or a column that the own writes
//! leave alone), it is a read of it, which counts where reads-from is more than part of the version
//! order. A scan is a read of every object of its table: of a returned one as an item, of the
//! others through the predicate, where it must have seen a version that does not match. So is the
//! read half of a predicate update, whose assignments are computed from what it saw.
//!
//! # Algorithm
//! Writers are put one behind the other in all ways that evidence allows; own reads are checked at
//! once, external ones when the order is complete.
//!
//! # When it answers Unknown
//! A predicate update whose rows were not seen writes objects that depend on what it read, so
//! writers are not known beforehand.

use margay_history::{History, NameId, ObjectId, Op, OpId, OpKind, PredicateId, TxnId, ValueId, Version};
use margay_levels::definition::Family;

use crate::meaning::Outside;
use crate::model::{Model, Search};

/// What one operation did with one object.
enum ObjectAccess {
    /// A read, with all that it saw of the object.
    Read { op: OpId, seen: Vec<ValueId>, item: bool },
    /// A scan: what it returned of the object, if it did.
    Scan { op: OpId, predicate: PredicateId, seen: Option<ValueId> },
    /// A predicate update: what it made of the object, if it changed it.
    Update { op: OpId, predicate: PredicateId, seen: Option<ValueId> },
    /// A write or append.
    Write { kind: OpKind, value: ValueId },
}

/// An external read of the object and the versions that it may have seen: indices into
/// [`Layout::order`] plus one, 0 for the initial version.
#[derive(Clone, Debug)]
pub struct Site {
    /// The operation.
    pub op: OpId,
    /// Its transaction.
    pub reader: TxnId,
    /// Whether it read the object itself, not only through a predicate.
    pub item: bool,
    /// The versions.
    pub options: Vec<usize>,
}

/// One order of an object's versions.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The object.
    pub object: ObjectId,
    /// Its writers, oldest version first.
    pub order: Vec<TxnId>,
    /// Its external reads.
    pub sites: Vec<Site>,
}

impl Layout {
    /// The version of this index.
    pub fn version(&self, index: usize) -> Version {
        if index == 0 { Version::Initial } else { Version::Of(self.order[index - 1]) }
    }
}

/// All layouts of an object, given who committed. None when no order explains what was seen of it.
pub fn layouts(model: &Model<'_>, committed: &[TxnId], object: ObjectId) -> Search<Vec<Layout>> {
    let mut readers = Vec::new();
    for &txn in committed {
        if model.history.ops(txn).any(|op| op.shows_twice() == Some(object)) {
            return Ok(Vec::new());
        }
        readers.push((txn, project(model, txn, object)?));
    }
    let writes = |steps: &[ObjectAccess]| {
        steps
            .iter()
            .any(|s| matches!(s, ObjectAccess::Write { .. } | ObjectAccess::Update { seen: Some(_), .. }))
    };
    let writers = readers.iter().filter(|r| writes(&r.1)).map(|r| r.0).collect();
    let initial = model.meaning.initial(object);
    let mut search = Orders {
        model,
        object,
        steps: &readers,
        left: writers,
        order: Vec::new(),
        values: vec![initial],
        chosen: Vec::new(),
        found: Vec::new(),
    };
    search.extend()?;
    Ok(search.found)
}

fn project(model: &Model<'_>, txn: TxnId, object: ObjectId) -> Result<Vec<ObjectAccess>, Outside> {
    let mut steps = Vec::new();
    for op in model.history.ops(txn) {
        project_op(model, op, object, &mut steps)?;
    }
    Ok(steps)
}

fn project_op(
    model: &Model<'_>,
    op: Op<'_>,
    object: ObjectId,
    steps: &mut Vec<ObjectAccess>,
) -> Result<(), Outside> {
    let history = model.history;
    let here = || op.accesses.iter().filter(|a| a.object == object).map(|a| a.value);
    let told = told(model, op.id, object).is_some();
    let in_table = |predicate| Some(history.predicate(predicate).table) == history.object(object).table;
    match op.kind {
        OpKind::Read => {
            let seen: Vec<_> = here().filter(|&v| v != ValueId::UNKNOWN).collect();
            if told || !seen.is_empty() {
                let item = op.accesses.iter().any(|a| a.object == object);
                steps.push(ObjectAccess::Read { op: op.id, seen, item });
            }
        }
        OpKind::Write | OpKind::Append => {
            steps.extend(here().map(|value| ObjectAccess::Write { kind: op.kind, value }));
        }
        OpKind::Scan => match history.scan(op.id) {
            Some(scan) if scan.observed && in_table(scan.predicate) => {
                steps.push(ObjectAccess::Scan { op: op.id, predicate: scan.predicate, seen: here().next() });
            }
            _ if told => steps.push(ObjectAccess::Read { op: op.id, seen: Vec::new(), item: false }),
            _ => {}
        },
        OpKind::Update => match history.update(op.id) {
            Some(update) if in_table(update.predicate) => {
                if !update.observed {
                    return Err(hidden_update(history, op.id));
                }
                steps.push(ObjectAccess::Update {
                    op: op.id,
                    predicate: update.predicate,
                    seen: here().next(),
                });
            }
            _ => {}
        },
        _ => {}
    }
    Ok(())
}

/// What this engine does not decide without replaying whole states.
pub fn hidden_update(history: &History, op: OpId) -> Outside {
    let txn = history.show_txn(history.txn_of(op));
    Outside(format!("the predicate update of {txn}, whose rows were not seen"))
}

/// Evidence: which version an operation saw.
fn told(model: &Model<'_>, op: OpId, object: ObjectId) -> Option<Version> {
    let set = model.history.evidence().version_set(op)?;
    set.versions.iter().find(|v| v.0 == object).map(|v| v.1)
}

struct Orders<'a, 'h> {
    model: &'a Model<'h>,
    object: ObjectId,
    steps: &'a [(TxnId, Vec<ObjectAccess>)],
    left: Vec<TxnId>,
    order: Vec<TxnId>,
    /// The values of the versions, the initial one first.
    values: Vec<ValueId>,
    /// What the predicate updates of the writers so far saw: operation and version.
    chosen: Vec<(OpId, usize)>,
    found: Vec<Layout>,
}

impl Orders<'_, '_> {
    fn extend(&mut self) -> Search<()> {
        self.model.step()?;
        if self.left.is_empty() {
            self.complete()?;
        }
        for i in 0..self.left.len() {
            let txn = self.left[i];
            if self.left.iter().any(|&other| self.model.version_before(self.object, other, txn)) {
                continue;
            }
            self.left.remove(i);
            self.order.push(txn);
            // What a predicate update writes depends on what it saw, so that is chosen here; other
            // reads wait.
            for seen in self.update_choices(txn)? {
                if let Some(value) = self.value_of(txn, seen)? {
                    let mark = self.chosen.len();
                    self.chosen.extend(seen);
                    self.values.push(value);
                    self.extend()?;
                    self.values.pop();
                    self.chosen.truncate(mark);
                }
            }
            self.order.pop();
            self.left.insert(i, txn);
        }
        Ok(())
    }

    fn steps_of(&self, txn: TxnId) -> &[ObjectAccess] {
        self.steps.iter().find(|s| s.0 == txn).map_or(&[], |s| &s.1)
    }

    /// The versions that the predicate update with which a writer begins may have seen; `[None]` if
    /// it begins otherwise.
    fn update_choices(&self, txn: TxnId) -> Result<Vec<Option<(OpId, usize)>>, Outside> {
        let first = self
            .steps_of(txn)
            .iter()
            .find(|s| matches!(s, ObjectAccess::Write { .. } | ObjectAccess::Update { seen: Some(_), .. }));
        let Some(step @ ObjectAccess::Update { op, .. }) = first else { return Ok(vec![None]) };
        let mut choices = Vec::new();
        for index in 0..self.values.len() {
            if self.explains(step, txn, index)? {
                choices.push(Some((*op, index)));
            }
        }
        Ok(choices)
    }

    /// The value of a writer's version behind the last one; nothing if one of its reads of its own
    /// writes shows something else.
    fn value_of(&self, txn: TxnId, chosen: Option<(OpId, usize)>) -> Result<Option<ValueId>, Outside> {
        let meaning = &self.model.meaning;
        let base = self.values[self.values.len() - 1];
        let mut own = None;
        for step in self.steps_of(txn) {
            match (step, own) {
                (ObjectAccess::Write { kind, value }, _) => {
                    own = Some(meaning.write(*kind, self.object, own.unwrap_or(base), *value));
                }
                (ObjectAccess::Update { op, seen: Some(_), .. }, None) => {
                    let seen = chosen.map_or(base, |(_, index)| self.values[index]);
                    let set = meaning.assign(*op, self.object, seen)?;
                    own = Some(meaning.write(OpKind::Write, self.object, base, set));
                }
                (_, None) => {}
                (step, Some(value)) => {
                    let told = step.site().and_then(|(op, _)| told(self.model, op, self.object));
                    if told.is_some_and(|told| told != Version::Of(txn)) || !self.agrees(step, value)? {
                        return Ok(None);
                    }
                    if let ObjectAccess::Update { op, seen: Some(_), .. } = step {
                        let set = meaning.assign(*op, self.object, value)?;
                        own = Some(meaning.write(OpKind::Write, self.object, value, set));
                    }
                }
            }
        }
        Ok(own)
    }

    /// Whether a step can have seen this value.
    fn agrees(&self, step: &ObjectAccess, value: ValueId) -> Result<bool, Outside> {
        let meaning = &self.model.meaning;
        Ok(match step {
            ObjectAccess::Read { seen, .. } => {
                seen.iter().all(|&seen| meaning.agrees(self.object, seen, value))
            }
            ObjectAccess::Scan { predicate, seen: Some(seen), .. } => {
                meaning.matches(*predicate, self.object, value)? && meaning.agrees(self.object, *seen, value)
            }
            ObjectAccess::Update { op, predicate, seen: Some(seen) } => {
                if !meaning.matches(*predicate, self.object, value)? {
                    return Ok(false);
                }
                let set = meaning.assign(*op, self.object, value)?;
                let new = meaning.write(OpKind::Write, self.object, value, set);
                meaning.agrees(self.object, *seen, new)
            }
            ObjectAccess::Scan { predicate, seen: None, .. }
            | ObjectAccess::Update { predicate, seen: None, .. } => {
                !meaning.matches(*predicate, self.object, value)?
            }
            ObjectAccess::Write { .. } => true,
        })
    }

    /// Whether a version, not the transaction's own, explains a step, by its value and by evidence.
    fn explains(&self, step: &ObjectAccess, txn: TxnId, index: usize) -> Result<bool, Outside> {
        let version = if index == 0 { Version::Initial } else { Version::Of(self.order[index - 1]) };
        let Some((op, _)) = step.site() else { return Ok(false) };
        let told = told(self.model, op, self.object);
        let possible = version != Version::Of(txn) && told.is_none_or(|told| told == version);
        Ok(possible && self.agrees(step, self.values[index])?)
    }

    /// The order is complete: finds what every external read may have seen.
    fn complete(&mut self) -> Search<()> {
        let mut sites = Vec::new();
        for (txn, steps) in self.steps {
            for step in steps {
                if let Some((op, item)) = step.site() {
                    let chosen = self.chosen.iter().find(|c| c.0 == op).map(|c| c.1);
                    let mut options = Vec::new();
                    for index in 0..self.values.len() {
                        if chosen.is_none_or(|chosen| chosen == index) && self.explains(step, *txn, index)? {
                            options.push(index);
                        }
                    }
                    if options.is_empty() {
                        return Ok(());
                    }
                    sites.push(Site { op, reader: *txn, item, options });
                }
                if matches!(step, ObjectAccess::Write { .. } | ObjectAccess::Update { seen: Some(_), .. }) {
                    break;
                }
            }
            self.own_sites(*txn, steps, &mut sites);
        }
        self.found.push(Layout { object: self.object, order: self.order.clone(), sites });
        Ok(())
    }
}

impl Orders<'_, '_> {
    /// The reads of a transaction's own version that show something of the version before it. At
    /// the levels of graphs and of states that adds nothing.
    fn own_sites(&self, txn: TxnId, steps: &[ObjectAccess], sites: &mut Vec<Site>) {
        let before = self.order.iter().position(|&writer| writer == txn);
        let Some(before) = before.filter(|_| self.counts_own_reads()) else { return };
        let mut left = Left::All;
        for step in steps {
            if let ObjectAccess::Read { op, seen, .. } = step
                && seen.iter().any(|&seen| self.shows(&left, seen))
            {
                sites.push(Site { op: *op, reader: txn, item: true, options: vec![before] });
            }
            if let ObjectAccess::Scan { op, seen: Some(seen), .. } = step
                && self.shows(&left, *seen)
            {
                sites.push(Site { op: *op, reader: txn, item: true, options: vec![before] });
            }
            left = self.after(left, step);
        }
    }

    fn counts_own_reads(&self) -> bool {
        matches!(self.model.question.level.family(), Family::CommitOrder(_))
    }

    /// Whether what was seen shows something of what own writes left of the version before.
    fn shows(&self, left: &Left, seen: ValueId) -> bool {
        match left {
            // Nothing was written yet: an external read.
            Left::All | Left::Nothing => false,
            Left::Elements => seen != ValueId::UNKNOWN,
            Left::AllColumnsBut(own) => self.model.meaning.shows_other_column(self.object, seen, own),
        }
    }

    fn after(&self, left: Left, step: &ObjectAccess) -> Left {
        let meaning = &self.model.meaning;
        let set = match step {
            ObjectAccess::Write { kind: OpKind::Append, .. } => {
                return if matches!(left, Left::All | Left::Elements) {
                    Left::Elements
                } else {
                    Left::Nothing
                };
            }
            ObjectAccess::Write { value, .. } => meaning.merged_columns(self.object, *value),
            ObjectAccess::Update { op, seen: Some(_), .. } => meaning.assigned_columns(*op),
            _ => return left,
        };
        match (left, set) {
            (Left::All, Some(set)) => Left::AllColumnsBut(set),
            (Left::AllColumnsBut(own), Some(set)) => Left::AllColumnsBut([own, set].concat()),
            _ => Left::Nothing,
        }
    }
}

/// What a transaction's own writes have left of the version before its own.
enum Left {
    All,
    /// It was appended to.
    Elements,
    /// These columns were set.
    AllColumnsBut(Vec<NameId>),
    Nothing,
}

impl ObjectAccess {
    /// The operation of a step that reads, and whether it read the object as an item.
    fn site(&self) -> Option<(OpId, bool)> {
        match self {
            ObjectAccess::Read { op, item, .. } => Some((*op, *item)),
            ObjectAccess::Scan { op, seen, .. } | ObjectAccess::Update { op, seen, .. } => {
                Some((*op, seen.is_some()))
            }
            ObjectAccess::Write { .. } => None,
        }
    }
}
