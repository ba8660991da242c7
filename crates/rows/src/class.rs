//! Values and types that mean the same in every database, or have one form only.

use margay_history::{Table, Value};
use margay_sql::Dialect;

/// What a column holds, as far as values are compared here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    Int,
    Text,
    /// `char(n)` of MySQL, which cuts trailing spaces off.
    Padded,
    Bool,
    /// Texts of 36 characters, in lower case.
    Uuid,
    /// Texts such as `2026-11-16`.
    Date,
    /// Texts such as `2026-11-16T14:53:23.000000`, in microseconds.
    Timestamp,
    /// The same with `Z` behind: in UTC.
    Timestamptz,
    /// Anything else: a value may be stored in another form than it was given.
    Other,
}

impl Class {
    /// The class of a declared type.
    pub fn of(kind: &str) -> Class {
        let kind = kind.to_ascii_lowercase();
        let word: String = kind.chars().take_while(char::is_ascii_alphanumeric).collect();
        match word.as_str() {
            "int" | "integer" | "bigint" | "int8" | "int4" | "smallint" | "int2" | "mediumint" => Class::Int,
            "serial" | "bigserial" | "smallserial" | "serial4" | "serial8" => Class::Int,
            "text" | "varchar" | "string" => Class::Text,
            "character" if kind.starts_with("character varying") => Class::Text,
            "char" | "character" | "bpchar" => Class::Padded,
            "bool" | "boolean" => Class::Bool,
            "uuid" => Class::Uuid,
            "date" => Class::Date,
            // MySQL's `timestamp` rounds, and so does one with a precision in parentheses.
            _ if kind.contains('(') => Class::Other,
            "timestamptz" => Class::Timestamptz,
            "timestamp" if kind.starts_with("timestamp with time zone") => Class::Timestamptz,
            "timestamp" if kind.starts_with("timestamp without time zone") => Class::Timestamp,
            _ => Class::Other,
        }
    }

    /// The class of a type that values are cast to, if the cast changes no value of the class.
    pub fn of_cast(kind: &str) -> Option<Class> {
        let class = Class::of(kind);
        (!matches!(class, Class::Other | Class::Padded) && !kind.contains('(')).then_some(class)
    }

    /// The class of a table's column. Elsewhere than in MySQL, `char(n)` is filled up to its length,
    /// except in comparisons.
    pub fn column(table: &Table, column: usize, dialect: Dialect) -> Class {
        match Class::of(&table.columns[column].1) {
            Class::Padded if !dialect.is_mysql() => Class::Other,
            class => class,
        }
    }

    /// Whether conditions on such a column can be read off its values as they are recorded: equal
    /// values are written alike, and literals as values are. `char(n)` ignores trailing spaces, an
    /// enumeration has an order of its own, `'2026-1-2'` is a date like `'2026-01-02'`.
    pub fn compares_plainly(self, condition: &str) -> bool {
        let cast = || condition.contains("::") || condition.to_ascii_uppercase().contains("CAST");
        match self {
            Class::Int | Class::Text | Class::Padded | Class::Bool => true,
            Class::Other => false,
            Class::Uuid | Class::Date | Class::Timestamp | Class::Timestamptz => {
                let mut literals = condition.split('\'').skip(1).step_by(2);
                !cast() && literals.all(|literal| self.keeps(Value::Text(literal)))
            }
        }
    }

    /// Whether a value of such a column is stored as it is given.
    pub fn keeps(self, value: Value<'_>) -> bool {
        match (self, value) {
            (Class::Other, _) => false,
            (_, Value::Null) | (Class::Int, Value::Int(_)) | (Class::Text, Value::Text(_)) => true,
            (Class::Padded, Value::Text(text)) => !text.ends_with(' '),
            (Class::Bool, Value::Bool(_)) => true,
            (Class::Uuid, Value::Text(text)) => fits(text, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"),
            (Class::Date, Value::Text(text)) => fits(text, "dddd-dd-dd"),
            (Class::Timestamp, Value::Text(text)) => fits(text, "dddd-dd-ddTdd:dd:dd.dddddd"),
            (Class::Timestamptz, Value::Text(text)) => fits(text, "dddd-dd-ddTdd:dd:dd.ddddddZ"),
            _ => false,
        }
    }
}

/// A moment that is cast to `timestamptz`, in the one form that it has here. Only one in UTC is
/// read: others depend on tables of time zones.
pub(crate) fn utc(text: &str) -> Option<String> {
    let text = ["+00:00", "+00", "Z"].iter().find_map(|zone| text.strip_suffix(zone))?;
    let (date, time) = text.split_once([' ', 'T'])?;
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let digits = (1..=6).contains(&fraction.len()) && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let usual = fits(date, "dddd-dd-dd") && fits(clock, "dd:dd:dd") && digits;
    // Others mean another day, or nothing.
    let plain = usual && date < "9999" && clock < "24" && &clock[3..5] < "60" && &clock[6..8] < "60";
    let valid = plain && ("01".."13").contains(&&date[5..7]) && ("01".."32").contains(&&date[8..10]);
    valid.then(|| format!("{date}T{clock}.{fraction:0<6}Z"))
}

/// Whether a text has a form: `d` is a digit, `x` a hexadecimal one in lower case, others are
/// themselves.
fn fits(text: &str, form: &str) -> bool {
    let fits = |(byte, form): (u8, u8)| match form {
        b'd' => byte.is_ascii_digit(),
        b'x' => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        other => byte == other,
    };
    text.len() == form.len() && text.bytes().zip(form.bytes()).all(fits)
}

/// Whether a column gets a value of its own where none is given: an identity, or a default.
pub(crate) fn has_default(table: &Table, column: usize) -> bool {
    let words = crate::blunt::words(&table.columns[column].1);
    words.iter().any(|word| {
        word.contains("serial")
            || matches!(
                word.as_str(),
                "default" | "identity" | "generated" | "auto_increment" | "autoincrement"
            )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_in_utc_have_one_form() {
        for text in
            ["2026-11-18 22:20:39.44+00:00", "2026-11-18T22:20:39.440000Z", "2026-11-18 22:20:39.44+00"]
        {
            assert_eq!(utc(text).as_deref(), Some("2026-11-18T22:20:39.440000Z"), "{text}");
        }
        for text in [
            "2026-11-18 22:20:39",
            "2026-11-18 22:20:39+01",
            "2026-11-18 24:00:00+00",
            "2026-13-18 22:20:39+00",
            "2026-11-18 22:20:60+00",
            "11/18/2026 22:20:39+00",
            "now+00",
        ] {
            assert_eq!(utc(text), None, "{text}");
        }
    }

    #[test]
    fn types_have_classes() {
        assert_eq!(["int", "BIGINT", "varchar(20)"].map(Class::of), [Class::Int, Class::Int, Class::Text]);
        assert_eq!(
            ["decimal(12,2)", "binary(3)", "", "timestamp", "timestamptz(0)"].map(Class::of),
            [Class::Other; 5]
        );
        assert_eq!(
            ["uuid", "BOOLEAN", "timestamptz"].map(Class::of),
            [Class::Uuid, Class::Bool, Class::Timestamptz]
        );
        assert!(Class::Int.keeps(Value::Int(3)) && !Class::Int.keeps(Value::Text("3")));
        assert!(!Class::Other.keeps(Value::Int(3)) && !Class::Bool.keeps(Value::Int(1)));
        assert_eq!(Class::of_cast("varchar(3)"), None, "it may cut a text off");
        assert_eq!(["char(3)", "CHARACTER(3)", "bpchar"].map(Class::of), [Class::Padded; 3]);
        assert_eq!(Class::of_cast("char"), None, "it may cut a text off");
        assert!(Class::Padded.keeps(Value::Text("a b")) && !Class::Padded.keeps(Value::Text("a ")));
    }

    #[test]
    fn values_that_have_several_forms_are_kept_in_one() {
        let uuid = "0b3ad0b0-7d0c-4b9e-8f57-0f1d8f2f3a4b";
        assert!(Class::Uuid.keeps(Value::Text(uuid)));
        assert!(!Class::Uuid.keeps(Value::Text(&uuid.to_uppercase())));
        assert!(Class::Timestamptz.keeps(Value::Text("2026-11-16T14:53:23.000000Z")));
        assert!(!Class::Timestamptz.keeps(Value::Text("2026-11-16 14:53:23+00")));
    }

    #[test]
    fn some_types_compare_in_their_own_way() {
        assert!(Class::Text.compares_plainly("t = 'x'") && !Class::Other.compares_plainly("n > 1.5"));
        assert!(
            Class::Date.compares_plainly("d < '2026-01-02'") && Class::Date.compares_plainly("d IS NULL")
        );
        for odd in
            ["d = '2026-1-2'", "d = 'today'", "d::text = '2026-01-02'", "cast(d AS text) = '2026-01-02'"]
        {
            assert!(!Class::Date.compares_plainly(odd), "{odd}");
        }
        assert!(!Class::Uuid.compares_plainly("u = '0B3AD0B0-7D0C-4B9E-8F57-0F1D8F2F3A4B'"));
    }

    #[test]
    fn columns_with_values_of_their_own_are_known_by_their_type() {
        let column = |kind: &str| {
            let columns = vec![("c".to_owned(), kind.to_owned())];
            has_default(&Table { columns, ..Table::default() }, 0)
        };
        assert!(
            column("bigserial") && column("int DEFAULT 5") && column("bigint generated always as identity")
        );
        assert!(!column("bigint") && !column("text"));
    }
}
