//! From a history to a [`Draft`]: last writes, external reads with their candidates, and what no
//! order can explain.
//!
//! # Algorithm
//! Writers are indexed by (object, value) once; each external read looks its candidates up. What a
//! transaction wrote itself is checked against what it reads afterwards and never becomes a read.
//! Lists tell their version order ([`lists`]).
//!
//! # When it answers Outside
//! SQL statements, and updates that show of a row only part of what they set. What reads cannot say
//! ([`crate::blind`]) is left out, and an order is replayed before it is believed.

mod evidence;
mod lists;
mod rows;

use std::collections::BTreeMap;

pub(crate) use evidence::add_evidence;

use hashbrown::HashSet;
use margay_audit::audit_within;
use margay_history::{Access, History, ObjectId, Op, OpId, OpKind, Outcome, TxnId, ValueId, Version};
use margay_levels::definition::Family;
use margay_levels::{Anomaly, Level};
use margay_verdict::{Budget, Certificate, Exhausted, Finding, LOCAL_ANOMALIES, Predicates, Question, Why};

use crate::index::Writers;
use crate::parts::{Own as OwnPart, Parts};
use crate::points;
use crate::problem::{Draft, DraftRead, Item, Stand};
use crate::scans::Scans;
use crate::trust::BOLD;
use crate::uncommitted;

/// Why there is no draft.
pub(crate) enum Stop {
    /// The history is violated whatever the order.
    Violated(Vec<Finding>),
    /// The engine cannot tell.
    Unknown(Why),
}

impl From<Exhausted> for Stop {
    fn from(limit: Exhausted) -> Self {
        Stop::Unknown(Why::Exhausted(limit, "before the search".to_string()))
    }
}

/// How many findings are reported at most.
const FINDINGS: usize = 8;

pub(crate) fn prepare(history: &History, question: Question, budget: &Budget) -> Result<Draft, Stop> {
    outside(history).map_err(|what| Stop::Unknown(Why::Outside(what)))?;
    let predicates = Predicates::compile(history).map_err(|what| Stop::Unknown(Why::Outside(what.0)))?;
    let predicates = predicates.within(budget);
    if question.level == Level::ReadUncommitted {
        return uncommitted::draft(&predicates).map_err(|stop| certified(history, question, stop, budget));
    }
    let mut dead = HashSet::new();
    loop {
        let mut draft = attempt(&predicates, question, &dead)
            .map_err(|stop| certified(history, question, stop, budget))?;
        let known = dead.len();
        dead.extend(draft.impossible.drain(..));
        if dead.len() == known {
            draft.dead = dead.into_iter().collect();
            // Where a level is not defined by what runs on states, it is the audit that knows what
            // versions are made of.
            if !runs(question.level) && folds(history) {
                draft.bold = true;
                draft.loose.get_or_insert_with(|| BOLD.to_string());
            }
            return Ok(draft);
        }
    }
}

/// Whether a level says that transactions ran on states.
fn runs(level: Level) -> bool {
    matches!(level.family(), Family::Serial | Family::Snapshot)
}

/// How reads stand at a level.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// All at their transactions, in one snapshot.
    Snapshot,
    /// Those of items too, but what a predicate left out may be old.
    Items,
    /// Each for itself: what an operation saw of a row that is written in part at a point of its
    /// own.
    Apart,
}

impl Rule {
    fn of(level: Level) -> Self {
        match level {
            Level::RepeatableRead => Rule::Items,
            _ if points::of(level).weak => Rule::Apart,
            _ => Rule::Snapshot,
        }
    }
}

/// Whether what a write makes of an object may depend on the version before it.
fn folds(history: &History) -> bool {
    !history.tables().is_empty() || history.has_kind(OpKind::Append)
}

/// Findings under names that audit accepts. One operation may be wrong in several ways, and audit
/// has the last word on which; what it cannot see (because it rests on an unknown transaction that
/// cannot have committed) has no certificate.
fn certified(history: &History, question: Question, stop: Stop, budget: &Budget) -> Stop {
    let Stop::Violated(findings) = stop else { return stop };
    let mut kept = Vec::new();
    for mut finding in findings {
        let Certificate::Operations { ops, .. } = &finding.certificate else { continue };
        let names = std::iter::once(finding.anomaly)
            .chain(LOCAL_ANOMALIES)
            .filter(|&name| question.level.forbids(name));
        let proofs = names.map(|anomaly| Certificate::Operations { anomaly, ops: ops.clone() });
        let proof = proofs.into_iter().find(|proof| audit_within(history, question, proof, budget).is_ok());
        if let Some(Certificate::Operations { anomaly, ops }) = proof {
            finding.anomaly = anomaly;
            finding.certificate = Certificate::Operations { anomaly, ops };
            kept.push(finding);
        }
    }
    match (kept.is_empty(), budget.poll()) {
        (false, _) => Stop::Violated(kept),
        (true, Err(limit)) => limit.into(),
        (true, Ok(())) => Stop::Unknown(uncertifiable()),
    }
}

/// The answer when the level is violated because of what an unknown transaction saw.
pub(crate) fn uncertifiable() -> Why {
    let what =
        "the level is violated, but only because a transaction of unknown outcome saw what nothing explains";
    Why::MissingEvidence(format!("{what}, so it cannot have committed; no certificate can say that"))
}

/// What is outside the fragment; or the budget, if it has ended.
fn stopped(predicates: &Predicates<'_>, what: String) -> Stop {
    match predicates.budget().poll() {
        Err(limit) => limit.into(),
        Ok(()) => Stop::Unknown(Why::Outside(what)),
    }
}

/// The draft if those in `dead` did not commit.
fn attempt(predicates: &Predicates<'_>, question: Question, dead: &HashSet<TxnId>) -> Result<Draft, Stop> {
    let history = predicates.history();
    let writers = Writers::of(history, dead);
    let parts = Parts::of(predicates, writers.partial(), |txn| writers.may_commit(txn));
    let parts = parts.map_err(|what| Stop::Unknown(Why::Outside(what)))?;
    let scans = Scans::of(predicates, &writers, &parts).map_err(|what| stopped(predicates, what))?;
    let mut walk = Walk {
        history,
        writers: &writers,
        parts: &parts,
        scans: &scans,
        own_reads: matches!(question.level.family(), Family::CommitOrder(_)),
        overlap: points::of(question.level).overlap,
        rule: Rule::of(question.level),
        depends: question.level != Level::ReadCommitted,
        shown: HashSet::new(),
        point: None,
        draft: Draft {
            columns: parts.columns.clone(),
            loose: writers.blind().why().map(str::to_string),
            ..Draft::default()
        },
        own: BTreeMap::new(),
        own_parts: Vec::new(),
        longest: Vec::new(),
        uncertain: Vec::new(),
        findings: Vec::new(),
    };
    for txn in history.txns().filter(|&t| writers.may_commit(t)) {
        walk.txn(txn).map_err(|what| stopped(predicates, what))?;
    }
    walk.lists();
    if !walk.findings.is_empty() {
        return Err(Stop::Violated(walk.findings));
    }
    add_evidence(history, &mut walk.draft);
    Ok(walk.draft)
}

fn outside(history: &History) -> Result<(), String> {
    if history.has_kind(OpKind::Sql) {
        return Err("SQL statements".to_string());
    }
    Ok(())
}

/// What a transaction did to an object so far.
enum Own {
    Wrote(OpId, ValueId),
    Appended(Vec<ValueId>),
    /// Something to a list of which not everything can be said.
    Odd,
}

struct Walk<'a, 'h> {
    history: &'h History,
    writers: &'a Writers<'a>,
    parts: &'a Parts<'h>,
    scans: &'a Scans<'h>,
    /// Whether what stands before own elements of a list counts as read.
    own_reads: bool,
    /// Whether two writers of one object may overlap in a snapshot: what follows an own write then
    /// stands on the version before it, not on the snapshot.
    overlap: bool,
    rule: Rule,
    /// Whether it matters which version of a row that is written in part was seen, not only what of
    /// it.
    depends: bool,
    /// The objects that the present operation returned, where that matters.
    shown: HashSet<ObjectId>,
    /// The last point that reads have for themselves: of an operation and an object.
    point: Option<(OpId, ObjectId, u32)>,
    draft: Draft,
    own: BTreeMap<ObjectId, Own>,
    /// The same for rows that are written in part.
    own_parts: Vec<(ObjectId, OwnPart)>,
    /// The lists that committed transactions read: `(object, op, value)`.
    longest: Vec<(ObjectId, OpId, ValueId)>,
    /// The same of transactions of unknown outcome.
    uncertain: Vec<(ObjectId, OpId, ValueId)>,
    findings: Vec<Finding>,
}

impl<'h> Walk<'_, 'h> {
    fn txn(&mut self, txn: TxnId) -> Result<(), String> {
        self.own.clear();
        self.own_parts.clear();
        for op in self.history.ops(txn) {
            self.poll()?;
            if self.rule == Rule::Items {
                self.shown.clear();
                self.shown.extend(op.accesses.iter().map(|access| access.object));
            }
            match op.kind {
                OpKind::Read => {
                    op.accesses.iter().for_each(|&access| self.read(txn, op.id, access));
                    self.read_recorded(txn, op.id);
                }
                OpKind::Write => self.writes(op)?,
                OpKind::Append => op.accesses.iter().for_each(|access| self.append(*access)),
                OpKind::Scan => self.scan(txn, op)?,
                OpKind::Update => {
                    self.scan(txn, op)?;
                    self.writes(op)?;
                }
                _ => {}
            }
        }
        self.draft.writes.extend(self.own.keys().map(|&object| (txn, Item::from(object))));
        self.draft.writes.extend(self.parts.written(&self.own_parts).map(|item| (txn, item)));
        Ok(())
    }

    fn poll(&self) -> Result<(), String> {
        self.scans.predicates().budget().poll().map_err(|limit| limit.to_string())
    }

    fn writes(&mut self, op: Op<'_>) -> Result<(), String> {
        let blind = self.writers.blind();
        let plain = |a: &&Access| !self.parts.has(a.object) && !blind.has(self.history, a.object);
        for &access in op.accesses.iter().filter(plain).collect::<Vec<_>>() {
            self.write(op.id, access);
        }
        self.parts.apply(&op, &mut self.own_parts)
    }

    fn write(&mut self, op: OpId, access: Access) {
        if self.writers.blind().is_odd(access.object) {
            return self.write_odd(access.object);
        }
        self.own.insert(access.object, Own::Wrote(op, access.value));
    }

    fn write_odd(&mut self, object: ObjectId) {
        self.own.entry(object).or_insert(Own::Odd);
    }

    fn append(&mut self, access: Access) {
        let blind = self.writers.blind();
        if blind.is_odd(access.object) || blind.has(self.history, access.object) {
            return if blind.is_odd(access.object) {
                self.write_odd(access.object)
            };
        }
        match self.own.entry(access.object).or_insert_with(|| Own::Appended(Vec::new())) {
            Own::Appended(elements) => elements.push(access.value),
            own => *own = Own::Odd,
        }
    }

    fn own(&self, object: ObjectId) -> Option<&Own> {
        self.own.get(&object)
    }

    fn read(&mut self, txn: TxnId, op: OpId, access: Access) {
        let Access { object, value } = access;
        let blind = self.writers.blind();
        if blind.has(self.history, object) {
            return;
        }
        if value == ValueId::UNKNOWN {
            return self.read_unseen(txn, op, object);
        }
        if blind.is_odd(object) {
            if self.own(object).is_none() {
                let first = self.draft.candidates.len() as u32;
                blind.candidates(self.history, object, value, txn, &mut self.draft.candidates);
                self.finish_read(txn, op, object, first);
            }
            return;
        }
        if self.writers.is_list(object) {
            return self.read_list(txn, op, access);
        }
        if self.parts.has(object) {
            return self.read_row(txn, op, object, value);
        }
        if let Some(&Own::Wrote(writer, written)) = self.own(object) {
            if !self.writers.matches(object, value, written) {
                self.find(Anomaly::Internal, txn, vec![op, writer]);
            }
            return;
        }
        let first = self.draft.candidates.len() as u32;
        self.writers.candidates(object, value, txn, &mut self.draft.candidates);
        self.finish_read(txn, op, object, first);
    }

    /// What evidence says that an operation saw counts, whether its client saw it or not.
    fn read_recorded(&mut self, txn: TxnId, op: OpId) {
        let set = self.history.evidence().version_set(op);
        set.iter().flat_map(|set| &set.versions).for_each(|&(object, _)| self.read_unseen(txn, op, object));
    }

    /// A read whose result is not known may still have evidence of the version it saw.
    fn read_unseen(&mut self, txn: TxnId, op: OpId, object: ObjectId) {
        if self.writers.blind().has(self.history, object) {
            return;
        }
        let Some(version) = self.recorded(op, object) else { return };
        if self.has_written(object) {
            // After its own write a transaction sees its own version.
            if version != Version::Of(txn) {
                self.find(Anomaly::Internal, txn, vec![op]);
            }
        } else {
            let first = self.draft.candidates.len() as u32;
            let alive = match version {
                Version::Initial => true,
                Version::Of(writer) => writer != txn && self.writers.may_commit(writer),
            };
            self.draft.candidates.extend(alive.then_some(version));
            self.finish_read(txn, op, object, first);
        }
    }

    /// The version that evidence says an operation saw.
    fn recorded(&self, op: OpId, object: ObjectId) -> Option<Version> {
        let set = self.history.evidence().version_set(op)?;
        set.versions.iter().find(|(o, _)| *o == object).map(|&(_, version)| version)
    }

    /// Makes a read of the candidates since `first`. Without any, nothing can explain it: the
    /// reason is looked up.
    fn finish_read(&mut self, txn: TxnId, op: OpId, object: ObjectId, first: u32) {
        // Of what it wrote itself, evidence names its own version, and this read is of the one
        // before.
        if let Some(version) = self.recorded(op, object).filter(|_| !self.has_written(object)) {
            let kept = self.draft.candidates[first as usize..].contains(&version);
            if !kept && self.draft.candidates.len() > first as usize {
                // The value is that of a version, only not of the recorded one.
                self.draft.candidates.truncate(first as usize);
                return self.find(Anomaly::ResultMismatch, txn, vec![op]);
            }
            self.draft.candidates.truncate(first as usize);
            self.draft.candidates.extend(kept.then_some(version));
        }
        let (writers, history) = (self.writers, self.history);
        self.add_read(txn, op, object.into(), first, |op| writers.why_unreadable(history, op, object));
    }

    fn add_read(
        &mut self,
        txn: TxnId,
        op: OpId,
        item: Item,
        first: u32,
        why: impl FnOnce(OpId) -> (Anomaly, Vec<OpId>),
    ) {
        let last = self.draft.candidates.len() as u32;
        if self.is_repeated(txn, item, first) {
            self.draft.candidates.truncate(first as usize);
        } else if first < last {
            let stand = self.stand(op, item);
            self.draft.reads.push(DraftRead { txn, op, item, stand, candidates: first..last });
        } else {
            let (anomaly, ops) = why(op);
            self.find(anomaly, txn, ops);
        }
    }

    /// Where a read stands.
    fn stand(&mut self, op: OpId, item: Item) -> Stand {
        if self.rule == Rule::Snapshot {
            return Stand::Firm;
        }
        let object = self.parts.object(self.history, item);
        match self.rule {
            Rule::Items if self.has_written(object) || self.shown.contains(&object) => Stand::Firm,
            _ if self.has_written(object) && (self.parts.has(object) || !self.own_reads) => Stand::Own,
            Rule::Apart if self.parts.has(object) => Stand::Point(self.point(op, object)),
            _ => Stand::Free,
        }
    }

    /// The point of what an operation saw of an object.
    fn point(&mut self, op: OpId, object: ObjectId) -> u32 {
        match self.point {
            Some((last, same, number)) if (last, same) == (op, object) => number,
            before => {
                let number = before.map_or(0, |(_, _, number)| number + 1);
                self.point = Some((op, object, number));
                number
            }
        }
    }

    /// Whether the transaction has written an object so far.
    fn has_written(&self, object: ObjectId) -> bool {
        self.own(object).is_some() || self.own_parts.iter().any(|(o, _)| *o == object)
    }

    /// Whether the transaction has seen the same of this item before: in one snapshot, once is
    /// enough. Elsewhere a certificate must say what both saw.
    fn is_repeated(&self, txn: TxnId, item: Item, first: u32) -> bool {
        let (earlier, candidates) = self.draft.candidates.split_at(first as usize);
        let own = self.draft.reads.iter().rev().take_while(|read| read.txn == txn);
        let same = |read: &DraftRead| {
            let range = read.candidates.start as usize..read.candidates.end as usize;
            read.item == item && earlier[range] == *candidates
        };
        self.rule == Rule::Snapshot && !candidates.is_empty() && own.into_iter().any(same)
    }

    fn scan(&mut self, txn: TxnId, op: Op<'h>) -> Result<(), String> {
        if op.shows_twice().is_some() {
            self.find(Anomaly::ResultMismatch, txn, vec![op.id]);
            return Ok(());
        }
        if self.scans.table(&op).is_some_and(|table| self.writers.blind().has_table(table)) {
            return Ok(());
        }
        for (object, predicate) in self.scans.part_reads(&op, self.parts, &self.own_parts) {
            self.poll()?;
            self.scan_row(txn, op, object, predicate);
        }
        let mut wrong = Vec::new();
        for (object, own) in self.own.iter().filter(|(object, _)| self.scans.asks_about(&op, **object)) {
            if let Own::Wrote(writer, written) = own
                && !self.scans.shows_own(&op, *object, *written)?
            {
                wrong.push(*writer);
            }
        }
        wrong.into_iter().for_each(|writer| self.find(Anomaly::Internal, txn, vec![op.id, writer]));
        for read in self.scans.reads(&op, self.writers)? {
            self.poll()?;
            if self.own(read.object).is_some() {
                continue;
            }
            let first = self.draft.candidates.len() as u32;
            let others = read.candidates.iter().filter(|v| **v != Version::Of(txn));
            self.draft.candidates.extend(others);
            self.finish_read(txn, op.id, read.object, first);
        }
        self.read_recorded(txn, op.id);
        Ok(())
    }

    fn find(&mut self, anomaly: Anomaly, txn: TxnId, ops: Vec<OpId>) {
        if self.history.outcome(txn) == Outcome::Unknown {
            return self.draft.impossible.push(txn);
        }
        if self.findings.len() == FINDINGS {
            return;
        }
        let mut txns: Vec<TxnId> = ops.iter().map(|&op| self.history.txn_of(op)).collect();
        txns.push(txn);
        txns.sort_unstable();
        txns.dedup();
        self.findings.push(Finding { anomaly, txns, certificate: Certificate::Operations { anomaly, ops } });
    }
}
