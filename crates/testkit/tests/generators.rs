//! The generators reach what they are for.

use std::collections::{HashMap, HashSet};

use margay_history::{History, OpKind, Outcome, Value};
use margay_levels::Level;
use margay_naive::holds;
use margay_testkit::{history, parse, random, show, tiny};
use margay_verdict::{Budget, Question};

const RANDOM: u64 = 400;

#[test]
fn random_histories_hold_and_violate_every_level() {
    let mut seen: HashMap<Level, [usize; 2]> = HashMap::new();
    for seed in 0..RANDOM {
        let history = random(seed);
        for level in Level::ALL {
            if let Ok(holds) = holds(&history, Question::new(level), &Budget::unlimited()) {
                seen.entry(level).or_default()[usize::from(holds)] += 1;
            }
        }
    }
    for level in Level::ALL {
        let [violated, held] = seen[&level];
        let few = RANDOM as usize / 50;
        assert!(violated > few && held > few, "{level}: {violated} violated, {held} held");
    }
}

/// What a history has, in words.
fn features(history: &History, into: &mut HashSet<String>) {
    for txn in history.txns() {
        into.insert(format!("{:?}", history.outcome(txn)));
        for op in history.ops(txn) {
            into.insert(op.kind.name().to_string());
            for access in op.accesses {
                into.insert(match history.value(access.value) {
                    Value::List(_) => "list".to_string(),
                    Value::Row(_) => "row".to_string(),
                    Value::Null => "absent".to_string(),
                    Value::Unknown => "not observed".to_string(),
                    _ => "scalar".to_string(),
                });
            }
            if history.scan(op.id).is_some_and(|s| !s.observed)
                || history.update(op.id).is_some_and(|u| !u.observed)
            {
                into.insert("rows not seen".to_string());
            }
        }
    }
    if history.session_count() < history.txn_count() {
        into.insert("sessions".to_string());
    }
    let pairs = history.txns().flat_map(|a| history.txns().map(move |b| (a, b)));
    if history.is_timed() {
        let (mut apart, mut overlap) = (false, false);
        pairs.filter(|(a, b)| a < b).for_each(|(a, b)| {
            let ordered = history.precedes(a, b) || history.precedes(b, a);
            (apart, overlap) = (apart || ordered, overlap || !ordered);
        });
        into.extend(apart.then(|| "apart in time".to_string()));
        into.extend(overlap.then(|| "overlapping in time".to_string()));
    }
    let evidence = history.evidence();
    into.extend((!evidence.version_orders.is_empty()).then(|| "version order".to_string()));
    into.extend((!evidence.version_sets.is_empty()).then(|| "version set".to_string()));
    into.extend((!evidence.commits.is_empty()).then(|| "commit timestamp".to_string()));
    into.extend((!evidence.snapshots.is_empty()).then(|| "snapshot timestamp".to_string()));
    into.extend((!evidence.serializations.is_empty()).then(|| "serialization timestamp".to_string()));
}

#[test]
fn random_histories_have_everything() {
    let mut seen = HashSet::new();
    (0..RANDOM).for_each(|seed| features(&random(seed), &mut seen));
    let kinds = OpKind::ALL.iter().filter(|kind| !matches!(kind, OpKind::Begin | OpKind::Sql));
    let outcomes = [Outcome::Committed, Outcome::Aborted, Outcome::Unknown].map(|o| format!("{o:?}"));
    let others = [
        "list",
        "row",
        "absent",
        "not observed",
        "scalar",
        "rows not seen",
        "sessions",
        "apart in time",
        "overlapping in time",
        "version order",
        "version set",
        "commit timestamp",
        "snapshot timestamp",
        "serialization timestamp",
    ];
    let wanted = kinds.map(|kind| kind.name().to_string()).chain(outcomes).chain(others.map(str::to_string));
    let missing: Vec<String> = wanted.filter(|feature| !seen.contains(feature)).collect();
    assert!(missing.is_empty(), "no random history has {missing:?}");
}

#[test]
fn one_seed_gives_one_history() {
    for seed in 0..50 {
        assert_eq!(show(&random(seed)), show(&random(seed)));
        assert_eq!(parse(&show(&random(seed))).unwrap().difference(&random(seed)), None, "seed {seed}");
    }
    assert_ne!(show(&random(1)), show(&random(2)));
}

#[test]
fn tiny_histories_are_all_different_and_enough() {
    let mut seen = HashSet::new();
    let mut twice = 0;
    tiny(|history| twice += usize::from(!seen.insert(show(&history))));
    assert!(seen.len() > 10_000 && twice == 0, "{} histories, {twice} twice", seen.len());
    for wanted in ["T1: r(x,_) w(y,2) | T2: r(y,_) w(x,4)", "T1: a(x,1) | T2: a(x,2) | T3: r(x,[2 1])"] {
        let alike = |text: &String| text.replace('y', "z").replace('x', "y").replace('z', "x");
        let wanted = show(&history(wanted));
        let found = seen.iter().any(|text| text == &wanted || alike(text) == wanted)
            || seen.iter().any(|t| same_shape(t, &wanted));
        assert!(found, "{wanted} is missing");
    }
}

/// Whether two texts have the same words in their operations, whatever the order of transactions.
fn same_shape(a: &str, b: &str) -> bool {
    let words = |text: &str| {
        let mut words: Vec<String> =
            text.split(" | ").map(|t| t.chars().filter(|c| !c.is_ascii_digit()).collect()).collect();
        words.sort();
        words
    };
    words(a) == words(b)
}
