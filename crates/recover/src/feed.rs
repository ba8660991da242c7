//! CockroachDB: a changefeed that is read while clients run.
//!
//! Written from the documentation; never run against a live server. What the messages mean stands
//! in [`crate::cockroach`].
//!
//! # Algorithm
//! The statement of a changefeed without a sink never ends, so a thread of its own reads it. In the
//! end the cluster is asked for its time, and when the changefeed says that everything up to then
//! has come, it is cancelled. It begins at the cluster's time before clients run, so that nothing
//! is missed while it starts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use margay_drivers::PostgresAddress;
use postgres::fallible_iterator::FallibleIterator;
use postgres::{CancelToken, Client, Row};

use crate::cockroach::{Changefeed, Timestamp, id};
use crate::log::Commit;
use crate::postgres::shown;
use crate::source::Source;

/// How long the end of the changefeed may keep us waiting.
const PATIENCE: Duration = Duration::from_secs(60);

type Shared = Arc<Mutex<Result<Changefeed, String>>>;

pub(crate) struct Feed {
    address: PostgresAddress,
    client: Client,
    cancel: CancelToken,
    read: Shared,
}

impl Feed {
    /// Begins a changefeed of all tables.
    pub fn open(url: &str) -> Result<Self, String> {
        let address = PostgresAddress::new(url)?;
        let mut client = address.connect()?;
        client.batch_execute("SET CLUSTER SETTING kv.rangefeed.enabled = true").map_err(shown)?;
        let tables =
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1";
        let tables: Vec<String> =
            client.query(tables, &[]).map_err(shown)?.iter().map(|row| row.get(0)).collect();
        let read: Shared = Arc::new(Mutex::new(Ok(Changefeed::default())));
        let mut feed = Self { address, cancel: client.cancel_token(), client, read };
        let text = statement(&tables, feed.now()?);
        let mut reader = feed.address.connect()?;
        feed.cancel = reader.cancel_token();
        let shared = Arc::clone(&feed.read);
        thread::spawn(move || follow(&mut reader, &text, &shared));
        Ok(feed)
    }

    fn now(&mut self) -> Result<Timestamp, String> {
        let row = self.client.query_one("SELECT cluster_logical_timestamp()::STRING", &[]).map_err(shown)?;
        let text: String = row.get(0);
        Timestamp::parse(&text).ok_or_else(|| format!("a timestamp that is not understood: {text}"))
    }
}

/// The statement that begins a changefeed of everything after a time. Without one, it would tell of
/// all rows that are there as if they had just been written. It says as often what it has resolved
/// as its checkpoints let it, which is every 30 seconds if nothing else is said.
fn statement(tables: &[String], after: Timestamp) -> String {
    format!(
        "EXPERIMENTAL CHANGEFEED FOR {} WITH updated, resolved = '500ms', min_checkpoint_frequency = '500ms', diff, cursor = '{}'",
        tables.join(", "),
        id(after)
    )
}

fn locked(read: &Shared) -> MutexGuard<'_, Result<Changefeed, String>> {
    read.lock().unwrap_or_else(PoisonError::into_inner)
}

fn follow(reader: &mut Client, text: &str, read: &Shared) {
    let none: [&str; 0] = [];
    let mut rows = match reader.query_raw(text, none) {
        Ok(rows) => rows,
        Err(error) => return *locked(read) = Err(shown(error)),
    };
    // The end comes as an error, when the statement is cancelled: whoever waits for more than has
    // come will say so.
    while let Ok(Some(row)) = rows.next() {
        let mut feed = locked(read);
        let taken = feed.as_mut().map_or(Ok(()), |feed| take(feed, &row));
        if let Err(why) = taken {
            *feed = Err(why);
        }
    }
}

fn take(feed: &mut Changefeed, row: &Row) -> Result<(), String> {
    let text = |at: usize| -> Result<Option<String>, String> {
        let bytes: Option<Vec<u8>> = row.try_get(at).map_err(shown)?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    };
    let table: Option<String> = row.try_get(0).map_err(shown)?;
    feed.message(table.as_deref(), text(1)?.as_deref(), &text(2)?.unwrap_or_default())
}

impl Source for Feed {
    fn read(&mut self) -> Result<(), String> {
        locked(&self.read).as_ref().map(drop).map_err(Clone::clone)
    }

    fn finish(mut self: Box<Self>) -> Result<Vec<Commit>, String> {
        let (until, start) = (self.now()?, Instant::now());
        let log = loop {
            match locked(&self.read).as_ref() {
                Err(why) => break Err(why.clone()),
                Ok(feed) if feed.is_resolved(until) => break Ok(feed.commits()),
                Ok(_) if start.elapsed() > PATIENCE => {
                    break Err("the changefeed does not come to its end".to_owned());
                }
                Ok(_) => {}
            }
            thread::sleep(Duration::from_millis(20));
        };
        self.address.cancel(&self.cancel);
        log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statement_names_all_tables() {
        let tables = ["a".to_owned(), "b".to_owned()];
        assert_eq!(
            statement(&tables, Timestamp { wall: 17, logical: 2 }),
            "EXPERIMENTAL CHANGEFEED FOR a, b WITH updated, resolved = '500ms', min_checkpoint_frequency = '500ms', diff, cursor = '17.0000000002'"
        );
    }
}
