//! Sums of amounts that are each added at most once.
//!
//! # Mathematics
//! A number that was stored, and to which some of the amounts were added since, is at least the
//! stored one plus all negative amounts, at most the stored one plus all positive ones, and differs
//! from it by a multiple of what divides all of them. An amount whose statement bounds the number
//! before (`x = x - 10 WHERE x >= 10`) leaves at least the bound plus the amount: for the lower
//! bound it is as if that had been stored, and only the negative amounts without a bound count.
//! Both lower bounds are true; the better one is taken. The same goes for upper bounds.

use crate::possible::{Numbers, Possible, gcd};
use crate::reading::effect::Amount;

/// Amounts that can be added to a number, each at most once.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// The digits after the point; those of the column.
    scale: u32,
    /// What divides every amount; 0 if there is none.
    step: i128,
    low: Side,
    high: Side,
    /// A sum is too large for a number, or scales differ.
    broken: bool,
}

/// One side of the bounds.
#[derive(Clone, Debug, Default)]
struct Side {
    /// All amounts of this sign.
    all: i128,
    /// Those without a bound of their own.
    free: i128,
    /// The farthest number that one with a bound leaves.
    left: Option<i128>,
}

impl Sums {
    /// One more amount.
    pub fn add(&mut self, amount: Amount) {
        self.merge(&Sums::of(amount));
    }

    /// The amounts of both.
    pub fn merge(&mut self, other: &Sums) {
        if other.step == 0 && !other.broken {
            return;
        }
        self.broken |= other.broken || self.step != 0 && self.scale != other.scale;
        self.scale = other.scale;
        self.step = gcd(self.step, other.step);
        let farther = [i128::min, i128::max];
        for ((own, more), farther) in
            [(&mut self.low, &other.low), (&mut self.high, &other.high)].into_iter().zip(farther)
        {
            let sums = own.all.checked_add(more.all).zip(own.free.checked_add(more.free));
            (own.all, own.free) = sums.unwrap_or_default();
            self.broken |= sums.is_none();
            own.left = own.left.zip(more.left).map(|(a, b)| farther(a, b)).or(own.left).or(more.left);
        }
    }

    fn of(amount: Amount) -> Sums {
        let Amount { number, scale, least, most } = amount;
        let mut sums = Sums { scale, step: gcd(number, 0), ..Sums::default() };
        let (side, bound) = if number < 0 { (&mut sums.low, least) } else { (&mut sums.high, most) };
        side.all = number;
        side.left = bound.and_then(|bound| bound.checked_add(number));
        side.free = if side.left.is_some() { 0 } else { number };
        sums
    }

    /// What a column can be in which one of these was stored.
    pub fn reach(&self, stored: &Possible) -> Possible {
        if self.broken {
            return Possible::Any;
        }
        let Sums { low, high, step, scale, .. } = self;
        let Some(base) = stored.hull() else { return stored.shifted((low.all, high.all), *step, *scale) };
        match stored.shifted((low.all, high.all), *step, *scale) {
            Possible::Numbers(all) if all.scale == *scale => {
                let units = base.in_units_of(*scale);
                let left = |side: &Side, own: i128, farther: fn(i128, i128) -> i128| {
                    side.left.map_or(own, |left| farther(left, own)).checked_add(side.free)
                };
                let bounded = units.and_then(|base| {
                    let (from, to) = (left(low, base.low, i128::min)?, left(high, base.high, i128::max)?);
                    Some(
                        Numbers { low: from.max(all.low), high: to.min(all.high), ..all }
                            .in_steps_of(base.low),
                    )
                });
                bounded.map_or(Possible::Numbers(all), Possible::numbers)
            }
            all => all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    fn reach(stored: i64, amounts: &[(i128, Option<i128>)]) -> String {
        let mut sums = Sums::default();
        for &(number, bound) in amounts {
            let (least, most) = if number < 0 { (bound, None) } else { (None, bound) };
            sums.add(Amount { number, scale: 0, least, most });
        }
        sums.reach(&Possible::one(Value::Int(stored))).to_string()
    }

    #[test]
    fn sums_have_bounds_and_steps() {
        assert_eq!(reach(300, &[]), "300");
        assert_eq!(reach(300, &[(10, None), (20, None)]), "between 300 and 330 in steps of 10");
        assert_eq!(reach(300, &[(-10, None), (15, None)]), "between 290 and 315 in steps of 5");
        assert_eq!(reach(7, &[(i128::MAX, None), (1, None)]), "anything");
    }

    #[test]
    fn bounded_amounts_do_not_go_beyond_their_bounds() {
        let withdraw = (-10, Some(10));
        assert_eq!(reach(25, &[withdraw; 9]), "between 5 and 25 in steps of 10");
        assert_eq!(reach(25, &[withdraw, withdraw, (-3, None)]), "between 2 and 25");
        // What the bound leaves may be worse than all amounts together.
        assert_eq!(reach(25, &[(-10, Some(-1000))]), "between 15 and 25 in steps of 10");
        assert_eq!(reach(25, &[(10, Some(30)); 9]), "between 25 and 35 in steps of 10");
    }
}
