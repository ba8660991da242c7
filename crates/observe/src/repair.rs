//! Executions at `read-committed`: one transaction after the other, and what was chosen wrongly is
//! chosen again.
//!
//! # Problem
//! A statement such as `INSERT … SELECT MAX(n)` shows nothing of the state that it saw. Commits
//! beside it are in flight, and a reader twenty transactions later tells which of them it saw. A
//! search that goes back in order tries everything in between.
//!
//! # Algorithm
//! Commits come in the order of their calls, and each transaction runs in the first way that fits.
//! When one fits in no way, some earlier statement saw something else. From the latest transaction
//! back, every other way in which one can have run is tried: the transactions after it are kept as
//! they are, but for those that looked at a row which is different now. They are executed again,
//! each with the sights that it had. If all of them fit, and the one that did not fit does now,
//! this is the execution from now on.
//!
//! If nothing helps, and the transaction only reads, it waits: what it saw may come later, where
//! neither sessions nor real time count.
//!
//! # Invariants
//! - The database has as many states as there are steps, and each step leaves what executing its
//!   transaction with its sights leaves.
//! - Nothing is refuted here.
//!
//! # Cost
//! Linear in the log; for each repair, the writes of the transactions since then, and an execution
//! of those that are affected. [`FEW_EACH`] and [`REPAIR`] end it.

use std::collections::VecDeque;

use hashbrown::{HashMap, HashSet};
use margay_executions::{Choice, Choices, Constraints, Machine, Placed, Ran, RowId, Rules};
use margay_history::{History, OpId, Outcome, TxnId};
use margay_sql::{Record, TableId, Write};
use margay_verdict::execution::{Execution, StatementSight};
use margay_verdict::{Budget, Outside};

use crate::engine::Asked;
use crate::options::Options;
use crate::search::FEW_EACH;

/// How many states are kept.
const WINDOW: usize = 1024;

/// How many statements are executed for a repair.
const REPAIR: u64 = 5_000;

/// How many statements are executed for one transaction that is executed again, and to find in
/// which other ways one can have run.
const AGAIN: u64 = 60;
const OTHERS: u64 = 3_000;

/// How many statements are executed to see whether those that wait fit now.
const WAITING: u64 = 20_000;

/// How many statements are executed to find a mixture of versions that fits.
const MIXTURES: u64 = 2_000;

/// In how many other ways one can have run at most.
const MANY_OTHERS: usize = 32;

/// What was found.
pub(crate) enum Repaired {
    /// An execution.
    Execution(Execution),
    /// No way to run a transaction was found.
    Stuck(TxnId),
    /// The order of calls is none that is allowed, or something has no meaning here.
    Nothing,
    /// The budget is used up.
    Exhausted,
}

/// A transaction that was executed.
#[derive(Debug)]
struct Step {
    txn: TxnId,
    ran: Ran,
    sights: Vec<(OpId, StatementSight)>,
    /// The other ways in which it can have run, if they are known.
    others: Option<Vec<Way>>,
}

/// How a transaction ran, and what its statements saw where that is not the state before.
type Way = (Ran, Vec<(OpId, StatementSight)>);

/// An execution that is being made.
pub(crate) struct Repair<'c, 'h> {
    history: &'h History,
    rules: Rules,
    machine: Machine<'h>,
    placed: Placed<'c, 'h>,
    order: Vec<TxnId>,
    /// The latest steps, and the sights of those before.
    steps: VecDeque<Step>,
    sights: Vec<(OpId, StatementSight)>,
    /// The state before the first step.
    base: u32,
    /// Whether a transaction may come later than it ran.
    may_wait: bool,
    /// Those that wait, with what they looked at; and how many statements were executed for them.
    waiting: Vec<(TxnId, Ran)>,
    waited: u64,
    /// How many statements were executed.
    executed: u64,
    budget: Budget,
}

impl<'c, 'h> Repair<'c, 'h> {
    /// One that has not begun.
    ///
    /// # Errors
    /// When the history is outside the fragment.
    pub fn new(
        asked: &Asked<'c, 'h>,
        constraints: &'c Constraints<'h>,
        may_wait: bool,
        options: Options,
        budget: &Budget,
    ) -> Result<Self, Outside> {
        let history = asked.history;
        let committed = |txn: &&TxnId| history.outcome(**txn) == Outcome::Committed;
        Ok(Self {
            history,
            rules: asked.rules,
            machine: Machine::new(history, options.indexes)?.within(budget),
            placed: constraints.placed(),
            order: constraints.preferred().iter().filter(committed).copied().collect(),
            steps: VecDeque::new(),
            sights: Vec::new(),
            base: 0,
            may_wait,
            waiting: Vec::new(),
            waited: 0,
            executed: 0,
            budget: budget.clone(),
        })
    }

    /// Runs to an answer.
    pub fn run(mut self) -> Repaired {
        for txn in std::mem::take(&mut self.order) {
            match self.step(txn).and_then(|placed| self.serve(false).map(|()| placed)) {
                Ok(true) => self.slide(),
                Ok(false) => return Repaired::Stuck(txn),
                Err(_) => return self.ended(),
            }
        }
        if self.serve(true).is_err() {
            return self.ended();
        }
        if let Some(&(txn, _)) = self.waiting.first() {
            return Repaired::Stuck(txn);
        }
        let order = self.placed.order().to_vec();
        let latest = self.steps.into_iter().flat_map(|step| step.sights);
        let sights = self.sights.into_iter().chain(latest).collect();
        Repaired::Execution(Execution { reading: self.rules.reading(), order, sights, initial: Vec::new() })
    }

    fn ended(&self) -> Repaired {
        self.budget.poll_now().map_or(Repaired::Exhausted, |()| Repaired::Nothing)
    }

    /// Places one more transaction, or lets it wait; false if no way to run it is found.
    fn step(&mut self, txn: TxnId) -> Result<bool, Outside> {
        if !self.placed.may_follow(txn) {
            return Err(Outside("the order of calls".to_owned()));
        }
        let mut touched = Ran::default();
        let choice = match self.first_way(txn, (Effort::Little, OTHERS), &mut touched)? {
            None if self.repair(txn, &touched)? => return Ok(true),
            None => self.first_way(txn, (Effort::Much, MIXTURES), &mut touched)?,
            choice => choice,
        };
        match choice {
            Some(choice) => self.commit(txn, choice),
            None => return self.wait(txn, touched),
        }
        Ok(true)
    }

    /// Lets a transaction wait that only reads.
    fn wait(&mut self, txn: TxnId, touched: Ran) -> Result<bool, Outside> {
        for op in self.machine.statements(txn)? {
            if !self.may_wait || self.machine.bound(op)?.0.is_write() {
                return Ok(false);
            }
        }
        let waits = self.placed.set_aside(txn);
        self.waiting.extend(waits.then_some((txn, touched)));
        Ok(waits)
    }

    /// Places those that waited, and that fit after the last step; or tries all of them.
    fn serve(&mut self, all: bool) -> Result<(), Outside> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let written = self.steps.back().map_or(&[][..], |step| &step.ran.writes);
        let changes = Changes::between(&[], written);
        for (txn, touched) in std::mem::take(&mut self.waiting) {
            let before = self.executed;
            let choice = match all || self.waited < WAITING && changes.touch(&touched) {
                true => self.first_way(txn, (Effort::Little, AGAIN), &mut Ran::default())?,
                false => None,
            };
            self.waited += self.executed - before;
            match choice {
                Some(choice) => self.commit(txn, choice),
                None => self.waiting.push((txn, touched)),
            }
        }
        Ok(())
    }

    /// The first way in which a transaction can have run; what it looked at is added to `touched`.
    fn first_way(
        &mut self,
        txn: TxnId,
        (effort, most): (Effort, u64),
        touched: &mut Ran,
    ) -> Result<Option<Choice>, Outside> {
        let range = self.placed.snapshots(txn);
        let choices = Choices::new(&mut self.machine, self.rules, txn, range)?;
        let mut choices = match effort {
            Effort::Little => choices.in_time(&self.placed).whole().first_only(),
            Effort::Some => choices.in_any_order(&self.placed).whole(),
            Effort::Much => choices.in_any_order(&self.placed),
        };
        choices = choices.within(&self.budget).at_most(most);
        let choice = choices.next(&mut self.machine)?;
        self.executed += choices.steps;
        touched.look_at(&choices.touched);
        match (choice, effort) {
            (None, Effort::Some) => Ok(None),
            (None, Effort::Little) if most > AGAIN => self.first_way(txn, (Effort::Some, most), touched),
            (choice, _) => Ok(choice),
        }
    }

    fn commit(&mut self, txn: TxnId, choice: Choice) {
        self.machine.commit(choice.transaction, &choice.ran, false);
        self.placed.push(txn);
        self.steps.push_back(Step { txn, ran: choice.ran, sights: choice.sights, others: None });
    }

    /// Drops what has left the window.
    fn slide(&mut self) {
        while self.steps.len() > WINDOW {
            self.sights.extend(self.steps.pop_front().into_iter().flat_map(|step| step.sights));
            self.base += 1;
            self.machine.forget(self.base);
        }
    }

    /// Chooses again until a transaction fits; false if nothing helps.
    fn repair(&mut self, txn: TxnId, touched: &Ran) -> Result<bool, Outside> {
        let most = FEW_EACH * self.history.op_count() as u64 + 2 * REPAIR;
        let until = most.min(self.executed + REPAIR);
        let mut wrong = self.misfit(txn)?;
        loop {
            match self.better(txn, touched, wrong, until)? {
                Better::Fits => return Ok(true),
                Better::Less(less) => wrong = less,
                Better::No => return Ok(false),
            }
        }
    }

    /// How far a transaction is from fitting.
    fn misfit(&mut self, txn: TxnId) -> Result<Wrong, Outside> {
        let mut transaction = self.machine.begin();
        let ops = self.machine.statements(txn)?;
        let mut wrong = Wrong { left: ops.len(), rows: 0 };
        'ops: for op in ops {
            let (first, last) = self.placed.states_at(op);
            let mut rows = u64::MAX;
            for at in (first.max(self.base)..=last.max(self.base)).rev() {
                self.executed += 1;
                let step = self.machine.step(&mut transaction, op, &StatementSight::state(at))?;
                if step.fits {
                    wrong.left -= 1;
                    continue 'ops;
                }
                rows = rows.min(self.machine.wrong_rows(op, &step));
            }
            wrong.rows = rows;
            break;
        }
        self.machine.drop(transaction);
        Ok(wrong)
    }

    /// Goes back to the latest transaction that can have run in another way with which this one
    /// fits; if there is none, to where less is wrong then.
    fn better(&mut self, txn: TxnId, touched: &Ran, wrong: Wrong, until: u64) -> Result<Better, Outside> {
        // The steps that were taken back, the latest first.
        let (mut tail, mut best): (Vec<Step>, Option<(Wrong, usize, usize)>) = (Vec::new(), None);
        while self.executed < until
            && let Some(mut step) = self.steps.pop_back()
        {
            self.take_back();
            if !step.ran.writes.is_empty() {
                let others = step.others.take().map_or_else(|| self.others(&step), Ok)?;
                for (at, other) in others.iter().enumerate() {
                    if let Some(changed) = self.attempt((&step, other), &tail, touched)? {
                        if let Some(choice) =
                            self.first_way(txn, (Effort::Little, OTHERS), &mut Ran::default())?
                        {
                            self.accept(changed, tail);
                            self.commit(txn, choice);
                            return Ok(Better::Fits);
                        }
                        let now = self.misfit(txn)?;
                        if now < best.map_or(wrong, |(best, ..)| best) {
                            best = Some((now, tail.len(), at));
                        }
                    }
                    self.take_back();
                }
                step.others = Some(others);
            }
            tail.push(step);
        }
        let back = best.map_or(0, |(_, back, _)| back + 1);
        while tail.len() > back
            && let Some(step) = tail.pop()
        {
            self.machine.commit_again(&step.ran);
            self.placed.push(step.txn);
            self.steps.push_back(step);
        }
        let (Some((less, _, at)), Some(step)) = (best, tail.pop()) else { return Ok(Better::No) };
        let other = step.others.as_ref().map(|others| others[at].clone());
        let changed = match &other {
            Some(other) => self.attempt((&step, other), &tail, touched)?,
            None => None,
        };
        let Some(changed) = changed else { return Ok(Better::No) };
        self.accept(changed, tail);
        Ok(Better::Less(less))
    }

    /// Takes everything back that is not among the steps.
    fn take_back(&mut self) {
        let place = self.base + self.steps.len() as u32;
        self.machine.take_back(place);
        while self.placed.order().len() > place as usize {
            self.placed.pop();
        }
    }

    /// The other ways in which a transaction can have run.
    fn others(&mut self, step: &Step) -> Result<Vec<Way>, Outside> {
        let range = self.placed.snapshots(step.txn);
        let choices = Choices::new(&mut self.machine, self.rules, step.txn, range)?;
        let mut choices = choices.in_any_order(&self.placed).whole().within(&self.budget).at_most(OTHERS);
        let mut others: Vec<Way> = Vec::new();
        while others.len() < MANY_OTHERS
            && let Some(choice) = choices.next(&mut self.machine)?
        {
            self.machine.drop(choice.transaction);
            if !Changes::between(&step.ran.writes, &choice.ran.writes).is_empty() {
                others.push((choice.ran, choice.sights));
            }
        }
        self.executed += choices.steps;
        Ok(others)
    }

    /// Runs a transaction in another way, and those after it as they ran; what is different, if all
    /// fit, and if that makes a difference to who did not.
    fn attempt(
        &mut self,
        (step, other): (&Step, &Way),
        tail: &[Step],
        touched: &Ran,
    ) -> Result<Option<HashMap<usize, Step>>, Outside> {
        let (ran, sights) = other.clone();
        let mut changes = Changes::between(&step.ran.writes, &ran.writes);
        self.machine.commit_again(&ran);
        self.placed.push(step.txn);
        let mut changed = HashMap::from([(tail.len(), Step { txn: step.txn, ran, sights, others: None })]);
        for (at, later) in tail.iter().enumerate().rev() {
            if changes.touch(&later.ran) {
                let Some(again) = self.again(later)? else { return Ok(None) };
                changes.note(&later.ran.writes, &again.ran.writes);
                changed.insert(at, again);
            } else {
                self.machine.commit_again(&later.ran);
            }
            self.placed.push(later.txn);
        }
        Ok(changes.touch(touched).then_some(changed))
    }

    /// Executes a transaction with the sights that it had, or in the first way that fits; commits
    /// it if there is one.
    fn again(&mut self, step: &Step) -> Result<Option<Step>, Outside> {
        let here = StatementSight::state(self.machine.position());
        let (mut transaction, mut ran, mut fits) = (self.machine.begin(), Ran::default(), true);
        for op in self.machine.statements(step.txn)? {
            let sight = step.sights.iter().find(|(other, _)| *other == op).map_or(&here, |(_, sight)| sight);
            self.executed += 1;
            let done = self.machine.step(&mut transaction, op, sight)?;
            ran.add(&done, &mut Vec::new());
            fits &= done.fits;
            if !fits {
                break;
            }
        }
        let choice = match fits {
            true => Choice { transaction, ran, sights: step.sights.clone() },
            false => {
                self.machine.drop(transaction);
                let Some(choice) = self.first_way(step.txn, (Effort::Little, AGAIN), &mut Ran::default())?
                else {
                    return Ok(None);
                };
                choice
            }
        };
        self.machine.commit(choice.transaction, &choice.ran, false);
        Ok(Some(Step { txn: step.txn, ran: choice.ran, sights: choice.sights, others: None }))
    }

    /// Keeps what was tried. The database has it already.
    fn accept(&mut self, mut changed: HashMap<usize, Step>, tail: Vec<Step>) {
        self.steps.extend(changed.remove(&tail.len()));
        for (at, step) in tail.into_iter().enumerate().rev() {
            self.steps.push_back(changed.remove(&at).unwrap_or(step));
        }
    }
}

/// In which ways a transaction is run until one fits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effort {
    /// With states of the order; the first sight of each statement that fits.
    Little,
    /// With commits in any order, as they overlap; all sights.
    Some,
    /// With mixtures of versions, too.
    Much,
}

/// What going back came to.
enum Better {
    /// The transaction fits.
    Fits,
    /// Less is wrong than before.
    Less(Wrong),
    /// Nothing helps.
    No,
}

/// How far a transaction is from fitting: how many statements are left from the first one that does
/// not fit, and how many rows are wrong about that.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Wrong {
    left: usize,
    rows: u64,
}

/// The rows that are different, with all that they were and are.
#[derive(Debug, Default)]
struct Changes {
    rows: HashMap<RowId, Vec<Record>>,
    tables: HashSet<TableId>,
}

impl Changes {
    fn between(old: &[Write], new: &[Write]) -> Self {
        let mut changes = Changes::default();
        changes.note(old, new);
        changes
    }

    fn note(&mut self, old: &[Write], new: &[Write]) {
        let same = |a: &Write, b: &Write| {
            a.table == b.table && a.key == b.key && a.after == b.after && a.replaced == b.replaced
        };
        for (ours, theirs) in [(old, new), (new, old)] {
            for write in ours.iter().filter(|write| !theirs.iter().any(|other| same(write, other))) {
                let records = self.rows.entry((write.table, write.key.clone())).or_default();
                records.extend(write.before.iter().chain(&write.after).cloned());
                self.tables.insert(write.table);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether what was looked at may be different.
    fn touch(&self, ran: &Ran) -> bool {
        let has = |table: TableId, key: &margay_sql::Key| self.rows.contains_key(&(table, key.clone()));
        let found = |read: &margay_sql::PredicateRead| {
            let rows = self.rows.iter().filter(|((table, _), _)| *table == read.table);
            rows.flat_map(|(_, records)| records).any(|record| read.matches(record).unwrap_or(true))
        };
        ran.rows.iter().any(|read| has(read.table, &read.key))
            || ran.writes.iter().any(|write| has(write.table, &write.key))
            || ran.taken.iter().any(|table| self.tables.contains(table))
            || ran.predicates.iter().any(|read| self.tables.contains(&read.table) && found(read))
    }
}
