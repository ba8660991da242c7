//! Recorders and a verifier over loopback: connections are cut, tokens are wrong, recorders die.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use margay_formats::glance;
use margay_remote::{Gathered, Listening, Machine, Recorder, Takes, Token};

const PATIENCE: Duration = Duration::from_secs(2);

fn token(text: &str) -> Token {
    Token::new(&format!("{text}, and long enough")).expect("a token")
}

/// Keeps everything.
#[derive(Default)]
struct Kept {
    headers: u32,
    lines: Vec<(u64, u64, i64)>,
    until: i64,
    notes: Vec<String>,
}

impl Takes for Kept {
    fn header(&mut self, _: &[u8]) -> Result<(), String> {
        self.headers += 1;
        Ok(())
    }

    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        let seen = glance(line).expect("a line").expect("an operation");
        let at = seen.at.expect("an interval");
        assert!(at.before >= self.until, "{} was called before {}", at.before, self.until);
        self.lines.push((seen.session, seen.txn, at.after));
        Ok(())
    }

    fn advance(&mut self, until: i64) -> Result<(), String> {
        assert!(until >= self.until);
        self.until = until;
        Ok(())
    }

    fn note(&mut self, what: &str) {
        self.notes.push(what.to_owned());
    }

    fn is_over(&self) -> bool {
        false
    }
}

fn listen(recorders: usize) -> (Listening, String) {
    let listening = Listening::at("127.0.0.1:0", recorders, token("the token"), PATIENCE).expect("a port");
    let address = listening.address().expect("an address").to_string();
    (listening, address)
}

fn gather(listening: Listening) -> (Kept, Result<Gathered, String>) {
    let mut kept = Kept { until: i64::MIN, ..Kept::default() };
    let gathered = listening.gather(&mut kept);
    (kept, gathered)
}

fn recorder(address: &str, number: usize, of: usize) -> Recorder {
    let machine = Machine { number, of };
    Recorder::start(address, machine, token("the token"), "a job".to_owned(), PATIENCE, Instant::now())
}

fn now(recorder: &Recorder) -> i64 {
    recorder.clock().elapsed().as_nanos() as i64
}

/// Records so many lines, one in each frame.
fn record(recorder: &Recorder, lines: u64, pause: Duration) -> Result<String, String> {
    recorder.may_prepare()?;
    recorder.begin()?;
    recorder.write(b"{\"margay\":1}\n");
    for txn in 0..lines {
        let before = now(recorder);
        thread::sleep(pause);
        let (session, after) = (recorder.machine().number, now(recorder));
        let line =
            format!("{{\"session\":{session},\"txn\":{txn},\"at\":[{before},{after}],\"begin\":true}}\n");
        recorder.write(line.as_bytes());
        recorder.promise(after);
        if recorder.is_over() {
            break;
        }
    }
    recorder.end("");
    recorder.verdict()
}

/// A relay that lets a connection live for so long, and cuts it then.
fn cutting(to: String, life: Duration, cuts: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    thread::spawn(move || {
        for (count, client) in listener.incoming().enumerate() {
            let (Ok(client), Ok(server)) = (client, TcpStream::connect(&to)) else { return };
            let ends = [client.try_clone(), server.try_clone()].map(|end| end.expect("a second handle"));
            let copy = |mut from: TcpStream, mut to: TcpStream| {
                let mut bytes = [0; 999];
                while let Ok(count @ 1..) = from.read(&mut bytes) {
                    if to.write_all(&bytes[..count]).is_err() {
                        break;
                    }
                }
                _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
            };
            let [one, two] = [&ends[0], &ends[1]].map(|end| end.try_clone().expect("a third handle"));
            thread::spawn(move || copy(client, two));
            thread::spawn(move || copy(server, one));
            if count < cuts {
                thread::sleep(life);
                ends.iter().for_each(|end| drop(end.shutdown(Shutdown::Both)));
            }
        }
    });
    address
}

#[test]
fn recordings_come_whole_and_in_order_though_connections_break() {
    const LINES: u64 = 400;
    let (listening, address) = listen(3);
    let through = cutting(address.clone(), Duration::from_millis(150), 6);
    let recorders: Vec<_> = (1..=3)
        .map(|number| {
            let address = if number == 2 { through.clone() } else { address.clone() };
            thread::spawn(move || record(&recorder(&address, number, 3), LINES, Duration::from_millis(4)))
        })
        .collect();
    let (kept, gathered) = gather(listening);
    let gathered = gathered.expect("all recordings");
    assert_eq!((gathered.lost.as_ref(), &gathered.lines[..]), (None, &[LINES; 3][..]), "{:?}", kept.notes);
    assert_eq!(kept.headers, 1, "all have the same");
    assert!(kept.notes.iter().any(|note| note.contains("machine 2 is back")), "{:?}", kept.notes);
    assert!(kept.lines.is_sorted_by_key(|line| line.2), "by the verifier's clock");
    for session in 1..=3 {
        let own = kept.lines.iter().filter(|line| line.0 == session).map(|line| line.1);
        assert!(own.eq(0..LINES), "every line of machine {session} once, in its order");
    }
    gathered.tell(0, "holds");
    for recorder in recorders {
        assert_eq!(recorder.join().expect("no panic"), Ok("0\nholds".to_owned()));
    }
}

#[test]
fn a_recorder_that_ends_early_is_named() {
    let (listening, address) = listen(2);
    let one = recorder(&address, 1, 2);
    let first = thread::spawn(move || record(&one, 2_000, Duration::from_millis(5)));
    let second = thread::spawn(move || {
        let two = recorder(&address, 2, 2);
        two.may_prepare()?;
        two.begin()?;
        thread::sleep(Duration::from_millis(300));
        two.end("the server is gone");
        two.verdict()
    });
    let (_, gathered) = gather(listening);
    let gathered = gathered.expect("clients began");
    let why = gathered.lost.clone().expect("machine 2 is lost");
    assert!(why.starts_with("machine 2 of 2 (") && why.ends_with("the server is gone"), "{why}");
    gathered.tell(3, "unknown");
    assert_eq!(first.join().expect("no panic"), Ok("3\nunknown".to_owned()));
    assert_eq!(second.join().expect("no panic"), Ok("3\nunknown".to_owned()));
}

#[test]
fn a_recorder_that_is_silent_for_too_long_is_named() {
    let (listening, address) = listen(2);
    let (one, two) = (recorder(&address, 1, 2), cutting(address, Duration::from_millis(1_500), 1));
    let first = thread::spawn(move || record(&one, 2_000, Duration::from_millis(5)));
    let second = thread::spawn(move || record(&stopped(&two), 2_000, Duration::from_millis(5)));
    let (kept, gathered) = gather(listening);
    let gathered = gathered.expect("clients began");
    let why = gathered.lost.clone().expect("machine 2 is lost");
    assert!(why.contains("machine 2 of 2") && why.contains("was not heard for 2 s"), "{why}");
    assert!(
        kept.lines
            .iter()
            .all(|line| line.0 == 1 || line.2 < kept.until.saturating_add(PATIENCE.as_nanos() as i64))
    );
    gathered.tell(3, "unknown");
    assert_eq!(first.join().expect("no panic"), Ok("3\nunknown".to_owned()));
    assert!(second.join().expect("no panic").is_err());
}

/// A recorder behind a relay that passes on one connection, and no other.
fn stopped(through: &str) -> Recorder {
    let once = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = once.local_addr().expect("an address").to_string();
    let to = through.to_owned();
    thread::spawn(move || {
        let (client, _) = once.accept().expect("a connection");
        drop(once);
        let server = TcpStream::connect(to).expect("the relay");
        let (mut from, mut to) =
            (client.try_clone().expect("a handle"), server.try_clone().expect("a handle"));
        thread::spawn(move || drop(std::io::copy(&mut from, &mut to)));
        _ = std::io::copy(&mut &server, &mut &client);
        _ = client.shutdown(Shutdown::Both);
    });
    recorder(&address, 2, 2)
}

#[test]
fn who_does_not_belong_there_is_refused() {
    let (listening, address) = listen(1);
    let to = address.clone();
    let begin = move |machine: Machine, secret: &str, subject: &str| {
        let recorder =
            Recorder::start(&to, machine, token(secret), subject.to_owned(), PATIENCE, Instant::now());
        thread::spawn(move || recorder.may_prepare().and_then(|_| recorder.begin()).expect_err("refused"))
    };
    let (first, second) = (Machine { number: 1, of: 1 }, Machine { number: 2, of: 1 });
    let one = recorder(&address, 1, 1);
    let recording = thread::spawn(move || record(&one, 300, Duration::from_millis(5)));
    let wrong = thread::spawn(move || {
        // The right one has come by then.
        thread::sleep(Duration::from_millis(500));
        let wrong = [
            begin(first, "another token", "a job"),
            begin(second, "the token", "a job"),
            begin(Machine { number: 1, of: 2 }, "the token", "a job"),
            begin(first, "the token", "a job"),
        ];
        wrong.map(|thread| thread.join().expect("no panic"))
    });
    let mut stranger = TcpStream::connect(listening.address().expect("an address")).expect("a connection");
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
    let (kept, gathered) = gather(listening);
    gathered.expect("a recording").tell(0, "holds");
    assert_eq!(recording.join().expect("no panic"), Ok("0\nholds".to_owned()));
    let [token, number, count, twice] = wrong.join().expect("no panic");
    assert!(token.ends_with("it has another token"), "{token}");
    assert!(number.ends_with("it is machine 2 of 1; the verifier expects 1"), "{number}");
    assert!(count.ends_with("it is machine 1 of 2; the verifier expects 1"), "{count}");
    assert!(twice.contains("another recorder is machine 1 (127.0.0.1:"), "{twice}");
    assert!(kept.notes.iter().any(|note| note.ends_with("has another token")), "{:?}", kept.notes);
}

#[test]
fn who_does_not_come_is_named() {
    let (listening, address) = listen(2);
    let one = recorder(&address, 1, 2);
    let waiting = thread::spawn(move || one.may_prepare());
    let (_, gathered) = gather(listening);
    assert_eq!(gathered.err().as_deref(), Some("machine 2 of 2 has not come within 2 s"));
    let why = waiting.join().expect("no panic").expect_err("no run");
    assert!(why.ends_with("machine 2 of 2 has not come within 2 s"), "{why}");
    let nobody = recorder("127.0.0.1:1", 1, 1).may_prepare();
    assert_eq!(nobody, Err("127.0.0.1:1: the verifier does not answer".to_owned()));
}
