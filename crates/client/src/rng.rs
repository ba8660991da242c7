//! Random numbers that are the same on every machine and in every year.
//!
//! # Algorithm
//! xoshiro256** (Blackman and Vigna) seeded by SplitMix64, written out here so that no library's
//! stream can change under a pinned history. Independent streams are drawn from one seed by mixing
//! in a stream number, so what clients ask does not change when a fault or a slower network is
//! switched on.
//!
//! # Invariants
//! Integers only. No decision of a simulation may use a float or the iteration order of a hash map.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Stream number `stream` of `seed`.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut mixer = seed ^ stream.wrapping_add(1).wrapping_mul(0xA076_1D64_78BD_642F);
        Self { state: std::array::from_fn(|_| split_mix(&mut mixer)) }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number below `limit`, or 0 when `limit` is 0. The bias is below 2^-32 for all limits in
    /// use.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u64
    }

    /// Whether something happens that does so `ppm` times in a million.
    pub fn chance(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.below(1_000_000) < u64::from(ppm)
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_mix_gives_its_published_first_numbers() {
        let mut state = 1234567;
        let first: Vec<u64> = (0..3).map(|_| split_mix(&mut state)).collect();
        assert_eq!(first, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }

    #[test]
    fn streams_of_one_seed_differ_and_repeat() {
        let take = |seed, stream| {
            let mut rng = Rng::new(seed, stream);
            [rng.bits(), rng.bits(), rng.below(10), rng.below(0)]
        };
        assert_eq!(take(7, 1), take(7, 1));
        assert_ne!(take(7, 1), take(7, 2));
        assert_ne!(take(7, 1), take(8, 1));
    }

    #[test]
    fn chances_come_true_about_as_often_as_they_should() {
        let mut rng = Rng::new(3, 0);
        let hits = (0..100_000).filter(|_| rng.chance(250_000)).count();
        assert!((24_000..26_000).contains(&hits), "{hits}");
        assert!(!rng.chance(0));
        assert!(rng.chance(1_000_000));
    }
}
