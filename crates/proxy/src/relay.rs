//! The relay: two threads a connection, one for each direction.
//!
//! # Invariants
//! - Bytes are passed on as they came. What is understood of them is read from a copy.
//! - Times are taken before bytes are written to the server, and after they were read from it.
//! - A connection's lock is held while bytes are decoded, never during input or output.
//! - What a transaction did is in the collector's channel before
//!   [`Outstanding::since`](crate::transaction::Outstanding::since) forgets the transaction.
//! - A statement waits for the collector in two cases, a few seconds at most: it is the first
//!   behind a change of the schema, or it wants a database for itself ([`crate::recording`]).

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use margay_drivers::{PostgresServer, ShownCertificate};
use margay_wire::{Event, MAX_STARTUP, Session, Startup, Unbound, asked};

use crate::database::{Database, Message};
use crate::lane::Lane;
use crate::level::OwnLevel;
use crate::mysql::MysqlAddress;
use crate::socket::Socket;
use crate::text::{touches_no_row, wants_database_alone};
use crate::transaction::Outstanding;

/// What is read at once, at first and from a connection that has more to say.
const BUFFERS: [usize; 2] = [4 << 10, 16 << 10];

/// The first byte of a connection that is encrypted from its beginning.
const TLS_HANDSHAKE: u8 = 0x16;

/// How long a statement or a new connection waits for the collector.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a server speaks.
#[derive(Clone, Debug)]
pub(crate) enum Protocol {
    Postgres,
    /// And the database of clients that name none.
    Mysql(String),
}

/// A connection, whatever it speaks.
pub(crate) trait Peer: Send {
    fn outstanding(&self) -> &Outstanding;
    /// The sockets of the client and the server.
    fn ends(&self) -> &[Option<Socket>; 2];
}

/// What the connections share.
pub(crate) struct Relay {
    pub protocol: Protocol,
    pub server: PostgresServer,
    /// What clients that want encryption are shown.
    pub certificate: Option<ShownCertificate>,
    /// The databases that are recorded.
    pub databases: Mutex<Vec<Arc<Database>>>,
    pub clock: Instant,
    pub collector: Sender<Message>,
    pub lanes: Mutex<Vec<Arc<Mutex<dyn Peer>>>>,
    pub told: Mutex<RelayReport>,
    pub over: AtomicBool,
    /// The field of comments that names units.
    pub unit_field: Option<Arc<str>>,
    pub sessions: AtomicU64,
    /// Connections that Margay made for itself (MySQL).
    pub own: AtomicU64,
    /// The server's numbers of the sessions, and of Margay's own connections (MySQL).
    pub threads: Mutex<BTreeSet<u32>>,
}

/// What the relay has to tell.
#[derive(Clone, Default, Debug)]
pub(crate) struct RelayReport {
    /// Why what was recorded is not all that may have been written.
    pub concerns: Vec<String>,
    /// What was not recorded, and does not matter.
    pub notes: Vec<String>,
}

/// A connection as both of its threads know it.
pub(crate) struct Connection {
    number: u64,
    session: Session,
    pub lane: Lane,
    /// Its database, if it is recorded.
    database: Option<Arc<Database>>,
    /// The database that it counts as a connection of.
    entered: Option<Arc<Database>>,
    /// Why it is not.
    unrecorded: Option<String>,
    ready: bool,
    ends: [Option<Socket>; 2],
}

impl Peer for Connection {
    fn outstanding(&self) -> &Outstanding {
        &self.lane.outstanding
    }

    fn ends(&self) -> &[Option<Socket>; 2] {
        &self.ends
    }
}

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Relay {
    pub fn now(&self) -> i64 {
        self.clock.elapsed().as_nanos() as i64
    }

    /// Accepts connections until the relay is over.
    pub fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for client in listener.incoming() {
            if self.over.load(Ordering::Acquire) {
                return;
            }
            let Ok(client) = client else {
                // There may be too many files open; the next client may have more luck.
                thread::sleep(Duration::from_millis(10));
                continue;
            };
            let relay = Arc::clone(self);
            let spawned = thread::Builder::new().name("relay".to_owned()).spawn(move || relay.serve(client));
            if spawned.is_err() {
                lock(&self.told).notes.push("no thread for a connection, which was refused".to_owned());
            }
        }
    }

    /// Ends waiting for connections.
    pub fn stop(&self, address: SocketAddr) {
        self.over.store(true, Ordering::Release);
        // The listener waits for a connection; this is its last.
        let _ = TcpStream::connect(address);
    }

    /// Cuts all connections.
    pub fn cut(&self) {
        for lane in lock(&self.lanes).iter() {
            lock(lane).ends().iter().flatten().for_each(|end| end.shutdown(Shutdown::Both));
        }
    }

    /// How many connections the relay and Margay have made (MySQL).
    pub fn made(&self) -> u64 {
        self.sessions.load(Ordering::Acquire) + self.own.load(Ordering::Acquire)
    }

    /// A connection of Margay's own.
    pub fn connect(&self, address: &MysqlAddress) -> Result<mysql::Conn, String> {
        let conn = address.connect()?;
        self.own.fetch_add(1, Ordering::AcqRel);
        lock(&self.threads).insert(conn.connection_id());
        Ok(conn)
    }

    fn serve(&self, client: TcpStream) {
        let _ = client.set_nodelay(true);
        if let Protocol::Mysql(home) = &self.protocol {
            return self.serve_mysql(client, home);
        }
        let Ok(Some((mut client, startup, first))) = self.greet(Socket::plain(client)) else { return };
        let Ok(mut server) = Socket::connect(&self.server) else { return };
        match startup {
            // The server answers a request to cancel by closing the connection.
            Startup::Cancel => {
                let _ = server.write_all(&first);
                let _ = io::copy(&mut server, &mut client);
            }
            Startup::Session(parameters) => self.session(client, server, &first, &parameters),
            _ => {
                lock(&self.told).concerns.push("a connection in an unknown protocol".to_owned());
                self.session(client, server, &first, &[("replication".to_owned(), "?".to_owned())]);
            }
        }
    }

    /// The first message that wants more than encryption. Without a certificate that is refused.
    fn greet(&self, mut client: Socket) -> io::Result<Option<(Socket, Startup, Vec<u8>)>> {
        let mut bytes = Vec::new();
        if let Some(certificate) = &self.certificate
            && client.peek()? == TLS_HANDSHAKE
        {
            client = client.accept(&certificate.config)?;
        }
        loop {
            match Startup::read(&bytes) {
                Ok(Some((wanted @ (Startup::Tls | Startup::Gss), length))) => {
                    bytes.drain(..length);
                    let certificate = self.certificate.as_ref().filter(|_| wanted == Startup::Tls);
                    match certificate {
                        // What was sent in plain text already would be taken for encrypted.
                        Some(_) if client.is_encrypted() || !bytes.is_empty() => return Ok(None),
                        Some(certificate) => {
                            client.write_all(b"S")?;
                            client = client.accept(&certificate.config)?;
                        }
                        None => client.write_all(b"N")?,
                    }
                }
                Ok(Some((startup, _))) => return Ok(Some((client, startup, bytes))),
                Ok(None) => {
                    let mut buffer = [0; 1024];
                    let count = client.read(&mut buffer)?;
                    if count == 0 || bytes.len() > MAX_STARTUP {
                        return Ok(None);
                    }
                    bytes.extend_from_slice(&buffer[..count]);
                }
                Err(_) => return Ok(Some((client, Startup::Other, bytes))),
            }
        }
    }

    fn session(&self, client: Socket, server: Socket, first: &[u8], parameters: &[(String, String)]) {
        let Some(connection) = self.connection(&client, &server, parameters) else { return };
        let peer: Arc<Mutex<dyn Peer>> = Arc::clone(&connection) as _;
        lock(&self.lanes).push(Arc::clone(&peer));
        let (Ok(to_client), Ok(mut to_server)) = (client.try_clone(), server.try_clone()) else { return };
        let _ = to_server.write_all(first);
        thread::scope(|scope| {
            scope.spawn(|| self.questions(client, to_server, &connection));
            self.answers(server, to_client, &connection);
        });
        let now = self.now();
        self.decode(&connection, now, |session| session.closed(now), true);
        lock(&self.lanes).retain(|other| !Arc::ptr_eq(other, &peer));
        let entered = lock(&connection).entered.take();
        entered.iter().for_each(|database| database.left());
    }

    fn connection(
        &self,
        client: &Socket,
        server: &Socket,
        parameters: &[(String, String)],
    ) -> Option<Arc<Mutex<Connection>>> {
        let number = self.sessions.fetch_add(1, Ordering::Relaxed);
        let get =
            |name: &str| parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let ends = [client.try_clone().ok(), server.try_clone().ok()];
        let name = get("database").or(get("user")).unwrap_or_default();
        let replicates =
            get("replication").is_some_and(|value| !matches!(value, "false" | "off" | "no" | "0"));
        let mut session = Session::new();
        let entered = match replicates {
            true => Err("it replicates".to_owned()),
            false => self.enter(name),
        };
        let (database, unrecorded) = match entered {
            Ok(database) => (Some(database), None),
            Err(why) => {
                (None, Some(format!("a session of database {name} was relayed and not recorded: {why}")))
            }
        };
        if replicates {
            session.blinded("a replication connection");
            lock(&self.told).concerns.extend(unrecorded.clone());
        }
        let level = database.as_ref().and_then(|database| lock(&database.about).level);
        let lane = Lane::new(number, session_level(parameters, level), self.unit_field.clone());
        let entered = database.clone();
        Some(Arc::new(Mutex::new(Connection {
            number,
            session,
            lane,
            database,
            entered,
            unrecorded,
            ready: false,
            ends,
        })))
    }

    /// A connection to a database that is recorded already.
    pub fn enter_known(&self, name: &str) -> Option<Arc<Database>> {
        let databases = lock(&self.databases);
        let known = databases.iter().find(|known| known.name == name)?;
        lock(&known.about).open += 1;
        Some(Arc::clone(known))
    }

    /// A connection to a database, which the collector knows before the server hears of it.
    pub fn enter(&self, name: &str) -> Result<Arc<Database>, String> {
        if let Some(known) = self.enter_known(name) {
            return Ok(known);
        }
        let (reply, opened) = mpsc::channel();
        let _ = self.collector.send(Message::Open(name.to_owned(), reply));
        opened.recv_timeout(PATIENCE).unwrap_or_else(|_| Err("recording has ended".to_owned()))
    }

    /// Waits for the collector if the bytes are of a statement that has to.
    fn wait(&self, connection: &Mutex<Connection>, bytes: &[u8]) {
        let Some(database) = lock(connection).database.clone() else { return };
        let texts = || asked(bytes);
        self.wait_to_leave(bytes, texts);
        if database.is_stale() && !lock(connection).lane.changes_schema() {
            self.wait_for_cut(&database, texts, touches_no_row);
        }
    }

    /// A statement that wants a database for itself waits until Margay has left it.
    pub fn wait_to_leave<'b>(&self, bytes: &[u8], texts: impl Fn() -> Option<Vec<&'b str>>) {
        if mentions_database(bytes) {
            let alone = texts().unwrap_or_default().into_iter().filter(|text| wants_database_alone(text));
            alone.for_each(|text| self.ask(|reply| Message::Leave(text.to_owned(), reply)));
        }
    }

    /// A statement behind a change of the schema waits for the next part, unless it touches no row.
    pub fn wait_for_cut<'b>(
        &self,
        database: &Arc<Database>,
        texts: impl Fn() -> Option<Vec<&'b str>>,
        touches_no_row: fn(&str) -> bool,
    ) {
        if !texts().is_some_and(|texts| texts.into_iter().all(touches_no_row)) {
            self.ask(|reply| Message::Cut(Arc::clone(database), reply));
        }
    }

    fn ask(&self, message: impl FnOnce(Sender<()>) -> Message) {
        let (reply, done) = mpsc::channel();
        let _ = self.collector.send(message(reply));
        // Without an answer the statement goes on; its times tell what it met.
        let _ = done.recv_timeout(PATIENCE);
    }

    /// From the client to the server.
    fn questions(&self, mut client: Socket, mut server: Socket, connection: &Mutex<Connection>) {
        let mut input = Input::default();
        while let Some(bytes) = input.read(&mut client) {
            self.wait(connection, bytes);
            {
                let mut connection = lock(connection);
                // Inside the lock, so that nobody sees a time that has not been promised.
                let now = self.now();
                connection.lane.outstanding.sends(now);
                connection.session.sent(bytes, now);
                self.take(&mut connection, now, false);
            }
            if server.write_all(bytes).is_err() {
                break;
            }
        }
        // The server learns that nothing more comes; what it still answers is recorded.
        server.say_goodbye();
        server.shutdown(Shutdown::Write);
    }

    /// From the server to the client. When the client has gone, what the server answers is still
    /// recorded.
    fn answers(&self, mut server: Socket, mut client: Socket, connection: &Mutex<Connection>) {
        let mut input = Input::default();
        let mut listens = true;
        let mut unbound = (server.is_encrypted() && !client.is_encrypted()).then(Unbound::default);
        while let Some(bytes) = input.read(&mut server) {
            let (now, bytes) = (self.now(), &*bytes);
            self.decode(connection, now, |session| session.received(bytes, now), false);
            let passed = unbound.as_mut().map_or(Cow::Borrowed(bytes), |unbound| unbound.pass(bytes));
            if listens && client.write_all(&passed).is_err() {
                listens = false;
                server.shutdown(Shutdown::Write);
            }
        }
        client.say_goodbye();
        client.shutdown(Shutdown::Both);
    }

    fn decode(&self, connection: &Mutex<Connection>, now: i64, feed: impl FnOnce(&mut Session), gone: bool) {
        let mut connection = lock(connection);
        feed(&mut connection.session);
        self.take(&mut connection, now, gone);
    }

    /// Passes the transactions of a connection on that have ended.
    pub fn pass_on(&self, database: Option<&Arc<Database>>, outstanding: &mut Outstanding) {
        for transaction in outstanding.done() {
            let Some(database) = database else { continue };
            if transaction.changes_schema() {
                database.changed();
            }
            // Without a collector nobody wants to know.
            let _ = self.collector.send(Message::Ended(Arc::clone(database), transaction));
        }
    }

    /// Takes what the session has reported.
    fn take(&self, connection: &mut Connection, now: i64, gone: bool) {
        let Connection { number, session, lane, database, unrecorded, ready, .. } = connection;
        let mut is_blind = false;
        for event in session.events() {
            match (&event, database.as_ref().map(|database| &database.about)) {
                (Event::Backend(pid), Some(about)) => drop(lock(about).backends.insert(*pid)),
                (Event::Ready(..), Some(_)) if *ready => {}
                (Event::Ready(..), Some(about)) => {
                    lock(about).accepted += 1;
                    *ready = true;
                }
                // What the server has refused needs no note.
                (Event::Ready(..), None) => {
                    let mut told = lock(&self.told);
                    let note = unrecorded.take().filter(|note| !told.notes.contains(note));
                    told.notes.extend(note);
                }
                (Event::Parameter(name, value), Some(_)) if name == "in_hot_standby" && value == "on" => {
                    *unrecorded = Some("a session of a standby was not recorded".to_owned());
                }
                (Event::Blind(why), Some(about)) => {
                    lock(about).concerns.push(blind(*number, why));
                    is_blind = true;
                }
                _ => {}
            }
            if unrecorded.is_some() {
                *database = None;
            }
            if database.is_some() {
                lane.event(event);
            }
        }
        if is_blind {
            lane.blinded(now);
        } else if gone {
            lane.closed(now);
        }
        self.pass_on(database.as_ref(), &mut lane.outstanding);
        if gone || session.is_blind() || session.is_idle() || database.is_none() {
            lane.rests();
        }
    }
}

/// The concern about a connection whose protocol is lost.
pub(crate) fn blind(number: u64, why: &str) -> String {
    format!("connection {number} is relayed, but not understood any more: {why}")
}

/// Whether bytes may be of a statement about a database. Long ones are not: nobody calls a database
/// that.
fn mentions_database(bytes: &[u8]) -> bool {
    const WORD: &[u8] = b"database";
    let is_word = |window: &[u8]| window[0] | 0x20 == WORD[0] && window.eq_ignore_ascii_case(WORD);
    bytes.len() < 2048 && bytes.windows(WORD.len()).any(is_word)
}

/// The level that a session begins with: what its startup message asks for, or the server's
/// default.
fn session_level(parameters: &[(String, String)], default: Option<OwnLevel>) -> Option<OwnLevel> {
    let asks = |(name, value): &&(String, String)| name.contains("isolation") || value.contains("isolation");
    match parameters.iter().find(asks) {
        Some((_, value)) => OwnLevel::named(&value.replace('\\', "")),
        None => default,
    }
}

/// Where bytes of one direction are read. It is small until they fill it.
#[derive(Default)]
pub(crate) struct Input {
    buffer: Vec<u8>,
}

impl Input {
    /// The next bytes; none at the end.
    pub fn read(&mut self, from: &mut impl Read) -> Option<&mut [u8]> {
        if self.buffer.is_empty() {
            self.buffer = vec![0; BUFFERS[0]];
        }
        loop {
            match from.read(&mut self.buffer) {
                Ok(0) => return None,
                Ok(count) if count == BUFFERS[0] && count == self.buffer.len() => {
                    self.buffer.resize(BUFFERS[1], 0);
                    return Some(&mut self.buffer[..count]);
                }
                Ok(count) => return Some(&mut self.buffer[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }
}
