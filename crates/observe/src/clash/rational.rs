//! Exact fractions; nothing where they become too large.

/// A fraction in lowest terms, with a positive denominator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rational {
    /// Above the line.
    pub above: i128,
    /// Below the line.
    pub below: i128,
}

impl Rational {
    /// 0.
    pub const ZERO: Rational = Rational { above: 0, below: 1 };

    fn new(above: i128, below: i128) -> Option<Self> {
        let common = gcd(above, below);
        let sign = if below < 0 { -1 } else { 1 };
        let (above, below) = (above.checked_div(common)?, below.checked_div(common)?);
        Some(Self { above: above.checked_mul(sign)?, below: below.checked_mul(sign)? })
    }

    /// The sum.
    pub fn add(self, other: Self) -> Option<Self> {
        if self.below == 1 && other.below == 1 {
            return Some(Self { above: self.above.checked_add(other.above)?, below: 1 });
        }
        let (a, b) = (self.above.checked_mul(other.below)?, other.above.checked_mul(self.below)?);
        Self::new(a.checked_add(b)?, self.below.checked_mul(other.below)?)
    }

    /// The difference.
    pub fn minus(self, other: Self) -> Option<Self> {
        self.add(other.negated()?)
    }

    /// The product.
    pub fn times(self, other: Self) -> Option<Self> {
        Self::new(self.above.checked_mul(other.above)?, self.below.checked_mul(other.below)?)
    }

    /// The quotient; nothing when dividing by 0.
    pub fn over(self, other: Self) -> Option<Self> {
        Self::new(self.above.checked_mul(other.below)?, self.below.checked_mul(other.above)?)
            .filter(|_| other.above != 0)
    }

    /// The negated fraction.
    pub fn negated(self) -> Option<Self> {
        Some(Self { above: self.above.checked_neg()?, below: self.below })
    }

    /// Whether it is less than an integer.
    pub fn is_less(self, integer: i128) -> Option<bool> {
        Some(self.above < integer.checked_mul(self.below)?)
    }

    /// Whether it is greater than an integer.
    pub fn is_greater(self, integer: i128) -> Option<bool> {
        Some(self.above > integer.checked_mul(self.below)?)
    }

    /// The largest integer that is not greater.
    pub fn floor(self) -> i128 {
        self.above.div_euclid(self.below)
    }
}

impl From<i128> for Rational {
    fn from(integer: i128) -> Self {
        Self { above: integer, below: 1 }
    }
}

/// The greatest common divisor; 1 for nothing.
pub fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i128::try_from(a).unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_add_up() {
        let half = Rational::from(1).over(Rational::from(-2)).unwrap();
        assert_eq!((half.above, half.below, half.floor()), (-1, 2, -1));
        assert_eq!(half.add(half), Some(Rational::from(-1)));
        assert_eq!(half.times(Rational::from(-4)), Some(Rational::from(2)));
        assert_eq!(half.over(Rational::ZERO), None);
        assert_eq!((half.is_less(0), half.is_greater(-1)), (Some(true), Some(true)));
        assert_eq!(Rational::from(i128::MAX).add(1.into()), None);
    }
}
