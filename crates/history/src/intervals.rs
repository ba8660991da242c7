//! Intervals on a client's clock.

/// The interval in which an operation took effect: the client called at `before` and had its answer
/// at `after`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Interval {
    /// When the client called.
    pub before: i64,
    /// When the client had its answer; never less than `before` in a [`crate::History`].
    pub after: i64,
}

impl Interval {
    /// `[before, after]`.
    #[must_use]
    pub fn new(before: i64, after: i64) -> Self {
        Self { before, after }
    }
}

/// A column of optional intervals in 12 bytes each.
///
/// # Design
/// The length of an interval is kept in 32 bits; longer ones (over four seconds, in nanoseconds)
/// are kept whole in `long`. The column stays empty until the first interval that is there, so a
/// history without time costs nothing.
#[derive(Clone, Default, Debug)]
pub struct Intervals {
    rows: usize,
    before: Vec<i64>,
    length: Vec<u32>,
    /// `(row, after)` of the long ones, by row.
    long: Vec<(u32, i64)>,
}

const LONG: u32 = u32::MAX;
const MISSING: u32 = u32::MAX - 1;

impl Intervals {
    /// Makes room for `rows` more intervals.
    pub fn reserve(&mut self, rows: usize) {
        self.before.reserve_exact(rows);
        self.length.reserve_exact(rows);
    }

    /// Adds a row.
    pub fn push(&mut self, at: Option<Interval>) {
        let row = self.rows;
        self.rows += 1;
        let Some(at) = at else {
            if !self.before.is_empty() {
                self.push_raw(0, MISSING);
            }
            return;
        };
        if self.before.len() < row {
            self.before.resize(row, 0);
            self.length.resize(row, MISSING);
        }
        match at.after.checked_sub(at.before).and_then(|length| u32::try_from(length).ok()) {
            Some(length) if length < MISSING => self.push_raw(at.before, length),
            _ => {
                self.push_raw(at.before, LONG);
                self.long.push((row as u32, at.after));
            }
        }
    }

    fn push_raw(&mut self, before: i64, length: u32) {
        self.before.push(before);
        self.length.push(length);
    }

    /// The interval of a row, if it has one.
    #[inline]
    #[must_use]
    pub fn get(&self, row: usize) -> Option<Interval> {
        let before = *self.before.get(row)?;
        let after = match self.length[row] {
            MISSING => return None,
            LONG => self.long[self.long.binary_search_by_key(&(row as u32), |&(r, _)| r).ok()?].1,
            length => before + i64::from(length),
        };
        Some(Interval { before, after })
    }

    /// The same intervals with row `i` taken from row `from[i]`.
    pub(crate) fn permuted(&self, from: &[u32]) -> Self {
        let mut new = Self::default();
        if !self.before.is_empty() {
            new.reserve(from.len());
        }
        for &row in from {
            new.push(self.get(row as usize));
        }
        new
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether no row has an interval.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.before.is_empty()
    }

    pub(crate) fn shrink(&mut self) {
        self.before.shrink_to_fit();
        self.length.shrink_to_fit();
    }

    pub(crate) fn bytes(&self) -> usize {
        self.before.capacity() * 8 + self.length.capacity() * 4 + self.long.capacity() * 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_was_pushed() {
        let all = [
            None,
            Some(Interval::new(5, 9)),
            None,
            Some(Interval::new(-7, i64::MAX)),
            Some(Interval::new(i64::MIN, i64::MAX)),
            Some(Interval::new(0, i64::from(u32::MAX) - 1)),
            Some(Interval::new(0, i64::from(u32::MAX) - 2)),
        ];
        let mut column = Intervals::default();
        all.iter().for_each(|&at| column.push(at));
        for (row, &at) in all.iter().enumerate() {
            assert_eq!(column.get(row), at, "row {row}");
        }
        let reversed = column.permuted(&[6, 5, 4, 3, 2, 1, 0]);
        for (row, &at) in all.iter().rev().enumerate() {
            assert_eq!(reversed.get(row), at, "row {row} of the reversed column");
        }
    }

    #[test]
    fn a_history_without_time_costs_nothing() {
        let mut column = Intervals::default();
        (0..1000).for_each(|_| column.push(None));
        assert_eq!((column.bytes(), column.get(3)), (0, None));
    }
}
