//! Findings that a database is known for.
//!
//! PostgreSQL at REPEATABLE READ lets a transaction insert a row whose deletion its snapshot does
//! not see. For PostgreSQL the new row is another one, so its rule about concurrent updates says
//! nothing; in a history it is one object, written by transactions that overlap. Whoever reads of
//! such a finding should know that it is no news.
//!
//! # Invariants
//! Nothing is suppressed: this is a sentence beside the finding. It is said only if the finding
//! rests on that very insertion: its version comes directly behind one that is a deletion, by the
//! recorded version order or by the order of commits, which is that of versions in PostgreSQL,
//! because writers of a row wait for each other's end.

use std::collections::{BTreeMap, HashSet};

use margay_audit::audit;
use margay_history::{History, ObjectId, Op, OpId, OpKind, Outcome, TxnId, Value, ValueId, Version};
use margay_levels::Level;
use margay_levels::profile::{Deviation, Found, INSERT_OVER_UNSEEN_DELETION};
use margay_verdict::{Broken, Certificate, Finding, Lemma, Question, Reason};

/// Which deviation of the history's database a finding is, and what happened in a sentence or two.
pub(crate) fn known(history: &History, finding: &Finding) -> Option<(&'static Deviation, String)> {
    let deviation = deviation(history)?;
    let insertion = DeviationFinder { history }.insertion(&finding.certificate)?;
    Some((deviation, sentence(history, insertion)))
}

/// The deviation, if the history's database has it at the level that was asked for.
fn deviation(history: &History) -> Option<&'static Deviation> {
    let header = history.header();
    let name = format!("{}/{}", header.dbms.as_deref()?, header.level.as_deref()?);
    let Found(profile) = name.parse().ok()?;
    profile.deviations.iter().find(|one| **one == INSERT_OVER_UNSEEN_DELETION)
}

fn sentence(history: &History, (deleter, inserter, object): Insertion) -> String {
    let (name, by) = (history.show_object(object), history.show_txn(deleter));
    format!(
        "PostgreSQL is known to allow this at REPEATABLE READ: {} inserted {name} after {by} had deleted it, which its snapshot does not see. \
         For PostgreSQL that is another row, to which its rule about concurrent updates does not apply. By the definition of the level it is a violation.",
        history.show_txn(inserter)
    )
}

/// The rows that a deviation of the history's database may concern.
pub struct Concerned {
    /// The deviation.
    pub deviation: &'static Deviation,
    /// What happened to the first of the rows, and which rows there are.
    pub told: String,
    /// The rows.
    pub rows: HashSet<ObjectId>,
}

/// The rows that somebody may have inserted over a deletion that was not seen, if the history's
/// database is known to allow that. All of them: what is left of the history without these rows has
/// nothing to do with the deviation.
#[must_use]
pub fn concerned(history: &History) -> Option<Concerned> {
    let deviation = deviation(history)?;
    let known = DeviationFinder { history };
    let insertions: Vec<Insertion> =
        known.writers().into_iter().filter_map(|(object, txns)| known.may_be_over(object, &txns)).collect();
    let first = *insertions.first()?;
    let mut names: Vec<String> =
        insertions.iter().take(NAMED).map(|one| history.show_object(one.2)).collect();
    if insertions.len() > NAMED {
        names.push(format!("{} more", insertions.len() - NAMED));
    }
    let told = format!(
        "{} Rows of which that may be true were left out; what is left holds: {}.",
        sentence(history, first),
        names.join(", ")
    );
    Some(Concerned { deviation, told, rows: insertions.into_iter().map(|(_, _, object)| object).collect() })
}

/// Whether a deviation of the history's database may concern its SQL statements: only if some of
/// them delete.
#[must_use]
pub fn may_concern_statements(history: &History) -> bool {
    let mut ops = history.txns().flat_map(|txn| history.ops(txn));
    let deletes = |text: &str| text.to_ascii_lowercase().contains("delete");
    deviation(history).is_some()
        && ops.any(|op| history.statement(op.id).is_some_and(|statement| deletes(&statement.text)))
}

/// So many of the concerned rows are named.
const NAMED: usize = 8;

/// Who deleted, who inserted, and what.
type Insertion = (TxnId, TxnId, ObjectId);

struct DeviationFinder<'h> {
    history: &'h History,
}

impl DeviationFinder<'_> {
    /// Who writes each row of a table.
    fn writers(&self) -> BTreeMap<ObjectId, Vec<TxnId>> {
        let mut writers: BTreeMap<ObjectId, Vec<TxnId>> = BTreeMap::new();
        for txn in self.history.txns().filter(|&txn| self.is_live(txn)) {
            for op in self.history.ops(txn).filter(|op| op.kind.writes()) {
                for access in op.accesses {
                    let of = writers.entry(access.object).or_default();
                    if of.last() != Some(&txn) {
                        of.push(txn);
                    }
                }
            }
        }
        writers.retain(|&object, _| self.history.object(object).table.is_some());
        writers
    }

    /// An insertion over a deletion that overlaps it, unless times say that the deletion came
    /// later.
    fn may_be_over(&self, object: ObjectId, txns: &[TxnId]) -> Option<Insertion> {
        let made = |txn: TxnId| {
            let writes = self.writes(txn, object);
            Some((writes.first()?.1, writes.last()?.1))
        };
        let (mut deleters, mut inserters) = (Vec::new(), Vec::new());
        for &txn in txns {
            let (first, last) = made(txn)?;
            if last == ValueId::NULL {
                deleters.push(txn);
            }
            if first != ValueId::NULL {
                inserters.push(txn);
            }
        }
        let mut pairs =
            deleters.iter().flat_map(|&deleter| inserters.iter().map(move |&other| (deleter, other)));
        let (deleter, inserter) = pairs.find(|&(deleter, inserter)| {
            deleter != inserter
                && self.overlap(deleter, inserter)
                && self.overlap(inserter, deleter)
                && self.comes_first(deleter, inserter, object) != Some(false)
        })?;
        Some((deleter, inserter, object))
    }

    fn insertion(&self, certificate: &Certificate) -> Option<Insertion> {
        match certificate {
            Certificate::Refutation(lemmas) => self.in_cycles(lemmas),
            Certificate::Operations { ops, .. } => self.in_read(*ops.first()?),
            Certificate::Intervals(breach) => match &breach.broken {
                Broken::Read { op } => self.in_read(*op),
                Broken::Updates { object, txns } => txns.iter().find_map(|&txn| self.over(txn, *object)),
                _ => None,
            },
            _ => None,
        }
    }

    /// One such cycle is enough if the others alone leave a possibility, whatever the level.
    fn in_cycles(&self, lemmas: &[Lemma]) -> Option<Insertion> {
        let (known, others): (Vec<&Lemma>, Vec<&Lemma>) =
            lemmas.iter().partition(|lemma| self.in_cycle(lemma).is_some());
        let insertion = self.in_cycle(known.first()?)?;
        let others = Certificate::Refutation(others.into_iter().cloned().collect());
        let question = Question::new(Level::StrictSerializable);
        audit(self.history, question, &others).is_err().then_some(insertion)
    }

    /// That a writer began after another had committed is what PostgreSQL does not promise here; a
    /// cycle needs that where an anti-dependency follows.
    fn in_cycle(&self, lemma: &Lemma) -> Option<Insertion> {
        let edges = || lemma.edges.iter().zip(lemma.edges.iter().cycle().skip(1));
        edges().find_map(|(edge, next)| match (&edge.reason, &next.reason) {
            (Reason::Write { object }, Reason::AntiRead { .. } | Reason::AntiReadColumn { .. }) => {
                self.over(edge.to, *object)
            }
            _ => None,
        })
    }

    /// An operation that saw an older version than the one that its own transaction had inserted:
    /// both rows are there.
    fn in_read(&self, op: OpId) -> Option<Insertion> {
        let txn = self.history.txn_of(op);
        let accesses = self.history.op(op).accesses.iter().filter(|seen| seen.value != ValueId::UNKNOWN);
        let mut old = accesses.filter_map(|seen| {
            let own = self.writes(txn, seen.object).into_iter().rfind(|(id, _)| *id < op)?;
            let insertion = self.over(txn, seen.object)?;
            let older = !self.shows(seen.value, own.1) && self.is_older(insertion, seen.value);
            older.then_some(insertion)
        });
        old.next()
    }

    /// Whether somebody else's version, or the initial one, may be what was seen.
    fn is_older(&self, (_, inserter, object): Insertion, seen: ValueId) -> bool {
        let others = self.history.txns().filter(|&txn| txn != inserter && self.is_live(txn));
        let mut written = others.filter_map(|txn| self.writes(txn, object).last().map(|w| w.1));
        self.shows(seen, self.history.initial(object)) || written.any(|value| self.shows(seen, value))
    }

    /// Whether what was seen has all that was written.
    fn shows(&self, seen: ValueId, written: ValueId) -> bool {
        match (self.history.value(seen), self.history.value(written)) {
            (Value::Row(seen), Value::Row(written)) => written.iter().all(|column| seen.contains(column)),
            _ => seen == written,
        }
    }

    /// The deletion that a transaction inserted the object over, if its version comes directly
    /// behind one.
    fn over(&self, inserter: TxnId, object: ObjectId) -> Option<Insertion> {
        self.history.object(object).table?;
        let (_, first) = *self.writes(inserter, object).first()?;
        let deleter =
            self.recorded_before(inserter, object).or_else(|| self.committed_before(inserter, object))?;
        let (_, last) = *self.writes(deleter, object).last()?;
        (first != ValueId::NULL && last == ValueId::NULL && self.overlap(deleter, inserter))
            .then_some((deleter, inserter, object))
    }

    /// Whether the second one had begun when the first one committed. Who has no interval may have.
    fn overlap(&self, first: TxnId, second: TxnId) -> bool {
        !self.history.precedes(first, second)
    }

    fn recorded_before(&self, txn: TxnId, object: ObjectId) -> Option<TxnId> {
        let order = self.history.evidence().version_orders.iter().find(|order| order.object == object)?;
        let place = order.versions.iter().position(|&version| version == Version::Of(txn))?;
        match order.versions[place.checked_sub(1)?] {
            Version::Of(before) => Some(before),
            Version::Initial => None,
        }
    }

    /// The writer whose version comes directly before another's, if times leave no doubt.
    fn committed_before(&self, txn: TxnId, object: ObjectId) -> Option<TxnId> {
        let others = self.history.txns().filter(|&other| other != txn && self.is_live(other));
        let mut before = Vec::new();
        for other in others.filter(|&other| !self.writes(other, object).is_empty()) {
            if self.comes_first(other, txn, object)? {
                before.push(other);
            }
        }
        let is_last = |last: &TxnId| {
            before.iter().all(|&other| other == *last || self.comes_first(other, *last, object) == Some(true))
        };
        before.iter().copied().find(is_last)
    }

    /// Whether one writer of an object comes before another. Their commits tell if they do not
    /// overlap. Otherwise locks tell: who has written before the other asked to commit did not wait
    /// for that, so it comes first.
    fn comes_first(&self, one: TxnId, other: TxnId, object: ObjectId) -> Option<bool> {
        let commit = |txn: TxnId| self.history.op(OpId(self.history.op_range(txn).end.checked_sub(1)?)).at;
        let write = |txn: TxnId| self.history.op(self.writes(txn, object).first()?.0).at;
        let (one_commit, other_commit) = (commit(one)?, commit(other)?);
        let (one_write, other_write) = (write(one)?, write(other)?);
        match (one_commit.after <= other_commit.before, other_commit.after <= one_commit.before) {
            (true, _) => return Some(true),
            (_, true) => return Some(false),
            (false, false) => {}
        }
        match (one_write.after <= other_commit.before, other_write.after <= one_commit.before) {
            (true, false) => Some(true),
            (false, true) => Some(false),
            _ => None,
        }
    }

    fn is_live(&self, txn: TxnId) -> bool {
        self.history.outcome(txn) != Outcome::Aborted
    }

    /// What a transaction writes to an object, in order.
    fn writes(&self, txn: TxnId, object: ObjectId) -> Vec<(OpId, ValueId)> {
        let made = |op: &Op<'_>, value| {
            let deletes = self.history.update(op.id).is_some_and(|update| update.set.is_none());
            if op.kind == OpKind::Update && deletes { ValueId::NULL } else { value }
        };
        let writes = self.history.ops(txn).filter(|op| op.kind.writes());
        let accesses = writes.flat_map(|op| op.accesses.iter().map(move |access| (op, access)));
        accesses.filter(|(_, a)| a.object == object).map(|(op, a)| (op.id, made(&op, a.value))).collect()
    }
}
