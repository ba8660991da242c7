//! The values of one object's versions, oldest first, and how to find one by its value.
//!
//! # Cost
//! A list that only grows is kept once: each version is a prefix of it.

use std::borrow::Cow;

use hashbrown::HashMap;
use margay_history::{History, NameId, ObjectId, Value, ValueId};
use margay_verdict::cell::{fold, key_column};
use margay_verdict::{Cell, Effect, Field};

/// Rank 0 is the initial version.
#[derive(Debug)]
pub(crate) enum Chain {
    Cells(Vec<Cell>),
    Prefixes { list: Vec<ValueId>, ends: Vec<u32> },
}

impl Chain {
    /// `grows`: whether every write is an append.
    pub fn new(history: &History, object: ObjectId, grows: bool) -> Self {
        let initial = Cell::Value(history.initial(object));
        match initial.elements(history) {
            Some(items) if grows => Chain::Prefixes { list: items.to_vec(), ends: vec![items.len() as u32] },
            _ => Chain::Cells(vec![initial]),
        }
    }

    /// How many versions there are, the initial one among them.
    pub fn len(&self) -> u32 {
        match self {
            Chain::Cells(cells) => cells.len() as u32,
            Chain::Prefixes { ends, .. } => ends.len() as u32,
        }
    }

    pub fn cell(&self, rank: u32) -> Cow<'_, Cell> {
        match self {
            Chain::Cells(cells) => Cow::Borrowed(&cells[rank as usize]),
            // What nobody has appended to is absent: an empty list would be a row that a predicate
            // can match.
            Chain::Prefixes { ends, .. } if ends[rank as usize] == 0 => Cow::Owned(Cell::ABSENT),
            Chain::Prefixes { list, ends } => {
                Cow::Owned(Cell::List(list[..ends[rank as usize] as usize].to_vec()))
            }
        }
    }

    /// The next version: the last with these effects on top.
    pub fn push(&mut self, history: &History, effects: &[Effect]) {
        match self {
            Chain::Prefixes { list, ends } => {
                list.extend(effects.iter().filter_map(|effect| match effect {
                    Effect::Append(element) => Some(*element),
                    _ => None,
                }));
                ends.push(list.len() as u32);
            }
            Chain::Cells(cells) => {
                let next = match effects {
                    [.., Effect::Put(value)] => Cell::Value(*value),
                    _ => {
                        let last = cells[cells.len() - 1].clone();
                        effects.iter().fold(last, |cell, effect| fold(history, cell, effect))
                    }
                };
                cells.push(next);
            }
        }
    }

    /// The versions by their values.
    pub fn finder(&self, history: &History) -> Finder {
        let keyed = Vec::with_capacity(self.len() as usize);
        let scalars = self.scalars(history);
        let mut finder = Finder { keyed, rest: Vec::new(), scalars, columns: None };
        for rank in 0..self.len() {
            match self.key(history, rank) {
                Some(key) => finder.keyed.push((key, rank)),
                None => finder.rest.push(rank),
            }
        }
        finder.keyed.sort_unstable();
        finder
    }

    fn scalars(&self, history: &History) -> bool {
        let scalar = |cell: &Cell| match cell {
            Cell::Value(id) => {
                !matches!(history.value(*id), Value::List(_) | Value::Row(_) | Value::Float(_))
            }
            _ => false,
        };
        matches!(self, Chain::Cells(cells) if cells.iter().all(scalar))
    }

    fn key(&self, history: &History, rank: u32) -> Option<ValueId> {
        match self {
            Chain::Prefixes { list, ends } => Some(last(&list[..ends[rank as usize] as usize])),
            Chain::Cells(cells) => match &cells[rank as usize] {
                Cell::List(items) => Some(last(items)),
                Cell::Value(id) => value_key(history, *id),
                Cell::Row(_) | Cell::Made(_) => None,
            },
        }
    }

    /// Whether the version holds exactly this list.
    pub fn is_list(&self, rank: u32, items: &[ValueId]) -> Option<bool> {
        match self {
            Chain::Prefixes { list, ends } => Some(&list[..ends[rank as usize] as usize] == items),
            Chain::Cells(_) => None,
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
pub(crate) struct Finder {
    /// Sorted.
    keyed: Vec<(ValueId, u32)>,
    rest: Vec<u32>,
    /// Whether every version is a scalar, so that equal ids are all there is to compare.
    scalars: bool,
    /// Made when a row is first looked for.
    columns: Option<Columns>,
}

impl Finder {
    /// The rank of a scalar that exactly one version holds, where all versions are scalars.
    pub fn only(&self, history: &History, observed: ValueId) -> Option<u32> {
        let scalar = matches!(history.value(observed), Value::Int(_) | Value::Text(_) | Value::Bool(_));
        if !scalar || !self.scalars {
            return None;
        }
        let start = self.keyed.partition_point(|k| k.0 < observed);
        match self.keyed[start..] {
            [(value, _), ..] if value != observed => None,
            [(_, rank), (next, _), ..] => (next != observed).then_some(rank),
            [(_, rank)] => Some(rank),
            [] => None,
        }
    }

    /// A superset of the ranks that fit an observation.
    pub fn find(
        &mut self,
        history: &History,
        object: ObjectId,
        chain: &Chain,
        observed: ValueId,
    ) -> Vec<u32> {
        if let Value::Row(row) = history.value(observed) {
            let columns = self.columns.get_or_insert_with(|| Columns::new(history, chain));
            return columns.find(history, object, row).unwrap_or_else(|| (0..chain.len()).collect());
        }
        let Some(key) = value_key(history, observed) else { return (0..chain.len()).collect() };
        let start = self.keyed.partition_point(|k| k.0 < key);
        let found = self.keyed[start..].iter().take_while(|k| k.0 == key).map(|k| k.1);
        found.chain(self.rest.iter().copied()).collect()
    }
}

/// The versions of a row by the values of their columns.
struct Columns {
    by_value: HashMap<(NameId, ValueId), Vec<u32>>,
    /// Versions whose column is computed.
    made: HashMap<NameId, Vec<u32>>,
}

impl Columns {
    fn new(history: &History, chain: &Chain) -> Self {
        let mut made: HashMap<NameId, Vec<u32>> = HashMap::new();
        let mut by_value: HashMap<(NameId, ValueId), Vec<u32>> = HashMap::new();
        (0..chain.len())
            .for_each(|rank| names(history, &chain.cell(rank), |name| _ = made.entry(name).or_default()));
        for rank in 0..chain.len() {
            let cell = chain.cell(rank);
            for (&name, computed) in &mut made {
                match cell.column(history, name) {
                    Some(Field::Value(value)) => by_value.entry((name, value)).or_default().push(rank),
                    Some(Field::Made(_)) => computed.push(rank),
                    None => by_value.entry((name, ValueId::NULL)).or_default().push(rank),
                }
            }
        }
        Self { by_value, made }
    }

    /// By the observed column that leaves the fewest; none when no column tells.
    fn find(&self, history: &History, object: ObjectId, row: &[(NameId, ValueId)]) -> Option<Vec<u32>> {
        let telling = row.iter().filter(|(name, value)| {
            *value != ValueId::UNKNOWN
                && self.made.contains_key(name)
                && key_column(history, object, history.name(*name)).is_none()
        });
        let known = |key: &(NameId, ValueId)| self.by_value.get(key).map_or(&[][..], |ranks| ranks);
        let computed = |key: &(NameId, ValueId)| self.made.get(&key.0).map_or(&[][..], |ranks| ranks);
        let best = telling.min_by_key(|key| known(key).len() + computed(key).len())?;
        Some([known(best), computed(best)].concat())
    }
}

fn names(history: &History, cell: &Cell, mut into: impl FnMut(NameId)) {
    match cell {
        Cell::Row(columns) => columns.iter().for_each(|c| into(c.0)),
        Cell::Value(id) => {
            if let Value::Row(columns) = history.value(*id) {
                columns.iter().for_each(|c| into(c.0));
            }
        }
        Cell::List(_) | Cell::Made(_) => {}
    }
}
