//! Takes the offer of channel binding out of what a server says.
//!
//! # Problem
//! SCRAM-SHA-256-PLUS binds a password to the encrypted channel that it is sent over. If the server
//! is asked over TLS and the client is not, the client must not be offered it: it refuses then.
//!
//! # Invariants
//! No other byte is changed, and none after the authentication.

use std::borrow::Cow;

/// The method that binds.
const PLUS: &[u8] = b"SCRAM-SHA-256-PLUS\0";

/// No message of the authentication is longer.
const MAX_LENGTH: usize = 64 << 10;

/// Passes on what the server says, without that offer.
#[derive(Default, Debug)]
pub struct Unbound {
    held: Vec<u8>,
    over: bool,
}

impl Unbound {
    /// What the client is to get of these bytes.
    pub fn pass<'b>(&mut self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        if self.over {
            return Cow::Borrowed(bytes);
        }
        self.held.extend_from_slice(bytes);
        let mut out = Vec::new();
        while let Some(length) = self.message() {
            let message: Vec<u8> = self.held.drain(..length).collect();
            let kind = (message[0] == b'R').then(|| message.get(5..9)).flatten();
            match kind {
                Some([0, 0, 0, 10]) => out.extend(without_plus(&message)),
                _ => out.extend(&message),
            }
            // Whoever is let in has no more to prove.
            self.over |= kind == Some(&[0; 4]);
        }
        if self.over {
            out.append(&mut self.held);
        }
        Cow::Owned(out)
    }

    /// The length of the first message, if it is there and belongs to the authentication.
    fn message(&mut self) -> Option<usize> {
        if self.over {
            return None;
        }
        let &[tag, a, b, c, d, ..] = &self.held[..] else {
            self.over = self.held.first().is_some_and(|tag| !is_early(*tag));
            return None;
        };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        self.over = !is_early(tag) || !(4..=MAX_LENGTH).contains(&length);
        (!self.over && self.held.len() > length).then_some(length + 1)
    }
}

/// Authentication, notices, and the version of the protocol.
fn is_early(tag: u8) -> bool {
    matches!(tag, b'R' | b'N' | b'v')
}

fn without_plus(message: &[u8]) -> Vec<u8> {
    let (head, methods) = message.split_at(9);
    let methods = methods.split_inclusive(|&byte| byte == 0).filter(|method| *method != PLUS);
    let methods: Vec<u8> = methods.flatten().copied().collect();
    let length = (8 + methods.len() as u32).to_be_bytes();
    [&[head[0]], &length[..], &head[5..], &methods].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFER: &[u8] = b"R\0\0\0\x2a\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0";
    const WITHOUT: &[u8] = b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0";
    const DONE: &[u8] = b"R\0\0\0\x08\0\0\0\0";

    #[test]
    fn the_offer_is_gone_however_it_is_split() {
        let rest = [DONE, OFFER, b"S\0\0\0\x04"].concat();
        let all = [OFFER, &rest].concat();
        let expected = [WITHOUT, &rest].concat();
        for split in 0..all.len() {
            let mut unbound = Unbound::default();
            let (front, back) = all.split_at(split);
            let passed = [unbound.pass(front).into_owned(), unbound.pass(back).into_owned()].concat();
            assert_eq!(passed, expected, "split at {split}");
        }
    }

    #[test]
    fn nothing_else_is_touched_or_kept() {
        for bytes in [
            &b"E\0\0\0\x09secret"[..],
            b"N",
            b"R\0\0\0\x03",
            b"R\xff\xff\xff\xff",
            b"R\0\0\0\x0c\0\0\0\x05salt",
            b"R\0\0\0\x08\0\0\0\x03",
        ] {
            let mut unbound = Unbound::default();
            let mut passed = unbound.pass(bytes).into_owned();
            passed.append(&mut unbound.held);
            assert_eq!(passed, bytes);
        }
    }
}
