//! Statements over rows that are not known: which rows they find, show and write, as terms.
//!
//! # Problem
//! A statement, and for each row of its tables terms for whether it is there and what it holds: what does the statement give, for all values of the unknowns?
//!
//! # Algorithm
//! The keys that a table can have are known; only what stands behind them is not. So every row is looked at, and a condition becomes the term under which the row
//! is found. Inner joins, aggregates without groups, UPDATE, DELETE, and INSERT of values with known keys have terms; what has none is refused by name.
//!
//! # Invariants
//! - Under any values of the unknowns under which the interpreter does not fail, the terms have the values of the interpreter's outcome.
//! - Where [`Answer::fails`] is true the interpreter fails. It may fail for more, such as a number that is too large halfway.

use std::sync::Arc;

use crate::change::key_is_set;
use crate::database::Database;
use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::expr::Expr;
use crate::plan::{
    AggregateKind, Delete, Group, Insert, InsertRows, Lock, OrderBy, Output, Select, Source, SourceRows,
    TableId, Update, is_flexible,
};
use crate::schema::Schema;
use crate::statement::{Plan, Statement};
use crate::store::Key;
use crate::symbolic_expr::{Cell, Kind, Symbols, outside};
use crate::term::{Term, Terms};
use crate::value::Value;

/// A row that need not be known.
#[derive(Clone, Debug, PartialEq)]
pub struct SymbolicRow {
    /// Whether it is there.
    pub present: Term,
    /// Its columns, where it is.
    pub cells: Vec<Cell>,
}

/// The rows that a statement sees.
pub trait SymbolicView {
    /// The keys that a table can have.
    fn keys(&self, table: TableId) -> Vec<Key>;
    /// What stands behind a key.
    fn row(&mut self, terms: &mut Terms, table: TableId, key: &Key) -> SymbolicRow;
}

/// A row of a result.
#[derive(Clone, Debug)]
pub struct ShownRow {
    /// Whether it is in the result.
    pub when: Term,
    /// Its columns.
    pub cells: Vec<Cell>,
    /// What it is sorted by.
    pub keys: Vec<Cell>,
}

/// A row that a statement may write.
#[derive(Clone, Debug)]
pub struct SymbolicWrite {
    /// Its table.
    pub table: TableId,
    /// Its key.
    pub key: Key,
    /// Whether it is written.
    pub when: Term,
    /// What it is then.
    pub after: SymbolicRow,
}

/// What a statement gives.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Whether it fails.
    pub fails: Term,
    /// The rows of the result.
    pub rows: Vec<ShownRow>,
    /// For each sort key: whether it descends, and whether NULL comes first.
    pub order: Vec<(bool, bool)>,
    /// How many rows it met, and how many it changed.
    pub matched: Term,
    /// How many it changed.
    pub changed: Term,
    /// The rows that it read, and where they are there.
    pub reads: Vec<(TableId, Key, Term)>,
    /// The rows that it may write.
    pub writes: Vec<SymbolicWrite>,
    /// Whether it locks the rows that it finds.
    pub locks: bool,
}

impl Answer {
    fn new(terms: &mut Terms) -> Self {
        let zero = terms.int(0);
        Answer {
            fails: Term::FALSE,
            rows: Vec::new(),
            order: Vec::new(),
            matched: zero,
            changed: zero,
            reads: Vec::new(),
            writes: Vec::new(),
            locks: false,
        }
    }
}

impl SymbolicRow {
    /// No row.
    #[must_use]
    pub fn absent(width: usize, terms: &mut Terms) -> Self {
        SymbolicRow { present: Term::FALSE, cells: vec![Cell::null(terms); width] }
    }

    /// One row or the other.
    ///
    /// # Errors
    /// When a column has values of several types.
    pub fn either(
        condition: Term,
        then: &Self,
        otherwise: &Self,
        terms: &mut Terms,
    ) -> Result<Self, SqlError> {
        let present = terms.if_truth(condition, then.present, otherwise.present);
        let cells = then.cells.iter().zip(&otherwise.cells).map(|(&a, &b)| {
            Cell::either(condition, a, b, terms).ok_or_else(|| outside("a column of several types"))
        });
        Ok(SymbolicRow { present, cells: cells.collect::<Result<_, _>>()? })
    }

    /// Whether two rows are the same: both absent, or present with the same columns.
    pub fn same(a: &Self, b: &Self, terms: &mut Terms) -> Term {
        let (not_a, not_b) = (terms.not(a.present), terms.not(b.present));
        let neither = terms.and(&[not_a, not_b]);
        let mut parts = vec![a.present, b.present];
        parts.extend(a.cells.iter().zip(&b.cells).map(|(&a, &b)| Cell::same(a, b, terms)));
        let both = terms.and(&parts);
        terms.or(&[neither, both])
    }
}

impl Database {
    /// The rows that a statement can write: tables, with the key where it names one.
    ///
    /// # Errors
    /// When its rows have no terms.
    pub fn targets(
        &self,
        statement: &Statement,
        params: &[Value],
    ) -> Result<Vec<(TableId, Option<Key>)>, SqlError> {
        let mut terms = Terms::new();
        let mut run = Run { database: self, params, terms: &mut terms };
        match statement.plan() {
            Plan::Select(_) => Ok(Vec::new()),
            Plan::Insert(insert) => {
                let rows = run.given(insert)?;
                let table = insert.table;
                rows.iter().map(|(row, _)| Ok((table, Some(run.key(self.schema(table), row)?)))).collect()
            }
            Plan::Update(Update { source, table, .. }) | Plan::Delete(Delete { source, table, .. }) => {
                let key = run.prefix(source, &[])?.and_then(|prefix| run.whole_key(*table, &prefix));
                Ok(vec![(*table, key)])
            }
            other => Err(refused(other)),
        }
    }

    /// Executes a statement on rows that are not known.
    ///
    /// # Errors
    /// When something in it has no terms.
    pub fn symbolic(
        &self,
        statement: &Statement,
        params: &[Value],
        view: &mut dyn SymbolicView,
        terms: &mut Terms,
    ) -> Result<Answer, SqlError> {
        let mut run = Run { database: self, params, terms };
        match statement.plan() {
            Plan::Select(select) => run.select(select, view),
            Plan::Insert(insert) => run.insert(insert, view),
            Plan::Update(update) => run.update(update, view),
            Plan::Delete(delete) => run.delete(delete, view),
            other => Err(refused(other)),
        }
    }

    /// A row of known values.
    ///
    /// # Errors
    /// When a value is of another type than its column.
    pub fn symbolic_row(
        &self,
        table: TableId,
        row: Option<&[Value]>,
        terms: &mut Terms,
    ) -> Result<SymbolicRow, SqlError> {
        let columns = &self.schema(table).columns;
        let Some(row) = row else { return Ok(SymbolicRow::absent(columns.len(), terms)) };
        let dialect = self.dialect();
        let mut symbols = Symbols { terms, dialect, row: &[], params: &[] };
        let cells =
            row.iter().zip(columns).map(|(v, c)| symbols.of_column(v, Kind::of(c.data_type, dialect)));
        Ok(SymbolicRow { present: Term::TRUE, cells: cells.collect::<Result<_, _>>()? })
    }
}

fn refused(plan: &Plan) -> SqlError {
    let what = match plan {
        Plan::Procedural(_) => "a stored procedure",
        _ => "a statement that is no query and no change of rows",
    };
    outside(what)
}

/// The execution of one statement.
struct Run<'a> {
    database: &'a Database,
    params: &'a [Value],
    terms: &'a mut Terms,
}

/// A joined row: where it is found, and its columns.
struct Joined {
    when: Term,
    cells: Vec<Cell>,
}

impl Run<'_> {
    fn symbols<'b>(&'b mut self, row: &'b [Cell]) -> Symbols<'b> {
        Symbols { terms: self.terms, dialect: self.database.dialect(), row, params: self.params }
    }

    /// Where all conditions are true.
    fn hold(&mut self, conditions: &[Expr], row: &[Cell]) -> Result<Term, SqlError> {
        let mut parts = Vec::new();
        for condition in conditions {
            let truth = self.symbols(row).truth(condition)?.is_true;
            if truth == Term::FALSE {
                return Ok(Term::FALSE);
            }
            parts.push(truth);
        }
        Ok(self.terms.and(&parts))
    }

    /// The values of the key's leading columns that a source asks for; `None` where it does not name the whole key.
    fn prefix(&mut self, source: &Source, row: &[Cell]) -> Result<Option<Vec<Cell>>, SqlError> {
        if !source.access.whole {
            return Ok(None);
        }
        source
            .access
            .prefix
            .iter()
            .map(|expr| self.symbols(row).cell(expr))
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// The key that known values are.
    fn whole_key(&self, table: TableId, prefix: &[Cell]) -> Option<Key> {
        let schema = self.database.schema(table);
        let part = |(cell, &column): (&Cell, &usize)| {
            let value = cell.value(self.terms)?;
            crate::run::key_form(&value, schema.columns[column].data_type, self.database.dialect())
        };
        (prefix.len() == schema.key.len())
            .then(|| prefix.iter().zip(&schema.key).map(part).collect::<Option<Vec<Value>>>())?
            .map(Key::from)
    }

    /// Whether a row's key is this one.
    fn has_key(&mut self, table: TableId, row: &SymbolicRow, prefix: &[Cell]) -> Result<Term, SqlError> {
        let key = &self.database.schema(table).key;
        let mut parts = Vec::new();
        for (&column, &asked) in key.iter().zip(prefix) {
            let held = row.cells[column];
            let known = asked.kind == Kind::Null || asked.kind == held.kind && held.kind != Kind::Other;
            let collated = held.kind == Kind::Text && self.database.dialect() == Dialect::MySql;
            if !known || collated {
                return Err(outside("a key of another type, or in MySQL's collation,"));
            }
            parts.push(self.terms.not(asked.null));
            parts.push(Cell::same(held, asked, self.terms));
        }
        Ok(self.terms.and(&parts))
    }

    /// The rows of a source, each with where it is found after `before`; what it reads is noted.
    fn found(
        &mut self,
        source: &Source,
        before: &Joined,
        view: &mut dyn SymbolicView,
        reads: &mut Vec<(TableId, Key, Term)>,
    ) -> Result<Vec<(Key, Term, SymbolicRow)>, SqlError> {
        let SourceRows::Table(table, _) = &source.rows else { return Err(outside("a subquery")) };
        if source.left {
            return Err(outside("a LEFT JOIN"));
        }
        let alone = before.cells.is_empty();
        let prefix = self.prefix(source, &before.cells)?;
        let named = prefix.as_ref().and_then(|prefix| self.whole_key(*table, prefix));
        let is_named = named.is_some();
        let keys = named.map_or_else(|| view.keys(*table), |key| vec![key]);
        let mut found = Vec::new();
        for key in keys {
            let row = view.row(self.terms, *table, &key);
            let mut reached = vec![before.when, row.present];
            if self.terms.and(&reached) == Term::FALSE {
                continue;
            }
            if let (Some(prefix), false) = (&prefix, is_named) {
                reached.push(self.has_key(*table, &row, prefix)?);
            }
            let reached = self.terms.and(&reached);
            let joined: Vec<Cell> = before.cells.iter().chain(&row.cells).copied().collect();
            let mut accepted = self.hold(&source.on, &joined)?;
            if alone {
                let filters = self.hold(&source.filters, &joined)?;
                accepted = self.terms.and(&[accepted, filters]);
            }
            let when = self.terms.and(&[reached, accepted]);
            reads.push((*table, key.clone(), if prefix.is_some() { reached } else { when }));
            if when != Term::FALSE {
                found.push((key, when, row));
            }
        }
        Ok(found)
    }

    /// The joined rows that satisfy all conditions.
    fn joined(
        &mut self,
        select: &Select,
        view: &mut dyn SymbolicView,
        reads: &mut Vec<(TableId, Key, Term)>,
    ) -> Result<Vec<Joined>, SqlError> {
        let mut rows = vec![Joined { when: self.hold(&select.constant, &[])?, cells: Vec::new() }];
        for source in &select.sources {
            let mut next = Vec::new();
            for before in &rows {
                for (_, when, row) in self.found(source, before, view, reads)? {
                    let cells: Vec<Cell> = before.cells.iter().chain(&row.cells).copied().collect();
                    let filters = self.hold(&source.filters, &cells)?;
                    let when = self.terms.and(&[when, filters]);
                    if when != Term::FALSE {
                        next.push(Joined { when, cells });
                    }
                }
            }
            rows = next;
            if rows.len() > MOST {
                return Err(outside("a join of so many rows"));
            }
        }
        Ok(rows)
    }

    fn select(&mut self, select: &Select, view: &mut dyn SymbolicView) -> Result<Answer, SqlError> {
        if select.distinct {
            return Err(outside("DISTINCT"));
        }
        if select.limit.is_some() || select.offset.is_some() {
            return Err(outside("LIMIT"));
        }
        let mut answer = Answer::new(self.terms);
        answer.locks = select.lock == Some(Lock::Update);
        answer.order = select.order.iter().map(|order| (order.descending, order.nulls_first)).collect();
        let mut rows = self.joined(select, view, &mut answer.reads)?;
        if let Some(group) = &select.group {
            rows = vec![self.group(group, &rows)?];
        }
        for row in &rows {
            let shown = self.shown(&select.outputs, row)?;
            let keys = select.order.iter().map(|order| match &order.by {
                OrderBy::Output(index) => Ok(shown.cells[*index]),
                OrderBy::Expr(expr) => self.symbols(&row.cells).cell(expr),
            });
            let keys = keys.collect::<Result<_, _>>()?;
            answer.rows.push(ShownRow { keys, ..shown });
        }
        Ok(answer)
    }

    fn shown(&mut self, outputs: &[Output], row: &Joined) -> Result<ShownRow, SqlError> {
        let cells = outputs.iter().map(|output| self.symbols(&row.cells).cell(&output.expr));
        Ok(ShownRow { when: row.when, cells: cells.collect::<Result<_, _>>()?, keys: Vec::new() })
    }

    /// The one row of a query without group keys.
    fn group(&mut self, group: &Group, rows: &[Joined]) -> Result<Joined, SqlError> {
        if !group.keys.is_empty() {
            return Err(outside("GROUP BY"));
        }
        let mut cells = Vec::new();
        for aggregate in &group.aggregates {
            let plain = matches!(aggregate.kind, AggregateKind::Min | AggregateKind::Max);
            if aggregate.distinct && !plain {
                return Err(outside("an aggregate with DISTINCT"));
            }
            let mut values = Vec::new();
            for row in rows {
                let one = self.terms.int(1);
                let cell = match &aggregate.arg {
                    Some(arg) => self.symbols(&row.cells).cell(arg)?,
                    None => Cell { null: Term::FALSE, value: one, kind: Kind::Int },
                };
                let there = self.terms.not(cell.null);
                values.push((self.terms.and(&[row.when, there]), cell));
            }
            cells.push(self.aggregate(aggregate.kind, &values)?);
        }
        let when = match &group.having {
            Some(having) => self.hold(std::slice::from_ref(having), &cells)?,
            None => Term::TRUE,
        };
        Ok(Joined { when, cells })
    }

    fn aggregate(&mut self, kind: AggregateKind, values: &[(Term, Cell)]) -> Result<Cell, SqlError> {
        let (zero, one) = (self.terms.int(0), self.terms.int(1));
        let counted: Vec<Term> = values.iter().map(|(when, _)| self.terms.if_int(*when, one, zero)).collect();
        let any: Vec<Term> = values.iter().map(|(when, _)| *when).collect();
        let any = self.terms.or(&any);
        let null = self.terms.not(any);
        match kind {
            AggregateKind::Count => {
                Ok(Cell { null: Term::FALSE, value: self.terms.sum(&counted), kind: Kind::Int })
            }
            AggregateKind::Sum => {
                if values.iter().any(|(_, cell)| !matches!(cell.kind, Kind::Int | Kind::Null)) {
                    return Err(outside("a sum beyond integers"));
                }
                let parts: Vec<Term> =
                    values.iter().map(|(when, cell)| self.terms.if_int(*when, cell.value, zero)).collect();
                Ok(Cell { null, value: self.terms.sum(&parts), kind: Kind::Int })
            }
            AggregateKind::Min => self.best(values, null, false),
            AggregateKind::Max => self.best(values, null, true),
            AggregateKind::Avg => Err(outside("AVG")),
        }
    }

    fn best(&mut self, values: &[(Term, Cell)], null: Term, largest: bool) -> Result<Cell, SqlError> {
        let mut kinds: Vec<Kind> = values.iter().map(|(_, cell)| cell.kind).collect();
        kinds.retain(|kind| *kind != Kind::Null);
        let kind = kinds.first().copied().unwrap_or(Kind::Null);
        let ordered = matches!(kind, Kind::Int | Kind::Date | Kind::Timestamp | Kind::Null);
        if !ordered || kinds.iter().any(|other| *other != kind) {
            return Err(outside("MIN or MAX beyond integers and dates"));
        }
        let (mut has, mut best) = (Term::FALSE, self.terms.int(0));
        for (when, cell) in values {
            let better =
                if largest { self.terms.less(best, cell.value) } else { self.terms.less(cell.value, best) };
            let first = self.terms.not(has);
            let takes = self.terms.or(&[first, better]);
            let takes = self.terms.and(&[*when, takes]);
            best = self.terms.if_int(takes, cell.value, best);
            has = self.terms.or(&[has, *when]);
        }
        Ok(Cell { null, value: best, kind })
    }

    /// The rows that an UPDATE or DELETE meets.
    fn met(
        &mut self,
        source: &Source,
        view: &mut dyn SymbolicView,
        answer: &mut Answer,
    ) -> Result<Vec<(Key, Term, SymbolicRow)>, SqlError> {
        answer.locks = true;
        let before = Joined { when: Term::TRUE, cells: Vec::new() };
        let met = self.found(source, &before, view, &mut answer.reads)?;
        let one = self.terms.int(1);
        let zero = self.terms.int(0);
        let counted: Vec<Term> = met.iter().map(|(_, when, _)| self.terms.if_int(*when, one, zero)).collect();
        answer.matched = self.terms.sum(&counted);
        Ok(met)
    }

    fn update(&mut self, update: &Update, view: &mut dyn SymbolicView) -> Result<Answer, SqlError> {
        let mut answer = Answer::new(self.terms);
        let table = update.table;
        let schema = self.database.schema(table);
        if key_is_set(&update.sets, schema) {
            return Err(outside("an UPDATE of a key"));
        }
        let (zero, one) = (self.terms.int(0), self.terms.int(1));
        for (key, when, row) in self.met(&update.source, view, &mut answer)? {
            let (mut cells, mut fails) = (row.cells.clone(), Vec::new());
            for (column, expr) in &update.sets {
                let to = schema.columns[*column].data_type;
                let cell = self.symbols(&row.cells).cell(expr)?;
                let (cell, failed) = self.symbols(&[]).stored(cell, to, is_flexible(expr))?;
                cells[*column] = cell;
                fails.push(failed);
            }
            fails.push(self.broken(schema, &cells)?);
            let failed = self.terms.or(&fails);
            let failed = self.terms.and(&[when, failed]);
            answer.fails = self.terms.or(&[answer.fails, failed]);
            let after = SymbolicRow { present: Term::TRUE, cells };
            let same = SymbolicRow::same(&row, &after, self.terms);
            let other = self.terms.not(same);
            let changes = self.terms.and(&[when, other]);
            let changes = self.terms.if_int(changes, one, zero);
            answer.changed = self.terms.add(answer.changed, changes);
            self.returned(update.returning.as_deref(), when, &after.cells, &mut answer)?;
            answer.writes.push(SymbolicWrite { table, key, when, after });
        }
        Ok(answer)
    }

    fn returned(
        &mut self,
        returning: Option<&[Output]>,
        when: Term,
        cells: &[Cell],
        answer: &mut Answer,
    ) -> Result<(), SqlError> {
        if let Some(outputs) = returning {
            let row = Joined { when, cells: cells.to_vec() };
            answer.rows.push(self.shown(outputs, &row)?);
        }
        Ok(())
    }

    fn delete(&mut self, delete: &Delete, view: &mut dyn SymbolicView) -> Result<Answer, SqlError> {
        let mut answer = Answer::new(self.terms);
        for (key, when, row) in self.met(&delete.source, view, &mut answer)? {
            self.returned(delete.returning.as_deref(), when, &row.cells, &mut answer)?;
            let after = SymbolicRow::absent(row.cells.len(), self.terms);
            answer.writes.push(SymbolicWrite { table: delete.table, key, when, after });
        }
        answer.changed = answer.matched;
        Ok(answer)
    }

    /// Where NOT NULL or CHECK refuses a row.
    fn broken(&mut self, schema: &Schema, cells: &[Cell]) -> Result<Term, SqlError> {
        let mut broken = Vec::new();
        for (column, cell) in schema.columns.iter().zip(cells) {
            if column.not_null {
                broken.push(cell.null);
            }
        }
        for (_, check) in &schema.checks {
            broken.push(self.symbols(cells).truth(check)?.is_false);
        }
        Ok(self.terms.or(&broken))
    }

    /// The rows that an INSERT gives, and where one cannot be stored.
    fn given(&mut self, insert: &Insert) -> Result<Vec<(Vec<Cell>, Term)>, SqlError> {
        let InsertRows::Values(rows) = &insert.rows else { return Err(outside("INSERT of a query")) };
        let schema = self.database.schema(insert.table);
        let mut given = Vec::new();
        for row in rows {
            let (mut cells, mut fails) = (Vec::new(), Vec::new());
            for (column, place) in schema.columns.iter().zip(&insert.given) {
                if column.auto {
                    return Err(outside("a number that the database gives to a row"));
                }
                let expr = place.and_then(|place| row[place].as_ref()).or(column.default.as_ref());
                let null = Expr::Literal(Value::Null);
                let expr = expr.unwrap_or(&null);
                let cell = self.symbols(&[]).cell(expr)?;
                let (cell, failed) = self.symbols(&[]).stored(cell, column.data_type, is_flexible(expr))?;
                cells.push(cell);
                fails.push(failed);
            }
            fails.push(self.broken(schema, &cells)?);
            given.push((cells, self.terms.or(&fails)));
        }
        Ok(given)
    }

    /// The key of a row.
    fn key(&self, schema: &Schema, row: &[Cell]) -> Result<Key, SqlError> {
        if schema.key.is_empty() {
            return Err(outside("INSERT into a table without a key"));
        }
        let part = |&column: &usize| {
            let value: Option<Value> = row[column].value(self.terms);
            value.map(|value| value.group_key(self.database.dialect()))
        };
        let parts: Option<Vec<Value>> = schema.key.iter().map(part).collect();
        parts.map(Arc::from).ok_or_else(|| outside("INSERT of a key"))
    }

    fn insert(&mut self, insert: &Insert, view: &mut dyn SymbolicView) -> Result<Answer, SqlError> {
        let schema = self.database.schema(insert.table);
        if insert.conflict.is_some() {
            return Err(outside("ON CONFLICT"));
        }
        if !schema.uniques.is_empty() {
            return Err(outside("INSERT into a table with UNIQUE columns"));
        }
        let mut answer = Answer::new(self.terms);
        answer.locks = true;
        let rows = self.given(insert)?;
        let count = self.terms.int(rows.len() as i128);
        (answer.matched, answer.changed) = (count, count);
        for (cells, failed) in rows {
            let key = self.key(schema, &cells)?;
            let twice = answer.writes.iter().any(|write| write.key == key);
            let taken = view.row(self.terms, insert.table, &key).present;
            answer.fails = self.terms.or(&[answer.fails, failed, taken, Terms::truth(twice)]);
            self.returned(insert.returning.as_deref(), Term::TRUE, &cells, &mut answer)?;
            let after = SymbolicRow { present: Term::TRUE, cells };
            answer.writes.push(SymbolicWrite { table: insert.table, key, when: Term::TRUE, after });
        }
        Ok(answer)
    }
}

/// The most rows of a join.
const MOST: usize = 4096;
