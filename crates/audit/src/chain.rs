//! The values of one object's versions, oldest first.
//!
//! # Cost
//! A list that only grows is kept once: each of its versions is a prefix. Otherwise every version has its cell.

use std::borrow::Cow;

use margay_history::{History, ObjectId, Value, ValueId};
use margay_verdict::cell::fold;
use margay_verdict::{Cell, Effect};

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
            // What nobody has appended to is absent: an empty list would be a row that a predicate can match.
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
    /// Sorted.
    keyed: Vec<(ValueId, usize)>,
    rest: Vec<usize>,
}

impl Finder {
    pub(super) fn new(history: &History, chain: &Chain) -> Self {
        let mut finder = Finder { keyed: Vec::with_capacity(chain.len()), rest: Vec::new() };
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
    pub(super) fn find(&self, history: &History, observed: ValueId) -> impl Iterator<Item = usize> {
        let found = match value_key(history, observed) {
            Some(key) => {
                let start = self.keyed.partition_point(|k| k.0 < key);
                let end = self.keyed.partition_point(|k| k.0 <= key);
                &self.keyed[start..end]
            }
            None => &self.keyed[..],
        };
        found.iter().map(|k| k.1).chain(self.rest.iter().copied())
    }
}
