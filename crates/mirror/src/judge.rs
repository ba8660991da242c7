//! One committed transaction is judged: its reads are explained, and what that makes certain goes to the certifier.
//!
//! # Algorithm
//! The reads that share a snapshot are explained together ([`explain`]). A read that only one version explains depends on its writer (wr). A version that is later
//! than everything that a read may have seen depends on the reader (rw). Two versions whose order is certain depend on each other (ww).

use margay_history::{ObjectId, TxnId, Values, Version};
use margay_verdict::mechanism::{Certified, Fact, Sight, View, dangerous, explain};
use margay_verdict::{Broken, Edge, Reason};

use super::Mirror;
use crate::store::Reader;
use crate::txn::{Seen, Txn};

impl Mirror {
    pub(super) fn judge(&mut self, txn: TxnId, ended: &Txn, values: &Values) {
        if self.mechanisms.view != View::Uncommitted {
            if let Some(op) = ended.missed {
                self.report(vec![txn], Broken::Read { op });
            }
            let (together, shared) = (self.mechanisms.together, self.mechanisms.view.is_shared());
            for group in ended.reads.chunk_by(|a, b| together && (shared || a.op == b.op)) {
                self.explain(txn, ended, group, values);
            }
        }
        for &object in ended.writes.keys() {
            self.order(txn, object);
        }
    }

    /// Explains the reads of one snapshot.
    fn explain(&mut self, txn: TxnId, ended: &Txn, group: &[Seen], values: &Values) {
        group.iter().for_each(|seen| _ = self.store.record(seen.object));
        let versions: Vec<Vec<&(Version, Fact)>> =
            group.iter().map(|seen| self.store.get(seen.object).others(txn).collect()).collect();
        let facts: Vec<Vec<&Fact>> =
            versions.iter().map(|all| all.iter().map(|(_, fact)| fact).collect()).collect();
        let sight = |(seen, versions): (&Seen, _)| Sight { value: seen.value, versions };
        let sights: Vec<Sight<'_>> = group.iter().zip(facts.iter().map(Vec::as_slice)).map(sight).collect();
        let whole = ended.course.snapshot(self.mechanisms.view, group[0].at);
        let snapshot = match explain(&sights, whole, values) {
            Ok(snapshot) => snapshot,
            Err(place) => return self.report(vec![txn], Broken::Read { op: group[place].op }),
        };
        let mut edges = Vec::new();
        let mut readers = Vec::new();
        for ((seen, sight), versions) in group.iter().zip(&sights).zip(&versions) {
            let candidates = sight.candidates(snapshot, values);
            let Some(&first) = candidates.first() else { continue };
            self.statistics.reads += 1;
            self.statistics.certain_reads += u64::from(candidates.len() == 1);
            if let ([only], (Version::Of(writer), fact)) = (candidates.as_slice(), versions[first]) {
                debug_assert_eq!(*only, first);
                if fact.certain {
                    edges.push(seen.read(*writer, txn));
                }
            }
            let version = versions[first].0;
            for (later, fact) in versions {
                if let Version::Of(writer) = later
                    && sight.is_overwritten_by(&candidates, snapshot, fact)
                {
                    edges.push(seen.overwritten(txn, version, *writer));
                }
            }
            readers.push((seen.object, Reader { txn, op: seen.op, version, by: snapshot.after }));
        }
        edges.into_iter().for_each(|edge| self.depend(edge));
        self.remember(readers);
    }

    /// Later versions may overwrite what was read.
    fn remember(&mut self, readers: Vec<(ObjectId, Reader)>) {
        if self.mechanisms.certifier == Certified::Committed {
            return;
        }
        for (object, reader) in readers {
            let record = self.store.record(object);
            record.readers.retain(|old| self.graph.contains(old.txn));
            record.readers.push(reader);
        }
    }

    /// Orders the transaction's version of an object among the others, and after those who read before it.
    fn order(&mut self, txn: TxnId, object: ObjectId) {
        let record = self.store.record(object);
        let Some((_, mine)) = record.versions.iter().find(|(version, _)| *version == Version::Of(txn)) else {
            return;
        };
        if !mine.certain {
            return;
        }
        let mut edges = Vec::new();
        let reason = Reason::Write { object };
        for (version, other) in record.versions.iter().filter(|(_, other)| other.certain) {
            let Version::Of(other_txn) = *version else { continue };
            if other_txn == txn {
                continue;
            }
            let (later, earlier) = (mine.before(other), other.before(mine));
            let by_time = mine.installed.after < other.installed.before
                || other.installed.after < mine.installed.before;
            self.statistics.ordered_by_time += u64::from(by_time);
            self.statistics.ordered_by_mechanism += u64::from(!by_time && (later || earlier));
            self.statistics.unordered += u64::from(!later && !earlier);
            if later {
                edges.push(Edge { from: txn, to: other_txn, reason: reason.clone() });
            }
            if earlier {
                edges.push(Edge { from: other_txn, to: txn, reason: reason.clone() });
            }
        }
        for reader in record.readers.iter().filter(|r| r.txn != txn && mine.installed.before > r.by) {
            let Reader { txn: from, op, version, .. } = *reader;
            edges.push(Edge { from, to: txn, reason: Reason::AntiRead { op, object, version } });
        }
        edges.into_iter().for_each(|edge| self.depend(edge));
    }

    /// A dependency is certain: the certifier looks at it.
    fn depend(&mut self, edge: Edge) {
        let anti = matches!(edge.reason, Reason::AntiRead { .. });
        if edge.from == edge.to || (anti && self.mechanisms.certifier == Certified::Committed) {
            return;
        }
        match self.graph.add(edge.clone()) {
            Err(cycle) => self.report_dependencies(cycle),
            Ok(true) if anti && self.mechanisms.certifier == Certified::Ssi => self.look_for_pivots(&edge),
            Ok(_) => {}
        }
    }

    fn look_for_pivots(&mut self, edge: &Edge) {
        let view = self.mechanisms.view;
        for [first, second] in self.graph.consecutive(edge) {
            let courses = [first.from, first.to, second.to].map(|txn| self.graph.course(txn));
            if let [Some(a), Some(b), Some(c)] = courses
                && first.from != second.to
                && dangerous(a, b, c, view)
            {
                self.report_dependencies(vec![first, second]);
            }
        }
    }
}

impl Seen {
    fn read(&self, from: TxnId, to: TxnId) -> Edge {
        Edge { from, to, reason: Reason::Read { op: self.op, object: self.object } }
    }

    fn overwritten(&self, from: TxnId, version: Version, to: TxnId) -> Edge {
        Edge { from, to, reason: Reason::AntiRead { op: self.op, object: self.object, version } }
    }
}
