//! TPC-C: a wholesale supplier, five transactions in SQL.
//!
//! # Differs from the specification
//! - Money is in cents, so that all numbers are whole; the columns that no transaction reads
//!   (addresses, the texts of stock) are left out.
//! - One warehouse, so nothing is remote. A district begins without orders. Fewer customers and
//!   items by default: the initial state is part of every history. `--keys` is the number of items.
//! - A value is read, then written; the sum of an order's lines and the number of items that run
//!   low are counted by the client; lines are delivered one by one. So every version that is read
//!   or written shows in the history.

mod run;
mod schema;

use margay_client::{Rng, Schema};

use crate::draw::{Fresh, Keys, Options, stream};
use crate::program::{Procedure, Program, Script};

const ITEMS: u32 = 100;
const DISTRICTS: i64 = 10;
const CUSTOMERS: i64 = 30;

/// The program.
#[derive(Clone, Debug)]
pub(crate) struct Tpcc(pub Options);

impl Program for Tpcc {
    fn schema(&self) -> Schema {
        schema::schema(i64::from(self.0.keys(ITEMS).count()))
    }

    fn client(&self, seed: u64, client: u32, clients: u32) -> Box<dyn Script> {
        let rng = Rng::new(seed, stream(client));
        Box::new(Terminal { items: self.0.keys(ITEMS), rng, fresh: Fresh::new(client, clients) })
    }
}

struct Terminal {
    items: Keys,
    rng: Rng,
    fresh: Fresh,
}

/// Who a customer is: a number, or a last name.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Who {
    Number(i64),
    Name(String),
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Work {
    /// The lines: item and quantity. An item that does not exist makes it roll back.
    NewOrder {
        district: i64,
        customer: i64,
        now: i64,
        lines: Vec<(i64, i64)>,
    },
    Payment {
        district: i64,
        who: Who,
        amount: i64,
        id: i64,
    },
    OrderStatus {
        district: i64,
        who: Who,
    },
    Delivery {
        carrier: i64,
        now: i64,
    },
    StockLevel {
        district: i64,
        threshold: i64,
    },
}

impl Script for Terminal {
    fn next(&mut self) -> Box<dyn Procedure> {
        let district = self.between(1, DISTRICTS);
        let id = self.fresh.next();
        Box::new(match self.rng.below(100) {
            0..45 => self.new_order(district, id),
            45..88 => Work::Payment { district, who: self.who(), amount: self.between(100, 500_000), id },
            88..92 => Work::OrderStatus { district, who: self.who() },
            92..96 => Work::Delivery { carrier: self.between(1, 10), now: id },
            _ => Work::StockLevel { district, threshold: self.between(10, 20) },
        })
    }
}

impl Terminal {
    fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.rng.below((high - low + 1) as u64) as i64
    }

    fn who(&mut self) -> Who {
        let number = self.between(1, CUSTOMERS);
        if self.rng.below(100) < 60 { Who::Name(schema::last_name(number)) } else { Who::Number(number) }
    }

    /// Five to fifteen lines; one order in a hundred has an item that does not exist.
    fn new_order(&mut self, district: i64, now: i64) -> Work {
        let customer = self.between(1, CUSTOMERS);
        let count = self.between(5, 15);
        let mut lines: Vec<(i64, i64)> = (0..count)
            .map(|_| (1 + i64::from(self.items.draw(&mut self.rng)), self.between(1, 10)))
            .collect();
        if self.rng.below(100) == 0
            && let Some(last) = lines.last_mut()
        {
            last.0 = i64::from(self.items.count()) + 1;
        }
        Work::NewOrder { district, customer, now, lines }
    }
}
