//! Logs with one wrong result, made from right ones.

use margay_history::{History, HistoryBuilder, OpDetail, OpId, OpKind, Value, ValueId};

use crate::support::Random;

/// What becomes of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutation {
    /// A number of it grows by 1000003.
    Number,
    /// A row of it is dropped.
    Dropped,
}

/// The log with one result changed; `None` if there is none to change.
pub fn mutated(history: &History, mutation: Mutation, random: &mut Random) -> Option<History> {
    let ops = history.txns().flat_map(|txn| history.op_range(txn)).map(OpId);
    let candidates: Vec<OpId> = ops.filter(|&op| can_change(history, op, mutation)).collect();
    let chosen = *candidates.get(random.below(candidates.len().max(1) as u64) as usize)?;
    let mut builder = HistoryBuilder::like(history);
    for txn in history.txns() {
        let (session, label) = (history.session_label(history.session_of(txn)), history.txn_label(txn));
        for op in history.ops(txn) {
            let rows = match (op.id == chosen, history.statement(op.id).and_then(|s| s.rows.clone())) {
                (true, Some(rows)) => Some(changed(history, &mut builder, &rows, mutation, random)),
                _ => None,
            };
            let detail = match (history.detail(op, true), &rows) {
                (OpDetail::Sql { text, params, count, .. }, Some(rows)) => {
                    OpDetail::Sql { text, params, rows: Some(rows), count }
                }
                (detail, _) => detail,
            };
            builder.push(session, label, op.at, op.kind, &[], detail).ok()?;
        }
    }
    builder.finish().ok()
}

fn can_change(history: &History, op: OpId, mutation: Mutation) -> bool {
    let rows = history.statement(op).and_then(|statement| statement.rows.as_ref());
    let committed = history.outcome(history.txn_of(op)) == margay_history::Outcome::Committed;
    let number = |&row: &ValueId| numbers(history, row).next().is_some();
    committed
        && history.op(op).kind == OpKind::Sql
        && rows.is_some_and(|rows| match mutation {
            Mutation::Number => rows.iter().any(number),
            Mutation::Dropped => !rows.is_empty(),
        })
}

fn numbers(history: &History, row: ValueId) -> impl Iterator<Item = usize> {
    let cells = match history.value(row) {
        Value::List(cells) => cells,
        _ => &[],
    };
    let is_number = |&(_, cell): &(usize, &ValueId)| matches!(history.value(*cell), Value::Int(_));
    cells.iter().enumerate().filter(is_number).map(|(at, _)| at)
}

fn changed(
    history: &History,
    builder: &mut HistoryBuilder,
    rows: &[ValueId],
    mutation: Mutation,
    random: &mut Random,
) -> Vec<ValueId> {
    let mut rows = rows.to_vec();
    if mutation == Mutation::Dropped {
        rows.remove(random.below(rows.len() as u64) as usize);
        return rows;
    }
    let places: Vec<usize> =
        (0..rows.len()).filter(|&at| numbers(history, rows[at]).next().is_some()).collect();
    let at = *random.pick(&places);
    let columns: Vec<usize> = numbers(history, rows[at]).collect();
    let column = *random.pick(&columns);
    let Value::List(cells) = history.value(rows[at]) else { return rows };
    let mut cells = cells.to_vec();
    if let Value::Int(number) = history.value(cells[column]) {
        cells[column] = builder.values().int(number + 1_000_003);
    }
    rows[at] = builder.values().list(&cells);
    rows
}
