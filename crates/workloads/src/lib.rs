//! Seeded workloads: what clients ask of a database, transaction by transaction.
//!
//! A [`Workload`] is data: how often a transaction does what, on how many keys. A [`Generator`]
//! draws one client's [`Plan`]s from it. The words of a plan ([`Ask`]) are those of the simulated
//! databases, which understand them as they are; drivers translate them.
//!
//! # Invariants
//! - The same workload, seed, client and number of clients give the same plans on any machine,
//!   whatever the database answers.
//! - Every value that is written to a register, appended to a list or written into column `w` of a
//!   row is written once in the whole run, so a value that was read tells who wrote it.

mod bank;
mod blindw;
mod catalog;
pub mod coo;
mod draw;
mod generator;
pub mod hermitage;
mod program;
mod random_sql;
mod rubis;
pub mod scripted;
mod smallbank;
mod tpcc;
mod twitter;

pub use blindw::Kind as BlindWKind;
pub use catalog::{Body, Named, SCRIPT, Scripted, Steps, WORKLOADS, Workload, WorkloadStep};
pub use draw::{Distribution, Options};
pub use generator::{Generator, Plan};
pub use margay_client::{Answer, Ask, Cell, Schema};
pub use program::{End, Procedure, Program, Script, Session, Stop, with_ints};
pub use random_sql::Reuse;
