//! Unions of anomalies, Adya's phenomena that Elle names and never looks for, and the "cycle
//! exists" answers.

use super::local::Row;
use super::{Anomaly, Entry, Kind};

pub(super) fn entries() -> impl Iterator<Item = Entry> {
    ROWS.iter().map(Row::entry).chain(SEARCHES.iter().map(search))
}

const ROWS: &[Row] = &[
    Row {
        anomaly: Anomaly::G1,
        kind: Kind::Group,
        summary: "G1a, G1b or G1c",
        definition: "Aborted reads, intermediate reads or circular information flow: what PL-2 forbids beyond G0.",
        implies: &[(Anomaly::G1Process, "Elle")],
        example: None,
        cites: &["Adya1999", "Elle"],
    },
    Row {
        anomaly: Anomaly::G1Process,
        kind: Kind::Group,
        summary: "G1, counting session order",
        definition: "G1a, G1b or G1c-process.",
        implies: &[(Anomaly::G1Realtime, "Elle")],
        example: None,
        cites: &["Elle"],
    },
    Row {
        anomaly: Anomaly::G1Realtime,
        kind: Kind::Group,
        summary: "G1, counting real time",
        definition: "G1a, G1b or G1c-realtime.",
        implies: &[],
        example: None,
        cites: &["Elle"],
    },
    Row {
        anomaly: Anomaly::GMonotonic,
        kind: Kind::Group,
        summary: "Adya's G-monotonic: a transaction's reads go back in time",
        definition: "A cycle with exactly one anti-dependency from one particular read of a transaction, in the graph \
            where that transaction's operations are nodes of their own. PL-2L forbids it. Our `non-monotonic-read` \
            is the part of it that Biswas and Enea's axiom sees.",
        implies: &[],
        example: Some("init: x=0 y=0 | T1: w(x,1) w(y,1) | T2: r(x,1) r(y,0)"),
        cites: &["Adya1999"],
    },
    Row {
        anomaly: Anomaly::GCursor,
        kind: Kind::Group,
        summary: "Adya's G-cursor: a lost update on one object through a cursor",
        definition: "A cycle of an anti-dependency and write dependencies, all on one and the same object. PL-CS \
            forbids it; what is observable of it is `lost-update`.",
        implies: &[],
        example: Some("init: x=0 | T1: r(x,0) w(x,1) | T2: r(x,0) w(x,2)"),
        cites: &["Adya1999"],
    },
    Row {
        anomaly: Anomaly::GMsr,
        kind: Kind::Group,
        summary: "Adya's G-MSR: a read that is not of one monotonic snapshot",
        definition: "Each read comes from a snapshot, snapshots of later reads are not older, and a cycle shows that \
            one was. PL-MSR forbids it. Histories alone do not show the snapshots.",
        implies: &[],
        example: None,
        cites: &["Adya1999"],
    },
    Row {
        anomaly: Anomaly::GUpdate,
        kind: Kind::Group,
        summary: "Adya's G-update: the updates together with one reader are not serializable",
        definition: "The graph of all updating transactions and one more transaction has a cycle with an \
            anti-dependency. PL-3U forbids it.",
        implies: &[],
        example: Some("init: x=0 y=0 | T1: r(y,0) w(x,1) | T2: r(x,0) w(y,1)"),
        cites: &["Adya1999"],
    },
    Row {
        anomaly: Anomaly::GDashSI,
        kind: Kind::Group,
        summary: "Adya's G-SI: interference or missed effects",
        definition: "A dependency without the begin of one transaction following the commit of the other \
            (interference), or a cycle with exactly one anti-dependency where begin-after-commit edges count too \
            (missed effects). PL-SI forbids it.",
        implies: &[],
        example: None,
        cites: &["Adya1999", "Elle"],
    },
    Row {
        anomaly: Anomaly::GDashSIb,
        kind: Kind::Group,
        summary: "Adya's G-SIb: missed effects",
        definition: "A cycle with exactly one anti-dependency in the graph that also has an edge from each transaction \
            to every one that began after its commit. PL-FCV forbids it.",
        implies: &[],
        example: None,
        cites: &["Adya1999", "Elle"],
    },
    Row {
        anomaly: Anomaly::GSI,
        kind: Kind::Group,
        summary: "Elle's other spelling of G-SI",
        definition: "GSIa or GSIb. Elle's implications use this spelling and its models the other, so no model of \
            Elle's forbids it; our snapshot levels do.",
        implies: &[],
        example: None,
        cites: &["Elle"],
    },
    Row {
        anomaly: Anomaly::GSIa,
        kind: Kind::Group,
        summary: "interference, in Elle's other spelling",
        definition: "A transaction depends on another that had not committed when it began.",
        implies: &[(Anomaly::GSI, "Elle")],
        example: None,
        cites: &["Adya1999", "Elle"],
    },
    Row {
        anomaly: Anomaly::GSIb,
        kind: Kind::Group,
        summary: "missed effects, in Elle's other spelling",
        definition: "As G-SIb.",
        implies: &[(Anomaly::GSI, "Elle")],
        example: None,
        cites: &["Adya1999", "Elle"],
    },
];

/// A "cycle exists" answer: which level it rules out, what the cycle is made of, and whose name it
/// is.
const SEARCHES: &[(Anomaly, &str, &str)] = &[
    (Anomaly::Pl1CycleExists, "ww edges", "Elle"),
    (Anomaly::Pl2CycleExists, "ww and wr edges", "Elle"),
    (Anomaly::Pl299CycleExists, "ww, wr and item rw edges", "Elle"),
    (Anomaly::PlSiCycleExists, "ww and wr edges, each followed by at most one rw edge", "Elle"),
    (Anomaly::Pl3CycleExists, "all dependencies", "Elle"),
    (Anomaly::PlSsCycleExists, "all dependencies and real time", "Elle"),
    (Anomaly::StrongSessionPl1CycleExists, "ww edges and session order", "Elle"),
    (Anomaly::StrongSessionPl2CycleExists, "ww and wr edges and session order", "Elle"),
    (Anomaly::StrongPl1CycleExists, "ww edges and real time", "Elle"),
    (Anomaly::StrongPl2CycleExists, "ww and wr edges and real time", "Elle"),
    (
        Anomaly::StrongSessionSiCycleExists,
        "ww and wr edges and session order, each followed by at most one rw edge",
        "Elle",
    ),
    (Anomaly::StrongSessionSerializableCycleExists, "all dependencies and session order", "Elle"),
    (
        Anomaly::StrongSiCycleExists,
        "ww and wr edges and real time, each followed by at most one rw edge",
        "Elle",
    ),
    (
        Anomaly::BeReadCommittedCycleExists,
        "session order, wr, and what the axiom of be-read-committed adds",
        "BiswasEnea2019",
    ),
    (
        Anomaly::ReadAtomicCycleExists,
        "session order, wr, and what the axiom of read-atomic adds",
        "BiswasEnea2019",
    ),
    (Anomaly::CausalCycleExists, "session order, wr, and what the axiom of causal adds", "BiswasEnea2019"),
    (Anomaly::PrefixCycleExists, "session order, wr, and what the axiom of prefix adds", "BiswasEnea2019"),
    (
        Anomaly::ParallelSnapshotCycleExists,
        "session order, wr and ww edges, and at most one rw edge",
        "CeroneGotsman2016",
    ),
];

fn search(&(anomaly, edges, source): &(Anomaly, &str, &'static str)) -> Entry {
    Entry {
        anomaly,
        kind: Kind::Search,
        summary: format!("a cycle of {edges} exists"),
        definition: format!(
            "A cycle of {edges} exists in every choice that the history allows, so the level is ruled out, and no \
             anomaly of a smaller shape was found that says so."
        ),
        implies: Vec::new(),
        example: None,
        cites: match source {
            "Elle" => &["Elle"],
            "BiswasEnea2019" => &["BiswasEnea2019"],
            _ => &["CeroneGotsman2016"],
        },
    }
}
