//! What operations saw of rows that are written in part, column by column.

use margay_history::{
    History, NameId, ObjectId, Op, OpId, OpKind, PredicateId, TxnId, Value, ValueId, Version,
};
use margay_levels::Anomaly;
use margay_verdict::cell::{Effect, Field, key_column};
use margay_verdict::{Cell, Predicates};

use super::{Rule, Walk};
use crate::parts::{Content, Own};
use crate::problem::Item;

/// What must be true of the value of one column.
enum Test {
    /// The client saw this value.
    Is(ValueId),
    /// With it the condition is true, or not.
    Condition(bool),
    /// The assignments make of it what the client saw.
    Assigns,
}

/// What an operation saw of one row, as far as it is known before any version is chosen.
struct Glance<'w, 'h> {
    predicates: &'w Predicates<'h>,
    op: Op<'h>,
    object: ObjectId,
    predicate: PredicateId,
    /// The assignments of an update, and what the client saw of their result.
    set: Option<(&'h str, ValueId)>,
    /// What is known of the row: what the transaction wrote itself, and what it was shown.
    known: Vec<(NameId, ValueId)>,
    own: Own,
}

impl<'h> Walk<'_, 'h> {
    pub(super) fn part(&self, object: ObjectId) -> Own {
        let found = self.own_parts.iter().find(|(o, _)| *o == object);
        found.map_or_else(Own::default, |(_, own)| own.clone())
    }

    /// A read of a row by its key.
    pub(super) fn read_row(&mut self, txn: TxnId, op: OpId, object: ObjectId, value: ValueId) {
        match self.history.value(value) {
            Value::Null => self.absent(txn, op, object),
            Value::Row(_) => self.shown(txn, op, object, value, &[]),
            _ => self.find(Anomaly::GarbageRead, txn, vec![op]),
        }
        self.recorded_row(txn, op, object);
        self.version(txn, op, object);
    }

    /// Which version of the row it was, where each operation may have seen another one: one that
    /// fits what was seen of the columns, as far as that version made them.
    fn version(&mut self, txn: TxnId, op: OpId, object: ObjectId) {
        if self.rule != Rule::Apart || !self.depends || self.has_written(object) {
            return;
        }
        let (history, parts) = (self.history, self.parts);
        let own = self.draft.reads.iter().rev().take_while(|read| read.op == op);
        let here: Vec<_> = own.filter(|read| parts.object(history, read.item) == object).collect();
        if here.iter().any(|read| read.item == Item::from(object)) {
            return;
        }
        let fits = |version: Version| {
            here.iter().all(|read| {
                let range = read.candidates.start as usize..read.candidates.end as usize;
                let made = parts.made(history, read.item).binary_search_by_key(&version, |made| made.0);
                made.is_err() || self.draft.candidates[range].contains(&version)
            })
        };
        let others = parts.rows(object).iter().map(|row| row.0).filter(|&v| v != Version::Of(txn));
        let fitting: Vec<Version> = others.filter(|&version| fits(version)).collect();
        let first = self.draft.candidates.len() as u32;
        self.draft.candidates.extend(fitting);
        self.finish_part(txn, op, object.into(), first);
    }

    /// A row was shown: it is there, and its columns are these, but for some of which nothing is
    /// said.
    fn shown(&mut self, txn: TxnId, op: OpId, object: ObjectId, value: ValueId, but: &[NameId]) {
        let columns = shown_columns(self.history, value, but);
        for &(name, seen) in &columns {
            match key_column(self.history, object, self.history.name(name)) {
                Some(key) if key != seen => self.find(Anomaly::GarbageRead, txn, vec![op]),
                Some(_) => {}
                None => self.column(txn, op, object, name, Some(seen), |content| content.value() == seen),
            }
        }
        let own = self.part(object);
        let tells = |&(name, seen): &(NameId, ValueId)| {
            let key = key_column(self.history, object, self.history.name(name)).is_some();
            !key && seen != ValueId::NULL && own.content(name).is_none()
        };
        if !columns.iter().any(tells) {
            self.present(txn, op, object);
        }
    }

    /// The column held something that fits, and showed as `seen` if that is known.
    fn column(
        &mut self,
        txn: TxnId,
        op: OpId,
        object: ObjectId,
        name: NameId,
        seen: Option<ValueId>,
        fits: impl Fn(Content) -> bool,
    ) {
        if let Some(content) = self.part(object).content(name) {
            if !fits(content) {
                self.find(Anomaly::Internal, txn, vec![op]);
            }
            return;
        }
        let Some((item, versions)) = self.parts.column(self.history, object, name) else { return };
        if self.stands_elsewhere(object) {
            return;
        }
        let first = self.draft.candidates.len() as u32;
        let others = |version: &Version, content: Content| *version != Version::Of(txn) && fits(content);
        match seen.filter(|&seen| seen != ValueId::NULL) {
            Some(seen) => {
                let showing = self.parts.showing(self.history, item, seen).iter().map(|shown| shown.1);
                let candidates = showing.filter(|version| others(version, Content::Value(seen)));
                self.draft.candidates.extend(candidates);
            }
            None => {
                let candidates = versions.iter().filter(|(version, content)| others(version, *content));
                self.draft.candidates.extend(candidates.map(|made| made.0));
            }
        }
        self.finish_part(txn, op, item, first);
    }

    fn present(&mut self, txn: TxnId, op: OpId, object: ObjectId) {
        match self.part(object) {
            Own { there: true, .. } => {}
            Own { removed: true, .. } => self.find(Anomaly::Internal, txn, vec![op]),
            _ if self.parts.rows(object).iter().all(|row| row.1) => {}
            _ => self.row(txn, op, object, true),
        }
    }

    fn absent(&mut self, txn: TxnId, op: OpId, object: ObjectId) {
        match self.part(object) {
            Own { there: true, .. } => self.find(Anomaly::Internal, txn, vec![op]),
            Own { removed: true, .. } => {}
            _ => self.row(txn, op, object, false),
        }
    }

    /// Whether the transaction has written the row itself, and what it sees of it is therefore not
    /// of its snapshot.
    fn stands_elsewhere(&self, object: ObjectId) -> bool {
        self.overlap && self.own_parts.iter().any(|(o, _)| *o == object)
    }

    /// The row was there, or not.
    fn row(&mut self, txn: TxnId, op: OpId, object: ObjectId, there: bool) {
        if self.stands_elsewhere(object) {
            return;
        }
        let first = self.draft.candidates.len() as u32;
        let rows = self.parts.rows(object).iter();
        let others = rows.filter(|row| row.0 != Version::Of(txn) && row.1 == there).map(|row| row.0);
        self.draft.candidates.extend(others);
        self.finish_part(txn, op, object.into(), first);
    }

    /// Evidence tells which version of the row was seen.
    fn recorded_row(&mut self, txn: TxnId, op: OpId, object: ObjectId) {
        let touched = self.own_parts.iter().any(|(o, _)| *o == object);
        if let Some(version) = self.recorded(op, object).filter(|_| !touched) {
            let first = self.draft.candidates.len() as u32;
            let alive =
                self.parts.rows(object).iter().any(|row| row.0 == version) && version != Version::Of(txn);
            self.draft.candidates.extend(alive.then_some(version));
            self.finish_part(txn, op, object.into(), first);
        }
    }

    fn finish_part(&mut self, txn: TxnId, op: OpId, item: Item, first: u32) {
        let anomaly = match self.history.op(op).kind {
            OpKind::Read => Anomaly::GarbageRead,
            _ => Anomaly::ResultMismatch,
        };
        self.add_read(txn, op, item, first, |_| (anomaly, vec![op]));
    }

    /// What a scan, or the read half of a predicate update, saw of a row.
    pub(super) fn scan_row(&mut self, txn: TxnId, op: Op<'h>, object: ObjectId, predicate: PredicateId) {
        let predicates = self.scans.predicates();
        let own = self.part(object);
        let returned = op.accesses.iter().find(|access| access.object == object).map(|access| access.value);
        if own.removed && !own.there {
            if returned.is_some() {
                self.find(Anomaly::Internal, txn, vec![op.id]);
            }
            return;
        }
        let set = self.history.update(op.id).map(|update| update.set.as_deref());
        if returned.is_some_and(|shown| !self.can_be_shown(shown, set == Some(None))) {
            return self.find(Anomaly::ResultMismatch, txn, vec![op.id]);
        }
        let mut glance =
            Glance { predicates, op, object, predicate, set: None, known: own.columns.clone(), own };
        match (returned, set) {
            (None, _) => self.unreturned(txn, &glance),
            (Some(shown), None) => {
                glance.learn(shown_columns(self.history, shown, &[]));
                self.returned(txn, &glance, shown, &[]);
            }
            (Some(_), Some(None)) => self.returned(txn, &glance, ValueId::UNKNOWN, &[]),
            (Some(shown), Some(Some(set))) => {
                let targets = glance.targets(set);
                glance.learn(shown_columns(self.history, shown, &targets));
                glance.set = Some((set, shown));
                self.returned(txn, &glance, shown, &targets);
            }
        }
        self.recorded_row(txn, op.id, object);
        self.version(txn, op.id, object);
    }

    /// A scan or an update shows rows, a delete shows that they are gone.
    fn can_be_shown(&self, shown: ValueId, deleted: bool) -> bool {
        match self.history.value(shown) {
            Value::Unknown => true,
            Value::Row(_) => !deleted,
            Value::Null => deleted,
            _ => false,
        }
    }

    fn returned(&mut self, txn: TxnId, glance: &Glance<'_, 'h>, shown: ValueId, but: &[NameId]) {
        let mut tests: Vec<(NameId, Test)> = Vec::new();
        tests.extend(shown_columns(self.history, shown, but).into_iter().map(|(n, v)| (n, Test::Is(v))));
        match glance.open(glance.condition()).as_slice() {
            [] if glance.matches(None) == Some(true) => {}
            [] if glance.matches(None).is_none() => self.leave_out(glance),
            [] => self.find(Anomaly::ResultMismatch, txn, vec![glance.op.id]),
            [column] => tests.push((*column, Test::Condition(true))),
            _ => self.leave_out(glance),
        }
        match glance.open(glance.assigned()).as_slice() {
            [] if glance.assigns(None) => {}
            [] => self.find(Anomaly::ResultMismatch, txn, vec![glance.op.id]),
            [column] => tests.push((*column, Test::Assigns)),
            _ => self.leave_out(glance),
        }
        self.test(txn, glance, &tests);
        let tells = |(name, test): &(NameId, Test)| match test {
            Test::Is(seen) => *seen != ValueId::NULL && glance.own.content(*name).is_none(),
            _ => false,
        };
        if !tests.iter().any(tells) {
            self.present(txn, glance.op.id, glance.object);
        }
    }

    fn unreturned(&mut self, txn: TxnId, glance: &Glance<'_, 'h>) {
        match glance.open(glance.condition()).as_slice() {
            [] => match glance.matches(None) {
                Some(true) => self.absent(txn, glance.op.id, glance.object),
                Some(false) => {}
                None => self.leave_out(glance),
            },
            &[column] => {
                let Some((_, versions)) = self.parts.column(self.history, glance.object, column) else {
                    return;
                };
                let may_match = |content: Content| glance.matches(Some((column, content))) != Some(false);
                if !versions.iter().any(|v| may_match(v.1)) {
                    return;
                }
                // A row that is not there and one with nothing in the column look alike here.
                if versions.iter().any(|v| v.1 == Content::Absent && may_match(v.1)) && !glance.own.there {
                    self.leave_out(glance);
                }
                self.test(txn, glance, &[(column, Test::Condition(false))]);
            }
            _ => self.leave_out(glance),
        }
    }

    /// One read for each column that is tested.
    fn test(&mut self, txn: TxnId, glance: &Glance<'_, 'h>, tests: &[(NameId, Test)]) {
        let mut columns: Vec<NameId> = tests.iter().map(|t| t.0).collect();
        columns.sort_unstable();
        columns.dedup();
        for column in columns {
            if let Some(key) = key_column(self.history, glance.object, self.history.name(column)) {
                let wrong = |test: &(NameId, Test)| matches!(test, (n, Test::Is(seen)) if *n == column && *seen != key);
                if tests.iter().any(wrong) {
                    self.find(Anomaly::GarbageRead, txn, vec![glance.op.id]);
                }
                continue;
            }
            let own = tests.iter().filter(|t| t.0 == column);
            let seen = own.clone().find_map(|(_, test)| match test {
                Test::Is(seen) => Some(*seen),
                _ => None,
            });
            let fits = |content| own.clone().all(|(_, test)| glance.passes(test, column, content));
            self.column(txn, glance.op.id, glance.object, column, seen, fits);
        }
    }

    fn leave_out(&mut self, glance: &Glance<'_, 'h>) {
        let text = &self.history.predicate(glance.predicate).text;
        let row = self.history.show_object(glance.object);
        let what = || format!("{text:?} on {row}, which is written in part");
        self.draft.loose.get_or_insert_with(what);
    }
}

impl<'h> Glance<'_, 'h> {
    fn history(&self) -> &'h History {
        self.predicates.history()
    }

    /// More that is known, unless the transaction wrote it itself.
    fn learn(&mut self, columns: Vec<(NameId, ValueId)>) {
        let own = &self.own;
        self.known.extend(columns.into_iter().filter(|(name, _)| own.content(*name).is_none()));
    }

    fn condition(&self) -> Vec<NameId> {
        let condition = self.predicates.condition(self.predicate).into_iter();
        self.columns(condition.flat_map(|condition| condition.columns()))
    }

    /// The columns that the assignments ask for.
    fn assigned(&self) -> Vec<NameId> {
        let assignments = self.set.and_then(|(set, _)| self.predicates.assignments(set).ok());
        self.columns(assignments.into_iter().flat_map(|assignments| assignments.columns()))
    }

    fn targets(&self, set: &str) -> Vec<NameId> {
        let assignments = self.predicates.assignments(set).ok();
        self.columns(assignments.into_iter().flat_map(|assignments| assignments.targets()))
    }

    fn columns<'a>(&self, names: impl Iterator<Item = &'a str>) -> Vec<NameId> {
        let is_key = |name: &&str| key_column(self.history(), self.object, name).is_some();
        let mut columns: Vec<_> =
            names.filter(|name| !is_key(name)).filter_map(|name| self.predicates.column(name)).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// Those of the columns that are not known.
    fn open(&self, columns: Vec<NameId>) -> Vec<NameId> {
        let known =
            |name: &NameId| self.known.iter().any(|c| c.0 == *name) || self.own.content(*name).is_some();
        columns.into_iter().filter(|name| !known(name)).collect()
    }

    /// What is known of the row, as a cell.
    fn cell(&self, more: Option<(NameId, Content)>) -> Cell {
        let more = more.map(|(name, content)| (name, content.value()));
        let mut columns: Vec<(NameId, Field)> =
            self.known.iter().copied().chain(more).map(|(name, value)| (name, Field::Value(value))).collect();
        columns.sort_by_key(|c| c.0);
        columns.dedup_by_key(|c| c.0);
        Cell::Row(columns)
    }

    /// Whether the condition is true with this value in the open column; `None` if it has no value.
    fn matches(&self, open: Option<(NameId, Content)>) -> Option<bool> {
        let alone = open.and_then(|(name, content)| {
            let has_more = self.known.iter().any(|column| column.0 == name);
            self.predicates.in_range(self.predicate, name, content.value()).filter(|_| !has_more)
        });
        if alone.is_some() {
            return alone;
        }
        self.predicates.matches(self.predicate, self.object, &self.cell(open)).ok()
    }

    /// Whether the assignments make what was shown of the row, or cannot be computed.
    fn assigns(&self, open: Option<(NameId, Content)>) -> bool {
        let Some((set, shown)) = self.set else { return true };
        let Ok(Effect::Set(made)) = self.predicates.assign(Some(set), self.object, &self.cell(open)) else {
            return true;
        };
        made.iter().all(|(name, field)| {
            let seen = self.history().values().column(shown, *name);
            seen.is_none_or(|seen| seen == ValueId::UNKNOWN || field.is(self.history(), seen))
        })
    }

    fn passes(&self, test: &Test, column: NameId, content: Content) -> bool {
        match test {
            Test::Is(seen) => content.value() == *seen,
            Test::Condition(false) if content == Content::Absent && !self.own.there => true,
            Test::Condition(wanted) => {
                self.matches(Some((column, content))).is_none_or(|matches| matches == *wanted)
            }
            Test::Assigns => self.assigns(Some((column, content))),
        }
    }
}

/// The columns of a row that the client saw, but for some.
fn shown_columns(history: &History, value: ValueId, but: &[NameId]) -> Vec<(NameId, ValueId)> {
    match history.value(value) {
        Value::Row(columns) => {
            let seen = |c: &&(NameId, ValueId)| c.1 != ValueId::UNKNOWN && !but.contains(&c.0);
            columns.iter().filter(seen).copied().collect()
        }
        _ => Vec::new(),
    }
}
