//! Values that are still to be seen.
//!
//! # Problem
//! Two transactions write an object, and neither reads it. Which came last shows only when somebody
//! reads the object, perhaps hundreds of transactions later. Who took them in the wrong order goes
//! on until then, and has to go back over everything in between.
//!
//! # Algorithm
//! A value that has one *origin* never comes back once it is overwritten: one transaction writes
//! it, or it was there initially, and nothing else makes it. So it must not be overwritten while a
//! transaction that saw it has not taken effect. Count these transactions for each such value. Of
//! rows, each column counts for itself.
//!
//! A list that is only appended to grows towards the longest that is still to be seen: the next
//! element is known.
//!
//! # Invariants
//! A step that this rules out leads nowhere: no order is lost.
//!
//! # Cost
//! Linear in what operations wrote and saw; a step looks at what it overwrites.

use hashbrown::HashMap;
use margay_history::{Access, History, ObjectId, OpKind, TxnId, Value, ValueId};
use margay_verdict::Cell;
use margay_verdict::cell::Field;
use margay_verdict::seen::{Piece, computed, each_piece, in_value};

use crate::calendar::Calendar;
use crate::world::{Made, World};

/// Who has still to see what.
#[derive(Default)]
pub(crate) struct Foresight {
    /// The values with one origin that others saw.
    numbers: HashMap<Piece, u32>,
    /// By value: how many have still to see it.
    open: Vec<u32>,
    /// What the transactions at all places saw, and where the values of each begin.
    saw: Vec<u32>,
    from: Vec<u32>,
    /// By place: whether it has seen it.
    done: Vec<bool>,
    /// The longest of each list that is only appended to, and the place that saw it.
    longest: HashMap<ObjectId, (ValueId, u32)>,
}

impl Foresight {
    /// Nothing has taken effect.
    pub fn new(history: &History, calendar: &Calendar) -> Self {
        let done = vec![false; calendar.txns.len()];
        if history.has_kind(OpKind::Sql) {
            // It may make anything.
            return Self { from: vec![0; calendar.txns.len() + 1], done, ..Self::default() };
        }
        let mut foresight = Self { numbers: single(history, &calendar.txns), done, ..Self::default() };
        foresight.open = vec![0; foresight.numbers.len()];
        foresight.from.push(0);
        for (place, &txn) in (0u32..).zip(&calendar.txns) {
            if calendar.must(place) {
                foresight.sees(history, place, txn);
            }
            foresight.from.push(foresight.saw.len() as u32);
            foresight.open(place);
        }
        let writes = calendar.txns.iter().flat_map(|&txn| history.ops(txn));
        let puts = writes.filter(|op| op.kind == OpKind::Write).flat_map(|op| op.accesses);
        puts.for_each(|access| _ = foresight.longest.remove(&access.object));
        foresight
    }

    fn sees(&mut self, history: &History, place: u32, txn: TxnId) {
        let mut saw: Vec<u32> = Vec::new();
        each_piece(history, txn, false, |piece| saw.extend(self.numbers.get(&piece)));
        saw.sort_unstable();
        saw.dedup();
        self.saw.extend(saw);
        for access in history.ops(txn).filter(|op| op.kind == OpKind::Read).flat_map(|op| op.accesses) {
            let Value::List(items) = history.value(access.value) else { continue };
            let longest = self.longest.entry(access.object).or_insert((access.value, place));
            if matches!(history.value(longest.0), Value::List(known) if known.len() < items.len()) {
                *longest = (access.value, place);
            }
        }
    }

    fn seen_by(&self, place: u32) -> std::ops::Range<usize> {
        self.from[place as usize] as usize..self.from[place as usize + 1] as usize
    }

    /// The transaction at a place has still to see what it saw.
    pub fn open(&mut self, place: u32) {
        self.done[place as usize] = false;
        for at in self.seen_by(place) {
            self.open[self.saw[at] as usize] += 1;
        }
    }

    /// It has seen it.
    pub fn close(&mut self, place: u32) {
        self.done[place as usize] = true;
        for at in self.seen_by(place) {
            self.open[self.saw[at] as usize] -= 1;
        }
    }

    /// An object that holds what others than these have still to see, and would not any more.
    pub fn spoilt(&self, world: &World<'_>, made: &Made, done: &[u32]) -> Option<ObjectId> {
        let spoils = |(object, cell): &&(ObjectId, Cell)| {
            self.overwrites(world, *object, cell, done) || self.misgrows(world, *object, cell, done)
        };
        made.iter().find(spoils).map(|made| made.0)
    }

    fn overwrites(&self, world: &World<'_>, object: ObjectId, new: &Cell, done: &[u32]) -> bool {
        let history = world.history();
        match world.cell(object) {
            Cell::Value(id) => match history.value(*id) {
                Value::List(_) => false,
                Value::Row(columns) => columns.iter().any(|&(name, value)| {
                    new.column(history, name) != Some(Field::Value(value))
                        && self.is_awaited((object, Some(name), value), done)
                }),
                _ => *new != Cell::Value(*id) && self.is_awaited((object, None, *id), done),
            },
            Cell::Row(columns) => columns.iter().any(|(name, field)| match field {
                Field::Value(value) => {
                    new.column(history, *name).as_ref() != Some(field)
                        && self.is_awaited((object, Some(*name), *value), done)
                }
                Field::Made(_) => false,
            }),
            _ => false,
        }
    }

    fn is_awaited(&self, piece: Piece, done: &[u32]) -> bool {
        let Some(&number) = self.numbers.get(&piece) else { return false };
        let sees = |place: u32| self.saw[self.seen_by(place)].binary_search(&number).is_ok();
        self.open[number as usize] as usize > done.iter().filter(|&&place| sees(place)).count()
    }

    /// Whether a list would be another than the beginning of the longest that is still to be seen.
    fn misgrows(&self, world: &World<'_>, object: ObjectId, new: &Cell, done: &[u32]) -> bool {
        let Some(&(longest, place)) = self.longest.get(&object) else { return false };
        let history = world.history();
        let Value::List(longest) = history.value(longest) else { return false };
        !self.done[place as usize]
            && !done.contains(&place)
            && new.elements(history).is_none_or(|now| !longest.starts_with(now))
    }
}

/// The values that have one origin, with numbers.
fn single(history: &History, txns: &[TxnId]) -> HashMap<Piece, u32> {
    let mut origins: HashMap<Piece, u32> = HashMap::new();
    let mut add = |piece: Piece| *origins.entry(piece).or_default() += 1;
    txns.iter().for_each(|&txn| each_piece(history, txn, true, &mut add));
    history.initial_values().iter().for_each(|&(object, value)| {
        in_value(history, Access { object, value }, &mut add);
    });
    let computed = computed(history);
    let counts = |piece: &Piece| {
        piece.2 != ValueId::NULL && piece.1.is_none_or(|name| !computed.contains(&name))
    };
    origins.retain(|piece, count| *count == 1 && counts(piece));
    (0..).zip(origins.values_mut()).for_each(|(number, count)| *count = number);
    origins
}
