//! All tiny histories, up to renaming.
//!
//! # Algorithm
//! Up to three transactions of up to two operations, each a read or a write of one of two objects,
//! every write with a value of its own. A read shows the initial state or any write of the object,
//! its own transaction's and later ones included. Once with registers and once with lists, where a
//! write appends and a read shows up to two elements in any order; once with every transaction in
//! its own session, and, smaller, with all in one or two of them in one. Of the histories that
//! differ only by the names of objects and, where sessions allow it, of transactions, one is kept:
//! the smallest description.

use std::fmt::Write;

use margay_history::History;

use crate::mini::history;

/// What one operation does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Shape {
    Read(u8),
    Write(u8),
}

/// The operations of one transaction.
type Txn = Vec<Shape>;

/// Which transactions share a session.
#[derive(Clone, Copy, PartialEq)]
enum Sessions {
    Apart,
    FirstTwo,
    All,
}

/// Calls `each` with every tiny history.
pub fn tiny(mut each: impl FnMut(History)) {
    for sessions in [Sessions::Apart, Sessions::FirstTwo, Sessions::All] {
        let limit = if sessions == Sessions::Apart { 6 } else { 4 };
        for txns in shapes(sessions, limit) {
            for lists in [false, true] {
                if !lists || operations(&txns) <= 5 && writes(&txns) {
                    values(&txns, sessions, lists, &mut each);
                }
            }
        }
    }
}

fn operations(txns: &[Txn]) -> usize {
    txns.iter().map(Vec::len).sum()
}

fn writes(txns: &[Txn]) -> bool {
    txns.iter().flatten().any(|op| matches!(op, Shape::Write(_)))
}

/// The transactions of a history, without the values that reads see.
fn shapes(sessions: Sessions, limit: usize) -> Vec<Vec<Txn>> {
    let ops = [Shape::Read(0), Shape::Read(1), Shape::Write(0), Shape::Write(1)];
    let mut single: Vec<Txn> = ops.iter().map(|&op| vec![op]).collect();
    single.extend(ops.iter().flat_map(|&a| ops.iter().map(move |&b| vec![a, b])));
    let mut all: Vec<Vec<Txn>> = single.iter().map(|a| vec![a.clone()]).collect();
    for _ in 1..3 {
        let longer = all.iter().flat_map(|txns| {
            single.iter().map(|txn| txns.iter().cloned().chain([txn.clone()]).collect::<Vec<_>>())
        });
        let mut longer: Vec<_> = longer.filter(|txns| operations(txns) <= limit).collect();
        longer.append(&mut all);
        all = longer;
        all.sort();
        all.dedup();
    }
    all.retain(|txns| is_smallest(txns, sessions));
    all
}

/// Whether no renaming gives a smaller description.
fn is_smallest(txns: &[Txn], sessions: Sessions) -> bool {
    let orders: &[&[usize]] = match (sessions, txns.len()) {
        (Sessions::Apart, 2) => &[&[0, 1], &[1, 0]],
        (Sessions::Apart, 3) => &[&[0, 1, 2], &[0, 2, 1], &[1, 0, 2], &[1, 2, 0], &[2, 0, 1], &[2, 1, 0]],
        _ => &[],
    };
    let needed = match sessions {
        Sessions::Apart => 1,
        Sessions::FirstTwo => 3,
        Sessions::All => 2,
    };
    if txns.len() < needed {
        return false;
    }
    let swap = |txn: &Txn| -> Txn {
        let other = |op: &Shape| match op {
            Shape::Read(o) => Shape::Read(1 - o),
            Shape::Write(o) => Shape::Write(1 - o),
        };
        txn.iter().map(other).collect()
    };
    let identity: Vec<usize> = (0..txns.len()).collect();
    let orders = orders.iter().copied().chain([identity.as_slice()]);
    orders.into_iter().all(|order| {
        let plain: Vec<Txn> = order.iter().map(|&i| txns[i].clone()).collect();
        let swapped: Vec<Txn> = plain.iter().map(swap).collect();
        txns <= &plain[..] && txns <= &swapped[..]
    })
}

/// Fills in what reads see, in all ways.
fn values(txns: &[Txn], sessions: Sessions, lists: bool, each: &mut impl FnMut(History)) {
    let mut written: [Vec<usize>; 2] = [Vec::new(), Vec::new()];
    let mut reads = Vec::new();
    for (number, op) in txns.iter().flatten().enumerate() {
        match op {
            Shape::Write(object) => written[*object as usize].push(number + 1),
            Shape::Read(object) => reads.push(*object as usize),
        }
    }
    let options: Vec<Vec<String>> = reads.iter().map(|&object| seen(&written[object], lists)).collect();
    let mut choice = vec![0; options.len()];
    loop {
        let values = choice.iter().zip(&options).map(|(&i, options)| options[i].as_str()).collect();
        each(history(&text(txns, sessions, lists, values)));
        let Some(next) = (0..choice.len()).find(|&i| choice[i] + 1 < options[i].len()) else { return };
        choice[..next].fill(0);
        choice[next] += 1;
    }
}

/// What a read of an object can show.
fn seen(written: &[usize], lists: bool) -> Vec<String> {
    if !lists {
        return ["_".to_string()].into_iter().chain(written.iter().map(usize::to_string)).collect();
    }
    let pairs = written
        .iter()
        .flat_map(|a| written.iter().filter(move |b| a != *b).map(move |b| format!("[{a} {b}]")));
    ["_".to_string()].into_iter().chain(written.iter().map(|a| format!("[{a}]"))).chain(pairs).collect()
}

fn text(txns: &[Txn], sessions: Sessions, lists: bool, values: Vec<&str>) -> String {
    let (mut out, mut number, mut values) = (String::new(), 0, values.into_iter());
    for (i, txn) in txns.iter().enumerate() {
        let session = match sessions {
            Sessions::Apart => i + 1,
            Sessions::FirstTwo => 1 + i / 2,
            Sessions::All => 1,
        };
        let _ = write!(out, "{}T{}@s{session}:", if i > 0 { " | " } else { "" }, i + 1);
        for op in txn {
            number += 1;
            let _ = match op {
                Shape::Write(object) => {
                    write!(
                        out,
                        " {}({},{number})",
                        if lists { "a" } else { "w" },
                        ["x", "y"][*object as usize]
                    )
                }
                Shape::Read(object) => {
                    write!(out, " r({},{})", ["x", "y"][*object as usize], values.next().unwrap_or("?"))
                }
            };
        }
    }
    out
}
