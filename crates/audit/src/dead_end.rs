//! A few objects in real time: that no order of their transactions is left.
//!
//! # Problem
//! At a level with real time, some order of all transactions (of begin and commit points at the
//! snapshot levels) explains what clients saw. Restricted to a few objects it explains what they
//! saw of these: what an operation observes of a row, and what it does to it, depends on that row
//! alone. So if the transactions have no order that explains these objects, the history has none.
//! Where values repeat, no cycle of dependencies shows that; trying shows it.
//!
//! # Algorithm
//! Time is walked through once, as in [`super::linear`], which does this for one register. A
//! configuration is what the objects hold, which of the transactions under way have taken effect,
//! and which have begun and what they will write. When a committed transaction ends, it must have
//! taken effect, after whatever else may have. Two things are not tried, because any order that has
//! them another way can have them this way:
//! - a transaction that only reads and agrees with the objects now takes effect now;
//! - one of unknown outcome that would change nothing does not take effect.
//!
//! # Invariants
//! With instants, a transaction must have begun when its first statement is answered, and takes
//! effect after its commit was called; one that writes nothing has no commit that matters.
//!
//! All other configurations are kept, so an empty set is a proof. A transaction of unknown outcome
//! is under way until a later one of its session has taken effect. What has no meaning here, and
//! what would take too long, is an error and never a proof. Objects may have held anything at first
//! ([`open`]).
//!
//! # Cost
//! Exponential in the transactions under way at one time; at most [`CONFIGURATIONS`] are looked at.

mod open;

use std::borrow::Cow;

use hashbrown::{HashMap, HashSet};
use margay_history::{Access, History, ObjectId, Op, OpKind, Outcome, PredicateId, SessionId, TxnId};
use margay_levels::definition::Family;
use margay_verdict::instants::Instants;
use margay_verdict::state::ObjectView;
use margay_verdict::{Budget, Cell, DeadEnd, Outside, Predicates, Question};

use super::{Rejected, reject};

/// How many configurations are looked at. One of many objects takes as much memory as many, and
/// counts as such.
const CONFIGURATIONS: usize = 2_000_000;

/// A configuration of so many objects counts as two.
const OBJECTS: usize = 8;

/// How many transactions may be under way at one time.
const UNDER_WAY: usize = 128;

pub(super) fn audit(
    history: &History,
    question: Question,
    claimed: &DeadEnd,
    budget: &Budget,
) -> Result<(), Rejected> {
    match dead_end(history, question, &claimed.objects, budget)? {
        Some(txns) if txns == claimed.txns => Ok(()),
        Some(_) => reject("other transactions than the named ones have no order"),
        None => reject("the transactions have an order, as far as these objects tell"),
    }
}

/// The committed transactions after the last moment at which only one possibility was left, and
/// those that overlap them, up to the one by whose end none is left; that one is the last. Nothing
/// if an order is left.
///
/// # Errors
/// When it cannot be told.
pub fn dead_end(
    history: &History,
    question: Question,
    objects: &[ObjectId],
    budget: &Budget,
) -> Result<Option<Vec<TxnId>>, Rejected> {
    let family = question.level.family();
    if !question.uses_real_time() || !matches!(family, Family::Serial | Family::Snapshot) {
        return reject(format!("{} has no order in real time", question.level));
    }
    let predicates = Predicates::lenient(history).within(budget);
    let mut walk = Walk::new(&predicates, objects, family == Family::Snapshot)?;
    for (event, txn) in walk.events(question) {
        match event {
            Event::Starts => walk.start(txn, question.uses_instants())?,
            Event::CallsCommit => walk.may_commit(txn),
            Event::HasBegun => walk.has_begun(txn, budget)?,
            Event::Ends => walk.end(txn, budget)?,
        }
        if walk.configurations.is_empty() {
            return Ok(Some(walk.slice(txn)));
        }
    }
    Ok(None)
}

/// What happens on the clock. At one moment, what may happen from then on comes before what must
/// have happened by then.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// It may begin.
    Starts,
    /// With instants: it may commit.
    CallsCommit,
    /// With instants: its snapshot is taken.
    HasBegun,
    /// It has committed.
    Ends,
}

/// What is left of an operation when one looks at a few objects only.
struct Part<'h> {
    op: Op<'h>,
    accesses: Vec<Access>,
}

/// What is left of a transaction.
struct RemainingTxn<'h> {
    txn: TxnId,
    session: SessionId,
    committed: bool,
    writes: bool,
    parts: Vec<Part<'h>>,
    /// Whether it may begin, and commit, at this time.
    may_begin: bool,
    may_commit: bool,
}

/// Which objects get which values, by their places.
type Writes = Vec<(u16, u32)>;

/// What a transaction did.
#[derive(Clone)]
struct Ran {
    /// What it tells of objects that may have held anything.
    learned: Writes,
    writes: Writes,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Configuration {
    /// By place of the object: the number of what it holds.
    cells: Vec<u32>,
    /// Which of those under way have taken effect, by their places.
    done: u128,
    /// Which have begun, and what they will write.
    begun: Vec<(u8, Writes)>,
}

impl Configuration {
    fn is_done(&self, place: usize) -> bool {
        self.done >> place & 1 == 1
    }

    /// The same, once it is known what objects held.
    fn with(&self, learned: &Writes) -> Self {
        let mut next = self.clone();
        learned.iter().for_each(|&(object, cell)| next.cells[usize::from(object)] = cell);
        next
    }

    fn writes_of(&self, place: usize) -> Option<&Writes> {
        self.begun.iter().find(|begun| usize::from(begun.0) == place).map(|begun| &begun.1)
    }
}

struct Walk<'p> {
    predicates: &'p Predicates<'p>,
    /// Sorted.
    objects: Vec<ObjectId>,
    split: bool,
    /// Everything that an object ever holds, numbered.
    cells: Vec<Cell>,
    numbers: HashMap<String, u32>,
    /// By place; places are used again.
    under_way: Vec<Option<RemainingTxn<'p>>>,
    configurations: HashSet<Configuration>,
    /// What a transaction does on what it finds; nothing if it saw something else.
    runs: HashMap<(TxnId, Vec<u32>), Option<Ran>>,
    since: Vec<TxnId>,
    looked: usize,
}

impl<'p> Walk<'p> {
    fn new(predicates: &'p Predicates<'p>, objects: &[ObjectId], split: bool) -> Result<Self, Rejected> {
        let history = predicates.history();
        let mut objects = objects.to_vec();
        objects.sort_unstable();
        objects.dedup();
        if objects.len() > usize::from(u16::MAX)
            || objects.iter().any(|o| o.index() >= history.object_count())
        {
            return reject("the certificate names too many objects, or one that the history does not have");
        }
        let (cells, numbers, under_way) = (Vec::new(), HashMap::new(), Vec::new());
        let (configurations, runs, since) = (HashSet::new(), HashMap::new(), Vec::new());
        let mut walk = Self {
            predicates,
            objects,
            split,
            cells,
            numbers,
            under_way,
            configurations,
            runs,
            since,
            looked: 0,
        };
        let initial: Vec<Cell> = walk.objects.iter().map(|&o| Cell::Value(history.initial(o))).collect();
        let cells = initial.into_iter().map(|cell| walk.number(cell)).collect();
        walk.configurations.insert(Configuration { cells, done: 0, begun: Vec::new() });
        Ok(walk)
    }

    fn number(&mut self, cell: Cell) -> u32 {
        let cells = &mut self.cells;
        *self.numbers.entry(format!("{cell:?}")).or_insert_with(|| {
            cells.push(cell);
            cells.len() as u32 - 1
        })
    }

    /// What happens, in time.
    fn events(&self, question: Question) -> Vec<(Event, TxnId)> {
        let history = self.predicates.history();
        let skew = history.header().skew;
        let mut events: Vec<(i64, Event, TxnId)> = Vec::new();
        for txn in history.txns().filter(|&txn| history.outcome(txn) != Outcome::Aborted) {
            events.push((history.start(txn).unwrap_or(i64::MIN), Event::Starts, txn));
            if question.uses_instants() {
                let Instants { begin, commit } = Instants::of(history, txn);
                events.push((commit.from, Event::CallsCommit, txn));
                if begin.until < i64::MAX {
                    events.push((begin.until, Event::HasBegun, txn));
                }
            }
            if let Some(end) = history.end(txn) {
                events.push((end.saturating_add(skew), Event::Ends, txn));
            }
        }
        events.sort_unstable();
        events.into_iter().map(|(_, event, txn)| (event, txn)).collect()
    }

    fn place_of(&self, txn: TxnId) -> Option<usize> {
        self.under_way.iter().position(|step| step.as_ref().is_some_and(|step| step.txn == txn))
    }

    /// From now on its commit may be.
    fn may_commit(&mut self, txn: TxnId) {
        let step = self.place_of(txn).and_then(|place| self.under_way[place].as_mut());
        step.into_iter().for_each(|step| step.may_commit = true);
    }

    /// Keeps the configurations in which it has begun, after whatever else may have happened.
    fn has_begun(&mut self, txn: TxnId, budget: &Budget) -> Result<(), Rejected> {
        let Some(place) = self.place_of(txn) else { return Ok(()) };
        self.keep(budget, |c| c.is_done(place) || c.writes_of(place).is_some())?;
        self.under_way[place].iter_mut().for_each(|step| step.may_begin = false);
        Ok(())
    }

    fn start(&mut self, txn: TxnId, instants: bool) -> Result<(), Rejected> {
        let Some(mut step) = self.step(txn)? else { return Ok(()) };
        step.may_commit = !instants;
        if step.committed {
            self.since.push(txn);
        }
        let place = self.under_way.iter().position(Option::is_none).unwrap_or(self.under_way.len());
        if place == UNDER_WAY {
            return reject(format!("more than {UNDER_WAY} transactions are under way at one time"));
        }
        if place == self.under_way.len() {
            self.under_way.push(None);
        }
        self.under_way[place] = Some(step);
        Ok(())
    }

    /// What is left of a transaction; nothing if it does not touch the objects.
    fn step(&self, txn: TxnId) -> Result<Option<RemainingTxn<'p>>, Rejected> {
        let history = self.predicates.history();
        let mut parts = Vec::new();
        for op in history.ops(txn) {
            let kept = |access: &&Access| self.objects.binary_search(&access.object).is_ok();
            let accesses: Vec<Access> = op.accesses.iter().filter(kept).copied().collect();
            let about = |predicate| self.objects.iter().any(|&o| self.is_about(predicate, o));
            let kept = match op.kind {
                OpKind::Read | OpKind::Write | OpKind::Append => !accesses.is_empty(),
                OpKind::Scan => history.scan(op.id).is_some_and(|scan| about(scan.predicate)),
                OpKind::Update => history.update(op.id).is_some_and(|update| about(update.predicate)),
                OpKind::Sql => match self.predicates.summary(op.id) {
                    // A summary is about all rows of its table.
                    Some(asked) => {
                        let domain = self.predicates.domain(asked.predicate);
                        domain.iter().all(|object| self.objects.binary_search(object).is_ok())
                    }
                    None => return reject("a SQL statement"),
                },
                _ => false,
            };
            if kept {
                parts.push(Part { op, accesses });
            }
        }
        let writes = parts.iter().any(|part| part.op.kind.writes());
        let (session, committed) = (history.session_of(txn), history.outcome(txn) == Outcome::Committed);
        let matters = !parts.is_empty() && (committed || writes);
        let (may_begin, may_commit) = (true, true);
        Ok(matters.then_some(RemainingTxn { txn, session, committed, writes, parts, may_begin, may_commit }))
    }

    fn is_about(&self, predicate: PredicateId, object: ObjectId) -> bool {
        self.predicates.history().object(object).table == Some(self.predicates.table_of(predicate))
    }

    /// Keeps the configurations in which the transaction took effect, after whatever else may have.
    fn end(&mut self, txn: TxnId, budget: &Budget) -> Result<(), Rejected> {
        let Some(place) = self.place_of(txn) else { return Ok(()) };
        self.keep(budget, |configuration| configuration.is_done(place))?;
        self.leave(place);
        Ok(())
    }

    /// Keeps the configurations of which that is true, and goes on from the others.
    fn keep(&mut self, budget: &Budget, is_kept: impl Fn(&Configuration) -> bool) -> Result<(), Rejected> {
        let mut met = std::mem::take(&mut self.configurations);
        let mut pending: Vec<Configuration> = met.iter().cloned().collect();
        let mut kept = HashSet::new();
        while let Some(configuration) = pending.pop() {
            budget.poll()?;
            self.looked += 1 + self.objects.len() / OBJECTS;
            if self.looked > CONFIGURATIONS {
                return reject(format!("more than {CONFIGURATIONS} configurations"));
            }
            if is_kept(&configuration) {
                kept.insert(configuration);
                continue;
            }
            for next in self.successors(&configuration)? {
                if met.insert(next.clone()) {
                    pending.push(next);
                }
            }
        }
        self.configurations = kept;
        Ok(())
    }

    /// It has taken effect; what is of unknown outcome and before it in its session no longer can.
    fn leave(&mut self, place: usize) {
        let Some(gone) = self.under_way[place].take() else { return };
        self.runs.retain(|run, _| run.0 != gone.txn);
        let mut places = 1u128 << place;
        for (other, step) in self.under_way.iter_mut().enumerate() {
            if step.as_ref().is_some_and(|s| s.session == gone.session && s.txn < gone.txn) {
                places |= 1 << other;
                *step = None;
            }
        }
        let old = std::mem::take(&mut self.configurations);
        self.configurations =
            old.into_iter().map(|c| Configuration { done: c.done & !places, ..c }).collect();
        let mut all = self.configurations.iter();
        if let (Some(only), None) = (all.next(), all.next())
            && only.done == 0
            && only.begun.is_empty()
        {
            let under_way: Vec<TxnId> = self.under_way.iter().flatten().map(|step| step.txn).collect();
            let history = self.predicates.history();
            self.since.retain(|&txn| under_way.iter().any(|&other| !history.precedes(txn, other)));
        }
    }

    /// The transactions since there was one possibility, the given one last.
    fn slice(&self, txn: TxnId) -> Vec<TxnId> {
        let mut slice: Vec<TxnId> = self.since.iter().copied().filter(|&other| other != txn).collect();
        slice.push(txn);
        slice
    }

    fn successors(&mut self, from: &Configuration) -> Result<Vec<Configuration>, Rejected> {
        let mut all = Vec::new();
        for place in 0..self.under_way.len() {
            let Some(step) = self.under_way[place].as_ref().filter(|_| !from.is_done(place)) else {
                continue;
            };
            if let Some(writes) = from.writes_of(place) {
                if step.may_commit {
                    all.push(take(from, place, &writes.clone()));
                }
                continue;
            }
            if !step.may_begin || !self.in_session(step, from) {
                continue;
            }
            let (only_reads, committed) = (!step.writes, step.committed);
            let Some(Ran { learned, writes }) = self.run(place, &from.cells)? else { continue };
            if only_reads && learned.is_empty() && self.leaves_others(place, from) {
                return Ok(vec![take(from, place, &writes)]);
            }
            let from = &from.with(&learned);
            let idle = writes.iter().all(|&(object, cell)| from.cells[usize::from(object)] == cell);
            if idle && !committed {
                continue;
            }
            match self.split && !writes.is_empty() {
                false => all.push(take(from, place, &writes)),
                true if collides(from, &writes) => {}
                true => all.push(begin(from, place, writes)),
            }
        }
        Ok(all)
    }

    /// Whether session order lets a transaction begin.
    fn in_session(&self, step: &RemainingTxn<'_>, from: &Configuration) -> bool {
        let mut others =
            self.under_way.iter().enumerate().filter_map(|(i, other)| Some((i, other.as_ref()?)));
        others.all(|(place, other)| {
            let begun = from.writes_of(place).is_some();
            other.session != step.session
                || match other.txn.cmp(&step.txn) {
                    std::cmp::Ordering::Less => from.is_done(place) || !other.committed && !begun,
                    std::cmp::Ordering::Equal => true,
                    std::cmp::Ordering::Greater => !from.is_done(place) && !begun,
                }
        })
    }

    /// Whether nothing of unknown outcome loses its chance.
    fn leaves_others(&self, place: usize, from: &Configuration) -> bool {
        let Some(step) = &self.under_way[place] else { return false };
        let mut others =
            self.under_way.iter().enumerate().filter_map(|(i, other)| Some((i, other.as_ref()?)));
        !others.any(|(i, other)| other.session == step.session && other.txn < step.txn && !from.is_done(i))
    }

    /// What a transaction does when it runs on these cells; nothing if it saw something else.
    fn run(&mut self, place: usize, cells: &[u32]) -> Result<Option<Ran>, Rejected> {
        let Some(step) = &self.under_way[place] else { return Ok(None) };
        let key = (step.txn, cells.to_vec());
        if let Some(known) = self.runs.get(&key) {
            return Ok(known.clone());
        }
        let before: Vec<Cell> = cells.iter().map(|&number| self.cells[number as usize].clone()).collect();
        let count = before.len();
        let view = Few { objects: &self.objects, cells: before };
        let (written, learned) = (vec![false; count], vec![None; count]);
        let mut run = open::Run { predicates: self.predicates, view, written, learned };
        let mut agrees = true;
        for part in &step.parts {
            let op = Op { accesses: &part.accesses, ..part.op };
            agrees = if run.is_open() { run.op(&op)? } else { run.closed(&op)? };
            if !agrees {
                break;
            }
        }
        let open::Run { view, written, learned, .. } = run;
        let (after, mut ran) = (view.cells, None);
        if agrees {
            let changed = after.into_iter().enumerate().filter(|(at, _)| written[*at]);
            let writes = changed.map(|(at, cell)| (at as u16, self.number(cell))).collect();
            let learned = learned.into_iter().enumerate().filter_map(|(at, cell)| Some((at, cell?)));
            let learned = learned.map(|(at, cell)| (at as u16, self.number(cell))).collect();
            ran = Some(Ran { learned, writes });
        }
        self.runs.insert(key, ran.clone());
        Ok(ran)
    }
}

fn take(from: &Configuration, place: usize, writes: &Writes) -> Configuration {
    let mut next = from.clone();
    next.begun.retain(|begun| usize::from(begun.0) != place);
    writes.iter().for_each(|&(object, cell)| next.cells[usize::from(object)] = cell);
    next.done |= 1 << place;
    next
}

fn begin(from: &Configuration, place: usize, writes: Writes) -> Configuration {
    let mut next = from.clone();
    next.begun.push((place as u8, writes));
    next.begun.sort_unstable();
    next
}

/// Whether one that has begun writes the same object: one of the two would have to commit before
/// the other begins.
fn collides(from: &Configuration, writes: &Writes) -> bool {
    let held =
        |object: u16| from.begun.iter().any(|(_, others)| others.iter().any(|other| other.0 == object));
    writes.iter().any(|&(object, _)| held(object))
}

/// A few objects.
struct Few<'a> {
    objects: &'a [ObjectId],
    cells: Vec<Cell>,
}

impl ObjectView for Few<'_> {
    fn look(&self, object: ObjectId) -> Cow<'_, Cell> {
        match self.objects.binary_search(&object) {
            Ok(at) => Cow::Borrowed(&self.cells[at]),
            Err(_) => Cow::Owned(Cell::ABSENT),
        }
    }

    fn matching(
        &self,
        predicates: &Predicates<'_>,
        predicate: PredicateId,
    ) -> Result<Vec<ObjectId>, Outside> {
        let table = Some(predicates.table_of(predicate));
        let mut found = Vec::new();
        for (at, &object) in self.objects.iter().enumerate() {
            if predicates.history().object(object).table == table
                && predicates.matches(predicate, object, &self.cells[at])?
            {
                found.push(object);
            }
        }
        Ok(found)
    }
}
