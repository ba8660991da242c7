//! RUBiS: users 10 %, items 15 %, purchases 15 %, comments 20 %, browsing 40 %; 1000 users and 4000
//! items at first.

use margay_sql::Value;

use crate::support::Random;
use crate::support::log::Shape;
use crate::support::simulate::{Script, Simulator, script};

pub const TABLES: &[Shape<'_>] = &[
    ("users", &["id"], &[("id", "int"), ("nickname", "text"), ("rating", "int")]),
    (
        "items",
        &["id"],
        &[("id", "int"), ("seller", "int"), ("category", "int"), ("quantity", "int"), ("price", "int")],
    ),
    ("purchases", &["id"], &[("id", "int"), ("buyer", "int"), ("item", "int"), ("quantity", "int")]),
    ("comments", &["id"], &[("id", "int"), ("author", "int"), ("about", "int"), ("rating", "int")]),
];

const USERS: u64 = 1000;
const ITEMS: u64 = 4000;
const CATEGORIES: u64 = 200;

pub fn load(simulator: &mut Simulator) {
    for id in 0..USERS as i64 {
        let name = Value::text(format!("user{id}"));
        simulator.row("users", &[("id", Value::Int(id)), ("nickname", name), ("rating", Value::Int(0))], 1);
    }
    for id in 0..ITEMS as i64 {
        let int = Value::Int;
        let row = [
            ("id", int(id)),
            ("seller", int(id % USERS as i64)),
            ("category", int(id % CATEGORIES as i64)),
            ("quantity", int(1000)),
            ("price", int(10 + id % 90)),
        ];
        simulator.row("items", &row, 1);
    }
}

pub fn transaction(random: &mut Random, number: u64) -> Script {
    let int = |n: u64| Value::Int(n as i64);
    let of = |text: &str, params: Vec<Value>| (text.to_owned(), params);
    let (user, item, other) = (random.below(USERS), random.below(ITEMS), random.below(USERS));
    script(match random.below(20) {
        0 | 1 => vec![of(
            "INSERT INTO users VALUES ($1, $2, 0)",
            vec![int(USERS + number), Value::text(format!("new{number}"))],
        )],
        2..=4 => vec![of(
            "INSERT INTO items VALUES ($1, $2, $3, 10, $4)",
            vec![int(ITEMS + number), int(user), int(random.below(CATEGORIES)), int(10 + random.below(90))],
        )],
        5..=7 => vec![
            of("SELECT quantity, price FROM items WHERE id = $1", vec![int(item)]),
            of("UPDATE items SET quantity = quantity - 1 WHERE id = $1 AND quantity > 0", vec![int(item)]),
            of("INSERT INTO purchases VALUES ($1, $2, $3, 1)", vec![int(number), int(user), int(item)]),
        ],
        8..=11 => vec![
            of("UPDATE users SET rating = rating + $1 WHERE id = $2", vec![int(random.below(5)), int(other)]),
            of("INSERT INTO comments VALUES ($1, $2, $3, 5)", vec![int(number), int(user), int(other)]),
        ],
        _ => vec![
            of(
                "SELECT id, price, quantity FROM items WHERE category = $1 ORDER BY id LIMIT 20",
                vec![int(random.below(CATEGORIES))],
            ),
            of(
                "SELECT i.id, u.nickname, u.rating FROM items i JOIN users u ON u.id = i.seller WHERE i.id = $1",
                vec![int(item)],
            ),
        ],
    })
}
