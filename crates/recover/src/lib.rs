//! Certificates out of real databases.
//!
//! # Problem
//! Clients see values, not versions. The database knows in which order it installed versions and
//! which of them a statement saw, and most databases tell, if one knows whom to ask: the log that
//! replicas are fed from, and the transaction itself while it runs.
//!
//! # Algorithm
//! [`Watched`] is a database whose log is read beside the workload and whose connections testify
//! ([`margay_client::Witness`]). When the run is over, recorded transactions meet those of the log
//! (`meet`), and [`assemble`] makes evidence of both.
//!
//! | database | version order | version sets | timestamps |
//! |---|---|---|---|
//! | PostgreSQL | logical decoding | `pg_current_snapshot()` in every statement | order in which commits became visible |
//! | MariaDB, MySQL | binary log | | |
//! | CockroachDB ([`cockroach`]) | changefeed | | `cluster_logical_timestamp()`: the serialization order |
//! | TiDB ([`tidb`]) | MVCC interface | | `commit_ts` |
//! | simulated ones | told by themselves | | told by themselves |
//!
//! CockroachDB's and TiDB's are written from documentation and have never met a live server.
//!
//! # Invariants
//! Evidence is taken literally by the engines: nothing is in it that the database did not tell.
//! Where it tells too little or contradicts the recording, that is a [`Gap`], and what it is about
//! is left out.

mod certificate;
pub mod cockroach;
mod decoding;
mod feed;
mod log;
mod meet;
mod mvcc;
mod mysql;
mod names;
mod oracle;
mod pgoutput;
mod postgres;
mod raw;
mod shadow;
mod simulated;
mod source;
pub mod tidb;
mod view;
mod watched;

pub use certificate::{Recovered, assemble};
pub use log::{Change, Commit, Datum, Row};
pub use meet::Gap;
pub use oracle::Oracle;
pub use postgres::Plugin;
pub use raw::{Moment, RawChange, RawCommit, RawLog, text_of};
pub use view::PgSnapshot;
pub use watched::Watched;
