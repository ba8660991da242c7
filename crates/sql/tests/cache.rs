//! The cache of statements by shape.

use margay_sql::{Database, Dialect, StatementCache, Value};

fn database(dialect: Dialect) -> Database {
    let mut database = Database::new(dialect);
    database.run("CREATE TABLE t (id INT PRIMARY KEY, v INT, w VARCHAR(20), d DECIMAL(8,2))", &[]).unwrap();
    for id in 0..5 {
        let text = format!("INSERT INTO t VALUES ({id}, {}, 'w{id}', {id}.50)", id * 10);
        database.run(&text, &[]).unwrap();
    }
    database
}

/// Through the cache a text means what it means without.
fn same(cache: &mut StatementCache, database: &mut Database, text: &str) -> Result<Vec<Vec<Value>>, String> {
    let direct = database.prepare(text).and_then(|statement| {
        let mut transaction = database.begin();
        let outcome = database.execute(&mut transaction, &statement, &[]);
        database.rollback(transaction);
        outcome
    });
    let cached = match cache.bind(database, text, &[]) {
        Ok((statement, values)) => {
            let mut transaction = database.begin();
            let outcome = database.execute(&mut transaction, &statement, values);
            database.rollback(transaction);
            outcome
        }
        Err(error) => Err(error),
    };
    let rows =
        |outcome: Result<margay_sql::Outcome, margay_sql::SqlError>| outcome.map(|o| (o.rows, o.matched));
    let (direct, cached) = (rows(direct), rows(cached));
    assert_eq!(direct.is_ok(), cached.is_ok(), "{text}: {direct:?} {cached:?}");
    if let (Ok(direct), Ok(cached)) = (&direct, &cached) {
        assert_eq!(direct, cached, "{text}");
    }
    direct.map(|(rows, _)| rows).map_err(|error| error.to_string())
}

#[test]
fn each_shape_is_parsed_once() {
    for dialect in [Dialect::Generic, Dialect::Postgres, Dialect::MySql, Dialect::Sqlite] {
        let mut database = database(dialect);
        let mut cache = StatementCache::new();
        for id in 0..5 {
            let rows = same(&mut cache, &mut database, &format!("SELECT v FROM t WHERE id = {id}")).unwrap();
            assert_eq!(rows, [[Value::Int(id * 10)]]);
            same(&mut cache, &mut database, &format!("UPDATE t SET w = 'n{id}' WHERE id = {id} AND v < 50"))
                .unwrap();
        }
        assert_eq!(cache.misses(), 2, "{dialect:?}");
    }
}

#[test]
fn literals_that_are_no_values_stay() {
    for dialect in [Dialect::Postgres, Dialect::MySql, Dialect::Sqlite] {
        let mut database = database(dialect);
        let mut cache = StatementCache::new();
        for text in [
            "SELECT v, id FROM t ORDER BY 1",
            "SELECT v, id FROM t ORDER BY 2",
            "SELECT v % 20, COUNT(*) FROM t GROUP BY v % 20 ORDER BY 1",
            "SELECT id FROM t ORDER BY id LIMIT 2",
            "SELECT w FROM t WHERE w LIKE 'w!1' ESCAPE '!' ORDER BY id",
            "SELECT COALESCE(3, 1.5) / 2",
            "SELECT v FROM t WHERE w = 'it''s'",
            "SELECT v /* a 'comment' 1 */ FROM t WHERE id = 1",
            "SELECT v FROM t WHERE id = -1 OR id = +1",
            "SELECT v FROM t -- 1\n WHERE id = 2",
            "SELECT CAST(v AS DECIMAL(8,2)) FROM t WHERE id = 1",
            "SELECT d * 2.5, d + 1 FROM t WHERE d >= 2.5 AND d < 100000000000000000000 ORDER BY id",
        ] {
            let _ = same(&mut cache, &mut database, text);
            let _ = same(&mut cache, &mut database, text);
        }
    }
}

#[test]
fn texts_with_parameters_take_the_callers() {
    let mut database = database(Dialect::Postgres);
    let mut cache = StatementCache::new();
    let params = [Value::Int(3)];
    for _ in 0..2 {
        let (statement, values) = cache.bind(&database, "SELECT v FROM t WHERE id = $1", &params).unwrap();
        let values = values.to_vec();
        let mut transaction = database.begin();
        let outcome = database.execute(&mut transaction, &statement, &values).unwrap();
        assert_eq!(outcome.rows, [[Value::Int(30)]]);
    }
    assert_eq!(cache.misses(), 1);
    database.run("CREATE TABLE u (id INT PRIMARY KEY)", &[]).unwrap();
    assert!(cache.bind(&database, "SELECT v FROM t WHERE id = $1", &params).is_ok());
    assert_eq!(cache.misses(), 2, "a new schema empties the cache");
}
