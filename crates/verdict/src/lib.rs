//! Verdicts that can be checked by someone who does not trust the engine.
//!
//! An engine is a [`Checker`]: given a history and a [`Question`], within a [`Budget`], it answers
//! with a [`Verdict`]. `holds` and `violated` carry a [`Certificate`], which the crate
//! `margay-audit` re-checks against the history alone. What engines and the audit both have to know
//! of a history is here too: what objects hold ([`cell`]), what operations do ([`state`]), what
//! conditions mean ([`Predicates`]), what statements sum up ([`summaries`]), who wrote a value
//! ([`last_writes`]), and whose unknown outcome was seen ([`seen`](mod@seen)).
//!
//! # Invariants
//! - Nothing here depends on an engine, and nothing here searches.
//! - Certificates are data in the history's ids; files hold them in the recorder's labels
//!   ([`wire`]).
//! - A violation is a result, not an error. Ill-formed input never reaches this crate.

mod budget;
pub mod cell;
mod certificate;
mod checker;
mod claim;
mod classify;
pub mod compare;
pub mod execution;
pub mod instants;
pub mod last_writes;
pub mod mechanism;
mod predicates;
pub mod seen;
pub mod sole;
pub mod state;
pub mod summaries;
mod verdict;
pub mod wire;

pub use budget::{Budget, Exhausted, default_memory};
pub use cell::{Cell, Effect, Field};
pub use certificate::{
    Breach, Broken, Certificate, Checked, DeadEnd, Edge, Finding, LOCAL_ANOMALIES, Lemma, Order, Point,
    ReadFrom, Reason, Stamp, Versions,
};
pub use checker::{Checker, Question};
pub use claim::{Claim, Standing, Translation};
pub use classify::name;
pub use margay_sql::{Dialect, SqlError};
pub use predicates::{Lookup, Outside, Predicates, dialect, statement_outside};
pub use state::{Fault, Mismatch, State};
pub use verdict::{Verdict, Why};
