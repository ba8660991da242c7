//! The binary form: the columns of a history, one section each. See `docs/FORMAT.md` for the
//! layout.
//!
//! # Design
//! [`MAGIC`], a version byte, the [`SECTIONS`] in fixed order, and a CRC-32 of all before it. A
//! section is its number of elements, its length in bytes, and its elements. Numbers are LEB128
//! variable-length integers; signed ones are folded so that small magnitudes stay short.
//!
//! # Invariants
//! - Every element takes at least one byte, so a number of elements above the section's length is
//!   refused before any memory is reserved; and a section is read as far as it is there, not as
//!   long as it claims to be.
//! - What is read is validated like any other history: see [`margay_history::Columns`].
//!
//! # Cost
//! One section in memory beside the history; about 7 bytes per key-value operation with its
//! interval.

mod codec;
mod reader;
mod writer;

pub(crate) use reader::read;
pub(crate) use writer::write;

/// What a file in the binary form begins with. Not text, and broken by any change of line ends.
pub(crate) const MAGIC: &[u8; 8] = b"\x89MARGAY\n";
/// The versions of the form. A history that needs no section of the second is written in the first.
const VERSIONS: [(u8, usize); 2] = [(1, 20), (2, SECTIONS.len())];

/// The sections, in the order of the file.
const SECTIONS: [&str; 22] = [
    "header",
    "tables",
    "names",
    "values",
    "objects",
    "predicates",
    "initial values",
    "sessions",
    "transactions",
    "operations",
    "intervals",
    "accesses",
    "scans",
    "updates",
    "statements",
    "version orders",
    "version sets",
    "snapshots",
    "commits",
    "serializations",
    "begins",
    "tables with unknown content",
];

/// How values are tagged. The four fixed values are not stored, and small integers live in their
/// ids.
const INT: u8 = 0;
const UINT: u8 = 1;
const FLOAT: u8 = 2;
const TEXT: u8 = 3;
const LIST: u8 = 4;
const ROW: u8 = 5;

/// The number of values that every history has: null, unknown, false, true.
const FIXED_VALUES: usize = 4;

/// An operation is one byte: its kind below, its number of accesses above; this many or more follow
/// as a number.
const MANY_ACCESSES: u32 = 15;

/// Bits of the flags of a begin, and of a table with unknown content.
const HAS_LEVEL: u8 = 1;
const HAS_UNIT: u8 = 2;
const READ_ONLY: u8 = 4;
const INITIAL_UNKNOWN: u8 = 1;
const WRITTEN_BY_ANYTHING: u8 = 2;

/// Bits of an update's or a statement's flags.
const OBSERVED: u8 = 1;
const HAS_SET: u8 = 2;
const HAS_ROWS: u8 = 1;
const HAS_COUNT: u8 = 2;
