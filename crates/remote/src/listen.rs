//! The verifier's end: waits for all recorders, and puts together what they send.
//!
//! # Algorithm
//! One thread waits for connections and greets; one thread hears each recorder, and another one
//! asks it for the time. What they hear goes to one loop, which owns everything.

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::clock::Exchange;
use crate::frame::{Message, Phase, encode, read};
use crate::token::{Token, greet};
use crate::{Hello, MAGIC, Merge, PULSE, SHORT, verifier};

/// How many messages wait for the loop before recorders have to.
const BACKLOG: usize = 64;

/// How many connections are greeted at the same time.
const GREETED: usize = 32;

/// How long recorders have to hear the verdict.
const FAREWELL: Duration = Duration::from_secs(2);

/// Waits for recorders.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    recorders: usize,
    token: Token,
    patience: Duration,
}

/// Who takes what recorders send.
pub trait Takes {
    /// The header, which all recordings share.
    ///
    /// # Errors
    /// When it cannot be taken.
    fn header(&mut self, line: &[u8]) -> Result<(), String>;

    /// The next line, by the verifier's clock.
    ///
    /// # Errors
    /// When it cannot be taken.
    fn line(&mut self, line: &[u8]) -> Result<(), String>;

    /// Everything has come that was called before this time.
    ///
    /// # Errors
    /// When what has come cannot be looked at.
    fn advance(&mut self, until: i64) -> Result<(), String>;

    /// Something happened that the user may want to know.
    fn note(&mut self, what: &str);

    /// Whether nothing more is wanted.
    fn is_over(&self) -> bool;
}

/// What has come, from all recorders.
pub struct Gathered {
    /// Why something is missing, if it is.
    pub lost: Option<String>,
    /// By how much intervals were widened at most, on either side.
    pub error: Duration,
    /// How many lines came from each machine.
    pub lines: Vec<u64>,
    gathering: Gathering,
}

/// What the loop hears.
enum Event {
    Come(Hello, TcpStream),
    /// A process that is no recorder of this verifier.
    Stranger(String),
    Heard {
        connection: u64,
        number: u64,
        message: Message,
        at: Instant,
    },
    Gone {
        connection: u64,
    },
}

/// A recorder's place.
#[derive(Default)]
struct Seat {
    hello: Option<Hello>,
    peer: String,
    connection: Option<(u64, Arc<Mutex<TcpStream>>)>,
    /// When it was heard last.
    heard: Option<Instant>,
    received: u64,
    ended: bool,
}

/// The loop.
struct Gathering {
    clock: Instant,
    events: Receiver<Event>,
    told: SyncSender<Event>,
    seats: Vec<Seat>,
    /// Which recorder has a connection.
    connections: HashMap<u64, usize>,
    last_connection: u64,
    merge: Merge,
    phase: Phase,
    said: String,
    header: Option<Vec<u8>>,
    patience: Duration,
    over: Arc<AtomicBool>,
    lost: Option<String>,
}

/// Why gathering ends early.
enum Stop {
    /// Something is missing.
    Lost(String),
    /// Nothing can be verified.
    Failed(String),
}

impl Listening {
    /// Begins to listen.
    ///
    /// # Errors
    /// When the address cannot be listened at.
    pub fn at(address: &str, recorders: usize, token: Token, patience: Duration) -> Result<Self, String> {
        let listener = TcpListener::bind(address).map_err(|why| format!("{address}: {why}"))?;
        listener.set_nonblocking(true).map_err(|why| format!("{address}: {why}"))?;
        Ok(Self { listener, recorders, token, patience })
    }

    /// Where recorders can connect.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Takes what all recorders send, until all of them have ended.
    ///
    /// # Errors
    /// When clients could not begin, or what comes cannot be taken.
    pub fn gather(self, takes: &mut dyn Takes) -> Result<Gathered, String> {
        let (told, events) = sync_channel(BACKLOG);
        let over = Arc::new(AtomicBool::new(false));
        let (doors, recorders, patience) = (told.clone(), self.recorders, self.patience);
        let shut = Arc::clone(&over);
        thread::spawn(move || self.open(&doors, &shut));
        let mut gathering = Gathering {
            clock: Instant::now(),
            events,
            told,
            seats: (0..recorders).map(|_| Seat::default()).collect(),
            connections: HashMap::new(),
            last_connection: 0,
            merge: Merge::new(recorders),
            phase: Phase::Waiting,
            said: String::new(),
            header: None,
            patience,
            over,
            lost: None,
        };
        match gathering.run(takes) {
            Ok(()) => {}
            Err(Stop::Lost(why)) if gathering.phase >= Phase::Running => gathering.lost = Some(why),
            Err(Stop::Lost(why) | Stop::Failed(why)) => {
                gathering.tell(Phase::Decided, format!("2\n{why}"));
                gathering.part();
                return Err(why);
            }
        }
        gathering.tell(Phase::Ended, String::new());
        let lines = (0..recorders).map(|machine| gathering.merge.lines(machine)).collect();
        Ok(Gathered { lost: gathering.lost.clone(), error: gathering.merge.error(), lines, gathering })
    }

    /// Greets whoever connects.
    fn open(&self, told: &SyncSender<Event>, over: &AtomicBool) {
        let greeted = Arc::new(AtomicUsize::new(0));
        while !over.load(Ordering::Relaxed) {
            let Ok((stream, _)) = self.listener.accept() else {
                thread::sleep(Duration::from_millis(5));
                continue;
            };
            if greeted.fetch_add(1, Ordering::Relaxed) >= GREETED {
                greeted.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let (told, token, greeted) = (told.clone(), self.token.clone(), Arc::clone(&greeted));
            thread::spawn(move || {
                let event = meet(stream, &token);
                greeted.fetch_sub(1, Ordering::Relaxed);
                event.map(|event| told.send(event))
            });
        }
    }
}

/// Greets a process; nothing if it says nothing that a recorder says.
fn meet(stream: TcpStream, token: &Token) -> Option<Event> {
    let peer = peer(&stream);
    stream.set_nonblocking(false).ok()?;
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(SHORT)).ok()?;
    stream.set_write_timeout(Some(SHORT)).ok()?;
    let greeting = greet(&stream, MAGIC, token, &verifier()).ok()?;
    let hello = Hello::from_bytes(&greeting.said).filter(|_| greeting.known);
    Some(match hello {
        Some(hello) => Event::Come(hello, stream),
        None if greeting.known => Event::Stranger(format!("{peer} is no recorder")),
        None => Event::Stranger(format!("{peer} has another token")),
    })
}

fn peer(stream: &TcpStream) -> String {
    stream.peer_addr().map_or_else(|_| "a recorder".to_owned(), |address| address.to_string())
}

impl Gathered {
    /// Tells all recorders what came of it: an exit status and a text.
    pub fn tell(mut self, status: u8, text: &str) {
        self.gathering.tell(Phase::Decided, format!("{status}\n{text}"));
        self.gathering.part();
    }
}

impl Gathering {
    fn run(&mut self, takes: &mut dyn Takes) -> Result<(), Stop> {
        let (mut looked, start) = (Instant::now(), Instant::now());
        while !self.seats.iter().all(|seat| seat.ended) {
            match self.events.recv_timeout(PULSE / 4) {
                Ok(event) => self.event(event, takes)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("this loop has a sender itself"),
            }
            if takes.is_over() {
                return Ok(());
            }
            if looked.elapsed() >= PULSE / 4 {
                looked = Instant::now();
                self.release(takes)?;
                self.was_away(looked.elapsed());
                self.confirm();
                self.miss(start, takes)?;
                self.proceed();
            }
        }
        self.release(takes)
    }

    fn event(&mut self, event: Event, takes: &mut dyn Takes) -> Result<(), Stop> {
        match event {
            Event::Come(hello, stream) => self.come(hello, stream, takes),
            Event::Stranger(what) => takes.note(&what),
            Event::Gone { connection } => self.gone(connection, takes),
            Event::Heard { connection, number, message, at } => {
                let Some(&machine) = self.connections.get(&connection) else { return Ok(()) };
                let name = self.name(machine);
                let wrong = |why| Stop::Lost(format!("{name}: {why}"));
                let seat = &mut self.seats[machine];
                seat.heard = Some(at);
                if let Message::Pong { asked, heard, answered } = message {
                    let arrived = at.duration_since(self.clock).as_nanos() as i64;
                    let exchange = Exchange { asked, heard, answered, arrived };
                    return self.merge.learn(machine, exchange).map_err(wrong);
                }
                if number <= seat.received {
                    return Ok(());
                }
                if number != seat.received + 1 {
                    return Err(wrong(format!("frame {} is missing", seat.received + 1)));
                }
                seat.received = number;
                self.take(machine, number, message, takes)?;
            }
        }
        Ok(())
    }

    /// The next frame of a recording.
    fn take(
        &mut self,
        machine: usize,
        number: u64,
        message: Message,
        takes: &mut dyn Takes,
    ) -> Result<(), Stop> {
        let name = self.name(machine);
        let lost = |why: String| Stop::Lost(format!("{name}: {why}"));
        match message {
            Message::Prepared if machine == 0 && self.phase == Phase::Preparing => {
                self.tell(Phase::Running, String::new());
            }
            Message::Header(header) => match &self.header {
                Some(first) if *first == header => {}
                Some(_) => return Err(Stop::Failed(format!("{name} has another header than the first"))),
                None => {
                    takes.header(&header).map_err(Stop::Failed)?;
                    self.header = Some(header);
                }
            },
            Message::Lines { .. } if self.header.is_none() => return Err(lost("no header".to_owned())),
            Message::Lines { promise, lines } => {
                self.merge.take(machine, number, promise, &lines).map_err(lost)?;
            }
            Message::End(why) if why.is_empty() => {
                self.merge.end(machine);
                self.seats[machine].ended = true;
            }
            Message::End(why) => return Err(lost(why)),
            _ => return Err(lost("a message that does not belong there".to_owned())),
        }
        Ok(())
    }

    /// A recorder has come, or has come back.
    fn come(&mut self, hello: Hello, stream: TcpStream, takes: &mut dyn Takes) {
        if let Err(why) = self.fits(&hello) {
            takes.note(&format!("{} was refused: {why}", peer(&stream)));
            _ = (&stream).write_all(&encode(0, &Message::Refused(why)));
            return;
        }
        let machine = hello.machine - 1;
        self.last_connection += 1;
        let connection = self.last_connection;
        let seat = &mut self.seats[machine];
        let Ok(hearing) = stream.try_clone() else { return };
        let welcome = encode(0, &Message::Welcome(seat.received));
        let phase = encode(0, &Message::Phase(self.phase, self.said.clone()));
        if (&stream).write_all(&[welcome, phase].concat()).is_err() {
            return;
        }
        let out = Arc::new(Mutex::new(stream));
        if let Some((old, stream)) = seat.connection.replace((connection, Arc::clone(&out))) {
            close(&stream);
            self.connections.remove(&old);
        } else if seat.hello.is_some() {
            takes.note(&format!("machine {} is back", machine + 1));
        }
        (seat.heard, seat.peer) = (Some(Instant::now()), peer(&hearing));
        seat.hello = Some(hello);
        self.connections.insert(connection, machine);
        let (told, clock) = (self.told.clone(), self.clock);
        thread::spawn(move || hear(&hearing, connection, &told));
        thread::spawn(move || ask(&out, clock));
    }

    /// Whether a recorder is one of those that are expected.
    fn fits(&self, hello: &Hello) -> Result<(), String> {
        let (own, of) = (env!("CARGO_PKG_VERSION"), self.seats.len());
        if hello.version != own {
            return Err(format!("it runs version {}, the verifier {own}", hello.version));
        }
        if hello.of != of || !(1..=of).contains(&hello.machine) {
            return Err(format!(
                "it is machine {} of {}; the verifier expects {of}",
                hello.machine, hello.of
            ));
        }
        let seat = &self.seats[hello.machine - 1];
        if seat.hello.as_ref().is_some_and(|known| known.recorder != hello.recorder) {
            return Err(format!("another recorder is machine {} ({})", hello.machine, seat.peer));
        }
        let other =
            self.seats.iter().filter_map(|seat| seat.hello.as_ref()).find(|o| o.subject != hello.subject);
        match other {
            Some(other) => Err(format!(
                "machine {} runs `{}`, machine {} `{}`",
                hello.machine, hello.subject, other.machine, other.subject
            )),
            None => Ok(()),
        }
    }

    fn gone(&mut self, connection: u64, takes: &mut dyn Takes) {
        let Some(machine) = self.connections.remove(&connection) else { return };
        if let Some((_, stream)) = self.seats[machine].connection.take() {
            close(&stream);
        }
        if !self.seats[machine].ended {
            takes.note(&format!("the connection to {} is lost; waiting for it", self.name(machine)));
        }
    }

    fn name(&self, machine: usize) -> String {
        format!("machine {} of {} ({})", machine + 1, self.seats.len(), self.seats[machine].peer)
    }

    fn release(&mut self, takes: &mut dyn Takes) -> Result<(), Stop> {
        let until = self.merge.release(|line| takes.line(line)).map_err(Stop::Failed)?;
        takes.advance(until).map_err(Stop::Failed)
    }

    /// The loop has heard nothing for this time, because it had other things to do.
    fn was_away(&mut self, time: Duration) {
        self.seats.iter_mut().filter_map(|seat| seat.heard.as_mut()).for_each(|heard| *heard += time);
    }

    /// Tells recorders what has come and what is verified.
    fn confirm(&mut self) {
        for (machine, seat) in self.seats.iter().enumerate() {
            if let Some((_, stream)) = &seat.connection {
                send(stream, &Message::Taken(seat.received, self.merge.released(machine)));
            }
        }
    }

    /// Whether a recorder has been away for too long.
    fn miss(&mut self, start: Instant, takes: &mut dyn Takes) -> Result<(), Stop> {
        for machine in 0..self.seats.len() {
            let seat = &self.seats[machine];
            let silent = seat.heard.unwrap_or(start).elapsed();
            if seat.ended || silent < self.patience {
                continue;
            }
            let seconds = self.patience.as_secs_f64();
            let why = match (&seat.hello, self.phase) {
                (None, _) => {
                    let (machine, of) = (machine + 1, self.seats.len());
                    return Err(Stop::Failed(format!(
                        "machine {machine} of {of} has not come within {seconds} s"
                    )));
                }
                (_, Phase::Waiting | Phase::Preparing) => {
                    let name = self.name(machine);
                    return Err(Stop::Failed(format!("{name} was lost before clients began")));
                }
                _ => format!("{} was not heard for {seconds} s", self.name(machine)),
            };
            takes.note(&why);
            return Err(Stop::Lost(why));
        }
        Ok(())
    }

    /// Begins when all have come.
    fn proceed(&mut self) {
        let is_there =
            |(machine, seat): (usize, &Seat)| seat.connection.is_some() && self.merge.is_known(machine);
        if self.phase == Phase::Waiting && self.seats.iter().enumerate().all(is_there) {
            self.tell(Phase::Preparing, String::new());
        }
    }

    fn tell(&mut self, phase: Phase, said: String) {
        (self.phase, self.said) = (phase, said);
        let message = Message::Phase(self.phase, self.said.clone());
        let streams = self.seats.iter().filter_map(|seat| seat.connection.as_ref());
        streams.for_each(|(_, stream)| send(stream, &message));
    }

    /// Waits until recorders have heard the verdict and are gone.
    fn part(&mut self) {
        let deadline = Instant::now() + FAREWELL;
        while self.seats.iter().any(|seat| seat.connection.is_some()) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(Event::Gone { connection }) => {
                    let machine = self.connections.remove(&connection);
                    machine.map(|machine| self.seats[machine].connection.take());
                }
                Ok(_) => {}
                Err(_) => break,
            }
        }
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Hears a recorder until its connection breaks.
fn hear(stream: &TcpStream, connection: u64, told: &SyncSender<Event>) {
    // The loop knows who is silent for too long.
    _ = stream.set_read_timeout(None);
    while let Ok((number, message)) = read(stream) {
        let at = Instant::now();
        if told.send(Event::Heard { connection, number, message, at }).is_err() {
            return;
        }
    }
    _ = told.send(Event::Gone { connection });
}

/// Asks a recorder for the time, again and again.
fn ask(stream: &Mutex<TcpStream>, clock: Instant) {
    loop {
        {
            let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
            let ping = Message::Ping(clock.elapsed().as_nanos() as i64);
            if stream.write_all(&encode(0, &ping)).is_err() {
                // Part of the frame may be on its way: nothing may follow it.
                _ = stream.shutdown(Shutdown::Both);
                return;
            }
        }
        thread::sleep(PULSE);
    }
}

/// A connection to which nothing can be written breaks, which is heard.
fn send(stream: &Mutex<TcpStream>, message: &Message) {
    let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
    if stream.write_all(&encode(0, message)).is_err() {
        _ = stream.shutdown(Shutdown::Both);
    }
}

fn close(stream: &Mutex<TcpStream>) {
    _ = stream.lock().unwrap_or_else(PoisonError::into_inner).shutdown(Shutdown::Both);
}
