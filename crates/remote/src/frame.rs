//! What crosses between a recorder and the verifier: messages in frames.
//!
//! # Format
//! A frame is a kind (1 byte), a number (8), a length (4), a checksum (CRC-32 of all but itself, 4)
//! and the content. Numbers are little-endian. The frames of the recording are numbered from 1;
//! the others have number 0.

use std::io::{self, Read};

use flate2::Crc;

/// Longer frames are rejected.
const LONGEST: usize = 256 << 20;

const HEAD: usize = 17;

/// What is said in one frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Message {
    /// The tables are there.
    Prepared,
    /// The header of the recording.
    Header(Vec<u8>),
    /// Lines, in the order in which operations ended. All operations that were called before
    /// `promise` have come with it.
    Lines { promise: i64, lines: Vec<u8> },
    /// The recording ends; not as planned if there is a reason.
    End(String),
    /// When the verifier asked by its clock, when the recorder heard it, and when it answered.
    Pong { asked: i64, heard: i64, answered: i64 },
    /// The verifier has got the frames up to this number.
    Welcome(u64),
    /// The verifier refuses this recorder, and why.
    Refused(String),
    /// The verifier asks for the time. This is its own.
    Ping(i64),
    /// The verifier has got the frames up to the first number, and verified those up to the second.
    Taken(u64, u64),
    /// How far all recorders together are.
    Phase(Phase, String),
}

/// How far all recorders together are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Phase {
    /// Not all of them have come.
    Waiting,
    /// The first one creates the tables.
    Preparing,
    /// Clients run.
    Running,
    /// All recordings have ended.
    Ended,
    /// There is a verdict.
    Decided,
}

impl Phase {
    const ALL: [Phase; 5] = [Phase::Waiting, Phase::Preparing, Phase::Running, Phase::Ended, Phase::Decided];
}

/// The frame of a message.
pub(crate) fn encode(number: u64, message: &Message) -> Vec<u8> {
    let numbers = |numbers: &[u64]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    let (kind, content): (u8, Vec<u8>) = match message {
        Message::Prepared => (0, Vec::new()),
        Message::Header(line) => (1, line.clone()),
        Message::Lines { promise, lines } => (2, [&promise.to_le_bytes()[..], lines].concat()),
        Message::End(why) => (3, why.clone().into_bytes()),
        Message::Pong { asked, heard, answered } => {
            (4, numbers(&[*asked as u64, *heard as u64, *answered as u64]))
        }
        Message::Welcome(received) => (5, numbers(&[*received])),
        Message::Refused(why) => (6, why.clone().into_bytes()),
        Message::Ping(now) => (7, numbers(&[*now as u64])),
        Message::Taken(received, verified) => (8, numbers(&[*received, *verified])),
        Message::Phase(phase, text) => (9, [&[*phase as u8], text.as_bytes()].concat()),
    };
    let mut frame = vec![kind];
    frame.extend(number.to_le_bytes());
    frame.extend((content.len() as u32).to_le_bytes());
    let sum = checksum(&[&frame, &content]);
    frame.extend(sum.to_le_bytes());
    frame.extend(content);
    frame
}

/// The next frame: its number and its message.
///
/// # Errors
/// When the connection breaks, or the frame is damaged.
pub(crate) fn read(mut stream: impl Read) -> io::Result<(u64, Message)> {
    let mut head = [0; HEAD];
    stream.read_exact(&mut head)?;
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "a damaged frame");
    let (kind, number) = (head[0], u64::from_le_bytes(array(&head[1..9])));
    let length = u32::from_le_bytes(array(&head[9..13])) as usize;
    if length > LONGEST {
        return Err(damaged());
    }
    // Memory is taken as content comes, not as a head announces it.
    let mut content = Vec::new();
    stream.take(length as u64).read_to_end(&mut content)?;
    if content.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let sum = u32::from_le_bytes(array(&head[13..]));
    if checksum(&[&head[..13], &content]) != sum {
        return Err(damaged());
    }
    decode(kind, content).map(|message| (number, message)).ok_or_else(damaged)
}

fn decode(kind: u8, content: Vec<u8>) -> Option<Message> {
    let number = |place: usize| content.get(8 * place..8 * place + 8).map(|b| u64::from_le_bytes(array(b)));
    let text = || String::from_utf8(content.clone()).ok();
    Some(match kind {
        0 => Message::Prepared,
        1 => Message::Header(content),
        2 => Message::Lines { promise: number(0)? as i64, lines: content[8..].to_vec() },
        3 => Message::End(text()?),
        4 => {
            let [asked, heard, answered] = [number(0)?, number(1)?, number(2)?].map(|time| time as i64);
            Message::Pong { asked, heard, answered }
        }
        5 => Message::Welcome(number(0)?),
        6 => Message::Refused(text()?),
        7 => Message::Ping(number(0)? as i64),
        8 => Message::Taken(number(0)?, number(1)?),
        9 => {
            let (phase, text) = content.split_first()?;
            let phase = *Phase::ALL.get(usize::from(*phase))?;
            Message::Phase(phase, String::from_utf8(text.to_vec()).ok()?)
        }
        _ => return None,
    })
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("the caller cuts as many bytes")
}

fn checksum(parts: &[&[u8]]) -> u32 {
    let mut sum = Crc::new();
    parts.iter().for_each(|part| sum.update(part));
    sum.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written_and_no_damage_passes() {
        let messages = [
            Message::Prepared,
            Message::Header(b"{}\n".to_vec()),
            Message::Lines { promise: -7, lines: b"lines".to_vec() },
            Message::End("why".to_owned()),
            Message::Pong { asked: 1, heard: i64::MAX, answered: 3 },
            Message::Welcome(4),
            Message::Refused("no".to_owned()),
            Message::Ping(5),
            Message::Taken(6, 5),
            Message::Phase(Phase::Decided, "holds".to_owned()),
        ];
        for (number, message) in (7..).zip(messages) {
            let frame = encode(number, &message);
            assert_eq!(read(&frame[..]).expect("a frame"), (number, message));
            for place in 0..frame.len() {
                let mut damaged = frame.clone();
                damaged[place] ^= 1 << (place % 8);
                assert!(read(&damaged[..]).is_err(), "byte {place} of {damaged:?}");
                assert!(read(&frame[..place]).is_err());
            }
        }
    }
}
