//! How much is remembered, and how much was deduced.

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

/// How the dependencies of one kind came to be known.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Dependencies {
    /// The intervals do not overlap: time alone tells.
    pub certain: u64,
    /// They overlap, and values, snapshots, locks or the rule for concurrent updates tell.
    pub deduced: u64,
    /// Nothing tells.
    pub uncertain: u64,
}

impl Dependencies {
    pub(crate) fn count(&mut self, known: bool, by_time: bool) {
        let kind = match (known, by_time) {
            (true, true) => &mut self.certain,
            (true, false) => &mut self.deduced,
            (false, _) => &mut self.uncertain,
        };
        *kind += 1;
    }

    pub(crate) fn add(&mut self, more: Dependencies) {
        self.certain += more.certain;
        self.deduced += more.deduced;
        self.uncertain += more.uncertain;
    }

    /// The part of the dependencies that is known, from 0 to 1; 1 if there are none.
    #[must_use]
    pub fn known(&self) -> f64 {
        let (known, all) = (self.certain + self.deduced, self.certain + self.deduced + self.uncertain);
        if all == 0 { 1.0 } else { known as f64 / all as f64 }
    }
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
    /// Reads and other versions of what they saw, that are not older: whether it came later. Looked for only where the certifier minds.
    pub rw: Dependencies,
    /// Violations found.
    pub violations: u64,
}
