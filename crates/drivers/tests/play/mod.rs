//! Statements on real databases, one after another.
#![allow(dead_code, reason = "not every test needs all")]

use margay_drivers::{
    Ask, Change, Connection, Database, Obj, Row, Schema, Setting, Space, Start, Target, Trouble, Value, open,
};
use margay_servers::started;

pub const ROW: Obj = Obj { space: Space::Row, key: 3 };
pub const REGISTER: Obj = Obj { space: Space::Register, key: 0 };
pub const OTHER: Obj = Obj { space: Space::Register, key: 1 };

pub fn row(v: i64, w: i64) -> Value {
    Value::Row(Row { v: Some(v), w: Some(w) })
}

pub fn put(v: i64, w: i64) -> Ask {
    Ask::Write(ROW, Change::Merge(Row { v: Some(v), w: Some(w) }))
}

/// The database of a target. None if it is not there, or not part of this program.
pub fn opened(target: &Target) -> Option<Box<dyn Database>> {
    match open(target, &Setting { clients: 2, keys: 9, domain: 30, seed: 0 }) {
        Ok(database) => Some(database),
        // `./test features` builds with the others.
        Err(reason) if reason.contains("built without") => None,
        missing => started(missing),
    }
}

/// A database that begins with these, with or without table `t`.
pub fn start(table: bool, initial: Vec<(Obj, Value)>) -> Start {
    let schema = Schema::default();
    Start { dbms: String::new(), level: String::new(), skew: 0, table, initial, schema }
}

/// Makes a row 1, 10 and two registers 0.
pub fn prepare(database: &dyn Database, level: &str) {
    let initial = vec![(REGISTER, Value::Int(0)), (OTHER, Value::Int(0)), (ROW, row(1, 10))];
    database.prepare(level, &start(true, initial)).expect("tables");
}

/// Two clients.
pub fn two<'a>(database: &'a dyn Database, level: &str) -> [Box<dyn Connection + 'a>; 2] {
    [0, 1].map(|client| database.connect(client, level).expect("a connection"))
}

/// What a statement answered.
pub fn try_ask(connection: &mut dyn Connection, ask: Ask) -> Result<Vec<(Obj, Value)>, Trouble> {
    let mut rows = Vec::new();
    connection.execute(ask, &mut rows).map(|()| rows)
}

pub fn ask(connection: &mut dyn Connection, ask: Ask) -> Vec<(Obj, Value)> {
    try_ask(connection, ask).expect("an answer")
}

/// What a read of one object answered.
pub fn read(connection: &mut dyn Connection, object: Obj) -> Value {
    ask(connection, Ask::Read(object)).remove(0).1
}

/// Does this in a transaction of its own.
pub fn alone(connection: &mut dyn Connection, asks: &[Ask]) {
    connection.begin().expect("begun");
    for &one in asks {
        ask(connection, one);
    }
    connection.commit().expect("committed");
}
