//! SQL statements as reads and writes of rows, so that every engine can check a history of SQL.
//!
//! # Problem
//! Most engines know operations on objects, not statements. But a statement, its parameters and its
//! answer often tell which rows were read or written, and with which values.
//!
//! # Algorithm
//! A statement's text is read once into a shape: which table, which key or condition, which
//! columns. Each execution fills the parameters in and becomes one operation:
//! - SELECT by the whole key is a read; by any other condition a scan, if its answer shows the keys
//!   of its rows. ORDER BY changes nothing. LIMIT n is a bound: an answer of n rows, ordered by a
//!   column that tells rows of the condition apart, is all there is up to the last of them.
//! - INSERT, and UPDATE and DELETE by the whole key that found their row, are writes; those that
//!   found none are reads that saw nothing.
//! - UPDATE and DELETE by any other condition are predicate updates whose rows were not seen.
//! - What an UPDATE computes from the row it finds is known if the transaction knows the row, and
//!   if the level lets a transaction see one state ([`SeenState::Stable`]). Otherwise it is a
//!   predicate update, too.
//!
//! Where a transaction sees one state, a write of a part of a row that it knows becomes a write of
//! the whole: many engines want that.
//!
//! # Invariants
//! - Sessions, transactions, operations and their intervals stay, one for one: what is said about
//!   the rows' history is said about the other.
//! - What is told of a statement follows from it. A history of statements that a level allows
//!   becomes a history of rows that it allows.
//! - A statement of which too little is known stays a statement, and the first is named, with the
//!   reason.
//!
//! # What is lost
//! That an INSERT found no row, that an UPDATE found one, and how many rows a predicate update
//! found: histories have no word for it.
//!
//! # Cost
//! Linear; a text is parsed when it is first met.

mod blunt;
mod class;
mod fill;
mod project;
mod settle;
mod shape;
mod split;
mod statement;
mod translate;

pub use blunt::{Effect, effect};
pub use project::{Coverage, Projection, project, without};
pub use statement::{Became, KnownRows};
pub use translate::{Left, Rows, SeenState, Translator, translate, translate_partly};
