//! What verification on several workers would send of a transaction that has ended.
//!
//! # Problem
//! A byte that crosses from one process to another costs about 2 ns, and an operation 300 to 500 ns
//! of work. Whether several machines are worth it depends on the bytes for each operation. They are
//! counted here, for objects that are shared out evenly, before anything is built that sends them.
//!
//! # Algorithm
//! A *bundle* is what one worker is told of one transaction: its course once, and each operation on
//! one of the worker's objects. Columns have a fixed width, and nothing is compressed. An object
//! crosses as a hash of 128 bits, a value as its bytes.

use margay_history::{ObjectId, Value, ValueId, Values};

use crate::shard::place;
use crate::txn::Txn;

/// Transaction, start, end, last call, answer, snapshot, flags, and how many operations follow.
const HEAD: u64 = 8 + 8 + 16 + 8 + 8 + 16 + 2 + 2;

/// Place in the transaction, kind and lock, interval, object. The value comes on top.
const TOUCH: u64 = 2 + 2 + 16 + 16;

/// A search: place, interval, condition and flags. Every worker that has rows of the table is told.
const SEARCH: u64 = 2 + 16 + 16 + 2;

/// What was counted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Bundles {
    /// Workers that objects are shared out to.
    pub workers: u32,
    /// How many bundles.
    pub count: u64,
    /// How many bytes.
    pub bytes: u64,
}

impl Bundles {
    /// Counts one more transaction.
    pub(crate) fn add(&mut self, ended: &Txn, values: &Values) {
        let (mut told, searches) = (vec![false; self.workers as usize], ended.searches.len() as u64);
        let mut touch = |object: ObjectId, value: ValueId| {
            told[place(object, self.workers) as usize] = true;
            self.bytes += TOUCH + width(value, values);
        };
        ended.taken.iter().for_each(|taken| touch(taken.object, taken.value));
        // A deletion that may have found nothing takes no lock, but is a version that may be there.
        let taken = |object: ObjectId| ended.taken.iter().any(|t| t.object == object && t.exclusive());
        let untaken = ended.writes.iter().filter(|(object, _)| !taken(*object));
        untaken.for_each(|(object, _)| touch(*object, ValueId::NULL));
        if searches + ended.unseen.len() as u64 > 0 {
            told.fill(true);
        }
        let bundles = told.iter().filter(|told| **told).count() as u64;
        self.count += bundles;
        self.bytes += bundles * (HEAD + SEARCH * (searches + ended.unseen.len() as u64));
    }
}

/// The bytes of a value.
fn width(value: ValueId, values: &Values) -> u64 {
    match values.get(value) {
        Value::Null | Value::Unknown | Value::Bool(_) => 1,
        Value::Int(_) | Value::UInt(_) | Value::Float(_) => 8,
        Value::Text(text) => 4 + text.len() as u64,
        Value::List(list) => 4 + list.iter().map(|value| width(*value, values)).sum::<u64>(),
        Value::Row(row) => 4 + row.iter().map(|(_, value)| 2 + width(*value, values)).sum::<u64>(),
    }
}
