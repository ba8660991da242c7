//! What the verifier knows about another machine's clock.
//!
//! # Problem
//! Each machine has a clock of its own. If the verifier takes two clocks for closer than they are,
//! it accuses a correct database.
//!
//! # Algorithm
//! As in NTP, the verifier asks for the time: it asks at `asked` by its own clock; the recorder
//! hears this at `heard` and answers at `answered`, by its clock; the answer arrives at `arrived`.
//! `heard` is not before `asked`, and `answered` not after `arrived`. So at `heard` the verifier's
//! clock is ahead by `asked - heard` at least, and at `answered` by `arrived - answered` at most.
//! These two bounds hold for a time that is `age` away, wider by [`DRIFT`] × `age`. Each exchange
//! gives bounds, and all of them hold: for a time, the highest lower bound and the lowest upper
//! bound of the last [`KEPT`] exchanges count.
//!
//! # Invariants
//! - A call is taken to the earliest time that it may have had, an answer to the latest. The true
//!   times are between, as long as no clock runs faster or slower than [`DRIFT`] allows.
//! - Neither calls nor answers go back in time ([`crate::Merge`] keeps both in order).
//! - Exchanges that contradict each other end with an error: a clock was set, or has jumped.
//!
//! # Differs from the paper
//! Leopard takes times from a central counter, at a round trip each. The design had one allowance
//! of 600 ppm; here each of the two clocks has it (a system may slew its clock by 500 ppm, and
//! crystals are wrong by up to 100).

use std::collections::VecDeque;

/// How fast two clocks drift apart at most, in millionths: 600 for each.
const DRIFT: u64 = 1_200;

/// How many exchanges count: those of the last 1.6 s.
const KEPT: usize = 16;

/// One exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exchange {
    /// When the verifier asked, by its clock.
    pub asked: i64,
    /// When the recorder heard this, by its clock.
    pub heard: i64,
    /// When the recorder answered, by its clock.
    pub answered: i64,
    /// When the answer arrived, by the verifier's clock.
    pub arrived: i64,
}

impl Exchange {
    /// The earliest time by the verifier's clock at this local time.
    fn earliest(&self, local: i64) -> i64 {
        local.saturating_add(self.asked - self.heard).saturating_sub(drift(local, self.heard))
    }

    /// The latest.
    fn latest(&self, local: i64) -> i64 {
        local.saturating_add(self.arrived - self.answered).saturating_add(drift(local, self.answered))
    }
}

/// How far clocks drift apart between two local times, rounded up.
fn drift(one: i64, other: i64) -> i64 {
    let apart = one.abs_diff(other);
    let drifted = (apart / 1_000_000) * DRIFT + (apart % 1_000_000) * DRIFT / 1_000_000;
    drifted as i64 + 1
}

/// What is known about a machine's clock.
#[derive(Clone, Default, Debug)]
pub struct Clock {
    exchanges: VecDeque<Exchange>,
}

impl Clock {
    /// One more exchange.
    ///
    /// # Errors
    /// When it contradicts itself or earlier ones.
    pub fn learn(&mut self, exchange: Exchange) -> Result<(), String> {
        if exchange.heard > exchange.answered || exchange.asked > exchange.arrived {
            return Err("its clock went back".to_owned());
        }
        self.exchanges.push_back(exchange);
        if self.exchanges.len() > KEPT {
            self.exchanges.pop_front();
        }
        let (earliest, latest) = self.bounds(exchange.answered).expect("there is an exchange");
        if earliest > latest {
            self.exchanges.pop_back();
            return Err(format!("its clock jumped by at least {} ns", earliest - latest));
        }
        Ok(())
    }

    /// The earliest and the latest time by the verifier's clock at this local time.
    #[must_use]
    pub fn bounds(&self, local: i64) -> Option<(i64, i64)> {
        let earliest = self.exchanges.iter().map(|exchange| exchange.earliest(local)).max()?;
        let latest = self.exchanges.iter().map(|exchange| exchange.latest(local)).min()?;
        Some((earliest, latest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_best_exchanges() {
        let mut clock = Clock::default();
        assert_eq!(clock.bounds(0), None);
        // The other clock shows 1,000,000 less. The way there takes 100, the way back 10.
        let there = Exchange { asked: 2_000_000, heard: 1_000_100, answered: 1_000_100, arrived: 2_000_110 };
        clock.learn(there).expect("no contradiction");
        assert_eq!(clock.bounds(1_000_100), Some((1_999_999, 2_000_111)));
        // A second later, the other way round. Both help.
        let back = Exchange { asked: 2_001_000, heard: 1_001_010, answered: 1_001_010, arrived: 2_001_110 };
        clock.learn(back).expect("no contradiction");
        assert_eq!(clock.bounds(1_001_010), Some((2_000_999, 2_001_022)));
    }

    #[test]
    fn a_clock_that_jumps_is_noticed() {
        let mut clock = Clock::default();
        let exchange = |asked: i64, offset: i64| Exchange {
            asked,
            heard: asked + 50 - offset,
            answered: asked + 60 - offset,
            arrived: asked + 100,
        };
        clock.learn(exchange(0, 7)).expect("the first");
        clock.learn(exchange(1_000, 7)).expect("the same offset");
        let why = clock.learn(exchange(2_000, 1_007)).expect_err("a jump");
        assert!(why.contains("jumped"), "{why}");
        let back = Exchange { asked: 1, heard: 5, answered: 4, arrived: 9 };
        assert_eq!(clock.learn(back), Err("its clock went back".to_owned()));
    }
}
