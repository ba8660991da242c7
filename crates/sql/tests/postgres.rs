//! Random statements here and on PostgreSQL: zero differences.

mod common;

use std::error::Error;
use std::time::{Duration, Instant};

use common::compare::{Tally, Target, cases, episode};
use common::server::Server;
use margay_sql::{Decimal, Dialect, Value};
use postgres::types::{FromSql, Type};
use postgres::{Client, NoTls};

struct Postgres(Client);

/// A value of any type that the tests use.
struct Any(Value);

impl FromSql<'_> for Any {
    fn from_sql(of: &Type, raw: &[u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Any(match *of {
            Type::BOOL => Value::Bool(bool::from_sql(of, raw)?),
            Type::INT2 => Value::Int(i64::from(i16::from_sql(of, raw)?)),
            Type::INT4 => Value::Int(i64::from(i32::from_sql(of, raw)?)),
            Type::INT8 => Value::Int(i64::from_sql(of, raw)?),
            Type::FLOAT8 => Value::Float(f64::from_sql(of, raw)?),
            Type::NUMERIC => Value::Decimal(numeric(raw).ok_or("a numeric")?),
            // Days since 2000-01-01.
            Type::DATE => Value::Date(i32::from_be_bytes(raw.try_into()?) + 10_957),
            Type::TIMESTAMP => {
                Value::Timestamp(i64::from_be_bytes(raw.try_into()?) + 10_957 * 86_400_000_000)
            }
            _ => Value::text(<&str>::from_sql(of, raw)?),
        }))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Any(Value::Null))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// Groups of four digits, the weight of the first, the sign, and the digits after the point.
fn numeric(raw: &[u8]) -> Option<Decimal> {
    let field = |at: usize| Some(i16::from_be_bytes(raw.get(2 * at..2 * at + 2)?.try_into().ok()?));
    let (count, weight, sign, scale) = (field(0)?, field(1)?, field(2)?, field(3)?);
    let mut mantissa: i128 = 0;
    for at in 0..count {
        mantissa = mantissa.checked_mul(10_000)?.checked_add(i128::from(field(4 + at as usize)?))?;
    }
    // The number is mantissa * 10000^(weight + 1 - count).
    let exponent = 4 * (i32::from(weight) + 1 - i32::from(count)) + i32::from(scale);
    let mantissa = match exponent {
        0.. => mantissa.checked_mul(10i128.checked_pow(exponent as u32)?)?,
        _ => mantissa / 10i128.checked_pow(exponent.unsigned_abs())?,
    };
    Decimal::new(if sign == 0 { mantissa } else { -mantissa }, scale as u32)
}

impl Target for Postgres {
    fn execute(&mut self, text: &str) -> Result<(Vec<Vec<Value>>, u64), String> {
        let shown = |error: postgres::Error| match error.as_db_error() {
            Some(error) => error.message().to_string(),
            None => error.to_string(),
        };
        if !text.starts_with("SELECT") && !text.contains("RETURNING") {
            return self.0.execute(text, &[]).map(|count| (Vec::new(), count)).map_err(shown);
        }
        let rows = self.0.query(text, &[]).map_err(shown)?;
        let cells = |row: &postgres::Row| (0..row.len()).map(|at| row.get::<_, Any>(at).0).collect();
        let rows: Vec<Vec<Value>> = rows.iter().map(cells).collect();
        let count = rows.len() as u64;
        Ok((rows, count))
    }

    fn clear(&mut self, _: &[String]) {
        let reset = "DROP SCHEMA public CASCADE; CREATE SCHEMA public";
        self.0.batch_execute(reset).unwrap();
    }
}

/// The port opens a little before the server takes connections.
fn connect(port: u16) -> Client {
    let address = format!("host=127.0.0.1 port={port} user=margay dbname=postgres");
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match Client::connect(&address, NoTls) {
            Ok(client) => return client,
            Err(error) if Instant::now() > deadline => panic!("{error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

#[test]
fn random_statements() {
    let server = match Server::postgres() {
        Ok(server) => server,
        Err(reason) => {
            println!("SKIPPED: {reason}");
            return;
        }
    };
    let mut target = Postgres(connect(server.port));
    target.0.batch_execute("SET client_min_messages = error").unwrap();
    let mut tally = Tally::default();
    let mut seed = 1_000_000;
    while tally.cases < cases() {
        seed += 1;
        episode(seed, Dialect::Postgres, 40, &mut target, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.agreed * 10 > tally.cases * 6, "most cases are compared: {tally:?}");
}
