//! What statements see of a row: what the latest visible writer left.
//!
//! # Algorithm
//! Who may write a row is known from the statements' texts. A visible writer that surely wrote
//! hides all that are surely before it; of the rest each is the latest one where no other visible
//! one comes after it. A writer whose statements are not translated yet stands for itself by
//! unknowns, which are tied to its terms later.

use hashbrown::HashMap;
use margay_sql::{Cell, Key, Kind, SqlError, SymbolicRow, SymbolicView, TableId, Term, Terms};

use super::points::{Points, Sees};
use crate::prints::RowId;

/// What a transaction leaves of a row.
#[derive(Clone, Debug)]
pub struct Version {
    /// Whether it writes the row.
    pub writes: Term,
    /// What the row is then.
    pub row: SymbolicRow,
}

/// All rows, initially and as transactions leave them.
#[derive(Debug, Default)]
pub struct Rows {
    /// The keys that each table can have.
    pub keys: HashMap<TableId, Vec<Key>>,
    /// What columns hold.
    pub kinds: HashMap<TableId, Vec<Kind>>,
    /// The rows that are there initially.
    pub initial: HashMap<RowId, SymbolicRow>,
    /// Who may write a row.
    writers: HashMap<RowId, Vec<usize>>,
    /// The rows that somebody may write, always in the same order: terms are numbered as they are
    /// made.
    written: Vec<RowId>,
    /// Who may delete a row, and who may insert it again after that.
    deleters: HashMap<RowId, Vec<usize>>,
    replacers: HashMap<RowId, Vec<usize>>,
    /// What transactions leave, as far as somebody asked.
    pub versions: HashMap<(usize, RowId), Version>,
}

/// A row as a statement sees it: which version, and what it is.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The row.
    pub row: SymbolicRow,
    /// The writers of the versions that it may be, each with where it is that one; the initial one
    /// has none.
    pub picks: Vec<(Option<usize>, Term)>,
    /// Whether it is the latest version before the transaction.
    pub is_latest: Term,
    /// Those that may have deleted the row and inserted it again, each with where the row is missed
    /// because of that.
    pub missed: Vec<(usize, Term)>,
}

impl Rows {
    /// Notes that a transaction may write a row.
    pub fn note_writer(&mut self, id: RowId, txn: usize) {
        let writers = self.writers.entry(id.clone()).or_default();
        if writers.is_empty() {
            self.written.push(id);
        }
        if !writers.contains(&txn) {
            writers.push(txn);
        }
    }

    /// Notes that a transaction may delete a row.
    pub fn note_deleter(&mut self, id: RowId, txn: usize) {
        self.deleters.entry(id).or_default().push(txn);
    }

    /// Notes that a transaction may insert a row, which it may have deleted before.
    pub fn note_inserter(&mut self, id: &RowId, txn: usize) {
        let deleted = self.deleters.get(id).is_some_and(|deleters| deleters.contains(&txn));
        let replacers = self.replacers.entry(id.clone()).or_default();
        if deleted && !replacers.contains(&txn) {
            replacers.push(txn);
        }
    }

    /// The rows that all of these may write.
    #[must_use]
    pub fn written_by(&self, txns: &[usize]) -> Vec<RowId> {
        let by_all = |id: &&RowId| txns.iter().all(|txn| self.writers[*id].contains(txn));
        self.written.iter().filter(by_all).cloned().collect()
    }

    /// What a row is initially.
    pub fn initially(&self, id: &RowId, terms: &mut Terms) -> SymbolicRow {
        match self.initial.get(id) {
            Some(row) => row.clone(),
            None => SymbolicRow::absent(self.kinds.get(&id.0).map_or(0, Vec::len), terms),
        }
    }

    /// What a transaction leaves of a row.
    pub fn version(&mut self, txn: usize, id: &RowId, terms: &mut Terms) -> Version {
        if let Some(known) = self.versions.get(&(txn, id.clone())) {
            return known.clone();
        }
        let kinds = self.kinds.get(&id.0).cloned().unwrap_or_default();
        let mut cell = |kind| Cell { null: terms.choice(), value: terms.unknown(), kind };
        let cells: Vec<Cell> = kinds.into_iter().map(&mut cell).collect();
        let row = SymbolicRow { present: terms.choice(), cells };
        let version = Version { writes: terms.choice(), row };
        self.versions.insert((txn, id.clone()), version.clone());
        version
    }

    /// Notes what a transaction leaves, and ties it to what stood for it before.
    pub fn settle(
        &mut self,
        txn: usize,
        id: RowId,
        version: Version,
        terms: &mut Terms,
        asserted: &mut Vec<Term>,
    ) {
        if let Some(before) = self.versions.get(&(txn, id.clone())) {
            asserted.push(terms.same_truth(before.writes, version.writes));
            let same = SymbolicRow::same(&before.row, &version.row, terms);
            asserted.push(terms.implies(version.writes, same));
        }
        self.versions.insert((txn, id), version);
    }

    /// The writers other than `own` that it may see, each with where it does.
    fn visible(
        &mut self,
        points: &Points<'_>,
        own: usize,
        sees: Sees,
        id: &RowId,
        terms: &mut Terms,
    ) -> Vec<(usize, Term)> {
        let writers = self.writers.get(id).cloned().unwrap_or_default();
        let mut visible = Vec::new();
        for writer in writers.into_iter().filter(|&writer| writer != own) {
            let seen = points.sees(own, sees, writer, terms);
            if seen == Term::FALSE {
                continue;
            }
            let version = self.version(writer, id, terms);
            let seen = terms.and(&[points.included[writer], version.writes, seen]);
            if seen != Term::FALSE {
                visible.push((writer, seen));
            }
        }
        visible
    }

    /// The latest version that is seen.
    pub fn latest(
        &mut self,
        points: &Points<'_>,
        (own, sees): (usize, Sees),
        id: &RowId,
        terms: &mut Terms,
    ) -> Result<Seen, SqlError> {
        let mut visible = self.visible(points, own, sees, id, terms);
        let sure: Vec<usize> =
            visible.iter().filter(|(_, seen)| *seen == Term::TRUE).map(|(writer, _)| *writer).collect();
        visible.retain(|(writer, _)| !sure.iter().any(|&later| points.is_before(*writer, later)));
        let mut picks = Vec::new();
        let mut row = self.initially(id, terms);
        for &(writer, seen) in &visible {
            let last = later_than(points, writer, &visible, terms);
            let picked = terms.and(&[seen, last]);
            row = SymbolicRow::either(picked, &self.version(writer, id, terms).row, &row, terms)?;
            picks.push((Some(writer), picked));
        }
        picks.push((None, none_of(&visible, terms)));
        Ok(Seen { row, picks, is_latest: Term::TRUE, missed: Vec::new() })
    }

    /// Any version that some state before the transaction has.
    pub fn any(
        &mut self,
        points: &Points<'_>,
        own: usize,
        id: &RowId,
        terms: &mut Terms,
        asserted: &mut Vec<Term>,
    ) -> Result<Seen, SqlError> {
        let visible = self.visible(points, own, Sees::Here, id, terms);
        let (mut picks, mut latest, mut free) = (Vec::new(), Vec::new(), Term::TRUE);
        let mut row = self.initially(id, terms);
        for &(writer, seen) in &visible {
            let chosen = terms.choice();
            let picked = terms.and(&[free, chosen]);
            let possible = terms.implies(picked, seen);
            asserted.push(terms.implies(points.included[own], possible));
            let last = later_than(points, writer, &visible, terms);
            latest.push(terms.and(&[picked, last]));
            row = SymbolicRow::either(picked, &self.version(writer, id, terms).row, &row, terms)?;
            picks.push((Some(writer), picked));
            let not = terms.not(chosen);
            free = terms.and(&[free, not]);
        }
        picks.push((None, free));
        let untouched = none_of(&visible, terms);
        latest.push(terms.and(&[free, untouched]));
        Ok(Seen { row, picks, is_latest: terms.or(&latest), missed: Vec::new() })
    }

    /// The same, or no row at all where a transaction before may have deleted it and inserted it
    /// again.
    pub fn or_missed(
        &mut self,
        points: &Points<'_>,
        own: usize,
        id: &RowId,
        mut seen: Seen,
        (terms, asserted): (&mut Terms, &mut Vec<Term>),
    ) -> Result<Seen, SqlError> {
        let replacers = self.replacers.get(id).cloned().unwrap_or_default();
        if replacers.is_empty() {
            return Ok(seen);
        }
        for (writer, visible) in self.visible(points, own, Sees::Here, id, terms) {
            if !replacers.contains(&writer) {
                continue;
            }
            let missed = terms.choice();
            let possible = terms.implies(missed, visible);
            asserted.push(terms.implies(points.included[own], possible));
            let absent = SymbolicRow::absent(seen.row.cells.len(), terms);
            seen.row = SymbolicRow::either(missed, &absent, &seen.row, terms)?;
            let found = terms.not(missed);
            seen.is_latest = terms.and(&[seen.is_latest, found]);
            seen.missed.push((writer, missed));
        }
        Ok(seen)
    }

    /// Whether another transaction that is visible here, and may delete the row, wrote it after a
    /// point.
    pub fn ended_after(
        &mut self,
        points: &Points<'_>,
        own: usize,
        id: &RowId,
        point: Term,
        terms: &mut Terms,
    ) -> Term {
        let deleters = self.deleters.get(id).cloned().unwrap_or_default();
        let mut visible = self.visible(points, own, Sees::Here, id, terms);
        visible.retain(|(writer, _)| deleters.contains(writer));
        some_after(points, &visible, point, terms)
    }

    /// Whether no other transaction that is visible here wrote the row after a point.
    pub fn is_newest(
        &mut self,
        points: &Points<'_>,
        own: usize,
        id: &RowId,
        point: Term,
        terms: &mut Terms,
    ) -> Term {
        let visible = self.visible(points, own, Sees::Here, id, terms);
        let later = some_after(points, &visible, point, terms);
        terms.not(later)
    }
}

/// Whether one of these transactions, each with the term that says whether it is visible, comes
/// after a point.
fn some_after(points: &Points<'_>, visible: &[(usize, Term)], point: Term, terms: &mut Terms) -> Term {
    let after = visible.iter().map(|&(writer, seen)| {
        let later = terms.less(point, points.at[writer]);
        terms.and(&[seen, later])
    });
    let after: Vec<Term> = after.collect();
    terms.or(&after)
}

/// Whether no visible writer comes after this one.
fn later_than(points: &Points<'_>, writer: usize, visible: &[(usize, Term)], terms: &mut Terms) -> Term {
    let mut parts = Vec::new();
    for &(other, seen) in visible.iter().filter(|(other, _)| *other != writer) {
        let after = points.less(writer, other, terms);
        let hidden = terms.and(&[seen, after]);
        parts.push(terms.not(hidden));
    }
    terms.and(&parts)
}

fn none_of(visible: &[(usize, Term)], terms: &mut Terms) -> Term {
    let all: Vec<Term> = visible.iter().map(|(_, seen)| *seen).collect();
    let some = terms.or(&all);
    terms.not(some)
}

/// What a transaction has written of a row so far.
#[derive(Clone, Debug)]
pub struct Own {
    /// Whether it has.
    pub written: Term,
    /// What the row is then.
    pub row: SymbolicRow,
}

/// The rows that one statement sees: its transaction's own writes over committed ones.
pub struct VisibleRows<'a> {
    /// The keys of tables.
    pub keys: &'a HashMap<TableId, Vec<Key>>,
    /// The transaction's own writes.
    pub own: &'a HashMap<RowId, Own>,
    /// How a committed row is seen.
    pub committed: &'a mut dyn FnMut(&mut Terms, &RowId) -> Result<SymbolicRow, SqlError>,
    /// What went wrong.
    pub failed: Option<SqlError>,
}

impl SymbolicView for VisibleRows<'_> {
    fn keys(&self, table: TableId) -> Vec<Key> {
        self.keys.get(&table).cloned().unwrap_or_default()
    }

    fn row(&mut self, terms: &mut Terms, table: TableId, key: &Key) -> SymbolicRow {
        let id = (table, key.clone());
        let own = self.own.get(&id);
        if let Some(own) = own.filter(|own| own.written == Term::TRUE) {
            return own.row.clone();
        }
        let seen = (self.committed)(terms, &id).and_then(|row| match own {
            Some(own) => SymbolicRow::either(own.written, &own.row, &row, terms),
            None => Ok(row),
        });
        seen.unwrap_or_else(|error| {
            self.failed.get_or_insert(error);
            SymbolicRow::absent(0, terms)
        })
    }
}
