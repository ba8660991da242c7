//! What a SQL statement means.
//!
//! One reading of SQL for the whole of Margay: values and three-valued logic, scalar expressions, the
//! predicates that histories carry ([`Predicate`]) with their regions ([`Region`]), the assignments of their
//! updates ([`Assignments`]), and whole statements on rows with versions ([`Database`]), which report what
//! they read and wrote ([`Outcome`]), stored procedures among them. [`Database::trace`] says what a recorded statement touched without
//! having the rows. The databases' differences stand behind one switch, [`Dialect`]; `docs/SQL.md` lists the
//! fragment.
//!
//! Architecture invariant: a construct outside the fragment is an error that names it. Nothing is evaluated
//! by guessing, because a wrong value would become a false alarm.

mod aggregate;
mod arith;
mod assign;
mod body;
mod body_mysql;
mod body_plpgsql;
mod cache;
mod calendar;
mod call;
mod calls;
mod cast;
mod change;
mod coerce;
mod compare;
mod control;
mod database;
mod ddl;
mod decimal;
mod dialect;
mod effect;
mod error;
mod eval;
mod exact;
mod expect;
mod expr;
mod footprint;
mod from;
mod functions;
mod group;
mod interval;
mod like;
mod limits;
mod literal;
mod lower;
mod names;
mod outcome;
mod parse;
mod plan;
mod possible;
mod predicate;
mod procedure;
mod query;
mod region;
mod run;
mod schema;
mod scope;
mod shapes;
mod statement;
mod stop;
mod store;
mod summary;
mod sums;
mod suppose;
mod symbolic;
mod symbolic_change;
mod symbolic_expr;
mod symbolic_select;
mod term;
mod trace;
mod value;
mod versions;
mod window;
mod words;
mod write;

pub use assign::{Assignments, BoundAssignments};
pub use cache::StatementCache;
pub use cast::Type;
pub use control::{Control, Isolation, Mode};
pub use database::{Database, Transaction};
pub use decimal::{Decimal, NotDecimal};
pub use dialect::Dialect;
pub use effect::{Amount, Change, Computed, Effect};
pub use error::{Position, SqlError};
pub use expect::{Expected, ExpectedPart, ExpectedRow, Rows};
pub use footprint::{Footprint, Touched};
pub use limits::check_depth;
pub use outcome::{Outcome, PredicateRead, Reads, RowRead, Write};
pub use plan::{Lock, TableId};
pub use possible::{Numbers, Possible};
pub use predicate::{BoundPredicate, Predicate, Row};
pub use region::{Region, Relation};
pub use schema::{Column, Schema};
pub use shapes::Shapes;
pub use statement::Statement;
pub use store::{Key, Record};
pub use summary::{Summary, SummaryKind};
pub use sums::Sums;
pub use symbolic::{Answer, ShownRow, SymbolicRow, SymbolicView, SymbolicWrite};
pub use symbolic_expr::{Cell, Kind};
pub use term::{Node, Term, Terms};
pub use trace::{ItemRead, ItemWrite, Traced, TracedRegion};
pub use value::Value;
pub use versions::VersionIndex;
