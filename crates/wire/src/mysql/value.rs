//! Columns, parameters and values. A value of the binary protocol becomes the text that the text
//! protocol shows, with six digits of a second's fraction.

use std::io::Write;

use crate::body::Body;
use crate::event::Column;

use super::greeting::is_unicode;

/// What the number of a type ([`Column::kind`]) says.
pub mod kind {
    /// It is a type of MySQL. No type of PostgreSQL has this bit.
    pub const KNOWN: u32 = 1 << 31;
    /// An integer without a sign.
    pub const UNSIGNED: u32 = 1 << 8;
    /// Bytes, not a text. Of numbers and moments, too.
    pub const BINARY: u32 = 1 << 9;
    /// A text in UTF-8.
    pub const UNICODE: u32 = 1 << 10;

    /// `TINYINT`.
    pub const TINY: u8 = 1;
    /// `SMALLINT`.
    pub const SHORT: u8 = 2;
    /// `INT`.
    pub const LONG: u8 = 3;
    /// `FLOAT`.
    pub const FLOAT: u8 = 4;
    /// `DOUBLE`.
    pub const DOUBLE: u8 = 5;
    /// `NULL`.
    pub const NULL: u8 = 6;
    /// `TIMESTAMP`.
    pub const TIMESTAMP: u8 = 7;
    /// `BIGINT`.
    pub const LONGLONG: u8 = 8;
    /// `MEDIUMINT`.
    pub const INT24: u8 = 9;
    /// `DATE`.
    pub const DATE: u8 = 10;
    /// `TIME`.
    pub const TIME: u8 = 11;
    /// `DATETIME`.
    pub const DATETIME: u8 = 12;
    /// `YEAR`.
    pub const YEAR: u8 = 13;
    /// `DECIMAL`.
    pub const NEWDECIMAL: u8 = 246;
    /// `VARCHAR`.
    pub const VAR_STRING: u8 = 253;

    /// The type alone.
    #[must_use]
    pub fn of(kind: u32) -> u8 {
        (kind & 0xff) as u8
    }
}

/// A packet that describes a column.
pub(crate) fn column(body: &[u8]) -> Option<Column> {
    let mut reader = Body(body);
    for _ in 0..4 {
        reader.counted()?;
    }
    let name = String::from_utf8_lossy(reader.counted()?).into_owned();
    reader.counted()?;
    reader.number()?;
    let collation = reader.le16()?;
    reader.le32()?;
    let (of, flags) = (reader.u8()?, reader.le16()?);
    let text = match collation {
        63 => kind::BINARY,
        other if is_unicode(other) => kind::UNICODE,
        _ => 0,
    };
    let unsigned = if flags & 0x20 == 0 { 0 } else { kind::UNSIGNED };
    Some(Column { name, kind: kind::KNOWN | u32::from(of) | unsigned | text })
}

/// The number of a parameter's type: the type, and a byte whose highest bit says that it has no
/// sign.
pub(crate) fn parameter(of: u8, flags: u8, unicode: bool) -> u32 {
    let unsigned = if flags & 0x80 == 0 { 0 } else { kind::UNSIGNED };
    let text = if unicode { kind::UNICODE } else { 0 };
    kind::KNOWN | u32::from(of) | unsigned | text
}

/// The next value of the binary protocol, as a text.
pub(crate) fn binary(kind: u32, reader: &mut Body<'_>) -> Option<Vec<u8>> {
    let unsigned = kind & kind::UNSIGNED != 0;
    let whole = |signed: i64, plain: u64| if unsigned { plain.to_string() } else { signed.to_string() };
    let text = match kind::of(kind) {
        kind::NULL => return None,
        kind::TINY => {
            let [byte] = reader.array()?;
            whole(i8::from_le_bytes([byte]).into(), byte.into())
        }
        kind::SHORT | kind::YEAR => {
            let bytes = reader.array()?;
            whole(i16::from_le_bytes(bytes).into(), u16::from_le_bytes(bytes).into())
        }
        kind::LONG | kind::INT24 => {
            let bytes = reader.array()?;
            whole(i32::from_le_bytes(bytes).into(), u32::from_le_bytes(bytes).into())
        }
        kind::LONGLONG => {
            let bytes = reader.array()?;
            whole(i64::from_le_bytes(bytes), u64::from_le_bytes(bytes))
        }
        kind::FLOAT => f32::from_le_bytes(reader.array()?).to_string(),
        kind::DOUBLE => f64::from_le_bytes(reader.array()?).to_string(),
        kind::DATE => moment(reader, true)?,
        kind::DATETIME | kind::TIMESTAMP => moment(reader, false)?,
        kind::TIME => time(reader)?,
        _ => return reader.counted().map(<[u8]>::to_vec),
    };
    Some(text.into_bytes())
}

/// A date or a moment: what is left out at its end is zero.
fn moment(reader: &mut Body<'_>, date: bool) -> Option<String> {
    let length = reader.u8()?;
    let mut fields = Body(reader.bytes(length.into())?);
    let (mut day, mut clock, mut micros) = ((0, 0, 0), (0, 0, 0), 0);
    if length >= 4 {
        day = (fields.le16()?, fields.u8()?, fields.u8()?);
    }
    if length >= 7 {
        clock = (fields.u8()?, fields.u8()?, fields.u8()?);
    }
    if length >= 11 {
        micros = fields.le32()?;
    }
    let date_text = format!("{:04}-{:02}-{:02}", day.0, day.1, day.2);
    let time_text = format!("{:02}:{:02}:{:02}.{micros:06}", clock.0, clock.1, clock.2);
    Some(if date { date_text } else { format!("{date_text} {time_text}") })
}

fn time(reader: &mut Body<'_>) -> Option<String> {
    let length = reader.u8()?;
    let mut fields = Body(reader.bytes(length.into())?);
    if length < 8 {
        return Some("00:00:00.000000".to_owned());
    }
    let sign = if fields.u8()? == 0 { "" } else { "-" };
    let (days, hours, minutes, seconds) = (fields.le32()?, fields.u8()?, fields.u8()?, fields.u8()?);
    let micros = if length >= 12 { fields.le32()? } else { 0 };
    let hours = u64::from(days) * 24 + u64::from(hours);
    Some(format!("{sign}{hours:02}:{minutes:02}:{seconds:02}.{micros:06}"))
}

/// Writes a row of the text protocol the way that [`crate::Rows`] keeps rows.
pub(crate) fn text_row(columns: &[Column], body: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Body(body);
    let mut row = start(columns, body.len());
    for _ in columns {
        if reader.0.first() == Some(&0xfb) {
            reader.u8()?;
            cell(&mut row, None);
        } else {
            cell(&mut row, Some(reader.counted()?));
        }
    }
    reader.is_empty().then_some(row)
}

/// The same with a row of the binary protocol.
pub(crate) fn binary_row(columns: &[Column], body: &[u8]) -> Option<Vec<u8>> {
    let mut reader = Body(body);
    reader.u8()?;
    let nulls = reader.bytes((columns.len() + 9) / 8)?;
    let mut row = start(columns, body.len());
    for (at, column) in columns.iter().enumerate() {
        let bit = at + 2;
        if nulls[bit / 8] >> (bit % 8) & 1 == 1 {
            cell(&mut row, None);
        } else {
            cell(&mut row, Some(&binary(column.kind, &mut reader)?));
        }
    }
    reader.is_empty().then_some(row)
}

fn start(columns: &[Column], length: usize) -> Vec<u8> {
    let mut row = Vec::with_capacity(2 + 4 * columns.len() + length);
    row.extend_from_slice(&(columns.len() as u16).to_be_bytes());
    row
}

fn cell(row: &mut Vec<u8>, value: Option<&[u8]>) {
    let length = value.map_or(-1, |value| value.len() as i32);
    // Writing to a vector succeeds.
    let _ = row.write_all(&length.to_be_bytes());
    let _ = row.write_all(value.unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(of: u8, flags: u8, bytes: &[u8]) -> Option<String> {
        let mut reader = Body(bytes);
        let read = binary(parameter(of, flags, true), &mut reader)?;
        reader.is_empty().then(|| String::from_utf8(read).expect("text"))
    }

    #[test]
    fn values_become_texts() {
        let cases: [(u8, u8, &[u8], &str); 14] = [
            (kind::TINY, 0, &[0xff], "-1"),
            (kind::TINY, 0x80, &[0xff], "255"),
            (kind::YEAR, 0x80, &[0xea, 7], "2026"),
            (kind::LONG, 0, &[0xfe, 0xff, 0xff, 0xff], "-2"),
            (kind::LONGLONG, 0x80, &[0xff; 8], "18446744073709551615"),
            (kind::DOUBLE, 0, &[0, 0, 0, 0, 0, 0, 0xf8, 0x3f], "1.5"),
            (kind::FLOAT, 0, &[0, 0, 0xc0, 0x3f], "1.5"),
            (kind::DATE, 0, &[4, 0xea, 7, 11, 19], "2026-11-19"),
            (kind::DATETIME, 0, &[7, 0xea, 7, 11, 19, 1, 2, 3], "2026-11-19 01:02:03.000000"),
            (kind::DATETIME, 0, &[11, 0xea, 7, 11, 19, 1, 2, 3, 64, 226, 1, 0], "2026-11-19 01:02:03.123456"),
            (kind::DATETIME, 0, &[0], "0000-00-00 00:00:00.000000"),
            (kind::TIME, 0, &[8, 1, 1, 0, 0, 0, 2, 3, 4], "-26:03:04.000000"),
            (kind::NEWDECIMAL, 0, b"\x049.50", "9.50"),
            (253, 0, b"\x02ab", "ab"),
        ];
        for (of, flags, bytes, text) in cases {
            assert_eq!(shown(of, flags, bytes).as_deref(), Some(text));
            assert_eq!(shown(of, flags, &bytes[..bytes.len() - 1]), None, "{text}");
        }
    }

    /// The same row in both protocols, as MariaDB 10.11 sends it.
    #[test]
    fn a_row_has_one_form() {
        let column = |of: u8| Column { name: String::new(), kind: parameter(of, 0, true) };
        let columns = [column(kind::LONG), column(253), column(kind::LONG)];
        let text = text_row(&columns, b"\x017\x02ab\xfb");
        assert!(text.is_some());
        assert_eq!(text, binary_row(&columns, &[0, 0b1_0000, 7, 0, 0, 0, 2, b'a', b'b']));
        assert_eq!(text_row(&columns, b"\x017\x02ab"), None);
        assert_eq!(text_row(&columns, b"\x017\x02ab\xfb\0"), None);
        assert_eq!(binary_row(&columns, &[0]), None);
    }
}
