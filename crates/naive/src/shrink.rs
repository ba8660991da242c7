//! Counterexamples are minimal: no transaction of the shown slice can be dropped.
//!
//! # Algorithm
//! As long as the history without some transaction of the slice (and without what others saw of it)
//! still violates the level, show that violation instead. If its certificate is not accepted for
//! the whole history, where reads may have more explanations and lists more elements, the larger
//! one stays for the smaller slice.

use margay_audit::audit;
use margay_history::{History, OpId, Outcome, TxnId, Version};
use margay_verdict::{Budget, Certificate, DeadEnd, Edge, Finding, Lemma, Question, Reason};

use crate::finding::find;
use crate::model::{Model, Search};

/// A finding whose slice cannot be made smaller by dropping one transaction.
pub fn minimal(history: &History, question: Question, budget: &Budget, finding: Finding) -> Search<Finding> {
    let mut best = finding;
    'again: loop {
        for &txn in &best.txns {
            if let Some(smaller) = without(history, question, budget, &best, txn)? {
                best = smaller;
                continue 'again;
            }
        }
        return Ok(best);
    }
}

fn without(
    history: &History,
    question: Question,
    budget: &Budget,
    finding: &Finding,
    txn: TxnId,
) -> Search<Option<Finding>> {
    // What aborted is not part of a slice, but what others saw of it is: so it stays.
    let keep = |t: TxnId| t != txn && (finding.txns.contains(&t) || history.outcome(t) == Outcome::Aborted);
    let Some(part) = history.restrict(keep) else { return Ok(None) };
    let model = Model::new(&part, question, budget)?;
    if crate::explain(&model)?.is_some() {
        return Ok(None);
    }
    let found = find(&model)?.map(|found| Back { part: &part, whole: history }.finding(found));
    if let Some(found) = found
        && found.txns.len() < finding.txns.len()
        && audit(history, question, &found.certificate).is_ok()
    {
        return Ok(Some(found));
    }
    let txns = finding.txns.iter().copied().filter(|&t| t != txn).collect();
    Ok(Some(Finding { txns, ..finding.clone() }))
}

/// From the ids of a part of a history to those of the whole.
struct Back<'a> {
    part: &'a History,
    whole: &'a History,
}

impl Back<'_> {
    fn txn(&self, txn: TxnId) -> TxnId {
        self.whole.find_txn(self.part.txn_label(txn)).unwrap_or(txn)
    }

    fn op(&self, op: OpId) -> OpId {
        let txn = self.txn(self.part.txn_of(op));
        OpId(self.whole.op_range(txn).start + self.part.op_index(op))
    }

    fn finding(&self, finding: Finding) -> Finding {
        let certificate = match finding.certificate {
            Certificate::Operations { anomaly, ops } => {
                Certificate::Operations { anomaly, ops: ops.into_iter().map(|op| self.op(op)).collect() }
            }
            Certificate::Refutation(lemmas) => {
                let lemma =
                    |lemma: Lemma| Lemma { edges: lemma.edges.into_iter().map(|e| self.edge(e)).collect() };
                Certificate::Refutation(lemmas.into_iter().map(lemma).collect())
            }
            Certificate::DeadEnd(end) => {
                let txns = end.txns.into_iter().map(|txn| self.txn(txn)).collect();
                Certificate::DeadEnd(DeadEnd { txns, ..end })
            }
            other => other,
        };
        let txns = finding.txns.into_iter().map(|txn| self.txn(txn)).collect();
        Finding { txns, certificate, ..finding }
    }

    fn edge(&self, edge: Edge) -> Edge {
        let reason = match edge.reason {
            Reason::Read { op, object } => Reason::Read { op: self.op(op), object },
            Reason::AntiRead { op, object, version } => {
                let version = match version {
                    Version::Of(txn) => Version::Of(self.txn(txn)),
                    Version::Initial => Version::Initial,
                };
                Reason::AntiRead { op: self.op(op), object, version }
            }
            Reason::Visible { op, object, path } => Reason::Visible {
                op: self.op(op),
                object,
                path: path.into_iter().map(|e| self.edge(e)).collect(),
            },
            other => other,
        };
        Edge { from: self.txn(edge.from), to: self.txn(edge.to), reason }
    }
}
