//! Statements on unknown rows give, for every value of the unknowns, what the interpreter gives.

use std::collections::HashMap;

use margay_sql::{
    Answer, Cell, Database, Dialect, Key, Kind, Outcome, SymbolicRow, SymbolicView, TableId, Term, Terms,
    Value,
};

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

/// Rows `(k, v, s)`: each may be absent, `v` may be NULL.
type Rows = HashMap<i64, (Option<i64>, &'static str)>;

fn database(rows: &Rows) -> Database {
    let mut database = Database::new(Dialect::Postgres);
    database
        .run("CREATE TABLE t (k int PRIMARY KEY, v int CHECK (v < 50), s text NOT NULL)", &[])
        .expect("a table");
    for (k, (v, s)) in rows {
        let params = [Value::Int(*k), v.map_or(Value::Null, Value::Int), Value::text(s)];
        database.run("INSERT INTO t VALUES ($1, $2, $3)", &params).expect("a row");
    }
    database
}

fn random_rows(random: &mut Random) -> Rows {
    let mut rows = Rows::new();
    for k in 1..=3 {
        if random.below(4) > 0 {
            let v = (random.below(5) > 0).then(|| random.below(7) as i64 - 2);
            rows.insert(k, (v, ["a", "b"][random.below(2) as usize]));
        }
    }
    rows
}

/// Three keys behind which nothing is known.
struct Unknowns {
    rows: HashMap<Key, SymbolicRow>,
}

impl SymbolicView for Unknowns {
    fn keys(&self, _: TableId) -> Vec<Key> {
        self.rows.keys().cloned().collect()
    }

    fn row(&mut self, terms: &mut Terms, _: TableId, key: &Key) -> SymbolicRow {
        self.rows.get(key).cloned().unwrap_or_else(|| SymbolicRow::absent(3, terms))
    }
}

fn unknowns(terms: &mut Terms) -> Unknowns {
    let mut rows = HashMap::new();
    for k in 1..=3 {
        let key: Key = Key::from(vec![Value::Int(k)]);
        let id = Cell { null: Term::FALSE, value: terms.int(k.into()), kind: Kind::Int };
        let v = Cell { null: terms.choice(), value: terms.unknown(), kind: Kind::Int };
        let s = Cell { null: Term::FALSE, value: terms.unknown(), kind: Kind::Text };
        rows.insert(key, SymbolicRow { present: terms.choice(), cells: vec![id, v, s] });
    }
    Unknowns { rows }
}

/// The values of all terms where the unknown rows are these.
fn values(terms: &mut Terms, view: &Unknowns, rows: &Rows) -> Vec<i128> {
    let mut given: HashMap<Term, i128> = HashMap::new();
    for k in 1..=3 {
        let row = &view.rows[&Key::from(vec![Value::Int(k)])];
        given.insert(row.present, rows.contains_key(&k).into());
        if let Some((v, s)) = rows.get(&k) {
            given.insert(row.cells[1].null, v.is_none().into());
            given.insert(row.cells[1].value, v.unwrap_or(0).into());
            let text = terms.intern(&Value::text(s));
            given.insert(row.cells[2].value, terms.known_int(text).expect("a number"));
        }
    }
    terms.evaluate(&|term| given.get(&term).copied().unwrap_or(0))
}

fn shown(cell: &Cell, terms: &Terms, values: &[i128]) -> Value {
    let number = values[cell.value.index()];
    match cell.kind {
        _ if values[cell.null.index()] != 0 => Value::Null,
        Kind::Int => Value::Int(number as i64),
        Kind::Bool => Value::Bool(number != 0),
        Kind::Text => terms.interned()[number as usize].clone(),
        other => panic!("{other:?}"),
    }
}

const STATEMENTS: [&str; 22] = [
    "SELECT v FROM t WHERE k = 2",
    "SELECT k, v + 1, s FROM t WHERE v >= 1 AND v < 4",
    "SELECT k FROM t WHERE NOT (v = 2) OR v IS NULL",
    "SELECT k, v IS NULL FROM t WHERE s = 'a'",
    "SELECT COUNT(*), COUNT(v), SUM(v), MIN(v), MAX(v) FROM t",
    "SELECT COALESCE(SUM(v), 0) FROM t WHERE v > 1",
    "SELECT k FROM t WHERE v IN (1, 3, NULL)",
    "SELECT k FROM t WHERE v NOT IN (1, 3)",
    "SELECT k, CASE WHEN v > 2 THEN v * 2 WHEN v IS NULL THEN -1 ELSE 0 END FROM t",
    "SELECT a.k, b.k FROM t a JOIN t b ON a.v = b.v WHERE a.k < b.k",
    "SELECT b.v FROM t a, t b WHERE a.k = 1 AND b.k = a.v",
    "SELECT k FROM t WHERE v BETWEEN 0 AND 2 AND v IS DISTINCT FROM 1",
    "UPDATE t SET v = v + 1 WHERE k = 1",
    "UPDATE t SET v = v - 2, s = 'b' WHERE v > 1",
    "UPDATE t SET v = v WHERE v IS NOT NULL",
    "UPDATE t SET v = v * 20 WHERE k <= 2 RETURNING k, v",
    "UPDATE t SET s = NULL WHERE v = 3",
    "DELETE FROM t WHERE v < 1",
    "DELETE FROM t WHERE k = 3",
    "INSERT INTO t VALUES (3, 5, 'a')",
    "INSERT INTO t VALUES (4, 60, 'a')",
    "INSERT INTO t (k, s) VALUES (1, 'b'), (5, 'c')",
];

fn compare(
    text: &str,
    answer: &Answer,
    terms: &Terms,
    values: &[i128],
    outcome: &Outcome,
    database: &Database,
) {
    let is = |term: Term| values[term.index()] != 0;
    let mut rows: Vec<Vec<Value>> = answer
        .rows
        .iter()
        .filter(|row| is(row.when))
        .map(|row| row.cells.iter().map(|cell| shown(cell, terms, values)).collect())
        .collect();
    let number = |value: &Value| match value {
        Value::Decimal(number) => Value::Int(number.to_integer().expect("a whole number")),
        other => other.clone(),
    };
    let mut expected: Vec<Vec<Value>> =
        outcome.rows.iter().map(|row| row.iter().map(number).collect()).collect();
    rows.sort();
    expected.sort();
    assert_eq!(rows, expected, "{text}");
    if !outcome.writes.is_empty() {
        assert_eq!(values[answer.matched.index()], outcome.matched.into(), "{text}");
        assert_eq!(values[answer.changed.index()], outcome.changed.into(), "{text}");
    }
    let mut read: Vec<&Key> = answer.reads.iter().filter(|read| is(read.2)).map(|read| &read.1).collect();
    let mut noted: Vec<&Key> =
        outcome.reads.rows.iter().filter(|read| read.present).map(|read| &read.key).collect();
    for keys in [&mut read, &mut noted] {
        keys.sort();
        keys.dedup();
    }
    assert_eq!(read, noted, "{text}");
    let written: Vec<_> = answer.writes.iter().filter(|write| is(write.when)).collect();
    assert_eq!(written.len(), outcome.writes.len(), "{text}");
    for write in &outcome.writes {
        let same = written.iter().find(|known| known.key == write.key).expect("the write");
        let after = is(same.after.present)
            .then(|| same.after.cells.iter().map(|cell| shown(cell, terms, values)).collect::<Vec<_>>());
        assert_eq!(
            after.as_deref(),
            write.after.as_deref(),
            "{text} in {}",
            database.schema(write.table).name
        );
    }
}

#[test]
fn terms_have_the_values_of_the_interpreter() {
    let mut random = Random(7);
    let (mut done, mut failed) = (0, 0);
    for text in STATEMENTS {
        let empty = database(&Rows::new());
        let statement = empty.prepare(text).expect(text);
        let mut terms = Terms::new();
        let mut view = unknowns(&mut terms);
        let answer = empty.symbolic(&statement, &[], &mut view, &mut terms).expect(text);
        for _ in 0..60 {
            let rows = random_rows(&mut random);
            let values = values(&mut terms, &view, &rows);
            let mut real = database(&rows);
            let result = real.run(text, &[]);
            assert_eq!(result.is_err(), values[answer.fails.index()] != 0, "{text} on {rows:?}: {result:?}");
            match result {
                Ok(outcome) => compare(text, &answer, &terms, &values, &outcome, &real),
                Err(_) => failed += 1,
            }
            done += 1;
        }
    }
    assert!(failed > done / 20 && failed < done / 2, "{failed} of {done}");
}

#[test]
fn what_has_no_terms_is_refused_by_name() {
    let cases = [
        ("SELECT k FROM t WHERE s LIKE 'a%'", "LIKE"),
        ("SELECT k FROM t WHERE s < 'b'", "order of text"),
        ("SELECT v / 2 FROM t", "division"),
        ("SELECT AVG(v) FROM t", "AVG"),
        ("SELECT v, COUNT(*) FROM t GROUP BY v", "GROUP BY"),
        ("SELECT DISTINCT v FROM t", "DISTINCT"),
        ("SELECT v FROM t ORDER BY v LIMIT 1", "LIMIT"),
        ("SELECT k FROM t WHERE EXISTS (SELECT 1 FROM t b WHERE b.v = t.v)", "subquery"),
        ("UPDATE t SET k = k + 1", "UPDATE of a key"),
        ("INSERT INTO t SELECT k + 10, v, s FROM t", "INSERT of a query"),
        ("INSERT INTO t VALUES (1, 1, 'a') ON CONFLICT (k) DO NOTHING", "ON CONFLICT"),
    ];
    for (text, named) in cases {
        let database = database(&Rows::new());
        let statement = database.prepare(text).expect(text);
        let mut terms = Terms::new();
        let mut view = unknowns(&mut terms);
        let error = database.symbolic(&statement, &[], &mut view, &mut terms).expect_err(text).to_string();
        assert!(error.contains(named), "{text}: {error}");
    }
}
