//! Aggregates: nothing that happened is called impossible.
//!
//! Random histories are made by running transactions one after the other, with an evaluation of
//! aggregates of this test's own; so they are serializable, and no certificate may say of any
//! operation of theirs that it cannot be explained. Below that are the stories of certificates that
//! were once wrong.

use margay_audit::audit;
use margay_history::{Access, History, HistoryBuilder, OpDetail, OpId, OpKind, Table, TableId, ValueId};
use margay_levels::{Anomaly, Level};
use margay_testkit::{Rng, history};
use margay_verdict::{Certificate, LOCAL_ANOMALIES, Order, Question};

/// A row of the table: its two columns.
type Row = (Option<i64>, Option<i64>);

/// Whether a row satisfies a condition.
type Holds = fn(Row) -> bool;

/// What comes out of the values that are not NULL, and the number of rows.
type Answer = fn(&[i64], usize) -> Option<i64>;

const CONDITIONS: [(&str, Holds); 4] = [
    ("", |_| true),
    (" WHERE v > 1", |row| row.0.is_some_and(|v| v > 1)),
    (" WHERE w = 1", |row| row.1 == Some(1)),
    (" WHERE v IS NULL", |row| row.0.is_none()),
];

const OUTPUTS: [(&str, Answer); 7] = [
    ("COUNT(*)", |_, rows| Some(rows as i64)),
    ("COUNT(v)", |all, _| Some(all.len() as i64)),
    ("COUNT(DISTINCT v)", |all, _| Some(once(all).len() as i64)),
    ("SUM(v)", |all, _| (!all.is_empty()).then(|| all.iter().sum())),
    ("SUM(DISTINCT v)", |all, _| (!all.is_empty()).then(|| once(all).iter().sum())),
    ("MIN(v)", |all, _| all.iter().min().copied()),
    ("MAX(v)", |all, _| all.iter().max().copied()),
];

fn once(all: &[i64]) -> Vec<i64> {
    let mut all = all.to_vec();
    all.sort_unstable();
    all.dedup();
    all
}

/// A history under construction: one table `t(k; v, w)`.
struct Making {
    builder: HistoryBuilder,
    table: TableId,
    ops: u64,
}

impl Making {
    fn new() -> Self {
        let mut builder = HistoryBuilder::new();
        let column = |name: &str| (name.to_string(), "int".to_string());
        let columns = vec![column("k"), column("v"), column("w")];
        let table = Table { name: "t".to_string(), key: vec!["k".to_string()], columns, ..Table::default() };
        let table = builder.declare_table(table).expect("declared once");
        Self { builder, table, ops: 0 }
    }

    fn int(&mut self, value: Option<i64>) -> ValueId {
        value.map_or(ValueId::NULL, |value| self.builder.values().int(value))
    }

    fn row(&mut self, columns: &[(&str, Option<i64>)]) -> ValueId {
        let mut row = Vec::new();
        for &(name, value) in columns {
            row.push((self.builder.values().intern_name(name), self.int(value)));
        }
        self.builder.values().row(&row)
    }

    fn access(&mut self, key: i64, value: ValueId) -> Access {
        let key = self.builder.values().int(key);
        Access { object: self.builder.object(Some(self.table), key), value }
    }

    fn write(&mut self, txn: u64, key: i64, value: ValueId) {
        let access = self.access(key, value);
        self.push(txn, OpKind::Write, &[access], OpDetail::None);
    }

    fn sum(&mut self, txn: u64, text: &str, told: &[Option<i64>]) {
        let cells: Vec<ValueId> = told.iter().map(|&cell| self.int(cell)).collect();
        let rows = [self.builder.values().list(&cells)];
        self.push(txn, OpKind::Sql, &[], OpDetail::Sql { text, params: &[], rows: Some(&rows), count: None });
    }

    fn push(&mut self, txn: u64, kind: OpKind, accesses: &[Access], detail: OpDetail<'_>) {
        self.builder.push(txn, txn, None, kind, accesses, detail).expect("a good operation");
        self.ops += 1;
    }

    fn finish(self) -> History {
        self.builder.finish().expect("a good history")
    }
}

/// A serial run of a few transactions.
fn serial(seed: u64) -> History {
    let (mut rng, mut making) = (Rng::new(seed), Making::new());
    let mut rows: Vec<Option<Row>> = vec![None; 1 + rng.below(3)];
    for (key, row) in rows.iter_mut().enumerate() {
        let (v, w) = (small(&mut rng), small(&mut rng));
        let value = making.row(&[("v", v), ("w", w)]);
        let access = making.access(key as i64, value);
        if rng.chance(60) {
            making.builder.initial(access.object, access.value).expect("given once");
            *row = Some((v, w));
        }
    }
    for txn in 1..=2 + rng.below(3) as u64 {
        for _ in 0..1 + rng.below(3) {
            match rng.below(4) {
                0 | 1 => change(&mut rng, &mut making, &mut rows, txn),
                _ => ask(&mut rng, &mut making, &rows, txn),
            }
        }
        making.push(txn, OpKind::Commit, &[], OpDetail::None);
        if seed.is_multiple_of(2) {
            making.builder.serialization(txn, txn as i64 / (1 + (seed % 4) as i64 / 2));
        }
    }
    making.finish()
}

fn small(rng: &mut Rng) -> Option<i64> {
    (!rng.chance(15)).then(|| rng.below(4) as i64 - 1)
}

/// Writes one column of a row or both, or removes it.
fn change(rng: &mut Rng, making: &mut Making, rows: &mut [Option<Row>], txn: u64) {
    let key = rng.below(rows.len());
    let (v, w) = (small(rng), small(rng));
    let before = rows[key].unwrap_or_default();
    let (row, columns) = match rng.below(6) {
        0 => (None, vec![]),
        1 => (Some((v, before.1)), vec![("v", v)]),
        2 => (Some((before.0, w)), vec![("w", w)]),
        _ => (Some((v, w)), vec![("v", v), ("w", w)]),
    };
    rows[key] = row;
    let value = if columns.is_empty() { ValueId::NULL } else { making.row(&columns) };
    making.write(txn, key as i64, value);
}

fn ask(rng: &mut Rng, making: &mut Making, rows: &[Option<Row>], txn: u64) {
    let (condition, holds) = *rng.pick(&CONDITIONS);
    let matching: Vec<Row> = rows.iter().flatten().copied().filter(|&row| holds(row)).collect();
    let values: Vec<i64> = matching.iter().filter_map(|row| row.0).collect();
    let (mut texts, mut told) = (Vec::new(), Vec::new());
    for _ in 0..1 + rng.below(2) {
        let (text, answer) = *rng.pick(&OUTPUTS);
        texts.push(text);
        told.push(answer(&values, matching.len()));
    }
    making.sum(txn, &format!("SELECT {} FROM t{condition}", texts.join(", ")), &told);
}

/// What a statement asked and was told.
fn told(history: &History, op: OpId) -> String {
    let statement = history.statement(op);
    let rows = statement.and_then(|s| s.rows.as_deref()).unwrap_or_default();
    let rows: Vec<String> = rows.iter().map(|&row| history.show_value(row)).collect();
    format!("{} {}", statement.map_or("", |s| &*s.text), rows.join(" "))
}

#[test]
fn what_happened_is_not_impossible() {
    let histories = std::env::var("MARGAY_RANDOM").ok().and_then(|n| n.parse().ok()).unwrap_or(150);
    for seed in 1..=histories {
        let history = serial(seed);
        let mut txns: Vec<_> = history.txns().collect();
        txns.sort_by_key(|&txn| history.txn_label(txn));
        let order = Certificate::Order(Order { txns, reads: Vec::new() });
        for level in [Level::Serializable, Level::SnapshotIsolation, Level::ReadCommitted] {
            let question = Question::new(level);
            if let Err(why) = audit(&history, question, &order) {
                panic!("seed {seed}, {level}: {why}");
            }
            for op in (0..history.op_count()).map(OpId::at) {
                for anomaly in LOCAL_ANOMALIES {
                    let certificate = Certificate::Operations { anomaly, ops: vec![op] };
                    let accepted = audit(&history, question, &certificate).is_ok();
                    assert!(!accepted, "seed {seed}, {level}: {anomaly} of {}", told(&history, op));
                }
            }
        }
    }
}

fn mismatch(history: &History, level: Level) -> bool {
    let sums = (0..history.op_count()).map(OpId::at).filter(|&op| history.op(op).kind == OpKind::Sql);
    let mut certificates =
        sums.map(|op| Certificate::Operations { anomaly: Anomaly::ResultMismatch, ops: vec![op] });
    certificates.any(|certificate| audit(history, Question::new(level), &certificate).is_ok())
}

/// Two rows with one value, one of which is written again: how often it is counted was taken from
/// the number of rows.
#[test]
fn equal_values_are_counted_once() {
    for (output, told, impossible) in
        [("COUNT(DISTINCT v)", 1, 3), ("COUNT(DISTINCT v)", 2, 0), ("SUM(DISTINCT v)", 5, -1)]
    {
        let made = |told: i64| {
            let mut making = Making::new();
            for key in 1..=2 {
                let value = making.row(&[("v", Some(5)), ("w", None)]);
                let access = making.access(key, value);
                making.builder.initial(access.object, access.value).expect("given once");
            }
            let value = making.row(&[("v", Some(6)), ("w", None)]);
            making.write(1, 1, value);
            making.push(1, OpKind::Commit, &[], OpDetail::None);
            making.sum(2, &format!("SELECT {output} FROM t"), &[Some(told)]);
            making.push(2, OpKind::Commit, &[], OpDetail::None);
            making.finish()
        };
        assert!(!mismatch(&made(told), Level::ReadCommitted), "{output} = {told}");
        let beyond = output.starts_with("COUNT");
        assert_eq!(mismatch(&made(impossible), Level::ReadCommitted), beyond, "{output} = {impossible}");
    }
}

/// A reader at the very place of a writer was put before it.
#[test]
fn equal_places_in_the_serialization_order_leave_it_open() {
    let made = |place: i64| {
        let mut making = Making::new();
        let value = making.row(&[("v", Some(5))]);
        making.write(1, 1, value);
        making.push(1, OpKind::Commit, &[], OpDetail::None);
        making.sum(2, "SELECT COUNT(*) FROM t", &[Some(1)]);
        making.push(2, OpKind::Commit, &[], OpDetail::None);
        making.builder.serialization(1, 5);
        making.builder.serialization(2, place);
        making.finish()
    };
    assert!(!mismatch(&made(5), Level::Serializable));
    assert!(mismatch(&made(4), Level::Serializable) && !mismatch(&made(6), Level::Serializable));
}

/// A tuple of which nobody knows anything is not a wrong answer.
#[test]
fn an_answer_that_is_not_known_contradicts_nothing() {
    let mut making = Making::new();
    let text = "SELECT COUNT(*) FROM t";
    let rows = [ValueId::UNKNOWN];
    making.push(1, OpKind::Sql, &[], OpDetail::Sql { text, params: &[], rows: Some(&rows), count: None });
    making.push(1, OpKind::Commit, &[], OpDetail::None);
    assert!(!mismatch(&making.finish(), Level::Serializable));
}

/// What was there initially is not known: whatever was read may have been it.
#[test]
fn what_was_there_and_is_not_known_proves_nothing() {
    for text in ["init: x=? | T1: r(x,5)", "init: t/1={v:?} | T1: r(t/1,{v:5})"] {
        let history = history(text);
        for level in Level::ALL {
            for anomaly in LOCAL_ANOMALIES {
                let certificate = Certificate::Operations { anomaly, ops: vec![OpId::at(0)] };
                assert!(audit(&history, Question::new(level), &certificate).is_err(), "{text}: {anomaly}");
            }
        }
    }
}

/// SQL folds names, those of the key's columns too: the condition was not true of any row.
#[test]
fn columns_of_the_key_are_found_however_they_are_written() {
    let history = history("table t(id) | init: t/1={v:3} | T1: scan(t, ID = 1 AND V = 3){1:{v:3}}");
    let order = Certificate::Order(Order { txns: history.txns().collect(), reads: Vec::new() });
    for level in Level::ALL {
        assert_eq!(audit(&history, Question::new(level), &order), Ok(()), "{level}");
        for anomaly in LOCAL_ANOMALIES {
            let certificate = Certificate::Operations { anomaly, ops: vec![OpId::at(0)] };
            assert!(audit(&history, Question::new(level), &certificate).is_err(), "{level}: {anomaly}");
        }
    }
}
