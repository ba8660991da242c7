//! Every statement of the workloads evaluates, in every dialect that it is written for; in SQLite's
//! dialect the results are compared with SQLite itself.

mod common;

use common::tpcc;
use margay_sql::{Database, Dialect, Value};
use rusqlite::types::ValueRef;

const ALL: [Dialect; 4] = [Dialect::Generic, Dialect::Postgres, Dialect::MySql, Dialect::Sqlite];

/// Both databases, side by side.
struct Pair {
    here: Database,
    there: Option<rusqlite::Connection>,
}

impl Pair {
    fn new(dialect: Dialect) -> Self {
        let there = (dialect == Dialect::Sqlite).then(|| rusqlite::Connection::open_in_memory().unwrap());
        Pair { here: Database::new(dialect), there }
    }

    /// Runs a text with question marks for parameters.
    fn run(&mut self, text: &str, params: &[Value]) -> Vec<Vec<Value>> {
        let numbered = match self.here.dialect() {
            Dialect::Generic | Dialect::Postgres => tpcc::numbered(text),
            _ => text.to_string(),
        };
        let statement = self.here.prepare(&numbered).unwrap_or_else(|error| panic!("{text}: {error}"));
        let mut transaction = self.here.begin();
        transaction.now = Some(1_700_000_000_000_000);
        let outcome = self.here.execute(&mut transaction, &statement, params);
        let outcome = outcome.unwrap_or_else(|error| panic!("{:?}: {text}: {error}", self.here.dialect()));
        self.here.commit(transaction);
        if let Some(there) = &self.there {
            assert_eq!(shown(&outcome.rows), shown(&sqlite(there, text, params)), "{text}");
        }
        outcome.rows
    }
}

fn sqlite(connection: &rusqlite::Connection, text: &str, params: &[Value]) -> Vec<Vec<Value>> {
    let mut statement = connection.prepare(text).unwrap();
    let params: Vec<rusqlite::types::Value> = params
        .iter()
        .map(|value| match value {
            Value::Int(number) => (*number).into(),
            Value::Decimal(number) => number.to_f64().into(),
            Value::Float(number) => (*number).into(),
            Value::Text(text) => text.to_string().into(),
            _ => rusqlite::types::Value::Null,
        })
        .collect();
    let width = statement.column_count();
    let mut rows = statement.query(rusqlite::params_from_iter(params)).unwrap();
    let mut result = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let cell = |at: usize| match row.get_ref(at).unwrap() {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => Value::Int(number),
            ValueRef::Real(number) => Value::Float(number),
            ValueRef::Text(text) => Value::text(String::from_utf8_lossy(text)),
            ValueRef::Blob(bytes) => Value::Bytes(bytes.into()),
        };
        result.push((0..width).map(cell).collect());
    }
    result
}

fn shown(rows: &[Vec<Value>]) -> Vec<String> {
    let mut shown: Vec<String> = rows
        .iter()
        .map(|row| row.iter().map(|v| v.group_key(Dialect::Sqlite).to_string() + "|").collect())
        .collect();
    shown.sort();
    shown
}

fn ints(values: &[i64]) -> Vec<Value> {
    values.iter().copied().map(Value::Int).collect()
}

/// A decimal as the dialect passes it.
fn money(dialect: Dialect, text: &str) -> Value {
    match dialect {
        Dialect::Sqlite => Value::Float(text.parse().unwrap()),
        _ => Value::Decimal(text.parse().unwrap()),
    }
}

#[test]
fn tpcc_statements() {
    for dialect in ALL {
        let mut pair = Pair::new(dialect);
        tpcc::TABLES.iter().for_each(|text| drop(pair.run(text, &[])));
        tpcc::load(2, 6, 20).iter().for_each(|text| drop(pair.run(text, &[])));
        for order in 1..=3 {
            new_order(&mut pair, order);
        }
        for text in tpcc::OTHERS {
            pair.run(text, &[]);
        }
        let rows = pair.run(
            "SELECT c_balance, c_payment_cnt FROM customer WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 2",
            &[],
        );
        assert_eq!(
            shown(&rows)[0],
            "7.75|2|".replace("7.75", &money(dialect, "7.75").to_string()),
            "{dialect:?}"
        );
    }
}

/// One New-Order of two lines.
fn new_order(pair: &mut Pair, order: i64) {
    let dialect = pair.here.dialect();
    let [warehouse, district, advance, customer, insert, insert_new, item, stock, update, line] =
        tpcc::NEW_ORDER
    else {
        panic!("ten statements");
    };
    pair.run(warehouse, &ints(&[1]));
    let rows = pair.run(district, &ints(&[1, 1]));
    assert_eq!(rows[0][1], Value::Int(order));
    pair.run(advance, &ints(&[1, 1]));
    pair.run(customer, &ints(&[1, 1, 2]));
    let mut params = ints(&[order, 1, 1, 2]);
    params.extend([Value::text("2024-01-01"), Value::Int(2), Value::Int(1)]);
    pair.run(insert, &params);
    pair.run(insert_new, &ints(&[order, 1, 1]));
    for number in 1..=2 {
        pair.run(item, &ints(&[order * number]));
        let rows = pair.run(stock, &ints(&[order * number, 1]));
        let Value::Int(quantity) = rows[0][0] else { panic!("{rows:?}") };
        pair.run(update, &ints(&[quantity - 5, 5, 0, order * number, 1]));
        let mut params = ints(&[order, 1, 1, number, order * number, 1, 5]);
        params.extend([money(dialect, "11.25"), Value::text("dist1")]);
        pair.run(line, &params);
    }
}

fn run_all(dialects: &[Dialect], texts: &[&str]) {
    for &dialect in dialects {
        let mut pair = Pair::new(dialect);
        texts.iter().for_each(|text| drop(pair.run(text, &[])));
    }
}

#[test]
fn smallbank_statements() {
    run_all(
        &ALL,
        &[
            "CREATE TABLE accounts (custid BIGINT NOT NULL, name VARCHAR(64) NOT NULL, PRIMARY KEY (custid))",
            "CREATE TABLE savings (custid BIGINT NOT NULL, bal DOUBLE PRECISION NOT NULL, PRIMARY KEY (custid))",
            "CREATE TABLE checking (custid BIGINT NOT NULL, bal DOUBLE PRECISION NOT NULL, PRIMARY KEY (custid))",
            "CREATE INDEX idx_accounts_name ON accounts (name)",
            "INSERT INTO accounts VALUES (1, 'c1'), (2, 'c2')",
            "INSERT INTO savings VALUES (1, 100.0), (2, 200.0)",
            "INSERT INTO checking VALUES (1, 10.5), (2, 20.5)",
            "SELECT * FROM accounts WHERE name = 'c1'",
            "SELECT * FROM accounts WHERE custid = 1",
            "SELECT bal FROM savings WHERE custid = 1",
            "SELECT bal FROM checking WHERE custid = 1",
            "UPDATE savings SET bal = bal - 5.25 WHERE custid = 1",
            "UPDATE savings SET bal = bal + 5.25 WHERE custid = 2",
            "UPDATE checking SET bal = bal + 1.5 WHERE custid = 1",
            "UPDATE checking SET bal = 0.0 WHERE custid = 2",
            "SELECT a.name, s.bal + c.bal FROM accounts a, savings s, checking c \
             WHERE a.custid = s.custid AND s.custid = c.custid ORDER BY a.name",
        ],
    );
}

#[test]
fn ycsb_statements() {
    run_all(
        &ALL,
        &[
            "CREATE TABLE usertable (ycsb_key INT PRIMARY KEY, field1 TEXT, field2 TEXT, field3 TEXT)",
            "INSERT INTO usertable VALUES (1, 'a', 'b', 'c')",
            "INSERT INTO usertable VALUES (2, 'd', 'e', 'f')",
            "SELECT * FROM usertable WHERE ycsb_key = 1",
            "SELECT * FROM usertable WHERE ycsb_key > 0 AND ycsb_key < 10",
            "UPDATE usertable SET field1 = 'x', field2 = 'y', field3 = 'z' WHERE ycsb_key = 2",
            "DELETE FROM usertable WHERE ycsb_key = 1",
            "SELECT COUNT(*) FROM usertable",
        ],
    );
}

#[test]
fn twitter_statements() {
    run_all(
        &ALL,
        &[
            "CREATE TABLE users (uid INT PRIMARY KEY, name VARCHAR(40), followers INT DEFAULT 0)",
            "CREATE TABLE tweets (tid INT PRIMARY KEY, uid INT NOT NULL, content VARCHAR(140), at INT)",
            "CREATE TABLE follows (f1 INT, f2 INT, PRIMARY KEY (f1, f2))",
            "CREATE TABLE followers (f1 INT, f2 INT, PRIMARY KEY (f1, f2))",
            "INSERT INTO users (uid, name) VALUES (1, 'ann'), (2, 'bob'), (3, 'eve')",
            "INSERT INTO follows VALUES (1, 2), (1, 3)",
            "INSERT INTO followers VALUES (2, 1), (3, 1)",
            "UPDATE users SET followers = followers + 1 WHERE uid IN (2, 3)",
            "INSERT INTO tweets VALUES (10, 2, 'hello', 100), (11, 3, 'world', 101), (12, 2, 'again', 102)",
            "SELECT * FROM tweets WHERE tid = 10",
            "SELECT f2 FROM follows WHERE f1 = 1 LIMIT 20",
            "SELECT f2 FROM followers WHERE f1 = 2 LIMIT 20",
            "SELECT uid, name FROM users WHERE uid IN (SELECT f2 FROM followers WHERE f1 = 2)",
            "SELECT t.tid, t.content FROM tweets t JOIN follows f ON f.f2 = t.uid WHERE f.f1 = 1 ORDER BY t.at DESC LIMIT 2",
            "SELECT * FROM tweets WHERE uid = 2 ORDER BY at DESC LIMIT 10",
            "DELETE FROM follows WHERE f1 = 1 AND f2 = 3",
            "SELECT COUNT(*) FROM follows WHERE f1 = 1",
        ],
    );
}

#[test]
fn bank_server_statements() {
    run_all(
        &ALL,
        &[
            "CREATE TABLE accounts (id INT PRIMARY KEY, balance INT NOT NULL)",
            "INSERT INTO accounts VALUES (1, 100), (2, 50), (3, 0)",
            "SELECT id, balance FROM accounts WHERE id = 1",
            "SELECT id, balance FROM accounts ORDER BY id",
            "SELECT SUM(balance) FROM accounts",
            "UPDATE accounts SET balance = balance + 10 WHERE id = 2",
            "UPDATE accounts SET balance = balance - 30 WHERE id = 1 AND balance >= 30",
            "UPDATE accounts SET balance = CASE WHEN balance >= 60 THEN balance - 60 ELSE 0 END WHERE id = 2",
            "UPDATE accounts SET balance = balance - 200 WHERE id = 3",
            "SELECT id FROM accounts WHERE balance < 0",
        ],
    );
}

/// RUBiS is written for MySQL: its dates and NOW() are that dialect's.
#[test]
fn rubis_statements() {
    run_all(
        &[Dialect::MySql],
        &[
            "CREATE TABLE categories (id INT NOT NULL AUTO_INCREMENT, name VARCHAR(50), PRIMARY KEY (id)) ENGINE=InnoDB",
            "CREATE TABLE regions (id INT NOT NULL AUTO_INCREMENT, name VARCHAR(25), PRIMARY KEY (id))",
            "CREATE TABLE users (id INT NOT NULL AUTO_INCREMENT, firstname VARCHAR(20), lastname VARCHAR(20), \
             nickname VARCHAR(20) NOT NULL UNIQUE, password VARCHAR(20) NOT NULL, email VARCHAR(50) NOT NULL, \
             rating INT, balance DOUBLE, creation_date DATETIME, region INT NOT NULL, PRIMARY KEY (id))",
            "CREATE TABLE items (id INT NOT NULL AUTO_INCREMENT, name VARCHAR(100), description TEXT, \
             initial_price DOUBLE NOT NULL, quantity INT NOT NULL, reserve_price DOUBLE DEFAULT 0, \
             buy_now DOUBLE DEFAULT 0, nb_of_bids INT DEFAULT 0, max_bid DOUBLE DEFAULT 0, start_date DATETIME, \
             end_date DATETIME, seller INT NOT NULL, category INT NOT NULL, PRIMARY KEY (id))",
            "CREATE TABLE bids (id INT NOT NULL AUTO_INCREMENT, user_id INT NOT NULL, item_id INT NOT NULL, \
             qty INT NOT NULL, bid DOUBLE NOT NULL, max_bid DOUBLE NOT NULL, date DATETIME, PRIMARY KEY (id))",
            "CREATE TABLE comments (id INT NOT NULL AUTO_INCREMENT, from_user_id INT NOT NULL, to_user_id INT NOT NULL, \
             item_id INT NOT NULL, rating INT, date DATETIME, comment TEXT, PRIMARY KEY (id))",
            "CREATE TABLE buy_now (id INT NOT NULL AUTO_INCREMENT, buyer_id INT NOT NULL, item_id INT NOT NULL, \
             qty INT NOT NULL, date DATETIME, PRIMARY KEY (id))",
            "CREATE TABLE ids (id INT NOT NULL, category INT NOT NULL, region INT NOT NULL, users INT NOT NULL, \
             PRIMARY KEY (id))",
            "INSERT INTO categories (name) VALUES ('Books'), ('Art')",
            "INSERT INTO regions VALUES (NULL, 'AZ'), (NULL, 'NY')",
            "INSERT INTO ids VALUES (0, 2, 2, 0)",
            "SELECT id FROM regions WHERE name='AZ'",
            "SELECT nickname FROM users WHERE nickname='u1'",
            "INSERT INTO users VALUES (NULL, 'First', 'Last', 'u1', 'pw1', 'u1@x', 0, 0, NOW(), 1)",
            "INSERT INTO users VALUES (NULL, 'First', 'Last', 'u2', 'pw2', 'u2@x', 0, 0, NOW(), 2)",
            "SELECT * FROM users WHERE nickname='u1' AND password='pw1'",
            "INSERT INTO items VALUES (NULL, 'book', 'a book', 10, 1, 12, 20, 0, 0, NOW(), '2030-01-01 00:00:00', 1, 1)",
            "SELECT items.id, items.name, items.initial_price, items.max_bid, items.nb_of_bids, items.end_date FROM items \
             WHERE category=1 AND end_date>=NOW() ORDER BY items.end_date ASC LIMIT 0,25",
            "SELECT items.id, items.name FROM items, users WHERE items.category=1 AND items.seller=users.id AND \
             users.region=1 AND end_date>=NOW() LIMIT 0,25",
            "SELECT * FROM items WHERE items.id='1'",
            "SELECT MAX(bid) AS bid FROM bids WHERE item_id=1",
            "SELECT COUNT(*) AS bid FROM bids WHERE item_id=1",
            "SELECT * FROM items WHERE id=1 FOR UPDATE",
            "INSERT INTO bids VALUES (NULL, 2, 1, 1, 11.5, 15, NOW())",
            "UPDATE items SET max_bid=11.5, nb_of_bids=nb_of_bids+1 WHERE id=1",
            "SELECT bids.bid, bids.qty FROM bids WHERE item_id=1 ORDER BY bid DESC LIMIT 1",
            "SELECT * FROM bids WHERE item_id=1 ORDER BY date DESC",
            "SELECT nickname FROM users WHERE id=2",
            "INSERT INTO buy_now VALUES (NULL, 2, 1, 1, NOW())",
            "UPDATE items SET quantity=quantity-1, end_date=NOW() WHERE id=1",
            "INSERT INTO comments VALUES (NULL, 2, 1, 1, 5, NOW(), 'nice')",
            "UPDATE users SET rating=rating+5 WHERE id=1",
            "SELECT * FROM comments WHERE comments.to_user_id=1",
            "SELECT item_id, bids.max_bid FROM bids, items WHERE bids.user_id=2 AND bids.item_id=items.id AND \
             items.end_date>=NOW() GROUP BY item_id, bids.max_bid",
            "SELECT * FROM items WHERE items.seller=1 AND items.end_date>=NOW()",
            "SELECT * FROM buy_now WHERE buy_now.buyer_id=2",
            "UPDATE ids SET users=users+1 WHERE id=0",
            "SELECT * FROM categories ORDER BY id",
        ],
    );
}
