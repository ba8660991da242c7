//! The texts of the statements in bytes that a client is about to send.

use crate::body::Body;

/// The texts, if these are whole messages and every statement among them has its text with it; none
/// if it cannot be told.
#[must_use]
pub fn asked(mut bytes: &[u8]) -> Option<Vec<&str>> {
    let mut texts = Vec::new();
    while let Some((&tag, rest)) = bytes.split_first() {
        let mut rest = Body(rest);
        let length = usize::try_from(rest.i32()?).ok()?.checked_sub(4)?;
        let mut body = Body(rest.bytes(length)?);
        bytes = rest.0;
        match tag {
            b'Q' => texts.push(std::str::from_utf8(body.string()?).ok()?),
            b'P' => {
                body.string()?;
                texts.push(std::str::from_utf8(body.string()?).ok()?);
            }
            // A statement that was prepared before.
            b'B' | b'D' | b'E' if texts.is_empty() => return None,
            b'B' | b'D' | b'E' | b'C' | b'S' | b'H' | b'X' | b'p' | b'd' | b'c' | b'f' => {}
            _ => return None,
        }
    }
    Some(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_in_whole_messages_alone() {
        let bytes = b"P\0\0\0\x0aa\0b c\0B\0\0\0\x04S\0\0\0\x04Q\0\0\0\x06d\0";
        assert_eq!(asked(bytes), Some(vec!["b c", "d"]));
        assert_eq!(asked(b""), Some(vec![]));
        assert_eq!(asked(b"S\0\0\0\x04"), Some(vec![]));
        for end in [1, 4, 9, bytes.len() - 1] {
            assert_eq!(asked(&bytes[..end]), None, "{end}");
        }
        for strange in
            [&b"B\0\0\0\x04"[..], b"Q\0\0\0\0", b"Q\xff\xff\xff\xff", b"Q\0\0\0\x05d", b"?\0\0\0\x04"]
        {
            assert_eq!(asked(strange), None, "{strange:?}");
        }
    }
}
