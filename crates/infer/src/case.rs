//! From a history to what its reads show: who committed, what each read saw, and which versions certainly precede which.
//!
//! # Algorithm
//! Transactions are visited from the committed ones on; an unknown one joins when a visited one can only have read from it. A read of a register looks
//! its writer up by value. Reads of lists are collected and handed to [`crate::lists`], which takes the order of versions from the longest.
//! A transaction that reads a register and then writes it made its version after the one that it read: that holds wherever write and read
//! dependencies may not form a cycle, so from `read-committed` up.
//!
//! # Invariants
//! What stands here is certain: another explanation of the history may add to it, never take away. What is not certain (a value that several
//! wrote) is left out and noted in [`Case::open`], so that nobody says `holds` without it.

use hashbrown::{HashMap, HashSet};
use margay_history::{Access, History, ObjectId, Op, OpId, OpKind, Outcome, TxnId, Value, ValueId, Version};
use margay_levels::{Anomaly, Level};
use margay_verdict::Question;

use crate::index::{Index, Use, plain};
use crate::{Infer, counts_rw, keys, lists, uncommitted};

/// What follows the version that a read saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Nothing that is known.
    Nothing,
    /// This transaction's version.
    Txn(TxnId),
    /// Every version of the object whose place is not known.
    Rest,
}

/// What an operation saw of an object before its transaction wrote it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) txn: TxnId,
    pub(crate) op: OpId,
    pub(crate) object: ObjectId,
    pub(crate) from: Version,
    pub(crate) next: Next,
}

/// A read of a list, as recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListRead {
    pub(crate) object: ObjectId,
    pub(crate) txn: TxnId,
    pub(crate) op: OpId,
    pub(crate) value: ValueId,
    /// How much its transaction had appended before.
    pub(crate) own: u32,
}

/// Operations that nothing explains, and what they may be called, the likeliest first.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    pub(crate) names: Vec<Anomaly>,
    pub(crate) ops: Vec<OpId>,
}

/// The writers of the objects: first those whose order is known.
#[derive(Default)]
pub(crate) struct Writers {
    starts: Vec<u32>,
    all: Vec<TxnId>,
    known: Vec<u32>,
}

/// What the reads of a history show.
pub(crate) struct Case<'h> {
    pub(crate) history: &'h History,
    pub(crate) question: Question,
    pub(crate) uses: Vec<Use>,
    /// Who certainly committed.
    pub(crate) committed: Vec<bool>,
    /// By operation.
    pub(crate) reads: Vec<Read>,
    pub(crate) writers: Writers,
    /// Pairs of versions of an object: the first is before the second.
    pub(crate) pairs: Vec<(ObjectId, TxnId, TxnId)>,
    /// Which transactions' order says so, for the pairs that [`crate::keys`] gave.
    pub(crate) ordered: HashMap<(ObjectId, TxnId, TxnId), (TxnId, TxnId)>,
    pub(crate) local: Vec<Local>,
    /// Why what stands here is not everything, if it is not.
    pub(crate) open: Option<String>,
}

/// How many findings of one sort are kept.
pub(crate) const FEW: usize = 4;

impl Writers {
    /// `written` is by transaction; a transaction may stand there more than once for one object.
    fn new(objects: usize, written: &[(ObjectId, TxnId)], committed: &[bool]) -> Self {
        let mut writers = Self { starts: vec![0; objects + 1], all: Vec::new(), known: vec![0; objects] };
        let mut last = vec![None; objects];
        let mut is_new = |&&(object, txn): &&(ObjectId, TxnId)| {
            committed[txn.index()] && last[object.index()].replace(txn) != Some(txn)
        };
        for &(object, _) in written.iter().filter(&mut is_new) {
            writers.starts[object.index() + 1] += 1;
        }
        for object in 0..objects {
            writers.starts[object + 1] += writers.starts[object];
        }
        let mut next = writers.starts.clone();
        writers.all = vec![TxnId(0); writers.starts[objects] as usize];
        for &(object, txn) in written.iter().filter(|w| committed[w.1.index()]) {
            let place = &mut next[object.index()];
            let again = *place > writers.starts[object.index()] && writers.all[*place as usize - 1] == txn;
            if !again {
                writers.all[*place as usize] = txn;
                *place += 1;
            }
        }
        writers
    }

    fn range(&self, object: ObjectId) -> std::ops::Range<usize> {
        self.starts[object.index()] as usize..self.starts[object.index() + 1] as usize
    }

    /// All committed writers of an object: those whose order is known, in order, then the others.
    pub(crate) fn of(&self, object: ObjectId) -> &[TxnId] {
        &self.all[self.range(object)]
    }

    /// Those whose order is known.
    pub(crate) fn known(&self, object: ObjectId) -> &[TxnId] {
        &self.of(object)[..self.known[object.index()] as usize]
    }

    /// Those that come after all known ones, in no known order.
    pub(crate) fn rest(&self, object: ObjectId) -> &[TxnId] {
        &self.of(object)[self.known[object.index()] as usize..]
    }

    /// Puts the writers whose order is known first.
    pub(crate) fn settle(&mut self, object: ObjectId, order: &[TxnId]) {
        let places: HashMap<TxnId, usize> = order.iter().enumerate().map(|(i, &t)| (t, i)).collect();
        let range = self.range(object);
        self.all[range].sort_by_key(|txn| places.get(txn).copied().unwrap_or(usize::MAX));
        self.known[object.index()] = order.len() as u32;
    }
}

/// What each transaction writes, by object.
pub(crate) struct Written {
    starts: Vec<u32>,
    objects: Vec<ObjectId>,
}

impl Written {
    pub(crate) fn new(case: &Case<'_>) -> Self {
        let txns = case.history.txn_count();
        let mut starts = vec![0u32; txns + 1];
        let all = || case.history.objects().flat_map(|o| case.writers.of(o).iter().map(move |&t| (t, o)));
        all().for_each(|(txn, _)| starts[txn.index() + 1] += 1);
        for txn in 0..txns {
            starts[txn + 1] += starts[txn];
        }
        let mut next = starts.clone();
        let mut objects = vec![ObjectId(0); starts[txns] as usize];
        for (txn, object) in all() {
            objects[next[txn.index()] as usize] = object;
            next[txn.index()] += 1;
        }
        Self { starts, objects }
    }

    /// The objects that a transaction writes, sorted.
    pub(crate) fn of(&self, txn: TxnId) -> &[ObjectId] {
        &self.objects[self.starts[txn.index()] as usize..self.starts[txn.index() + 1] as usize]
    }

    pub(crate) fn has(&self, txn: TxnId, object: ObjectId) -> bool {
        self.of(txn).binary_search(&object).is_ok()
    }
}

impl<'h> Case<'h> {
    /// # Errors
    /// What of the history is outside the engine's fragment.
    pub(crate) fn new(history: &'h History, question: Question, options: &Infer) -> Result<Self, String> {
        outside(history)?;
        let index = Index::new(history)?;
        let mut visit = Visit::new(history, &index);
        visit.run();
        let Visit { committed, reads, lists, mut local, open, .. } = visit;
        let writers = Writers::new(history.object_count(), &index.writers, &committed);
        let mut case = Self {
            history,
            question,
            uses: index.uses.clone(),
            committed,
            reads,
            writers,
            pairs: Vec::new(),
            ordered: HashMap::new(),
            local: Vec::new(),
            open,
        };
        lists::infer(&mut case, &index, lists, &mut local);
        case.reads.sort_unstable_by_key(|read| (read.op, read.object));
        if counts_rw(question.level) {
            case.registers(options);
        }
        local.sort_by_key(|local| local.ops[0]);
        case.local = local;
        if question.level == Level::ReadUncommitted {
            uncommitted::restrict(&mut case, &index);
        }
        Ok(case)
    }

    /// Takes only those to have committed of whom the client knows it.
    pub(crate) fn forget_unknown(&mut self) {
        let history = self.history;
        self.committed = history.txns().map(|txn| history.outcome(txn) == Outcome::Committed).collect();
        let mut all: Vec<(ObjectId, TxnId)> = Vec::new();
        for object in history.objects() {
            all.extend(self.writers.of(object).iter().map(|&txn| (object, txn)));
        }
        all.sort_unstable_by_key(|&(object, txn)| (txn, object));
        self.writers = Writers::new(history.object_count(), &all, &self.committed);
    }

    /// Whether a transaction certainly committed.
    pub(crate) fn has(&self, txn: TxnId) -> bool {
        self.committed[txn.index()]
    }

    /// All that certainly committed.
    pub(crate) fn txns(&self) -> impl Iterator<Item = TxnId> + '_ {
        self.history.txns().filter(|&txn| self.has(txn))
    }

    /// Whether the place of every version is known, but for those that nobody saw.
    pub(crate) fn is_traceable(&self) -> bool {
        let settled = |object: ObjectId| {
            self.uses[object.index()] != Use::Register || self.writers.rest(object).is_empty()
        };
        self.history.objects().all(settled)
    }

    /// What reads before writes say of the versions of registers.
    fn registers(&mut self, options: &Infer) {
        let mut after: HashMap<(ObjectId, Version), Vec<TxnId>> = HashMap::new();
        let mut met = HashSet::new();
        let written = Written::new(self);
        for read in self.reads.iter().filter(|r| self.uses[r.object.index()] == Use::Register) {
            let update = options.write_follows_read && written.has(read.txn, read.object);
            if update && met.insert((read.object, read.from, read.txn)) {
                after.entry((read.object, read.from)).or_default().push(read.txn);
                if let Version::Of(from) = read.from {
                    self.pairs.push((read.object, from, read.txn));
                }
            }
        }
        for object in self.history.objects().filter(|o| self.uses[o.index()] == Use::Register) {
            let order = chain(&after, object, self.writers.of(object));
            if let Some(order) = order {
                self.writers.settle(object, &order);
            }
        }
        let orders = keys::Orders {
            session: options.sequential_keys && self.question.uses_session_order(),
            time: options.linearizable_keys && self.question.uses_real_time(),
        };
        for pair in keys::pairs(self, orders) {
            let keys::Pair { object, first, then, by } = pair;
            let known = after.entry((object, Version::Of(first))).or_default();
            if !known.contains(&then) {
                known.push(then);
                self.pairs.push((object, first, then));
                self.ordered.insert((object, first, then), by);
            }
        }
        let next = |read: &Read| match read.from {
            Version::Initial if self.writers.known(read.object).is_empty() => Next::Rest,
            Version::Initial => Next::Txn(self.writers.known(read.object)[0]),
            from => match after.get(&(read.object, from)).map(Vec::as_slice) {
                Some(&[txn, ..]) => Next::Txn(txn),
                _ => Next::Nothing,
            },
        };
        let known: Vec<(usize, Next)> = self
            .reads
            .iter()
            .enumerate()
            .filter(|(_, r)| self.uses[r.object.index()] == Use::Register)
            .map(|(i, r)| (i, next(r)))
            .collect();
        known.into_iter().for_each(|(i, next)| self.reads[i].next = next);
    }
}

/// The whole order of a register's versions, where each was made by a transaction that had read the one before.
fn chain(
    after: &HashMap<(ObjectId, Version), Vec<TxnId>>,
    object: ObjectId,
    writers: &[TxnId],
) -> Option<Vec<TxnId>> {
    if writers.len() <= 1 {
        return Some(writers.to_vec());
    }
    let mut order = Vec::new();
    let mut last = Version::Initial;
    while let Some([txn]) = after.get(&(object, last)).map(Vec::as_slice) {
        order.push(*txn);
        last = Version::Of(*txn);
        if order.len() > writers.len() {
            return None;
        }
    }
    (order.len() == writers.len()).then_some(order)
}

fn outside(history: &History) -> Result<(), String> {
    for (kind, name) in
        [(OpKind::Scan, "a scan"), (OpKind::Update, "a predicate update"), (OpKind::Sql, "an SQL statement")]
    {
        if history.has_kind(kind) {
            return Err(name.to_string());
        }
    }
    if !history.evidence().is_empty() {
        return Err("evidence beside what clients saw".to_string());
    }
    let is_row =
        |value: ValueId| value.small_int().is_none() && matches!(history.value(value), Value::Row(_));
    let rows = history.initial_values().iter().any(|v| is_row(v.1))
        || history.txns().flat_map(|t| history.ops(t)).any(|op| op.accesses.iter().any(|a| is_row(a.value)));
    if rows { Err("rows with columns".to_string()) } else { Ok(()) }
}

/// The walk from the committed transactions to all that must have.
struct Visit<'a> {
    history: &'a History,
    index: &'a Index,
    committed: Vec<bool>,
    pending: Vec<TxnId>,
    reads: Vec<Read>,
    lists: Vec<ListRead>,
    met: HashSet<(ObjectId, ValueId)>,
    local: Vec<Local>,
    open: Option<String>,
    /// What the visited transaction has written so far, and how often.
    own: Vec<(ObjectId, ValueId, u32)>,
}

impl<'a> Visit<'a> {
    fn new(history: &'a History, index: &'a Index) -> Self {
        let pending: Vec<TxnId> =
            history.txns().rev().filter(|&t| history.outcome(t) == Outcome::Committed).collect();
        let mut committed = vec![false; history.txn_count()];
        pending.iter().for_each(|txn| committed[txn.index()] = true);
        Self {
            history,
            index,
            committed,
            pending,
            reads: Vec::new(),
            lists: Vec::new(),
            met: HashSet::new(),
            local: Vec::new(),
            open: None,
            own: Vec::new(),
        }
    }

    fn run(&mut self) {
        let history = self.history;
        while let Some(txn) = self.pending.pop() {
            self.own.clear();
            for op in history.ops(txn) {
                for access in op.accesses {
                    self.access(txn, &op, access);
                }
            }
        }
    }

    fn access(&mut self, txn: TxnId, op: &Op<'_>, access: &Access) {
        let place = self.own.iter().position(|own| own.0 == access.object);
        match op.kind {
            OpKind::Write | OpKind::Append => match place {
                Some(place) => {
                    self.own[place].1 = access.value;
                    self.own[place].2 += 1;
                }
                None => self.own.push((access.object, access.value, 1)),
            },
            OpKind::Read if access.value != ValueId::UNKNOWN => {
                let own = place.map(|place| self.own[place]);
                match self.index.uses[access.object.index()] {
                    Use::List => self.list(txn, op.id, access, own.map_or(0, |own| own.2)),
                    _ => match own {
                        Some(own) => self.internal(txn, op.id, access, own.1),
                        None => self.external(txn, op.id, access),
                    },
                }
            }
            _ => {}
        }
    }

    fn unexplained(&mut self, txn: TxnId, op: OpId, names: &[Anomaly]) {
        unexplained(self.history, &mut self.local, &mut self.open, txn, op, names);
    }

    fn internal(&mut self, txn: TxnId, op: OpId, access: &Access, own: ValueId) {
        if plain(self.history, own) != plain(self.history, access.value) {
            self.unexplained(txn, op, &[Anomaly::Internal]);
        }
    }

    fn external(&mut self, txn: TxnId, op: OpId, access: &Access) {
        let history = self.history;
        let (object, value) = (access.object, access.value);
        let initial = plain(history, history.initial(object)) == plain(history, value);
        let writer = self.index.last_writer(history, object, value);
        let own = |w: &crate::index::Final| w.txn == txn && !w.several;
        let from = match writer.filter(|w| !own(w)) {
            None if initial => Version::Initial,
            None => {
                return self.unexplained(
                    txn,
                    op,
                    &[Anomaly::GarbageRead, Anomaly::G1a, Anomaly::FutureRead, Anomaly::G1b],
                );
            }
            Some(writer) if !initial && !writer.several => Version::Of(writer.txn),
            Some(_) => {
                let (object, value) = (history.show_object(object), history.show_value(value));
                self.open.get_or_insert_with(|| format!("{value} was written to {object} more than once"));
                return;
            }
        };
        self.commit(from);
        if self.index.uses[object.index()] != Use::Unwritten {
            self.reads.push(Read { txn, op, object, from, next: Next::Nothing });
        }
    }

    /// Who was seen committed.
    fn commit(&mut self, from: Version) {
        if let Version::Of(txn) = from
            && !self.committed[txn.index()]
        {
            self.committed[txn.index()] = true;
            self.pending.push(txn);
        }
    }

    fn list(&mut self, txn: TxnId, op: OpId, access: &Access, own: u32) {
        self.lists.push(ListRead { object: access.object, txn, op, value: access.value, own });
        if !self.met.insert((access.object, access.value)) {
            return;
        }
        if let Value::List(items) = self.history.value(access.value) {
            for &item in items {
                let found = self.index.appender(access.object, item).map(|append| append.txn);
                if let Some(txn) = found.filter(|&t| self.history.outcome(t) == Outcome::Unknown) {
                    self.commit(Version::Of(txn));
                }
            }
        }
    }
}

/// Notes an operation that nothing explains. Of an unknown transaction it shows that it cannot have committed though somebody saw it: no single
/// operation proves that.
pub(crate) fn unexplained(
    history: &History,
    local: &mut Vec<Local>,
    open: &mut Option<String>,
    txn: TxnId,
    op: OpId,
    names: &[Anomaly],
) {
    if history.outcome(txn) == Outcome::Committed {
        local.push(Local { names: names.to_vec(), ops: vec![op] });
    } else {
        open.get_or_insert_with(|| format!("{} was seen and cannot have committed", history.show_txn(txn)));
    }
}
