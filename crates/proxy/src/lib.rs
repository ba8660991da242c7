//! A relay between an application and PostgreSQL, which records what the application does.
//!
//! ```text
//! application ──▶ relay ──▶ server        lanes: events → transactions
//!                   │ copies                 │
//!                   └──────────▶ collector ──┴─▶ history, file, live mirror
//! ```
//!
//! # Invariants
//! - The application's bytes are relayed as they are, whatever is understood of them.
//! - The application waits neither for recording nor for verification.
//! - What may have been written without being recorded is a *concern*, and the recording names it. With a concern,
//!   nobody can be accused.
//! - Passwords and the authentication phase are relayed by their length alone.

mod catalog;
mod collect;
mod initial;
mod lane;
mod level;
mod mirror;
mod relay;
mod socket;
mod text;
mod time;
mod values;
mod watch;

use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use margay_drivers::PostgresAddress;
use margay_history::{History, HistoryBuilder, Unit};
pub use margay_runner::{Counts, Verified};
use postgres::Client;

use catalog::Catalog;
use collect::Collector;
pub use collect::Output;
pub use initial::Initial;
use lane::Transaction;
pub use level::OwnLevel;
use relay::{Relay, lock};
use watch::Watch;

/// How long the collector rests.
const REST: Duration = Duration::from_millis(10);

/// How to relay and record.
pub struct Options {
    /// The server, and Margay's own user.
    pub url: String,
    /// Where clients connect.
    pub listen: SocketAddr,
    /// What is read of the first state.
    pub initial: Initial,
    /// The level of transactions that name none, instead of the server's default.
    pub level: Option<OwnLevel>,
    /// Whether somebody vouches for it that all writes come through the proxy.
    pub sole_writer: bool,
    /// Where the recording is written while it is made.
    pub output: Option<Output>,
}

/// A relay at work.
pub struct Proxy {
    address: SocketAddr,
    relay: Arc<Relay>,
    collector: JoinHandle<Collector>,
    accepting: JoinHandle<()>,
    over: Arc<AtomicBool>,
    failed: Arc<Mutex<Option<String>>>,
    progress: Arc<Mutex<(Counts, (u64, u64))>>,
    watch: Option<Watch>,
    catalog: Arc<Catalog>,
    names: [Option<String>; 3],
}

/// What came of it.
pub struct Recorded {
    /// What the application did.
    pub history: History,
    /// How its transactions ended.
    pub counts: Counts,
    /// The levels of transactions that may have committed, the weakest first; `None` is one that is not known.
    pub levels: Vec<Option<OwnLevel>>,
    /// What the live verification came to.
    pub verified: Option<Verified>,
    /// How many transactions the live verification followed as a whole.
    pub followed: u64,
    /// Why more may have been written than was recorded.
    pub concerns: Vec<String>,
    /// What else was noticed.
    pub notes: Vec<String>,
    /// Sessions of the database that were relayed.
    pub sessions: u64,
    /// The server's version.
    pub version: String,
    /// How long the relay ran.
    pub elapsed: Duration,
    /// Why recording ended before the application did, if it did.
    pub failed: Option<String>,
}

impl Proxy {
    /// Asks the server about its tables and their rows, and begins to listen.
    ///
    /// # Errors
    /// When the server cannot be reached or asked, or nobody can listen at that address.
    pub fn start(options: Options) -> Result<Self, String> {
        let address = PostgresAddress::new(&options.url)?;
        let server = address.server()?;
        let names = address.names();
        let (mut snapshot, mut describer) = (address.connect()?, address.connect()?);
        for client in [&mut snapshot, &mut describer] {
            catalog::rows(client, "SET lock_timeout = '1s'")?;
        }
        let catalog = Arc::new(Catalog::read(&mut describer)?);
        let watch = match options.sole_writer {
            true => None,
            false => {
                let mut own = BTreeSet::new();
                for client in [&mut snapshot, &mut describer] {
                    own.insert(watch::pid(client)?);
                    // Older servers have no such function, and are in doubt anyway.
                    let _ = watch::flush(client);
                }
                Some(Watch::begin(address.connect()?, &catalog.version, own)?)
            }
        };
        let (builder, snapshot) = first_state(snapshot, &catalog, options.initial)?;
        let listener =
            TcpListener::bind(options.listen).map_err(|error| format!("{}: {error}", options.listen))?;
        let listening = listener.local_addr().map_err(|error| error.to_string())?;
        let (ended, taken) = mpsc::channel();
        let relay = Arc::new(Relay {
            server,
            database: catalog.database.clone(),
            level: options.level.or(catalog.level),
            clock: Instant::now(),
            ended,
            lanes: Mutex::default(),
            told: Mutex::default(),
            over: AtomicBool::new(false),
            sessions: AtomicU64::new(0),
        });
        let collector = Collector::new(builder, Arc::clone(&catalog), describer, snapshot, options.output)
            .map_err(|error| format!("the recording cannot be written: {error}"))?;
        let (over, failed, progress) = (Arc::<AtomicBool>::default(), Arc::default(), Arc::default());
        let (ends, fails, tells) = (Arc::clone(&over), Arc::clone(&failed), Arc::clone(&progress));
        let collecting =
            Collecting { relay: Arc::clone(&relay), taken, over: ends, failed: fails, progress: tells };
        let spawn = |name: &str| thread::Builder::new().name(name.to_owned());
        let collector = spawn("collector").spawn(move || collecting.run(collector));
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
            watch,
            catalog,
            names,
        })
    }

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The user, the password and the database of the server's address, as far as it names them.
    #[must_use]
    pub fn names(&self) -> [Option<&str>; 3] {
        let [user, password, database] = &self.names;
        [user.as_deref(), password.as_deref(), database.as_deref().or(Some(&self.catalog.database))]
    }

    /// An address for clients: the server's, through the proxy.
    #[must_use]
    pub fn url(&self) -> String {
        let [user, password, database] = self.names().map(|name| name.map(encoded));
        let password = password.map(|password| format!(":{password}")).unwrap_or_default();
        let user = user.map(|user| format!("{user}{password}@")).unwrap_or_default();
        format!("postgresql://{user}{}/{}", self.address, database.unwrap_or_default())
    }

    /// Tells, at any time, how many transactions have ended, and how many were verified, with how many violations.
    pub fn progress(&self) -> impl Fn() -> (Counts, (u64, u64)) + Send + use<> {
        let told = Arc::clone(&self.progress);
        move || *lock(&told)
    }

    /// Takes no more connections, waits for those that are open, cuts them after `drain`, and gives what was recorded.
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
        let mut collector = self.collector.join().map_err(|_| "the collector panicked".to_owned())?;
        let told = lock(&self.relay.told).clone();
        let foreign = self.watch.and_then(|watch| watch.end(told.accepted, &told.backends));
        let mut concerns: Vec<String> = collector.concerns.iter().cloned().chain(told.concerns).collect();
        concerns.extend(foreign.map(|why| {
            format!("somebody else may have written: {why}; --sole-writer vouches for the contrary")
        }));
        notes.extend(told.notes);
        notes.extend(collector.unobserved.iter().map(|(what, times)| format!("{times} times {what}")));
        let followed = collector.followed();
        let verified = collector.finish_mirror();
        if let [Some(level)] = collector.levels.iter().copied().collect::<Vec<_>>()[..] {
            collector.builder.header().level = Some(level.name().to_ascii_lowercase().replace(' ', "-"));
        }
        Ok(Recorded {
            history: collector
                .builder
                .finish()
                .map_err(|error| format!("the recording is no history: {error}"))?,
            counts: collector.counts,
            levels: collector.levels.into_iter().collect(),
            verified,
            followed,
            concerns,
            notes,
            sessions: told.accepted,
            version: self.catalog.version.clone(),
            elapsed,
            failed: lock(&self.failed).take(),
        })
    }
}

/// The tables with the rows that are read in advance, and the snapshot if others are to be looked up.
fn first_state(
    mut client: Client,
    catalog: &Catalog,
    wanted: Initial,
) -> Result<(HistoryBuilder, Option<Client>), String> {
    let mut builder = HistoryBuilder::new();
    let header = builder.header();
    (header.unit, header.dbms) = (Unit::Nanoseconds, Some(format!("postgresql-{}", catalog.version)));
    // BEGIN takes no snapshot; the first query does.
    for text in ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "SELECT 1", "SAVEPOINT margay"] {
        catalog::rows(&mut client, text)?;
    }
    let looks_up = initial::declare(&mut client, catalog, wanted, &mut builder)?;
    // This lets go of the tables' locks, and keeps the snapshot.
    catalog::rows(&mut client, "ROLLBACK TO margay")?;
    Ok((builder, looks_up.then_some(client)))
}

/// A name as addresses carry it.
fn encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let show = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    name.bytes().map(show).collect()
}

/// The collector's thread.
struct Collecting {
    relay: Arc<Relay>,
    taken: Receiver<Transaction>,
    over: Arc<AtomicBool>,
    failed: Arc<Mutex<Option<String>>>,
    progress: Arc<Mutex<(Counts, (u64, u64))>>,
}

impl Collecting {
    fn run(self, mut collector: Collector) -> Collector {
        loop {
            let over = self.over.load(Ordering::Acquire);
            if let Err(why) = self.round(&mut collector, over) {
                // What was recorded until then stays; nothing is recorded from here on.
                lock(&self.failed).get_or_insert(why);
                return collector;
            }
            *lock(&self.progress) = (collector.counts, collector.verified());
            if over {
                return collector;
            }
            thread::sleep(REST);
        }
    }

    fn round(&self, collector: &mut Collector, over: bool) -> Result<(), String> {
        let now = if over { i64::MAX } else { self.relay.now() };
        let (mut until, mut answered) = (now, now);
        for lane in lock(&self.relay.lanes).iter() {
            let connection = lock(lane);
            until = until.min(connection.lane.since().unwrap_or(now));
            answered = answered.min(connection.lane.asked().unwrap_or(now));
        }
        // Everything that ended before the locks were taken is in the channel by now.
        while let Ok(transaction) = self.taken.try_recv() {
            collector.take(transaction)?;
        }
        collector.advance(until, answered)
    }
}
