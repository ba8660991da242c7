//! Executions of SQL transactions that explain what clients observed: semantics and isolation
//! together.
//!
//! # Problem
//! A history of `sql` operations says which statements ran and what came back, not which rows were
//! read or written. It is right under a level if *some* execution that the level allows gives every
//! observation. What the database chose is finite: the order in which transactions committed, and
//! for each statement which committed state it saw.
//!
//! # Definitions
//! An execution has an **order** of the transactions that committed. State 0 is the initial one;
//! state *i* is state *i − 1* with what the *i*-th transaction wrote. A statement of the *i*-th
//! transaction has a [`StatementSight`](margay_verdict::execution::StatementSight): it sees the
//! state `at`, some rows as of other states (`pins`), and over both its own transaction's writes.
//! All of them are among the states 0 … *i − 1*: nobody reads the future. What the statement gives
//! must be what was observed.
//!
//! Which sights and orders a level allows (after the conditions of Pick et al., Fig. 6, on the
//! levels as `docs/LEVELS.md` has them):
//!
//! | level | sights | order |
//! |---|---|---|
//! | `serializable` | every statement sees state *i − 1* (read most recent) | any; `strong-session-…` keeps session order, `strict-…` real time too |
//! | `snapshot-isolation` | all statements of a transaction see one state *s* (read one snapshot), and no row that it changes was written after *s* (no write conflict) | any; the stronger forms ask that *s* has what the session, or whoever ended before, committed |
//! | `repeatable-read` | every row that is read is seen as of state *i − 1*; rows that a condition leaves out may be seen as of older states | any |
//! | `read-committed` | every row as of any state (no future reads) | any |
//! | `read-committed`, [`Reading::Statement`] | each statement sees one state; a locking statement sees the rows that it found as of state *i − 1*, or not at all if they were deleted meanwhile, and every row that it writes is the newest; what it only reads on the way may be as of either | any |
//!
//! At `read-committed` a row that one transaction deletes and inserts again is another one then:
//! who sees the one dead and the other not yet born misses both ([`Pin::missed`]). With
//! [`Reading::Statement`] only a statement that had found the row, and looks again, misses it.
//!
//! A row is a version when a transaction wrote it, whether its values changed or not; but a write
//! that leaves a row as its snapshot has it is none at the snapshot levels, where a database may
//! skip it and nobody could tell. Constraints (keys, checks) are part of a statement's meaning:
//! where they fail, the statement fails, and a committed transaction had no failing statement.
//! Aborted transactions take part in nothing; those of unknown outcome may.
//!
//! Evidence: serialization timestamps order the serializable levels, commit timestamps all the
//! others (at the serializable levels they order the writers of one row), snapshot timestamps the
//! snapshots. Equal timestamps order nothing.
//!
//! # Differs from the paper
//! - The paper fixes the order by commit times. Here the order is part of what is sought: time
//!   counts only where the level promises it.
//! - No write conflict is about versions, as in the definition of snapshot isolation, not about
//!   equal values.
//! - Strict levels ask a snapshot to have what had ended before the transaction began, by the
//!   intervals of the history; not to be the one at its start.
//!
//! [`Reading::Statement`]: margay_verdict::execution::Reading::Statement
//! [`Pin::missed`]: margay_verdict::execution::Pin::missed

mod choices;
mod exhaust;
mod fits;
pub mod formula;
mod gaps;
pub mod invariant;
mod machine;
mod misrun;
mod order;
mod orders;
mod part;
mod prints;
mod rules;
mod setup;
mod words;
mod world;

pub use choices::{Choice, Choices};
pub use exhaust::{Answer, exhaust, in_row_order};
pub use invariant::{Contradiction, contradicts};
pub use machine::{Machine, Ran, StatementStep};
pub use misrun::{Blame, Counts, Course, Demand, Demands, demands, has_lemmas};
pub use order::{Constraints, Placed};
pub use orders::{Candidate, Orders};
pub use part::{Part, RowSet, Touch, Touches};
pub use prints::{Effect, Prints, RowId};
pub use rules::{Family, Rules};
pub use setup::{unknown_rows, unknowns};
pub use words::{show_given, show_observed, show_statement};
pub use world::World;
