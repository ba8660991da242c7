//! Random statements here and on PostgreSQL: zero differences.

mod common;

use std::error::Error;
use std::time::{Duration, Instant};

use common::compare::{Tally, Target, cases, episode, expressions, procedures, tpcc_procedures};
use common::procedures::{CASES, POSTGRES};
use margay_servers::Server;
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
        let shows =
            ["SELECT", "CALL"].iter().any(|word| text.starts_with(word)) || text.contains("RETURNING");
        if !shows || text.starts_with("CREATE") {
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
fn connect(url: &str) -> Client {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match Client::connect(url, NoTls) {
            Ok(client) => return client,
            Err(error) if Instant::now() > deadline => panic!("{error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// A server of one's own, for as long as it is kept, and a client of it that is told of errors
/// only.
fn started() -> Option<(Server, Postgres)> {
    let server = margay_servers::started(Server::postgres())?;
    let mut client = connect(server.url());
    client.batch_execute("SET client_min_messages = error").unwrap();
    Some((server, Postgres(client)))
}

/// Rounding, casts, scales of quotients and functions, by example.
const EXPRESSIONS: &[&str] = &[
    "CEIL(-2.55), FLOOR(-2.55), ROUND(-2.55, 1), ROUND(2.5), ROUND(-2.5), ROUND(2.45, 3)",
    "CEIL(7), FLOOR(7), ROUND(7), SIGN(-7), MOD(-7, 4), MOD(7.5, 2)",
    "ROUND(CAST(2.5 AS DOUBLE PRECISION)), ROUND(CAST(3.5 AS DOUBLE PRECISION)), CAST(CAST(2.5 AS DOUBLE PRECISION) AS INT)",
    "CAST(2.5 AS INT), CAST(-2.5 AS INT), CAST(3.5 AS BIGINT), CAST('12' AS INT), CAST(' 7 ' AS BIGINT)",
    "CAST(1.005 AS DECIMAL(5,2)), CAST(-1.005 AS NUMERIC(5,2)), CAST(7 AS NUMERIC(5,2))",
    "GREATEST(1, NULL, 3), LEAST(1, NULL, 3), GREATEST(1, 2.5), LEAST('b', 'a')",
    "CHAR_LENGTH('abc'), OCTET_LENGTH('abc'), LENGTH('héé'), LTRIM('  a '), RTRIM(' a  '), TRIM('  a ')",
    "REPLACE('aXbX', 'X', 'yy'), REPLACE('abc', '', 'z'), CONCAT('a', NULL, 7, 1.50), 'a' || 7, 1.50 || 'b'",
    "SUBSTRING('abcdef' FROM 2 FOR 3), SUBSTR('abcdef', 0, 3), SUBSTR('abcdef', -1, 4), SUBSTR('abc', 2), SUBSTR('abc', 9)",
    "COALESCE(3, 1.5) / 2, CASE WHEN TRUE THEN 1 ELSE 2.5 END / 2, NULLIF(1, 1), NULLIF(1, 2)",
    "1 / 3.0, 2.00 / 3, 100000 / 3.0, 1.5 / 0.3, 0.001 / 3, 12345678.9 / 0.7, 7 / 2, -7 / 2, -7 % 3, 7.5 % 2",
    "1.10 + 2.2, 1.10 * 2.2, 0.1 + 0.2 = 0.3, -9223372036854775808, 9223372036854775807",
    "'A' < 'b', 'a' < 'b', '' < 'a', 'a' LIKE 'A', 'a' ILIKE 'A', 'a%b' LIKE 'a\\%b', 'abc' LIKE '%b%', 'a_c' LIKE 'a!_c' ESCAPE '!'",
    "NULL = 1, NULL IS NULL, (1 = NULL) IS UNKNOWN, 1 IS DISTINCT FROM NULL, NULL IS NOT DISTINCT FROM NULL",
    "1 IN (1, NULL), 2 IN (1, NULL), 2 NOT IN (1, NULL), 2 BETWEEN 1 AND NULL, 0 BETWEEN 1 AND NULL",
    "TRUE AND NULL, FALSE AND NULL, TRUE OR NULL, NOT NULL, TRUE > FALSE, (1 = 1) = TRUE",
    "DATE '2024-02-29' < DATE '2024-03-01', DATE '2024-02-29' = TIMESTAMP '2024-02-29 00:00:00', DATE '2024-02-29' > '2024-01-01'",
    "CAST('2024-02-29' AS DATE), CAST(TIMESTAMP '2024-02-29 13:00:00.5' AS DATE), TIMESTAMP '2024-02-29 13:00:00.5'",
    "CAST(12 AS TEXT), CAST(1.50 AS TEXT), CAST(TRUE AS TEXT), CAST('abc' AS VARCHAR(2)), CAST(DATE '2024-02-29' AS TEXT)",
    "CAST(TRUE AS INT), CAST(0 AS BOOLEAN), ABS(-1.50), ABS(-3), - (2.5), UPPER('aB'), LOWER('aB')",
];

/// The collations of a few languages, where the server has them, besides C.
const COLLATIONS: &[&str] = &["C", "und-x-icu", "en-x-icu", "de-x-icu", "fr-x-icu", "en_US.utf8", "C.utf8"];

/// Where texts have an order here, every collation has it.
#[test]
fn collations_agree_where_texts_are_ordered() {
    let Some((_server, mut target)) = started() else { return };
    let mut has = |name: &str| {
        let asked = format!("SELECT collname FROM pg_collation WHERE collname = '{name}'");
        !target.execute(&asked).unwrap().0.is_empty()
    };
    let known: Vec<&str> = COLLATIONS.iter().copied().filter(|name| has(name)).collect();
    let mut rng = common::Rng(7);
    let letters = ["a", "b", "c", "B", "C", "1", "10", "9", "z", "Z", " ", "-", ""];
    let mut text = || (0..4).map(|_| *rng.pick(&letters)).collect::<String>();
    let (mut ordered, mut open) = (0, 0);
    for _ in 0..1000 {
        let (a, b) = (text(), text());
        let Some(order) = Value::text(&a).sql_cmp(&Value::text(&b), Dialect::Postgres) else {
            open += 1;
            continue;
        };
        ordered += 1;
        for name in &known {
            let asked = format!("SELECT '{a}' < '{b}' COLLATE \"{name}\"");
            let (rows, _) = target.execute(&asked).unwrap();
            assert_eq!(rows, [[Value::Bool(order.is_lt())]], "{asked}");
        }
    }
    println!("{ordered} pairs have an order, {open} have none; {known:?}");
    assert!(ordered > 150 && open > 150, "{ordered} {open}");
}

#[test]
fn stored_procedures() {
    let Some((_server, mut target)) = started() else { return };
    procedures(Dialect::Postgres, CASES, &mut target);
    procedures(Dialect::Postgres, POSTGRES, &mut target);
    tpcc_procedures(Dialect::Postgres, &mut target);
}

#[test]
fn random_statements() {
    let Some((_server, mut target)) = started() else { return };
    target.clear(&[]);
    expressions(Dialect::Postgres, EXPRESSIONS, &mut target);
    let mut tally = Tally::default();
    let mut seed = 1_000_000;
    while tally.cases < cases() {
        seed += 1;
        episode(seed, Dialect::Postgres, 40, &mut target, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.agreed * 10 > tally.cases * 6, "most cases are compared: {tally:?}");
}
