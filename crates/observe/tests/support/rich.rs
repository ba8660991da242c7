//! Random logs of a few transactions with joins, aggregates, groups, DISTINCT, ORDER BY and LIMIT,
//! NULL, subqueries, inserts that fail and deletes that find nothing.
//!
//! Results come from executing the statements on some earlier state, so that many logs are right at
//! some level; some results are made up.

use margay_history::{History, OpKind};
use margay_sql::{Database, Dialect, Outcome, Value};

use super::Random;
use super::log::{Log, Seen, Shape};

const TABLES: &[Shape<'_>] =
    &[("t", &["k"], &[("k", "int"), ("v", "int")]), ("u", &["k"], &[("k", "int"), ("w", "int")])];

/// A random log.
pub fn rich(seed: u64) -> History {
    let mut random = Random(seed);
    let (mut log, mut database) = begin(&mut random);
    let base = database.clock();
    let sessions = 1 + random.below(3);
    for txn in 0..2 + random.below(2) {
        let session = txn % sessions;
        let mut transaction = database.begin();
        transaction.snapshot = base + random.below(database.clock() - base + 1);
        let mut fails = false;
        for _ in 0..1 + random.below(2) {
            let text = statement(&mut random);
            if random.chance(15) {
                transaction.snapshot = base + random.below(database.clock() - base + 1);
            }
            let prepared = database.prepare(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let outcome = database.execute(&mut transaction, &prepared, &[]);
            fails |= outcome.is_err();
            let seen = observed(&mut random, outcome.ok(), prepared.is_write());
            log.sql(session, txn, None, &text, &[], &seen);
        }
        let lies = random.chance(10);
        let end = match random.below(10) {
            _ if fails && !lies => OpKind::Abort,
            0 => OpKind::Abort,
            1 => OpKind::Unknown,
            _ => OpKind::Commit,
        };
        log.op(session, txn, None, end);
        if end == OpKind::Abort || fails {
            database.rollback(transaction);
        } else {
            database.commit(transaction);
        }
    }
    log.finish()
}

fn begin(random: &mut Random) -> (Log, Database) {
    let (mut log, mut database) = (Log::new(TABLES), Database::new(Dialect::Generic));
    for (table, column) in [("t", "v"), ("u", "w")] {
        database.run(&format!("CREATE TABLE {table} (k int PRIMARY KEY, {column} int)"), &[]).unwrap();
        for k in 1..3 {
            let value = small(random);
            database
                .run(&format!("INSERT INTO {table} VALUES ({k}, $1)"), std::slice::from_ref(&value))
                .unwrap();
            log.row(table, &[Value::Int(k)], &[(column, value)]);
        }
    }
    (log, database)
}

fn small(random: &mut Random) -> Value {
    match random.below(5) {
        0 => Value::Null,
        number => Value::Int(number as i64 - 1),
    }
}

/// What the client says that it saw: mostly what came out.
fn observed(random: &mut Random, outcome: Option<Outcome>, writes: bool) -> Seen {
    let Some(outcome) = outcome else { return Seen::Nothing };
    if writes && outcome.columns.is_empty() {
        return match random.below(3) {
            0 => Seen::Nothing,
            1 => Seen::Count(outcome.matched),
            _ => Seen::Count((outcome.matched + random.below(5)) / 4),
        };
    }
    let mut rows = outcome.rows;
    match random.below(12) {
        0 => _ = rows.pop(),
        1 if !rows.is_empty() => {
            let at = random.below(rows.len() as u64) as usize;
            let column = random.below(rows[at].len() as u64) as usize;
            rows[at][column] = small(random);
        }
        2 => rows.reverse(),
        3 => rows.extend(rows.first().cloned()),
        _ => {}
    }
    Seen::Rows(rows)
}

fn statement(random: &mut Random) -> String {
    let (k, v) = (1 + random.below(3), random.below(4));
    let texts = [
        "SELECT t.k, u.w FROM t JOIN u ON u.k = t.v".to_owned(),
        "SELECT t.k, u.w FROM t LEFT JOIN u ON u.k = t.v WHERE u.w IS NULL".to_owned(),
        "SELECT DISTINCT v FROM t".to_owned(),
        format!("SELECT v FROM t WHERE v <> {v} ORDER BY v DESC LIMIT 1"),
        "SELECT k FROM t ORDER BY v, k LIMIT 2 OFFSET 1".to_owned(),
        "SELECT SUM(v), MIN(v), MAX(v), COUNT(v), COUNT(*) FROM t".to_owned(),
        "SELECT v, COUNT(*) FROM t GROUP BY v HAVING COUNT(*) > 0".to_owned(),
        "SELECT k FROM t WHERE v IS NULL".to_owned(),
        format!("SELECT k FROM t WHERE NOT (v = {v})"),
        format!("SELECT k FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.v = u.w) OR w > {v}"),
        format!("SELECT v FROM t WHERE k = {k} FOR UPDATE"),
        format!("UPDATE t SET v = NULL WHERE k = {k}"),
        format!("UPDATE t SET v = (SELECT MAX(w) FROM u) WHERE k = {k}"),
        format!("UPDATE t SET v = v + 1 WHERE v < {v} RETURNING k, v"),
        format!("UPDATE u SET w = {v} WHERE k = {k}"),
        format!("UPDATE u SET w = w + {v} WHERE w IN (SELECT v FROM t)"),
        format!("INSERT INTO t VALUES ({k}, {v})"),
        format!("INSERT INTO t VALUES ({k}, {v}) ON CONFLICT (k) DO NOTHING"),
        format!("INSERT INTO u VALUES ({k}, {v}) ON CONFLICT (k) DO UPDATE SET w = u.w + 1"),
        "INSERT INTO u SELECT k + 2, v FROM t WHERE v IS NOT NULL".to_owned(),
        format!("DELETE FROM t WHERE v = {v}"),
        format!("DELETE FROM u WHERE k = {}", k + 1),
    ];
    random.pick(&texts).clone()
}
