//! Copies of a history with something changed.

use margay_history::{Access, History, HistoryBuilder, ObjectId, Op, OpId, TxnId, Value, Version};

/// What to change in a copy.
pub(crate) struct Edit<'a> {
    /// Which operations stay; a transaction without any is gone.
    pub keep: &'a dyn Fn(OpId) -> bool,
    /// Whether times stay.
    pub times: bool,
    /// Whether evidence stays.
    pub evidence: bool,
    /// Changes names, if not 0.
    pub names: u64,
}

/// The copy; nothing if it is no history.
pub(crate) fn copy(history: &History, edit: &Edit<'_>) -> Option<History> {
    let mut copy = Copy { history, edit, builder: HistoryBuilder::like(history) };
    copy.initial()?;
    let mut sessions: Vec<_> = history.sessions().collect();
    let by = edit.names as usize % sessions.len().max(1);
    sessions.rotate_left(by);
    for txn in sessions.into_iter().flat_map(|session| history.session_txns(session)) {
        copy.txn(txn)?;
    }
    if edit.evidence {
        copy.evidence();
    }
    copy.builder.finish().ok()
}

struct Copy<'a> {
    history: &'a History,
    edit: &'a Edit<'a>,
    builder: HistoryBuilder,
}

impl Copy<'_> {
    fn label(&self, txn: TxnId) -> u64 {
        self.history.txn_label(txn) ^ (self.edit.names % 64) << 8
    }

    /// Keys of tables stay, for conditions may name them; so do numbers.
    fn object(&mut self, id: ObjectId) -> ObjectId {
        let object = self.history.object(id);
        match (object.table, self.history.value(object.key)) {
            (None, Value::Text(text)) if self.edit.names > 0 => {
                let key = self.builder.values().text(&format!("{text}{}", self.edit.names % 7));
                self.builder.object(None, key)
            }
            _ => id,
        }
    }

    fn initial(&mut self) -> Option<()> {
        for &(object, value) in self.history.initial_values() {
            let new = self.object(object);
            if new != object {
                self.builder.initial(new, value).ok()?;
            }
        }
        Some(())
    }

    fn txn(&mut self, txn: TxnId) -> Option<()> {
        let session = self.history.session_label(self.history.session_of(txn)) ^ (self.edit.names % 8);
        for op in self.history.ops(txn).filter(|op| (self.edit.keep)(op.id)) {
            let accesses: Vec<Access> = op
                .accesses
                .iter()
                .map(|a| Access { object: self.object(a.object), value: a.value })
                .collect();
            let detail = self.history.detail(op, self.is_observed(op));
            let at = op.at.filter(|_| self.edit.times);
            self.builder.push(session, self.label(txn), at, op.kind, &accesses, detail).ok()?;
            self.history.read_lock(op.id).into_iter().for_each(|lock| self.builder.lock(lock));
        }
        Some(())
    }

    fn is_observed(&self, op: Op<'_>) -> bool {
        self.history.scan(op.id).is_none_or(|scan| scan.observed)
            && self.history.update(op.id).is_none_or(|update| update.observed)
    }

    fn version(&self, version: Version) -> Option<u64> {
        match version {
            Version::Initial => None,
            Version::Of(txn) => Some(self.label(txn)),
        }
    }

    fn evidence(&mut self) {
        let evidence = self.history.evidence();
        for order in &evidence.version_orders {
            let versions = order.versions.iter().map(|&v| self.version(v)).collect();
            let object = self.object(order.object);
            self.builder.version_order(object, versions);
        }
        for set in &evidence.version_sets {
            let versions = set.versions.iter().map(|&(o, v)| (self.object(o), self.version(v))).collect();
            let txn = self.label(self.history.txn_of(set.op));
            self.builder.version_set(txn, self.history.op_index(set.op), versions);
        }
        evidence.snapshots.iter().for_each(|&(t, ts)| self.builder.snapshot(self.label(t), ts));
        evidence.commits.iter().for_each(|&(t, ts)| self.builder.commit(self.label(t), ts));
        evidence.serializations.iter().for_each(|&(t, ts)| self.builder.serialization(self.label(t), ts));
    }
}
