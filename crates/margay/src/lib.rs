//! Is this database as isolated as it claims to be?
//!
//! Margay decides whether what clients saw of a database could have happened under an isolation
//! level, and proves its answer.
//!
//! # Guide
//! Record what each client saw, then ask:
//!
//! ```
//! use margay::{Level, Recorder, assert_isolated};
//!
//! let recorder = Recorder::with_clock(); // or `new()`, without time
//! recorder.initial("x", 1);
//! let clients: Vec<_> = (0..2)
//!     .map(|number| {
//!         let session = recorder.session(number);
//!         std::thread::spawn(move || {
//!             let mut t = session.begin(); // before the database begins
//!             t.read("x", 1); // after the database has answered
//!             t.commit();
//!         })
//!     })
//!     .collect();
//! clients.into_iter().for_each(|client| client.join().unwrap());
//! assert_isolated!(recorder, Level::StrictSerializable);
//! ```
//!
//! [`assert_isolated!`] fails a test with the account of what went wrong. [`check()`] returns a
//! [`Report`]: text, JSON, HTML and the certificate. [`decide()`] takes options and limits on time
//! and memory, and is what the command line calls: the only place of Margay that asks an engine
//! about a whole history.
//!
//! # What may change
//! Before 1.0 a minor version may change this interface, and the changelog says how. The native
//! format, certificates and the object of `--json` stay readable.
//!
//! # Testing a database of your own
//! The module `drive` has the traits that an author implements, four methods for a store of keys
//! and values, and runs every workload on it.
//!
//! # Features
//! `sql` (on by default) reads SQL: the conditions of scans, the assignments of updates, and
//! statements. Without it a history whose answer depends on such a text is `unknown`, and the
//! reason names the text. `run` (on by default) is the module `drive`, with `sql`; `tokio` is its
//! asynchronous part. `zstd` reads and writes histories compressed with zstd, which is C code;
//! nothing else here is.

mod datum;
mod decide;
#[cfg(feature = "run")]
pub mod drive;
mod part;
mod recorder;
mod report;
#[cfg_attr(not(feature = "sql"), path = "untranslated.rs")]
mod translate;

pub use datum::{Datum, Key};
pub use decide::{Audited, Decision, Fault, Options, accepted, decide};
pub use margay_engines::{
    Ambiguity, Assume, Choice, NAMES, NoEngine, Reading, all, ambiguities, assumed, by_name, dbms, mirror_of,
    strategies,
};
#[cfg(feature = "sql")]
pub use margay_engines::{Backend, observe_with};
pub use margay_history::History;
pub use margay_levels::Level;
pub use margay_verdict::{Budget, Question, Verdict, Why};
pub use part::Coverage;
pub use recorder::{BadHistory, Recorder, Session, Transaction};
pub use report::{AsHistory, Report, check, check_with, isolated};
pub use translate::{translations, under};
