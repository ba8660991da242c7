//! From a cycle of nodes to lemmas that audit can check.
//!
//! # Algorithm
//! Steps inside a transaction disappear, runs of moments become one edge. A sight with several
//! possible versions gives one lemma for each: whichever it saw, the cycle is there. So a cycle
//! with such sights is a product of lemmas, which together leave no possibility.

use margay_history::TxnId;
use margay_levels::definition::Family;
use margay_verdict::{Edge, Lemma, Reason, Stamp};

use crate::cycle::Steps;
use crate::deps::{Deps, Label};
use crate::sights::ObjectSight;
use crate::world::World;

/// No more lemmas than this for one cycle.
const MAX_LEMMAS: usize = 256;

/// What is needed to name the edges of a cycle.
pub(crate) struct Prover<'w, 'a> {
    pub world: &'w World<'a>,
    pub deps: &'w Deps,
    pub sights: &'w [ObjectSight],
}

/// A piece of a cycle: alternatives, of which one is true, each a path.
type Piece = Vec<Vec<Edge>>;

impl Prover<'_, '_> {
    /// The lemmas of a cycle; `options` tells the ranks that a sight may have seen. None when there
    /// would be too many.
    pub fn lemmas(
        &self,
        cycle: &Steps,
        mut options: impl FnMut(u32, &ObjectSight) -> Vec<u32>,
    ) -> Option<Vec<Lemma>> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut apart = Vec::new();
        let mut options =
            |index: u32, sight: &ObjectSight| self.likely(sight, options(index, sight), &mut apart);
        let first = cycle.iter().position(|step| step.0 < self.deps.points)?;
        let mut left = cycle[first].0;
        let mut run: Option<(u32, u32)> = None;
        for &(from, to, label) in cycle[first..].iter().chain(&cycle[..first]) {
            if from < self.deps.points {
                left = from;
            }
            if to >= self.deps.points {
                continue;
            }
            if label == Label::Stamp {
                run = Some(self.stamped(run, left, to, &mut pieces));
                continue;
            }
            self.flush(&mut run, &mut pieces);
            pieces.extend(self.piece(left, to, label, &mut options));
        }
        self.flush(&mut run, &mut pieces);
        let mut lemmas = product(&pieces)?;
        lemmas.extend(apart);
        Some(lemmas)
    }

    /// Ranks after the reader's own are refuted apart: it would have seen what comes after its own
    /// version.
    fn likely(&self, sight: &ObjectSight, ranks: Vec<u32>, apart: &mut Vec<Lemma>) -> Vec<u32> {
        let orders = &self.world.orders;
        let Some(mine) = orders.rank(sight.object, sight.txn) else { return ranks };
        let (before, after): (Vec<u32>, Vec<u32>) = ranks.into_iter().partition(|&rank| rank < mine);
        if before.is_empty() {
            return after;
        }
        for later in after.into_iter().filter_map(|rank| orders.writer(sight.object, rank)) {
            let ww = Edge { from: sight.txn, to: later, reason: Reason::Write { object: sight.object } };
            let reason = Reason::Read { op: sight.op, object: sight.object };
            apart.push(Lemma { edges: vec![ww, Edge { from: later, to: sight.txn, reason }] });
        }
        before
    }

    /// Joins recorded steps that follow each other, unless they would lead from a begin to a begin.
    fn stamped(&self, run: Option<(u32, u32)>, from: u32, to: u32, pieces: &mut Vec<Piece>) -> (u32, u32) {
        let rules = self.deps.rules;
        match run {
            Some((start, end)) if end == from => {
                let joins =
                    rules.txn(start) != rules.txn(to) && !(rules.is_begin(start) && rules.is_begin(to));
                if joins {
                    return (start, to);
                }
                pieces.push(vec![vec![self.recorded(start, end)]]);
                (from, to)
            }
            Some((start, end)) => {
                pieces.push(vec![vec![self.recorded(start, end)]]);
                (from, to)
            }
            None => (from, to),
        }
    }

    fn flush(&self, run: &mut Option<(u32, u32)>, pieces: &mut Vec<Piece>) {
        if let Some((from, to)) = run.take() {
            pieces.push(vec![vec![self.recorded(from, to)]]);
        }
    }

    fn recorded(&self, from: u32, to: u32) -> Edge {
        let rules = self.deps.rules;
        let stamp = match (rules.family, rules.is_begin(from), rules.is_begin(to)) {
            (Family::Serial, _, _) => Stamp::Serialization,
            (_, false, false) => Stamp::Commit,
            (_, false, true) => Stamp::Inside,
            (_, true, _) => Stamp::Outside,
        };
        Edge { from: rules.txn(from), to: rules.txn(to), reason: Reason::Recorded(stamp) }
    }

    fn piece(
        &self,
        from: u32,
        to: u32,
        label: Label,
        options: &mut impl FnMut(u32, &ObjectSight) -> Vec<u32>,
    ) -> Option<Piece> {
        let rules = self.deps.rules;
        let (from, to) = (rules.txn(from), rules.txn(to));
        let plain = |reason| vec![vec![Edge { from, to, reason }]];
        Some(match label {
            Label::Inside | Label::Stamp => return None,
            Label::Session => plain(Reason::Session),
            Label::Time => plain(Reason::RealTime),
            Label::Write(place) => plain(Reason::Write { object: self.world.orders.at(place).0 }),
            Label::Read(index) => {
                let sight = &self.sights[index as usize];
                options(index, sight).into_iter().filter_map(|rank| self.read(from, sight, rank)).collect()
            }
            Label::Anti(index) => {
                let sight = &self.sights[index as usize];
                let anti = |rank| {
                    let version = self.world.orders.version(sight.object, rank);
                    let reason = Reason::AntiRead { op: sight.op, object: sight.object, version };
                    vec![Edge { from, to, reason }]
                };
                options(index, sight).into_iter().map(anti).collect()
            }
        })
    }

    /// From the writer of the lowest rank to the one that was seen, and on to the reader.
    fn read(&self, from: TxnId, sight: &ObjectSight, rank: u32) -> Option<Vec<Edge>> {
        let &ObjectSight { op, object, txn, .. } = sight;
        let seen = self.world.orders.writer(object, rank)?;
        let last = Edge { from: seen, to: txn, reason: Reason::Read { op, object } };
        Some(if seen == from {
            vec![last]
        } else {
            vec![Edge { from, to: seen, reason: Reason::Write { object } }, last]
        })
    }
}

fn product(pieces: &[Piece]) -> Option<Vec<Lemma>> {
    let mut all: Vec<Vec<Edge>> = vec![Vec::new()];
    for piece in pieces {
        if all.len() * piece.len() > MAX_LEMMAS {
            return None;
        }
        all = all.iter().flat_map(|edges| piece.iter().map(|more| [&edges[..], more].concat())).collect();
    }
    Some(all.into_iter().filter(|edges| !edges.is_empty()).map(|edges| Lemma { edges }).collect())
}
