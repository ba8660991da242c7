//! How much is remembered, and how much was deduced.

pub use margay_verdict::mechanism::{Deduced, Dependencies};

/// How much is remembered.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Size {
    /// Transactions that are running or not judged yet.
    pub transactions: usize,
    /// Versions of all objects.
    pub versions: usize,
    /// Reads that a later version may overwrite.
    pub readers: usize,
    /// Locks.
    pub locks: usize,
    /// Entries of the indices over columns that searches compare.
    pub indexed: usize,
    /// Transactions of the certifier's graph.
    pub nodes: usize,
    /// Dependencies of the certifier's graph.
    pub edges: usize,
}

/// What was deduced, as far as it was looked for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Statistics {
    /// Operations fed.
    pub operations: u64,
    /// Committed transactions judged.
    pub judged: u64,
    /// Reads of others' versions judged.
    pub reads: u64,
    /// Reads that only one version explains.
    pub certain_reads: u64,
    /// Pairs of versions of one object: which came first.
    pub ww: Dependencies,
    /// Reads: which version was seen.
    pub wr: Dependencies,
    /// Reads and other versions of what they saw, that are not older: whether it came later. Looked for only
    /// where the certifier minds.
    pub rw: Dependencies,
    /// Violations found.
    pub violations: u64,
}

impl Statistics {
    /// The dependencies alone.
    #[must_use]
    pub fn deduced(&self) -> Deduced {
        Deduced { ww: self.ww, wr: self.wr, rw: self.rw }
    }
}
