//! Open reads: those that more than one version may explain. The reads of one snapshot are explained together.
//!
//! # Algorithm
//! [`explain`] narrows the interval of the snapshot by every read until nothing changes. Then each read has
//! its candidates. If there is only one, the reader depends on its writer (wr). A version that is later than
//! all candidates depends on the reader (rw).
//!
//! # Invariants
//! Everything needed comes with the reads. The function looks at no record and at no other transaction, so it
//! can run wherever the reads of a transaction are brought together.

use margay_history::{Interval, ObjectId, OpId, TxnId, Values, Version};
use margay_mechanisms::{Fact, Saw, Sight, World, explain};
use margay_verdict::mechanism::View;

use crate::judge::Explained;
use crate::record::FORGOTTEN;
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
#[derive(Debug)]
pub(crate) struct OpenRead<'a> {
    pub seen: Seen,
    /// Whether its transaction wrote the object too.
    pub own: bool,
    pub versions: Vec<&'a (Version, Fact)>,
}

/// Explains reads of one snapshot; answers where it may lie, if the reads can be explained.
pub(crate) fn explain_jointly(
    reading: Reading,
    group: &[OpenRead<'_>],
    view: View,
    world: World<'_>,
    found: &mut Explained,
) -> Option<Interval> {
    let facts: Vec<Vec<&Fact>> =
        group.iter().map(|read| read.versions.iter().map(|(_, fact)| fact).collect()).collect();
    let sight = |(read, versions): (&OpenRead<'_>, _)| Sight {
        object: read.seen.object,
        saw: read.seen.saw,
        versions,
    };
    let mut sights: Vec<Sight<'_>> = group.iter().zip(facts.iter().map(Vec::as_slice)).map(sight).collect();
    let columns: Vec<(OpId, ObjectId, Saw, Vec<&Fact>)> = group
        .iter()
        .zip(&facts)
        .flat_map(|(read, facts)| read.seen.columns(facts, reading.whole, world.values))
        .collect();
    sights.extend(columns.iter().map(|(_, object, saw, versions)| Sight {
        object: *object,
        saw: *saw,
        versions,
    }));
    let snapshot = match explain(&sights, reading.whole, world) {
        Ok(snapshot) => snapshot,
        Err(place) => {
            let of_column = || columns[place - group.len()].0;
            found.broken.push(group.get(place).map_or_else(of_column, |read| read.seen.op));
            return None;
        }
    };
    for (read, sight) in group.iter().zip(&sights) {
        conclude(reading, snapshot, read, sight, (view, world), found);
    }
    Some(snapshot)
}

/// What one read of an explained snapshot makes certain.
fn conclude(
    Reading { txn, answered, whole }: Reading,
    snapshot: Interval,
    OpenRead { seen, own, versions }: &OpenRead<'_>,
    sight: &Sight<'_>,
    (view, world): (View, World<'_>),
    found: &mut Explained,
) {
    let candidates = sight.candidates(snapshot, world);
    if let Saw::Value(_) = seen.saw {
        found.wr.count(candidates.len() == 1, sight.possible(whole) == 1);
        if let [only] = candidates.as_slice()
            && let (Version::Of(writer), true) = (versions[*only].0, versions[*only].1.changes())
            && view != View::Uncommitted
        {
            found.edges.push(seen.read(writer, txn));
        }
    }
    let named = candidates.iter().map(|&i| versions[i].0).find(|version| *version != FORGOTTEN);
    let Some(version) = named else { return };
    let reader = seen.reader(txn, version, snapshot.after, candidates.len() == 1 && !own);
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
                found.edges.push(seen.overwritten(&reader, *writer));
            }
        } else if fact.certain && fact.installed.after >= snapshot.before {
            found.rw.uncertain += u64::from(seen.saw.is_changed_by(seen.object, &fact.pattern, world));
        }
    }
    found.readers.push((seen.object, reader));
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
}
