//! Histories that are followed and audited part by part, in bounded memory.
//!
//! # Problem
//! A history of millions of transactions need not be in memory to be decided at a strict level: a
//! transaction that ended long ago takes effect before everything that begins now. And it is better
//! decided while it is recorded.
//!
//! # Algorithm
//! Lines of the native format come in ([`Intake`]) and become transactions. [`Follower`] finds an
//! order of those that have ended, by engine follow, and *settles* all but the last of it: the
//! settled part is audited, written to the proof, and forgotten; only the state after it stays
//! ([`settled`]), and what may have happened unnoticed ([`perhaps`]). [`proof`] reads a history and the proof side by side and audits the same parts
//! again. Both use one [`Auditor`].
//!
//! # Invariants
//! - A settled part is never revised.
//! - `holds` is said only when every committed transaction is in a part that the auditor accepted.
//! - Parts follow each other in real time and session order: the auditor holds each transaction
//!   against those before.
//!
//! # Cost
//! Every line is parsed about three times; a part costs what engine follow costs on it. Memory: the
//! transactions that are not settled, and the current state.
//!
//! # Limits
//! Histories with intervals, without evidence and SQL statements. A label that two transactions
//! share is noticed only if both are in memory at once.

mod auditor;
mod follower;
mod intake;
mod perhaps;
pub mod proof;
mod settled;
mod stamped;
mod watermark;
mod window;

pub use auditor::{Auditor, Part};
pub use follower::{End, Follower, Found, HELD, Progress};
pub use intake::{Counts, Intake, Stamps, Transaction};
pub use perhaps::Step;
pub use settled::{Change, Settled};
pub use watermark::Watermark;

use std::fmt;

use margay_formats::FormatError;
use margay_levels::Level;
use margay_levels::definition::Family;
use margay_verdict::Question;

/// Why a stream is read no further.
#[derive(Debug)]
pub enum Trouble {
    /// It is ill-formed.
    Input(Box<FormatError>),
    /// It cannot be followed, and why.
    Outside(String),
}

impl From<FormatError> for Trouble {
    fn from(error: FormatError) -> Self {
        Trouble::Input(Box::new(error))
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Input(error) => write!(f, "{error}"),
            Trouble::Outside(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Trouble {}

/// The level with real time whose proof is also one of what is asked; none if no order in real time
/// answers it.
#[must_use]
pub fn followed(question: Question) -> Option<Level> {
    let snapshot =
        question.level.family() != Family::Serial && Level::StrictSnapshotIsolation.implies(question.level);
    match snapshot {
        true => Some(Level::StrictSnapshotIsolation),
        false => Level::StrictSerializable.implies(question.level).then_some(Level::StrictSerializable),
    }
}
