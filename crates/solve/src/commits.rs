//! `read-committed` in the order in which commits began.
//!
//! # Problem
//! At this level an operation may have seen any committed version of each object. Of an object that
//! a scan left out, that is every version that does not match: a list of them for each scan and
//! object is quadratic, and nearly always useless.
//!
//! # Algorithm
//! Let versions appear in the order in which their transactions began to commit, by the clock. Walk
//! through the transactions in that order. Each operation saw the latest version so far that
//! explains what its client saw; of an object that a scan left out, the initial version if that
//! does not match. Whoever was seen is earlier then, so that ww and wr have no cycle.
//!
//! A database that shows committed data only and lets a row have one uncommitted writer at a time
//! passes: the commit of whatever a transaction saw or overwrote began before its own did.
//!
//! Transactions of unknown outcome whose values were seen committed: they appear where the clock
//! puts them, like all others ([`mod@margay_verdict::seen`]). The rest of them appear when they
//! explain something, the latest first, where the clock puts them, so that what others wrote in
//! part since then is made of their versions; or else now. What such a transaction saw may need
//! another one first. A transaction that nothing explains so far waits until there is another
//! version of the object in its way.
//!
//! # Invariants
//! Only an order that the audit accepts is answered. That there is none proves nothing.
//!
//! # Cost
//! Linear in what operations returned, but for how far they look back, and for the objects whose
//! initial version matches a condition: these are found once per condition.

use std::cmp::Reverse;

use hashbrown::{HashMap, HashSet};
use margay_audit::audit_within;
use margay_history::{
    Access, History, ObjectId, Op, OpId, OpKind, Outcome, PredicateId, TxnId, ValueId, Version,
};
use margay_levels::Level;
use margay_verdict::cell::{fold, observed_matches};
use margay_verdict::seen::seen;
use margay_verdict::state::plain_effects;
use margay_verdict::{Budget, Cell, Certificate, Effect, Predicates, Question, ReadFrom, Versions};

/// The order by commits, if the level is `read-committed` and everything is explained by it.
pub(crate) fn in_order(history: &History, question: Question, budget: &Budget) -> Option<Certificate> {
    let evidence = history.evidence();
    let recorded = !evidence.version_orders.is_empty()
        || !evidence.version_sets.is_empty()
        || !evidence.commits.is_empty();
    let other = question.level != Level::ReadCommitted || question.uses_session_order();
    if other || recorded || history.has_kind(OpKind::Sql) || has_long_list(history) {
        return None;
    }
    let predicates = Predicates::compile(history).ok()?.within(budget);
    let mut seen: Vec<TxnId> = seen(history).into_keys().collect();
    seen.sort_unstable();
    let nobody = (!seen.is_empty()).then(Vec::new);
    std::iter::once(seen).chain(nobody).find_map(|seen| {
        let order = by_commit(history, &seen)?;
        let certificate = Certificate::Versions(Walk::new(&predicates, seen).run(&order)?);
        audit_within(history, question, &certificate, budget).ok()?;
        Some(certificate)
    })
}

/// Whether there are more appends to a list than are worth a copy of it for each of them. Such
/// lists tell their own order.
fn has_long_list(history: &History) -> bool {
    let mut counts: HashMap<ObjectId, usize> = HashMap::new();
    let ops = history.txns().filter(|_| history.has_kind(OpKind::Append)).flat_map(|txn| history.ops(txn));
    let mut appends = ops.filter(|op| op.kind == OpKind::Append).flat_map(|op| op.accesses);
    appends.any(|access| {
        let count = counts.entry(access.object).or_default();
        *count += 1;
        *count > LONG
    })
}

/// The transactions that committed, by when that began; those of unknown outcome that were seen
/// among them.
fn by_commit(history: &History, seen: &[TxnId]) -> Option<Vec<TxnId>> {
    let committed =
        |&txn: &TxnId| history.outcome(txn) == Outcome::Committed || seen.binary_search(&txn).is_ok();
    let committed = history.txns().filter(committed);
    let timed = |txn: TxnId| Some((began(history, txn)?, txn));
    let mut all: Vec<(i64, TxnId)> = committed.map(timed).collect::<Option<_>>()?;
    all.sort_unstable();
    Some(all.into_iter().map(|(_, txn)| txn).collect())
}

/// The other transactions of unknown outcome, by the objects that they write for all that was seen.
fn unknown_writers(history: &History, seen: &[TxnId]) -> HashMap<ObjectId, Vec<TxnId>> {
    let mut writers: HashMap<ObjectId, Vec<TxnId>> = HashMap::new();
    let unknown = |txn: &TxnId| history.outcome(*txn) == Outcome::Unknown && seen.binary_search(txn).is_err();
    for txn in history.txns().filter(unknown) {
        let written = history.ops(txn).filter(|op| op.kind.writes()).flat_map(|op| op.accesses);
        for access in written {
            let all = writers.entry(access.object).or_default();
            if all.last() != Some(&txn) {
                all.push(txn);
            }
        }
    }
    writers
}

/// A version of an object.
struct Installed {
    version: Version,
    /// What its transaction did to the version before.
    effects: Vec<Effect>,
    cell: Cell,
    /// When its commit began.
    began: i64,
}

/// The versions of one object so far, the initial one first.
type Chain = Vec<Installed>;

/// A transaction, its operation that nothing explains, and the object in its way.
type Stuck = (TxnId, OpId, ObjectId);

struct Walk<'p> {
    history: &'p History,
    predicates: &'p Predicates<'p>,
    /// The objects that were written so far.
    chains: HashMap<ObjectId, Chain>,
    /// By condition: the objects whose initial version matches it.
    initially: HashMap<PredicateId, Vec<ObjectId>>,
    /// What the present transaction did to each object so far.
    own: HashMap<ObjectId, Vec<Effect>>,
    reads: Vec<ReadFrom>,
    /// The transactions of unknown outcome that may appear when they are needed, by what they
    /// write.
    unknown: HashMap<ObjectId, Vec<TxnId>>,
    /// The transactions of unknown outcome that appear or did.
    committed: Vec<TxnId>,
    /// The operation that nothing explains, and the object in its way.
    stuck: Option<(OpId, ObjectId)>,
    /// The present transaction appears before all versions whose commits began later.
    until: i64,
}

impl<'p> Walk<'p> {
    fn new(predicates: &'p Predicates<'p>, seen: Vec<TxnId>) -> Self {
        Self {
            history: predicates.history(),
            predicates,
            chains: HashMap::new(),
            initially: HashMap::new(),
            own: HashMap::new(),
            reads: Vec::new(),
            unknown: unknown_writers(predicates.history(), &seen),
            committed: seen,
            stuck: None,
            until: i64::MAX,
        }
    }

    fn run(mut self, order: &[TxnId]) -> Option<Versions> {
        let mut waiting: Vec<(TxnId, ObjectId)> = Vec::new();
        for &txn in order {
            let Err(object) = self.appear(txn, HELPERS) else {
                self.release(&mut waiting, txn)?;
                continue;
            };
            waiting.push((txn, object?));
        }
        if !waiting.is_empty() {
            return None;
        }
        let writers = |chain: &Chain| chain.iter().filter_map(|made| txn_of(made.version)).collect();
        let mut orders: Vec<(ObjectId, Vec<TxnId>)> =
            self.chains.iter().map(|(&object, chain)| (object, writers(chain))).collect();
        orders.sort_unstable_by_key(|order| order.0);
        self.committed.sort_unstable();
        Some(Versions { committed: self.committed, orders, reads: self.reads })
    }

    /// Those that waited for something that a transaction wrote, and so on.
    fn release(&mut self, waiting: &mut Vec<(TxnId, ObjectId)>, txn: TxnId) -> Option<()> {
        let mut appeared = vec![txn];
        while let Some(writer) = appeared.pop() {
            let wrote = |object: &ObjectId| {
                let chain = self.chains.get(object);
                chain.and_then(|chain| chain.last()).is_some_and(|last| last.version == Version::Of(writer))
            };
            let (ready, still): (Vec<_>, Vec<_>) = waiting.drain(..).partition(|(_, object)| wrote(object));
            *waiting = still;
            for (txn, _) in ready {
                match self.appear(txn, HELPERS) {
                    Ok(()) => appeared.push(txn),
                    Err(object) => waiting.push((txn, object?)),
                }
            }
        }
        Some(())
    }

    /// Lets a transaction commit if everything that it saw is explained, with the help of so many
    /// of unknown outcome, each of which explains what the one before saw.
    ///
    /// # Errors
    /// The object in its way; nothing if it is something else.
    fn appear(&mut self, txn: TxnId, helpers: usize) -> Result<(), Option<ObjectId>> {
        loop {
            let reads = self.reads.len();
            self.stuck = None;
            let mut ops = self.history.ops(txn);
            if ops.all(|op| self.predicates.budget().poll().is_ok() && self.op(&op).is_some()) {
                self.commit(txn);
                return Ok(());
            }
            self.own.clear();
            self.reads.truncate(reads);
            let Some((op, object)) = self.stuck else { return Err(None) };
            if helpers == 0 || !self.help((txn, op, object), helpers - 1) {
                return Err(Some(object));
            }
        }
    }

    /// Lets a transaction of unknown outcome commit that explains what an operation saw of an
    /// object, with the help of so many others.
    fn help(&mut self, stuck: Stuck, helpers: usize) -> bool {
        let latest_first = |&unknown: &TxnId| Reverse(began(self.history, unknown));
        let mut unknown = self.unknown.get(&stuck.2).cloned().unwrap_or_default();
        unknown.sort_by_key(latest_first);
        unknown.retain(|unknown| !self.committed.contains(unknown));
        let clock = |unknown: TxnId| began(self.history, unknown).unwrap_or(i64::MAX);
        let by_clock = unknown.iter().map(|&unknown| (unknown, clock(unknown)));
        let now = unknown.iter().map(|&unknown| (unknown, i64::MAX));
        let tries: Vec<(TxnId, i64)> = by_clock.chain(now).collect();
        tries.into_iter().any(|(unknown, until)| self.helps(unknown, until, stuck, helpers))
    }

    /// Lets a transaction of unknown outcome commit before what began later, unless the other is
    /// still stuck there.
    fn helps(&mut self, unknown: TxnId, until: i64, (txn, op, object): Stuck, helpers: usize) -> bool {
        let (reads, committed) = (self.reads.len(), self.committed.len());
        self.committed.push(unknown);
        let now = std::mem::replace(&mut self.until, until);
        let appeared = self.appear(unknown, helpers).is_ok();
        self.until = now;
        if appeared {
            let (seen, still) = (self.reads.len(), self.appear_at(txn));
            self.reads.truncate(seen);
            self.own.clear();
            if still != Some((op, object)) {
                return true;
            }
        }
        for other in self.committed.split_off(committed) {
            self.forget(other);
        }
        self.reads.truncate(reads);
        false
    }

    /// What is in the way of a transaction now.
    fn appear_at(&mut self, txn: TxnId) -> Option<(OpId, ObjectId)> {
        self.stuck = None;
        let mut ops = self.history.ops(txn);
        ops.all(|op| self.op(&op).is_some());
        self.stuck
    }

    /// Undoes a commit.
    fn forget(&mut self, txn: TxnId) {
        let writes = self.history.ops(txn).filter(|op| op.kind.writes());
        let written: Vec<ObjectId> = writes.flat_map(|op| op.accesses).map(|access| access.object).collect();
        for object in written {
            if let Some(chain) = self.chains.get_mut(&object)
                && let Some(at) = chain.iter().rposition(|made| made.version == Version::Of(txn))
            {
                chain.remove(at);
                remake(self.history, &mut chain[at - 1..]);
            }
        }
    }

    /// Nothing if no version explains what the operation saw.
    fn op(&mut self, op: &Op<'_>) -> Option<()> {
        match op.kind {
            OpKind::Read => op.accesses.iter().try_for_each(|access| self.read(op, access)),
            OpKind::Write | OpKind::Append => {
                for (object, effect) in plain_effects(self.history, op) {
                    self.own.entry(object).or_default().push(effect);
                }
                Some(())
            }
            OpKind::Scan => match self.history.scan(op.id) {
                Some(scan) if scan.observed => self.search(op, scan.predicate),
                _ => Some(()),
            },
            OpKind::Update => {
                let update = self.history.update(op.id).filter(|update| update.observed)?;
                self.search(op, update.predicate)
            }
            _ => Some(()),
        }
    }

    fn read(&mut self, op: &Op<'_>, access: &Access) -> Option<()> {
        if access.value == ValueId::UNKNOWN {
            return Some(());
        }
        let fits = |cell: &Cell| observed_matches(self.history, access.object, access.value, cell);
        let seen = self.latest(access.object, fits);
        self.saw(op, access.object, seen)?;
        Some(())
    }

    /// A scan, or the read half of an update.
    fn search(&mut self, op: &Op<'_>, predicate: PredicateId) -> Option<()> {
        let returned: HashSet<ObjectId> = op.accesses.iter().map(|access| access.object).collect();
        for access in op.accesses {
            self.returned(op, predicate, access)?;
        }
        let table = Some(self.predicates.table_of(predicate));
        let mut left_out = self.initially(predicate).to_vec();
        left_out.extend(self.own.keys().filter(|&&object| self.history.object(object).table == table));
        left_out.retain(|object| !returned.contains(object));
        left_out.sort_unstable();
        left_out.dedup();
        for object in left_out {
            self.predicates.budget().poll().ok()?;
            let fits = |cell: &Cell| self.predicates.matches(predicate, object, cell) == Ok(false);
            let seen = self.latest(object, fits);
            self.saw(op, object, seen)?;
        }
        Some(())
    }

    /// A row that was found, and what an update made of it.
    fn returned(&mut self, op: &Op<'_>, predicate: PredicateId, access: &Access) -> Option<()> {
        let (history, predicates, object) = (self.history, self.predicates, access.object);
        let set = history.update(op.id).map(|update| update.set.as_deref());
        let made = |cell: &Cell| set.map(|set| predicates.assign(set, object, cell)).transpose();
        let fits = |cell: &Cell| {
            let shown = match made(cell) {
                Ok(Some(effect)) => fold(history, cell.clone(), &effect),
                Ok(None) => cell.clone(),
                Err(_) => return false,
            };
            predicates.matches(predicate, object, cell) == Ok(true)
                && observed_matches(history, object, access.value, &shown)
        };
        let seen = self.latest(object, fits);
        let seen = self.saw(op, object, seen)?;
        let effect = made(&self.cell(object, seen)).ok()?;
        if let Some(effect) = effect {
            self.own.entry(object).or_default().push(effect);
        }
        Some(())
    }

    /// The latest version that fits, by its place among the object's; the transaction's own state
    /// of the object ([`OWN`]) if it has written it.
    fn latest(&self, object: ObjectId, fits: impl Fn(&Cell) -> bool) -> Option<usize> {
        if self.own.contains_key(&object) {
            return fits(&self.cell(object, OWN)).then_some(OWN);
        }
        match self.chains.get(&object) {
            Some(chain) => (0..self.end(chain))
                .rev()
                .find(|&at| self.predicates.budget().poll().is_ok() && fits(&chain[at].cell)),
            None => fits(&self.initial(object)).then_some(0),
        }
    }

    /// Where in a chain the present transaction appears.
    fn end(&self, chain: &Chain) -> usize {
        chain.iter().rposition(|made| made.began <= self.until).map_or(1, |last| last + 1)
    }

    fn initial(&self, object: ObjectId) -> Cell {
        Cell::Value(self.history.initial(object))
    }

    fn cell(&self, object: ObjectId, at: usize) -> Cell {
        let chain = self.chains.get(&object);
        let version = |at: usize| chain.map_or_else(|| self.initial(object), |chain| chain[at].cell.clone());
        match self.own.get(&object) {
            Some(own) if at == OWN => {
                let last = version(chain.map_or(0, |chain| self.end(chain) - 1));
                own.iter().fold(last, |cell, effect| fold(self.history, cell, effect))
            }
            _ => version(at),
        }
    }

    /// Remembers what was seen of others, or that nothing explains it.
    fn saw(&mut self, op: &Op<'_>, object: ObjectId, at: Option<usize>) -> Option<usize> {
        let Some(at) = at else {
            self.stuck = Some((op.id, object));
            return None;
        };
        if at != OWN {
            let version = self.chains.get(&object).map_or(Version::Initial, |chain| chain[at].version);
            self.reads.push(ReadFrom { op: op.id, object, version });
        }
        Some(at)
    }

    fn initially(&mut self, predicate: PredicateId) -> &[ObjectId] {
        let (history, predicates) = (self.history, self.predicates);
        self.initially.entry(predicate).or_insert_with(|| {
            let matches = |object: &ObjectId| {
                let cell = Cell::Value(history.initial(*object));
                predicates.matches(predicate, *object, &cell) != Ok(false)
            };
            predicates.domain(predicate).iter().copied().filter(matches).collect()
        })
    }

    fn commit(&mut self, txn: TxnId) {
        let began = began(self.history, txn).unwrap_or(i64::MAX);
        for (object, effects) in std::mem::take(&mut self.own) {
            let cell = self.initial(object);
            let initial = Installed { version: Version::Initial, effects: Vec::new(), cell, began: i64::MIN };
            let mut chain = self.chains.remove(&object).unwrap_or_else(|| vec![initial]);
            let (end, cell) = (self.end(&chain), Cell::Value(ValueId::NULL));
            chain.insert(end, Installed { version: Version::Of(txn), effects, cell, began });
            remake(self.history, &mut chain[end - 1..]);
            self.chains.insert(object, chain);
        }
    }
}

/// When a transaction began to commit.
fn began(history: &History, txn: TxnId) -> Option<i64> {
    Some(history.ops(txn).last()?.at?.before)
}

/// Makes all versions but the first anew, each out of the one before.
fn remake(history: &History, chain: &mut [Installed]) {
    for at in 1..chain.len() {
        let before = chain[at - 1].cell.clone();
        chain[at].cell = chain[at].effects.iter().fold(before, |cell, effect| fold(history, cell, effect));
    }
}

/// How many transactions of unknown outcome may have to appear for one operation.
const HELPERS: usize = 2;

/// How many appends to one list are many.
const LONG: usize = 1_000;

/// The place of what a transaction has made of an object itself.
const OWN: usize = usize::MAX;

fn txn_of(version: Version) -> Option<TxnId> {
    match version {
        Version::Of(txn) => Some(txn),
        Version::Initial => None,
    }
}
