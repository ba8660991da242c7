//! Anomalies and levels for people who have never heard of them.
//!
//! `margay_levels` has the definitions; here are the words for the first minute.

use margay_levels::anomaly::{Cycle, Kind, Order, Rw};
use margay_levels::{Anomaly, Level};

use crate::picture::{self, Picture};

/// An anomaly in plain words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plain {
    /// What people call it.
    pub title: String,
    /// What it means, in a few sentences.
    pub meaning: String,
}

/// One case of an anomaly in plain words: a cycle of two transactions has a better name than its
/// kind, where people know it by another.
#[must_use]
pub fn case(name: Anomaly, picture: Option<&Picture>) -> Plain {
    let cycle = picture.and_then(|picture| picture.cycles.first()).filter(|cycle| !cycle.open);
    match (name.entry().kind, cycle.and_then(pair)) {
        (Kind::Cycle(_), Some((title, meaning))) => {
            Plain { title: title.to_owned(), meaning: meaning.to_owned() }
        }
        _ => anomaly(name),
    }
}

/// What people call a cycle of two edges of which one is a read that missed a write.
fn pair(cycle: &picture::Cycle) -> Option<(&'static str, &'static str)> {
    let [a, b] = cycle.edges.as_slice() else { return None };
    let (missed, other) = if a.kind == "rw" { (a, b) } else { (b, a) };
    match (missed.kind.as_str(), other.kind.as_str()) {
        ("rw", "real-time") => Some(("Stale read", STALE)),
        ("rw", "session") => Some(("Own session not seen", OWN_SESSION)),
        ("rw", "ww" | "rw") if missed.object == other.object => Some(("Lost update", LOST_UPDATE)),
        _ => None,
    }
}

/// An anomaly in plain words.
#[must_use]
pub fn anomaly(anomaly: Anomaly) -> Plain {
    let entry = anomaly.entry();
    match (entry.kind, local(anomaly)) {
        (_, Some((title, meaning))) => Plain { title: title.to_owned(), meaning: meaning.to_owned() },
        (Kind::Cycle(cycle), None) => shape(cycle),
        _ if anomaly.name().ends_with("-cycle-exists") => {
            Plain { title: "No order explains it".to_owned(), meaning: NO_ORDER.to_owned() }
        }
        _ => {
            Plain { title: sentence(&anomaly.name().replace('-', " ")), meaning: sentence(&entry.definition) }
        }
    }
}

fn shape(cycle: Cycle) -> Plain {
    let (title, meaning) = match cycle.rw {
        Rw::None if cycle.wr => ("Circular information flow", CIRCULAR),
        Rw::None => ("Dirty write", DIRTY_WRITE),
        Rw::One if cycle.predicate_rw => ("Read skew over a search", SKEWED_SEARCH),
        Rw::One => ("Read skew", READ_SKEW),
        Rw::NonAdjacent => ("Long fork", LONG_FORK),
        Rw::Adjacent if cycle.predicate_rw => ("Write skew over a search", SKEWED_WRITES),
        Rw::Adjacent => ("Write skew", WRITE_SKEW),
    };
    match cycle.order {
        Order::Dependencies => Plain { title: title.to_owned(), meaning: meaning.to_owned() },
        Order::Session => {
            Plain { title: format!("{title}, within a session"), meaning: format!("{meaning}{SESSION}") }
        }
        Order::RealTime => {
            Plain { title: format!("{title}, against the clock"), meaning: format!("{meaning}{CLOCK}") }
        }
    }
}

const CIRCULAR: &str = "Transactions saw each other's writes in a cycle. Each must have finished before the other could read its result, \
    so each must have come first.";
const DIRTY_WRITE: &str = "Transactions overwrote each other in a cycle: of one thing the first one's value stayed, of another the second one's. \
    What is left belongs to no single transaction.";
const READ_SKEW: &str = "A transaction saw a part of what another one did and missed the rest. It looked at a mixture of an old and a new \
    state of the database that never existed at any moment.";
const LOST_UPDATE: &str = "A transaction read a value and replaced it, without having seen another one's change of it in between. That change is \
    wiped out: like two people who edit the same document and save over each other.";
const STALE: &str = "A transaction did not see what another one had completely finished, answer and all, before it began: it looked at the past.";
const OWN_SESSION: &str = "A client did not see what the same client had done before: it looked at a state from before its own earlier transaction.";
const SKEWED_SEARCH: &str = "A transaction searched for rows and missed a change, although it depends on that very change elsewhere. It looked at a \
    mixture of an old and a new state of the database.";
const LONG_FORK: &str = "Two observers disagree about the order of two independent changes: one saw the first change and not the second, the other \
    the second and not the first. There is no single course of events that both could have watched.";
const WRITE_SKEW: &str = "Each transaction based a decision on data that another one was changing, and did not see that change. Had they run one after \
    the other, the later one would have seen what the earlier one did. Rules like “at least one doctor stays on call” break that way.";
const SKEWED_WRITES: &str = "Transactions each searched for rows, and another one was just adding or changing rows that the search should have found. Had they \
    run one after the other, the later search would have found them.";
const NO_ORDER: &str = "In whatever order the transactions took effect, one of them saw what it could not have seen then. All orders were \
    tried, and none of them fails for one simple reason that has a name of its own.";
const SESSION: &str = " Here the order of one client's own transactions is a part of the contradiction: a client does one thing after another.";
const CLOCK: &str = " Here the clock is a part of the contradiction: one transaction had completely ended before another began, and yet is not seen by it.";

/// Titles and meanings of the anomalies that are no cycles.
fn local(anomaly: Anomaly) -> Option<(&'static str, &'static str)> {
    values(anomaly).or_else(|| views(anomaly))
}

/// Those about values that cannot be, or that got lost.
fn values(anomaly: Anomaly) -> Option<(&'static str, &'static str)> {
    Some(match anomaly {
        Anomaly::G1a => (
            "Aborted read",
            "A transaction saw data of another one that was rolled back. That data was never valid, and nobody should ever have seen it.",
        ),
        Anomaly::G1b => (
            "Intermediate read",
            "A transaction saw a value in passing that another one had already replaced before it committed: work in progress, not a result.",
        ),
        Anomaly::Internal => {
            ("Own write lost", "A transaction wrote something, read it back, and saw something else.")
        }
        Anomaly::FutureRead => {
            ("Read from the future", "A transaction read a value that only it writes, and only later.")
        }
        Anomaly::DuplicateElements => (
            "Done twice",
            "Something was added to a list once and is in it twice: one operation took effect two times.",
        ),
        Anomaly::IncompatibleOrder => (
            "Contradicting lists",
            "Entries are only ever added at the end of a list, so of two reads of it one must be the beginning of the other. Here neither is: the \
             readers saw two different pasts.",
        ),
        Anomaly::DirtyUpdate => (
            "Built on rolled-back data",
            "A committed change contains what a rolled-back transaction had written.",
        ),
        Anomaly::LostUpdate => ("Lost update", LOST_UPDATE),
        Anomaly::WriteSkew => ("Write skew", WRITE_SKEW),
        Anomaly::CyclicVersions => (
            "Versions in a cycle",
            "What is known about the order of one object's values is contradictory: each replaced the next, in a cycle.",
        ),
        Anomaly::PredicateReadMiss => {
            ("Overlooked row", "A search missed a row that matches it in every state the row ever had.")
        }
        Anomaly::GarbageRead => (
            "Value from nowhere",
            "A transaction read a value that no transaction wrote and that was not there at the beginning.",
        ),
        _ => return None,
    })
}

/// Those about what a transaction saw together, and about mechanisms.
fn views(anomaly: Anomaly) -> Option<(&'static str, &'static str)> {
    Some(match anomaly {
        Anomaly::NonMonotonicRead => (
            "Going back in time",
            "A transaction saw new data and afterwards older data, from before what it had already seen.",
        ),
        Anomaly::FracturedRead => ("Half a transaction seen", READ_SKEW),
        Anomaly::NonRepeatableRead => (
            "Changing reads",
            "A transaction read the same thing twice and got two answers, though it changed nothing itself.",
        ),
        Anomaly::Phantom => (
            "Phantom",
            "A transaction made the same search twice, and rows appeared or disappeared in between.",
        ),
        Anomaly::CausalityViolation => (
            "Effect without its cause",
            "A transaction saw something and missed what had led to it: like an answer without its question.",
        ),
        Anomaly::LongFork => ("Long fork", LONG_FORK),
        Anomaly::ResultMismatch => (
            "Result that no state explains",
            "No state of the data that the transaction can have seen gives the result that the database returned.",
        ),
        Anomaly::ConsistentRead => (
            "No moment fits",
            "The database says that a read shows the data as of one moment. By the clock, there is no such moment for what was read.",
        ),
        Anomaly::MutualExclusion => (
            "Two locks at once",
            "The database says that it locks what it changes until the transaction ends. By the clock, two transactions held the same lock at once.",
        ),
        Anomaly::FirstUpdaterWins => (
            "Both updaters won",
            "The database says that of two concurrent changes of one thing the second is refused. Both were accepted.",
        ),
        Anomaly::SerializationCertifier => (
            "A pattern that must be refused",
            "The database says that it refuses to commit transactions whose dependencies form a dangerous pattern. This one was committed.",
        ),
        _ => return None,
    })
}

/// What a level promises, in plain words.
#[must_use]
pub fn promise(level: Level) -> &'static str {
    match level {
        Level::ReadUncommitted => {
            "Transactions do not overwrite each other's changes in a cycle. Reads may see unfinished work."
        }
        Level::ReadCommitted => {
            "Transactions see only finished, committed work, and information does not flow in a cycle. Each read may show another moment."
        }
        Level::BeReadCommitted => {
            "Transactions see only committed work, and once one has seen a newer state it never sees an older one of the same writer."
        }
        Level::ReadAtomic => "A transaction sees all of what another one did, or nothing of it.",
        Level::Causal => "A transaction that sees an effect also sees its causes.",
        Level::RepeatableRead => {
            "Apart from searches, everything looks as if transactions had run one after the other: what was read once stays as it was."
        }
        Level::Prefix => {
            "All transactions are committed in one order, and each sees everything up to some point of it."
        }
        Level::ParallelSnapshot => {
            "Each transaction reads from one frozen picture of the database and never loses another's update; different sites may \
             see independent changes in different orders."
        }
        Level::SnapshotIsolation => {
            "Each transaction reads from one frozen picture of the database (a snapshot), and of two transactions that run at the same time and \
             change the same thing only one may commit."
        }
        Level::Serializable => {
            "Transactions may run at the same time, but the result is as if they had run one after the other, in some order."
        }
        Level::StrongSessionSnapshotIsolation => {
            "Each transaction reads from one frozen picture of the database (a snapshot) that contains its own client's earlier work, and of two transactions that \
             run at the same time and change the same thing only one may commit."
        }
        Level::StrictSnapshotIsolation => {
            "Each transaction reads from one frozen picture of the database (a snapshot) that contains everything that had ended before, and of two transactions \
             that run at the same time and change the same thing only one may commit."
        }
        Level::StrongSessionSerializable => {
            "The result is as if transactions had run one after the other, each client's in the order in which it issued them."
        }
        Level::StrictSerializable => {
            "The result is as if transactions had run one after the other, in an order that agrees with the clock: what had ended comes before \
             what begins later."
        }
    }
}

/// With a capital first letter.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_anomaly_has_words_without_jargon() {
        for &name in Anomaly::ALL {
            let plain = anomaly(name);
            assert!(!plain.title.is_empty(), "{name}");
            let shown = matches!(name.entry().kind, Kind::Cycle(_) | Kind::Local | Kind::Mechanism);
            assert!(!shown || plain.meaning.len() > 40, "{name}");
            for jargon in ["rw edge", "anti-dependency", "G-", "predicate", "PL-"] {
                assert!(!shown || !plain.meaning.contains(jargon), "{name}: {jargon}");
            }
        }
    }
}
