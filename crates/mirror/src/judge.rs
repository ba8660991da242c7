//! The reads of a committed transaction are explained.
//!
//! # Algorithm
//! First every object is asked alone (`Record::only`). A read that only one version explains is *plain*;
//! the others are *open*. The open reads of one snapshot are explained together (`joint`), which narrows
//! where the snapshot may lie. Then the objects of the plain reads say what these make certain (`plain`). A
//! search also tells of the rows that it did not return. Of such a row only a version that would have been
//! returned is later than the read.
//!
//! # Invariants
//! Explaining looks only at versions, which stay as they are while transactions are judged. So many
//! transactions can be explained at the same time, and what comes of it is the same as if they had been
//! explained one by one.

use margay_history::{ObjectId, OpId, TxnId, Version};
use margay_mechanisms::{Fact, Saw, World};
use margay_verdict::Reason;
use margay_verdict::mechanism::{Certified, Mechanisms};

use crate::joint::{OpenRead, Reading, explain_jointly};
use crate::plain::PlainRead;
use crate::record::{MarkedEdge, Reader};
use crate::searched::Searched;
use crate::statistics::{Dependencies, OpenReads};
use crate::store::{Store, deletions};
use crate::txn::{Search, Seen, Txn};

/// What explaining a transaction's reads brought to light.
#[derive(Default, Debug)]
pub(crate) struct Explained {
    pub broken: Vec<OpId>,
    pub edges: Vec<MarkedEdge>,
    pub readers: Vec<(ObjectId, Reader)>,
    /// Its searches, of the rows that none of the readers is about.
    pub searched: Vec<Searched>,
    /// By when the snapshots were taken, with the first operations that they show, if there are searches.
    by: Vec<(OpId, i64)>,
    pub wr: Dependencies,
    pub rw: Dependencies,
    pub open: OpenReads,
}

/// What explaining looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judge<'a> {
    pub mechanisms: &'a Mechanisms,
    pub store: &'a Store,
    pub world: World<'a>,
    /// How far the stream has come.
    pub now: i64,
}

impl Judge<'_> {
    /// Explains all reads of a transaction.
    pub fn explain(self, ended: &Txn) -> Explained {
        let mut found = Explained::default();
        let missed = ended.searches.iter().filter(|search| search.missed).map(|search| search.op);
        let own = ended.missed.iter().filter(|(_, object)| !self.may_see_both(ended, *object));
        found.broken.extend(own.map(|(op, _)| *op).chain(missed).next());
        if ended.searches.iter().all(|search| !search.whole) {
            self.explain_groups(ended, &ended.reads, &mut found);
        } else {
            let reads = self.with_left_out(ended, &mut found);
            self.explain_groups(ended, &reads, &mut found);
            let all_by = found.by.first().copied().filter(|_| self.mechanisms.view.is_shared());
            for searched in found.searched.iter_mut().filter(|_| self.mechanisms.together) {
                let own = found.by.iter().find(|(op, _)| *op == searched.op).copied();
                searched.by = all_by.or(own).map_or(searched.by, |(_, by)| by);
            }
        }
        if self.mechanisms.certifier == Certified::Ssi {
            found.edges.iter_mut().for_each(|marked| self.mark(marked));
        }
        found
    }

    /// Decides whether an anti-dependency is direct, now that everything before its end has come.
    fn mark(self, MarkedEdge { edge, direct }: &mut MarkedEdge) {
        if let (true, Reason::AntiRead { object, version, .. }) = (*direct, &edge.reason) {
            *direct = self.store.get(*object).is_direct(*version, edge.to, self.now);
        }
    }

    /// Whether a transaction may see the row that it has replaced beside its own.
    fn may_see_both(self, ended: &Txn, object: ObjectId) -> bool {
        let Some(own) = ended.own(object).filter(|_| self.mechanisms.sees_both()) else { return false };
        let versions = self.store.get(object).versions.iter();
        let others = versions.filter(|(version, _)| *version != Version::Of(ended.id)).map(|(_, fact)| fact);
        let Store { tables, everywhere, .. } = self.store;
        let unseen = deletions(tables, everywhere, (object, ended.id), self.world);
        own.may_be_inserted(ended.course.start(), others.chain(unseen))
    }

    /// The reads, and what the searches tell of the rows that they did not return and that may have matched.
    /// The others only remember that they were searched.
    fn with_left_out(self, ended: &Txn, found: &mut Explained) -> Vec<Seen> {
        let mut reads = ended.reads.clone();
        for search in ended.searches.iter().filter(|search| search.whole) {
            let told = |object: &ObjectId| {
                search.skip.binary_search(object).is_err()
                    && !ended.is_clouded(*object, search.unseen, self.world)
            };
            let mut left_out = self.store.may_match(search.predicate, self.world.searches);
            left_out.retain(told);
            reads.extend(left_out.iter().map(|object| search.without(*object)));
            if self.mechanisms.certifier != Certified::Committed {
                found.searched.push(self.searched(ended, search, left_out));
            }
        }
        reads.sort_by_key(|seen| seen.op);
        reads
    }

    /// What is to be remembered of a search, beyond these rows.
    fn searched(self, ended: &Txn, search: &Search, mut skip: Vec<ObjectId>) -> Searched {
        skip.extend(&search.skip);
        skip.sort_unstable();
        let by = ended.course.snapshot(self.mechanisms.view, search.at).after;
        let (txn, op, predicate) = (ended.id, search.op, search.predicate);
        let unseen = ended.unseen[..search.unseen].to_vec();
        Searched { txn, op, predicate, by, number: 0, skip, unseen }
    }

    fn explain_groups(self, ended: &Txn, reads: &[Seen], found: &mut Explained) {
        if reads.iter().any(|seen| seen.current) {
            let (current, plain): (Vec<Seen>, Vec<Seen>) = reads.iter().partition(|seen| seen.current);
            for seen in &current {
                let reading = Reading { txn: ended.id, answered: ended.answered, whole: seen.at };
                let group = [self.open(ended, *seen)];
                explain_jointly(reading, &group, self.mechanisms.view, self.world, found);
            }
            return self.explain_groups(ended, &plain, found);
        }
        let (together, shared) = (self.mechanisms.together, self.mechanisms.view.is_shared());
        if shared && !together {
            let mut by_object = reads.to_vec();
            by_object.sort_by_key(|seen| seen.object);
            let groups = by_object.chunk_by(|a, b| a.object == b.object);
            return groups.for_each(|group| self.explain_reads(ended, group, found));
        }
        let groups = reads.chunk_by(|a, b| together && (shared || a.op == b.op));
        groups.for_each(|group| self.explain_reads(ended, group, found));
    }

    /// Explains the reads of one snapshot. Those that only one version can explain tell nothing of the
    /// others, and most are such.
    fn explain_reads(self, ended: &Txn, group: &[Seen], found: &mut Explained) {
        let (txn, view) = (ended.id, self.mechanisms.view);
        let whole = ended.course.snapshot(view, group[0].at);
        let only =
            |seen: &Seen| self.store.get(seen.object).only(seen.object, seen.saw, txn, whole, self.world);
        let only: Vec<Option<Version>> = group.iter().map(only).collect();
        let unexplained = group.iter().zip(&only).filter(|(_, only)| only.is_none());
        let open: Vec<OpenRead<'_>> = unexplained.map(|(seen, _)| self.open(ended, *seen)).collect();
        found.open.count(group, open.len());
        let reading = Reading { txn, answered: ended.answered, whole };
        let snapshot = match open.is_empty() {
            true => Some(whole),
            false => explain_jointly(reading, &open, view, self.world, found),
        };
        let Some(snapshot) = snapshot else { return };
        if !ended.searches.is_empty() {
            found.by.push((group[0].op, snapshot.after));
        }
        for (seen, only) in group.iter().zip(only) {
            if let Some(version) = only {
                let own = ended.own(seen.object).is_some();
                let read = PlainRead { seen: *seen, own, version, by: snapshot.after };
                self.store.get(seen.object).conclude_plainly(read, reading, (view, self.world), found);
            }
        }
    }

    /// A read with the versions that it may have seen.
    fn open(&self, ended: &Txn, seen: Seen) -> OpenRead<'_> {
        OpenRead {
            seen,
            own: ended.own(seen.object).is_some(),
            versions: self.versions(ended.id, seen.object),
        }
    }

    /// The versions that a transaction may have read.
    fn versions(&self, txn: TxnId, object: ObjectId) -> Vec<&(Version, Fact)> {
        let (record, all) = (self.store.get(object), !self.mechanisms.keeps_own());
        record.versions.iter().filter(|(version, _)| all || *version != Version::Of(txn)).collect()
    }
}

impl Search {
    fn without(&self, object: ObjectId) -> Seen {
        Seen { op: self.op, at: self.at, object, saw: Saw::Without(self.predicate), current: false }
    }
}
