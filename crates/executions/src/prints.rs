//! What transactions can touch, whatever they see.

use hashbrown::{HashMap, HashSet};
use margay_history::{History, Outcome, TxnId};
use margay_sql::{Footprint, Key, TableId, Touched};
use margay_verdict::Outside;

use super::machine::Machine;

/// A row by its table and key.
pub type RowId = (TableId, Key);

/// How a transaction may write a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// It adds constants to integers of the row, and does not write it otherwise.
    Adds,
    /// It leaves the same row, whatever was there before. The row is there at any time.
    Sets,
    /// In some other way.
    Writes,
}

/// What the transactions of a history can touch.
#[derive(Debug)]
pub struct Prints {
    /// Who may write a row, and how.
    writers: HashMap<RowId, Vec<(TxnId, Effect)>>,
    /// The rows that a table can have.
    keys: HashMap<TableId, Vec<Key>>,
}

impl Prints {
    /// Of the transactions that may have committed; `None` if one may touch anything.
    ///
    /// # Errors
    /// When a statement is outside the fragment.
    pub fn new(history: &History, machine: &mut Machine<'_>) -> Result<Option<Self>, Outside> {
        let mut keys: HashMap<TableId, Vec<Key>> = HashMap::new();
        for (_, table) in machine.database().tables() {
            keys.insert(table, machine.database().keys(table));
        }
        let initial: HashSet<RowId> =
            keys.iter().flat_map(|(table, keys)| keys.iter().map(|key| (*table, key.clone()))).collect();
        let mut all = Vec::new();
        for txn in history.txns().filter(|&txn| history.outcome(txn) != Outcome::Aborted) {
            let mut prints = Vec::new();
            for op in machine.statements(txn)? {
                let (statement, params) = machine.bound(op)?;
                let Some(print) = machine.database().footprint(&statement, &params) else { return Ok(None) };
                for (table, key) in &print.writes {
                    let keys = keys.entry(*table).or_default();
                    if let Some(key) = key.as_ref().filter(|key| !keys.contains(key)) {
                        keys.push(key.clone());
                    }
                }
                prints.push(print);
            }
            all.push((txn, prints));
        }
        let mut result = Prints { writers: HashMap::new(), keys };
        let created = all.iter().flat_map(|(_, prints)| prints).filter(|print| print.creates);
        let created = result.written(created.flat_map(|print| &print.writes));
        for (txn, prints) in all {
            for row in result.written(prints.iter().flat_map(|print| &print.writes)) {
                let there = initial.contains(&row) && !created.contains(&row);
                let effect = effect(&prints, &row, there);
                result.writers.entry(row).or_default().push((txn, effect));
            }
        }
        Ok(Some(result))
    }

    fn written<'a>(&self, touched: impl Iterator<Item = &'a Touched>) -> HashSet<RowId> {
        touched
            .flat_map(|(table, key)| match key {
                Some(key) => vec![(*table, key.clone())],
                None => self.rows(*table),
            })
            .collect()
    }

    /// All rows that a table can have.
    #[must_use]
    pub fn rows(&self, table: TableId) -> Vec<RowId> {
        self.keys.get(&table).into_iter().flatten().map(|key| (table, key.clone())).collect()
    }

    /// Who may write a row, and how.
    #[must_use]
    pub fn writers(&self, row: &RowId) -> &[(TxnId, Effect)] {
        self.writers.get(row).map_or(&[], Vec::as_slice)
    }

    /// How a transaction may write a row.
    #[must_use]
    pub fn effect(&self, txn: TxnId, row: &RowId) -> Option<Effect> {
        self.writers(row).iter().find(|(known, _)| *known == txn).map(|&(_, effect)| effect)
    }
}

/// How statements write a row; `there`: it is there at any time.
fn effect(prints: &[Footprint], row: &RowId, there: bool) -> Effect {
    let may_write = |print: &&Footprint| {
        print
            .writes
            .iter()
            .any(|(table, key)| *table == row.0 && key.as_ref().is_none_or(|key| *key == row.1))
    };
    let writing: Vec<&Footprint> = prints.iter().filter(may_write).collect();
    let (adds, sets) =
        (|p: &&Footprint| p.adds.as_ref() == Some(row), |p: &&Footprint| p.sets.as_ref() == Some(row));
    if writing.iter().all(adds) {
        Effect::Adds
    } else if there && writing.iter().any(sets) && writing.iter().all(|p| adds(p) || sets(p)) {
        Effect::Sets
    } else {
        Effect::Writes
    }
}
