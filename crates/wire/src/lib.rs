//! The PostgreSQL protocol, version 3, seen from the middle: bytes of both directions in, events
//! out. That of MySQL is in [`mysql`].
//!
//! # Problem
//! A relay wants to know which statements a client ran and what the server answered, without
//! changing a byte and without depending on what it understands.
//!
//! # Algorithm
//! [`Framer`] cuts each direction into messages. [`Session`] keeps a queue of the answers that the
//! client's messages will get. Everything that a client message says is stored in its queue entry
//! and takes effect when the server has confirmed it: a statement exists after ParseComplete, a
//! portal after BindComplete. An ErrorResponse drops the queue up to the next Sync.
//!
//! # Invariants
//! - No input or output, no clock: the caller passes the time of each piece of bytes.
//! - No panic, whatever the bytes are. A message that does not fit makes the session *blind*: it
//!   emits [`Event::Blind`] and ignores all further bytes. The caller relays them all the same.
//! - Messages of the authentication phase are skipped by their length; their bodies are never
//!   stored.
//! - Memory is bounded: at most [`MAX_BODY`] bytes of a message, [`MAX_RESULT`] bytes or
//!   [`MAX_ROWS`] rows of a result, and [`MAX_QUEUE`] outstanding messages are kept.
//!
//! # Cost
//! Linear in the bytes. A message that arrives in one piece is not copied by the framer.

mod answers;
mod asked;
mod binding;
mod body;
mod event;
mod frame;
pub mod mysql;
mod rows;
mod session;
mod startup;

pub use asked::asked;
pub use binding::Unbound;
pub use event::{Bound, Column, Event, Executed, Outcome, Prepared, Refusal, Severity, Times};
pub use frame::{Frame, Framer, MAX_BODY, Side};
pub use rows::{MAX_RESULT, MAX_ROWS, Rows};
pub use session::{MAX_QUEUE, Session};
pub use startup::{MAX_STARTUP, Startup};
