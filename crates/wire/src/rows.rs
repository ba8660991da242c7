//! The rows of a result, as they came.

use crate::body::Body;

/// Results with more bytes than this are not kept.
pub const MAX_RESULT: usize = 1 << 20;

/// Results with more rows than this are not kept.
pub const MAX_ROWS: usize = 10_000;

/// Bodies of DataRow messages, one after the other.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Rows {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    too_many: bool,
}

impl Rows {
    /// Adds a row, unless there are too many.
    pub(crate) fn push(&mut self, body: &[u8], whole: bool) {
        if !whole || self.bytes.len() + body.len() > MAX_RESULT || self.ends.len() >= MAX_ROWS {
            *self = Self { too_many: true, ..Self::default() };
        }
        if !self.too_many {
            self.bytes.extend_from_slice(body);
            self.ends.push(self.bytes.len());
        }
    }

    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Whether there were too many to keep.
    #[must_use]
    pub fn too_many(&self) -> bool {
        self.too_many
    }

    /// The values of a row; `None` if it is no row.
    pub fn iter(&self) -> impl Iterator<Item = Option<Vec<Option<&[u8]>>>> {
        let starts = std::iter::once(&0).chain(&self.ends);
        let bodies = starts.zip(&self.ends).map(|(&start, &end)| &self.bytes[start..end]);
        bodies.map(|body| Body(body).list(Body::value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_back() {
        let mut rows = Rows::default();
        rows.push(b"\0\x02\0\0\0\x01a\xff\xff\xff\xff", true);
        rows.push(b"\0\x01\0\0\0\x09a", true);
        let read: Vec<_> = rows.iter().collect();
        assert_eq!(read, [Some(vec![Some(&b"a"[..]), None]), None]);
    }

    #[test]
    fn too_many_rows_are_forgotten() {
        let mut rows = Rows::default();
        (0..=MAX_ROWS).for_each(|_| rows.push(b"\0\0", true));
        assert!(rows.too_many() && rows.is_empty());
        rows.push(b"\0\0", true);
        assert!(rows.is_empty());
    }
}
