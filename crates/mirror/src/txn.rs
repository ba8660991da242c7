//! A transaction while it runs, and until it has been judged.

use std::collections::BTreeMap;

use margay_history::{Interval, ObjectId, OpId, OpKind, ValueId, Values};
use margay_verdict::mechanism::{Course, Written, returned, took_effect};

use crate::mirror::Trace;

/// What one access of a plain read saw of others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub op: OpId,
    pub at: Interval,
    pub object: ObjectId,
    pub value: ValueId,
}

/// An operation that may lock an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub op: OpId,
    pub by: i64,
    pub object: ObjectId,
    pub exclusive: bool,
}

/// A transaction so far.
#[derive(Default, Debug)]
pub(crate) struct Txn {
    pub course: Course,
    pub reads: Vec<Seen>,
    pub taken: Vec<Taken>,
    pub writes: BTreeMap<ObjectId, Written>,
    /// When the last of its operations was answered.
    pub answered: i64,
    /// A read that did not see its own transaction's write.
    pub missed: Option<OpId>,
}

impl Txn {
    /// Adds the next operation, with its interval on the common clock.
    pub fn push(&mut self, trace: &Trace<'_>, at: Interval, values: &Values) {
        self.answered = at.after.max(if self.course.is_empty() { i64::MIN } else { self.answered });
        let own = trace.kind == OpKind::Read
            && trace.accesses.iter().all(|access| self.writes.contains_key(&access.object));
        self.course.push(trace.kind, at, trace.accesses, own);
        match trace.kind {
            OpKind::Read | OpKind::Scan => self.read(trace, at, values),
            kind if kind.writes() => self.write(trace, at, values),
            _ => {}
        }
    }

    fn read(&mut self, trace: &Trace<'_>, at: Interval, values: &Values) {
        for access in trace.accesses {
            let (op, object) = (trace.op, access.object);
            if returned(access.value) {
                self.taken.push(Taken { op, by: at.after, object, exclusive: false });
            }
            // PostgreSQL may return an old and a new version of one row to a scan: neither tells anything.
            let again = trace.accesses.len() > 1
                && trace.accesses.iter().filter(|a| a.object == access.object).count() > 1;
            if again || access.value == ValueId::UNKNOWN {
                continue;
            }
            match self.writes.get(&object) {
                Some(own) if !own.shows(access.value, values) => _ = self.missed.get_or_insert(op),
                Some(_) => {}
                None => self.reads.push(Seen { op, at, object, value: access.value }),
            }
        }
    }

    fn write(&mut self, trace: &Trace<'_>, at: Interval, values: &Values) {
        for access in trace.accesses {
            let object = access.object;
            if took_effect(trace.kind, access.value) {
                self.taken.push(Taken { op: trace.op, by: at.after, object, exclusive: true });
            }
            self.writes.entry(object).or_default().push(trace.kind, at, access.value, values);
        }
    }
}
