//! What one transaction saw and did, object by object.
//!
//! # Design
//! Apart from [summaries](margay_verdict::summaries), what a transaction observes of one object
//! depends on that object alone: a read compares its value; a scan says that it matches, or that it
//! does not; a predicate update changes it if it matches. So a transaction may run on a state if
//! each of its *strands* may run on its object: the operations on that object, in program order.
//! When one object changes, one strand is run again.
//!
//! The meaning of each operation is that of [`margay_verdict::state`], which the audit replays.

use std::borrow::Cow;

use margay_history::{History, ObjectId, Op, OpId, OpKind, PredicateId, TableId, TxnId, ValueId};
use margay_verdict::cell::{fold, observed_matches};
use margay_verdict::state::{ObjectView, check, effects};
use margay_verdict::{Cell, Effect, Outside, Predicates};

use crate::world::{Made, World};

/// A transaction, ready to be run.
pub(crate) struct Strands {
    txn: TxnId,
    /// Plain reads and writes, by object and then in program order.
    touches: Vec<(ObjectId, OpId, Touch)>,
    /// Scans whose rows were seen, updates, summaries, in program order.
    queries: Vec<Query>,
    /// Whether it summed rows up: then it can only be run as a whole.
    pub sums: bool,
    /// Whether it may write.
    pub writes: bool,
    /// Whether it saw anything of others.
    pub reads: bool,
}

enum Touch {
    Saw(ValueId),
    Did(Effect),
}

struct Query {
    op: OpId,
    table: TableId,
    predicate: PredicateId,
    /// Sorted; none if they were not seen.
    rows: Option<Vec<(ObjectId, ValueId)>>,
    /// The object of which it shows two rows, if there is one.
    twice: Option<ObjectId>,
    updates: bool,
}

/// Why a strand does not run.
pub(crate) enum Against {
    /// The client saw something else.
    Seen,
    /// What is there has no meaning here.
    Outside(Outside),
}

impl From<Outside> for Against {
    fn from(outside: Outside) -> Self {
        Against::Outside(outside)
    }
}

impl Strands {
    /// The strands of a transaction.
    pub fn new(predicates: &Predicates<'_>, txn: TxnId) -> Self {
        let history = predicates.history();
        let (touches, queries) = (Vec::new(), Vec::new());
        let mut strands = Self { txn, touches, queries, sums: false, writes: false, reads: false };
        history.ops(txn).for_each(|op| strands.add(predicates, &op));
        strands.touches.sort_by_key(|&(object, op, _)| (object, op));
        strands
    }

    fn add(&mut self, predicates: &Predicates<'_>, op: &Op<'_>) {
        let history = predicates.history();
        self.writes |= op.kind.writes();
        self.reads |= matches!(op.kind, OpKind::Read | OpKind::Scan | OpKind::Update | OpKind::Sql);
        match op.kind {
            OpKind::Read => {
                let saw = op.accesses.iter().filter(|access| access.value != ValueId::UNKNOWN);
                self.touches.extend(saw.map(|a| (a.object, op.id, Touch::Saw(a.value))));
            }
            OpKind::Write | OpKind::Append => {
                let did = margay_verdict::state::plain_effects(history, op);
                self.touches.extend(did.map(|(object, effect)| (object, op.id, Touch::Did(effect))));
            }
            OpKind::Scan => {
                if let Some(scan) = history.scan(op.id).filter(|scan| scan.observed) {
                    self.query(predicates, op, scan.predicate, true);
                }
            }
            OpKind::Update => {
                if let Some(update) = history.update(op.id) {
                    self.query(predicates, op, update.predicate, update.observed);
                }
            }
            OpKind::Sql => {
                self.sums = true;
                if let Some(asked) = predicates.summary(op.id) {
                    self.query(predicates, op, asked.predicate, false);
                }
            }
            _ => {}
        }
    }

    fn query(&mut self, predicates: &Predicates<'_>, op: &Op<'_>, predicate: PredicateId, seen: bool) {
        let rows = seen.then(|| {
            let mut rows: Vec<_> = op.accesses.iter().map(|access| (access.object, access.value)).collect();
            rows.sort_unstable();
            rows
        });
        let updates = op.kind == OpKind::Update;
        let table = predicates.table_of(predicate);
        let twice = op.shows_twice();
        self.queries.push(Query { op: op.id, table, predicate, rows, twice, updates });
    }

    /// Whether what becomes of the object can make a difference.
    pub fn touches(&self, history: &History, object: ObjectId) -> bool {
        self.touches.binary_search_by_key(&object, |touch| touch.0).is_ok()
            || !self.queries.is_empty()
                && history
                    .object(object)
                    .table
                    .is_some_and(|table| self.queries.iter().any(|q| q.table == table))
    }

    /// Everything that it touches, each object once.
    pub fn objects(&self, predicates: &Predicates<'_>) -> Vec<ObjectId> {
        let mut objects: Vec<ObjectId> = self.touches.iter().map(|touch| touch.0).collect();
        let mut tables: Vec<TableId> = self.queries.iter().map(|query| query.table).collect();
        tables.sort_unstable();
        tables.dedup();
        tables.iter().for_each(|&table| objects.extend(predicates.table(table)));
        objects.sort_unstable();
        objects.dedup();
        objects
    }

    /// Runs the strand of one object on what it holds: what it holds then, if it was written.
    pub fn run(
        &self,
        predicates: &Predicates<'_>,
        object: ObjectId,
        cell: &Cell,
    ) -> Result<Option<Cell>, Against> {
        let history = predicates.history();
        let from = self.touches.partition_point(|touch| touch.0 < object);
        let mut touches = self.touches[from..].iter().take_while(|touch| touch.0 == object).peekable();
        let table = history.object(object).table;
        let mut queries = self.queries.iter().filter(|query| Some(query.table) == table).peekable();
        let mut now = Cow::Borrowed(cell);
        loop {
            let (touch, query) = (touches.peek().map(|touch| touch.1), queries.peek().map(|query| query.op));
            let plain = match (touch, query) {
                (None, None) => break,
                (Some(touch), Some(query)) => touch < query,
                (touch, _) => touch.is_some(),
            };
            if plain {
                match touches.next().map(|touch| &touch.2) {
                    Some(Touch::Saw(value)) if !observed_matches(history, object, *value, &now) => {
                        return Err(Against::Seen);
                    }
                    Some(Touch::Did(effect)) => {
                        now = Cow::Owned(fold(history, now.into_owned(), effect));
                    }
                    _ => {}
                }
            } else if let Some(new) =
                queries.next().map(|q| q.run(predicates, object, &now)).transpose()?.flatten()
            {
                now = Cow::Owned(new);
            }
        }
        Ok(match now {
            Cow::Borrowed(_) => None,
            Cow::Owned(cell) => Some(cell),
        })
    }

    /// Runs all of it, operation by operation: for transactions that sum rows up.
    pub fn run_whole(&self, world: &World<'_>) -> Result<Made, Against> {
        let predicates = world.predicates;
        let mut run = Run { world, made: Vec::new() };
        for op in world.history().ops(self.txn) {
            check(predicates, &op, &run).map_err(|fault| match fault {
                margay_verdict::Fault::Outside(outside) => Against::Outside(outside),
                margay_verdict::Fault::Mismatch(_) => Against::Seen,
            })?;
            for (object, effect) in effects(predicates, &op, &run)? {
                let cell = fold(world.history(), run.look(object).into_owned(), &effect);
                match run.made.binary_search_by_key(&object, |made| made.0) {
                    Ok(place) => run.made[place].1 = cell,
                    Err(place) => run.made.insert(place, (object, cell)),
                }
            }
        }
        Ok(run.made)
    }
}

impl Query {
    /// What it makes of a row; whether what the client saw of it fits.
    fn run(
        &self,
        predicates: &Predicates<'_>,
        object: ObjectId,
        cell: &Cell,
    ) -> Result<Option<Cell>, Against> {
        let history = predicates.history();
        let matches = predicates.matches(self.predicate, object, cell)?;
        let seen =
            |cell: &Cell| self.seen(object).all(|value| observed_matches(history, object, value, cell));
        let differs = self.rows.is_some() && matches != self.seen(object).next().is_some();
        if differs || self.twice == Some(object) {
            return Err(Against::Seen);
        }
        if !matches || !self.updates {
            return if !matches || seen(cell) { Ok(None) } else { Err(Against::Seen) };
        }
        let set = history.update(self.op).and_then(|update| update.set.as_deref());
        let new = fold(history, cell.clone(), &predicates.assign(set, object, cell)?);
        if seen(&new) { Ok(Some(new)) } else { Err(Against::Seen) }
    }

    /// What the client saw of a row.
    fn seen(&self, object: ObjectId) -> impl Iterator<Item = ValueId> + '_ {
        let rows = self.rows.as_deref().unwrap_or_default();
        let from = rows.partition_point(|row| row.0 < object);
        rows[from..].iter().take_while(move |row| row.0 == object).map(|row| row.1)
    }
}

/// A transaction on its way: the state below it, and what it made itself.
struct Run<'a> {
    world: &'a World<'a>,
    /// By object.
    made: Made,
}

impl ObjectView for Run<'_> {
    fn look(&self, object: ObjectId) -> Cow<'_, Cell> {
        let own = self.made.binary_search_by_key(&object, |made| made.0);
        Cow::Borrowed(own.map_or(self.world.cell(object), |place| &self.made[place].1))
    }
}
