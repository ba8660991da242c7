//! Exchanges of MySQL's protocol, as MariaDB 10.11 and its clients had them, and others made from
//! these.

use margay_wire::mysql::{Answer, Connected, Event, Session, asked, kind, mask_greeting};
use margay_wire::{Outcome, Times};

/// Bytes of the client (`C`) or of the server (`S`), in hexadecimal digits.
type Said<'a> = (char, &'a str);

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16).expect("a byte"))
        .collect()
}

/// A packet with its header.
fn packet(number: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32).to_le_bytes();
    [&length[..3], &[number], body].concat()
}

const GREETING: &str = "640000000a352e352e352d31302e31312e31392d4d6172696144422d302b646562313275310005000000474d2d39745f5f4100def7080200ff81150000000000000000000063514d6c5957296649784322006d7973716c5f6e61746976655f70617373776f726400";
const WELCOME: &str = "1000000200000002400000000701050473686f70";

/// A session after these, whose events have been taken.
fn session(no_eof: bool) -> Session {
    let mut session = Session::new();
    session.received(&bytes(GREETING), 0);
    let login = login(no_eof);
    session.sent(&login, 1);
    session.received(&bytes(WELCOME), 2);
    let events: Vec<Event> = session.events().collect();
    let connected = Connected {
        thread: 5,
        database: Some("shop".to_owned()),
        unicode: true,
        counts_found: false,
        // A change of the session's state is told of, too.
        status: 0x4002,
    };
    assert_eq!(events, [Event::Connected(connected)]);
    session
}

/// A client that wants encryption says goodbye to a server that has none. It was taken for a login
/// that nobody understands, which may have written anything.
#[test]
fn a_goodbye_is_no_login() {
    let mut session = Session::new();
    session.received(&bytes(GREETING), 0);
    session.sent(&packet(0, &[1]), 1);
    session.received(&packet(1, b"\xff\x15\x04bad handshake"), 2);
    assert_eq!((session.events().count(), session.is_blind()), (0, false));
}

fn login(no_eof: bool) -> Vec<u8> {
    let capabilities = 0x00bf_a28c_u32 | if no_eof { 1 << 24 } else { 0 };
    let mut body = capabilities.to_le_bytes().to_vec();
    body.extend_from_slice(&[0, 0, 0, 1, 33]);
    body.extend_from_slice(&[0; 23]);
    body.extend_from_slice(b"me\0\x14");
    body.extend_from_slice(&[7; 20]);
    body.extend_from_slice(b"shop\0mysql_native_password\0");
    packet(1, &body)
}

fn converse(session: &mut Session, said: &[Said<'_>]) -> Vec<Event> {
    for ((side, hex), now) in said.iter().zip((10..).step_by(10)) {
        match side {
            'C' => session.sent(&bytes(hex), now),
            _ => session.received(&bytes(hex), now),
        }
    }
    session.events().collect()
}

#[track_caller]
fn ran(event: &Event) -> &[Answer] {
    match event {
        Event::Ran(ran) => &ran.answers,
        other => panic!("{other:?}"),
    }
}

fn cells(answer: &Answer) -> Vec<Vec<Option<String>>> {
    let text = |cell: Option<&[u8]>| cell.map(|cell| String::from_utf8_lossy(cell).into_owned());
    answer.executed.rows.iter().map(|row| row.expect("a row").into_iter().map(text).collect()).collect()
}

const SELECT: Said<'_> = ('C', "1f0000000373656c656374202a2066726f6d2073746f636b2077686572652069643d31");
const SELECTED: Said<'_> = (
    'S',
    "010000010228000002036465660473686f700573746f636b0573746f636b0269640269640c3f000b00000003035000000036000003036465660473686f700573746f636b0573746f636b096c6566745f6f766572096c6566745f6f7665720c3f000b00000003011000000005000004fe0000030005000005013102313005000006fe00000300",
);
const UPDATE: Said<'_> =
    ('C', "28000000037570646174652073746f636b20736574206c6566745f6f7665723d392077686572652069643d31");
const UPDATED: Said<'_> = (
    'S',
    "300000010001000300000028526f7773206d6174636865643a203120204368616e6765643a203120205761726e696e67733a2030",
);

#[test]
fn the_mariadb_client_is_followed() {
    let mut session = session(false);
    let events = converse(
        &mut session,
        &[
            ('C', "0600000003626567696e"),
            ('S', "0700000100000003000000"),
            SELECT,
            SELECTED,
            UPDATE,
            UPDATED,
            ('C', "0700000003636f6d6d6974"),
            ('S', "0700000100000002000000"),
            ('C', "160000000373656c656374202a2066726f6d206e6f7468696e67"),
            (
                'S',
                "2b000001ff7a042334325330325461626c65202773686f702e6e6f7468696e672720646f65736e2774206578697374",
            ),
            ('C', "0100000001"),
        ],
    );
    let [begin, select, update, commit, failed] = &events[..] else { panic!("{events:?}") };
    assert_eq!([begin, commit].map(|event| ran(event)[0].status), [Some(3), Some(2)]);
    let [select] = ran(select) else { panic!("{select:?}") };
    assert_eq!(cells(select), [[Some("1".to_owned()), Some("10".to_owned())]]);
    let columns = select.executed.columns.as_ref().expect("columns");
    assert_eq!(columns[1].name, "left_over");
    assert_eq!(columns[1].kind, kind::KNOWN | kind::BINARY | u32::from(kind::LONG));
    assert_eq!(select.executed.times, Times { before: 30, after: 40 });
    let [update] = ran(update) else { panic!("{update:?}") };
    assert_eq!(
        (update.affected, update.changed, update.returns, update.status),
        (1, Some(1), false, Some(3))
    );
    let text = update.executed.prepared.text.as_deref();
    assert_eq!(text, Some("update stock set left_over=9 where id=1"));
    let [failed] = ran(failed) else { panic!("{failed:?}") };
    assert!(matches!(&failed.executed.outcome, Outcome::Failed(refusal) if refusal.code == "1146"));
    assert_eq!(failed.status, None);
    assert!(session.is_idle());
}

#[test]
fn packets_are_read_however_they_come() {
    let said = [SELECT, SELECTED, UPDATE, UPDATED];
    let expected = converse(&mut session(false), &said);
    let mut session = session(false);
    for ((side, hex), now) in said.into_iter().zip((10..).step_by(10)) {
        for byte in bytes(hex) {
            if side == 'C' { session.sent(&[byte], now) } else { session.received(&[byte], now) }
        }
    }
    assert_eq!(session.events().collect::<Vec<_>>(), expected);
}

/// The same result where no EOF stands behind the columns, and OK behind the rows.
#[test]
fn results_without_eof_are_read() {
    // Two descriptions, of 40 and 54 bytes with four in front.
    let columns = &SELECTED.1[10..10 + 88 + 116];
    let row = "05000004 0131023130";
    let ok = "07000005 fe0000 0300 0000";
    let both = format!("0100000102{columns}{row}{ok}");
    let events = converse(&mut session(true), &[SELECT, ('S', &both)]);
    let [select] = ran(&events[0]) else { panic!("{events:?}") };
    assert_eq!((cells(select).len(), select.status), (1, Some(3)));
}

/// A statement is prepared with one parameter and two columns, executed twice, and closed.
fn prepared(session: &mut Session) -> Vec<Event> {
    let text = packet(0, b"\x16select id, left_over from stock where id = ?");
    session.sent(&text, 10);
    let column =
        packet(2, &bytes("036465660473686f700573746f636b0573746f636b0269640269640c3f000b000000030350000000"));
    let eof = packet(3, &bytes("fe00000200"));
    let ok = packet(1, &bytes("00 01000000 0200 0100 00 0000"));
    session.received(&[&ok[..], &column, &eof, &column, &column, &eof].concat(), 20);
    let first = packet(0, &bytes("17 01000000 00 01000000 00 01 0300 07000000"));
    let second = packet(0, &bytes("17 01000000 00 01000000 00 00 08000000"));
    let null = packet(0, &bytes("17 01000000 00 01000000 01 00"));
    for (execution, row) in [(first, "00 00 07000000 0a000000"), (second, "00 08 08000000"), (null, "00 0c")]
    {
        session.sent(&execution, 30);
        let count = packet(1, &[2]);
        let row = packet(5, &bytes(row));
        session.received(&[&count[..], &column, &column, &eof, &row, &eof].concat(), 40);
    }
    session.sent(&packet(0, &bytes("19 01000000")), 50);
    session.events().collect()
}

#[test]
fn prepared_statements_have_parameters_and_binary_rows() {
    let mut session = session(false);
    let events = prepared(&mut session);
    let values: Vec<_> = events
        .iter()
        .map(|event| {
            let executed = &ran(event)[0].executed;
            let values = executed.bound.as_ref().and_then(|bound| bound.values.clone()).expect("values");
            assert_eq!(executed.prepared.types, [kind::KNOWN | kind::UNICODE | u32::from(kind::LONG)]);
            (values[0].clone(), cells(&ran(event)[0])[0].clone())
        })
        .collect();
    let [seven, eight, ten] = ["7", "8", "10"].map(str::to_owned);
    assert_eq!(
        values,
        [
            (Some(b"7".to_vec()), vec![Some(seven), Some(ten)]),
            (Some(b"8".to_vec()), vec![Some(eight), None]),
            (None, vec![None, None]),
        ]
    );
    assert!(session.is_idle() && !session.is_blind());
}

#[test]
fn a_parameter_that_came_by_itself_is_not_known() {
    let mut session = session(false);
    prepared(&mut session);
    session.sent(&packet(0, b"\x16update t set a = ?"), 60);
    session.received(
        &[
            packet(1, &bytes("00 02000000 0000 0100 00 0000")),
            packet(2, &bytes("036465660000000000000c3f000b000000030350000000")),
            packet(3, &bytes("fe00000200")),
        ]
        .concat(),
        61,
    );
    session.sent(&packet(0, &bytes("18 02000000 0000 616263")), 62);
    session.sent(&packet(0, &bytes("17 02000000 00 01000000 00 01 fc00")), 63);
    session.received(&bytes("0700000100010002000000"), 64);
    let events: Vec<Event> = session.events().collect();
    let bound = ran(&events[0])[0].executed.bound.clone().expect("bound");
    assert_eq!(bound.values, None);
}

#[test]
fn one_text_may_have_several_results() {
    let mut session = session(false);
    let two = packet(0, b"\x03update t set a = 1; select 1; bad");
    session.sent(&two, 10);
    session.received(&packet(1, &bytes("00 01 00 0b00 0000")), 20);
    assert!(session.events().next().is_none(), "more results follow");
    session.received(&packet(2, &bytes("00 02 00 0b00 0000")), 30);
    session.received(&packet(3, &bytes("ff 2804 23343230303000")), 40);
    let events: Vec<Event> = session.events().collect();
    let [first, second, last] = ran(&events[0]) else { panic!("{events:?}") };
    assert_eq!((first.affected, second.affected), (1, 2));
    assert!(matches!(last.executed.outcome, Outcome::Failed(_)));
}

#[test]
fn files_are_passed_over() {
    let mut session = session(false);
    let load = packet(0, b"\x03load data local infile 'x' into table t");
    session.sent(&load, 10);
    session.received(&packet(1, b"\xfbx"), 20);
    // What is in a file may look like a command.
    session.sent(&packet(2, b"\x03drop table t"), 30);
    session.sent(&packet(3, b""), 30);
    session.received(&packet(4, &bytes("00 02 00 0200 0000")), 40);
    let events: Vec<Event> = session.events().collect();
    assert_eq!((events.len(), ran(&events[0])[0].affected), (1, 2));
}

#[test]
fn sessions_are_reset_and_change_their_database() {
    let mut session = session(false);
    let events = converse(
        &mut session,
        &[
            ('C', "06000000 02 6f74686572"),
            ('S', "0700000100000002000000"),
            ('C', "01000000 1f"),
            ('S', "0700000100000002000000"),
            ('C', "0c000000 11 6d6500 0203ff 626f6200 2100"),
            ('S', "02000001 0104"),
            ('C', "03000003 736563"),
            ('S', "0700000400000002000000"),
        ],
    );
    let reset = |database: Option<&str>, before, after| {
        Event::Reset(database.map(str::to_owned), Times { before, after })
    };
    assert_eq!(
        events,
        [Event::Database("other".to_owned()), reset(None, 30, 40), reset(Some("bob"), 50, 80)]
    );
}

/// What an answer would have been is not known when the connection ends.
#[test]
fn what_is_outstanding_at_the_end_is_lost() {
    let mut session = session(false);
    converse(&mut session, &[UPDATE]);
    session.closed(20);
    let events: Vec<Event> = session.events().collect();
    assert_eq!(ran(&events[0])[0].executed.outcome, Outcome::Lost);
    assert_eq!(ran(&events[0])[0].executed.times, Times { before: 10, after: 20 });
}

#[test]
fn a_refused_client_is_nobody() {
    let mut session = Session::new();
    session.received(&bytes(GREETING), 0);
    session.sent(&login(false), 1);
    session.received(&packet(2, b"\xff\x15\x04#28000Access denied"), 2);
    session.closed(3);
    assert!(session.events().next().is_none() && session.is_idle());
    // Somebody who says nothing that is understood, and is told so.
    let mut session = Session::new();
    session.received(&bytes(GREETING), 0);
    session.sent(b"GET / HTTP/1.1", 1);
    session.received(&packet(1, b"\xff\x13\x04Bad handshake"), 2);
    session.closed(3);
    assert!(session.events().next().is_none() && !session.is_blind());
    // Servers with too many connections say so at once.
    let mut session = Session::new();
    session.received(&packet(0, b"\xff\x10\x04Too many connections"), 0);
    session.closed(3);
    assert!(session.events().next().is_none());
}

#[test]
fn what_is_not_understood_makes_the_session_blind() {
    for (side, body) in [
        ('C', &b"\x12binlog"[..]),
        ('C', b""),
        ('C', b"\xfabulk"),
        ('C', b"\x17\x01"),
        ('S', b"\0\0\0\x02\0\0\0"),
    ] {
        let mut session = session(false);
        let bytes = packet(u8::from(side == 'S'), body);
        if side == 'C' {
            session.sent(&bytes, 10)
        } else {
            session.received(&bytes, 10)
        }
        assert!(matches!(session.events().next(), Some(Event::Blind(_))), "{side} {body:?}");
        session.sent(&packet(0, b"\x03select 1"), 20);
        session.closed(30);
        assert!(session.events().next().is_none() && session.is_blind());
    }
}

/// The password's hash and the attributes of the client appear nowhere in a session's memory.
#[test]
fn secrets_are_not_kept() {
    let mut session = Session::new();
    session.received(&bytes(GREETING), 0);
    session.received(&bytes(GREETING), 0);
    login(false).iter().for_each(|byte| session.sent(&[*byte], 1));
    session.sent(&packet(3, b"secret"), 1);
    let shown = format!("{session:?}");
    assert!(!shown.contains("7, 7, 7, 7") && !shown.contains("115, 101, 99, 114"), "{shown}");
}

#[test]
fn texts_to_be_sent_are_found() {
    assert_eq!(asked(&bytes(UPDATE.1)), Some(vec!["update stock set left_over=9 where id=1"]));
    let mut greeting = bytes(GREETING);
    assert!(mask_greeting(&mut greeting));
    assert_eq!(greeting, bytes(GREETING), "it was masked before it was written down");
}
