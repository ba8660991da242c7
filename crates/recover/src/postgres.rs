//! PostgreSQL: logical decoding.
//!
//! # Algorithm
//! A temporary replication slot, read with SQL beside the workload. The slot gives transactions in
//! the order of their commit records. In the end a message of our own is written and flushed, and
//! the slot is read up to there, so that nothing before it is missing.
//!
//! Two plugins put the log into words: `test_decoding` (texts; a module that not every server has)
//! and `pgoutput` (messages of the replication protocol; every server has it, but it wants a
//! publication, which only who owns the tables may make).
//!
//! # Invariants
//! Nothing is left on the server. The slot is temporary, so it goes with its connection, however
//! that ends. The publication does not: it is dropped in the end, and that of a run that was killed
//! is dropped by the next one. It has the number of its connection in its name and says in a
//! comment whose it is; only if both are ours, and nobody with that number is connected any more,
//! is it a leftover.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use margay_drivers::PostgresAddress;
use postgres::Client;

use crate::decoding::Lines;
use crate::log::{Commit, Keys};
use crate::pgoutput::Messages;
use crate::source::Source;

/// How long the end of the log may keep us waiting.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a publication of ours says of itself.
const OURS: &str = "of a run of margay, which drops it";

/// What puts PostgreSQL's log into words.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Plugin {
    /// `test_decoding` where the server has it, else `pgoutput`.
    #[default]
    Auto,
    /// `test_decoding`.
    TestDecoding,
    /// `pgoutput`.
    Pgoutput,
}

impl fmt::Display for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Plugin::Auto => "auto",
            Plugin::TestDecoding => "test_decoding",
            Plugin::Pgoutput => "pgoutput",
        })
    }
}

impl FromStr for Plugin {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let all = [Plugin::Auto, Plugin::TestDecoding, Plugin::Pgoutput];
        let found = all.into_iter().find(|plugin| plugin.to_string() == name);
        found.ok_or_else(|| "it is auto, test_decoding or pgoutput".to_owned())
    }
}

pub(crate) struct Slot {
    client: Client,
    name: String,
    decoder: Decoder,
    commits: Vec<Commit>,
}

enum Decoder {
    Lines(Lines),
    /// With a publication of the slot's name, which outlives the connection unless it is dropped.
    Messages(Messages),
}

impl Slot {
    /// Makes the slot: what commits from now on is in the log.
    pub fn open(url: &str, plugin: Plugin) -> Result<Self, String> {
        let mut client = PostgresAddress::new(url)?.connect()?;
        let level: String = client.query_one("SHOW wal_level", &[]).map_err(shown)?.get(0);
        if level != "logical" {
            return Err(format!(
                "wal_level is {level}; versions can only be recovered from a server with wal_level = logical"
            ));
        }
        drop_leftovers(&mut client);
        let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).map_err(shown)?.get(0);
        let name = format!("margay_{pid}");
        let decoder = match plugin {
            Plugin::TestDecoding => lines(&mut client, &name)?,
            Plugin::Pgoutput => messages(&mut client, &name)?,
            Plugin::Auto => lines(&mut client, &name).or_else(|first| {
                messages(&mut client, &name)
                    .map_err(|second| format!("test_decoding: {first}; pgoutput: {second}"))
            })?,
        };
        Ok(Self { client, name, decoder, commits: Vec::new() })
    }

    /// Ends the log with a message of our own, on disk; answers where it stands.
    fn mark(&mut self) -> Result<String, String> {
        self.client.batch_execute("SET synchronous_commit = on").map_err(shown)?;
        let mark = "SELECT pg_logical_emit_message(true, $1, '')::text";
        Ok(self.client.query_one(mark, &[&self.name]).map_err(shown)?.get(0))
    }

    /// Whether everything up to a place has been read.
    fn has_read(&mut self, place: &str) -> Result<bool, String> {
        let query =
            "SELECT confirmed_flush_lsn >= $2::text::pg_lsn FROM pg_replication_slots WHERE slot_name = $1";
        Ok(self.client.query_one(query, &[&self.name, &place]).map_err(shown)?.get(0))
    }

    fn rows(&mut self) -> Result<Vec<postgres::Row>, String> {
        let query = match &self.decoder {
            Decoder::Lines(_) => {
                "SELECT data FROM pg_logical_slot_get_changes($1, NULL, NULL, 'include-xids', '1', 'include-timestamp', '1', 'skip-empty-xacts', '1')"
            }
            Decoder::Messages(_) => {
                "SELECT data FROM pg_logical_slot_get_binary_changes($1::text::name, NULL, NULL, 'proto_version', '1', 'publication_names', $1::text)"
            }
        };
        self.client.query(query, &[&self.name]).map_err(shown)
    }

    /// A transaction number that no transaction of the log is above.
    fn limit(&mut self) -> Result<u64, String> {
        let query = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text";
        let text: String = self.client.query_one(query, &[]).map_err(shown)?.get(0);
        text.parse().map_err(|_| format!("a transaction number that is not understood: {text}"))
    }
}

impl Source for Slot {
    fn read(&mut self) -> Result<(), String> {
        let mut read = Vec::new();
        for row in self.rows()? {
            read.extend(match &mut self.decoder {
                Decoder::Lines(lines) => lines.line(row.get(0))?,
                Decoder::Messages(messages) => messages.message(row.get(0))?,
            });
        }
        read.retain(|commit| !commit.changes.is_empty());
        if read.is_empty() {
            return Ok(());
        }
        let limit = self.limit()?;
        for commit in &mut read {
            if let Ok(low) = commit.id.parse() {
                commit.id = widened(low, limit).to_string();
            }
        }
        self.commits.append(&mut read);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Vec<Commit>, String> {
        let mark = self.mark()?;
        let start = Instant::now();
        loop {
            self.read()?;
            match self.has_read(&mark)? {
                true => return Ok(std::mem::take(&mut self.commits)),
                false if start.elapsed() > PATIENCE => {
                    return Err("the log does not come to its end".to_owned());
                }
                false => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Decoder::Messages(_) = self.decoder {
            let _ = self.client.batch_execute(&format!("DROP PUBLICATION IF EXISTS {}", self.name));
        }
    }
}

/// The log has the lower half of a transaction's number, transactions tell all of it.
fn widened(low: u32, limit: u64) -> u64 {
    limit.wrapping_sub(u64::from((limit as u32).wrapping_sub(low)))
}

fn lines(client: &mut Client, name: &str) -> Result<Decoder, String> {
    let keys = keys(client)?;
    make_slot(client, name, "test_decoding")?;
    Ok(Decoder::Lines(Lines::new(keys.columns)))
}

/// The publication comes first: the plugin looks for it as of the changes that it reads.
fn messages(client: &mut Client, name: &str) -> Result<Decoder, String> {
    let keys = keys(client)?;
    if keys.own.is_empty() {
        return Err("there is no table with a primary key that this role owns and could publish".to_owned());
    }
    let publish = format!(
        "CREATE PUBLICATION {name} FOR TABLE {}; COMMENT ON PUBLICATION {name} IS '{OURS}'",
        keys.own.join(", ")
    );
    client.batch_execute(&publish).map_err(shown)?;
    if let Err(why) = make_slot(client, name, "pgoutput") {
        let _ = client.batch_execute(&format!("DROP PUBLICATION {name}"));
        return Err(why);
    }
    Ok(Decoder::Messages(Messages::new(keys.columns)))
}

/// Drops the publications of runs that were killed. What cannot be dropped, or was by somebody else
/// meanwhile, does not keep us from running.
fn drop_leftovers(client: &mut Client) {
    let leftovers = "SELECT pubname::text FROM pg_publication \
         WHERE pubname ~ '^margay_[0-9]{1,9}$' AND obj_description(oid, 'pg_publication') = $1 \
         AND substr(pubname, 8)::int NOT IN (SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid())";
    for row in client.query(leftovers, &[&OURS]).unwrap_or_default() {
        let name: &str = row.get(0);
        let _ = client.batch_execute(&format!("DROP PUBLICATION IF EXISTS {name}"));
    }
}

fn make_slot(client: &mut Client, name: &str, plugin: &str) -> Result<(), String> {
    let make = "SELECT pg_create_logical_replication_slot($1, $2, true)";
    client.execute(make, &[&name, &plugin]).map(drop).map_err(shown)
}

/// Tables whose log identifies rows by the primary key.
struct Tables {
    columns: Keys,
    /// Those that we may publish, as SQL writes them.
    own: Vec<String>,
}

/// All tables of the schemas in the search path whose changes are logged with their primary keys.
fn keys(client: &mut Client) -> Result<Tables, String> {
    let query = "SELECT c.relname::text, a.attname::text, c.oid::regclass::text, pg_has_role(c.relowner, 'USAGE') \
         FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid \
         JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey) \
         WHERE i.indisprimary AND pg_table_is_visible(c.oid) AND c.relpersistence = 'p' AND c.oid >= 16384 \
         AND (c.relreplident IN ('d', 'f') OR c.relreplident = 'i' AND i.indisreplident) \
         ORDER BY c.relname, array_position(i.indkey::int2[], a.attnum)";
    let mut tables = Tables { columns: Keys::new(), own: Vec::new() };
    for row in client.query(query, &[]).map_err(shown)? {
        tables.columns.entry(row.get(0)).or_default().push(row.get(1));
        let name: String = row.get(2);
        if row.get(3) && tables.own.last() != Some(&name) {
            tables.own.push(name);
        }
    }
    Ok(tables)
}

/// The server's own words, where there are some.
pub(crate) fn shown(error: postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{} ({})", error.message(), error.code().code()),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use margay_servers::started;
    use postgres::NoTls;

    use super::*;

    const SCHEMA: &str = "SET timezone = 'UTC'; ALTER ROLE CURRENT_USER SET timezone = 'UTC'; CREATE TYPE mood AS ENUM ('sad', 'glad');
        CREATE TABLE acc (id INT PRIMARY KEY, owner TEXT, balance NUMERIC, open BOOLEAN, ratio FLOAT8, bits BIT(3), mood mood, seen TIMESTAMPTZ);
        CREATE TABLE pair (a TEXT, b BIGINT, v TEXT, PRIMARY KEY (b, a));
        CREATE TABLE whole (k INT PRIMARY KEY, v TEXT); ALTER TABLE whole REPLICA IDENTITY FULL;
        CREATE TABLE \"Odd Name\" (k INT PRIMARY KEY, \"a b\" TEXT);
        CREATE TABLE blind (k INT PRIMARY KEY); ALTER TABLE blind REPLICA IDENTITY NOTHING;
        CREATE TABLE keyless (v INT)";

    const SCRIPT: [&str; 12] = [
        "INSERT INTO acc VALUES (1, 'O''Brien: x', 1.50, true, 2.5, B'101', 'glad', '2026-11-15 06:00+00'), (2, NULL, 7, false, 'NaN', NULL, NULL, NULL)",
        "UPDATE acc SET balance = balance + 1 WHERE id = 1",
        "UPDATE acc SET id = 3 WHERE id = 2",
        "BEGIN; INSERT INTO pair VALUES ('x new-tuple: y', 1, ''); UPDATE pair SET a = 'z'; SAVEPOINT s; DELETE FROM pair; ROLLBACK TO s; COMMIT",
        "INSERT INTO whole VALUES (1, 'a'), (2, 'b')",
        "BEGIN; UPDATE whole SET v = 'c'; UPDATE whole SET k = 5 WHERE k = 2; DELETE FROM whole WHERE k = 1; COMMIT",
        "INSERT INTO \"Odd Name\" VALUES (1, 'q'); UPDATE \"Odd Name\" SET \"a b\" = repeat('long', 9)",
        "INSERT INTO blind VALUES (1); INSERT INTO keyless VALUES (1)",
        "BEGIN; INSERT INTO acc (id) VALUES (9); ROLLBACK",
        "ALTER TABLE acc ADD COLUMN extra TEXT DEFAULT 'e'; UPDATE acc SET owner = 'n' WHERE id = 3",
        "INSERT INTO pair SELECT 'big', 2, string_agg(md5(i::text), '') FROM generate_series(1, 400) i",
        "UPDATE pair SET a = 'still big' WHERE b = 2; DELETE FROM acc",
    ];

    fn connect(url: &str) -> Client {
        for _ in 0..300 {
            if let Ok(client) = Client::connect(url, NoTls) {
                return client;
            }
            thread::sleep(Duration::from_millis(100));
        }
        panic!("the server does not take connections")
    }

    /// Both plugins read one log while clients run on it, and tell the same.
    #[test]
    fn both_plugins_tell_the_same() {
        let Some(server) = started(margay_servers::Server::postgres()) else { return };
        connect(server.url()).batch_execute(SCHEMA).expect("tables");
        let open = |plugin| Box::new(Slot::open(server.url(), plugin).expect("a slot"));
        let mut slots = [open(Plugin::TestDecoding), open(Plugin::Pgoutput)];
        let mut client = connect(server.url());
        SCRIPT.iter().for_each(|text| client.batch_execute(text).expect(text));
        slots.iter_mut().for_each(|slot| slot.read().expect("a log"));
        thread::scope(|scope| {
            for start in [100, 200, 300] {
                let url = server.url();
                scope.spawn(move || load(&mut connect(url), start));
            }
        });
        let [lines, messages] = slots.map(|slot| slot.finish().expect("a log"));
        assert!(lines.len() > 180, "{} transactions", lines.len());
        assert_eq!(lines, messages);
        assert_eq!(left_behind(&mut client), 0, "the publication is dropped");
    }

    fn load(client: &mut Client, start: i32) {
        for k in start..start + 30 {
            client.execute("INSERT INTO whole VALUES ($1, 'x')", &[&k]).expect("an insertion");
            client.execute("UPDATE whole SET v = v || k WHERE k IN (5, $1)", &[&k]).expect("an update");
            client.execute("DELETE FROM whole WHERE k = $1", &[&(k - 2)]).expect("a deletion");
        }
    }

    /// A run whose connection ends without a word leaves its publication, and the next one drops
    /// it; but neither that of a run that goes on, nor what is not ours.
    #[test]
    fn what_a_killed_run_leaves_is_dropped_by_the_next_one() {
        let Some(server) = started(margay_servers::Server::postgres()) else { return };
        let mut client = connect(server.url());
        let others = "CREATE TABLE t (k INT PRIMARY KEY); CREATE PUBLICATION margay_99999999; CREATE PUBLICATION margay_mine;
            COMMENT ON PUBLICATION margay_mine IS 'of a run of margay, which drops it'";
        client.batch_execute(others).expect("a table and publications of others");
        let published = |client: &mut Client| -> Vec<String> {
            let rows =
                client.query("SELECT pubname::text FROM pg_publication ORDER BY 1", &[]).expect("rows");
            rows.iter().map(|row| row.get(0)).filter(|name: &String| !name.contains("9999")).collect()
        };
        let slots = |client: &mut Client| -> i64 {
            client.query_one("SELECT count(*) FROM pg_replication_slots", &[]).expect("a count").get(0)
        };
        let open = |plugin| Slot::open(server.url(), plugin).expect("a slot");
        let (killed, alive) = (open(Plugin::Pgoutput), open(Plugin::Pgoutput));
        client
            .execute("SELECT pg_terminate_backend(substr($1, 8)::int, 60000)", &[&killed.name])
            .expect("killed");
        let (dead, living) = (killed.name.clone(), alive.name.clone());
        drop(killed);
        assert_eq!(slots(&mut client), 1, "the slot went with its connection");
        assert!(published(&mut client).contains(&dead), "nobody could drop it");
        let next = open(Plugin::TestDecoding);
        assert_eq!(published(&mut client), [living, "margay_mine".to_owned()]);
        drop((next, alive));
        let all: i64 = client.query_one("SELECT count(*) FROM pg_publication", &[]).expect("a count").get(0);
        assert_eq!((published(&mut client), all), (vec!["margay_mine".to_owned()], 2));
    }

    fn left_behind(client: &mut Client) -> i64 {
        client.query_one("SELECT count(*) FROM pg_publication", &[]).expect("a count").get(0)
    }

    #[test]
    fn transaction_numbers_are_made_whole() {
        let epoch = 1_u64 << 32;
        assert_eq!(widened(747, 750), 747);
        assert_eq!(widened(747, 3 * epoch + 750), 3 * epoch + 747);
        assert_eq!(widened(u32::MAX, 3 * epoch + 2), 3 * epoch - 1, "from before the numbers began anew");
    }
}
