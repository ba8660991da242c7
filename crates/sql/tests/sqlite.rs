//! Random statements here and on SQLite: zero differences.

mod common;

use common::compare::{Tally, Target, cases, episode, expressions};
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

/// Rounding, casts and functions, by example.
const EXPRESSIONS: &[&str] = &[
    "ROUND(2.5), ROUND(-2.5), ROUND(2.4), ROUND(7), SIGN(-7), MAX(1, 3), MIN(2, 1), MAX(1, NULL), IIF(1 < 2, 'x', 'y')",
    "7 / 2, -7 / 2, -7 % 3, 1 / 0, 1 % 0, 7.0 / 2, 9223372036854775807 + 1, -9223372036854775808 - 1, 5 * 0.5",
    "IFNULL(NULL, 3), NULLIF(1, 1), COALESCE(3, 1.5) / 2, LENGTH('héé'), LTRIM('  a '), RTRIM(' a  '), TRIM('  a ')",
    "REPLACE('aXbX', 'X', 'yy'), REPLACE('abc', '', 'z'), SUBSTR('abcdef', 2, 3), SUBSTR('abc', 2), SUBSTR('abc', 9)",
    "'a' || 7, 7 || 8, 'a' = 'A', 'a ' = 'a', 'a' < 'B', '' < 'a', 'a' LIKE 'A', 'é' LIKE 'É', 'a%b' LIKE 'a!%b' ESCAPE '!'",
    "NULL = 1, NULL IS NULL, 1 IN (1, NULL), 2 IN (1, NULL), 2 NOT IN (1, NULL), TRUE, FALSE, TRUE + 1, NOT 5, 2 AND 0",
    "CAST(2.7 AS INTEGER), CAST(-2.7 AS INTEGER), CAST('12x' AS INTEGER), CAST('x' AS INTEGER), CAST(5 AS TEXT), CAST('1.5x' AS REAL)",
    "1 < 1.5, 3 = 3.0, 9007199254740993 = 9007199254740992.0, 1e3, 1.50, -0.0 = 0, UPPER('aBé'), LOWER('aBÉ')",
    "CASE 2 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END, 'abc' > 'ab', NOT ('5x' AND 1), ABS(-3), ABS(-2.5), - (2.5), - -3",
];

#[test]
fn random_statements() {
    let mut target = Sqlite(rusqlite::Connection::open_in_memory().unwrap());
    target.clear(&[]);
    expressions(Dialect::Sqlite, EXPRESSIONS, &mut target);
    let mut tally = Tally::default();
    let mut seed = 0;
    while tally.cases < cases() {
        seed += 1;
        episode(seed, Dialect::Sqlite, 40, &mut target, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.agreed * 10 > tally.cases * 6, "most cases are compared: {tally:?}");
}
