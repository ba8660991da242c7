//! Numbers and texts as bytes.

use margay_history::ValueId;

use crate::FormatError;

/// A section that is being written.
#[derive(Default)]
pub(super) struct Encoder {
    pub bytes: Vec<u8>,
}

impl Encoder {
    pub fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    pub fn uint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    pub fn int(&mut self, number: i64) {
        self.uint(((number << 1) ^ (number >> 63)) as u64);
    }

    pub fn count(&mut self, count: usize) {
        self.uint(count as u64);
    }

    pub fn text(&mut self, text: &str) {
        self.count(text.len());
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// The highest bit of an id says that the rest is a small integer; as the lowest, it keeps both
    /// kinds short.
    pub fn value(&mut self, id: ValueId) {
        self.uint(u64::from(id.0.rotate_left(1)));
    }

    pub fn values(&mut self, ids: &[ValueId]) {
        self.count(ids.len());
        ids.iter().for_each(|&id| self.value(id));
    }
}

/// A section that is being read.
pub(super) struct Section<'a> {
    pub name: &'static str,
    /// How many elements it claims to have: never more than its bytes.
    pub count: usize,
    pub bytes: &'a [u8],
    pub at: usize,
    /// Where its bytes begin in the file.
    pub offset: u64,
}

impl Section<'_> {
    pub fn error(&self, what: &str) -> FormatError {
        FormatError::new(format!("{what}, in the section of {}", self.name))
            .at_offset(self.offset + self.at as u64)
    }

    #[cold]
    fn ends(&self) -> FormatError {
        self.error("an element is cut off")
    }

    #[inline]
    pub fn byte(&mut self) -> Result<u8, FormatError> {
        let byte = *self.bytes.get(self.at).ok_or_else(|| self.ends())?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    pub fn uint(&mut self) -> Result<u64, FormatError> {
        match self.bytes.get(self.at) {
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(byte))
            }
            _ => self.long_uint(),
        }
    }

    #[inline]
    fn long_uint(&mut self) -> Result<u64, FormatError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                // The tenth byte has room for one bit only.
                return if shift < 63 || byte <= 1 {
                    Ok(number)
                } else {
                    Err(self.error("a number is too long"))
                };
            }
        }
        Err(self.error("a number is too long"))
    }

    #[inline]
    pub fn int(&mut self) -> Result<i64, FormatError> {
        let folded = self.uint()?;
        Ok((folded >> 1) as i64 ^ -((folded & 1) as i64))
    }

    /// A number of 32 bits: an id, or a length.
    #[inline]
    pub fn id(&mut self) -> Result<u32, FormatError> {
        u32::try_from(self.uint()?).map_err(|_| self.error("a number is too large"))
    }

    /// A number of elements that follow, at least one byte each.
    pub fn length(&mut self) -> Result<usize, FormatError> {
        let length = self.uint()?;
        match usize::try_from(length) {
            Ok(length) if length <= self.bytes.len() - self.at => Ok(length),
            _ => Err(self.error("more elements than bytes")),
        }
    }

    pub fn slice(&mut self, length: usize) -> Result<&[u8], FormatError> {
        let slice = self.bytes.get(self.at..self.at.saturating_add(length)).ok_or_else(|| self.ends())?;
        self.at += length;
        Ok(slice)
    }

    pub fn text(&mut self) -> Result<&str, FormatError> {
        let length = self.length()?;
        let start = self.at;
        self.slice(length)?;
        std::str::from_utf8(&self.bytes[start..self.at]).map_err(|_| self.error("a text that is not UTF-8"))
    }

    pub fn texts(&mut self) -> Result<Vec<String>, FormatError> {
        let length = self.length()?;
        self.many(length, |section| section.text().map(str::to_string))
    }

    #[inline]
    pub fn value(&mut self) -> Result<ValueId, FormatError> {
        Ok(ValueId(self.id()?.rotate_right(1)))
    }

    pub fn values(&mut self) -> Result<Vec<ValueId>, FormatError> {
        let length = self.length()?;
        self.many(length, Self::value)
    }

    /// Reads `count` elements, a number that was checked against the bytes there are.
    pub fn many<T>(
        &mut self,
        count: usize,
        mut each: impl FnMut(&mut Self) -> Result<T, FormatError>,
    ) -> Result<Vec<T>, FormatError> {
        let mut all = Vec::with_capacity(count.min(1 << 24));
        for _ in 0..count {
            all.push(each(self)?);
        }
        Ok(all)
    }

    /// Reads all elements of the section.
    pub fn all<T>(
        &mut self,
        each: impl FnMut(&mut Self) -> Result<T, FormatError>,
    ) -> Result<Vec<T>, FormatError> {
        self.many(self.count, each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(bytes: &[u8]) -> Section<'_> {
        Section { name: "test", count: 0, bytes, at: 0, offset: 100 }
    }

    #[test]
    fn numbers_come_back() {
        let mut out = Encoder::default();
        let uints = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX];
        let ints = [0, -1, 1, 63, 64, -64, -65, i64::MAX, i64::MIN];
        uints.iter().for_each(|&n| out.uint(n));
        ints.iter().for_each(|&n| out.int(n));
        out.value(ValueId::TRUE);
        out.value(ValueId(u32::MAX));
        let mut section = section(&out.bytes);
        uints.iter().for_each(|&n| assert_eq!(section.uint(), Ok(n)));
        ints.iter().for_each(|&n| assert_eq!(section.int(), Ok(n)));
        assert_eq!((section.value(), section.value()), (Ok(ValueId::TRUE), Ok(ValueId(u32::MAX))));
        assert_eq!(
            section.uint().unwrap_err().to_string(),
            format!("byte {}: an element is cut off, in the section of test", 100 + out.bytes.len())
        );
    }

    #[test]
    fn overlong_numbers_and_lengths_are_refused() {
        assert!(section(&[0xff; 9]).uint().is_err());
        assert!(section(&[0xff; 11]).uint().is_err());
        assert!(section(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).uint().is_err());
        assert!(section(&[200, 1, b'a']).text().is_err());
        assert!(section(&[1, 0xff]).text().is_err());
    }
}
