//! Databases that clients can be let loose on, one module each.
//!
//! A driver translates: statements of a workload ([`Ask`]) into calls, and what the database says
//! into answers or [`Trouble`]. It records nothing, retries nothing and decides nothing about
//! isolation. `docs/DRIVERS.md` shows how to add one.
//!
//! # Invariants
//! - A driver says [`Trouble::Refused`] only when the transaction is certainly gone, and an
//!   unanswered COMMIT is [`Trouble::Lost`], never less.
//! - What a database promises comes from its profile in `margay_levels`, chosen by the version that
//!   the database itself tells.

mod alone;
mod around;
mod conninfo;
mod defaults;
#[cfg(feature = "duckdb")]
mod duckdb;
mod exec;
#[cfg(feature = "stores")]
mod fjall;
#[cfg(any(feature = "stores", feature = "turso", feature = "rocksdb", feature = "duckdb"))]
mod folder;
mod mysql;
mod mysql_tls;
mod postgres;
mod postgres_cells;
mod postgres_shadow;
mod postgres_tls;
mod proxy;
mod ready;
#[cfg(feature = "stores")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod sim;
#[cfg(feature = "slatedb")]
mod slatedb;
mod sqlite;
mod started;
mod stores;
#[cfg(feature = "stores")]
mod surrealkv;
mod target;
mod tls;
#[cfg(feature = "turso")]
mod turso;

pub use around::{Around, Wrapped};
pub use exec::{CheckStep as DriverStep, check as check_driver};
pub use margay_client::{
    Answer, Ask, Cell, Change, Cond, Connection, Database, DatabaseEvidence, Harm, Obj, Row, Schema, Setting,
    Shadow, Space, Start, Testimony, Trouble, Value, Witness,
};
use margay_client::{sql, text as statement};
pub use mysql_tls::mysql_options;
pub use postgres_cells::numeric_text;
pub use postgres_tls::{Encryption, PostgresAddress, PostgresPlace, PostgresServer};
pub use sqlite::{Begin, Mode as SqliteMode};
pub use stores::Kind;
pub use target::{Target, Wishes, open, open_for, without_secrets};
pub use tls::ShownCertificate;
