//! What the two forms of dbcop's main branch share: the initial state may be read by no value at
//! all.
//!
//! A read of nothing (`null`, `?`) and a read of 0 that nobody writes are the same: the initial
//! state. So whole histories are collected before the value of the initial state is chosen: 0, or
//! absent for objects to which somebody writes 0.

use hashbrown::HashSet;
use margay_history::{History, Invalid, OpKind, ValueId};

use super::registers::RegisterBuilder;

/// A history being collected.
#[derive(Default)]
pub(crate) struct Draft {
    pub registers: RegisterBuilder,
    txns: Vec<Txn>,
    sessions: u64,
    session_used: bool,
}

/// A read or write of a key; a read of `None` saw the initial state.
pub(crate) type Event = (OpKind, ValueId, Option<ValueId>);

struct Txn {
    session: u64,
    committed: bool,
    events: Vec<Event>,
    place: u64,
}

impl Draft {
    pub fn txn(&mut self, place: u64, committed: bool, events: Vec<Event>) {
        self.session_used = true;
        self.txns.push(Txn { session: self.sessions, committed, events, place });
    }

    /// The next transaction belongs to another session.
    pub fn end_session(&mut self) {
        self.sessions += u64::from(std::mem::take(&mut self.session_used));
    }

    pub fn finish(mut self) -> Result<History, Invalid> {
        let zero = self.registers.builder.values().int(0);
        let events = self.txns.iter().flat_map(|txn| &txn.events);
        let zero_written: HashSet<ValueId> = events
            .filter(|(kind, _, value)| *kind == OpKind::Write && *value == Some(zero))
            .map(|&(_, key, _)| key)
            .collect();
        for (label, txn) in self.txns.into_iter().enumerate() {
            self.registers.builder.at_place(txn.place);
            for (kind, key, value) in txn.events {
                let initial = if zero_written.contains(&key) { ValueId::NULL } else { zero };
                self.registers.access(txn.session, label as u64, kind, key, value.unwrap_or(initial))?;
            }
            self.registers.end(txn.session, label as u64, txn.committed)?;
        }
        self.registers.finish_with_zeros()
    }
}
