//! From cycles in the graph to findings that the audit accepts.
//!
//! # Algorithm
//! A cycle of nodes becomes a cycle of transactions: steps inside a transaction disappear, runs
//! through extra nodes become one edge, runs of session order or real time become one edge. Where
//! an edge rests on the order of two versions of a register, a second lemma says why: the later
//! transaction read the earlier one's version before it wrote, so the other order would be a cycle
//! too.
//!
//! # Invariants
//! A finding counts only if the audit accepts it.

use margay_audit::audit_within;
use margay_history::{ObjectId, TxnId, Version};
use margay_levels::Anomaly;
use margay_levels::definition::{Axiom, Family};
use margay_order::{Graph, shortest_path};
use margay_verdict::{Certificate, Edge, Finding, Lemma, Reason, name};

use crate::case::{Case, Local};
use crate::deps::{Deps, INSIDE, Layout, Why};
use crate::index::Use;
use crate::weak::{Unseen, session_and_reads};

/// Makes findings.
pub(crate) struct Prover<'c, 'h> {
    case: &'c Case<'h>,
    /// Session order and reads-from, once asked for.
    base: Option<(Deps, Graph)>,
}

impl<'c, 'h> Prover<'c, 'h> {
    pub(crate) fn new(case: &'c Case<'h>) -> Self {
        Self { case, base: None }
    }

    /// The edges between transactions along a cycle, given by places in `deps` (and [`INSIDE`]).
    pub(crate) fn lemma(&mut self, deps: &Deps, cycle: &[u32]) -> Option<Lemma> {
        let steps: Vec<_> =
            cycle.iter().filter(|&&label| label != INSIDE).map(|&label| deps.all[label as usize]).collect();
        let first = steps.iter().position(|dep| dep.from < deps.txns)?;
        let mut edges: Vec<Edge> = Vec::new();
        let mut open: Option<(u32, Why)> = None;
        for dep in steps[first..].iter().chain(&steps[..first]) {
            if dep.from < deps.txns {
                open = Some((dep.from, dep.why));
            }
            if dep.to < deps.txns {
                let (from, why) = open?;
                let reason = self.reason(TxnId(from), why)?;
                push(&mut edges, Edge { from: TxnId(from), to: TxnId(dep.to), reason });
            }
        }
        Some(Lemma { edges })
    }

    fn reason(&mut self, from: TxnId, why: Why) -> Option<Reason> {
        let read = |read: u32| self.case.reads[read as usize];
        Some(match why {
            Why::Session => Reason::Session,
            Why::Time | Why::OnTime | Why::OnAnti => Reason::RealTime,
            Why::Read(i) => Reason::Read { op: read(i).op, object: read(i).object },
            Why::Write(object) => Reason::Write { object },
            Why::Anti(i) => {
                Reason::AntiRead { op: read(i).op, object: read(i).object, version: read(i).from }
            }
            Why::Visible(i) => {
                let (op, object) = (read(i).op, read(i).object);
                Reason::Visible { op, object, path: self.path(from, i)? }
            }
        })
    }

    /// What makes `writer` visible to the read's transaction, by the level's axiom.
    fn path(&mut self, writer: TxnId, read: u32) -> Option<Vec<Edge>> {
        let read = self.case.reads[read as usize];
        let to = read.txn;
        let edge = |reason| vec![Edge { from: writer, to, reason }];
        let session = self.case.history.session_of(writer) == self.case.history.session_of(to) && writer < to;
        match self.case.question.level.family() {
            Family::CommitOrder(Axiom::ReadBefore) => {
                let first = self.first_read(to, writer)?;
                Some(edge(Reason::Read { op: first.op, object: first.object }))
            }
            _ if session => Some(edge(Reason::Session)),
            Family::CommitOrder(Axiom::Direct) => {
                let first = self.first_read(to, writer)?;
                Some(edge(Reason::Read { op: first.op, object: first.object }))
            }
            _ => self.causal_path(writer, to),
        }
    }

    /// The first read of a transaction from another.
    fn first_read(&self, txn: TxnId, from: TxnId) -> Option<crate::case::Read> {
        let start = self.case.reads.partition_point(|read| read.txn < txn);
        let own = self.case.reads[start..].iter().take_while(|read| read.txn == txn);
        own.copied().find(|read| read.from == Version::Of(from))
    }

    fn causal_path(&mut self, from: TxnId, to: TxnId) -> Option<Vec<Edge>> {
        let case = self.case;
        let (deps, graph) = self.base.get_or_insert_with(|| {
            let deps = session_and_reads(case);
            let graph = deps.graph(Layout::Txns);
            (deps, graph)
        });
        let path = shortest_path(from.0, to.0, |node| graph.edges(node).collect::<Vec<_>>())?;
        let mut edges = Vec::new();
        for (from, to, label) in path {
            let reason = match deps.all[label as usize].why {
                Why::Read(i) => {
                    let read = case.reads[i as usize];
                    Reason::Read { op: read.op, object: read.object }
                }
                _ => Reason::Session,
            };
            push(&mut edges, Edge { from: TxnId(from), to: TxnId(to), reason });
        }
        Some(edges)
    }

    /// A read of the initial version though a writer is visible.
    pub(crate) fn unseen(&mut self, unseen: &Unseen) -> Option<Finding> {
        let read = self.case.reads[unseen.read as usize];
        let reason = Reason::AntiRead { op: read.op, object: read.object, version: Version::Initial };
        let mut edges = vec![Edge { from: read.txn, to: unseen.writer, reason }];
        edges.extend(self.path(unseen.writer, unseen.read)?);
        self.finding(None, vec![Lemma { edges }])
    }

    /// Why the orders of registers' versions that a lemma assumes are so.
    fn because(&self, lemma: &Lemma) -> Vec<Lemma> {
        let mut all = Vec::new();
        for edge in &lemma.edges {
            let pair = match &edge.reason {
                Reason::Write { object } => Some((*object, edge.from)),
                Reason::AntiRead { object, version: Version::Of(txn), .. } => Some((*object, *txn)),
                _ => None,
            };
            let Some((object, first)) = pair.filter(|p| self.case.uses[p.0.index()] == Use::Register) else {
                continue;
            };
            all.extend(
                self.read_before_write(object, first, edge.to)
                    .or_else(|| self.by_order(object, first, edge.to)),
            );
        }
        all
    }

    fn read_before_write(&self, object: ObjectId, first: TxnId, then: TxnId) -> Option<Lemma> {
        let start = self.case.reads.partition_point(|read| read.txn < then);
        let mut own = self.case.reads[start..].iter().take_while(|read| read.txn == then);
        let read = own.find(|read| read.object == object && read.from == Version::Of(first))?;
        let edges = vec![
            Edge { from: first, to: then, reason: Reason::Read { op: read.op, object } },
            Edge { from: then, to: first, reason: Reason::Write { object } },
        ];
        Some(Lemma { edges })
    }

    /// Two transactions left one version and found the other, in an order that the question has:
    /// see [`crate::keys`].
    fn by_order(&self, object: ObjectId, first: TxnId, then: TxnId) -> Option<Lemma> {
        let case = self.case;
        let &(a, b) = case.ordered.get(&(object, first, then))?;
        let own = |txn: TxnId, from: TxnId| {
            let start = case.reads.partition_point(|read| read.txn < txn);
            let mut own = case.reads[start..].iter().take_while(|read| read.txn == txn);
            own.find(|read| read.object == object && read.from == Version::Of(from)).map(|read| read.op)
        };
        let mut edges = Vec::new();
        if a != first {
            let op = own(a, first)?;
            edges.push(Edge { from: first, to: a, reason: Reason::Read { op, object } });
        }
        let session = case.history.session_of(a) == case.history.session_of(b);
        let reason = if session { Reason::Session } else { Reason::RealTime };
        edges.push(Edge { from: a, to: b, reason });
        let reason = match b == then {
            true => Reason::Write { object },
            false => Reason::AntiRead { op: own(b, then)?, object, version: Version::Of(then) },
        };
        edges.push(Edge { from: b, to: first, reason });
        Some(Lemma { edges })
    }

    /// A finding of these lemmas, which name it if nothing else does.
    pub(crate) fn finding(&self, named: Option<Anomaly>, mut lemmas: Vec<Lemma>) -> Option<Finding> {
        let mut txns: Vec<TxnId> =
            lemmas.iter().flat_map(|l| &l.edges).flat_map(|e| [e.from, e.to]).collect();
        txns.sort_unstable();
        txns.dedup();
        let because: Vec<Lemma> = lemmas.iter().flat_map(|lemma| self.because(lemma)).collect();
        for lemma in because {
            if !lemmas.contains(&lemma) {
                lemmas.push(lemma);
            }
        }
        let anomaly = named.unwrap_or_else(|| self.name(&lemmas));
        let certificate = Certificate::Refutation(lemmas);
        audit_within(self.case.history, self.case.question, &certificate, &self.case.budget).ok()?;
        Some(Finding { anomaly, txns, certificate })
    }

    /// What lemmas are called at the level: by what all of them share, or by what only this level
    /// forbids.
    pub(crate) fn name(&self, lemmas: &[Lemma]) -> Anomaly {
        let level = self.case.question.level;
        match lemmas.first() {
            Some(first) if self.is_of_versions(first) && level.forbids(Anomaly::CyclicVersions) => {
                Anomaly::CyclicVersions
            }
            _ => name(self.case.history, level, lemmas),
        }
    }

    /// Whether a cycle is of the versions of one register alone.
    fn is_of_versions(&self, lemma: &Lemma) -> bool {
        let object = |edge: &Edge| match edge.reason {
            Reason::Write { object } => Some(object),
            _ => None,
        };
        let first = lemma.edges.first().and_then(object);
        first.is_some_and(|first| self.case.uses[first.index()] == Use::Register)
            && lemma.edges.iter().all(|edge| object(edge) == first)
    }

    /// A finding of single operations, under the first name that the audit accepts.
    pub(crate) fn local(&self, local: &Local) -> Option<Finding> {
        let Case { history, question, .. } = self.case;
        let named = |&anomaly: &Anomaly| {
            let certificate = Certificate::Operations { anomaly, ops: local.ops.clone() };
            audit_within(history, *question, &certificate, &self.case.budget).ok()?;
            let mut txns: Vec<TxnId> = local.ops.iter().map(|&op| history.txn_of(op)).collect();
            txns.sort_unstable();
            txns.dedup();
            Some(Finding { anomaly, txns, certificate })
        };
        local.names.iter().find_map(named)
    }
}

/// Adds an edge; session order follows session order, and real time real time, as one edge.
fn push(edges: &mut Vec<Edge>, edge: Edge) {
    match edges.last_mut() {
        Some(last)
            if last.reason == edge.reason
                && matches!(edge.reason, Reason::Session | Reason::RealTime)
                && last.from != edge.to =>
        {
            last.to = edge.to;
        }
        _ => edges.push(edge),
    }
}
