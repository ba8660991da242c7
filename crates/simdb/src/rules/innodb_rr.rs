//! InnoDB's REPEATABLE READ.
//!
//! # Algorithm
//! Plain reads see a snapshot taken by the first of them. Writes and predicate updates read and
//! change the newest committed rows, which they lock; a predicate update also keeps others from
//! changing what matches (next-key locks). Its own writes are visible to a transaction, with
//! whatever they have taken over from rows newer than its snapshot.
//!
//! # Invariants
//! - Versions follow the order of commits, and whoever reads sees committed versions: PL-2.
//!   Snapshots are prefixes of that order, so for plain reads and blind writes alone `prefix`
//!   holds.
//! - Nobody checks whether a changed row is newer than the snapshot: lost updates happen
//!   (Hermitage: P4, G-single and PMP for writers).
//! - A predicate update reads rows newer than the snapshot, and plain reads after it see the old
//!   state again. That is what `be-read-committed` forbids.

use super::Rules;
use margay_client::{Cond, Obj};

use crate::db::{Db, ReadView, RuleResult};

pub(super) struct InnodbRr;

impl Rules for InnodbRr {
    fn read(&mut self, db: &mut Db, me: usize, _obj: Obj) -> RuleResult<ReadView> {
        Ok(ReadView::AsOf(db.take_snapshot(me)))
    }

    fn scan(&mut self, db: &mut Db, me: usize, _cond: Cond) -> RuleResult<ReadView> {
        Ok(ReadView::AsOf(db.take_snapshot(me)))
    }
}
