//! The catalogue of anomalies of Coo that Vbox's evaluation runs: 29 interleavings of two
//! transactions, of reads (RAT), writes (WAT) and both (IAT), on one row (SDA) or two (DDA). Where
//! a database lets all statements through in this order, what is left is not serializable.
//!
//! What a pattern is called `c1` or `c2` after is who commits first; `committed` means that one
//! commits before the other goes on.

use crate::scripted::{Line, notation};

/// A pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern {
    /// Its class.
    pub class: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The interleaving, in short: see [`Pattern::lines`].
    pub notation: &'static str,
}

impl Pattern {
    /// Its lines, and those of a third transaction that reads what is left. `W1x=11` is a write of
    /// 11 to x by the first transaction, `R1x` a read, `P1=20` a read of the rows whose value is
    /// 20, `C1` a commit, `A1` a rollback.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        notation(&format!("{} R3x R3y C3", self.notation))
    }
}

const fn pattern(class: &'static str, name: &'static str, notation: &'static str) -> Pattern {
    Pattern { class, name, notation }
}

/// All patterns.
pub const PATTERNS: [Pattern; 29] = [
    pattern("RAT", "dirty-read", "W1x=11 R2x A1 C2"),
    pattern("RAT", "non-repeatable-read", "R1x W2x=12 R1x C2 C1"),
    pattern("RAT", "intermediate-read", "W1x=11 R2x W1x=12 C2 C1"),
    pattern("RAT", "intermediate-read-committed", "W1x=11 R2x C2 W1x=12 C1"),
    pattern("RAT", "write-read-skew", "W1x=11 W2y=22 R2x R1y C2 C1"),
    pattern("RAT", "write-read-skew-committed", "W1x=11 W2y=22 R2x C2 R1y C1"),
    pattern("RAT", "double-write-skew1", "W1x=11 W2y=22 R2x W1y=21 C2 C1"),
    pattern("RAT", "double-write-skew1-committed", "W1x=11 W2y=22 R2x C2 W1y=21 C1"),
    pattern("RAT", "double-write-skew1-committed-pred", "W1x=11 W2y=22 P2=10 C2 W1y=21 C1"),
    pattern("RAT", "double-write-skew2", "W1x=11 W2y=22 W2x=12 R1y C1 C2"),
    pattern("RAT", "read-skew", "R1x W2y=22 W2x=12 R1y C2 C1"),
    pattern("RAT", "read-skew2", "W1x=11 R2y R2x W1y=21 C1 C2"),
    pattern("RAT", "read-skew2-committed", "W1x=11 R2y R2x C2 W1y=21 C1"),
    pattern("WAT", "lost-update-c1", "R1x W2x=12 W1x=11 C1 C2"),
    pattern("WAT", "lost-update-c2", "R1x W2x=12 W1x=11 C2 C1"),
    pattern("WAT", "double-write-skew2-committed", "W1x=11 W2y=22 W2x=12 C2 R1y C1"),
    pattern("WAT", "double-write-skew2-committed-pred", "W1x=11 W2y=22 W2x=12 C2 P1=20 C1"),
    pattern("WAT", "read-write-skew1-c1", "R1x W2y=22 W2x=12 W1y=21 C1 C2"),
    pattern("WAT", "read-write-skew1-c2", "R1x W2y=22 W2x=12 W1y=21 C2 C1"),
    pattern("WAT", "read-write-skew2-c1", "W1x=11 R2y W2x=12 W1y=21 C1 C2"),
    pattern("WAT", "read-write-skew2-c2", "W1x=11 R2y W2x=12 W1y=21 C2 C1"),
    pattern("WAT", "read-write-skew2-committed", "W1x=11 R2y W2x=12 C2 W1y=21 C1"),
    pattern("IAT", "lost-update-committed", "R1x W2x=12 C2 W1x=11 C1"),
    pattern("IAT", "non-repeatable-read-committed", "R1x W2x=12 C2 R1x C1"),
    pattern("IAT", "read-skew-committed", "R1x W2y=22 W2x=12 C2 R1y C1"),
    pattern("IAT", "read-skew-committed-pred", "P1=12 W2y=22 W2x=12 C2 P1=20 C1"),
    pattern("IAT", "read-write-skew1-committed", "R1x W2y=22 W2x=12 C2 W1y=21 C1"),
    pattern("IAT", "write-skew", "R1x R2y W2x=12 W1y=21 C1 C2"),
    pattern("IAT", "write-skew-committed", "R1x R2y W2x=12 C2 W1y=21 C1"),
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::scripted::Act;

    #[test]
    fn the_catalogue_has_the_sizes_of_the_paper() {
        let count = |class| PATTERNS.iter().filter(|pattern| pattern.class == class).count();
        assert_eq!([count("RAT"), count("WAT"), count("IAT")], [13, 9, 7]);
        let names: HashSet<_> = PATTERNS.iter().map(|pattern| (pattern.class, pattern.name)).collect();
        assert_eq!(names.len(), 29);
    }

    #[test]
    fn every_transaction_ends_once_and_last() {
        for pattern in PATTERNS {
            let lines = pattern.lines();
            for session in 1..=3 {
                let own: Vec<_> = lines.iter().filter(|line| line.session == session).collect();
                let ends = own.iter().filter(|line| !matches!(line.act, Act::Sql(..))).count();
                assert_eq!(ends, 1, "{}", pattern.name);
                assert!(
                    !matches!(own.last().map(|line| &line.act), Some(Act::Sql(..)) | None),
                    "{}",
                    pattern.name
                );
            }
        }
    }
}
