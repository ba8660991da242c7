//! Recorders on several machines, and the verifier that they stream to.
//!
//! # Problem
//! The load of a large test comes from several machines, whose clocks differ. What each of them
//! recorded means nothing alone: it read what the others wrote. One verifier needs all of it, while
//! clients run, and it must notice when a part is missing.
//!
//! # Algorithm
//! A [`Recorder`] connects to the verifier ([`Listening`]), and both prove that they know the token
//! ([`Token`]). The recorder sends what it has written to its own disk, in numbered frames with
//! checksums (`frame`), each with a promise: everything that was called before this time has come.
//! It keeps what the verifier has not confirmed. When a connection breaks, it makes another one and
//! goes on from there. The verifier compares clocks ten times a second ([`Clock`]) and puts the
//! recordings together ([`Merge`]). [`Clock`] and [`Merge`] do no input or output.
//!
//! All recorders go through the same phases: the first one creates the tables when all have come,
//! then clients run everywhere, and when all have ended the first one drops the tables. The verifier
//! tells the phase again on each new connection.
//!
//! # Invariants
//! - The verifier takes nothing from a process that does not know the token, and sends it nothing.
//! - A recording that does not come to its end makes the whole incomplete, and the verifier names
//!   the machine.

mod clock;
mod frame;
mod listen;
mod merge;
mod send;
mod token;

pub use clock::{Clock, Exchange};
pub use listen::{Gathered, Listening, Takes};
pub use merge::Merge;
pub use send::{Machine, Recorder};
pub use token::{Greeting, Token, greet, random};

use std::time::Duration;

const MAGIC: &[u8; 16] = b"margay-record-1\n";

/// How long a greeting, or the writing of a message, may take.
const SHORT: Duration = Duration::from_secs(5);

/// How often the verifier compares clocks.
const PULSE: Duration = Duration::from_millis(100);

/// What a recorder says about itself.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Hello {
    version: String,
    /// From 1.
    machine: usize,
    of: usize,
    /// A random number: another recorder has another one.
    recorder: String,
    /// What it runs, which must be the same on all machines.
    subject: String,
}

impl Hello {
    fn to_bytes(&self) -> Vec<u8> {
        let Self { version, machine, of, recorder, subject } = self;
        format!("recorder\n{version}\n{machine}\n{of}\n{recorder}\n{subject}").into_bytes()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut fields = std::str::from_utf8(bytes).ok()?.splitn(6, '\n');
        let role = fields.next()?;
        let version = fields.next()?.to_owned();
        let (machine, of) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        let (recorder, subject) = (fields.next()?.to_owned(), fields.next()?.to_owned());
        Some(Self { version, machine, of, recorder, subject }).filter(|_| role == "recorder")
    }
}

/// What the verifier says about itself.
fn verifier() -> Vec<u8> {
    format!("verifier\n{}", env!("CARGO_PKG_VERSION")).into_bytes()
}
