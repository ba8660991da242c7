//! What the tests and examples share: logs, a simulated SQL database, random numbers.

#![allow(dead_code, reason = "every test file that includes this module uses a part of it")]

pub mod log;
pub mod naive;
pub mod rich;
pub mod simulate;
pub mod tiny;

use margay_audit::audit;
use margay_history::History;
use margay_levels::Level;
use margay_observe::{Observe, Options};
use margay_verdict::execution::Reading;
use margay_verdict::{Budget, Checker, Question, Verdict};

/// Random numbers that are the same every time.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let mut x = self.0;
        x ^= x >> 33;
        x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
        x ^= x >> 33;
        x % n
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

pub const LEVELS: [Level; 8] = [
    Level::ReadCommitted,
    Level::RepeatableRead,
    Level::SnapshotIsolation,
    Level::StrongSessionSnapshotIsolation,
    Level::StrictSnapshotIsolation,
    Level::Serializable,
    Level::StrongSessionSerializable,
    Level::StrictSerializable,
];

/// The engine's verdict, which the audit has to accept.
pub fn check(history: &History, level: Level, options: Options) -> Verdict {
    let question = Question::new(level);
    let verdict = Observe { options }.check(history, question, &Budget::unlimited());
    if let Some(certificate) = verdict.certificate()
        && let Err(rejected) = audit(history, question, certificate)
    {
        panic!("{level}: {} and the audit says: {rejected}\n{certificate:?}", verdict.word());
    }
    verdict
}

pub fn word(history: &History, level: Level) -> &'static str {
    check(history, level, Options::DEFAULT).word()
}

/// Without invariants, which would answer first.
pub const SEARCH: Options = Options { invariants: false, ..Options::DEFAULT };

pub fn statement_reading() -> Options {
    Options { reading: Reading::Statement, ..Options::DEFAULT }
}
