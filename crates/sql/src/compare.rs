//! SQL's comparison of two values, with each dialect's conversions.
//!
//! A pair of types that a dialect refuses, or whose order depends on more than the two values
//! (SQLite's column affinity), is an error and not an answer.

use std::cmp::Ordering;

use crate::calendar;
use crate::decimal::Decimal;
use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::value::Value;

/// The integers that a double holds exactly.
const EXACT_DOUBLE: u64 = 1 << 53;

/// Compares two values; `None` if one is NULL.
#[inline]
pub(crate) fn compare(left: &Value, right: &Value, dialect: Dialect) -> Result<Option<Ordering>, SqlError> {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => Ok(Some(a.cmp(b))),
        (Value::Null, _) | (_, Value::Null) => Ok(None),
        _ => compare_slowly(left, right, dialect).map(Some),
    }
}

/// Compares two values where it matters which comes first; [`compare`] is enough where only
/// equality does.
pub(crate) fn order(left: &Value, right: &Value, dialect: Dialect) -> Result<Option<Ordering>, SqlError> {
    check_order(left, right, dialect)?;
    compare(left, right, dialect)
}

/// Refuses two texts whose order is not known, because it depends on the database's collation.
/// Texts that differ may still be known to be unequal: [`compare`] answers then.
pub(crate) fn check_order(left: &Value, right: &Value, dialect: Dialect) -> Result<(), SqlError> {
    let (Value::Text(a), Value::Text(b)) = (left, right) else { return Ok(()) };
    let known = match dialect {
        Dialect::Generic | Dialect::Cockroach | Dialect::Sqlite => true,
        Dialect::Postgres => collations_agree(a, b),
        Dialect::MySql => foldings_agree(a, b),
        Dialect::TiDb => padding_agrees(a, b),
    };
    match known {
        true => Ok(()),
        false => Err(SqlError::unsupported("the order of text, which depends on the database's collation")),
    }
}

/// Whether PostgreSQL's usual collations order two texts as code points do: both are ASCII letters
/// and digits, and case does not decide. C looks at code points; the collations of languages look
/// at letters without their case first, digits before letters, and at case only where that leaves a
/// tie.
pub(crate) fn collations_agree(a: &str, b: &str) -> bool {
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let folded = |text: &str| text.bytes().map(|byte| byte.to_ascii_lowercase()).collect::<Vec<_>>();
    a == b || plain(a) && plain(b) && folded(a).cmp(&folded(b)) == a.cmp(b)
}

/// Whether MySQL's collations that ignore case agree on the order of two texts:
/// `utf8mb4_general_ci` orders ASCII by its codes, those of Unicode have punctuation before digits
/// and letters. So a letter or digit decides.
fn foldings_agree(a: &str, b: &str) -> bool {
    let differing = a.bytes().zip(b.bytes()).find(|(a, b)| !a.eq_ignore_ascii_case(b));
    let decided = differing.is_none_or(|(a, b)| a.is_ascii_alphanumeric() && b.is_ascii_alphanumeric());
    a == b || decided && padding_agrees(a, b)
}

/// Whether two texts have the same order with and without trailing spaces.
fn padding_agrees(a: &str, b: &str) -> bool {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    let is_start = long.as_bytes()[..short.len()].eq_ignore_ascii_case(short.as_bytes());
    let mut rest = long.bytes().skip(short.len()).skip_while(|&byte| byte == b' ');
    // The rest is compared with spaces, or with nothing.
    a == b || !is_start || short.len() == long.len() || rest.next().is_some_and(|byte| byte > b' ')
}

fn compare_slowly(left: &Value, right: &Value, dialect: Dialect) -> Result<Ordering, SqlError> {
    match (left, right) {
        (Value::Text(a), Value::Text(b)) => compare_text(a, b, dialect),
        (Value::Bool(a), Value::Bool(b)) => Ok(a.cmp(b)),
        (Value::Bytes(a), Value::Bytes(b)) => Ok(a.cmp(b)),
        (Value::Date(a), Value::Date(b)) => Ok(a.cmp(b)),
        (Value::Timestamp(a), Value::Timestamp(b)) => Ok(a.cmp(b)),
        (Value::Date(a), Value::Timestamp(b)) => Ok(calendar::midnight(*a).cmp(b)),
        (Value::Timestamp(a), Value::Date(b)) => Ok(a.cmp(&calendar::midnight(*b))),
        (Value::Bool(a), _) if !dialect.is_strict() => {
            compare_slowly(&Value::Int(i64::from(*a)), right, dialect)
        }
        (_, Value::Bool(b)) if !dialect.is_strict() => {
            compare_slowly(left, &Value::Int(i64::from(*b)), dialect)
        }
        (Value::Text(_), _) | (_, Value::Text(_)) if dialect.is_mysql() => compare_mysql_text(left, right),
        _ => compare_numbers(left, right, dialect),
    }
}

fn compare_numbers(left: &Value, right: &Value, dialect: Dialect) -> Result<Ordering, SqlError> {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => Ok(a.cmp(b)),
        (Value::Int(a), Value::Decimal(b)) => Ok(Decimal::from(*a).cmp(b)),
        (Value::Decimal(a), Value::Int(b)) => Ok(a.cmp(&Decimal::from(*b))),
        (Value::Decimal(a), Value::Decimal(b)) => Ok(a.cmp(b)),
        (Value::Float(a), Value::Float(b)) => Ok(compare_floats(*a, *b)),
        (Value::Int(a), Value::Float(b)) if dialect == Dialect::Sqlite => Ok(compare_exactly(*a, *b)),
        (Value::Float(a), Value::Int(b)) if dialect == Dialect::Sqlite => {
            Ok(compare_exactly(*b, *a).reverse())
        }
        (Value::Int(a), Value::Float(b)) => Ok(compare_floats(*a as f64, *b)),
        (Value::Float(a), Value::Int(b)) => Ok(compare_floats(*a, *b as f64)),
        (Value::Decimal(a), Value::Float(b)) => Ok(compare_floats(a.to_f64(), *b)),
        (Value::Float(a), Value::Decimal(b)) => Ok(compare_floats(*a, b.to_f64())),
        _ => Err(mismatch(left, right)),
    }
}

/// The error of two types that cannot be compared.
pub(crate) fn mismatch(left: &Value, right: &Value) -> SqlError {
    SqlError::Type(format!("{} cannot be compared with {}", left.type_name(), right.type_name()))
}

/// Doubles as PostgreSQL orders them: the zeros are equal, and NaN is equal to itself and above the
/// rest.
pub(crate) fn compare_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// An integer and a double, as numbers.
fn compare_exactly(a: i64, b: f64) -> Ordering {
    if b >= 9_223_372_036_854_775_808.0 {
        return Ordering::Less;
    }
    if b < -9_223_372_036_854_775_808.0 {
        return Ordering::Greater;
    }
    let whole = b.floor();
    a.cmp(&(whole as i64)).then_with(|| compare_floats(0.0, b - whole))
}

/// Text by code point, or by collations of MySQL's family. Refused is what these do not agree on:
/// whether texts are equal that differ in trailing spaces only, or beyond ASCII where case is
/// ignored.
fn compare_text(a: &str, b: &str, dialect: Dialect) -> Result<Ordering, SqlError> {
    if dialect.compares_exactly() || a == b {
        return Ok(a.cmp(b));
    }
    if dialect.ignores_case() && !(a.is_ascii() && b.is_ascii()) {
        return Err(SqlError::unsupported("the order of text beyond ASCII in MySQL's collation"));
    }
    let fold = |text: &str| if dialect.ignores_case() { text.to_ascii_uppercase() } else { text.to_owned() };
    let (a, b) = (fold(a), fold(b));
    if a != b && a.trim_end_matches(' ') == b.trim_end_matches(' ') {
        return Err(SqlError::unsupported("texts that differ in trailing spaces only"));
    }
    Ok(a.cmp(&b))
}

/// MySQL compares text with a number as doubles, and text with a date as dates.
fn compare_mysql_text(left: &Value, right: &Value) -> Result<Ordering, SqlError> {
    match (left, right) {
        (Value::Text(_), _) => Ok(compare_mysql_text(right, left)?.reverse()),
        (Value::Date(_) | Value::Timestamp(_), Value::Text(b)) => match calendar::parse_timestamp(b) {
            Some(micros) => compare_slowly(left, &Value::Timestamp(micros), Dialect::MySql),
            None => Err(mismatch(left, right)),
        },
        (Value::Int(a), Value::Text(_)) if a.unsigned_abs() > EXACT_DOUBLE => {
            Err(SqlError::unsupported("comparison of text with an integer beyond 2^53"))
        }
        (Value::Int(_) | Value::Decimal(_) | Value::Float(_), Value::Text(b)) => {
            compare_numbers(left, &Value::Float(number_prefix(b)), Dialect::MySql)
        }
        _ => Err(mismatch(left, right)),
    }
}

/// The number that a text begins with, 0 if with none.
pub(crate) fn number_prefix(text: &str) -> f64 {
    let text = text.trim_start();
    let bytes = text.as_bytes();
    let digits =
        |from: usize| bytes[from.min(bytes.len())..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut end = usize::from(text.starts_with(['-', '+']));
    end += digits(end);
    if bytes.get(end) == Some(&b'.') {
        end += 1 + digits(end + 1);
    }
    if let Some(b'e' | b'E') = bytes.get(end) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'-' | b'+')));
        let exponent = digits(end + 1 + sign);
        end += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    text[..end].trim_end_matches('.').parse().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_doubles_compare_exactly_in_sqlite() {
        let big = i64::MAX;
        assert_eq!(compare_exactly(big, big as f64), Ordering::Less);
        assert_eq!(compare_exactly(3, 3.5), Ordering::Less);
        assert_eq!(compare_exactly(-3, -3.5), Ordering::Greater);
        assert_eq!(compare_exactly(3, 3.0), Ordering::Equal);
    }

    /// In C `B` comes before `a`, in most other collations after it; `a b` and `ab` differ
    /// likewise.
    #[test]
    fn texts_are_ordered_only_where_collations_agree() {
        let asked = |a: &str, b: &str| order(&Value::text(a), &Value::text(b), Dialect::Postgres);
        for (less, more) in
            [("a", "b"), ("", "a"), ("a", "ab"), ("10", "9"), ("9", "A"), ("First12", "First7"), ("A", "b")]
        {
            assert_eq!(asked(less, more), Ok(Some(Ordering::Less)), "{less} {more}");
            assert_eq!(asked(more, less), Ok(Some(Ordering::Greater)), "{more} {less}");
        }
        for (one, other) in [("a", "B"), ("a", "A"), ("aB", "ab"), ("a b", "ab"), ("a-1", "a1"), ("é", "f")]
        {
            assert!(asked(one, other).is_err_and(|error| error.is_unsupported()), "{one} {other}");
            assert_eq!(Value::text(one).sql_eq(&Value::text(other), Dialect::Postgres), Some(false));
            assert_eq!(asked(one, one), Ok(Some(Ordering::Equal)));
            for dialect in [Dialect::Generic, Dialect::Sqlite] {
                assert_eq!(order(&one.into(), &other.into(), dialect), Ok(Some(one.cmp(other))));
            }
        }
    }

    /// MySQL 8's default collation counts trailing spaces, those of MariaDB and TiDB do not; and
    /// `_` comes before letters in the collations of Unicode, behind them in `utf8mb4_general_ci`.
    /// What depends on that is refused.
    #[test]
    fn what_collations_of_mysql_do_not_agree_on_is_refused() {
        let asked = |a: &str, b: &str, dialect| order(&Value::text(a), &Value::text(b), dialect);
        for dialect in [Dialect::MySql, Dialect::TiDb] {
            for (one, other) in [("a ", "a"), ("", " "), ("a\t", "a")] {
                assert!(
                    asked(one, other, dialect).is_err_and(|error| error.is_unsupported()),
                    "{one:?} {other:?}"
                );
            }
            let equal = Value::text("a ").sql_eq(&Value::text("a"), dialect);
            assert_eq!((equal, Value::text("a ").sql_eq(&Value::text("b"), dialect)), (None, Some(false)));
            assert_eq!(asked("a ", "a b", dialect), Ok(Some(Ordering::Less)));
        }
        assert!(asked("a_", "ab", Dialect::MySql).is_err() && asked("é", "f", Dialect::MySql).is_err());
        assert_eq!(Value::text("a_").sql_eq(&Value::text("ab"), Dialect::MySql), Some(false));
        assert_eq!(asked("a", "B", Dialect::MySql), Ok(Some(Ordering::Less)));
        assert_eq!(asked("a", "B", Dialect::TiDb), Ok(Some(Ordering::Greater)));
        assert_eq!(asked("é", "f", Dialect::TiDb), Ok(Some(Ordering::Greater)));
    }

    #[test]
    fn numbers_that_text_begins_with() {
        for (text, number) in [("12abc", 12.0), ("-1.5e2x", -150.0), (" 3.", 3.0), ("x", 0.0), ("1e", 1.0)] {
            assert_eq!(number_prefix(text), number, "{text}");
        }
    }

    #[test]
    fn text_rules() {
        let cmp = |a: &str, b: &str, d| compare(&Value::text(a), &Value::text(b), d).unwrap().unwrap();
        assert_eq!(cmp("Kevin", "kevin", Dialect::MySql), Ordering::Equal);
        assert_eq!(cmp("Kevin", "kevin", Dialect::TiDb), Ordering::Less);
        assert_eq!(cmp("Kevin", "kevin", Dialect::Postgres), Ordering::Less);
        let one = compare(&Value::Int(1), &Value::text("1x"), Dialect::MySql).unwrap();
        assert_eq!(one, Some(Ordering::Equal));
        assert!(compare(&Value::Int(1), &Value::text("1"), Dialect::Sqlite).is_err());
    }
}
