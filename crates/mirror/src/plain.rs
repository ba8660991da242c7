//! Plain reads: those that only one version explains. The record of the object alone says what they
//! make certain.
//!
//! # Invariants
//! A plain read tells nothing of the other reads of its snapshot. They tell something of it: where
//! the snapshot may lie.

use margay_history::{TxnId, Version};
use margay_mechanisms::{Fact, Saw};
use margay_verdict::mechanism::{Certified, ReadView};
use margay_verdict::{Edge, Reason};

use crate::joint::Reading;
use crate::judge::{Explained, Spot};
use crate::record::{MarkedEdge, Reader, Record};
use crate::shard::Fixed;
use crate::txn::Seen;

/// A plain read, with the version that it saw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainRead {
    pub spot: Spot,
    pub seen: Seen,
    /// Whether its transaction wrote the object too.
    pub own: bool,
    pub version: Version,
    /// By when its snapshot was taken, given all reads of the snapshot.
    pub by: i64,
}

impl Record {
    /// What a plain read makes certain. Who is judged later looks for the reader then.
    pub fn conclude_plainly(
        &self,
        PlainRead { spot, seen, own, version, by }: PlainRead,
        Reading { txn, answered, .. }: Reading,
        fixed: Fixed<'_>,
        found: &mut Explained,
    ) {
        let (view, world) = (fixed.mechanisms.view, fixed.world);
        if let Saw::Value(_) = seen.saw {
            found.wr.certain += 1;
            if let Version::Of(writer) = version
                && view != ReadView::Uncommitted
                && self.changed_by(writer)
            {
                found.edges.push((spot, seen.read(writer, txn)));
            }
        }
        let changed = |fact: &Fact| seen.saw.is_changed_by(seen.object, &fact.pattern, world);
        let (next, count) = self.next_after(by, answered, changed);
        found.rw.certain += count;
        let reader = seen.reader(txn, version, by, !own);
        let ssi = fixed.mechanisms.certifier == Certified::Ssi && reader.sole;
        for writer in next {
            let direct = ssi && self.is_direct(version, writer, fixed.now);
            found.edges.push((spot, seen.overwritten(&reader, writer, direct)));
        }
        found.readers.push((spot, seen.object, reader));
    }
}

impl Seen {
    /// The reader depends on who wrote what it saw.
    pub fn read(&self, from: TxnId, to: TxnId) -> MarkedEdge {
        let edge = Edge { from, to, reason: Reason::Read { op: self.op, object: self.object } };
        MarkedEdge { edge, direct: false }
    }

    /// Who overwrites what was seen depends on the reader.
    pub fn overwritten(&self, reader: &Reader, to: TxnId, direct: bool) -> MarkedEdge {
        let (op, object, version) = (self.op, self.object, reader.version);
        let edge = Edge { from: reader.txn, to, reason: Reason::AntiRead { op, object, version } };
        MarkedEdge { edge, direct }
    }

    /// What is remembered of the read; `only` if it saw this version for certain, and its
    /// transaction wrote none.
    pub fn reader(&self, txn: TxnId, version: Version, by: i64, only: bool) -> Reader {
        let sole = only && matches!(self.saw, Saw::Value(_));
        Reader { txn, op: self.op, saw: self.saw, version, by, sole, number: u64::MAX }
    }
}
