//! Values of MySQL as values of histories: one SQL value is one history value. `margay-wire` has
//! brought the binary protocol into the form of the text protocol.

use margay_history::{ValueId, Values};
use margay_wire::mysql::kind;

/// A value of a type as a text. `None` if it cannot be told.
pub(crate) fn value(values: &mut Values, of: u32, bytes: Option<&[u8]>) -> Option<ValueId> {
    let Some(bytes) = bytes else { return Some(ValueId::NULL) };
    let text = std::str::from_utf8(bytes).ok();
    Some(match kind::of(of) {
        kind::TINY | kind::SHORT | kind::LONG | kind::LONGLONG | kind::INT24 | kind::YEAR => {
            match text?.parse::<i64>() {
                Ok(whole) => values.int(whole),
                // Beyond what fits in 63 bits.
                Err(_) => values.text(&text?.parse::<u64>().ok()?.to_string()),
            }
        }
        kind::DOUBLE => {
            let number: f64 = text?.parse().ok()?;
            if number.is_finite() { values.float(number) } else { return None }
        }
        // The text protocol shows six digits, whatever there is, and moments in the time zone of
        // who asks. Columns of these types count as written by anything, so that nobody compares
        // these texts.
        kind::FLOAT | kind::TIMESTAMP => values.text(text?),
        kind::NEWDECIMAL => match text?.parse::<i64>() {
            Ok(whole) => values.int(whole),
            Err(_) => values.text(text?),
        },
        kind::DATE => values.text(text?),
        kind::DATETIME | kind::TIME => values.text(&moment(text?)),
        _ if of & kind::BINARY != 0 => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            values.text(&format!("binary:{hex}"))
        }
        _ if of & kind::UNICODE != 0 || bytes.is_ascii() => values.text(text?),
        _ => return None,
    })
}

/// With six digits of a second's fraction.
fn moment(text: &str) -> String {
    let (front, fraction) = text.split_once('.').unwrap_or((text, ""));
    format!("{front}.{fraction:0<6}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_has_one_form() {
        let mut values = Values::default();
        let mut read =
            |of: u8, text: &str| value(&mut values, kind::KNOWN | u32::from(of), Some(text.as_bytes()));
        assert_eq!(read(kind::TINY, "7"), read(kind::LONGLONG, "7"));
        assert_eq!(
            read(kind::DATETIME, "2026-11-19 01:02:03"),
            read(kind::DATETIME, "2026-11-19 01:02:03.000000")
        );
        assert_ne!(
            read(kind::DATETIME, "2026-11-19 01:02:03.5"),
            read(kind::DATETIME, "2026-11-19 01:02:03")
        );
        assert_eq!(read(kind::NEWDECIMAL, "9"), read(kind::LONG, "9"));
        assert!(read(kind::LONGLONG, "18446744073709551615").is_some());
        assert_eq!(read(kind::LONG, "x"), None);
        assert_ne!(read(kind::FLOAT, "1.5"), read(kind::DOUBLE, "1.5"));
    }

    #[test]
    fn texts_of_other_character_sets_are_not_guessed() {
        let mut values = Values::default();
        let text = kind::KNOWN | 253;
        assert_eq!(value(&mut values, text, Some("é".as_bytes())), None);
        assert!(value(&mut values, text, Some(b"e")).is_some());
        assert!(value(&mut values, text | kind::UNICODE, Some("é".as_bytes())).is_some());
        assert_eq!(value(&mut values, text | kind::UNICODE, Some(b"\xe9")), None);
        let bytes = value(&mut values, text | kind::BINARY, Some(b"\xe9"));
        assert_eq!(bytes, Some(values.text("binary:e9")));
    }
}
