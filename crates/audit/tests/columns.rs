//! Lemmas about single columns never refute a history that is possible.
//!
//! For random tiny histories with rows that are written in part, and that hold by the definitions:
//! all lemmas of two and three edges that audit takes for true are put into one refutation. The
//! strongest refutation there is must still leave a possibility.

use margay_audit::audit;
use margay_history::{History, NameId, ObjectId, Op, Outcome, TxnId, Version};
use margay_levels::Level;
use margay_naive::Naive;
use margay_testkit::{random, show};
use margay_verdict::{Budget, Certificate, Checker, Edge, Lemma, Question, Reason, Verdict};

const LEVELS: [Level; 3] = [Level::Serializable, Level::SnapshotIsolation, Level::Prefix];

/// A lemma is true of the history, but does not refute it.
const LEAVES: &str = "the lemmas leave a possibility";

#[test]
fn true_lemmas_leave_what_is_possible() {
    let histories = std::env::var("MARGAY_RANDOM").ok().and_then(|n| n.parse().ok()).unwrap_or(120);
    let (mut refutations, mut lemmas) = (0, 0);
    for seed in 1..=histories {
        let history = random(seed);
        let small = history.txns().filter(|&t| history.outcome(t) != Outcome::Aborted).count() <= 4;
        for level in LEVELS.into_iter().filter(|_| small && !history.tables().is_empty()) {
            let question = Question::new(level);
            if !matches!(Naive.check(&history, question, &Budget::unlimited()), Verdict::Holds(_)) {
                continue;
            }
            let all = true_lemmas(&history, question);
            if all.is_empty() {
                continue;
            }
            (refutations, lemmas) = (refutations + 1, lemmas + all.len());
            let answer = audit(&history, question, &Certificate::Refutation(all));
            let answer = answer.expect_err(&format!("{level} holds, and is refuted: {}", show(&history)));
            assert_eq!(answer.to_string(), LEAVES, "{}", show(&history));
        }
    }
    println!("{refutations} refutations of {lemmas} lemmas");
    assert!(refutations > 20 && lemmas > 200, "{refutations} refutations of {lemmas} lemmas");
}

/// All cycles of two edges, and of three if they are not too many, that audit takes for true.
fn true_lemmas(history: &History, question: Question) -> Vec<Lemma> {
    let edges = edges(history);
    let after = |edge: &Edge| {
        let to = edge.to;
        edges.iter().filter(move |next| next.from == to)
    };
    let mut cycles: Vec<Vec<Edge>> = Vec::new();
    for a in &edges {
        for b in after(a) {
            if b.to == a.from {
                cycles.push(vec![a.clone(), b.clone()]);
            } else if edges.len() < 60 {
                let closing = after(b).filter(|c| c.to == a.from);
                cycles.extend(closing.map(|c| vec![a.clone(), b.clone(), c.clone()]));
            }
        }
    }
    let columns = |cycle: &Vec<Edge>| cycle.iter().any(|edge| edge.reason.is_of_column());
    let lemmas = cycles.into_iter().filter(columns).take(3000).map(|edges| Lemma { edges });
    let holds = |lemma: &Lemma| {
        let answer = audit(history, question, &Certificate::Refutation(vec![lemma.clone()]));
        let answer = answer.expect_err(&format!("one lemma refutes what holds: {lemma:?} {}", show(history)));
        answer.to_string() == LEAVES
    };
    lemmas.filter(holds).collect()
}

/// Every edge that could be claimed.
fn edges(history: &History) -> Vec<Edge> {
    let txns: Vec<TxnId> = history.txns().filter(|&t| history.outcome(t) != Outcome::Aborted).collect();
    let mut edges = Vec::new();
    for &from in &txns {
        for &to in txns.iter().filter(|&&to| to != from) {
            let mut add = |reason| edges.push(Edge { from, to, reason });
            for object in history.objects() {
                add(Reason::Write { object });
                history.ops(to).for_each(|op| reads(history, &op, object, &mut add));
                history.ops(from).for_each(|op| antis(history, &op, object, &txns, &mut add));
            }
        }
    }
    edges
}

fn columns(history: &History) -> impl Iterator<Item = NameId> {
    (0..history.values().name_count()).map(NameId::at)
}

fn reads(history: &History, op: &Op<'_>, object: ObjectId, add: &mut impl FnMut(Reason)) {
    add(Reason::Read { op: op.id, object });
    columns(history).for_each(|column| add(Reason::ReadColumn { op: op.id, object, column }));
}

fn antis(history: &History, op: &Op<'_>, object: ObjectId, txns: &[TxnId], add: &mut impl FnMut(Reason)) {
    let versions = || std::iter::once(Version::Initial).chain(txns.iter().copied().map(Version::Of));
    for version in versions() {
        add(Reason::AntiRead { op: op.id, object, version });
        for column in columns(history) {
            add(Reason::AntiReadColumn { op: op.id, object, column, version });
        }
    }
}
