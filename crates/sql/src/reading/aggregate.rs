//! Aggregate functions over the rows of a group.
//!
//! A sum of doubles depends on the order of the rows unless every partial sum is exact; where it is
//! not, there is no one answer, and evaluation says so.

use std::collections::HashSet;

use crate::compare::order;
use crate::decimal::Decimal;
use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::reading::arith::{self, decimal_overflow, divide_for_output, integer_overflow};
use crate::reading::expr::Class;
use crate::reading::plan::{Aggregate, AggregateKind};
use crate::value::Value;

/// What an aggregate has seen so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accumulator {
    count: i64,
    integers: i128,
    decimals: Option<Decimal>,
    floats: Vec<f64>,
    best: Value,
    seen: HashSet<Value>,
}

impl Accumulator {
    /// Takes the argument's value for one row; for `COUNT(*)` it is not NULL.
    pub fn add(&mut self, aggregate: &Aggregate, value: &Value, dialect: Dialect) -> Result<(), SqlError> {
        let odd = matches!(value, Value::Text(text) if !dialect.knows_equals_of(text));
        if aggregate.distinct && odd {
            return Err(SqlError::unsupported("DISTINCT over text beyond ASCII, or with trailing spaces"));
        }
        if value.is_null() || aggregate.distinct && !self.seen.insert(value.group_key(dialect)) {
            return Ok(());
        }
        self.count += 1;
        match aggregate.kind {
            AggregateKind::Count => Ok(()),
            AggregateKind::Min => self.keep_better(value, std::cmp::Ordering::Less, dialect),
            AggregateKind::Max => self.keep_better(value, std::cmp::Ordering::Greater, dialect),
            AggregateKind::Sum | AggregateKind::Avg => self.sum(value, dialect),
        }
    }

    fn keep_better(
        &mut self,
        value: &Value,
        wanted: std::cmp::Ordering,
        dialect: Dialect,
    ) -> Result<(), SqlError> {
        match order(value, &self.best, dialect)? {
            None => self.best = value.clone(),
            Some(order) if order == wanted => self.best = value.clone(),
            Some(order) if order.is_eq() && *value != self.best => {
                return Err(SqlError::unsupported("MIN or MAX among values that are equal but not the same"));
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn sum(&mut self, value: &Value, dialect: Dialect) -> Result<(), SqlError> {
        match value {
            Value::Int(number) => self.integers += i128::from(*number),
            Value::Float(number) => self.floats.push(*number),
            Value::Decimal(number) => {
                let sum = self.decimals.unwrap_or(Decimal::from(0)).checked_add(*number);
                self.decimals = Some(sum.ok_or_else(decimal_overflow)?);
            }
            Value::Bool(truth) if !dialect.is_strict() => self.integers += i128::from(*truth),
            other => return Err(SqlError::Type(format!("the sum of {}", other.type_name()))),
        }
        Ok(())
    }

    /// The aggregate's value.
    pub fn finish(&self, aggregate: &Aggregate, dialect: Dialect) -> Result<Value, SqlError> {
        match aggregate.kind {
            AggregateKind::Count => Ok(Value::Int(self.count)),
            AggregateKind::Min | AggregateKind::Max => Ok(self.best.clone()),
            _ if self.count == 0 => Ok(Value::Null),
            AggregateKind::Sum => self.total(aggregate.class, dialect),
            AggregateKind::Avg => self.average(aggregate, dialect),
        }
    }

    fn total(&self, class: Class, dialect: Dialect) -> Result<Value, SqlError> {
        if !self.floats.is_empty() {
            return self.float_total().map(Value::Float);
        }
        let whole = Decimal::new(self.integers, 0).ok_or_else(decimal_overflow)?;
        if let Some(decimals) = self.decimals {
            return decimals.checked_add(whole).map(Value::Decimal).ok_or_else(decimal_overflow);
        }
        let integer = dialect == Dialect::Sqlite || dialect.is_strict() && class == Class::Int;
        if integer {
            return i64::try_from(self.integers).map(Value::Int).map_err(|_| integer_overflow());
        }
        Ok(Value::Decimal(whole))
    }

    fn average(&self, aggregate: &Aggregate, dialect: Dialect) -> Result<Value, SqlError> {
        let count = Value::Int(self.count);
        if dialect == Dialect::Sqlite || !self.floats.is_empty() {
            let sum = if self.floats.is_empty() { self.integers as f64 } else { self.float_total()? };
            return Ok(Value::Float(sum / self.count as f64));
        }
        let sum = self.total(Class::Decimal, dialect)?;
        if aggregate.nested {
            return arith::arithmetic(arith::Arith::Div, &sum, &count, dialect);
        }
        divide_for_output(&sum, &count, dialect)
    }

    /// The sum of doubles (and integers among them, in SQLite), if no order of adding them rounds.
    fn float_total(&self) -> Result<f64, SqlError> {
        let whole = self.integers as f64;
        let all = || self.floats.iter().copied().chain(std::iter::once(whole));
        let grain = all().filter(|number| *number != 0.0).map(lowest_bit).min().unwrap_or(0);
        let size: f64 = all().map(f64::abs).sum();
        if size.is_finite() && (size == 0.0 || size.log2() - f64::from(grain) < 52.0) {
            return Ok(all().sum());
        }
        Err(SqlError::unsupported("a sum of floats that depends on the order of the rows"))
    }
}

/// The exponent of the lowest bit that is set in a double.
fn lowest_bit(number: f64) -> i32 {
    let bits = number.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    match (exponent, fraction) {
        (0, _) => -1074 + fraction.trailing_zeros() as i32,
        (_, 0) => exponent - 1023,
        _ => exponent - 1023 - 52 + fraction.trailing_zeros() as i32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowest_bits() {
        for (number, bit) in [(1.0, 0), (0.5, -1), (0.75, -2), (6.0, 1), (2f64.powi(-1074), -1074)] {
            assert_eq!(lowest_bit(number), bit, "{number}");
        }
    }

    #[test]
    fn float_sums_must_not_depend_on_order() {
        let sum =
            |floats: &[f64]| Accumulator { floats: floats.to_vec(), ..Default::default() }.float_total();
        assert_eq!(sum(&[0.5, 0.25, 4.0]).unwrap(), 4.75);
        assert!(sum(&[0.1, 0.2, 0.3]).is_err());
    }
}
