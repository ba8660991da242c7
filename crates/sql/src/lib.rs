//! What a SQL statement means.
//!
//! One reading of SQL for the whole of Margay: values and three-valued logic, scalar expressions,
//! the predicates that histories carry ([`Predicate`]) with their regions ([`Region`]), the
//! assignments of their updates ([`Assignments`]), and whole statements on rows with versions
//! ([`Database`]), which report what they read and wrote ([`Outcome`]), stored procedures among
//! them. [`Database::trace`] says what a recorded statement touched without having the rows. The
//! databases' differences stand behind one switch, [`Dialect`]; `docs/SQL.md` lists the fragment.
//!
//! Architecture invariant: a construct outside the fragment is an error that names it. Nothing is
//! evaluated by guessing, because a wrong value would become a false alarm.

// Without the parser, some of what values can do has no use.
#![cfg_attr(not(feature = "parser"), allow(dead_code))]

mod calendar;
mod compare;
mod decimal;
mod dialect;
mod error;
mod possible;
#[cfg_attr(not(feature = "parser"), path = "unread.rs")]
mod reading;
mod row;
mod term;
mod value;
mod versions;

pub use decimal::{Decimal, NotDecimal};
pub use dialect::Dialect;
pub use error::{Position, SqlError};
pub use possible::{Numbers, Possible};
pub use reading::*;
pub use row::{Row, SummaryKind};
pub use term::{Node, Term, Terms};
pub use value::Value;
pub use versions::VersionIndex;
