//! Random statements here and on MariaDB: zero differences.

mod common;

use common::compare::{Tally, Target, cases, episode, expressions, procedures, tpcc_procedures};
use common::procedures::{CASES, MYSQL};
use margay_servers::Server;
use margay_sql::{Dialect, Value};
use mysql::consts::ColumnType;
use mysql::prelude::Queryable;

struct MariaDb(mysql::Conn);

/// A value of the text protocol, by its column's type.
fn value(of: ColumnType, value: mysql::Value) -> Value {
    let mysql::Value::Bytes(bytes) = value else { return Value::Null };
    let text = String::from_utf8_lossy(&bytes);
    match of {
        ColumnType::MYSQL_TYPE_TINY
        | ColumnType::MYSQL_TYPE_SHORT
        | ColumnType::MYSQL_TYPE_LONG
        | ColumnType::MYSQL_TYPE_INT24
        | ColumnType::MYSQL_TYPE_LONGLONG => Value::Int(text.parse().unwrap()),
        ColumnType::MYSQL_TYPE_NEWDECIMAL => Value::Decimal(text.parse().unwrap()),
        ColumnType::MYSQL_TYPE_DOUBLE => Value::Float(text.parse().unwrap()),
        ColumnType::MYSQL_TYPE_DATE => Value::date(&text).unwrap(),
        ColumnType::MYSQL_TYPE_DATETIME => Value::timestamp(&text).unwrap(),
        _ => Value::text(text),
    }
}

impl Target for MariaDb {
    fn execute(&mut self, text: &str) -> Result<(Vec<Vec<Value>>, u64), String> {
        let mut rows = Vec::new();
        let result = self.0.query_iter(text).map_err(|error| error.to_string())?;
        for row in result {
            let row = row.map_err(|error| error.to_string())?;
            let types: Vec<ColumnType> = row.columns_ref().iter().map(mysql::Column::column_type).collect();
            rows.push(types.into_iter().zip(row.unwrap()).map(|(of, cell)| value(of, cell)).collect());
        }
        Ok((rows, self.0.affected_rows()))
    }

    fn clear(&mut self, _: &[String]) {
        self.0.query_drop("DROP DATABASE IF EXISTS margay").unwrap();
        self.0.query_drop("CREATE DATABASE margay").unwrap();
        self.0.query_drop("USE margay").unwrap();
    }
}

fn connect(url: &str) -> mysql::Conn {
    let options = mysql::OptsBuilder::from_opts(mysql::Opts::from_url(url).unwrap()).prefer_socket(false);
    for _ in 0..200 {
        if let Ok(connection) = mysql::Conn::new(options.clone()) {
            return connection;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    mysql::Conn::new(options).unwrap()
}

/// A server of one's own, for as long as it is kept, and a client of it.
fn started() -> Option<(Server, MariaDb)> {
    let server = margay_servers::started(Server::mariadb())?;
    let client = connect(server.url());
    Some((server, MariaDb(client)))
}

/// Rounding, casts, scales of quotients and functions, by example.
const EXPRESSIONS: &[&str] = &[
    "ROUND(-2.55, 1), ROUND(2.5), ROUND(-2.5), ROUND(2.45, 3), ROUND(7, 1), FLOOR(7), CEIL(7), SIGN(-7)",
    "MOD(-7, 4), MOD(7.5, 2), -7 % 3, 7 DIV 2, -7 DIV 2, 7.5 DIV 2, 1 / 0, 1 % 0, 1 DIV 0",
    "1 / 3, 2 / 3, 2.00 / 3, 7 / 2, -7 / 2, 1.5 / 0.3, 0.001 / 3",
    "GREATEST(1, NULL), LEAST(3, 1), GREATEST('b', 'A'), IFNULL(NULL, 3), IF(1 < 2, 'x', 'y'), NULLIF(1, 1)",
    "CHAR_LENGTH('abc'), LENGTH('abc'), LTRIM('  a '), RTRIM(' a  '), TRIM('  a '), REPLACE('aXbX', 'X', 'yy')",
    "CONCAT('a', 7, 1.50), CONCAT('a', NULL), SUBSTRING('abcdef', 2, 3), SUBSTR('abc', 2), SUBSTRING('abcdef' FROM 3 FOR 2)",
    "'a' = 'A', 'a ' = 'b', 'a' < 'B', '' < 'a', 'a ' < 'a b', 'a' LIKE 'A', 'a ' LIKE 'a', 'a%b' LIKE 'a!%b' ESCAPE '!'",
    "'1' = 1, '1x' = 1, 'x' = 0, '1.5' = 1.5, '2' > 10, 1 <=> NULL, NULL <=> NULL, 2 <=> 2",
    "NULL = 1, NULL IS NULL, (1 = NULL) IS UNKNOWN, 1 IN (1, NULL), 2 IN (1, NULL), 2 NOT IN (1, NULL)",
    "TRUE AND NULL, FALSE AND NULL, TRUE OR NULL, NOT NULL, (1 = 1) = TRUE, NOT 5, 2 AND 0, TRUE + 1",
    "DATE '2024-02-29' < DATE '2024-03-01', DATE '2024-02-29' > '2024-01-01', CAST('2024-02-29' AS DATE)",
    "CAST(2.5 AS SIGNED), CAST(-2.5 AS SIGNED), CAST('12' AS SIGNED), CAST(1.005 AS DECIMAL(5,2)), CAST(7 AS DECIMAL(5,2))",
    "1.10 + 2.2, 1.10 * 2.2, 0.1 + 0.2 = 0.3, 1.5e0 + 1, 2e0 / 4, ABS(-1.50), ABS(-3), UPPER('aB'), LOWER('aB')",
    "CASE 2 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END, COALESCE(NULL, NULL, 5), - (2.5), -9223372036854775808",
];

#[test]
fn stored_procedures() {
    let Some((_server, mut target)) = started() else { return };
    procedures(Dialect::MySql, CASES, &mut target);
    procedures(Dialect::MySql, MYSQL, &mut target);
    tpcc_procedures(Dialect::MySql, &mut target);
}

#[test]
fn random_statements() {
    let Some((_server, mut target)) = started() else { return };
    target.clear(&[]);
    expressions(Dialect::MySql, EXPRESSIONS, &mut target);
    let mut tally = Tally::default();
    let mut seed = 2_000_000;
    while tally.cases < cases() {
        seed += 1;
        episode(seed, Dialect::MySql, 40, &mut target, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.agreed * 10 > tally.cases * 5, "most cases are compared: {tally:?}");
}
