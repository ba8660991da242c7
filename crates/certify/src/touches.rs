//! Every access of the transactions that are taken to have committed, object by object.
//!
//! # Cost
//! One pass to count and one to place: linear, 16 bytes per access. What is needed of an operation
//! is copied, because objects go through the history with large steps.

use margay_history::{History, ObjectId, OpId, OpKind, TxnId, ValueId};

/// That an operation saw or wrote an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Touch {
    pub op: OpId,
    pub txn: TxnId,
    /// What it saw or wrote.
    pub value: ValueId,
    pub kind: OpKind,
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
        let none = Touch { op: OpId(0), txn: TxnId(0), value: ValueId::NULL, kind: OpKind::Begin };
        let mut all = vec![none; starts[starts.len() - 1] as usize];
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
            for a in op.accesses {
                if op.kind != OpKind::Read || a.value != ValueId::UNKNOWN {
                    into(Touch { op: op.id, txn, value: a.value, kind: op.kind }, a.object);
                }
            }
        }
    }
}
