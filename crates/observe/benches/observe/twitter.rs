//! Twitter: tweets 20 %, follows 40 %, timelines 10 %, followers 10 %, tweets of a user 20 %; 1000
//! users.

use margay_sql::Value;

use crate::support::Random;
use crate::support::log::Shape;
use crate::support::simulate::{Script, Simulator, script};

pub const TABLES: &[Shape<'_>] = &[
    ("users", &["id"], &[("id", "int"), ("name", "text"), ("followers", "int")]),
    ("tweets", &["id"], &[("id", "int"), ("author", "int"), ("body", "text")]),
    ("follows", &["follower", "followee"], &[("follower", "int"), ("followee", "int"), ("at", "int")]),
];

const USERS: u64 = 1000;

pub fn load(simulator: &mut Simulator) {
    for id in 0..USERS as i64 {
        let name = Value::text(format!("user{id}"));
        simulator.row("users", &[("id", Value::Int(id)), ("name", name), ("followers", Value::Int(0))], 1);
    }
}

pub fn transaction(random: &mut Random, number: u64) -> Script {
    let int = |n: u64| Value::Int(n as i64);
    let (a, b) = (random.below(USERS), random.below(USERS));
    let of = |text: &str, params: Vec<Value>| (text.to_owned(), params);
    script(match random.below(10) {
        0 | 1 => vec![of(
            "INSERT INTO tweets VALUES ($1, $2, $3)",
            vec![int(number), int(a), Value::text(format!("tweet {number}"))],
        )],
        2..=5 => vec![
            of(
                "INSERT INTO follows VALUES ($1, $2, $3) ON CONFLICT (follower, followee) DO UPDATE SET at = excluded.at",
                vec![int(a), int(b), int(number)],
            ),
            of("UPDATE users SET followers = followers + 1 WHERE id = $1", vec![int(b)]),
        ],
        6 => vec![of(
            "SELECT t.id, t.body FROM follows f JOIN tweets t ON t.author = f.followee WHERE f.follower = $1 ORDER BY t.id DESC LIMIT 20",
            vec![int(a)],
        )],
        7 => vec![of(
            "SELECT follower FROM follows WHERE followee = $1 ORDER BY follower LIMIT 100",
            vec![int(a)],
        )],
        _ => {
            vec![of("SELECT id, body FROM tweets WHERE author = $1 ORDER BY id DESC LIMIT 10", vec![int(a)])]
        }
    })
}
