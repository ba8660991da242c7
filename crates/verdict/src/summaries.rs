//! Aggregates over a predicate: SQL statements that read one table and show what is computed from
//! the rows that match.
//!
//! # Definition
//! `SELECT COUNT(*), SUM(v) FROM t WHERE …` is a predicate read: it sees one version of every
//! object of its table. Its answer is computed from the versions that match, as
//! [`margay_sql::Summary`] says, and must be the one row that the client saw.
//!
//! MIN, MAX, COUNT and SUM are summaries; every other SQL statement has no meaning among operations
//! on rows.

use hashbrown::HashMap;
use margay_history::{History, ObjectId, OpId, OpKind, Outcome, PredicateId, TableId, Value, ValueId};
use margay_sql::{Dialect, Summary, SummaryKind, Value as SqlValue};

use crate::cell::{Cell, to_sql};
use crate::compare::{same, same_row};
use crate::predicates::{Outside, Predicates};

/// What a summary asks: its condition, as a predicate beyond those of the history, and what it
/// computes.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The condition; [`Predicates`] knows it.
    pub predicate: PredicateId,
    summary: Summary,
}

/// The summaries of a history.
#[derive(Default, Debug)]
pub(crate) struct Summaries {
    all: Vec<Asked>,
    by_op: HashMap<OpId, usize>,
    /// The tables and texts of the conditions.
    pub conditions: Vec<(TableId, String)>,
}

impl Summaries {
    /// Reads those of the transactions that may have committed, up to the first statement that is
    /// none.
    pub fn of(history: &History, dialect: Dialect) -> Self {
        let mut summaries = Self::default();
        if !history.has_kind(OpKind::Sql) {
            return summaries;
        }
        let mut known: HashMap<(&str, &[ValueId]), usize> = HashMap::new();
        let live = history.txns().filter(|&txn| history.outcome(txn) != Outcome::Aborted);
        for op in live.flat_map(|txn| history.ops(txn)).filter(|op| op.kind == OpKind::Sql) {
            let Some(statement) = history.statement(op.id) else { break };
            let key = (&*statement.text, &*statement.params);
            let place = match known.get(&key) {
                Some(&place) => place,
                None => match summaries.read(history, key, dialect) {
                    Some(place) => *known.entry(key).or_insert(place),
                    None => break,
                },
            };
            summaries.by_op.insert(op.id, place);
        }
        summaries
    }

    fn read(
        &mut self,
        history: &History,
        (text, params): (&str, &[ValueId]),
        dialect: Dialect,
    ) -> Option<usize> {
        let params: Option<Vec<SqlValue>> = params.iter().map(|&id| to_sql(history, id)).collect();
        if !text.trim_start().get(..6)?.eq_ignore_ascii_case("select") {
            return None;
        }
        let summary = Summary::parse(text, &params?, dialect).ok()?;
        let named = || history.tables().iter().enumerate();
        let exactly = named().find(|(_, table)| table.name == summary.table());
        let folded = || named().find(|(_, table)| table.name.eq_ignore_ascii_case(summary.table()));
        let (place, table) = exactly.or_else(folded)?;
        let declared = |name: &str| {
            let mut columns = table.columns.iter().map(|column| &column.0).chain(&table.key);
            columns.any(|known| known.eq_ignore_ascii_case(name))
        };
        if !summary.outputs().all(|(_, column)| column.is_none_or(declared)) {
            return None;
        }
        let predicate = PredicateId::at(history.predicates().len() + self.conditions.len());
        let condition = summary.condition().unwrap_or("1 = 1").to_owned();
        self.conditions.push((TableId::at(place), condition));
        self.all.push(Asked { predicate, summary });
        Some(self.all.len() - 1)
    }

    pub fn get(&self, op: OpId) -> Option<&Asked> {
        self.by_op.get(&op).map(|&place| &self.all[place])
    }
}

impl Asked {
    /// What each output is.
    pub fn kinds(&self) -> impl Iterator<Item = SummaryKind> {
        self.summary.outputs().map(|output| output.0)
    }

    /// Whether each output counts or adds equal values once.
    pub fn distinct(&self) -> impl Iterator<Item = bool> {
        self.summary.distinct()
    }
}

/// What an object adds to a summary: the values of the outputs' columns, NULL for an output without
/// one.
pub type Contribution = Vec<SqlValue>;

impl Predicates<'_> {
    /// What a SQL statement asks, if it is a summary.
    #[must_use]
    pub fn summary(&self, op: OpId) -> Option<&Asked> {
        self.summaries().get(op)
    }

    /// What the client was told, output by output; none if it saw nothing, or something that is no
    /// answer of a summary.
    #[must_use]
    pub fn answer(&self, op: OpId) -> Option<&[ValueId]> {
        let [row] = self.history().statement(op)?.rows.as_deref()? else { return None };
        match self.history().value(*row) {
            Value::List(cells) => Some(cells),
            _ => None,
        }
    }

    /// Whether the client was told that no row matches.
    #[must_use]
    pub fn counts_nothing(&self, op: OpId) -> bool {
        let (Some(asked), Some(answer)) = (self.summary(op), self.answer(op)) else { return false };
        let zero = |cell: &ValueId| {
            *cell != ValueId::UNKNOWN && same(self.history().value(*cell), &SqlValue::Int(0))
        };
        asked.kinds().zip(answer).any(|(kind, cell)| kind == SummaryKind::Rows && zero(cell))
    }

    /// Whether the client saw an answer.
    #[must_use]
    pub fn is_answered(&self, op: OpId) -> bool {
        self.history().statement(op).is_some_and(|statement| statement.rows.is_some())
    }

    /// Whether the client saw what no summary answers: not one row, or something that is none.
    #[must_use]
    pub fn is_no_answer(&self, op: OpId) -> bool {
        match self.history().statement(op).and_then(|statement| statement.rows.as_deref()) {
            None => false,
            Some([row]) => !matches!(self.history().value(*row), Value::List(_) | Value::Unknown),
            Some(_) => true,
        }
    }

    /// What an object adds, if it holds this; nothing if it does not match.
    ///
    /// # Errors
    /// When the condition has no value on the cell, or a column none that SQL knows.
    pub fn contribution(
        &self,
        asked: &Asked,
        object: ObjectId,
        cell: &Cell,
    ) -> Result<Option<Contribution>, Outside> {
        if !self.matches(asked.predicate, object, cell)? {
            return Ok(None);
        }
        let value = |(_, column): (SummaryKind, Option<&str>)| match column {
            None => Ok(SqlValue::Null),
            Some(name) => self.column_of(object, cell, name),
        };
        asked.summary.outputs().map(value).collect::<Result<_, _>>().map(Some)
    }

    /// The answer that these contributions give.
    ///
    /// # Errors
    /// When they have no such sum, or no order.
    pub fn summed(&self, asked: &Asked, all: &[Contribution]) -> Result<Vec<SqlValue>, Outside> {
        let rows = all.iter().map(Vec::as_slice);
        asked.summary.of_rows(rows).map_err(|error| Outside(format!("a summary: {error}")))
    }

    /// Whether the client can have been told this.
    #[must_use]
    pub fn is_told(&self, op: OpId, given: &[SqlValue]) -> bool {
        match self.history().statement(op).and_then(|statement| statement.rows.as_deref()) {
            None => true,
            Some([row]) => same_row(self.history(), *row, given),
            Some(_) => false,
        }
    }

    /// What the client was told, for people.
    #[must_use]
    pub fn told(&self, op: OpId) -> String {
        let rows = self.history().statement(op).and_then(|statement| statement.rows.as_deref());
        let rows: Vec<String> =
            rows.unwrap_or_default().iter().map(|&r| self.history().show_value(r)).collect();
        if rows.is_empty() { "no row".to_owned() } else { rows.join(" ") }
    }
}

/// An answer for people.
#[must_use]
pub fn show_answer(given: &[SqlValue]) -> String {
    let cells: Vec<String> = given.iter().map(ToString::to_string).collect();
    format!("[{}]", cells.join(", "))
}
