//! The relay of MySQL's protocol: as for PostgreSQL, two threads a connection.
//!
//! # Invariants
//! Those of [`crate::relay`], with one difference: the greeting and the login are passed on without
//! the capabilities that are not read here.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;

use margay_wire::mysql::{Event, LoginMask, Session, asked, mask_greeting};

use crate::database::Database;
use crate::relay::{Input, Peer, Relay, blind, lock};
use crate::socket::Socket;
use crate::transaction::Outstanding;

use super::lane::{Ground, Lane};
use super::text::touches_no_row;

/// More than this is no greeting.
const MAX_GREETING: usize = 4096;

/// A connection as both of its threads know it.
struct Connection {
    number: u64,
    session: Session,
    lane: Lane,
    /// The database that it counts as a connection of, if it is recorded. None before the client
    /// has logged in.
    database: Option<Arc<Database>>,
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

impl Relay {
    /// Relays a connection. `home` is the database of clients that name none.
    pub fn serve_mysql(&self, mut client: TcpStream, home: &str) {
        let Ok(mut server) = Socket::connect(&self.server) else { return };
        let number = self.sessions.fetch_add(1, Ordering::Relaxed);
        let Ok(greeting) = greet(&mut server) else { return };
        if client.write_all(&greeting).is_err() {
            return;
        }
        let ends = [client.try_clone().ok().map(Socket::plain), server.try_clone().ok()];
        let mut session = Session::new();
        session.received(&greeting, self.now());
        let thread = session.thread();
        lock(&self.threads).insert(thread);
        let lane = Lane::new(number, Ground::default());
        let connection = Connection { number, session, lane, database: None, ends };
        let connection = Arc::new(Mutex::new(connection));
        let peer: Arc<Mutex<dyn Peer>> = Arc::clone(&connection) as _;
        lock(&self.lanes).push(Arc::clone(&peer));
        if let (Ok(to_client), Ok(to_server)) = (client.try_clone(), server.try_clone()) {
            thread::scope(|scope| {
                scope.spawn(|| self.mysql_questions(client, to_server, &connection, home));
                self.mysql_answers(server, to_client, &connection);
            });
        }
        let now = self.now();
        self.mysql_decode(&connection, now, |session| session.closed(now), true);
        lock(&self.lanes).retain(|other| !Arc::ptr_eq(other, &peer));
        lock(&self.threads).remove(&thread);
        let left = lock(&connection).database.take();
        left.iter().for_each(|database| database.left());
    }

    /// From the client to the server.
    fn mysql_questions(
        &self,
        mut client: TcpStream,
        mut server: Socket,
        connection: &Mutex<Connection>,
        home: &str,
    ) {
        let (mut input, mut login_mask) = (Input::default(), LoginMask::default());
        while let Some(bytes) = input.read(&mut client) {
            login_mask.mask(bytes);
            let bytes = &*bytes;
            self.mysql_wait(connection, bytes);
            let login = {
                let mut connection = lock(connection);
                // Inside the lock, so that nobody sees a time that has not been promised.
                let now = self.now();
                connection.lane.outstanding.sends(now);
                connection.session.sent(bytes, now);
                self.mysql_take(&mut connection, now, false);
                let new = connection.database.is_none();
                connection.session.login().filter(|_| new).map(|login| login.database.clone())
            };
            if let Some(name) = login {
                self.mysql_enter(connection, name.as_deref().unwrap_or(home));
            }
            if server.write_all(bytes).is_err() {
                break;
            }
        }
        // The server learns that nothing more comes; what it still answers is recorded.
        server.shutdown(Shutdown::Write);
    }

    /// The collector knows a database before the server hears of its first client.
    fn mysql_enter(&self, connection: &Mutex<Connection>, name: &str) {
        match self.enter(name) {
            Ok(database) => {
                let ground = {
                    let about = lock(&database.about);
                    let (level, timeouts_end) = (about.level, about.timeouts_end);
                    Ground { database: database.name.clone(), level, timeouts_end }
                };
                let mut connection = lock(connection);
                let mut lane = Lane::new(connection.number, ground);
                lane.outstanding.sends(connection.lane.outstanding.since.unwrap_or_else(|| self.now()));
                (connection.lane, connection.database) = (lane, Some(database));
            }
            Err(why) => {
                let note = format!("a session of database {name} was relayed and not recorded: {why}");
                let mut told = lock(&self.told);
                // It may write to the others by their names.
                if !told.concerns.contains(&note) {
                    told.concerns.push(note);
                }
            }
        }
    }

    /// Waits for the collector if the bytes are of a statement that has to.
    fn mysql_wait(&self, connection: &Mutex<Connection>, bytes: &[u8]) {
        let Some(database) = lock(connection).database.clone() else { return };
        let texts = || asked(bytes);
        self.wait_to_leave(bytes, texts);
        if database.is_stale() {
            self.wait_for_cut(&database, texts, touches_no_row);
        }
    }

    /// From the server to the client. When the client has gone, what the server answers is still
    /// recorded.
    fn mysql_answers(&self, mut server: Socket, mut client: TcpStream, connection: &Mutex<Connection>) {
        let mut input = Input::default();
        let mut listens = true;
        while let Some(bytes) = input.read(&mut server) {
            let (now, bytes) = (self.now(), &*bytes);
            self.mysql_decode(connection, now, |session| session.received(bytes, now), false);
            if listens && client.write_all(bytes).is_err() {
                listens = false;
                server.shutdown(Shutdown::Write);
            }
        }
        let _ = client.shutdown(Shutdown::Both);
    }

    fn mysql_decode(
        &self,
        connection: &Mutex<Connection>,
        now: i64,
        feed: impl FnOnce(&mut Session),
        gone: bool,
    ) {
        let mut connection = lock(connection);
        feed(&mut connection.session);
        self.mysql_take(&mut connection, now, gone);
    }

    /// A session of one database may have written to another, whose recording knows nothing of it.
    fn note_stray(&self, from: &str, to: &str) {
        let databases = lock(&self.databases);
        if let Some(known) = databases.iter().find(|known| known.name.eq_ignore_ascii_case(to)) {
            let concern = format!("a session of {from} may have written to {to}, or changed it");
            let mut about = lock(&known.about);
            if !about.concerns.contains(&concern) {
                about.concerns.push(concern);
            }
        }
    }

    /// Takes what the session has reported.
    fn mysql_take(&self, connection: &mut Connection, now: i64, gone: bool) {
        let Connection { number, session, lane, database, .. } = connection;
        let mut is_blind = false;
        for event in session.events() {
            match &event {
                Event::Connected(_) => {
                    database.iter().for_each(|database| lock(&database.about).accepted += 1);
                }
                Event::Blind(why) => {
                    let concern = blind(*number, why);
                    match database {
                        Some(database) => lock(&database.about).concerns.push(concern),
                        None => lock(&self.told).concerns.push(concern),
                    }
                    is_blind = true;
                }
                _ => {}
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
        if let Some(database) = database {
            lock(&database.about).concerns.append(&mut lane.concerns);
            for name in std::mem::take(&mut lane.strays) {
                self.note_stray(&database.name, &name);
            }
        }
        self.pass_on(database.as_ref(), &mut lane.outstanding);
        if gone || session.is_blind() || session.is_idle() || database.is_none() {
            lane.rests();
        }
    }
}

/// The server's first packet as the client gets it.
fn greet(server: &mut Socket) -> io::Result<Vec<u8>> {
    let mut packet = vec![0; 4];
    server.read_exact(&mut packet)?;
    let length = u32::from_le_bytes([packet[0], packet[1], packet[2], 0]) as usize;
    if length > MAX_GREETING {
        return Ok(packet);
    }
    packet.resize(4 + length, 0);
    server.read_exact(&mut packet[4..])?;
    // What is no greeting is passed on as it is.
    mask_greeting(&mut packet);
    Ok(packet)
}
