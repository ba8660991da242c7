//! Simulated databases of known isolation, which can be made to misbehave.
//!
//! Clients talk to a database that runs one [`Protocol`]; what they see is a history, of which it
//! is known which levels it must satisfy ([`Protocol::promises`]). A [`Fault`] makes the database
//! break a level now and then; the [`Report`] says when it did so, and whether anyone could see it.
//! So the soundness and the power of every engine become numbers.
//!
//! # Invariants
//! - The same [`SimConfig`] gives the same history, byte for byte, on any machine. Random numbers
//!   are our own ([`Rng`]), decisions use integers only, and no hash map is iterated.
//! - Every operation takes effect at one instant; for a committed transaction all of them lie
//!   inside their recorded intervals.
//! - A simulation streams into a [`Sink`] and holds only what active transactions can still see.
//!
//! Start with [`simulate_history`] for a small history in memory, or [`simulate`] into a
//! [`JsonSink`] for a large one on disk.

mod config;
mod db;
mod evidence;
mod execute;
mod fault;
mod faults;
mod live;
mod locks;
mod protocol;
mod report;
mod rules;
mod sim;
mod store;
mod workload;

pub use config::{ConfigError, Distribution, EvidenceOptions, Kind, Mix, OPTIONS, Ppm, SimConfig, Timing};
pub use fault::Fault;
pub use live::{Live, Refused};
pub use margay_client::{
    Action, Ask, BuilderSink, Change, Cond, DatabaseEvidence, JsonSink, Note, Obj, Recorded, Rng, Row, Sink,
    Space, Start, Value,
};
pub use protocol::Protocol;
pub use report::{Firing, Report};
pub use sim::{initial_state, simulate, simulate_history};
