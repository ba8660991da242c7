//! The native format: a header, then one operation or piece of evidence per line, as JSON. See
//! `docs/FORMAT.md`.
//!
//! # Invariants
//! - Strict: an unknown or repeated field, a wrong type, a second kind of operation on a line are
//!   errors at their byte.
//! - One line is held at a time; a line is parsed once, in place, straight into the builder.
//! - The writer's output is canonical: one history has one text, and reading it gives the same
//!   history.

mod fields;
mod header;
mod json;
mod reader;
mod values;
mod writer;

pub(crate) use reader::read;
pub use reader::{Glance, NativeReader, Stamp, StampKind, glance, is_cut, stamp};
pub(crate) use writer::write;
pub use writer::{Beyond, NativeWriter};
