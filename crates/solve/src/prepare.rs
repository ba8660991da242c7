//! From a history to a [`Draft`]: last writes, external reads with their candidates, and what no order can explain.
//!
//! # Algorithm
//! Writers are indexed by (object, value) once; each external read looks its candidates up. What a transaction wrote itself is checked
//! against what it reads afterwards and never becomes a read. Lists tell their version order: the longest read of a list is the order of its
//! elements, and whatever nobody saw comes after it.
//!
//! # When it answers Outside
//! SQL statements, rows that are written in part, objects that are both written and appended to, elements appended twice, and timestamps as
//! evidence of snapshots or of a serialization order.

use hashbrown::HashSet;
use margay_history::{Access, History, ObjectId, Op, OpId, OpKind, Outcome, TxnId, Value, ValueId, Version};
use margay_levels::Anomaly;
use margay_verdict::{Certificate, Finding, Question, Why};

use crate::index::Writers;
use crate::problem::{Draft, DraftRead, is_nothing};
use crate::scans::Scans;

/// Why there is no draft.
pub(crate) enum Stop {
    /// The history is violated whatever the order.
    Violated(Vec<Finding>),
    /// The engine cannot tell.
    Unknown(Why),
}

/// How many findings are reported at most.
const FINDINGS: usize = 8;

pub(crate) fn prepare(history: &History, question: Question) -> Result<Draft, Stop> {
    outside(history, question).map_err(|what| Stop::Unknown(Why::Outside(what)))?;
    let writers = Writers::of(history).map_err(|what| Stop::Unknown(Why::Outside(what)))?;
    let scans = Scans::of(history, &writers).map_err(|what| Stop::Unknown(Why::Outside(what)))?;
    let mut walk = Walk {
        history,
        writers: &writers,
        scans: &scans,
        draft: Draft::default(),
        own: Vec::new(),
        longest: Vec::new(),
        findings: Vec::new(),
    };
    for txn in history.txns().filter(|&t| history.outcome(t) != Outcome::Aborted) {
        walk.txn(txn);
    }
    walk.lists();
    if !walk.findings.is_empty() {
        return Err(Stop::Violated(walk.findings));
    }
    walk.evidence();
    Ok(walk.draft)
}

fn outside(history: &History, question: Question) -> Result<(), String> {
    let evidence = history.evidence();
    if history.has_kind(OpKind::Sql) {
        return Err("SQL statements".to_string());
    }
    if !evidence.serializations.is_empty() {
        return Err("a serialization order as evidence".to_string());
    }
    let snapshot = crate::points::of(question.level).is_some_and(|points| points.split);
    if snapshot && (!evidence.snapshots.is_empty() || !evidence.commits.is_empty()) {
        return Err("snapshot and commit timestamps as evidence".to_string());
    }
    Ok(())
}

/// What a transaction did to an object so far.
enum Own {
    Wrote(OpId, ValueId),
    Appended(Vec<ValueId>),
}

struct Walk<'a> {
    history: &'a History,
    writers: &'a Writers<'a>,
    scans: &'a Scans,
    draft: Draft,
    own: Vec<(ObjectId, Own)>,
    /// The longest list that was read of each object, with its read: `(object, op, value)`.
    longest: Vec<(ObjectId, OpId, ValueId)>,
    findings: Vec<Finding>,
}

impl Walk<'_> {
    fn txn(&mut self, txn: TxnId) {
        self.own.clear();
        let counts = self.history.outcome(txn) == Outcome::Committed;
        for op in self.history.ops(txn) {
            match op.kind {
                OpKind::Read => op.accesses.iter().for_each(|&access| self.read(txn, op.id, access, counts)),
                OpKind::Write => op.accesses.iter().for_each(|access| self.write(op.id, *access)),
                OpKind::Append => op.accesses.iter().for_each(|access| self.append(*access)),
                OpKind::Scan => self.scan(txn, op, counts),
                OpKind::Update => {
                    self.scan(txn, op, counts);
                    op.accesses.iter().for_each(|access| self.write(op.id, *access));
                }
                _ => {}
            }
        }
        self.draft.writes.extend(self.own.iter().map(|(object, _)| (txn, *object)));
    }

    fn write(&mut self, op: OpId, access: Access) {
        match self.own.iter_mut().find(|(object, _)| *object == access.object) {
            Some((_, own)) => *own = Own::Wrote(op, access.value),
            None => self.own.push((access.object, Own::Wrote(op, access.value))),
        }
    }

    fn append(&mut self, access: Access) {
        match self.own.iter_mut().find(|(object, _)| *object == access.object) {
            Some((_, Own::Appended(elements))) => elements.push(access.value),
            _ => self.own.push((access.object, Own::Appended(vec![access.value]))),
        }
    }

    fn own(&self, object: ObjectId) -> Option<&Own> {
        self.own.iter().find(|(o, _)| *o == object).map(|(_, own)| own)
    }

    /// `counts`: what it saw must be explained; reads of unknown transactions become anomalies only if they must have committed.
    fn read(&mut self, txn: TxnId, op: OpId, access: Access, counts: bool) {
        let Access { object, value } = access;
        if value == ValueId::UNKNOWN {
            return;
        }
        if self.writers.is_list(object) {
            return self.read_list(txn, op, access, counts);
        }
        if let Some(&Own::Wrote(writer, written)) = self.own(object) {
            if !self.writers.matches(value, written) && counts {
                self.find(Anomaly::Internal, txn, vec![op, writer]);
            }
            return;
        }
        let first = self.draft.candidates.len() as u32;
        self.writers.candidates(object, value, txn, &mut self.draft.candidates);
        self.finish_read(txn, op, object, first, counts);
    }

    /// Makes a read of the candidates since `first`. Without any, nothing can explain it: the reason is looked up.
    fn finish_read(&mut self, txn: TxnId, op: OpId, object: ObjectId, first: u32, counts: bool) {
        if let Some(set) = self.history.evidence().version_set(op)
            && let Some(&(_, version)) = set.versions.iter().find(|(o, _)| *o == object)
        {
            let kept = self.draft.candidates[first as usize..].contains(&version);
            self.draft.candidates.truncate(first as usize);
            self.draft.candidates.extend(kept.then_some(version));
        }
        let last = self.draft.candidates.len() as u32;
        if self.is_repeated(txn, object, first) {
            self.draft.candidates.truncate(first as usize);
        } else if first < last {
            self.draft.reads.push(DraftRead { txn, op, object, candidates: first..last });
        } else if counts {
            let (anomaly, ops) = self.writers.why_unreadable(self.history, op, object);
            self.find(anomaly, txn, ops);
        }
    }

    /// Whether the transaction has seen the same of this object before: in one snapshot, once is enough.
    fn is_repeated(&self, txn: TxnId, object: ObjectId, first: u32) -> bool {
        let (earlier, candidates) = self.draft.candidates.split_at(first as usize);
        let own = self.draft.reads.iter().rev().take_while(|read| read.txn == txn);
        let same = |read: &DraftRead| {
            let range = read.candidates.start as usize..read.candidates.end as usize;
            read.object == object && earlier[range] == *candidates
        };
        !candidates.is_empty() && own.into_iter().any(same)
    }

    /// A read of a list: what the transaction appended itself stands at the end; the rest is a version that somebody else made.
    fn read_list(&mut self, txn: TxnId, op: OpId, access: Access, counts: bool) {
        let Access { object, value } = access;
        let Some(elements) = elements(self.history, value) else {
            if counts {
                self.find(Anomaly::GarbageRead, txn, vec![op]);
            }
            return;
        };
        let own: &[ValueId] = match self.own(object) {
            Some(Own::Appended(own)) => own,
            _ => &[],
        };
        let Some(seen) = elements.strip_suffix(own) else {
            if counts {
                self.find(Anomaly::Internal, txn, vec![op]);
            }
            return;
        };
        let first = self.draft.candidates.len() as u32;
        let shown = counts && !own.is_empty();
        let anomaly = match self.list_version(txn, object, seen) {
            // Its own elements stand in the list, so the list itself shows what they came after.
            Ok(_) | Err(Anomaly::G1b) if shown => None,
            Ok(version) => {
                self.draft.candidates.push(version);
                self.finish_read(txn, op, object, first, counts);
                None
            }
            Err(anomaly) => Some(anomaly),
        };
        match anomaly {
            Some(anomaly) if counts => self.find(anomaly, txn, vec![op]),
            None if counts && !elements.is_empty() => self.longest.push((object, op, value)),
            _ => {}
        }
    }

    /// Which version of a list these elements are.
    fn list_version(&self, txn: TxnId, object: ObjectId, seen: &[ValueId]) -> Result<Version, Anomaly> {
        let mut sorted = seen.to_vec();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Anomaly::DuplicateElements);
        }
        let initial = elements(self.history, self.history.initial(object)).unwrap_or(&[]);
        let Some(rest) = seen.strip_prefix(initial) else {
            return Err(Anomaly::G1b);
        };
        let writers = rest.iter().map(|&value| self.writers.appender(object, value));
        let Some(writers) = writers.collect::<Option<Vec<TxnId>>>() else {
            return Err(Anomaly::GarbageRead);
        };
        if writers.iter().any(|&writer| self.history.outcome(writer) == Outcome::Aborted) {
            return Err(Anomaly::G1a);
        }
        let Some(&writer) = writers.last() else { return Ok(Version::Initial) };
        match rest.ends_with(self.writers.appended(object, writer)) {
            true if writer != txn => Ok(Version::Of(writer)),
            _ if writers.contains(&txn) => Err(Anomaly::FutureRead),
            _ => Err(Anomaly::G1b),
        }
    }

    fn scan(&mut self, txn: TxnId, op: Op<'_>, counts: bool) {
        for read in self.scans.reads(op.id) {
            let skip = self.own(read.object).is_some();
            if skip {
                continue;
            }
            let first = self.draft.candidates.len() as u32;
            let others = read.candidates.iter().filter(|v| **v != Version::Of(txn));
            self.draft.candidates.extend(others);
            self.finish_read(txn, op.id, read.object, first, counts);
        }
    }

    fn find(&mut self, anomaly: Anomaly, txn: TxnId, ops: Vec<OpId>) {
        if self.findings.len() == FINDINGS {
            return;
        }
        let mut txns: Vec<TxnId> = ops.iter().map(|&op| self.history.txn_of(op)).collect();
        txns.push(txn);
        txns.sort_unstable();
        txns.dedup();
        self.findings.push(Finding { anomaly, txns, certificate: Certificate::Operations { anomaly, ops } });
    }

    /// Two reads of one list must agree; the longest then tells the version order.
    fn lists(&mut self) {
        let mut reads = std::mem::take(&mut self.longest);
        let length = |value| elements(self.history, value).map_or(0, <[ValueId]>::len);
        reads.sort_by_key(|&(object, op, value)| (object, std::cmp::Reverse(length(value)), op));
        for reads in reads.chunk_by(|a, b| a.0 == b.0) {
            let (object, op, value) = reads[0];
            let longest = elements(self.history, value).unwrap_or(&[]);
            let odd = reads
                .iter()
                .find(|&&(_, _, v)| !elements(self.history, v).is_some_and(|e| longest.starts_with(e)));
            match odd {
                Some(&(_, other, _)) => {
                    self.find(Anomaly::IncompatibleOrder, self.history.txn_of(op), vec![op, other])
                }
                None => self.list_order(object, longest),
            }
        }
    }

    fn list_order(&mut self, object: ObjectId, longest: &[ValueId]) {
        let mut order: Vec<Version> = vec![Version::Initial];
        for &value in longest {
            if let Some(writer) = self.writers.appender(object, value)
                && order.last() != Some(&Version::Of(writer))
            {
                order.push(Version::Of(writer));
            }
        }
        let last = order[order.len() - 1];
        let seen: HashSet<ValueId> = longest.iter().copied().collect();
        let unseen =
            |&txn: &TxnId| self.writers.appended(object, txn).iter().any(|value| !seen.contains(value));
        let later =
            self.writers.appenders(object).filter(unseen).map(Version::Of).filter(|&later| later != last);
        let after: Vec<_> = later.map(|later| (object, last, later)).collect();
        self.draft.facts.extend(order.windows(2).map(|pair| (object, pair[0], pair[1])));
        self.draft.facts.extend(after);
    }

    fn evidence(&mut self) {
        let evidence = self.history.evidence();
        for order in &evidence.version_orders {
            let pairs = order.versions.windows(2).map(|pair| (order.object, pair[0], pair[1]));
            self.draft.facts.extend(pairs);
        }
        if evidence.commits.is_empty() {
            return;
        }
        let mut stamped: Vec<_> = self
            .draft
            .writes
            .iter()
            .filter_map(|&(txn, object)| evidence.commit(txn).map(|ts| (object, ts, txn)))
            .collect();
        stamped.sort_unstable();
        for pair in stamped.windows(2) {
            if pair[0].0 == pair[1].0 && pair[0].1 < pair[1].1 {
                self.draft.facts.push((pair[0].0, Version::Of(pair[0].2), Version::Of(pair[1].2)));
            }
        }
    }
}

/// The elements of a list; nothing at all is an empty list.
fn elements(history: &History, value: ValueId) -> Option<&[ValueId]> {
    match history.value(value) {
        Value::List(elements) => Some(elements),
        _ if is_nothing(history, value) => Some(&[]),
        _ => None,
    }
}
