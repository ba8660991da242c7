//! Lemmas about executions: a few transactions that cannot have run like this.
//!
//! # Problem
//! That a transaction's results do not fit depends on what it saw, and that on who wrote it last,
//! and on what those saw. Which orders have the same misfit?
//!
//! # Mathematics
//! Take a row that a transaction *r* looked at, and the last one *u* before *r* that wrote it
//! otherwise than by adding constants (or the initial row). If *u* gives all its columns constants,
//! what *u* saw does not matter. What *r* saw of it is what *u* left, and what was added by those
//! between *u* and *r*: the same in every order that has *u* before *r*, the same adding ones
//! between them, and every other possible writer before *u* or after *r*. If this is so for all
//! rows that *r* looked at, and for all that those *u* looked at, and so on, then *r* gives the
//! same results. Conditions look at every row that their table can have. Under snapshot isolation a
//! writer is seen if it committed before the reader began; who adds adds to the newest version,
//! because nobody else may write the row in between, if it has seen the row inserted.
//!
//! A [`Misrun`](margay_verdict::execution::Misrun) names these transactions in their order, and
//! assumes what is said above of beginnings and commits. It says that not all of its assumptions
//! are true.
//!
//! # Invariants
//! - [`Demands`] are computed from an execution of the named transactions alone, and from what
//!   transactions can touch by their texts ([`Prints`]).

use hashbrown::HashSet;
use margay_history::{History, OpId, TxnId};
use margay_verdict::Outside;
use margay_verdict::execution::{Moment, StatementSight};

use super::machine::{Machine, Ran};
use super::prints::{Effect, Prints, RowId};
use super::rules::{Family, Rules};

/// What an order has to have so that a misfit stays.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Demand {
    /// One moment before another.
    Before(Moment, Moment),
    /// A transaction is absent, or commits before the first moment, or after the second.
    Apart(TxnId, Option<Moment>, Moment),
}

/// Transactions that were executed one after the other, whether their results fitted or not.
#[derive(Debug, Default)]
pub struct Course {
    /// The transactions, and how many of those before each sees.
    pub run: Vec<(TxnId, u32)>,
    looked: Vec<HashSet<RowId>>,
    wrote: Vec<HashSet<RowId>>,
    /// Whether a statement failed, so that what it would have added is missing.
    failed: Vec<bool>,
    /// Who does not fit, and the statement or the transaction since its snapshot that is to blame.
    pub misfit: Option<(usize, Blame)>,
}

/// Why a transaction cannot have run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blame {
    /// A statement gives something else.
    Statement(OpId),
    /// It changes a row that this one, by its place, wrote after the snapshot.
    Conflict(usize),
}

/// Which misfits of a transaction count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counts {
    /// The first one, which ends it.
    First,
    /// None: it commits all the same.
    None,
    /// That of one statement, or a write conflict.
    Of(Option<OpId>),
}

/// Whether lemmas about this family of levels can be made.
#[must_use]
pub fn has_lemmas(history: &History, rules: Rules) -> bool {
    matches!(rules.family, Family::Serial | Family::Snapshot) && history.evidence().snapshots.is_empty()
}

impl Course {
    /// Executes the transactions that a lemma names, on nothing but the initial state. Only a
    /// misfit of the last one counts, by a statement or by a write conflict: others may not fit
    /// because of what only they looked at.
    ///
    /// # Errors
    /// When something is outside the fragment.
    pub fn of_lemma(
        machine: &mut Machine<'_>,
        prints: &Prints,
        rules: Rules,
        run: &[(TxnId, u32)],
        op: Option<OpId>,
    ) -> Result<Self, Outside> {
        machine.take_back(0);
        let mut course = Self::default();
        for (place, &member) in run.iter().enumerate() {
            let counts = if place + 1 == run.len() { Counts::Of(op) } else { Counts::None };
            course.push(machine, prints, rules, member, counts)?;
        }
        Ok(course)
    }

    /// Executes one more transaction on a machine with as many states as there are transactions,
    /// and commits it if it fits.
    ///
    /// # Errors
    /// When something is outside the fragment.
    pub fn push(
        &mut self,
        machine: &mut Machine<'_>,
        prints: &Prints,
        rules: Rules,
        (txn, sees): (TxnId, u32),
        counts: Counts,
    ) -> Result<bool, Outside> {
        let place = self.run.len();
        let mut transaction = machine.begin();
        let (mut ran, mut misfit, mut failed, mut reads_only) = (Ran::default(), None, false, true);
        for op in machine.statements(txn)? {
            let step = machine.step(&mut transaction, op, &StatementSight::state(sees))?;
            let mut tables = if step.result.is_err() { machine.all_tables() } else { Vec::new() };
            let counted = counts == Counts::First || counts == Counts::Of(Some(op));
            let blamed = counted && !step.fits;
            // What other queries looked at does not matter to a statement that does not fit.
            if blamed && reads_only {
                ran = Ran::default();
            }
            ran.add(&step, &mut tables);
            failed |= step.result.is_err();
            reads_only &= !machine.bound(op)?.0.is_write();
            if blamed {
                misfit = Some(Blame::Statement(op));
                break;
            }
        }
        self.run.push((txn, sees));
        self.failed.push(failed);
        self.looked.push(looked(&ran, prints, machine));
        let may_conflict = matches!(counts, Counts::First | Counts::Of(None));
        if rules.family == Family::Snapshot && misfit.is_none() && may_conflict {
            let changed: HashSet<RowId> =
                ran.changes().map(|write| (write.table, write.key.clone())).collect();
            let mut since = sees as usize..place;
            misfit = since.find(|&other| !self.wrote[other].is_disjoint(&changed)).map(Blame::Conflict);
        }
        let writes = ran.writes.iter().filter(|write| !rules.skips() || write.before != write.after);
        self.wrote.push(writes.map(|write| (write.table, write.key.clone())).collect());
        if let Some(blame) = misfit {
            self.misfit.get_or_insert((place, blame));
        }
        match misfit.is_none() {
            true => machine.commit(transaction, &ran, rules.skips()),
            false => machine.drop(transaction),
        }
        Ok(misfit.is_none())
    }
}

/// All rows that a transaction looked at.
fn looked(ran: &Ran, prints: &Prints, machine: &Machine<'_>) -> HashSet<RowId> {
    let mut rows: HashSet<RowId> = ran.rows.iter().map(|read| (read.table, read.key.clone())).collect();
    rows.extend(ran.writes.iter().map(|write| (write.table, write.key.clone())));
    let unique = ran.writes.iter().map(|write| write.table);
    let unique = unique.filter(|&table| !machine.database().schema(table).uniques.is_empty());
    let tables: HashSet<_> =
        ran.predicates.iter().map(|read| read.table).chain(ran.taken.iter().copied()).chain(unique).collect();
    rows.extend(tables.into_iter().flat_map(|table| prints.rows(table)));
    rows
}

/// Which transactions of a course a misfit depends on, and what it demands of an order.
#[derive(Debug)]
pub struct Demands {
    /// The places of those whose results matter, and of those that only add to rows.
    pub places: Vec<usize>,
    /// What is demanded.
    pub demands: HashSet<Demand>,
}

/// What the misfit of a course depends on; nothing where what was added did not add up.
#[must_use]
pub fn demands(course: &Course, prints: &Prints, rules: Rules) -> Option<Demands> {
    let (last, blame) = course.misfit?;
    let (full, adding, demands) = (HashSet::from([last]), HashSet::new(), HashSet::new());
    let mut cone = Cone { course, prints, rules, full, adding, demands, odd: false };
    if let Blame::Conflict(other) = blame {
        cone.full.insert(other);
        let (own, other) = (course.run[last].0, course.run[other].0);
        cone.demands.insert(Demand::Before(cone.begin(own), commit(other)));
        cone.demands.insert(Demand::Before(commit(other), commit(own)));
    }
    for place in (0..=last).rev() {
        if cone.full.contains(&place) {
            cone.close(place);
        }
    }
    // Only now it is known whose writes are settled.
    for place in cone.full.clone() {
        cone.keep_apart(place);
    }
    if cone.odd {
        return None;
    }
    let mut places: Vec<usize> = cone.full.union(&cone.adding).copied().collect();
    places.sort_unstable();
    Some(Demands { places, demands: cone.demands })
}

fn commit(txn: TxnId) -> Moment {
    Moment { txn, begins: false }
}

struct Cone<'a> {
    course: &'a Course,
    prints: &'a Prints,
    rules: Rules,
    full: HashSet<usize>,
    adding: HashSet<usize>,
    demands: HashSet<Demand>,
    /// Whether somebody did not add to the newest version, or failed to add.
    odd: bool,
}

impl Cone<'_> {
    fn begin(&self, txn: TxnId) -> Moment {
        Moment { txn, begins: self.rules.family == Family::Snapshot }
    }

    /// Who wrote what this place sees of a row.
    fn source(&self, place: usize, row: &RowId) -> Source {
        let mut source = Source::default();
        for other in (0..self.course.run[place].1 as usize).rev() {
            let wrote = self.course.wrote[other].contains(row);
            match self.prints.effect(self.course.run[other].0, row) {
                Some(Effect::Adds) => source.adding.push(other),
                Some(Effect::Sets) if wrote => source.setting = Some(other),
                Some(Effect::Writes) if wrote => source.writing = Some(other),
                // It found the row as it would have left it: whether that is so depends on what it
                // saw.
                Some(Effect::Sets) => source.idle.push(other),
                _ => {}
            }
            if source.last().is_some() {
                break;
            }
        }
        source
    }

    fn txn(&self, place: usize) -> TxnId {
        self.course.run[place].0
    }

    /// Whoever wrote what this place looked at matters too.
    fn close(&mut self, place: usize) {
        let reader = self.begin(self.txn(place));
        for row in &self.course.looked[place] {
            let source = self.source(place, row);
            let writer = source.last().map(|other| commit(self.txn(other)));
            self.full.extend(source.writing.iter().chain(&source.idle));
            self.adding.extend(source.setting);
            self.odd |= source.setting.is_some_and(|other| self.course.failed[other]);
            self.demands.extend(writer.map(|writer| Demand::Before(writer, reader)));
            for other in source.adding {
                let since = self.course.run[other].1 as usize..other;
                self.odd |= self.course.failed[other];
                self.odd |= since.into_iter().any(|between| self.course.wrote[between].contains(row));
                self.adding.insert(other);
                let added = commit(self.txn(other));
                self.demands.insert(Demand::Before(added, reader));
                // Who did not see a row that was inserted meanwhile adds nothing, and is in
                // nobody's way.
                let began = self.begin(self.txn(other));
                self.demands.extend(writer.map(|writer| Demand::Before(writer, began)));
            }
        }
    }

    /// Nobody else may have written what this place looked at.
    fn keep_apart(&mut self, place: usize) {
        let (own, reader) = (self.txn(place), self.begin(self.txn(place)));
        let settled = |txn: TxnId, row: &RowId| {
            let mut places = self.full.iter();
            places.any(|&other| self.txn(other) == txn && !self.course.wrote[other].contains(row))
        };
        let mut apart = Vec::new();
        for row in &self.course.looked[place] {
            let source = self.source(place, row);
            // Who sets a row to what its snapshot has writes nothing, so that others may have
            // written since the snapshot.
            let setting = source.setting.map(|other| self.begin(self.txn(other)));
            let writer = setting.or(source.writing.map(|other| commit(self.txn(other))));
            for &(txn, _) in self.prints.writers(row) {
                let known = source.last().into_iter().chain(source.adding.iter().copied());
                if txn != own && !known.into_iter().any(|other| self.txn(other) == txn) && !settled(txn, row)
                {
                    apart.push(Demand::Apart(txn, writer, reader));
                }
            }
        }
        self.demands.extend(apart);
    }
}

/// Who wrote what is seen of a row, by places: the last one that did not only add, and who did
/// since.
#[derive(Default)]
struct Source {
    /// It set all columns to constants.
    setting: Option<usize>,
    /// It wrote in another way.
    writing: Option<usize>,
    adding: Vec<usize>,
    /// Those that would have set the row to what it was already.
    idle: Vec<usize>,
}

impl Source {
    fn last(&self) -> Option<usize> {
        self.setting.or(self.writing)
    }
}
