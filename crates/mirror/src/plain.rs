//! Plain reads: those that only one version explains. The record of the object alone says what they make certain.
//!
//! # Invariants
//! A plain read tells nothing of the other reads of its snapshot. They tell something of it: where the
//! snapshot may lie.

use margay_history::{TxnId, Version};
use margay_mechanisms::{Fact, Saw, World};
use margay_verdict::mechanism::View;
use margay_verdict::{Edge, Reason};

use crate::joint::Reading;
use crate::judge::Explained;
use crate::record::{MarkedEdge, Reader, Record};
use crate::txn::Seen;

/// A plain read, with the version that it saw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainRead {
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
        PlainRead { seen, own, version, by }: PlainRead,
        Reading { txn, answered, .. }: Reading,
        (view, world): (View, World<'_>),
        found: &mut Explained,
    ) {
        if let Saw::Value(_) = seen.saw {
            found.wr.certain += 1;
            if let Version::Of(writer) = version
                && view != View::Uncommitted
                && self.changed_by(writer)
            {
                found.edges.push(seen.read(writer, txn));
            }
        }
        let changed = |fact: &Fact| seen.saw.is_changed_by(seen.object, &fact.pattern, world);
        let (next, count) = self.next_after(by, answered, changed);
        found.rw.certain += count;
        let reader = seen.reader(txn, version, by, !own);
        found.edges.extend(next.into_iter().map(|writer| seen.overwritten(&reader, writer)));
        found.readers.push((seen.object, reader));
    }
}

impl Seen {
    /// The reader depends on who wrote what it saw.
    pub fn read(&self, from: TxnId, to: TxnId) -> MarkedEdge {
        let edge = Edge { from, to, reason: Reason::Read { op: self.op, object: self.object } };
        MarkedEdge { edge, direct: false }
    }

    /// Who overwrites what was seen depends on the reader. Whether directly is still to be decided, unless
    /// the reader rules it out.
    pub fn overwritten(&self, reader: &Reader, to: TxnId) -> MarkedEdge {
        let (op, object, version) = (self.op, self.object, reader.version);
        let edge = Edge { from: reader.txn, to, reason: Reason::AntiRead { op, object, version } };
        MarkedEdge { edge, direct: reader.sole }
    }

    /// What is remembered of the read; `only` if it saw this version for certain, and its transaction wrote none.
    pub fn reader(&self, txn: TxnId, version: Version, by: i64, only: bool) -> Reader {
        let sole = only && matches!(self.saw, Saw::Value(_));
        Reader { txn, op: self.op, saw: self.saw, version, by, sole, number: u64::MAX }
    }
}
