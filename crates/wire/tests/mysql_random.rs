//! Random bytes and random splits of MySQL's protocol: never a panic, never an event that depends
//! on how bytes were split.

use margay_wire::mysql::{Event, Session, asked, mask_greeting};

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

const GREETING: &[u8] = b"\x4f\0\0\0\x0a5.5.5-10.11\0\x05\0\0\0GM-9t__A\0\xde\xf7\x08\x02\0\xff\x81\x15\0\0\0\0\0\0\0\0\0\0cQMlYW)fIxC\"\0mysql_native_password\0";
const CLIENT: &[&[u8]] = &[
    b"\x03select 1",
    b"\x03update t set a = 1; select 2",
    b"\x16select a, b from t where a = ?",
    b"\x17\x01\0\0\0\0\x01\0\0\0\0\x01\x03\0\x07\0\0\0",
    b"\x17\xff\xff\xff\xff\0\x01\0\0\0\0\0\x07\0\0\0",
    b"\x18\x01\0\0\0\0\0abc",
    b"\x19\x01\0\0\0",
    b"\x1c\x01\0\0\0\x05\0\0\0",
    b"\x1f",
    b"\x0e",
    b"\x02shop",
    b"\x11me\0\0shop\0\x21\0",
    b"",
];
const SERVER: &[&[u8]] = &[
    b"\0\x01\0\x02\0\0\0",
    b"\0\x01\0\x0b\0\0\0",
    b"\0\x01\0\0\0\x01\0\x01\0\0\0\0",
    b"\xff\x28\x04#42000no",
    b"\x01",
    b"\x02",
    b"\x03def\x04shop\x01t\x01t\x01a\x01a\x0c\x3f\0\x0b\0\0\0\x03\x03\x50\0\0\0",
    b"\xfe\0\0\x02\0",
    b"\xfe\0\0\x42\0",
    b"\x017",
    b"\0\0\x07\0\0\0",
    b"\xfbfile",
];

/// Packets with bodies that fit somewhere, some of them broken.
fn traffic(random: &mut Random, bodies: &[&[u8]], number: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.below(30) {
        let mut body = bodies[random.below(bodies.len())].to_vec();
        if random.below(8) == 0 && !body.is_empty() {
            let at = random.below(body.len());
            body[at] = random.next() as u8;
            body.truncate(random.below(body.len() + 1));
        }
        let length = if random.below(300) == 0 { random.next() as u32 } else { body.len() as u32 };
        bytes.extend(&length.to_le_bytes()[..3]);
        bytes.push(if random.below(100) == 0 { random.next() as u8 } else { number });
        bytes.extend(body);
    }
    bytes
}

/// What one side says, and what the other answers: mostly what fits.
fn turn(random: &mut Random) -> (Vec<u8>, Vec<u8>) {
    let one = |body: &[u8], number: u8| [&(body.len() as u32).to_le_bytes()[..3], &[number], body].concat();
    match random.below(20) {
        0 => (traffic(random, CLIENT, 0), traffic(random, SERVER, 1)),
        1..4 => (
            one(CLIENT[2], 0),
            SERVER[2..3]
                .iter()
                .chain([&SERVER[6], &SERVER[7], &SERVER[6], &SERVER[7]])
                .flat_map(|body| one(body, 1))
                .collect(),
        ),
        4..8 => {
            (one(CLIENT[0], 0), [4, 6, 7, 9, 9, 7].into_iter().flat_map(|at| one(SERVER[at], 1)).collect())
        }
        8..10 => {
            (one(CLIENT[3], 0), [4, 6, 7, 10, 7].into_iter().flat_map(|at| one(SERVER[at], 1)).collect())
        }
        10..12 => (one(CLIENT[1], 0), one(SERVER[3], 1)),
        _ => (one(CLIENT[1], 0), one(SERVER[0], 1)),
    }
}

/// A session whose client was accepted.
fn accepted(no_eof: bool) -> Session {
    let mut session = Session::new();
    session.received(GREETING, 0);
    let mut login = vec![0x8c, 0xa2, 0xbf, u8::from(no_eof), 0, 0, 0, 1, 33];
    login.extend([0; 23]);
    login.extend(b"me\0\0shop\0");
    let length = login.len() as u8;
    session.sent(&[&[length, 0, 0, 1][..], &login].concat(), 0);
    session.received(b"\x07\0\0\x02\0\0\0\x02\0\0\0", 0);
    assert!(matches!(session.events().next(), Some(Event::Connected(_))));
    session
}

/// Client and server speak in turns; each turn is one piece, or comes in pieces of random lengths.
fn events(turns: &[(Vec<u8>, Vec<u8>)], no_eof: bool, mut random: Option<Random>) -> Vec<Event> {
    let mut session = accepted(no_eof);
    let mut pieces = |bytes: &[u8], feed: &mut dyn FnMut(&[u8])| match &mut random {
        None => feed(bytes),
        Some(random) => {
            let mut left = bytes;
            while !left.is_empty() {
                let (piece, rest) = left.split_at(1 + random.below(left.len()));
                feed(piece);
                left = rest;
            }
        }
    };
    for (client, server) in turns {
        pieces(client, &mut |piece| session.sent(piece, 1));
        pieces(server, &mut |piece| session.received(piece, 2));
    }
    session.closed(3);
    session.events().collect()
}

#[test]
fn splits_change_nothing_and_nothing_panics() {
    let (mut blind, mut all) = (0, 0);
    for seed in 1..=30_000_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let no_eof = random.below(2) == 0;
        let turns: Vec<_> = (0..1 + random.below(20)).map(|_| turn(&mut random)).collect();
        let whole = events(&turns, no_eof, None);
        let split = events(&turns, no_eof, Some(Random(seed)));
        assert_eq!(whole, split, "seed {seed}");
        all += whole.len();
        blind += whole.iter().filter(|event| matches!(event, Event::Blind(_))).count();
    }
    assert!(all > 2 * blind && blind > 0, "{blind} of {all} events are about blindness");
}

/// Each command gets the answer that it wants, so that sessions come far.
#[test]
fn sessions_that_are_understood_stay_so() {
    const COLUMN: &[u8] = b"\x03def\x04shop\x01t\x01t\x01a\x01a\x0c\x3f\0\x0b\0\0\0\x03\x03\x50\0\0\0";
    for seed in 1..=2_000_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (mut session, mut expected) = (accepted(false), 0);
        for _ in 0..random.below(30) {
            let (command, answers): (&[u8], Vec<&[u8]>) = match random.below(6) {
                0 => (b"\x03update t set a = 1", vec![b"\0\x01\0\x02\0\0\0"]),
                1 => (
                    b"\x03select a from t",
                    vec![b"\x01", COLUMN, b"\xfe\0\0\x02\0", b"\x017", b"\xfb", b"\xfe\0\0\x02\0"],
                ),
                2 => (b"\x0e", vec![b"\0\0\0\x02\0\0\0"]),
                3 => (
                    b"\x16select ?",
                    vec![
                        b"\0\x01\0\0\0\x01\0\x01\0\0\0\0",
                        COLUMN,
                        b"\xfe\0\0\x02\0",
                        COLUMN,
                        b"\xfe\0\0\x02\0",
                    ],
                ),
                4 => (b"\x03bad", vec![b"\xff\x28\x04#42000no"]),
                _ => (b"\x04t\0", vec![COLUMN, b"\xfe\0\0\x02\0"]),
            };
            expected += usize::from(command[0] == 3);
            session.sent(&[&(command.len() as u32).to_le_bytes()[..3], &[0], command].concat(), 1);
            for (number, body) in (1..).zip(answers) {
                let bytes = [&(body.len() as u32).to_le_bytes()[..3], &[number], body].concat();
                let (front, back) = bytes.split_at(random.below(bytes.len()));
                session.received(front, 2);
                session.received(back, 3);
            }
            assert!(session.is_idle(), "seed {seed}");
        }
        let events: Vec<Event> = session.events().collect();
        assert!(events.iter().all(|event| matches!(event, Event::Ran(_))), "seed {seed}: {events:?}");
        assert_eq!(events.len(), expected, "seed {seed}");
    }
}

#[test]
fn random_bytes_never_panic() {
    let mut random = Random(7);
    for _ in 0..20_000 {
        let mut bytes: Vec<u8> = (0..random.below(120)).map(|_| random.next() as u8).collect();
        if random.below(2) == 0 {
            bytes.splice(0..0, GREETING.iter().copied().take(random.below(GREETING.len())));
        }
        let _ = (asked(&bytes), mask_greeting(&mut bytes.clone()));
        let mut session = Session::new();
        session.received(&bytes, 0);
        session.sent(&bytes, 0);
        session.closed(1);
    }
}
