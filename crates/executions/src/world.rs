//! Everything that the statements of a log can make of rows, in no order.
//!
//! # Invariants
//! - Every row that any execution leaves, whatever its order and sights, is one that was there
//!   initially or that a statement inserts; and its columns come from there by the changes that are
//!   noted for it. Why this bounds their values: [`mod@crate::invariant`].
//! - A row that was there initially, and that nothing can delete, is seen by everybody. So is one
//!   that a transaction has inserted for sure whose writes the transaction with the result has to
//!   see.

use hashbrown::{HashMap, HashSet};
use margay_history::{History, Outcome, TxnId};
use margay_sql::{Change, Computed, Database, Effect, Key, Possible, Sums, TableId};
use margay_verdict::{Budget, Outside};

use super::formula::row_of;
use super::machine::Machine;
use super::order::Constraints;
use super::prints::RowId;
use super::setup::{unknown_rows, unknowns};

/// What the statements of some transactions can make of rows.
#[derive(Debug, Default)]
pub struct World {
    tables: HashMap<TableId, Table>,
    /// Rows whose initial values are not known, with the columns that are not.
    unknown: HashMap<RowId, Vec<usize>>,
}

#[derive(Debug, Default)]
struct Table {
    inserted: HashSet<Key>,
    /// Rows that were inserted for sure, and in time.
    certain: HashSet<Key>,
    /// Rows that a statement can delete; and whether one can delete any.
    deleted: HashSet<Key>,
    all_deleted: bool,
    /// Rows may be anything.
    open: bool,
    /// What can happen to a column of one row, and to a column of any row.
    cells: HashMap<Key, HashMap<usize, Made>>,
    columns: HashMap<usize, Made>,
}

/// What can happen to a column.
#[derive(Clone, Debug)]
struct Made {
    stored: Possible,
    sums: Sums,
    computed: Vec<Computed>,
}

impl Default for Made {
    fn default() -> Self {
        Made { stored: Possible::nothing(), sums: Sums::default(), computed: Vec::new() }
    }
}

impl World {
    /// Of the transactions that may have committed, but for those that have to come after `own`, if
    /// it is given.
    ///
    /// # Errors
    /// When a statement is outside the fragment or may do anything to any table. When the budget
    /// ends, too: whoever polls it knows better.
    pub fn new(
        machine: &mut Machine<'_>,
        constraints: &Constraints<'_>,
        own: Option<TxnId>,
        budget: &Budget,
    ) -> Result<Self, Outside> {
        let mut world = World::default();
        world.know_initial(machine.history(), machine)?;
        for &txn in constraints.preferred() {
            budget.poll().map_err(|_| Outside("the budget".to_owned()))?;
            if own.is_some_and(|own| constraints.before(own, txn)) {
                continue;
            }
            for op in machine.statements(txn)? {
                let (statement, params) = machine.bound(op)?;
                let Some(effects) = machine.database().effects(&statement, &params) else {
                    let who = machine.history().show_txn(txn);
                    return Err(Outside(format!("a statement of {who} that may do anything")));
                };
                // What is changed where a row is there already may be another row, of the same
                // unique value.
                let inserts = effects.iter().all(|effect| matches!(effect, Effect::Insert { .. }));
                let count = machine.history().statement(op).and_then(|seen| seen.count);
                let all = inserts && count == Some(effects.len() as u64);
                let certain =
                    all && own.is_some_and(|own| is_certain(machine.history(), constraints, own, txn));
                effects.into_iter().for_each(|effect| world.note(effect, certain));
            }
        }
        Ok(world)
    }

    fn know_initial(&mut self, history: &History, machine: &Machine<'_>) -> Result<(), Outside> {
        for object in unknown_rows(history) {
            if let Some(row) = row_of(machine, object) {
                self.unknown.insert(row, Vec::new());
            }
        }
        for cell in unknowns(history)? {
            let Some(row) = row_of(machine, cell.object) else { continue };
            let schema = machine.database().schema(row.0);
            let column = schema.columns.iter().position(|column| column.name == cell.column);
            match column {
                Some(column) if !schema.key.contains(&column) => {
                    self.unknown.entry(row).or_default().push(column);
                }
                _ => self.tables.entry(row.0).or_default().open = true,
            }
        }
        Ok(())
    }

    fn note(&mut self, effect: Effect, certain: bool) {
        match effect {
            Effect::Anything(table) => self.tables.entry(table).or_default().open = true,
            Effect::Insert { table, key, row } => {
                let table = self.tables.entry(table).or_default();
                let cells = table.cells.entry(key.clone()).or_default();
                for (column, value) in row.into_iter().enumerate() {
                    cells.entry(column).or_default().stored.join(value);
                }
                if certain {
                    table.certain.insert(key.clone());
                }
                table.inserted.insert(key);
            }
            Effect::Delete { table, key } => {
                let table = self.tables.entry(table).or_default();
                match key {
                    Some(key) => _ = table.deleted.insert(key),
                    None => table.all_deleted = true,
                }
            }
            Effect::Update { table, key, changes } => {
                let table = self.tables.entry(table).or_default();
                let cells = match key {
                    Some(key) => table.cells.entry(key).or_default(),
                    None => &mut table.columns,
                };
                for (column, change) in changes {
                    let made = cells.entry(column).or_default();
                    match change {
                        Change::Set(values) => made.stored.join(values),
                        Change::Add(amount) => made.sums.add(amount),
                        Change::Compute(computed) => made.computed.push(computed),
                    }
                }
            }
        }
    }

    /// Calls `visit` with each row that a table can have, and whether everybody sees it; false if
    /// there may be others.
    pub fn each(&self, database: &Database, table: TableId, visit: &mut dyn FnMut(&Key, bool)) -> bool {
        let known = self.tables.get(&table);
        if known.is_some_and(|known| known.open) {
            return false;
        }
        for key in database.keys(table) {
            if let Some(always) = self.row(database, table, &key) {
                visit(&key, always);
            }
        }
        let inserted = known.into_iter().flat_map(|known| &known.inserted);
        for key in inserted.filter(|key| initially(database, table, key).is_none()) {
            visit(key, self.row(database, table, key) == Some(true));
        }
        true
    }

    /// Whether everybody sees a row; `None` if nobody can.
    #[must_use]
    pub fn row(&self, database: &Database, table: TableId, key: &Key) -> Option<bool> {
        let initial = initially(database, table, key).is_some();
        let certain = initial && !self.unknown.contains_key(&(table, key.clone()));
        let Some(known) = self.tables.get(&table) else { return initial.then_some(certain) };
        let certain = certain || known.certain.contains(key);
        let stays = !known.open && !known.all_deleted && !known.deleted.contains(key);
        (initial || known.open || known.inserted.contains(key)).then_some(certain && stays)
    }

    /// What a column of a row can be, if every column `c` of the row is one of `row(c)` whenever a
    /// statement computes with it.
    #[must_use]
    pub fn cell(
        &self,
        database: &Database,
        (table, key, column): (TableId, &Key, usize),
        row: &dyn Fn(usize) -> Possible,
    ) -> Possible {
        let mut stored = match initially(database, table, key) {
            Some(record) => record.get(column).cloned().map_or(Possible::Any, Possible::one),
            None => Possible::nothing(),
        };
        if self.unknown.get(&(table, key.clone())).is_some_and(|columns| columns.contains(&column)) {
            stored = Possible::Any;
        }
        let Some(known) = self.tables.get(&table) else { return stored };
        if known.open {
            return Possible::Any;
        }
        let own = known.cells.get(key).and_then(|cells| cells.get(&column));
        let mut sums = Sums::default();
        for made in own.into_iter().chain(known.columns.get(&column)) {
            stored.join(made.stored.clone());
            sums.merge(&made.sums);
            made.computed.iter().for_each(|computed| stored.join(computed.possible(row)));
        }
        sums.reach(&stored)
    }
}

/// Whether a transaction committed for sure, and another one sees it.
fn is_certain(history: &History, constraints: &Constraints<'_>, own: TxnId, txn: TxnId) -> bool {
    history.outcome(txn) == Outcome::Committed && constraints.sees(own, txn)
}

/// A row as it was initially, if it was there.
fn initially(database: &Database, table: TableId, key: &Key) -> Option<margay_sql::Record> {
    database.versions(table, key).into_iter().next().and_then(|(_, record)| record)
}
