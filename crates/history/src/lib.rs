//! The history model: what clients saw.
//!
//! A [`History`] is a set of sessions; a session is a sequence of transactions; a transaction is a
//! sequence of operations, each with an interval `[before, after]` on a client's clock, and an
//! [`Outcome`]. Beside it stands
//! [`Evidence`]: what is known beyond what clients saw.
//!
//! # Design
//! Everything is a `u32` id into columns: an operation is a kind, an interval and a slice of
//! [`Access`]es (object, value); objects and values are interned, so equal ids mean equal things;
//! small integers live inside their [`ValueId`]. Scans, predicate updates and SQL statements keep
//! their text in side tables.
//!
//! # Invariants
//! - A history is immutable; [`HistoryBuilder`] makes one and validates as it goes ([`Columns`]
//!   takes a whole one and validates it at once). Code that holds a `History` never checks
//!   well-formedness again.
//! - Transactions are numbered session by session (sessions by label), in session order; operations
//!   transaction by transaction, in program order. So session order is `<` on [`TxnId`]s of one
//!   session.
//! - The last operation of every transaction is its end: [`OpKind::Commit`], [`OpKind::Abort`] or
//!   [`OpKind::Unknown`].
//! - No input or output, no clock, no randomness happens here.
//!
//! # Cost
//! 17 bytes per operation and 8 per access, 16 per transaction; values other than small integers 16
//! bytes each plus their text: below 40 bytes per key-value operation, which a test measures.

mod builder;
mod columns;
mod compare;
mod detail;
mod error;
mod evidence;
mod history;
mod ids;
mod intervals;
mod names;
mod object;
mod resolve;
mod restrict;
mod show;
mod table;
mod value;

pub use builder::HistoryBuilder;
pub use columns::Columns;
pub use detail::{Begin, OpDetail};
pub use error::Invalid;
pub use evidence::{Evidence, Version, VersionOrder, VersionSet};
pub use history::{
    Access, Header, History, Op, OpKind, Outcome, Predicate, ReadLock, Scan, Statement, Unit, Update,
};
pub use ids::{NameId, ObjectId, OpId, PredicateId, SessionId, TableId, TxnId, ValueId};
pub use intervals::{Interval, Intervals};
pub use names::Names;
pub use object::{Object, Objects};
pub use table::Table;
pub use value::{Value, Values};
