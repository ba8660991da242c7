//! Cuts a stream of bytes into packets: a length of three bytes, a number, a body. A body of 16 MiB
//! − 1 goes on in the next packet.

use crate::body::Body;
use crate::frame::MAX_BODY;

/// A body of this length goes on in the next packet.
pub(crate) const CHUNK: usize = 0xff_ffff;

const HEADER: usize = 4;

/// A packet with all of its parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Packet<'a> {
    /// The number of its first part.
    pub number: u8,
    /// Its body, or the beginning of it.
    pub body: &'a [u8],
    /// The length of its body.
    pub length: usize,
}

impl Packet<'_> {
    /// Whether all of the body is there.
    pub fn is_whole(&self) -> bool {
        self.body.len() == self.length
    }
}

/// The packets of one direction.
#[derive(Default, Debug)]
pub(crate) struct Framer {
    header: [u8; HEADER],
    /// Bytes of the header that have come.
    have: usize,
    /// Bytes of this part that have not come yet.
    left: usize,
    /// The length of this part, and of all parts so far.
    part: usize,
    length: usize,
    /// Whether this part goes on with the one before, whose number was the first.
    goes_on: Option<u8>,
    /// How much of the body is kept.
    keep: usize,
    body: Vec<u8>,
}

impl Framer {
    /// The next packet, if the input completes one. Takes what it uses off the input. Of a packet
    /// that begins, at most `keep` bytes are kept.
    pub fn next<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8], keep: usize) -> Option<Packet<'s>> {
        loop {
            if self.have < HEADER && !self.begin(input, keep) {
                return None;
            }
            let number = self.goes_on.unwrap_or(self.header[3]);
            let came = take(input, self.left);
            self.left -= came.len();
            let ends = self.left == 0 && self.part < CHUNK;
            if ends && came.len() == self.length {
                self.have = 0;
                return Some(Packet {
                    number,
                    body: &came[..came.len().min(self.keep)],
                    length: self.length,
                });
            }
            let room = self.keep.saturating_sub(self.body.len());
            self.body.extend_from_slice(&came[..came.len().min(room)]);
            if self.left > 0 {
                return None;
            }
            self.have = 0;
            if ends {
                self.goes_on = None;
                return Some(Packet { number, body: &self.body, length: self.length });
            }
            self.goes_on = Some(number);
        }
    }

    /// Reads the header of a part. Says whether it is there.
    fn begin(&mut self, input: &mut &[u8], keep: usize) -> bool {
        let taken = take(input, HEADER - self.have);
        self.header[self.have..self.have + taken.len()].copy_from_slice(taken);
        self.have += taken.len();
        if self.have < HEADER {
            return false;
        }
        let [a, b, c, _] = self.header;
        self.part = u32::from_le_bytes([a, b, c, 0]) as usize;
        self.left = self.part;
        if self.goes_on.is_none() {
            (self.length, self.keep) = (0, keep.min(MAX_BODY));
            self.body.clear();
        }
        self.length = self.length.saturating_add(self.part);
        true
    }
}

fn take<'a>(input: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(input.len().min(most));
    *input = rest;
    taken
}

/// The texts of the statements in bytes that a client is about to send, if these are whole packets
/// and every statement among them has its text with it; none if it cannot be told.
#[must_use]
pub fn asked(mut bytes: &[u8]) -> Option<Vec<&str>> {
    let mut texts = Vec::new();
    while !bytes.is_empty() {
        let mut rest = Body(bytes);
        let [a, b, c, _] = rest.array()?;
        let length = u32::from_le_bytes([a, b, c, 0]) as usize;
        let (command, body) = rest.bytes(length)?.split_first()?;
        bytes = rest.0;
        match command {
            0x03 | 0x16 if length < CHUNK => texts.push(std::str::from_utf8(body).ok()?),
            // Quit, choose a database, ping, close and reset a statement, reset the connection.
            0x01 | 0x02 | 0x0e | 0x19 | 0x1a | 0x1f => {}
            _ => return None,
        }
    }
    Some(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(pieces: &[&[u8]]) -> Vec<(u8, Vec<u8>, usize)> {
        let (mut framer, mut found) = (Framer::default(), Vec::new());
        for piece in pieces {
            let mut input = *piece;
            while let Some(packet) = framer.next(&mut input, MAX_BODY) {
                found.push((packet.number, packet.body.to_vec(), packet.length));
            }
        }
        found
    }

    #[test]
    fn packets_are_found_however_they_are_split() {
        let bytes = b"\x02\0\0\0ab\0\0\0\x01\x01\0\0\x02c";
        let expected = [(0, b"ab".to_vec(), 2), (1, Vec::new(), 0), (2, b"c".to_vec(), 1)];
        for split in 0..bytes.len() {
            let (front, back) = bytes.split_at(split);
            assert_eq!(packets(&[front, back]), expected, "split at {split}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(packets(&single), expected);
    }

    #[test]
    fn long_bodies_go_on_and_are_not_kept() {
        for rest in [0, 5] {
            let mut bytes = b"\xff\xff\xff\x07".to_vec();
            bytes.resize(4 + CHUNK, b'x');
            bytes.extend_from_slice(&[rest, 0, 0, 8]);
            bytes.resize(bytes.len() + usize::from(rest), b'y');
            bytes.extend_from_slice(b"\x01\0\0\0z");
            for size in [bytes.len(), 4096, 77_777] {
                let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
                let found = packets(&pieces);
                let lengths: Vec<_> = found.iter().map(|it| (it.0, it.1.len(), it.2)).collect();
                assert_eq!(lengths, [(7, MAX_BODY, CHUNK + usize::from(rest)), (0, 1, 1)], "{size}");
            }
        }
    }

    #[test]
    fn texts_are_found_in_whole_packets_alone() {
        let bytes = b"\x04\0\0\0\x03a b\x01\0\0\0\x0e";
        assert_eq!(asked(bytes), Some(vec!["a b"]));
        assert_eq!(asked(&bytes[..6]), None);
        assert_eq!(asked(b"\x02\0\0\0\x17a"), None, "a statement that was prepared before");
    }
}
