//! The reads of a committed transaction are explained.
//!
//! # Algorithm
//! First every object is asked alone (`Record::only`). A read that only one version explains is
//! *plain*; the others are *open*. The open reads of one snapshot are explained together (`joint`),
//! which narrows where the snapshot may lie. Then the objects of the plain reads say what these
//! make certain (`plain`). A search also tells of the rows that it did not return. Of such a row
//! only a version that would have been returned is later than the read.
//!
//! Every shard does so for the reads of its own objects. A snapshot that may show objects of
//! several shards is explained in three steps: each shard says which of its reads are open
//! ([`Judge::answer`]), these are brought together ([`join`]), and each shard concludes from where
//! the snapshot may lie ([`Judge::conclude_shared`]). With one shard nothing waits.
//!
//! # Invariants
//! Explaining looks only at versions, which stay as they are while transactions are judged. So many
//! transactions can be explained at the same time, and what comes of it is the same as if they had
//! been explained one by one. What is found carries its place ([`Spot`]), by which it comes into
//! the same order whoever found it.

use margay_history::{Interval, ObjectId, OpId, Version};
use margay_mechanisms::{Fact, Saw};
use margay_verdict::mechanism::Certified;

use crate::joint::{OpenRead, Reading, explain_jointly};
use crate::plain::PlainRead;
use crate::record::{MarkedEdge, Reader};
use crate::searched::Searched;
use crate::shard::{Fixed, Shard};
use crate::statistics::{Dependencies, OpenReads};
use crate::txn::{Search, Seen, Txn};

/// What explaining a transaction's reads brought to light.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct Explained {
    pub broken: Vec<(Spot, OpId)>,
    pub edges: Vec<(Spot, MarkedEdge)>,
    pub readers: Vec<(Spot, ObjectId, Reader)>,
    pub wr: Dependencies,
    pub rw: Dependencies,
    pub open: OpenReads,
}

impl Explained {
    /// Adds what another shard found of the same transaction.
    pub fn add(&mut self, other: Self) {
        self.broken.extend(other.broken);
        self.edges.extend(other.edges);
        self.readers.extend(other.readers);
        self.wr.add(other.wr);
        self.rw.add(other.rw);
        self.open.add(other.open);
    }

    /// Brings what several shards found into order.
    pub fn sort(&mut self) {
        self.broken.sort_by_key(|(spot, _)| *spot);
        self.edges.sort_by_key(|(spot, _)| *spot);
        self.readers.sort_by_key(|(spot, ..)| *spot);
    }
}

/// Where among a transaction's reads something was found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Spot {
    pub of: What,
    /// Which of them share a snapshot.
    pub group: u64,
    /// Whether only one version explains the read.
    pub plain: bool,
    pub op: OpId,
    /// Its place among the reads; rows that a search left out come last.
    pub index: u32,
    pub object: ObjectId,
}

/// What is told of: reads that did not see their own transaction's write, searches that did not,
/// reads of what was newest, and reads of snapshots.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum What {
    Own,
    Search,
    Newest,
    Snapshot,
}

/// What a shard's objects alone tell of a transaction's reads.
#[derive(Default, Debug)]
pub(crate) struct Answer {
    /// All that is to be said of what no other shard's objects have to do with.
    pub explained: Explained,
    /// The other reads.
    pub shared: Vec<SharedRead>,
    /// Its searches, of the rows that none of the readers is about.
    pub searched: Vec<Searched>,
}

/// A read whose snapshot may show objects of other shards.
#[derive(Clone, Debug)]
pub(crate) struct SharedRead {
    pub spot: Spot,
    pub seen: Seen,
    /// The one version that explains it, if there is only one.
    pub only: Option<Version>,
}

/// What open reads of several shards tell together.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct Joined {
    pub explained: Explained,
    /// By when each of these snapshots was taken; nothing if it cannot be explained. Of others
    /// nothing is known beyond the mechanisms.
    pub by: Vec<(u64, Option<i64>)>,
}

/// What explaining looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judge<'a> {
    pub shard: &'a Shard,
    pub fixed: Fixed<'a>,
}

impl Judge<'_> {
    /// Explains the reads of a transaction as far as this shard can alone.
    pub fn answer(self, ended: &Txn) -> Answer {
        let mut answer = Answer::default();
        self.find_missed(ended, &mut answer.explained);
        let mut reads = self.own_reads(ended);
        if ended.searches.iter().any(|search| search.whole) {
            self.leave_out(ended, &mut reads, &mut answer);
        }
        if reads.iter().any(|(_, seen)| seen.current) {
            let (current, plain): (Vec<_>, Vec<_>) = reads.into_iter().partition(|(_, seen)| seen.current);
            for (index, seen) in current {
                let reading = Reading { txn: ended.id, answered: ended.answered, whole: seen.at };
                let group =
                    [self.open(ended, Spot::of(&seen, index, What::Newest, alone(&seen, index)), seen)];
                explain_jointly(reading, &group, self.fixed, &mut answer.explained);
            }
            reads = plain;
        }
        let (together, shared) = (self.fixed.mechanisms.together, self.fixed.mechanisms.view.is_shared());
        if shared && !together {
            reads.sort_by_key(|(_, seen)| seen.object);
            let groups = reads.chunk_by(|a, b| a.1.object == b.1.object);
            groups.for_each(|group| self.explain_reads(ended, group, &mut answer));
        } else {
            let groups = reads.chunk_by(|a, b| together && (shared || a.1.op == b.1.op));
            groups.for_each(|group| self.explain_reads(ended, group, &mut answer));
        }
        answer
    }

    /// Reads of this shard that did not see their own transaction's write.
    fn find_missed(self, ended: &Txn, found: &mut Explained) {
        let missed = ended.missed.iter().enumerate();
        let mut own = missed
            .filter(|(_, (_, object))| self.shard.share.owns(*object) && !self.may_see_both(ended, *object));
        if let Some((index, &(op, object))) = own.next() {
            let index = index as u32;
            found
                .broken
                .push((Spot { of: What::Own, group: 0, plain: false, op: OpId(index), index, object }, op));
        }
        let mut searches = ended.searches.iter().filter(|search| search.missed);
        if let Some(op) = searches.next().map(|search| search.op).filter(|_| self.shard.share.is_first()) {
            let object = ObjectId(0);
            found.broken.push((Spot { of: What::Search, group: 0, plain: false, op, index: 0, object }, op));
        }
    }

    /// Whether a transaction may see the row that it has replaced beside its own.
    fn may_see_both(self, ended: &Txn, object: ObjectId) -> bool {
        let Some(own) = ended.own(object).filter(|_| self.fixed.mechanisms.sees_both()) else { return false };
        let versions = self.shard.get(object).versions.iter();
        let others = versions.filter(|(version, _)| *version != Version::Of(ended.id)).map(|(_, fact)| fact);
        let unseen = self.shard.deletions((object, ended.id), self.fixed.world);
        own.may_be_inserted(ended.course.start(), others.chain(unseen))
    }

    /// The reads of this shard's objects, with their places.
    fn own_reads(self, ended: &Txn) -> Vec<(u32, Seen)> {
        let all = ended.reads.iter().zip(0..).map(|(seen, index)| (index, *seen));
        all.filter(|(_, seen)| self.shard.share.owns(seen.object)).collect()
    }

    /// Adds what the searches tell of the rows that they did not return and that may have matched.
    /// The others only remember that they were searched.
    fn leave_out(self, ended: &Txn, reads: &mut Vec<(u32, Seen)>, answer: &mut Answer) {
        for search in ended.searches.iter().filter(|search| search.whole) {
            let told = |object: &ObjectId| {
                search.skip.binary_search(object).is_err()
                    && !ended.is_clouded(*object, search.unseen, self.fixed.world)
            };
            let mut left_out = self.shard.may_match(search.predicate, self.fixed.world);
            left_out.retain(told);
            reads.extend(left_out.iter().map(|object| (u32::MAX, search.without(*object))));
            if self.fixed.mechanisms.certifier != Certified::Committed {
                answer.searched.push(self.searched(ended, search, left_out));
            }
        }
        reads.sort_by_key(|(_, seen)| seen.op);
    }

    /// What is to be remembered of a search, beyond these rows.
    fn searched(self, ended: &Txn, search: &Search, mut skip: Vec<ObjectId>) -> Searched {
        skip.extend(&search.skip);
        skip.sort_unstable();
        let by = ended.course.snapshot(self.fixed.mechanisms.view, search.at).after;
        let (txn, op, predicate) = (ended.id, search.op, search.predicate);
        let unseen = ended.unseen[..search.unseen].to_vec();
        Searched { txn, op, predicate, by, number: 0, skip, unseen }
    }

    /// Explains the reads of one snapshot. Those that only one version can explain tell nothing of
    /// the others, and most are such.
    fn explain_reads(self, ended: &Txn, group: &[(u32, Seen)], answer: &mut Answer) {
        let (number, whole) = (self.group_of(&group[0]), self.whole(ended, &group[0].1));
        let ask = |&(index, seen): &(u32, Seen)| {
            let record = self.shard.get(seen.object);
            let only = record.only(seen.object, seen.saw, ended.id, whole, self.fixed.world);
            let spot = Spot { plain: only.is_some(), ..Spot::of(&seen, index, What::Snapshot, number) };
            SharedRead { spot, seen, only }
        };
        let reads: Vec<SharedRead> = group.iter().map(ask).collect();
        let is_open = |read: &&SharedRead| read.only.is_none();
        let (opens, found) = (reads.iter().filter(is_open).count(), &mut answer.explained);
        let (together, first) = (self.fixed.mechanisms.together, group[0].1);
        let shares =
            |other: &Seen| !other.current && (self.fixed.mechanisms.view.is_shared() || other.op == first.op);
        let others = || group.iter().map(|(_, seen)| seen).chain(&ended.reads);
        let several =
            opens > 0 && together && others().any(|seen| seen.object != first.object && shares(seen));
        found.open.count(group.len(), opens, several);
        if together && !self.shard.share.is_all() {
            return answer.shared.extend(reads);
        }
        let open = |read: &SharedRead| self.open(ended, read.spot, read.seen);
        let open: Vec<OpenRead<'_>> = reads.iter().filter(is_open).map(open).collect();
        let reading = Reading { txn: ended.id, answered: ended.answered, whole };
        let snapshot = match open.is_empty() {
            true => Some(whole),
            false => explain_jointly(reading, &open, self.fixed, found),
        };
        let Some(snapshot) = snapshot else { return };
        reads.iter().for_each(|read| self.conclude_plainly(ended, read, snapshot.after, found));
        self.narrow_searches(number, snapshot.after, &mut answer.searched);
    }

    /// The searches share a snapshot of which is known by when it was taken.
    fn narrow_searches(self, group: u64, by: i64, searched: &mut [Searched]) {
        let mechanisms = self.fixed.mechanisms;
        let all = mechanisms.view.is_shared();
        let same =
            |searched: &&mut Searched| mechanisms.together && (all || u64::from(searched.op.0) == group);
        searched.iter_mut().filter(same).for_each(|searched| searched.by = by);
    }

    /// Concludes from what reads of several shards told together.
    pub fn conclude_shared(self, ended: &Txn, answer: &mut Answer, joined: &Joined) {
        let found = &mut answer.explained;
        for read in &answer.shared {
            let by = joined.by.iter().find(|(group, _)| *group == read.spot.group);
            let whole = || Some(self.whole(ended, &read.seen).after);
            if let Some(by) = by.map_or_else(whole, |(_, by)| *by) {
                self.conclude_plainly(ended, read, by, found);
            }
        }
        let own = |(_, object, _): &&(Spot, ObjectId, Reader)| self.shard.share.owns(*object);
        found.readers.extend(joined.explained.readers.iter().filter(own));
        found.sort();
        for (group, by) in joined.by.iter().filter_map(|(group, by)| Some((*group, (*by)?))) {
            self.narrow_searches(group, by, &mut answer.searched);
        }
    }

    /// What a read makes certain that only one version explains.
    fn conclude_plainly(self, ended: &Txn, read: &SharedRead, by: i64, found: &mut Explained) {
        let (SharedRead { spot, seen, only: Some(version) }, own) = (read, ended.own(read.seen.object))
        else {
            return;
        };
        let read = PlainRead { spot: *spot, seen: *seen, own: own.is_some(), version: *version, by };
        let whole = self.whole(ended, seen);
        let reading = Reading { txn: ended.id, answered: ended.answered, whole };
        self.shard.get(seen.object).conclude_plainly(read, reading, self.fixed, found);
    }

    /// Where the snapshot of a read may lie by the mechanisms alone.
    fn whole(self, ended: &Txn, seen: &Seen) -> Interval {
        ended.course.snapshot(self.fixed.mechanisms.view, seen.at)
    }

    /// The number of the snapshot that a read shares with others.
    fn group_of(self, (index, seen): &(u32, Seen)) -> u64 {
        let (together, shared) = (self.fixed.mechanisms.together, self.fixed.mechanisms.view.is_shared());
        match (together, shared) {
            (true, true) => 0,
            (true, false) => u64::from(seen.op.0),
            (false, true) => u64::from(seen.object.0),
            (false, false) => alone(seen, *index),
        }
    }

    /// A read with the versions that it may have seen.
    fn open(&self, ended: &Txn, spot: Spot, seen: Seen) -> OpenRead<'_> {
        let own = ended.own(seen.object).is_some();
        OpenRead { spot, seen, own, versions: &self.shard.get(seen.object).versions }
    }
}

/// The number of a read that shares its snapshot with no other.
fn alone(seen: &Seen, index: u32) -> u64 {
    u64::from(seen.op.0) << 32 | u64::from(index)
}

/// Explains open reads of one transaction together, each with all versions of its object.
pub(crate) fn join<'a>(
    ended: &Txn,
    open: impl Iterator<Item = (&'a SharedRead, &'a [(Version, Fact)])>,
    fixed: Fixed<'_>,
) -> Joined {
    let open = open.map(|(SharedRead { spot, seen, .. }, versions)| {
        let own = ended.own(seen.object).is_some();
        OpenRead { spot: *spot, seen: *seen, own, versions }
    });
    let (mut open, mut joined) = (open.collect::<Vec<_>>(), Joined::default());
    open.sort_by_key(|read| read.spot);
    for group in open.chunk_by(|a, b| a.spot.group == b.spot.group) {
        let whole = ended.course.snapshot(fixed.mechanisms.view, group[0].seen.at);
        let reading = Reading { txn: ended.id, answered: ended.answered, whole };
        let snapshot = explain_jointly(reading, group, fixed, &mut joined.explained);
        joined.by.push((group[0].spot.group, snapshot.map(|snapshot| snapshot.after)));
    }
    joined
}

impl Spot {
    fn of(seen: &Seen, index: u32, of: What, group: u64) -> Self {
        Self { of, group, plain: false, op: seen.op, index, object: seen.object }
    }
}

impl Search {
    fn without(&self, object: ObjectId) -> Seen {
        Seen { op: self.op, at: self.at, object, saw: Saw::Without(self.predicate), current: false }
    }
}
