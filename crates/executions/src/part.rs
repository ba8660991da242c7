//! Some rows of a log, and every statement about them: a log of its own.
//!
//! # Problem
//! In a long log whose order nothing tells, there are more orders than anybody can try. But an
//! answer that is wrong is mostly wrong for a few rows, and the statements about those are few.
//!
//! # Mathematics
//! Take a set of rows such that whoever can write one of them looks at and writes only rows of the
//! set: then what these rows are at any time depends on the statements inside the set alone. Take
//! an execution of the whole log, and leave out every statement that touches another row, and every
//! transaction that has none left. The rows of the set are the same in every state, so each
//! statement that is left gives what it gave; the order that is left is one that the level allows;
//! nobody conflicts who did not before. So it is an execution of the part. Where the part has none,
//! the log has none.
//!
//! # Invariants
//! - Which rows a statement can touch comes from its text ([`margay_sql::Footprint`]), not from
//!   what it was seen to touch. A statement that writes and may touch anything leaves no parts.
//! - A transaction keeps its beginning and its end, and with them its place in real time.

use hashbrown::{HashMap, HashSet};
use margay_history::{History, HistoryBuilder, Interval, ObjectId, OpDetail, OpId, OpKind, Outcome, TxnId};
use margay_sql::{Footprint, TableId, Touched};
use margay_verdict::Outside;
use margay_verdict::execution::{Misrun, Moment, PartRow, Unexplained};

use super::formula::row_of;
use super::machine::Machine;
use super::prints::RowId;
use super::setup;

/// What each statement of a history can touch.
#[derive(Debug)]
pub struct Touches {
    /// Each statement with the rows that it looks at or writes, and those that it writes.
    pub statements: Vec<Touch>,
    /// The initial rows.
    objects: Vec<(ObjectId, RowId)>,
    tables: HashMap<TableId, String>,
}

/// What a statement can touch.
#[derive(Debug)]
pub struct Touch {
    /// The statement.
    pub op: OpId,
    /// All rows.
    pub rows: Vec<Touched>,
    /// Those that it can write.
    pub writes: Vec<Touched>,
}

impl Touches {
    /// Of the transactions that may have committed; `None` if one may write anything.
    ///
    /// # Errors
    /// When a statement is outside the fragment.
    pub fn new(history: &History, machine: &mut Machine<'_>) -> Result<Option<Self>, Outside> {
        let mut statements = Vec::new();
        for txn in history.txns().filter(|&txn| history.outcome(txn) != Outcome::Aborted) {
            for op in machine.statements(txn)? {
                let (statement, params) = machine.bound(op)?;
                match machine.database().footprint(&statement, &params) {
                    Some(Footprint { reads, writes, .. }) => {
                        let rows = reads.into_iter().chain(writes.iter().cloned()).collect();
                        statements.push(Touch { op, rows, writes });
                    }
                    None if statement.is_write() => return Ok(None),
                    // What it observed is left out.
                    None => {}
                }
            }
        }
        let known = |&(object, _): &(ObjectId, _)| Some((object, row_of(machine, object)?));
        let objects = history.initial_values().iter().filter_map(known).collect();
        let tables = machine.database().tables().map(|(name, id)| (id, name.to_owned())).collect();
        Ok(Some(Self { statements, objects, tables }))
    }

    /// Rows by name.
    #[must_use]
    pub fn named(&self, rows: &[Touched]) -> Vec<PartRow> {
        let named = |(table, key): &Touched| {
            Some((self.tables.get(table)?.clone(), key.as_ref().map(|key| key.to_vec())))
        };
        rows.iter().filter_map(named).collect()
    }
}

/// A set of rows.
#[derive(Debug, Default)]
pub struct RowSet {
    rows: HashSet<RowId>,
    /// Tables of which some rows are in the set, and those of which all are.
    some: HashSet<TableId>,
    all: HashSet<TableId>,
}

impl RowSet {
    /// Adds rows; false if they are in the set already.
    pub fn insert(&mut self, (table, key): &Touched) -> bool {
        self.some.insert(*table);
        match key {
            _ if self.all.contains(table) => false,
            Some(key) => self.rows.insert((*table, key.clone())),
            None => self.all.insert(*table),
        }
    }

    /// Whether all of these rows are in the set.
    #[must_use]
    pub fn has(&self, (table, key): &Touched) -> bool {
        self.all.contains(table) || key.as_ref().is_some_and(|key| self.rows.contains(&(*table, key.clone())))
    }

    /// Whether one of these rows may be in the set.
    #[must_use]
    pub fn meets(&self, touched: &Touched) -> bool {
        self.has(touched) || touched.1.is_none() && self.some.contains(&touched.0)
    }
}

/// The log of some rows.
#[derive(Debug)]
pub struct Part {
    /// The log.
    pub history: History,
    /// Its transactions and operations as the whole history has them, and the other way.
    txns: Ids<TxnId>,
    ops: Ids<OpId>,
}

#[derive(Debug)]
struct Ids<T> {
    outer: HashMap<T, T>,
    inner: HashMap<T, T>,
}

impl<T: Copy + Eq + std::hash::Hash> Ids<T> {
    fn new(pairs: &[(T, T)]) -> Self {
        Ids {
            outer: pairs.iter().map(|&(outer, inner)| (inner, outer)).collect(),
            inner: pairs.iter().copied().collect(),
        }
    }

    fn turned(&self, inwards: bool, id: T) -> Option<T> {
        let of = if inwards { &self.inner } else { &self.outer };
        of.get(&id).copied()
    }
}

impl Part {
    /// The part of a history that some rows are; `None` if somebody who writes one of them touches
    /// others.
    #[must_use]
    pub fn new(history: &History, touches: &Touches, rows: &RowSet) -> Option<Part> {
        let mut kept: HashSet<OpId> = HashSet::new();
        for touch in &touches.statements {
            let inside = !touch.rows.is_empty() && touch.rows.iter().all(|row| rows.has(row));
            if !inside && touch.writes.iter().any(|row| rows.meets(row)) {
                return None;
            }
            kept.extend(inside.then_some(touch.op));
        }
        let objects = touches.objects.iter();
        let objects = objects.filter(|(_, (table, key))| rows.has(&(*table, Some(key.clone()))));
        let objects: HashSet<ObjectId> = objects.map(|(object, _)| *object).collect();
        copy(history, &kept, &objects)
    }

    /// The part that is about rows of these names.
    ///
    /// # Errors
    /// When a statement is outside the fragment.
    pub fn named(history: &History, rows: &[PartRow]) -> Result<Option<Part>, Outside> {
        let mut machine = Machine::new(history, false)?;
        let Some(touches) = Touches::new(history, &mut machine)? else { return Ok(None) };
        let mut set = RowSet::default();
        for (table, key) in rows {
            let Some(table) = machine.database().table(table) else { return Ok(None) };
            set.insert(&(table, key.as_ref().map(|key| key.clone().into())));
        }
        Ok(Part::new(history, &touches, &set))
    }

    /// A transaction of the part, as the whole history has it.
    #[must_use]
    pub fn outer(&self, txn: TxnId) -> Option<TxnId> {
        self.txns.turned(false, txn)
    }

    /// What is said of the whole history, said of the part, or the other way; `None` if it names
    /// what is not there.
    #[must_use]
    pub fn translate(&self, inwards: bool, said: &Unexplained) -> Option<Unexplained> {
        let txn = |txn: TxnId| self.txns.turned(inwards, txn);
        let op = |op: OpId| self.ops.turned(inwards, op);
        let moment = |moment: Moment| Some(Moment { txn: txn(moment.txn)?, ..moment });
        let lemma = |lemma: &Misrun| {
            let run = lemma.run.iter().map(|&(id, sees)| Some((txn(id)?, sees)));
            let order = lemma.order.iter().map(|&(a, b)| Some((moment(a)?, moment(b)?)));
            Some(Misrun {
                run: run.collect::<Option<_>>()?,
                op: lemma.op.map_or(Some(None), |id| op(id).map(Some))?,
                order: order.collect::<Option<_>>()?,
                absent: lemma.absent.iter().map(|&id| txn(id)).collect::<Option<_>>()?,
            })
        };
        Some(Unexplained {
            txns: said.txns.iter().map(|&id| txn(id)).collect::<Option<_>>()?,
            op: op(said.op)?,
            lemmas: said.lemmas.iter().map(lemma).collect::<Option<_>>()?,
            ..said.clone()
        })
    }
}

/// The history of some statements, with the initial rows that they can touch.
fn copy(history: &History, kept: &HashSet<OpId>, objects: &HashSet<ObjectId>) -> Option<Part> {
    let mut builder = HistoryBuilder::like(history);
    builder.keep_initial(|object| objects.contains(&object));
    let (mut txns, mut ops): (Vec<TxnId>, Vec<OpId>) = (Vec::new(), Vec::new());
    let defines = |op: OpId| history.statement(op).is_some_and(|s| setup::is_definition(&s.text));
    for txn in history.txns().filter(|&txn| history.outcome(txn) != Outcome::Aborted) {
        let is_kept = |op: &OpId| kept.contains(op) || defines(*op);
        let own: Vec<OpId> = history.op_range(txn).map(OpId).filter(is_kept).collect();
        if own.is_empty() {
            continue;
        }
        let (session, label) = (history.session_label(history.session_of(txn)), history.txn_label(txn));
        let mut push = |op: OpId, kind: Option<OpKind>| {
            let op = history.op(op);
            let moment = |at: Interval| Interval { after: at.before, ..at };
            let (at, detail) = match kind {
                Some(_) => (op.at.map(moment), OpDetail::None),
                None => (op.at, history.detail(op, true)),
            };
            builder.push(session, label, at, kind.unwrap_or(op.kind), &[], detail).ok()
        };
        let range = history.op_range(txn);
        // The first statement may be gone; the time at which the transaction began is not.
        push(OpId(range.start), Some(OpKind::Begin))?;
        own.iter().try_for_each(|&op| push(op, None))?;
        push(OpId(range.end - 1), None)?;
        txns.push(txn);
        ops.extend([OpId(range.start)].iter().chain(&own).chain(&[OpId(range.end - 1)]));
    }
    stamp(history, &txns, &mut builder);
    let part = builder.finish().ok()?;
    let labels: HashMap<u64, TxnId> = part.txns().map(|txn| (part.txn_label(txn), txn)).collect();
    let pairs = txns.iter().map(|&txn| Some((txn, *labels.get(&history.txn_label(txn))?)));
    let pairs: Vec<(TxnId, TxnId)> = pairs.collect::<Option<_>>()?;
    let inner = pairs.iter().flat_map(|(_, txn)| part.op_range(*txn).map(OpId));
    // A beginning that was put in stands for none of the history's operations.
    let same = |(outer, inner): &(OpId, OpId)| part.op(*inner).kind == history.op(*outer).kind;
    let ops: Vec<(OpId, OpId)> = ops.into_iter().zip(inner).filter(same).collect();
    Some(Part { txns: Ids::new(&pairs), ops: Ids::new(&ops), history: part })
}

/// Timestamps of the transactions that are kept.
fn stamp(history: &History, txns: &[TxnId], builder: &mut HistoryBuilder) {
    let evidence = history.evidence();
    for &txn in txns {
        let label = history.txn_label(txn);
        evidence.commit(txn).into_iter().for_each(|ts| builder.commit(label, ts));
        evidence.snapshot(txn).into_iter().for_each(|ts| builder.snapshot(label, ts));
        evidence.serialization(txn).into_iter().for_each(|ts| builder.serialization(label, ts));
    }
}
