//! A tiny model of histories of its own: what clients saw, and evidence.

use std::collections::BTreeMap;

pub type Columns = BTreeMap<&'static str, i64>;

/// What an object holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    Absent,
    Number(i64),
    List(Vec<i64>),
    /// Without the columns that are NULL.
    Row(Columns),
}

/// What a client saw of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    /// It did not tell.
    Unknown,
    Value(Value),
    /// Some columns of a row; `None` is NULL.
    Columns(BTreeMap<&'static str, Option<i64>>),
}

/// What a write does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Write {
    Put(Value),
    Append(i64),
    /// Some columns of a row.
    Merge(Columns),
    /// Some columns of a row, as an update computed them; `None` is NULL.
    Set(BTreeMap<&'static str, Option<i64>>),
}

/// What an update assigns to a column, computed from the row that it saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Term {
    Null,
    Number(i64),
    /// A column plus a number; NULL if the column is.
    Plus(&'static str, i64),
}

/// What an update does to the rows that match: assigns columns, or deletes (`None`).
pub type Set = Option<Vec<(&'static str, Term)>>;

/// The condition of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    True,
    /// A column between two numbers.
    Between(&'static str, i64, i64),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    Read(usize, Seen),
    Write(usize, Write),
    /// Of all rows: those that match, and what was seen of them.
    Scan(Condition, Vec<(usize, Seen)>),
    /// Changes all rows that match; what was seen of them afterwards, if anything was.
    Update(Condition, Set, Option<Vec<(usize, Seen)>>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Committed,
    Aborted,
    Unknown,
}

#[derive(Clone, Debug)]
pub struct Txn {
    pub session: usize,
    pub outcome: Outcome,
    pub ops: Vec<Op>,
    /// When it began and ended.
    pub time: Option<(i64, i64)>,
}

#[derive(Clone, Debug)]
pub struct Object {
    /// Whether it is a row of the table.
    pub row: bool,
    pub initial: Value,
}

/// A version: of a transaction, or the initial one.
pub type Version = Option<usize>;

#[derive(Clone, Default, Debug)]
pub struct Evidence {
    pub orders: Vec<(usize, Vec<usize>)>,
    /// By transaction and operation.
    pub sets: Vec<VersionSet>,
    pub snapshots: BTreeMap<usize, i64>,
    pub commits: BTreeMap<usize, i64>,
    pub serializations: BTreeMap<usize, i64>,
}

/// Transactions of one session stand in their order.
#[derive(Clone, Debug)]
pub struct History {
    pub objects: Vec<Object>,
    pub txns: Vec<Txn>,
    pub evidence: Evidence,
}

impl Write {
    /// The value after it.
    pub fn apply(&self, old: &Value) -> Value {
        match (self, old) {
            (Write::Put(new), _) => new.clone(),
            (Write::Append(element), Value::List(items)) => {
                Value::List(items.iter().copied().chain([*element]).collect())
            }
            (Write::Append(element), _) => Value::List(vec![*element]),
            (Write::Merge(new), Value::Row(old)) => {
                Value::Row(old.iter().chain(new).map(|(&name, &value)| (name, value)).collect())
            }
            (Write::Merge(new), _) => Value::Row(new.clone()),
            (Write::Set(new), old) => {
                let mut row = if let Value::Row(old) = old { old.clone() } else { Columns::new() };
                for (&name, column) in new {
                    match column {
                        Some(column) => _ = row.insert(name, *column),
                        None => _ = row.remove(name),
                    }
                }
                Value::Row(row)
            }
        }
    }

    /// What an update writes to a row that it saw as `seen`.
    pub fn of_update(set: &Set, seen: &Value) -> Self {
        let Some(set) = set else { return Write::Put(Value::Absent) };
        let column = |name: &str| if let Value::Row(row) = seen { row.get(name).copied() } else { None };
        let term = |term: Term| match term {
            Term::Null => None,
            Term::Number(number) => Some(number),
            Term::Plus(name, number) => column(name).map(|column| column + number),
        };
        Write::Set(set.iter().map(|&(name, value)| (name, term(value))).collect())
    }
}

impl Op {
    /// Whether it is known to write an object.
    pub fn writes(&self, object: usize) -> bool {
        match self {
            Op::Write(written, _) => *written == object,
            Op::Update(_, _, Some(rows)) => rows.iter().any(|row| row.0 == object),
            _ => false,
        }
    }

    /// Whether it is an update of which nobody knows what it changed.
    pub fn is_hidden(&self) -> bool {
        matches!(self, Op::Update(_, _, None))
    }
}

impl Seen {
    /// Whether this may be seen of a value. An absent list and an empty one are the same.
    pub fn fits(&self, value: &Value) -> bool {
        let nothing = |value: &Value| matches!(value, Value::Absent) || *value == Value::List(Vec::new());
        match (self, value) {
            (Seen::Unknown, _) => true,
            (Seen::Value(seen), value) => seen == value || nothing(seen) && nothing(value),
            (Seen::Columns(seen), Value::Row(row)) => {
                seen.iter().all(|(name, value)| row.get(name).copied() == *value)
            }
            (Seen::Columns(_), _) => false,
        }
    }
}

impl Condition {
    pub fn matches(self, value: &Value) -> bool {
        match (self, value) {
            (_, Value::Absent) => false,
            (Condition::True, _) => true,
            (Condition::Between(name, low, high), Value::Row(row)) => {
                row.get(name).is_some_and(|value| (low..=high).contains(value))
            }
            _ => false,
        }
    }
}

impl History {
    /// What evidence says that an operation saw of an object.
    pub fn told(&self, txn: usize, op: usize, object: usize) -> Option<Version> {
        let set = self.evidence.sets.iter().find(|set| (set.0, set.1) == (txn, op))?;
        set.2.iter().find(|seen| seen.0 == object).map(|seen| seen.1)
    }

    pub fn writes(&self, txn: usize, object: usize) -> bool {
        self.txns[txn].ops.iter().any(|op| op.writes(object))
    }

    /// Whether evidence puts `a`'s version of the object before `b`'s.
    pub fn told_before(&self, object: usize, a: usize, b: usize) -> bool {
        let place = |order: &[usize], txn| order.iter().position(|&t| t == txn);
        let in_order = |order: &(usize, Vec<usize>)| {
            let places = (place(&order.1, a), place(&order.1, b));
            order.0 == object && matches!(places, (Some(a), Some(b)) if a < b)
        };
        let commits = (self.evidence.commits.get(&a), self.evidence.commits.get(&b));
        self.evidence.orders.iter().any(in_order) || matches!(commits, (Some(a), Some(b)) if a < b)
    }
}

/// What one operation saw: its transaction, its place there, and objects with their versions.
pub type VersionSet = (usize, usize, Vec<(usize, Version)>);
