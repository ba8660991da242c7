//! Reads the parts of a message's body. Every read is checked: a body that is too short gives
//! `None`.

/// What is left of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body<'a>(pub &'a [u8]);

impl<'a> Body<'a> {
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    /// The bytes up to the next zero.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|&byte| byte == 0)?;
        let taken = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Some(taken)
    }

    pub fn text(&mut self) -> Option<String> {
        String::from_utf8(self.string()?.to_vec()).ok()
    }

    /// A value with its length in front; −1 is NULL.
    pub fn value(&mut self) -> Option<Option<&'a [u8]>> {
        match self.i32()? {
            -1 => Some(None),
            length => self.bytes(usize::try_from(length).ok()?).map(Some),
        }
    }

    /// A count of 16 bits and that many elements.
    pub fn list<T>(&mut self, mut element: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.u16()?;
        (0..count).map(|_| element(self)).collect()
    }

    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}
