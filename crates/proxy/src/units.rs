//! Units: the transactions of one request as one transaction.
//!
//! # Problem
//! Most faults of applications are not of a level but of scope: a request reads in one transaction
//! and writes in another, and what it read is old by then. Each transaction is serializable, the
//! request is not. Libraries that trace requests write their names into comments of statements
//! (sqlcommenter's `traceparent`, `request_id` of Rails' query tags).
//!
//! # Algorithm
//! Transactions of a session that follow each other and have the same unit become one, without
//! those that were aborted: what was retried did not happen.
//!
//! # Invariants
//! A history of units says nothing of the database, which never promised that units are isolated.
//! So it is judged only by the level that somebody claims.

use margay_history::{History, HistoryBuilder, Invalid, OpDetail, OpKind, Outcome, TxnId};

use crate::text::comments;

/// The name of the unit that a statement's comments tell, by the name of the field that has it.
pub(crate) fn unit_of<'t>(text: &'t str, field: &str) -> Option<&'t str> {
    let fields = comments(text).flat_map(|comment| comment.split(','));
    let pairs = fields.filter_map(|pair| pair.split_once(['=', ':']));
    let found =
        pairs.filter(|(name, _)| name.trim() == field).map(|(_, value)| value.trim().trim_matches('\''));
    let value = found.into_iter().find(|value| !value.is_empty())?;
    // Version, trace, span, flags: every statement may have a span of its own.
    let trace = (field == "traceparent").then(|| value.split('-').nth(1)).flatten();
    Some(trace.unwrap_or(value))
}

/// The history with units as transactions; none if no transaction has a unit.
///
/// # Errors
/// When that is no history.
pub fn united(history: &History) -> Result<Option<History>, Invalid> {
    if !history.txns().any(|txn| unit(history, txn).is_some()) {
        return Ok(None);
    }
    let mut builder = HistoryBuilder::like(history);
    for session in history.sessions() {
        let txns: Vec<TxnId> = history.session_txns(session).collect();
        let same =
            |a: &TxnId, b: &TxnId| unit(history, *a).is_some() && unit(history, *a) == unit(history, *b);
        for unit in txns.chunk_by(same) {
            push(history, unit, &mut builder)?;
        }
    }
    builder.finish().map(Some)
}

fn unit(history: &History, txn: TxnId) -> Option<&str> {
    history.begin(txn)?.unit.as_deref()
}

fn push(history: &History, unit: &[TxnId], builder: &mut HistoryBuilder) -> Result<(), Invalid> {
    let kept: Vec<TxnId> = unit
        .iter()
        .copied()
        .filter(|&txn| unit.len() == 1 || history.outcome(txn) != Outcome::Aborted)
        .collect();
    let (Some(&first), Some(&last)) = (kept.first(), kept.last()) else { return Ok(()) };
    let who = (history.session_label(history.session_of(first)), history.txn_label(first));
    let unknown = kept.iter().any(|&txn| history.outcome(txn) == Outcome::Unknown);
    for &txn in &kept {
        for op in history.ops(txn) {
            let begins = op.kind == OpKind::Begin && txn != first;
            let ends = op.kind.outcome().is_some();
            if begins || (ends && txn != last) {
                continue;
            }
            let kind = if ends && unknown { OpKind::Unknown } else { op.kind };
            let observed = history.scan(op.id).is_some_and(|scan| scan.observed)
                || history.update(op.id).is_some_and(|update| update.observed);
            let detail = if ends { OpDetail::None } else { history.detail(op, observed) };
            builder.push(who.0, who.1, op.at, kind, op.accesses, detail)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_tell_units() {
        for (text, field, unit) in [
            ("SELECT 1 /*request_id='a7',route='%2Fx'*/", "request_id", Some("a7")),
            ("/*application:Shop,request_id:b8*/ SELECT 1", "request_id", Some("b8")),
            ("SELECT 1 /*traceparent='00-t1-s9-01'*/", "traceparent", Some("t1")),
            ("SELECT '/*request_id=''x''*/'", "request_id", None),
            ("SELECT 1 /*other='x'*/", "request_id", None),
        ] {
            assert_eq!(unit_of(text, field), unit, "{text}");
        }
    }

    /// A request that looks in one transaction and writes in another, and a retry between.
    #[test]
    fn transactions_of_a_unit_become_one() {
        let mut builder = HistoryBuilder::new();
        let object = builder.object(None, margay_history::ValueId::NULL);
        let value = builder.values().int(1);
        let ends = [OpKind::Commit, OpKind::Abort, OpKind::Commit];
        for ((txn, end), unit) in (1..).zip(ends).zip([Some("a"), Some("a"), Some("a")]) {
            let begin = OpDetail::Begin { level: None, read_only: false, unit };
            builder.push(0, txn, None, OpKind::Begin, &[], begin).expect("a begin");
            let access = margay_history::Access { object, value };
            builder.push(0, txn, None, OpKind::Write, &[access], OpDetail::None).expect("a write");
            builder.push(0, txn, None, end, &[], OpDetail::None).expect("an end");
        }
        let history = builder.finish().expect("a history");
        let united = united(&history).expect("a history").expect("there are units");
        let kinds: Vec<OpKind> = united.txns().flat_map(|txn| united.ops(txn)).map(|op| op.kind).collect();
        assert_eq!(kinds, [OpKind::Begin, OpKind::Write, OpKind::Write, OpKind::Commit]);
    }
}
