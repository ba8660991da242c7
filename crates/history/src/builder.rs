//! The only way to make a [`History`]: operations in, in any order across sessions; a validated
//! history out.
//!
//! # Invariants
//! What is wrong is said where it is met: `push` fails on the operation that breaks a rule, so a
//! reader can point at its line. Only what needs the whole history (evidence, clocks that
//! contradict session order) waits for [`HistoryBuilder::finish`], with the place remembered.
//!
//! # Cost
//! Linear. When operations arrive in the history's own order, nothing is moved; otherwise each
//! column is permuted once, one after the other, so the peak is one column above the result.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use crate::columns::{Columns, unplaced};
use crate::detail::{Begin, OpDetail};
use crate::error::Invalid;
use crate::evidence::Evidence;
use crate::history::{
    Access, Header, History, OpKind, Predicate, ReadLock, Scan, Statement, Update, shown_twice,
};
use crate::ids::{ObjectId, OpId, PredicateId, TableId, TxnId, ValueId};
use crate::intervals::{Interval, Intervals};
use crate::object::{Object, Objects};
use crate::resolve::{Draft, Resolver};
use crate::table::Table;
use crate::value::Values;

/// Collects a history. See the module's documentation for its manners.
#[derive(Default, Debug)]
pub struct HistoryBuilder {
    place: u64,
    header: Header,
    pub(crate) tables: Vec<Table>,
    table_index: HashMap<String, TableId>,
    pub(crate) values: Values,
    pub(crate) objects: Objects,
    predicates: Vec<Predicate>,
    predicate_index: HashMap<Predicate, PredicateId>,
    texts: HashSet<Arc<str>>,
    initial: HashMap<ObjectId, ValueId>,
    sessions: Vec<SessionDraft>,
    session_index: HashMap<u64, u32>,
    txns: Vec<TxnDraft>,
    txn_index: HashMap<u64, u32>,
    op_txns: Vec<u32>,
    kinds: Vec<OpKind>,
    intervals: Intervals,
    op_starts: Vec<u32>,
    accesses: Vec<Access>,
    begins: Vec<(OpId, Begin)>,
    scans: Vec<(OpId, Scan)>,
    updates: Vec<(OpId, Update)>,
    statements: Vec<(OpId, Statement)>,
    locks: Vec<(OpId, ReadLock)>,
    evidence: Vec<(u64, Draft)>,
}

#[derive(Debug)]
struct SessionDraft {
    label: u64,
    /// The transaction that the session is in, or was in last.
    current: u32,
}

#[derive(Debug)]
struct TxnDraft {
    label: u64,
    session: u32,
    ops: u32,
    ended: bool,
    place: u64,
}

impl HistoryBuilder {
    /// An empty builder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A builder with the header, tables, objects, values and initial state of a history, and none
    /// of its transactions or evidence. The ids of its tables, objects, values and columns stay
    /// what they were.
    #[must_use]
    pub fn like(history: &History) -> Self {
        let names = history.tables.iter().enumerate();
        Self {
            header: history.header.clone(),
            tables: history.tables.clone(),
            table_index: names.map(|(i, table)| (table.name.clone(), TableId::at(i))).collect(),
            values: history.values.reopened(),
            objects: history.objects.reopened(),
            initial: history.initial.iter().copied().collect(),
            ..Self::default()
        }
    }

    /// Makes room for a history of known size.
    pub fn reserve(&mut self, txns: usize, ops: usize, accesses: usize) {
        self.txns.reserve_exact(txns);
        self.txn_index.reserve(txns);
        self.op_txns.reserve_exact(ops);
        self.kinds.reserve_exact(ops);
        self.op_starts.reserve_exact(ops + 1);
        self.accesses.reserve_exact(accesses);
    }

    /// Tells where the reader stands, for errors.
    pub fn at_place(&mut self, place: u64) {
        self.place = place;
    }

    /// The header, to fill in.
    pub fn header(&mut self) -> &mut Header {
        &mut self.header
    }

    /// The values, to intern in.
    pub fn values(&mut self) -> &mut Values {
        &mut self.values
    }

    /// The table of this name; made without columns if it was not declared.
    pub fn table(&mut self, name: &str) -> TableId {
        if let Some(&id) = self.table_index.get(name) {
            return id;
        }
        let id = TableId::at(self.tables.len());
        self.tables.push(Table { name: name.to_string(), ..Table::default() });
        self.table_index.insert(name.to_string(), id);
        id
    }

    /// Declares a table with its key and columns.
    ///
    /// # Errors
    /// When it was declared before, or its key names a column that it does not have.
    pub fn declare_table(&mut self, table: Table) -> Result<TableId, Invalid> {
        let id = self.table(&table.name);
        let known = &self.tables[id.index()];
        if *known != (Table { name: table.name.clone(), ..Table::default() }) {
            return self.invalid(format!("table {:?} is declared twice", table.name));
        }
        if let Some(fault) = table.fault() {
            return self.invalid(fault);
        }
        self.tables[id.index()] = table;
        Ok(id)
    }

    /// Takes all tables for seen: initial rows are those that are given, and only recorded
    /// transactions write.
    pub fn take_tables_as_seen(&mut self) {
        for table in &mut self.tables {
            (table.initial_unknown, table.written_by_anything) = (false, false);
            table.columns_by_anything.clear();
        }
    }

    /// The tables so far, by their ids.
    #[must_use]
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// The initial values so far, in no order.
    pub fn initial_values(&self) -> impl Iterator<Item = Access> + '_ {
        self.initial.iter().map(|(&object, &value)| Access { object, value })
    }

    /// What an object is.
    #[must_use]
    pub fn object_of(&self, id: ObjectId) -> Object {
        self.objects.get(id)
    }

    /// The object of this key, in a table or not.
    pub fn object(&mut self, table: Option<TableId>, key: ValueId) -> ObjectId {
        self.objects.intern(Object { table, key })
    }

    /// Gives an object its initial value.
    ///
    /// # Errors
    /// When it has one already.
    pub fn initial(&mut self, object: ObjectId, value: ValueId) -> Result<(), Invalid> {
        match self.initial.insert(object, value) {
            None => Ok(()),
            Some(_) => self.invalid("this object was given an initial value before"),
        }
    }

    /// Forgets the initial values of objects that are not to be kept.
    pub fn keep_initial(&mut self, keep: impl Fn(ObjectId) -> bool) {
        self.initial.retain(|object, _| keep(*object));
    }

    /// Adds an operation to a transaction, which it begins if need be.
    ///
    /// # Errors
    /// When the operation cannot follow what its session and transaction have done so far, or is
    /// not what its kind says.
    pub fn push(
        &mut self,
        session: u64,
        txn: u64,
        at: Option<Interval>,
        kind: OpKind,
        accesses: &[Access],
        detail: OpDetail<'_>,
    ) -> Result<(), Invalid> {
        self.check_op(at, kind, accesses, &detail)?;
        let txn = self.enter(session, txn)?;
        let draft = &mut self.txns[txn as usize];
        if kind == OpKind::Begin && draft.ops > 0 {
            let label = draft.label;
            return self.invalid(format!("transaction {label} has operations before its begin"));
        }
        draft.ops += 1;
        draft.ended = kind.outcome().is_some();
        self.add(txn, at, kind, accesses);
        self.add_detail(detail);
        Ok(())
    }

    fn check_op(
        &self,
        at: Option<Interval>,
        kind: OpKind,
        accesses: &[Access],
        detail: &OpDetail<'_>,
    ) -> Result<(), Invalid> {
        if let Some(Interval { before, after }) = at.filter(|at| at.before > at.after) {
            return self.invalid(format!(
                "time runs backwards: the operation begins at {before} and ends at {after}"
            ));
        }
        self.check_room()?;
        let fits = match detail {
            OpDetail::None => !matches!(kind, OpKind::Scan | OpKind::Update | OpKind::Sql),
            OpDetail::Begin { .. } => kind == OpKind::Begin,
            OpDetail::Scan { .. } => kind == OpKind::Scan,
            OpDetail::Update { .. } => kind == OpKind::Update,
            OpDetail::Sql { .. } => kind == OpKind::Sql,
        };
        if !fits {
            return self.invalid(format!("a {} operation without what it asked", kind.name()));
        }
        match kind {
            OpKind::Read | OpKind::Write | OpKind::Append if accesses.is_empty() => {
                self.invalid(format!("a {} of no object", kind.name()))
            }
            _ if kind.writes() && accesses.iter().any(|a| a.value == ValueId::UNKNOWN) => {
                self.invalid(format!("a {} without its value", kind.name()))
            }
            _ if self.is_foreign(accesses, detail) => {
                self.invalid(format!("a {} with a row of another table", kind.name()))
            }
            OpKind::Read if shown_twice(accesses).is_some() => {
                self.invalid("a read that names one object twice, with different values")
            }
            _ if self.kinds.len() >= u32::MAX as usize - 1
                || self.accesses.len() + accesses.len() >= u32::MAX as usize =>
            {
                self.invalid("a history holds at most 2^32 operations")
            }
            _ => Ok(()),
        }
    }

    /// Whether an object is not of the table that was asked about.
    fn is_foreign(&self, accesses: &[Access], detail: &OpDetail<'_>) -> bool {
        let (OpDetail::Scan { table, .. } | OpDetail::Update { table, .. }) = detail else { return false };
        accesses.iter().any(|access| self.objects.get(access.object).table != Some(*table))
    }

    fn check_room(&self) -> Result<(), Invalid> {
        match self.values.is_full() {
            true => self.invalid("too much text: a history holds 4 GiB of it, and as many list items"),
            false => Ok(()),
        }
    }

    /// The transaction that an operation belongs to, which must be the one its session is in, or a
    /// new one.
    fn enter(&mut self, session_label: u64, label: u64) -> Result<u32, Invalid> {
        let session = self.session(session_label);
        // Nearly always the session goes on in its transaction; the index of all transactions is
        // too large for a cache.
        let current = self.sessions[session as usize].current;
        if self.txns.get(current as usize).is_some_and(|draft| draft.label == label && !draft.ended) {
            return Ok(current);
        }
        let Some(&txn) = self.txn_index.get(&label) else {
            let txn = self.txns.len() as u32;
            self.txns.push(TxnDraft { label, session, ops: 0, ended: false, place: self.place });
            self.txn_index.insert(label, txn);
            self.sessions[session as usize].current = txn;
            return Ok(txn);
        };
        let draft = &self.txns[txn as usize];
        if draft.session != session {
            let owner = self.sessions[draft.session as usize].label;
            return self.invalid(format!(
                "transaction {label} belongs to session {owner}, not to session {session_label}: ids of transactions are unique"
            ));
        }
        if current != txn {
            let current = self.txns[current as usize].label;
            return self.invalid(format!(
                "transaction {label} goes on after transaction {current} of its session began"
            ));
        }
        if draft.ended {
            return self.invalid(format!("an operation after the end of transaction {label}"));
        }
        Ok(txn)
    }

    fn session(&mut self, label: u64) -> u32 {
        let next = self.sessions.len() as u32;
        let session = *self.session_index.entry(label).or_insert(next);
        if session == next {
            self.sessions.push(SessionDraft { label, current: u32::MAX });
        }
        session
    }

    fn add(&mut self, txn: u32, at: Option<Interval>, kind: OpKind, accesses: &[Access]) {
        self.op_txns.push(txn);
        self.kinds.push(kind);
        self.intervals.push(at);
        self.op_starts.push(self.accesses.len() as u32);
        self.accesses.extend_from_slice(accesses);
    }

    fn add_detail(&mut self, detail: OpDetail<'_>) {
        let op = OpId::at(self.kinds.len() - 1);
        match detail {
            OpDetail::None => {}
            OpDetail::Begin { level, read_only, unit } => {
                let begin = Begin { level: level.map(Into::into), read_only, unit: unit.map(Into::into) };
                if begin != Begin::default() {
                    self.begins.push((op, begin));
                }
            }
            OpDetail::Scan { table, condition, observed } => {
                let predicate = self.predicate(table, condition);
                self.scans.push((op, Scan { predicate, observed }));
            }
            OpDetail::Update { table, condition, set, observed } => {
                let predicate = self.predicate(table, condition);
                self.updates.push((op, Update { predicate, set: set.map(Into::into), observed }));
            }
            OpDetail::Sql { text, params, rows, count } => {
                let text = self.texts.get_or_insert_with(text, |text| text.into()).clone();
                let statement = Statement { text, params: params.into(), rows: rows.map(Into::into), count };
                self.statements.push((op, statement));
            }
        }
    }

    /// The statement that was pushed last.
    #[must_use]
    pub fn last_statement(&self) -> Option<&Statement> {
        self.statements.last().map(|(_, statement)| statement)
    }

    /// Says that the operation which was pushed last, a read or a scan, locks what it returned.
    pub fn lock(&mut self, lock: ReadLock) {
        let reads = |kind: &OpKind| matches!(kind, OpKind::Read | OpKind::Scan);
        if self.kinds.last().is_some_and(reads) {
            self.locks.push((OpId::at(self.kinds.len() - 1), lock));
        }
    }

    fn predicate(&mut self, table: TableId, text: &str) -> PredicateId {
        let predicate = Predicate { table, text: text.into() };
        if let Some(&id) = self.predicate_index.get(&predicate) {
            return id;
        }
        let id = PredicateId::at(self.predicates.len());
        self.predicates.push(predicate.clone());
        self.predicate_index.insert(predicate, id);
        id
    }

    /// Evidence: versions of an object in order, by their transactions' labels; `None` is the
    /// initial version.
    pub fn version_order(&mut self, object: ObjectId, txns: Vec<Option<u64>>) {
        self.evidence.push((self.place, Draft::VersionOrder(object, txns)));
    }

    /// Evidence: the versions that operation number `op` of transaction `txn` saw.
    pub fn version_set(&mut self, txn: u64, op: u32, versions: Vec<(ObjectId, Option<u64>)>) {
        self.evidence.push((self.place, Draft::VersionSet(txn, op, versions)));
    }

    /// Evidence: the snapshot timestamp of a transaction.
    pub fn snapshot(&mut self, txn: u64, ts: i64) {
        self.evidence.push((self.place, Draft::Snapshot(txn, ts)));
    }

    /// Evidence: the commit timestamp of a transaction.
    pub fn commit(&mut self, txn: u64, ts: i64) {
        self.evidence.push((self.place, Draft::Commit(txn, ts)));
    }

    /// Evidence: the place of a transaction in the serialization order.
    pub fn serialization(&mut self, txn: u64, ts: i64) {
        self.evidence.push((self.place, Draft::Serialization(txn, ts)));
    }

    fn invalid<T>(&self, what: impl Into<String>) -> Result<T, Invalid> {
        Err(Invalid { what: what.into(), place: self.place })
    }

    /// The history.
    ///
    /// # Errors
    /// When evidence names a transaction, operation or version that is not there, or a session's
    /// clock contradicts the order of its transactions.
    pub fn finish(mut self) -> Result<History, Invalid> {
        self.check_room()?;
        self.end_open_txns();
        let order = self.order();
        let evidence = std::mem::take(&mut self.evidence);
        let places: Vec<u64> = order.txns.iter().map(|&old| self.txns[old as usize].place).collect();
        let txn_index = std::mem::take(&mut self.txn_index);
        let mut history = self.assemble(&order)?;
        let resolver = Resolver { history: &history, new_txns: &order.new_txns, txn_index: &txn_index };
        history.evidence = resolver.resolve(evidence)?;
        check_clocks(&history, |txn| places[txn.index()])?;
        Ok(history)
    }

    /// A transaction whose end the client did not record may have committed.
    fn end_open_txns(&mut self) {
        let open: Vec<u32> =
            (0..self.txns.len()).filter(|&t| !self.txns[t].ended).map(|t| t as u32).collect();
        for txn in open {
            self.txns[txn as usize].ops += 1;
            self.add(txn, None, OpKind::Unknown, &[]);
        }
    }

    fn order(&self) -> Order {
        let mut sessions: Vec<u32> = (0..self.sessions.len() as u32).collect();
        sessions.sort_by_key(|&s| self.sessions[s as usize].label);
        let mut rank = vec![0; sessions.len()];
        sessions.iter().enumerate().for_each(|(new, &old)| rank[old as usize] = new as u32);
        let mut txns: Vec<u32> = (0..self.txns.len() as u32).collect();
        txns.sort_by_key(|&t| rank[self.txns[t as usize].session as usize]);
        let mut new_txns = vec![TxnId(0); txns.len()];
        txns.iter().enumerate().for_each(|(new, &old)| new_txns[old as usize] = TxnId::at(new));
        let ops = self.op_order(&txns, &new_txns);
        Order { sessions, txns, new_txns, ops }
    }

    /// Which operation comes where, by counting; `None` when they arrived in the right order.
    fn op_order(&self, txns: &[u32], new_txns: &[TxnId]) -> Option<Vec<u32>> {
        if self.op_txns.is_sorted_by_key(|&txn| new_txns[txn as usize]) {
            return None;
        }
        // Where the next operation of each transaction goes.
        let mut places = vec![0; txns.len()];
        let mut start = 0;
        for &txn in txns {
            places[txn as usize] = start;
            start += self.txns[txn as usize].ops;
        }
        let mut ops = vec![0; self.op_txns.len()];
        for (op, &txn) in self.op_txns.iter().enumerate() {
            ops[places[txn as usize] as usize] = op as u32;
            places[txn as usize] += 1;
        }
        Some(ops)
    }

    fn assemble(mut self, order: &Order) -> Result<History, Invalid> {
        self.op_txns = Vec::new();
        self.op_starts.push(self.accesses.len() as u32);
        if let Some(ops) = &order.ops {
            self.permute(ops);
        }
        self.kinds.shrink_to_fit();
        self.intervals.shrink();
        self.op_starts.shrink_to_fit();
        self.accesses.shrink_to_fit();
        let mut initial: Vec<_> = self.initial.into_iter().collect();
        initial.sort_unstable();
        let txns = order.txns.iter().map(|&old| &self.txns[old as usize]);
        let mut sizes = vec![0; self.sessions.len()];
        txns.clone().for_each(|txn| sizes[txn.session as usize] += 1);
        let session = |&old: &u32| (self.sessions[old as usize].label, sizes[old as usize]);
        let columns = Columns {
            header: self.header,
            tables: self.tables,
            values: self.values,
            objects: self.objects,
            predicates: self.predicates,
            initial,
            sessions: order.sessions.iter().map(session).collect(),
            txn_labels: txns.clone().map(|txn| txn.label).collect(),
            txn_ops: txns.map(|txn| txn.ops).collect(),
            kinds: self.kinds,
            op_starts: self.op_starts,
            intervals: self.intervals,
            accesses: self.accesses,
            begins: self.begins,
            scans: self.scans,
            updates: self.updates,
            statements: self.statements,
            evidence: Evidence::default(),
        };
        let history = columns.join().map_err(unplaced)?;
        Ok(History { locks: self.locks, ..history })
    }

    fn permute(&mut self, from: &[u32]) {
        self.kinds = from.iter().map(|&op| self.kinds[op as usize]).collect();
        self.intervals = self.intervals.permuted(from);
        let mut accesses = Vec::with_capacity(self.accesses.len());
        let mut op_starts = Vec::with_capacity(self.op_starts.len());
        for &op in from {
            op_starts.push(accesses.len() as u32);
            let (start, end) = (self.op_starts[op as usize], self.op_starts[op as usize + 1]);
            accesses.extend_from_slice(&self.accesses[start as usize..end as usize]);
        }
        op_starts.push(accesses.len() as u32);
        (self.accesses, self.op_starts) = (accesses, op_starts);
        let mut new = vec![OpId(0); from.len()];
        from.iter().enumerate().for_each(|(i, &old)| new[old as usize] = OpId::at(i));
        renumber(&mut self.begins, &new);
        renumber(&mut self.scans, &new);
        renumber(&mut self.updates, &new);
        renumber(&mut self.statements, &new);
        renumber(&mut self.locks, &new);
    }
}

/// How arrival order becomes the history's order: old ids, in new order.
struct Order {
    sessions: Vec<u32>,
    txns: Vec<u32>,
    /// The new id of each old transaction.
    new_txns: Vec<TxnId>,
    ops: Option<Vec<u32>>,
}

fn renumber<T>(column: &mut [(OpId, T)], new: &[OpId]) {
    column.iter_mut().for_each(|(op, _)| *op = new[op.index()]);
    column.sort_by_key(|(op, _)| *op);
}

/// Session order is part of what clients saw; a clock that says the opposite is a broken recording,
/// not a violation.
pub(crate) fn check_clocks(history: &History, place: impl Fn(TxnId) -> u64) -> Result<(), Invalid> {
    for session in history.sessions() {
        let mut latest: Option<TxnId> = None;
        for txn in history.session_txns(session) {
            if matches!((history.start(txn), history.end(txn)), (Some(start), Some(end)) if end < start) {
                let what = format!("transaction {} ended before it began", history.txn_label(txn));
                return Err(Invalid { what, place: place(txn) });
            }
            if let Some(earlier) = latest.filter(|&earlier| history.precedes(txn, earlier)) {
                return Err(Invalid {
                    what: format!(
                        "transaction {} ended before transaction {} of the same session began, though it came after it",
                        history.txn_label(txn),
                        history.txn_label(earlier)
                    ),
                    place: place(txn),
                });
            }
            if history.start(txn) > latest.and_then(|earlier| history.start(earlier)) {
                latest = Some(txn);
            }
        }
    }
    Ok(())
}
