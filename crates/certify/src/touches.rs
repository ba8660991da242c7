//! Every access of the transactions that are taken to have committed, object by object.
//!
//! # Cost
//! One pass to count and one to place: linear, 12 bytes per access.

use margay_history::{Access, History, ObjectId, Op, OpId, OpKind, TxnId, ValueId};

/// That an operation saw or wrote an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    pub op: OpId,
    pub txn: TxnId,
    /// Which of the operation's accesses it is.
    pub access: u32,
}

impl Touch {
    pub fn access<'h>(&self, op: &Op<'h>) -> &'h Access {
        &op.accesses[self.access as usize]
    }
}

/// The touches by object, each object's in the order of operations.
pub(crate) struct Touches {
    starts: Vec<u32>,
    all: Vec<Touch>,
}

impl Touches {
    pub fn new(history: &History, taken: &[bool]) -> Self {
        let mut starts = vec![0u32; history.object_count() + 2];
        each(history, taken, |_, object| starts[object.index() + 2] += 1);
        for i in 2..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut all =
            vec![Touch { op: OpId(0), txn: TxnId(0), access: 0 }; starts[starts.len() - 1] as usize];
        each(history, taken, |touch, object| {
            let place = &mut starts[object.index() + 1];
            all[*place as usize] = touch;
            *place += 1;
        });
        starts.pop();
        Self { starts, all }
    }

    pub fn of(&self, object: ObjectId) -> &[Touch] {
        &self.all[self.starts[object.index()] as usize..self.starts[object.index() + 1] as usize]
    }
}

/// One transaction's part of an object's touches.
pub(crate) fn strand<'t>(history: &History, touches: &'t [Touch], txn: TxnId) -> &'t [Touch] {
    let ops = history.op_range(txn);
    let start = touches.partition_point(|t| t.op.0 < ops.start);
    let rest = &touches[start..];
    let end = rest.iter().take_while(|t| t.op.0 < ops.end).count();
    &rest[..end]
}

fn each(history: &History, taken: &[bool], mut into: impl FnMut(Touch, ObjectId)) {
    for txn in history.txns().filter(|t| taken[t.index()]) {
        for op in history.ops(txn) {
            for (access, a) in op.accesses.iter().enumerate() {
                if op.kind != OpKind::Read || a.value != ValueId::UNKNOWN {
                    into(Touch { op: op.id, txn, access: access as u32 }, a.object);
                }
            }
        }
    }
}
