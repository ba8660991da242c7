//! The database itself as the judge of what matches.
//!
//! Whether a version matches a predicate is what the interpreter of crate `sql` says. Where one
//! does not want to believe that, the server can be asked: the versions are loaded into a temporary
//! table, and the condition is evaluated there.

use margay_drivers::PostgresAddress;
use postgres::Client;
use postgres::types::ToSql;

use crate::log::Datum;
use crate::postgres::shown;

/// A PostgreSQL server that evaluates conditions on versions.
pub struct Oracle {
    client: Client,
}

impl Oracle {
    /// Connects.
    ///
    /// # Errors
    /// What the server says.
    pub fn open(url: &str) -> Result<Self, String> {
        Ok(Self { client: PostgresAddress::new(url)?.connect()? })
    }

    /// Loads versions instead of those before: columns with their types, and the rows. Only
    /// integers, texts and NULL can be loaded.
    ///
    /// # Errors
    /// What the server says.
    pub fn load(&mut self, columns: &[(&str, &str)], rows: &[Vec<Datum>]) -> Result<(), String> {
        let list: Vec<String> = columns.iter().map(|(name, kind)| format!("{name} {kind}")).collect();
        let table = format!(
            "DROP TABLE IF EXISTS margay_versions; CREATE TEMP TABLE margay_versions (margay_nr BIGINT, {})",
            list.join(", ")
        );
        self.client.batch_execute(&table).map_err(shown)?;
        let places: Vec<String> = (0..=columns.len()).map(|i| format!("${}", i + 1)).collect();
        let insert = format!("INSERT INTO margay_versions VALUES ({})", places.join(", "));
        let insert = self.client.prepare(&insert).map_err(shown)?;
        for (number, row) in rows.iter().enumerate() {
            let number = number as i64;
            let values = std::iter::once(&number as &(dyn ToSql + Sync)).chain(row.iter().map(parameter));
            self.client.execute(&insert, &values.collect::<Vec<_>>()).map_err(shown)?;
        }
        Ok(())
    }

    /// The numbers of the rows that match, in order.
    ///
    /// # Errors
    /// What the server says of the condition.
    pub fn matching(&mut self, condition: &str) -> Result<Vec<usize>, String> {
        let query = format!("SELECT margay_nr FROM margay_versions WHERE {condition} ORDER BY margay_nr");
        let rows = self.client.query(&query, &[]).map_err(shown)?;
        Ok(rows.iter().map(|row| row.get::<_, i64>(0) as usize).collect())
    }
}

fn parameter(datum: &Datum) -> &(dyn ToSql + Sync) {
    match datum {
        Datum::Null | Datum::Unchanged => &None::<i64>,
        Datum::Int(int) => int,
        Datum::Text(text) => text,
    }
}
