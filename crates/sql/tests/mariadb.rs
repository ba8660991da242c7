//! Random statements here and on MariaDB: zero differences.

mod common;

use common::compare::{Tally, Target, cases, episode};
use common::server::Server;
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

fn connect(port: u16) -> mysql::Conn {
    let options =
        mysql::OptsBuilder::new().ip_or_hostname(Some("127.0.0.1")).tcp_port(port).user(Some("root"));
    let options = options.prefer_socket(false);
    for _ in 0..200 {
        if let Ok(connection) = mysql::Conn::new(options.clone()) {
            return connection;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    mysql::Conn::new(options).unwrap()
}

#[test]
fn random_statements() {
    let server = match Server::mariadb() {
        Ok(server) => server,
        Err(reason) => {
            println!("SKIPPED: {reason}");
            return;
        }
    };
    let mut target = MariaDb(connect(server.port));
    let mut tally = Tally::default();
    let mut seed = 2_000_000;
    while tally.cases < cases() {
        seed += 1;
        episode(seed, Dialect::MySql, 40, &mut target, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.agreed * 10 > tally.cases * 5, "most cases are compared: {tally:?}");
}
