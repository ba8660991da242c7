//! The five transactions. Whoever writes a part of a row has read all of it: then the whole version
//! shows in the history.

use std::collections::BTreeSet;

use margay_client::Cell;

use super::{DISTRICTS, Who, Work};
use crate::program::{End, Procedure, Session, Stop, with_ints};

const WAREHOUSE: i64 = 1;

const W_TAX: &str = "SELECT w_tax FROM margay_warehouse WHERE w_id = $1";
const W_YTD: &str = "SELECT w_ytd, w_tax FROM margay_warehouse WHERE w_id = $1";
const SET_W_YTD: &str = "UPDATE margay_warehouse SET w_ytd = $2 WHERE w_id = $1";
const DISTRICT: &str =
    "SELECT d_tax, d_next_o_id, d_ytd FROM margay_district WHERE d_w_id = $1 AND d_id = $2";
const SET_NEXT: &str = "UPDATE margay_district SET d_next_o_id = $3 WHERE d_w_id = $1 AND d_id = $2";
const D_YTD: &str = "SELECT d_ytd, d_tax, d_next_o_id FROM margay_district WHERE d_w_id = $1 AND d_id = $2";
const SET_D_YTD: &str = "UPDATE margay_district SET d_ytd = $3 WHERE d_w_id = $1 AND d_id = $2";
const DISCOUNT: &str = "SELECT c_discount, c_last, c_credit FROM margay_customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
const BY_NAME: &str = "SELECT c_w_id, c_d_id, c_id, c_last FROM margay_customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_id";
const CUSTOMER: &str = "SELECT c_balance, c_ytd_payment, c_payment_cnt, c_credit, c_data, c_last, c_discount, c_delivery_cnt FROM margay_customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
const PAY: &str = "UPDATE margay_customer SET c_balance = $4, c_ytd_payment = $5, c_payment_cnt = $6 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
const PAY_BAD: &str = "UPDATE margay_customer SET c_balance = $4, c_ytd_payment = $5, c_payment_cnt = $6, c_data = $7 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
const NEW_HISTORY: &str =
    "INSERT INTO margay_history (h_id, h_c_d_id, h_c_w_id, h_c_id, h_amount) VALUES ($1, $2, $3, $4, $5)";
const NEW_ORDERS: &str = "INSERT INTO margay_orders (o_w_id, o_d_id, o_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt) VALUES ($1, $2, $3, $4, $5, NULL, $6)";
const NEW_NEW_ORDER: &str = "INSERT INTO margay_new_order (no_w_id, no_d_id, no_o_id) VALUES ($1, $2, $3)";
const PRICE: &str = "SELECT i_price, i_name FROM margay_item WHERE i_id = $1";
const STOCK: &str =
    "SELECT s_quantity, s_ytd, s_order_cnt FROM margay_stock WHERE s_w_id = $1 AND s_i_id = $2";
const SET_STOCK: &str =
    "UPDATE margay_stock SET s_quantity = $3, s_ytd = $4, s_order_cnt = $5 WHERE s_w_id = $1 AND s_i_id = $2";
const NEW_LINE: &str = "INSERT INTO margay_order_line (ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_delivery_d, ol_quantity, ol_amount) VALUES ($1, $2, $3, $4, $5, NULL, $6, $7)";
const LATEST: &str = "SELECT o_w_id, o_d_id, o_id, o_entry_d, o_carrier_id FROM margay_orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1";
const LINES: &str = "SELECT ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id, ol_amount, ol_delivery_d, ol_quantity FROM margay_order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3";
const OLDEST: &str = "SELECT no_w_id, no_d_id, no_o_id FROM margay_new_order WHERE no_w_id = $1 AND no_d_id = $2 ORDER BY no_o_id LIMIT 1";
const DELETE_NEW: &str = "DELETE FROM margay_new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3";
const ORDERED_BY: &str = "SELECT o_c_id, o_entry_d, o_carrier_id, o_ol_cnt FROM margay_orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3";
const SET_CARRIER: &str =
    "UPDATE margay_orders SET o_carrier_id = $4 WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3";
const DELIVER_LINE: &str = "UPDATE margay_order_line SET ol_delivery_d = $5 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3 AND ol_number = $4";
const SET_BALANCE: &str = "UPDATE margay_customer SET c_balance = $4, c_delivery_cnt = $5 WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
const RECENT: &str = "SELECT ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id FROM margay_order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $3 AND ol_o_id < $4";

/// What a bad customer's note keeps of itself.
const NOTE: usize = 200;

impl Procedure for Work {
    fn run(&self, session: &mut dyn Session) -> Result<End, Stop> {
        match self {
            Work::NewOrder { district, customer, now, lines } => {
                return new_order(session, [*district, *customer, *now], lines);
            }
            Work::Payment { district, who, amount, id } => payment(session, *district, who, *amount, *id)?,
            Work::OrderStatus { district, who } => order_status(session, *district, who)?,
            Work::Delivery { carrier, now } => {
                for district in 1..=DISTRICTS {
                    delivery(session, district, *carrier, *now)?;
                }
            }
            Work::StockLevel { district, threshold } => stock_level(session, *district, *threshold)?,
        }
        Ok(End::Commit)
    }
}

/// The first column of a row that must be there.
fn first(session: &mut dyn Session, text: &'static str, ints: &[i64]) -> Result<i64, Stop> {
    Ok(with_ints(session, text, ints)?.int(0).unwrap_or_default())
}

fn new_order(
    session: &mut dyn Session,
    [district, customer, now]: [i64; 3],
    lines: &[(i64, i64)],
) -> Result<End, Stop> {
    with_ints(session, DISCOUNT, &[WAREHOUSE, district, customer])?;
    with_ints(session, W_TAX, &[WAREHOUSE])?;
    let next = with_ints(session, DISTRICT, &[WAREHOUSE, district])?.int(1).unwrap_or_default();
    with_ints(session, SET_NEXT, &[WAREHOUSE, district, next + 1])?;
    with_ints(session, NEW_ORDERS, &[WAREHOUSE, district, next, customer, now, lines.len() as i64])?;
    with_ints(session, NEW_NEW_ORDER, &[WAREHOUSE, district, next])?;
    for (number, &(item, quantity)) in (1..).zip(lines) {
        let Some(price) = with_ints(session, PRICE, &[item])?.int(0) else { return Ok(End::Rollback) };
        take_stock(session, item, quantity)?;
        let line = [WAREHOUSE, district, next, number, item, quantity, quantity * price];
        with_ints(session, NEW_LINE, &line)?;
    }
    Ok(End::Commit)
}

/// A stock that would run low is filled up.
fn take_stock(session: &mut dyn Session, item: i64, quantity: i64) -> Result<(), Stop> {
    let stock = with_ints(session, STOCK, &[WAREHOUSE, item])?;
    let [left, ytd, orders] = [0, 1, 2].map(|column| stock.int(column).unwrap_or_default());
    let left = if left >= quantity + 10 { left - quantity } else { left - quantity + 91 };
    with_ints(session, SET_STOCK, &[WAREHOUSE, item, left, ytd + quantity, orders + 1]).map(drop)
}

/// The customer's number; of several of one name the middle one's.
fn find(session: &mut dyn Session, district: i64, who: &Who) -> Result<i64, Stop> {
    let name = match who {
        Who::Number(number) => return Ok(*number),
        Who::Name(name) => Cell::Text(name.clone()),
    };
    let found = session.sql(BY_NAME, &[Cell::Int(WAREHOUSE), Cell::Int(district), name])?;
    let middle = found.rows().len().div_ceil(2).saturating_sub(1);
    Ok(found.rows().nth(middle).and_then(|row| row[2].int()).unwrap_or(1))
}

fn payment(session: &mut dyn Session, district: i64, who: &Who, amount: i64, id: i64) -> Result<(), Stop> {
    let ytd = first(session, W_YTD, &[WAREHOUSE])?;
    with_ints(session, SET_W_YTD, &[WAREHOUSE, ytd + amount])?;
    let ytd = first(session, D_YTD, &[WAREHOUSE, district])?;
    with_ints(session, SET_D_YTD, &[WAREHOUSE, district, ytd + amount])?;
    let customer = find(session, district, who)?;
    let found = with_ints(session, CUSTOMER, &[WAREHOUSE, district, customer])?;
    let [balance, paid, count] = [0, 1, 2].map(|column| found.int(column).unwrap_or_default());
    let mut params =
        [WAREHOUSE, district, customer, balance - amount, paid + amount, count + 1].map(Cell::Int).to_vec();
    match found.cells.get(3..5) {
        Some([Cell::Text(credit), Cell::Text(note)]) if credit == "BC" => {
            let note: String = format!("{customer} {district} {amount} {note}").chars().take(NOTE).collect();
            params.push(Cell::Text(note));
            session.sql(PAY_BAD, &params)?;
        }
        _ => drop(session.sql(PAY, &params)?),
    }
    with_ints(session, NEW_HISTORY, &[id, district, WAREHOUSE, customer, amount]).map(drop)
}

fn order_status(session: &mut dyn Session, district: i64, who: &Who) -> Result<(), Stop> {
    let customer = find(session, district, who)?;
    with_ints(session, CUSTOMER, &[WAREHOUSE, district, customer])?;
    let latest = with_ints(session, LATEST, &[WAREHOUSE, district, customer])?.int(2);
    match latest {
        Some(order) => with_ints(session, LINES, &[WAREHOUSE, district, order]).map(drop),
        None => Ok(()),
    }
}

fn delivery(session: &mut dyn Session, district: i64, carrier: i64, now: i64) -> Result<(), Stop> {
    let Some(order) = with_ints(session, OLDEST, &[WAREHOUSE, district])?.int(2) else { return Ok(()) };
    let key = [WAREHOUSE, district, order];
    with_ints(session, DELETE_NEW, &key)?;
    let customer = first(session, ORDERED_BY, &key)?;
    with_ints(session, SET_CARRIER, &[WAREHOUSE, district, order, carrier])?;
    let lines = with_ints(session, LINES, &key)?;
    for line in lines.rows() {
        let number = line[3].int().unwrap_or_default();
        with_ints(session, DELIVER_LINE, &[WAREHOUSE, district, order, number, now])?;
    }
    let total: i64 = lines.rows().filter_map(|line| line[5].int()).sum();
    let found = with_ints(session, CUSTOMER, &[WAREHOUSE, district, customer])?;
    let [balance, deliveries] = [0, 7].map(|column| found.int(column).unwrap_or_default());
    with_ints(session, SET_BALANCE, &[WAREHOUSE, district, customer, balance + total, deliveries + 1])
        .map(drop)
}

/// The items of the last twenty orders, and which of them run low.
fn stock_level(session: &mut dyn Session, district: i64, threshold: i64) -> Result<(), Stop> {
    let next = with_ints(session, DISTRICT, &[WAREHOUSE, district])?.int(1).unwrap_or_default();
    let recent = with_ints(session, RECENT, &[WAREHOUSE, district, next - 20, next])?;
    let items: BTreeSet<i64> = recent.rows().filter_map(|row| row[4].int()).collect();
    let mut low = 0;
    for item in items {
        low += i64::from(first(session, STOCK, &[WAREHOUSE, item])? < threshold);
    }
    // Nobody asks for the number: it is what a clerk would look at.
    let _ = low;
    Ok(())
}
