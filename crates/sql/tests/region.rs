//! Predicate regions against enumeration: every row of a small domain is asked.

mod common;

use common::Rng;
use margay_sql::{BoundPredicate, Dialect, Predicate, Relation, Type, Value};

fn relation(left: &str, right: &str) -> Relation {
    relation_in(left, right, Dialect::Generic, |_| Some(Type::Int(64)))
}

fn relation_in(left: &str, right: &str, dialect: Dialect, types: impl Fn(&str) -> Option<Type>) -> Relation {
    let region = |text: &str| Predicate::parse(text, dialect).unwrap().region(&types);
    region(left).relation(&region(right))
}

#[test]
fn relations() {
    use Relation::*;
    for (left, right, expected) in [
        ("v >= 0 AND v <= 10", "v BETWEEN 0 AND 10", Identical),
        ("v > 0", "v >= 1", Identical),
        ("v > 0.5 AND v < 3.5", "v IN (1, 2, 3)", Identical),
        ("NOT (v < 3)", "v >= 3", Identical),
        ("v = 1 OR v <> 1", "v IS NOT NULL", Identical),
        ("v = 1", "v = 2", Disjoint),
        ("v IS NULL", "v <> 2", Disjoint),
        ("v = NULL", "TRUE", Disjoint),
        ("v = 5", "v >= 0", SubsumedBy),
        ("TRUE", "v = 3 AND w = 4", Subsumes),
        ("v = 1 AND w = 1", "w = 1 AND v = 1", Identical),
        ("v = 1 AND w > 3", "v = 1 AND w <= 3", Disjoint),
        ("v <= 5", "v >= 5", Overlapping),
        ("v < w", "v < w", Overlapping),
        ("v = 1 AND v + w = 2", "v = 2", Disjoint),
        ("v = 1 AND v + w = 2", "v < 2", SubsumedBy),
        ("v % 3 = 0", "v % 3 = 1", Overlapping),
        ("V = 1", "v = 1", Identical),
    ] {
        assert_eq!(relation(left, right), expected, "{left} / {right}");
    }
}

/// What a text literal means depends on the column's type: '5' and '05' are one integer, but two
/// texts.
#[test]
fn text_needs_its_type() {
    let none = |_: &str| None;
    let text = |_: &str| Some(Type::Text(None));
    let int = |_: &str| Some(Type::Int(32));
    assert_eq!(relation_in("v = '5'", "v = '05'", Dialect::Postgres, none), Relation::Overlapping);
    assert_eq!(relation_in("v = '5'", "v = '05'", Dialect::Postgres, text), Relation::Disjoint);
    assert_eq!(relation_in("v = '5'", "v = '05'", Dialect::Postgres, int), Relation::Identical);
    assert_eq!(relation_in("v = 'ann'", "v = 'bob'", Dialect::Generic, none), Relation::Disjoint);
    assert_eq!(relation_in("v = 'ann'", "v = 'ANN'", Dialect::MySql, text), Relation::Identical);
    assert_eq!(relation_in("v = 'ann'", "v = 'ANN '", Dialect::MySql, text), Relation::Overlapping);
    assert_eq!(relation_in("v = 'ann'", "v = 'ANN'", Dialect::TiDb, text), Relation::Disjoint);
    assert_eq!(relation_in("v = 'ann'", "v = 'bob'", Dialect::MySql, none), Relation::Overlapping);
}

/// What is below a text in PostgreSQL depends on the database's collation; what equals it does not.
#[test]
fn ranges_of_text_need_a_collation() {
    let text = |_: &str| Some(Type::Text(None));
    for (left, right, generic, postgres) in [
        ("v < 'a'", "v = 'B'", Relation::Subsumes, Relation::Overlapping),
        ("v < 'a'", "v >= 'a'", Relation::Disjoint, Relation::Overlapping),
        ("v BETWEEN 'a' AND 'b'", "v = 'c d'", Relation::Disjoint, Relation::Overlapping),
        ("v = 'a b'", "v = 'B'", Relation::Disjoint, Relation::Disjoint),
        ("v <> 'a b'", "v = 'B'", Relation::Subsumes, Relation::Subsumes),
        ("v = 'a' AND w < 'b'", "v = 'B'", Relation::Disjoint, Relation::Disjoint),
    ] {
        assert_eq!(relation_in(left, right, Dialect::Generic, text), generic, "{left} / {right}");
        assert_eq!(relation_in(left, right, Dialect::Postgres, text), postgres, "{left} / {right}");
    }
}

#[test]
fn too_many_boxes_overlap() {
    let odd: Vec<String> = (0..300).map(|i| format!("v <> {}", 2 * i)).collect();
    assert_eq!(relation(&odd.join(" AND "), "v = 1"), Relation::Overlapping);
}

const COLUMNS: [&str; 2] = ["a", "b"];

/// A random predicate over constants from 0 to 4.
fn predicate(rng: &mut Rng, depth: u32, complex: bool) -> String {
    if depth > 0 && rng.chance(70) {
        let left = predicate(rng, depth - 1, complex);
        let right = predicate(rng, depth - 1, complex);
        return match rng.below(3) {
            0 => format!("({left}) AND ({right})"),
            1 => format!("({left}) OR ({right})"),
            _ => format!("NOT ({left})"),
        };
    }
    let column = rng.pick(&COLUMNS);
    let (low, high) = (rng.below(5), rng.below(5));
    match rng.below(if complex { 9 } else { 7 }) {
        0 => format!("{column} IS NULL"),
        1 => format!("{column} IN ({low}, {high})"),
        2 => format!("{column} NOT BETWEEN {low} AND {high}"),
        3 => format!("{column} <> {low}.5"),
        4 => format!("{low} <= {column}"),
        5 => format!("{column} IN ({low}, NULL)"),
        6 => format!("{column} {} {low}", rng.pick(&["=", "<>", "<", "<=", ">", ">="])),
        7 => format!("{column} % 2 = {}", low % 2),
        _ => "a < b".to_string(),
    }
}

/// All rows over `values` for both columns.
fn rows(values: &[Value]) -> Vec<[Value; 2]> {
    values.iter().flat_map(|a| values.iter().map(move |b| [a.clone(), b.clone()])).collect()
}

/// The relation by definition.
fn enumerate(left: &BoundPredicate, right: &BoundPredicate, rows: &[[Value; 2]]) -> Relation {
    let (mut both, mut only_left, mut only_right) = (false, false, false);
    for row in rows {
        match (left.matches(row).unwrap(), right.matches(row).unwrap()) {
            (true, true) => both = true,
            (true, false) => only_left = true,
            (false, true) => only_right = true,
            (false, false) => {}
        }
    }
    match (both, only_left, only_right) {
        (false, _, _) => Relation::Disjoint,
        (true, false, false) => Relation::Identical,
        (true, true, false) => Relation::Subsumes,
        (true, false, true) => Relation::SubsumedBy,
        (true, true, true) => Relation::Overlapping,
    }
}

/// On integers the constants 0 to 4 cannot tell values beyond -1 to 5 apart: enumeration is
/// complete.
#[test]
fn integer_regions_are_exact() {
    let mut values: Vec<Value> = (-1..=5).map(Value::Int).collect();
    values.push(Value::Null);
    let rows = rows(&values);
    let mut rng = Rng(11);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..4_000 {
        let (left, right) = (predicate(&mut rng, 3, false), predicate(&mut rng, 3, false));
        let parse = |text: &str| Predicate::parse(text, Dialect::Generic).unwrap();
        let bind = |text: &str| parse(text).bind(&COLUMNS).unwrap();
        let expected = enumerate(&bind(&left), &bind(&right), &rows);
        assert_eq!(relation(&left, &right), expected, "{left} / {right}");
        seen.insert(expected);
    }
    assert_eq!(seen.len(), 5, "the generator reaches every relation");
}

/// With unknown types and with complex parts, whatever is said must be true, on fractions too.
#[test]
fn whatever_is_said_is_true() {
    let mut values: Vec<Value> = (-1..=5).map(Value::Int).collect();
    values.extend([Value::Null, Value::Float(1.25), Value::Decimal("2.5".parse().unwrap())]);
    let rows = rows(&values);
    let mut rng = Rng(12);
    let (mut said, mut modest) = (0, 0);
    for _ in 0..4_000 {
        let (left, right) = (predicate(&mut rng, 3, true), predicate(&mut rng, 3, true));
        let answer = relation_in(&left, &right, Dialect::Generic, |_| None);
        let bind = |text: &str| Predicate::parse(text, Dialect::Generic).unwrap().bind(&COLUMNS).unwrap();
        let (a, b) = (bind(&left), bind(&right));
        let in_both = |row: &[Value; 2]| Some((a.matches(row).ok()?, b.matches(row).ok()?));
        let pairs: Vec<(bool, bool)> = rows.iter().filter_map(in_both).collect();
        let holds = pairs.iter().all(|(left, right)| match answer {
            Relation::Identical => left == right,
            Relation::Subsumes => *left || !right,
            Relation::SubsumedBy => !left || *right,
            Relation::Disjoint => !(*left && *right),
            Relation::Overlapping => true,
        });
        assert!(holds, "{left} / {right}: {answer:?}");
        if answer == Relation::Overlapping { modest += 1 } else { said += 1 }
    }
    assert!(said > 500 && modest > 500, "{said} {modest}");
}
