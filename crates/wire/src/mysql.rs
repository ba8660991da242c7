//! The protocol of MySQL and MariaDB, seen from the middle: bytes of both directions in, events
//! out.
//!
//! # Problem
//! As for PostgreSQL ([`crate::Session`]): which statements ran, and what came of them, without
//! changing a byte.
//!
//! # Algorithm
//! Packets carry no type; what one means depends on the command that it answers. [`Session`] keeps
//! a queue of commands and reads the answer of the first. Values of the binary protocol are written
//! down as the text protocol shows them, so that one value has one form.
//!
//! [`mask_greeting`] and [`LoginMask`] change the one thing that a relay changes: they take from
//! the first packets of both sides what is not read here (compression, TLS, query attributes,
//! MariaDB's bulk execution and cached metadata). Authentication does not depend on these bytes,
//! and passes through.
//!
//! # Invariants
//! - No input or output, no clock, no panic: as for PostgreSQL. What does not fit makes the session
//!   blind.
//! - Of authentication only the client's capabilities, character set and database are read. Names
//!   of users, passwords and hashes are skipped.
//! - Memory is bounded by the same limits; rows fetched with a cursor, and files, are not kept.
//!
//! # Cost
//! Linear in the bytes. Rows are copied once.

mod answers;
mod event;
mod greeting;
mod packet;
mod read;
mod session;
mod value;

pub use event::{Answer, Connected, Event, Ran, status};
pub use greeting::{LoginMask, mask_greeting};
pub use packet::asked;
pub use session::Session;
pub use value::kind;
