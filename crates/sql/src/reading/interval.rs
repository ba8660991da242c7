//! One side of a box: the values of one column.

use std::cmp::Ordering;
use std::ops::Bound;

use crate::compare::compare;
use crate::dialect::Dialect;
use crate::error::SqlError;
use crate::value::Value;

/// The bounds cannot be put in order: the region is too complex.
#[derive(Debug)]
pub(crate) struct Incomparable;

impl From<SqlError> for Incomparable {
    fn from(_: SqlError) -> Self {
        Incomparable
    }
}

/// The values that one column may have. A column without a side may have every value and NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Null(Domain),
    Values(Interval),
}

/// What a column's values are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Domain {
    /// The column holds integers only, so that bounds can be made closed.
    pub integer: bool,
    /// Whose order the values have.
    pub dialect: Dialect,
}

/// The values between two bounds, NULL not among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    low: Bound<Value>,
    high: Bound<Value>,
    domain: Domain,
}

impl Interval {
    /// Every value but NULL.
    pub fn all(domain: Domain) -> Self {
        Interval { low: Bound::Unbounded, high: Bound::Unbounded, domain }
    }

    /// The same column's values between other bounds, or `None` if there are none.
    pub fn between(&self, low: Bound<Value>, high: Bound<Value>) -> Result<Option<Self>, Incomparable> {
        let (low, high) =
            if self.domain.integer { (closed_low(low), closed_high(high)) } else { (low, high) };
        let (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) =
            (&low, &high)
        else {
            return Ok(Some(Interval { low, high, domain: self.domain }));
        };
        let touches = matches!((&low, &high), (Bound::Included(_), Bound::Included(_)));
        let empty = match order(a, b, self.domain.dialect)? {
            Ordering::Less => false,
            Ordering::Equal => !touches,
            Ordering::Greater => true,
        };
        Ok((!empty).then_some(Interval { low, high, domain: self.domain }))
    }

    fn intersect(&self, other: &Self) -> Result<Option<Self>, Incomparable> {
        let low = tighter(&self.low, &other.low, Ordering::Greater, self.domain.dialect)?;
        let high = tighter(&self.high, &other.high, Ordering::Less, self.domain.dialect)?;
        self.between(low, high)
    }

    /// What is left of the interval without the other: the parts below and above it.
    fn minus(&self, other: &Self) -> Result<Vec<Self>, Incomparable> {
        let mut rest = Vec::new();
        if let Some(high) = opposite(&other.low) {
            let below = Interval { low: Bound::Unbounded, high, domain: self.domain };
            rest.extend(self.intersect(&below)?);
        }
        if let Some(low) = opposite(&other.high) {
            let above = Interval { low, high: Bound::Unbounded, domain: self.domain };
            rest.extend(self.intersect(&above)?);
        }
        Ok(rest)
    }
}

impl Side {
    /// The values of both sides, or `None` if there are none.
    pub fn intersect(&self, other: &Side) -> Result<Option<Side>, Incomparable> {
        match (self, other) {
            (Side::Null(domain), Side::Null(_)) => Ok(Some(Side::Null(*domain))),
            (Side::Values(a), Side::Values(b)) => Ok(a.intersect(b)?.map(Side::Values)),
            _ => Ok(None),
        }
    }

    /// The values of `whole` (of every value if it is `None`) that are not in this side.
    pub fn complement_in(&self, whole: Option<&Side>) -> Result<Vec<Side>, Incomparable> {
        let values = |interval: &Interval, from: &Interval| -> Result<Vec<Side>, Incomparable> {
            Ok(from.minus(interval)?.into_iter().map(Side::Values).collect())
        };
        match (whole, self) {
            (None, Side::Null(domain)) => Ok(vec![Side::Values(Interval::all(*domain))]),
            (None, Side::Values(interval)) => {
                let mut rest = values(interval, &Interval::all(interval.domain))?;
                rest.push(Side::Null(interval.domain));
                Ok(rest)
            }
            (Some(Side::Null(_)), Side::Null(_)) => Ok(Vec::new()),
            (Some(Side::Values(from)), Side::Values(interval)) => values(interval, from),
            (Some(other), _) => Ok(vec![other.clone()]),
        }
    }
}

fn order(a: &Value, b: &Value, dialect: Dialect) -> Result<Ordering, Incomparable> {
    let mixed = matches!((a, b), (Value::Decimal(_), Value::Float(_)) | (Value::Float(_), Value::Decimal(_)));
    let text = |value: &Value| matches!(value, Value::Text(_));
    // Decimals are compared with doubles after rounding, and MySQL compares text with numbers by
    // its prefix: neither is an order over three values.
    if mixed || text(a) != text(b) {
        return Err(Incomparable);
    }
    // PostgreSQL's texts are points here and never ends of ranges: any one order of them will do.
    compare(a, b, dialect)?.ok_or(Incomparable)
}

/// The tighter of two bounds: the greater (`toward` is Greater) of lower bounds, the lesser of
/// upper ones.
fn tighter(
    a: &Bound<Value>,
    b: &Bound<Value>,
    toward: Ordering,
    dialect: Dialect,
) -> Result<Bound<Value>, Incomparable> {
    let (Bound::Included(x) | Bound::Excluded(x)) = a else { return Ok(b.clone()) };
    let (Bound::Included(y) | Bound::Excluded(y)) = b else { return Ok(a.clone()) };
    let first = match order(x, y, dialect)? {
        Ordering::Equal => matches!(a, Bound::Excluded(_)),
        other => other == toward,
    };
    Ok(if first { a.clone() } else { b.clone() })
}

/// The bound of the other side of the same cut.
fn opposite(bound: &Bound<Value>) -> Option<Bound<Value>> {
    match bound {
        Bound::Included(value) => Some(Bound::Excluded(value.clone())),
        Bound::Excluded(value) => Some(Bound::Included(value.clone())),
        Bound::Unbounded => None,
    }
}

fn closed_low(bound: Bound<Value>) -> Bound<Value> {
    match &bound {
        Bound::Excluded(Value::Int(value)) => match value.checked_add(1) {
            Some(next) => Bound::Included(Value::Int(next)),
            None => bound,
        },
        Bound::Included(value) | Bound::Excluded(value) => match whole(value) {
            Some((floor, true)) => closed_low(same_kind(&bound, floor)),
            Some((floor, false)) => closed_low(Bound::Excluded(Value::Int(floor))),
            None => bound,
        },
        Bound::Unbounded => bound,
    }
}

fn closed_high(bound: Bound<Value>) -> Bound<Value> {
    match &bound {
        Bound::Excluded(Value::Int(value)) => match value.checked_sub(1) {
            Some(previous) => Bound::Included(Value::Int(previous)),
            None => bound,
        },
        Bound::Included(value) | Bound::Excluded(value) => match whole(value) {
            Some((floor, true)) => closed_high(same_kind(&bound, floor)),
            Some((floor, false)) => Bound::Included(Value::Int(floor)),
            None => bound,
        },
        Bound::Unbounded => bound,
    }
}

fn same_kind(bound: &Bound<Value>, value: i64) -> Bound<Value> {
    match bound {
        Bound::Excluded(_) => Bound::Excluded(Value::Int(value)),
        _ => Bound::Included(Value::Int(value)),
    }
}

/// The floor of a number that is not an integer value, and whether it is the number itself.
fn whole(value: &Value) -> Option<(i64, bool)> {
    match value {
        Value::Decimal(number) => {
            let floor = number.floor()?;
            Some((floor.to_integer()?, floor == *number))
        }
        Value::Float(number) if number.abs() < 9.0e15 => {
            Some((number.floor() as i64, number.floor() == *number))
        }
        _ => None,
    }
}
