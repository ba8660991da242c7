//! The recorder's end: sends what is recorded, and keeps what the verifier has not confirmed.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::frame::{Message, Phase, encode, read};
use crate::token::{Token, greet, random};
use crate::{Hello, MAGIC, PULSE, SHORT, verifier};

/// How long to rest before the next try to connect.
const REST: Duration = Duration::from_millis(100);

/// Which of all machines this one is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// From 1.
    pub number: usize,
    /// How many there are.
    pub of: usize,
}

/// A recorder's connection to the verifier, which is made again when it breaks.
#[derive(Clone)]
pub struct Recorder(Arc<Inner>);

struct Inner {
    address: String,
    machine: Machine,
    hello: Hello,
    token: Token,
    patience: Duration,
    clock: Instant,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Frames that the verifier has not confirmed, in order.
    frames: VecDeque<Vec<u8>>,
    /// The number of the first of them.
    first: u64,
    /// The number of the next frame to be sent on this connection.
    next: u64,
    /// The promises of frames that are not verified, with their numbers.
    promises: VecDeque<(u64, i64)>,
    /// All that was called before this local time is verified.
    verified: i64,
    /// Lines for the next frame.
    lines: Vec<u8>,
    header: bool,
    ended: bool,
    /// When the verifier asked for the time, and when this was heard.
    asked: Vec<(i64, i64)>,
    phase: Phase,
    said: String,
    connected: bool,
    failed: Option<String>,
}

/// Why there is no connection.
enum No {
    /// The verifier does not answer; perhaps it does later.
    Absent,
    /// The verifier and this recorder do not match.
    Wrong(String),
}

impl Recorder {
    /// Begins to connect, on a thread of its own. All times are by `clock`.
    #[must_use]
    pub fn start(
        address: &str,
        machine: Machine,
        token: Token,
        subject: String,
        patience: Duration,
        clock: Instant,
    ) -> Self {
        let state = State {
            frames: VecDeque::new(),
            first: 1,
            next: 1,
            promises: VecDeque::new(),
            verified: 0,
            lines: Vec::new(),
            header: false,
            ended: false,
            asked: Vec::new(),
            phase: Phase::Waiting,
            said: String::new(),
            connected: false,
            failed: None,
        };
        let recorder = random().iter().map(|byte| format!("{byte:02x}")).collect();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let hello = Hello { version, machine: machine.number, of: machine.of, recorder, subject };
        let (state, changed) = (Mutex::new(state), Condvar::new());
        let address = address.to_owned();
        let inner = Arc::new(Inner { address, machine, hello, token, patience, clock, state, changed });
        let own = Arc::clone(&inner);
        thread::spawn(move || own.stay_connected());
        Self(inner)
    }

    /// Which machine this is.
    #[must_use]
    pub fn machine(&self) -> Machine {
        self.0.machine
    }

    /// The clock of all times.
    #[must_use]
    pub fn clock(&self) -> Instant {
        self.0.clock
    }

    /// Whether this machine creates the tables. Returns when it may.
    ///
    /// # Errors
    /// Why the recorders will not begin.
    pub fn may_prepare(&self) -> Result<bool, String> {
        if self.0.machine.number != 1 {
            return Ok(false);
        }
        self.0.wait(Phase::Preparing)?;
        self.0.is_wanted().map(|()| true)
    }

    /// Returns when clients may begin. The first machine has created the tables.
    ///
    /// # Errors
    /// Why they may not.
    pub fn begin(&self) -> Result<(), String> {
        if self.0.machine.number == 1 {
            self.0.lock().push(&Message::Prepared);
            self.0.changed.notify_all();
        }
        self.0.wait(Phase::Running)?;
        self.0.is_wanted()
    }

    /// The next lines of the recording. The header comes first, alone.
    pub fn write(&self, lines: &[u8]) {
        let mut state = self.0.lock();
        if state.header {
            state.lines.extend_from_slice(lines);
        } else if !lines.is_empty() {
            state.header = true;
            state.push(&Message::Header(lines.to_vec()));
        }
    }

    /// Everything that was called before this time has been written.
    pub fn promise(&self, before: i64) {
        let mut state = self.0.lock();
        if state.ended {
            return;
        }
        let lines = std::mem::take(&mut state.lines);
        state.push(&Message::Lines { promise: before, lines });
        let number = state.first + state.frames.len() as u64 - 1;
        state.promises.push_back((number, before));
        drop(state);
        self.0.changed.notify_all();
    }

    /// All has been written. If the recording did not come to its end as planned, says why.
    pub fn end(&self, why: &str) {
        let last = self.0.clock.elapsed().as_nanos() as i64;
        self.promise(last);
        let mut state = self.0.lock();
        if !std::mem::replace(&mut state.ended, true) {
            state.push(&Message::End(why.to_owned()));
        }
        drop(state);
        self.0.changed.notify_all();
    }

    /// Everything that was called before this time is verified.
    #[must_use]
    pub fn verified(&self) -> i64 {
        self.0.lock().verified
    }

    /// Whether clients should stop: the verifier needs no more, or is gone.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let state = self.0.lock();
        state.failed.is_some() || state.phase >= Phase::Ended
    }

    /// Returns when no machine uses the tables any more.
    pub fn wait_for_others(&self) {
        _ = self.0.wait(Phase::Ended);
    }

    /// What the verifier says in the end.
    ///
    /// # Errors
    /// Why it says nothing.
    pub fn verdict(&self) -> Result<String, String> {
        self.0.wait(Phase::Decided)
    }
}

impl State {
    fn push(&mut self, message: &Message) {
        let number = self.first + self.frames.len() as u64;
        self.frames.push_back(encode(number, message));
    }

    /// The verifier has got the frames up to this number.
    fn confirm(&mut self, received: u64) {
        let count = (received + 1).saturating_sub(self.first).min(self.frames.len() as u64);
        self.frames.drain(..count as usize);
        self.first += count;
        self.next = self.next.max(self.first);
    }

    fn heard(&mut self, message: Message, now: i64) {
        match message {
            Message::Ping(asked) => self.asked.push((asked, now)),
            Message::Taken(received, verified) => {
                self.confirm(received);
                while let Some((_, promise)) = self.promises.pop_front_if_at_most(verified) {
                    self.verified = promise;
                }
            }
            Message::Phase(phase, said) if phase >= self.phase => (self.phase, self.said) = (phase, said),
            _ => {}
        }
    }
}

/// Takes what is verified out of the queue.
trait PopVerified {
    fn pop_front_if_at_most(&mut self, number: u64) -> Option<(u64, i64)>;
}

impl PopVerified for VecDeque<(u64, i64)> {
    fn pop_front_if_at_most(&mut self, number: u64) -> Option<(u64, i64)> {
        if self.front()?.0 <= number { self.pop_front() } else { None }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> i64 {
        self.clock.elapsed().as_nanos() as i64
    }

    fn wait(&self, phase: Phase) -> Result<String, String> {
        let mut state = self.lock();
        loop {
            match &state.failed {
                _ if state.phase >= phase => return Ok(state.said.clone()),
                Some(why) => return Err(why.clone()),
                None => {}
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether the verifier still wants a recording.
    fn is_wanted(&self) -> Result<(), String> {
        let state = self.lock();
        if state.phase < Phase::Ended {
            return Ok(());
        }
        let why = state.said.split_once('\n').map_or("it has ended", |(_, why)| why);
        Err(format!("{}: {why}", self.address))
    }

    fn fail(&self, why: String) {
        self.lock().failed.get_or_insert(why);
        self.changed.notify_all();
    }

    /// Connects again and again, until there is a verdict.
    fn stay_connected(&self) {
        let mut since = Instant::now();
        loop {
            match self.connect() {
                Ok(stream) => {
                    self.converse(&stream);
                    since = Instant::now();
                }
                Err(No::Wrong(why)) => return self.fail(format!("{}: {why}", self.address)),
                Err(No::Absent) if since.elapsed() >= self.patience => {
                    return self.fail(format!("{}: the verifier does not answer", self.address));
                }
                Err(No::Absent) => {}
            }
            if self.lock().phase == Phase::Decided {
                return;
            }
            thread::sleep(REST);
        }
    }

    fn connect(&self) -> Result<TcpStream, No> {
        let absent = |_: io::Error| No::Absent;
        let addresses =
            self.address.to_socket_addrs().map_err(|why| No::Wrong(why.to_string()))?.collect::<Vec<_>>();
        let connected = addresses.iter().find_map(|to| TcpStream::connect_timeout(to, SHORT).ok());
        let stream = connected.ok_or(No::Absent)?;
        stream.set_nodelay(true).map_err(absent)?;
        stream.set_read_timeout(Some(SHORT)).map_err(absent)?;
        stream.set_write_timeout(Some(SHORT)).map_err(absent)?;
        let greeting = greet(&stream, MAGIC, &self.token, &self.hello.to_bytes()).map_err(absent)?;
        if !greeting.known {
            return Err(No::Wrong("it has another token".to_owned()));
        }
        if greeting.said != verifier() {
            let said = String::from_utf8_lossy(&greeting.said).replace('\n', " ");
            return Err(No::Wrong(format!("a verifier of another version: {said}")));
        }
        match read(&stream).map_err(absent)?.1 {
            Message::Refused(why) => Err(No::Wrong(why)),
            Message::Welcome(received) => {
                let mut state = self.lock();
                if received + 1 < state.first {
                    return Err(No::Wrong("it has lost what it had received".to_owned()));
                }
                stream.set_read_timeout(Some(self.patience.max(SHORT))).map_err(absent)?;
                state.confirm(received);
                state.next = received + 1;
                state.connected = true;
                state.asked.clear();
                Ok(stream)
            }
            _ => Err(No::Absent),
        }
    }

    /// Sends and hears until the connection breaks or there is a verdict.
    fn converse(&self, stream: &TcpStream) {
        thread::scope(|scope| {
            scope.spawn(|| self.hear(stream));
            while let Some(bytes) = self.next() {
                if io::Write::write_all(&mut &*stream, &bytes).is_err() {
                    break;
                }
            }
            _ = stream.shutdown(Shutdown::Both);
        });
    }

    /// Hears until the connection breaks.
    fn hear(&self, stream: &TcpStream) {
        while let Ok((_, message)) = read(stream) {
            let now = self.now();
            self.lock().heard(message, now);
            self.changed.notify_all();
        }
        self.lock().connected = false;
        self.changed.notify_all();
    }

    /// The next frame to send; none when there is no connection, or nothing more to say.
    fn next(&self) -> Option<Vec<u8>> {
        let mut state = self.lock();
        loop {
            if !state.connected || state.phase == Phase::Decided {
                return None;
            }
            if let Some((asked, heard)) = state.asked.pop() {
                // Older questions would only tell how long they waited.
                state.asked.clear();
                return Some(encode(0, &Message::Pong { asked, heard, answered: self.now() }));
            }
            let place = (state.next - state.first) as usize;
            if let Some(frame) = state.frames.get(place) {
                let frame = frame.clone();
                state.next += 1;
                return Some(frame);
            }
            let waited = self.changed.wait_timeout(state, PULSE).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
        }
    }
}
