//! What an order leaves open: transactions of unknown outcome that may have taken effect in it, and
//! nobody noticed.
//!
//! # Problem
//! An order is settled without a transaction of unknown outcome. But it may have taken effect at
//! some place of the order, if nobody looked at what it wrote since. A later transaction may see
//! it, when its place has long been settled.
//!
//! # Algorithm
//! Run the order on the objects that such transactions touch. At every place where one of them may
//! stand and agrees with the state, note what it would have made. Carry that along: each
//! transaction that comes after the place runs on it, too. If it does not run, it has noticed that
//! nothing is there. What it overwrites no longer matters.
//!
//! One of them may have seen what another would have left. It agrees with the state if that one
//! took effect, and then it is noted together with it.
//!
//! # Invariants
//! If a transaction is put at the place that is answered, and those with which it is noted at
//! theirs, every transaction of the order sees what it saw, and afterwards the objects hold what is
//! answered. So it is for several together, if they are not against each other; of an object that
//! one overwrites, what the other left is gone.
//!
//! # Limits
//! Of the places of one transaction, the first that nobody noticed is answered: a client that got
//! no answer is rarely still at work when others go on. Where objects were overwritten in between,
//! others may leave another state. With two points, it begins directly before it commits.
//!
//! # Cost
//! A look at each operation of the order; transactions that touch the objects are run again.

use hashbrown::{HashMap, HashSet};
use margay_history::{History, ObjectId, Op, OpKind, TxnId};
use margay_verdict::{Cell, Certificate, Point, Predicates};

use crate::search::Kind;
use crate::strand::Strands;
use crate::world::Made;

/// A transaction that may have taken effect in an order that leaves it out.
#[derive(Clone, Debug)]
pub struct Unnoticed {
    /// It.
    pub txn: TxnId,
    /// After how many steps of the order it may have: transactions, or points.
    pub after: usize,
    /// What some objects would hold after the order.
    pub made: Vec<(ObjectId, Cell)>,
    /// Others of which not both did: it touches what they would have left.
    pub against: Vec<TxnId>,
    /// Others that did before it, if they did: it overwrites what they would have left, unseen.
    pub over: Vec<TxnId>,
    /// Others that did if it did, and after how many steps: it saw what they left.
    pub with: Vec<(TxnId, usize)>,
}

/// Those of some transactions of unknown outcome that may have taken effect in an order that was
/// audited; the early ones only before all of it.
#[must_use]
pub fn unnoticed(history: &History, order: &Certificate, asked: &[TxnId], early: &[TxnId]) -> Vec<Unnoticed> {
    let steps = steps(order);
    let Ok(predicates) = Predicates::compile(history) else { return Vec::new() };
    let Some(mut walk) = Walk::new(&predicates, &steps, asked, early) else { return Vec::new() };
    for (place, &step) in steps.iter().enumerate() {
        walk.open(place);
        if walk.step(step).is_none() {
            return Vec::new();
        }
    }
    walk.open(steps.len());
    let made = |asked: Absent| {
        let unnoticed = |Trace { after, made, against, over, with, .. }| Unnoticed {
            txn: asked.txn,
            after,
            made,
            against,
            over,
            with,
        };
        asked.trace.map(unnoticed)
    };
    walk.absent.into_iter().filter_map(made).collect()
}

type Step = (Kind, TxnId);

fn steps(order: &Certificate) -> Vec<Step> {
    let point = |point: &Point| match *point {
        Point::Begin(txn) => (Kind::Begin, txn),
        Point::Commit(txn) => (Kind::Commit, txn),
    };
    match order {
        Certificate::Order(order) => order.txns.iter().map(|&txn| (Kind::Whole, txn)).collect(),
        Certificate::Points(points) => points.iter().map(point).collect(),
        _ => Vec::new(),
    }
}

/// One that the order leaves out.
struct Absent {
    txn: TxnId,
    strands: Strands,
    objects: Vec<ObjectId>,
    /// The places where it may stand.
    from: usize,
    until: usize,
    /// Whether what it touches changed since it was looked at.
    changed: bool,
    trace: Option<Trace>,
}

/// What it would have left.
struct Trace {
    after: usize,
    made: Made,
    against: Vec<TxnId>,
    over: Vec<TxnId>,
    with: Vec<(TxnId, usize)>,
    /// What those that have begun will make of it.
    begun: Vec<(TxnId, ObjectId, Cell)>,
}

/// What one would leave at a place.
enum Stand {
    Left(Trace),
    /// It cannot be told yet.
    Held,
    /// It does not agree with the state, or leaves it as it is.
    Nothing,
}

struct Walk<'p> {
    predicates: &'p Predicates<'p>,
    /// What the objects hold that the absent ones touch.
    cells: HashMap<ObjectId, Cell>,
    /// By object, and then the other way round.
    absent: Vec<Absent>,
    watching: HashMap<ObjectId, Vec<usize>>,
    /// What those that have begun will make.
    begun: HashMap<TxnId, Made>,
}

impl<'p> Walk<'p> {
    fn new(predicates: &'p Predicates<'p>, steps: &[Step], asked: &[TxnId], early: &[TxnId]) -> Option<Self> {
        let history = predicates.history();
        let spans = early.iter().map(|&txn| (txn, 0, 0)).chain(spans(history, steps, asked));
        let mut absent = Vec::new();
        let mut watching: HashMap<ObjectId, Vec<usize>> = HashMap::new();
        for (txn, from, until) in spans {
            let strands = Strands::new(predicates, txn);
            if strands.sums || from > until {
                continue;
            }
            let objects = strands.objects(predicates);
            objects.iter().for_each(|&object| watching.entry(object).or_default().push(absent.len()));
            absent.push(Absent { txn, strands, objects, from, until, changed: true, trace: None });
        }
        if absent.is_empty() {
            return None;
        }
        let initial = |&object: &ObjectId| (object, Cell::Value(history.initial(object)));
        let cells = watching.keys().map(initial).collect();
        Some(Self { predicates, cells, absent, watching, begun: HashMap::new() })
    }

    /// Looks who may stand before the step at a place.
    fn open(&mut self, place: usize) {
        for number in 0..self.absent.len() {
            let absent = &mut self.absent[number];
            if absent.trace.is_some() || !absent.changed || place < absent.from || place > absent.until {
                continue;
            }
            absent.changed = false;
            match self.trace(number, place) {
                Stand::Left(trace) => {
                    self.changed(trace.made.iter().map(|made| made.0));
                    self.absent[number].trace = Some(trace);
                }
                Stand::Held => self.absent[number].changed = true,
                Stand::Nothing => {}
            }
        }
    }

    /// What one would leave at a place.
    fn trace(&self, number: usize, place: usize) -> Stand {
        let absent = &self.absent[number];
        let Some(below) = self.below(number, place) else { return Stand::Nothing };
        let below = below.into_iter().map(|other| (&self.absent[other], self.absent[other].trace.as_ref()));
        let below: Vec<(&Absent, &Trace)> =
            below.filter_map(|(absent, trace)| trace.map(|trace| (absent, trace))).collect();
        let mut base: HashMap<ObjectId, &Cell> = HashMap::new();
        base.extend(absent.objects.iter().map(|object| (*object, &self.cells[object])));
        base.extend(below.iter().flat_map(|(_, trace)| &trace.made).map(|(object, cell)| (*object, cell)));
        let Some(own) = made(self.predicates, absent, &base) else { return Stand::Nothing };
        if own.iter().any(|made| self.is_held(made.0)) {
            // It would overwrite what another began to write: look again later.
            return Stand::Held;
        }
        if own.iter().all(|(object, cell)| base[object] == cell) {
            return Stand::Nothing;
        }
        let mut left = base.clone();
        left.extend(own.iter().map(|(object, cell)| (*object, cell)));
        let mut with: Vec<(TxnId, usize)> = Vec::new();
        for (absent, trace) in &below {
            with.extend(&trace.with);
            with.push((absent.txn, trace.after));
        }
        with.sort_unstable();
        with.dedup();
        let (over, against) = self.against((number, place), &with, &base, &left);
        let begun = below.iter().flat_map(|(_, trace)| trace.begun.iter().cloned()).collect();
        let changed = |(object, cell): &(&ObjectId, &&Cell)| self.cells[*object] != ***cell;
        let made = left.iter().filter(changed).map(|(object, cell)| (*object, (*cell).clone()));
        let mut made: Made = made.collect();
        made.sort_unstable_by_key(|made| made.0);
        if made.is_empty() {
            return Stand::Nothing;
        }
        Stand::Left(Trace { after: place, made, against, over, with, begun })
    }

    /// The others that have to have taken effect before for one to agree with the state; nothing if
    /// that does not help.
    fn below(&self, number: usize, place: usize) -> Option<Vec<usize>> {
        let absent = &self.absent[number];
        let mut below: Vec<usize> = Vec::new();
        for &object in &absent.objects {
            let fits = |cell: &Cell| absent.strands.run(self.predicates, object, cell).is_ok();
            if fits(&self.cells[&object]) {
                continue;
            }
            let left = |other: &usize| {
                let trace = self.absent[*other].trace.as_ref().filter(|trace| trace.after < place);
                let made = trace.and_then(|trace| trace.made.iter().find(|made| made.0 == object));
                *other != number && made.is_some_and(|made| fits(&made.1))
            };
            let watching = self.watching[&object].iter().copied();
            let other = below.iter().copied().find(left).or_else(|| watching.rev().find(left))?;
            if !below.contains(&other) {
                below.push(other);
            }
        }
        let apart = |&one: &usize, &other: &usize| one == other || !self.are_against(one, other);
        below.iter().all(|one| below.iter().all(|other| apart(one, other))).then_some(below)
    }

    /// Whether not both of two left what they would have left.
    fn are_against(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.absent[one], &self.absent[other]);
        let (Some(left), Some(right)) = (&one.trace, &other.trace) else { return true };
        let differs = |(object, cell): &(ObjectId, Cell)| {
            right.made.iter().any(|made| made.0 == *object && made.1 != *cell)
        };
        left.against.contains(&other.txn) || right.against.contains(&one.txn) || left.made.iter().any(differs)
    }

    /// Whether one that has begun writes an object.
    fn is_held(&self, object: ObjectId) -> bool {
        self.begun.values().flatten().any(|held| held.0 == object)
    }

    /// The others that took effect before one if they did, and those that did not if it did,
    /// together with those below it: what they would have left is not what it found, or not what it
    /// leaves.
    fn against(
        &self,
        (number, place): (usize, usize),
        with: &[(TxnId, usize)],
        found: &HashMap<ObjectId, &Cell>,
        left: &HashMap<ObjectId, &Cell>,
    ) -> (Vec<TxnId>, Vec<TxnId>) {
        let is_with = |txn: TxnId| with.iter().any(|other| other.0 == txn);
        let (mut over, mut all) = (Vec::new(), Vec::new());
        let others = self.absent.iter().enumerate();
        for (_, other) in others.filter(|(other, absent)| *other != number && !is_with(absent.txn)) {
            let Some(trace) = &other.trace else { continue };
            let differs = |(object, cell): &&(ObjectId, Cell)| {
                [found, left].iter().any(|cells| cells.get(object).is_some_and(|known| *known != cell))
            };
            let is_against = trace.against.iter().any(|&txn| is_with(txn));
            let differing: Vec<_> = trace.made.iter().filter(differs).collect();
            let is_over =
                || trace.after < place && differing.iter().all(|made| self.overwrites(number, made, left));
            match (is_against, differing.is_empty()) {
                (false, true) => {}
                (false, false) if is_over() => over.push(other.txn),
                _ => all.push(other.txn),
            }
        }
        let below = self.absent.iter().filter(|absent| is_with(absent.txn));
        all.extend(below.filter_map(|absent| absent.trace.as_ref()).flat_map(|trace| &trace.against));
        all.sort_unstable();
        all.dedup();
        (over, all)
    }

    /// Whether one leaves the same of an object if another took effect before it, and changes it.
    fn overwrites(
        &self,
        number: usize,
        (object, cell): &(ObjectId, Cell),
        left: &HashMap<ObjectId, &Cell>,
    ) -> bool {
        let Some(&leaves) = left.get(object) else { return false };
        let made = self.absent[number].strands.run(self.predicates, *object, cell);
        matches!(made, Ok(Some(made)) if made == *leaves) && *leaves != self.cells[object]
    }

    /// Objects changed, or what some would have left of them: others may agree now.
    fn changed(&mut self, objects: impl Iterator<Item = ObjectId>) {
        for watcher in objects.flat_map(|object| &self.watching[&object]) {
            self.absent[*watcher].changed = true;
        }
    }

    /// Takes a step of the order; nothing if what it does cannot be told object by object.
    fn step(&mut self, (kind, txn): Step) -> Option<()> {
        if kind == Kind::Commit {
            let made = self.begun.remove(&txn).unwrap_or_default();
            self.absent.iter_mut().filter_map(|absent| absent.trace.as_mut()).for_each(|t| t.commit(txn));
            self.install(made);
            return Some(());
        }
        let Some((strands, objects)) = self.touching(txn) else { return Some(()) };
        if strands.sums {
            return None;
        }
        let made = self.run(&strands, &objects)?;
        for absent in &mut self.absent {
            let Some(trace) = &mut absent.trace else { continue };
            if !trace.bears(self.predicates, &strands, (kind, txn)) {
                absent.trace = None;
                absent.changed = true;
            }
        }
        match kind {
            Kind::Begin => _ = self.begun.insert(txn, made),
            _ => self.install(made),
        }
        Some(())
    }

    /// A transaction that touches some of the objects, and which.
    fn touching(&self, txn: TxnId) -> Option<(Strands, Vec<ObjectId>)> {
        let history = self.predicates.history();
        let watched = |object: &ObjectId| self.cells.contains_key(object);
        let concerns = |op: Op<'_>| {
            let searches = matches!(op.kind, OpKind::Scan | OpKind::Update | OpKind::Sql);
            searches || op.accesses.iter().any(|access| watched(&access.object))
        };
        if !history.ops(txn).any(concerns) {
            return None;
        }
        let strands = Strands::new(self.predicates, txn);
        let objects = strands.objects(self.predicates).into_iter().filter(watched).collect();
        Some((strands, objects))
    }

    fn run(&self, strands: &Strands, objects: &[ObjectId]) -> Option<Made> {
        let mut made = Vec::new();
        for &object in objects {
            if let Some(cell) = strands.run(self.predicates, object, &self.cells[&object]).ok()? {
                made.push((object, cell));
            }
        }
        Some(made)
    }

    /// Changes the state. What the absent ones would have left is held against it.
    fn install(&mut self, made: Made) {
        for (object, cell) in made {
            for &watcher in &self.watching[&object] {
                self.absent[watcher].changed = true;
            }
            self.cells.insert(object, cell);
        }
        for absent in &mut self.absent {
            let Some(trace) = &mut absent.trace else { continue };
            trace.made.retain(|(object, cell)| self.cells[object] != *cell);
            if trace.made.is_empty() {
                absent.trace = None;
            }
        }
    }
}

impl Trace {
    /// Whether a transaction still sees what it saw; and what it makes of the objects.
    fn bears(&mut self, predicates: &Predicates<'_>, strands: &Strands, (kind, txn): Step) -> bool {
        let history = predicates.history();
        for (object, cell) in &mut self.made {
            if !strands.touches(history, *object) {
                continue;
            }
            match strands.run(predicates, *object, cell) {
                Ok(None) => {}
                Ok(Some(made)) if kind == Kind::Begin => self.begun.push((txn, *object, made)),
                Ok(Some(made)) => *cell = made,
                Err(_) => return false,
            }
        }
        true
    }

    fn commit(&mut self, txn: TxnId) {
        let begun = std::mem::take(&mut self.begun);
        for (of, object, made) in begun {
            match self.made.iter_mut().find(|(known, _)| *known == object) {
                Some((_, cell)) if of == txn => *cell = made,
                _ if of == txn => {}
                _ => self.begun.push((of, object, made)),
            }
        }
    }
}

/// What one makes that agrees with the state.
fn made(predicates: &Predicates<'_>, absent: &Absent, cells: &HashMap<ObjectId, &Cell>) -> Option<Made> {
    let mut made = Vec::new();
    for &object in &absent.objects {
        if let Some(cell) = absent.strands.run(predicates, object, cells[&object]).ok()? {
            made.push((object, cell));
        }
    }
    Some(made)
}

/// Between which places of an order each may stand: behind all that ended before it began, and in
/// the order of its session.
fn spans(history: &History, steps: &[Step], asked: &[TxnId]) -> Vec<(TxnId, usize, usize)> {
    let skew = history.header().skew;
    let end = |&(kind, txn): &Step| match (kind, history.end(txn)) {
        (Kind::Whole | Kind::Commit, Some(end)) => end.saturating_add(skew),
        _ => i64::MAX,
    };
    // The earliest end from a place on.
    let mut ends: Vec<i64> = steps.iter().map(end).collect();
    for place in (1..ends.len()).rev() {
        ends[place - 1] = ends[place - 1].min(ends[place]);
    }
    let sessions: HashSet<_> = asked.iter().map(|&txn| history.session_of(txn)).collect();
    let numbered =
        steps.iter().enumerate().filter(|(_, step)| sessions.contains(&history.session_of(step.1)));
    let of_sessions: Vec<(usize, Step)> = numbered.map(|(place, &step)| (place, step)).collect();
    let span = |&txn: &TxnId| {
        let start = history.start(txn).unwrap_or(i64::MIN);
        let mut span = (ends.partition_point(|&end| end < start), steps.len());
        for &(place, (kind, other)) in &of_sessions {
            if history.session_of(other) != history.session_of(txn) {
                continue;
            }
            match other < txn {
                true => span.0 = span.0.max(place + 1),
                false if kind != Kind::Commit => span.1 = span.1.min(place),
                false => {}
            }
        }
        (txn, span.0, span.1)
    };
    asked.iter().map(span).collect()
}
