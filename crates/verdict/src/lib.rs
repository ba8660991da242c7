//! Verdicts that can be checked by someone who does not trust the engine.
//!
//! An engine is a [`Checker`]: given a history and a [`Question`], within a [`Budget`], it answers with a [`Verdict`]. `holds` and
//! `violated` carry a [`Certificate`], and [`audit()`] re-checks a certificate against the history alone.
//!
//! # Invariants
//! - Nothing here depends on an engine. What audit accepts is true of the history whoever made the certificate.
//! - Certificates are data in the history's ids; files hold them in the recorder's labels ([`wire`]).
//! - A violation is a result, not an error. Ill-formed input never reaches this crate.

pub mod audit;
mod budget;
pub mod cell;
mod certificate;
mod checker;
mod claim;
mod classify;
pub mod explain;
mod known;
pub mod mechanism;
pub mod observed;
mod predicates;
pub mod state;
pub mod summaries;
pub mod timeline;
mod verdict;
pub mod wire;

pub use audit::{Unaudited, audit, audit_within};
pub use budget::{Budget, Exhausted, default_memory};
pub use cell::{Cell, Effect, Field};
pub use certificate::{
    Breach, Broken, Certificate, Checked, Edge, Finding, LOCAL_ANOMALIES, Lemma, Order, Point, ReadFrom,
    Reason, Stamp, Versions,
};
pub use checker::{Checker, Question};
pub use claim::{Claim, Standing, Translation};
pub use margay_sql::Dialect;
pub use predicates::{Outside, Predicates, dialect};
pub use state::{Fault, Mismatch, State};
pub use verdict::{Verdict, Why};
