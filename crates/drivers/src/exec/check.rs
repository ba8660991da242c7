//! Whether a driver does what docs/EXEC.md says: `margay run exec:… --check-driver`.
//!
//! Two clients, one after the other, so that nothing depends on how the database isolates them.

use std::time::Duration;

use margay_client::{
    Ask, Change, Cond, Connection, Database, Obj, Row, Schema, Space, Start, Trouble, Value,
};
use margay_levels::Level;

const REGISTER: Obj = Obj { space: Space::Register, key: 0 };
const LIST: Obj = Obj { space: Space::List, key: 0 };
const ROW: Obj = Obj { space: Space::Row, key: 0 };

/// What was tried, and how it went.
pub type CheckStep = (&'static str, Result<(), String>);

/// Tries a driver, up to the first step that fails.
///
/// # Errors
/// When it does not even start.
pub fn check(command: &str, patience: Option<Duration>) -> Result<Vec<CheckStep>, String> {
    let database = super::open(command, Some(Level::ReadUncommitted), patience)?;
    let level = database.levels().first().copied().unwrap_or_default();
    let initial = vec![(REGISTER, Value::Int(5)), (ROW, row(1, 10))];
    let start = Start {
        dbms: String::new(),
        level: String::new(),
        skew: 0,
        table: true,
        initial,
        schema: Schema::default(),
    };
    let mut steps = vec![("it starts, says hello, and makes the objects", database.prepare(level, &start))];
    if steps[0].1.is_ok() {
        tried(database.as_ref(), level, &mut steps);
    }
    database.clean_up();
    Ok(steps)
}

fn tried(database: &dyn Database, level: &str, steps: &mut Vec<CheckStep>) {
    let clients = [0, 1].map(|client| database.connect(client, level));
    let [Ok(mut one), Ok(mut other)] = clients else {
        let why = clients.into_iter().find_map(Result::err).unwrap_or_default();
        return steps.push(("it starts once for each of two clients", Err(why)));
    };
    let put = |value| Ask::Write(REGISTER, Change::Put(value));
    type Try<'a> = (&'static str, &'a mut dyn Connection, Vec<Ask>, bool, Vec<(Obj, Value)>);
    let all = Cond { low: i64::MIN / 2, high: i64::MAX / 2 };
    let mut run = |(name, client, asks, commits, wanted): Try<'_>| {
        let went = transaction(client, &asks, commits).map_err(|trouble| trouble.to_string());
        let went = went.and_then(|seen| {
            if seen == wanted { Ok(()) } else { Err(format!("it answered {seen:?}, not {wanted:?}")) }
        });
        let fine = went.is_ok();
        steps.push((name, went));
        fine
    };
    let int = |value| vec![(REGISTER, Value::Int(value))];
    let list = |items: &[i64]| vec![(LIST, Value::List(items.into()))];
    let (one, other) = (one.as_mut(), other.as_mut());
    let read = || vec![Ask::Read(REGISTER)];
    let _ = run(("a client reads what was there at the beginning", one, read(), true, int(5)))
        && run(("a client reads its own write", one, vec![put(6), Ask::Read(REGISTER)], true, int(6)))
        && run(("another client reads what was committed", other, read(), true, int(6)))
        && run(("a client rolls back", one, vec![put(7)], false, Vec::new()))
        && run(("what was rolled back is gone", other, read(), true, int(6)))
        && run(("the client goes on after that", one, vec![put(8)], true, Vec::new()))
        && run(("what is not there is absent", other, vec![Ask::Read(LIST)], true, absent()))
        && run(("a client appends to a list", one, vec![append(1), append(2)], true, Vec::new()))
        && run(("another client reads the list", other, vec![Ask::Read(LIST)], true, list(&[1, 2])))
        && run(("a client finds a row", one, vec![Ask::Scan(all)], true, vec![(ROW, row(1, 10))]))
        && run(("a client deletes it", one, vec![Ask::Write(ROW, Change::Delete)], true, Vec::new()))
        && run(("another client finds no row", other, vec![Ask::Scan(all)], true, Vec::new()));
}

fn append(item: i64) -> Ask {
    Ask::Write(LIST, Change::Append(item))
}

fn absent() -> Vec<(Obj, Value)> {
    vec![(LIST, Value::Absent)]
}

fn row(v: i64, w: i64) -> Value {
    Value::Row(Row { v: Some(v), w: Some(w) })
}

fn transaction(
    client: &mut dyn Connection,
    asks: &[Ask],
    commits: bool,
) -> Result<Vec<(Obj, Value)>, Trouble> {
    client.begin()?;
    let mut seen = Vec::new();
    for ask in asks {
        client.execute(*ask, &mut seen)?;
    }
    if commits {
        client.commit()?
    } else {
        client.rollback()?
    }
    Ok(seen)
}
