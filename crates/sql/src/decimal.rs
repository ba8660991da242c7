//! Exact decimal numbers: a 128-bit mantissa and a scale.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

/// The largest scale that is kept.
const MAX_SCALE: u32 = 37;

/// An exact decimal number: `mantissa / 10^scale`.
///
/// Equality is numeric (1.0 equals 1.00); the scale is kept because the databases' division depends
/// on it.
#[derive(Clone, Copy, Debug)]
pub struct Decimal {
    /// The mantissa's size in two halves: a 128-bit field would make every value larger by its
    /// alignment.
    high: u64,
    low: u64,
    scale: u8,
    /// Apart from the size, because a truth value leaves room for a value to say in the same byte
    /// that it is no decimal at all.
    negative: bool,
}

impl Decimal {
    /// `mantissa / 10^scale`, or `None` if the scale is too large.
    pub fn new(mantissa: i128, scale: u32) -> Option<Self> {
        (scale <= MAX_SCALE).then(|| Decimal::raw(mantissa, scale))
    }

    fn raw(mantissa: i128, scale: u32) -> Self {
        let size = mantissa.unsigned_abs();
        let (high, low) = ((size >> 64) as u64, size as u64);
        Decimal { high, low, scale: scale as u8, negative: mantissa < 0 }
    }

    /// The unscaled number.
    pub fn mantissa(self) -> i128 {
        let size = (u128::from(self.high) << 64) | u128::from(self.low);
        if self.negative { 0_i128.wrapping_sub_unsigned(size) } else { size as i128 }
    }

    /// The number of digits after the point.
    pub fn scale(self) -> u32 {
        u32::from(self.scale)
    }

    /// True for zero at every scale.
    pub fn is_zero(self) -> bool {
        self.mantissa() == 0
    }

    /// The number as an integer, if it is one that fits.
    pub fn to_integer(self) -> Option<i64> {
        let exact = self.normalized();
        if exact.scale() == 0 { i64::try_from(exact.mantissa()).ok() } else { None }
    }

    /// The nearest double.
    pub fn to_f64(self) -> f64 {
        self.to_string().parse().unwrap_or(f64::NAN)
    }

    /// The same number with exactly `scale` digits after the point, rounded half away from zero.
    pub fn rescale(self, scale: u32) -> Option<Self> {
        if scale > MAX_SCALE {
            return None;
        }
        if scale >= self.scale() {
            let mantissa = self.mantissa().checked_mul(power(scale - self.scale())?)?;
            return Some(Decimal::raw(mantissa, scale));
        }
        let unit = power(self.scale() - scale)?;
        Some(Decimal::raw(round_quotient(self.mantissa(), unit), scale))
    }

    /// The largest integer at most the number.
    pub fn floor(self) -> Option<Self> {
        let unit = power(self.scale())?;
        Some(Decimal::raw(self.mantissa().div_euclid(unit), 0))
    }

    /// The number without its digits after the point beyond `scale`.
    pub fn truncate(self, scale: u32) -> Option<Self> {
        if scale >= self.scale() {
            return Some(self);
        }
        Some(Decimal::raw(self.mantissa() / power(self.scale() - scale)?, scale))
    }

    /// The negated number.
    pub fn checked_neg(self) -> Option<Self> {
        Some(Decimal::raw(self.mantissa().checked_neg()?, self.scale()))
    }

    /// The sum, at the larger scale.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        let (left, right, scale) = aligned(self, other)?;
        Some(Decimal::raw(left.checked_add(right)?, scale))
    }

    /// The difference, at the larger scale.
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.checked_add(other.checked_neg()?)
    }

    /// The product, at the sum of the scales.
    pub fn checked_mul(self, other: Self) -> Option<Self> {
        let scale = self.scale() + other.scale();
        Decimal::new(self.mantissa().checked_mul(other.mantissa())?, scale)
    }

    /// The remainder of the truncating division, at the larger scale.
    pub fn checked_rem(self, other: Self) -> Option<Self> {
        let (left, right, scale) = aligned(self, other)?;
        Some(Decimal::raw(left.checked_rem(right)?, scale))
    }

    /// The quotient rounded half away from zero to `scale` digits, and whether it is exact.
    pub fn checked_div(self, other: Self, scale: u32) -> Option<(Self, bool)> {
        let (left, right, _) = aligned(self, other)?;
        if right == 0 {
            return None;
        }
        let negative = (left < 0) != (right < 0);
        let (left, right) = (left.unsigned_abs(), right.unsigned_abs());
        let (mut quotient, mut rest) = (left / right, left % right);
        for _ in 0..scale {
            rest = rest.checked_mul(10)?;
            quotient = quotient.checked_mul(10)?.checked_add(rest / right)?;
            rest %= right;
        }
        let exact = rest == 0;
        if rest >= right - rest && !exact {
            quotient = quotient.checked_add(1)?;
        }
        let mantissa = i128::try_from(quotient).ok()?;
        Some((Decimal::new(if negative { -mantissa } else { mantissa }, scale)?, exact))
    }

    /// The scale that PostgreSQL gives the quotient: at least sixteen significant digits, counted
    /// in groups of four as its storage does.
    pub fn postgres_div_scale(self, other: Self) -> u32 {
        let (weight, first) = self.leading_group();
        let (other_weight, other_first) = other.leading_group();
        let mut quotient_weight = weight - other_weight;
        if first <= other_first {
            quotient_weight -= 1;
        }
        let wanted = (16 - quotient_weight * 4).max(0);
        u32::try_from(wanted).unwrap_or(0).max(self.scale()).max(other.scale())
    }

    /// The weight, in powers of 10000, of the first nonzero group of four digits, and that group.
    fn leading_group(self) -> (i64, u128) {
        let padding = (4 - self.scale() % 4) % 4;
        let mut rest = self.mantissa().unsigned_abs();
        if rest == 0 {
            return (0, 0);
        }
        let mut weight = -(i64::from(self.scale() + padding) / 4);
        // The last group may be incomplete: only its digits before the padding are in the mantissa.
        let unit = 10u128.pow(4 - padding);
        if rest < unit {
            return (weight, rest * 10u128.pow(padding));
        }
        rest /= unit;
        weight += 1;
        while rest >= 10_000 {
            rest /= 10_000;
            weight += 1;
        }
        (weight, rest)
    }

    fn normalized(self) -> Self {
        let mut exact = self;
        while exact.scale() > 0 && exact.mantissa() % 10 == 0 {
            exact = Decimal::raw(exact.mantissa() / 10, exact.scale() - 1);
        }
        exact
    }
}

fn power(exponent: u32) -> Option<i128> {
    10i128.checked_pow(exponent)
}

fn round_quotient(number: i128, unit: i128) -> i128 {
    let (quotient, rest) = (number / unit, number % unit);
    if rest.unsigned_abs() >= unit.unsigned_abs() - rest.unsigned_abs() && rest != 0 {
        return quotient + number.signum();
    }
    quotient
}

fn aligned(left: Decimal, right: Decimal) -> Option<(i128, i128, u32)> {
    let scale = left.scale().max(right.scale());
    let left = left.mantissa().checked_mul(power(scale - left.scale())?)?;
    let right = right.mantissa().checked_mul(power(scale - right.scale())?)?;
    Some((left, right, scale))
}

impl From<i64> for Decimal {
    fn from(number: i64) -> Self {
        Decimal::raw(i128::from(number), 0)
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal {}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match aligned(*self, *other) {
            Some((left, right, _)) => left.cmp(&right),
            // Alignment overflowed: the integer parts differ, or the normal forms are short enough.
            None => compare_parts(self.normalized(), other.normalized()),
        }
    }
}

/// Compares by integer part, then by the fraction padded to the largest scale.
fn compare_parts(left: Decimal, right: Decimal) -> Ordering {
    let split = |number: Decimal| {
        let unit = power(number.scale()).unwrap_or(i128::MAX);
        let fraction = number.mantissa().rem_euclid(unit);
        (number.mantissa().div_euclid(unit), fraction * power(MAX_SCALE - number.scale()).unwrap_or(1))
    };
    split(left).cmp(&split(right))
}

impl Hash for Decimal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let exact = self.normalized();
        exact.mantissa().hash(state);
        exact.scale().hash(state);
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.mantissa() < 0 { "-" } else { "" };
        let digits = self.mantissa().unsigned_abs().to_string();
        let scale = self.scale() as usize;
        if scale == 0 {
            return write!(f, "{sign}{digits}");
        }
        let digits = format!("{digits:0>width$}", width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        write!(f, "{sign}{whole}.{fraction}")
    }
}

/// The text is no decimal number, or has too many digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotDecimal;

impl FromStr for Decimal {
    type Err = NotDecimal;

    fn from_str(text: &str) -> Result<Self, NotDecimal> {
        let (number, exponent) = match text.find(['e', 'E']) {
            Some(at) => (&text[..at], text[at + 1..].parse::<i32>().map_err(|_| NotDecimal)?),
            None => (text, 0),
        };
        let (negative, digits) = match number.as_bytes().first() {
            Some(b'-') => (true, &number[1..]),
            Some(b'+') => (false, &number[1..]),
            _ => (false, number),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all = format!("{whole}{fraction}");
        if all.is_empty() || !all.bytes().all(|b| b.is_ascii_digit()) {
            return Err(NotDecimal);
        }
        let mantissa: i128 = all.parse().map_err(|_| NotDecimal)?;
        let mantissa = if negative { -mantissa } else { mantissa };
        shifted(mantissa, fraction.len(), exponent).ok_or(NotDecimal)
    }
}

/// `mantissa * 10^(exponent - fraction)`.
fn shifted(mantissa: i128, fraction: usize, exponent: i32) -> Option<Decimal> {
    let scale = i64::try_from(fraction).ok()? - i64::from(exponent);
    if scale >= 0 {
        return Decimal::new(mantissa, u32::try_from(scale).ok()?);
    }
    Decimal::new(mantissa.checked_mul(power(u32::try_from(-scale).ok()?)?)?, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(text: &str) -> Decimal {
        text.parse().unwrap()
    }

    #[test]
    fn a_value_is_three_words() {
        assert_eq!(size_of::<crate::Value>(), 24);
    }

    #[test]
    fn mantissas_of_all_sizes_survive() {
        for mantissa in [0, 1, -1, i128::from(i64::MIN), i128::from(u64::MAX) + 1, i128::MAX, i128::MIN] {
            assert_eq!(Decimal::raw(mantissa, 3).mantissa(), mantissa);
        }
    }

    #[test]
    fn reads_and_writes() {
        for text in ["0", "1.50", "-0.05", "123456789012345678901234567890", "-12.000"] {
            assert_eq!(d(text).to_string(), text);
        }
        assert_eq!(d("1.5e3").to_string(), "1500");
        assert_eq!(d("15e-1").to_string(), "1.5");
        assert!("1.2.3".parse::<Decimal>().is_err());
        assert!("".parse::<Decimal>().is_err());
    }

    #[test]
    fn equality_is_numeric() {
        assert_eq!(d("1.0"), d("1.00"));
        assert!(d("-1.01") < d("-1.001"));
        assert!(d("0.0000000000000000000000000000000000001") < d("99999999999999999999999999999999999999"));
    }

    #[test]
    fn arithmetic_keeps_scales() {
        assert_eq!(d("1.10").checked_add(d("2.2")).unwrap().to_string(), "3.30");
        assert_eq!(d("1.10").checked_mul(d("2.2")).unwrap().to_string(), "2.420");
        assert_eq!(d("-7.5").checked_rem(d("2")).unwrap().to_string(), "-1.5");
        assert_eq!(d("2").checked_div(d("3"), 4).unwrap().0.to_string(), "0.6667");
        assert_eq!(d("-2.345").rescale(2).unwrap().to_string(), "-2.35");
        assert_eq!(d("-2.3").floor().unwrap().to_string(), "-3");
    }

    /// The scales are those that PostgreSQL 15 prints.
    #[test]
    fn postgres_division_scales() {
        for (left, right, quotient) in [
            ("1", "3", "0.33333333333333333333"),
            ("2.0", "3", "0.66666666666666666667"),
            ("10", "3", "3.3333333333333333"),
            ("100000", "3", "33333.333333333333"),
            ("0.5", "0.3", "1.6666666666666667"),
        ] {
            let (left, right) = (d(left), d(right));
            let scale = left.postgres_div_scale(right);
            assert_eq!(left.checked_div(right, scale).unwrap().0.to_string(), quotient);
        }
    }
}
