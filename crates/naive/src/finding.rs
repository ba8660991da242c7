//! What shows a violation, in terms that the audit accepts.
//!
//! # Algorithm
//! First single operations: if no order of some object's versions explains what was seen of it, one
//! operation may already show it. Then the lemmas of a [refutation](crate::refute). A proposal
//! counts only if the audit accepts it.

use margay_audit::audit;
use margay_history::{ObjectId, OpId, OpKind, Outcome, TxnId, Version};
use margay_levels::{Anomaly, Level};
use margay_verdict::{Certificate, DeadEnd, Edge, Finding, LOCAL_ANOMALIES, Lemma, Reason, name};

use crate::cycle::CycleStep;
use crate::model::{Model, Search};
use crate::refute::{lemma, refute};
use crate::uncommitted;
use crate::versions::layouts;

/// What shows that the level is violated, if the audit accepts something that does.
pub fn find(model: &Model<'_>) -> Search<Option<Finding>> {
    if let Some(finding) = local(model)? {
        return Ok(Some(finding));
    }
    let certain = uncommitted::cycle(model).and_then(|cycle| refutation(model, &[cycle]));
    if certain.is_some() || model.question.level == Level::ReadUncommitted {
        return Ok(certain);
    }
    let found = refute(model)?.and_then(|cycles| refutation(model, &cycles));
    Ok(found.or_else(|| contradiction(model)).or_else(|| dead_end(model)))
}

/// No cycle shows what contradicts instants: the audit tries all orders again.
fn dead_end(model: &Model<'_>) -> Option<Finding> {
    if !model.question.uses_instants() {
        return None;
    }
    let objects: Vec<ObjectId> = model.history.objects().collect();
    let txns = margay_audit::dead_end(model.history, model.question, &objects, model.budget).ok()??;
    let mut shown = txns.clone();
    shown.sort_unstable();
    let certificate = Certificate::DeadEnd(DeadEnd { objects, txns });
    Some(Finding { anomaly: Anomaly::StrongSiCycleExists, txns: shown, certificate })
}

/// Two writers of one object whose order is certain both ways.
fn contradiction(model: &Model<'_>) -> Option<Finding> {
    let anomaly = Anomaly::CyclicVersions;
    model.history.objects().find_map(|object| {
        let writers = writers(model, object);
        let pairs =
            writers.iter().enumerate().flat_map(|(i, &a)| writers[i + 1..].iter().map(move |&b| [a, b]));
        let edge = |from, to| Edge { from, to, reason: Reason::Write { object } };
        pairs.into_iter().find_map(|[a, b]| {
            let certificate = Certificate::Refutation(vec![Lemma { edges: vec![edge(a, b), edge(b, a)] }]);
            audit(model.history, model.question, &certificate).ok()?;
            Some(Finding { anomaly, txns: vec![a, b], certificate })
        })
    })
}

/// The transactions that may have committed and write an object.
fn writers(model: &Model<'_>, object: ObjectId) -> Vec<TxnId> {
    let history = model.history;
    let writes = |&txn: &TxnId| {
        let mut ops = history.ops(txn).filter(|op| op.kind.writes());
        history.outcome(txn) != Outcome::Aborted
            && ops.any(|op| op.accesses.iter().any(|a| a.object == object))
    };
    history.txns().filter(writes).collect()
}

fn local(model: &Model<'_>) -> Search<Option<Finding>> {
    let history = model.history;
    let committed: Vec<TxnId> =
        history.txns().filter(|&t| history.outcome(t) == Outcome::Committed).collect();
    let all: Vec<TxnId> = history.txns().filter(|&t| history.outcome(t) != Outcome::Aborted).collect();
    let mut unexplained = Vec::new();
    for object in history.objects() {
        // At read-uncommitted nothing but the audit knows what is illegal.
        if model.question.level == Level::ReadUncommitted || layouts(model, &all, object)?.is_empty() {
            unexplained.push(object);
        }
    }
    if unexplained.is_empty() {
        return Ok(None);
    }
    let ops: Vec<OpId> =
        committed.iter().flat_map(|&t| history.ops(t)).filter(|op| looks(op.kind)).map(|op| op.id).collect();
    for anomaly in LOCAL_ANOMALIES {
        for &op in &ops {
            if let Some(finding) = operations(model, anomaly, vec![op]) {
                return Ok(Some(finding));
            }
        }
    }
    Ok(incompatible(model, &ops, &unexplained))
}

fn looks(kind: OpKind) -> bool {
    matches!(kind, OpKind::Read | OpKind::Scan | OpKind::Update)
}

fn incompatible(model: &Model<'_>, ops: &[OpId], unexplained: &[ObjectId]) -> Option<Finding> {
    let touches =
        |op: &&OpId| model.history.op(**op).accesses.iter().any(|a| unexplained.contains(&a.object));
    let suspects: Vec<OpId> = ops.iter().filter(touches).copied().collect();
    let pairs =
        suspects.iter().enumerate().flat_map(|(i, &a)| suspects[i + 1..].iter().map(move |&b| vec![a, b]));
    pairs.into_iter().find_map(|pair| operations(model, Anomaly::IncompatibleOrder, pair))
}

fn operations(model: &Model<'_>, anomaly: Anomaly, ops: Vec<OpId>) -> Option<Finding> {
    if !model.question.level.forbids(anomaly) {
        return None;
    }
    let mut txns: Vec<TxnId> = ops.iter().map(|&op| model.history.txn_of(op)).collect();
    let certificate = Certificate::Operations { anomaly, ops };
    audit(model.history, model.question, &certificate).ok()?;
    txns.sort_unstable();
    txns.dedup();
    Some(Finding { anomaly, txns, certificate })
}

fn refutation(model: &Model<'_>, cycles: &[Vec<CycleStep>]) -> Option<Finding> {
    if cycles.is_empty() {
        return None;
    }
    let mut lemmas: Vec<Lemma> = cycles.iter().map(|cycle| lemma(cycle)).collect();
    let anomaly = name(model.history, model.question.level, &lemmas);
    lemmas.sort_by_key(|lemma| lemma.edges.len());
    let plain = Certificate::Refutation(lemmas.clone());
    if audit(model.history, model.question, &plain).is_ok() {
        return Some(Finding { anomaly, txns: txns_of(&lemmas), certificate: plain });
    }
    let txns = txns_of(&lemmas);
    lemmas.extend(write_cycles(model));
    let certificate = Certificate::Refutation(lemmas);
    audit(model.history, model.question, &certificate).ok()?;
    Some(Finding { anomaly, txns, certificate })
}

/// Version orders have no cycles: all that three writers of one object can make.
fn write_cycles(model: &Model<'_>) -> Vec<Lemma> {
    let mut all = Vec::new();
    for object in model.history.objects() {
        let writers = writers(model, object);
        let edge = |from: TxnId, to: TxnId| Edge { from, to, reason: Reason::Write { object } };
        for (i, &a) in writers.iter().enumerate() {
            for (j, &b) in writers.iter().enumerate().skip(i + 1) {
                for &c in &writers[j + 1..] {
                    all.push(Lemma { edges: vec![edge(a, b), edge(b, c), edge(c, a)] });
                    all.push(Lemma { edges: vec![edge(a, c), edge(c, b), edge(b, a)] });
                }
            }
        }
    }
    all
}

/// The transactions that lemmas speak of.
fn txns_of(lemmas: &[Lemma]) -> Vec<TxnId> {
    let mut all = Vec::new();
    lemmas.iter().flat_map(|lemma| &lemma.edges).for_each(|edge| add_txns(edge, &mut all));
    all.sort_unstable();
    all.dedup();
    all
}

fn add_txns(edge: &Edge, all: &mut Vec<TxnId>) {
    all.extend([edge.from, edge.to]);
    match &edge.reason {
        Reason::AntiRead { version: Version::Of(txn), .. } => all.push(*txn),
        Reason::Visible { path, .. } => path.iter().for_each(|edge| add_txns(edge, all)),
        _ => {}
    }
}
