//! What clients ask of a database and are answered, and the traits by which a database is driven.
//!
//! Workloads speak these words, drivers translate them, the runner records them, and a simulated
//! database understands them as they are.
//!
//! - [`Ask`] is a statement on objects ([`Obj`]) and their values ([`Value`]); [`Schema`], [`Cell`]
//!   and [`Answer`] are the words of programs in SQL.
//! - [`Database`] and [`Connection`] are what a driver implements; [`Trouble`] is what it may
//!   report.
//! - [`Store`] and [`sql::SqlStore`] ask less of an author: four methods of a store of keys and
//!   values, or of a session in SQL. `blocking` has both for asynchronous code (feature `tokio`).
//! - [`Sink`] takes what clients record ([`Recorded`]); [`BuilderSink`] makes a history of it.

#[cfg(feature = "tokio")]
pub mod blocking;
mod database;
mod harm;
mod rng;
mod setting;
mod sink;
pub mod sql;
mod statement;
pub mod store;
pub mod text;
mod value;
mod witness;

pub use database::{Connection, Database, Trouble};
pub use harm::Harm;
pub use rng::Rng;
pub use setting::Setting;
pub use sink::{Action, BuilderSink, JsonSink, Note, Recorded, Sink, Start};
pub use statement::{Answer, Cell, ColumnType, Executed, Schema, TableDef};
pub use store::{Begin, Bytes, Either, Pair, Store, Stored, Txn};
pub use value::{Ask, Change, Cond, Obj, Row, Space, Value};
pub use witness::{DatabaseEvidence, Shadow, Testimony, Witness};
