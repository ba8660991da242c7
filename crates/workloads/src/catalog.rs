//! The workloads that have names.

use std::fmt;
use std::str::FromStr;

use margay_levels::UnknownName;

use crate::bank::Bank;
use crate::draw::Options;
use crate::generator::Generator;
use crate::program::Program;

/// What a transaction does next: one statement, or a few that belong together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Reads a register.
    Read,
    /// Writes a register blindly.
    Write,
    /// Reads a register, then writes it.
    Increment,
    /// Reads both registers of a pair, then writes one of them: two of these at once are write skew unless one is refused.
    Skew,
    /// Reads a list.
    ReadList,
    /// Appends to a list.
    Append,
    /// Reads a row.
    ReadRow,
    /// Writes a row: an insert if there is none.
    WriteRow,
    /// Deletes a row.
    DeleteRow,
    /// Reads the rows that match a condition.
    Scan,
    /// Reads the rows that match a condition, then writes a row that matches it too: a phantom for whoever does the same.
    ScanThenWrite,
}

/// A workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Workload {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line.
    pub description: &'static str,
    /// What clients do.
    pub body: Body,
    /// What the command line says of its keys.
    pub options: Options,
}

/// What clients do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// Statements on registers, lists and rows, drawn one by one.
    Steps(Steps),
    /// Transactions in SQL.
    Program(Named),
}

/// Transactions of statements that are drawn one by one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Steps {
    /// How often a transaction does what.
    pub steps: &'static [(Step, u32)],
    /// How many steps a transaction has: at least and at most.
    pub length: (u32, u32),
    /// How many keys each kind of object has. Few keys make conflicts.
    pub keys: u32,
    /// How many in a hundred transactions their client rolls back.
    pub rollbacks: u32,
}

/// The programs that have names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Named {
    /// Troubadour's bank.
    Bank,
}

impl Named {
    fn open(self, options: Options) -> Box<dyn Program> {
        match self {
            Named::Bank => Box::new(Bank(options)),
        }
    }
}

use Step::*;

/// Every workload; the first is the default.
pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "mixed",
        description: "registers, read-modify-write, list append, rows and predicate scans together",
        body: Body::Steps(Steps {
            steps: &[
                (Read, 5),
                (Write, 3),
                (Increment, 3),
                (Skew, 2),
                (ReadList, 2),
                (Append, 2),
                (ReadRow, 1),
                (WriteRow, 2),
                (Scan, 1),
            ],
            length: (1, 4),
            keys: 24,
            rollbacks: 3,
        }),
        options: OWN,
    },
    Workload {
        name: "rw-register",
        description: "reads and blind writes of registers",
        body: Body::Steps(Steps { steps: &[(Read, 1), (Write, 1)], length: (2, 6), keys: 32, rollbacks: 3 }),
        options: OWN,
    },
    Workload {
        name: "increment",
        description: "read-modify-write of few registers: the home of lost updates",
        body: Body::Steps(Steps {
            steps: &[(Increment, 4), (Read, 1)],
            length: (1, 3),
            keys: 12,
            rollbacks: 3,
        }),
        options: OWN,
    },
    Workload {
        name: "list-append",
        description: "reads of lists and appends to them",
        body: Body::Steps(Steps {
            steps: &[(ReadList, 1), (Append, 1)],
            length: (2, 6),
            keys: 10,
            rollbacks: 3,
        }),
        options: OWN,
    },
    Workload {
        name: "write-skew",
        description: "reads of two registers and a write of one of them",
        body: Body::Steps(Steps { steps: &[(Skew, 4), (Read, 1)], length: (1, 2), keys: 12, rollbacks: 0 }),
        options: OWN,
    },
    Workload {
        name: "predicate",
        description: "predicate scans among inserts, updates and deletes of rows",
        body: Body::Steps(Steps {
            steps: &[(Scan, 3), (ScanThenWrite, 3), (ReadRow, 2), (WriteRow, 3), (DeleteRow, 2)],
            length: (1, 4),
            keys: 24,
            rollbacks: 3,
        }),
        options: OWN,
    },
    Workload {
        name: "bank-server",
        description: "accounts: deposits, withdrawals, transfers, overdrafts, balance checks, in SQL",
        body: Body::Program(Named::Bank),
        options: OWN,
    },
];

/// Nothing is said on the command line.
const OWN: Options = Options { keys: None, distribution: None };

impl Default for Workload {
    fn default() -> Self {
        WORKLOADS[0]
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

impl FromStr for Workload {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let found = WORKLOADS.iter().find(|workload| workload.name == name);
        found.copied().ok_or_else(|| UnknownName::among("workload", name, WORKLOADS.iter().map(|w| w.name)))
    }
}

impl Workload {
    /// How many keys each kind of object has; none for a program.
    #[must_use]
    pub fn keys(&self) -> u32 {
        match self.body {
            Body::Steps(steps) => self.options.keys.unwrap_or(steps.keys).max(2),
            Body::Program(_) => 0,
        }
    }

    /// The plans of client number `client` of `clients`; empty ones for a program.
    #[must_use]
    pub fn plans(&self, seed: u64, client: u32, clients: u32) -> Generator {
        let steps = match self.body {
            Body::Steps(steps) => steps,
            Body::Program(_) => Steps { steps: &[], length: (0, 0), keys: 2, rollbacks: 0 },
        };
        Generator::new(steps, self.options, seed, client, clients)
    }

    /// The program, if the workload is one.
    #[must_use]
    pub fn program(&self) -> Option<Box<dyn Program>> {
        match self.body {
            Body::Steps(_) => None,
            Body::Program(named) => Some(named.open(self.options)),
        }
    }

    /// The values of column `v` that it writes are below this.
    #[must_use]
    pub const fn domain(&self) -> i64 {
        crate::generator::DOMAIN
    }
}
