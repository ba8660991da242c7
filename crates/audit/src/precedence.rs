//! Session order and real time, checked while begin and commit points pass by.
//!
//! # Algorithm
//! If `a` must come before `b`, then `a`'s commit must have passed when `b` begins. So at the
//! commit of `a` it is enough to know, of what has begun, the latest transaction of `a`'s session
//! and the latest start on the clock: no pair is looked at.

use margay_history::{History, TxnId};
use margay_verdict::Question;

use super::{Rejected, reject};

pub(super) struct Precedence<'h> {
    history: &'h History,
    session_order: bool,
    real_time: bool,
    /// The last begun transaction of each session, by session order.
    latest_begun: Vec<Option<TxnId>>,
    /// The begun transaction that started last, by the clock.
    latest_start: Option<(i64, TxnId)>,
}

impl<'h> Precedence<'h> {
    pub(super) fn new(history: &'h History, question: Question) -> Self {
        Self {
            history,
            session_order: question.uses_session_order(),
            real_time: question.uses_real_time(),
            latest_begun: vec![None; history.session_count()],
            latest_start: None,
        }
    }

    pub(super) fn begin(&mut self, txn: TxnId) {
        let latest = &mut self.latest_begun[self.history.session_of(txn).index()];
        *latest = (*latest).max(Some(txn));
        if let Some(start) = self.history.start(txn) {
            self.latest_start = self.latest_start.max(Some((start, txn)));
        }
    }

    pub(super) fn commit(&self, txn: TxnId) -> Result<(), Rejected> {
        let history = self.history;
        let begun = self.latest_begun[history.session_of(txn).index()];
        if let Some(later) = begun.filter(|&later| self.session_order && later > txn) {
            let (txn, later) = (history.show_txn(txn), history.show_txn(later));
            return reject(format!("{txn} is before {later} in its session, and not in the certificate"));
        }
        if let Some((_, later)) = self.latest_start
            && self.real_time
            && history.precedes(txn, later)
        {
            let (txn, later) = (history.show_txn(txn), history.show_txn(later));
            return reject(format!(
                "{txn} had ended before {later} began, and comes after it in the certificate"
            ));
        }
        Ok(())
    }
}
