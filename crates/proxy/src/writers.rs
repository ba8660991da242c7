//! What recorded statements can have written.
//!
//! # Invariants
//! [`Does::Writes`] is said of a statement on a table without rules that the log has: it wrote so
//! many rows there at least, and more only by triggers, cascades and functions. [`Does::Reads`]
//! wrote nothing.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use margay_history::{History, Op, OpKind, TableId, TxnId};

use crate::catalog::Catalog;
use crate::text::{code, hides};

/// What a statement did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Does {
    Reads,
    /// It wrote so many rows of this table.
    Writes(TableId, u64),
    /// It wrote nothing, and what it read is not kept.
    Nothing,
    /// It may have written anything.
    May,
}

/// What a text does, whatever came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Reads,
    Writes(TableId),
    Nothing,
    May,
}

pub(crate) struct Writers<'h> {
    wire: &'h History,
    catalog: &'h Catalog,
    kinds: HashMap<Arc<str>, Kind>,
    optional: HashSet<TxnId>,
}

/// Words of statements that change the schema, also inside of functions.
const SHAPES: [&str; 7] = ["create", "alter", "drop", "truncate", "temp", "temporary", "into"];

impl<'h> Writers<'h> {
    pub fn new(wire: &'h History, catalog: &'h Catalog) -> Self {
        let mut writers = Self { wire, catalog, kinds: HashMap::new(), optional: HashSet::new() };
        for statement in wire.txns().flat_map(|txn| wire.ops(txn)).filter_map(|op| wire.statement(op.id)) {
            if !writers.kinds.contains_key(&statement.text) {
                let kind = writers.kind(&statement.text);
                writers.kinds.insert(Arc::clone(&statement.text), kind);
            }
        }
        let certain = |txn: TxnId| {
            let does = wire.ops(txn).filter_map(|op| writers.does(&op));
            does.into_iter().any(|does| matches!(does, Does::Writes(..)))
        };
        writers.optional = wire.txns().filter(|&txn| !certain(txn)).collect();
        writers
    }

    /// What an operation did; nothing of one that is no statement.
    pub fn does(&self, op: &Op<'_>) -> Option<Does> {
        let statement = self.wire.statement(op.id).filter(|_| op.kind == OpKind::Sql)?;
        Some(match (self.kinds.get(&statement.text).copied().unwrap_or(Kind::May), statement.count) {
            (Kind::Reads, _) => Does::Reads,
            (Kind::Nothing, _) | (Kind::Writes(_), Some(0)) => Does::Nothing,
            (Kind::Writes(table), Some(count)) => Does::Writes(table, count),
            (Kind::Writes(_), None) | (Kind::May, _) => Does::May,
        })
    }

    /// Whether it is not certain that a transaction wrote.
    pub fn is_optional(&self, txn: TxnId) -> bool {
        self.optional.contains(&txn)
    }

    /// Why tables may not be what they were, if that cannot be seen.
    pub fn hides_schema(&self, settled: bool) -> Option<String> {
        let may = self.kinds.iter().filter(|(_, kind)| **kind == Kind::May).map(|(text, _)| text);
        for text in may.clone() {
            let lower = text.to_lowercase();
            let shapes =
                lower.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|word| SHAPES.contains(&word));
            let insertion = lower.contains("insert into") || lower.contains("merge into");
            if hides(text)
                || (shapes && !insertion)
                || lower.contains("margay_not_recorded") && self.is_lasting()
            {
                return Some(format!("`{text}` may hide or change a table"));
            }
        }
        if may.count() > 0 && self.catalog.shapes && !settled {
            return Some("a function may change the schema".to_owned());
        }
        None
    }

    /// Whether something that lasts was done before, which the schema does not tell.
    fn is_lasting(&self) -> bool {
        self.wire.sessions().any(|session| self.wire.session_label(session) == u64::MAX)
    }

    fn kind(&self, text: &str) -> Kind {
        let code = code(text);
        let words: Vec<&str> = code.split_whitespace().collect();
        match words.as_slice() {
            ["select" | "with" | "(select", ..] => {
                if self.catalog.only_reads(&without_locks(text)) {
                    Kind::Reads
                } else {
                    Kind::May
                }
            }
            ["insert", "into", rest @ ..] => self.writes(rest),
            ["update", "only", rest @ ..] | ["update", rest @ ..] => self.writes(rest),
            ["delete", "from", "only", rest @ ..] | ["delete", "from", rest @ ..] => self.writes(rest),
            ["copy", rest @ ..] => match rest.iter().find(|word| matches!(**word, "from" | "to")) {
                Some(&"from") if !rest[0].starts_with('(') => self.writes(rest),
                Some(&"to") if self.catalog.only_copies(&code) => Kind::Nothing,
                _ => Kind::May,
            },
            _ => Kind::May,
        }
    }

    fn writes(&self, rest: &[&str]) -> Kind {
        let Some(target) = rest.first().and_then(|word| word.split('(').next()) else { return Kind::May };
        let name = target.rsplit('.').next().unwrap_or(target).trim_matches('"');
        let found = self.catalog.tables.iter().find(|known| known.table.name.eq_ignore_ascii_case(name));
        let Some(known) = found.filter(|known| !known.unlogged) else { return Kind::May };
        if self.catalog.hazards.get(&known.table.name).is_some_and(|hazard| hazard == "a rule") {
            return Kind::May;
        }
        let at = self.wire.tables().iter().position(|table| table.name == known.table.name);
        at.map_or(Kind::May, |at| Kind::Writes(TableId::at(at)))
    }
}

/// A query without the locks that it takes: they write no row.
fn without_locks(text: &str) -> String {
    let mut text = text.to_lowercase();
    for lock in ["for no key update", "for key share", "for update", "for share"] {
        text = text.replace(lock, " ");
    }
    text
}
