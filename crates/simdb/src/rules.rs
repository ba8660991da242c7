//! What a protocol decides: whether a statement may go on, where it reads, and whether a
//! transaction may commit.

use margay_client::{Change, Cond, Obj};

use crate::db::{Db, ReadView, RuleResult};
use crate::protocol::Protocol;

mod innodb_rr;
mod mvto;
mod occ;
mod percolator;
mod rc_locking;
mod rc_mvcc;
mod read_uncommitted;
mod serial;
mod si;
mod ss2pl;
mod ssi;

/// What a commit does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Commit {
    /// Install the writes at this timestamp, now.
    At(u64),
    /// Go on after a while.
    Later,
}

/// A protocol. `me` is the client; each client is in at most one transaction.
///
/// Every method but `end` may answer [`crate::db::Stop::Wait`]; it is then called again, from the
/// beginning, when something was released. It must not have changed anything that a second call
/// could mistake for its own success.
pub(crate) trait Rules: Send {
    /// Before a statement, each time it is tried.
    fn statement(&mut self, _db: &mut Db, _me: usize) -> RuleResult<()> {
        Ok(())
    }

    /// Where a read of `obj` looks. Not asked for objects that `me` has written.
    fn read(&mut self, db: &mut Db, me: usize, obj: Obj) -> RuleResult<ReadView>;

    /// Where a predicate read looks.
    fn scan(&mut self, db: &mut Db, me: usize, cond: Cond) -> RuleResult<ReadView>;

    /// What a write of `obj` starts from. Unless a protocol has a way of its own, it waits for
    /// conditions that others have locked, locks the object, and changes the newest version.
    fn write(&mut self, db: &mut Db, me: usize, obj: Obj, change: Change) -> RuleResult<ReadView> {
        db.wait_for_conditions(me, obj, change)?;
        db.lock_exclusive(me, obj)?;
        Ok(ReadView::Latest)
    }

    /// The rows that a predicate update changes, and what it starts from. Unless a protocol has a
    /// way of its own, it locks the newest rows that match, and the condition.
    fn targets(
        &mut self,
        db: &mut Db,
        me: usize,
        cond: Cond,
        change: Change,
    ) -> RuleResult<(Vec<Obj>, ReadView)> {
        let rows = lock_matching(db, me, cond, change)?;
        db.lock_condition(me, cond);
        Ok((rows, ReadView::Latest))
    }

    /// Where a predicate update looked for its rows, if not where it starts from.
    fn searched(&self, _db: &Db, _me: usize) -> Option<ReadView> {
        None
    }

    /// Whether and when to commit: at once, unless a protocol asks first.
    fn commit(&mut self, db: &mut Db, _me: usize) -> RuleResult<Commit> {
        commit_now(db)
    }

    /// The transaction is about to end; `committed` is its timestamp. Its writes are still there.
    fn end(&mut self, _db: &mut Db, _me: usize, _committed: Option<u64>) {}

    /// The timestamp at which an abort would leave its writes, were it to leave any.
    fn abort_ts(&self, db: &mut Db, _me: usize) -> u64 {
        db.tick()
    }
}

/// The rules of a protocol.
pub(crate) fn rules(protocol: Protocol, clients: usize) -> Box<dyn Rules> {
    match protocol {
        Protocol::Serial => Box::new(serial::Serial::default()),
        Protocol::Ss2pl => Box::new(ss2pl::Ss2pl),
        Protocol::RcLocking => Box::new(rc_locking::RcLocking),
        Protocol::RcMvcc => Box::new(rc_mvcc::RcMvcc),
        Protocol::SiFuw => Box::new(si::FirstUpdater),
        Protocol::SiFcw => Box::new(si::FirstCommitter),
        Protocol::Ssi => Box::new(ssi::Ssi::default()),
        Protocol::Occ => Box::new(occ::Occ::new(clients)),
        Protocol::Mvto => Box::new(mvto::Mvto::default()),
        Protocol::Percolator => Box::new(percolator::Percolator::new(clients)),
        Protocol::InnodbRr => Box::new(innodb_rr::InnodbRr),
        Protocol::ReadUncommitted => Box::new(read_uncommitted::ReadUncommitted),
    }
}

/// A commit that needs no permission takes effect at once.
fn commit_now(db: &mut Db) -> RuleResult<Commit> {
    Ok(Commit::At(db.tick()))
}

/// Waits for whatever a predicate update of the newest rows conflicts with, then takes its locks.
fn lock_matching(db: &mut Db, me: usize, cond: Cond, change: Change) -> RuleResult<Vec<Obj>> {
    db.wait_for_writers(me, cond)?;
    let rows = db.matching(me, cond, ReadView::Latest);
    for &row in &rows {
        db.wait_for_conditions(me, row, change)?;
    }
    db.lock_all_exclusive(me, &rows)?;
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_has_rules() {
        for protocol in Protocol::ALL {
            let _ = rules(protocol, 2);
        }
    }
}
