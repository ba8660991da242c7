//! What predicates saw of the rows that they left out, and what evidence says of what clients did
//! not see.
//!
//! # Algorithm
//! Emme, Algorithm 3. Of a left-out row the operation saw some version that does not match. If one
//! is recorded, that one; otherwise all that do not match are possible, a range of ranks
//! ([`crate::sights`]): its lowest gives the read dependency, the version behind its highest, which
//! matches, the anti-dependency. So of all versions only the nearest before and after that change
//! the match count.
//!
//! # Differs from the paper
//! A version set need not name every row: where the versions that do not match are one run, nothing
//! is missing.
//!
//! # Cost
//! Each predicate read: the rows that it matches at some time, and its version set.

use hashbrown::{HashMap, HashSet};
use margay_history::{ObjectId, Op, OpKind, PredicateId, TxnId, Version};
use margay_verdict::{Budget, Effect, Outside};

use crate::chain::Chain;
use crate::guess::Guesser;
use crate::matches::{Matched, Matches};
use crate::sights::{Failed, ObjectSight, Sights, Unexplained};
use crate::touches::strand;
use crate::world::World;

/// Adds the sights of left-out and of unobserved objects.
pub(crate) struct Scans<'w, 'a> {
    pub world: &'w World<'a>,
    pub guesser: &'w Guesser<'w>,
    pub chains: &'w HashMap<ObjectId, Chain>,
    pub matches: &'w mut Matches<'a>,
    pub sights: &'w mut Sights,
}

impl Scans<'_, '_> {
    pub fn run(&mut self, budget: &Budget) -> Result<(), Failed> {
        let history = self.world.history;
        let pinned = !history.evidence().version_sets.is_empty();
        let asks = [OpKind::Scan, OpKind::Update, OpKind::Sql].iter().any(|&kind| history.has_kind(kind));
        if !pinned && !asks {
            return Ok(());
        }
        for txn in history.txns().filter(|t| self.world.taken[t.index()]) {
            let mut wrote: Vec<ObjectId> = Vec::new();
            for op in history.ops(txn) {
                budget.poll()?;
                self.operation(txn, &op, &wrote)?;
                if op.kind.writes() {
                    wrote.extend(op.accesses.iter().map(|a| a.object));
                }
            }
        }
        Ok(())
    }

    /// What the client was told about all rows of a table.
    fn asked(&self, op: &Op<'_>) -> Option<PredicateId> {
        let history = self.world.history;
        let scan = history.scan(op.id).filter(|scan| scan.observed).map(|scan| scan.predicate);
        scan.or_else(|| history.update(op.id).filter(|u| u.observed).map(|u| u.predicate))
    }

    fn operation(&mut self, txn: TxnId, op: &Op<'_>, wrote: &[ObjectId]) -> Result<(), Outside> {
        let world = self.world;
        if let Some(asked) = world.predicates.summary(op.id).filter(|_| world.predicates.is_answered(op.id)) {
            return self.summary(txn, op, asked, wrote);
        }
        let predicate = self.asked(op);
        if let Some(object) = op.shows_twice() {
            self.sights.unexplained.push(Unexplained { op: op.id, object });
        }
        let set = self.world.history.evidence().version_set(op.id);
        if predicate.is_none() && set.is_none() {
            return Ok(());
        }
        let mut done: HashSet<ObjectId> = op.accesses.iter().map(|a| a.object).collect();
        if op.kind == OpKind::Read {
            done.retain(|o| {
                op.accesses.iter().any(|a| a.object == *o && a.value != margay_history::ValueId::UNKNOWN)
            });
        }
        for &(object, version) in set.map_or(&[][..], |set| &set.versions) {
            if done.insert(object) {
                self.pinned(txn, op, object, version, predicate, wrote.contains(&object))?;
            }
        }
        let Some(predicate) = predicate else { return Ok(()) };
        let table = Some(self.world.predicates.table_of(predicate));
        for &object in wrote.iter().filter(|o| self.world.history.object(**o).table == table) {
            if done.insert(object) {
                self.own(txn, op, object, predicate)?;
            }
        }
        self.left_out(txn, op, predicate, &done)
    }

    /// An object that the transaction had written itself, and that was left out.
    pub(crate) fn own(
        &mut self,
        txn: TxnId,
        op: &Op<'_>,
        object: ObjectId,
        predicate: PredicateId,
    ) -> Result<(), Outside> {
        let world = self.world;
        let Some(chain) = self.chains.get(&object) else { return Ok(()) };
        let mut own: Vec<Effect> = Vec::new();
        for touch in strand(world.history, world.touches.of(object), txn) {
            if touch.op < op.id {
                world.extend(object, chain, touch, &mut own)?;
            }
        }
        let view = world.own_view(object, chain, txn, &own);
        if world.predicates.matches(predicate, object, &view)? {
            self.sights.unexplained.push(Unexplained { op: op.id, object });
        }
        Ok(())
    }

    /// An object of which only evidence tells what was seen.
    pub(crate) fn pinned(
        &mut self,
        txn: TxnId,
        op: &Op<'_>,
        object: ObjectId,
        version: Version,
        predicate: Option<PredicateId>,
        wrote: bool,
    ) -> Result<(), Outside> {
        let unexplained = Unexplained { op: op.id, object };
        if wrote {
            if version != Version::Of(txn) {
                self.sights.unexplained.push(unexplained);
            }
            return match predicate {
                Some(predicate) => self.own(txn, op, object, predicate),
                None => Ok(()),
            };
        }
        let mine = self.world.orders.rank(object, txn);
        let Some(rank) = self.world.orders.rank_of(object, version).filter(|&rank| Some(rank) != mine) else {
            self.sights.unexplained.push(unexplained);
            return Ok(());
        };
        if let (Some(predicate), Some(chain)) = (predicate, self.chains.get(&object))
            && self.in_table(object, predicate)
            && self.world.predicates.matches(predicate, object, &chain.cell(rank))?
        {
            self.sights.unexplained.push(unexplained);
            return Ok(());
        }
        let item = op.accesses.iter().any(|a| a.object == object);
        self.sights.all.push(ObjectSight {
            op: op.id,
            txn,
            object,
            lo: rank,
            hi: rank,
            item,
            whole: true,
            several: false,
        });
        Ok(())
    }

    fn in_table(&self, object: ObjectId, predicate: PredicateId) -> bool {
        self.world.history.object(object).table == Some(self.world.predicates.table_of(predicate))
    }

    pub(crate) fn left_out(
        &mut self,
        txn: TxnId,
        op: &Op<'_>,
        predicate: PredicateId,
        done: &HashSet<ObjectId>,
    ) -> Result<(), Outside> {
        for matched in self.matches.of(predicate, self.chains)? {
            let object = matched.object;
            if done.contains(&object) {
                continue;
            }
            let versions = self.chains[&object].len();
            let mine = self.world.orders.rank(object, txn);
            let Some((lo, hi, whole)) = range(matched, versions, mine) else {
                self.sights.unexplained.push(Unexplained { op: op.id, object });
                continue;
            };
            let index = self.sights.all.len() as u32;
            self.sights.all.push(ObjectSight {
                op: op.id,
                txn,
                object,
                lo,
                hi,
                item: false,
                whole,
                several: false,
            });
            if !whole {
                let guess = self.guesser.rank(txn, object).clamp(lo, hi);
                let (start, end) = matched.run(matched.unmatched_near(guess), versions);
                self.sights.guesses.push((index, start.max(lo), end.min(hi)));
            }
        }
        Ok(())
    }
}

/// The lowest and the highest rank that do not match, and whether none between does. Ranks after
/// the reader's own count only if there are no others.
fn range(matched: &Matched, versions: u32, mine: Option<u32>) -> Option<(u32, u32, bool)> {
    let open = |rank: &u32| Some(*rank) != mine && !matched.contains(*rank);
    let lo = (0..versions).find(open)?;
    let end = mine.filter(|&mine| lo < mine).unwrap_or(versions);
    let hi = (lo..end).rev().find(open)?;
    let below = |bound: u32| matched.ranks.partition_point(|&rank| rank < bound);
    let inside = below(hi + 1) - below(lo);
    Some((lo, hi, inside == 0 && !mine.is_some_and(|mine| (lo..=hi).contains(&mine))))
}

/// The ranks that a left-out object may have been seen at.
pub(crate) fn unmatched(matched: Option<&Matched>, versions: u32, mine: Option<u32>) -> Vec<u32> {
    let open = |rank: &u32| Some(*rank) != mine && !matched.is_some_and(|m| m.contains(*rank));
    (0..versions).filter(open).collect()
}
