//! Why this cannot have happened under the level: the argument, in the words of this one case.

use margay_levels::Level;
use margay_levels::definition::Family;

use crate::picture::{Cycle, Edge, Picture};

/// The argument. `txns` are the transactions of the finding; `level` is missing where the question
/// was one of Elle's models; `mechanism` says that a mechanism was judged and not the level.
#[must_use]
pub fn impossible(picture: &Picture, txns: &[u64], level: Option<Level>, mechanism: bool) -> String {
    if mechanism {
        return "The intervals on the clients' clocks leave no way in which a database with these mechanisms could have done this. It contradicts how the \
            database says it works; whether clients could see a wrong result is another question."
            .to_owned();
    }
    let rule = level.map_or(String::new(), |level| format!(" {}", rule(level)));
    match picture.cycles.as_slice() {
        [] => format!(
            "No order of the transactions explains it, so {} is violated.",
            level.map_or("the level", Level::name)
        ),
        cycles if lost_update(cycles).is_some() => {
            format!("{}{rule}", lost_update(cycles).unwrap_or_default())
        }
        [cycle] => format!("{}{rule}", circle(cycle)),
        [first, others @ ..] if is_of(first, txns) => format!(
            "{} This assumes one order of the versions; every other order leads to a cycle, too: see {}.{rule}",
            circle(first),
            if others.len() == 1 { "the other cycle" } else { "the other cycles" }
        ),
        cycles => format!(
            "The history alone does not show what happened first, so every possibility was tried. Each of them leads to one of these {} cycles, in \
             which a transaction would have to come before itself.{rule}",
            cycles.len()
        ),
    }
}

/// Whether a cycle is about these transactions and no others.
fn is_of(cycle: &Cycle, txns: &[u64]) -> bool {
    let named = |txn: &u64| cycle.edges.iter().any(|edge| edge.from == *txn);
    cycle.edges.iter().all(|edge| txns.contains(&edge.from)) && txns.iter().all(named)
}

/// Two cycles that say the same with the roles exchanged: both read one version and both overwrote
/// it.
fn lost_update(cycles: &[Cycle]) -> Option<String> {
    let [first, second] = cycles else { return None };
    let roles = |cycle: &Cycle| match cycle.edges.as_slice() {
        [a, b] if a.kind == "ww" && b.kind == "rw" && a.object == b.object => {
            Some((a.from, a.to, a.object.clone()?))
        }
        [b, a] if a.kind == "ww" && b.kind == "rw" && a.object == b.object => {
            Some((a.from, a.to, a.object.clone()?))
        }
        _ => None,
    };
    let ((from, to, object), (other_from, other_to, other)) = (roles(first)?, roles(second)?);
    ((from, to) == (other_to, other_from) && object == other).then(|| {
        format!(
            "{} and {} both read {object} and both wrote it afterwards. Whichever came first, the other one should have seen its write and did not: the two cycles are \
             the two possibilities.",
            name(from),
            name(to)
        )
    })
}

/// What every level asks for, in one sentence.
fn rule(level: Level) -> String {
    let name = level.name();
    match level.family() {
        Family::Serial => format!(
            "{} requires one order of the transactions that explains everything; no order can put each before the next around a cycle.",
            capital(name)
        ),
        Family::Snapshot => format!(
            "{} requires a begin and a commit point for each transaction that explain everything, and there are none.",
            capital(name)
        ),
        Family::CommitOrder(_) => format!(
            "{} requires one order of commits that explains what was seen, and there is none.",
            capital(name)
        ),
        Family::Graph => format!("{} forbids such a cycle.", capital(name)),
    }
}

fn circle(cycle: &Cycle) -> String {
    let rws: Vec<&Edge> = cycle.edges.iter().filter(|edge| edge.kind == "rw").collect();
    match rws.as_slice() {
        [missed] if cycle.edges.len() >= 2 => skew(missed, cycle),
        [_, _, ..] if rws.len() == cycle.edges.len() => {
            let each: Vec<String> = rws
                .iter()
                .map(|edge| format!("{}, so it comes before {}", missed(edge), name(edge.to)))
                .collect();
            format!("{}.", each.join("; "))
        }
        _ => format!(
            "Each transaction must come before the next: {}. Nothing can come before itself.",
            around(cycle)
        ),
    }
}

fn missed(edge: &Edge) -> String {
    let object = edge.object.as_deref().map_or(String::new(), |object| format!(" of {object}"));
    format!("{} did not see the write{object} by {}", name(edge.from), name(edge.to))
}

/// One transaction missed another's change and still depends on it.
fn skew(edge: &Edge, cycle: &Cycle) -> String {
    let (reader, writer) = (name(edge.from), name(edge.to));
    let back: Vec<&Edge> = cycle.edges.iter().filter(|other| *other != edge).collect();
    let depends = match back.as_slice() {
        [edge] => format!("on the other hand {}, so {reader} must come after {writer}", lower(&edge.reason)),
        edges => {
            let chain: Vec<String> =
                edges.iter().map(|edge| format!("{} before {}", name(edge.from), name(edge.to))).collect();
            format!("on the other hand {}, so {reader} must come after {writer}", chain.join(", "))
        }
    };
    let missed = missed(edge);
    format!("{missed}, so it must come before {writer}; {depends}. It cannot be both.")
}

fn around(cycle: &Cycle) -> String {
    let first = cycle.edges.first().map(|edge| edge.from);
    let names: Vec<String> =
        first.into_iter().chain(cycle.edges.iter().map(|edge| edge.to)).map(name).collect();
    names.join(" before ")
}

/// The part of a reason after its colon: `T2 read x = 1, which T1 wrote`.
fn lower(reason: &str) -> &str {
    reason.split_once(": ").map_or(reason, |(_, because)| because).trim_end_matches('.')
}

fn name(label: u64) -> String {
    format!("T{label}")
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}
