//! Replay of SQL statements: rows, predicates, aggregates and joins, on logs that the interpreter
//! itself made.

use margay_audit::audit;
use margay_certify::Replay;
use margay_history::{History, HistoryBuilder, Interval, OpDetail, OpKind, Table, ValueId};
use margay_levels::Level;
use margay_simdb::Rng;
use margay_sql::{Database, Dialect, Outcome, Transaction, Value};
use margay_verdict::{Budget, Certificate, Checker, Question, Verdict};

const CLIENTS: usize = 3;
const KEYS: u64 = 6;

fn ask(history: &History, level: Level) -> Verdict {
    let question = Question::new(level);
    let verdict = Replay.check(history, question, &Budget::unlimited());
    if let Some(certificate) = verdict.certificate() {
        let audited = audit(history, question, certificate);
        assert!(audited.is_ok(), "{level}: {audited:?}");
    }
    verdict
}

/// A statement; whoever is told to write only touches keys of its own.
fn statement(rng: &mut Rng, client: usize) -> String {
    let own = client as u64 + CLIENTS as u64 * rng.below(KEYS / CLIENTS as u64);
    let (low, v) = (rng.below(8), rng.below(12));
    match rng.below(9) {
        0 => format!("INSERT INTO t VALUES ({own}, {v}) ON CONFLICT (k) DO UPDATE SET v = excluded.v"),
        1 => format!("UPDATE t SET v = v + {v} WHERE k = {own}"),
        2 => format!("DELETE FROM t WHERE k = {own} AND v > {low}"),
        3 => format!("SELECT COUNT(*), SUM(v) FROM t WHERE v >= {low}"),
        4 => format!("SELECT MIN(v), MAX(v) FROM t WHERE v BETWEEN {low} AND {}", low + 4),
        5 => format!("SELECT k, v FROM t WHERE v > {low} ORDER BY k"),
        6 => "SELECT COUNT(*) FROM t AS a JOIN t AS b ON a.v = b.v WHERE a.k < b.k".to_owned(),
        7 => format!("SELECT v FROM t WHERE k = {}", rng.below(KEYS)),
        _ => "SELECT v % 3, COUNT(*) FROM t GROUP BY v % 3".to_owned(),
    }
}

/// How a log is recorded.
struct Log {
    builder: HistoryBuilder,
    database: Database,
    rng: Rng,
    time: i64,
    /// The answer of this number is falsified.
    wrong: Option<usize>,
    answers: usize,
}

impl Log {
    fn new(seed: u64, wrong: Option<usize>) -> Self {
        let mut builder = HistoryBuilder::new();
        builder.header().dbms = Some("postgresql-15".to_owned());
        let columns = ["k", "v"].map(|name| (name.to_owned(), "int".to_owned())).to_vec();
        let table = Table { name: "t".to_owned(), key: vec!["k".to_owned()], columns, ..Table::default() };
        builder.declare_table(table).expect("a table");
        let mut database = Database::new(Dialect::Postgres);
        database.run("CREATE TABLE t (k INT PRIMARY KEY, v INT)", &[]).expect("a table");
        Self { builder, database, rng: Rng::new(seed, 3), time: 0, wrong, answers: 0 }
    }

    fn push(&mut self, client: usize, txn: u64, kind: OpKind, detail: OpDetail<'_>) {
        self.time += 10;
        let at = Some(Interval::new(self.time, self.time + 5));
        self.builder.push(client as u64, txn, at, kind, &[], detail).expect("an operation");
    }

    fn execute(&mut self, transaction: &mut Transaction, client: usize, txn: u64) {
        let text = statement(&mut self.rng, client);
        let prepared = self.database.prepare(&text).expect("a statement");
        let outcome = self.database.execute(transaction, &prepared, &[]).expect("a result");
        let (rows, count) = self.seen(&outcome);
        let detail = OpDetail::Sql { text: &text, params: &[], rows: rows.as_deref(), count };
        self.push(client, txn, OpKind::Sql, detail);
    }

    fn seen(&mut self, outcome: &Outcome) -> (Option<Vec<ValueId>>, Option<u64>) {
        let lie = self.wrong == Some(self.answers);
        if outcome.columns.is_empty() {
            return (None, Some(outcome.matched));
        }
        self.answers += 1;
        let values = self.builder.values();
        let mut cell = |value: &Value| match value {
            Value::Int(int) => values.int(*int + i64::from(lie)),
            Value::Null if lie => values.int(77),
            Value::Null => ValueId::NULL,
            other => values.text(&other.to_string()),
        };
        let mut rows: Vec<Vec<ValueId>> =
            outcome.rows.iter().map(|row| row.iter().map(&mut cell).collect()).collect();
        if lie && rows.is_empty() {
            rows.push(outcome.columns.iter().map(|_| values.int(99)).collect());
        }
        (Some(rows.iter().map(|row| values.list(row)).collect()), None)
    }
}

/// One transaction after the other.
fn serial(seed: u64, transactions: u64, wrong: Option<usize>) -> History {
    let mut log = Log::new(seed, wrong);
    for txn in 1..=transactions {
        let client = log.rng.below(CLIENTS as u64) as usize;
        log.push(client, txn, OpKind::Begin, OpDetail::None);
        let mut transaction = log.database.begin();
        for _ in 0..1 + log.rng.below(4) {
            log.execute(&mut transaction, client, txn);
        }
        log.database.commit(transaction);
        log.push(client, txn, OpKind::Commit, OpDetail::None);
        log.builder.serialization(txn, txn as i64);
    }
    log.builder.finish().expect("a history")
}

/// Transactions that overlap, each on its snapshot.
fn snapshots(seed: u64, transactions: u64, wrong: Option<usize>) -> History {
    let mut log = Log::new(seed, wrong);
    let mut open: Vec<Option<(u64, Transaction)>> = (0..CLIENTS).map(|_| None).collect();
    let mut begun = 0;
    while begun < transactions || open.iter().any(Option::is_some) {
        let client = log.rng.below(CLIENTS as u64) as usize;
        match open[client].take() {
            None if begun == transactions => {}
            None => {
                begun += 1;
                log.push(client, begun, OpKind::Begin, OpDetail::None);
                let transaction = log.database.begin();
                log.builder.snapshot(begun, 2 * transaction.snapshot as i64);
                open[client] = Some((begun, transaction));
            }
            Some((txn, mut transaction)) if log.rng.below(4) > 0 => {
                log.execute(&mut transaction, client, txn);
                open[client] = Some((txn, transaction));
            }
            Some((txn, transaction)) => {
                let stamp = log.database.commit(transaction);
                log.builder.commit(txn, 2 * stamp as i64);
                log.push(client, txn, OpKind::Commit, OpDetail::None);
            }
        }
    }
    log.builder.finish().expect("a history")
}

#[test]
fn recorded_orders_explain_what_was_observed() {
    for seed in 0..15 {
        for level in [Level::Serializable, Level::StrictSerializable] {
            let verdict = ask(&serial(seed, 40, None), level);
            assert!(matches!(verdict, Verdict::Holds(Certificate::Execution(_))), "seed {seed}: {verdict:?}");
        }
        let verdict = ask(&snapshots(seed, 40, None), Level::StrictSnapshotIsolation);
        assert!(matches!(verdict, Verdict::Holds(Certificate::Execution(_))), "seed {seed}: {verdict:?}");
    }
}

#[test]
fn the_first_wrong_answer_is_told_beside_the_right_one() {
    for seed in 0..15 {
        for (history, level) in [
            (serial(seed, 40, Some(seed as usize)), Level::Serializable),
            (snapshots(seed, 40, Some(seed as usize)), Level::SnapshotIsolation),
        ] {
            let Verdict::Violated(findings) = ask(&history, level) else { panic!("seed {seed}, {level}") };
            assert_eq!(findings[0].anomaly.name(), "result-mismatch");
            let Certificate::Unexplained(shown) = &findings[0].certificate else { panic!("{findings:?}") };
            let text = shown.notes.join("\n");
            assert!(
                text.contains("executed SELECT") && text.contains("observed") && text.contains("gives"),
                "{text}"
            );
        }
    }
}

/// Without the order nothing is said; with a wrong one never `holds` by luck.
#[test]
fn incomplete_and_wrong_orders() {
    let mut refused = 0;
    for seed in 0..15 {
        let history = serial(seed, 30, None);
        let mut evidence = history.evidence().clone();
        evidence.serializations.pop();
        let missing = history.clone().with_evidence(evidence).expect("evidence");
        assert!(matches!(ask(&missing, Level::Serializable), Verdict::Unknown(_)));
        let mut evidence = history.evidence().clone();
        let (a, b) = (evidence.serializations[3].1, evidence.serializations[20].1);
        (evidence.serializations[3].1, evidence.serializations[20].1) = (b, a);
        let swapped = history.clone().with_evidence(evidence).expect("evidence");
        // The clock knows the true order.
        assert!(matches!(ask(&swapped, Level::StrictSerializable), Verdict::Violated(_)));
        refused += usize::from(matches!(ask(&swapped, Level::Serializable), Verdict::Violated(_)));
    }
    assert!(refused > 7, "{refused}");
}
