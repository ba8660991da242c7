//! What every operation saw, object by object.
//!
//! # Problem
//! A version order gives every version its value. Which version an operation saw follows from the
//! value, or from a recorded version set; where several versions fit, all of them are kept as a
//! range of ranks.
//!
//! # Algorithm
//! Emme, Algorithms 1 and 2, with ranges: whichever version of the range `lo..=hi` it was, the
//! writer of `lo` comes before the reader, and the reader before the writer of `hi + 1`. If every
//! version of the range fits, these two edges say all: an order that follows them puts the reader
//! behind some version of the range and before the next. If there are holes (`whole` is false), the
//! edges are true and may be too few.
//!
//! # Invariants
//! The version that an operation saw is in its range, whatever happened, given the version orders
//! and who committed; or it comes after the reader's own version, which is a cycle of its own from
//! `read-committed` up.
//!
//! # Cost
//! Linear, but for the search of a value among an object's versions, which is logarithmic, or by
//! the most telling column of a row.

use hashbrown::HashMap;
use margay_history::{ObjectId, OpId, OpKind, TxnId, Value, ValueId};
use margay_verdict::{Budget, Effect, Exhausted, Outside};

use crate::chain::{Chain, Finder};
use crate::guess::Guesser;
use crate::orders::sees;
use crate::touches::Touch;
use crate::world::World;

/// What one operation saw of one object before its transaction's own writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectSight {
    pub op: OpId,
    pub txn: TxnId,
    pub object: ObjectId,
    /// The lowest rank that fits.
    pub lo: u32,
    /// The highest.
    pub hi: u32,
    /// Not so for an object that a predicate left out.
    pub item: bool,
    /// Whether all between fit too.
    pub whole: bool,
    /// Whether the value of a returned object fits several versions.
    pub several: bool,
}

/// An operation that saw of an object what no version explains.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unexplained {
    pub op: OpId,
    pub object: ObjectId,
}

/// What all operations saw.
#[derive(Default)]
pub(crate) struct Sights {
    pub all: Vec<ObjectSight>,
    /// The ranks that fit, of items where there are several.
    pub options: HashMap<u32, Vec<u32>>,
    /// For sights with holes, a range without, by guess.
    pub guesses: Vec<(u32, u32, u32)>,
    /// For sights of summaries whose versions add different things, a range that adds the same, by
    /// guess.
    pub summed: Vec<(u32, u32, u32)>,
    pub unexplained: Vec<Unexplained>,
}

/// Why sights could not be computed.
pub(crate) enum Failed {
    Outside(Outside),
    Exhausted(Exhausted),
}

impl From<Outside> for Failed {
    fn from(outside: Outside) -> Self {
        Failed::Outside(outside)
    }
}

impl From<Exhausted> for Failed {
    fn from(limit: Exhausted) -> Self {
        Failed::Exhausted(limit)
    }
}

impl Sights {
    /// All sights of returned objects; the chains of the objects that `keep` admits are kept.
    pub fn items(
        &mut self,
        world: &World<'_>,
        guesser: &Guesser<'_>,
        keep: impl Fn(ObjectId) -> bool,
        budget: &Budget,
    ) -> Result<HashMap<ObjectId, Chain>, Failed> {
        let mut kept = HashMap::new();
        for object in world.history.objects() {
            budget.poll()?;
            let mut thread = Thread { world, guesser, object, chain: world.chain(object)?, finder: None };
            thread.explain(self, budget)?;
            if keep(object) {
                kept.insert(object, thread.chain);
            }
        }
        Ok(kept)
    }

    /// A sight of these ranks, which fit; in order.
    ///
    /// Who writes the object later itself can hardly have seen what comes after that: such ranks
    /// count only if there are no others.
    fn push(&mut self, guesser: &Guesser<'_>, mut sight: ObjectSight, ranks: Vec<u32>, mine: Option<u32>) {
        let earlier = mine.map_or(ranks.len(), |mine| ranks.partition_point(|&rank| rank < mine));
        let likely = if earlier == 0 { &ranks[..] } else { &ranks[..earlier] };
        let (Some(&lo), Some(&hi)) = (likely.first(), likely.last()) else {
            return self.unexplained.push(Unexplained { op: sight.op, object: sight.object });
        };
        (sight.lo, sight.hi) = (lo, hi);
        sight.whole = (hi - lo) as usize + 1 == likely.len();
        sight.several = ranks.len() > 1;
        let index = self.all.len() as u32;
        if !sight.whole {
            let (lo, hi) = run_at(likely, guesser.rank(sight.txn, sight.object));
            self.guesses.push((index, lo, hi));
        }
        if ranks.len() > 1 {
            self.options.insert(index, ranks);
        }
        self.all.push(sight);
    }
}

/// The run of consecutive ranks that ends nearest at or below `rank`, or else the first.
fn run_at(ranks: &[u32], rank: u32) -> (u32, u32) {
    let at = ranks.partition_point(|&r| r <= rank).saturating_sub(1);
    let joined = |i: usize| ranks[i] + 1 == ranks[i + 1];
    let start = (0..at).rev().take_while(|&i| joined(i)).last().unwrap_or(at);
    let end = (at..ranks.len() - 1).take_while(|&i| joined(i)).last().map_or(at, |i| i + 1);
    (ranks[start], ranks[end])
}

/// One object through the whole history.
struct Thread<'w, 'a> {
    world: &'w World<'a>,
    guesser: &'w Guesser<'w>,
    object: ObjectId,
    chain: Chain,
    finder: Option<Finder>,
}

impl Thread<'_, '_> {
    fn explain(&mut self, sights: &mut Sights, budget: &Budget) -> Result<(), Failed> {
        let mut own: Vec<Effect> = Vec::new();
        let mut last = None;
        for touch in self.world.touches.of(self.object) {
            if last != Some(touch.txn) {
                budget.poll()?;
                own.clear();
                last = Some(touch.txn);
            }
            if sees(touch.kind) {
                self.observe(touch, &own, sights)?;
            }
            self.world.extend(self.object, &self.chain, touch, &mut own)?;
        }
        Ok(())
    }

    fn observe(&mut self, touch: &Touch, own: &[Effect], sights: &mut Sights) -> Result<(), Outside> {
        let (world, object, txn) = (self.world, self.object, touch.txn);
        let recorded = world.recorded(touch.op, object);
        if !own.is_empty() {
            let mine = recorded.is_none_or(|v| v == margay_history::Version::Of(txn));
            let view = world.own_view(object, &self.chain, txn, own);
            if !mine || !world.fits(object, touch, &view)? {
                sights.unexplained.push(Unexplained { op: touch.op, object });
            }
            return Ok(());
        }
        let mine = world.orders.rank(object, txn);
        let mut sight =
            ObjectSight { op: touch.op, txn, object, lo: 0, hi: 0, item: true, whole: true, several: false };
        if recorded.is_none()
            && touch.kind == OpKind::Read
            && let Some(rank) = self.only(touch.value).filter(|&rank| Some(rank) != mine)
        {
            (sight.lo, sight.hi) = (rank, rank);
            sights.all.push(sight);
            return Ok(());
        }
        let ranks = match (recorded, touch.kind) {
            (Some(version), _) => world.orders.rank_of(object, version).into_iter().collect(),
            (None, OpKind::Update) => vec![mine.unwrap_or(1) - 1],
            (None, _) => self.find(touch.value),
        };
        let mut fitting = Vec::with_capacity(1);
        for rank in ranks.into_iter().filter(|&rank| Some(rank) != mine) {
            let quick = match (touch.kind, world.history.value(touch.value)) {
                (OpKind::Read, Value::List(items)) => self.chain.is_list(rank, items),
                _ => None,
            };
            let fits = match quick {
                Some(fits) => fits,
                None => world.fits(object, touch, &self.chain.cell(rank))?,
            };
            if fits {
                fitting.push(rank);
            }
        }
        fitting.sort_unstable();
        sights.push(self.guesser, sight, fitting, mine);
        Ok(())
    }

    /// The rank of a scalar that only one version holds.
    fn only(&mut self, observed: ValueId) -> Option<u32> {
        let history = self.world.history;
        self.finder.get_or_insert_with(|| self.chain.finder(history)).only(history, observed)
    }

    fn find(&mut self, observed: ValueId) -> Vec<u32> {
        let history = self.world.history;
        let finder = self.finder.get_or_insert_with(|| self.chain.finder(history));
        finder.find(history, self.object, &self.chain, observed)
    }
}
