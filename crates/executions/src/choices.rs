//! The ways in which one transaction can have run at its place: which states its statements saw.
//!
//! # Algorithm
//! The strongest choice comes first: everything as of the state before. Further choices are made
//! only when they are asked for, and only where they make a difference:
//! - a snapshot goes back to the latest state in which something that was read is different;
//! - a statement that only reads needs no second choice once its result fits;
//! - a choice with the same writes as one before leads to nothing new.
//!
//! Which sights a statement can have is found out in [`sights`] and [`nearest`].
//!
//! # Invariants
//! - Together with [`Choices::next`] returning `None` and [`Choices::cut`] being false, every
//!   choice of the level was made, or one with the same writes.

mod beside;
mod nearest;
mod sights;

use margay_history::{OpId, TxnId};
use margay_sql::{TableId, Transaction, Write};
use margay_verdict::execution::StatementSight;
use margay_verdict::{Budget, Outside};

use super::machine::{Machine, Ran, StatementStep};
use super::order::Placed;
use super::rules::{Family, Rules};

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
    /// The most statements that are executed.
    most: u64,
    /// Whether a statement sees no state before the earliest snapshot.
    recent: bool,
    /// Whether one sight of a statement is enough.
    one_each: bool,
    /// Whether the rows that a statement sees may be of several states, though it is asked for
    /// recent ones.
    mixes: bool,
    /// By statement: the earliest and the latest state that it can have seen by its interval. These
    /// come first.
    spans: Vec<(u32, u32)>,
    /// By statement: the commits that were in flight while it ran, by the states that they made. It
    /// may have seen any of them. Only where that counts.
    flying: Vec<Vec<u32>>,
    /// Whether mixtures of versions that only the definition allows are left out.
    whole: bool,
}

#[derive(Debug)]
struct Level {
    sight: StatementSight,
    writes: bool,
    left: Option<Vec<StatementSight>>,
}

/// One way in which a transaction can have run. The transaction is open: whoever asked commits or
/// drops it.
#[derive(Debug)]
pub struct Choice {
    /// The open transaction.
    pub transaction: Transaction,
    /// What it read and wrote.
    pub ran: Ran,
    /// What its statements saw, where that is not the state before.
    pub sights: Vec<(OpId, StatementSight)>,
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
            most: u64::MAX,
            recent: false,
            one_each: false,
            mixes: false,
            spans: Vec::new(),
            flying: Vec::new(),
            whole: false,
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

    /// The same choices without what saves work: the strongest choice first, and no second one
    /// where it cannot matter.
    #[must_use]
    pub fn with(mut self, strongest_first: bool, concrete: bool) -> Self {
        (self.strongest_first, self.concrete) = (strongest_first, concrete);
        if let (false, Some(high)) = (strongest_first, self.snapshot) {
            (self.snapshot, self.high) = (Some(self.low), high);
        }
        self
    }

    /// The same choices as far as the budget lasts; then there is none, and [`Choices::cut`] says
    /// so.
    #[must_use]
    pub fn within(mut self, budget: &Budget) -> Self {
        self.budget = budget.clone();
        self
    }

    /// The same choices until so many statements are executed.
    #[must_use]
    pub fn at_most(mut self, steps: u64) -> Self {
        self.most = steps;
        self
    }

    /// The same choices as databases with snapshots make them, where each statement may have a
    /// state of its own: one that there can have been while it ran, and what it writes is the
    /// newest. Only if none of these fits, others come, but none before the earliest snapshot. Then
    /// [`Choices::cut`] says so.
    #[must_use]
    pub fn in_time(mut self, placed: &Placed<'_, '_>) -> Self {
        self.cut = true;
        self.recent = true;
        if matches!(self.rules.family, Family::Committed(_)) {
            self.spans = self.ops.iter().map(|&op| placed.states_at(op)).collect();
        }
        self
    }

    /// The same choices in time, and those where the commits that a statement ran beside came in
    /// another order.
    #[must_use]
    pub fn in_any_order(mut self, placed: &Placed<'_, '_>) -> Self {
        self.flying = self.ops.iter().map(|&op| placed.flying_at(op)).collect();
        self.in_time(placed)
    }

    /// The same choices without mixtures of versions that only the definition allows; then
    /// [`Choices::cut`] says so.
    #[must_use]
    pub fn whole(mut self) -> Self {
        (self.cut, self.whole) = (true, true);
        self
    }

    /// The same choices with the first sight of each statement that fits; then [`Choices::cut`]
    /// says so.
    #[must_use]
    pub fn first_only(mut self) -> Self {
        (self.cut, self.one_each) = (true, true);
        self
    }

    /// Whether the budget is used up: then not everything is tried.
    fn is_over(&mut self) -> bool {
        let over = self.steps > self.most || self.budget.poll_now().is_err();
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
        let sight = StatementSight::state(self.here);
        Ok(self.run(machine, &sight)?.choice)
    }

    /// The next snapshot that fits.
    fn back(&mut self, machine: &mut Machine<'_>) -> Result<Option<Choice>, Outside> {
        while let Some(at) = self.snapshot.filter(|_| !self.is_over()) {
            let run = self.run(machine, &StatementSight::state(at))?;
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
                choice.sights = self.ops.iter().map(|&op| (op, StatementSight::state(at))).collect();
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
    /// Whether the writes are the same whatever the snapshot, as long as there is no write
    /// conflict.
    is_closed: bool,
}

impl Choices {
    fn run(&mut self, machine: &mut Machine<'_>, sight: &StatementSight) -> Result<Run, Outside> {
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
        self.touched.look_at(&ran);
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

    /// The latest state that the next statement probably saw.
    fn likely(&self, machine: &Machine<'_>) -> u32 {
        let span = self.spans.get(self.levels.len());
        span.map_or(self.here, |&(_, last)| last.max(machine.oldest()))
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

    /// Runs the statements with the sights chosen so far, and the rest with the first that fits;
    /// `None` if one has none.
    fn forward(&mut self, machine: &mut Machine<'_>) -> Result<Option<Choice>, Outside> {
        let (mut transaction, mut ran) = self.prefix(machine)?;
        while self.levels.len() < self.ops.len() {
            let op = self.ops[self.levels.len()];
            let latest = self.strongest_first || self.rules.family == Family::Repeatable;
            let sight = StatementSight::state(if latest { self.likely(machine) } else { machine.oldest() });
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
        let sights = sights.filter(|(_, sight)| *sight != StatementSight::state(self.here)).collect();
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
        sight: &StatementSight,
    ) -> Result<StatementStep, Outside> {
        self.steps += 1;
        machine.step(transaction, op, sight)
    }

    fn look(&mut self, machine: &Machine<'_>, step: &StatementStep) {
        let mut tables = if step.result.is_err() { machine.all_tables() } else { Vec::new() };
        let mut looked = Ran::default();
        looked.add(step, &mut tables);
        self.touched.look_at(&looked);
    }
}

/// Whether two transactions leave the same behind.
fn same_writes(a: &[Write], b: &[Write]) -> bool {
    let same = |x: &Write, y: &Write| {
        x.table == y.table && x.key == y.key && x.after == y.after && x.replaced == y.replaced
    };
    a.len() == b.len() && a.iter().all(|x| b.iter().any(|y| same(x, y)))
}
