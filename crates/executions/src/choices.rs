//! The ways in which one transaction can have run at its place: which states its statements saw.
//!
//! # Algorithm
//! The strongest choice comes first: everything as of the state before. Further choices are made only when they are
//! asked for, and only where they make a difference:
//! - a snapshot goes back to the latest state in which something that was read is different;
//! - a statement that only reads needs no second choice once its result fits;
//! - a choice with the same writes as one before leads to nothing new.
//!
//! At `repeatable-read` and, by its definition, at `read-committed` a statement may see rows of different states. Rows
//! that matter are pinned one after the other to each of their versions: those that were read, those that a condition
//! would find in one of their versions, and all of them where the statement fails.
//!
//! # Invariants
//! - Together with [`Choices::next`] returning `None` and [`Choices::cut`] being false, every choice of the level was
//!   made, or one with the same writes.

use margay_history::{OpId, TxnId};
use margay_sql::{TableId, Transaction, Write};
use margay_verdict::execution::{Pin, Reading, Sight};
use margay_verdict::{Budget, Outside};

use super::machine::{Machine, Ran, Step};
use super::rules::{Family, Rules};

/// The most combinations of versions that are tried for one statement.
const MOST: usize = 20_000;

/// The choices of one transaction at its place.
#[derive(Debug)]
pub struct Choices {
    txn: TxnId,
    rules: Rules,
    ops: Vec<OpId>,
    here: u32,
    /// The earliest snapshot.
    low: u32,
    /// The next snapshot to try, and the latest where they are tried from the earliest on.
    snapshot: Option<u32>,
    high: u32,
    strongest_first: bool,
    concrete: bool,
    /// The sights chosen so far, statement by statement, and those left to choose.
    levels: Vec<Level>,
    /// What earlier choices wrote.
    tried: Vec<Vec<Write>>,
    started: bool,
    fitted: bool,
    done: bool,
    /// Whether choices were left out because there are too many.
    pub cut: bool,
    /// Whether a choice ran into something without meaning, and what.
    pub outside: Option<Outside>,
    /// The farthest statement that did not fit.
    pub stuck: Option<OpId>,
    /// All that was read on the way.
    pub touched: Ran,
    /// How many statements were executed.
    pub steps: u64,
    budget: Budget,
}

#[derive(Debug)]
struct Level {
    sight: Sight,
    writes: bool,
    left: Option<Vec<Sight>>,
}

/// One way in which a transaction can have run. The transaction is open: whoever asked commits or drops it.
#[derive(Debug)]
pub struct Choice {
    /// The open transaction.
    pub transaction: Transaction,
    /// What it read and wrote.
    pub ran: Ran,
    /// What its statements saw, where that is not the state before.
    pub sights: Vec<(OpId, Sight)>,
}

impl Choices {
    /// The choices of a transaction that comes next; its snapshot is one of these states.
    ///
    /// # Errors
    /// When one of its statements is outside the fragment.
    pub fn new(
        machine: &mut Machine<'_>,
        rules: Rules,
        txn: TxnId,
        (low, high): (u32, u32),
    ) -> Result<Self, Outside> {
        let (here, oldest) = (machine.position(), machine.oldest());
        // Which of the forgotten states would have been different is not known any more.
        let cut = rules.family != Family::Serial && low < oldest;
        let low = low.max(oldest);
        Ok(Self {
            txn,
            rules,
            ops: machine.statements(txn)?,
            here,
            low,
            snapshot: (low <= high).then_some(high),
            high,
            strongest_first: true,
            concrete: true,
            levels: Vec::new(),
            tried: Vec::new(),
            started: false,
            fitted: false,
            done: false,
            cut,
            outside: None,
            stuck: None,
            touched: Ran::default(),
            steps: 0,
            budget: Budget::unlimited(),
        })
    }

    /// The transaction.
    #[must_use]
    pub fn txn(&self) -> TxnId {
        self.txn
    }

    /// Whether one choice fitted.
    #[must_use]
    pub fn has_fitted(&self) -> bool {
        self.fitted
    }

    /// Whether there is no other choice, as far as is known already.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// The same choices without what saves work: the strongest choice first, and no second one where it cannot matter.
    #[must_use]
    pub fn with(mut self, strongest_first: bool, concrete: bool) -> Self {
        (self.strongest_first, self.concrete) = (strongest_first, concrete);
        if let (false, Some(high)) = (strongest_first, self.snapshot) {
            (self.snapshot, self.high) = (Some(self.low), high);
        }
        self
    }

    /// The same choices as far as the budget lasts; then there is none, and [`Choices::cut`] says so.
    #[must_use]
    pub fn within(mut self, budget: &Budget) -> Self {
        self.budget = budget.clone();
        self
    }

    /// Whether the budget is used up: then not everything is tried.
    fn is_over(&mut self) -> bool {
        let over = self.budget.poll_now().is_err();
        self.cut |= over;
        over
    }

    /// The next way in which it can have run and fits everything that was observed.
    ///
    /// # Errors
    /// Never for what one choice alone runs into: that is noted in [`Choices::outside`].
    pub fn next(&mut self, machine: &mut Machine<'_>) -> Result<Option<Choice>, Outside> {
        loop {
            if self.done {
                return Ok(None);
            }
            let choice = match self.rules.family {
                Family::Serial => self.serial(machine)?,
                Family::Snapshot => self.back(machine)?,
                Family::Repeatable | Family::Committed(_) => self.mixed(machine)?,
            };
            self.started = true;
            let Some(choice) = choice else {
                self.done = true;
                return Ok(None);
            };
            if self.tried.iter().any(|known| same_writes(known, &choice.ran.writes)) {
                machine.drop(choice.transaction);
                continue;
            }
            self.fitted = true;
            if choice.ran.writes.is_empty() {
                self.done = true;
            } else if !self.done {
                self.tried.push(choice.ran.writes.clone());
            }
            return Ok(Some(choice));
        }
    }

    fn serial(&mut self, machine: &mut Machine<'_>) -> Result<Option<Choice>, Outside> {
        self.done = true;
        let sight = Sight::state(self.here);
        Ok(self.run(machine, &sight)?.choice)
    }

    /// The next snapshot that fits.
    fn back(&mut self, machine: &mut Machine<'_>) -> Result<Option<Choice>, Outside> {
        while let Some(at) = self.snapshot.filter(|_| !self.is_over()) {
            let run = self.run(machine, &Sight::state(at))?;
            let fresh = |write: &Write| {
                machine.last_writer(write.table, &write.key, self.here).is_none_or(|(state, _)| state <= at)
            };
            let fitting = run.choice.as_ref().filter(|choice| choice.ran.changes().all(fresh));
            let no_other = |choice: &Choice| choice.ran.writes.is_empty() || self.concrete && run.is_closed;
            let (fits, last) = (fitting.is_some(), fitting.is_some_and(no_other));
            self.snapshot = if last { None } else { self.before(machine, &run.seen, at)? };
            let Some(mut choice) = run.choice else { continue };
            if !fits {
                machine.drop(choice.transaction);
                continue;
            }
            self.done = self.snapshot.is_none();
            if at != self.here {
                choice.sights = self.ops.iter().map(|&op| (op, Sight::state(at))).collect();
            }
            return Ok(Some(choice));
        }
        Ok(None)
    }

    /// The snapshot to try after this one.
    fn before(&self, machine: &Machine<'_>, seen: &Ran, at: u32) -> Result<Option<u32>, Outside> {
        match self.strongest_first {
            true => Ok(machine.earlier(seen, at)?.filter(|&earlier| earlier >= self.low)),
            false => Ok((at < self.high).then_some(at + 1)),
        }
    }
}

/// A run of all statements with one sight.
struct Run {
    choice: Option<Choice>,
    seen: Ran,
    /// Whether the writes are the same whatever the snapshot, as long as there is no write conflict.
    is_closed: bool,
}

impl Choices {
    fn run(&mut self, machine: &mut Machine<'_>, sight: &Sight) -> Result<Run, Outside> {
        let mut transaction = machine.begin();
        let (mut ran, mut feeding) = (Ran::default(), Ran::default());
        let mut fits = true;
        for at in 0..self.ops.len() {
            let op = self.ops[at];
            self.steps += 1;
            let step = match machine.step(&mut transaction, op, sight) {
                Ok(step) => step,
                Err(outside) => {
                    self.outside = Some(outside);
                    // What it looked at is not known.
                    ran.taken.extend(machine.all_tables());
                    fits = false;
                    self.stuck = self.stuck.max(Some(op));
                    break;
                }
            };
            let mut tables = if step.result.is_err() { machine.all_tables() } else { Vec::new() };
            ran.add(&step, &mut tables);
            if step.locks {
                feeding.add(&step, &mut Vec::new());
            }
            if !step.fits {
                fits = false;
                self.stuck = self.stuck.max(Some(op));
                break;
            }
        }
        self.note(&ran);
        let written = |table: TableId, key: &[margay_sql::Value]| {
            ran.changes().any(|write| write.table == table && *write.key == *key)
        };
        let is_closed =
            feeding.predicates.is_empty() && feeding.rows.iter().all(|read| written(read.table, &read.key));
        let seen = ran.clone();
        if fits {
            let choice = Choice { transaction, ran, sights: Vec::new() };
            return Ok(Run { choice: Some(choice), seen, is_closed });
        }
        machine.drop(transaction);
        Ok(Run { choice: None, seen, is_closed })
    }

    fn note(&mut self, ran: &Ran) {
        self.touched.rows.extend(ran.rows.iter().cloned());
        self.touched.predicates.extend(ran.predicates.iter().cloned());
        self.touched.taken.extend(ran.taken.iter().copied());
    }

    /// The next combination of sights, statement by statement.
    fn mixed(&mut self, machine: &mut Machine<'_>) -> Result<Option<Choice>, Outside> {
        if self.started && !self.advance(machine)? {
            return Ok(None);
        }
        loop {
            match self.forward(machine)? {
                Some(choice) => return Ok(Some(choice)),
                None if self.advance(machine)? => {}
                None => return Ok(None),
            }
        }
    }

    /// Takes the next sight at the last statement that has one left; false if none has.
    fn advance(&mut self, machine: &mut Machine<'_>) -> Result<bool, Outside> {
        while let Some(mut level) = self.levels.pop() {
            if level.writes {
                if level.left.is_none() {
                    let all = self.options(machine)?;
                    level.left = Some(all.into_iter().filter(|sight| *sight != level.sight).rev().collect());
                }
                if let Some(next) = level.left.as_mut().and_then(Vec::pop) {
                    level.sight = next;
                    self.levels.push(level);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Runs the statements with the sights chosen so far, and the rest with the first that fits; `None` if one has
    /// none.
    fn forward(&mut self, machine: &mut Machine<'_>) -> Result<Option<Choice>, Outside> {
        let (mut transaction, mut ran) = self.prefix(machine)?;
        while self.levels.len() < self.ops.len() {
            let op = self.ops[self.levels.len()];
            let latest = self.strongest_first || self.rules.family == Family::Repeatable;
            let sight = Sight::state(if latest { self.here } else { machine.oldest() });
            let step = self.step(machine, &mut transaction, op, &sight);
            let fits = step.as_ref().is_ok_and(|step| step.fits && self.allowed(machine, step, &sight));
            let writes = step.as_ref().map_or(true, |step| step.locks);
            if let Ok(step) = &step {
                self.look(machine, step);
            }
            if let (true, Ok(step)) = (fits, &step) {
                ran.add(step, &mut Vec::new());
                self.levels.push(Level { sight, writes, left: None });
                continue;
            }
            if let Err(outside) = step {
                self.outside = Some(outside);
            }
            machine.drop(transaction);
            let mut left = self.options(machine)?;
            if left.is_empty() {
                self.stuck = self.stuck.max(Some(op));
                return Ok(None);
            }
            left.reverse();
            let sight = left.pop().unwrap_or_default();
            self.levels.push(Level { sight, writes, left: Some(left) });
            (transaction, ran) = self.prefix(machine)?;
        }
        let sights = self.levels.iter().zip(&self.ops).map(|(level, op)| (*op, level.sight.clone()));
        let sights = sights.filter(|(_, sight)| *sight != Sight::state(self.here)).collect();
        Ok(Some(Choice { transaction, ran, sights }))
    }

    /// Runs the statements whose sights are chosen.
    fn prefix(&mut self, machine: &mut Machine<'_>) -> Result<(Transaction, Ran), Outside> {
        let (mut transaction, mut ran) = (machine.begin(), Ran::default());
        for at in 0..self.levels.len() {
            let sight = self.levels[at].sight.clone();
            let step = self.step(machine, &mut transaction, self.ops[at], &sight)?;
            ran.add(&step, &mut Vec::new());
        }
        Ok((transaction, ran))
    }

    fn step(
        &mut self,
        machine: &mut Machine<'_>,
        transaction: &mut Transaction,
        op: OpId,
        sight: &Sight,
    ) -> Result<Step, Outside> {
        self.steps += 1;
        machine.step(transaction, op, sight)
    }

    fn look(&mut self, machine: &Machine<'_>, step: &Step) {
        let mut tables = if step.result.is_err() { machine.all_tables() } else { Vec::new() };
        let mut looked = Ran::default();
        looked.add(step, &mut tables);
        self.note(&looked);
    }

    /// Whether the level allows this sight of the statement, given what the statement did with it.
    fn allowed(&self, machine: &Machine<'_>, step: &Step, sight: &Sight) -> bool {
        let Ok(outcome) = &step.result else { return false };
        match self.rules.family {
            Family::Committed(Reading::Statement) => outcome.writes.iter().all(|write| {
                let latest = machine.last_writer(write.table, &write.key, self.here);
                let newest = |pin: &Pin| pin.at == self.here && !pin.missed && *pin.key == *write.key;
                let pinned = sight.pins.iter().any(newest);
                pinned || latest.is_none_or(|(state, _)| state <= sight.at)
            }),
            Family::Repeatable => outcome.reads.rows.iter().filter(|read| read.present).all(|read| {
                let latest =
                    machine.last_writer(read.table, &read.key, self.here).map_or(0, |(state, _)| state);
                read.stamp.is_none_or(|stamp| stamp >= OWN || machine.position_of(stamp) >= latest)
            }),
            _ => true,
        }
    }

    /// All sights of the next statement that fit and are allowed, each with other writes; one is enough where nothing
    /// is written.
    fn options(&mut self, machine: &mut Machine<'_>) -> Result<Vec<Sight>, Outside> {
        let mut found = Found { sights: Vec::new(), writes: Vec::new(), only: false };
        match self.rules.family {
            Family::Committed(Reading::Statement) => self.statement_sights(machine, &mut found)?,
            Family::Committed(Reading::Item) => {
                self.statement_sights(machine, &mut found)?;
                self.row_sights(machine, &mut found)?;
            }
            _ => self.row_sights(machine, &mut found)?,
        }
        Ok(found.sights)
    }

    /// Tries one sight of the next statement: what it looked at, and whether it looks again at rows that it waited for.
    fn attempt(
        &mut self,
        machine: &mut Machine<'_>,
        sight: &Sight,
        found: &mut Found,
    ) -> Result<(Ran, bool), Outside> {
        if self.is_over() {
            return Ok((Ran::default(), false));
        }
        let op = self.ops[self.levels.len()];
        let (mut transaction, _) = self.prefix(machine)?;
        let step = self.step(machine, &mut transaction, op, sight);
        let (mut seen, mut looks_again) = (Ran::default(), true);
        match step {
            Ok(step) => {
                looks_again = step.looks_again;
                self.look(machine, &step);
                let mut tables = if step.result.is_err() { machine.all_tables() } else { Vec::new() };
                seen.add(&step, &mut tables);
                if step.fits && self.allowed(machine, &step, sight) {
                    found.add(sight, seen.writes.clone(), step.locks);
                }
            }
            Err(outside) => {
                self.outside = Some(outside);
                seen.taken = machine.all_tables();
            }
        }
        machine.drop(transaction);
        Ok((seen, looks_again))
    }

    /// Whole states, latest first.
    fn statement_sights(&mut self, machine: &mut Machine<'_>, found: &mut Found) -> Result<(), Outside> {
        let mut next = Some(self.here);
        while let Some(at) = next {
            let (seen, looks_again) = self.attempt(machine, &Sight::state(at), found)?;
            if found.only {
                return Ok(());
            }
            let statement = self.rules.family == Family::Committed(Reading::Statement);
            if statement && looks_again && at < self.here {
                self.rechecked(machine, at, &seen, found)?;
            }
            next = machine.earlier(&seen, at)?.filter(|&earlier| earlier >= machine.oldest());
        }
        Ok(())
    }

    /// A locking statement looks again at the rows that it found: they are as of the state before its transaction's
    /// commit, or gone if they ended meanwhile. What it only reads on the way need not be looked at again.
    fn rechecked(
        &mut self,
        machine: &mut Machine<'_>,
        at: u32,
        seen: &Ran,
        found: &mut Found,
    ) -> Result<(), Outside> {
        // A row that goes on under another key is followed there, which is not known here.
        self.cut |= machine.moves_rows();
        let mut sights = vec![Sight::state(at)];
        let mut known: Vec<(TableId, &margay_sql::Key)> = Vec::new();
        for read in seen.rows.iter().filter(|read| read.present) {
            let newest = machine.last_writer(read.table, &read.key, self.here);
            if newest.is_none_or(|(state, _)| state <= at) || known.contains(&(read.table, &read.key)) {
                continue;
            }
            known.push((read.table, &read.key));
            let only_read =
                !seen.writes.is_empty() && seen.writes.iter().all(|write| write.table != read.table);
            let then = only_read.then_some(None);
            let now = Some(machine.pin(read.table, &read.key, self.here));
            let gone = machine.end_of(read.table, &read.key, at, self.here).map(Some);
            let pins: Vec<Option<Pin>> = [now].into_iter().chain(gone).chain(then).collect();
            let with = |sight: &Sight, pin: &Option<Pin>| Sight {
                at,
                pins: sight.pins.iter().chain(pin).cloned().collect(),
            };
            sights = pins.iter().flat_map(|pin| sights.iter().map(move |sight| with(sight, pin))).collect();
            if sights.len() > MOST {
                self.cut = true;
                return Ok(());
            }
        }
        for sight in sights.into_iter().filter(|sight| !sight.pins.is_empty()) {
            self.attempt(machine, &sight, found)?;
        }
        Ok(())
    }

    /// Every combination of the versions of the rows that matter.
    fn row_sights(&mut self, machine: &mut Machine<'_>, found: &mut Found) -> Result<(), Outside> {
        let mut open = vec![Sight::state(self.here)];
        let mut tried = 0;
        while let Some(sight) = open.pop() {
            tried += 1;
            if found.only {
                return Ok(());
            }
            if tried > MOST {
                self.cut = true;
                return Ok(());
            }
            let mut leaf = Found { sights: Vec::new(), writes: Vec::new(), only: false };
            let (seen, _) = self.attempt(machine, &sight, &mut leaf)?;
            match self.undecided(machine, &sight, &seen)? {
                Some((table, key)) => {
                    // The latest version is tried first, so it is pushed last.
                    for pin in self.pins(machine, table, &key).into_iter().rev() {
                        let mut pinned = sight.clone();
                        pinned.pins.push(pin);
                        open.push(pinned);
                    }
                }
                None => found.merge(leaf),
            }
        }
        Ok(())
    }

    /// The ways in which a row can be seen: as of its versions, latest first, or not at all where it was replaced.
    fn pins(&self, machine: &Machine<'_>, table: TableId, key: &margay_sql::Key) -> Vec<Pin> {
        let states = machine.states_of(table, key, self.here).into_iter();
        let missed = matches!(self.rules.family, Family::Committed(_));
        let gap = missed.then(|| machine.gap(table, key, self.here)).flatten();
        states.map(|state| machine.pin(table, key, state)).chain(gap).collect()
    }

    /// A row with several versions that matters and has not been pinned.
    fn undecided(
        &self,
        machine: &Machine<'_>,
        sight: &Sight,
        seen: &Ran,
    ) -> Result<Option<(TableId, margay_sql::Key)>, Outside> {
        let open = |table: TableId, key: &margay_sql::Key| {
            let name = &machine.database().schema(table).name;
            let pinned = sight.pins.iter().any(|pin| pin.table == *name && *pin.key == **key);
            !pinned && self.pins(machine, table, key).len() > 1
        };
        if let Some(read) = seen.rows.iter().find(|read| open(read.table, &read.key)) {
            return Ok(Some((read.table, read.key.clone())));
        }
        for predicate in &seen.predicates {
            let keys = machine.ever_found(predicate, self.here)?;
            if let Some(key) = keys.into_iter().find(|key| open(predicate.table, key)) {
                return Ok(Some((predicate.table, key)));
            }
        }
        // A statement that fails does not tell what it looked at.
        let rows = seen
            .taken
            .iter()
            .flat_map(|&table| machine.database().keys(table).into_iter().map(move |key| (table, key)));
        Ok(rows.into_iter().find(|(table, key)| open(*table, key)))
    }
}

/// Stamps of a transaction's own writes are above this.
const OWN: u64 = 1 << 63;

/// The sights of a statement that fit.
struct Found {
    sights: Vec<Sight>,
    writes: Vec<Vec<Write>>,
    /// One is found, and no other can make a difference.
    only: bool,
}

impl Found {
    fn add(&mut self, sight: &Sight, writes: Vec<Write>, locks: bool) {
        if self.writes.iter().any(|known| same_writes(known, &writes)) {
            return;
        }
        self.only = !locks;
        self.sights.push(sight.clone());
        self.writes.push(writes);
    }

    fn merge(&mut self, other: Found) {
        for (sight, writes) in other.sights.iter().zip(other.writes) {
            self.add(sight, writes, !other.only);
        }
    }
}

/// Whether two transactions leave the same behind.
fn same_writes(a: &[Write], b: &[Write]) -> bool {
    let same = |x: &Write, y: &Write| {
        x.table == y.table && x.key == y.key && x.after == y.after && x.replaced == y.replaced
    };
    a.len() == b.len() && a.iter().all(|x| b.iter().any(|y| same(x, y)))
}
