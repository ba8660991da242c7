//! How often each bit of many rows is set.
//!
//! # Algorithm
//! Counters stand upright: word `k` of a column holds bit `k` of the counters of its 64 places, so
//! a word is added to 64 counters at once, as by hand, with carries. On average a word meets two
//! carries.

/// One counter per bit of a row.
pub(crate) struct Tally {
    planes: Vec<[u64; BITS]>,
}

/// How many bits a counter has.
const BITS: usize = 32;

impl Tally {
    /// For rows of so many words.
    pub fn new(words: usize) -> Self {
        Self { planes: vec![[0; BITS]; words] }
    }

    /// Counts the bits of a row.
    pub fn add(&mut self, row: &[u64]) {
        for (planes, &word) in self.planes.iter_mut().zip(row) {
            let mut carry = word;
            for plane in planes {
                if carry == 0 {
                    break;
                }
                (*plane, carry) = (*plane ^ carry, *plane & carry);
            }
        }
    }

    /// The counters, in the order of the bits.
    pub fn counts(&self) -> impl Iterator<Item = i64> + '_ {
        let count = |planes: &[u64; BITS], place: usize| {
            planes.iter().enumerate().map(|(bit, plane)| ((plane >> place & 1) << bit) as i64).sum()
        };
        self.planes.iter().flat_map(move |planes| (0..64).map(move |place| count(planes, place)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted() {
        let rows: Vec<[u64; 2]> = (0..1000u64).map(|i| [i.wrapping_mul(0x9E37_79B9_7F4A_7C15), i]).collect();
        let mut tally = Tally::new(2);
        rows.iter().for_each(|row| tally.add(row));
        for (place, count) in tally.counts().enumerate() {
            let plain = rows.iter().filter(|row| row[place / 64] >> (place % 64) & 1 == 1).count();
            assert_eq!(count, plain as i64, "bit {place}");
        }
    }
}
