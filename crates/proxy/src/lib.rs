//! A relay between an application and PostgreSQL, MariaDB or MySQL, which records what the
//! application does.
//!
//! ```text
//! application ──▶ relay ──▶ server        lanes: events → transactions
//!                   │ copies                 │
//!                   └──────────▶ collector ──┴─▶ history, file, live mirror
//! ```
//!
//! # Invariants
//! - The application's bytes are relayed as they are, whatever is understood of them.
//! - The application waits neither for recording nor for verification, but where the schema
//!   changes.
//! - What may have been written without being recorded is a *concern*, and the recording names it.
//!   With a concern, nobody can be accused.
//! - Passwords and the authentication phase are relayed by their length alone.

mod assemble;
mod catalog;
mod collect;
mod database;
mod initial;
mod lane;
mod level;
mod literals;
mod log;
mod meet;
mod mirror;
mod mysql;
mod pieces;
mod recording;
mod relay;
mod socket;
mod stretch;
mod text;
mod time;
mod transaction;
mod units;
mod values;
mod veil;
mod watch;
mod writers;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use margay_drivers::{PostgresAddress, PostgresServer, ShownCertificate};
pub use margay_runner::{Counts, Verified};

pub use assemble::Logged;
use collect::Files;
pub use collect::{Output, Outputs, Part};
use database::{Database, Message};
pub use initial::Initial;
pub use level::OwnLevel;
use mysql::MysqlAddress;
use recording::{Address, Recording, Terms};
use relay::{Protocol, Relay, lock};
use socket::Socket;
pub use units::united;
pub use veil::Secrecy;

/// How long the collector rests.
const REST: Duration = Duration::from_millis(10);

/// How long a statement waits for the other connections of a database to end.
const LEAVE: Duration = Duration::from_secs(3);

/// Why nothing more may be recorded, if that is so. It is asked several times a second.
pub type Limit = Box<dyn FnMut() -> Option<String> + Send>;

/// After so many rounds of the collector the limit is asked.
const ROUNDS: u32 = 20;

/// How to relay and record.
pub struct Options {
    /// The server, and Margay's own user.
    pub url: String,
    /// Where clients connect.
    pub listen: SocketAddr,
    /// The files of a certificate and its key, if clients may have encryption.
    pub certificate: Option<[PathBuf; 2]>,
    /// What is read of the first state.
    pub initial: Initial,
    /// The level of transactions that name none, instead of the server's default.
    pub level: Option<OwnLevel>,
    /// Whether somebody vouches for it that all writes come through the proxy.
    pub sole_writer: bool,
    /// Whether writes are taken from the server's log, where that can be.
    pub log: bool,
    /// The field of statements' comments that names the request they belong to.
    pub unit_field: Option<String>,
    /// Where the recording is written while it is made, part by part.
    pub outputs: Option<Outputs>,
    /// What is not recorded in clear.
    pub secrecy: Secrecy,
    /// When recording ends before the application does, which goes on.
    pub limit: Option<Limit>,
}

/// A relay at work.
pub struct Proxy {
    address: SocketAddr,
    relay: Arc<Relay>,
    collector: JoinHandle<Recording>,
    accepting: JoinHandle<()>,
    over: Arc<AtomicBool>,
    failed: Arc<Mutex<Option<String>>>,
    progress: Arc<Mutex<(Counts, (u64, u64))>>,
    database: String,
    names: [Option<String>; 3],
    warning: Option<String>,
    scheme: &'static str,
}

/// What came of it.
pub struct Recorded {
    /// The parts, in the order in which they ended; at least one.
    pub parts: Vec<Part>,
    /// Why more may have been written than was recorded, whatever the database.
    pub concerns: Vec<String>,
    /// What else was noticed.
    pub notes: Vec<String>,
    /// Sessions that were recorded.
    pub sessions: u64,
    /// The server's version.
    pub version: String,
    /// The product with its version: `postgresql-15.14`.
    pub dbms: String,
    /// How long the relay ran.
    pub elapsed: Duration,
    /// Why recording ended before the application did, if it did.
    pub failed: Option<String>,
}

impl Recorded {
    /// How all transactions ended.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for part in &self.parts {
            counts.committed += part.counts.committed;
            counts.aborted += part.counts.aborted;
            counts.unknown += part.counts.unknown;
        }
        counts
    }

    /// Everything that keeps anybody from being accused, each once.
    #[must_use]
    pub fn all_concerns(&self) -> Vec<String> {
        let mut all = self.concerns.clone();
        for concern in self.parts.iter().flat_map(|part| &part.concerns) {
            if !all.contains(concern) {
                all.push(concern.clone());
            }
        }
        all
    }
}

/// The server that is relayed to.
struct Server {
    address: Address,
    server: PostgresServer,
    /// The user, the password and the database.
    names: [Option<String>; 3],
    protocol: Protocol,
}

impl Server {
    fn postgres(options: &Options) -> Result<Self, String> {
        let address = PostgresAddress::new(&options.url)?;
        let (server, names) = (address.server()?, address.names());
        Ok(Self {
            address: Address::Postgres(Box::new(address)),
            server,
            names,
            protocol: Protocol::Postgres,
        })
    }

    fn mysql(options: &Options) -> Result<Self, String> {
        if options.certificate.is_some() {
            return Err("--tls-cert is for PostgreSQL only".to_owned());
        }
        if options.unit_field.is_some() {
            return Err("--unit is for PostgreSQL only".to_owned());
        }
        let address = MysqlAddress::new(&options.url)?;
        let (server, names) = (address.server(), address.names());
        let home = names[2].clone().ok_or("the address names no database")?;
        Ok(Self { address: Address::Mysql(address), server, names, protocol: Protocol::Mysql(home) })
    }
}

impl Proxy {
    /// Asks the server about its tables and their rows, and begins to listen.
    ///
    /// # Errors
    /// When the server cannot be reached or asked, or nobody can listen at that address.
    pub fn start(options: Options) -> Result<Self, String> {
        let is_mysql = ["mysql://", "mariadb://"].iter().any(|scheme| options.url.starts_with(scheme));
        let scheme = if is_mysql { "mysql" } else { "postgresql" };
        let Server { address, server, names, protocol } =
            if is_mysql { Server::mysql(&options)? } else { Server::postgres(&options)? };
        let certificate = options.certificate.as_ref();
        let certificate = certificate.map(|[shown, key]| ShownCertificate::read(shown, key, b"postgresql"));
        let certificate = certificate.transpose()?;
        let warning = certificate.as_ref().and_then(|shown| two_channels(&server, shown));
        let listener =
            TcpListener::bind(options.listen).map_err(|error| format!("{}: {error}", options.listen))?;
        let listening = listener.local_addr().map_err(|error| error.to_string())?;
        let (collector, taken) = mpsc::channel();
        let relay = Arc::new(Relay {
            protocol,
            server,
            certificate,
            databases: Mutex::default(),
            clock: Instant::now(),
            collector,
            lanes: Mutex::default(),
            told: Mutex::default(),
            over: AtomicBool::new(false),
            unit_field: options.unit_field.as_deref().map(Arc::from),
            sessions: AtomicU64::new(0),
            own: AtomicU64::new(0),
            threads: Mutex::default(),
        });
        let Options { initial, level, sole_writer, log, outputs, secrecy, limit, .. } = options;
        // READ UNCOMMITTED is READ COMMITTED in PostgreSQL.
        let level = level.map(|level| if is_mysql { level } else { level.max(OwnLevel::ReadCommitted) });
        let files = Files { outputs, begun: 0 };
        let terms = Terms { address, initial, level, sole_writer, log, files, secrecy };
        let mut recording = Recording::new(Arc::clone(&relay), terms);
        let database = recording.open(None, 0)?.name.clone();
        let (over, failed, progress) = (Arc::<AtomicBool>::default(), Arc::default(), Arc::default());
        let collecting = Collecting {
            relay: Arc::clone(&relay),
            taken,
            over: Arc::clone(&over),
            failed: Arc::clone(&failed),
            progress: Arc::clone(&progress),
            leaving: Vec::new(),
            limit,
            rounds: 0,
        };
        let spawn = |name: &str| thread::Builder::new().name(name.to_owned());
        let collector = spawn("collector").spawn(move || collecting.run(recording));
        let collector = collector.map_err(|error| format!("no thread for the collector: {error}"))?;
        let accepts = Arc::clone(&relay);
        let accepting = spawn("listener").spawn(move || accepts.accept(&listener));
        let accepting = accepting.map_err(|error| format!("no thread for the listener: {error}"))?;
        Ok(Self {
            address: listening,
            relay,
            collector,
            accepting,
            over,
            failed,
            progress,
            database,
            names,
            warning,
            scheme,
        })
    }

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Why clients may fail to log in, if that is to be feared.
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// The user, the password and the database of the server's address, as far as it names them.
    #[must_use]
    pub fn names(&self) -> [Option<&str>; 3] {
        let [user, password, database] = &self.names;
        [user.as_deref(), password.as_deref(), database.as_deref().or(Some(&self.database))]
    }

    /// An address for clients: the server's, through the proxy.
    #[must_use]
    pub fn url(&self) -> String {
        let [user, password, database] = self.names().map(|name| name.map(encoded));
        let password = password.map(|password| format!(":{password}")).unwrap_or_default();
        let user = user.map(|user| format!("{user}{password}@")).unwrap_or_default();
        format!("{}://{user}{}/{}", self.scheme, self.address, database.unwrap_or_default())
    }

    /// Tells, at any time, how many transactions have ended, and how many were verified, with how
    /// many violations.
    pub fn progress(&self) -> impl Fn() -> (Counts, (u64, u64)) + Send + use<> {
        let told = Arc::clone(&self.progress);
        move || *lock(&told)
    }

    /// Takes no more connections, waits for those that are open, cuts them after `drain`, and gives
    /// what was recorded.
    ///
    /// # Errors
    /// When what was recorded is no history.
    pub fn finish(self, drain: Duration) -> Result<Recorded, String> {
        self.relay.stop(self.address);
        let _ = self.accepting.join();
        let deadline = Instant::now() + drain;
        while !lock(&self.relay.lanes).is_empty() && Instant::now() < deadline {
            thread::sleep(REST);
        }
        let mut notes = Vec::new();
        let open = lock(&self.relay.lanes).len();
        if open > 0 {
            notes.push(format!("{open} connections were still open at the end, and were cut"));
            self.relay.cut();
        }
        let deadline = Instant::now() + Duration::from_secs(5);
        while !lock(&self.relay.lanes).is_empty() && Instant::now() < deadline {
            thread::sleep(REST);
        }
        let elapsed = self.relay.clock.elapsed();
        self.over.store(true, Ordering::Release);
        let recording = self.collector.join().map_err(|_| "the collector panicked".to_owned())?;
        let (version, dbms) = (recording.version.clone(), recording.dbms.clone());
        let (parts, sessions) = recording.finish()?;
        let told = lock(&self.relay.told).clone();
        notes.extend(told.notes);
        notes.extend(parts.iter().flat_map(|part| part.notes.iter().cloned()));
        let failed = lock(&self.failed).take();
        Ok(Recorded { parts, concerns: told.concerns, notes, sessions, version, dbms, elapsed, failed })
    }
}

/// What to tell if both legs are encrypted, with different certificates.
fn two_channels(server: &PostgresServer, shown: &ShownCertificate) -> Option<String> {
    let server = Socket::connect(server).ok()?;
    let differs = server.certificate().is_some_and(|certificate| certificate != shown.bytes);
    differs.then(|| {
        "clients and the server both see encrypted connections, with different certificates: a client \
         that binds its password to the certificate (SCRAM-SHA-256-PLUS) cannot log in. Give the \
         server's own certificate and key, or set channel_binding=disable in the client, or \
         sslmode=disable in the server's address"
            .to_owned()
    })
}

/// Whether a text names a database, in whatever case.
fn names(text: &str, name: &str) -> bool {
    let name = name.to_lowercase();
    let ends = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '_');
    let mut found = text.match_indices(&name);
    found.any(|(at, _)| ends(text[..at].chars().next_back()) && ends(text[at + name.len()..].chars().next()))
}

/// A name as addresses carry it.
fn encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let show = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    name.bytes().map(show).collect()
}

/// A statement that waits for Margay to leave the databases that it names.
struct Leaving {
    text: String,
    reply: Sender<()>,
    until: Instant,
}

/// The collector's thread.
struct Collecting {
    relay: Arc<Relay>,
    taken: Receiver<Message>,
    over: Arc<AtomicBool>,
    failed: Arc<Mutex<Option<String>>>,
    progress: Arc<Mutex<(Counts, (u64, u64))>>,
    leaving: Vec<Leaving>,
    limit: Option<Limit>,
    rounds: u32,
}

impl Collecting {
    fn run(mut self, mut recording: Recording) -> Recording {
        loop {
            let over = self.over.load(Ordering::Acquire);
            if let Err(why) = self.round(&mut recording, over) {
                // What was recorded until then stays; nothing is recorded from here on.
                lock(&self.failed).get_or_insert(why);
                return recording;
            }
            *lock(&self.progress) = recording.progress();
            if over {
                return recording;
            }
            thread::sleep(REST);
        }
    }

    fn round(&mut self, recording: &mut Recording, over: bool) -> Result<(), String> {
        self.rounds = (self.rounds + 1) % ROUNDS;
        if self.rounds == 0
            && let Some(why) = self.limit.as_mut().and_then(|limit| limit())
        {
            return Err(why);
        }
        let now = if over { i64::MAX } else { self.relay.now() };
        let (mut until, mut answered) = (now, now);
        for lane in lock(&self.relay.lanes).iter() {
            let peer = lock(lane);
            let outstanding = peer.outstanding();
            until = until.min(outstanding.since.unwrap_or(now));
            answered = answered.min(outstanding.asked.unwrap_or(now));
        }
        let left = self.left();
        // Everything that ended before the locks were taken is in the channel by now.
        let mut requests = Vec::new();
        while let Ok(message) = self.taken.try_recv() {
            match message {
                Message::Ended(database, transaction) => recording.take(&database, transaction)?,
                request => requests.push(request),
            }
        }
        left.iter().try_for_each(|database| recording.close(database))?;
        self.dismiss();
        requests.into_iter().for_each(|request| self.answer(recording, request));
        recording.advance(until, answered)
    }

    /// Databases that are to be left, and have no connection any more. From now on a connection
    /// opens them anew.
    fn left(&self) -> Vec<Arc<Database>> {
        let wanted = |database: &Arc<Database>| {
            let named = self.leaving.iter().any(|leaving| names(&leaving.text, &database.name));
            named && lock(&database.about).open == 0
        };
        let mut databases = lock(&self.relay.databases);
        if self.leaving.is_empty() { Vec::new() } else { databases.extract_if(.., |it| wanted(it)).collect() }
    }

    /// Statements that need not wait any more go on.
    fn dismiss(&mut self) {
        let databases = lock(&self.relay.databases);
        let waits = |leaving: &Leaving| {
            let named = databases.iter().any(|database| names(&leaving.text, &database.name));
            named && Instant::now() < leaving.until
        };
        for done in self.leaving.extract_if(.., |leaving| !waits(leaving)) {
            let _ = done.reply.send(());
        }
    }

    fn answer(&mut self, recording: &mut Recording, request: Message) {
        // Whoever has stopped waiting misses nothing.
        match request {
            Message::Open(name, reply) => drop(reply.send(recording.open(Some(&name), 1))),
            Message::Cut(database, reply) => {
                recording.cut(&database);
                let _ = reply.send(());
            }
            Message::Leave(text, reply) => {
                let (text, until) = (text.to_lowercase(), Instant::now() + LEAVE);
                self.leaving.push(Leaving { text, reply, until });
            }
            Message::Ended(..) => {}
        }
    }
}
