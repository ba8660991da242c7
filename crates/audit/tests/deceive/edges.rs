//! Every edge that audit takes for true, and the cycles that they make.

use margay_audit::audit;
use margay_history::{History, NameId, ObjectId, Op, OpId, Outcome, TxnId, Version};
use margay_levels::Level;
use margay_levels::definition::Family;
use margay_testkit::{Rng, show};
use margay_verdict::{Certificate, Edge, Lemma, Question, Reason, Stamp};

/// A lemma is true of the history, but does not refute it.
pub const LEAVES: &str = "the lemmas leave a possibility";

/// How many lemmas make one refutation.
const LEMMAS: usize = 400;

const STAMPS: [Stamp; 4] = [Stamp::Serialization, Stamp::Commit, Stamp::Inside, Stamp::Outside];

pub struct Edges<'h> {
    pub history: &'h History,
    pub question: Question,
    txns: Vec<TxnId>,
    all: Vec<Edge>,
}

impl<'h> Edges<'h> {
    pub fn new(history: &'h History, question: Question) -> Self {
        let txns = history.txns().filter(|&t| history.outcome(t) != Outcome::Aborted).collect();
        let mut edges = Self { history, question, txns, all: Vec::new() };
        for from in edges.txns.clone() {
            for to in edges.txns.clone().into_iter().filter(|&to| to != from) {
                let reasons = edges.reasons(from, to);
                let made = reasons.into_iter().map(|reason| Edge { from, to, reason });
                let there: Vec<Edge> = made.filter(|edge| edges.is_there(edge)).collect();
                edges.all.extend(there);
            }
        }
        if matches!(question.level.family(), Family::CommitOrder(_)) {
            let visible: Vec<Edge> =
                edges.visible().into_iter().filter(|edge| edges.is_there(edge)).collect();
            edges.all.extend(visible);
        }
        edges
    }

    /// Lemmas of two to four edges that are true of the history, as many as there is room for.
    pub fn lemmas(&self, rng: &mut Rng) -> Vec<Lemma> {
        let mut cycles: Vec<Vec<Edge>> = Vec::new();
        for a in &self.all {
            let back = self.all.iter().filter(|b| b.from == a.to && b.to == a.from);
            cycles.extend(back.map(|b| vec![a.clone(), b.clone()]));
        }
        (1..cycles.len()).for_each(|i| cycles.swap(i, rng.below(i + 1)));
        cycles.retain(|cycle| self.may_stand(cycle));
        cycles.truncate(LEMMAS / 2);
        for _ in 0..LEMMAS * 4 {
            cycles.extend(self.walk(rng).filter(|cycle| cycles.len() < LEMMAS && self.may_stand(cycle)));
        }
        self.true_ones(cycles.into_iter().map(|edges| Lemma { edges }).collect())
    }

    /// A closed walk of three or four edges.
    fn walk(&self, rng: &mut Rng) -> Option<Vec<Edge>> {
        let mut walk: Vec<Edge> = Vec::new();
        for _ in 0..3 + rng.below(2) {
            let from = walk.last().map(|edge| edge.to);
            let next: Vec<&Edge> =
                self.all.iter().filter(|e| from.is_none_or(|from| e.from == from)).collect();
            if next.is_empty() {
                return None;
            }
            walk.push((*rng.pick(&next)).clone());
        }
        (walk.last()?.to == walk[0].from).then_some(walk)
    }

    /// Only to save time: what audit refuses by its kind anyway.
    fn may_stand(&self, cycle: &[Edge]) -> bool {
        let anti = cycle.iter().filter(|edge| edge.reason.is_anti()).count();
        match self.question.level {
            Level::ReadUncommitted => cycle.iter().all(|e| anti == 0 && !e.reason.is_read()),
            Level::ReadCommitted => anti == 0,
            Level::ParallelSnapshot | Level::BeReadCommitted | Level::ReadAtomic | Level::Causal => anti <= 1,
            _ => true,
        }
    }

    fn true_ones(&self, lemmas: Vec<Lemma>) -> Vec<Lemma> {
        if lemmas.is_empty() {
            return lemmas;
        }
        match self.refute(&lemmas) {
            why if why == LEAVES => lemmas,
            _ if lemmas.len() == 1 => Vec::new(),
            _ => {
                let (mut first, mut second) = (lemmas, Vec::new());
                second.extend(first.drain(first.len() / 2..));
                [first, second].into_iter().flat_map(|half| self.true_ones(half)).collect()
            }
        }
    }

    /// Why audit refuses a refutation of what holds.
    pub fn refute(&self, lemmas: &[Lemma]) -> String {
        match audit(self.history, self.question, &Certificate::Refutation(lemmas.to_vec())) {
            Err(why) => why.to_string(),
            Ok(()) => self.deceived(lemmas.to_vec()),
        }
    }

    /// Tells with how few lemmas.
    fn deceived(&self, mut lemmas: Vec<Lemma>) -> String {
        let refutes = |lemmas: &[Lemma]| {
            audit(self.history, self.question, &Certificate::Refutation(lemmas.to_vec())).is_ok()
        };
        let mut place = 0;
        while place < lemmas.len() {
            let lemma = lemmas.remove(place);
            if !refutes(&lemmas) {
                lemmas.insert(place, lemma);
                place += 1;
            }
        }
        panic!("{:?} holds, and is refuted:\n{}\n{lemmas:#?}", self.question, show(self.history))
    }

    /// Whether audit takes an edge for true: of a cycle whose second edge is nonsense it then
    /// complains about the second.
    fn is_there(&self, edge: &Edge) -> bool {
        let back = Edge { from: edge.to, to: edge.from, reason: Reason::Session };
        let name = |txn| self.history.show_txn(txn);
        let nonsense =
            format!("the edge from {} to {} is not in the history", name(back.from), name(back.to));
        let why = self.refute(&[Lemma { edges: vec![edge.clone(), back] }]);
        why == nonsense || why == LEAVES || why.contains("allows a cycle of this shape")
    }

    fn columns(&self) -> impl Iterator<Item = NameId> + use<> {
        (0..self.history.values().name_count()).map(NameId::at)
    }

    fn versions(&self) -> impl Iterator<Item = Version> + '_ {
        std::iter::once(Version::Initial).chain(self.txns.iter().copied().map(Version::Of))
    }

    fn reasons(&self, from: TxnId, to: TxnId) -> Vec<Reason> {
        let mut all = vec![Reason::Session, Reason::RealTime];
        all.extend(STAMPS.map(Reason::Recorded));
        for object in self.history.objects() {
            all.push(Reason::Write { object });
            self.history.ops(to).for_each(|op| self.reads(&op, object, &mut all));
            self.history.ops(from).for_each(|op| self.antis(&op, object, &mut all));
        }
        all
    }

    fn reads(&self, op: &Op<'_>, object: ObjectId, into: &mut Vec<Reason>) {
        into.push(Reason::Read { op: op.id, object });
        into.extend(self.columns().map(|column| Reason::ReadColumn { op: op.id, object, column }));
    }

    fn antis(&self, op: &Op<'_>, object: ObjectId, into: &mut Vec<Reason>) {
        for version in self.versions() {
            into.push(Reason::AntiRead { op: op.id, object, version });
            let column = |column| Reason::AntiReadColumn { op: op.id, object, column, version };
            into.extend(self.columns().map(column));
        }
    }

    /// Edges by the axioms, over paths of one or two edges.
    fn visible(&self) -> Vec<Edge> {
        let mut all = Vec::new();
        let step = |edge: &&Edge| matches!(edge.reason, Reason::Session | Reason::Read { .. });
        for first in self.all.iter().filter(step) {
            all.extend(self.over(vec![first.clone()]));
            for second in self.all.iter().filter(step).filter(|second| second.from == first.to) {
                all.extend(self.over(vec![first.clone(), second.clone()]));
            }
        }
        all
    }

    fn over(&self, path: Vec<Edge>) -> Vec<Edge> {
        let (from, reader) = (path[0].from, path[path.len() - 1].to);
        let mut all = Vec::new();
        let ops: Vec<OpId> = self.history.ops(reader).map(|op| op.id).collect();
        for (op, object) in
            ops.into_iter().flat_map(|op| self.history.objects().map(move |object| (op, object)))
        {
            for &to in self.txns.iter().filter(|&&to| to != from) {
                all.push(Edge { from, to, reason: Reason::Visible { op, object, path: path.clone() } });
            }
        }
        all
    }
}
