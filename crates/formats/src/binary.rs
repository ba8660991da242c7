//! The binary form.

/// What a file in the binary form begins with. Not text, and broken by any change of line ends.
pub(crate) const MAGIC: &[u8; 8] = b"\x89MARGAY\n";
