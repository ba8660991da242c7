//! Cells to PostgreSQL and back, in its binary protocol; and statements of programs.

use std::collections::HashMap;
use std::error::Error;

use postgres::types::private::BytesMut;
use postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use postgres::{Client, Statement};

use crate::statement::number;
use crate::{Answer, Cell};

/// The statements so far, by their texts, as the server has prepared them.
#[derive(Default)]
pub(crate) struct Prepared(HashMap<String, Statement>);

impl Prepared {
    /// Runs a statement, which is prepared when it is met for the first time.
    pub fn run(
        &mut self,
        client: &mut Client,
        text: &str,
        params: &[Cell],
    ) -> Result<Answer, postgres::Error> {
        if !self.0.contains_key(text) {
            let statement = client.prepare(text)?;
            self.0.insert(text.to_owned(), statement);
        }
        let statement = &self.0[text];
        let parameters: Vec<_> = params.iter().map(Parameter).collect();
        let parameters: Vec<_> =
            parameters.iter().map(|parameter| parameter as &(dyn ToSql + Sync)).collect();
        let columns = statement.columns().len();
        if columns == 0 {
            let count = client.execute(statement, &parameters)?;
            return Ok(Answer { count, ..Answer::default() });
        }
        let mut cells = Vec::new();
        for row in client.query(statement, &parameters)? {
            for at in 0..columns {
                cells.push(row.try_get::<_, Answered>(at)?.0);
            }
        }
        Ok(Answer { columns, cells, count: 0 })
    }
}

/// A cell as a parameter, in the type that the server expects.
#[derive(Debug)]
struct Parameter<'a>(&'a Cell);

impl ToSql for Parameter<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match (self.0, ty) {
            (Cell::Null, _) => Ok(IsNull::Yes),
            (Cell::Int(int), &Type::INT4) => i32::try_from(*int)?.to_sql(ty, out),
            (Cell::Int(int), &Type::INT8) => int.to_sql(ty, out),
            (Cell::Int(int), _) => int.to_string().to_sql(&Type::TEXT, out),
            (Cell::Text(text), _) => text.to_sql(&Type::TEXT, out),
        }
    }

    fn accepts(ty: &Type) -> bool {
        matches!(*ty, Type::INT4 | Type::INT8 | Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::UNKNOWN)
    }

    to_sql_checked!();
}

/// What the server answers, as a cell.
struct Answered(Cell);

impl FromSql<'_> for Answered {
    fn from_sql(ty: &Type, raw: &[u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(match *ty {
            Type::INT8 => Cell::Int(i64::from_sql(ty, raw)?),
            Type::INT4 => Cell::Int(i64::from(i32::from_sql(ty, raw)?)),
            Type::NUMERIC => numeric(raw).ok_or("a number that is none")?,
            _ => Cell::Text(String::from_sql(&Type::TEXT, raw)?),
        }))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(Cell::Null))
    }

    fn accepts(ty: &Type) -> bool {
        Parameter::accepts(ty) || *ty == Type::NUMERIC || *ty == Type::NAME
    }
}

/// A number as the server writes a NUMERIC: a header of four 16-bit words (number of digits, weight
/// of the first, sign, scale), then its digits to the base of ten thousand. What is not whole
/// becomes a text, with all its digits.
fn numeric(raw: &[u8]) -> Option<Cell> {
    numeric_text(raw).map(|text| number(&text))
}

/// The digits of a NUMERIC in binary; none if it is no number.
#[must_use]
pub fn numeric_text(raw: &[u8]) -> Option<String> {
    let word = |at: usize| Some(u16::from_be_bytes([*raw.get(2 * at)?, *raw.get(2 * at + 1)?]));
    let (digits, weight, sign, scale) = (i64::from(word(0)?), i64::from(word(1)? as i16), word(2)?, word(3)?);
    let sign = match sign {
        0 => "",
        0x4000 => "-",
        _ => return None,
    };
    let digit = |place: i64| if (0..digits).contains(&place) { word(4 + place as usize) } else { Some(0) };
    let group = |place: i64| Some(format!("{:04}", digit(place)?));
    let whole = (0..=weight).map(group).collect::<Option<String>>()?;
    let behind = weight + 1..weight + 1 + i64::from(scale.div_ceil(4));
    let mut rest = behind.map(group).collect::<Option<String>>()?;
    rest.truncate(usize::from(scale));
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    let point = if rest.is_empty() { "" } else { "." };
    Some(format!("{sign}{whole}{point}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numerics_are_numbers_or_texts() {
        let raw = |words: &[u16]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
        assert_eq!(numeric(&raw(&[2, 1, 0, 0, 12, 345])), Some(Cell::Int(120_345)));
        assert_eq!(numeric(&raw(&[1, 1, 0x4000, 0, 3])), Some(Cell::Int(-30_000)));
        assert_eq!(numeric(&raw(&[0, 0, 0, 0])), Some(Cell::Int(0)));
        assert_eq!(numeric(&raw(&[2, 0, 0, 2, 1, 5000])), Some(Cell::from("1.50")));
        assert_eq!(numeric(&raw(&[1, u16::MAX, 0x4000, 2, 2500])), Some(Cell::from("-0.25")));
        assert_eq!(numeric(&raw(&[1, u16::MAX - 1, 0, 6, 1200])), Some(Cell::from("0.000012")));
        assert_eq!(numeric(&raw(&[0, 0, 0xC000, 0])), None, "NaN");
        assert_eq!(numeric(&[1]), None);
    }
}
