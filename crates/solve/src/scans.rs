//! Predicate reads as reads of every object that may matter.

use margay_history::{History, ObjectId, OpId, OpKind, Version};

use crate::index::Writers;

/// What a scan saw of one object: one of these versions.
pub(crate) struct ScanRead {
    pub object: ObjectId,
    pub candidates: Vec<Version>,
}

/// The reads of all scans.
pub(crate) struct Scans;

impl Scans {
    pub fn of(history: &History, _: &Writers<'_>) -> Result<Self, String> {
        match history.has_kind(OpKind::Scan) || history.has_kind(OpKind::Update) {
            true => Err("predicates".to_string()),
            false => Ok(Self),
        }
    }

    pub fn reads(&self, _: OpId) -> &[ScanRead] {
        &[]
    }
}
