//! Random statements here and on SQLite: zero differences.

mod common;

use common::compare::{Tally, Target, cases, episode};
use margay_sql::{Dialect, Value};
use rusqlite::types::ValueRef;

struct Sqlite(rusqlite::Connection);

fn value(value: ValueRef) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Real(number) => Value::Float(number),
        ValueRef::Text(text) => Value::text(String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => Value::Bytes(bytes.into()),
    }
}

impl Target for Sqlite {
    fn execute(&mut self, text: &str) -> Result<(Vec<Vec<Value>>, u64), String> {
        let mut statement = self.0.prepare(text).map_err(|error| error.to_string())?;
        let width = statement.column_count();
        let mut rows = Vec::new();
        let mut cursor = statement.query([]).map_err(|error| error.to_string())?;
        while let Some(row) = cursor.next().map_err(|error| error.to_string())? {
            rows.push((0..width).map(|at| value(row.get_ref(at).unwrap())).collect());
        }
        drop(cursor);
        drop(statement);
        Ok((rows, self.0.changes()))
    }

    fn clear(&mut self, _: &[String]) {
        self.0 = rusqlite::Connection::open_in_memory().unwrap();
    }
}

#[test]
fn random_statements() {
    let mut target = Sqlite(rusqlite::Connection::open_in_memory().unwrap());
    let mut tally = Tally::default();
    let mut seed = 0;
    while tally.cases < cases() {
        seed += 1;
        episode(seed, Dialect::Sqlite, 40, &mut target, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.agreed * 10 > tally.cases * 6, "most cases are compared: {tally:?}");
}
