//! Whether bounds on sums of unknown numbers can all be true: the simplex method.
//!
//! # Problem
//! Some sums of unknowns, each with a least and a greatest value: are there numbers for the
//! unknowns, and if not, which of the bounds add up to a contradiction?
//!
//! # Algorithm
//! Dutertre and de Moura's: every sum of several unknowns is an unknown of its own, which a row
//! says in terms of others. The rows' own unknowns take the values that the others give them; one
//! that is out of its bounds changes places with one in its row that can still move. If none can,
//! the row is a contradiction: its factors say how often each bound is added. The first that fits
//! is taken always (Bland), so that it ends.
//!
//! # Invariants
//! - Unknowns without a row are within their bounds.
//! - The rows say the same as the sums that they were made from.
//!
//! # Cost
//! Exponential at worst, and a few changes of places for the bounds of a log. Fractions that become
//! too large end it without an answer.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use margay_executions::formula::Interval;
use margay_sql::Term;
use margay_verdict::execution::{Bound, Clash, Form};

use super::rational::{Rational, gcd};

/// What the bounds came to.
#[derive(Debug)]
pub enum Outcome {
    /// Numbers for all unknowns.
    Values(HashMap<Term, Rational>),
    /// A contradiction.
    Clash(Clash),
}

/// The rows and where they stand.
#[derive(Default, Debug)]
pub struct Simplex {
    places: HashMap<Form, usize>,
    forms: Vec<Form>,
    rows: BTreeMap<usize, BTreeMap<usize, Rational>>,
    low: Vec<Option<i128>>,
    high: Vec<Option<i128>>,
    values: Vec<Rational>,
}

impl Simplex {
    /// Whether these bounds can all be true; nothing when numbers become too large.
    pub fn check(&mut self, bounds: &[(&Form, Interval)]) -> Option<Outcome> {
        self.low.fill(None);
        self.high.fill(None);
        for (form, (low, high)) in bounds {
            let place = self.place(form)?;
            (self.low[place], self.high[place]) = (*low, *high);
        }
        self.settle()?;
        loop {
            let Some((row, low)) = self.out_of_bounds()? else { return Some(self.found()) };
            match self.partner(row, low)? {
                None => return self.clash(row, low).map(Outcome::Clash),
                Some(other) => self.swap(row, other, low)?,
            }
        }
    }

    fn found(&self) -> Outcome {
        let single = self.forms.iter().zip(&self.values).filter(|(form, _)| form.len() == 1);
        Outcome::Values(single.map(|(form, value)| (form[0].0, *value)).collect())
    }

    /// The unknown that a sum is.
    fn place(&mut self, form: &Form) -> Option<usize> {
        if let Some(&place) = self.places.get(form) {
            return Some(place);
        }
        let mut row = BTreeMap::new();
        if form.len() > 1 {
            for &(term, factor) in form {
                let part = self.place(&vec![(term, 1)])?;
                self.add_to(&mut row, part, factor.into())?;
            }
        }
        let place = self.forms.len();
        self.places.insert(form.clone(), place);
        self.forms.push(form.clone());
        self.low.push(None);
        self.high.push(None);
        self.values.push(Rational::ZERO);
        if form.len() > 1 {
            self.rows.insert(place, row);
        }
        Some(place)
    }

    /// Adds an unknown so many times to a row, by its own row if it has one.
    fn add_to(&self, row: &mut BTreeMap<usize, Rational>, part: usize, factor: Rational) -> Option<()> {
        match self.rows.get(&part) {
            None => add(row, part, factor),
            Some(own) => own.iter().try_for_each(|(&other, own)| add(row, other, own.times(factor)?)),
        }
    }

    /// Moves unknowns without rows into their bounds, and the others after them.
    fn settle(&mut self) -> Option<()> {
        for place in (0..self.forms.len()).filter(|place| !self.rows.contains_key(place)) {
            let value = self.values[place];
            if let Some(low) = self.low[place]
                && value.is_less(low)?
            {
                self.values[place] = low.into();
            }
            if let Some(high) = self.high[place]
                && value.is_greater(high)?
            {
                self.values[place] = high.into();
            }
        }
        for (&place, row) in &self.rows {
            let mut sum = Rational::ZERO;
            for (&other, factor) in row {
                sum = sum.add(factor.times(self.values[other])?)?;
            }
            self.values[place] = sum;
        }
        Some(())
    }

    /// The first row whose value is out of its bounds, and whether it is too low.
    fn out_of_bounds(&self) -> Option<Option<(usize, bool)>> {
        for &place in self.rows.keys() {
            if self.can(place, false)?.is_none() {
                return Some(Some((place, true)));
            }
            if self.can(place, true)?.is_none() {
                return Some(Some((place, false)));
            }
        }
        Some(None)
    }

    /// Whether a value is within the bound above, or the one below, and whether it may still move
    /// there.
    fn can(&self, place: usize, up: bool) -> Option<Option<bool>> {
        let value = self.values[place];
        let (bound, beyond) = match up {
            true => (self.high[place], self.high[place].map_or(Some(false), |high| value.is_greater(high))?),
            false => (self.low[place], self.low[place].map_or(Some(false), |low| value.is_less(low))?),
        };
        Some((!beyond).then_some(bound.is_none_or(|bound| value != bound.into())))
    }

    /// The first unknown in a row that can move the row's value up, or down.
    fn partner(&self, row: usize, up: bool) -> Option<Option<usize>> {
        for (&other, factor) in &self.rows[&row] {
            if self.can(other, (factor.above > 0) == up)? == Some(true) {
                return Some(Some(other));
            }
        }
        Some(None)
    }

    /// Moves a row's value to its bound, and lets another unknown have a row in its place.
    fn swap(&mut self, row: usize, other: usize, low: bool) -> Option<()> {
        let target = Rational::from(if low { self.low[row]? } else { self.high[row]? });
        let mut own = self.rows.remove(&row)?;
        let factor = own.remove(&other)?;
        // row = factor * other + rest, so other = row / factor - rest / factor.
        let mut turned = BTreeMap::new();
        add(&mut turned, row, Rational::from(1).over(factor)?)?;
        for (place, part) in own {
            add(&mut turned, place, part.over(factor)?.negated()?)?;
        }
        let moved = target.minus(self.values[row])?.over(factor)?;
        for (&place, line) in &mut self.rows {
            let Some(times) = line.remove(&other) else { continue };
            for (&part, by) in &turned {
                add(line, part, by.times(times)?)?;
            }
            self.values[place] = self.values[place].add(times.times(moved)?)?;
        }
        self.values[row] = target;
        self.values[other] = self.values[other].add(moved)?;
        self.rows.insert(other, turned);
        Some(())
    }

    /// The bounds that keep a row from its own.
    fn clash(&self, row: usize, low: bool) -> Option<Clash> {
        let parts = &self.rows[&row];
        let below =
            parts.values().try_fold(1i128, |all, part| all.checked_mul(part.below / gcd(all, part.below)))?;
        let mut bounds = vec![self.bound(row, !low, below)?];
        for (&other, factor) in parts {
            let times = factor.above.checked_mul(below / factor.below)?;
            bounds.push(self.bound(other, (times > 0) == low, times.checked_abs()?)?);
        }
        Some(Clash { bounds })
    }

    /// The bound above or below of an unknown.
    fn bound(&self, place: usize, above: bool, times: i128) -> Option<Bound> {
        let form = self.forms[place].iter();
        Some(match above {
            true => Bound { form: form.copied().collect(), at_most: self.high[place]?, times },
            false => {
                let form = form.map(|&(term, factor)| (term, -factor)).collect();
                Bound { form, at_most: self.low[place]?.checked_neg()?, times }
            }
        })
    }
}

fn add(row: &mut BTreeMap<usize, Rational>, place: usize, factor: Rational) -> Option<()> {
    let sum = row.get(&place).copied().unwrap_or(Rational::ZERO).add(factor)?;
    match sum == Rational::ZERO {
        true => _ = row.remove(&place),
        false => _ = row.insert(place, sum),
    }
    Some(())
}
