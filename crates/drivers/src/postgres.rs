//! PostgreSQL, and what speaks its protocol: CockroachDB, which was never met.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use margay_client::Start;
use postgres::config::Host;
use postgres::error::SqlState;
use postgres::{Client, Config, SimpleQueryMessage};

use crate::alone::OTHER_RUN;
use crate::postgres_cells::Prepared;
use crate::postgres_shadow::Shadows;
use crate::postgres_tls::{PostgresAddress, shown};
use crate::proxy::{Address, Proxy};
use crate::sql::{Session, Sql, Statement, Upsert, preparation, removal, texts};
use crate::statement;
use crate::{Answer, Cell, Connection, Database, Schema, Testimony, Trouble, Witness};

pub(crate) struct PostgresDatabase {
    url: String,
    /// Where who prepares connects, whom nobody limits.
    patient: PostgresAddress,
    /// Where clients connect.
    limited: PostgresAddress,
    /// Cuts connections whose answers are late, if they can be.
    _relay: Option<Proxy>,
    /// Keeps other runs away while it is open.
    _alone: Option<Mutex<Client>>,
    dbms: &'static str,
    version: String,
    witness: OnceLock<Arc<Witness>>,
}

impl PostgresDatabase {
    /// Asks the server who it is. A statement that is not answered within the limit costs its
    /// client the connection.
    pub fn open(url: &str, limit: Option<Duration>) -> Result<Self, String> {
        let mut patient = PostgresAddress::new(url)?;
        let mut client = connect(&patient)?;
        let row = client.query_one("SELECT version()", &[]).map_err(shown)?;
        let (dbms, version) = identity(row.get(0));
        let encrypted = patient.settle();
        let (limited, relay) = match limit {
            None => (patient.clone(), None),
            Some(limit) if encrypted => (patient.limited(limit), None),
            Some(limit) => {
                let relay = relay(patient.config(), limit)?;
                (patient.relayed(relay.port), Some(relay))
            }
        };
        let witness = OnceLock::new();
        let url = url.to_owned();
        Ok(Self { url, patient, limited, _relay: relay, _alone: None, dbms, version, witness })
    }

    /// The same, unless another run is at work there: two would make and drop the same tables, and
    /// take each other's writes for the database's faults. One that is about to end is waited for.
    pub fn alone(mut self) -> Result<Self, String> {
        let mut client = self.connection()?;
        client.batch_execute("SET lock_timeout = '3s'").map_err(shown)?;
        // The number is the bytes of `margay`. Who has no such locks cannot be asked.
        match client.batch_execute("SELECT pg_advisory_lock(120265298633081)") {
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Err(OTHER_RUN.to_owned()),
            _ => {
                self._alone = Some(Mutex::new(client));
                Ok(self)
            }
        }
    }

    fn connection(&self) -> Result<Client, String> {
        connect(&self.patient)
    }

    /// What this connection commits outlives a crash, whatever the server was told: a crash may
    /// lose what clients wrote, and is found out by that, but not the tables they write to.
    fn lasting(&self) -> Result<Client, String> {
        let mut client = self.connection()?;
        if self.dbms == "postgresql" {
            client.batch_execute("SET synchronous_commit = on").map_err(shown)?;
        }
        Ok(client)
    }
}

/// `PostgreSQL 15.8 (Debian …) on …`, `CockroachDB CCL v23.1.11 (…)`.
fn identity(told: &str) -> (&'static str, String) {
    let words = || told.split_whitespace();
    if told.starts_with("CockroachDB") {
        let version = words().find_map(|word| word.strip_prefix('v'));
        ("cockroachdb", version.unwrap_or_default().to_owned())
    } else {
        ("postgresql", words().nth(1).unwrap_or_default().to_owned())
    }
}

fn connect(address: &PostgresAddress) -> Result<Client, String> {
    let mut client = address.connect()?;
    client.batch_execute("SET client_min_messages = error").map_err(shown)?;
    Ok(client)
}

/// The client library itself waits for answers as long as it takes.
fn relay(config: &Config, limit: Duration) -> Result<Proxy, String> {
    let address = address(config).ok_or("only statements over TCP can have a timeout")?;
    Proxy::to(address, Some(limit)).map_err(|error| error.to_string())
}

fn address(config: &Config) -> Option<Address> {
    let port = config.get_ports().first().copied().unwrap_or(5432);
    match config.get_hosts() {
        [Host::Tcp(host)] => Some((host.clone(), port)),
        _ => None,
    }
}

impl Database for PostgresDatabase {
    fn identity(&self) -> (String, String) {
        (self.dbms.to_owned(), self.version.clone())
    }

    fn levels(&self) -> Vec<&'static str> {
        vec!["SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED"]
    }

    fn prepare(&self, _own_name: &str, start: &Start) -> Result<(), String> {
        self.lasting()?.batch_execute(&preparation(start).join(";")).map_err(shown)
    }

    fn connect(&self, _client: usize, own_name: &str) -> Result<Box<dyn Connection>, String> {
        let client = connect(&self.limited)?;
        let witness = self.witness.get().map(Arc::clone);
        let telling = Telling::of(self.dbms, own_name);
        let asks = witness.is_some() && telling.in_statements();
        let texts = texts(Upsert::OnConflict).map(|text| if asks { watched(&text) } else { text });
        let begin = format!("BEGIN ISOLATION LEVEL {own_name}");
        let every = witness.as_ref().filter(|_| telling == Telling::Snapshot).map_or(0, |w| w.shadows());
        let shadows = Shadows::new(self.patient.clone(), every);
        let told = Testimony::default();
        let watch = witness.map(|witness| Watch { witness, op: 0, told, telling, shadows });
        let deletes_read = deletes_read(own_name);
        let session = PostgresSession { client, begin, watch, prepared: Prepared::default(), deletes_read };
        Ok(Box::new(Sql::new(session, texts)))
    }

    fn witness(&self) -> Option<Arc<Witness>> {
        Some(Arc::clone(self.witness.get_or_init(Arc::default)))
    }

    fn address(&self) -> Option<String> {
        Some(self.url.clone())
    }

    fn prepare_sql(&self, _own_name: &str, schema: &Schema) -> Result<(), String> {
        self.lasting()?.batch_execute(&statement::creation(schema).join(";")).map_err(shown)
    }

    fn clean_up_sql(&self, schema: &Schema) {
        if let Ok(mut client) = self.connection() {
            let _ = client.batch_execute(&statement::removal(schema).join(";"));
        }
    }

    fn clean_up(&self) {
        if let Ok(mut client) = self.connection() {
            let _ = client.batch_execute(&removal().join(";"));
        }
    }
}

/// The key of a row that a statement returned: asked for, or its first column.
fn key(which: Statement, asked: &[Cell], row: &[Cell]) -> Option<i64> {
    let cell = if which == Statement::Scan { row.first() } else { asked.first() };
    match cell {
        Some(Cell::Int(key)) => Some(*key),
        _ => None,
    }
}

/// A statement that also tells who runs it, or what it sees: the snapshot is one only if the same
/// statement asks for it.
fn watched(text: &str) -> String {
    if text.starts_with("SELECT") {
        format!(
            "SELECT margay.view, told.* FROM (SELECT pg_current_snapshot()::text AS view) AS margay LEFT JOIN (SELECT 1::bigint, told.* FROM ({text}) AS told) AS told ON true"
        )
    } else {
        format!("{text} RETURNING pg_current_xact_id()::text")
    }
}

/// What a transaction can be asked about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Telling {
    /// Each statement its snapshot.
    Statements,
    /// And the transaction one that all of them share.
    Snapshot,
    /// Only the time at which it takes place.
    Time,
    /// Nothing.
    Nothing,
}

impl Telling {
    /// CockroachDB fixes a transaction's time when it is asked for, and has none to tell below
    /// SERIALIZABLE.
    fn of(dbms: &str, own_name: &str) -> Self {
        match (dbms, own_name) {
            ("cockroachdb", "SERIALIZABLE") => Telling::Time,
            ("cockroachdb", _) => Telling::Nothing,
            (_, "READ COMMITTED") => Telling::Statements,
            _ => Telling::Snapshot,
        }
    }

    fn in_statements(self) -> bool {
        matches!(self, Telling::Statements | Telling::Snapshot)
    }

    /// Asks, and commits. The question fails in a transaction that has failed, and takes the COMMIT
    /// with it.
    fn commit(self) -> &'static str {
        match self {
            Telling::Statements => "SELECT NULL, pg_current_xact_id_if_assigned(); COMMIT",
            Telling::Snapshot => "SELECT pg_current_snapshot(), pg_current_xact_id_if_assigned(); COMMIT",
            Telling::Time => "SELECT NULL, cluster_logical_timestamp()::STRING; COMMIT",
            Telling::Nothing => "SELECT NULL, NULL; COMMIT",
        }
    }
}

/// What a connection that testifies keeps in mind.
struct Watch {
    witness: Arc<Witness>,
    /// The number of the operation.
    op: u32,
    told: Testimony,
    telling: Telling,
    shadows: Shadows,
}

impl Watch {
    /// Takes the snapshot out of the answer of a watched query. Where nothing was found, one row
    /// has it alone.
    fn strip(&mut self, answer: &Answer) -> Answer {
        if let Some(Cell::Text(view)) = answer.cells.first() {
            self.told.views.push((self.op, view.clone()));
        }
        let there = answer.rows().filter(|row| row.get(1) != Some(&Cell::Null));
        let cells = there.flat_map(|row| row.iter().skip(2).cloned()).collect();
        Answer { columns: answer.columns.saturating_sub(2), cells, count: 0 }
    }

    /// Takes the transaction's number out of the answer of a watched change, which has a row for
    /// each that it touched.
    fn changed(&mut self, answer: &Answer) -> Answer {
        if let Some(Cell::Text(id)) = answer.cells.first() {
            self.told.id = Some(id.clone());
        }
        Answer { count: answer.rows().len() as u64, ..Answer::default() }
    }
}

struct PostgresSession {
    client: Client,
    begin: String,
    watch: Option<Watch>,
    prepared: Prepared,
    deletes_read: bool,
}

/// At READ COMMITTED a delete that has waited for somebody who deleted its row and put another in
/// its place finds neither: the one is gone, the other too new for its snapshot. At the other
/// levels it is refused.
fn deletes_read(own_name: &str) -> bool {
    own_name != "READ COMMITTED"
}

impl PostgresSession {
    /// Commits, and takes down what there is to tell.
    fn commit_watched(&mut self) -> Result<(), Trouble> {
        let Some(watch) = &mut self.watch else { return Ok(()) };
        let answers = self.client.simple_query(watch.telling.commit()).map_err(trouble);
        if let Some(row) = answers.as_ref().ok().and_then(|answers| answers.iter().find_map(first_row)) {
            watch.told.view = row.get(0).map(str::to_owned);
            watch.told.id = row.get(1).map(str::to_owned).or(watch.told.id.take());
        }
        if !matches!(answers, Err(Trouble::Refused(_))) {
            watch.witness.hear(std::mem::take(&mut watch.told));
        }
        answers.map(drop)
    }
}

fn first_row(message: &SimpleQueryMessage) -> Option<&postgres::SimpleQueryRow> {
    match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    }
}

impl Session for PostgresSession {
    fn enter(&mut self, label: u64) {
        if let Some(watch) = &mut self.watch {
            (watch.op, watch.told) = (0, Testimony { txn: label, ..Testimony::default() });
        }
    }

    fn step(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.op += 1;
        }
    }

    fn step_back(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.op -= 1;
        }
    }

    fn begin(&mut self) -> Result<(), Trouble> {
        self.client.batch_execute(&self.begin).map_err(trouble)
    }

    fn statement(&mut self, which: Statement, text: &str, params: &[Cell]) -> Result<Answer, Trouble> {
        let answer = self.sql(text, params)?;
        let Some(watch) = self.watch.as_mut().filter(|watch| watch.telling.in_statements()) else {
            return Ok(answer);
        };
        if !which.reads() {
            return Ok(watch.changed(&answer));
        }
        let answer = watch.strip(&answer);
        if watch.shadows.is_due() {
            let keys: Vec<i64> = answer.rows().filter_map(|row| key(which, params, row)).collect();
            watch.told.shadows.extend(watch.shadows.look(&mut self.client, watch.op, which, &keys));
        }
        Ok(answer)
    }

    fn sql(&mut self, text: &str, params: &[Cell]) -> Result<Answer, Trouble> {
        self.prepared.run(&mut self.client, text, params).map_err(sql_trouble)
    }

    fn deletes_read(&self) -> bool {
        self.deletes_read
    }

    fn own_row(&mut self, key: Cell) -> Result<Option<Answer>, Trouble> {
        const OWN: &str = "SELECT v, w FROM margay_rows WHERE k = $1 AND xmin = pg_current_xact_id()::xid";
        self.sql(OWN, &[key]).map(Some)
    }

    /// A COMMIT in a transaction that has failed is no error: it is answered with the tag ROLLBACK,
    /// which the client library does not show. A statement before it in the same message fails in
    /// such a transaction, and takes the COMMIT with it.
    fn commit(&mut self) -> Result<(), Trouble> {
        match self.watch {
            Some(_) => self.commit_watched(),
            None => self.client.batch_execute("SELECT 1; COMMIT").map_err(trouble),
        }
    }

    fn rollback(&mut self) -> Result<(), Trouble> {
        self.client.batch_execute("ROLLBACK").map_err(trouble)
    }
}

/// Class 40 is "transaction rollback"; the others are timeouts of locks and statements, and a
/// transaction that has failed before.
fn is_refusal(code: &str) -> bool {
    code.starts_with("40") && code != "40003" || matches!(code, "55P03" | "57014" | "25P02" | "25P03")
}

fn trouble(error: postgres::Error) -> Trouble {
    let code = error.code().map(|code| code.code().to_owned());
    match code.as_deref() {
        Some(code) if is_refusal(code) => Trouble::Refused(shown(error)),
        // The administrator ends connections, or the server ends.
        Some(code) if code.starts_with("57P") || code.starts_with("08") => Trouble::Lost(shown(error)),
        Some(_) => Trouble::Failed(shown(error)),
        None => Trouble::Lost(error.to_string()),
    }
}

/// A duplicate key that a program runs into ends its transaction; the program goes on.
fn sql_trouble(error: postgres::Error) -> Trouble {
    match error.code().map(|code| code.code()) {
        Some("23505") => Trouble::Refused(shown(error)),
        _ => trouble(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_say_who_they_are() {
        let told = "PostgreSQL 15.8 (Debian 15.8-0+deb12u1) on x86_64-pc-linux-gnu";
        assert_eq!(identity(told), ("postgresql", "15.8".to_owned()));
        let told = "CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu, built 2023/09/27 01:53:43, go1.19.10)";
        assert_eq!(identity(told), ("cockroachdb", "23.1.11".to_owned()));
        assert_eq!(Telling::of("cockroachdb", "SERIALIZABLE"), Telling::Time);
        assert!(Telling::of("postgresql", "READ COMMITTED").in_statements());
    }

    #[test]
    fn refusals() {
        assert!(is_refusal("40001") && is_refusal("40P01") && is_refusal("25P02"));
        assert!(!is_refusal("40003") && !is_refusal("42601") && !is_refusal("57P01"));
    }
}
