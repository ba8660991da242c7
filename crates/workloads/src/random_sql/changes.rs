//! Statements that write.

use super::conditions::{Scope, amount, by_key, condition, number};
use super::draft::{Draft, Hole};
use super::tables::{SHOWN, Shown};

/// Where deleted keys come back, those below this are copied.
const MOST_COPIED: i64 = 40;

/// A statement that writes.
pub(super) fn change(draft: &mut Draft<'_>) {
    match draft.below(12) {
        0 => insert(draft, true),
        1 | 2 => insert(draft, false),
        3 | 4 => upsert(draft),
        5 => copy(draft),
        6..10 => update(draft),
        10 => moved(draft),
        _ => delete(draft),
    }
}

/// The values of a row behind its key.
fn values(draft: &mut Draft<'_>, table: Shown, fresh: bool) {
    let hole = match (table.named, fresh) {
        (true, true) => Hole::FreshName,
        (true, false) => Hole::Name,
        (false, true) => Hole::Fresh,
        (false, false) => Hole::Key,
    };
    draft.say("(");
    draft.list(", ", table.key, |draft, _| draft.hole(hole));
    table.ints.iter().for_each(|_| {
        draft.say(", ");
        draft.hole(Hole::IntOrNull);
    });
    table.texts.iter().for_each(|_| {
        draft.say(", ");
        draft.hole(Hole::TextOrNull);
    });
    if table.money.is_some() {
        let amount = draft.pick(&["0.75", "2.00", "4.25", "NULL"]);
        draft.say(&format!(", {amount}"));
    }
    draft.say(")");
}

fn into(draft: &mut Draft<'_>, table: Shown) {
    let columns: Vec<&str> =
        table.key.iter().chain(table.ints).chain(table.texts).chain(&table.money).copied().collect();
    draft.say(&format!("INSERT INTO {} ({}) VALUES ", table.name, columns.join(", ")));
}

/// One or two rows; those of keys that are there fail.
fn insert(draft: &mut Draft<'_>, known: bool) {
    let table = draft.table();
    into(draft, table);
    values(draft, table, !known);
    if draft.one_in(3) {
        draft.say(", ");
        values(draft, table, true);
    }
}

fn upsert(draft: &mut Draft<'_>) {
    let table = draft.table();
    let (name, key) = (table.name, table.key.join(", "));
    into(draft, table);
    values(draft, table, false);
    let plain = match draft.below(4) {
        0 => {
            draft.say_either(
                &format!(" ON CONFLICT ({key}) DO NOTHING"),
                &format!(" ON DUPLICATE KEY UPDATE n = {name}.n"),
            );
            return;
        }
        1 => "n = excluded.n".to_owned(),
        2 => format!("n = COALESCE({name}.n, 0) + excluded.n"),
        _ => format!("n = {name}.n + 1"),
    };
    let mysql = plain.replace("excluded.n", "VALUES(n)");
    draft.say_either(
        &format!(" ON CONFLICT ({key}) DO UPDATE SET {plain}"),
        &format!(" ON DUPLICATE KEY UPDATE {mysql}"),
    );
}

/// Rows out of another table, under keys that may be there.
fn copy(draft: &mut Draft<'_>) {
    let from = draft.pick(&SHOWN[..2]);
    let (to, scope) = (draft.other(from), Scope { table: from, before: "x." });
    let keys: Vec<String> = to.key.iter().map(|_| format!("x.{}", from.key[0])).collect();
    if to.named {
        draft.say(&format!("INSERT INTO {} (k, n) SELECT ", to.name));
        draft.hole(Hole::FreshName);
        draft.say(&format!(", MAX(x.n) FROM {} x WHERE ", from.name));
        return condition(draft, scope, 1);
    }
    draft.say(&format!(
        "INSERT INTO {} ({}, n) SELECT {}, x.n FROM {} x WHERE ",
        to.name,
        to.key.join(", "),
        keys.join(", "),
        from.name
    ));
    condition(draft, scope, 0);
    let most = if draft.first == 0 { MOST_COPIED } else { draft.first };
    draft.say(&format!(" AND x.{} < {most}", from.key[0]));
}

fn update(draft: &mut Draft<'_>) {
    let table = draft.table();
    let scope = Scope { table, before: table.dotted };
    draft.say(&format!("UPDATE {} SET ", table.name));
    assignment(draft, scope, 0);
    // In MySQL an assignment sees what those before it have set; no second one here looks at a
    // number.
    if draft.one_in(3) {
        draft.say(", ");
        assignment(draft, scope, table.ints.len());
    }
    draft.say(" WHERE ");
    if draft.one_in(2) { by_key(draft, scope) } else { condition(draft, scope, 1) }
}

/// The assignment to the column at this place among those that are not keys.
fn assignment(draft: &mut Draft<'_>, scope: Scope, at: usize) {
    let table = scope.table;
    let of = |place: usize| table.ints.get(place).copied();
    match (of(at), table.texts.first(), table.money) {
        (Some(int), ..) => {
            draft.say(&format!("{int} = "));
            number(draft, scope, 1);
        }
        (None, Some(text), money) if money.is_none() || draft.one_in(2) => {
            draft.say(&format!("{text} = "));
            draft.hole(Hole::TextOrNull);
        }
        (None, _, Some(money)) => {
            draft.say(&format!("{money} = "));
            amount(draft, money);
        }
        (None, ..) => {}
    }
}

/// A row under another key, which nobody has used.
fn moved(draft: &mut Draft<'_>) {
    let table = draft.table();
    let (name, key) = (table.name, table.key[0]);
    draft.say(&format!("UPDATE {name} SET {key} = "));
    draft.hole(if table.named { Hole::FreshName } else { Hole::Fresh });
    draft.say(" WHERE ");
    draft.say(&format!("{key} = "));
    draft.hole(draft.recent(table));
}

fn delete(draft: &mut Draft<'_>) {
    let table = draft.table();
    draft.say(&format!("DELETE FROM {} WHERE ", table.name));
    deletable(draft, table);
    if draft.one_in(2) {
        let key = table.key[0];
        draft.say(&format!("{}{key} = ", table.dotted));
        draft.hole(draft.recent(table));
    } else {
        condition(draft, Scope { table, before: table.dotted }, 1);
    }
}

/// Only keys that may be deleted.
fn deletable(draft: &mut Draft<'_>, table: Shown) {
    let (key, first) = (table.key[0], draft.first);
    match (first, table.named) {
        (0, _) => {}
        (_, true) => draft.say(&format!("{key} >= 'k{first:06}' AND ")),
        (_, false) => draft.say(&format!("{key} >= {first} AND ")),
    }
}
