//! What a statement can touch, whatever the rows are.
//!
//! # Invariants
//! - Whatever state a statement is executed on, it looks at and writes no other rows than its
//!   footprint says; all rows of a table are those that are there initially or that somebody
//!   inserts by name.
//! - A statement that adds changes its one row, if it is there, by amounts that do not depend on
//!   what it sees: executed in any order, such statements leave the same row. One that sets leaves
//!   the same row whatever was there, if something was.

use crate::reading::arith::Arith;
use crate::reading::cast::Type;
use crate::reading::change::key_is_set;
use crate::reading::database::Database;
use crate::reading::expr::{Expr, Slot};
use crate::reading::plan::{
    Delete, Insert, InsertRows, OrderBy, Select, Source, SourceRows, TableId, Update,
};
use crate::reading::schema::Schema;
use crate::reading::statement::{Plan, Statement};
use crate::reading::store::Key;
use crate::reading::symbolic_expr::Symbols;
use crate::term::Terms;
use crate::value::Value;

/// Rows of a table: one, or all.
pub type Touched = (TableId, Option<Key>);

/// What a statement can touch.
#[derive(Clone, Debug, Default)]
pub struct Footprint {
    /// The rows that it can look at.
    pub reads: Vec<Touched>,
    /// The rows that it can write.
    pub writes: Vec<Touched>,
    /// It only adds constants to integers of this row.
    pub adds: Option<(TableId, Key)>,
    /// It gives every column of this row, but for the key, a constant.
    pub sets: Option<(TableId, Key)>,
    /// It inserts or deletes.
    pub creates: bool,
}

impl Database {
    /// What a statement can touch; `None` for what may be anything, or depends on more than rows.
    pub fn footprint(&self, statement: &Statement, params: &[Value]) -> Option<Footprint> {
        match statement.plan() {
            Plan::Select(select) => {
                let mut print = Footprint::default();
                self.select_reads(select, params, &mut print.reads)?;
                Some(print)
            }
            Plan::Insert(insert) => self.insert_print(insert, params),
            Plan::Update(update) => self.update_print(update, params),
            Plan::Delete(Delete { source, table, .. }) => {
                let touched = vec![(*table, self.named(source, params)?)];
                Some(Footprint {
                    reads: touched.clone(),
                    writes: touched,
                    creates: true,
                    ..Footprint::default()
                })
            }
            _ => None,
        }
    }

    fn select_reads(&self, select: &Select, params: &[Value], reads: &mut Vec<Touched>) -> Option<()> {
        let outputs = select.outputs.iter().map(|output| &output.expr);
        let conditions = select.sources.iter().flat_map(|source| source.on.iter().chain(&source.filters));
        if outputs.chain(conditions).chain(&select.constant).any(Expr::has_subquery) {
            return None;
        }
        let hidden = select.order.iter().filter_map(|order| match &order.by {
            OrderBy::Expr(expr) => Some(expr),
            OrderBy::Output(_) => None,
        });
        let grouped = select.group.iter().flat_map(|group| {
            let arguments = group.aggregates.iter().filter_map(|aggregate| aggregate.arg.as_ref());
            group.keys.iter().chain(&group.having).chain(arguments)
        });
        if hidden.chain(grouped).any(Expr::has_subquery) {
            return None;
        }
        for source in &select.sources {
            match &source.rows {
                SourceRows::Table(table, _) => reads.push((*table, self.named(source, params)?)),
                SourceRows::Derived(inner) => self.select_reads(inner, params, reads)?,
            }
        }
        Some(())
    }

    /// The key that a source names by constants, if it does; `None` for what has subqueries.
    pub(crate) fn named(&self, source: &Source, params: &[Value]) -> Option<Option<Key>> {
        if source.on.iter().chain(&source.filters).any(Expr::has_subquery) {
            return None;
        }
        let SourceRows::Table(table, _) = &source.rows else { return None };
        let schema = self.schema(*table);
        if !source.access.whole || source.access.prefix.len() != schema.key.len() {
            return Some(None);
        }
        let part = |(expr, &column): (&Expr, &usize)| {
            let value = self.constant(expr, params)?;
            crate::reading::run::key_form(&value, schema.columns[column].data_type, self.dialect())
        };
        let key: Option<Vec<Value>> = source.access.prefix.iter().zip(&schema.key).map(part).collect();
        Some(key.map(Key::from))
    }

    fn constant(&self, expr: &Expr, params: &[Value]) -> Option<Value> {
        let mut terms = Terms::new();
        let mut symbols = Symbols { terms: &mut terms, dialect: self.dialect(), row: &[], params };
        let cell = symbols.cell(expr).ok()?;
        cell.value(&terms)
    }

    /// Rows that the database numbers depend on more than rows, and so does their key.
    fn insert_print(&self, insert: &Insert, params: &[Value]) -> Option<Footprint> {
        let schema = self.schema(insert.table);
        let InsertRows::Values(rows) = &insert.rows else { return None };
        let subquery = rows.iter().flatten().flatten().any(Expr::has_subquery);
        let updates = insert.conflict.as_ref().is_some_and(|conflict| conflict.update.is_some());
        let numbered = schema.key.is_empty() || schema.columns.iter().any(|column| column.auto);
        if numbered || subquery || updates {
            return None;
        }
        let all = !schema.uniques.is_empty();
        let mut print = Footprint { creates: true, ..Footprint::default() };
        for row in rows {
            let key = self.inserted(insert, schema, row, params)?;
            print.reads.push((insert.table, (!all).then(|| key.clone())));
            print.writes.push((insert.table, Some(key)));
        }
        Some(print)
    }

    fn inserted(
        &self,
        insert: &Insert,
        schema: &Schema,
        row: &[Option<Expr>],
        params: &[Value],
    ) -> Option<Key> {
        let part = |&column: &usize| {
            let expr = insert.given[column].and_then(|place| row[place].as_ref())?;
            let value = self.constant(expr, params)?;
            crate::reading::run::key_form(&value, schema.columns[column].data_type, self.dialect())
        };
        schema.key.iter().map(part).collect::<Option<Vec<Value>>>().map(Key::from)
    }

    fn update_print(&self, update: &Update, params: &[Value]) -> Option<Footprint> {
        let schema = self.schema(update.table);
        if key_is_set(&update.sets, schema) || update.sets.iter().any(|(_, expr)| expr.has_subquery()) {
            return None;
        }
        let key = self.named(&update.source, params)?;
        let decided = key.clone().filter(|_| update.source.access.decides).map(|key| (update.table, key));
        let adds = update.sets.iter().all(|(column, expr)| self.is_addition(schema, *column, expr, params));
        let is_set = |column: usize| {
            let mut sets = update.sets.iter().filter(|(set, _)| *set == column);
            sets.any(|(_, expr)| expr.uses().0.is_empty() && self.constant(expr, params).is_some())
        };
        let sets = (0..schema.columns.len()).all(|column| schema.key.contains(&column) || is_set(column));
        let touched = vec![(update.table, key)];
        Some(Footprint {
            reads: touched.clone(),
            writes: touched,
            adds: decided.clone().filter(|_| adds),
            sets: decided.filter(|_| sets),
            creates: false,
        })
    }

    /// Whether an assignment adds a constant integer to its own column.
    fn is_addition(&self, schema: &Schema, column: usize, expr: &Expr, params: &[Value]) -> bool {
        let own = |expr: &Expr| matches!(expr, Expr::Column(Slot { depth: 0, index }) if usize::from(*index) == column);
        let constant = |expr: &Expr| {
            expr.uses().0.is_empty() && matches!(self.constant(expr, params), Some(Value::Int(_)))
        };
        let whole = matches!(schema.columns[column].data_type, Type::Int(_));
        whole
            && match expr {
                Expr::Arith(Arith::Add, a, b) => own(a) && constant(b) || own(b) && constant(a),
                Expr::Arith(Arith::Sub, a, b) => own(a) && constant(b),
                _ => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Dialect;

    #[test]
    fn what_is_named_and_what_only_adds() {
        let mut database = Database::new(Dialect::Generic);
        database.run("CREATE TABLE t (k int PRIMARY KEY, v int)", &[]).expect("a table");
        let print = |text: &str| {
            let statement = database.prepare(text).expect(text);
            database.footprint(&statement, &[Value::Int(7)])
        };
        let named = |print: &Option<Footprint>| print.as_ref().expect("a footprint").reads[0].1.is_some();
        for text in ["UPDATE t SET v = v + 3 WHERE k = 1", "UPDATE t SET v = v - $1 WHERE k = $1"] {
            let print = print(text);
            assert!(named(&print) && print.expect("a footprint").adds.is_some(), "{text}");
        }
        for text in [
            "UPDATE t SET v = 3 - v WHERE k = 1",
            "UPDATE t SET v = v + 3 WHERE k = 1 AND v < 5",
            "UPDATE t SET v = v + k WHERE k = 1",
            "DELETE FROM t WHERE k = 1",
            "SELECT v FROM t WHERE k = 1",
            "INSERT INTO t VALUES (1, 2)",
        ] {
            let print = print(text);
            assert!(named(&print) && print.expect("a footprint").adds.is_none(), "{text}");
        }
        for (text, sets) in
            [("UPDATE t SET v = $1 WHERE k = 1", true), ("UPDATE t SET v = v WHERE k = 1", false)]
        {
            assert_eq!(print(text).expect("a footprint").sets.is_some(), sets, "{text}");
        }
        for text in ["UPDATE t SET v = v + 3", "SELECT SUM(v) FROM t"] {
            assert!(!named(&print(text)), "{text}");
        }
        for text in ["SELECT v FROM t WHERE v = (SELECT MAX(v) FROM t)", "UPDATE t SET k = 2 WHERE k = 1"] {
            assert!(print(text).is_none(), "{text}");
        }
    }
}
