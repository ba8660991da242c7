//! One committed transaction is judged: its reads are explained, and what that makes certain goes to the certifier.
//!
//! # Algorithm
//! The reads that share a snapshot are explained together ([`explain`]); a search also tells of the rows that it did not return. A read that only one version explains depends on
//! its writer (wr). A version that is later than everything that a read may have seen depends on the reader (rw); of a row that was not returned, only a version that
//! would have been. Two versions whose order is certain depend on each other (ww).
//!
//! # Invariants
//! Explaining looks only at versions, which stay as they are while transactions are judged. So many transactions can be explained at the same time, and what comes of it is the
//! same as if they had been explained one by one.

use margay_history::{Interval, ObjectId, OpId, TxnId, Values, Version};
use margay_verdict::mechanism::{Certified, Fact, Saw, Sight, View, World, dangerous, explain};
use margay_verdict::{Broken, Edge, Reason};

use super::{Dependencies, Mirror};
use crate::store::{FORGOTTEN, Reader};
use crate::txn::{Search, Seen, Txn};

/// A snapshot that explains the reads of a transaction.
struct Shown<'a> {
    txn: TxnId,
    /// Where it may lie by the mechanisms alone.
    whole: Interval,
    /// Where it may lie given what was seen.
    snapshot: Interval,
    world: World<'a>,
}

/// What explaining a transaction's reads brought to light.
#[derive(Default, Debug)]
pub(super) struct Explained {
    broken: Vec<OpId>,
    edges: Vec<Edge>,
    readers: Vec<(ObjectId, Reader)>,
    wr: Dependencies,
    rw: Dependencies,
}

impl Mirror {
    /// Explains all reads of a transaction.
    pub(super) fn explain(&self, txn: TxnId, ended: &Txn, values: &Values) -> Explained {
        let mut found = Explained::default();
        let missed = ended.searches.iter().filter(|search| search.missed).map(|search| search.op);
        found.broken.extend(ended.missed.into_iter().chain(missed).next());
        if ended.searches.iter().all(|search| !search.whole) {
            self.explain_groups(txn, ended, &ended.reads, values, &mut found);
        } else {
            let reads = self.with_left_out(ended, values);
            self.explain_groups(txn, ended, &reads, values, &mut found);
        }
        found
    }

    /// The reads, and what the searches tell of the rows that they did not return.
    fn with_left_out(&self, ended: &Txn, values: &Values) -> Vec<Seen> {
        let mut reads = ended.reads.clone();
        for search in ended.searches.iter().filter(|search| search.whole) {
            let world = World { values, searches: &self.searches };
            let told = |object: &ObjectId| {
                search.skip.binary_search(object).is_err() && !ended.is_clouded(*object, search.unseen, world)
            };
            let left_out = self.store.rows(search.predicate, &self.searches).filter(told);
            reads.extend(left_out.map(|object| search.without(object)));
        }
        reads.sort_by_key(|seen| seen.op);
        reads
    }

    fn explain_groups(
        &self,
        txn: TxnId,
        ended: &Txn,
        reads: &[Seen],
        values: &Values,
        found: &mut Explained,
    ) {
        if reads.iter().any(|seen| seen.current) {
            let (current, plain): (Vec<Seen>, Vec<Seen>) = reads.iter().partition(|seen| seen.current);
            for seen in &current {
                self.explain_group(txn, std::slice::from_ref(seen), seen.at, values, found);
            }
            return self.explain_groups(txn, ended, &plain, values, found);
        }
        let (together, shared) = (self.mechanisms.together, self.mechanisms.view.is_shared());
        for group in reads.chunk_by(|a, b| together && (shared || a.op == b.op)) {
            let whole = ended.course.snapshot(self.mechanisms.view, group[0].at);
            if !self.explain_plainly(txn, group, whole, values, found) {
                self.explain_group(txn, group, whole, values, found);
            }
        }
    }

    /// The common case: of every object there is one version, it was there before, and it is what was seen.
    fn explain_plainly(
        &self,
        txn: TxnId,
        group: &[Seen],
        whole: Interval,
        values: &Values,
        found: &mut Explained,
    ) -> bool {
        let only = |seen: &Seen| match (self.store.get(seen.object).versions.as_slice(), seen.saw) {
            ([(version, fact)], Saw::Value(value))
                if *version != Version::Of(txn)
                    && fact.certain
                    && fact.installed.after < whole.before
                    && fact.pattern.matches(value, values) =>
            {
                Some(*version)
            }
            _ => None,
        };
        if !group.iter().all(|seen| only(seen).is_some()) {
            return false;
        }
        for seen in group {
            let Some(version) = only(seen) else { continue };
            found.wr.certain += 1;
            if let Version::Of(writer) = version
                && self.mechanisms.view != View::Uncommitted
            {
                found.edges.push(seen.read(writer, txn));
            }
            found.readers.push((seen.object, seen.reader(txn, version, whole.after)));
        }
        true
    }

    /// Explains the reads of one snapshot.
    fn explain_group(
        &self,
        txn: TxnId,
        group: &[Seen],
        whole: Interval,
        values: &Values,
        found: &mut Explained,
    ) {
        let world = World { values, searches: &self.searches };
        let versions: Vec<Vec<&(Version, Fact)>> =
            group.iter().map(|seen| self.store.get(seen.object).others(txn).collect()).collect();
        let facts: Vec<Vec<&Fact>> =
            versions.iter().map(|all| all.iter().map(|(_, fact)| fact).collect()).collect();
        let sight = |(seen, versions): (&Seen, _)| Sight { object: seen.object, saw: seen.saw, versions };
        let mut sights: Vec<Sight<'_>> =
            group.iter().zip(facts.iter().map(Vec::as_slice)).map(sight).collect();
        let columns: Vec<(OpId, ObjectId, Saw, Vec<&Fact>)> =
            group.iter().zip(&facts).flat_map(|(seen, facts)| seen.columns(facts, whole, values)).collect();
        sights.extend(columns.iter().map(|(_, object, saw, versions)| Sight {
            object: *object,
            saw: *saw,
            versions,
        }));
        let snapshot = match explain(&sights, whole, world) {
            Ok(snapshot) => snapshot,
            Err(place) if place < group.len() => return found.broken.push(group[place].op),
            Err(place) => return found.broken.push(columns[place - group.len()].0),
        };
        let shown = Shown { txn, whole, snapshot, world };
        for ((seen, sight), versions) in group.iter().zip(&sights).zip(&versions) {
            self.conclude(&shown, seen, sight, versions, found);
        }
    }

    /// What one read of an explained snapshot makes certain.
    fn conclude(
        &self,
        shown: &Shown<'_>,
        seen: &Seen,
        sight: &Sight<'_>,
        versions: &[&(Version, Fact)],
        found: &mut Explained,
    ) {
        let Shown { txn, whole, snapshot, world } = *shown;
        let candidates = sight.candidates(snapshot, world);
        if let Saw::Value(_) = seen.saw {
            found.wr.count(candidates.len() == 1, sight.possible(whole) == 1);
            if let [only] = candidates.as_slice()
                && let (Version::Of(writer), true) = (versions[*only].0, versions[*only].1.certain)
                && self.mechanisms.view != View::Uncommitted
            {
                found.edges.push(seen.read(writer, txn));
            }
        }
        let named = candidates.iter().map(|&i| versions[i].0).find(|version| *version != FORGOTTEN);
        let Some(version) = named else { return };
        for (later, fact) in versions {
            let Version::Of(writer) = later else { continue };
            if sight.is_overwritten_by(&candidates, snapshot, fact, world) {
                found.rw.count(true, fact.installed.before > whole.after);
                found.edges.push(seen.overwritten(txn, version, *writer));
            } else if fact.certain && fact.installed.after >= snapshot.before {
                found.rw.uncertain += u64::from(seen.saw.is_changed_by(seen.object, &fact.pattern, world));
            }
        }
        found.readers.push((seen.object, seen.reader(txn, version, snapshot.after)));
    }

    /// Takes over what explaining brought to light.
    pub(super) fn conclude_all(&mut self, txn: TxnId, ended: &Txn, found: Explained, values: &Values) {
        for op in found.broken {
            self.report(vec![txn], Broken::Read { op });
        }
        self.statistics.reads += found.wr.certain + found.wr.deduced + found.wr.uncertain;
        self.statistics.certain_reads += found.wr.certain + found.wr.deduced;
        self.statistics.wr.add(found.wr);
        self.statistics.rw.add(found.rw);
        self.remember(txn, ended, found.readers);
        found.edges.into_iter().for_each(|edge| self.depend(edge, values));
        for (object, _) in &ended.writes {
            self.order(txn, *object, values);
        }
    }

    /// Later versions may overwrite what was read.
    fn remember(&mut self, txn: TxnId, ended: &Txn, readers: Vec<(ObjectId, Reader)>) {
        if self.mechanisms.certifier == Certified::Committed {
            return;
        }
        for (object, reader) in readers {
            let record = self.store.record(object, &self.searches);
            record.tidy_readers(|old| self.graph.contains(old));
            record.readers.push(reader);
        }
        for search in ended.searches.iter().filter(|search| search.whole) {
            let Some(table) = self.searches.searched(search.predicate) else { continue };
            let by = ended.course.snapshot(self.mechanisms.view, search.at).after;
            let saw = Saw::Without(search.predicate);
            let table = self.store.table(table);
            table.readers.retain(|old| self.graph.contains(old.txn));
            table.readers.push(Reader { txn, op: search.op, saw, version: Version::Initial, by });
        }
    }

    /// Orders the transaction's version of an object among the others, and after those who read before it.
    fn order(&mut self, txn: TxnId, object: ObjectId, values: &Values) {
        let world = World { values, searches: &self.searches };
        let record = self.store.record(object, &self.searches);
        let certain = |(version, fact): &&(Version, Fact)| *version == Version::Of(txn) && fact.certain;
        let Some((_, mine)) = record.versions.iter().find(certain) else { return };
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
            self.statistics.ww.count(later || earlier, by_time);
            if later {
                edges.push(Edge { from: txn, to: other_txn, reason: reason.clone() });
            }
            if earlier {
                edges.push(Edge { from: other_txn, to: txn, reason: reason.clone() });
            }
        }
        for reader in record
            .readers
            .iter()
            .filter(|r| r.txn != txn && mine.installed.before > r.by && self.graph.contains(r.txn))
        {
            let Reader { txn: from, op, version, saw, .. } = *reader;
            if saw.is_changed_by(object, &mine.pattern, world) {
                self.statistics.rw.certain += 1;
                edges.push(Edge { from, to: txn, reason: Reason::AntiRead { op, object, version } });
            }
        }
        edges.into_iter().for_each(|edge| self.depend(edge, values));
    }

    /// A dependency is certain: the certifier looks at it.
    fn depend(&mut self, edge: Edge, values: &Values) {
        let anti = matches!(edge.reason, Reason::AntiRead { .. });
        if edge.from == edge.to || (anti && self.mechanisms.certifier == Certified::Committed) {
            return;
        }
        let ssi = anti && self.mechanisms.certifier == Certified::Ssi;
        let look = ssi.then(|| edge.clone());
        match (self.graph.add(edge), look) {
            (Err(broken), _) => self.report_dependencies(broken),
            // An edge that is known already may only now be known to be direct.
            (Ok(_), Some(edge)) => self.look_for_pivots(&edge, values),
            _ => {}
        }
    }

    fn look_for_pivots(&mut self, edge: &Edge, values: &Values) {
        let view = self.mechanisms.view;
        self.catch_up_with(edge, values);
        if !self.is_direct(edge, values) {
            return;
        }
        for [first, second] in self.graph.consecutive(edge) {
            self.catch_up_with(&first, values);
            self.catch_up_with(&second, values);
            let courses = [first.from, first.to, second.to].map(|txn| self.graph.course(txn));
            if let [Some(a), Some(b), Some(c)] = courses
                && first.from != second.to
                && dangerous(a, b, c, view)
                && self.is_direct(&first, values)
                && self.is_direct(&second, values)
            {
                self.report_dependencies(vec![first, second]);
            }
        }
    }
}

impl Mirror {
    /// The object of an anti-dependency gets what unseen writes may have made of it.
    fn catch_up_with(&mut self, edge: &Edge, values: &Values) {
        if let (Reason::AntiRead { object, .. }, false) = (&edge.reason, self.store.saw_all()) {
            let horizon = self.horizon();
            self.store.catch_up(*object, horizon, &self.searches, values);
        }
    }

    /// Whether an anti-dependency is on the very version that followed the one that was read: SSI looks at no other. A reader of an older version is in
    /// conflict with who overwrote that one; who overwrites the newer one does not meet its lock.
    fn is_direct(&self, edge: &Edge, values: &Values) -> bool {
        let Reason::AntiRead { op, object, version } = edge.reason else { return false };
        let record = self.store.get(object);
        let reader = record.readers.iter().find(|reader| reader.txn == edge.from && reader.op == op);
        let Some(Saw::Value(value)) = reader.map(|reader| reader.saw) else { return false };
        let matching = record.others(edge.from).filter(|(_, fact)| fact.pattern.matches(value, values));
        let fact = |wanted| record.versions.iter().find(|(known, _)| *known == wanted).map(|(_, fact)| fact);
        let (Some(read), Some(next)) = (fact(version), fact(Version::Of(edge.to))) else { return false };
        let others = record.versions.iter().filter(|(v, _)| *v != version && *v != Version::Of(edge.to));
        // What may have been installed before `next` has come.
        next.installed.after < self.now
            && matching.count() == 1
            && read.right_before(next, others.map(|(_, other)| other))
    }
}

impl Seen {
    /// The columns of a row that partial writes left alone, as far as a version that determines them was there before the snapshot: earlier ones may be forgotten.
    fn columns<'a>(
        &self,
        versions: &[&'a Fact],
        whole: Interval,
        values: &Values,
    ) -> Vec<(OpId, ObjectId, Saw, Vec<&'a Fact>)> {
        let mut columns = self.saw.columns(versions, values);
        let pivot = |fact: &&Fact| fact.certain && fact.installed.after < whole.before;
        columns.retain(|(_, versions)| versions.iter().any(pivot));
        columns.into_iter().map(|(saw, versions)| (self.op, self.object, saw, versions)).collect()
    }

    fn read(&self, from: TxnId, to: TxnId) -> Edge {
        Edge { from, to, reason: Reason::Read { op: self.op, object: self.object } }
    }

    fn overwritten(&self, from: TxnId, version: Version, to: TxnId) -> Edge {
        Edge { from, to, reason: Reason::AntiRead { op: self.op, object: self.object, version } }
    }

    fn reader(&self, txn: TxnId, version: Version, by: i64) -> Reader {
        Reader { txn, op: self.op, saw: self.saw, version, by }
    }
}

impl Search {
    fn without(&self, object: ObjectId) -> Seen {
        Seen { op: self.op, at: self.at, object, saw: Saw::Without(self.predicate), current: false }
    }
}
