//! Predicate reads as reads of every object that may matter.
//!
//! # Algorithm
//! A scan reads each object of its table ([Vbox §4.1]): a returned row must have been a version
//! that matches and shows what was seen, an unreturned one a version that does not match. Objects
//! of which no version could match say nothing and make no read. The read half of a predicate
//! update is the same, where a returned row shows what the assignments made of the version.
//!
//! # Cost
//! A condition on one column is evaluated on the objects that have had a value in its range
//! ([`Values`]), another one on all of its table; scans with the same text share it.

use hashbrown::HashMap;
use margay_history::{History, ObjectId, Op, OpKind, PredicateId, TableId, ValueId, Version};
use margay_verdict::cell::{Field, fold, key_column, observed_matches};
use margay_verdict::{Cell, Predicates};

use crate::index::Writers;
use crate::parts::{Own, Parts};
use crate::values::Values;

/// What a scan saw of one object: one of these versions.
pub(crate) struct ScanRead {
    pub object: ObjectId,
    pub candidates: Vec<Version>,
}

/// The predicates of a history, and which versions match them.
pub(crate) struct Scans<'h> {
    history: &'h History,
    predicates: &'h Predicates<'h>,
    /// By predicate: the objects of which some version matches, each with whether its versions do,
    /// the initial one first.
    matching: HashMap<PredicateId, Vec<(ObjectId, Vec<bool>)>>,
    /// By predicate: the objects written in part that may match.
    parts: HashMap<PredicateId, Vec<ObjectId>>,
}

impl<'h> Scans<'h> {
    /// # Errors
    /// What of the predicates is outside the fragment.
    pub fn of(
        predicates: &'h Predicates<'h>,
        writers: &Writers<'_>,
        parts: &Parts<'_>,
    ) -> Result<Self, String> {
        let history = predicates.history();
        let mut scans = Self { history, predicates, matching: HashMap::new(), parts: HashMap::new() };
        if !history.has_kind(OpKind::Scan) && !history.has_kind(OpKind::Update) {
            return Ok(scans);
        }
        let mut values = Values::new(writers, parts);
        for op in history.txns().filter(|&t| writers.may_commit(t)).flat_map(|t| history.ops(t)) {
            let Some((predicate, _)) = asked(history, &op) else { continue };
            predicates.budget().poll().map_err(|limit| limit.to_string())?;
            if writers.blind().has_table(history.predicate(predicate).table) {
                continue;
            }
            if !scans.matching.contains_key(&predicate) {
                let objects = values.objects(predicates, predicate);
                let matching = evaluate(predicates, predicate, writers, parts, &objects)?;
                scans.matching.insert(predicate, matching);
                scans.parts.insert(predicate, may_match(predicates, predicate, parts, &objects));
            }
        }
        Ok(scans)
    }

    /// What an operation must have read, in terms of the versions of `writers`.
    ///
    /// # Errors
    /// What of its assignments is outside the fragment.
    pub fn reads(&self, op: &Op<'_>, writers: &Writers<'_>) -> Result<Vec<ScanRead>, String> {
        let Some((predicate, true)) = asked(self.history, op) else { return Ok(Vec::new()) };
        let mut reads = Vec::new();
        let matching = &self.matching[&predicate];
        for (object, matches) in matching {
            self.predicates.budget().poll().map_err(|limit| limit.to_string())?;
            let returned = op.accesses.iter().find(|a| a.object == *object).map(|a| a.value);
            let mut candidates = Vec::new();
            for (&matches, (version, value)) in matches.iter().zip(versions(self.history, writers, *object)) {
                let seen = match returned {
                    Some(shown) => matches && self.shows(op, *object, shown, value)?,
                    None => !matches,
                };
                candidates.extend(seen.then_some(version));
            }
            reads.push(ScanRead { object: *object, candidates });
        }
        let unmatched = |object: &ObjectId| {
            !writers.partial().contains(object) && !matching.iter().any(|(o, _)| o == object)
        };
        let odd = op.accesses.iter().map(|a| a.object).filter(unmatched);
        reads.extend(odd.map(|object| ScanRead { object, candidates: Vec::new() }));
        Ok(reads)
    }

    /// Whether the transaction's own last write of an object is what a scan shows of it.
    ///
    /// # Errors
    /// What is outside the fragment.
    pub fn shows_own(&self, op: &Op<'_>, object: ObjectId, own: ValueId) -> Result<bool, String> {
        let (predicates, Some((predicate, true))) = (self.predicates, asked(self.history, op)) else {
            return Ok(true);
        };
        let matches =
            predicates.matches(predicate, object, &Cell::Value(own)).map_err(|outside| outside.0)?;
        match op.accesses.iter().find(|a| a.object == object) {
            Some(access) => Ok(matches && self.shows(op, object, access.value, own)?),
            None => Ok(!matches),
        }
    }

    /// Whether a returned row is what the operation makes of a version.
    fn shows(&self, op: &Op<'_>, object: ObjectId, shown: ValueId, value: ValueId) -> Result<bool, String> {
        let cell = Cell::Value(value);
        let cell = match self.history.update(op.id) {
            Some(update) => {
                let effect = self
                    .predicates
                    .assign(update.set.as_deref(), object, &cell)
                    .map_err(|outside| outside.0)?;
                fold(self.history, cell, &effect)
            }
            _ => cell,
        };
        Ok(observed_matches(self.history, object, shown, &cell))
    }

    /// The compiled predicates.
    pub fn predicates(&self) -> &'h Predicates<'h> {
        self.predicates
    }

    /// The objects written in part of which an operation says something: those that may match, that
    /// it returned, or that its transaction wrote.
    pub fn part_reads(
        &self,
        op: &Op<'_>,
        parts: &Parts<'_>,
        own: &[(ObjectId, Own)],
    ) -> Vec<(ObjectId, PredicateId)> {
        let Some((predicate, true)) = asked(self.history, op) else { return Vec::new() };
        let table = Some(self.history.predicate(predicate).table);
        let own = own.iter().map(|o| o.0).filter(|&object| self.history.object(object).table == table);
        let returned = op.accesses.iter().map(|access| access.object).filter(|&object| parts.has(object));
        let mut objects: Vec<ObjectId> =
            self.parts[&predicate].iter().copied().chain(own).chain(returned).collect();
        objects.sort_unstable();
        objects.dedup();
        objects.into_iter().map(|object| (object, predicate)).collect()
    }

    /// The table that an operation asks about.
    pub fn table(&self, op: &Op<'_>) -> Option<TableId> {
        asked(self.history, op).map(|(predicate, _)| self.history.predicate(predicate).table)
    }

    /// Whether an operation asks about an object.
    pub fn asks_about(&self, op: &Op<'_>, object: ObjectId) -> bool {
        let table = self.table(op);
        table.is_some() && self.history.object(object).table == table
    }
}

/// What an operation asks, and whether the client saw the answer.
fn asked(history: &History, op: &Op<'_>) -> Option<(PredicateId, bool)> {
    match op.kind {
        OpKind::Scan => history.scan(op.id).map(|scan| (scan.predicate, scan.observed)),
        OpKind::Update => history.update(op.id).map(|update| (update.predicate, update.observed)),
        _ => None,
    }
}

/// The versions of an object that may be there, the initial one first.
fn versions<'a>(
    history: &'a History,
    writers: &'a Writers<'_>,
    object: ObjectId,
) -> impl Iterator<Item = (Version, ValueId)> + 'a {
    let written = writers.finals(object).iter().map(|&(_, value, txn)| (Version::Of(txn), value));
    std::iter::once((Version::Initial, history.initial(object))).chain(written)
}

fn evaluate(
    predicates: &Predicates<'_>,
    predicate: PredicateId,
    writers: &Writers<'_>,
    parts: &Parts<'_>,
    objects: &[ObjectId],
) -> Result<Vec<(ObjectId, Vec<bool>)>, String> {
    let history = predicates.history();
    let mut all = Vec::new();
    for &object in objects.iter().filter(|&&object| !parts.has(object)) {
        predicates.budget().poll().map_err(|limit| limit.to_string())?;
        let mut matches = Vec::new();
        for (_, value) in versions(history, writers, object) {
            let matched = predicates.matches(predicate, object, &Cell::Value(value));
            matches.push(matched.map_err(|outside| outside.0)?);
        }
        if matches.contains(&true) {
            all.push((object, matches));
        }
    }
    Ok(all)
}

/// The objects written in part of which some version may match: decided for conditions on one
/// column.
fn may_match(
    predicates: &Predicates<'_>,
    predicate: PredicateId,
    parts: &Parts<'_>,
    objects: &[ObjectId],
) -> Vec<ObjectId> {
    let history = predicates.history();
    let names: Vec<&str> = predicates.condition(predicate).into_iter().flat_map(|c| c.columns()).collect();
    let range = predicates.range(predicate).map(|(name, ..)| name);
    let may = |&object: &ObjectId| {
        if let Some((column, (_, versions))) =
            range.and_then(|c| Some((c, parts.column(history, object, c)?)))
        {
            let may = |value: ValueId| predicates.in_range(predicate, column, value);
            if let Some(answer) = versions.iter().try_fold(false, |any, v| Some(any | may(v.1.value())?)) {
                return answer;
            }
        }
        let open = names.iter().filter(|name| key_column(history, object, name).is_none());
        let columns: Vec<_> = open.filter_map(|name| predicates.column(name)).collect();
        let [column] = columns.as_slice() else { return true };
        let Some((_, versions)) = parts.column(history, object, *column) else { return true };
        versions.iter().any(|(_, content)| {
            let cell = Cell::Row(vec![(*column, Field::Value(content.value()))]);
            predicates.matches(predicate, object, &cell) != Ok(false)
        })
    };
    objects.iter().copied().filter(|&object| parts.has(object)).filter(may).collect()
}
