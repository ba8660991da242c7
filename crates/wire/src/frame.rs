//! Cuts a stream of bytes into messages: a type byte, a length of four bytes that includes itself,
//! a body.

/// Longer bodies are skipped by their length.
pub const MAX_BODY: usize = 1 << 20;

/// What is kept of a body that is too long: enough for the names at its beginning.
const PREFIX: usize = 256;

const HEADER: usize = 5;

/// A direction of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// From the client to the server.
    Client,
    /// From the server to the client.
    Server,
}

impl Side {
    /// How many bytes of a body of this type are kept: nothing of passwords, authentication and
    /// COPY data.
    fn kept(self, tag: u8, length: usize) -> usize {
        match (self, tag) {
            (Side::Client, b'p' | b'd') | (Side::Server, b'R' | b'd') => 0,
            _ if length > MAX_BODY => PREFIX,
            _ => length,
        }
    }
}

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// Its type.
    pub tag: u8,
    /// Its body, or the beginning of it.
    pub body: &'a [u8],
    /// Whether that is all of the body.
    pub whole: bool,
}

/// The messages of one direction.
#[derive(Debug)]
pub struct Framer {
    side: Side,
    header: [u8; HEADER],
    /// Bytes of the header that have come.
    have: usize,
    /// Bytes of the body that have not come yet.
    left: usize,
    length: usize,
    body: Vec<u8>,
}

impl Framer {
    /// A framer for a direction, after the startup message.
    #[must_use]
    pub fn new(side: Side) -> Self {
        Self { side, header: [0; HEADER], have: 0, left: 0, length: 0, body: Vec::new() }
    }

    /// The next message, if the input completes one. Takes what it uses off the input.
    ///
    /// # Errors
    /// When a length is impossible: these are not messages.
    pub fn next<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8]) -> Result<Option<Frame<'s>>, &'static str> {
        if self.have < HEADER {
            let taken = take(input, HEADER - self.have);
            self.header[self.have..self.have + taken.len()].copy_from_slice(taken);
            self.have += taken.len();
            if self.have < HEADER {
                return Ok(None);
            }
            let [_, a, b, c, d] = self.header;
            let length = i32::from_be_bytes([a, b, c, d]);
            self.length = match usize::try_from(length) {
                Ok(length) if length >= 4 => length - 4,
                _ => return Err("a message with an impossible length"),
            };
            self.left = self.length;
            self.body.clear();
        }
        let tag = self.header[0];
        let kept = self.side.kept(tag, self.length);
        let whole = kept == self.length;
        let came = take(input, self.left);
        self.left -= came.len();
        if self.left == 0 && came.len() == self.length {
            self.have = 0;
            return Ok(Some(Frame { tag, body: &came[..kept], whole }));
        }
        let room = kept.saturating_sub(self.body.len());
        self.body.extend_from_slice(&came[..came.len().min(room)]);
        if self.left > 0 {
            return Ok(None);
        }
        self.have = 0;
        Ok(Some(Frame { tag, body: &self.body, whole }))
    }
}

fn take<'a>(input: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(input.len().min(most));
    *input = rest;
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(side: Side, pieces: &[&[u8]]) -> Vec<(u8, usize, bool)> {
        let (mut framer, mut found) = (Framer::new(side), Vec::new());
        for piece in pieces {
            let mut input = *piece;
            while let Some(frame) = framer.next(&mut input).expect("messages") {
                found.push((frame.tag, frame.body.len(), frame.whole));
            }
        }
        found
    }

    #[test]
    fn messages_are_found_however_they_are_split() {
        let bytes = b"Q\0\0\0\x06a\0S\0\0\0\x04X\0\0\0\x04";
        let expected = [(b'Q', 2, true), (b'S', 0, true), (b'X', 0, true)];
        for split in 0..bytes.len() {
            let (front, back) = bytes.split_at(split);
            assert_eq!(tags(Side::Client, &[front, back]), expected, "split at {split}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(tags(Side::Client, &single), expected);
    }

    #[test]
    fn passwords_and_long_bodies_are_not_kept() {
        assert_eq!(tags(Side::Client, &[b"p\0\0\0\x0asecret"]), [(b'p', 0, false)]);
        let mut long = b"D\0".to_vec();
        long.extend_from_slice(&((MAX_BODY as u32 + 5).to_be_bytes())[1..]);
        long.resize(5 + MAX_BODY + 1, 7);
        assert_eq!(tags(Side::Server, &[&long]), [(b'D', PREFIX, false)]);
        let pieces: Vec<&[u8]> = long.chunks(1000).collect();
        assert_eq!(tags(Side::Server, &pieces), [(b'D', PREFIX, false)]);
    }

    #[test]
    fn an_impossible_length_is_an_error() {
        for length in [[0, 0, 0, 3], [255, 255, 255, 255]] {
            let bytes: Vec<u8> = [b'Q'].into_iter().chain(length).collect();
            assert!(Framer::new(Side::Client).next(&mut &*bytes).is_err());
        }
    }
}
