//! Who wrote a value, where only one transaction did.
//!
//! Most histories write every value once. Then a read finds its writer in one step, beside those of the
//! values that were written about the same time, and not by a binary search among all writers of the object,
//! which costs a cache miss per probe.

use margay_history::{ObjectId, TxnId, ValueId};

/// One writer of a value.
pub(crate) type Writer = (ObjectId, TxnId);

const NOBODY: Writer = (ObjectId(u32::MAX), TxnId(0));
const SEVERAL: Writer = (ObjectId(u32::MAX), TxnId(1));

/// Writers by value.
#[derive(Default)]
pub(crate) struct Sole {
    /// By the number itself.
    integers: Vec<Writer>,
    /// By the value's place.
    others: Vec<Writer>,
}

/// Who wrote a value.
pub(crate) enum Found {
    Nobody,
    Only(Writer),
    /// Several, or it is not known here.
    Several,
}

impl Sole {
    /// The writers of all values, but for integers if these are far apart.
    pub fn of(writes: &[(ObjectId, ValueId, TxnId)]) -> Self {
        let values = || writes.iter().map(|write| write.1);
        let end = |most: Option<usize>| most.map_or(0, |most| most + 1);
        let integers = end(values().filter_map(|v| v.small_int()).max().map(|n| n as usize));
        let others = end(values().filter(|v| v.small_int().is_none()).map(ValueId::index).max());
        let integers = if integers > 4 * writes.len() + 1_024 { 0 } else { integers };
        let mut sole = Self { integers: vec![NOBODY; integers], others: vec![NOBODY; others] };
        for &(object, value, txn) in writes {
            if let Some(writer) = sole.writer_mut(value) {
                *writer = if *writer == NOBODY { (object, txn) } else { SEVERAL };
            }
        }
        sole
    }

    fn writer_mut(&mut self, value: ValueId) -> Option<&mut Writer> {
        match value.small_int() {
            Some(number) => self.integers.get_mut(number as usize),
            None => self.others.get_mut(value.index()),
        }
    }

    /// Who wrote a value.
    pub fn find(&self, value: ValueId) -> Found {
        let writer = match value.small_int() {
            Some(number) => self.integers.get(number as usize),
            None => self.others.get(value.index()),
        };
        match writer {
            Some(&NOBODY) => Found::Nobody,
            None | Some(&SEVERAL) => Found::Several,
            Some(&writer) => Found::Only(writer),
        }
    }
}
