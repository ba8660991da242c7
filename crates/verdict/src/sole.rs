//! Who wrote a value, where only one transaction did.
//!
//! Most histories write every value once. Then a read finds its writer in one step, beside those of
//! the values that were written about the same time, and not by a binary search among all writers
//! of the object, which costs a cache miss per probe.

use margay_history::{ObjectId, TxnId, ValueId};

/// One writer of a value.
pub type Writer = (ObjectId, TxnId);

const NOBODY: Writer = (ObjectId(u32::MAX), TxnId(0));
const SEVERAL: Writer = (ObjectId(u32::MAX), TxnId(1));

/// Writers by value.
#[derive(Clone, Default, Debug)]
pub struct Sole {
    /// By the number itself.
    integers: Vec<Writer>,
    /// By the value's place.
    others: Vec<Writer>,
    /// Whether no value is found to have several writers.
    complete: bool,
}

/// Who wrote a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// No transaction.
    Nobody,
    /// This one.
    Only(Writer),
    /// Several, or it is not known here.
    Several,
}

impl Sole {
    /// The writers of all values, but for integers if these are far apart.
    #[must_use]
    pub fn of(writes: &[(ObjectId, ValueId, TxnId)]) -> Self {
        let values = || writes.iter().map(|write| write.1);
        let end = |most: Option<usize>| most.map_or(0, |most| most + 1);
        let integers = end(values().filter_map(|v| v.small_int()).max().map(|n| n as usize));
        let others = end(values().filter(|v| v.small_int().is_none()).map(ValueId::index).max());
        let far_apart = integers > 4 * writes.len() + 1_024;
        let integers = if far_apart { 0 } else { integers };
        let (integers, others) = (vec![NOBODY; integers], vec![NOBODY; others]);
        let mut sole = Self { integers, others, complete: !far_apart };
        for &(object, value, txn) in writes {
            if let Some(writer) = sole.writer_mut(value) {
                let first = *writer == NOBODY;
                *writer = if first { (object, txn) } else { SEVERAL };
                sole.complete &= first;
            }
        }
        sole
    }

    /// Whether every value that was written has a sole writer, and is known here.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    fn writer_mut(&mut self, value: ValueId) -> Option<&mut Writer> {
        match value.small_int() {
            Some(number) => self.integers.get_mut(number as usize),
            None => self.others.get_mut(value.index()),
        }
    }

    /// Who wrote a value.
    #[inline]
    #[must_use]
    pub fn find(&self, value: ValueId) -> Found {
        let writer = match value.small_int() {
            Some(number) => self.integers.get(number as usize),
            None => self.others.get(value.index()),
        };
        match writer {
            Some(&NOBODY) => Found::Nobody,
            None if self.complete => Found::Nobody,
            None | Some(&SEVERAL) => Found::Several,
            Some(&writer) => Found::Only(writer),
        }
    }
}
