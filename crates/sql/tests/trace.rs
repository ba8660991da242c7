//! Traced statements as reads and writes of rows and regions, and the index over versions.

mod common;

use common::Rng;
use margay_sql::{Database, Dialect, Predicate, Relation, Traced, Value, VersionIndex};

fn database() -> Database {
    let mut database = Database::new(Dialect::Postgres);
    database.run("CREATE TABLE t (a INT, b INT, v INT, PRIMARY KEY (a, b))", &[]).unwrap();
    database
}

fn trace(text: &str, params: &[Value], rows: Option<&[Vec<Value>]>, count: Option<u64>) -> Traced {
    let database = database();
    let statement = database.prepare(text).unwrap();
    database.trace(&statement, params, rows, count).unwrap()
}

fn ints(values: &[i64]) -> Vec<Value> {
    values.iter().copied().map(Value::Int).collect()
}

#[test]
fn reads_by_key_are_items() {
    let rows = [ints(&[7])];
    let traced = trace("SELECT v FROM t WHERE a = $1 AND b = 2", &ints(&[1]), Some(&rows), None);
    let [read] = traced.reads.as_slice() else { panic!("{traced:?}") };
    assert_eq!(read.key.as_ref(), ints(&[1, 2]));
    assert_eq!((read.present, &read.values), (Some(true), &vec![(2, Value::Int(7))]));
    assert!(traced.regions.is_empty());
    let traced = trace("SELECT v FROM t WHERE a = 1 AND b = 2", &[], Some(&[]), None);
    assert_eq!(traced.reads[0].present, Some(false));
    // The row may be there and fail the other condition.
    let traced = trace("SELECT v FROM t WHERE a = 1 AND b = 2 AND v > 3", &[], Some(&[]), None);
    assert_eq!(traced.reads[0].present, None);
}

#[test]
fn reads_by_predicate_are_regions_and_the_rows_that_came() {
    let rows = [ints(&[1, 5, 9]), ints(&[1, 6, 4])];
    let traced = trace("SELECT * FROM t WHERE a = 1 AND v > 3", &[], Some(&rows), None);
    assert_eq!(traced.reads.len(), 2);
    assert_eq!(traced.reads[1].key.as_ref(), ints(&[1, 6]));
    let types = |_: &str| Some(margay_sql::Type::Int(32));
    let region = |text: &str| Predicate::parse(text, Dialect::Postgres).unwrap().region(types);
    assert_eq!(traced.regions[0].region.relation(&region("a = 1 AND v >= 4")), Relation::Identical);
    assert_eq!(traced.regions[0].region.relation(&region("a = 2")), Relation::Disjoint);
}

#[test]
fn writes() {
    let traced = trace("UPDATE t SET v = v + 1 WHERE a = 1 AND b = 2", &[], None, Some(1));
    assert_eq!(traced.writes[0].values, [(2, None)]);
    assert!(traced.writes[0].certain);
    let traced = trace("UPDATE t SET v = 4 WHERE a = 1 AND b = 2", &[], None, None);
    assert_eq!(traced.writes[0].values, [(2, Some(Value::Int(4)))]);
    assert!(!traced.writes[0].certain);
    let traced = trace("UPDATE t SET v = 4 WHERE a = 1 AND b = 2", &[], None, Some(0));
    assert!(traced.writes.is_empty() && traced.reads.len() == 1);
    let traced = trace("INSERT INTO t VALUES (1, 2, 3), ($1, 4, 5)", &ints(&[9]), None, Some(2));
    assert_eq!(traced.writes[1].key.as_ref(), ints(&[9, 4]));
    let traced = trace("DELETE FROM t WHERE v < 3", &[], None, None);
    assert!(traced.writes.is_empty() && traced.regions[0].written);
    let traced = trace("UPDATE t SET a = 3 WHERE a = 1 AND b = 2", &[], None, Some(1));
    assert!(traced.writes.is_empty() && traced.regions[0].written, "a row that moves is not one item");
}

#[test]
fn joins_and_subqueries_read_every_table() {
    let text = "SELECT x.v FROM t x WHERE x.a = 1 AND x.b = 1 AND x.v IN (SELECT y.v FROM t y WHERE y.a = 2)";
    let traced = trace(text, &[], Some(&[]), None);
    assert_eq!(traced.regions.len(), 2);
    let text = "SELECT x.v FROM t x JOIN t y ON x.a = y.b WHERE y.v = 3";
    assert_eq!(trace(text, &[], Some(&[]), None).regions.len(), 2);
}

/// Every version that matches is a candidate, and a narrow range has few candidates.
#[test]
fn the_version_index_loses_nothing() {
    let mut rng = Rng(5);
    let columns = ["x", "y", "z"];
    let cell = |rng: &mut Rng| match rng.below(20) {
        0 => Value::Null,
        1 => Value::Float(rng.below(100) as f64 + 0.5),
        _ => Value::Int(rng.below(100) as i64),
    };
    let rows: Vec<Vec<Value>> = (0..3_000).map(|_| (0..3).map(|_| cell(&mut rng)).collect()).collect();
    let mut index = VersionIndex::new(&[0, 2]);
    rows.iter().enumerate().for_each(|(id, row)| index.insert(id as u32, row));
    for (text, few) in [
        ("x >= 10 AND x < 12", true),
        ("x = 5 AND y <> 3", true),
        ("z BETWEEN 90 AND 95 AND x > 2", true),
        ("y = 5", false),
        ("x = 5 OR z = 5", false),
        ("x > 10 AND x < 5", true),
        ("x >= 0", false),
    ] {
        let bound = Predicate::parse(text, Dialect::Generic).unwrap().bind(&columns).unwrap();
        let candidates: std::collections::HashSet<u32> = index.candidates(&bound).into_iter().collect();
        for (id, row) in rows.iter().enumerate() {
            assert!(!bound.matches(row).unwrap() || candidates.contains(&(id as u32)), "{text}: {row:?}");
        }
        assert_eq!(candidates.len() < rows.len() / 4, few, "{text}: {}", candidates.len());
    }
}
