//! bank-server: balances, deposits, withdrawals, transfers, withdrawals that may overdraw. One
//! fifth only reads.

use margay_sql::Value;

use crate::support::Random;
use crate::support::log::Shape;
use crate::support::simulate::{Line, Script, Simulator, script};

pub const TABLES: &[Shape<'_>] = &[("accounts", &["id"], &[("id", "int"), ("balance", "int")])];

const ACCOUNTS: i64 = 1000;

pub fn load(simulator: &mut Simulator) {
    for id in 0..ACCOUNTS {
        simulator.row("accounts", &[("id", Value::Int(id)), ("balance", Value::Int(1000))], 1);
    }
}

pub fn transaction(random: &mut Random, _: u64) -> Script {
    let account = |random: &mut Random| Value::Int(random.below(ACCOUNTS as u64) as i64);
    let (a, b, amount) = (account(random), account(random), Value::Int(1 + random.below(50) as i64));
    let line = |text: &str, params: Vec<Value>| -> Line { (text.to_owned(), params) };
    let balance = line("SELECT balance FROM accounts WHERE id = $1", vec![a.clone()]);
    let take = |guard: bool| {
        let text = match guard {
            true => "UPDATE accounts SET balance = balance - $1 WHERE id = $2 AND balance >= $1",
            false => "UPDATE accounts SET balance = balance - $1 WHERE id = $2",
        };
        line(text, vec![amount.clone(), a.clone()])
    };
    let give = |to: Value| {
        line("UPDATE accounts SET balance = balance + $1 WHERE id = $2", vec![amount.clone(), to])
    };
    script(match random.below(5) {
        0 => vec![balance],
        1 => vec![give(b)],
        2 => vec![take(true), balance],
        3 => vec![take(false), give(b)],
        _ => vec![take(false), balance],
    })
}
