//! TPC-C: New-Order 45 %, Payment 43 %, Delivery 4 %, Order-Status 4 %, Stock-Level 4 %; one
//! warehouse of ten districts.

use margay_sql::Value;

use crate::support::Random;
use crate::support::log::Shape;
use crate::support::simulate::{Line, Script, Simulator};

pub const TABLES: &[Shape<'_>] = &[
    ("warehouse", &["w_id"], &[("w_id", "int"), ("w_tax", "int"), ("w_ytd", "int")]),
    (
        "district",
        &["d_w_id", "d_id"],
        &[("d_w_id", "int"), ("d_id", "int"), ("d_tax", "int"), ("d_ytd", "int"), ("d_next_o_id", "int")],
    ),
    (
        "customer",
        &["c_w_id", "c_d_id", "c_id"],
        &[
            ("c_w_id", "int"),
            ("c_d_id", "int"),
            ("c_id", "int"),
            ("c_last", "text"),
            ("c_balance", "int"),
            ("c_payments", "int"),
        ],
    ),
    ("history", &["h_id"], &[("h_id", "int"), ("h_c_id", "int"), ("h_d_id", "int"), ("h_amount", "int")]),
    (
        "orders",
        &["o_w_id", "o_d_id", "o_id"],
        &[
            ("o_w_id", "int"),
            ("o_d_id", "int"),
            ("o_id", "int"),
            ("o_c_id", "int"),
            ("o_carrier", "int"),
            ("o_lines", "int"),
        ],
    ),
    (
        "new_order",
        &["no_w_id", "no_d_id", "no_o_id"],
        &[("no_w_id", "int"), ("no_d_id", "int"), ("no_o_id", "int")],
    ),
    (
        "order_line",
        &["ol_w_id", "ol_d_id", "ol_o_id", "ol_number"],
        &[
            ("ol_w_id", "int"),
            ("ol_d_id", "int"),
            ("ol_o_id", "int"),
            ("ol_number", "int"),
            ("ol_i_id", "int"),
            ("ol_delivered", "int"),
            ("ol_amount", "int"),
        ],
    ),
    ("item", &["i_id"], &[("i_id", "int"), ("i_price", "int"), ("i_name", "text")]),
    (
        "stock",
        &["s_w_id", "s_i_id"],
        &[("s_w_id", "int"), ("s_i_id", "int"), ("s_quantity", "int"), ("s_ytd", "int"), ("s_orders", "int")],
    ),
];

const DISTRICTS: u64 = 10;
const CUSTOMERS: u64 = 300;
const ITEMS: u64 = 1000;
const NAMES: u64 = 100;

fn int(n: u64) -> Value {
    Value::Int(n as i64)
}

fn line(text: &str, params: Vec<Value>) -> Line {
    (text.to_owned(), params)
}

pub fn load(simulator: &mut Simulator) {
    simulator.row("warehouse", &[("w_id", int(1)), ("w_tax", int(7)), ("w_ytd", int(0))], 1);
    for d in 1..=DISTRICTS {
        let row = [
            ("d_w_id", int(1)),
            ("d_id", int(d)),
            ("d_tax", int(d)),
            ("d_ytd", int(0)),
            ("d_next_o_id", int(1)),
        ];
        simulator.row("district", &row, 2);
        for c in 1..=CUSTOMERS {
            let row = [
                ("c_w_id", int(1)),
                ("c_d_id", int(d)),
                ("c_id", int(c)),
                ("c_last", Value::text(format!("NAME{}", c % NAMES))),
                ("c_balance", int(0)),
                ("c_payments", int(0)),
            ];
            simulator.row("customer", &row, 3);
        }
    }
    for i in 1..=ITEMS {
        let name = Value::text(format!("item{i}"));
        simulator.row("item", &[("i_id", int(i)), ("i_price", int(1 + i % 100)), ("i_name", name)], 1);
        let row = [
            ("s_w_id", int(1)),
            ("s_i_id", int(i)),
            ("s_quantity", int(50)),
            ("s_ytd", int(0)),
            ("s_orders", int(0)),
        ];
        simulator.row("stock", &row, 2);
    }
}

pub fn transaction(random: &mut Random, number: u64) -> Script {
    let (d, c) = (int(1 + random.below(DISTRICTS)), int(1 + random.below(CUSTOMERS)));
    match random.below(100) {
        0..45 => new_order(random, d, c),
        45..88 => payment(random, number, d, c),
        88..92 => delivery(random),
        92..96 => order_status(d, c),
        _ => stock_level(d),
    }
}

/// The number in the first column of the first row.
fn first(rows: &[Vec<Value>]) -> Option<Value> {
    rows.first().and_then(|row| row.first()).filter(|value| !value.is_null()).cloned()
}

fn new_order(random: &mut Random, d: Value, c: Value) -> Script {
    let lines: Vec<(u64, u64)> =
        (0..5 + random.below(11)).map(|_| (1 + random.below(ITEMS), 1 + random.below(10))).collect();
    let (mut step, mut order) = (0, Value::Null);
    Box::new(move |last| {
        step += 1;
        let w = int(1);
        if step == 3 {
            order = first(last)?;
        }
        Some(match step {
            1 => line("SELECT w_tax FROM warehouse WHERE w_id = $1", vec![w]),
            2 => line(
                "SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = $1 AND d_id = $2",
                vec![w, d.clone()],
            ),
            3 => line(
                "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2",
                vec![w, d.clone()],
            ),
            4 => line(
                "SELECT c_last, c_balance FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
                vec![w, d.clone(), c.clone()],
            ),
            5 => line(
                "INSERT INTO orders VALUES ($1, $2, $3, $4, 0, $5)",
                vec![w, d.clone(), order.clone(), c.clone(), int(lines.len() as u64)],
            ),
            6 => line("INSERT INTO new_order VALUES ($1, $2, $3)", vec![w, d.clone(), order.clone()]),
            _ => {
                let at = (step - 7) / 4;
                let &(i, quantity) = lines.get(at)?;
                match (step - 7) % 4 {
                    0 => line("SELECT i_price, i_name FROM item WHERE i_id = $1", vec![int(i)]),
                    1 => line(
                        "SELECT s_quantity FROM stock WHERE s_w_id = $1 AND s_i_id = $2",
                        vec![w, int(i)],
                    ),
                    2 => line(
                        "UPDATE stock SET s_quantity = CASE WHEN s_quantity >= $1 + 10 THEN s_quantity - $1 ELSE s_quantity - $1 + 91 END, s_ytd = s_ytd + $1, s_orders = s_orders + 1 WHERE s_w_id = $2 AND s_i_id = $3",
                        vec![int(quantity), w, int(i)],
                    ),
                    _ => line(
                        "INSERT INTO order_line VALUES ($1, $2, $3, $4, $5, 0, $6)",
                        vec![
                            w,
                            d.clone(),
                            order.clone(),
                            int(at as u64 + 1),
                            int(i),
                            int(quantity * (1 + i % 100)),
                        ],
                    ),
                }
            }
        })
    })
}

fn payment(random: &mut Random, number: u64, d: Value, c: Value) -> Script {
    let amount = int(1 + random.below(5000));
    let by_name = random.chance(60);
    let name = Value::text(format!("NAME{}", random.below(NAMES)));
    let (mut step, mut customer) = (0, c);
    Box::new(move |last| {
        step += 1;
        let w = int(1);
        if step == 6 && by_name {
            customer = first(last)?;
        }
        Some(match step {
            1 => line("UPDATE warehouse SET w_ytd = w_ytd + $1 WHERE w_id = $2", vec![amount.clone(), w]),
            2 => line("SELECT w_tax FROM warehouse WHERE w_id = $1", vec![w]),
            3 => line(
                "UPDATE district SET d_ytd = d_ytd + $1 WHERE d_w_id = $2 AND d_id = $3",
                vec![amount.clone(), w, d.clone()],
            ),
            4 => line("SELECT d_tax FROM district WHERE d_w_id = $1 AND d_id = $2", vec![w, d.clone()]),
            5 if by_name => line(
                "SELECT c_id, c_balance FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_id",
                vec![w, d.clone(), name.clone()],
            ),
            5 => line(
                "SELECT c_id, c_balance FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
                vec![w, d.clone(), customer.clone()],
            ),
            6 => line(
                "UPDATE customer SET c_balance = c_balance - $1, c_payments = c_payments + 1 WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4",
                vec![amount.clone(), w, d.clone(), customer.clone()],
            ),
            7 => line(
                "INSERT INTO history VALUES ($1, $2, $3, $4)",
                vec![int(number), customer.clone(), d.clone(), amount.clone()],
            ),
            _ => return None,
        })
    })
}

fn delivery(random: &mut Random) -> Script {
    let carrier = int(1 + random.below(10));
    let (mut district, mut step) = (1, 0);
    let (mut order, mut customer) = (Value::Null, Value::Null);
    Box::new(move |last| {
        loop {
            if district > DISTRICTS {
                return None;
            }
            step += 1;
            let (w, d) = (int(1), int(district));
            match step {
                2 => match first(last) {
                    Some(found) => order = found,
                    None => {
                        (district, step) = (district + 1, 0);
                        continue;
                    }
                },
                4 => customer = first(last)?,
                _ => {}
            }
            let key = vec![w.clone(), d.clone(), order.clone()];
            return Some(match step {
                1 => {
                    line("SELECT MIN(no_o_id) FROM new_order WHERE no_w_id = $1 AND no_d_id = $2", vec![w, d])
                }
                2 => line("DELETE FROM new_order WHERE no_w_id = $1 AND no_d_id = $2 AND no_o_id = $3", key),
                3 => line("SELECT o_c_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3", key),
                4 => line(
                    "UPDATE orders SET o_carrier = $4 WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = $3",
                    [key, vec![carrier.clone()]].concat(),
                ),
                5 => line(
                    "UPDATE order_line SET ol_delivered = 1 WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
                    key,
                ),
                6 => line(
                    "SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3",
                    key,
                ),
                _ => {
                    let amount = first(last)?;
                    (district, step) = (district + 1, 0);
                    line(
                        "UPDATE customer SET c_balance = c_balance + $1 WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4",
                        vec![amount, w, d, customer.clone()],
                    )
                }
            });
        }
    })
}

fn order_status(d: Value, c: Value) -> Script {
    let mut step = 0;
    Box::new(move |last| {
        step += 1;
        let w = int(1);
        Some(match step {
            1 => line(
                "SELECT c_balance, c_last FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
                vec![w, d.clone(), c.clone()],
            ),
            2 => line(
                "SELECT MAX(o_id) FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3",
                vec![w, d.clone(), c.clone()],
            ),
            3 => line(
                "SELECT ol_number, ol_i_id, ol_amount FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3 ORDER BY ol_number",
                vec![w, d.clone(), first(last)?],
            ),
            _ => return None,
        })
    })
}

fn stock_level(d: Value) -> Script {
    let mut step = 0;
    Box::new(move |last| {
        step += 1;
        let w = int(1);
        Some(match step {
            1 => line("SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2", vec![w, d.clone()]),
            2 => {
                let Value::Int(next) = first(last)? else { return None };
                line(
                    "SELECT COUNT(DISTINCT s.s_i_id) FROM order_line l JOIN stock s ON s.s_i_id = l.ol_i_id WHERE s.s_w_id = $1 AND l.ol_w_id = $1 AND l.ol_d_id = $2 AND l.ol_o_id < $3 AND l.ol_o_id >= $4 AND s.s_quantity < 15",
                    vec![w, d.clone(), Value::Int(next), Value::Int(next - 20)],
                )
            }
            _ => return None,
        })
    })
}
