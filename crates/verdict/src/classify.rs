//! The name of a cycle.

use margay_history::{History, OpKind};
use margay_levels::Anomaly;
use margay_levels::anomaly::{Cycle, Order, Rw};

use crate::certificate::{Lemma, Reason};

impl Lemma {
    /// Which anomaly the cycle is: by how many anti-dependencies it has and whether two of them meet, whether one is over a
    /// predicate, and which orders it uses [Adya1999, Elle].
    #[must_use]
    pub fn anomaly(&self, history: &History) -> Anomaly {
        let rws: Vec<bool> = self.edges.iter().map(|edge| edge.reason.is_anti()).collect();
        let count = rws.iter().filter(|&&rw| rw).count();
        let meet = (0..rws.len()).any(|i| rws[i] && rws[(i + 1) % rws.len()]);
        let has = |kind: fn(&Reason) -> bool| self.edges.iter().any(|edge| kind(&edge.reason));
        Anomaly::of_cycle(Cycle {
            wr: has(|reason| reason.is_read() || matches!(reason, Reason::Visible { .. })),
            rw: match count {
                0 => Rw::None,
                1 => Rw::One,
                _ if meet => Rw::Adjacent,
                _ => Rw::NonAdjacent,
            },
            predicate_rw: self.edges.iter().any(|edge| is_predicate_rw(history, &edge.reason)),
            order: if has(|reason| matches!(reason, Reason::RealTime)) {
                Order::RealTime
            } else if has(|reason| matches!(reason, Reason::Session)) {
                Order::Session
            } else {
                Order::Dependencies
            },
        })
    }
}

/// An anti-dependency from an object that a scan did not return, or that a statement only summed up.
fn is_predicate_rw(history: &History, reason: &Reason) -> bool {
    match reason {
        Reason::AntiRead { op, object, .. } | Reason::AntiReadColumn { op, object, .. } => {
            let op = history.op(*op);
            matches!(op.kind, OpKind::Scan | OpKind::Update | OpKind::Sql)
                && op.accesses.iter().all(|a| a.object != *object)
        }
        _ => false,
    }
}
