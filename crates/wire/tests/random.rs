//! Random bytes and random splits: never a panic, never an event that depends on how bytes were
//! split.

use margay_wire::{Event, Session, Startup};

/// A small generator of random numbers (xorshift), so that a failure names its seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// Messages of the right types with random bodies, some of them broken.
fn traffic(random: &mut Random, tags: &[u8], bodies: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.below(40) {
        let mut body = bodies[random.below(bodies.len())].to_vec();
        if random.below(4) == 0 && !body.is_empty() {
            let at = random.below(body.len());
            body[at] = random.next() as u8;
            body.truncate(random.below(body.len() + 1));
        }
        let odd = random.below(200) == 0;
        let length = if odd { random.next() as u32 } else { body.len() as u32 + 4 };
        bytes.push(if odd { random.next() as u8 } else { tags[random.below(tags.len())] });
        bytes.extend(length.to_be_bytes());
        bytes.extend(body);
    }
    bytes
}

const CLIENT: &[&[u8]] = &[
    b"",
    b"s\0SELECT $1\0\0\0",
    b"\0s\0\0\0\0\x01\0\0\0\x015\0\0",
    b"\0\0\0\0\0",
    b"Ss\0",
    b"P\0",
    b"SELECT 1\0",
];
const SERVER: &[&[u8]] = &[
    b"",
    b"I",
    b"T",
    b"\0\x01\0\0\0\x011",
    b"SELECT 1\0",
    b"SERROR\0VERROR\0C40001\0\0",
    b"\0\x01a\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0",
    b"\0\x01\0\0\0\x17",
];

/// Feeds both directions in turns, each in pieces of random lengths; all bytes at one time.
fn events(client: &[u8], server: &[u8], random: Option<&mut Random>) -> Vec<Event> {
    let mut session = Session::new();
    session.received(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I", 0);
    let pieces = |bytes: &[u8]| -> Vec<Vec<u8>> {
        let mut left = bytes;
        let mut found = Vec::new();
        match &mut random.as_deref().map(|random| Random(random.0)) {
            None => found.push(left.to_vec()),
            Some(random) => {
                while !left.is_empty() {
                    let (piece, rest) = left.split_at(1 + random.below(left.len()));
                    found.push(piece.to_vec());
                    left = rest;
                }
            }
        }
        found
    };
    pieces(client).iter().for_each(|piece| session.sent(piece, 1));
    pieces(server).iter().for_each(|piece| session.received(piece, 2));
    session.closed(3);
    session.events().collect()
}

#[test]
fn splits_change_nothing_and_nothing_panics() {
    let rounds = std::env::var("MARGAY_WIRE_ROUNDS").map_or(20_000_u64, |it| it.parse().expect("a number"));
    let mut understood = 0;
    for seed in 1..=rounds {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let client = traffic(&mut random, b"PBEDSQHCXcdfp", CLIENT);
        let server = traffic(&mut random, b"12DCZTtnEsINSAGHc3", SERVER);
        let whole = events(&client, &server, None);
        let split = events(&client, &server, Some(&mut random));
        assert_eq!(whole, split, "seed {seed}");
        understood += usize::from(!whole.iter().any(|event| matches!(event, Event::Blind(_))));
    }
    assert!(understood > 0, "every random session was blind: the test reaches nothing");
}

/// An answer that fits each message, so that long sessions stay understood.
#[test]
fn sessions_that_make_sense_are_never_blind() {
    for seed in 1..=500_u64 {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut session = Session::new();
        let say = |session: &mut Session, from_client: bool, tag: u8, body: &[u8]| {
            let length = (body.len() as u32 + 4).to_be_bytes();
            let bytes: Vec<u8> = [tag].into_iter().chain(length).chain(body.iter().copied()).collect();
            if from_client { session.sent(&bytes, 1) } else { session.received(&bytes, 2) }
        };
        say(&mut session, false, b'Z', b"I");
        for _ in 0..50 {
            let mut answers: Vec<(u8, &[u8])> = Vec::new();
            if random.below(3) == 0 {
                say(&mut session, true, b'Q', b"SELECT 1\0");
                answers.extend([(b'T', SERVER[6]), (b'D', SERVER[3]), (b'C', SERVER[4])]);
                answers.extend((random.below(4) == 0).then_some((b'E', SERVER[5])));
            } else {
                say(&mut session, true, b'P', CLIENT[1]);
                answers.push((b'1', b""));
                let fails = random.below(6);
                for n in 0..random.below(6) {
                    say(&mut session, true, b'B', CLIENT[2]);
                    say(&mut session, true, b'D', b"P\0");
                    say(&mut session, true, b'E', CLIENT[3]);
                    match n.cmp(&fails) {
                        std::cmp::Ordering::Less => answers.extend([
                            (b'2', &b""[..]),
                            (b'T', SERVER[6]),
                            (b'D', SERVER[3]),
                            (b'C', SERVER[4]),
                        ]),
                        std::cmp::Ordering::Equal => answers.extend([(b'2', &b""[..]), (b'E', SERVER[5])]),
                        std::cmp::Ordering::Greater => {}
                    }
                }
                say(&mut session, true, b'S', b"");
            }
            answers.push((b'Z', b"I"));
            answers.iter().for_each(|(tag, body)| say(&mut session, false, *tag, body));
            assert!(!session.is_blind(), "seed {seed}: {:?}", session.events().collect::<Vec<_>>());
        }
    }
}

#[test]
fn no_first_message_panics() {
    let mut random = Random(7);
    for _ in 0..100_000 {
        let mut bytes: Vec<u8> = (0..random.below(40)).map(|_| random.next() as u8).collect();
        if bytes.len() > 8 && random.below(2) == 0 {
            let length = (bytes.len() as u32).to_be_bytes();
            bytes[..4].copy_from_slice(&length);
            bytes[4..8].copy_from_slice(&[0, 3, 0, 0]);
        }
        if let Ok(Some((_, length))) = Startup::read(&bytes) {
            assert!(length <= bytes.len());
        }
    }
}
