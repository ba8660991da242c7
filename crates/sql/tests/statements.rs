//! The statements of the fragment, one test per construct; `docs/SQL.md` names them.

use margay_sql::{Control, Database, Dialect, Isolation, Lock, SqlError, Value};

/// A small bank: accounts 1 to 4, of which the last has no owner, and an audit without a key.
fn bank(dialect: Dialect) -> Database {
    let mut database = Database::new(dialect);
    for text in [
        "CREATE TABLE accounts (id INT PRIMARY KEY, owner VARCHAR(20), balance BIGINT NOT NULL DEFAULT 0, \
         CHECK (balance >= -100))",
        "CREATE TABLE audit (account INT, amount BIGINT)",
        "INSERT INTO accounts (id, owner, balance) VALUES (1, 'ann', 100), (2, 'bob', 50), (3, 'ann', 70)",
        "INSERT INTO accounts (id) VALUES (4)",
        "INSERT INTO audit VALUES (1, 10), (1, -5), (2, 7)",
    ] {
        database.run(text, &[]).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    database
}

/// The result as text: cells with commas, rows with semicolons.
fn rows(database: &mut Database, text: &str) -> String {
    rows_with(database, text, &[])
}

fn rows_with(database: &mut Database, text: &str, params: &[Value]) -> String {
    match database.run(text, params) {
        Ok(outcome) => {
            let row = |row: &Vec<Value>| row.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            outcome.rows.iter().map(row).collect::<Vec<_>>().join("; ")
        }
        Err(error) => format!("error: {error}"),
    }
}

fn check(dialect: Dialect, cases: &[(&str, &str)]) {
    let mut database = bank(dialect);
    for (text, expected) in cases {
        assert_eq!(rows(&mut database, text), *expected, "{dialect:?}: {text}");
    }
}

const ALL: [Dialect; 4] = [Dialect::Generic, Dialect::Postgres, Dialect::MySql, Dialect::Sqlite];

#[test]
fn select_where_order_limit() {
    for dialect in ALL {
        check(
            dialect,
            &[
                ("SELECT id FROM accounts WHERE balance > 60 ORDER BY id", "1; 3"),
                (
                    "SELECT id, balance * 2 AS twice FROM accounts WHERE owner = 'ann' ORDER BY twice DESC",
                    "1,200; 3,140",
                ),
                ("SELECT * FROM accounts WHERE id = 2", "2,'bob',50"),
                (
                    "SELECT a.* FROM accounts a ORDER BY a.balance DESC, a.id LIMIT 2 OFFSET 1",
                    "3,'ann',70; 2,'bob',50",
                ),
                ("SELECT DISTINCT owner FROM accounts WHERE owner IS NOT NULL ORDER BY 1", "'ann'; 'bob'"),
                ("SELECT 1 + 1", "2"),
                ("SELECT id FROM accounts WHERE owner = NULL", ""),
            ],
        );
    }
}

#[test]
fn limit_must_not_choose() {
    check(
        Dialect::Postgres,
        &[
            ("SELECT id FROM accounts WHERE owner = 'bob' LIMIT 1", "2"),
            ("SELECT 7 FROM accounts LIMIT 2", "7; 7"),
            (
                "SELECT id FROM accounts LIMIT 1",
                "error: outside the SQL fragment: a LIMIT among rows whose order is open",
            ),
        ],
    );
}

/// A database with the collation en_US.UTF-8 answers `owner > 'a'` otherwise than one with C does:
/// what depends on it is outside the fragment, and neither an answer nor a failure. Equality
/// depends on nothing.
#[test]
fn postgres_orders_text_only_where_collations_agree() {
    let open =
        "error: outside the SQL fragment: the order of text, which depends on the database's collation";
    let cut = "error: outside the SQL fragment: a LIMIT among rows whose order is open";
    let cases = [
        ("SELECT id FROM accounts WHERE owner < 'bo' ORDER BY id", "1; 3"),
        ("SELECT MIN(owner), MAX(owner) FROM accounts", "'ann','bob'"),
        ("SELECT id FROM accounts WHERE owner IS NOT NULL ORDER BY owner DESC LIMIT 1", "2"),
        ("UPDATE accounts SET owner = 'Bob' WHERE id = 2", ""),
        ("SELECT id FROM accounts WHERE owner <> 'Ann' AND owner IN ('ann', 'Bob') ORDER BY id", "1; 2; 3"),
        ("SELECT COUNT(DISTINCT owner), NULLIF('a', 'B') FROM accounts", "2,'a'"),
        ("SELECT id FROM accounts WHERE owner < 'am'", open),
        ("SELECT id FROM accounts WHERE id = 1 AND owner BETWEEN 'B' AND 'z'", open),
        ("SELECT MIN(owner) FROM accounts", open),
        ("SELECT GREATEST('a', 'B')", open),
        ("DELETE FROM accounts WHERE owner >= 'a'", open),
        ("SELECT id FROM accounts WHERE owner IS NOT NULL ORDER BY owner LIMIT 1", cut),
        ("SELECT id FROM accounts WHERE id < 3 ORDER BY id, owner LIMIT 1", "1"),
        ("SELECT id FROM accounts WHERE id = 1 ORDER BY owner LIMIT 1", "1"),
    ];
    check(Dialect::Postgres, &cases);
    let mut database = bank(Dialect::Postgres);
    let mut ranks = |text: &str| database.run(text, &[]).unwrap().ranks;
    let sorted = "SELECT id FROM accounts WHERE id < 4 ORDER BY owner, id";
    assert_eq!(ranks(sorted), [0, 1, 2]);
    ranks("UPDATE accounts SET owner = 'Bob' WHERE id = 2");
    assert_eq!(ranks(sorted), [0, 0, 0], "the order is open");
    assert_eq!(ranks("SELECT id FROM accounts WHERE id < 4 ORDER BY balance > 60, owner"), [0, 1, 1]);
    check(
        Dialect::Generic,
        &[
            ("SELECT GREATEST('a', 'B')", "'a'"),
            ("SELECT id FROM accounts WHERE owner > 'Z' AND id < 2", "1"),
        ],
    );
}

#[test]
fn joins() {
    for dialect in ALL {
        check(
            dialect,
            &[
                (
                    "SELECT a.owner, u.amount FROM accounts a JOIN audit u ON u.account = a.id WHERE u.amount > 0 ORDER BY u.amount",
                    "'bob',7; 'ann',10",
                ),
                (
                    "SELECT a.id, u.amount FROM accounts a LEFT JOIN audit u ON u.account = a.id WHERE a.id > 1 ORDER BY a.id",
                    "2,7; 3,NULL; 4,NULL",
                ),
                ("SELECT COUNT(*) FROM accounts a, audit u WHERE a.id = u.account", "3"),
                ("SELECT x.id FROM audit u INNER JOIN accounts x ON x.id = u.account AND u.amount < 0", "1"),
                (
                    "SELECT d.total FROM (SELECT account, SUM(amount) AS total FROM audit GROUP BY account) d WHERE d.account = 1",
                    "5",
                ),
            ],
        );
    }
}

#[test]
fn groups_and_aggregates() {
    for dialect in ALL {
        check(
            dialect,
            &[
                (
                    "SELECT owner, COUNT(*), SUM(balance), MIN(balance), MAX(balance) FROM accounts GROUP BY owner HAVING COUNT(*) > 1",
                    "'ann',2,170,70,100",
                ),
                ("SELECT COUNT(owner), COUNT(DISTINCT owner), SUM(balance) FROM accounts", "3,2,220"),
                ("SELECT COUNT(*), SUM(balance), MAX(id) FROM accounts WHERE id > 9", "0,NULL,NULL"),
                ("SELECT owner FROM accounts GROUP BY owner ORDER BY SUM(balance) DESC LIMIT 1", "'ann'"),
            ],
        );
    }
    check(Dialect::Postgres, &[("SELECT AVG(balance) FROM accounts WHERE id < 4", "73.3333333333333333")]);
    check(Dialect::MySql, &[("SELECT AVG(balance) FROM accounts WHERE id < 4", "73.3333")]);
    let error =
        bank(Dialect::Sqlite).run("SELECT id, COUNT(*) FROM accounts GROUP BY owner", &[]).unwrap_err();
    assert!(error.to_string().contains("id outside GROUP BY"), "{error}");
}

#[test]
fn subqueries() {
    for dialect in ALL {
        check(
            dialect,
            &[
                ("SELECT id FROM accounts WHERE id IN (SELECT account FROM audit) ORDER BY id", "1; 2"),
                (
                    "SELECT id FROM accounts a WHERE NOT EXISTS (SELECT 1 FROM audit u WHERE u.account = a.id) ORDER BY id",
                    "3; 4",
                ),
                ("SELECT id FROM accounts WHERE balance = (SELECT MAX(balance) FROM accounts)", "1"),
                (
                    "SELECT (SELECT SUM(amount) FROM audit u WHERE u.account = a.id) FROM accounts a WHERE a.id = 1",
                    "5",
                ),
            ],
        );
    }
    let error = bank(Dialect::Postgres).run("SELECT (SELECT id FROM accounts)", &[]).unwrap_err();
    assert_eq!(error, SqlError::SubqueryRows);
}

#[test]
fn locking_reads() {
    for (dialect, text, lock) in [
        (Dialect::Postgres, "SELECT * FROM accounts WHERE id = 1 FOR UPDATE", Lock::Update),
        (Dialect::Postgres, "SELECT * FROM accounts WHERE id = 1 FOR NO KEY UPDATE", Lock::Update),
        (Dialect::Postgres, "SELECT * FROM accounts WHERE id = 1 FOR KEY SHARE", Lock::Share),
        (Dialect::Postgres, "SELECT * FROM accounts WHERE id = 1 FOR SHARE NOWAIT", Lock::Share),
        (Dialect::MySql, "SELECT * FROM accounts WHERE id = 1 LOCK IN SHARE MODE", Lock::Share),
    ] {
        assert_eq!(bank(dialect).run(text, &[]).unwrap().reads.lock, Some(lock), "{text}");
    }
    assert!(bank(Dialect::Postgres).run("SELECT * FROM accounts FOR UPDATE SKIP LOCKED", &[]).is_err());
}

#[test]
fn update_and_delete() {
    for dialect in ALL {
        let mut database = bank(dialect);
        let outcome =
            database.run("UPDATE accounts SET balance = balance + 10 WHERE owner = 'ann'", &[]).unwrap();
        assert_eq!((outcome.matched, outcome.changed, outcome.writes.len()), (2, 2, 2));
        assert_eq!(rows(&mut database, "SELECT balance FROM accounts ORDER BY id"), "110; 50; 80; 0");
        let outcome = database.run("UPDATE accounts SET balance = 50 WHERE id = 2", &[]).unwrap();
        let written = usize::from(!dialect.is_mysql());
        assert_eq!((outcome.matched, outcome.changed, outcome.writes.len()), (1, 0, written));
        let outcome = database.run("DELETE FROM accounts WHERE balance < 60", &[]).unwrap();
        assert_eq!(outcome.matched, 2);
        assert_eq!(rows(&mut database, "SELECT COUNT(*) FROM accounts"), "2");
    }
}

/// Strict mode: what is NULL in a query is an error in a write.
#[test]
fn division_by_zero_in_writes_of_mysql() {
    let mut database = bank(Dialect::MySql);
    assert_eq!(rows(&mut database, "SELECT 1 / 0, 1 % 0"), "NULL,NULL");
    let error = database.run("UPDATE accounts SET balance = 1 DIV 0", &[]).unwrap_err();
    assert_eq!(error, SqlError::DivisionByZero);
}

#[test]
fn returning() {
    for dialect in [Dialect::Postgres, Dialect::Sqlite] {
        check(
            dialect,
            &[
                ("INSERT INTO accounts (id, owner) VALUES (7, 'eve') RETURNING id, balance", "7,0"),
                ("UPDATE accounts SET balance = balance - 1 WHERE id = 7 RETURNING balance", "-1"),
                ("DELETE FROM accounts WHERE id = 7 RETURNING *", "7,'eve',-1"),
            ],
        );
    }
}

#[test]
fn upserts() {
    for dialect in [Dialect::Postgres, Dialect::Sqlite] {
        check(
            dialect,
            &[
                (
                    "INSERT INTO accounts (id, balance) VALUES (1, 5) ON CONFLICT (id) DO UPDATE SET balance = accounts.balance + excluded.balance RETURNING balance",
                    "105",
                ),
                ("INSERT INTO accounts (id) VALUES (1), (9) ON CONFLICT DO NOTHING RETURNING id", "9"),
            ],
        );
    }
    let mut database = bank(Dialect::MySql);
    let text = "INSERT INTO accounts (id, balance) VALUES (1, 5) ON DUPLICATE KEY UPDATE balance = balance + VALUES(balance)";
    database.run(text, &[]).unwrap();
    assert_eq!(rows(&mut database, "SELECT balance FROM accounts WHERE id = 1"), "105");
}

#[test]
fn insert_select_and_defaults() {
    for dialect in ALL {
        let mut database = bank(dialect);
        database.run("INSERT INTO audit SELECT id, balance FROM accounts WHERE id > 2", &[]).unwrap();
        assert_eq!(
            rows(&mut database, "SELECT amount FROM audit WHERE account > 2 ORDER BY account"),
            "70; 0"
        );
    }
    let mut database = bank(Dialect::Postgres);
    database.run("INSERT INTO accounts (id, balance) VALUES (8, DEFAULT)", &[]).unwrap();
    assert_eq!(rows(&mut database, "SELECT balance FROM accounts WHERE id = 8"), "0");
}

#[test]
fn constraints() {
    for dialect in ALL {
        let mut database = bank(dialect);
        database.run("CREATE UNIQUE INDEX owners ON audit (amount)", &[]).unwrap();
        for text in [
            "INSERT INTO accounts (id) VALUES (1)",
            "INSERT INTO accounts (id, balance) VALUES (9, NULL)",
            "UPDATE accounts SET balance = -101 WHERE id = 1",
            "UPDATE accounts SET id = 1 WHERE id = 2",
            "INSERT INTO audit VALUES (5, 7)",
        ] {
            let error = database.run(text, &[]).unwrap_err();
            assert!(matches!(error, SqlError::Constraint(_)), "{dialect:?}: {text}: {error}");
        }
        // A statement that fails changes nothing.
        assert!(database.run("INSERT INTO accounts (id) VALUES (20), (1)", &[]).is_err());
        assert_eq!(rows(&mut database, "SELECT COUNT(*) FROM accounts"), "4");
        // NULLs are distinct from each other.
        database.run("INSERT INTO audit VALUES (5, NULL), (6, NULL)", &[]).unwrap();
    }
}

#[test]
fn numbered_columns() {
    for (dialect, column) in [
        (Dialect::Postgres, "id SERIAL PRIMARY KEY"),
        (Dialect::MySql, "id INT NOT NULL AUTO_INCREMENT PRIMARY KEY"),
        (Dialect::Sqlite, "id INTEGER PRIMARY KEY"),
    ] {
        let mut database = Database::new(dialect);
        database.run(&format!("CREATE TABLE t ({column}, v INT)"), &[]).unwrap();
        database.run("INSERT INTO t (v) VALUES (5), (6)", &[]).unwrap();
        assert_eq!(rows(&mut database, "SELECT id, v FROM t ORDER BY id"), "1,5; 2,6", "{dialect:?}");
    }
}

#[test]
fn create_and_drop() {
    let mut database = bank(Dialect::Postgres);
    assert_eq!(
        database.run("CREATE TABLE audit (x INT)", &[]).unwrap_err(),
        SqlError::TableExists("audit".into())
    );
    database.run("CREATE TABLE IF NOT EXISTS audit (x INT)", &[]).unwrap();
    let old = database.prepare("SELECT * FROM audit").unwrap();
    database.run("DROP TABLE audit", &[]).unwrap();
    assert_eq!(database.run("SELECT * FROM audit", &[]).unwrap_err(), SqlError::UnknownTable("audit".into()));
    let mut transaction = database.begin();
    assert!(database.execute(&mut transaction, &old, &[]).is_err(), "prepared before the schema changed");
    database.run("DROP TABLE IF EXISTS audit", &[]).unwrap();
}

#[test]
fn parameters() {
    let one = [Value::Int(1)];
    assert_eq!(
        rows_with(&mut bank(Dialect::Postgres), "SELECT balance FROM accounts WHERE id = $1", &one),
        "100"
    );
    for dialect in [Dialect::MySql, Dialect::Sqlite] {
        let mut database = bank(dialect);
        let params = [Value::Int(30), Value::Int(2)];
        // The first question mark of the text is the first parameter, wherever it is evaluated.
        assert_eq!(rows_with(&mut database, "SELECT balance + ? FROM accounts WHERE id = ?", &params), "80");
        assert_eq!(
            database.run("SELECT balance FROM accounts WHERE id = ?", &[]).unwrap_err(),
            SqlError::MissingParameter(1)
        );
    }
}

#[test]
fn the_current_time_is_the_transactions() {
    let mut database = Database::new(Dialect::MySql);
    database.run("CREATE TABLE e (id INT PRIMARY KEY, at DATETIME)", &[]).unwrap();
    assert!(database.run("INSERT INTO e VALUES (1, NOW())", &[]).unwrap_err().is_unsupported());
    let insert = database.prepare("INSERT INTO e VALUES (1, NOW())").unwrap();
    let mut transaction = database.begin();
    transaction.now = Some(0);
    database.execute(&mut transaction, &insert, &[]).unwrap();
    database.commit(transaction);
    assert_eq!(rows(&mut database, "SELECT at FROM e"), "TIMESTAMP '1970-01-01 00:00:00'");
}

#[test]
fn read_sets_and_write_sets() {
    let mut database = bank(Dialect::Postgres);
    let (accounts, audit) = (database.table("accounts").unwrap(), database.table("audit").unwrap());
    let outcome = database.run("SELECT * FROM accounts WHERE id = 1", &[]).unwrap();
    assert_eq!(outcome.reads.predicates.len(), 0);
    assert_eq!((outcome.reads.rows[0].table, outcome.reads.rows[0].present), (accounts, true));
    let outcome = database.run("SELECT * FROM accounts WHERE id = 99", &[]).unwrap();
    assert_eq!((outcome.reads.rows[0].stamp, outcome.reads.rows[0].present), (None, false));
    let outcome = database.run("SELECT * FROM audit WHERE amount > $1", &[Value::Int(0)]).unwrap();
    let asked = &outcome.reads.predicates[0];
    assert!(asked.table == audit && asked.is_exact() && outcome.reads.rows.len() == 2);
    assert_eq!(asked.matches(&[Value::Int(1), Value::Int(3)]), Ok(true));
    assert_eq!(asked.matches(&[Value::Int(1), Value::Int(-3)]), Ok(false));
    let outcome = database.run("UPDATE accounts SET balance = 0 WHERE id = 1", &[]).unwrap();
    let write = &outcome.writes[0];
    assert_eq!(write.before.as_ref().unwrap()[2], Value::Int(100));
    assert_eq!(write.after.as_ref().unwrap()[2], Value::Int(0));
}

#[test]
fn snapshots_and_rollback() {
    let mut database = bank(Dialect::Postgres);
    let read = database.prepare("SELECT balance FROM accounts WHERE id = 1").unwrap();
    let write = database.prepare("UPDATE accounts SET balance = $1 WHERE id = 1").unwrap();
    let (mut old, mut new) = (database.begin(), database.begin());
    database.execute(&mut new, &write, &[Value::Int(7)]).unwrap();
    let see = |database: &mut Database, transaction: &mut margay_sql::Transaction| {
        database.execute(transaction, &read, &[]).unwrap().rows[0][0].clone()
    };
    assert_eq!(see(&mut database, &mut new), Value::Int(7));
    assert_eq!(see(&mut database, &mut old), Value::Int(100));
    let stamp = database.commit(new);
    assert_eq!(see(&mut database, &mut old), Value::Int(100));
    old.snapshot = stamp;
    assert_eq!(see(&mut database, &mut old), Value::Int(7));
    database.execute(&mut old, &write, &[Value::Int(9)]).unwrap();
    database.rollback(old);
    assert_eq!(rows(&mut database, "SELECT balance FROM accounts WHERE id = 1"), "7");
}

#[test]
fn transaction_control() {
    let control = |dialect: Dialect, text: &str| {
        let statement =
            Database::new(dialect).prepare(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        statement.control().unwrap_or_else(|| panic!("{text}")).clone()
    };
    let Control::Begin(mode) =
        control(Dialect::Postgres, "BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE")
    else {
        panic!("not a begin");
    };
    assert_eq!(mode.isolation, Some(Isolation::Serializable));
    assert_eq!((mode.read_only, mode.deferrable), (Some(true), Some(true)));
    let Control::Begin(mode) = control(Dialect::MySql, "START TRANSACTION WITH CONSISTENT SNAPSHOT;") else {
        panic!("not a begin");
    };
    assert!(mode.consistent_snapshot);
    let Control::Begin(mode) = control(Dialect::Sqlite, "begin concurrent") else { panic!("not a begin") };
    assert_eq!(mode.kind, Some("CONCURRENT"));
    for (dialect, text, expected) in [
        (Dialect::Postgres, "COMMIT", Control::Commit(false)),
        (Dialect::Postgres, "END TRANSACTION", Control::Commit(false)),
        (Dialect::Postgres, "ROLLBACK AND CHAIN", Control::Rollback(true)),
        (Dialect::Postgres, "ROLLBACK TO SAVEPOINT s", Control::RollbackTo("s".into())),
        (Dialect::Postgres, "SAVEPOINT s", Control::Savepoint("s".into())),
        (Dialect::Postgres, "RELEASE s", Control::Release("s".into())),
        (Dialect::Postgres, "PREPARE TRANSACTION 'p'", Control::Prepare("p".into())),
        (Dialect::Postgres, "COMMIT PREPARED 'p'", Control::CommitPrepared("p".into())),
        (Dialect::Postgres, "ROLLBACK PREPARED 'p'", Control::RollbackPrepared("p".into())),
        (Dialect::MySql, "SET autocommit = 0", Control::Autocommit(false)),
        (Dialect::MySql, "XA START 'x'", Control::Xa("START".into(), "'x'".into())),
    ] {
        assert_eq!(control(dialect, text), expected, "{text}");
    }
    assert!(Database::new(Dialect::Postgres).prepare("COMMIT AND RUN").is_err());
}

/// What lowering does not understand is refused by name, never read over.
#[test]
fn outside_the_fragment() {
    for (dialect, text) in [
        (Dialect::Postgres, "SELECT id FROM accounts UNION SELECT account FROM audit"),
        (Dialect::Postgres, "WITH a AS (SELECT 1) SELECT * FROM a"),
        (Dialect::Postgres, "SELECT DISTINCT ON (owner) id FROM accounts"),
        (Dialect::Postgres, "SELECT id FROM accounts FETCH FIRST 1 ROW ONLY"),
        (Dialect::Postgres, "SELECT rank() OVER (ORDER BY id) FROM accounts"),
        (Dialect::Postgres, "SELECT COUNT(*) FILTER (WHERE id > 1) FROM accounts"),
        (Dialect::Postgres, "SELECT id FROM accounts a FULL JOIN audit u ON a.id = u.account"),
        (Dialect::Postgres, "SELECT id FROM accounts a JOIN audit u USING (id)"),
        (Dialect::Postgres, "SELECT id FROM accounts TABLESAMPLE BERNOULLI (10)"),
        (Dialect::Postgres, "UPDATE accounts SET balance = 1 FROM audit WHERE id = account"),
        (Dialect::Postgres, "DELETE FROM accounts USING audit WHERE id = account"),
        (Dialect::Postgres, "INSERT INTO accounts (id) OVERRIDING SYSTEM VALUE VALUES (9)"),
        (Dialect::Postgres, "CREATE TABLE f (id INT PRIMARY KEY, a INT REFERENCES accounts (id))"),
        (Dialect::Postgres, "CREATE TEMPORARY TABLE f (id INT)"),
        (Dialect::Postgres, "CREATE TABLE f (id CHAR(5))"),
        (Dialect::Postgres, "CREATE TABLE f (id INT) PARTITION BY RANGE (id)"),
        (Dialect::Postgres, "TRUNCATE accounts"),
        (Dialect::Postgres, "UPDATE accounts SET id = id + 1"),
        (Dialect::MySql, "UPDATE accounts SET balance = 1 ORDER BY id LIMIT 1"),
        (Dialect::MySql, "INSERT IGNORE INTO accounts (id) VALUES (1)"),
        (Dialect::MySql, "REPLACE INTO accounts (id) VALUES (1)"),
        (Dialect::MySql, "SELECT id FROM accounts USE INDEX (x) WHERE id = 1"),
        (Dialect::Sqlite, "INSERT OR REPLACE INTO accounts (id) VALUES (1)"),
        (Dialect::Sqlite, "SELECT id FROM accounts WHERE owner = 5"),
    ] {
        let error = bank(dialect).run(text, &[]).expect_err(text);
        assert!(error.is_unsupported() || matches!(error, SqlError::Parse { .. }), "{text}: {error:?}");
    }
}
