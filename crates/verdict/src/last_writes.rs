//! Who left which value in which object, found by the value.
//!
//! # Algorithm
//! Most histories write every value once, and then [`Sole`] knows the writer. Where values repeat,
//! the writes of each object are sorted by value.
//!
//! # Cost
//! Linear but for that sorting, and eight bytes for each value.

use margay_history::{ObjectId, TxnId, ValueId};

use crate::sole::{Found, Sole};

/// A transaction's last write of an object.
pub type LastWrite = (ObjectId, ValueId, TxnId);

/// Who left a value in an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LastWriter {
    /// No transaction.
    None,
    /// This one.
    One(TxnId),
    /// Several.
    Several,
}

/// The last writes of some transactions.
pub struct LastWrites {
    sole: Sole,
    /// Where each object's begin, and how many there are; empty if every value has a sole writer.
    starts: Vec<u32>,
    /// By object, then value.
    writes: Vec<(ValueId, TxnId)>,
}

impl LastWrites {
    /// Of these writes of so many objects. A transaction that writes a value to an object twice
    /// counts as several.
    #[must_use]
    pub fn of(objects: usize, writes: &[LastWrite]) -> Self {
        let sole = Sole::of(writes);
        if sole.is_complete() {
            return Self { sole, starts: Vec::new(), writes: Vec::new() };
        }
        let mut starts = vec![0u32; objects + 2];
        writes.iter().for_each(|write| starts[write.0.index() + 2] += 1);
        for object in 0..=objects {
            starts[object + 1] += starts[object];
        }
        let mut sorted = vec![(ValueId::NULL, TxnId(0)); writes.len()];
        for &(object, value, txn) in writes {
            let place = &mut starts[object.index() + 1];
            sorted[*place as usize] = (value, txn);
            *place += 1;
        }
        starts.pop();
        for object in starts.windows(2) {
            sorted[object[0] as usize..object[1] as usize].sort_unstable();
        }
        Self { sole, starts, writes: sorted }
    }

    /// Whether no value was written to one object twice.
    #[must_use]
    pub fn are_unique(&self) -> bool {
        let of_object = |ends: &[u32]| &self.writes[ends[0] as usize..ends[1] as usize];
        let unique = |writes: &[(ValueId, TxnId)]| writes.is_sorted_by(|a, b| a.0 < b.0);
        self.starts.windows(2).all(|ends| unique(of_object(ends)))
    }

    /// Who left `value` in `object`.
    #[inline]
    #[must_use]
    pub fn writer(&self, object: ObjectId, value: ValueId) -> LastWriter {
        match self.sole.find(value) {
            Found::Nobody => LastWriter::None,
            Found::Only((written, txn)) if written == object => LastWriter::One(txn),
            Found::Only(_) => LastWriter::None,
            Found::Several => self.among(object, value),
        }
    }

    fn among(&self, object: ObjectId, value: ValueId) -> LastWriter {
        let Some(&[start, end]) = self.starts.get(object.index()..object.index() + 2) else {
            return LastWriter::None;
        };
        let writes = &self.writes[start as usize..end as usize];
        let first = writes.partition_point(|write| write.0 < value);
        let mut same = writes[first..].iter().take_while(|write| write.0 == value);
        match (same.next(), same.next()) {
            (None, _) => LastWriter::None,
            (Some(write), None) => LastWriter::One(write.1),
            _ => LastWriter::Several,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(value: u32) -> ValueId {
        margay_history::Values::default().int(i64::from(value))
    }

    #[test]
    fn writers_are_found_whether_values_repeat_or_not() {
        let write = |object, value, txn| (ObjectId(object), int(value), TxnId(txn));
        let once = LastWrites::of(3, &[write(0, 5, 0), write(1, 6, 0), write(0, 7, 1)]);
        assert_eq!(once.writer(ObjectId(0), int(7)), LastWriter::One(TxnId(1)));
        assert_eq!(once.writer(ObjectId(1), int(7)), LastWriter::None, "another object has it");
        assert_eq!(once.writer(ObjectId(2), int(9)), LastWriter::None);
        assert!(once.are_unique());
        let again = LastWrites::of(2, &[write(0, 5, 0), write(1, 5, 0), write(1, 6, 1), write(1, 5, 2)]);
        assert_eq!(again.writer(ObjectId(0), int(5)), LastWriter::One(TxnId(0)));
        assert_eq!(again.writer(ObjectId(1), int(5)), LastWriter::Several);
        assert_eq!(again.writer(ObjectId(1), int(6)), LastWriter::One(TxnId(1)));
        assert!(!again.are_unique());
        let apart = LastWrites::of(2, &[write(0, 5, 0), write(1, 5, 1)]);
        assert!(apart.are_unique(), "one value in two objects");
    }

    /// Integers far apart have no table of their own.
    #[test]
    fn large_integers_are_found() {
        let write = |object, value, txn| (ObjectId(object), int(value), TxnId(txn));
        let far = LastWrites::of(2, &[write(0, 2_000_000_000, 0), write(1, 1_000_000_000, 1)]);
        assert_eq!(far.writer(ObjectId(0), int(2_000_000_000)), LastWriter::One(TxnId(0)));
        assert_eq!(far.writer(ObjectId(0), int(1_000_000_000)), LastWriter::None);
    }
}
