//! What is due, in order: times with the clients whose they are.
//!
//! # Problem
//! The operations of all clients that are due at one time are to go out in the order of their
//! times; those of one client are in order already.
//!
//! # Algorithm
//! A time, counted from the first, and its client are one number of 64 bits. Such numbers are
//! sorted by counting the values of eleven bits at a time, which costs two passes for what a round
//! brings, and compares nothing. Few numbers, and times that are too far apart, are sorted by
//! comparison.
//!
//! # Invariants
//! Equal times go out by the numbers of their clients; those of one client stay in order, for only
//! the client is looked up in the end.
//!
//! # Differs from the paper
//! The paper merges batches with a heap, which costs as many comparisons as the logarithm of the
//! clients, none of which a processor can guess.

/// The low bits hold the client.
const CLIENT: u32 = 16;

/// Bits that are counted at a time.
const DIGIT: u32 = 11;

/// Fewer numbers than this are sorted by comparison.
const COMPARISON_SORTED: usize = 256;

/// Times with their clients.
#[derive(Default, Debug)]
pub(crate) struct Due {
    packed: Vec<u64>,
    spare: Vec<u64>,
}

impl Due {
    /// Whether times from `first` to `last` of so many clients fit.
    pub fn fits(first: i64, last: i64, clients: usize) -> bool {
        clients <= 1 << CLIENT && last.abs_diff(first) >> (u64::BITS - CLIENT) == 0
    }

    pub fn clear(&mut self) {
        self.packed.clear();
    }

    /// Adds the times of a client, which are not before `first`.
    pub fn extend(&mut self, client: usize, first: i64, times: impl Iterator<Item = i64>) {
        self.packed.extend(times.map(|time| time.abs_diff(first) << CLIENT | client as u64));
    }

    /// The clients in the order of their times, the last of which is so far from the first.
    pub fn clients(&mut self, range: u64) -> impl Iterator<Item = usize> + '_ {
        let digits = (u64::BITS - range.leading_zeros()).div_ceil(DIGIT);
        if self.packed.len() < COMPARISON_SORTED || digits > 4 {
            self.packed.sort_unstable();
        } else {
            (0..digits).for_each(|digit| self.pass(CLIENT + digit * DIGIT));
        }
        self.packed.iter().map(|packed| (packed & ((1 << CLIENT) - 1)) as usize)
    }

    /// Sorts by one digit; what is equal there keeps its order.
    fn pass(&mut self, shift: u32) {
        let digit = |packed: u64| (packed >> shift) as usize & ((1 << DIGIT) - 1);
        let mut starts = [0_u32; 1 << DIGIT];
        self.packed.iter().for_each(|&packed| starts[digit(packed)] += 1);
        let mut sum = 0;
        for start in &mut starts {
            (*start, sum) = (sum, sum + *start);
        }
        self.spare.resize(self.packed.len(), 0);
        for &packed in &self.packed {
            let start = &mut starts[digit(packed)];
            self.spare[*start as usize] = packed;
            *start += 1;
        }
        std::mem::swap(&mut self.packed, &mut self.spare);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_a_sort() {
        let mut seed = 1_u64;
        let mut draw = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 20) % below
        };
        for (count, step) in [(5, 9), (400, 1), (700, 3_000), (500, 1 << 40), (300, 0)] {
            let (mut due, mut all, first) = (Due::default(), Vec::new(), -77);
            for client in 0..7 {
                let mut time = first;
                let times: Vec<i64> = (0..count)
                    .map(|_| {
                        time += draw(step + 1).min(1 << 36) as i64;
                        time
                    })
                    .collect();
                due.extend(client, first, times.iter().copied());
                all.extend(times.into_iter().map(|time| (time, client)));
            }
            let last = all.iter().map(|(time, _)| *time).max().unwrap_or(first);
            assert!(Due::fits(first, last, 7), "{count} {step}");
            all.sort();
            let expected: Vec<usize> = all.into_iter().map(|(_, client)| client).collect();
            assert_eq!(due.clients(last.abs_diff(first)).collect::<Vec<_>>(), expected, "{count} {step}");
        }
        assert!(!Due::fits(i64::MIN, i64::MAX, 2) && !Due::fits(0, 1, 1 << 17));
    }
}
