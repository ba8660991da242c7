//! Isolation levels, anomalies, consistency models and database profiles, as data.
//!
//! Nothing here looks at a history. The crate says what the names mean, which level implies which,
//! which anomaly rules out which level, and what each database promises; engines and the command
//! line take their vocabulary from it. Every line of data carries the key of its source ([`cite`]).
//!
//! - [`Level`]: the levels that engines decide, with our semantics ([`Level::definition`]).
//! - [`Anomaly`]: named patterns, with minimal example histories ([`Anomaly::entry`]).
//! - [`Model`]: Elle's larger lattice of consistency models, kept exactly as Elle has it.
//! - [`Profile`](profile::Profile): which mechanisms one DBMS uses at one of its own levels.
//! - [`render`]: the tables and explanations of the command line and of `docs/LEVELS.md`.
//!
//! # Invariants
//! - [`Level::ALL`] is a linear extension of [`Level::implies`], weakest first.
//! - Every citation key used anywhere resolves in [`cite::REFERENCES`].
//! - `docs/LEVELS.md` and `docs/REFERENCES.md` are in step with the data (tested).

pub mod anomaly;
pub mod cite;
pub mod definition;
mod forbid;
pub mod level;
pub mod model;
pub mod names;
pub mod profile;
pub mod render;

pub use anomaly::Anomaly;
pub use level::Level;
pub use model::Model;
pub use names::UnknownName;
