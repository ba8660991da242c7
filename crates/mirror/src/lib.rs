//! Engine `mirror`: verifies while the database runs, by mirroring its mechanisms.
//!
//! # Problem
//! Is what clients saw, operation by operation with the interval in which each took effect,
//! possible for a database that keeps its level by the mechanisms of its profile: snapshots, locks,
//! first updater wins, a certifier? Answered online, in bounded memory, whatever the workload.
//!
//! # Algorithm
//! Leopard's. [`Pipeline`] brings the operations of all clients into the order of their `before`
//! times. [`Mirror`] takes them one by one: it keeps the versions of every object with their
//! installation intervals (`store`), explains every committed transaction's reads by the versions
//! that a snapshot may have shown, holds locks and concurrent updates against each other, and adds
//! the dependencies that are certain to a graph (`graph`), which the certifier watches. What the
//! mechanisms allow is defined in [`margay_mechanisms`]; audit applies the same definitions to the
//! whole history.
//!
//! ```
//! use margay_history::{Access, Interval, ObjectId, OpId, OpKind, TxnId, Values};
//! use margay_levels::profile::Found;
//! use margay_mirror::{Mechanisms, Mirror, Trace};
//!
//! let Found(profile) = "postgresql/read-committed".parse()?;
//! let mut mirror = Mirror::new(Mechanisms::of(profile), 0);
//! let (mut values, x) = (Values::default(), ObjectId(0));
//! let (old, new) = (values.int(0), values.int(1));
//! mirror.initial(x, old);
//! let operations = [
//!     (1, OpKind::Write, 10, 20, Some(new)),
//!     (1, OpKind::Commit, 21, 25, None),
//!     (2, OpKind::Read, 30, 40, Some(old)), // stale: 1 had been committed by 25
//!     (2, OpKind::Commit, 41, 42, None),
//! ];
//! for (number, (txn, kind, before, after, value)) in operations.into_iter().enumerate() {
//!     let access = value.map(|value| Access { object: x, value });
//!     let (op, at) = (OpId(number as u32), Interval::new(before, after));
//!     mirror.feed(Trace { txn: TxnId(txn), op, kind, at, accesses: access.as_slice() }, &values)?;
//! }
//! mirror.finish(&values);
//! let violation = mirror.next_violation().expect("a stale read");
//! assert_eq!(violation.breach.broken.anomaly().name(), "consistent-read");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//! - A violation is reported only if no placement of the instants in their intervals fits the
//!   mechanisms. On a correct database there is none.
//! - Nothing found is [`margay_verdict::Verdict::Clean`], never `holds`: intervals that overlap
//!   hide what happened.
//! - Memory is bounded by what active transactions can still touch; of transactions whose outcome
//!   is unknown, whose versions may appear at any time, a few versions of each object are kept.
//!
//! # Differs from the paper
//! - A version is installed by its transaction's *commit*. The paper takes the write's interval, by
//!   which a correct database would be accused.
//! - A snapshot is taken by the first statement or the first read where the DBMS does so, not by
//!   BEGIN.
//! - Two consecutive anti-dependencies are a violation of SSI only with its conditions on commit
//!   order and read-only transactions.
//! - Only committed transactions' reads are judged, and each transaction as a whole once nothing
//!   that it may have seen can still come.
//! - An abort proves that locks were held only until the last answered operation: the database may
//!   have ended the transaction before the client asked.
//! - A deletion that may have found nothing locks nothing and hides nothing. Autocommitted single
//!   reads need not lock.
//! - Transactions of unknown outcome may have committed at any later time, or never.
//! - A partial-row write leaves the other columns alone: each column is explained by the versions
//!   that determine it. A new row's other columns may be anything.
//!
//! - Where timestamps come from the clocks of several servers (CockroachDB, YugabyteDB, …), and
//!   where reads lock row by row, different objects are not held against each other.
//!
//! - Rows that a scan did not return depend on nobody, and on them only who makes them match: a
//!   version that matches neither before nor after is no conflict.
//! - A lock on what was searched conflicts with writes that make a row match, and with updates that
//!   found a row by an identical or subsumed condition. It does not conflict with other searches:
//!   two overlapping conditions need not share a row, and even identical ones need not if nothing
//!   matches, because InnoDB's gap locks do not exclude each other. Reads do not conflict with
//!   updates of other columns either (an index covers them).
//! - Several threads share locks, versions and their order by objects (`shard`), as the paper's do;
//!   but reads of one snapshot are explained together, whatever they read: those that more than one
//!   version explains are brought together by transactions, and one certifier comes behind all.
//!   Transactions go in windows then, step by step; what is found does not depend on the number of
//!   threads. The same steps, with an exchange of letters between them, are for workers of several
//!   processes (`seat`).
//! - Only neighbours depend on each other: a version on the one before it, and of those who
//!   overwrite what was read the first. All other dependencies are paths of these.
//! - Where uncommitted versions are seen, a transaction's last write of an object decides its place
//!   in the order of versions; where its writers do not lock either, others may overwrite what it
//!   reads again.
//! - Of a statement that changed rows which nobody saw, every row that its key does not exclude may
//!   have been changed, or none (`log`); the paper takes such a statement's condition as a record
//!   of its own, by which two statements that touch different rows of it would be in conflict.
//! - A scan may lock only the entries of an index that has all that it returned: a write of other
//!   columns need not meet it.
//! - A transaction with a statement of which nothing is known proves nothing.
//!
//! # Cost
//! Each read costs the square of the number of versions of its object that are still alive, which
//! is small, and in the common case one look at each; each dependency a search in the affected part
//! of the graph. A search costs as many looks as there are rows with a version in the range of the
//! column that it compares (`index`), or with a key in that of its condition, and for each version
//! that comes later a comparison of two numbers (`searched`). Only where a condition bounds no
//! column by whole numbers, every row of the table costs a look.

mod bundle;
mod certifier;
mod check;
mod due;
mod front;
mod graph;
mod index;
mod joint;
mod judge;
mod letter;
mod locks;
mod log;
mod merged;
mod mirror;
#[cfg_attr(not(feature = "parallel"), path = "alone.rs")]
mod parallel;
mod pipeline;
mod plain;
mod record;
mod rows;
mod searched;
mod seat;
mod shard;
mod simulated;
mod statistics;
mod store;
mod table;
mod txn;
mod unseen;
mod wire;
mod writes;

pub use bundle::Bundles;
pub use check::Engine;
pub use letter::{Account, Exchange, Letter, Lost, Workers};
pub use margay_mechanisms::{Pattern, Searches, changes};
pub use margay_verdict::mechanism::Mechanisms;
pub use mirror::{Asked, Mirror, Trace, Unfit, Violation};
pub use pipeline::{Client, Pipeline};
pub use simulated::simulated;
pub use statistics::{Dependencies, Edges, OpenReads, Size, Statistics};
