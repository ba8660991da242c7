//! The tables: one with an integer for a key, one with a key of two columns and an index, one with
//! a text for a key.

use margay_client::{Cell, ColumnType, Schema, TableDef};

use super::TEXTS;

const INT: ColumnType = ColumnType::Int;
const TEXT: ColumnType = ColumnType::Text(12);
const MONEY: ColumnType = ColumnType::Decimal(10, 2);

const DEFS: [TableDef; 3] = [
    TableDef {
        name: "margay_a",
        key: 1,
        columns: &[("id", INT), ("n", INT), ("m", INT), ("t", TEXT), ("d", MONEY)],
        indexes: &[],
    },
    TableDef {
        name: "margay_b",
        key: 2,
        columns: &[("p", INT), ("q", INT), ("n", INT), ("d", MONEY)],
        indexes: &["n"],
    },
    TableDef { name: "margay_c", key: 1, columns: &[("k", TEXT), ("n", INT), ("t", TEXT)], indexes: &[] },
];

/// What statements are drawn from: a table, and its columns by what they hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    pub name: &'static str,
    /// The columns of the key.
    pub key: &'static [&'static str],
    /// Whole numbers that are not part of the key.
    pub ints: &'static [&'static str],
    /// Texts that are not part of the key.
    pub texts: &'static [&'static str],
    /// A decimal.
    pub money: Option<&'static str>,
    /// Whether the key is a text.
    pub named: bool,
    /// What stands before its columns where it has no other name.
    pub dotted: &'static str,
}

pub(super) const SHOWN: [Shown; 3] = [
    Shown {
        name: "margay_a",
        key: &["id"],
        ints: &["n", "m"],
        texts: &["t"],
        money: Some("d"),
        named: false,
        dotted: "margay_a.",
    },
    Shown {
        name: "margay_b",
        key: &["p", "q"],
        ints: &["n"],
        texts: &[],
        money: Some("d"),
        named: false,
        dotted: "margay_b.",
    },
    Shown {
        name: "margay_c",
        key: &["k"],
        ints: &["n"],
        texts: &["t"],
        money: None,
        named: true,
        dotted: "margay_c.",
    },
];

/// A key of the third table. Names of one length are sorted as their numbers are.
pub(super) fn name(number: i64) -> Cell {
    Cell::Text(format!("k{number:06}"))
}

/// Half of the keys have rows at first.
pub(super) fn schema(keys: i64) -> Schema {
    let mut rows = Vec::new();
    for key in (0..keys).step_by(2) {
        let int = |of: i64| if of % 5 == 4 { Cell::Null } else { Cell::Int(of % 7) };
        let text = |of: i64| if of % 4 == 3 { Cell::Null } else { TEXTS[of as usize % TEXTS.len()].into() };
        let money = |of: i64| {
            if of % 6 == 5 { Cell::Null } else { Cell::Text(format!("{}.{:02}", of % 9, 25 * (of % 4))) }
        };
        rows.push((0, vec![Cell::Int(key), int(key / 2), int(key + 1), text(key / 2), money(key / 2)]));
        rows.push((1, vec![Cell::Int(key), Cell::Int(key % 4), int(key), money(key + 1)]));
        rows.push((2, vec![name(key), int(key + 2), text(key + 1)]));
    }
    Schema { tables: DEFS.to_vec(), rows }
}
