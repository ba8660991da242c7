//! Which key comes next.
//!
//! # Algorithm
//! Zipf's law by cumulative weights and a binary search, in integers, so that a seed means the same
//! on every machine: key number k has weight 1/(k+1). A hotspot is the first fifth of the keys,
//! which is asked four times in five.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use margay_client::Rng;
use margay_levels::UnknownName;

/// How often which key is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Distribution {
    /// All equally often.
    Uniform,
    /// Key number k with weight 1/(k+1): Zipf's law with exponent 1.
    Zipf,
    /// A fifth of the keys four times in five.
    Hotspot,
}

impl Distribution {
    /// All, with their names.
    pub const ALL: [(Distribution, &'static str); 3] = [
        (Distribution::Uniform, "uniform"),
        (Distribution::Zipf, "zipf"),
        (Distribution::Hotspot, "hotspot"),
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Distribution {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.iter().find(|(_, known)| *known == name).map(|(distribution, _)| *distribution);
        found.ok_or_else(|| UnknownName::among("distribution", name, Self::ALL.iter().map(|(_, name)| *name)))
    }
}

/// What the command line may say of a workload's keys.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Options {
    /// How many there are, instead of the workload's own number.
    pub keys: Option<u32>,
    /// How often each is asked for, instead of the workload's own distribution.
    pub distribution: Option<Distribution>,
}

impl Options {
    /// The keys of a program that has so many when nobody says.
    pub(crate) fn keys(&self, own: u32) -> Keys {
        Keys::new(self.keys.unwrap_or(own), self.own_distribution())
    }

    /// The distribution of a program whose own is uniform.
    pub(crate) fn own_distribution(&self) -> Distribution {
        self.distribution.unwrap_or(Distribution::Uniform)
    }

    /// The same for a program whose own distribution is Zipf's.
    pub(crate) fn zipf(&self, own: u32) -> Keys {
        Keys::new(self.keys.unwrap_or(own), self.distribution.unwrap_or(Distribution::Zipf))
    }
}

/// Keys to draw from.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    count: u32,
    distribution: Distribution,
    /// Cumulative weights, for Zipf's law.
    weights: Arc<[u64]>,
}

impl Keys {
    /// There is always one.
    pub fn new(count: u32, distribution: Distribution) -> Self {
        let count = count.max(1);
        let weights = if distribution == Distribution::Zipf { zipf(count) } else { Arc::from([]) };
        Self { count, distribution, weights }
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    /// A key below the count.
    pub fn draw(&self, rng: &mut Rng) -> u32 {
        let count = u64::from(self.count);
        let hot = count.div_ceil(5);
        let key = match self.distribution {
            Distribution::Uniform => rng.below(count),
            Distribution::Hotspot if rng.below(5) < 4 => rng.below(hot),
            Distribution::Hotspot => (hot + rng.below(count - hot)).min(count - 1),
            Distribution::Zipf => {
                let drawn = rng.below(self.weights.last().copied().unwrap_or(1));
                self.weights.partition_point(|&weight| weight <= drawn) as u64
            }
        };
        key as u32
    }

    /// Two different keys, where there are two.
    pub fn two(&self, rng: &mut Rng) -> [i64; 2] {
        let first = self.draw(rng);
        let mut second = self.draw(rng);
        if second == first {
            second = (first + 1) % self.count;
        }
        [i64::from(first), i64::from(second)]
    }
}

fn zipf(count: u32) -> Arc<[u64]> {
    let mut total = 0;
    let weight = |rank: u64| {
        total += (1 << 32) / (rank + 1);
        total
    };
    (0..u64::from(count)).map(weight).collect()
}

/// Numbers that no other client draws: client c of n gets c + 1, c + 1 + n, c + 1 + 2n, …
#[derive(Clone, Debug)]
pub(crate) struct Fresh {
    next: i64,
    step: i64,
}

impl Fresh {
    pub fn new(client: u32, clients: u32) -> Self {
        Self { next: i64::from(client) + 1, step: i64::from(clients) }
    }

    /// The number that comes next.
    pub fn coming(&self) -> i64 {
        self.next
    }

    pub fn next(&mut self) -> i64 {
        let value = self.next;
        self.next += self.step;
        value
    }
}

/// The stream of random numbers of a client, apart from those of the simulated databases.
pub(crate) fn stream(client: u32) -> u64 {
    7 << 32 | u64::from(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(distribution: Distribution) -> Vec<u32> {
        let (keys, mut rng) = (Keys::new(50, distribution), Rng::new(3, 0));
        (0..5000).map(|_| keys.draw(&mut rng)).collect()
    }

    #[test]
    fn keys_follow_their_distribution() {
        let share = |keys: &[u32]| keys.iter().filter(|&&key| key < 10).count() * 100 / keys.len();
        let shares = Distribution::ALL.map(|(distribution, _)| share(&drawn(distribution)));
        assert!((17..24).contains(&shares[0]), "uniform: {shares:?}");
        assert!((60..70).contains(&shares[1]), "zipf: {shares:?}");
        assert!((76..84).contains(&shares[2]), "hotspot: {shares:?}");
        for (distribution, _) in Distribution::ALL {
            assert_eq!(drawn(distribution).into_iter().max(), Some(49), "{distribution}");
        }
    }

    #[test]
    fn one_key_is_enough() {
        let mut rng = Rng::new(1, 1);
        for (distribution, name) in Distribution::ALL {
            assert_eq!(name.parse(), Ok(distribution));
            assert_eq!(Keys::new(0, distribution).two(&mut rng), [0, 0]);
            let [a, b] = Keys::new(2, distribution).two(&mut rng);
            assert_ne!(a, b);
        }
        assert!("zip".parse::<Distribution>().is_err());
    }
}
