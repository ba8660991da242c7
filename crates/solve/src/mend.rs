//! Mending an order, one transaction at a time.
//!
//! # Problem
//! There is an order of points that is nearly right, by the clock or by what the known graph tells,
//! but some reads see versions that they cannot have seen. Where values were written several times,
//! or rows are only known not to match, it is not even known which versions these reads saw; where
//! neither time nor sessions tell anything, there are millions of pairs of versions that nothing
//! orders. Deciding choices one by one leads astray.
//!
//! # Algorithm
//! Local search over orders. Points have places on a line. As long as some demand ([`Demands`]) is
//! not met, take one of those at random and move one of its points, or both points of one of its
//! transactions, to where demands cost the least ([`crate::moves`]). Where no move gains anything,
//! the demand weighs more from then on, which fills up every hollow in the end.
//!
//! # Invariants
//! - Only a guess: the schedule verifies what comes out. The same history is mended in the same way
//!   every time.
//! - A transaction's begin stays before its commit.
//!
//! # Differs from the paper
//! [Cobra §3.4] and [Vbox §4.6] leave this to the solver, which decides about pairs. Without
//! sessions and time a history has very many legal orders, and a move sees all that one
//! transaction's place entails at once.
//!
//! # Cost
//! A move costs the reads of the items of the few transactions that are looked at, times log. It
//! gives up when nothing has become better for [`IDLE_MOVES`] moves and [`IDLE_MOVES_PER_POINT`]
//! per point.

use std::rc::Rc;

use margay_order::Graph;
use margay_verdict::{Budget, Exhausted};

use crate::demands::{Demand, Demands};
use crate::known::KnownGraph;
use crate::line::{Body, Line};
use crate::moves::{Move, Moves, Now};
use crate::problem::{INITIAL, Item};
use crate::schedule::Choices;

const NONE: u32 = u32::MAX;

/// How far beyond the outermost point one goes that may go anywhere.
const STEP: f64 = 0.5;

/// Half the distance from a transaction's begin to its commit at the start where time does not
/// tell: less than that of any two points of different transactions.
const HALF: f64 = 0.125;

/// How many versions are moved for one read.
const MOVED_VERSIONS: usize = 3;

/// Moves without a better order after which it gives up: so many, and so many more per point.
const IDLE_MOVES: usize = 1_000;
const IDLE_MOVES_PER_POINT: usize = 16;

/// An order that meets all that the graph and the reads demand, near to the order by `places`: what
/// each read saw in it, and a place for each point. `None` if none was found.
pub(crate) fn mend(
    known: &KnownGraph<'_>,
    graph: &Graph,
    choices: &Choices,
    places: &[u32],
    budget: &Budget,
) -> Result<Option<(Choices, Vec<u32>)>, Exhausted> {
    let mut mending = Mending::new(known, graph, choices, places, budget)?;
    if !mending.run(budget)? {
        return Ok(None);
    }
    let line = &mending.line;
    let mut order: Vec<u32> = (0..places.len() as u32).collect();
    order.sort_by(|&a, &b| line.at[a as usize].total_cmp(&line.at[b as usize]));
    let mut places = vec![0; order.len()];
    order.iter().zip(0..).for_each(|(&point, place)| places[point as usize] = place);
    let mut seen = choices.seen.to_vec();
    for read in (0..seen.len() as u32).filter(|&read| known.problem.seen(read).is_none()) {
        seen[read as usize] = mending.seen(read);
    }
    let active = choices.active.clone();
    Ok(Some((Choices { seen: Rc::new(seen), active, orders: Vec::new() }, places)))
}

/// An order on its way to a better one.
struct Mending<'k> {
    known: &'k KnownGraph<'k>,
    line: Line<'k>,
    demands: Demands<'k>,
    /// What each demand costs now.
    costs: Vec<i64>,
    weights: Vec<i64>,
    unmet: Vec<u32>,
    /// Where a demand is in `unmet`, or [`NONE`].
    place: Vec<u32>,
    random: Random,
    moves: Moves,
}

impl<'k> Mending<'k> {
    fn new(
        known: &'k KnownGraph<'k>,
        graph: &Graph,
        choices: &Choices,
        places: &[u32],
        budget: &Budget,
    ) -> Result<Self, Exhausted> {
        let demands = Demands::new(known, graph, choices);
        let count = demands.count();
        let mut mending = Self {
            known,
            line: Line::new(known, choices, start(known, places)),
            demands,
            costs: vec![0; count],
            weights: vec![1; count],
            unmet: Vec::new(),
            place: vec![NONE; count],
            random: Random(0x9E37_79B9_7F4A_7C15),
            moves: Moves::default(),
        };
        (0..mending.demands.edge_count()).for_each(|demand| mending.look(demand));
        for item in known.problem.items() {
            mending.look_at(item, budget)?;
        }
        Ok(mending)
    }

    /// Moves until all is met, or there is no progress.
    fn run(&mut self, budget: &Budget) -> Result<bool, Exhausted> {
        let most = IDLE_MOVES + IDLE_MOVES_PER_POINT * self.line.at.len();
        let (mut least, mut idle) = (usize::MAX, 0);
        while !self.unmet.is_empty() && idle < most {
            budget.poll()?;
            idle += 1;
            if self.unmet.len() < least {
                (least, idle) = (self.unmet.len(), 0);
            }
            let demand = self.unmet[self.random.below(self.unmet.len())];
            let best = self.best_of(demand);
            if best.gain <= 0 {
                self.weights[demand as usize] += 1;
            }
            if best.gain >= 0 {
                self.shift(best, budget)?;
            }
        }
        Ok(self.unmet.is_empty())
    }

    /// The best move of what a demand is about.
    fn best_of(&mut self, demand: u32) -> Move {
        let mut best = Move::NONE;
        for body in self.bodies(demand) {
            let now = Now {
                known: self.known,
                line: &self.line,
                demands: &self.demands,
                weights: &self.weights,
                costs: &self.costs,
            };
            let found = self.moves.best(now, body);
            if found.gain > best.gain || (found.gain == best.gain && self.random.below(2) == 0) {
                best = found;
            }
        }
        best
    }

    /// What can be moved for a demand.
    fn bodies(&mut self, demand: u32) -> Vec<Body> {
        let (points, versions) = (self.known.points, &self.known.problem.versions);
        let commit = |version: u32| points.commit(versions[version as usize].txn);
        let mut touched: Vec<u32> = match self.demands.demand(demand) {
            Demand::Edge(from, to) => vec![from, to],
            Demand::Read(read) => {
                self.around(read).into_iter().map(commit).chain([self.known.node(read)]).collect()
            }
            Demand::Alone(version) => {
                let company = self.demands.company(&self.line, version);
                let some = company[self.random.below(company.len().max(1))..].iter().take(MOVED_VERSIONS);
                let txn = versions[version as usize].txn;
                let own = [points.begin(txn), points.commit(txn)];
                some.flat_map(|&other| [points.begin(versions[other as usize].txn), commit(other)])
                    .chain(own)
                    .collect()
            }
        };
        touched.sort_unstable();
        touched.dedup();
        let mut bodies: Vec<Body> = touched.iter().map(|&point| [point; 2]).collect();
        bodies.extend(touched.iter().filter_map(|&point| self.both(point)));
        bodies.sort_unstable();
        bodies.dedup();
        bodies
    }

    /// Versions that a read sees and should not, and some that it should: the nearest before and
    /// after it, and any one.
    fn around(&mut self, read: u32) -> Vec<u32> {
        let item = self.known.problem.reads[read as usize].item;
        let end = self.line.before(item, self.line.at[self.known.node(read) as usize]);
        let (before, after) = self.line.versions(item).split_at(end);
        let fits = |version: &&u32| self.demands.is_candidate(read, **version);
        let stale = self.demands.stale(&self.line, read, None);
        let wrong = stale.map_or(end, |stale| stale as usize).min(end);
        let mut versions: Vec<u32> =
            (0..MOVED_VERSIONS.min(wrong)).map(|_| before[end - 1 - self.random.below(wrong)]).collect();
        versions.extend(before.iter().rev().find(fits));
        versions.extend(after.iter().find(fits));
        let candidates = self.known.problem.candidates(read);
        let any = candidates[self.random.below(candidates.len())];
        let txn = self.known.problem.versions[any as usize].txn;
        versions.extend((txn != INITIAL && self.line.has(txn)).then_some(any));
        versions
    }

    /// Begin and commit of a point's transaction, if they are two.
    fn both(&self, point: u32) -> Option<Body> {
        both(self.known, point)
    }

    fn shift(
        &mut self,
        Move { body, span: (low, high), .. }: Move,
        budget: &Budget,
    ) -> Result<(), Exhausted> {
        let here = self.line.at[body[0] as usize];
        let low = if low == f64::NEG_INFINITY { high.min(here) - STEP } else { low };
        let high = if high == f64::INFINITY { low.max(here) + STEP } else { high };
        let first = low + (high - low) * self.random.unit();
        let second = if body[0] == body[1] { first } else { first + (high - first) * self.random.unit() };
        self.line.shift(body, [first, second]);
        for point in body {
            for place in 0..self.demands.edges_at(point).len() {
                self.look(self.demands.edges_at(point)[place]);
            }
        }
        if let Some(txn) = self.known.txn(body[0]).filter(|&txn| self.line.has(txn)) {
            self.known.problem.txn_reads(txn).for_each(|read| self.look(self.demands.of_read(read)));
            if self.known.points.exclusive() {
                let versions = self.known.problem.txn_versions(txn);
                versions.iter().for_each(|&version| self.look(self.demands.of_version(version)));
            }
        }
        for &version in self.line.written(body) {
            self.look_at(self.known.problem.versions[version as usize].item, budget)?;
        }
        Ok(())
    }

    /// Looks at all demands of an item.
    fn look_at(&mut self, item: Item, budget: &Budget) -> Result<(), Exhausted> {
        for place in 0..self.demands.reads(item).len() {
            budget.poll()?;
            self.look(self.demands.of_read(self.demands.reads(item)[place]));
        }
        if self.known.points.exclusive() {
            for place in 0..self.line.versions(item).len() {
                budget.poll()?;
                self.look(self.demands.of_version(self.line.versions(item)[place]));
            }
        }
        Ok(())
    }

    /// Looks what a demand costs.
    fn look(&mut self, demand: u32) {
        let (cost, place) = (self.demands.cost(&self.line, demand), self.place[demand as usize]);
        self.costs[demand as usize] = cost;
        if cost == 0 && place != NONE {
            self.unmet.swap_remove(place as usize);
            if let Some(&moved) = self.unmet.get(place as usize) {
                self.place[moved as usize] = place;
            }
            self.place[demand as usize] = NONE;
        } else if cost > 0 && place == NONE {
            self.place[demand as usize] = self.unmet.len() as u32;
            self.unmet.push(demand);
        }
    }

    /// What a read saw: the last version, or a candidate before it if any will do.
    fn seen(&self, read: u32) -> u32 {
        let last = self.line.seen(read);
        let here = self.line.at[self.known.node(read) as usize];
        let initial = self.known.problem.item_versions(self.known.problem.reads[read as usize].item).start;
        let candidates = self.known.problem.candidates(read);
        match self.known.problem.is_firm(read) {
            true => last,
            false if candidates.contains(&last) => last,
            false => {
                let before = |&&v: &&u32| v == initial || self.line.is_before(v, here);
                candidates.iter().find(before).copied().unwrap_or(last)
            }
        }
    }
}

/// Begin and commit of a point's transaction, if they are two.
pub(crate) fn both(known: &KnownGraph<'_>, point: u32) -> Option<Body> {
    let txn = known.txn(point).filter(|_| known.points.split)?;
    Some([known.points.begin(txn), known.points.commit(txn)])
}

/// Where points are at first. Where time does not tell, begin and commit of every transaction are
/// next to each other.
fn start(known: &KnownGraph<'_>, places: &[u32]) -> Vec<f64> {
    let mut at: Vec<f64> = places.iter().map(|&place| f64::from(place)).collect();
    if !known.points.split || known.problem.history.is_timed() {
        return at;
    }
    for txn in 0..known.problem.txns.len() as u32 {
        let [begin, commit] = [known.points.begin(txn), known.points.commit(txn)].map(|point| point as usize);
        let middle = f64::midpoint(at[begin], at[commit]);
        (at[begin], at[commit]) = (middle - HALF, middle + HALF);
    }
    at
}

/// Numbers that look random (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() % most as u64) as usize
    }

    /// Between 0 and 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use margay_history::{Access, History, HistoryBuilder, ObjectId, OpDetail, OpKind};
    use margay_levels::Level;
    use margay_order::topological_order;
    use margay_verdict::Question;

    use super::*;
    use crate::known::Saturated;
    use crate::prepare::prepare;
    use crate::problem::Problem;
    use crate::schedule::Schedule;

    /// A serial execution of blind writes with a few reads among them, every transaction in a
    /// session of its own.
    fn heavy_write(txns: u64, keys: usize, random: &mut Random) -> History {
        let (mut builder, mut current, mut written) = (HistoryBuilder::new(), vec![0; keys], 0);
        for key in 0..keys {
            let (key, zero) = (builder.values().int(key as i64), builder.values().int(0));
            let object = builder.object(None, key);
            builder.initial(object, zero).expect("each key once");
        }
        for txn in 0..txns {
            for _ in 0..6 {
                let (key, reads) = (random.below(keys), random.below(5) == 0);
                let kind = if reads { OpKind::Read } else { OpKind::Write };
                if !reads {
                    written += 1;
                    current[key] = written;
                }
                let value = builder.values().int(current[key]);
                let accesses = [Access { object: ObjectId(key as u32), value }];
                builder.push(txn, txn, None, kind, &accesses, OpDetail::None).expect("an operation");
            }
            builder.push(txn, txn, None, OpKind::Commit, &[], OpDetail::None).expect("an operation");
        }
        builder.finish().expect("a history")
    }

    /// From an order that follows the known graph and nothing else to one that meets every demand.
    #[test]
    fn what_has_an_order_is_mended() {
        let (budget, mut random) = (Budget::unlimited(), Random(1));
        for level in [Level::Serializable, Level::SnapshotIsolation] {
            let history = heavy_write(400, 400, &mut random);
            let question = Question::new(level);
            let Ok(draft) = prepare(&history, question, &Budget::unlimited()) else { panic!("a draft") };
            let problem = Problem::new(&history, question, &draft, &Budget::unlimited()).expect("no limits");
            let mut known = KnownGraph::new(&problem, crate::points::of(level), false);
            let Ok(Saturated::Acyclic(reach)) = known.saturate(&budget) else { panic!("no cycle") };
            let graph = known.graph();
            let mut places = vec![0; graph.node_count()];
            let order = topological_order(&graph).expect("no cycle");
            order.iter().zip(0..).for_each(|(&point, place)| places[point as usize] = place);
            let choices = crate::search::guesses(&known);
            let unmet = |choices: &Choices, places: &[u32]| match Mending::new(
                &known,
                &graph,
                choices,
                places,
                &Budget::unlimited(),
            ) {
                Ok(mending) => mending.unmet.len(),
                Err(limit) => panic!("there is no limit: {limit}"),
            };
            assert!(unmet(&choices, &places) > 100, "{level}: nothing to mend");
            let (choices, places) =
                mend(&known, &graph, &choices, &places, &budget).expect("no limit").expect("an order");
            let (graph, reversed) = (Arc::new(graph), Arc::new(known.reversed()));
            let priority = crate::schedule::priorities(&known, &reach, graph.node_count());
            let mut schedule = Schedule::new(&known, &graph, &reversed, priority, choices.clone());
            schedule.follow(choices, places);
            assert_eq!(schedule.run(&Budget::unlimited()), Ok(true), "{level}");
        }
    }
}
