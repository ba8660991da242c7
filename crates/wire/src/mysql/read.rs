//! What MySQL's protocol has besides: numbers with their low byte first.

use crate::body::Body;

impl<'a> Body<'a> {
    pub fn le16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn le32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// A number with its length in its first byte.
    pub fn number(&mut self) -> Option<u64> {
        Some(match self.u8()? {
            small @ 0..=0xfa => small.into(),
            0xfc => self.le16()?.into(),
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_forms() {
        let bytes = [0xfa, 0xfc, 1, 2, 0xfd, 1, 0, 1, 0xfe, 1, 0, 0, 0, 0, 0, 0, 1, 0xfb];
        let mut reader = Body(&bytes);
        let read: Vec<_> = (0..5).map(|_| reader.number()).collect();
        assert_eq!(read, [Some(250), Some(513), Some(65537), Some((1 << 56) + 1), None]);
    }

    #[test]
    fn what_is_too_short_is_nothing() {
        assert_eq!(Body(&[3, 1, 2]).counted(), None);
        assert_eq!(Body(&[0xfe, 255, 255, 255, 255, 255, 255, 255, 255]).counted(), None);
        assert_eq!(Body(b"abc").string(), None);
    }
}
