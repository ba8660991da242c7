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

/// Reads by how much it takes to explain them. Rows that a search left out and that may have
/// matched count too.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OpenReads {
    /// All.
    pub all: u64,
    /// Those that more than one version may explain.
    pub open: u64,
    /// Open ones that share their snapshot with reads of other objects: these must be brought
    /// together.
    pub shared: u64,
}

impl OpenReads {
    /// So many reads of one snapshot, so many of them open, and whether it also shows other
    /// objects.
    pub(crate) fn count(&mut self, all: usize, open: usize, several: bool) {
        self.all += all as u64;
        self.open += open as u64;
        self.shared += if several { open as u64 } else { 0 };
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.all += other.all;
        self.open += other.open;
        self.shared += other.shared;
    }
}

/// Dependencies that were added to the certifier's graph.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Edges {
    /// All.
    pub all: u64,
    /// Those that did not agree with the order of transactions that the graph had until then.
    pub against: u64,
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
    /// Reads and other versions of what they saw, that are not older: whether it came later. Looked
    /// for only where the certifier minds.
    pub rw: Dependencies,
    /// How many reads were open.
    pub open: OpenReads,
    /// What the certifier's graph was told.
    pub graph: Edges,
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
