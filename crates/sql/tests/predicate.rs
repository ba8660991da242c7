//! Predicates and assignments on single rows.

use std::collections::HashMap;

use margay_sql::{Assignments, Dialect, Predicate, SqlError, Value};

fn row(columns: &[(&str, Value)]) -> HashMap<String, Value> {
    columns.iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
}

fn matches(text: &str, columns: &[(&str, Value)]) -> Result<bool, SqlError> {
    matches_in(text, columns, Dialect::Generic)
}

/// Both forms of the oracle must agree.
fn matches_in(text: &str, columns: &[(&str, Value)], dialect: Dialect) -> Result<bool, SqlError> {
    let predicate = Predicate::parse(text, dialect)?;
    let slow = predicate.matches(&row(columns));
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let values: Vec<Value> = columns.iter().map(|(_, value)| value.clone()).collect();
    let fast = predicate.bind(&names).and_then(|bound| bound.matches(&values));
    assert_eq!(slow, fast, "{text}");
    slow
}

#[test]
fn the_predicates_of_histories() {
    let v = |value: i64| [("v", Value::Int(value)), ("value", Value::Int(value)), ("name", "kevin".into())];
    for (text, value, expected) in [
        ("v >= 0 AND v <= 10", 10, true),
        ("v >= 0 AND v <= 10", 11, false),
        ("value % 3 = 0", 9, true),
        ("value % 3 = 0", -8, false),
        ("name = 'kevin'", 0, true),
        ("name <> 'kevin'", 0, false),
        ("TRUE", 0, true),
        ("FALSE OR v BETWEEN 1 AND 3", 2, true),
        ("v NOT BETWEEN 1 AND 3", 2, false),
        ("v IN (1, 2, 3) AND NOT v = 2", 2, false),
        ("name LIKE 'k_v%'", 0, true),
        ("V = 5", 5, true),
        ("5 < v", 6, true),
        ("v > 9223372036854775807", 6, false),
        ("v = '7'", 7, true),
        ("v * 2.5 = 10", 4, true),
        ("CASE WHEN v > 0 THEN 'pos' ELSE 'neg' END = 'pos'", 1, true),
        ("COALESCE(NULL, v) = 3 AND v IS NOT NULL", 3, true),
        ("CAST(v AS TEXT) = '42'", 42, true),
        ("(v = 1) = (value = 1)", 1, true),
        ("length(name) = 5 AND upper(name) = 'KEVIN'", 1, true),
    ] {
        assert_eq!(matches(text, &v(value)), Ok(expected), "{text} of {value}");
    }
}

#[test]
fn unknown_is_not_true() {
    let null = [("v", Value::Null)];
    for text in
        ["v = 1", "NOT v = 1", "v <> 1", "v = NULL", "v IN (1, NULL)", "v NOT IN (1)", "v > 1 OR FALSE"]
    {
        assert_eq!(matches(text, &null), Ok(false), "{text}");
    }
    for text in ["v IS NULL", "(v = 1) IS UNKNOWN", "v > 1 OR TRUE", "NOT (v > 1 AND FALSE)"] {
        assert_eq!(matches(text, &null), Ok(true), "{text}");
    }
    assert_eq!(matches("v NOT IN (2, NULL)", &[("v", Value::Int(1))]), Ok(false));
    assert_eq!(matches("v IS DISTINCT FROM 1", &null), Ok(true));
}

#[test]
fn dialects_differ_where_they_do() {
    let name = [("name", Value::text("Kevin"))];
    assert_eq!(matches_in("name = 'kevin'", &name, Dialect::MySql), Ok(true));
    assert_eq!(matches_in("name = 'kevin'", &name, Dialect::Postgres), Ok(false));
    assert_eq!(matches_in("name LIKE 'kevin'", &name, Dialect::Sqlite), Ok(true));
    assert_eq!(matches_in("name LIKE 'kevin'", &name, Dialect::Postgres), Ok(false));
    assert_eq!(matches_in("name ILIKE 'kevin'", &name, Dialect::Postgres), Ok(true));
    let seven = [("v", Value::Int(7))];
    assert_eq!(matches_in("v / 2 = 3", &seven, Dialect::Postgres), Ok(true));
    assert_eq!(matches_in("v / 2 = 3.5", &seven, Dialect::MySql), Ok(true));
    assert_eq!(matches_in("v DIV 2 = 3", &seven, Dialect::MySql), Ok(true));
    assert_eq!(matches_in("v / 0 IS NULL", &seven, Dialect::Sqlite), Ok(true));
    assert_eq!(matches_in("v / 0 IS NULL", &seven, Dialect::Postgres), Err(SqlError::DivisionByZero));
    assert_eq!(matches_in("v", &seven, Dialect::Sqlite), Ok(true));
    assert!(matches_in("v", &seven, Dialect::Postgres).is_err());
    assert_eq!(matches_in("v = '7'", &seven, Dialect::MySql), Ok(true));
}

/// PostgreSQL makes 3 a numeric here, so that the division is exact; a missing conversion would
/// give 1.
#[test]
fn alternatives_take_one_type() {
    let one = [("v", Value::Int(1))];
    assert_eq!(matches("COALESCE(3, 1.5) / 2 = 1.5", &one), Ok(true));
    let error = matches("COALESCE(v, 1.5) / 2 = 1.5", &one).unwrap_err();
    assert!(error.is_unsupported(), "{error}");
}

#[test]
fn outside_the_fragment_is_an_error_that_names_it() {
    for (text, part) in [
        ("v ~ 'a.*'", "operator ~"),
        ("v = 1 = 2", "without parentheses"),
        ("v | 1 = 2", "operator |"),
        ("random() < 1", "function random"),
        ("v IN (SELECT 1)", "SELECT 1"),
        ("EXISTS (SELECT 1)", "SELECT 1"),
        ("v = ALL (SELECT 1)", "ALL"),
        ("sum(v) OVER () = 1", "OVER"),
        ("v = interval '1 day'", "INTERVAL"),
        ("v = CAST('x' AS uuid)", "UUID"),
        ("'a' || v + 1 = 'a2'", "||"),
    ] {
        let error = Predicate::parse(text, Dialect::Postgres).expect_err(text);
        assert!(error.is_unsupported(), "{text}: {error}");
        assert!(error.to_string().contains(part), "{text}: {error}");
    }
    let SqlError::Unsupported { at: Some(at), .. } =
        Predicate::parse("v = 1 AND w ~ 'a'", Dialect::Postgres).unwrap_err()
    else {
        panic!("the place is missing");
    };
    assert_eq!((at.line, at.column), (1, 11));
}

#[test]
fn ill_formed_text_is_an_error_with_its_place() {
    for text in ["", "v >", "v = 'x", "v = 1 2", "v = 1; DROP TABLE t", ")"] {
        let error = Predicate::parse(text, Dialect::Generic).expect_err(text);
        assert!(matches!(error, SqlError::Parse { .. }), "{text}: {error:?}");
    }
    let SqlError::Parse { at: Some(at), .. } = Predicate::parse("v = 1 2", Dialect::Generic).unwrap_err()
    else {
        panic!("the place is missing");
    };
    assert_eq!((at.line, at.column), (1, 7));
}

#[test]
fn missing_columns_are_named() {
    assert_eq!(matches("w = 1", &[("v", Value::Int(1))]), Err(SqlError::UnknownColumn("w".into())));
    let predicate = Predicate::parse("b = 1 AND a = 2 AND b = 3", Dialect::Generic).unwrap();
    assert_eq!(predicate.columns().collect::<Vec<_>>(), ["b", "a"]);
}

#[test]
fn long_and_deep_texts_do_not_break_the_stack() {
    let long = vec!["v = 1"; 1_501].join(" OR ");
    assert_eq!(matches(&long, &[("v", Value::Int(1))]), Ok(true));
    for deep in ["(".repeat(100_000) + "v", "v + ".repeat(100_000) + "1", "NOT ".repeat(100_000) + "v"] {
        assert!(Predicate::parse(&deep, Dialect::Generic).is_err());
    }
}

/// Some chains were not counted (comparisons, casts, a chain whose operands are calls with commas),
/// and the process ended by an overflow of the stack.
#[test]
fn chains_of_every_operator_are_limited() {
    let chains = [
        "= 1",
        "< 2",
        "<=> 1",
        "+ f(1, 2)",
        "|| 'a'",
        ":: int",
        "-> 'a'",
        "& 1",
        "^ 1",
        "[1]",
        "IS NULL",
        "IS NOT DISTINCT FROM 1",
        "ISNULL",
        "LIKE 'a'",
        "NOT LIKE 'a'",
        "RLIKE 'a'",
        "IN (1, 2)",
        "BETWEEN 1 AND 2",
        "DIV 2",
        "XOR 1",
        "AND (v = 1)",
        "OR v",
        "COLLATE x",
        "AT TIME ZONE 'UTC'",
        "OVERLAPS v",
    ];
    for dialect in [Dialect::Generic, Dialect::Postgres, Dialect::MySql, Dialect::Sqlite] {
        for chain in chains {
            let text = format!("v {}", format!("{chain} ").repeat(50_000));
            let error = Predicate::parse(&text, dialect).expect_err(chain);
            assert!(!error.to_string().is_empty(), "{chain}");
            let nested = format!("v = (v {0} ) {0}", format!("{chain} ").repeat(300));
            drop(Predicate::parse(&nested, dialect));
        }
    }
}

#[test]
fn integer_overflow_is_an_error() {
    let max = [("v", Value::Int(i64::MAX))];
    assert!(matches!(matches("v + 1 > 0", &max), Err(SqlError::Overflow(_))));
    assert_eq!(matches_in("v + 1 > 0", &max, Dialect::Sqlite), Ok(true));
}

#[test]
fn values_print_as_literals_that_read_back() {
    let decimal = Value::Decimal("-12.50".parse().unwrap());
    for value in [
        Value::Null,
        Value::Bool(true),
        Value::Int(i64::MIN),
        decimal,
        Value::text("it's"),
        Value::Bytes(vec![0, 255].into()),
        Value::date("2024-02-29").unwrap(),
        Value::timestamp("2024-02-29 10:00:00.5").unwrap(),
    ] {
        let text = format!("v IS NOT DISTINCT FROM {value}");
        assert_eq!(matches(&text, &[("v", value)]), Ok(true), "{text}");
    }
}

#[test]
fn assignments_see_the_old_row() {
    let old = row(&[("v", Value::Int(3)), ("w", Value::Int(5))]);
    let set = Assignments::parse("v = 20, w = v + 1", Dialect::Generic).unwrap();
    assert_eq!(set.apply(&old), Ok(vec![("v", Value::Int(20)), ("w", Value::Int(4))]));
    let bound = set.bind(&["w", "v"]).unwrap();
    assert_eq!(bound.apply(&[Value::Int(5), Value::Int(3)]), Ok(vec![Value::Int(4), Value::Int(20)]));
    assert!(Assignments::parse("v = 20, w = v + 1", Dialect::MySql).unwrap_err().is_unsupported());
    assert!(Assignments::parse("v = 1, v = 2", Dialect::Generic).is_err());
    assert!(Assignments::parse("v = 1 WHERE w = 2", Dialect::Generic).is_err());
    assert!(Assignments::parse("(v, w) = (1, 2)", Dialect::Generic).unwrap_err().is_unsupported());
}

#[test]
fn scalar_functions() {
    let row = [("v", Value::Int(-7)), ("d", Value::Decimal("-2.55".parse().unwrap())), ("t", " aXb ".into())];
    for (dialect, text) in [
        (Dialect::Postgres, "CEIL(d) = -2 AND FLOOR(d) = -3 AND ROUND(d, 1) = -2.6 AND ROUND(d) = -3"),
        (
            Dialect::Postgres,
            "SIGN(v) = -1 AND MOD(v, 4) = -3 AND GREATEST(v, NULL, 3) = 3 AND LEAST(v, 3) = -7",
        ),
        (
            Dialect::Postgres,
            "CHAR_LENGTH(t) = 5 AND OCTET_LENGTH(t) = 5 AND LTRIM(t) = 'aXb ' AND RTRIM(t) = ' aXb'",
        ),
        (
            Dialect::Postgres,
            "TRIM(t) = 'aXb' AND REPLACE(t, 'X', 'yy') = ' ayyb ' AND CONCAT(t, NULL, v) = ' aXb -7'",
        ),
        (Dialect::Postgres, "SUBSTRING(t FROM 2 FOR 2) = 'aX' AND SUBSTR(t, -1, 4) = ' a'"),
        (Dialect::MySql, "IFNULL(NULL, v) = -7 AND IF(v < 0, 1, 2) = 1 AND GREATEST(v, NULL) IS NULL"),
        (Dialect::MySql, "ROUND(d, 1) = -2.6 AND CONCAT(t, NULL) IS NULL AND LENGTH(t) = 5"),
        (Dialect::Sqlite, "IIF(v < 0, 1, 2) = 1 AND MAX(v, 3) = 3 AND MIN(v, 3) = -7 AND SIGN(v) = -1"),
        (Dialect::Sqlite, "ABS(v) = 7 AND ROUND(2.5) = 3.0 AND ROUND(-2.5) = -3.0 AND NULLIF(v, -7) IS NULL"),
    ] {
        assert_eq!(matches_in(text, &row, dialect), Ok(true), "{dialect:?}: {text}");
    }
}

#[test]
fn known_columns_decide_what_they_can() {
    let row: HashMap<&str, Value> = HashMap::from([("a", Value::Int(1)), ("n", Value::Null)]);
    let decided = |text| Predicate::parse(text, Dialect::Postgres).expect(text).decide(&row);
    assert_eq!(decided("a = 2 AND b = 3"), Some(false), "whatever b is");
    assert_eq!(decided("a = 1 AND b = 3"), None);
    assert_eq!(decided("a = 1 OR b = 3"), Some(true));
    assert_eq!(decided("a = 2 OR b = 3"), None);
    assert_eq!(decided("n = 2 AND b = 3"), Some(false), "NULL is not true");
    assert_eq!(decided("NOT (a = 1 AND b = 3)"), None);
    assert_eq!(decided("b = b"), None);
    let bounds = |text| Predicate::parse(text, Dialect::Postgres).expect(text).bounds("a");
    assert_eq!(bounds("a = 3 AND b > 1"), Some((3, 3)));
    assert_eq!(bounds("A >= 3 AND a < 9"), Some((3, 8)));
    assert_eq!([bounds("a = 3 OR b > 1"), bounds("b = 3")], [None, None]);
}
