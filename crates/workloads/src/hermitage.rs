//! Hermitage (Kleppmann): small interleavings, each of which is an anomaly unless the database
//! prevents it.
//!
//! The columns of its table are the anomalies. Some have a variant in which the transaction that
//! would see the anomaly also writes: a database may prevent it for reads alone, which the table
//! calls R/O.

use crate::scripted::{Line, Played, lines};

/// One interleaving.
pub struct Test {
    /// The column of the table that it belongs to.
    pub anomaly: &'static str,
    /// What is particular about it.
    pub variant: &'static str,
    /// Whether the transaction that would see the anomaly finds out by writing.
    pub writes: bool,
    script: &'static [(u32, &'static str)],
    happened: fn(&Played) -> bool,
}

/// What a database does about an anomaly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prevents {
    /// It does not happen.
    Yes,
    /// It does not happen to reads, but to writes.
    Reads,
    /// It happens.
    No,
}

impl Prevents {
    /// As the published table writes it.
    #[must_use]
    pub fn mark(self) -> &'static str {
        match self {
            Prevents::Yes => "✓",
            Prevents::Reads => "R/O",
            Prevents::No => "—",
        }
    }

    /// In a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Prevents::Yes => "prevented",
            Prevents::Reads => "prevented for reads",
            Prevents::No => "possible",
        }
    }
}

impl Test {
    /// Its lines.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        lines(self.script)
    }

    /// Whether the anomaly happened.
    #[must_use]
    pub fn happened(&self, played: &Played) -> bool {
        (self.happened)(played)
    }
}

/// The columns of the table, in its order.
pub const ANOMALIES: [&str; 10] =
    ["G0", "G1a", "G1b", "G1c", "OTV", "PMP", "P4", "G-single", "G2-item", "G2"];

/// What the tests of one column say together: `(writes, happened)` of each.
#[must_use]
pub fn prevents(results: &[(bool, bool)]) -> Prevents {
    let happened = |writes: bool| results.iter().any(|&(wrote, happened)| happened && wrote == writes);
    match (happened(false), happened(true)) {
        (true, _) => Prevents::No,
        (false, true) if results.iter().any(|&(wrote, _)| !wrote) => Prevents::Reads,
        (false, true) => Prevents::No,
        (false, false) => Prevents::Yes,
    }
}

const ALL: &str = "SELECT id, value FROM margay_test";
const ONE: &str = "SELECT id, value FROM margay_test WHERE id = 1";
const TWO: &str = "SELECT id, value FROM margay_test WHERE id = 2";
const BY_3: &str = "SELECT id, value FROM margay_test WHERE value % 3 = 0";

/// All interleavings.
pub const TESTS: &[Test] = &[
    Test {
        anomaly: "G0",
        variant: "two transactions write the same two rows",
        writes: false,
        script: &[
            (1, "UPDATE margay_test SET value = 11 WHERE id = 1"),
            (2, "UPDATE margay_test SET value = 12 WHERE id = 1"),
            (1, "UPDATE margay_test SET value = 21 WHERE id = 2"),
            (1, "commit"),
            (2, "UPDATE margay_test SET value = 22 WHERE id = 2"),
            (2, "commit"),
            (3, ALL),
            (3, "commit"),
        ],
        happened: |played| {
            let both = |one, two| played.shows(6, 1, one) && played.shows(6, 2, two);
            both(11, 22) || both(12, 21)
        },
    },
    Test {
        anomaly: "G1a",
        variant: "a read of what is rolled back",
        writes: false,
        script: &[
            (1, "UPDATE margay_test SET value = 101 WHERE id = 1"),
            (2, ALL),
            (1, "rollback"),
            (2, ALL),
            (2, "commit"),
        ],
        happened: |played| played.shows(1, 1, 101) || played.shows(3, 1, 101),
    },
    Test {
        anomaly: "G1b",
        variant: "a read of what is overwritten by its own transaction",
        writes: false,
        script: &[
            (1, "UPDATE margay_test SET value = 101 WHERE id = 1"),
            (2, ALL),
            (1, "UPDATE margay_test SET value = 11 WHERE id = 1"),
            (1, "commit"),
            (2, ALL),
            (2, "commit"),
        ],
        happened: |played| played.shows(1, 1, 101) || played.shows(4, 1, 101),
    },
    Test {
        anomaly: "G1c",
        variant: "two transactions read each other's writes",
        writes: false,
        script: &[
            (1, "UPDATE margay_test SET value = 11 WHERE id = 1"),
            (2, "UPDATE margay_test SET value = 22 WHERE id = 2"),
            (1, TWO),
            (2, ONE),
            (1, "commit"),
            (2, "commit"),
        ],
        happened: |played| played.shows(2, 2, 22) && played.shows(3, 1, 11) && played.all_committed(&[1, 2]),
    },
    Test {
        anomaly: "OTV",
        variant: "a third transaction sees half of one and half of the next",
        writes: false,
        script: &[
            (1, "UPDATE margay_test SET value = 11 WHERE id = 1"),
            (1, "UPDATE margay_test SET value = 19 WHERE id = 2"),
            (2, "UPDATE margay_test SET value = 12 WHERE id = 1"),
            (1, "commit"),
            (3, ALL),
            (2, "UPDATE margay_test SET value = 18 WHERE id = 2"),
            (3, ALL),
            (2, "commit"),
            (3, ALL),
            (3, "commit"),
        ],
        happened: |played| {
            let half = |line| {
                played.shows(line, 1, 12) && played.shows(line, 2, 19)
                    || played.shows(line, 1, 11) && played.shows(line, 2, 18)
            };
            [4, 6, 8].into_iter().any(half)
        },
    },
    Test {
        anomaly: "PMP",
        variant: "a read by predicate, then another that a new row matches",
        writes: false,
        script: &[
            (1, "SELECT id, value FROM margay_test WHERE value = 30"),
            (2, "INSERT INTO margay_test (id, value) VALUES (3, 30)"),
            (2, "commit"),
            (1, BY_3),
            (1, "commit"),
        ],
        happened: |played| played.rows(0).is_empty() && played.shows(3, 3, 30),
    },
    Test {
        anomaly: "PMP",
        variant: "a delete by predicate of other rows than were read",
        writes: true,
        script: &[
            (1, "UPDATE margay_test SET value = value + 10"),
            (2, "SELECT id, value FROM margay_test WHERE value = 20"),
            (2, "DELETE FROM margay_test WHERE value = 20"),
            (1, "commit"),
            (2, ALL),
            (2, "commit"),
        ],
        happened: |played| {
            let still = played.rows(4).iter().any(|&(id, _)| id == 2);
            played.shows(1, 2, 20) && still && played.committed(2)
        },
    },
    Test {
        anomaly: "P4",
        variant: "two transactions read a row, and both write it",
        writes: false,
        script: &[
            (1, ONE),
            (2, ONE),
            (1, "UPDATE margay_test SET value = 11 WHERE id = 1"),
            (2, "UPDATE margay_test SET value = 12 WHERE id = 1"),
            (1, "commit"),
            (2, "commit"),
        ],
        happened: |played| played.shows(1, 1, 10) && played.all_committed(&[1, 2]),
    },
    Test {
        anomaly: "G-single",
        variant: "a read of a row before and of another after their writer",
        writes: false,
        script: &[
            (1, ONE),
            (2, ONE),
            (2, TWO),
            (2, "UPDATE margay_test SET value = 12 WHERE id = 1"),
            (2, "UPDATE margay_test SET value = 18 WHERE id = 2"),
            (2, "commit"),
            (1, TWO),
            (1, "commit"),
        ],
        happened: |played| played.shows(0, 1, 10) && played.shows(6, 2, 18),
    },
    Test {
        anomaly: "G-single",
        variant: "the same by predicates",
        writes: false,
        script: &[
            (1, "SELECT id, value FROM margay_test WHERE value % 5 = 0"),
            (2, "UPDATE margay_test SET value = 12 WHERE value = 10"),
            (2, "commit"),
            (1, BY_3),
            (1, "commit"),
        ],
        happened: |played| played.shows(0, 1, 10) && played.shows(3, 1, 12),
    },
    Test {
        anomaly: "G-single",
        variant: "a delete by predicate that misses what the transaction sees",
        writes: true,
        script: &[
            (1, ONE),
            (2, ALL),
            (2, "UPDATE margay_test SET value = 12 WHERE id = 1"),
            (2, "UPDATE margay_test SET value = 18 WHERE id = 2"),
            (2, "commit"),
            (1, "DELETE FROM margay_test WHERE value = 20"),
            (1, "commit"),
        ],
        happened: |played| {
            played.shows(0, 1, 10) && played.changed(5) == Some(0) && played.all_committed(&[1, 2])
        },
    },
    Test {
        anomaly: "G2-item",
        variant: "two transactions read two rows, and each writes another of them",
        writes: false,
        script: &[
            (1, "SELECT id, value FROM margay_test WHERE id IN (1, 2)"),
            (2, "SELECT id, value FROM margay_test WHERE id IN (1, 2)"),
            (1, "UPDATE margay_test SET value = 11 WHERE id = 1"),
            (2, "UPDATE margay_test SET value = 21 WHERE id = 2"),
            (1, "commit"),
            (2, "commit"),
        ],
        happened: |played| played.shows(0, 2, 20) && played.shows(1, 1, 10) && played.all_committed(&[1, 2]),
    },
    Test {
        anomaly: "G2",
        variant: "two transactions read by predicate, and each inserts a row that matches",
        writes: false,
        script: &[
            (1, BY_3),
            (2, BY_3),
            (1, "INSERT INTO margay_test (id, value) VALUES (3, 30)"),
            (2, "INSERT INTO margay_test (id, value) VALUES (4, 42)"),
            (1, "commit"),
            (2, "commit"),
        ],
        happened: |played| {
            played.rows(0).is_empty() && played.rows(1).is_empty() && played.all_committed(&[1, 2])
        },
    },
    Test {
        anomaly: "G2",
        variant: "a reader sees the second of two writers of which the first is to come (Fekete et al.)",
        writes: false,
        script: &[
            (1, ALL),
            (2, "UPDATE margay_test SET value = value + 5 WHERE id = 2"),
            (2, "commit"),
            (3, ALL),
            (3, "commit"),
            (1, "UPDATE margay_test SET value = 0 WHERE id = 1"),
            (1, "commit"),
        ],
        happened: |played| {
            played.shows(0, 2, 20)
                && played.shows(3, 1, 10)
                && played.shows(3, 2, 25)
                && played.all_committed(&[1, 2, 3])
        },
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_has_a_test_and_every_test_a_column() {
        assert!(TESTS.iter().all(|test| ANOMALIES.contains(&test.anomaly)));
        assert!(ANOMALIES.iter().all(|anomaly| TESTS.iter().any(|test| test.anomaly == *anomaly)));
    }

    #[test]
    fn what_happens_to_writes_only_is_marked_so() {
        assert_eq!(prevents(&[(false, false), (true, true)]), Prevents::Reads);
        assert_eq!(prevents(&[(false, true), (true, true)]), Prevents::No);
        assert_eq!(prevents(&[(false, false), (true, false)]), Prevents::Yes);
        assert_eq!(prevents(&[(true, true)]), Prevents::No);
    }
}
