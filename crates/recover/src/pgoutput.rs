//! The messages of PostgreSQL's output plugin `pgoutput`, which every server has: version 1 of its
//! protocol, with values as texts.
//!
//! A message is a letter and fields: integers with the most significant byte first, texts that end
//! with a zero byte, rows as a number of columns and, for each, `n` (NULL), `u` (not told, because
//! it did not change) or `t` with a length and a text. Which columns a table has is told before its
//! first row, and again when they change.
//!
//! # Invariants
//! - The same transactions come out as with `test_decoding` (a test runs both on one log).
//! - No bytes make it panic; what is cut short, too long, or speaks of a table that was not told of
//!   is an error.

use std::collections::HashMap;

use crate::decoding::truncated;
use crate::log::{Commit, Datum, Keys, Row, Telling};

/// Collects messages into commits.
#[derive(Debug)]
pub(crate) struct Messages {
    telling: Telling,
    relations: HashMap<u32, Relation>,
}

/// A table, as the log tells of it.
#[derive(Clone, Debug)]
struct Relation {
    name: String,
    columns: Vec<Column>,
}

#[derive(Clone, Debug)]
struct Column {
    name: String,
    /// Whether it is part of what identifies a row in the log.
    identifies: bool,
    kind: u32,
}

impl Messages {
    pub fn new(keys: Keys) -> Self {
        Self { telling: Telling::new(keys), relations: HashMap::new() }
    }

    /// Takes a message; answers the commit that it completes.
    pub fn message(&mut self, bytes: &[u8]) -> Result<Option<Commit>, String> {
        let bad = || match bytes.first() {
            Some(letter) => {
                format!("the log has a message that is not understood: {:?}", char::from(*letter))
            }
            None => "the log has an empty message".to_owned(),
        };
        let (letter, rest) = bytes.split_first().ok_or_else(bad)?;
        let mut fields = Fields(rest);
        let told = self.told(*letter, &mut fields).ok_or_else(bad)?;
        if !fields.0.is_empty() {
            return Err(bad());
        }
        match told {
            DecodedMessage::Commit(commit) => Ok(Some(commit)),
            DecodedMessage::Truncated(table) => Err(truncated(&table)),
            DecodedMessage::Else => Ok(None),
        }
    }

    fn told(&mut self, letter: u8, fields: &mut Fields<'_>) -> Option<DecodedMessage> {
        match letter {
            b'B' => {
                let (_place, _time, id) = (fields.long()?, fields.long()?, fields.int()?);
                self.telling.begin(id.to_string());
            }
            b'C' => {
                let (_flags, _place, _end) = (fields.byte()?, fields.long()?, fields.long()?);
                let time = time(fields.long()?);
                return self.telling.commit(Some(time)).map(DecodedMessage::Commit);
            }
            b'R' => self.relation(fields)?,
            b'I' | b'U' | b'D' => self.change(letter, fields)?,
            b'T' => return self.truncation(fields),
            // Types, where a transaction came from, and messages of others.
            b'Y' | b'O' | b'M' => fields.0 = &[],
            _ => return None,
        }
        Some(DecodedMessage::Else)
    }

    fn relation(&mut self, fields: &mut Fields<'_>) -> Option<()> {
        let (id, _schema, name) = (fields.int()?, fields.text()?, fields.text()?.to_owned());
        let (_identity, width) = (fields.byte()?, fields.short()?);
        let columns: Option<Vec<Column>> = (0..width).map(|_| fields.column()).collect();
        self.relations.insert(id, Relation { name, columns: columns? });
        Some(())
    }

    fn change(&mut self, letter: u8, fields: &mut Fields<'_>) -> Option<()> {
        let relation = self.relations.get(&fields.int()?)?;
        let mut part = fields.byte()?;
        let mut old = None;
        if letter != b'I' && matches!(part, b'K' | b'O') {
            old = Some(fields.row(&relation.columns, part == b'K')?);
            part = if letter == b'U' { fields.byte()? } else { part };
        }
        let new = match part {
            b'N' if letter != b'D' => Some(fields.row(&relation.columns, false)?),
            _ => None,
        };
        if !self.telling.knows(&relation.name) {
            return Some(());
        }
        match letter {
            b'I' => self.telling.insert(&relation.name, new?),
            b'U' => self.telling.update(&relation.name, old.as_ref(), new?),
            _ => self.telling.delete(&relation.name, &old?),
        }
    }

    fn truncation(&self, fields: &mut Fields<'_>) -> Option<DecodedMessage> {
        let (many, _options) = (fields.int()?, fields.byte()?);
        let mut told = DecodedMessage::Else;
        for _ in 0..many {
            let table = &self.relations.get(&fields.int()?)?.name;
            if self.telling.knows(table) {
                told = DecodedMessage::Truncated(table.clone());
            }
        }
        Some(told)
    }
}

/// What a message says, as far as it matters here.
enum DecodedMessage {
    Commit(Commit),
    Truncated(String),
    Else,
}

/// The fields of a message that are still to be read.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, many: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(many)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn short(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn int(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn long(&mut self) -> Option<i64> {
        Some(i64::from_be_bytes(self.take(8)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.0.iter().position(|byte| *byte == 0)?;
        let text = std::str::from_utf8(self.take(length)?).ok()?;
        self.byte()?;
        Some(text)
    }

    fn column(&mut self) -> Option<Column> {
        let (flags, name) = (self.byte()?, self.text()?.to_owned());
        let (kind, _modifier) = (self.int()?, self.int()?);
        Some(Column { name, identifies: flags & 1 == 1, kind })
    }

    /// A row. One that only identifies another has NULL in all other columns, which they need not
    /// have been: these are left out.
    fn row(&mut self, columns: &[Column], only_identity: bool) -> Option<Row> {
        if usize::from(self.short()?) != columns.len() {
            return None;
        }
        let mut row = Row::new();
        for column in columns {
            let datum = self.datum(column.kind)?;
            if column.identifies || !only_identity {
                row.push((column.name.clone(), datum));
            }
        }
        Some(row)
    }

    fn datum(&mut self, kind: u32) -> Option<Datum> {
        match self.byte()? {
            b'n' => Some(Datum::Null),
            b'u' => Some(Datum::Unchanged),
            b't' => {
                let length = usize::try_from(self.int()?).ok()?;
                Some(datum(kind, std::str::from_utf8(self.take(length)?).ok()?))
            }
            _ => None,
        }
    }
}

/// A value, as `test_decoding` writes values of its type. Types have fixed numbers.
fn datum(kind: u32, text: &str) -> Datum {
    let own = || Datum::Text(text.to_owned());
    match kind {
        // Integers, numbers of objects, floating and decimal numbers.
        20 | 21 | 23 | 26 | 700 | 701 | 1700 => text.parse().map_or_else(|_| own(), Datum::Int),
        16 => Datum::Text(if text == "t" { "true" } else { "false" }.to_owned()),
        // Bit strings.
        1560 | 1562 => Datum::Text(format!("B'{text}'")),
        _ => own(),
    }
}

/// Microseconds since the year 2000, for people; days are counted in years that begin in March, so
/// that leap days come last.
fn time(micros: i64) -> String {
    let (seconds, fraction) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // From the first of March of the year 0, in eras of 400 years.
    let day = days + 730_425;
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let (month, years) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + years;
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    let fraction = format!(".{fraction:06}");
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    format!("{year:04}-{month:02}-{date:02} {hour:02}:{minute:02}:{second:02}{fraction}+00")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> Messages {
        Messages::new(Keys::from([("accounts".to_owned(), vec!["id".to_owned()])]))
    }

    fn text(text: &str) -> Vec<u8> {
        [text.as_bytes(), &[0]].concat()
    }

    fn int(int: u32) -> Vec<u8> {
        int.to_be_bytes().to_vec()
    }

    /// A table with an integer `id` that identifies its rows, and a text `owner`.
    fn relation(oid: u32, name: &str) -> Vec<u8> {
        let column =
            |flags: u8, name: &str, kind| [vec![flags], text(name), int(kind), int(u32::MAX)].concat();
        let head = [vec![b'R'], int(oid), text("public"), text(name), vec![b'd', 0, 2]].concat();
        [head, column(1, "id", 23), column(0, "owner", 25)].concat()
    }

    fn row(values: [Option<&str>; 2]) -> Vec<u8> {
        let value = |value: Option<&str>| match value {
            Some(text) => [vec![b't'], int(text.len() as u32), text.as_bytes().to_vec()].concat(),
            None => vec![b'n'],
        };
        [vec![0, 2], values.map(value).concat()].concat()
    }

    fn change(letter: u8, oid: u32, parts: &[(u8, [Option<&str>; 2])]) -> Vec<u8> {
        let parts: Vec<Vec<u8>> =
            parts.iter().map(|(part, values)| [vec![*part], row(*values)].concat()).collect();
        [vec![letter], int(oid), parts.concat()].concat()
    }

    fn transaction() -> Vec<Vec<u8>> {
        let time = 847_951_200_123_000_i64.to_be_bytes();
        vec![
            [&b"B"[..], &[0; 16], &747_u32.to_be_bytes()].concat(),
            [&b"O"[..], &[0; 8], b"elsewhere\0"].concat(),
            [vec![b'Y'], int(70_000), text("public"), text("mood")].concat(),
            relation(1, "accounts"),
            relation(2, "other"),
            change(b'I', 1, &[(b'N', [Some("1"), Some("O'Brien")])]),
            change(b'U', 1, &[(b'N', [Some("1"), None])]),
            change(b'U', 1, &[(b'K', [Some("1"), None]), (b'N', [Some("2"), Some("x")])]),
            change(b'I', 2, &[(b'N', [Some("9"), Some("")])]),
            change(b'D', 1, &[(b'K', [Some("2"), None])]),
            [&b"T"[..], &1_u32.to_be_bytes(), &[0], &2_u32.to_be_bytes()].concat(),
            [&b"C"[..], &[0; 17], &time].concat(),
        ]
    }

    #[test]
    fn a_transaction_is_read() {
        let mut reader = messages();
        let read: Vec<_> =
            transaction().iter().filter_map(|m| reader.message(m).expect("a message")).collect();
        let [commit] = &read[..] else { panic!("one commit, not {read:?}") };
        assert_eq!((commit.id.as_str(), commit.time.as_deref()), ("747", Some("2026-11-14 06:00:00.123+00")));
        let changes: Vec<_> =
            commit.changes.iter().map(|c| (c.key[0].clone(), c.row.is_some(), c.inserted)).collect();
        let (one, two) = (Datum::Int(1), Datum::Int(2));
        let expected = [
            (&one, true, true),
            (&one, true, false),
            (&one, false, false),
            (&two, true, true),
            (&two, false, false),
        ];
        assert_eq!(changes, expected.map(|(key, there, inserted)| (key.clone(), there, inserted)));
        let owner = |at: usize| commit.changes[at].row.as_ref().map(|row| row[1].1.clone());
        assert_eq!((owner(0), owner(1)), (Some(Datum::Text("O'Brien".to_owned())), Some(Datum::Null)));
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        let mut reader = messages();
        reader.message(&relation(1, "accounts")).expect("a table");
        let truncation = [&b"T"[..], &1_u32.to_be_bytes(), &[0], &1_u32.to_be_bytes()].concat();
        let why = reader.message(&truncation).expect_err("rows are lost");
        assert!(why.contains("accounts was truncated"), "{why}");
        // Outside of a transaction; without the key; of an unknown table; too long; nothing;
        // unknown.
        let insert = change(b'I', 1, &[(b'N', [Some("1"), None])]);
        assert!(reader.message(&insert).is_err());
        reader.message(&transaction()[0]).expect("a beginning");
        assert!(reader.message(&insert).is_ok());
        for bad in [
            change(b'D', 1, &[(b'N', [Some("1"), None])]),
            change(b'U', 1, &[(b'K', [Some("1"), None])]),
            change(b'I', 7, &[(b'N', [Some("1"), None])]),
            [insert, vec![0]].concat(),
            Vec::new(),
            vec![b'S'],
        ] {
            assert!(reader.message(&bad).is_err(), "{bad:?}");
        }
    }

    /// Messages that are cut short, changed in some bytes, and made of anything.
    #[test]
    fn no_bytes_make_it_panic() {
        let mut state = 1_u64;
        let mut random = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let (mut taken, mut refused) = (0, 0);
        let mut reader = messages();
        for _ in 0..20_000 {
            let all = transaction();
            let mut bytes = all[random(all.len())].clone();
            match random(4) {
                0 => bytes.truncate(random(bytes.len())),
                1 => bytes = (0..random(40)).map(|_| random(256) as u8).collect(),
                2 => {
                    for _ in 0..=random(4) {
                        let place = random(bytes.len());
                        bytes[place] = random(256) as u8;
                    }
                }
                _ => {}
            }
            match reader.message(&bytes) {
                Ok(_) => taken += 1,
                Err(_) => refused += 1,
            }
        }
        assert!(taken > 1_000 && refused > 1_000, "{taken} taken, {refused} refused");
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(time(0), "2000-01-01 00:00:00+00");
        assert_eq!(time(-1), "1999-12-31 23:59:59.999999+00");
        assert_eq!(time(5_097_600_000_000), "2000-02-29 00:00:00+00");
        assert!(time(i64::MAX).ends_with("+00") && time(i64::MIN).starts_with('-'), "no overflow");
    }
}
