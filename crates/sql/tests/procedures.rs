//! Stored procedures, one test per construct; `docs/SQL.md` names them.

mod common;

use common::procedures::{CASES, Case, MYSQL, POSTGRES, TABLES, TPCC, call};
use common::tpcc;
use margay_sql::{Database, Dialect, SqlError, Value};

fn database(dialect: Dialect, procedures: &[&str]) -> Database {
    let mut database = Database::new(dialect);
    for text in TABLES.iter().chain(procedures) {
        database.run(text, &[]).unwrap_or_else(|error| panic!("{dialect:?}: {text}: {error}"));
    }
    database
}

fn shown(result: Result<margay_sql::Outcome, SqlError>) -> String {
    match result {
        Ok(outcome) => {
            let row = |row: &Vec<Value>| row.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            outcome.rows.iter().map(row).collect::<Vec<_>>().join("; ")
        }
        Err(error) => format!("error: {error}"),
    }
}

fn check(dialect: Dialect, case: &Case) {
    let mysql = dialect == Dialect::MySql;
    let mut database = database(dialect, if mysql { case.mysql } else { case.postgres });
    for (args, expected) in case.calls {
        let text = call(args, mysql);
        let given = shown(database.run(&text, &[]));
        let fits = if *expected == "error" { given.starts_with("error") } else { given == *expected };
        assert!(fits, "{dialect:?}: {}: {text} gives {given}, not {expected}", case.name);
    }
}

/// The construct in both syntaxes; the generic dialect reads PL/pgSQL.
fn both(name: &str) {
    let case = CASES.iter().find(|case| case.name == name).unwrap();
    for dialect in [Dialect::MySql, Dialect::Postgres, Dialect::Generic] {
        check(dialect, case);
    }
}

fn only(dialect: Dialect, cases: &[Case], name: &str) {
    check(dialect, cases.iter().find(|case| case.name == name).unwrap());
}

#[test]
fn parameters_in_and_out() {
    both("parameters");
}

#[test]
fn calls_in_procedures() {
    both("nested");
}

#[test]
fn variables_and_assignments() {
    both("variables");
    only(Dialect::MySql, MYSQL, "types");
    only(Dialect::MySql, MYSQL, "division by zero");
    only(Dialect::MySql, MYSQL, "overflow");
}

#[test]
fn select_into() {
    both("into");
    only(Dialect::MySql, MYSQL, "rows of INTO");
    only(Dialect::Postgres, POSTGRES, "strict");
    only(Dialect::Postgres, POSTGRES, "returning");
}

#[test]
fn writes_in_procedures() {
    both("writes");
}

#[test]
fn if_elseif_else() {
    both("if");
}

#[test]
fn while_and_repeat() {
    both("while");
}

#[test]
fn loop_leave_iterate() {
    both("loop");
}

#[test]
fn for_over_integers() {
    only(Dialect::Postgres, POSTGRES, "for");
}

#[test]
fn for_over_rows() {
    only(Dialect::Postgres, POSTGRES, "for row");
}

#[test]
fn cursors() {
    both("cursor");
    both("refcursor");
}

#[test]
fn not_found_handlers() {
    both("handler");
}

#[test]
fn raised_errors() {
    both("raise");
    let body = "CREATE PROCEDURE p(a INT) LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION '% is 100%% wrong', a; END $$";
    let mut database = database(Dialect::Postgres, &[body]);
    assert_eq!(database.run("CALL p(7)", &[]).unwrap_err(), SqlError::Procedure("7 is 100% wrong".into()));
}

#[test]
fn variables_and_columns_of_one_name() {
    only(Dialect::MySql, MYSQL, "variable and column");
    only(Dialect::Postgres, POSTGRES, "variable and column");
    only(Dialect::Postgres, POSTGRES, "text variable");
}

#[test]
fn every_call_ends() {
    for (dialect, text) in [
        (Dialect::MySql, "CREATE PROCEDURE p() WHILE TRUE DO BEGIN END; END WHILE"),
        (Dialect::MySql, "CREATE PROCEDURE p() a: LOOP ITERATE a; END LOOP"),
        (
            Dialect::Postgres,
            "CREATE PROCEDURE p() LANGUAGE plpgsql AS $$ BEGIN WHILE TRUE LOOP END LOOP; END $$",
        ),
        (
            Dialect::Postgres,
            "CREATE PROCEDURE p() LANGUAGE plpgsql AS $$ BEGIN FOR i IN 1..2000000000 LOOP NULL; END LOOP; END $$",
        ),
    ] {
        let error = database(dialect, &[text]).run("CALL p()", &[]).unwrap_err();
        assert!(matches!(&error, SqlError::Procedure(why) if why.contains("1000000")), "{text}: {error}");
    }
}

#[test]
fn create_replace_drop() {
    let mut database = database(Dialect::Postgres, &[]);
    let make =
        |value: i32| format!("PROCEDURE P(OUT r INT) LANGUAGE plpgsql AS $$ BEGIN r := {value}; END $$");
    database.run(&format!("CREATE {}", make(1)), &[]).unwrap();
    assert!(database.run(&format!("CREATE {}", make(2)), &[]).is_err());
    assert_eq!(shown(database.run("CALL p(NULL)", &[])), "1");
    database.run(&format!("CREATE OR REPLACE {}", make(3)), &[]).unwrap();
    assert_eq!(shown(database.run("call P(null)", &[])), "3");
    database.run("DROP PROCEDURE p", &[]).unwrap();
    database.run("DROP PROCEDURE IF EXISTS p", &[]).unwrap();
    for text in ["DROP PROCEDURE p", "CALL p(NULL)"] {
        assert_eq!(database.run(text, &[]).unwrap_err(), SqlError::UnknownProcedure("p".into()));
    }
}

#[test]
fn result_sets() {
    let texts = ["CREATE PROCEDURE p(k INT) SELECT id, owner FROM account WHERE id < k ORDER BY id"];
    let mut mysql = database(Dialect::MySql, &texts);
    let outcome = mysql.run("CALL p(3)", &[]).unwrap();
    assert_eq!(outcome.columns.join(" "), "id owner");
    assert_eq!(shown(Ok(outcome)), "1,'ann'; 2,'bob'");
    let texts = ["CREATE PROCEDURE p() LANGUAGE plpgsql AS $$ BEGIN SELECT 1; END $$"];
    let error = database(Dialect::Postgres, &texts).run("CALL p()", &[]).unwrap_err();
    assert!(matches!(error, SqlError::Procedure(_)), "{error}");
}

#[test]
fn failing_calls() {
    let case = CASES.iter().find(|case| case.name == "raise").unwrap();
    for (dialect, kept) in [(Dialect::Postgres, "0"), (Dialect::MySql, "1")] {
        let mysql = dialect == Dialect::MySql;
        let mut database = database(dialect, if mysql { case.mysql } else { case.postgres });
        let mut transaction = database.begin();
        let failing = database.prepare(&call("7, !", mysql)).unwrap();
        assert!(database.execute(&mut transaction, &failing, &[]).is_err());
        let count = database.prepare("SELECT COUNT(*) FROM log").unwrap();
        assert_eq!(shown(database.execute(&mut transaction, &count, &[])), kept, "{dialect:?}");
    }
}

#[test]
fn reads_and_writes_of_a_call() {
    let case = CASES.iter().find(|case| case.name == "writes").unwrap();
    let mut database = database(Dialect::Postgres, case.postgres);
    let statement = database.prepare("CALL p($1, $2, $3)").unwrap();
    assert!(statement.is_write());
    assert!(database.trace(&statement, &[], None, None).unwrap_err().is_unsupported());
    let mut transaction = database.begin();
    let params = [Value::Int(1), Value::Int(1), Value::Decimal("5".parse().unwrap())];
    let outcome = database.execute(&mut transaction, &statement, &params).unwrap();
    // The account is written twice and stands there once.
    assert_eq!(outcome.writes.len(), 2);
    assert_eq!(outcome.writes[0].before, outcome.writes[0].after);
    assert!(outcome.reads.rows.len() >= 2);
    assert!(!outcome.reads.predicates.is_empty());
}

#[test]
fn rows_whose_order_is_open() {
    let body = "CREATE PROCEDURE p() LANGUAGE plpgsql AS $$ DECLARE r RECORD; BEGIN \
                FOR r IN SELECT id FROM account LOOP NULL; END LOOP; END $$";
    let error = database(Dialect::Postgres, &[body]).run("CALL p()", &[]).unwrap_err();
    assert!(error.to_string().contains("order is open"), "{error}");
    // The rows beside the first are like it, and another may come first all the same; so may any
    // that is sorted by collation.
    for order in ["kind > 5", "owner"] {
        let body = format!(
            "CREATE PROCEDURE p(OUT r INT) LANGUAGE plpgsql AS $$ BEGIN SELECT kind INTO r FROM many ORDER BY {order}; END $$"
        );
        let many = "CREATE TABLE many (id INT PRIMARY KEY, owner TEXT, kind INT)";
        let rows = "INSERT INTO many VALUES (1, 'B', 1), (2, 'C', 1), (3, 'a', 2)";
        let error = database(Dialect::Postgres, &[many, rows, &body]).run("CALL p(NULL)", &[]).unwrap_err();
        assert!(error.to_string().contains("order is open"), "{error}");
    }
}

#[test]
fn statements_fail_when_they_are_reached() {
    let body = "CREATE PROCEDURE p(a INT, OUT r INT) BEGIN IF a > 1 THEN DELETE FROM nothing; END IF; SET r = a; END";
    let mut database = database(Dialect::MySql, &[body]);
    assert_eq!(shown(database.run("CALL p(1, @r)", &[])), "1");
    assert_eq!(database.run("CALL p(2, @r)", &[]).unwrap_err(), SqlError::UnknownTable("nothing".into()));
}

#[test]
fn outside_the_fragment() {
    let plpgsql = |body: &str| format!("CREATE PROCEDURE p() LANGUAGE plpgsql AS $$ {body} $$");
    for (body, named) in [
        ("BEGIN COMMIT; END", "Commit"),
        ("BEGIN EXECUTE 'x'; END", "EXECUTE"),
        ("BEGIN NULL; EXCEPTION WHEN OTHERS THEN NULL; END", "EXCEPTION"),
        ("BEGIN CREATE TABLE t (a INT); END", "schema"),
        ("BEGIN GET DIAGNOSTICS a = ROW_COUNT; END", "GET"),
        ("DECLARE a CONSTANT INT := 1; BEGIN END", "CONSTANT"),
        ("DECLARE r RECORD; BEGIN SELECT 1 INTO r; END", "record"),
        ("BEGIN CASE WHEN TRUE THEN NULL; END CASE; END", "CASE"),
    ] {
        let error = Database::new(Dialect::Postgres).run(&plpgsql(body), &[]).unwrap_err();
        assert!(error.is_unsupported() && error.to_string().contains(named), "{body}: {error}");
    }
    for (body, named) in [
        ("BEGIN START TRANSACTION; END", "Begin"),
        ("BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN END; END", "NOT FOUND"),
        ("BEGIN SET @a = 1; END", "@a"),
        ("BEGIN DECLARE c CONDITION FOR 1051; END", "condition"),
        ("BEGIN CASE 1 WHEN 1 THEN SET a = 1; END CASE; END", "CASE"),
    ] {
        let text = format!("CREATE PROCEDURE p() {body}");
        let error = Database::new(Dialect::MySql).run(&text, &[]).unwrap_err();
        assert!(error.is_unsupported() && error.to_string().contains(named), "{body}: {error}");
    }
    for text in
        ["BEGIN", "BEGIN IF TRUE THEN END", "BEGIN LEAVE nowhere; END", "BEGIN SET = 1; END", "BEGIN END END"]
    {
        let error =
            Database::new(Dialect::MySql).run(&format!("CREATE PROCEDURE p() {text}"), &[]).unwrap_err();
        assert!(matches!(error, SqlError::Parse { .. }), "{text}: {error}");
    }
    let deep = format!("CREATE PROCEDURE p() {}{}", "BEGIN ".repeat(2_000), "END; ".repeat(2_000));
    assert!(Database::new(Dialect::MySql).run(&deep, &[]).unwrap_err().is_unsupported());
}

fn warehouse(dialect: Dialect) -> Database {
    let mut database = Database::new(dialect);
    for text in tpcc::TABLES.iter().map(ToString::to_string).chain(tpcc::load(2, 6, 20)) {
        database.run(&text, &[]).unwrap();
    }
    database
}

/// All rows of all tables.
fn dump(database: &mut Database) -> Vec<String> {
    let names = tpcc::TABLES.iter().map(|text| text.split_whitespace().nth(2).unwrap());
    let mut dump = Vec::new();
    for name in names {
        let outcome = database.run(&format!("SELECT * FROM {name}"), &[]).unwrap();
        dump.extend(outcome.rows.iter().map(|row| format!("{name} {row:?}")));
    }
    dump.sort();
    dump
}

/// Runs a text with question marks for parameters in a transaction of its own.
fn statement(database: &mut Database, text: &str, params: &[Value]) -> Vec<Vec<Value>> {
    let text = if database.dialect() == Dialect::MySql { text.to_string() } else { tpcc::numbered(text) };
    database.run(&text, params).unwrap_or_else(|error| panic!("{text}: {error}")).rows
}

fn ints(values: &[i64]) -> Vec<Value> {
    values.iter().copied().map(Value::Int).collect()
}

/// What the New-Order procedure does, statement by statement.
fn new_order(database: &mut Database, d: i64, c: i64, lines: i64, seed: i64) -> i64 {
    let [_, district, advance, _, insert, insert_new, item, stock, update, line] = tpcc::NEW_ORDER else {
        panic!("ten statements");
    };
    let Value::Int(order) = statement(database, district, &ints(&[1, d]))[0][1] else { panic!("a number") };
    statement(database, advance, &ints(&[1, d]));
    let mut params = ints(&[order, d, 1, c]);
    params.extend([Value::text("2024-01-01"), Value::Int(lines), Value::Int(1)]);
    statement(database, insert, &params);
    statement(database, insert_new, &ints(&[order, d, 1]));
    for l in 1..=lines {
        let (i, ordered) = ((seed * 31 + l * 7) % 20 + 1, l % 10 + 1);
        let Value::Decimal(price) = statement(database, item, &ints(&[i]))[0][0] else { panic!("a price") };
        let row = statement(database, stock, &ints(&[i, 1])).remove(0);
        let Value::Int(quantity) = row[0] else { panic!("a quantity") };
        let left = if quantity >= ordered + 10 { quantity - ordered } else { quantity - ordered + 91 };
        statement(database, update, &ints(&[left, ordered, 0, i, 1]));
        let mut params = ints(&[order, d, 1, l, i, 1, ordered]);
        params.extend([Value::Decimal(price.checked_mul(ordered.into()).unwrap()), row[2].clone()]);
        statement(database, line, &params);
    }
    order
}

#[test]
fn tpcc_new_order() {
    for (dialect, text) in [(Dialect::MySql, TPCC[0].0), (Dialect::Postgres, TPCC[0].1)] {
        let (mut here, mut there) = (warehouse(dialect), warehouse(dialect));
        here.run(text, &[]).unwrap_or_else(|error| panic!("{dialect:?}: {error}"));
        for seed in 0..12 {
            let (d, c, lines) = (seed % 2 + 1, seed % 6 + 1, 5 + seed % 8);
            let call = format!("CALL new_order(1, {d}, {c}, {lines}, {seed}, '2024-01-01', NULL, NULL)");
            let given = here.run(&call, &[]).unwrap_or_else(|error| panic!("{dialect:?}: {error}"));
            let order = new_order(&mut there, d, c, lines, seed);
            assert_eq!(given.rows[0][0], Value::Int(order), "{dialect:?}");
            assert_eq!(given.writes.len() as i64, 3 + 2 * lines.min(20), "{dialect:?}");
            assert_eq!(dump(&mut here), dump(&mut there), "{dialect:?}: order {seed}");
        }
        let text = "SELECT SUM(ol_amount) FROM order_line WHERE ol_d_id = 1 AND ol_o_id = 1";
        let lines = here.run(text, &[]).unwrap().rows;
        assert!(!lines[0][0].is_null(), "{dialect:?}");
    }
}

/// What the Payment procedure does, statement by statement.
fn payment(database: &mut Database, d: i64, last: &str, amount: &str) -> i64 {
    let money = Value::Decimal(amount.parse().unwrap());
    let with = |params: &[i64]| [vec![money.clone()], ints(params)].concat();
    statement(database, "UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = ?", &with(&[1]));
    statement(
        database,
        "UPDATE district SET d_ytd = d_ytd + ? WHERE d_w_id = ? AND d_id = ?",
        &with(&[1, d]),
    );
    let by_name = "SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? ORDER BY c_first";
    let found = statement(database, by_name, &[ints(&[1, d]), vec![Value::text(last)]].concat());
    let Value::Int(c) = found[found.len().div_ceil(2) - 1][0] else { panic!("a number") };
    let pay = "UPDATE customer SET c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?, \
               c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";
    statement(database, pay, &[vec![money.clone(), money.clone()], ints(&[1, d, c])].concat());
    let history = "INSERT INTO history (h_c_d_id, h_c_w_id, h_c_id, h_d_id, h_w_id, h_date, h_amount, h_data) \
                   VALUES (?, ?, ?, ?, ?, '2024-01-02', ?, 'one    d')";
    statement(database, history, &[ints(&[d, 1, c, d, 1]), vec![money]].concat());
    c
}

#[test]
fn tpcc_payment() {
    for (dialect, text) in [(Dialect::MySql, TPCC[1].0), (Dialect::Postgres, TPCC[1].1)] {
        let (mut here, mut there) = (warehouse(dialect), warehouse(dialect));
        here.run(text, &[]).unwrap_or_else(|error| panic!("{dialect:?}: {error}"));
        for (d, last, amount) in [(1, "BARBAR", "12.50"), (2, "OUGHT", "7.00"), (1, "BARBAR", "0.25")] {
            let call = format!("CALL payment(1, {d}, '{last}', {amount}, '2024-01-02', NULL)");
            let given = here.run(&call, &[]).unwrap_or_else(|error| panic!("{dialect:?}: {error}"));
            assert_eq!(given.rows[0][0], Value::Int(payment(&mut there, d, last, amount)), "{dialect:?}");
            assert_eq!(dump(&mut here), dump(&mut there), "{dialect:?}");
        }
        let error = here.run("CALL payment(1, 1, 'NOBODY', 1.00, '2024-01-02', NULL)", &[]).unwrap_err();
        assert_eq!(error, SqlError::Procedure("no customer".into()), "{dialect:?}");
        assert_eq!(dump(&mut here), dump(&mut there), "{dialect:?}");
    }
}
