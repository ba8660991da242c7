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

/// Something that is still to be seen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    /// The value with this number.
    Value(u32),
    /// The list that the transaction at this place saw.
    List(u32),
}

impl Foresight {
    /// Nothing has taken effect.
    pub fn new(history: &History, calendar: &Calendar) -> Self {
        let done = vec![false; calendar.txns.len()];
        if history.has_kind(OpKind::Sql) {
            // It may make anything.
            return Self { from: vec![0; calendar.txns.len() + 1], done, ..Self::default() };
        }
        let mut foresight = Self { numbers: single(history, calendar), done, ..Self::default() };
        foresight.open = vec![0; foresight.numbers.len()];
        foresight.from.push(0);
        for (place, &txn) in (0u32..).zip(&calendar.txns) {
            if calendar.must(place) {
                foresight.enter(history, place, txn);
            }
            foresight.from.push(foresight.saw.len() as u32);
            foresight.open(place);
        }
        let writes = calendar.txns.iter().flat_map(|&txn| history.ops(txn));
        let puts = writes.filter(|op| op.kind == OpKind::Write).flat_map(|op| op.accesses);
        puts.for_each(|access| _ = foresight.longest.remove(&access.object));
        foresight
    }

    fn enter(&mut self, history: &History, place: u32, txn: TxnId) {
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

    /// An object that holds what others than these have still to see, and would not any more; and
    /// what that is.
    pub fn spoilt(&self, world: &World<'_>, made: &Made, done: &[u32]) -> Option<(ObjectId, Sight)> {
        made.iter().find_map(|(object, cell)| {
            let sight = self.overwrites(world, *object, cell, done);
            sight.or_else(|| self.misgrows(world, *object, cell, done)).map(|sight| (*object, sight))
        })
    }

    fn overwrites(&self, world: &World<'_>, object: ObjectId, new: &Cell, done: &[u32]) -> Option<Sight> {
        let history = world.history();
        let is_gone = |name, field: &Field| new.column(history, name).as_ref() != Some(field);
        let column = |name, value| self.awaited((object, Some(name), value), done);
        match world.cell(object) {
            Cell::Value(id) => match history.value(*id) {
                Value::List(_) => None,
                Value::Row(columns) => columns
                    .iter()
                    .filter(|&&(name, value)| is_gone(name, &Field::Value(value)))
                    .find_map(|&(name, value)| column(name, value)),
                _ if *new == Cell::Value(*id) => None,
                _ => self.awaited((object, None, *id), done),
            },
            Cell::Row(columns) => columns.iter().find_map(|(name, field)| match field {
                Field::Value(value) if is_gone(*name, field) => column(*name, *value),
                _ => None,
            }),
            _ => None,
        }
    }

    /// A value that others than these have still to see.
    fn awaited(&self, piece: Piece, done: &[u32]) -> Option<Sight> {
        let &number = self.numbers.get(&piece)?;
        let done = done.iter().filter(|&&place| self.sees(place, number)).count();
        (self.open[number as usize] as usize > done).then_some(Sight::Value(number))
    }

    fn sees(&self, place: u32, number: u32) -> bool {
        self.saw[self.seen_by(place)].binary_search(&number).is_ok()
    }

    /// The first one from a place on that has still to see something.
    pub fn who(&self, sight: Sight, from: u32) -> Option<u32> {
        match sight {
            Sight::List(place) => Some(place),
            Sight::Value(number) => (from..self.done.len() as u32)
                .find(|&place| !self.done[place as usize] && self.sees(place, number)),
        }
    }

    /// A list that is still to be seen, if this would be another than its beginning.
    fn misgrows(&self, world: &World<'_>, object: ObjectId, new: &Cell, done: &[u32]) -> Option<Sight> {
        let &(longest, place) = self.longest.get(&object)?;
        let history = world.history();
        let Value::List(longest) = history.value(longest) else { return None };
        let grows = || new.elements(history).is_some_and(|now| longest.starts_with(now));
        let is_done = self.done[place as usize] || done.contains(&place);
        (!is_done && !grows()).then_some(Sight::List(place))
    }
}

/// The values that somebody saw and that have one origin, with numbers.
fn single(history: &History, calendar: &Calendar) -> HashMap<Piece, u32> {
    let computed = computed(history);
    let counts =
        |piece: &Piece| piece.2 != ValueId::NULL && piece.1.is_none_or(|name| !computed.contains(&name));
    let mut origins: HashMap<Piece, u32> = HashMap::new();
    let must = (0u32..).zip(&calendar.txns).filter(|&(place, _)| calendar.must(place));
    for (_, &txn) in must {
        each_piece(history, txn, false, |piece| {
            if counts(&piece) {
                origins.insert(piece, 0);
            }
        });
    }
    let mut add = |piece: Piece| {
        if let Some(count) = origins.get_mut(&piece) {
            *count += 1;
        }
    };
    calendar.txns.iter().for_each(|&txn| each_piece(history, txn, true, &mut add));
    history.initial_values().iter().for_each(|&(object, value)| {
        in_value(history, Access { object, value }, &mut add);
    });
    origins.retain(|_, count| *count == 1);
    (0..).zip(origins.values_mut()).for_each(|(number, count)| *count = number);
    origins
}
