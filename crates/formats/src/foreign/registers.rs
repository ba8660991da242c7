//! What the formats of integer registers share: `text`, `awdit`, `dbcop`, `cobra`.
//!
//! # The initial state
//! In `text` and `dbcop` the value 0 stands for the initial state. So an object's initial value is
//! 0, unless some transaction writes 0 to it: then a read of 0 is a read of that write, and the
//! initial state is absent. Written back, a read of an absent initial state is a read of 0 where
//! nobody writes 0.

use hashbrown::{HashMap, HashSet};
use margay_history::{
    Access, History, HistoryBuilder, Invalid, ObjectId, Op, OpDetail, OpKind, Outcome, TxnId, Value, ValueId,
};

use crate::{Format, FormatError};

/// Reads of and writes to integer registers, on their way into a builder.
#[derive(Default)]
pub(crate) struct RegisterBuilder {
    pub builder: HistoryBuilder,
    /// Whether somebody writes 0 to an object that occurs.
    zero_written: HashMap<ObjectId, bool>,
}

impl RegisterBuilder {
    /// Adds a read or a write of one register.
    pub fn access(
        &mut self,
        session: u64,
        txn: u64,
        kind: OpKind,
        key: ValueId,
        value: ValueId,
    ) -> Result<(), Invalid> {
        let object = self.builder.object(None, key);
        let zero = self.builder.values().int(0);
        *self.zero_written.entry(object).or_default() |= kind == OpKind::Write && value == zero;
        self.builder.push(session, txn, None, kind, &[Access { object, value }], OpDetail::None)
    }

    /// Ends a transaction.
    pub fn end(&mut self, session: u64, txn: u64, committed: bool) -> Result<(), Invalid> {
        let kind = if committed { OpKind::Commit } else { OpKind::Abort };
        self.builder.push(session, txn, None, kind, &[], OpDetail::None)
    }

    /// The history, in which 0 is the initial state.
    pub fn finish_with_zeros(mut self) -> Result<History, Invalid> {
        let zero = self.builder.values().int(0);
        for (object, written) in self.zero_written {
            if !written {
                self.builder.initial(object, zero)?;
            }
        }
        self.builder.finish()
    }

    /// The history, in which the initial state is absent.
    pub fn finish_with_nothing(self) -> Result<History, Invalid> {
        self.builder.finish()
    }
}

/// A read or a write of one register. A value of `None` is the initial state.
pub(crate) struct RegisterOp<'h> {
    pub op: Op<'h>,
    pub write: bool,
    pub key: i128,
    pub value: Option<i128>,
}

/// A history seen as one of integer registers; what is not is refused.
pub(crate) struct Registers<'h> {
    pub history: &'h History,
    pub format: Format,
    /// The objects to which somebody writes 0.
    zero_written: HashSet<ObjectId>,
    zeros: bool,
}

impl<'h> Registers<'h> {
    /// For a format in which 0 is the initial state.
    pub fn with_zeros(history: &'h History, format: Format) -> Result<Self, FormatError> {
        let this = Self { history, format, zero_written: zero_written(history), zeros: true };
        for &(object, value) in history.initial_values() {
            let carried =
                value == ValueId::NULL || this.is_zero(value) && !this.zero_written.contains(&object);
            if !carried {
                return Err(this.refuse_initial(object));
            }
        }
        Ok(this)
    }

    /// For a format without an initial state, or with its own way to say it.
    pub fn with_nothing(history: &'h History, format: Format) -> Self {
        Self { history, format, zero_written: HashSet::new(), zeros: false }
    }

    pub fn refuse(&self, op: Op<'_>, what: &str) -> FormatError {
        FormatError::cannot_carry(self.format, self.history, op.id, what)
    }

    pub fn refuse_initial(&self, object: ObjectId) -> FormatError {
        let (object, value) = (self.history.show_object(object), self.history.initial(object));
        let value = self.history.show_value(value);
        FormatError::new(format!(
            "the format {} cannot carry the initial value {value} of {object}",
            self.format
        ))
    }

    fn is_zero(&self, value: ValueId) -> bool {
        value.small_int() == Some(0)
    }

    /// Whether a transaction committed; an unknown outcome is refused.
    pub fn committed(&self, txn: TxnId) -> Result<bool, FormatError> {
        match self.history.outcome(txn) {
            Outcome::Committed => Ok(true),
            Outcome::Aborted => Ok(false),
            Outcome::Unknown => Err(FormatError::new(format!(
                "transaction {}: the format {} cannot carry an unknown outcome",
                self.history.txn_label(txn),
                self.format
            ))),
        }
    }

    /// The reads and writes of a transaction.
    pub fn ops(&self, txn: TxnId) -> Result<Vec<RegisterOp<'h>>, FormatError> {
        let mut all = Vec::new();
        for op in self.history.ops(txn) {
            match op.kind {
                OpKind::Begin | OpKind::Commit | OpKind::Abort | OpKind::Unknown => {}
                OpKind::Read | OpKind::Write => {
                    for &access in op.accesses {
                        all.push(self.access(op, access)?);
                    }
                }
                kind => return Err(self.refuse(op, &format!("an operation of kind {}", kind.name()))),
            }
        }
        Ok(all)
    }

    fn access(&self, op: Op<'h>, Access { object, value }: Access) -> Result<RegisterOp<'h>, FormatError> {
        let write = op.kind == OpKind::Write;
        let key = match self.history.object(object) {
            margay_history::Object { table: None, key } => self.int(key),
            _ => None,
        };
        let Some(key) = key else {
            let name = self.history.show_object(object);
            return Err(self.refuse(op, &format!("the object {name}, whose name is no integer")));
        };
        let value = if write { self.written(op, value)? } else { self.seen(op, object, value)? };
        Ok(RegisterOp { op, write, key, value })
    }

    fn written(&self, op: Op<'_>, value: ValueId) -> Result<Option<i128>, FormatError> {
        match self.int(value) {
            Some(int) => Ok(Some(int)),
            None => Err(self.refuse(op, &format!("the value {}", self.history.show_value(value)))),
        }
    }

    fn seen(&self, op: Op<'_>, object: ObjectId, value: ValueId) -> Result<Option<i128>, FormatError> {
        let initial = self.history.initial(object);
        if self.zeros && value == initial && !self.zero_written.contains(&object) {
            return Ok(None);
        }
        if self.zeros && self.is_zero(value) && !self.zero_written.contains(&object) {
            return Err(self.refuse(op, "a read of 0 that is not the initial state"));
        }
        if !self.zeros && value == initial && value != ValueId::NULL {
            return Err(self.refuse(op, "a read of the initial state"));
        }
        self.written(op, value).map_err(|_| match value {
            ValueId::UNKNOWN => self.refuse(op, "an unknown result"),
            ValueId::NULL => self.refuse(op, "a read of what is absent"),
            _ => self.refuse(op, &format!("the value {}", self.history.show_value(value))),
        })
    }

    pub fn int(&self, value: ValueId) -> Option<i128> {
        match self.history.value(value) {
            Value::Int(int) => Some(i128::from(int)),
            Value::UInt(int) => Some(i128::from(int)),
            _ => None,
        }
    }
}

fn zero_written(history: &History) -> HashSet<ObjectId> {
    let mut found = HashSet::new();
    for txn in history.txns() {
        for op in history.ops(txn).filter(|op| op.kind.writes()) {
            let zeros = op.accesses.iter().filter(|access| access.value.small_int() == Some(0));
            found.extend(zeros.map(|access| access.object));
        }
    }
    found
}

/// An integer of 64 bits, signed or not, as a value.
pub(crate) fn integer(builder: &mut HistoryBuilder, text: &str) -> Option<ValueId> {
    match text.parse::<i64>() {
        Ok(int) => Some(builder.values().int(int)),
        Err(_) => text.parse::<u64>().ok().map(|int| builder.values().uint(int)),
    }
}
