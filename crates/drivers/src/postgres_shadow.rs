//! Shadows of reads: another transaction takes the reader's snapshot and says whose versions it
//! sees.
//!
//! What a snapshot sees is computed from transaction numbers when evidence is recovered. A shadow
//! asks the database instead, so that both can be compared.

use postgres::{Client, SimpleQueryMessage};

use crate::Shadow;
use crate::postgres_tls::PostgresAddress;
use crate::sql::Statement;

/// A connection for shadows, which is made when the first is wanted.
pub(crate) struct Shadows {
    address: PostgresAddress,
    client: Option<Client>,
    every: u32,
    reads: u32,
}

impl Shadows {
    pub fn new(address: PostgresAddress, every: u32) -> Self {
        Self { address, client: None, every, reads: 0 }
    }

    /// Whether the next read has a shadow.
    pub fn is_due(&mut self) -> bool {
        self.reads += 1;
        self.every > 0 && self.reads.is_multiple_of(self.every)
    }

    /// Looks at the rows that a statement returned, with the snapshot of the transaction on
    /// `reader`. Where that cannot be done there is no shadow.
    pub fn look(&mut self, reader: &mut Client, op: u32, which: Statement, keys: &[i64]) -> Vec<Shadow> {
        let Some(table) = table(which).filter(|_| !keys.is_empty()) else { return Vec::new() };
        let keys: Vec<String> = keys.iter().map(i64::to_string).collect();
        let mut look = || -> Option<Vec<Shadow>> {
            let snapshot = first(&reader.simple_query("SELECT pg_export_snapshot()").ok()?)?;
            if self.client.is_none() {
                self.client = Some(self.address.connect().ok()?);
            }
            let text = format!(
                "BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '{snapshot}'; \
                 SELECT k, xmin FROM {table} WHERE k IN ({}); COMMIT",
                keys.join(", ")
            );
            let answers = self.client.as_mut()?.simple_query(&text).ok()?;
            let rows = answers.iter().filter_map(|answer| match answer {
                SimpleQueryMessage::Row(row) => Some((row.get(0)?.parse().ok()?, row.get(1)?.to_owned())),
                _ => None,
            });
            Some(rows.map(|(key, writer)| Shadow { op, table, key, writer }).collect())
        };
        look().unwrap_or_default()
    }
}

fn table(which: Statement) -> Option<&'static str> {
    match which {
        Statement::ReadRegister => Some("margay_registers"),
        Statement::ReadList => Some("margay_lists"),
        Statement::ReadRow | Statement::Scan => Some("margay_rows"),
        _ => None,
    }
}

/// The first value of an answer.
fn first(answers: &[SimpleQueryMessage]) -> Option<String> {
    answers.iter().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    })
}
