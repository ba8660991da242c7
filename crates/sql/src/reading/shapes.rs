//! Conditions and assignments by shape: texts that differ in nothing but their integers are parsed
//! once.
//!
//! # Algorithm
//! The first text of a shape is parsed as it stands, and once more with a mark in the place of
//! every integer: a number that no other mark has. If the second, with the integers put back in the
//! place of the marks, is the first, it is kept, and later texts of the shape are made from it.
//!
//! # Invariants
//! What comes out is what parsing the text would give: only operators are allowed whose lowering
//! looks at the type of a literal, not at its value.
//!
//! # Cost
//! One pass over the text and a copy of its expression, a tenth of parsing it.

use std::collections::HashMap;

use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::reading::assign::Assignments;
use crate::reading::cache::{INT, scan};
use crate::reading::expr::Expr;
use crate::reading::predicate::Predicate;
use crate::value::Value;

/// The most shapes that are kept; beyond them texts are parsed.
const MOST_SHAPES: usize = 1_000;

/// The mark of the first integer of a text; the next one has the next number.
const MARK: i64 = 0x4D61_7267_6179_0000;

/// Parses texts of one dialect.
#[derive(Debug)]
pub struct Shapes {
    dialect: Dialect,
    predicates: Kept<Predicate>,
    assignments: Kept<Assignments>,
}

impl Shapes {
    /// Nothing parsed yet.
    pub fn new(dialect: Dialect) -> Self {
        Shapes { dialect, predicates: Kept::default(), assignments: Kept::default() }
    }

    /// As [`Predicate::parse`].
    pub fn predicate(&mut self, text: &str) -> Result<Predicate, SqlError> {
        self.predicates.get(text, self.dialect)
    }

    /// As [`Assignments::parse`].
    pub fn assignments(&mut self, text: &str) -> Result<Assignments, SqlError> {
        self.assignments.get(text, self.dialect)
    }
}

/// Something that is parsed from a text, with integers in it.
trait Parsed: Clone {
    fn parse(text: &str, dialect: Dialect) -> Result<Self, SqlError>;

    fn set_text(&mut self, text: &str);

    fn expressions(&mut self) -> impl Iterator<Item = &mut Expr>;
}

impl Parsed for Predicate {
    fn parse(text: &str, dialect: Dialect) -> Result<Self, SqlError> {
        Predicate::parse(text, dialect)
    }

    fn set_text(&mut self, text: &str) {
        self.replace_text(text);
    }

    fn expressions(&mut self) -> impl Iterator<Item = &mut Expr> {
        std::iter::once(self.expr_mut())
    }
}

impl Parsed for Assignments {
    fn parse(text: &str, dialect: Dialect) -> Result<Self, SqlError> {
        Assignments::parse(text, dialect)
    }

    fn set_text(&mut self, _: &str) {}

    fn expressions(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.expressions_mut()
    }
}

/// By shape: what was parsed with marks, or nothing where texts must be parsed.
#[derive(Debug)]
struct Kept<T> {
    shapes: HashMap<Vec<u8>, Option<T>>,
    shape: Vec<u8>,
    values: Vec<Value>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Kept { shapes: HashMap::new(), shape: Vec::new(), values: Vec::new() }
    }
}

impl<T: Parsed> Kept<T> {
    fn get(&mut self, text: &str, dialect: Dialect) -> Result<T, SqlError> {
        let split = scan(text, dialect, &mut self.shape, &mut self.values);
        if !split || !self.values.iter().all(|value| matches!(value, Value::Int(_))) {
            return T::parse(text, dialect);
        }
        match self.shapes.get(self.shape.as_slice()) {
            Some(Some(marked)) => Ok(filled(marked, text, &self.values)),
            Some(None) => T::parse(text, dialect),
            None => {
                let parsed = T::parse(text, dialect)?;
                if self.shapes.len() < MOST_SHAPES {
                    let marked = marked(&self.shape, text, &self.values, &parsed, dialect);
                    self.shapes.insert(self.shape.clone(), marked);
                }
                Ok(parsed)
            }
        }
    }
}

/// What a shape is with marks in it, if putting the integers back gives what was parsed.
fn marked<T: Parsed>(shape: &[u8], text: &str, values: &[Value], parsed: &T, dialect: Dialect) -> Option<T> {
    let mut marks = MARK..;
    let mut with_marks = Vec::with_capacity(20 * shape.len());
    for &byte in shape {
        match byte {
            INT => with_marks.extend_from_slice(marks.next()?.to_string().as_bytes()),
            other => with_marks.push(other),
        }
    }
    let mut marked = T::parse(std::str::from_utf8(&with_marks).ok()?, dialect).ok()?;
    let mut simple = true;
    marked.expressions().for_each(|expr| expr.each_mut(&mut |part| simple &= is_simple(part)));
    let mut back = filled(&marked, text, values);
    let same = simple && back.expressions().eq(parsed.clone().expressions());
    same.then_some(marked)
}

/// Whether an expression is lowered in the same way whatever its integers are.
fn is_simple(expr: &Expr) -> bool {
    use Expr::{And, Arith, Column, Compare, Literal, Not, Or};
    matches!(expr, Literal(_) | Column(_) | Compare(..) | And(_) | Or(_) | Not(_) | Arith(..))
}

/// A copy with integers in the place of marks.
fn filled<T: Parsed>(marked: &T, text: &str, values: &[Value]) -> T {
    let mut copy = marked.clone();
    copy.set_text(text);
    let mut fill = |part: &mut Expr| {
        if let Expr::Literal(value) = part
            && let Value::Int(mark) = *value
            && let Some(integer) =
                mark.checked_sub(MARK).and_then(|place| values.get(usize::try_from(place).ok()?))
        {
            *value = integer.clone();
        }
    };
    copy.expressions().for_each(|expr| expr.each_mut(&mut fill));
    copy
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every text, twice with other integers, is what parsing it gives.
    #[test]
    fn shapes_change_nothing() {
        let texts = [
            "v >= 0 AND v <= 10",
            "v >= 5 AND v <= 4",
            "v = -3 OR w > 7 AND NOT v < 2",
            "\"V\" % 10 = 3",
            "v BETWEEN 1 AND 2",
            "v IN (1, 2, 3)",
            "v > 1.5 AND w = 'x'",
            "v = 9223372036854775807",
            "v = 9223372036854775808",
            "v = 5571746213937872896",
            "1 = 1",
            "coalesce(v, 3) > 4",
        ];
        for dialect in Dialect::ALL {
            let mut shapes = Shapes::new(dialect);
            for text in texts
                .iter()
                .flat_map(|text| [text.to_string(), text.replace('1', "42"), text.replace('3', "0")])
            {
                let (found, parsed) = (shapes.predicate(&text), Predicate::parse(&text, dialect));
                assert_eq!(found.map_err(|e| e.to_string()), parsed.map_err(|e| e.to_string()), "{text}");
                let set = format!("v = {}, w = v + {}", text.len(), 7 * text.len());
                let (found, parsed) = (shapes.assignments(&set), Assignments::parse(&set, dialect));
                assert_eq!(found.map_err(|e| e.to_string()), parsed.map_err(|e| e.to_string()), "{set}");
            }
            assert!(matches!(shapes.predicates.shapes.get(&b"v >= \x01 AND v <= \x01"[..]), Some(Some(_))));
            assert!(shapes.assignments.shapes.values().all(Option::is_some));
        }
    }
}
