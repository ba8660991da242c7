//! Open reads: those that more than one version may explain. The reads of one snapshot are
//! explained together.
//!
//! # Algorithm
//! [`explain`] narrows the interval of the snapshot by every read until nothing changes. Then each
//! read has its candidates. If there is only one, the reader depends on its writer (wr). A version
//! that is later than all candidates depends on the reader (rw).
//!
//! # Invariants
//! Everything needed comes with the reads. The function looks at no record and at no other
//! transaction, so it can run wherever the reads of a transaction are brought together.

use margay_history::{Interval, ObjectId, OpId, TxnId, Values, Version};
use margay_mechanisms::{Fact, ObjectSight, Saw, explain};
use margay_verdict::mechanism::{Certified, ReadView};

use crate::judge::{Explained, Spot};
use crate::record::{FORGOTTEN, is_direct};
use crate::shard::Fixed;
use crate::txn::Seen;

/// Whose reads are explained.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub txn: TxnId,
    /// When the last operation of the transaction was answered.
    pub answered: i64,
    /// Where the snapshot may lie by the mechanisms alone.
    pub whole: Interval,
}

/// A read with all versions that it may have seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenRead<'a> {
    pub spot: Spot,
    pub seen: Seen,
    /// Whether its transaction wrote the object too.
    pub own: bool,
    /// All that there are of the object.
    pub versions: &'a [(Version, Fact)],
}

/// One with the versions that its transaction may have read.
struct Looked<'a> {
    read: OpenRead<'a>,
    versions: Vec<&'a (Version, Fact)>,
}

/// Explains reads of one snapshot; answers where it may lie, if the reads can be explained.
pub(crate) fn explain_jointly(
    reading: Reading,
    group: &[OpenRead<'_>],
    fixed: Fixed<'_>,
    found: &mut Explained,
) -> Option<Interval> {
    let (world, all) = (fixed.world, !fixed.mechanisms.keeps_own());
    let visible = |(version, _): &&(Version, Fact)| all || *version != Version::Of(reading.txn);
    let looked: Vec<Looked<'_>> = group
        .iter()
        .map(|read| Looked { read: *read, versions: read.versions.iter().filter(visible).collect() })
        .collect();
    let facts: Vec<Vec<&Fact>> =
        looked.iter().map(|read| read.versions.iter().map(|(_, fact)| fact).collect()).collect();
    let sight = |(read, versions): (&OpenRead<'_>, _)| ObjectSight {
        object: read.seen.object,
        saw: read.seen.saw,
        versions,
    };
    let mut sights: Vec<ObjectSight<'_>> =
        group.iter().zip(facts.iter().map(Vec::as_slice)).map(sight).collect();
    let columns: Vec<(OpId, ObjectId, Saw, Vec<&Fact>)> = group
        .iter()
        .zip(&facts)
        .flat_map(|(read, facts)| read.seen.columns(facts, reading.whole, world.values))
        .collect();
    sights.extend(columns.iter().map(|(_, object, saw, versions)| ObjectSight {
        object: *object,
        saw: *saw,
        versions,
    }));
    let snapshot = match explain(&sights, reading.whole, world) {
        Ok(snapshot) => snapshot,
        Err(place) => {
            let of_column = || columns[place - group.len()].0;
            let op = group.get(place).map_or_else(of_column, |read| read.seen.op);
            found.broken.push((group[0].spot, op));
            return None;
        }
    };
    for (read, sight) in looked.iter().zip(&sights) {
        conclude(reading, snapshot, read, sight, fixed, found);
    }
    Some(snapshot)
}

/// What one read of an explained snapshot makes certain.
fn conclude(
    Reading { txn, answered, whole }: Reading,
    snapshot: Interval,
    Looked { read, versions }: &Looked<'_>,
    sight: &ObjectSight<'_>,
    fixed: Fixed<'_>,
    found: &mut Explained,
) {
    let (OpenRead { spot, seen, own, .. }, view, world) = (read, fixed.mechanisms.view, fixed.world);
    let candidates = sight.candidates(snapshot, world);
    if let Saw::Value(_) = seen.saw {
        found.wr.count(candidates.len() == 1, sight.possible(whole) == 1);
        if let [only] = candidates.as_slice()
            && let (Version::Of(writer), true) = (versions[*only].0, versions[*only].1.changes())
            && view != ReadView::Uncommitted
        {
            found.edges.push((*spot, seen.read(writer, txn)));
        }
    }
    let named = candidates.iter().map(|&i| versions[i].0).find(|version| *version != FORGOTTEN);
    let Some(version) = named else { return };
    let reader = seen.reader(txn, version, snapshot.after, candidates.len() == 1 && !own);
    let overwrites = |fact: &Fact| sight.is_overwritten_by(&candidates, snapshot, fact, world);
    for (later, fact) in versions {
        let Version::Of(writer) = later else { continue };
        if overwrites(fact) {
            // Who is judged later looks for the reader then; who comes after another depends on it
            // by way of that.
            if fact.installed.after > answered && fact.installed.before > snapshot.after {
                continue;
            }
            found.rw.count(true, fact.installed.before > whole.after);
            let between = |(_, other): &&(Version, Fact)| other.before(fact) && overwrites(other);
            if !versions.iter().any(between) {
                let ssi = fixed.mechanisms.certifier == Certified::Ssi;
                let direct = ssi && reader.sole && is_direct(read.versions, version, *writer, fixed.now);
                found.edges.push((*spot, seen.overwritten(&reader, *writer, direct)));
            }
        } else if fact.certain && fact.installed.after >= snapshot.before {
            found.rw.uncertain += u64::from(seen.saw.is_changed_by(seen.object, &fact.pattern, world));
        }
    }
    found.readers.push((*spot, seen.object, reader));
}

impl Seen {
    /// The columns of a row that partial writes left alone, as far as a version that determines
    /// them was there before the snapshot: earlier ones may be forgotten.
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
}
