//! Bytes of a stream, counted.

use std::io::{BufRead, Read};

use margay_history::Invalid;

use crate::FormatError;

/// A stream of binary records. It knows where it stands and makes errors that say so.
pub(crate) struct Bytes<'a> {
    name: String,
    reader: Box<dyn BufRead + 'a>,
    offset: u64,
}

impl<'a> Bytes<'a> {
    pub fn new(name: String, reader: Box<dyn BufRead + 'a>) -> Self {
        Self { name, reader, offset: 0 }
    }

    /// How many bytes were read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether nothing is left.
    pub fn at_end(&mut self) -> Result<bool, FormatError> {
        match self.reader.fill_buf() {
            Ok(rest) => Ok(rest.is_empty()),
            Err(e) => Err(self.place(FormatError::from(e))),
        }
    }

    /// The next `N` bytes, for `u32::from_le_bytes` and its like.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let mut array = [0; N];
        self.exact(&mut array)?;
        Ok(array)
    }

    /// Fills `buffer`. Do not make one of a size that the file claims; see [`Bytes::vec`].
    pub fn exact(&mut self, buffer: &mut [u8]) -> Result<(), FormatError> {
        self.reader.read_exact(buffer).map_err(|e| self.place(FormatError::from(e)))?;
        self.offset += buffer.len() as u64;
        Ok(())
    }

    /// The next `len` bytes. Memory grows with what is there, not with what `len` claims.
    pub fn vec(&mut self, len: u64) -> Result<Vec<u8>, FormatError> {
        let mut bytes = Vec::new();
        let read = self.reader.by_ref().take(len).read_to_end(&mut bytes);
        let read = read.map_err(|e| self.place(FormatError::from(e)))?;
        if (read as u64) < len {
            return Err(self.error("the file ends too early"));
        }
        self.offset += len;
        Ok(bytes)
    }

    /// An error at the current byte.
    pub fn error(&self, what: impl Into<String>) -> FormatError {
        self.place(FormatError::new(what))
    }

    /// An error at a byte met before.
    pub fn error_at(&self, offset: u64, what: impl Into<String>) -> FormatError {
        FormatError::new(what).in_file(&self.name).at_offset(offset)
    }

    /// A broken rule of the model, whose place is a byte of this file, as told to
    /// `HistoryBuilder::at_place`.
    pub fn invalid(&self, invalid: Invalid) -> FormatError {
        self.error_at(invalid.place, invalid.what)
    }

    fn place(&self, error: FormatError) -> FormatError {
        error.in_file(&self.name).at_offset(self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_tells_where_the_file_ends() {
        let mut bytes = Bytes::new("b".into(), Box::new(&b"\x01\x02\x03\x04\x05"[..]));
        assert_eq!(bytes.array().map(u32::from_be_bytes), Ok(0x0102_0304));
        assert_eq!(bytes.array::<2>().unwrap_err().to_string(), "b:byte 4: the file ends too early");
        assert_eq!(bytes.vec(u64::MAX).unwrap_err().what, "the file ends too early");
    }
}
