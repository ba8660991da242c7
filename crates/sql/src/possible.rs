//! What a value can be: a set that is never smaller than the truth.
//!
//! # Mathematics
//! Three kinds of sets are enough: anything; finitely many values; and the exact numbers `low`,
//! `low + step`, … `high`. Operations that have no exact answer here give a larger set, in the end
//! [`Possible::Any`].

use std::collections::BTreeSet;
use std::fmt;

use crate::decimal::Decimal;
use crate::value::Value;

/// The most values that are kept one by one.
const MOST_VALUES: usize = 4096;

/// What a value can be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Possible {
    /// Anything.
    Any,
    /// One of these.
    Of(BTreeSet<Value>),
    /// One of these numbers.
    Numbers(Numbers),
}

/// The numbers `low`, `low + step`, … up to `high`, in units of 10^-`scale`; and NULL, if `null`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numbers {
    /// The least one.
    pub low: i128,
    /// The greatest one.
    pub high: i128,
    /// The distance between neighbours, at least 1.
    pub step: i128,
    /// The digits after the point.
    pub scale: u32,
    /// Whether NULL is possible too.
    pub null: bool,
}

impl Possible {
    /// No value at all.
    pub fn nothing() -> Self {
        Possible::Of(BTreeSet::new())
    }

    /// This value only.
    pub fn one(value: Value) -> Self {
        Possible::Of(BTreeSet::from([value]))
    }

    /// These numbers; anything if an integer leaves its 64 bits, where databases differ in what
    /// happens.
    pub fn numbers(numbers: Numbers) -> Self {
        let fits = |number: i128| i64::try_from(number).is_ok();
        if numbers.step < 1 || numbers.scale == 0 && !(fits(numbers.low) && fits(numbers.high)) {
            return Possible::Any;
        }
        Possible::Numbers(numbers)
    }

    /// Adds what another set has.
    pub fn join(&mut self, other: Possible) {
        *self = match (std::mem::replace(self, Possible::Any), other) {
            (Possible::Any, _) | (_, Possible::Any) => Possible::Any,
            (Possible::Of(mut own), Possible::Of(mut more)) => {
                if more.len() > own.len() {
                    std::mem::swap(&mut own, &mut more);
                }
                own.extend(more);
                let full = own.len() > MOST_VALUES;
                let all = Possible::Of(own);
                if full { all.hull().map_or(Possible::Any, Possible::numbers) } else { all }
            }
            (Possible::Of(none), set) | (set, Possible::Of(none)) if none.is_empty() => set,
            (own, more) => match (own.hull(), more.hull()) {
                (Some(own), Some(more)) => own.join(more).map_or(Possible::Any, Possible::numbers),
                _ => Possible::Any,
            },
        };
    }

    /// How many values are kept one by one, at least 1.
    pub fn size(&self) -> u64 {
        match self {
            Possible::Of(values) => values.len().max(1) as u64,
            Possible::Any | Possible::Numbers(_) => 1,
        }
    }

    /// The numbers around the set; `None` if there are other values than exact numbers and NULL, or
    /// no number at all.
    pub fn hull(&self) -> Option<Numbers> {
        match self {
            Possible::Any => None,
            Possible::Numbers(numbers) => Some(*numbers),
            Possible::Of(values) => {
                let null = values.contains(&Value::Null);
                let numbers = values.iter().filter(|value| !value.is_null()).map(Numbers::of);
                let hull = numbers.reduce(|own, more| own?.join(more?))??;
                Some(Numbers { null, ..hull })
            }
        }
    }

    /// The sums of one of its numbers and one of `from ..= to`, which lie `step` apart in units of
    /// 10^-`scale` (0 if they are one). NULL stays NULL.
    #[must_use]
    pub fn shifted(&self, (from, to): (i128, i128), step: i128, scale: u32) -> Possible {
        match self {
            _ if (from, to) == (0, 0) => return self.clone(),
            Possible::Of(values) if values.iter().all(Value::is_null) => return self.clone(),
            _ => {}
        }
        let sum = self.hull().and_then(|own| {
            let finer = own.scale.max(scale);
            let (own, unit) = (own.at(finer)?, 10_i128.checked_pow(finer - scale)?);
            let part = |number: i128| number.checked_mul(unit);
            Some(Numbers {
                low: own.low.checked_add(part(from)?)?,
                high: own.high.checked_add(part(to)?)?,
                step: gcd(own.steps(), part(step)?).max(1),
                ..own
            })
        });
        sum.map_or(Possible::Any, Possible::numbers)
    }

    /// Whether everything in another set is in this one.
    pub fn includes(&self, other: &Possible) -> bool {
        match (self, other) {
            (Possible::Any, _) => true,
            (_, Possible::Any) => false,
            (_, Possible::Of(values)) => values.iter().all(|value| self.has(value)),
            (Possible::Of(_), Possible::Numbers(_)) => false,
            (Possible::Numbers(own), Possible::Numbers(other)) => own.includes(*other),
        }
    }

    /// Whether a stored value is in the set.
    pub fn has(&self, value: &Value) -> bool {
        match self {
            Possible::Any => true,
            Possible::Of(values) => values.contains(value),
            Possible::Numbers(numbers) if value.is_null() => numbers.null,
            Possible::Numbers(numbers) => Numbers::of(value).is_some_and(|one| numbers.includes(one)),
        }
    }
}

impl Numbers {
    /// Whether a number is among them.
    pub fn has(self, number: Decimal) -> bool {
        self.includes(Numbers::exactly(number))
    }

    /// The numbers that an exact number is.
    fn exactly(number: Decimal) -> Self {
        let low = number.mantissa();
        Numbers { low, high: low, step: 1, scale: number.scale(), null: false }
    }

    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Int(number) => Some(Numbers::exactly(Decimal::from(*number))),
            Value::Decimal(number) => Some(Numbers::exactly(*number)),
            _ => None,
        }
    }

    /// The same numbers in smaller units.
    fn at(self, scale: u32) -> Option<Self> {
        let unit = 10_i128.checked_pow(scale.checked_sub(self.scale)?)?;
        let part = |number: i128| number.checked_mul(unit);
        let step = if self.low == self.high { 1 } else { part(self.step)? };
        Some(Numbers { low: part(self.low)?, high: part(self.high)?, step, scale, null: self.null })
    }

    /// Numbers among which all of both are.
    fn join(self, other: Self) -> Option<Self> {
        let (a, b) = self.aligned(other)?;
        let distance = a.low.checked_sub(b.low)?;
        let step = gcd(gcd(a.steps(), b.steps()), distance).max(1);
        let (low, high) = (a.low.min(b.low), a.high.max(b.high));
        Some(Numbers { low, high, step, scale: a.scale, null: a.null || b.null })
    }

    fn includes(self, other: Self) -> bool {
        let Some((a, b)) = self.aligned(other) else { return false };
        let Some(distance) = b.low.checked_sub(a.low) else { return false };
        let apart = gcd(distance, b.steps());
        a.low <= b.low && b.high <= a.high && (a.null || !b.null) && apart % a.step == 0
    }

    /// The distance between neighbours; 0 if there are none.
    fn steps(self) -> i128 {
        if self.low == self.high { 0 } else { self.step }
    }

    /// The same numbers in units of 10^-`scale`, if these are not larger.
    pub(crate) fn in_units_of(self, scale: u32) -> Option<Self> {
        self.at(scale)
    }

    /// The numbers among them that lie whole steps from this one, which the first and the last then
    /// do.
    pub(crate) fn in_steps_of(self, one: i128) -> Self {
        let beyond =
            |number: i128| number.checked_sub(one).map_or(0, |distance| distance.rem_euclid(self.step));
        let (low, high) = (beyond(self.low), beyond(self.high));
        let low = if low == 0 { self.low } else { self.low + (self.step - low) };
        Numbers { low, high: self.high - high, ..self }
    }

    /// Both in the same units.
    pub(crate) fn aligned(self, other: Self) -> Option<(Self, Self)> {
        let scale = self.scale.max(other.scale);
        Some((self.at(scale)?, other.at(scale)?))
    }

    /// Whether a number may be in both, which have the same units.
    pub(crate) fn meets(self, other: Self) -> bool {
        let apart = gcd(self.steps(), other.steps());
        let Some(distance) = self.low.checked_sub(other.low) else { return true };
        let in_step = apart == 0 && distance == 0 || apart != 0 && distance % apart == 0;
        in_step && self.low <= other.high && other.low <= self.high
    }

    /// Whether both are the same single number, in the same units.
    pub(crate) fn is_one(self, other: Self) -> bool {
        self.low == self.high && other.low == other.high && self.low == other.low
    }
}

pub(crate) fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i128::try_from(a).unwrap_or(1)
}

/// How many values are told one by one.
const TOLD: usize = 6;

impl fmt::Display for Possible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Possible::Any => f.write_str("anything"),
            Possible::Of(values) if values.is_empty() => f.write_str("nothing"),
            Possible::Of(values) => {
                let told: Vec<String> = values.iter().take(TOLD).map(ToString::to_string).collect();
                f.write_str(&told.join(" or "))?;
                match values.len() - told.len() {
                    0 => Ok(()),
                    more => write!(f, " or one of {more} other values"),
                }
            }
            Possible::Numbers(Numbers { low, high, step, scale, null }) => {
                let show =
                    |number: i128| Decimal::new(number, *scale).map_or_else(String::new, |d| d.to_string());
                write!(f, "between {} and {}", show(*low), show(*high))?;
                if *step > 1 {
                    write!(f, " in steps of {}", show(*step))?;
                }
                if *null { f.write_str(" or NULL") } else { Ok(()) }
            }
        }
    }
}
