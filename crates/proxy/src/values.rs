//! Values of PostgreSQL as values of histories: one SQL value is one history value, in whatever
//! format it came.

use margay_drivers::numeric_text;
use margay_history::{ValueId, Values};

use crate::time;

/// The numbers of types.
pub(crate) mod kind {
    pub const BOOL: u32 = 16;
    pub const BYTEA: u32 = 17;
    pub const INT8: u32 = 20;
    pub const INT2: u32 = 21;
    pub const INT4: u32 = 23;
    pub const OID: u32 = 26;
    pub const FLOAT4: u32 = 700;
    pub const FLOAT8: u32 = 701;
    pub const DATE: u32 = 1082;
    pub const TIMESTAMP: u32 = 1114;
    pub const TIMESTAMPTZ: u32 = 1184;
    pub const NUMERIC: u32 = 1700;
    pub const UUID: u32 = 2950;
    /// A string whose type nobody told.
    pub const UNKNOWN: u32 = 705;
    /// text, varchar, char(n), name, "char".
    pub const TEXTS: [u32; 6] = [25, 1043, 1042, 19, 18, UNKNOWN];
}

/// A value of a type in a format (0 text, 1 binary). `None` if it cannot be told.
pub(crate) fn value(values: &mut Values, kind: u32, format: u16, bytes: Option<&[u8]>) -> Option<ValueId> {
    if kind & margay_wire::mysql::kind::KNOWN != 0 {
        return crate::mysql::value(values, kind, bytes);
    }
    let Some(bytes) = bytes else { return Some(ValueId::NULL) };
    match format {
        0 => text(values, kind, std::str::from_utf8(bytes).ok()?),
        1 => binary(values, kind, bytes),
        _ => None,
    }
}

fn text(values: &mut Values, kind: u32, text: &str) -> Option<ValueId> {
    Some(match kind {
        kind::BOOL => values.bool(boolean(text)?),
        kind::INT2 | kind::INT4 | kind::INT8 | kind::OID => values.int(text.trim().parse().ok()?),
        kind::FLOAT4 | kind::FLOAT8 => float(values, text.trim().parse().ok()?),
        kind::NUMERIC => number(values, text.trim()),
        kind::UUID => values.text(&uuid(&text.to_ascii_lowercase())?),
        kind::DATE => values.text(&time::date_text(text)?),
        kind::TIMESTAMP => values.text(&time::timestamp_text(text, false)?),
        kind::TIMESTAMPTZ => values.text(&time::timestamp_text(text, true)?),
        0 => return None,
        _ => values.text(text),
    })
}

fn binary(values: &mut Values, kind: u32, bytes: &[u8]) -> Option<ValueId> {
    Some(match kind {
        kind::BOOL => values.bool(bytes == [1]),
        kind::INT2 => values.int(i16::from_be_bytes(bytes.try_into().ok()?).into()),
        kind::INT4 => values.int(i32::from_be_bytes(bytes.try_into().ok()?).into()),
        kind::OID => values.int(u32::from_be_bytes(bytes.try_into().ok()?).into()),
        kind::INT8 => values.int(i64::from_be_bytes(bytes.try_into().ok()?)),
        kind::FLOAT4 => float(values, f32::from_be_bytes(bytes.try_into().ok()?).into()),
        kind::FLOAT8 => float(values, f64::from_be_bytes(bytes.try_into().ok()?)),
        kind::NUMERIC => number(values, &numeric_text(bytes)?),
        kind::UUID => values.text(&uuid(&hex(bytes))?),
        kind::BYTEA => values.text(&format!("\\x{}", hex(bytes))),
        kind::DATE => values.text(&time::date(i32::from_be_bytes(bytes.try_into().ok()?))?),
        kind::TIMESTAMP => values.text(&time::timestamp(i64::from_be_bytes(bytes.try_into().ok()?), false)?),
        kind::TIMESTAMPTZ => values.text(&time::timestamp(i64::from_be_bytes(bytes.try_into().ok()?), true)?),
        kind if kind::TEXTS.contains(&kind) => values.text(std::str::from_utf8(bytes).ok()?),
        0 => return None,
        // No engine compares values of other types: these bytes equal nothing else.
        _ => values.text(&format!("binary:{}", hex(bytes))),
    })
}

fn boolean(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "t" | "true" | "y" | "yes" | "on" | "1" => Some(true),
        "f" | "false" | "n" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// JSON has no word for what is not finite.
fn float(values: &mut Values, number: f64) -> ValueId {
    if number.is_finite() { values.float(number) } else { values.text(&number.to_string()) }
}

/// Whole numbers are integers; others keep their digits.
fn number(values: &mut Values, text: &str) -> ValueId {
    match text.parse::<i64>() {
        Ok(whole) => values.int(whole),
        Err(_) => values.text(text),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// With its hyphens.
fn uuid(text: &str) -> Option<String> {
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let part = |from: usize, to: usize| digits.get(from..to);
    let parts = [part(0, 8)?, part(8, 12)?, part(12, 16)?, part(16, 20)?, part(20, 32)?];
    (digits.len() == 32).then(|| parts.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_has_one_form_in_both_formats() {
        let mut values = Values::default();
        let cases: [(u32, &str, &[u8]); 9] = [
            (kind::BOOL, "t", &[1]),
            (kind::INT2, "-2", &[255, 254]),
            (kind::INT4, "7", &[0, 0, 0, 7]),
            (kind::INT8, "7", &[0, 0, 0, 0, 0, 0, 0, 7]),
            (kind::FLOAT8, "1.5", &[63, 248, 0, 0, 0, 0, 0, 0]),
            (kind::DATE, "2000-01-02", &[0, 0, 0, 1]),
            (kind::TIMESTAMPTZ, "2000-01-01 01:00:00+01", &[0; 8]),
            (kind::NUMERIC, "12", &[0, 1, 0, 0, 0, 0, 0, 0, 0, 12]),
            (25, "a b", b"a b"),
        ];
        for (kind, text, binary) in cases {
            let one = value(&mut values, kind, 0, Some(text.as_bytes()));
            assert!(one.is_some(), "{text}");
            assert_eq!(one, value(&mut values, kind, 1, Some(binary)), "{text}");
        }
        let uuid = "0b3ad0b0-7d0c-4b9e-8f57-0f1d8f2f3a4b";
        let one = value(&mut values, kind::UUID, 0, Some(uuid.to_uppercase().as_bytes()));
        assert_eq!(one, Some(values.text(uuid)));
        assert_eq!(value(&mut values, kind::INT4, 0, None), Some(ValueId::NULL));
    }

    #[test]
    fn what_cannot_be_read_is_not_guessed() {
        let mut values = Values::default();
        for (kind, format, bytes) in [
            (kind::INT4, 1, &b"abc"[..]),
            (kind::INT4, 0, b"x"),
            (kind::BOOL, 0, b"tru"),
            (0, 0, b"5"),
            (0, 1, b"5"),
            (25, 0, b"\xff"),
            (25, u16::MAX, b"x"),
            (kind::UUID, 1, b"short"),
        ] {
            assert_eq!(value(&mut values, kind, format, Some(bytes)), None, "{kind} {bytes:?}");
        }
        let infinite = value(&mut values, kind::FLOAT8, 0, Some(b"Infinity"));
        assert_eq!(infinite, Some(values.text("inf")));
    }
}
