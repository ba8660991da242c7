//! The search for an execution: one transaction after the other, back only to what can have caused
//! a misfit.
//!
//! # Algorithm
//! A frame for each place in the order. It holds who else could stand there, and how else the
//! transaction that does could have run. When nothing fits at the last frame, the search jumps back
//! to the latest place that the misfit depends on ([`conflict`](crate::conflict)) and takes the
//! next possibility there; the places between cannot help. A frame that runs out hands its own
//! dependencies on (conflict-directed backjumping).
//!
//! At the serializable levels the order of commits, which the search follows, need not be the
//! serial order: who saw an older state comes earlier. Such a transaction is *moved*: it runs on
//! that state, if nobody who committed since looked at what it writes, or wrote what it writes;
//! then it could as well have committed back then.
//!
//! A transaction that did not fit is blocked until something that it looked at is written: others
//! may come first. When it has waited for long, something before it is wrong more likely than that
//! it is early: the search goes back. If it only reads, and neither sessions nor real time count,
//! it goes on waiting.
//!
//! # Invariants
//! - The database has as many states as transactions are placed.
//! - Frames that left the window are final. Whenever that, or another limit, keeps a possibility
//!   from being tried, `cut` is set, and nothing is refuted.

use std::cmp::Reverse;
use std::collections::VecDeque;

use hashbrown::{HashMap, HashSet};
use margay_executions::{Choice, Choices, Constraints, Family, Machine, Placed, Rules, in_row_order};
use margay_history::{History, OpId, TxnId};
use margay_verdict::execution::{Execution, Initial, StatementSight};
use margay_verdict::{Budget, Exhausted, Outside};

use crate::conflict::{Cone, Footprint, places};
use crate::options::Options;

/// How many statements are executed for each operation: in a search that decides, in a short one,
/// and in a glance.
pub const MANY_EACH: u64 = 200;
/// In a short search.
pub const FEW_EACH: u64 = 8;
/// In a glance.
pub const GLANCE_EACH: u64 = 2;

/// How many times a transaction does not fit before an impatient search ends.
const MANY_MISFITS: u32 = 64;

/// How many statements an impatient search executes without that a transaction fits at a new place:
/// for each operation of an average transaction, but never fewer than some.
const MANY_STEPS: u64 = 4_000;
const MANY_STEPS_EACH: u64 = 1_000;

/// How many transactions that did not fit often are suspects.
const SUSPECTS: usize = 4;

/// How far the search looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// How many states and frames are kept; all without.
    pub window: Option<u32>,
    /// How many others may come before a transaction that would have been next.
    pub patience: u32,
    /// How many transactions are considered for one place.
    pub width: usize,
}

impl Limits {
    /// Limits that are met by nothing.
    pub const NONE: Limits = Limits { window: None, patience: u32::MAX, width: usize::MAX >> 8 };
}

/// What the search found.
#[derive(Debug)]
pub enum Found {
    /// An execution.
    Execution(Execution),
    /// There is none. The farthest misfit; without one, no order at all is allowed.
    Refuted(Option<Misfit>),
    /// There is none within the limits. The farthest misfit.
    Cut(Option<Misfit>),
    /// Something has no meaning here.
    Outside(Outside),
    /// The budget is used up, after so many transactions.
    Exhausted(Exhausted, u32),
    /// The place that was asked for is reached.
    Reached,
}

/// Where a transaction did not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Misfit {
    /// The place in the order.
    pub place: u32,
    /// The transaction.
    pub txn: TxnId,
    /// The farthest statement of it that did not fit.
    pub op: OpId,
}

#[derive(Debug, Default)]
struct Frame {
    /// Who may stand here, the next one last.
    candidates: Vec<TxnId>,
    /// Whether more than these could.
    more: bool,
    choices: Option<Box<Choices>>,
    print: Footprint,
    sights: Vec<(OpId, StatementSight)>,
    /// The state at which the transaction would have committed, if that is earlier.
    moved: Option<u32>,
    /// The places that misfits here depend on.
    causes: HashSet<u32>,
}

/// A transaction that did not fit at a place, and what it looked at.
#[derive(Debug)]
struct Blocked {
    place: u32,
    print: Footprint,
    only_reads: bool,
}

/// A search.
pub struct Search<'c, 'h> {
    history: &'h History,
    rules: Rules,
    options: Options,
    limits: Limits,
    machine: Machine<'h>,
    initial: Vec<Initial>,
    constraints: &'c Constraints<'h>,
    placed: Placed<'c, 'h>,
    frames: VecDeque<Frame>,
    /// The place of the first frame.
    base: u32,
    /// What statements saw at places before.
    sights: Vec<(OpId, StatementSight)>,
    /// Who was moved at places before, and to which state.
    moves: Vec<(u32, u32)>,
    blocked: HashMap<TxnId, Blocked>,
    cut: bool,
    /// Whether a frame with possibilities left the window.
    gone: bool,
    outside: Option<Outside>,
    worst: Option<Misfit>,
    /// Ends as soon as this misfit is met again.
    pub stop: Option<Misfit>,
    /// How many statements are executed for each operation, beyond the limit of the options.
    pub each: u64,
    /// How many statements are executed at most for one transaction at one place.
    pub most_for_one: u64,
    /// Ends as soon as a transaction has waited for long, or did not fit many times, or nothing
    /// fits for long.
    pub impatient: bool,
    /// Ends sooner still: as soon as a transaction did not fit many times, even if it is recent
    /// states alone that it may see.
    pub hasty: bool,
    /// Whether no statement sees a state older than what was over when its transaction began.
    pub recent: bool,
    /// Whether a transaction runs in the first way that fits only. So it is the order that a misfit
    /// is blamed on, and not what others might have seen.
    pub first_only: bool,
    /// The farthest place that was reached, and after how many statements.
    farthest: (u32, u64),
    /// The first transaction of which that is true.
    overdue: Option<TxnId>,
    /// How often each transaction did not fit.
    misfits: HashMap<TxnId, u32>,
    /// How many statements were executed, and transactions considered.
    pub steps: u64,
    budget: Budget,
}

impl<'c, 'h> Search<'c, 'h> {
    /// A search that has not begun.
    ///
    /// # Errors
    /// When the history is outside the fragment.
    pub fn new(
        history: &'h History,
        rules: Rules,
        constraints: &'c Constraints<'h>,
        options: Options,
        limits: Limits,
        initial: &[Initial],
    ) -> Result<Self, Outside> {
        Ok(Self {
            history,
            rules,
            options,
            limits,
            machine: Machine::starting(history, options.indexes, initial)?,
            initial: initial.to_vec(),
            constraints,
            placed: constraints.placed(),
            frames: VecDeque::new(),
            base: 0,
            sights: Vec::new(),
            moves: Vec::new(),
            blocked: HashMap::new(),
            cut: false,
            gone: false,
            outside: None,
            worst: None,
            stop: None,
            each: MANY_EACH,
            most_for_one: u64::MAX,
            impatient: false,
            hasty: false,
            recent: false,
            first_only: false,
            farthest: (0, 0),
            overdue: None,
            misfits: HashMap::new(),
            steps: 0,
            budget: Budget::unlimited(),
        })
    }

    /// The database as it is.
    pub fn machine(&mut self) -> &mut Machine<'h> {
        &mut self.machine
    }

    /// The transactions whose results are wrong most likely: the one that waited for long, those
    /// that did not fit most often, and the one that did not fit at the farthest place.
    #[must_use]
    pub fn suspects(&self) -> Vec<TxnId> {
        let mut often: Vec<(u32, TxnId)> = self.misfits.iter().map(|(&txn, &count)| (count, txn)).collect();
        often.sort_unstable_by_key(|&(count, txn)| (Reverse(count), txn));
        let often = often.into_iter().map(|(_, txn)| txn).take(SUSPECTS);
        let mut suspects: Vec<TxnId> = Vec::new();
        for txn in self.overdue.into_iter().chain(often).chain(self.worst.map(|misfit| misfit.txn)) {
            if !suspects.contains(&txn) {
                suspects.push(txn);
            }
        }
        suspects
    }

    /// The transactions placed so far.
    #[must_use]
    pub fn order(&self) -> &[TxnId] {
        self.placed.order()
    }

    /// Whether something waits in vain.
    fn is_stuck(&mut self) -> bool {
        let here = self.here();
        if here > self.farthest.0 {
            self.farthest = (here, self.steps);
        }
        let each = self.history.op_count() as u64 / self.history.txn_count().max(1) as u64;
        let many = match self.recent {
            true if self.limits.width == 1 => 5 * MANY_STEPS.max(MANY_STEPS_EACH * each),
            true => MANY_STEPS.max(MANY_STEPS_EACH * each),
            false => MANY_STEPS,
        };
        self.overdue.is_some() || self.steps - self.farthest.1 > many
    }

    /// How many statements are executed at most.
    fn most(&self) -> u64 {
        self.options.steps.saturating_add(self.each * self.history.op_count() as u64)
    }

    fn here(&self) -> u32 {
        self.machine.position()
    }

    /// Runs to an answer.
    pub fn run(&mut self, budget: &Budget) -> Found {
        self.budget = budget.clone();
        self.machine.limit(budget);
        while !self.placed.is_complete() {
            self.open();
            match self.advance() {
                Ok(true) => self.slide(),
                Ok(false) => return self.lost(),
                Err(Stop::Outside(outside)) => return Found::Outside(outside),
                Err(Stop::Budget(exhausted)) => return Found::Exhausted(exhausted, self.here()),
                Err(Stop::Reached) => return Found::Reached,
            }
        }
        Found::Execution(self.execution())
    }

    fn lost(&mut self) -> Found {
        if let Some(outside) = self.outside.take() {
            return Found::Outside(outside);
        }
        if self.cut { Found::Cut(self.worst) } else { Found::Refuted(self.worst) }
    }

    fn execution(&mut self) -> Execution {
        let mut sights = std::mem::take(&mut self.sights);
        let mut moves = std::mem::take(&mut self.moves);
        for (place, frame) in (self.base..).zip(self.frames.drain(..)) {
            sights.extend(frame.sights);
            moves.extend(frame.moved.map(|state| (place, state)));
        }
        // A state comes after the commit that made it, and before those that moved to it.
        let mut keys: Vec<(u32, u32)> =
            (0..).zip(self.placed.order()).map(|(place, _)| (place + 1, 0)).collect();
        moves.into_iter().for_each(|(place, state)| keys[place as usize] = (state, place + 1));
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_by_key(|&place| keys[place]);
        let order = order.into_iter().map(|place| self.placed.order()[place]).collect();
        Execution { reading: self.rules.reading(), order, sights, initial: self.initial.clone() }
    }

    /// A frame for the next place.
    fn open(&mut self) {
        let (mut candidates, more) = self.placed.ready(self.limits.width);
        let mut frame = Frame { more, ..Frame::default() };
        let first = candidates.iter().copied().find(|&txn| !self.may_wait(txn));
        let overdue =
            first.and_then(|first| self.blocked.get(&first)).filter(|blocked| self.is_overdue(blocked));
        if let Some(blocked) = overdue {
            self.overdue = self.overdue.or(first);
            frame.causes = self.causes(&blocked.print);
            candidates.clear();
            self.cut = true;
        }
        candidates.reverse();
        frame.candidates = candidates;
        self.frames.push_back(frame);
    }

    /// Whether a transaction has waited for long, and nothing that it looked at was written.
    fn is_overdue(&self, blocked: &Blocked) -> bool {
        self.here() - blocked.place > self.limits.patience && !self.is_free(blocked)
    }

    /// Whether a transaction has waited for long and may go on waiting: it only reads, and what it
    /// saw may come later, where neither sessions nor real time count.
    fn may_wait(&self, txn: TxnId) -> bool {
        let free = !self.rules.session && !self.rules.real_time;
        let waits = |blocked: &Blocked| blocked.only_reads && self.is_overdue(blocked);
        free && self.blocked.get(&txn).is_some_and(waits)
    }

    /// Drops what has left the window.
    fn slide(&mut self) {
        let Some(window) = self.limits.window else { return };
        while self.frames.len() > window as usize {
            if let Some(frame) = self.frames.pop_front() {
                self.gone |= frame.more || frame.choices.is_some() || !frame.candidates.is_empty();
                self.sights.extend(frame.sights);
                self.moves.extend(frame.moved.map(|state| (self.base, state)));
            }
            self.base += 1;
            self.machine.forget(self.base);
        }
    }

    /// Places a transaction at the last frame, or at an earlier one after a jump; false if there is
    /// no possibility left.
    fn advance(&mut self) -> Result<bool, Stop> {
        loop {
            self.budget.poll_now().map_err(Stop::Budget)?;
            if self.steps > self.most() || self.impatient && self.is_stuck() {
                self.cut = true;
                return Ok(false);
            }
            let Some(frame) = self.frames.back_mut() else { return Ok(false) };
            if let Some(mut choices) = frame.choices.take() {
                if let Some(choice) = self.next_choice(&mut choices)? {
                    self.place(choices, choice);
                    return Ok(true);
                }
                if !choices.has_fitted() && self.move_back(&choices)? {
                    return Ok(true);
                }
                self.misfit(&choices)?;
            } else if let Some(txn) = frame.candidates.pop() {
                self.consider(txn)?;
            } else if !self.jump() {
                return Ok(false);
            }
        }
    }

    fn next_choice(&mut self, choices: &mut Choices) -> Result<Option<Choice>, Stop> {
        let steps = choices.steps;
        let next = loop {
            let Some(choice) = choices.next(&mut self.machine).map_err(Stop::Outside)? else { break None };
            let order = self.placed.order();
            if in_row_order(self.history, self.rules, &self.machine, order, choices.txn(), &choice.ran.writes)
            {
                break Some(choice);
            }
            self.machine.drop(choice.transaction);
        };
        self.steps += choices.steps - steps;
        Ok(next)
    }

    fn place(&mut self, choices: Box<Choices>, choice: Choice) {
        let txn = choices.txn();
        self.machine.commit(choice.transaction, &choice.ran, self.rules.skips());
        self.placed.push(txn);
        self.blocked.remove(&txn);
        let Some(frame) = self.frames.back_mut() else { return };
        frame.print = Footprint::of(&choice.ran);
        frame.sights = choice.sights;
        if !choices.is_done() && self.first_only {
            self.cut = true;
        } else if !choices.is_done() {
            frame.choices = Some(choices);
        }
    }

    /// Runs a transaction on an older state at which it could have committed; false if there is
    /// none.
    fn move_back(&mut self, choices: &Choices) -> Result<bool, Stop> {
        // Where everything has to be tried, every order is.
        if self.rules.family != Family::Serial || self.limits == Limits::NONE {
            return Ok(false);
        }
        let (txn, here) = (choices.txn(), self.here());
        let after = |place: &u32| self.constraints.before(self.placed.order()[*place as usize], txn);
        let low = (self.base..here).rev().find(after).map_or(self.base, |place| place + 1);
        let rules = Rules { family: Family::Snapshot, ..self.rules };
        let older = Choices::new(&mut self.machine, rules, txn, (low, here)).map_err(Stop::Outside)?;
        let mut older = older.within(&self.budget);
        while let Some(choice) = self.next_choice(&mut older)? {
            let print = Footprint::of(&choice.ran);
            let state = choice.sights.first().map_or(here, |(_, sight)| sight.at);
            if state < here && self.commutes(&print, state) {
                self.machine.commit(choice.transaction, &choice.ran, false);
                self.placed.push(txn);
                self.blocked.remove(&txn);
                if let Some(frame) = self.frames.back_mut() {
                    (frame.print, frame.moved, frame.more) = (print, Some(state), true);
                }
                return Ok(true);
            }
            self.machine.drop(choice.transaction);
        }
        Ok(false)
    }

    /// Whether a transaction that ran on a state could have committed right there, before
    /// everything since.
    fn commutes(&self, print: &Footprint, state: u32) -> bool {
        let since = (self.base..self.here()).zip(&self.frames).filter(|(place, _)| *place >= state);
        since.into_iter().all(|(_, frame)| {
            let unseen = !Cone::looks_at(&frame.print).meets(print);
            // Who was moved itself may come before it, and must not have been missed.
            unseen && (frame.moved.is_none() || !Cone::looks_at(print).meets(&frame.print))
        })
    }

    /// Notes that a transaction has no way to run at the last frame.
    fn misfit(&mut self, choices: &Choices) -> Result<(), Stop> {
        let here = self.here();
        self.cut |= choices.cut;
        let misfits = self.misfits.entry(choices.txn()).or_default();
        *misfits += 1;
        if *misfits > MANY_MISFITS && (self.hasty || !self.recent) {
            self.overdue.get_or_insert(choices.txn());
        }
        if let Some(outside) = &choices.outside {
            self.outside.get_or_insert_with(|| outside.clone());
        }
        if let Some(op) = choices.stuck {
            let misfit = Misfit { place: here, txn: choices.txn(), op };
            if self.stop == Some(misfit) {
                return Err(Stop::Reached);
            }
            if self.worst.is_none_or(|worst| (worst.place, worst.op) < (here, op)) {
                self.worst = Some(misfit);
            }
        }
        let print = Footprint::of(&choices.touched);
        let causes = self.causes(&print);
        if let Some(frame) = self.frames.back_mut() {
            frame.causes.extend(causes);
        }
        if self.options.learn && !choices.has_fitted() {
            let txn = choices.txn();
            let only_reads = self.only_reads(txn).map_err(Stop::Outside)?;
            self.blocked.insert(txn, Blocked { place: here, print, only_reads });
        }
        Ok(())
    }

    fn only_reads(&mut self, txn: TxnId) -> Result<bool, Outside> {
        for op in self.machine.statements(txn)? {
            if self.machine.bound(op)?.0.is_write() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Begins with a candidate of the last frame, unless it is blocked.
    fn consider(&mut self, txn: TxnId) -> Result<(), Stop> {
        self.steps += 1;
        if let Some(blocked) = self.blocked.get(&txn)
            && !self.is_free(blocked)
        {
            let causes = self.causes(&blocked.print);
            if let Some(frame) = self.frames.back_mut() {
                frame.causes.extend(causes);
            }
            return Ok(());
        }
        let range = self.placed.snapshots(txn);
        let choices = Choices::new(&mut self.machine, self.rules, txn, range).map_err(Stop::Outside)?;
        let choices = choices.with(self.options.strongest_first, self.options.concrete).within(&self.budget);
        let left = self.most().saturating_sub(self.steps);
        let mut choices = choices.at_most(left.min(self.most_for_one));
        if self.recent {
            choices = choices.in_time(&self.placed);
        }
        if self.first_only {
            choices = choices.first_only();
        }
        if let Some(frame) = self.frames.back_mut() {
            frame.choices = Some(Box::new(choices));
        }
        Ok(())
    }

    /// Whether something that a blocked transaction looked at was written since.
    fn is_free(&self, blocked: &Blocked) -> bool {
        let here = self.here();
        let written = |state: Option<u32>| state.is_some_and(|state| state > blocked.place);
        let mut rows = blocked.print.rows.iter().chain(&blocked.print.writes);
        rows.any(|(table, key)| written(self.machine.last_writer(*table, key, here).map(|(state, _)| state)))
            || blocked.print.tables.iter().any(|&table| written(self.machine.last_write(table)))
    }

    /// The places that a misfit depends on. A place where the transaction could have run
    /// differently always counts: what it would have written is not known.
    fn causes(&self, print: &Footprint) -> HashSet<u32> {
        let here = self.here();
        let frames = (self.base..here).zip(&self.frames);
        let open = frames.clone().filter(|(_, frame)| frame.choices.is_some()).map(|(place, _)| place);
        let mut causes: HashSet<u32> = open.collect();
        let mut whole = print.clone();
        for (_, frame) in frames.clone().filter(|(_, frame)| frame.choices.is_some()) {
            whole.rows.extend(frame.print.rows.iter().cloned());
            whole.tables.extend(frame.print.tables.iter().copied());
        }
        let prints: Vec<(u32, &Footprint)> = frames.map(|(place, frame)| (place, &frame.print)).collect();
        causes.extend(places(&whole, &prints));
        causes
    }

    /// Goes back to the latest place that the misfits of the last frame depend on; false if there
    /// is none.
    fn jump(&mut self) -> bool {
        let Some(mut last) = self.frames.pop_back() else { return false };
        // What has left the window may be to blame too.
        self.cut |= last.more || self.gone;
        let Some(&target) = last.causes.iter().max() else { return false };
        while self.base as usize + self.frames.len() > target as usize + 1 {
            self.frames.pop_back();
        }
        while self.placed.order().len() > target as usize {
            self.placed.pop();
        }
        self.machine.take_back(target);
        self.blocked.retain(|_, blocked| blocked.place <= target);
        last.causes.remove(&target);
        if let Some(frame) = self.frames.back_mut() {
            frame.causes.extend(last.causes);
            frame.sights.clear();
            frame.moved = None;
            frame.print = Footprint::default();
        }
        true
    }
}

/// Why the search stops.
enum Stop {
    Outside(Outside),
    Budget(Exhausted),
    Reached,
}
