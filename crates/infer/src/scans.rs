//! What scans saw of the rows that they did not return.
//!
//! # Problem
//! A scan reads one version of every row of its table: of a row that it did not return, some
//! version that does not match, `absent` included.
//!
//! # Algorithm
//! Of the versions that a row may have had (the initial one, and one for each transaction that
//! writes it and may have committed) those that match are left out. If one is left, the scan saw
//! it; if none is, it missed the row; if several are, nothing is certain.
//!
//! # Cost
//! Each scan looks at every version of every row of its table.

use margay_history::{History, ObjectId, PredicateId, TxnId, ValueId, Version};
use margay_verdict::{Cell, Predicates};

use crate::index::Index;

/// How many versions scans may look at in all.
const LOOKS: u64 = 50_000_000;

/// What is known of a row that a scan did not return.
pub(crate) enum Left {
    /// This version does not match, and all others do.
    One(Version),
    /// Every version matches.
    Missed,
    /// Several versions do not match.
    Several,
}

/// The conditions of a history, and the versions of the rows that they choose from.
pub(crate) struct Scans<'h> {
    history: &'h History,
    predicates: Predicates<'h>,
    /// By object.
    versions: Vec<Vec<(Version, ValueId)>>,
    looks: u64,
}

impl<'h> Scans<'h> {
    /// # Errors
    /// A condition that is outside the fragment.
    pub(crate) fn new(history: &'h History, index: &Index) -> Result<Self, String> {
        let predicates = Predicates::compile(history).map_err(|outside| outside.to_string())?;
        let initial = |object| vec![(Version::Initial, history.initial(object))];
        let mut versions: Vec<_> = history.objects().map(initial).collect();
        for &(object, value, txn) in &index.last_writes {
            versions[object.index()].push((Version::Of(txn), value));
        }
        Ok(Self { history, predicates, versions, looks: 0 })
    }

    /// The rows of a predicate's table.
    pub(crate) fn domain(&self, predicate: PredicateId) -> Vec<ObjectId> {
        self.predicates.domain(predicate).to_vec()
    }

    /// Whether a value of a row matches.
    ///
    /// # Errors
    /// When the condition has no value on it.
    pub(crate) fn matches(
        &self,
        predicate: PredicateId,
        object: ObjectId,
        value: ValueId,
    ) -> Result<bool, String> {
        self.predicates.matches(predicate, object, &Cell::Value(value)).map_err(|outside| outside.to_string())
    }

    /// What a scan of `reader` saw of a row that it did not return and that `reader` had not
    /// written.
    ///
    /// # Errors
    /// When the condition has no value on a version, or there was too much to look at.
    pub(crate) fn left(
        &mut self,
        predicate: PredicateId,
        object: ObjectId,
        reader: TxnId,
    ) -> Result<Left, String> {
        let mut found = Left::Missed;
        self.looks += self.versions[object.index()].len() as u64;
        if self.looks > LOOKS {
            return Err(format!("scans over the many versions of {}", self.history.show_object(object)));
        }
        for &(version, value) in &self.versions[object.index()] {
            if version == Version::Of(reader) || self.matches(predicate, object, value)? {
                continue;
            }
            found = match found {
                Left::Missed => Left::One(version),
                _ => return Ok(Left::Several),
            };
        }
        Ok(found)
    }
}
