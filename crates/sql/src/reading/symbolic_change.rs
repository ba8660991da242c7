//! Changes of rows that are not known: UPDATE, DELETE, and INSERT of values with known keys.

use std::sync::Arc;

use crate::error::SqlError;
use crate::reading::change::key_is_set;
use crate::reading::expr::Expr;
use crate::reading::plan::{Delete, Insert, InsertRows, Output, Source, Update, is_flexible};
use crate::reading::schema::Schema;
use crate::reading::store::Key;
use crate::reading::symbolic::{Answer, Joined, Run, SymbolicRow, SymbolicView, SymbolicWrite};
use crate::reading::symbolic_expr::{Cell, outside};
use crate::term::{Term, Terms};
use crate::value::Value;

impl Run<'_> {
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

    pub(crate) fn update(
        &mut self,
        update: &Update,
        view: &mut dyn SymbolicView,
    ) -> Result<Answer, SqlError> {
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

    pub(crate) fn delete(
        &mut self,
        delete: &Delete,
        view: &mut dyn SymbolicView,
    ) -> Result<Answer, SqlError> {
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
    pub(crate) fn given(&mut self, insert: &Insert) -> Result<Vec<(Vec<Cell>, Term)>, SqlError> {
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
    pub(crate) fn key(&self, schema: &Schema, row: &[Cell]) -> Result<Key, SqlError> {
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

    pub(crate) fn insert(
        &mut self,
        insert: &Insert,
        view: &mut dyn SymbolicView,
    ) -> Result<Answer, SqlError> {
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
