//! What each level means here.
//!
//! A level *holds* when some choice of (which transactions of unknown outcome committed,
//! reads-from, version order, begin and commit points) allowed by the history and the evidence is
//! legal. `docs/LEVELS.md` has the whole text under "Choices".

use crate::Level;

/// What a level means, as data.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// Whether session order is part of the level.
    pub session_order: bool,
    /// Whether real time is part of the level. Real time contains session order.
    pub real_time: bool,
    /// What has to be found for the level to hold.
    pub family: Family,
    /// One line.
    pub summary: &'static str,
    /// One paragraph.
    pub text: &'static str,
    /// Keys of the sources.
    pub cites: &'static [&'static str],
}

/// What has to be found for a level to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// A version order whose dependency graph lacks certain cycles.
    Graph,
    /// A total commit order that satisfies an axiom for every read.
    CommitOrder(Axiom),
    /// An order of begin and commit points.
    Snapshot,
    /// A serial order whose replay gives every observation.
    Serial,
}

/// The premise φ(t2, t3) of Biswas and Enea's axioms.
///
/// Whenever t3 reads x from t1, t2 ≠ t1 writes x and φ(t2, t3), then t2 comes before t1 in the
/// commit order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Axiom {
    /// t3 read from t2 before the read in question.
    ReadBefore,
    /// so ∪ wr: t2 is an earlier transaction of t3's session, or t3 reads from t2.
    Direct,
    /// (so ∪ wr)+.
    Causal,
    /// co* ∘ (so ∪ wr).
    Prefix,
}

impl Family {
    /// A word for tables.
    pub const fn name(self) -> &'static str {
        match self {
            Family::Graph => "graph",
            Family::CommitOrder(_) => "commit order",
            Family::Snapshot => "snapshot",
            Family::Serial => "serial order",
        }
    }
}

impl Level {
    /// What this level means.
    pub const fn definition(self) -> &'static Definition {
        match self {
            Level::ReadUncommitted => &READ_UNCOMMITTED,
            Level::ReadCommitted => &READ_COMMITTED,
            Level::BeReadCommitted => &BE_READ_COMMITTED,
            Level::ReadAtomic => &READ_ATOMIC,
            Level::Causal => &CAUSAL,
            Level::RepeatableRead => &REPEATABLE_READ,
            Level::Prefix => &PREFIX,
            Level::ParallelSnapshot => &PARALLEL_SNAPSHOT,
            Level::SnapshotIsolation => &SNAPSHOT_ISOLATION,
            Level::Serializable => &SERIALIZABLE,
            Level::StrongSessionSnapshotIsolation => &STRONG_SESSION_SNAPSHOT_ISOLATION,
            Level::StrictSnapshotIsolation => &STRICT_SNAPSHOT_ISOLATION,
            Level::StrongSessionSerializable => &STRONG_SESSION_SERIALIZABLE,
            Level::StrictSerializable => &STRICT_SERIALIZABLE,
        }
    }

    /// Whether session order is part of this level.
    pub const fn session_order(self) -> bool {
        self.definition().session_order
    }

    /// Whether real time is part of this level.
    pub const fn real_time(self) -> bool {
        self.definition().real_time
    }

    /// What has to be found for this level to hold.
    pub const fn family(self) -> Family {
        self.definition().family
    }
}

const READ_UNCOMMITTED: Definition = Definition {
    session_order: false,
    real_time: false,
    family: Family::Graph,
    summary: "writes do not form a cycle; reads may see any value that was written",
    text: "Adya's PL-1. Some version order of the objects has no cycle of write dependencies. Reads may return \
        uncommitted, aborted and intermediate versions, but only values that some transaction wrote.",
    cites: &["Adya1999"],
};

const READ_COMMITTED: Definition = Definition {
    session_order: false,
    real_time: false,
    family: Family::Graph,
    summary: "reads see committed, final versions, and information does not flow in a cycle",
    text: "Adya's PL-2. No read of an aborted or intermediate version, every transaction reads its own latest write \
        and none of its later ones, and some version order makes write and read dependencies (those over predicates \
        included) acyclic together. Two reads of one transaction may see different states.",
    cites: &["Adya1999"],
};

const BE_READ_COMMITTED: Definition = Definition {
    session_order: true,
    real_time: false,
    family: Family::CommitOrder(Axiom::ReadBefore),
    summary: "read committed, where a transaction's reads never go back behind a writer it has already read from",
    text: "Biswas and Enea's Read Committed. A total commit order contains session order and reads-from, and \
        whenever a transaction reads x from t1 after having read anything from t2, and t2 also writes x, then t2 \
        comes before t1. It is stronger than Adya's PL-2 by session order and by this monotonicity.",
    cites: &["BiswasEnea2019"],
};

const READ_ATOMIC: Definition = Definition {
    session_order: true,
    real_time: false,
    family: Family::CommitOrder(Axiom::Direct),
    summary: "a transaction sees all of another's writes or none",
    text: "Biswas and Enea's Read Atomic. As be-read-committed, but for every t2 that the transaction reads from at \
        any time or that precedes it in its session: of what t2 wrote, nothing older is read.",
    cites: &["BiswasEnea2019", "RAMP"],
};

const CAUSAL: Definition = Definition {
    session_order: true,
    real_time: false,
    family: Family::CommitOrder(Axiom::Causal),
    summary: "a transaction that sees an effect also sees its causes",
    text: "Biswas and Enea's Causal. As read-atomic, but for every t2 in the transaction's causal past: the \
        transitive closure of session order and reads-from.",
    cites: &["BiswasEnea2019", "CeroneBernardiGotsman2015"],
};

const REPEATABLE_READ: Definition = Definition {
    session_order: false,
    real_time: false,
    family: Family::Graph,
    summary: "serializable but for phantoms",
    text: "Adya's PL-2.99. Read committed, and some version order leaves no cycle of write dependencies, read \
        dependencies (over predicates too) and anti-dependencies over single objects. Anti-dependencies over \
        predicates do not count.",
    cites: &["Adya1999"],
};

const PREFIX: Definition = Definition {
    session_order: true,
    real_time: false,
    family: Family::CommitOrder(Axiom::Prefix),
    summary: "every transaction sees a prefix of one commit order",
    text: "Biswas and Enea's Prefix. As causal, but for every t2 that comes before, or is, some t4 that the \
        transaction reads from or that precedes it in its session. It excludes long forks and allows lost updates.",
    cites: &["BiswasEnea2019", "CeroneBernardiGotsman2015"],
};

const PARALLEL_SNAPSHOT: Definition = Definition {
    session_order: true,
    real_time: false,
    family: Family::Graph,
    summary: "snapshot isolation where sites may apply independent commits in different orders",
    text: "Parallel snapshot isolation by Cerone and Gotsman's condition on graphs: for some version order no \
        transaction reaches itself by one or more steps of session order, read and write dependencies, followed by \
        at most one anti-dependency. It excludes lost updates and allows long forks.",
    cites: &["CeroneGotsman2016", "Walter2011"],
};

const SNAPSHOT_ISOLATION: Definition = Definition {
    session_order: false,
    real_time: false,
    family: Family::Snapshot,
    summary: "every transaction reads one snapshot, and concurrent transactions write different objects",
    text: "Begin and commit points of all transactions can be put in one order such that every transaction reads \
        the state committed before its begin point (plus its own writes), and of two transactions that write one \
        object one commits before the other begins. The snapshot may be arbitrarily old.",
    cites: &["Berenson1995", "Adya1999", "CeroneGotsman2016"],
};

const SERIALIZABLE: Definition = Definition {
    session_order: false,
    real_time: false,
    family: Family::Serial,
    summary: "some serial order of the transactions explains every observation",
    text: "Adya's PL-3. The committed transactions can be put in one order whose replay, one after the other, gives \
        every recorded observation; equivalently some version order makes all dependencies acyclic. The order need \
        not respect sessions or time.",
    cites: &["Papadimitriou1979", "Adya1999"],
};

const STRONG_SESSION_SNAPSHOT_ISOLATION: Definition = Definition {
    session_order: true,
    real_time: false,
    family: Family::Snapshot,
    summary: "snapshot isolation, and a session's transactions see its earlier ones",
    text: "Snapshot isolation where, in addition, a transaction's commit point comes before the begin points of the \
        later transactions of its session.",
    cites: &["DaudjeeSalem2006", "CeroneGotsman2016"],
};

const STRICT_SNAPSHOT_ISOLATION: Definition = Definition {
    session_order: true,
    real_time: true,
    family: Family::Snapshot,
    summary: "snapshot isolation, and snapshots contain everything that had ended before",
    text: "Snapshot isolation where, in addition, a transaction that ended before another started (by the client \
        clocks, the skew of the clocks added) has its commit point before the other's begin point. Session order is \
        contained. Others call it strong snapshot isolation.",
    cites: &["DaudjeeSalem2006", "Elle"],
};

const STRONG_SESSION_SERIALIZABLE: Definition = Definition {
    session_order: true,
    real_time: false,
    family: Family::Serial,
    summary: "serializable in an order that keeps each session's order",
    text: "Serializable by a serial order that contains session order. Most published checkers mean this when they \
        say serializable.",
    cites: &["DaudjeeSalem2004", "Cobra"],
};

const STRICT_SERIALIZABLE: Definition = Definition {
    session_order: true,
    real_time: true,
    family: Family::Serial,
    summary: "serializable in an order that keeps real time",
    text: "Serializable by a serial order in which a transaction that ended before another started (by the client \
        clocks, the skew of the clocks added) comes before it. Session order is contained.",
    cites: &["Papadimitriou1979", "HerlihyWing1990", "Adya1999"],
};
