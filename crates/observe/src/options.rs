//! What the engine may do, each switchable for comparison.

use margay_verdict::observed::Reading;

/// Options of the engine. The defaults are the best known; every heuristic can be switched off to see what it is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// What `read-committed` lets a statement see.
    pub reading: Reading,
    /// Indexes on the columns that conditions compare.
    pub indexes: bool,
    /// How many recent states are kept at first; it grows when nothing fits. Without it, all are.
    pub window: Option<u32>,
    /// A transaction whose writes do not depend on what it saw leaves one concrete state, and is never run again.
    pub concrete: bool,
    /// The strongest choice first: what a serial execution would see.
    pub strongest_first: bool,
    /// A transaction that did not fit is not tried again before something that it looked at is written.
    pub learn: bool,
    /// How many statements are executed at most in a search that goes back and forth, beyond two hundred for each operation of the history.
    pub steps: u64,
}

impl Options {
    /// The best known.
    pub const DEFAULT: Options = Options {
        reading: Reading::Item,
        indexes: true,
        window: Some(1024),
        concrete: true,
        strongest_first: true,
        learn: true,
        steps: 10_000_000,
    };
}

impl Default for Options {
    fn default() -> Self {
        Self::DEFAULT
    }
}
