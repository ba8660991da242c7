//! Aggregates over predicates. Simulated histories whose scans become summaries: the same runs, of
//! which clients saw less.

use std::time::Duration;

use margay_audit::audit;
use margay_certify::{Certify, Replay};
use margay_history::{History, HistoryBuilder, OpDetail, OpKind, Outcome, Value, ValueId};
use margay_levels::Level;
use margay_naive::holds;
use margay_simdb::{EvidenceOptions, Fault, Mix, Ppm, Protocol, SimConfig, simulate_history};
use margay_verdict::{Budget, Checker, Question, Verdict};

fn ask(engine: &dyn Checker, history: &History, level: Level) -> Verdict {
    let question = Question::new(level);
    let verdict = engine.check(history, question, &Budget::unlimited());
    if let Some(certificate) = verdict.certificate() {
        let audited = audit(history, question, certificate);
        assert!(audited.is_ok(), "{} at {level}: {audited:?}", engine.name());
    }
    verdict
}

/// What a client would have been told instead of the rows.
fn answer(history: &History, rows: &[margay_history::Access]) -> [Option<i64>; 4] {
    let v = |value: ValueId| match history.value(value) {
        Value::Row(columns) => columns.iter().find_map(|&(name, value)| match history.value(value) {
            Value::Int(v) if history.name(name) == "v" => Some(v),
            _ => None,
        }),
        _ => None,
    };
    let all: Vec<i64> = rows.iter().filter_map(|access| v(access.value)).collect();
    let sum = (!all.is_empty()).then(|| all.iter().sum());
    [Some(rows.len() as i64), sum, all.iter().min().copied(), all.iter().max().copied()]
}

/// The same history with a summary instead of each scan; `change` may falsify answers.
fn summed(history: &History, mut change: impl FnMut(&mut [Option<i64>; 4])) -> History {
    let mut builder = HistoryBuilder::like(history);
    for txn in history.txns() {
        let (session, label) = (history.session_label(history.session_of(txn)), history.txn_label(txn));
        for op in history.ops(txn) {
            let Some(scan) = history.scan(op.id).filter(|scan| scan.observed) else {
                let observed = history.update(op.id).is_some_and(|update| update.observed);
                let detail = history.detail(op, observed);
                builder.push(session, label, op.at, op.kind, op.accesses, detail).expect("an operation");
                continue;
            };
            let predicate = history.predicate(scan.predicate);
            let table = &history.table(predicate.table).name;
            let text =
                format!("SELECT COUNT(*), SUM(v), MIN(v), MAX(v) FROM {table} WHERE {}", predicate.text);
            let mut told = answer(history, op.accesses);
            if history.outcome(txn) == Outcome::Committed {
                change(&mut told);
            }
            let cells = told.map(|cell| cell.map_or(ValueId::NULL, |cell| builder.values().int(cell)));
            let row = builder.values().list(&cells);
            let detail = OpDetail::Sql { text: &text, params: &[], rows: Some(&[row]), count: None };
            builder.push(session, label, op.at, OpKind::Sql, &[], detail).expect("an operation");
        }
    }
    let made = builder.finish().expect("a history");
    made.with_evidence(history.evidence().clone()).expect("the same transactions")
}

fn config(protocol: Protocol, seed: u64, transactions: u64) -> SimConfig {
    SimConfig {
        clients: 4,
        transactions,
        ops: (1, 4),
        keys: 5,
        mix: Mix { weights: [0, 0, 0, 0, 2, 5, 0, 0, 5, 1, 0, 0] },
        domain: 8,
        aborts: Ppm::percent(5),
        unknown: Ppm::NEVER,
        evidence: EvidenceOptions::ALL,
        ..SimConfig::new(protocol, seed)
    }
}

#[test]
fn correct_databases_are_proved_by_both_engines() {
    let levels = [
        (Protocol::Ss2pl, Level::Serializable),
        (Protocol::Ss2pl, Level::RepeatableRead),
        (Protocol::Ss2pl, Level::ReadCommitted),
        (Protocol::SiFuw, Level::SnapshotIsolation),
        (Protocol::Serial, Level::StrictSerializable),
    ];
    for (protocol, level) in levels {
        let mut proved = [0; 2];
        for seed in 0..20 {
            let (history, _) = simulate_history(&config(protocol, seed, 40)).expect("a history");
            let history = summed(&history, |_| ());
            assert!(history.has_kind(OpKind::Sql));
            for (place, verdict) in
                [ask(&Certify, &history, level), ask(&Replay, &history, level)].iter().enumerate()
            {
                assert!(
                    !matches!(verdict, Verdict::Violated(_)),
                    "{protocol}, seed {seed}, {level}: {verdict:?}"
                );
                proved[place] += usize::from(matches!(verdict, Verdict::Holds(_)));
            }
        }
        assert_eq!(proved[0], 20, "{protocol} at {level} by certify");
        let replayed = matches!(
            level.family(),
            margay_levels::definition::Family::Serial | margay_levels::definition::Family::Snapshot
        );
        assert!(!replayed || proved[1] == 20, "{protocol} at {level} by replay: {proved:?}");
    }
}

/// One answer is wrong in one place: with everything told, both engines name the statement.
#[test]
fn wrong_answers_are_result_mismatches() {
    let mut found = [0; 2];
    for seed in 0..12 {
        for output in 0..4 {
            let (protocol, level) = match seed % 2 {
                0 => (Protocol::Serial, Level::Serializable),
                _ => (Protocol::SiFuw, Level::SnapshotIsolation),
            };
            let (history, _) = simulate_history(&config(protocol, seed, 30)).expect("a history");
            let mut place = 0;
            let wrong = summed(&history, |told| {
                place += 1;
                if place == 8 {
                    told[output] = told[output].map_or(Some(3), |number| Some(number + 1));
                }
            });
            for (at, verdict) in
                [ask(&Certify, &wrong, level), ask(&Replay, &wrong, level)].iter().enumerate()
            {
                assert!(
                    !matches!(verdict, Verdict::Holds(_)) || place < 8,
                    "seed {seed}, {output}: {verdict:?}"
                );
                if let Verdict::Violated(findings) = verdict {
                    assert_eq!(findings[0].anomaly.name(), "result-mismatch");
                    found[at] += 1;
                }
            }
        }
    }
    assert!(found.iter().all(|&found| found >= 44), "{found:?}");
}

/// Who sees less cannot accuse more: what is violated with summaries is violated with rows, by the
/// definitions.
#[test]
fn summaries_accuse_nobody_whom_the_rows_do_not() {
    let (mut violated, mut held) = (0, 0);
    for seed in 0..150 {
        let faults = [Fault::LockNotTaken, Fault::Phantom, Fault::LockReleasedEarly];
        let fault = faults[seed as usize % faults.len()];
        let config = config(Protocol::Ss2pl, seed, 6).with_fault(fault, Ppm::percent(40));
        let (rows, _) = simulate_history(&config).expect("a history");
        let sums = summed(&rows, |_| ());
        for level in [Level::Serializable, Level::RepeatableRead, Level::SnapshotIsolation] {
            let budget = Budget::unlimited().with_time(Duration::from_millis(300));
            let Ok(truth) = holds(&rows, Question::new(level), &budget) else { continue };
            for verdict in [ask(&Certify, &sums, level), ask(&Replay, &sums, level)] {
                match verdict {
                    Verdict::Violated(findings) => {
                        assert!(!truth, "seed {seed}, {level}: {findings:?}");
                        violated += 1;
                    }
                    Verdict::Holds(_) => held += 1,
                    _ => {}
                }
            }
        }
    }
    assert!(violated > 20 && held > 50, "{violated} violated, {held} held");
}
