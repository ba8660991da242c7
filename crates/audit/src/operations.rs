//! Operations that cannot be explained, whatever the order.
//!
//! Two anomalies are illegal at every level: a value that nobody wrote, and an element seen more
//! often than it was appended. From `read-committed` up every observation of a committed
//! transaction must be of a committed, final version (or of its own writes): if no version is left,
//! the level is violated, and the name says why none is.

use hashbrown::{HashMap, HashSet};
use margay_history::{History, NameId, ObjectId, Op, OpId, OpKind, Outcome, TxnId, Value, ValueId};
use margay_levels::definition::Family;
use margay_levels::{Anomaly, Level};
use margay_verdict::{Budget, Predicates, Question};

use super::bank::Bank;
use super::candidates::{Candidates, PossibleSight};
use super::linear::unlinearizable;
use super::lists::{accesses, appenders, duplicate, may_commit};
use super::written::Written;
use super::{Rejected, recorded, reject, summary};

pub(super) fn audit(
    history: &History,
    question: Question,
    (anomaly, ops): (Anomaly, &[OpId]),
    budget: &Budget,
) -> Result<(), Rejected> {
    if ops.iter().any(|op| op.index() >= history.op_count()) {
        return reject("the certificate names an operation that the history does not have");
    }
    let Some(&first) = ops.first() else { return reject("the certificate names no operation") };
    let txn = history.txn_of(first);
    if history.outcome(txn) != Outcome::Committed {
        return reject(format!(
            "{} did not certainly commit, so nothing is asked of what it saw",
            history.show_txn(txn)
        ));
    }
    let predicates = Predicates::lenient(history).within(budget);
    let case = Case { history, predicates: &predicates, op: history.op(first) };
    let any_level = matches!(anomaly, Anomaly::GarbageRead | Anomaly::DuplicateElements);
    if question.level == Level::ReadUncommitted && !any_level {
        return reject(format!("read-uncommitted allows {anomaly}"));
    }
    let shown = match anomaly {
        Anomaly::GarbageRead => case.garbage(),
        Anomaly::DuplicateElements => case.duplicate(),
        Anomaly::G1a | Anomaly::DirtyUpdate => case.aborted(),
        Anomaly::G1b => {
            case.no_version(|object| !case.own_later_write(object) && case.intermediate(object))?
        }
        Anomaly::FutureRead => {
            let own = |object| case.own_later_write(object);
            case.no_version(own)? || case.internal(own)?
        }
        Anomaly::LostUpdate => case.garbage() && case.lost_update(ops),
        Anomaly::PredicateReadMiss => case.no_version(|object| case.left_out(object))?,
        Anomaly::Internal => case.internal(|_| true)?,
        Anomaly::ResultMismatch if case.op.kind == OpKind::Sql => case.wrong_summary(question)?,
        Anomaly::ResultMismatch => case.mismatch() || case.no_version(|object| !case.left_out(object))?,
        Anomaly::Pl3CycleExists if ops.len() == 2 => case.wrong_total(question, ops),
        Anomaly::PlSsCycleExists => case.no_order(question),
        Anomaly::IncompatibleOrder => case.misordered() || case.incompatible(ops.get(1).copied()),
        _ => return reject(format!("{anomaly} is not shown by single operations")),
    };
    match shown {
        true => Ok(()),
        false => reject(format!("the operation of {} does not show {anomaly}", history.show_txn(txn))),
    }
}

struct Case<'p> {
    history: &'p History,
    predicates: &'p Predicates<'p>,
    op: Op<'p>,
}

impl<'p> Case<'p> {
    fn reads(&self) -> bool {
        matches!(self.op.kind, OpKind::Read | OpKind::Scan)
    }

    fn touches(&self, object: ObjectId) -> bool {
        self.op.accesses.iter().any(|a| a.object == object)
    }

    /// It saw something that nobody wrote.
    fn garbage(&self) -> bool {
        let written = Written::of(self.predicates, self.history.txns(), |o| self.touches(o));
        self.reads() && self.op.accesses.iter().any(|a| written.missing(a.object, a.value).is_some())
    }

    /// It saw something that only aborted transactions wrote.
    fn aborted(&self) -> bool {
        let live = self.history.txns().filter(|&t| may_commit(self.history, t));
        let written = Written::of(self.predicates, live, |o| self.touches(o));
        self.reads()
            && !self.garbage()
            && self.op.accesses.iter().any(|a| written.missing(a.object, a.value).is_some())
    }

    fn duplicate(&self) -> bool {
        let all = accesses(self.history, |o| self.touches(o));
        let twice = |a: &margay_history::Access| duplicate(self.history, a.object, &all[&a.object], a.value);
        self.reads() && self.op.accesses.iter().any(|a| twice(a).is_some())
    }

    /// The objects that the operation looks at, by itself or by what evidence says.
    fn objects(&self) -> Vec<ObjectId> {
        let recorded = self.history.evidence().version_set(self.op.id);
        let recorded = recorded.into_iter().flat_map(|set| set.versions.iter().map(|seen| seen.0));
        let scan = self.history.scan(self.op.id).map(|scan| scan.predicate);
        let update = self.history.update(self.op.id).map(|update| update.predicate);
        let summary = self.predicates.summary(self.op.id).map(|asked| asked.predicate);
        let mut objects: Vec<ObjectId> = match scan.or(update).or(summary) {
            Some(predicate) => self.predicates.domain(predicate).to_vec(),
            None => self.op.accesses.iter().map(|a| a.object).collect(),
        };
        objects.extend(recorded);
        objects.sort_unstable();
        objects.dedup();
        objects
    }

    fn candidates(&self) -> Candidates<'p> {
        let objects = self.objects();
        let objects: HashSet<ObjectId> = objects.into_iter().collect();
        Candidates::new(self.predicates, |o| objects.contains(&o))
    }

    /// Of some object that `fits` no version can be what it saw.
    fn no_version(&self, fits: impl Fn(ObjectId) -> bool) -> Result<bool, Rejected> {
        let candidates = self.candidates();
        let mut refused = None;
        for object in self.objects().into_iter().filter(|&o| fits(o)) {
            self.predicates.budget().poll()?;
            match candidates.sight(self.op.id, object) {
                Ok(PossibleSight::External(versions)) if versions.is_empty() => return Ok(true),
                Ok(_) if candidates.unexplained_column(&self.op, object)? => return Ok(true),
                Ok(_) => {}
                Err(why) => refused = Some(why),
            }
        }
        refused.map_or(Ok(false), Err)
    }

    /// Of some object that `fits` the transaction's own writes do not allow what it saw.
    fn internal(&self, fits: impl Fn(ObjectId) -> bool) -> Result<bool, Rejected> {
        let candidates = self.candidates();
        for object in self.objects().into_iter().filter(|&o| fits(o)) {
            self.predicates.budget().poll()?;
            if candidates.sight(self.op.id, object)? == PossibleSight::Internal(false) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Another committed transaction read the same value of an object, and both wrote it
    /// afterwards. The version they share is one that nobody wrote, or no order of versions could
    /// tell more.
    fn lost_update(&self, ops: &[OpId]) -> bool {
        let &[first, second] = ops else { return false };
        let (history, other) = (self.history, self.history.op(second));
        let txns = [history.txn_of(first), history.txn_of(second)];
        let overwrites = |read: OpId, object: ObjectId| {
            let writes = |op: &Op<'_>| op.kind.writes() && op.accesses.iter().any(|a| a.object == object);
            history.ops(history.txn_of(read)).find(writes).is_some_and(|write| write.id > read)
        };
        let shared = |seen: &margay_history::Access| {
            other.accesses.iter().any(|a| (a.object, a.value) == (seen.object, seen.value))
                && overwrites(first, seen.object)
                && overwrites(second, seen.object)
        };
        txns[0] != txns[1]
            && history.outcome(txns[1]) == Outcome::Committed
            && self.reads()
            && matches!(other.kind, OpKind::Read | OpKind::Scan)
            && self.op.accesses.iter().any(shared)
    }

    fn left_out(&self, object: ObjectId) -> bool {
        !self.touches(object)
    }

    /// Whether it saw something of the object that another transaction wrote and then replaced.
    fn intermediate(&self, object: ObjectId) -> bool {
        let reader = self.history.txn_of(self.op.id);
        let seen: Vec<Part> = self.accesses_of(object).flat_map(|a| parts(self.history, a.value)).collect();
        let others = self.history.txns().filter(|&t| t != reader && may_commit(self.history, t));
        others.into_iter().any(|txn| {
            let (replaced, left) = written_by(self.history, txn, object);
            replaced.iter().any(|part| seen.contains(part)) && left.iter().any(|part| !seen.contains(part))
        })
    }

    fn accesses_of(&self, object: ObjectId) -> impl Iterator<Item = &'p margay_history::Access> {
        self.op.accesses.iter().filter(move |a| a.object == object)
    }

    fn own_later_write(&self, object: ObjectId) -> bool {
        let own = self.history.ops(self.history.txn_of(self.op.id));
        let mut later = own.filter(|op| op.id > self.op.id && op.kind.writes());
        later.any(|op| op.accesses.iter().any(|a| a.object == object && self.shows(object, op.kind, a.value)))
    }

    /// Whether what it saw of the object has the value in it.
    fn shows(&self, object: ObjectId, kind: OpKind, value: ValueId) -> bool {
        let mut seen = self.op.accesses.iter().filter(|a| a.object == object);
        seen.any(|a| match self.history.value(a.value) {
            Value::List(items) if kind == OpKind::Append => items.contains(&value),
            _ => a.value == value,
        })
    }

    fn mismatch(&self) -> bool {
        if self.op.shows_twice().is_some() {
            return true;
        }
        let candidates = self.candidates();
        self.objects().iter().any(|&object| candidates.mismatches(&self.op, object))
    }

    /// No versions that it can have seen give the answer; or, where timestamps fix them all, those
    /// do not.
    fn wrong_summary(&self, question: Question) -> Result<bool, Rejected> {
        let Some(asked) = self.predicates.summary(self.op.id) else { return Ok(false) };
        if summary::impossible(self.predicates, &self.op, asked, &self.candidates()) {
            return Ok(true);
        }
        recorded::differs(self.predicates, question, self.op.id)
    }

    /// Two reads of a whole bank that differ in its total.
    fn wrong_total(&self, question: Question, ops: &[OpId]) -> bool {
        let bank = Bank::of(self.history).filter(|_| question.level.family() == Family::Serial);
        let totals = bank.map(|bank| (bank.total(ops[0]), bank.total(ops[1])));
        matches!(totals, Some((Some(a), Some(b))) if a != b)
    }

    /// Whatever the order of the transactions on an object of its, it does not explain what they
    /// saw and respect real time.
    fn no_order(&self, question: Question) -> bool {
        let serial = question.level.family() == Family::Serial && question.uses_real_time();
        let budget = self.predicates.budget();
        serial && self.op.accesses.iter().any(|a| unlinearizable(self.history, a.object, budget).is_some())
    }

    /// Two committed reads of a list that was only appended to, neither the beginning of the other.
    fn incompatible(&self, other: Option<OpId>) -> bool {
        let Some(other) = other.map(|op| self.history.op(op)) else { return false };
        let committed = self.history.outcome(self.history.txn_of(other.id)) == Outcome::Committed;
        let reads = self.reads() && matches!(other.kind, OpKind::Read | OpKind::Scan);
        let pairs = self.op.accesses.iter().flat_map(|a| other.accesses.iter().map(move |b| (a, b)));
        let mut apart = pairs.filter(|(a, b)| a.object == b.object).filter(|(a, b)| {
            match (self.history.value(a.value), self.history.value(b.value)) {
                (Value::List(a), Value::List(b)) => !a.starts_with(b) && !b.starts_with(a),
                _ => false,
            }
        });
        committed && reads && apart.any(|(a, _)| self.only_grows(a.object))
    }

    /// A list that was only appended to, with two elements of one transaction in another order than
    /// it appended them.
    fn misordered(&self) -> bool {
        let history = self.history;
        let wrong = |a: &margay_history::Access| {
            let Value::List(seen) = history.value(a.value) else { return false };
            let all = accesses(history, |o| o == a.object);
            let appenders = appenders(history, a.object, &all[&a.object], |t| may_commit(history, t));
            let places: HashMap<ValueId, usize> = seen.iter().enumerate().map(|(i, &e)| (e, i)).collect();
            let mut last: HashMap<TxnId, usize> = HashMap::new();
            // In the order in which each transaction appended; what an aborted one appended is not
            // the other's.
            let appended = all[&a.object].iter().filter(|(op, _)| history.op(*op).kind == OpKind::Append);
            let own = appended.filter(|(op, element)| appenders.get(element) == Some(&history.txn_of(*op)));
            let mut seen = own.filter_map(|(op, element)| Some((history.txn_of(*op), *places.get(element)?)));
            self.only_grows(a.object)
                && seen.any(|(txn, place)| last.insert(txn, place).is_some_and(|before| before > place))
        };
        self.reads() && self.op.accesses.iter().any(wrong)
    }

    fn only_grows(&self, object: ObjectId) -> bool {
        let all = accesses(self.history, |o| o == object);
        let opaque = Candidates::new(self.predicates, |o| o == object).known(object).is_err();
        !opaque && !appenders(self.history, object, &all[&object], |t| may_commit(self.history, t)).is_empty()
    }
}

/// A column of a row with its value; a whole value, or an element of a list, has no column.
type Part = (Option<NameId>, ValueId);

fn parts(history: &History, value: ValueId) -> Vec<Part> {
    match history.value(value) {
        Value::Row(columns) => columns.iter().map(|&(column, value)| (Some(column), value)).collect(),
        Value::List(items) => items.iter().map(|&item| (None, item)).collect(),
        _ => vec![(None, value)],
    }
}

/// What a transaction wrote to an object and then replaced, and what it left there. Of the elements
/// that it appended to a list, all but the last count as replaced: each made a version that the
/// next one made into another.
fn written_by(history: &History, txn: TxnId, object: ObjectId) -> (Vec<Part>, Vec<Part>) {
    let (mut replaced, mut left) = (Vec::new(), Vec::new());
    for op in history.ops(txn).filter(|op| op.kind.writes()) {
        for access in op.accesses.iter().filter(|a| a.object == object) {
            let new = parts(history, access.value);
            let stays = |old: &Part| {
                new.contains(old) || old.0.is_some() && new.iter().all(|n| n.0 != old.0 && n.0.is_some())
            };
            let (kept, gone): (Vec<Part>, Vec<Part>) = left.into_iter().partition(stays);
            replaced.extend(gone);
            left = new.iter().copied().chain(kept.into_iter().filter(|old| !new.contains(old))).collect();
        }
    }
    replaced.retain(|part| !left.contains(part));
    (replaced, left)
}
