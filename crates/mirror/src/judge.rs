//! The reads of a committed transaction are explained.
//!
//! # Algorithm
//! The reads that share a snapshot are explained together ([`explain`]); a search also tells of the rows that
//! it did not return. A read that only one version explains depends on its writer (wr). A version that is
//! later than everything that a read may have seen depends on the reader (rw); of a row that was not
//! returned, only a version that would have been.
//!
//! # Invariants
//! Explaining looks only at versions, which stay as they are while transactions are judged. So many
//! transactions can be explained at the same time, and what comes of it is the same as if they had been
//! explained one by one.

use margay_history::{Interval, ObjectId, OpId, TxnId, Values, Version};
use margay_mechanisms::{Fact, Saw, Sight, World, explain};
use margay_verdict::mechanism::{Certified, View};
use margay_verdict::{Edge, Reason};

use crate::mirror::Mirror;
use crate::record::{FORGOTTEN, Reader};
use crate::searched::Searched;
use crate::statistics::Dependencies;
use crate::store::{Store, deletions};
use crate::txn::{Search, Seen, Txn};

/// A snapshot that explains the reads of a transaction.
struct Shown<'a> {
    ended: &'a Txn,
    /// Where it may lie by the mechanisms alone.
    whole: Interval,
    /// Where it may lie given what was seen.
    snapshot: Interval,
    world: World<'a>,
}

/// What explaining a transaction's reads brought to light.
#[derive(Default, Debug)]
pub(crate) struct Explained {
    pub broken: Vec<OpId>,
    pub edges: Vec<Edge>,
    pub readers: Vec<(ObjectId, Reader)>,
    /// Its searches, of the rows that none of the readers is about.
    pub searched: Vec<Searched>,
    /// By when the snapshots were taken, with the first operations that they show, if there are searches.
    by: Vec<(OpId, i64)>,
    pub wr: Dependencies,
    pub rw: Dependencies,
}

impl Mirror {
    /// Explains all reads of a transaction.
    pub(crate) fn explain(&self, ended: &Txn, values: &Values) -> Explained {
        let mut found = Explained::default();
        let missed = ended.searches.iter().filter(|search| search.missed).map(|search| search.op);
        let own = ended.missed.iter().filter(|(_, object)| !self.may_see_both(ended, *object, values));
        found.broken.extend(own.map(|(op, _)| *op).chain(missed).next());
        if ended.searches.iter().all(|search| !search.whole) {
            self.explain_groups(ended, &ended.reads, values, &mut found);
        } else {
            let reads = self.with_left_out(ended, values, &mut found);
            self.explain_groups(ended, &reads, values, &mut found);
            let all_by = found.by.first().copied().filter(|_| self.mechanisms.view.is_shared());
            for searched in found.searched.iter_mut().filter(|_| self.mechanisms.together) {
                let own = found.by.iter().find(|(op, _)| *op == searched.op).copied();
                searched.by = all_by.or(own).map_or(searched.by, |(_, by)| by);
            }
        }
        found
    }

    /// Whether a transaction may see the row that it has replaced beside its own.
    fn may_see_both(&self, ended: &Txn, object: ObjectId, values: &Values) -> bool {
        let Some(own) = ended.own(object).filter(|_| self.mechanisms.sees_both()) else { return false };
        let versions = self.store.get(object).versions.iter();
        let others = versions.filter(|(version, _)| *version != Version::Of(ended.id)).map(|(_, fact)| fact);
        let Store { tables, everywhere, .. } = &self.store;
        let world = World { values, searches: &self.searches };
        let unseen = deletions(tables, everywhere, (object, ended.id), world);
        own.may_be_inserted(ended.course.start(), others.chain(unseen))
    }

    /// The reads, and what the searches tell of the rows that they did not return and that may have matched.
    /// The others only remember that they were searched.
    fn with_left_out(&self, ended: &Txn, values: &Values, found: &mut Explained) -> Vec<Seen> {
        let mut reads = ended.reads.clone();
        for search in ended.searches.iter().filter(|search| search.whole) {
            let world = World { values, searches: &self.searches };
            let told = |object: &ObjectId| {
                search.skip.binary_search(object).is_err() && !ended.is_clouded(*object, search.unseen, world)
            };
            let mut left_out = self.store.may_match(search.predicate, &self.searches);
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
    fn searched(&self, ended: &Txn, search: &Search, mut skip: Vec<ObjectId>) -> Searched {
        skip.extend(&search.skip);
        skip.sort_unstable();
        let by = ended.course.snapshot(self.mechanisms.view, search.at).after;
        let (txn, op, predicate) = (ended.id, search.op, search.predicate);
        let unseen = ended.unseen[..search.unseen].to_vec();
        Searched { txn, op, predicate, by, number: 0, skip, unseen }
    }

    fn explain_groups(&self, ended: &Txn, reads: &[Seen], values: &Values, found: &mut Explained) {
        if reads.iter().any(|seen| seen.current) {
            let (current, plain): (Vec<Seen>, Vec<Seen>) = reads.iter().partition(|seen| seen.current);
            for seen in &current {
                self.explain_group(ended, std::slice::from_ref(seen), seen.at, values, found);
            }
            return self.explain_groups(ended, &plain, values, found);
        }
        let (together, shared) = (self.mechanisms.together, self.mechanisms.view.is_shared());
        if shared && !together {
            let mut by_object = reads.to_vec();
            by_object.sort_by_key(|seen| seen.object);
            let groups = by_object.chunk_by(|a, b| a.object == b.object);
            return groups.for_each(|group| self.explain_reads(ended, group, values, found));
        }
        let groups = reads.chunk_by(|a, b| together && (shared || a.op == b.op));
        groups.for_each(|group| self.explain_reads(ended, group, values, found));
    }

    /// Explains the reads of one snapshot. Those that only one version can explain tell nothing of the
    /// others, and most are such.
    fn explain_reads(&self, ended: &Txn, group: &[Seen], values: &Values, found: &mut Explained) {
        let whole = ended.course.snapshot(self.mechanisms.view, group[0].at);
        let world = World { values, searches: &self.searches };
        let only =
            |seen: &Seen| self.store.get(seen.object).only(seen.object, seen.saw, ended.id, whole, world);
        let only: Vec<Option<Version>> = group.iter().map(only).collect();
        let rest: Vec<Seen> =
            group.iter().zip(&only).filter(|(_, only)| only.is_none()).map(|(seen, _)| *seen).collect();
        let snapshot = match rest.is_empty() {
            true => Some(whole),
            false => self.explain_group(ended, &rest, whole, values, found),
        };
        let Some(snapshot) = snapshot else { return };
        if !ended.searches.is_empty() {
            found.by.push((group[0].op, snapshot.after));
        }
        let shown = Shown { ended, whole, snapshot, world };
        for (seen, only) in group.iter().zip(only) {
            if let Some(version) = only {
                self.conclude_plainly(&shown, seen, version, found);
            }
        }
    }

    /// What a read of the only version that was there makes certain. Who is judged later looks for the reader then.
    fn conclude_plainly(&self, shown: &Shown<'_>, seen: &Seen, version: Version, found: &mut Explained) {
        let Shown { ended, snapshot, world, .. } = *shown;
        if let Saw::Value(_) = seen.saw {
            found.wr.certain += 1;
            if let Version::Of(writer) = version
                && self.mechanisms.view != View::Uncommitted
                && self.store.get(seen.object).changed_by(writer)
            {
                found.edges.push(seen.read(writer, ended.id));
            }
        }
        let changed = |fact: &Fact| seen.saw.is_changed_by(seen.object, &fact.pattern, world);
        let (next, count) = self.store.get(seen.object).next_after(snapshot.after, ended.answered, changed);
        found.rw.certain += count;
        found.edges.extend(next.into_iter().map(|writer| seen.overwritten(ended.id, version, writer)));
        let sole = ended.own(seen.object).is_none();
        found.readers.push((seen.object, seen.reader(ended.id, version, snapshot.after, sole)));
    }

    /// Explains reads of one snapshot together; answers where it may lie.
    fn explain_group(
        &self,
        ended: &Txn,
        group: &[Seen],
        whole: Interval,
        values: &Values,
        found: &mut Explained,
    ) -> Option<Interval> {
        let txn = ended.id;
        let world = World { values, searches: &self.searches };
        let versions: Vec<Vec<&(Version, Fact)>> =
            group.iter().map(|seen| self.versions(txn, seen.object)).collect();
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
            Err(place) => {
                let of_column = || columns[place - group.len()].0;
                found.broken.push(group.get(place).map_or_else(of_column, |seen| seen.op));
                return None;
            }
        };
        let shown = Shown { ended, whole, snapshot, world };
        for ((seen, sight), versions) in group.iter().zip(&sights).zip(&versions) {
            self.conclude(&shown, seen, sight, versions, found);
        }
        Some(snapshot)
    }

    /// The versions that a transaction may have read.
    fn versions(&self, txn: TxnId, object: ObjectId) -> Vec<&(Version, Fact)> {
        let (record, all) = (self.store.get(object), !self.mechanisms.keeps_own());
        record.versions.iter().filter(|(version, _)| all || *version != Version::Of(txn)).collect()
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
        let Shown { ended, whole, snapshot, world } = *shown;
        let (txn, answered) = (ended.id, ended.answered);
        let candidates = sight.candidates(snapshot, world);
        if let Saw::Value(_) = seen.saw {
            found.wr.count(candidates.len() == 1, sight.possible(whole) == 1);
            if let [only] = candidates.as_slice()
                && let (Version::Of(writer), true) = (versions[*only].0, versions[*only].1.changes())
                && self.mechanisms.view != View::Uncommitted
            {
                found.edges.push(seen.read(writer, txn));
            }
        }
        let named = candidates.iter().map(|&i| versions[i].0).find(|version| *version != FORGOTTEN);
        let Some(version) = named else { return };
        let overwrites = |fact: &Fact| sight.is_overwritten_by(&candidates, snapshot, fact, world);
        for (later, fact) in versions {
            let Version::Of(writer) = later else { continue };
            if overwrites(fact) {
                // Who is judged later looks for the reader then; who comes after another depends on it by way of that.
                if fact.installed.after > answered && fact.installed.before > snapshot.after {
                    continue;
                }
                found.rw.count(true, fact.installed.before > whole.after);
                let between = |(_, other): &&(Version, Fact)| other.before(fact) && overwrites(other);
                if !versions.iter().any(between) {
                    found.edges.push(seen.overwritten(txn, version, *writer));
                }
            } else if fact.certain && fact.installed.after >= snapshot.before {
                found.rw.uncertain += u64::from(seen.saw.is_changed_by(seen.object, &fact.pattern, world));
            }
        }
        let sole = candidates.len() == 1 && ended.own(seen.object).is_none();
        found.readers.push((seen.object, seen.reader(txn, version, snapshot.after, sole)));
    }
}

impl Seen {
    /// The columns of a row that partial writes left alone, as far as a version that determines them was
    /// there before the snapshot: earlier ones may be forgotten.
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

    fn reader(&self, txn: TxnId, version: Version, by: i64, only: bool) -> Reader {
        let sole = only && matches!(self.saw, Saw::Value(_));
        Reader { txn, op: self.op, saw: self.saw, version, by, sole }
    }
}

impl Search {
    fn without(&self, object: ObjectId) -> Seen {
        Seen { op: self.op, at: self.at, object, saw: Saw::Without(self.predicate), current: false }
    }
}
