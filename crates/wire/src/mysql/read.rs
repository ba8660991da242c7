//! Reads the parts of a packet. Every read is checked: what is too short gives `None`.

/// What is left of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// A number with its length in its first byte.
    pub fn number(&mut self) -> Option<u64> {
        Some(match self.u8()? {
            small @ 0..=0xfa => small.into(),
            0xfc => self.u16()?.into(),
            0xfd => {
                let [a, b, c] = self.array()?;
                u32::from_le_bytes([a, b, c, 0]).into()
            }
            0xfe => u64::from_le_bytes(self.array()?),
            _ => return None,
        })
    }

    /// Bytes with their length in front.
    pub fn counted(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.bytes(length)
    }

    /// The bytes up to the next zero.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|&byte| byte == 0)?;
        let taken = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Some(taken)
    }

    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_forms() {
        let bytes = [0xfa, 0xfc, 1, 2, 0xfd, 1, 0, 1, 0xfe, 1, 0, 0, 0, 0, 0, 0, 1, 0xfb];
        let mut reader = Reader(&bytes);
        let read: Vec<_> = (0..5).map(|_| reader.number()).collect();
        assert_eq!(read, [Some(250), Some(513), Some(65537), Some((1 << 56) + 1), None]);
    }

    #[test]
    fn what_is_too_short_is_nothing() {
        assert_eq!(Reader(&[3, 1, 2]).counted(), None);
        assert_eq!(Reader(&[0xfe, 255, 255, 255, 255, 255, 255, 255, 255]).counted(), None);
        assert_eq!(Reader(b"abc").string(), None);
    }
}
