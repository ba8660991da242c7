//! Anomalies that Elle has no name for, and violations of a database's mechanisms.

use super::local::Row;
use super::{Anomaly, Entry, Kind};

pub(super) fn entries() -> impl Iterator<Item = Entry> {
    ROWS.iter().map(Row::entry)
}

const ROWS: &[Row] = &[
    Row {
        anomaly: Anomaly::GarbageRead,
        kind: Kind::Local,
        summary: "a read returns a value that nobody wrote",
        definition: "The value was neither written by any transaction, whatever its outcome, nor there initially. \
            Plume calls it a thin-air read. It is illegal at every level.",
        implies: &[],
        example: Some("init: x=0 | T1: r(x,7)"),
        cites: &["Elle", "Plume", "BiswasEnea2019"],
    },
    Row {
        anomaly: Anomaly::NonMonotonicRead,
        kind: Kind::Local,
        summary: "a transaction reads from a newer writer, and then an older version of what that one wrote",
        definition: "Having read from T1, a transaction afterwards reads, of an object that T1 wrote (the same or \
            another), a version older than T1's. A fractured read in the order that already be-read-committed \
            forbids.",
        implies: &[(Anomaly::FracturedRead, "Plume")],
        example: Some("init: x=0 y=0 | T1: w(x,1) w(y,1) | T2: r(x,1) r(y,0)"),
        cites: &["BiswasEnea2019", "Plume", "AWDIT"],
    },
    Row {
        anomaly: Anomaly::FracturedRead,
        kind: Kind::Local,
        summary: "a transaction reads one of another's writes, and of another object an older version than its",
        definition: "A transaction reads from T1 and, of some object that T1 wrote, a version older than T1's: it \
            saw a part of T1's effects. The order of the two reads does not matter.",
        // The reader depends on T1 by wr; from the older version rw leads to its overwriter, and ww
        // on to T1.
        implies: &[(Anomaly::GSingleItem, "Adya1999")],
        example: Some("init: x=0 y=0 | T1: w(x,1) w(y,1) | T2: r(x,0) r(y,1)"),
        cites: &["BiswasEnea2019", "RAMP", "Plume"],
    },
    Row {
        anomaly: Anomaly::NonRepeatableRead,
        kind: Kind::Local,
        summary: "a transaction reads an object twice and sees two versions of others",
        definition: "A transaction that does not write an object reads it twice and sees versions of different \
            writers. The ANSI critique calls it a fuzzy read.",
        // One of the two versions is older; rw leads from its reader to its overwriter, ww to the
        // newer, wr back.
        implies: &[(Anomaly::GSingleItem, "Adya1999")],
        example: Some("init: x=0 | T1: w(x,1) | T2: r(x,0) r(x,1)"),
        cites: &["Berenson1995", "Adya1999"],
    },
    Row {
        anomaly: Anomaly::Phantom,
        kind: Kind::Local,
        summary: "the same scan twice in one transaction shows a row the first one lacked",
        definition: "A transaction scans twice with the same predicate, writes nothing in between that matters, and \
            the second scan shows a row that the first one should have shown or should not show: another \
            transaction's insert, update or delete took effect in between.",
        implies: &[(Anomaly::GSingle, "Adya1999")],
        example: Some("T1: w(t/1,{v:9}) | T2: scan(t, v > 5){} scan(t, v > 5){1:{v:9}}"),
        cites: &["Berenson1995", "Adya1999"],
    },
    Row {
        anomaly: Anomaly::CausalityViolation,
        kind: Kind::Local,
        summary: "a transaction sees an effect and misses its cause",
        definition: "A transaction reads a version of an object that a transaction in its causal past (by session \
            order and reads-from, any number of steps) had already overwritten.",
        // The causal path plus the rw edge is a cycle with one rw edge and session order.
        implies: &[(Anomaly::GSingleItemProcess, "CeroneGotsman2016")],
        example: Some("init: x=0 y=0 | T1: w(x,1) | T2: r(x,1) w(y,1) | T3: r(y,1) r(x,0)"),
        cites: &["BiswasEnea2019", "Plume", "AWDIT"],
    },
    Row {
        anomaly: Anomaly::LongFork,
        kind: Kind::Local,
        summary: "two readers see two independent writes in opposite orders",
        definition: "Of two writes by different transactions, one reader sees the first and not the second, another \
            the second and not the first. Parallel snapshot allows it; snapshot isolation and prefix do not.",
        implies: &[(Anomaly::GNonadjacentItem, "CeroneGotsman2016")],
        example: Some("init: x=0 y=0 | T1: w(x,1) | T2: w(y,1) | T3: r(x,1) r(y,0) | T4: r(x,0) r(y,1)"),
        cites: &["CeroneBernardiGotsman2015", "CeroneGotsman2016"],
    },
    Row {
        anomaly: Anomaly::ResultMismatch,
        kind: Kind::Local,
        summary: "a statement's recorded result is not what its evaluation gives",
        definition: "Whatever versions a statement saw, evaluating it on them gives other rows, or another count of \
            affected rows, than the client recorded. From read-committed up every answer is that of some committed \
            versions and of the transaction's own writes.",
        implies: &[],
        example: Some("init: t/1={v:9} | T1: upd(t, v > 5, v = 20){}"),
        cites: &["Troubadour", "EmmeTOCS"],
    },
    Row {
        anomaly: Anomaly::DuplicateWrite,
        kind: Kind::Ambiguity,
        summary: "two writes give one object the same value",
        definition: "A read of that value may be of either write. This is no violation: an engine tries both, or \
            says `unknown` where it relies on unique values.",
        implies: &[],
        example: Some("T1: w(x,1) | T2: w(x,1) | T3: r(x,1)"),
        cites: &["Elle", "EmmeTOCS"],
    },
    Row {
        anomaly: Anomaly::UnobservableWrite,
        kind: Kind::Ambiguity,
        summary: "a write gives an object the value that it had initially",
        definition: "A read of that value may be of the initial state or of the write; a write that changes nothing \
            cannot be told from no write. This is no violation.",
        implies: &[],
        example: Some("init: x=0 | T1: w(x,0) | T2: r(x,0)"),
        cites: &["Leopard", "Troubadour"],
    },
    Row {
        anomaly: Anomaly::ConsistentRead,
        kind: Kind::Mechanism,
        summary: "mechanism: a read did not come from the snapshot that the profile says it uses",
        definition: "Under multi-versioning a read sees its own transaction's writes and what was committed before a \
            point in time: the statement's, or the transaction's snapshot. The recorded intervals leave no version \
            of that point that could have been returned.",
        implies: &[],
        example: Some("init: x=0 | T1: w(x,1)@[10,20] | T2: r(x,0)@[30,40]"),
        cites: &["Leopard"],
    },
    Row {
        anomaly: Anomaly::MutualExclusion,
        kind: Kind::Mechanism,
        summary: "mechanism: two transactions held conflicting locks at the same time",
        definition: "A lock taken by a statement is held to the end of its transaction. The recorded intervals prove \
            that two transactions held conflicting locks on one object (or on overlapping predicates) at once.",
        implies: &[],
        example: Some("T1: w(x,1)@[10,20] r(y,_)@[50,60] | T2: w(x,2)@[30,40]"),
        cites: &["Leopard", "Eswaran1976"],
    },
    Row {
        anomaly: Anomaly::FirstUpdaterWins,
        kind: Kind::Mechanism,
        summary: "mechanism: a transaction overwrote a version committed after its own snapshot",
        definition: "Of two concurrent transactions that write one object, the second to write must abort. The \
            recorded intervals prove that one committed between the other's snapshot and its write, and yet the \
            other committed.",
        implies: &[],
        example: Some("init: x=0 y=0 | T1: r(y,0)@[10,20] w(x,1)@[50,60] | T2: w(x,2)@[30,40]"),
        cites: &["Leopard", "Fekete2005"],
    },
    Row {
        anomaly: Anomaly::SerializationCertifier,
        kind: Kind::Mechanism,
        summary: "mechanism: the certifier let a pattern commit that it must refuse",
        definition: "A certifier refuses commits that might not be serializable: SSI a dangerous structure of two rw \
            edges whose last transaction committed first, timestamp ordering a dependency against the timestamps, \
            optimistic validation a read set overwritten meanwhile. Such a pattern committed.",
        implies: &[],
        example: Some("init: x=0 y=0 | T1: r(y,0) w(x,1) | T2: r(x,0) w(y,1)"),
        cites: &["Leopard", "PortsGrittner2012", "Cahill2009"],
    },
];
