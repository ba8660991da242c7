//! The picture of a finding: its slice, what is near it, and the versions of the objects involved.
//!
//! # Algorithm
//! The slice is what the certificate names. Near it are the neighbours of its transactions in their
//! sessions and whoever touched the same objects, the nearest in time first. A picture that comes
//! out too large is made again with half of everything, until it fits.

use std::collections::{BTreeSet, HashSet};

use margay_history::{History, ObjectId, Op, OpId, OpKind, TxnId};
use margay_verdict::{Broken, Certificate, Edge, Finding};

use crate::limit::{Limits, PICTURE_BYTES, bytes, clean};
use crate::picture::{Cycle, Op as OpView, Picture, Place, Txn};
use crate::touches::{Touches, shows};
use crate::versions::{self, outcome};
use crate::{edges, operation};

/// Objects whose versions are shown.
const OBJECTS: usize = 12;

/// The picture of a finding; nothing when it cannot be made small enough.
#[must_use]
pub fn picture(history: &History, touches: &Touches, finding: &Finding) -> Option<Picture> {
    let mut limits = Limits::FULL;
    for _ in 0..6 {
        let picture = Drawer { history, touches, finding, limits }.draw();
        if bytes(&picture) <= PICTURE_BYTES {
            return Some(picture);
        }
        limits = limits.halved();
    }
    None
}

/// The objects that a finding is about.
#[must_use]
pub fn objects(history: &History, finding: &Finding) -> Vec<ObjectId> {
    let of_ops = |ops: &[OpId]| -> Vec<ObjectId> {
        ops.iter().flat_map(|&op| history.op(op).accesses.iter().map(|access| access.object)).collect()
    };
    let all = match &finding.certificate {
        Certificate::Operations { ops, .. } => of_ops(ops),
        Certificate::Intervals(breach) => match &breach.broken {
            Broken::Read { op } => of_ops(&[*op]),
            Broken::Locks { object, .. } | Broken::Updates { object, .. } => vec![*object],
            Broken::Dependencies(edges) => edges.iter().filter_map(|edge| edge.reason.object()).collect(),
        },
        _ => lemmas(&finding.certificate).concat().iter().filter_map(|edge| edge.reason.object()).collect(),
    };
    let mut seen = HashSet::new();
    all.into_iter().filter(|&object| seen.insert(object)).take(OBJECTS).collect()
}

/// The edges of each cycle.
fn lemmas(certificate: &Certificate) -> Vec<Vec<Edge>> {
    match certificate {
        Certificate::Refutation(lemmas) => lemmas.iter().map(|lemma| lemma.edges.clone()).collect(),
        Certificate::Intervals(breach) => match &breach.broken {
            Broken::Dependencies(edges) => vec![edges.clone()],
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

struct Drawer<'a> {
    history: &'a History,
    touches: &'a Touches,
    finding: &'a Finding,
    limits: Limits,
}

impl Drawer<'_> {
    fn draw(&self) -> Picture {
        let mut left_out = Vec::new();
        let all_cycles = lemmas(&self.finding.certificate);
        let cycles: Vec<Cycle> =
            all_cycles.iter().take(self.limits.cycles).map(|edges| self.cycle(edges)).collect();
        note(&mut left_out, all_cycles.len() - cycles.len(), "cycle");
        let all_slice = self.slice(&all_cycles);
        let slice: Vec<TxnId> = all_slice.iter().copied().take(self.limits.slice).collect();
        note(&mut left_out, all_slice.len() - slice.len(), "transaction of the slice");
        let blamed = self.blamed();
        let important = self.important(&cycles, &blamed);
        let near = self.near(&slice);
        let shown: BTreeSet<TxnId> = slice.iter().copied().chain(near).collect();
        let objects = objects(self.history, self.finding);
        let origin = self.origin(&shown);
        Picture {
            origin,
            unit: self.history.is_timed().then(|| self.history.header().unit.name().to_owned()),
            transactions: shown
                .iter()
                .copied()
                .map(|txn| self.txn(txn, slice.contains(&txn), &important, origin))
                .collect(),
            cycles,
            blamed,
            objects: objects
                .iter()
                .map(|&o| versions::view(self.history, self.touches, o, &slice, &shown, self.limits))
                .collect(),
            left_out,
        }
    }

    /// Where times are counted from: 0, unless numbers are so large that a double does not hold
    /// them.
    fn origin(&self, shown: &BTreeSet<TxnId>) -> i64 {
        let largest = shown.iter().filter_map(|&txn| self.history.end(txn)).max().unwrap_or(0);
        let first = shown.iter().filter_map(|&txn| self.history.start(txn)).min().unwrap_or(0);
        if largest > 1 << 53 { first } else { 0 }
    }

    fn cycle(&self, edges: &[Edge]) -> Cycle {
        let closed = edges.last().map(|edge| edge.to) == edges.first().map(|edge| edge.from);
        let shown = edges.iter().take(self.limits.slice);
        Cycle {
            edges: shown.map(|edge| edges::view(self.history, edge, self.limits.text)).collect(),
            open: !closed,
        }
    }

    fn slice(&self, cycles: &[Vec<Edge>]) -> BTreeSet<TxnId> {
        let of_cycles = cycles.iter().take(self.limits.cycles).flatten();
        let mut all: BTreeSet<TxnId> = of_cycles.flat_map(|edge| edges::txns(self.history, edge)).collect();
        all.extend(&self.finding.txns);
        all.extend(self.blamed_ops().iter().map(|&op| self.history.txn_of(op)));
        all.extend(self.sources());
        all
    }

    /// Who wrote what an operation saw that cannot be explained.
    fn sources(&self) -> Vec<TxnId> {
        let Certificate::Operations { ops, .. } = &self.finding.certificate else { return Vec::new() };
        let seen = ops.iter().take(4).flat_map(|&op| self.history.op(op).accesses.iter().take(8));
        let writers = seen.flat_map(|access| {
            let touched = self.touches.get(access.object).iter().filter(|touch| touch.kind.writes());
            touched.filter(|touch| shows(self.history, access.value, touch.kind, touch.value)).take(3)
        });
        writers.map(|touch| touch.txn).collect()
    }

    /// The operations that are wrong in themselves.
    fn blamed_ops(&self) -> Vec<OpId> {
        match &self.finding.certificate {
            Certificate::Operations { ops, .. } => ops.clone(),
            Certificate::Unexplained(unexplained) => vec![unexplained.op],
            Certificate::Invariant(invariant) => vec![invariant.op],
            Certificate::Intervals(breach) => match &breach.broken {
                Broken::Read { op } => vec![*op],
                Broken::Locks { ops, .. } => ops.to_vec(),
                Broken::Updates { object, txns } => {
                    txns.iter().filter_map(|&txn| self.write_of(txn, *object)).collect()
                }
                Broken::Dependencies(_) => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    fn write_of(&self, txn: TxnId, object: ObjectId) -> Option<OpId> {
        let mut writes = self.history.ops(txn).filter(|op| op.kind.writes());
        writes.find(|op| op.accesses.iter().any(|access| access.object == object)).map(|op| op.id)
    }

    fn blamed(&self) -> Vec<Place> {
        self.blamed_ops().iter().take(self.limits.ops).map(|&op| self.place(op)).collect()
    }

    fn place(&self, op: OpId) -> Place {
        Place { txn: self.history.txn_label(self.history.txn_of(op)), op: self.history.op_index(op) }
    }

    /// The operations that must be shown whatever else is cut.
    fn important(&self, cycles: &[Cycle], blamed: &[Place]) -> HashSet<Place> {
        let edges = cycles.iter().flat_map(|cycle| &cycle.edges);
        let ends = edges.flat_map(|edge| {
            let from = edge.from_op.map(|op| Place { txn: edge.from, op });
            from.into_iter().chain(edge.to_op.map(|op| Place { txn: edge.to, op }))
        });
        ends.chain(blamed.iter().copied()).collect()
    }

    /// Transactions near the slice, the nearest first.
    fn near(&self, slice: &[TxnId]) -> Vec<TxnId> {
        let mut near: Vec<TxnId> = slice.iter().flat_map(|&txn| self.session_neighbours(txn)).collect();
        let mut others: Vec<TxnId> = objects(self.history, self.finding)
            .iter()
            .flat_map(|&object| self.touches.get(object).iter().map(|touch| touch.txn))
            .collect();
        others.sort_unstable();
        others.dedup();
        let span = self.span(slice);
        let key = |txn: &TxnId| (self.distance(*txn, span), *txn);
        // Enough even if the whole slice is among them. A hot object is touched by everybody: no
        // need to sort them all.
        let enough = self.limits.near + slice.len();
        if others.len() > enough {
            others.select_nth_unstable_by_key(enough, key);
            others.truncate(enough);
        }
        others.sort_unstable_by_key(key);
        near.extend(others);
        let mut seen: HashSet<TxnId> = slice.iter().copied().collect();
        near.into_iter().filter(|&txn| seen.insert(txn)).take(self.limits.near).collect()
    }

    fn session_neighbours(&self, txn: TxnId) -> impl Iterator<Item = TxnId> {
        let around = [txn.0.checked_sub(1), txn.0.checked_add(1)].into_iter().flatten().map(TxnId);
        let history = self.history;
        around.filter(move |&other| {
            other.index() < history.txn_count() && history.session_of(other) == history.session_of(txn)
        })
    }

    /// Where a transaction is: on the clock, or else in the order of the file.
    fn place_in_time(&self, txn: TxnId) -> i64 {
        self.history.start(txn).unwrap_or(i64::from(txn.0))
    }

    /// The first and the last place of the slice.
    fn span(&self, slice: &[TxnId]) -> (i64, i64) {
        let places = || slice.iter().map(|&txn| self.place_in_time(txn));
        (places().min().unwrap_or(0), places().max().unwrap_or(0))
    }

    /// How far a transaction is from the slice.
    fn distance(&self, txn: TxnId, (first, last): (i64, i64)) -> u64 {
        let at = self.place_in_time(txn);
        if (first..=last).contains(&at) { 0 } else { at.abs_diff(first).min(at.abs_diff(last)) }
    }

    fn txn(&self, txn: TxnId, slice: bool, important: &HashSet<Place>, origin: i64) -> Txn {
        let count = self.history.op_range(txn).len();
        // Few operations of those that are only near are enough.
        let most = if slice { self.limits.ops } else { self.limits.ops / 3 };
        let keep = |op: &Op<'_>| {
            let index = self.history.op_index(op.id) as usize;
            index < most || index + 1 == count || important.contains(&self.place(op.id))
        };
        let ops: Vec<OpView> = self.history.ops(txn).filter(keep).map(|op| self.op(op, origin)).collect();
        Txn {
            txn: self.history.txn_label(txn),
            session: self.history.session_label(self.history.session_of(txn)),
            outcome: outcome(self.history.outcome(txn)).to_owned(),
            slice,
            left_out: count - ops.len(),
            ops,
        }
    }

    fn op(&self, op: Op<'_>, origin: i64) -> OpView {
        let name = |object: ObjectId| clean(&self.history.show_object(object), self.limits.text);
        OpView {
            op: self.history.op_index(op.id),
            kind: kind(op.kind).to_owned(),
            text: operation::text(self.history, op, self.limits.text),
            objects: op.accesses.iter().take(8).map(|access| name(access.object)).collect(),
            at: op.at.map(|at| [at.before.saturating_sub(origin), at.after.saturating_sub(origin)]),
        }
    }
}

fn kind(kind: OpKind) -> &'static str {
    kind.name()
}

fn note(notes: &mut Vec<String>, count: usize, what: &str) {
    if count > 0 {
        notes.push(format!("{count} more {what}{}", if count == 1 { "" } else { "s" }));
    }
}
