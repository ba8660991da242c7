//! The speed goals: cached statements bound, predicates matched, New-Orders evaluated, per second
//! and core.
//!
//! `cargo bench -p margay-sql`; an argument selects the benchmarks whose names contain it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use margay_sql::{Database, Dialect, Predicate, Statement, StatementCache, Value};

#[path = "../tests/common/tpcc.rs"]
#[allow(dead_code, reason = "the tests use more of the workload than the benchmarks")]
mod tpcc;

fn main() {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    for (name, goal, run) in [
        ("bind cached statements", 2_000_000.0, bind as fn() -> f64),
        ("match a two-column range", 30_000_000.0, matches),
        ("evaluate New-Order", 20_000.0, new_order),
    ] {
        if name.contains(&wanted) {
            // The best of three: the machine may be busy.
            let rate = (0..3).map(|_| run()).fold(0.0, f64::max);
            println!("{name:28} {rate:14.0}/s   goal {goal:12.0}/s   {:.2}x", rate / goal);
        }
    }
}

/// Calls `step` for about a second; gives how often it did its work per second of processor time.
fn rate(mut step: impl FnMut() -> u64) -> f64 {
    let (start, used) = (Instant::now(), processor_time());
    let mut done = 0;
    while start.elapsed() < Duration::from_secs(1) {
        done += step();
    }
    let time = match (used, processor_time()) {
        (Some(before), Some(after)) if after > before => after - before,
        _ => start.elapsed(),
    };
    done as f64 / time.as_secs_f64()
}

/// The time that this process has had a processor for, where the system tells.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

fn bind() -> f64 {
    let mut database = Database::new(Dialect::Postgres);
    database.run("CREATE TABLE accounts (id INT PRIMARY KEY, balance BIGINT, owner TEXT)", &[]).unwrap();
    let texts: Vec<String> = (0..1_000)
        .map(|i| match i % 3 {
            0 => format!("SELECT balance FROM accounts WHERE id = {i}"),
            1 => format!("UPDATE accounts SET balance = balance + {i} WHERE id = {}", i * 7),
            _ => format!("SELECT id FROM accounts WHERE balance > {i} AND owner = 'user{i}'"),
        })
        .collect();
    let mut cache = StatementCache::new();
    rate(|| {
        for text in &texts {
            black_box(cache.bind(&database, text, &[]).unwrap());
        }
        texts.len() as u64
    })
}

fn matches() -> f64 {
    let predicate = Predicate::parse("x >= 10 AND x < 60 AND y > 20 AND y <= 80", Dialect::Generic).unwrap();
    let bound = predicate.bind(&["k", "x", "y"]).unwrap();
    let row = |i: i64| [Value::Int(i), Value::Int(i * 7 % 100), Value::Int(i * 13 % 100)];
    let rows: Vec<[Value; 3]> = (0..10_000).map(row).collect();
    rate(|| {
        let found = rows.iter().filter(|row| bound.matches(row.as_slice()).unwrap()).count();
        black_box(found);
        rows.len() as u64
    })
}

/// One warehouse of 10 districts, 300 customers each, and 10,000 items; orders of 10 lines on
/// average.
fn new_order() -> f64 {
    let mut database = Database::new(Dialect::Postgres);
    for text in tpcc::TABLES.iter().map(ToString::to_string).chain(tpcc::load(10, 300, 10_000)) {
        database.run(&text, &[]).unwrap();
    }
    let statements: Vec<Statement> =
        tpcc::NEW_ORDER.iter().map(|text| database.prepare(&tpcc::numbered(text)).unwrap()).collect();
    let mut number = 0;
    rate(|| {
        for _ in 0..100 {
            number += 1;
            order(&mut database, &statements, number);
        }
        100
    })
}

fn order(database: &mut Database, statements: &[Statement], number: i64) {
    let [warehouse, district, advance, customer, insert, insert_new, item, stock, update, line] = statements
    else {
        panic!("ten statements");
    };
    let (d, c, lines) = (number % 10 + 1, number * 7 % 300 + 1, 5 + number % 11);
    let int = Value::Int;
    let mut transaction = database.begin();
    let mut run = |statement: &Statement, params: &[Value]| {
        database.execute(&mut transaction, statement, params).unwrap()
    };
    run(warehouse, &[int(1)]);
    let id = run(district, &[int(1), int(d)]).rows[0][1].clone();
    run(advance, &[int(1), int(d)]);
    run(customer, &[int(1), int(d), int(c)]);
    let date = Value::text("2024-01-01 00:00:00");
    run(insert, &[id.clone(), int(d), int(1), int(c), date, int(lines), int(1)]);
    run(insert_new, &[id.clone(), int(d), int(1)]);
    let info = Value::text("dist");
    for l in 1..=lines {
        let i = (number * 31 + l * 977) % 10_000 + 1;
        let Value::Decimal(price) = run(item, &[int(i)]).rows[0][0] else { panic!("a price") };
        let Value::Int(quantity) = run(stock, &[int(i), int(1)]).rows[0][0] else { panic!("a quantity") };
        let left = if quantity > 15 { quantity - 5 } else { quantity + 86 };
        run(update, &[int(left), int(5), int(0), int(i), int(1)]);
        let amount = Value::Decimal(price.checked_mul(5.into()).unwrap());
        run(line, &[id.clone(), int(d), int(1), int(l), int(i), int(1), int(5), amount, info.clone()]);
    }
    database.commit(transaction);
}
