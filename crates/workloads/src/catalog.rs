//! The workloads that have names.

use std::fmt;
use std::str::FromStr;

use margay_levels::UnknownName;

use crate::bank::Bank;
use crate::blindw::{BlindW, Kind};
use crate::draw::{Distribution, Options};
use crate::generator::Generator;
use crate::program::Program;
use crate::random_sql::{RandomSql, Reuse};
use crate::rubis::Rubis;
use crate::smallbank::SmallBank;
use crate::tpcc::Tpcc;
use crate::twitter::Twitter;

/// What a transaction does next: one statement, or a few that belong together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WorkloadStep {
    /// Reads a register.
    Read,
    /// Writes a register blindly.
    Write,
    /// Reads a register, then writes it.
    Increment,
    /// Reads both registers of a pair, then writes one of them: two of these at once are write skew
    /// unless one is refused.
    Skew,
    /// Reads a list.
    ReadList,
    /// Appends to a list.
    Append,
    /// Reads a row.
    ReadRow,
    /// Writes a row: an insert if there is none.
    WriteRow,
    /// Reads a row, then writes it.
    IncrementRow,
    /// Deletes a row.
    DeleteRow,
    /// Reads the rows that match a condition.
    Scan,
    /// Reads the rows that match a condition, then writes a row that matches it too: a phantom for
    /// whoever does the same.
    ScanThenWrite,
    /// Changes the rows that match a condition.
    UpdateWhere,
}

/// A workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Workload {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line.
    pub description: &'static str,
    /// Where it and its numbers come from.
    pub source: &'static str,
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
    /// Interleavings that are written down, one after the other.
    Scripted(Scripted),
    /// Nothing: these workloads are listed.
    List,
}

/// Transactions of statements that are drawn one by one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Steps {
    /// The kinds of transactions: how often each comes, and how often it does what.
    pub kinds: &'static [(u32, &'static [(WorkloadStep, u32)])],
    /// How many steps a transaction has: at least and at most.
    pub length: (u32, u32),
    /// How many keys each kind of object has. Few keys make conflicts.
    pub keys: u32,
    /// How often which key is asked for.
    pub distribution: Distribution,
    /// How many in a hundred transactions their client rolls back.
    pub rollbacks: u32,
}

impl Steps {
    /// One kind of transaction on keys that are asked for equally often.
    const fn uniform(
        kinds: &'static [(u32, &'static [(WorkloadStep, u32)])],
        length: (u32, u32),
        keys: u32,
        rollbacks: u32,
    ) -> Body {
        Body::Steps(Steps { kinds, length, keys, distribution: Distribution::Uniform, rollbacks })
    }
}

/// The programs that have names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Named {
    /// Troubadour's bank.
    Bank,
    /// SmallBank.
    SmallBank,
    /// TPC-C.
    Tpcc,
    /// C-Twitter.
    Twitter,
    /// RUBiS.
    Rubis,
    /// BlindW with ranges.
    BlindW(Kind),
    /// Statements out of a grammar.
    RandomSql(Reuse),
}

impl Named {
    fn open(self, options: Options) -> Box<dyn Program> {
        match self {
            Named::Bank => Box::new(Bank(options)),
            Named::SmallBank => Box::new(SmallBank(options)),
            Named::Tpcc => Box::new(Tpcc(options)),
            Named::Twitter => Box::new(Twitter(options)),
            Named::Rubis => Box::new(Rubis(options)),
            Named::BlindW(kind) => Box::new(BlindW(kind, options)),
            Named::RandomSql(reuse) => Box::new(RandomSql(reuse, options)),
        }
    }
}

/// What is not in the list: the statements of a file, one after the other.
pub const SCRIPT: Workload = Workload {
    name: "script",
    description: "the statements of a file, one after the other",
    source: "--script",
    body: Body::List,
    options: Options { keys: None, distribution: None },
};

/// The catalogues of interleavings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scripted {
    /// Hermitage.
    Hermitage,
    /// The anomalies of Coo.
    Coo,
}

/// Nothing is said on the command line.
const OWN: Options = Options { keys: None, distribution: None };

const fn workload(
    name: &'static str,
    description: &'static str,
    source: &'static str,
    body: Body,
) -> Workload {
    Workload { name, description, source, body, options: OWN }
}

use WorkloadStep::*;

const READS: &[(WorkloadStep, u32)] = &[(Read, 1)];
const WRITES: &[(WorkloadStep, u32)] = &[(Write, 1)];

/// Every workload; the first is the default.
pub const WORKLOADS: &[Workload] = &[
    workload(
        "mixed",
        "registers, read-modify-write, list append, rows and predicate scans together",
        "Margay",
        Steps::uniform(
            &[(
                1,
                &[
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
            )],
            (1, 4),
            24,
            3,
        ),
    ),
    workload(
        "rw-register",
        "reads and blind writes of registers",
        "Elle",
        Steps::uniform(&[(1, &[(Read, 1), (Write, 1)])], (2, 6), 32, 3),
    ),
    workload(
        "list-append",
        "reads of lists and appends to them",
        "Elle",
        Steps::uniform(&[(1, &[(ReadList, 1), (Append, 1)])], (2, 6), 10, 3),
    ),
    workload(
        "increment",
        "read-modify-write of few registers, prone to lost updates",
        "Margay",
        Steps::uniform(&[(1, &[(Increment, 4), (Read, 1)])], (1, 3), 12, 3),
    ),
    workload(
        "write-skew",
        "reads of two registers and a write of one of them",
        "Margay",
        Steps::uniform(&[(1, &[(Skew, 4), (Read, 1)])], (1, 2), 12, 0),
    ),
    workload(
        "predicate",
        "predicate scans among inserts, updates and deletes of rows",
        "Margay",
        Steps::uniform(
            &[(1, &[(Scan, 3), (ScanThenWrite, 3), (ReadRow, 2), (WriteRow, 3), (DeleteRow, 2)])],
            (1, 4),
            24,
            3,
        ),
    ),
    workload(
        "blindw-w",
        "transactions of blind writes",
        "Leopard §VI (after Cobra): 2,000 keys, 8 operations",
        Steps::uniform(&[(1, WRITES)], (8, 8), 2000, 0),
    ),
    workload(
        "blindw-rw",
        "half of the transactions read, half write blindly",
        "Leopard §VI: 2,000 keys, 8 operations",
        Steps::uniform(&[(1, READS), (1, WRITES)], (8, 8), 2000, 0),
    ),
    workload(
        "blindw-rw-plus",
        "blindw-rw, where half of the reads are of ranges of ten keys, in SQL",
        "Leopard §VI: 2,000 rows, 8 operations",
        Body::Program(Named::BlindW(Kind::RwPlus)),
    ),
    workload(
        "blindw-rh",
        "four in five transactions read, the others write blindly",
        "Vbox, evaluation: 10,000 keys; 8 operations as BlindW's",
        Steps::uniform(&[(4, READS), (1, WRITES)], (8, 8), 10_000, 0),
    ),
    workload(
        "blindw-wr",
        "half of the transactions read, half write blindly",
        "Vbox, evaluation: 10,000 keys; 8 operations as BlindW's",
        Steps::uniform(&[(1, READS), (1, WRITES)], (8, 8), 10_000, 0),
    ),
    workload(
        "blindw-wh",
        "one in five transactions reads, the others write blindly",
        "Vbox, evaluation: 10,000 keys; 8 operations as BlindW's",
        Steps::uniform(&[(1, READS), (4, WRITES)], (8, 8), 10_000, 0),
    ),
    workload(
        "blindw-pred",
        "predicate reads and predicate writes by ranges of two columns, half each, in SQL",
        "Vbox, evaluation: 10,000 rows (k, v1, v2)",
        Body::Program(Named::BlindW(Kind::Pred)),
    ),
    workload(
        "ycsb-a",
        "reads and updates, half each, of keys by Zipf's law",
        "Leopard §III (YCSB): 1,000,000 records there, 10,000 here; 8 operations",
        Body::Steps(Steps {
            kinds: &[(1, &[(Read, 1), (Write, 1)])],
            length: (8, 8),
            keys: 10_000,
            distribution: Distribution::Zipf,
            rollbacks: 0,
        }),
    ),
    workload(
        "smallbank",
        "customers with two accounts: balance, deposit, savings, amalgamate, write check, in SQL",
        "Leopard §VI (Alomari et al.): 1,000 customers",
        Body::Program(Named::SmallBank),
    ),
    workload(
        "tpcc",
        "TPC-C: new order 45 %, payment 43 %, delivery, order status, stock level 4 % each, in SQL",
        "Leopard §VI, Vbox, Troubadour §8: 1 warehouse; 10 districts, 30 customers each, 100 items here",
        Body::Program(Named::Tpcc),
    ),
    workload(
        "c-twitter",
        "a social network: new tweet 20 %, follow 40 %, timeline 10 %, followers 10 %, tweets 20 %, in SQL",
        "Vbox, evaluation; Troubadour §8: 1,000 users, here by Zipf's law",
        Body::Program(Named::Twitter),
    ),
    workload(
        "rubis",
        "an auction site: users 10 %, items 15 %, purchases 15 %, comments 20 %, browsing 40 %, in SQL",
        "Troubadour §8: 1,000 users, 4,000 items",
        Body::Program(Named::Rubis),
    ),
    workload(
        "bank-server",
        "accounts: deposits, withdrawals, transfers, overdrafts, balance checks, in SQL",
        "Troubadour §8: 1,000 accounts, 20 % balance checks",
        Body::Program(Named::Bank),
    ),
    workload(
        "random-sql",
        "random statements: conditions, aggregates, groups, joins, subqueries, upserts, changes of many rows, in SQL",
        "Margay",
        Body::Program(Named::RandomSql(Reuse::Never)),
    ),
    workload(
        "random-sql-reuse",
        "random-sql, where keys of deleted rows are inserted again",
        "Margay",
        Body::Program(Named::RandomSql(Reuse::Often)),
    ),
    workload(
        "emme-item",
        "rows: updates 30 %, reads 40 %, increments 20 %, inserts 10 %",
        "Emme §8.2: 1,000 keys, 5 operations",
        Steps::uniform(&[(1, &[(WriteRow, 4), (ReadRow, 4), (IncrementRow, 2)])], (5, 5), 1000, 0),
    ),
    workload(
        "emme-predicate",
        "rows: inserts 10 %, reads and updates half each, half of them by predicates",
        "Emme §8.2: 100 keys, 5 operations",
        Steps::uniform(&[(1, &[(WriteRow, 13), (ReadRow, 9), (Scan, 9), (UpdateWhere, 9)])], (5, 5), 100, 0),
    ),
    workload(
        "king-cobra-rmw",
        "reads 25 %, writes 25 %, read-modify-writes 50 %",
        "King Cobra §8.4: 20 clients there; keys and length are not told",
        Steps::uniform(&[(1, &[(Read, 1), (Write, 1), (Increment, 2)])], (8, 8), 1000, 0),
    ),
    workload(
        "king-cobra-rw",
        "reads and writes, half each",
        "King Cobra §8.4: 20 clients there; keys and length are not told",
        Steps::uniform(&[(1, &[(Read, 1), (Write, 1)])], (8, 8), 1000, 0),
    ),
    workload(
        "king-cobra-write",
        "reads 10 %, read-modify-writes 10 %, writes 80 %",
        "King Cobra §8.4: 20 clients there; keys and length are not told",
        Steps::uniform(&[(1, &[(Read, 1), (Increment, 1), (Write, 8)])], (8, 8), 1000, 0),
    ),
    workload(
        "hermitage",
        "which anomalies each level prevents, by scripted interleavings, in SQL",
        "Hermitage (Kleppmann)",
        Body::Scripted(Scripted::Hermitage),
    ),
    workload(
        "coo",
        "the anomalies of Coo as scripted interleavings, in SQL",
        "Vbox, Table 1 (Coo)",
        Body::Scripted(Scripted::Coo),
    ),
    workload("list", "nothing is run: all workloads are listed", "Margay", Body::List),
];

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
    /// The same with other keys.
    #[must_use]
    pub fn with(self, options: Options) -> Self {
        Self { options, ..self }
    }

    /// How many keys each kind of object has; none for what is in SQL.
    #[must_use]
    pub fn keys(&self) -> u32 {
        match self.body {
            Body::Steps(steps) => self.options.keys.unwrap_or(steps.keys).max(2),
            Body::Program(_) | Body::Scripted(_) | Body::List => 0,
        }
    }

    /// The plans of client number `client` of `clients`; empty ones for what is in SQL.
    #[must_use]
    pub fn plans(&self, seed: u64, client: u32, clients: u32) -> Generator {
        let none =
            Steps { kinds: &[], length: (0, 0), keys: 2, distribution: Distribution::Uniform, rollbacks: 0 };
        let steps = if let Body::Steps(steps) = self.body { steps } else { none };
        Generator::new(steps, self.options, seed, client, clients)
    }

    /// Whether it appends to lists, or changes the rows that match a condition.
    #[must_use]
    pub fn changes_what_is_there(&self) -> bool {
        let Body::Steps(steps) = self.body else { return false };
        let all = steps.kinds.iter().flat_map(|(_, steps)| *steps);
        all.into_iter().any(|(step, _)| matches!(step, Append | UpdateWhere))
    }

    /// The program, if the workload is one.
    #[must_use]
    pub fn program(&self) -> Option<Box<dyn Program>> {
        match self.body {
            Body::Program(named) => Some(named.open(self.options)),
            Body::Steps(_) | Body::Scripted(_) | Body::List => None,
        }
    }

    /// The values of column `v` that it writes are below this.
    #[must_use]
    pub fn domain(&self) -> i64 {
        crate::generator::domain(self.keys())
    }
}
