//! Operations in words.

use margay_history::{Access, History, Op, OpKind, PredicateId, Statement, ValueId};

use crate::limit::clean;

/// How many rows or objects of one operation are told.
const SHOWN: usize = 6;

/// What an operation did: `read x = 1`. At most about `most` characters.
#[must_use]
pub fn text(history: &History, op: Op<'_>, most: usize) -> String {
    let told = match op.kind {
        OpKind::Begin => "began".to_owned(),
        OpKind::Commit => "committed".to_owned(),
        OpKind::Abort => "rolled back".to_owned(),
        OpKind::Unknown => "never learned whether it committed".to_owned(),
        OpKind::Read => format!("read {}", accesses(history, op.accesses, most)),
        OpKind::Write => writes(history, op.accesses, most),
        OpKind::Append => list(op.accesses, |access| {
            format!("appended {} to {}", value(history, access.value, most), object(history, access, most))
        }),
        OpKind::Scan => scan(history, op, most),
        OpKind::Update => update(history, op, most),
        OpKind::Sql => {
            history.statement(op.id).map_or(String::new(), |statement| sql(history, statement, most))
        }
    };
    clean(&told, 2 * most)
}

/// An object's name, cut.
#[must_use]
pub fn object(history: &History, access: &Access, most: usize) -> String {
    clean(&history.show_object(access.object), most)
}

/// A value, cut.
#[must_use]
pub fn value(history: &History, value: ValueId, most: usize) -> String {
    clean(&history.show_value(value), most)
}

fn accesses(history: &History, accesses: &[Access], most: usize) -> String {
    list(accesses, |access| {
        format!("{} = {}", object(history, access, most), value(history, access.value, most))
    })
}

fn writes(history: &History, accesses: &[Access], most: usize) -> String {
    list(accesses, |access| match access.value {
        ValueId::NULL => format!("deleted {}", object(history, access, most)),
        written => format!("wrote {} = {}", object(history, access, most), value(history, written, most)),
    })
}

fn scan(history: &History, op: Op<'_>, most: usize) -> String {
    let Some(scan) = history.scan(op.id) else { return String::new() };
    let asked = condition(history, scan.predicate, most);
    match (scan.observed, op.accesses) {
        (false, _) => format!("searched {asked}, result not recorded"),
        (true, []) => format!("searched {asked}: found nothing"),
        (true, rows) => format!("searched {asked}: found {}", accesses(history, rows, most)),
    }
}

fn update(history: &History, op: Op<'_>, most: usize) -> String {
    let Some(update) = history.update(op.id) else { return String::new() };
    let asked = condition(history, update.predicate, most);
    let what = match &update.set {
        Some(set) => format!("updated {asked}, set {}", clean(set, most)),
        None => format!("deleted from {asked}"),
    };
    match (update.observed, op.accesses) {
        (false, _) => what,
        (true, []) => format!("{what}: no row"),
        (true, rows) => format!("{what}: {}", accesses(history, rows, most)),
    }
}

fn condition(history: &History, predicate: PredicateId, most: usize) -> String {
    let predicate = history.predicate(predicate);
    format!("{} where {}", clean(&history.table(predicate.table).name, most), clean(&predicate.text, most))
}

fn sql(history: &History, statement: &Statement, most: usize) -> String {
    let mut out = clean(&statement.text, most);
    if !statement.params.is_empty() {
        out += &format!(" with {}", list(&statement.params, |&param| value(history, param, most)));
    }
    if let Some(rows) = &statement.rows {
        let shown = list(rows, |&row| value(history, row, most));
        out += &format!(" → {}", if rows.is_empty() { "no row" } else { &shown });
    }
    if let Some(count) = statement.count {
        out += &format!(" → {count} rows affected");
    }
    out
}

fn list<T>(items: &[T], mut show: impl FnMut(&T) -> String) -> String {
    let mut shown: Vec<String> = items.iter().take(SHOWN).map(&mut show).collect();
    if items.len() > SHOWN {
        shown.push(format!("and {} more", items.len() - SHOWN));
    }
    shown.join(", ")
}
