//! Engine observe: are the answers right at all?
//!
//! The other engines believe what was read and written. This one takes the statements themselves,
//! with whatever the client observed of their results, and decides whether *any* correct execution
//! under the level explains it: the meaning of SQL and isolation together, after Pick et al.
//! (Troubadour). What an execution is, and which ones a level allows, is pinned in
//! [`margay_executions`].
//!
//! # Problem
//! Given statements, results (whole, only a count, or none), outcomes, and an initial state: is
//! there an order of the committed transactions, and for each statement a committed state that it
//! saw, so that everything observed comes out?
//!
//! # Algorithm
//! One database in memory, one transaction after the other ([`search`](search::Search)). As long as
//! one way of running a transaction fits, the database stays one concrete state per commit; a
//! transaction is *open* when another way would write something else, or another transaction could
//! have come in its place. A result that fits nowhere is a conflict: the rows that it looked at,
//! and whoever wrote those, name the open transactions that can have caused it ([`conflict`]), and
//! the search goes back to the latest of them. What could not be run stays blocked until something
//! that it looked at is written.
//!
//! First comes the most natural execution, in the order of real time (`sight.rs`): it explains most
//! right logs. At `read-committed` it is repaired where a statement does not fit (`repair.rs`).
//! Where a short search finds nothing either, results are held against what rows can ever be,
//! whatever the order ([`invariant`]): most wrong answers are refuted there, in one pass over the
//! log.
//!
//! Where neither time nor evidence gives the order, a SAT solver holds what is before what, and
//! learns from every order that does not fit why it does not ([`learn`]); what was learned is the
//! certificate. Initial values that the history does not know are corrected by what results show
//! ([`unknown`]), or found by an SMT solver ([`smt`]).
//!
//! The heuristics of the paper are switches ([`Options`]): indexes on the columns that conditions
//! compare; a window of recent states, which is widened when nothing in it fits; one concrete state
//! wherever choices make no difference; the strongest choice first.
//!
//! # Invariants
//! - `holds` comes with an execution that the audit executes with the plain interpreter.
//! - `violated` is said when every order and every sight that the level allows was tried or cannot
//!   matter. Where a limit was met on the way, the answer is `unknown`.
//!
//! # Differs from the paper
//! - No SMT solver is needed: choices are finite, and a concrete state per choice is cheap. One can
//!   be asked all the same ([`smt`]), for a second opinion, and for initial values that neither the
//!   history knows nor the log reveals.
//! - The order of commits is searched where time or evidence does not give it.
//!
//! # Cost
//! A log whose writes do not depend on snapshots is executed once, plus one execution for each
//! state in which something that a statement read is different.

pub mod clash;
pub mod conflict;
mod engine;
mod formula;
pub mod invariant;
pub mod learn;
pub mod notes;
mod options;
mod parts;
mod repair;
pub mod search;
mod sight;
pub mod smt;
pub mod unknown;

pub use engine::Observe;
pub use options::{Backend, Options, STRATEGIES, Strategy};
