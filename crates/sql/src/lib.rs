//! What a SQL statement means.
//!
//! One reading of SQL for the whole of Margay: values and three-valued logic, scalar expressions, the
//! predicates that histories carry ([`Predicate`]), and the assignments of their updates ([`Assignments`]).
//! The databases' differences stand behind one switch, [`Dialect`].
//!
//! Architecture invariant: a construct outside the fragment is an error that names it. Nothing is evaluated
//! by guessing, because a wrong value would become a false alarm.

mod arith;
mod assign;
mod calendar;
mod calls;
mod cast;
mod compare;
mod decimal;
mod dialect;
mod error;
mod eval;
mod expr;
mod functions;
mod interval;
mod like;
mod literal;
mod lower;
mod names;
mod parse;
mod predicate;
mod region;
mod value;

pub use assign::{Assignments, BoundAssignments};
pub use cast::Type;
pub use decimal::{Decimal, NotDecimal};
pub use dialect::Dialect;
pub use error::{Position, SqlError};
pub use predicate::{BoundPredicate, Predicate, Row};
pub use region::{Region, Relation};
pub use value::Value;
