//! The bank of Troubadour's evaluation: one table of accounts, a balance check, and four
//! transactions that move money.
//!
//! Money is moved by `balance = balance + $1`: what is written depends on what the statement finds,
//! and its client is not told.

use margay_client::{Cell, ColumnType, Rng, Schema, TableDef};

use crate::draw::{Keys, Options, stream};
use crate::program::{End, Procedure, Program, Script, Session, Stop, with_ints};

const BALANCE: &str = "SELECT balance FROM margay_accounts WHERE id = $1";
const ADD: &str = "UPDATE margay_accounts SET balance = balance + $1 WHERE id = $2";
const TAKE: &str = "UPDATE margay_accounts SET balance = balance - $1 WHERE id = $2";

/// What an account holds at first.
const START: i64 = 100;
/// Amounts are at most this.
const MAX_AMOUNT: u64 = 50;
/// An overdraft costs this.
const FEE: i64 = 5;
/// How many accounts there are when nobody says.
const ACCOUNTS: u32 = 1000;

/// The program.
#[derive(Clone, Debug)]
pub(crate) struct Bank(pub Options);

impl Bank {
    fn keys(&self) -> Keys {
        self.0.keys(ACCOUNTS)
    }
}

impl Program for Bank {
    fn schema(&self) -> Schema {
        let columns = &[("id", ColumnType::Int), ("balance", ColumnType::Int)];
        let table = TableDef { name: "margay_accounts", key: 1, columns, indexes: &[] };
        let account = |id| (0, vec![Cell::Int(i64::from(id)), Cell::Int(START)]);
        Schema { tables: vec![table], rows: (0..self.keys().count()).map(account).collect() }
    }

    fn client(&self, seed: u64, client: u32, _clients: u32) -> Box<dyn Script> {
        Box::new(Teller { keys: self.keys(), rng: Rng::new(seed, stream(client)) })
    }
}

struct Teller {
    keys: Keys,
    rng: Rng,
}

/// A transaction, with its accounts and amount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bill {
    Balance { account: i64 },
    Deposit { account: i64, amount: i64 },
    Withdraw { account: i64, amount: i64 },
    Transfer { from: i64, to: i64, amount: i64 },
    WithdrawOverdraft { account: i64, amount: i64 },
}

impl Script for Teller {
    /// One in five only reads, as in the paper; the others come equally often.
    fn next(&mut self) -> Box<dyn Procedure> {
        let [account, to] = self.keys.two(&mut self.rng);
        let amount = 1 + self.rng.below(MAX_AMOUNT) as i64;
        Box::new(match self.rng.below(5) {
            0 => Bill::Balance { account },
            1 => Bill::Deposit { account, amount },
            2 => Bill::Withdraw { account, amount },
            3 => Bill::Transfer { from: account, to, amount },
            _ => Bill::WithdrawOverdraft { account, amount },
        })
    }
}

impl Procedure for Bill {
    fn run(&self, session: &mut dyn Session) -> Result<End, Stop> {
        match *self {
            Bill::Balance { account } => drop(balance(session, account)?),
            Bill::Deposit { account, amount } => add(session, account, amount)?,
            Bill::Withdraw { account, amount } => {
                if balance(session, account)? < Some(amount) {
                    return Ok(End::Rollback);
                }
                take(session, account, amount)?;
            }
            Bill::Transfer { from, to, amount } => {
                if balance(session, from)? < Some(amount) {
                    return Ok(End::Rollback);
                }
                take(session, from, amount)?;
                add(session, to, amount)?;
            }
            Bill::WithdrawOverdraft { account, amount } => {
                let short = balance(session, account)? < Some(amount);
                take(session, account, if short { amount + FEE } else { amount })?;
            }
        }
        Ok(End::Commit)
    }
}

fn balance(session: &mut dyn Session, account: i64) -> Result<Option<i64>, Stop> {
    Ok(with_ints(session, BALANCE, &[account])?.int(0))
}

fn add(session: &mut dyn Session, account: i64, amount: i64) -> Result<(), Stop> {
    with_ints(session, ADD, &[amount, account]).map(drop)
}

fn take(session: &mut dyn Session, account: i64, amount: i64) -> Result<(), Stop> {
    with_ints(session, TAKE, &[amount, account]).map(drop)
}
