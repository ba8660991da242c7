//! Histories of which less is known.

use margay_history::{History, HistoryBuilder, OpDetail, OpKind};
use margay_simdb::Rng;

/// The history as it would be if nobody had seen what updates changed, and if some statements were
/// not understood.
pub fn blurred(history: &History, seed: u64) -> History {
    let (mut builder, mut rng) = (HistoryBuilder::like(history), Rng::new(seed, 99));
    for txn in history.txns() {
        let (session, label) = (history.session_label(history.session_of(txn)), history.txn_label(txn));
        for op in history.ops(txn) {
            let unclear = OpDetail::Sql { text: "CALL p()", params: &[], rows: None, count: None };
            let (kind, accesses, detail) = match op.kind {
                OpKind::Read | OpKind::Write if rng.below(60) == 0 => (OpKind::Sql, &[][..], unclear),
                OpKind::Update if rng.below(3) > 0 => (op.kind, &[][..], history.detail(op, false)),
                OpKind::Sql => (OpKind::Sql, &[][..], history.detail(op, true)),
                _ => (op.kind, op.accesses, history.detail(op, true)),
            };
            builder.push(session, label, op.at, kind, accesses, detail).expect("an operation");
        }
    }
    builder.finish().expect("a history")
}
