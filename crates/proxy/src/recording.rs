//! What is recorded: the databases that clients connect to, and of each the stretches between
//! changes of its schema.
//!
//! # Invariants
//! - Margay's connections to a database begin before the first client's. They end when a statement
//!   comes that wants the database for itself, such as DROP DATABASE, and no client is connected to
//!   it.
//! - What cannot be recorded is a concern of its database.

use std::collections::BTreeSet;
use std::sync::Arc;

use margay_drivers::PostgresAddress;
use margay_history::{HistoryBuilder, Unit};
use margay_recover::PgSnapshot;
use margay_runner::Counts;
use postgres::Client;

use crate::assemble::{Sources, assemble};
use crate::catalog::{self, Catalog};
use crate::collect::{Clients, Collector, Files, Part};
use crate::database::Database;
use crate::initial::{self, FirstState, Initial};
use crate::level::OwnLevel;
use crate::log::{self, Log, ReadLog};
use crate::mysql::{self, MysqlAddress, MysqlWatch};
use crate::relay::{Relay, lock};
use crate::stretch::Stretch;
use crate::text::hides;
use crate::transaction::{Ended, Transaction};
use crate::veil::Secrecy;
use crate::watch::{self, Watch};

/// How databases are opened.
pub(crate) struct Terms {
    pub address: Address,
    pub initial: Initial,
    pub level: Option<OwnLevel>,
    pub sole_writer: bool,
    /// Whether writes are taken from the server's log where that can be.
    pub log: bool,
    pub files: Files,
    pub secrecy: Secrecy,
}

/// The server, and Margay's own user.
pub(crate) enum Address {
    Postgres(Box<PostgresAddress>),
    Mysql(MysqlAddress),
}

/// Who tells the schema and the first state of a database.
enum Source {
    Postgres(Box<Clients>),
    /// A connection is made each time.
    Mysql(MysqlAddress),
}

/// Finds out whether others write.
enum AnyWatch {
    Postgres(Box<Watch>),
    Mysql(Box<MysqlWatch>),
}

pub(crate) struct Recording {
    relay: Arc<Relay>,
    terms: Terms,
    open: Vec<Opened>,
    /// What is over.
    parts: Vec<Part>,
    /// Sessions of databases that are closed.
    sessions: u64,
    pub version: String,
    pub dbms: String,
}

/// A database that is recorded.
struct Opened {
    database: Arc<Database>,
    watch: Option<AnyWatch>,
    log: Option<Log>,
    /// Why there is none, although it is wanted.
    unlogged: Option<String>,
    /// Those that may still get transactions, in the order of time.
    stretches: Vec<Stretch>,
    over: Vec<Over>,
    /// Whether later stretches may know too little: a temporary table hides another, or nobody
    /// knows whether the schema was changed.
    hidden: bool,
}

/// A stretch that is over.
struct Over {
    /// The place of its part.
    place: usize,
    catalog: Arc<Catalog>,
    snapshot: Option<PgSnapshot>,
    begun: i64,
}

impl Recording {
    pub fn new(relay: Arc<Relay>, terms: Terms) -> Self {
        Self {
            relay,
            terms,
            open: Vec::new(),
            parts: Vec::new(),
            sessions: 0,
            version: String::new(),
            dbms: String::new(),
        }
    }

    /// Begins to record the database of this name, or the one that the address names.
    pub fn open(&mut self, name: Option<&str>, connections: usize) -> Result<Arc<Database>, String> {
        if let Some(known) = name.and_then(|name| self.relay.enter_known(name)) {
            return Ok(known);
        }
        let begin = self.relay.now();
        let mut logged = (None, None);
        let (source, watch) = match &self.terms.address {
            Address::Postgres(address) => {
                let address = name.map_or_else(|| (**address).clone(), |name| address.of_database(name));
                // The log comes first, so that it has whatever the first state does not.
                logged =
                    log::open(&address, self.relay.clock, self.terms.log && self.terms.secrecy.is_nothing());
                let (clients, watch) = self.postgres(&address, logged.0.as_ref())?;
                (Source::Postgres(Box::new(clients)), watch.map(AnyWatch::Postgres))
            }
            Address::Mysql(address) => {
                let address = name.map_or_else(|| address.clone(), |name| address.of_database(name));
                let watch = self.mysql_watch(&address)?;
                (Source::Mysql(address), watch.map(AnyWatch::Mysql))
            }
        };
        let (stretch, catalog) = self.stretch(source, begin)?;
        (self.version, self.dbms) = (catalog.version.clone(), catalog.dbms.clone());
        let level = self.terms.level.or(catalog.level);
        let database = Database::new(catalog.database.clone(), level, connections);
        lock(&database.about).timeouts_end = catalog.mysql.as_ref().is_some_and(|rules| rules.timeouts_end);
        lock(&self.relay.databases).push(Arc::clone(&database));
        let (stretches, over) = (vec![stretch], Vec::new());
        let (database_of, (log, unlogged)) = (Arc::clone(&database), logged);
        let opened = Opened { database: database_of, watch, log, unlogged, stretches, over, hidden: false };
        self.open.push(opened);
        Ok(database)
    }

    /// Margay's connections to a database of PostgreSQL.
    fn postgres(
        &self,
        address: &PostgresAddress,
        log: Option<&Log>,
    ) -> Result<(Clients, Option<Box<Watch>>), String> {
        let (snapshot, describer) = (address.connect()?, address.connect()?);
        let mut clients = Clients { snapshot, describer };
        for client in clients.both() {
            catalog::rows(client, "SET lock_timeout = '1s'")?;
        }
        let version = catalog::version(&mut clients.describer)?;
        let watch = match self.terms.sole_writer {
            true => None,
            false => {
                let mut own: BTreeSet<u32> = log.iter().map(|log| log.pid).collect();
                for client in clients.both() {
                    own.insert(watch::pid(client)?);
                    // Older servers have no such function, and are in doubt anyway.
                    let _ = watch::flush(client);
                }
                Some(Box::new(Watch::begin(address.connect()?, &version, own)?))
            }
        };
        Ok((clients, watch))
    }

    fn mysql_watch(&self, address: &MysqlAddress) -> Result<Option<Box<MysqlWatch>>, String> {
        if self.terms.sole_writer {
            return Ok(None);
        }
        let conn = self.relay.connect(address)?;
        let threads = lock(&self.relay.threads).clone();
        MysqlWatch::begin(conn, || self.relay.made(), &threads).map(|watch| Some(Box::new(watch)))
    }

    /// Reads the schema and the first state.
    fn stretch(&self, source: Source, begin: i64) -> Result<(Stretch, Arc<Catalog>), String> {
        let (catalog, builder, first, snapshot, describer) = match source {
            Source::Postgres(clients) => {
                let Clients { snapshot, mut describer } = *clients;
                let mut catalog = Catalog::read(&mut describer)?;
                let (builder, first, seen) = first_state(snapshot, &mut catalog, self.terms.initial)?;
                (catalog, builder, first, seen, Some(describer))
            }
            Source::Mysql(address) => {
                let mut conn = self.relay.connect(&address)?;
                let mut catalog = Catalog::of_mysql(&mut conn)?;
                let (builder, first) = mysql::first_state(conn, &mut catalog, self.terms.initial)?;
                (catalog, builder, first, None, None)
            }
        };
        if let Some(why) = self.terms.secrecy.missing(builder.tables()) {
            return Err(why);
        }
        let catalog = Arc::new(catalog);
        let collector = Collector::new(builder, Arc::clone(&catalog), describer, first, &self.terms.secrecy)?;
        Ok((Stretch::new(collector, snapshot, [begin, self.relay.now()]), catalog))
    }

    /// Records a transaction.
    pub fn take(&mut self, database: &Arc<Database>, transaction: Transaction) -> Result<(), String> {
        let opened = self.open.iter_mut().find(|opened| Arc::ptr_eq(&opened.database, database));
        let Some(opened) = opened else { return Ok(()) };
        let Some(latest) = opened.stretches.len().checked_sub(1) else { return Ok(()) };
        let at = opened.stretches.iter().rposition(|stretch| stretch.holds(&transaction)).unwrap_or(0);
        let lasts = transaction.ended != Ended::Aborted && transaction.ops.iter().any(|op| hides(&op.text))
            || transaction.ended == Ended::Unknown && transaction.changes_schema();
        opened.hidden |= lasts;
        for later in &mut opened.stretches[at + 1..=latest] {
            if lasts || later.is_met_by(&transaction) {
                later.take_opaque(&transaction, &mut self.terms.files)?;
            }
        }
        opened.stretches[at].take(transaction, &mut self.terms.files)
    }

    /// Reads the schema anew, if it was changed.
    pub fn cut(&mut self, database: &Arc<Database>) {
        let Some(at) = self.open.iter().position(|opened| Arc::ptr_eq(&opened.database, database)) else {
            return;
        };
        if !database.settle() {
            return;
        }
        let begin = self.relay.now();
        let opened = &mut self.open[at];
        let Some(stretch) = opened.stretches.last_mut() else { return };
        stretch.cut(begin);
        let source = match &self.terms.address {
            Address::Postgres(_) => {
                stretch.collector.give_back().map(|clients| Source::Postgres(Box::new(clients)))
            }
            Address::Mysql(address) => Ok(Source::Mysql(address.of_database(&database.name))),
        };
        let hidden = opened.hidden;
        let next =
            source.and_then(|source| self.stretch(source, begin)).and_then(|(mut stretch, catalog)| {
                lock(&database.about).level = self.terms.level.or(catalog.level);
                if hidden {
                    stretch.collector.take_hidden(begin, &mut self.terms.files)?;
                }
                Ok(stretch)
            });
        match next {
            Ok(next) => self.open[at].stretches.push(next),
            Err(why) => {
                let concern =
                    format!("the schema of {} was changed, and cannot be read: {why}", database.name);
                let mut about = lock(&database.about);
                about.concerns.push(concern);
                about.unread = true;
            }
        }
    }

    /// Nothing that began before `until` is still to come; every answer before `answered` has.
    pub fn advance(&mut self, until: i64, answered: i64) -> Result<(), String> {
        let Self { open, parts, .. } = self;
        for opened in open {
            while let [_, next, ..] = opened.stretches.as_slice()
                && Stretch::is_over(next, until)
            {
                opened.over.push(finished(opened.stretches.remove(0), &opened.database, parts)?);
            }
            for stretch in &mut opened.stretches {
                stretch.collector.advance(until, answered)?;
            }
        }
        Ok(())
    }

    /// Leaves a database that nobody is connected to any more.
    pub fn close(&mut self, database: &Arc<Database>) -> Result<(), String> {
        match self.open.iter().position(|opened| Arc::ptr_eq(&opened.database, database)) {
            Some(at) => {
                let sole = lock(&self.relay.told).concerns.is_empty();
                self.sessions += self.open.remove(at).close(&self.relay, &mut self.parts, sole)?;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Transactions so far, those that were verified, and violations.
    pub fn progress(&self) -> (Counts, (u64, u64)) {
        let (mut counts, mut verified) = (Counts::default(), (0, 0));
        let mut add = |part: Counts, (transactions, violations): (u64, u64)| {
            counts.committed += part.committed;
            counts.aborted += part.aborted;
            counts.unknown += part.unknown;
            verified = (verified.0 + transactions, verified.1 + violations);
        };
        for part in &self.parts {
            let live = part.verified.as_ref().map_or((0, 0), |it| (it.transactions, it.violations));
            add(part.counts, live);
        }
        for stretch in self.open.iter().flat_map(|opened| &opened.stretches) {
            add(stretch.collector.counts, stretch.collector.verified());
        }
        (counts, verified)
    }

    /// All has come: the parts, and the number of sessions.
    pub fn finish(mut self) -> Result<(Vec<Part>, u64), String> {
        for opened in std::mem::take(&mut self.open) {
            let sole = lock(&self.relay.told).concerns.is_empty();
            self.sessions += opened.close(&self.relay, &mut self.parts, sole)?;
        }
        let all = std::mem::take(&mut self.parts);
        let mut kept: Vec<Part> = Vec::new();
        for part in all {
            // A part without transactions says nothing, unless there is no other.
            match kept.last_mut() {
                Some(last) if last.counts.total() == 0 => *last = part,
                Some(_) if part.counts.total() == 0 => {}
                _ => kept.push(part),
            }
        }
        Ok((kept, self.sessions))
    }
}

impl Opened {
    /// Its number of sessions. Whether all connections were understood is said by who calls.
    fn close(mut self, relay: &Relay, parts: &mut Vec<Part>, sole: bool) -> Result<u64, String> {
        let log = self.log.take().map(Log::finish);
        for stretch in std::mem::take(&mut self.stretches) {
            self.over.push(finished(stretch, &self.database, parts)?);
        }
        let about = lock(&self.database.about);
        let foreign = self.watch.take().and_then(|watch| match watch {
            AnyWatch::Postgres(watch) => watch.end(about.accepted, &about.backends),
            AnyWatch::Mysql(watch) => watch.end(|| relay.made()),
        });
        let foreign = foreign.map(|why| {
            format!("somebody else may have written: {why}; --sole-writer vouches for the contrary")
        });
        for over in &self.over {
            parts[over.place].concerns.extend(about.concerns.iter().cloned().chain(foreign.clone()));
        }
        let alone = sole && foreign.is_none() && about.concerns.is_empty();
        let unread = about.unread;
        let accepted = about.accepted;
        drop(about);
        let why = match log {
            Some(Ok(read)) if !unread => self.assemble(read, parts, alone),
            Some(Ok(_)) => None,
            Some(Err(why)) => Some(format!("the server's log was given up: {why}")),
            None => self.unlogged.take(),
        };
        if let (Some(why), Some(last)) = (why, self.over.last()) {
            parts[last.place].notes.push(why);
        }
        Ok(accepted)
    }

    /// Gives the parts their histories with writes from the log.
    fn assemble(&self, mut read: ReadLog, parts: &mut [Part], alone: bool) -> Option<String> {
        let now = Catalog::read(read.raw.client());
        let mut why = None;
        for (at, over) in self.over.iter().enumerate() {
            let Some(snapshot) = &over.snapshot else { continue };
            let next = self.over.get(at + 1);
            let same = now.as_ref().is_ok_and(|now| now.is_same(&over.catalog));
            let settled = next.is_none() && !self.database.is_stale() && same;
            let commits = log::between(&read.commits, snapshot, next.and_then(|next| next.snapshot.as_ref()));
            let part = &mut parts[over.place];
            let sources = Sources {
                wire: &part.history,
                catalog: &over.catalog,
                commits: &commits,
                alone,
                settled,
                begun: over.begun,
            };
            match assemble(&sources) {
                Ok(logged) => part.logged = Some(logged),
                Err(reason) => why = Some(format!("writes were not taken from the server's log: {reason}")),
            }
        }
        why
    }
}

/// Adds a part.
fn finished(stretch: Stretch, database: &Database, parts: &mut Vec<Part>) -> Result<Over, String> {
    let (catalog, begun) = (Arc::clone(&stretch.collector.catalog), stretch.begun());
    let Stretch { collector, snapshot, .. } = stretch;
    parts.push(collector.finish(&database.name)?);
    Ok(Over { place: parts.len() - 1, catalog, snapshot, begun })
}

/// The tables with the rows that are read in advance, and the snapshot in which others are looked
/// up.
fn first_state(
    mut client: Client,
    catalog: &mut Catalog,
    wanted: Initial,
) -> Result<(HistoryBuilder, FirstState, Option<PgSnapshot>), String> {
    let mut builder = HistoryBuilder::new();
    let header = builder.header();
    (header.unit, header.dbms) = (Unit::Nanoseconds, Some(format!("postgresql-{}", catalog.version)));
    // The transaction of the stretch before is over. BEGIN takes no snapshot; the first query does.
    for text in ["ROLLBACK", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"] {
        catalog::rows(&mut client, text)?;
    }
    let seen = catalog::rows(&mut client, "SELECT txid_current_snapshot()::text")?;
    let seen = seen.first().and_then(|row| PgSnapshot::parse(row.first()?));
    catalog::rows(&mut client, "SAVEPOINT margay")?;
    let looks_up = initial::declare(&mut client, catalog, wanted, &mut builder)?;
    // This lets go of the tables' locks, and keeps the snapshot if that is still needed.
    catalog::rows(&mut client, if looks_up { "ROLLBACK TO margay" } else { "ROLLBACK" })?;
    Ok((builder, FirstState::new(client, looks_up), seen))
}
