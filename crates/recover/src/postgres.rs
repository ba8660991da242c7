//! PostgreSQL: logical decoding.
//!
//! # Algorithm
//! A temporary replication slot with the plugin `test_decoding`, read with SQL beside the workload. The slot gives transactions in the order of their commit
//! records. In the end a message of our own is written and flushed, and the slot is read up to there, so that nothing before it is missing.

use std::time::{Duration, Instant};

use postgres::{Client, NoTls};

use crate::decoding::Decoder;
use crate::log::{Commit, Keys};
use crate::source::Source;

/// How long the end of the log may keep us waiting.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Slot {
    client: Client,
    name: String,
    decoder: Decoder,
    commits: Vec<Commit>,
    /// Whether our own message has come.
    ended: bool,
}

impl Slot {
    /// Makes the slot: what commits from now on is in the log.
    pub fn open(url: &str) -> Result<Self, String> {
        let mut client = Client::connect(url, NoTls).map_err(shown)?;
        let level: String = client.query_one("SHOW wal_level", &[]).map_err(shown)?.get(0);
        if level != "logical" {
            return Err(format!(
                "wal_level is {level}; versions can only be recovered from a server with wal_level = logical"
            ));
        }
        let keys = keys(&mut client)?;
        let name = format!(
            "margay_{}",
            client.query_one("SELECT pg_backend_pid()", &[]).map_err(shown)?.get::<_, i32>(0)
        );
        client
            .execute("SELECT pg_create_logical_replication_slot($1, 'test_decoding', true)", &[&name])
            .map_err(shown)?;
        Ok(Self { client, name, decoder: Decoder::new(keys), commits: Vec::new(), ended: false })
    }

    /// Ends the log with a message of our own, on disk.
    fn mark(&mut self) -> Result<(), String> {
        let name = &self.name;
        let mark = format!("SET synchronous_commit = on; SELECT pg_logical_emit_message(true, '{name}', '')");
        self.client.batch_execute(&mark).map_err(shown)
    }
}

impl Source for Slot {
    fn read(&mut self) -> Result<(), String> {
        let query = "SELECT data FROM pg_logical_slot_get_changes($1, NULL, NULL, 'include-xids', '1', 'include-timestamp', '1', 'skip-empty-xacts', '1')";
        for row in self.client.query(query, &[&self.name]).map_err(shown)? {
            let line: &str = row.get(0);
            if line.starts_with("message: ") {
                self.ended |= line.contains(&self.name);
                continue;
            }
            let commit = self.decoder.line(line)?;
            self.commits.extend(commit.filter(|commit| !commit.changes.is_empty()));
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Vec<Commit>, String> {
        self.mark()?;
        let start = Instant::now();
        loop {
            self.read()?;
            match self.ended {
                true => return Ok(self.commits),
                false if start.elapsed() > PATIENCE => {
                    return Err("the log does not come to its end".to_owned());
                }
                false => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

/// The primary keys of all tables of the schemas in the search path.
fn keys(client: &mut Client) -> Result<Keys, String> {
    let query = "SELECT c.relname::text, a.attname::text FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid \
         JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey) \
         WHERE i.indisprimary AND pg_table_is_visible(c.oid) \
         ORDER BY c.relname, array_position(i.indkey::int2[], a.attnum)";
    let mut keys = Keys::new();
    for row in client.query(query, &[]).map_err(shown)? {
        keys.entry(row.get(0)).or_default().push(row.get(1));
    }
    Ok(keys)
}

/// The server's own words, where there are some.
pub(crate) fn shown(error: postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{} ({})", error.message(), error.code().code()),
        None => error.to_string(),
    }
}
