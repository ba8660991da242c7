//! The values of one object's versions, oldest first.
//!
//! # Cost
//! A list that only grows is kept once: each of its versions is a prefix. Otherwise every version
//! has its cell.

use std::borrow::Cow;

use margay_history::{History, NameId, ObjectId, Value, ValueId};
use margay_verdict::cell::{fold, key_column};
use margay_verdict::{Cell, Effect, Field};

/// Rank 0 is the initial version; rank `k` is what the `k`-th writer made.
pub(super) enum Chain {
    Cells(Vec<Cell>),
    Prefixes { list: Vec<ValueId>, ends: Vec<usize> },
}

impl Chain {
    /// `grows`: whether every write is an append.
    pub(super) fn new(history: &History, object: ObjectId, grows: bool) -> Self {
        let initial = Cell::Value(history.initial(object));
        match initial.elements(history) {
            Some(items) if grows && !initial.is_absent() => {
                Chain::Prefixes { list: items.to_vec(), ends: vec![items.len()] }
            }
            Some(_) if grows => Chain::Prefixes { list: Vec::new(), ends: vec![0] },
            _ => Chain::Cells(vec![initial]),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Chain::Cells(cells) => cells.len(),
            Chain::Prefixes { ends, .. } => ends.len(),
        }
    }

    pub(super) fn cell(&self, rank: usize) -> Cow<'_, Cell> {
        match self {
            Chain::Cells(cells) => Cow::Borrowed(&cells[rank]),
            // What nobody has appended to is absent: an empty list would be a row that a predicate
            // can match.
            Chain::Prefixes { ends, .. } if ends[rank] == 0 => Cow::Owned(Cell::ABSENT),
            Chain::Prefixes { list, ends } => Cow::Owned(Cell::List(list[..ends[rank]].to_vec())),
        }
    }

    /// The next version.
    pub(super) fn push(&mut self, history: &History, effects: &[Effect]) {
        match self {
            Chain::Prefixes { list, ends } => {
                list.extend(effects.iter().filter_map(|effect| match effect {
                    Effect::Append(element) => Some(*element),
                    _ => None,
                }));
                ends.push(list.len());
            }
            Chain::Cells(cells) => {
                let last = cells[cells.len() - 1].clone();
                cells.push(effects.iter().fold(last, |cell, effect| fold(history, cell, effect)));
            }
        }
    }

    fn key(&self, history: &History, rank: usize) -> Option<ValueId> {
        match self {
            Chain::Prefixes { list, ends } => Some(last(&list[..ends[rank]])),
            Chain::Cells(cells) => match &cells[rank] {
                Cell::List(items) => Some(last(items)),
                Cell::Value(id) => value_key(history, *id),
                Cell::Row(_) | Cell::Made(_) => None,
            },
        }
    }
}

fn last(items: &[ValueId]) -> ValueId {
    items.last().copied().unwrap_or(ValueId::NULL)
}

/// What a value is found by: a list by its last element, a scalar by itself, a row by nothing.
fn value_key(history: &History, id: ValueId) -> Option<ValueId> {
    match history.value(id) {
        Value::List(items) => Some(last(items)),
        Value::Row(_) => None,
        _ => Some(id),
    }
}

/// Finds the versions that may have a value, without looking at all of them.
pub(super) struct Finder {
    object: ObjectId,
    /// Sorted.
    keyed: Vec<(ValueId, usize)>,
    rest: Vec<usize>,
    /// The versions by what they hold in a column, for the columns that were asked for.
    columns: Vec<(NameId, Vec<(ValueId, usize)>)>,
}

impl Finder {
    pub(super) fn new(history: &History, object: ObjectId, chain: &Chain) -> Self {
        let keyed = Vec::with_capacity(chain.len());
        let mut finder = Finder { object, keyed, rest: Vec::new(), columns: Vec::new() };
        for rank in 0..chain.len() {
            match chain.key(history, rank) {
                Some(key) => finder.keyed.push((key, rank)),
                None => finder.rest.push(rank),
            }
        }
        finder.keyed.sort_unstable();
        finder
    }

    /// A superset of the ranks whose value an observation of `observed` fits.
    pub(super) fn find(&mut self, history: &History, chain: &Chain, observed: ValueId) -> Vec<usize> {
        if let Value::Row(row) = history.value(observed) {
            let told = |column: &&(NameId, ValueId)| {
                column.1 != ValueId::UNKNOWN
                    && column.1 != ValueId::NULL
                    && key_column(history, self.object, history.name(column.0)).is_none()
            };
            return match row.iter().find(told) {
                Some(&(name, value)) => self.with_column(history, chain, name, value),
                None => self.rest.clone(),
            };
        }
        let found = match value_key(history, observed) {
            Some(key) => equal(&self.keyed, key),
            None => &self.keyed[..],
        };
        found.iter().map(|k| k.1).chain(self.rest.iter().copied()).collect()
    }

    /// The rows with this value in a column, and those of which that cannot be told: only rows are
    /// without a key.
    fn with_column(&mut self, history: &History, chain: &Chain, name: NameId, value: ValueId) -> Vec<usize> {
        let place = match self.columns.iter().position(|column| column.0 == name) {
            Some(place) => place,
            None => {
                let held = |&rank: &usize| match chain.cell(rank).column(history, name) {
                    Some(Field::Value(held)) => Some((held, rank)),
                    Some(Field::Made(_)) => Some((ValueId::UNKNOWN, rank)),
                    None => None,
                };
                let mut all: Vec<_> = self.rest.iter().filter_map(held).collect();
                all.sort_unstable();
                self.columns.push((name, all));
                self.columns.len() - 1
            }
        };
        let all = &self.columns[place].1;
        equal(all, value).iter().chain(equal(all, ValueId::UNKNOWN)).map(|held| held.1).collect()
    }
}

/// Those of a sorted list that have this key.
fn equal(sorted: &[(ValueId, usize)], key: ValueId) -> &[(ValueId, usize)] {
    let start = sorted.partition_point(|k| k.0 < key);
    let end = sorted.partition_point(|k| k.0 <= key);
    &sorted[start..end]
}

#[cfg(test)]
mod tests {
    use margay_history::TxnId;
    use margay_verdict::cell::observed_matches;

    use super::*;

    #[test]
    fn rows_are_found_by_a_column_that_was_shown() {
        let history = margay_testkit::history(
            "table t(id; id int, v int, w int) | init: t/1={v:1 w:1}
            | T1: w(t/1,{v:2 w:1}) w(t/1,{v:2 w:3}) w(t/1,_) w(t/1,{v:1 w:_})
            | T2: r(t/1,{v:2}) r(t/1,{id:1 v:2 w:3}) r(t/1,{w:_ id:1}) r(t/1,{v:9}) r(t/1,{v:? w:1}) r(t/1,_)",
        );
        let written = history.ops(TxnId(0)).flat_map(|op| op.accesses).map(|access| access.value);
        let object = ObjectId(0);
        let mut chain = Chain::new(&history, object, false);
        written.for_each(|value| chain.push(&history, &[Effect::Put(value)]));
        let mut finder = Finder::new(&history, object, &chain);
        let mut counts = Vec::new();
        for access in history.ops(TxnId(1)).flat_map(|op| op.accesses) {
            let fits = |rank: &usize| observed_matches(&history, object, access.value, &chain.cell(*rank));
            let mut found: Vec<_> =
                finder.find(&history, &chain, access.value).into_iter().filter(fits).collect();
            found.sort_unstable();
            assert_eq!(found, (0..chain.len()).filter(fits).collect::<Vec<_>>());
            counts.push(found.len());
        }
        assert_eq!(counts, [2, 1, 1, 0, 2, 1]);
    }
}
