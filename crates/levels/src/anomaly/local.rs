//! Anomalies seen in the operations themselves, in Elle's words \[Adya1999, Elle\].

use super::{Anomaly, Entry, Kind};

/// A row of the tables of non-cyclic anomalies.
pub(super) struct Row {
    pub(super) anomaly: Anomaly,
    pub(super) kind: Kind,
    pub(super) summary: &'static str,
    pub(super) definition: &'static str,
    pub(super) implies: &'static [(Anomaly, &'static str)],
    pub(super) example: Option<&'static str>,
    pub(super) cites: &'static [&'static str],
}

impl Row {
    pub(super) fn entry(&self) -> Entry {
        Entry {
            anomaly: self.anomaly,
            kind: self.kind,
            summary: self.summary.to_owned(),
            definition: self.definition.to_owned(),
            implies: self.implies.to_vec(),
            example: self.example,
            cites: self.cites,
        }
    }
}

pub(super) fn entries() -> impl Iterator<Item = Entry> {
    ROWS.iter().map(Row::entry)
}

const ROWS: &[Row] = &[
    Row {
        anomaly: Anomaly::G1a,
        kind: Kind::Local,
        summary: "aborted read: a read returns what an aborted transaction wrote",
        definition: "A committed transaction read a version whose writer aborted. A writer of unknown outcome is \
            no proof: it may have committed.",
        implies: &[(Anomaly::G1, "Elle")],
        example: Some("T1: w(x,1) abort | T2: r(x,1)"),
        cites: &["Adya1999", "Elle"],
    },
    Row {
        anomaly: Anomaly::G1b,
        kind: Kind::Local,
        summary: "intermediate read: a read returns a write that its writer overwrote",
        definition: "A transaction read a version that is not the last one its writer (another transaction) made \
            of that object.",
        implies: &[(Anomaly::G1, "Elle")],
        example: Some("T1: w(x,1) w(x,2) | T2: r(x,1)"),
        cites: &["Adya1999", "Elle"],
    },
    Row {
        anomaly: Anomaly::Internal,
        kind: Kind::Local,
        summary: "a transaction does not read its own latest write",
        definition: "After writing an object, a transaction reads something else than its own latest write of it. \
            Elle's `internal` also covers a read that differs from the transaction's own earlier read; here that \
            half is `non-repeatable-read`.",
        implies: &[],
        example: Some("init: x=0 | T1: w(x,1) r(x,0)"),
        cites: &["Adya1999", "Elle", "CeroneBernardiGotsman2015"],
    },
    Row {
        anomaly: Anomaly::FutureRead,
        kind: Kind::Local,
        summary: "a transaction reads its own write before making it",
        definition: "A read shows a value that only the same transaction writes, and only later.",
        implies: &[(Anomaly::G1c, "Elle")],
        example: Some("T1: r(x,1) w(x,1)"),
        cites: &["Elle", "Plume"],
    },
    Row {
        anomaly: Anomaly::DuplicateElements,
        kind: Kind::Local,
        summary: "a list holds one appended element twice",
        definition: "A read of a list shows an element more often than it was appended: one append took effect \
            twice.",
        implies: &[],
        example: Some("T1: a(x,1) | T2: r(x,[1 1])"),
        cites: &["Elle"],
    },
    Row {
        anomaly: Anomaly::IncompatibleOrder,
        kind: Kind::Local,
        summary: "two reads of a list, neither a prefix of the other",
        definition: "Appends only lengthen a list, so of two committed reads of it one must be a prefix of the \
            other. Where neither is, one of them saw versions that are not part of the committed history.",
        implies: &[(Anomaly::G1a, "Elle")],
        example: Some("T1: a(x,1) | T2: a(x,2) | T3: r(x,[1 2]) | T4: r(x,[2 1])"),
        cites: &["Elle"],
    },
    Row {
        anomaly: Anomaly::DirtyUpdate,
        kind: Kind::Local,
        summary: "a committed version contains the write of an aborted transaction",
        definition: "A committed transaction's write built upon an aborted transaction's: undoing the latter would \
            have to undo the former.",
        implies: &[(Anomaly::G1a, "Elle")],
        example: Some("T1: a(x,1) abort | T2: a(x,2) | T3: r(x,[1 2])"),
        cites: &["Elle"],
    },
    Row {
        anomaly: Anomaly::LostUpdate,
        kind: Kind::Local,
        summary: "two transactions read the same version of an object and both overwrite it",
        definition: "Two committed transactions read the same version of an object and then write it. Whichever \
            version comes first, its update was not seen by the other. No version order need be known.",
        implies: &[(Anomaly::G2Item, "Elle"), (Anomaly::WriteSkew, "Elle")],
        example: Some("init: x=0 | T1: r(x,0) w(x,1) | T2: r(x,0) w(x,2)"),
        cites: &["Berenson1995", "Elle"],
    },
    Row {
        anomaly: Anomaly::WriteSkew,
        kind: Kind::Local,
        summary: "two transactions each read what the other overwrites",
        definition: "Two transactions read overlapping data and each writes a part that the other read: both \
            decisions stand on what was true before. The name is the ANSI critique's A5B; as a cycle it is G2.",
        implies: &[(Anomaly::G2, "Elle")],
        example: Some("init: x=0 y=0 | T1: r(x,0) r(y,0) w(x,1) | T2: r(x,0) r(y,0) w(y,1)"),
        cites: &["Berenson1995", "Elle"],
    },
    Row {
        anomaly: Anomaly::CyclicVersions,
        kind: Kind::Local,
        summary: "the versions of one object follow each other in a cycle",
        definition: "What is known about the order of one object's versions is contradictory: each was made by a \
            transaction that had read the next, say, in a cycle. Reads order versions where they must be of committed \
            versions, hence from read-committed up.",
        implies: &[],
        example: Some("T1: r(x,2) w(x,1) | T2: r(x,1) w(x,2)"),
        cites: &["Elle"],
    },
    Row {
        anomaly: Anomaly::PredicateReadMiss,
        kind: Kind::Local,
        summary: "a scan misses an object whose every version matches",
        definition: "A predicate read is a read of some version of every object of its table, the initial one \
            included. It left out an object all of whose versions match, so it saw none of them.",
        implies: &[],
        example: Some("init: t/1={v:9} | T1: w(t/1,{v:8}) | T2: scan(t, v > 5){}"),
        cites: &["Elle", "Adya1999"],
    },
];
