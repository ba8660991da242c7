//! What a summary saw: a statement that shows only what is computed from the rows that match.
//!
//! # Algorithm
//! A summary is a predicate read of every object of its table. Objects that a version set names
//! were seen at that version, objects that its own transaction had written as they then were, and
//! each adds something to the answer, or nothing. If every other object adds the same whatever its
//! version, the answer is computed again and compared: Emme's result-set mismatch. Where an
//! object's versions differ in what they add, one of them is guessed, the one that the transaction
//! is likely to have seen; what comes of a guess is audited before anything is said. Who was told
//! that no row matches saw of every object a version that does not.
//!
//! # Differs from the paper
//! Emme's version sets name all versions that a predicate saw; here they may name some, or be
//! missing.
//!
//! # Cost
//! Each summary: the objects of its table, and of those that nothing names the versions.

use hashbrown::{HashMap, HashSet};
use margay_history::{ObjectId, Op, TxnId, Version};
use margay_verdict::summaries::{Asked, Contribution};
use margay_verdict::{Effect, Outside};

use crate::scans::Scans;
use crate::sights::{ObjectSight, Unexplained};
use crate::touches::strand;

/// What the objects of the table add.
#[derive(Default)]
struct Sum {
    all: Vec<Contribution>,
    guessed: bool,
}

impl Scans<'_, '_> {
    /// The sights of a summary.
    pub(crate) fn summary(
        &mut self,
        txn: TxnId,
        op: &Op<'_>,
        asked: &Asked,
        wrote: &[ObjectId],
    ) -> Result<(), Outside> {
        let predicates = self.world.predicates;
        let set = self.world.history.evidence().version_set(op.id);
        let named: HashMap<ObjectId, Version> =
            set.into_iter().flat_map(|set| set.versions.iter().copied()).collect();
        if predicates.counts_nothing(op.id) {
            return self.nothing(txn, op, asked, wrote, &named);
        }
        let mut sum = Sum::default();
        for &object in predicates.domain(asked.predicate) {
            let version = named.get(&object).copied();
            match (wrote.contains(&object), version) {
                (true, version) if version.is_none_or(|v| v == Version::Of(txn)) => {
                    sum.all.extend(self.own_part(txn, op, asked, object)?);
                }
                (false, Some(version)) => match self.world.orders.rank_of(object, version) {
                    Some(rank) if Some(rank) != self.world.orders.rank(object, txn) => {
                        self.saw(txn, op, object, (rank, rank));
                        let cell = self.chains[&object].cell(rank);
                        sum.all.extend(predicates.contribution(asked, object, &cell)?);
                    }
                    _ => return self.cannot(op, object),
                },
                (false, None) => self.open(txn, op, asked, object, &mut sum)?,
                _ => return self.cannot(op, object),
            }
        }
        let given = predicates.summed(asked, &sum.all)?;
        if sum.guessed || predicates.is_told(op.id, &given) { Ok(()) } else { self.wrong(op, asked) }
    }

    fn cannot(&mut self, op: &Op<'_>, object: ObjectId) -> Result<(), Outside> {
        self.sights.unexplained.push(Unexplained { op: op.id, object });
        Ok(())
    }

    /// Another answer comes out; which of the objects is named does not matter.
    fn wrong(&mut self, op: &Op<'_>, asked: &Asked) -> Result<(), Outside> {
        let some = self.world.predicates.domain(asked.predicate).first().copied();
        self.cannot(op, some.unwrap_or(ObjectId(0)))
    }

    /// As a scan that returned nothing.
    fn nothing(
        &mut self,
        txn: TxnId,
        op: &Op<'_>,
        asked: &Asked,
        wrote: &[ObjectId],
        named: &HashMap<ObjectId, Version>,
    ) -> Result<(), Outside> {
        let predicates = self.world.predicates;
        if !predicates.is_told(op.id, &predicates.summed(asked, &[])?) {
            return self.wrong(op, asked);
        }
        let mut done = HashSet::new();
        for (&object, &version) in named {
            done.insert(object);
            self.pinned(txn, op, object, version, Some(asked.predicate), wrote.contains(&object))?;
        }
        let table = self.world.predicates.table_of(asked.predicate);
        for &object in wrote.iter().filter(|&&o| self.world.history.object(o).table == Some(table)) {
            if done.insert(object) {
                self.own(txn, op, object, asked.predicate)?;
            }
        }
        self.left_out(txn, op, asked.predicate, &done)
    }

    /// What an object adds that the transaction had written itself.
    fn own_part(
        &self,
        txn: TxnId,
        op: &Op<'_>,
        asked: &Asked,
        object: ObjectId,
    ) -> Result<Option<Contribution>, Outside> {
        let (world, chain) = (self.world, &self.chains[&object]);
        let mut own: Vec<Effect> = Vec::new();
        for touch in strand(world.history, world.touches.of(object), txn).iter().filter(|t| t.op < op.id) {
            world.extend(object, chain, touch, &mut own)?;
        }
        world.predicates.contribution(asked, object, &world.own_view(object, chain, txn, &own))
    }

    /// An object of which nothing tells the version.
    fn open(
        &mut self,
        txn: TxnId,
        op: &Op<'_>,
        asked: &Asked,
        object: ObjectId,
        sum: &mut Sum,
    ) -> Result<(), Outside> {
        let predicates = self.world.predicates;
        let chain = &self.chains[&object];
        let part = |rank: u32| predicates.contribution(asked, object, &chain.cell(rank));
        // Versions after the reader's own would be a cycle of their own.
        let end = self.world.orders.rank(object, txn).unwrap_or(chain.len());
        let parts: Vec<Option<Contribution>> = (0..end).map(part).collect::<Result<_, _>>()?;
        let guess = self.guesser.rank(txn, object).min(end - 1) as usize;
        sum.all.extend(parts[guess].clone());
        let same = |rank: &usize| parts[*rank] == parts[guess];
        let low = (0..guess).rev().take_while(same).last().unwrap_or(guess);
        let high = (guess..parts.len()).take_while(same).last().unwrap_or(guess);
        let index = self.saw(txn, op, object, (0, end - 1));
        if (low, high) != (0, parts.len() - 1) {
            sum.guessed = true;
            self.sights.summed.push((index, low as u32, high as u32));
        }
        Ok(())
    }

    /// A sight of some versions, all of which are possible.
    fn saw(&mut self, txn: TxnId, op: &Op<'_>, object: ObjectId, (lo, hi): (u32, u32)) -> u32 {
        let sight = ObjectSight { op: op.id, txn, object, lo, hi, item: false, whole: true, several: false };
        self.sights.all.push(sight);
        self.sights.all.len() as u32 - 1
    }
}
