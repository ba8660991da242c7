//! Depth-first search for an order in real time.
//!
//! # Problem
//! Find an order of all committed transactions, and of some of unknown outcome, that contains
//! session order and real time and in which every transaction sees what it saw. At the snapshot
//! levels, an order of begin and commit points.
//!
//! # Algorithm
//! Wing and Gong's search with Lowe's memory of frontiers: at each point, take a transaction that
//! may be under way and agrees with the state. If none does, go back. A frontier (who has taken
//! effect, the state, who has begun) that led nowhere is not tried again.
//!
//! - A transaction that only reads and agrees now is taken at once, without an alternative: any
//!   order that takes it later can take it now.
//! - Writers are tried in the order of [`rank`]; as long as the search does not come back, only the
//!   first of them is looked for.
//! - Transactions of unknown outcome come last, and only if they change something: first those that
//!   may write what is in somebody's way, or that a dead end advised; all others when nothing else
//!   is left to try.
//! - With two points, a transaction begins directly before its commit, or directly before another's
//!   commit that changes what it saw. So the first thing to try with a commit is to begin all that
//!   agree now and would not afterwards.
//!
//! # Invariants
//! `held` says which of those that have begun writes an object; of two transactions that write one
//! object, one commits before the other begins.

mod rank;
mod spoilers;

use std::cmp::Reverse;
use std::collections::VecDeque;

use hashbrown::{HashMap, HashSet};
use margay_history::{ObjectId, TxnId};
use margay_verdict::{Budget, Certificate, Exhausted, Order, Outside};

use crate::Early;
use crate::calendar::Calendar;
use crate::candidate::Candidate;
use crate::foresight::{Foresight, Sight};
use crate::points;
use crate::repair::Advice;
use crate::unknowns::Unknowns;
use crate::world::{Made, Replaced, World, cell_mark, mark};

/// How many transactions that took effect stay prepared, in case the search goes back.
const PREPARED: usize = 256;

/// How many transactions before a dead end are suspects.
const NEIGHBOURS: usize = 16;

/// How often one piece of advice is followed.
const MAX_TRIES: u32 = 4;

/// After so many steps that lead no further, and some more in a large history, the search is lost.
const LOST_AFTER: usize = 250_000;

/// How a search ended.
pub(crate) enum Outcome {
    /// There is an order.
    Found(Certificate),
    /// There is none.
    Stuck(Furthest),
    /// It took more steps than it may.
    TooLong(Furthest),
    /// A limit of the budget.
    Exhausted(Exhausted),
}

/// Where the search got furthest.
#[derive(Clone, Default)]
pub(crate) struct Furthest {
    /// How many committed transactions had taken effect.
    pub taken: usize,
    /// The transactions that were under way and did not agree, with what was against them.
    pub blocked: Vec<(TxnId, Vec<ObjectId>)>,
    /// Those that had taken effect last.
    pub lately: Vec<TxnId>,
    /// Something that has no meaning here, if anything was met.
    pub outside: Option<Outside>,
}

/// What a step does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Begins and commits.
    Whole,
    /// Begins.
    Begin,
    /// Commits.
    Commit,
}

/// What may be done at a frontier.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Move {
    kind: Kind,
    place: u32,
    /// Whether those begin first that it would turn against.
    saves: bool,
}

/// What was done.
pub(crate) struct SearchStep {
    kind: Kind,
    /// By whom.
    pub place: u32,
    /// What was there before.
    pub replaced: Replaced,
    /// Those of unknown outcome that can no longer take effect.
    closed: Box<[u32]>,
}

/// Which moves of a frontier are known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// The most promising one.
    First,
    /// All, and of transactions of unknown outcome those that seem to help.
    Ranked,
    /// All.
    Whole,
}

/// What is left to try at a frontier.
struct Turn {
    moves: Vec<Move>,
    next: usize,
    known: Known,
    /// How many steps lead here.
    steps: usize,
    /// The number of the frontier.
    mark: u64,
}

/// A search.
pub(crate) struct Search<'p> {
    world: World<'p>,
    calendar: Calendar,
    /// Whether a transaction has two points.
    split: bool,
    /// Whether points lie at the instants that clients saw: then every begin is a step of its own.
    instants: bool,
    unknowns: Unknowns,
    foresight: Foresight,
    /// Those that agree, but would overwrite an object that another has still to see.
    spoilers: Vec<(u32, ObjectId, Sight)>,
    candidates: Vec<Option<Box<Candidate>>>,
    /// Taken lately; they stay prepared.
    lately: VecDeque<u32>,
    begun: HashMap<u32, Made>,
    held: HashMap<ObjectId, u32>,
    steps: Vec<SearchStep>,
    /// By object: the steps that wrote it.
    writers: Vec<Vec<u32>>,
    /// Those of unknown outcome that can no longer take effect, and the steps that made it so.
    closed: HashMap<u32, u32>,
    /// By transaction: which others are better taken before it.
    advice: HashMap<u32, Vec<u32>>,
    tried: HashMap<Advice, u32>,
    /// A number for who has taken effect, and who has begun.
    mark: u64,
    left: usize,
    furthest: Furthest,
    window: Vec<u32>,
    /// The earliest end of the window.
    earliest: i64,
}

impl<'p> Search<'p> {
    /// At the initial state.
    pub fn new(world: World<'p>, split: bool, instants: bool, early: &[Early]) -> Self {
        let calendar = Calendar::new(world.history(), instants, early);
        let left = calendar.must_count();
        let candidates = std::iter::repeat_with(|| None).take(calendar.txns.len()).collect();
        let objects = world.history().object_count();
        let mut unknowns = Unknowns::default();
        for place in (0..calendar.txns.len() as u32).filter(|&place| !calendar.must(place)) {
            unknowns.add(world.history(), place, calendar.txns[place as usize]);
        }
        Self {
            foresight: Foresight::new(world.history(), &calendar),
            spoilers: Vec::new(),
            world,
            calendar,
            split,
            instants,
            unknowns,
            candidates,
            lately: VecDeque::new(),
            begun: HashMap::new(),
            held: HashMap::new(),
            steps: Vec::new(),
            writers: vec![Vec::new(); objects],
            closed: HashMap::new(),
            advice: HashMap::new(),
            tried: HashMap::new(),
            mark: 0,
            left,
            furthest: Furthest::default(),
            window: Vec::new(),
            earliest: i64::MAX,
        }
    }

    /// Searches for at most so many steps.
    pub fn run(mut self, limit: usize, budget: &Budget) -> Outcome {
        let all = self.left;
        let mut visited: HashSet<u64> = HashSet::new();
        let mut turns: Vec<Turn> = Vec::new();
        let mut taken = 0;
        // A large history makes the search long, not the way on from where it is stuck.
        let (mut least, mut progress, patience) = (all, 0, LOST_AFTER + 4 * all);
        while self.left > 0 {
            if let Err(exhausted) = budget.poll() {
                return Outcome::Exhausted(exhausted);
            }
            let mark = self.mark ^ self.world.mark;
            if visited.insert(mark) {
                let (moves, known) = self.moves();
                let is_end = moves.is_empty();
                let awaited = self.awaited(&moves);
                turns.push(Turn { moves, next: 0, known, steps: self.steps.len(), mark });
                if is_end {
                    self.note_dead_end(all - self.left);
                    let blocked = self.window.iter().copied().filter(|&place| self.is_blocked(place));
                    let blocked = blocked.chain(self.spoilers.iter().map(|spoiler| spoiler.0)).collect();
                    self.restart(blocked, &mut turns, &mut visited);
                } else if !awaited.is_empty() {
                    self.restart(awaited, &mut turns, &mut visited);
                }
            }
            let Some(next) = self.next_move(&mut turns) else { return Outcome::Stuck(self.furthest) };
            taken += 1;
            if self.left < least {
                (least, progress) = (self.left, taken);
            }
            if taken > limit || all > crate::THOROUGH_UP_TO && taken - progress > patience {
                return Outcome::TooLong(self.furthest);
            }
            self.make(next);
        }
        Outcome::Found(self.certificate())
    }

    /// Goes back to the last frontier with something left to try.
    fn next_move(&mut self, turns: &mut Vec<Turn>) -> Option<Move> {
        loop {
            let turn = turns.last_mut()?;
            while self.steps.len() > turn.steps {
                self.undo();
            }
            if turn.next == turn.moves.len() && turn.known != Known::Whole {
                let tried = std::mem::take(&mut turn.moves);
                let (others, known) = match turn.known {
                    Known::First => (self.rest(&tried), Known::Ranked),
                    _ => (self.others(&tried), Known::Whole),
                };
                (turn.moves, turn.known) = (tried, known);
                turn.moves.extend(others);
                continue;
            }
            if let Some(&next) = turn.moves.get(turn.next) {
                turn.next += 1;
                return Some(next);
            }
            turns.pop();
        }
    }

    /// The transactions of unknown outcome that were not tried.
    fn others(&mut self, tried: &[Move]) -> Vec<Move> {
        self.look();
        let unknowns: Vec<u32> = self.calendar.open_unknowns(self.earliest).collect();
        let mut ready = Vec::new();
        for place in unknowns.into_iter().filter(|place| tried.iter().all(|tried| tried.place != *place)) {
            if self.is_ready(place) {
                ready.push(place);
            }
        }
        let moves = self.ranked(&ready);
        self.unspoilt(moves, &ready)
    }

    /// The blocked transactions for which everything that may be done now should wait; none if
    /// something need not.
    fn awaited(&self, moves: &[Move]) -> Vec<u32> {
        let mut all = Vec::new();
        for next in moves {
            let others = self.advice.get(&next.place).map_or(&[][..], Vec::as_slice);
            let open = others.iter().copied().filter(|&other| self.window.contains(&other));
            let before = all.len();
            all.extend(open.filter(|&other| self.is_blocked(other)));
            if all.len() == before {
                return Vec::new();
            }
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// These are blocked: goes back to where the order went wrong, if that can be told. The
    /// frontiers in between were not tried to the end.
    fn restart(&mut self, mut blocked: Vec<u32>, turns: &mut Vec<Turn>, visited: &mut HashSet<u64>) {
        blocked.sort_unstable_by_key(|&place| self.calendar.end(place));
        let Some((advice, step)) = self.learn(&blocked) else { return };
        for (first, second) in advice {
            *self.tried.entry((first, second)).or_default() += 1;
            let calendar = &self.calendar;
            let may_wait = |&other: &u32| other != second && !calendar.precedes(second, other);
            self.advice.entry(first).or_default().retain(may_wait);
            let others = self.advice.entry(second).or_default();
            if !others.contains(&first) {
                others.push(first);
            }
        }
        while turns.last().is_some_and(|turn| turn.steps > step) {
            turns.pop().iter().for_each(|turn| _ = visited.remove(&turn.mark));
        }
        let Some(turn) = turns.last() else { return };
        while self.steps.len() > turn.steps {
            self.undo();
        }
        let (moves, known) = self.moves();
        if let Some(turn) = turns.last_mut() {
            (turn.moves, turn.next, turn.known) = (moves, 0, known);
        }
    }

    fn is_blocked(&self, place: u32) -> bool {
        let known = self.candidates[place as usize].as_ref();
        self.calendar.must(place) && known.is_some_and(|candidate| !candidate.against.is_empty())
    }

    /// Whether advice may be followed once more.
    pub(crate) fn is_open(&self, advice: Advice) -> bool {
        self.tried.get(&advice).is_none_or(|&times| times < MAX_TRIES)
    }

    /// Whether the first was advised to wait for the second, or for what comes after it.
    pub(crate) fn is_contrary(&self, (first, second): Advice) -> bool {
        let waits = |&other: &u32| other == second || self.calendar.precedes(second, other);
        self.advice.get(&first).is_some_and(|others| others.iter().any(waits))
    }

    pub(crate) fn steps(&self) -> &[SearchStep] {
        &self.steps
    }

    pub(crate) fn writers(&self, object: ObjectId) -> &[u32] {
        &self.writers[object.index()]
    }

    /// Those of unknown outcome that did not take effect and may write an object, and the steps
    /// before which they would have to: early ones first, because they were possible for longer;
    /// then the latest.
    pub(crate) fn left_out(&self, object: ObjectId) -> Vec<(u32, usize)> {
        let open = |place: u32| self.calendar.may_occur(place, self.earliest).then_some(self.steps.len());
        let until = |place: u32| self.closed.get(&place).map(|&step| step as usize).or_else(|| open(place));
        let now = self.calendar.first_after(self.earliest);
        let writers = self.unknowns.lately_writing(self.world.history(), object, now);
        let mut all: Vec<(u32, usize)> = writers.filter_map(|place| Some((place, until(place)?))).collect();
        all.sort_unstable_by_key(|&left_out| (!self.calendar.is_early(left_out.0), Reverse(left_out)));
        all.dedup();
        all
    }

    /// Those that committed and may be under way.
    pub(crate) fn window(&self) -> &[u32] {
        &self.window
    }

    pub(crate) fn calendar(&self) -> &Calendar {
        &self.calendar
    }

    pub(crate) fn world(&self) -> &World<'_> {
        &self.world
    }

    pub(crate) fn prepared(&self, place: u32) -> Option<&Candidate> {
        self.candidates[place as usize].as_deref()
    }

    fn certificate(&self) -> Certificate {
        let txn = |step: &SearchStep| self.calendar.txns[step.place as usize];
        if !self.split {
            let txns = self.steps.iter().map(txn).collect();
            return Certificate::Order(Order { txns, reads: Vec::new() });
        }
        let committed = self.steps.iter().filter(|step| !self.begun.contains_key(&step.place));
        let steps = committed.map(|step| (step.kind, txn(step)));
        Certificate::Points(match self.instants {
            true => points::in_time(self.world.history(), steps),
            false => points::in_order(steps),
        })
    }

    fn note_dead_end(&mut self, taken: usize) {
        if taken < self.furthest.taken || taken == self.furthest.taken && !self.furthest.blocked.is_empty() {
            return;
        }
        let blocked = self.window.iter().filter(|&&place| self.is_blocked(place));
        let of = |&place: &u32| (self.calendar.txns[place as usize], self.candidate(place).against.clone());
        // Who has still to see something is named, not who is in its way.
        let first = self.window.first().copied().unwrap_or_default();
        let awaiting = |&(_, object, sight): &(u32, ObjectId, Sight)| {
            let place = self.foresight.who(sight, first)?;
            Some((self.calendar.txns[place as usize], vec![object]))
        };
        let blocked = blocked.map(of).chain(self.spoilers.iter().filter_map(awaiting)).collect();
        (self.furthest.blocked, self.furthest.taken) = (blocked, taken);
        let lately =
            self.steps.iter().rev().take(NEIGHBOURS).map(|step| self.calendar.txns[step.place as usize]);
        self.furthest.lately = lately.collect();
    }

    /// What may be done now, the most promising first; of transactions of unknown outcome only what
    /// seems to help. If one stands out, that one alone.
    fn moves(&mut self) -> (Vec<Move>, Known) {
        let ready = match self.ready() {
            Ok(ready) => ready,
            Err(reader) => {
                return (vec![Move { kind: Kind::Whole, place: reader, saves: false }], Known::Ranked);
            }
        };
        match self.harmless(&ready) {
            Some(first) => (vec![first], Known::First),
            None => (self.all_moves(&ready), Known::Ranked),
        }
    }

    /// Who may take effect or begin now; or one that only reads, and so may be taken at once.
    fn ready(&mut self) -> Result<Vec<u32>, u32> {
        self.look();
        let mut ready = Vec::new();
        for place in self.window.clone() {
            if self.begun.contains_key(&place) {
                ready.push(place);
            } else if self.may_begin(place) {
                if !self.candidate(place).strands.writes && self.calendar.open_before(place).next().is_none()
                {
                    return Err(place);
                }
                ready.push(place);
            }
        }
        let helping = self.helping(&ready);
        ready.extend(helping.into_iter().filter(|&place| self.is_ready(place)));
        Ok(ready)
    }

    fn all_moves(&mut self, ready: &[u32]) -> Vec<Move> {
        let moves = self.ranked(ready);
        self.spoilers.clear();
        self.unspoilt(moves, ready)
    }

    /// The moves besides the first.
    fn rest(&mut self, tried: &[Move]) -> Vec<Move> {
        let Ok(ready) = self.ready() else { return Vec::new() };
        let mut moves = self.all_moves(&ready);
        moves.retain(|next| !tried.contains(next));
        moves
    }

    /// Looks who may be under way.
    fn look(&mut self) {
        let mut window = std::mem::take(&mut self.window);
        self.earliest = self.calendar.window(&mut window);
        self.window = window;
    }

    /// The transactions of unknown outcome that have begun, that may write what is in somebody's
    /// way, or that are better taken before a ready one.
    fn helping(&self, ready: &[u32]) -> Vec<u32> {
        let begun = self.begun.keys().copied().filter(|&place| !self.calendar.must(place));
        let (history, open) = (self.world.history(), self.calendar.open_unknowns(self.earliest));
        let against = |&unknown: &u32| {
            let blocked = self.window.iter().filter(|&&place| self.is_blocked(place));
            let mut against = blocked.flat_map(|&place| &self.candidate(place).against);
            against.any(|&object| self.unknowns.may_write(history, unknown, object))
        };
        let writers = open.filter(against);
        let advised = ready.iter().filter_map(|place| self.advice.get(place)).flatten().copied();
        let advised = advised.filter(|&place| !self.calendar.must(place));
        let mut all: Vec<u32> = begun.chain(writers).chain(advised).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether one of unknown outcome may begin, or has begun.
    fn is_ready(&mut self, place: u32) -> bool {
        self.begun.contains_key(&place)
            || self.calendar.may_occur(place, self.earliest) && self.may_begin(place)
    }

    pub(crate) fn candidate(&self, place: u32) -> &Candidate {
        self.candidates[place as usize].as_ref().expect("it was looked at")
    }

    /// What a ready transaction writes.
    fn made(&self, place: u32) -> &Made {
        self.begun.get(&place).unwrap_or_else(|| &self.candidate(place).made)
    }

    fn may_begin(&mut self, place: u32) -> bool {
        let (world, txn) = (&self.world, self.calendar.txns[place as usize]);
        let slot = &mut self.candidates[place as usize];
        let candidate = slot.get_or_insert_with(|| Box::new(Candidate::new(world, txn)));
        if !candidate.agrees(world) {
            if let Some(outside) = candidate.outside.take() {
                self.furthest.outside.get_or_insert(outside);
            }
            return false;
        }
        let changes = |made: &Made| made.iter().any(|(object, cell)| world.cell(*object) != cell);
        (self.calendar.must(place) || changes(&candidate.made))
            && !(self.split && candidate.made.iter().any(|made| self.held.contains_key(&made.0)))
            && !(self.split
                && self.calendar.open_before(place).any(|before| self.begun.contains_key(&before)))
    }

    fn make(&mut self, next: Move) {
        // The search may have come back from elsewhere since it was found ready.
        let ready = next.kind == Kind::Commit || self.may_begin(next.place);
        debug_assert!(ready, "what was ready at a frontier still is");
        if next.saves {
            self.save(next.place);
        }
        let made = match next.kind {
            Kind::Commit => self.begun.remove(&next.place).unwrap_or_default(),
            _ => self.candidate(next.place).made.clone(),
        };
        let (kind, place, replaced) = (next.kind, next.place, Replaced::NONE);
        let mut step = SearchStep { kind, place, replaced, closed: Box::default() };
        if next.kind != Kind::Commit {
            self.foresight.close(next.place);
            step.closed = self.calendar.closed_by(next.place).into();
            step.closed.iter().for_each(|&before| self.calendar.remove(before));
            let index = self.steps.len() as u32;
            self.closed.extend(step.closed.iter().map(|&before| (before, index)));
        }
        if next.kind == Kind::Begin {
            self.hold(next.place, made);
        } else {
            if next.kind == Kind::Commit {
                self.mark ^= self.begun_mark(next.place, &made);
                made.iter().for_each(|(object, _)| _ = self.held.remove(object));
            }
            step.replaced = self.world.install(made).into();
            let index = self.steps.len() as u32;
            step.replaced.objects().for_each(|object| self.writers[object.index()].push(index));
            self.calendar.remove(next.place);
            self.left -= usize::from(self.calendar.must(next.place));
            self.mark ^= mark(&next.place);
            self.retire(next.place);
        }
        self.steps.push(step);
    }

    /// Begins those that agree now and would not after this one's commit.
    fn save(&mut self, place: u32) {
        let made = self.made(place).clone();
        let mut window = std::mem::take(&mut self.window);
        self.calendar.window(&mut window);
        for &other in window.iter().filter(|&&other| other != place) {
            let lost = !self.begun.contains_key(&other)
                && self.calendar.must(other)
                && self.may_begin(other)
                && !self.candidate(other).bears(&self.world, &made)
                && !self.candidate(other).collides(&made);
            if lost {
                self.make(Move { kind: Kind::Begin, place: other, saves: false });
            }
        }
        self.window = window;
    }

    fn hold(&mut self, place: u32, made: Made) {
        self.mark ^= self.begun_mark(place, &made);
        made.iter().for_each(|(object, _)| _ = self.held.insert(*object, place));
        self.begun.insert(place, made);
        self.calendar.set_begun(place, true);
    }

    fn begun_mark(&self, place: u32, made: &Made) -> u64 {
        let of =
            |(object, cell): &(ObjectId, _)| mark(&(place, cell_mark(self.world.history(), *object, cell)));
        made.iter().fold(mark(&(1u8, place)), |all, made| all ^ of(made))
    }

    /// Forgets how to run those that took effect a while ago.
    fn retire(&mut self, place: u32) {
        self.lately.push_back(place);
        if self.lately.len() > PREPARED
            && let Some(old) = self.lately.pop_front()
            && self.calendar.is_removed(old)
        {
            self.candidates[old as usize] = None;
        }
    }

    fn undo(&mut self) {
        let Some(step) = self.steps.pop() else { return };
        if step.kind != Kind::Commit {
            self.foresight.open(step.place);
        }
        if step.kind == Kind::Begin {
            let made = self.begun.remove(&step.place).unwrap_or_default();
            self.calendar.set_begun(step.place, false);
            self.mark ^= self.begun_mark(step.place, &made);
            made.iter().for_each(|(object, _)| _ = self.held.remove(object));
        } else {
            self.mark ^= mark(&step.place);
            self.left += usize::from(self.calendar.must(step.place));
            self.calendar.restore(step.place);
            step.replaced.objects().for_each(|object| _ = self.writers[object.index()].pop());
            let mut made = self.world.install(step.replaced.into_made());
            if step.kind == Kind::Commit {
                made.sort_unstable_by_key(|made| made.0);
                self.hold(step.place, made);
            }
        }
        for &before in step.closed.iter().rev() {
            self.closed.remove(&before);
            self.calendar.restore(before);
        }
    }
}
