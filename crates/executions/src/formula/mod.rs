//! The whole question as one formula: is there anything, initial values included, that explains
//! what was observed?
//!
//! # Problem
//! As in [`margay_executions`](crate), with initial values that nobody knows: are there values for
//! them, an order, and sights, so that everything observed comes out?
//!
//! # Algorithm
//! Every transaction has a point in the order, an integer; a snapshot is a point too. A row that a
//! statement sees is the one that the latest visible writer left ([`rows`]), and what a writer
//! leaves is the term of its statements over what those saw ([`margay_sql::Database::symbolic`]).
//! That each result is what was observed, and that the level's conditions hold, is asserted
//! ([`mod@encode`]). The order that time and evidence give is used to leave out writers that cannot
//! be the latest, so that a log whose order is known becomes a formula over its initial values
//! alone. For a SAT solver the formula becomes clauses over choices, over what is before what, and
//! over bounds on sums of unknown integers ([`Clauses`]); that some bounds cannot all be true is a
//! [`Clash`](margay_verdict::execution::Clash).
//!
//! # Invariants
//! - Every execution that the level allows is a model: where there is none, there is no execution.
//!   What would break that is refused by name.
//! - A model is no proof: it becomes an execution, which the audit executes with the plain
//!   interpreter before anybody says `holds`.
//! - The same history gives the same terms with the same numbers: certificates name terms by them.
//!
//! # Cost
//! For each row that is read, the square of the writers that may be its latest one; the cube of the
//! points whose order is not known.

mod clauses;
mod encode;
mod fits;
mod moments;
mod points;
mod rows;

pub use clauses::{Clauses, Interval};
pub use encode::{Encoded, Open, Sighted, encode, row_of};
pub use points::Points;
pub use rows::Seen;
