//! A simulated SQL database with known isolation and injectable faults: clients run transactions on
//! it, and a log comes out.

use margay_history::{History, OpKind};
use margay_sql::{Database, Dialect, Outcome, StatementCache, Transaction, Value};

use super::Random;
use super::log::{Log, Seen, Shape};

/// What the database does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// One transaction after the other.
    Serial,
    /// Snapshots, and the first committer wins.
    Snapshot,
    /// One snapshot per statement; writers lock rows.
    Committed,
}

/// What the database does wrong, once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    None,
    /// A number of a result is one too high.
    WrongAggregate,
    /// A row is missing in a result.
    MissedRow,
    /// An update changes nothing and says that it did.
    LostWrite,
}

/// One statement of a transaction.
pub type Line = (String, Vec<Value>);

/// What clients see of statements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watch {
    All,
    /// Results of queries, and nothing of writes.
    Queries,
}

pub struct Simulator {
    pub database: Database,
    pub log: Log,
    pub random: Random,
    pub protocol: Protocol,
    pub watch: Watch,
    pub fault: Fault,
    /// After so many transactions the fault strikes.
    pub fault_after: u64,
    pub commits: bool,
    /// Whether operations have intervals.
    pub timed: bool,
    cache: StatementCache,
    clock: i64,
    txns: u64,
    struck: bool,
}

/// A transaction: given what its last query gave, its next statement.
pub type Script = Box<dyn FnMut(&[Vec<Value>]) -> Option<Line>>;

/// A transaction whose statements are known beforehand.
pub fn script(lines: Vec<Line>) -> Script {
    let mut lines = lines.into_iter();
    Box::new(move |_| lines.next())
}

struct Client {
    txn: u64,
    script: Script,
    last: Vec<Vec<Value>>,
    transaction: Option<Transaction>,
    written: Vec<(margay_sql::TableId, margay_sql::Key)>,
}

impl Simulator {
    pub fn new(tables: &[Shape<'_>], protocol: Protocol, seed: u64) -> Self {
        let mut database = Database::new(Dialect::Generic);
        for (name, key, columns) in tables {
            let columns: Vec<String> = columns.iter().map(|(name, of)| format!("{name} {of}")).collect();
            let key =
                if key.is_empty() { String::new() } else { format!(", PRIMARY KEY ({})", key.join(", ")) };
            database.run(&format!("CREATE TABLE {name} ({}{key})", columns.join(", ")), &[]).unwrap();
        }
        Simulator {
            database,
            log: Log::new(tables),
            random: Random(seed),
            protocol,
            watch: Watch::All,
            fault: Fault::None,
            fault_after: 0,
            commits: true,
            timed: true,
            cache: StatementCache::new(),
            clock: 0,
            txns: 0,
            struck: false,
        }
    }

    /// An initial row; `key` is how many of its columns are the key.
    pub fn row(&mut self, table: &str, columns: &[(&str, Value)], key: usize) {
        let keys: Vec<Value> = columns[..key].iter().map(|(_, value)| value.clone()).collect();
        self.log.row(table, &keys, &columns[key..]);
        let id = self.database.table(table).unwrap();
        let width = self.database.schema(id).columns.len();
        assert_eq!(width, columns.len(), "{table}");
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        let marks: Vec<String> = (1..=width).map(|n| format!("${n}")).collect();
        let text = format!("INSERT INTO {table} ({}) VALUES ({})", names.join(", "), marks.join(", "));
        let values: Vec<Value> = columns.iter().map(|(_, value)| value.clone()).collect();
        let statement = {
            let (statement, _) = self.cache.bind(&self.database, &text, &values).unwrap();
            statement
        };
        let mut transaction = self.database.begin();
        self.database.execute(&mut transaction, &statement, &values).unwrap();
        self.database.commit(transaction);
    }

    /// Defines procedures and the like: a transaction of its own in the log.
    pub fn define(&mut self, text: &str) {
        self.database.run(text, &[]).unwrap();
        let txn = self.txns;
        self.txns += 1;
        let at = self.tick();
        self.log.sql(1_000_000, txn, at, text, &[], &Seen::Nothing);
        let at = self.tick();
        self.log.op(1_000_000, txn, at, OpKind::Commit);
        self.stamp(txn);
    }

    fn stamp(&mut self, txn: u64) {
        if self.commits {
            self.log.builder.commit(txn, self.clock);
            if self.protocol == Protocol::Serial {
                self.log.builder.serialization(txn, self.clock);
            }
        }
    }

    fn tick(&mut self) -> Option<(i64, i64)> {
        self.clock += 2;
        self.timed.then_some((self.clock - 1, self.clock))
    }

    /// Runs `count` transactions by so many clients; `program` gives the next one's statements.
    pub fn run(&mut self, clients: usize, count: u64, program: &mut dyn FnMut(&mut Random, u64) -> Script) {
        self.database.keep_window(true);
        let mut active: Vec<Client> = Vec::new();
        let mut started = 0;
        let clients = if self.protocol == Protocol::Serial { 1 } else { clients };
        let mut sessions: Vec<u64> = Vec::new();
        for session in 0..clients as u64 {
            sessions.push(session);
            active.push(Client::idle());
        }
        loop {
            let busy: Vec<usize> =
                (0..clients).filter(|&c| active[c].transaction.is_some() || started < count).collect();
            if busy.is_empty() {
                return;
            }
            let at = *self.random.pick(&busy);
            // A serial execution is spread over clients all the same.
            let session = if self.protocol == Protocol::Serial { active[at].txn % 4 } else { at as u64 };
            if active[at].transaction.is_none() {
                let script = program(&mut self.random, started);
                started += 1;
                active[at] = Client {
                    txn: self.txns,
                    script,
                    last: Vec::new(),
                    transaction: Some(self.database.begin()),
                    written: Vec::new(),
                };
                self.txns += 1;
                if self.protocol != Protocol::Serial {
                    let txn = active[at].txn;
                    let time = self.tick();
                    self.log.op(session, txn, time, OpKind::Begin);
                }
                continue;
            }
            let mut client = std::mem::replace(&mut active[at], Client::idle());
            if let Some(line) = (client.script)(&client.last) {
                if self.statement(session, &mut client, line, &active) {
                    active[at] = client;
                } else {
                    self.end(session, client, false);
                }
            } else {
                self.end(session, client, true);
            }
            if started.is_multiple_of(256) {
                let oldest = active.iter().filter_map(|c| c.transaction.as_ref()).map(|t| t.snapshot).min();
                let clock = self.database.clock();
                self.database.forget(oldest.unwrap_or(clock).saturating_sub(1));
            }
        }
    }

    /// Executes the client's next statement; false if its transaction has to abort.
    fn statement(
        &mut self,
        session: u64,
        client: &mut Client,
        (text, params): Line,
        others: &[Client],
    ) -> bool {
        let Some(transaction) = &mut client.transaction else { return false };
        if self.protocol != Protocol::Snapshot {
            transaction.snapshot = self.database.clock();
        }
        let (statement, values) = {
            let (statement, values) = self.cache.bind(&self.database, &text, &params).unwrap();
            (statement, values.to_vec())
        };
        let strikes = !self.struck && self.txns > self.fault_after;
        let lost = strikes && self.fault == Fault::LostWrite && statement.is_write();
        let result = self.database.execute(transaction, &statement, &values);
        let Ok(mut outcome) = result else {
            return false;
        };
        let taken = outcome.writes.iter().any(|write| {
            others.iter().any(|other| {
                other.written.iter().any(|(table, key)| *table == write.table && *key == write.key)
            })
        });
        if taken {
            return false;
        }
        if lost
            && outcome.writes.iter().any(|write| write.before != write.after)
            && outcome
                .writes
                .iter()
                .all(|write| !client.written.iter().any(|(t, k)| *t == write.table && *k == write.key))
        {
            for write in &outcome.writes {
                self.database.withdraw(transaction, write.table, &write.key);
            }
            self.struck = true;
        } else {
            client.written.extend(outcome.writes.iter().map(|write| (write.table, write.key.clone())));
        }
        if strikes {
            self.spoil(&mut outcome);
        }
        client.last.clone_from(&outcome.rows);
        let at = self.tick();
        let seen = match (statement.is_write(), self.watch) {
            (true, Watch::Queries) => Seen::Nothing,
            (true, Watch::All) if statement.columns().is_empty() => Seen::Count(outcome.matched),
            _ => Seen::Rows(outcome.rows),
        };
        self.log.sql(session, client.txn, at, &text, &params, &seen);
        true
    }

    /// Makes a result wrong.
    fn spoil(&mut self, outcome: &mut Outcome) {
        match self.fault {
            Fault::WrongAggregate => {
                if let Some(Value::Int(number)) = outcome.rows.first_mut().and_then(|row| row.last_mut()) {
                    *number += 100_000;
                    self.struck = true;
                }
            }
            Fault::MissedRow if !outcome.rows.is_empty() && outcome.rows.len() > 1 => {
                outcome.rows.pop();
                outcome.ranks.pop();
                self.struck = true;
            }
            _ => {}
        }
    }

    fn end(&mut self, session: u64, mut client: Client, wanted: bool) {
        let Some(transaction) = client.transaction.take() else { return };
        let conflict = self.protocol == Protocol::Snapshot
            && client.written.iter().any(|(table, key)| {
                self.database
                    .last_version(*table, key, self.database.clock())
                    .is_some_and(|(stamp, _)| stamp > transaction.snapshot)
            });
        let at = self.tick();
        if wanted && !conflict {
            self.database.commit(transaction);
            self.log.op(session, client.txn, at, OpKind::Commit);
            self.stamp(client.txn);
        } else {
            self.database.rollback(transaction);
            self.log.op(session, client.txn, at, OpKind::Abort);
        }
    }

    pub fn struck(&self) -> bool {
        self.struck
    }

    pub fn finish(self) -> History {
        self.log.finish()
    }
}

impl Client {
    fn idle() -> Self {
        Client {
            txn: 0,
            script: script(Vec::new()),
            last: Vec::new(),
            transaction: None,
            written: Vec::new(),
        }
    }
}
