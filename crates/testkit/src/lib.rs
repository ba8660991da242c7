//! What tests of engines are made of.
//!
//! - [`mini`]: a language for tiny histories: `history("T1: w(x,1) | T2: r(x,1)")`.
//! - [`mod@tiny`] and [`mod@random`]: all tiny histories, and random ones from a seed.
//! - [`mod@corpora`] and [`cases`]: histories of other tools, with their documented answers, where
//!   that folder is there.
//! - [`mod@bench`]: the frame of benchmarks that print a table.
//! - [`mod@conformance`]: an engine joins the suite in three lines:
//! ```no_run
//! use margay_testkit::{Options, conformance};
//! # let engine = margay_naive::Naive;
//! conformance(&engine, &margay_levels::Level::ALL, Options::default());
//! ```
//!
//! A failure prints a small history in the mini language, and the seed that it came from.

pub mod bench;
mod conformance;
mod copy;
mod corpora;
pub mod mini;
mod random;
mod rng;
mod shrink;
mod tiny;

pub use conformance::{Options, Tally, conformance};
pub use corpora::{Case, cases, corpora};
pub use mini::{MiniError, history, parse, show};
pub use random::{random, random_with_evidence};
pub use rng::Rng;
pub use shrink::shrink;
pub use tiny::tiny;
