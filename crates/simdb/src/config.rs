//! What to simulate.

use std::fmt;

use margay_client::Setting;

use crate::fault::Fault;
use crate::protocol::Protocol;

mod options;
mod parse;

pub use options::OPTIONS;
pub use parse::ConfigError;

/// A probability in parts of a million.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash, Debug)]
pub struct Ppm(pub u32);

impl Ppm {
    /// Never.
    pub const NEVER: Ppm = Ppm(0);
    /// Always.
    pub const ALWAYS: Ppm = Ppm(1_000_000);

    /// So many in a hundred.
    #[must_use]
    pub const fn percent(percent: u32) -> Ppm {
        Ppm(percent * 10_000)
    }
}

impl fmt::Display for Ppm {
    /// The shortest decimal fraction.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fraction = format!("{:06}", self.0 % 1_000_000);
        match fraction.trim_end_matches('0') {
            "" => write!(f, "{}", self.0 / 1_000_000),
            digits => write!(f, "{}.{digits}", self.0 / 1_000_000),
        }
    }
}

/// What clients ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Reads a register.
    Read,
    /// Writes a register.
    Write,
    /// Reads a list.
    ReadList,
    /// Appends to a list.
    Append,
    /// Reads a row.
    ReadRow,
    /// Writes a whole row: an insert if it is absent.
    WriteRow,
    /// Writes one column of a row.
    WriteColumn,
    /// Deletes a row.
    DeleteRow,
    /// Reads the rows that match a condition.
    Scan,
    /// Changes the rows that match a condition.
    Update,
    /// Deletes the rows that match a condition.
    DeleteWhere,
    /// Counts and sums the rows that match a condition.
    Aggregate,
}

impl Kind {
    /// Every kind with its name.
    pub const ALL: [(Kind, &'static str); 12] = [
        (Kind::Read, "read"),
        (Kind::Write, "write"),
        (Kind::ReadList, "read-list"),
        (Kind::Append, "append"),
        (Kind::ReadRow, "read-row"),
        (Kind::WriteRow, "write-row"),
        (Kind::WriteColumn, "write-column"),
        (Kind::DeleteRow, "delete-row"),
        (Kind::Scan, "scan"),
        (Kind::Update, "update"),
        (Kind::DeleteWhere, "delete-where"),
        (Kind::Aggregate, "aggregate"),
    ];
}

/// How often clients ask for what: a weight per kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mix {
    /// By [`Kind`].
    pub weights: [u32; 12],
}

impl Mix {
    /// The mixes that have names.
    pub const NAMED: [(&'static str, Mix); 4] = [
        ("registers", Mix { weights: [50, 50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] }),
        ("lists", Mix { weights: [0, 0, 50, 50, 0, 0, 0, 0, 0, 0, 0, 0] }),
        ("rows", Mix { weights: [0, 0, 0, 0, 25, 15, 15, 5, 25, 12, 3, 0] }),
        ("mixed", Mix { weights: [25, 20, 10, 10, 10, 6, 6, 3, 6, 3, 1, 0] }),
    ];

    /// The mix of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Mix> {
        Self::NAMED.iter().find(|(n, _)| *n == name).map(|&(_, mix)| mix)
    }

    /// The weight of a kind.
    #[must_use]
    pub fn weight(&self, kind: Kind) -> u32 {
        self.weights[kind as usize]
    }

    /// Whether registers are used.
    #[must_use]
    pub fn registers(&self) -> bool {
        self.uses(&[Kind::Read, Kind::Write])
    }

    /// Whether the table is used.
    #[must_use]
    pub fn rows(&self) -> bool {
        self.weights[Kind::ReadRow as usize..].iter().any(|&w| w > 0)
    }

    /// Whether registers are used and nothing else.
    #[must_use]
    pub fn only_registers(&self) -> bool {
        self.registers() && !self.rows() && !self.uses(&[Kind::ReadList, Kind::Append])
    }

    fn uses(&self, kinds: &[Kind]) -> bool {
        kinds.iter().any(|&kind| self.weight(kind) > 0)
    }
}

impl fmt::Display for Mix {
    /// The mix's name, or its weights as `read=50,write=50`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = Self::NAMED.iter().find(|(_, mix)| mix == self) {
            return f.write_str(name);
        }
        let used = Kind::ALL.iter().filter(|(kind, _)| self.weight(*kind) > 0);
        let parts: Vec<_> = used.map(|(kind, name)| format!("{name}={}", self.weight(*kind))).collect();
        f.write_str(&parts.join(","))
    }
}

/// Which keys clients prefer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Distribution {
    /// None.
    Uniform,
    /// Key number k with weight 1/(k+1): Zipf's law with exponent 1.
    Zipf,
}

/// Which evidence to emit: the percentage of its pieces that is, 0 for none.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EvidenceOptions {
    /// The order of the versions of each object.
    pub version_order: u8,
    /// The versions that each operation saw.
    pub version_set: u8,
    /// Snapshot timestamps, where the protocol has snapshots.
    pub snapshot: u8,
    /// Commit timestamps.
    pub commit: u8,
    /// The serialization order, where the protocol has one.
    pub serialization: u8,
}

impl EvidenceOptions {
    /// All evidence, whole.
    pub const ALL: EvidenceOptions = EvidenceOptions {
        version_order: 100,
        version_set: 100,
        snapshot: 100,
        commit: 100,
        serialization: 100,
    };

    /// The names and percentages.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, u8); 5] {
        [
            ("version-order", self.version_order),
            ("version-set", self.version_set),
            ("snapshot", self.snapshot),
            ("commit", self.commit),
            ("serialization", self.serialization),
        ]
    }
}

/// How long things take, in nanoseconds. Every duration is drawn evenly from 1 to its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// One way between client and database.
    pub latency: u64,
    /// Between an answer and the next call.
    pub think: u64,
    /// Once in a while, on top of a latency.
    pub stall: u64,
    /// How often a latency has a stall.
    pub stalls: Ppm,
}

/// A simulation. Equal configurations give equal histories, byte for byte.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SimConfig {
    /// What the database runs.
    pub protocol: Protocol,
    /// What goes wrong in it, and how often.
    pub faults: Vec<(Fault, Ppm)>,
    /// How many clients there are.
    pub clients: u32,
    /// How many transactions they begin in all.
    pub transactions: u64,
    /// How many operations a transaction has: at least and at most.
    pub ops: (u32, u32),
    /// How many keys each kind of object has.
    pub keys: u32,
    /// What clients ask for.
    pub mix: Mix,
    /// Which keys they prefer.
    pub distribution: Distribution,
    /// Where randomness comes from.
    pub seed: u64,
    /// How often a client rolls back instead of committing.
    pub aborts: Ppm,
    /// How often a client never learns how its commit ended. Half of these commits reach the
    /// database.
    pub unknown: Ppm,
    /// How far clients' clocks are apart at most, in nanoseconds; the history says so.
    pub skew: u64,
    /// The values of column `v` that clients write are below this.
    pub domain: i64,
    /// A list of this length is left alone and a new one begun.
    pub list_length: u32,
    /// Whether aggregates are recorded as SQL statements with their results; otherwise as the
    /// predicate reads they were computed from.
    pub sql: bool,
    /// What is told beyond what clients saw.
    pub evidence: EvidenceOptions,
    /// How long things take.
    pub timing: Timing,
}

impl Default for SimConfig {
    fn default() -> Self {
        Self {
            protocol: Protocol::Ss2pl,
            faults: Vec::new(),
            clients: 8,
            transactions: 1000,
            ops: (1, 8),
            keys: 100,
            mix: Mix::NAMED[3].1,
            distribution: Distribution::Uniform,
            seed: 0,
            aborts: Ppm::percent(3),
            unknown: Ppm::percent(1),
            skew: 0,
            domain: 100,
            list_length: 32,
            sql: false,
            evidence: EvidenceOptions::default(),
            timing: Timing { latency: 100_000, think: 100_000, stall: 3_000_000, stalls: Ppm(5_000) },
        }
    }
}

impl SimConfig {
    /// The default configuration of a protocol.
    #[must_use]
    pub fn new(protocol: Protocol, seed: u64) -> Self {
        Self { protocol, seed, ..Self::default() }
    }

    /// A database for clients that are really there, with both registers and rows.
    #[must_use]
    pub fn of(setting: &Setting, protocol: Protocol) -> Self {
        let &Setting { clients, keys, domain, seed } = setting;
        Self { clients, keys, domain, ..Self::new(protocol, seed) }
    }

    /// A history small enough for the naive engine: few clients, few keys, a handful of
    /// transactions.
    #[must_use]
    pub fn small(protocol: Protocol, mix: Mix, seed: u64) -> Self {
        Self {
            clients: 3,
            transactions: 6,
            ops: (1, 3),
            keys: 3,
            mix,
            domain: 6,
            aborts: Ppm::percent(10),
            unknown: Ppm::percent(5),
            ..Self::new(protocol, seed)
        }
    }

    /// The same configuration with one more fault.
    #[must_use]
    pub fn with_fault(mut self, fault: Fault, probability: Ppm) -> Self {
        self.faults.push((fault, probability));
        self
    }
}
