//! Tables, and what a recorder did not see of them.

use crate::history::History;

/// A table.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// The columns of its key.
    pub key: Vec<String>,
    /// Its columns with their types; empty when nothing was declared.
    pub columns: Vec<(String, String)>,
    /// Whether rows without a given initial value may have been there, with any content.
    pub initial_unknown: bool,
    /// Whether rows of it may be written by something that is not recorded.
    pub written_by_anything: bool,
    /// The columns that something which is not recorded may write, in rows that recorded
    /// transactions insert and delete. Sorted; none of the key.
    pub columns_by_anything: Vec<String>,
}

impl Table {
    /// Whether something that is not recorded may write rows or columns of it.
    #[must_use]
    pub fn has_unseen_writers(&self) -> bool {
        self.written_by_anything || !self.columns_by_anything.is_empty()
    }

    /// What does not fit together, if something does not.
    pub(crate) fn fault(&self) -> Option<String> {
        let name = &self.name;
        let declared = |column: &String| self.columns.iter().any(|(known, _)| known == column);
        if let Some(key) = self.key.iter().find(|&key| !self.columns.is_empty() && !declared(key)) {
            return Some(format!("key column {key:?} of table {name:?} is not among its columns"));
        }
        let open = &self.columns_by_anything;
        if let Some(column) = open.iter().find(|&column| !declared(column)) {
            return Some(format!("column {column:?} of table {name:?} is not among its columns"));
        }
        if let Some(column) = open.iter().find(|&column| self.key.contains(column)) {
            return Some(format!("key column {column:?} of table {name:?} cannot be written by anything"));
        }
        (!open.is_sorted_by(|a, b| a < b)).then(|| format!("columns of table {name:?} are out of order"))
    }
}

impl History {
    /// What of the tables' content the recorder could not see, in words: rows that may have been
    /// there before, or writers that were not recorded. Whoever takes a missing row for an absent
    /// one, or a value for the work of a recorded transaction, must answer `unknown` with this
    /// reason.
    #[must_use]
    pub fn unseen_content(&self) -> Option<String> {
        self.tables().iter().find_map(|table| {
            let name = &table.name;
            match table.columns_by_anything.first() {
                _ if table.written_by_anything => Some(format!("table {name:?}, which anything may write")),
                Some(column) => {
                    Some(format!("column {column:?} of table {name:?}, which anything may write"))
                }
                None if table.initial_unknown => {
                    Some(format!("table {name:?}, whose initial rows are not known"))
                }
                None => None,
            }
        })
    }
}
