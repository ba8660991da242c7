//! Engines **certify** and **replay**: with a little help from the database, checking is linear and
//! predicates are checkable.
//!
//! # Problem
//! A database that tells in which order it installed the versions of each object, and which
//! versions a predicate looked at, leaves nothing to search: the dependencies follow, and a level
//! is the absence of certain cycles among them. One that tells its serialization order leaves even
//! less: run it.
//!
//! # Algorithm
//! Emme (version certificates; sections 3 to 5 of the paper on Emme, Enne and King Cobra) is
//! [`Certify`]:
//! 1. `taken`: which transactions of unknown outcome are taken to have committed.
//! 2. `orders`: the version order of every object, or what is missing of it.
//! 3. `sights`, `scans`, `matches`, `summed`: the values of all versions, and so what every
//!    operation saw; what nothing explains is a non-cyclic anomaly (`local`). Where predicates ask,
//!    `candidate` first tries to explain all of them with one serial order.
//! 4. `deps`, `stamps`: the graph of the level. 5. `cycle`, `lemma`: an order that proves it, or a
//!    short cycle that refutes it.
//!
//! Enne (expected serialization order; section 6) is [`Replay`], and [`Replayer`] where
//! transactions come as a stream.
//!
//! # Invariants
//! - `violated` is said only with a certificate that audit has accepted. Evidence narrows the
//!   choice, so a violation is one *given the evidence*.
//! - An incomplete certificate is [`Why::MissingEvidence`](margay_verdict::Why), and names the
//!   first object or operation that is not told.
//!
//! # Differs from the paper
//! - Version sets need not be complete: a read whose value fits several versions is a range of
//!   versions (`sights`). Emme asks for one version per read.
//! - Evidence is part of the choice and not above doubt: what contradicts itself is a violation,
//!   shown as a cycle of recorded orders.
//! - Snapshot isolation is decided on begin and commit points, not by start-ordered graphs from the
//!   clock; real time counts only where the level has it.
//!
//! # Cost
//! Linear in operations, versions and evidence, but for sorting, and for `parallel-snapshot` when
//! the graph has cycles.

mod blame;
mod candidate;
mod certify;
mod chain;
mod course;
mod cycle;
mod deps;
mod guess;
mod lemma;
mod local;
mod matches;
mod orders;
mod replay;
mod replayer;
mod scans;
mod sights;
mod stamps;
#[cfg(feature = "sql")]
mod statements;
mod store;
mod summed;
mod taken;
mod touches;
mod world;

pub use certify::Certify;
pub use replay::Replay;
pub use replayer::{Halt, Refused, Replayer};
