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
//! # Invariants
//! If a transaction is put at the place that is answered, every transaction of the order sees what
//! it saw, and afterwards the objects hold what is answered. So it is for several together, if none
//! touches what another would have left.
//!
//! # Limits
//! Of the places of one transaction, the last is answered. Where objects were overwritten in
//! between, others may leave another state. With two points, it begins directly before it commits.
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
        let unnoticed =
            |Trace { after, made, against, .. }| Unnoticed { txn: asked.txn, after, made, against };
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
    /// What those that have begun will make of it.
    begun: Vec<(TxnId, ObjectId, Cell)>,
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
            let absent = &self.absent[number];
            if !absent.changed || place < absent.from || place > absent.until {
                continue;
            }
            let made = made(self.predicates, absent, &self.cells);
            // It would overwrite what another began to write: look again later.
            let is_held = made.iter().flatten().any(|made| self.is_held(made.0));
            self.absent[number].changed = is_held;
            let Some(mut made) = made.filter(|_| !is_held) else { continue };
            made.retain(|(object, cell)| self.cells[object] != *cell);
            if !made.is_empty() {
                let against = self.against(number);
                self.absent[number].trace = Some(Trace { after: place, made, against, begun: Vec::new() });
            }
        }
    }

    /// Whether one that has begun writes an object.
    fn is_held(&self, object: ObjectId) -> bool {
        self.begun.values().flatten().any(|held| held.0 == object)
    }

    /// The others whose traces it touches.
    fn against(&self, number: usize) -> Vec<TxnId> {
        let touches = |made: &(ObjectId, Cell)| self.absent[number].objects.binary_search(&made.0).is_ok();
        let others = self.absent.iter().enumerate().filter(|(other, _)| *other != number);
        let touched = others.filter(|(_, other)| other.trace.iter().any(|t| t.made.iter().any(touches)));
        touched.map(|(_, other)| other.txn).collect()
    }

    fn step(&mut self, (kind, txn): Step) -> Option<()> {
        if kind == Kind::Commit {
            let made = self.begun.remove(&txn).unwrap_or_default();
            self.absent.iter_mut().filter_map(|absent| absent.trace.as_mut()).for_each(|t| t.commit(txn));
            self.install(made);
            return Some(());
        }
        let strands = self.touching(txn)?;
        let Some((strands, objects)) = strands else { return Some(()) };
        let made = self.run(&strands, &objects)?;
        for absent in &mut self.absent {
            let Some(trace) = &mut absent.trace else { continue };
            if !trace.bears(self.predicates, &strands, (kind, txn)) {
                absent.trace = None;
            }
        }
        match kind {
            Kind::Begin => _ = self.begun.insert(txn, made),
            _ => self.install(made),
        }
        Some(())
    }

    /// What a transaction does to the objects; nothing if it touches none of them, none if that
    /// cannot be told.
    fn touching(&self, txn: TxnId) -> Option<Option<(Strands, Vec<ObjectId>)>> {
        let history = self.predicates.history();
        let watched = |object: &ObjectId| self.cells.contains_key(object);
        let concerns = |op: Op<'_>| {
            let searches = matches!(op.kind, OpKind::Scan | OpKind::Update | OpKind::Sql);
            searches || op.accesses.iter().any(|access| watched(&access.object))
        };
        if !history.ops(txn).any(concerns) {
            return Some(None);
        }
        let strands = Strands::new(self.predicates, txn);
        if strands.sums {
            return None;
        }
        let objects = strands.objects(self.predicates).into_iter().filter(watched).collect();
        Some(Some((strands, objects)))
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
fn made(predicates: &Predicates<'_>, absent: &Absent, cells: &HashMap<ObjectId, Cell>) -> Option<Made> {
    let mut made = Vec::new();
    for &object in &absent.objects {
        if let Some(cell) = absent.strands.run(predicates, object, &cells[&object]).ok()? {
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
