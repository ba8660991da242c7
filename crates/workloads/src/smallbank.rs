//! SmallBank (Alomari, Cahill, Fekete, Röhm): customers with a savings and a checking account, five
//! transactions, and write skew between WriteCheck, which looks at both accounts and writes one,
//! and TransactSavings, which writes the other.
//!
//! Balances are read, then written as values, so that every version shows in the history.

use margay_client::{Cell, ColumnType, Rng, Schema, TableDef};

use crate::draw::{Keys, Options, stream};
use crate::program::{End, Procedure, Program, Script, Session, Stop, with_ints};

const SAVINGS: &str = "SELECT bal FROM margay_savings WHERE custid = $1";
const CHECKING: &str = "SELECT bal FROM margay_checking WHERE custid = $1";
const SET_SAVINGS: &str = "UPDATE margay_savings SET bal = $2 WHERE custid = $1";
const SET_CHECKING: &str = "UPDATE margay_checking SET bal = $2 WHERE custid = $1";

const CUSTOMERS: u32 = 1000;
const START: i64 = 1000;
const MAX_AMOUNT: u64 = 100;

/// The program.
#[derive(Clone, Debug)]
pub(crate) struct SmallBank(pub Options);

impl Program for SmallBank {
    fn schema(&self) -> Schema {
        const COLUMNS: &[(&str, ColumnType)] = &[("custid", ColumnType::Int), ("bal", ColumnType::Int)];
        let table = |name| TableDef { name, key: 1, columns: COLUMNS, indexes: &[] };
        let tables = vec![table("margay_savings"), table("margay_checking")];
        let customers = 0..i64::from(self.0.keys(CUSTOMERS).count());
        let account = |(table, id)| (table, vec![Cell::Int(id), Cell::Int(START)]);
        let rows = (0..2).flat_map(|table| customers.clone().map(move |id| (table, id))).map(account);
        Schema { tables, rows: rows.collect() }
    }

    fn client(&self, seed: u64, client: u32, _clients: u32) -> Box<dyn Script> {
        Box::new(Teller { keys: self.0.keys(CUSTOMERS), rng: Rng::new(seed, stream(client)) })
    }
}

struct Teller {
    keys: Keys,
    rng: Rng,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bill {
    Balance { customer: i64 },
    DepositChecking { customer: i64, amount: i64 },
    TransactSavings { customer: i64, amount: i64 },
    Amalgamate { from: i64, to: i64 },
    WriteCheck { customer: i64, amount: i64 },
}

impl Script for Teller {
    /// The five come equally often.
    fn next(&mut self) -> Box<dyn Procedure> {
        let [customer, to] = self.keys.two(&mut self.rng);
        let amount = 1 + self.rng.below(MAX_AMOUNT) as i64;
        Box::new(match self.rng.below(5) {
            0 => Bill::Balance { customer },
            1 => Bill::DepositChecking { customer, amount },
            2 => {
                let sign = if self.rng.below(2) == 0 { 1 } else { -1 };
                Bill::TransactSavings { customer, amount: sign * amount }
            }
            3 => Bill::Amalgamate { from: customer, to },
            _ => Bill::WriteCheck { customer, amount },
        })
    }
}

impl Procedure for Bill {
    fn run(&self, session: &mut dyn Session) -> Result<End, Stop> {
        match *self {
            Bill::Balance { customer } => {
                read(session, SAVINGS, customer)?;
                read(session, CHECKING, customer)?;
            }
            Bill::DepositChecking { customer, amount } => {
                let balance = read(session, CHECKING, customer)?;
                write(session, SET_CHECKING, customer, balance + amount)?;
            }
            Bill::TransactSavings { customer, amount } => {
                let balance = read(session, SAVINGS, customer)?;
                if balance + amount < 0 {
                    return Ok(End::Rollback);
                }
                write(session, SET_SAVINGS, customer, balance + amount)?;
            }
            Bill::Amalgamate { from, to } => {
                let all = read(session, SAVINGS, from)? + read(session, CHECKING, from)?;
                let balance = read(session, CHECKING, to)?;
                write(session, SET_SAVINGS, from, 0)?;
                write(session, SET_CHECKING, from, 0)?;
                write(session, SET_CHECKING, to, balance + all)?;
            }
            Bill::WriteCheck { customer, amount } => {
                let checking = read(session, CHECKING, customer)?;
                let short = read(session, SAVINGS, customer)? + checking < amount;
                // A check that is not covered costs a penalty of 1.
                write(session, SET_CHECKING, customer, checking - amount - i64::from(short))?;
            }
        }
        Ok(End::Commit)
    }
}

fn read(session: &mut dyn Session, text: &'static str, customer: i64) -> Result<i64, Stop> {
    Ok(with_ints(session, text, &[customer])?.int(0).unwrap_or_default())
}

fn write(session: &mut dyn Session, text: &'static str, customer: i64, balance: i64) -> Result<(), Stop> {
    with_ints(session, text, &[customer, balance]).map(drop)
}
