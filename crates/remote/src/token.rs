//! How two processes prove to each other that they know the same secret.
//!
//! # Algorithm
//! Both say who they are, with a number drawn at random. Then both prove that they know the token
//! by a keyed hash (HMAC with SHA-256) of what they said and of the other's number. So the token
//! does not cross, and an old proof is worth nothing.
//!
//! # Invariants
//! What the two say must differ, or an echo would be a proof: callers put a role or a number into
//! it and reject their own.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use sha2::{Digest, Sha256};

/// The secret that all processes share.
#[derive(Clone)]
pub struct Token(Vec<u8>);

impl Token {
    /// The text without space around it.
    ///
    /// # Errors
    /// When it is too short to be a secret.
    pub fn new(text: &str) -> Result<Self, String> {
        match text.trim().as_bytes() {
            short if short.len() < 16 => Err("the token is shorter than 16 characters".to_owned()),
            token => Ok(Self(token.to_vec())),
        }
    }

    /// A keyed hash: HMAC with SHA-256.
    fn sign(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut key = [0; 64];
        match self.0.len() {
            0..=64 => key[..self.0.len()].copy_from_slice(&self.0),
            _ => key[..32].copy_from_slice(&Sha256::digest(&self.0)),
        }
        let mut inner = Sha256::new();
        inner.update(key.map(|byte| byte ^ 0x36));
        parts.iter().for_each(|part| inner.update(part));
        let mut outer = Sha256::new();
        outer.update(key.map(|byte| byte ^ 0x5C));
        outer.update(inner.finalize());
        outer.finalize().into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a token")
    }
}

/// What the other process said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Greeting {
    /// Who it says that it is.
    pub said: Vec<u8>,
    /// Whether it knows the token.
    pub known: bool,
}

/// Longer greetings are rejected.
const LONGEST: usize = 1 << 16;

/// Both processes say something and prove that they know the token.
///
/// # Errors
/// When the connection breaks, or the other process does not begin with `magic`.
pub fn greet(mut stream: &TcpStream, magic: &[u8; 16], token: &Token, said: &[u8]) -> io::Result<Greeting> {
    let nonce = random();
    let mut mine = nonce.to_vec();
    mine.extend_from_slice(said);
    let mut out = magic.to_vec();
    out.extend((mine.len() as u32).to_le_bytes());
    out.extend(&mine);
    stream.write_all(&out)?;
    let heard = hear(stream, magic)?;
    let (other, rest) = heard.split_first_chunk::<16>().ok_or(io::ErrorKind::InvalidData)?;
    stream.write_all(&token.sign(&[&mine, other]))?;
    let mut proof = [0; 32];
    stream.read_exact(&mut proof)?;
    let expected = token.sign(&[&heard, &nonce]);
    // All bytes are compared, so that how long it takes tells nothing.
    let differ = proof.iter().zip(expected).fold(0, |all, (a, b)| all | (a ^ b));
    Ok(Greeting { said: rest.to_vec(), known: differ == 0 })
}

fn hear(mut stream: &TcpStream, magic: &[u8; 16]) -> io::Result<Vec<u8>> {
    let (mut heard, mut length) = ([0; 16], [0; 4]);
    stream.read_exact(&mut heard)?;
    if heard != *magic {
        return Err(io::ErrorKind::InvalidData.into());
    }
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    let mut heard =
        vec![0; Some(length).filter(|length| *length <= LONGEST).ok_or(io::ErrorKind::InvalidData)?];
    stream.read_exact(&mut heard)?;
    Ok(heard)
}

/// A number that cannot be foreseen: the system's, mixed with the keys that Rust draws for its
/// tables.
#[must_use]
pub fn random() -> [u8; 16] {
    let mut system = [0; 16];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut system));
    let drawn =
        std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), (read.is_ok(), Instant::now()));
    for (byte, more) in system.iter_mut().zip(drawn.to_le_bytes()) {
        *byte ^= more;
    }
    system
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keyed_hash_is_that_of_the_standard() {
        // RFC 4231, test case 1.
        let token = Token(vec![0x0B; 20]);
        let hex: String = token.sign(&[b"Hi There"]).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
        // Test case 6: a key that is longer than a block.
        let token = Token(vec![0xAA; 131]);
        let hex: String = token
            .sign(&[b"Test Using Larger Than Block-Size Key", b" - Hash Key First"])
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(hex, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    }
}
