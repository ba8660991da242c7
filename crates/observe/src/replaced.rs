//! Rows that one transaction deletes and inserts again.
//!
//! # Problem
//! PostgreSQL at READ COMMITTED lets an UPDATE or a DELETE wait for who deletes a row that it has found, and go on without the row; the one that was inserted in its place it does not see.
//! So it finds neither, though a row with this key was there before and after. To us a row is its key: no committed state explains that, and a correct database would be accused.
//!
//! # Algorithm
//! Where a transaction has both deleted and inserted, and another one has updated or deleted, nothing that contradicts `read-committed` is told. Tables are not told apart.

use margay_history::{History, Outcome, TxnId};

/// Whether an UPDATE or a DELETE may have missed a row that was deleted and inserted again.
pub(crate) fn may_be_missed(history: &History) -> bool {
    let replaces =
        |txn: &TxnId| has(history, *txn, &["DELETE"]) && has(history, *txn, &["INSERT", "REPLACE"]);
    let lasts = |txn: &TxnId| history.outcome(*txn) != Outcome::Aborted;
    let Some(first) = history.txns().filter(lasts).find(replaces) else { return false };
    let changes = |txn: TxnId| has(history, txn, &["UPDATE", "DELETE"]);
    history.txns().any(|txn| txn != first && changes(txn))
}

/// Whether a transaction has a statement that begins with one of these words.
fn has(history: &History, txn: TxnId, words: &[&str]) -> bool {
    let mut statements = history.ops(txn).filter_map(|op| history.statement(op.id));
    statements.any(|statement| {
        let first = statement.text.split_whitespace().next().unwrap_or_default();
        words.iter().any(|word| first.eq_ignore_ascii_case(word))
    })
}
