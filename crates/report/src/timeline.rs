//! A breach of a mechanism, drawn: each operation with its interval on one line.
//!
//! ```text
//!                      100                                           190
//! T1 write x           [======]
//! T1 commit                         [===]
//! T2 read x = 0                                             [========]
//! ```

use margay_history::{History, Interval, ObjectId, Op, OpId, OpKind, TxnId};
use margay_verdict::{Breach, Broken, Edge, Reason};

/// The drawing takes so many columns, and labels at most so many.
const WIDTH: usize = 64;
const LABEL: usize = 32;

/// How many writers of what was read are drawn.
const WRITERS: usize = 3;

/// The lines of a breach's drawing; none if an operation has no interval.
#[must_use]
pub fn timeline(history: &History, breach: &Breach) -> Vec<String> {
    let mut ops = operations(history, &breach.broken);
    ops.sort_unstable();
    ops.dedup();
    let rows: Option<Vec<(String, Interval)>> =
        ops.iter().map(|&op| history.op(op).at.map(|at| (label(history, op), at))).collect();
    rows.map_or_else(Vec::new, draw)
}

/// The operations that show the breach.
fn operations(history: &History, broken: &Broken) -> Vec<OpId> {
    let end = |txn: TxnId| OpId(history.op_range(txn).end - 1);
    match broken {
        Broken::Read { op } => {
            let objects: Vec<ObjectId> = history.op(*op).accesses.iter().map(|a| a.object).collect();
            let mut ops = vec![*op];
            ops.extend(first_statement(history, history.txn_of(*op)));
            for object in objects.into_iter().take(2) {
                ops.extend(writers(history, *op, object));
            }
            ops
        }
        Broken::Locks { ops, .. } => ops.iter().flat_map(|&op| [op, end(history.txn_of(op))]).collect(),
        Broken::Updates { object, txns } => {
            let of = |&txn: &TxnId| {
                let write = history.ops(txn).find(|op| writes(op, *object)).map(|op| op.id);
                first_statement(history, txn).into_iter().chain(write).chain([end(txn)])
            };
            txns.iter().flat_map(of).collect()
        }
        Broken::Dependencies(edges) => edges.iter().flat_map(|edge| of_edge(history, edge)).collect(),
    }
}

/// The last writers that may matter to a read, by their writes and commits.
fn writers(history: &History, read: OpId, object: ObjectId) -> Vec<OpId> {
    let (me, until) = (history.txn_of(read), history.op(read).at.map_or(i64::MAX, |at| at.after));
    let committed = |op: &Op<'_>| op.at.is_some_and(|at| at.before <= until);
    let mut found: Vec<(Option<i64>, OpId, OpId)> = Vec::new();
    for txn in history.txns().filter(|&txn| txn != me) {
        let write = history.ops(txn).rfind(|op| writes(op, object));
        let end = history.ops(txn).last();
        if let (Some(write), Some(end)) = (write, end.filter(committed)) {
            found.push((end.at.map(|at| at.before), write.id, end.id));
        }
    }
    found.sort_unstable();
    found.iter().rev().take(WRITERS).flat_map(|&(_, write, end)| [write, end]).collect()
}

fn of_edge(history: &History, edge: &Edge) -> Vec<OpId> {
    let end = |txn: TxnId| OpId(history.op_range(txn).end - 1);
    let write = |txn: TxnId, object: ObjectId| history.ops(txn).rfind(move |op| writes(op, object));
    let mut ops = vec![end(edge.from), end(edge.to)];
    match &edge.reason {
        Reason::Write { object } => {
            ops.extend(
                [edge.from, edge.to].into_iter().filter_map(|txn| write(txn, *object)).map(|op| op.id),
            );
        }
        Reason::Read { op, object } => {
            ops.extend(write(edge.from, *object).map(|op| op.id).into_iter().chain([*op]))
        }
        Reason::AntiRead { op, object, .. } => {
            ops.extend(write(edge.to, *object).map(|op| op.id).into_iter().chain([*op]));
        }
        _ => {}
    }
    ops
}

fn first_statement(history: &History, txn: TxnId) -> Option<OpId> {
    history.ops(txn).find(|op| op.kind != OpKind::Begin).map(|op| op.id)
}

fn writes(op: &Op<'_>, object: ObjectId) -> bool {
    op.kind.writes() && op.accesses.iter().any(|access| access.object == object)
}

fn label(history: &History, id: OpId) -> String {
    let op = history.op(id);
    let what = op.accesses.first().map_or_else(String::new, |access| {
        format!(" {} = {}", history.show_object(access.object), history.show_value(access.value))
    });
    let text = format!("{} {}{what}", history.show_txn(history.txn_of(id)), op.kind.name());
    match text.char_indices().nth(LABEL - 1) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}

/// Intervals on one scale, the earliest first.
fn draw(mut rows: Vec<(String, Interval)>) -> Vec<String> {
    rows.sort_by_key(|(_, at)| (at.before, at.after));
    let first = rows.iter().map(|(_, at)| at.before).min().unwrap_or(0);
    let last = rows.iter().map(|(_, at)| at.after).max().unwrap_or(0);
    let span = (i128::from(last) - i128::from(first)).max(1);
    let place = |time: i64| ((i128::from(time) - i128::from(first)) * (WIDTH as i128 - 1) / span) as usize;
    let wide = rows.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
    let row = |(label, at): &(String, Interval)| {
        let (from, to) = (place(at.before), place(at.after));
        let bar = match to - from {
            0 => "|".to_owned(),
            length => format!("[{}]", "=".repeat(length - 1)),
        };
        format!("{label:<wide$} {}{bar}", " ".repeat(from))
    };
    let ends = [first.to_string(), last.to_string()];
    let gap = WIDTH.saturating_sub(ends[0].len() + ends[1].len()).max(1);
    let scale = format!("{:<wide$} {}{}{}", "", ends[0], " ".repeat(gap), ends[1]);
    std::iter::once(scale).chain(rows.iter().map(row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_stand_where_they_belong() {
        let at = |before, after| Interval::new(before, after);
        let lines = draw(vec![
            ("T2 read".to_owned(), at(73, 73)),
            ("T1 write x".to_owned(), at(10, 41)),
            ("T1 commit".to_owned(), at(41, 73)),
        ]);
        assert_eq!(lines[0].len(), "T1 write x ".len() + WIDTH);
        assert!(lines[0].ends_with("73") && lines[1].starts_with("T1 write x [==="), "{lines:?}");
        let column = |line: &str, mark: char| line.chars().position(|c| c == mark);
        assert_eq!(column(&lines[1], ']'), column(&lines[2], '['));
        assert_eq!(column(&lines[2], ']'), column(&lines[3], '|'));
        assert!(lines[3].starts_with("T2 read"));
    }
}
