//! Edges of a certificate as arrows of a picture.

use margay_history::{History, ObjectId, OpId, OpKind, TxnId};
use margay_verdict::{Edge, Reason};

use crate::explain;
use crate::limit::{LINE, clean};
use crate::picture;

/// An arrow: its words, its sentence, and the operations that it rests on.
#[must_use]
pub fn view(history: &History, edge: &Edge, most: usize) -> picture::Edge {
    let object = edge.reason.object();
    let (from_op, to_op) = rests_on(history, edge);
    let name = object.map(|object| clean(&history.show_object(object), most));
    picture::Edge {
        from: history.txn_label(edge.from),
        to: history.txn_label(edge.to),
        kind: kind(&edge.reason).to_owned(),
        label: label(history, &edge.reason, name.as_deref()),
        reason: clean(&explain::edge(history, edge), LINE),
        object: name,
        from_op: from_op.map(|op| history.op_index(op)),
        to_op: to_op.map(|op| history.op_index(op)),
    }
}

/// The transactions that an edge is about.
#[must_use]
pub fn txns(history: &History, edge: &Edge) -> Vec<TxnId> {
    let mut all = vec![edge.from, edge.to];
    if let Reason::Visible { op, path, .. } = &edge.reason {
        all.push(history.txn_of(*op));
        all.extend(path.iter().flat_map(|edge| [edge.from, edge.to]));
    }
    all
}

fn kind(reason: &Reason) -> &'static str {
    match reason {
        Reason::Session => "session",
        Reason::RealTime => "real-time",
        Reason::Recorded(_) => "recorded",
        Reason::Read { .. } | Reason::ReadColumn { .. } => "wr",
        Reason::Write { .. } => "ww",
        Reason::AntiRead { .. } | Reason::AntiReadColumn { .. } => "rw",
        Reason::Visible { .. } => "visible",
    }
}

/// What the arrow's head is to its tail, in a few words.
fn label(history: &History, reason: &Reason, object: Option<&str>) -> String {
    let object = object.unwrap_or_default();
    match reason {
        Reason::Session => "earlier in the session".to_owned(),
        Reason::RealTime => "ended before it began".to_owned(),
        Reason::Recorded(_) => "has the earlier timestamp".to_owned(),
        Reason::Read { .. } => format!("its {object} was read by"),
        Reason::Write { .. } => format!("its {object} was overwritten by"),
        Reason::ReadColumn { column, .. } => format!("its {} of {object} was read by", history.name(*column)),
        Reason::AntiReadColumn { op, object: id, column, .. } if !left_out(history, *op, *id) => {
            format!("read {} of {object} before the write of", history.name(*column))
        }
        Reason::AntiRead { op, object: id, .. } if left_out(history, *op, *id) => {
            format!("its search missed {object} of")
        }
        Reason::AntiReadColumn { .. } => format!("its search missed {object} of"),
        Reason::AntiRead { .. } => format!("read {object} before the write of"),
        Reason::Visible { .. } => format!("its {object} was known, and yet passed over for that of"),
    }
}

/// Whether an operation looked for the object and did not find it.
fn left_out(history: &History, op: OpId, object: ObjectId) -> bool {
    let op = history.op(op);
    matches!(op.kind, OpKind::Scan | OpKind::Update)
        && op.accesses.iter().all(|access| access.object != object)
}

/// The operation of `from` and that of `to` that show why.
fn rests_on(history: &History, edge: &Edge) -> (Option<OpId>, Option<OpId>) {
    let wrote = |txn: TxnId, object: ObjectId| {
        let writes =
            history.ops(txn).filter(|op| op.kind.writes() && op.accesses.iter().any(|a| a.object == object));
        writes.map(|op| op.id).next_back()
    };
    match &edge.reason {
        Reason::Session | Reason::RealTime | Reason::Recorded(_) => {
            (Some(OpId(history.op_range(edge.from).end - 1)), Some(OpId(history.op_range(edge.to).start)))
        }
        Reason::Read { op, object } | Reason::ReadColumn { op, object, .. } => {
            (wrote(edge.from, *object), Some(*op))
        }
        Reason::Write { object } | Reason::Visible { object, .. } => {
            (wrote(edge.from, *object), wrote(edge.to, *object))
        }
        Reason::AntiRead { op, object, .. } | Reason::AntiReadColumn { op, object, .. } => {
            (Some(*op), wrote(edge.to, *object))
        }
    }
}
