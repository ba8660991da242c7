//! What a session makes of the messages of both directions.

use margay_wire::{Event, Outcome, Session};

/// A message: its type and its body.
fn message(tag: char, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [tag as u8].into_iter().chain(length).chain(body.iter().copied()).collect()
}

/// A connection in a test: every message gets the next time.
struct Talk {
    session: Session,
    now: i64,
    events: Vec<Event>,
}

impl Talk {
    fn new() -> Self {
        let mut talk = Self { session: Session::new(), now: 0, events: Vec::new() };
        talk.answers(&[('R', b"\0\0\0\0"), ('K', b"\0\0\0\x07\0\0\0\x01"), ('Z', b"I")]);
        talk.events.clear();
        talk
    }

    fn asks(&mut self, messages: &[(char, &[u8])]) {
        for (tag, body) in messages {
            self.now += 1;
            self.session.sent(&message(*tag, body), self.now);
        }
    }

    fn answers(&mut self, messages: &[(char, &[u8])]) {
        for (tag, body) in messages {
            self.now += 1;
            self.session.received(&message(*tag, body), self.now);
        }
        self.events.extend(self.session.events());
    }

    /// The statements, in short: their texts, rows and outcomes.
    fn told(&self) -> Vec<String> {
        let show = |it: &margay_wire::Executed| {
            let text = it.prepared.text.as_deref().unwrap_or("?");
            let ended = match &it.outcome {
                Outcome::Done(tag) => tag.clone(),
                Outcome::Failed(refusal) => refusal.code.clone(),
                Outcome::Lost => "lost".to_owned(),
            };
            let rows = if it.complete { it.rows.len().to_string() } else { "?".to_owned() };
            format!("{text}: {rows}, {ended} [{}, {}]", it.times.before, it.times.after)
        };
        self.events
            .iter()
            .filter_map(|event| match event {
                Event::Executed(it) => Some(show(it)),
                Event::Queried(all) => Some(all.iter().map(show).collect::<Vec<_>>().join("; ")),
                Event::Refused(refusal, _) => Some(format!("refused {}", refusal.code)),
                Event::Ready(status, _) => Some(char::from(*status).to_string()),
                Event::Blind(why) => Some(format!("blind: {why}")),
                _ => None,
            })
            .collect()
    }
}

/// Types and bodies.
type Messages<'a> = &'a [(char, &'a [u8])];

const ERROR: &[u8] = b"SERROR\0VERROR\0C23505\0Mno\0\0";
const ROW: &[u8] = b"\0\x01\0\0\0\x011";
/// One column `a` of type int4.
const COLUMNS: &[u8] = b"\0\x01a\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0";
const BIND: &[u8] = b"\0s\0\0\0\0\x01\0\0\0\x015\0\0";

#[test]
fn a_simple_query_has_one_result_per_statement() {
    let mut talk = Talk::new();
    talk.asks(&[('Q', b"SELECT 1; UPDATE t SET a = 1\0")]);
    talk.answers(&[('T', COLUMNS), ('D', ROW), ('C', b"SELECT 1\0"), ('C', b"UPDATE 3\0"), ('Z', b"I")]);
    let text = "SELECT 1; UPDATE t SET a = 1";
    assert_eq!(talk.told(), [format!("{text}: 1, SELECT 1 [4, 7]; {text}: 0, UPDATE 3 [4, 8]"), "I".into()]);
}

#[test]
fn a_statement_has_the_time_of_its_bind_and_its_types() {
    let mut talk = Talk::new();
    talk.asks(&[('P', b"s\0SELECT $1\0\0\0"), ('D', b"Ss\0"), ('S', b"")]);
    talk.answers(&[('1', b""), ('t', b"\0\x01\0\0\0\x17"), ('T', COLUMNS), ('Z', b"I")]);
    talk.asks(&[('B', BIND), ('E', b"\0\0\0\0\0"), ('S', b"")]);
    talk.answers(&[('2', b""), ('D', ROW), ('C', b"SELECT 1\0"), ('Z', b"I")]);
    assert_eq!(talk.told(), ["I", "SELECT $1: 1, SELECT 1 [11, 16]", "I"]);
    let Some(Event::Executed(it)) = talk.events.iter().find(|event| matches!(event, Event::Executed(_)))
    else {
        panic!("a statement");
    };
    assert_eq!(
        (it.prepared.types.clone(), it.columns.as_ref().map(|columns| columns[0].kind)),
        (vec![23], Some(23))
    );
    assert_eq!(it.bound.as_ref().and_then(|bound| bound.values.clone()), Some(vec![Some(b"5".to_vec())]));
}

/// The second statement of a pipeline fails: the third never runs, whether it was sent before or
/// after the error.
#[test]
fn an_error_skips_everything_up_to_the_sync() {
    for late in [false, true] {
        let mut talk = Talk::new();
        talk.asks(&[('P', b"s\0SELECT $1\0\0\0"), ('B', BIND), ('E', b"\0\0\0\0\0")]);
        talk.asks(&[('B', BIND), ('E', b"\0\0\0\0\0")]);
        if !late {
            talk.asks(&[('B', BIND), ('E', b"\0\0\0\0\0"), ('S', b"")]);
        }
        talk.answers(&[('1', b""), ('2', b""), ('C', b"SELECT 0\0"), ('2', b""), ('E', ERROR)]);
        if late {
            talk.asks(&[('B', BIND), ('E', b"\0\0\0\0\0"), ('S', b"")]);
        }
        talk.answers(&[('Z', b"E")]);
        talk.asks(&[('Q', b"ROLLBACK\0")]);
        talk.answers(&[('C', b"ROLLBACK\0"), ('Z', b"I")]);
        let told: Vec<String> =
            talk.told().iter().map(|it| it.split(" [").next().unwrap_or("").to_owned()).collect();
        assert_eq!(
            told,
            ["SELECT $1: 0, SELECT 0", "SELECT $1: 0, 23505", "E", "ROLLBACK: 0, ROLLBACK", "I"]
        );
    }
}

#[test]
fn a_commit_that_fails_at_sync_is_refused() {
    let mut talk = Talk::new();
    talk.asks(&[('P', b"s\0INSERT\0\0\0"), ('B', BIND), ('E', b"\0\0\0\0\0"), ('S', b"")]);
    talk.answers(&[('1', b""), ('2', b""), ('C', b"INSERT 0 1\0"), ('E', ERROR), ('Z', b"I")]);
    assert_eq!(talk.told(), ["INSERT: 0, INSERT 0 1 [5, 10]", "refused 23505", "I"]);
}

#[test]
fn the_rows_of_a_portal_are_collected() {
    for ends in [true, false] {
        let mut talk = Talk::new();
        talk.asks(&[('P', b"s\0SELECT\0\0\0"), ('B', BIND), ('E', b"\0\0\0\0\x01"), ('H', b"")]);
        talk.answers(&[('1', b""), ('2', b""), ('D', ROW), ('s', b"")]);
        if ends {
            talk.asks(&[('E', b"\0\0\0\0\x05"), ('S', b"")]);
            talk.answers(&[('D', ROW), ('C', b"SELECT 1\0"), ('Z', b"T")]);
            assert_eq!(talk.told(), ["SELECT: 2, SELECT 1 [5, 15]", "T"]);
        } else {
            talk.asks(&[('C', b"P\0"), ('S', b"")]);
            talk.answers(&[('3', b""), ('Z', b"T")]);
            assert_eq!(talk.told(), ["SELECT: ?,  [5, 14]", "T"]);
        }
    }
}

/// A client that sends its Sync before the copy begins: the server ignores it.
#[test]
fn a_copy_with_an_early_sync_is_followed() {
    let mut talk = Talk::new();
    talk.asks(&[('P', b"s\0COPY\0\0\0"), ('B', BIND), ('E', b"\0\0\0\0\0"), ('S', b"")]);
    talk.answers(&[('1', b""), ('2', b""), ('G', b"\0\0\0")]);
    talk.asks(&[('d', b"1\n"), ('c', b""), ('S', b"")]);
    talk.answers(&[('C', b"COPY 1\0"), ('Z', b"I")]);
    assert_eq!(talk.told(), ["COPY: 0, COPY 1 [5, 14]", "I"]);
}

/// asyncpg sends all rows with its question; the session used to be given up when the end of the
/// copy came first.
#[test]
fn a_copy_whose_rows_come_early_is_followed() {
    let mut talk = Talk::new();
    talk.asks(&[('Q', b"COPY t FROM STDIN\0"), ('d', b"1\n"), ('c', b"")]);
    talk.answers(&[('G', b"\0\0\0"), ('C', b"COPY 1\0"), ('Z', b"I")]);
    assert_eq!(talk.told(), ["COPY t FROM STDIN: 0, COPY 1 [4, 8]", "I"]);
}

#[test]
fn what_is_outstanding_when_the_connection_ends_is_lost() {
    let mut talk = Talk::new();
    talk.asks(&[('P', b"s\0A\0\0\0"), ('B', BIND), ('E', b"\0\0\0\0\0"), ('S', b""), ('Q', b"COMMIT\0")]);
    talk.session.closed(20);
    talk.events.extend(talk.session.events());
    assert_eq!(talk.told(), ["A: 0, lost [5, 20]", "COMMIT: 0, lost [8, 20]"]);
}

/// The server ends a connection in the middle of a statement: one statement, which failed, not one
/// more that was lost.
#[test]
fn a_statement_whose_failure_ends_the_connection_is_one() {
    let mut talk = Talk::new();
    talk.asks(&[('Q', b"UPDATE\0")]);
    talk.answers(&[('E', b"SFATAL\0VFATAL\0C57P01\0\0")]);
    talk.session.closed(20);
    talk.events.extend(talk.session.events());
    assert_eq!(talk.told(), ["UPDATE: 0, 57P01 [4, 5]"]);
}

#[test]
fn what_does_not_fit_makes_the_session_blind() {
    let cases: [(Messages, Messages, &str); 5] = [
        (&[('F', b"")], &[], "function call"),
        (&[('Q', b"SELECT\0")], &[('W', b"\0\0\0")], "does not fit"),
        (&[], &[('Z', b"I")], "does not fit"),
        (&[], &[('S', b"client_encoding\0LATIN1\0")], "LATIN1"),
        (&[('B', b"\0nowhere\0\0\0\0\0\0\0"), ('S', b"")], &[('2', b"")], "elsewhere"),
    ];
    for (asked, answered, why) in cases {
        let mut talk = Talk::new();
        talk.asks(asked);
        talk.answers(answered);
        talk.answers(&[('Z', b"I")]);
        let told = talk.told();
        assert!(told.len() == 1 && told[0].contains(why), "{told:?}: {why}");
    }
}

/// Secrets are in messages of type `p` and in the authentication phase; nothing of them is in
/// memory or events.
#[test]
fn passwords_are_never_kept() {
    let mut session = Session::new();
    session.received(&message('R', b"\0\0\0\x03"), 1);
    session.sent(&message('p', b"hunter2\0"), 2);
    session.received(&message('R', b"\0\0\0\0hunter2"), 3);
    assert!(!format!("{session:?}").contains(&format!("{:?}", b"hunter2").replace(['[', ']'], "")));
    assert!(!session.is_blind());
}
