//! Mending an order, one transaction at a time.
//!
//! # Problem
//! Saturation leaves pairs of versions that nothing orders, and an order of points that is nearly right: it follows the known graph, but puts some writers
//! between a version and its reader. Where neither time nor sessions tell anything, there are thousands of those, and deciding pairs one by one leads astray.
//!
//! # Algorithm
//! Local search over orders. Points have places on a line. As long as some demand ([`Demands`]) is not met, take one of those at random and move one of its
//! points, or both points of one of its transactions, to where the most is met. What a moved transaction meets changes only at the places of the points that its
//! demands name, so one sweep over those tells the best of all places; the nearest of the best is taken. Where no move gains anything, the demand
//! weighs more from then on, which fills up every hollow in the end.
//!
//! # Invariants
//! - Only a guess: the schedule verifies what comes out. The same history is mended in the same way every time.
//! - A transaction's begin stays before its commit, so a demand is never met in two ways at once.
//!
//! # Differs from the paper
//! [Cobra §3.4] and [Vbox §4.6] leave this to the solver, which decides about pairs. Without sessions and time a history has very many legal orders, and a move sees
//! all that one transaction's place entails at once.
//!
//! # Cost
//! A move costs the demands of the few transactions that are looked at, times log. Valid histories took one to ten moves per transaction. It gives up when nothing has become
//! better for [`PATIENCE`] moves and [`PATIENCE_PER_POINT`] more per point.

use margay_order::Graph;
use margay_verdict::{Budget, Exhausted};

use crate::demands::Demands;
use crate::known::Known;

const NONE: u32 = u32::MAX;

/// How many moves without a better order are too many, and how many more per point.
const PATIENCE: usize = 1_000;
const PATIENCE_PER_POINT: usize = 16;

/// How far beyond the outermost point one goes that may go anywhere.
const STEP: f64 = 0.5;

/// Half the distance from a transaction's begin to its commit at the start: less than that of any two points of different transactions.
const HALF: f64 = 0.125;

const EVERYWHERE: Span = (f64::NEG_INFINITY, f64::INFINITY);

/// An order that meets all that the graph and the open pairs demand, as a place for each point, near to the order by `places`; `None` if none was found.
pub(crate) fn mend(
    known: &Known<'_>,
    graph: &Graph,
    open: &[(u32, u32)],
    places: &[u32],
    budget: &Budget,
) -> Result<Option<Vec<u32>>, Exhausted> {
    let mut mending = Mending::new(known, Demands::new(known, graph, open), places);
    if !mending.run(budget)? {
        return Ok(None);
    }
    let mut order: Vec<u32> = (0..places.len() as u32).collect();
    order.sort_by(|&a, &b| mending.at[a as usize].total_cmp(&mending.at[b as usize]));
    let mut places = vec![0; order.len()];
    order.iter().zip(0..).for_each(|(&point, place)| places[point as usize] = place);
    Ok(Some(places))
}

/// What is moved at once: one point twice, or the begin and the commit of a transaction.
type Body = [u32; 2];

/// Between which places something may be.
type Span = (f64, f64);

/// A move: how much more weight it meets, what moves, and where to.
#[derive(Clone, Copy)]
struct Move {
    gain: i64,
    body: Body,
    span: Span,
}

/// An order on its way to a better one.
struct Mending<'k> {
    known: &'k Known<'k>,
    demands: Demands,
    at: Vec<f64>,
    weights: Vec<i64>,
    unmet: Vec<u32>,
    /// Where a demand is in `unmet`, or [`NONE`].
    place: Vec<u32>,
    random: Random,
    /// Where the body that is looked at begins to meet more, or less.
    bounds: Vec<(f64, i64)>,
}

impl<'k> Mending<'k> {
    fn new(known: &'k Known<'k>, demands: Demands, places: &[u32]) -> Self {
        let count = demands.count();
        let mut mending = Self {
            known,
            demands,
            at: places.iter().map(|&place| f64::from(place)).collect(),
            weights: vec![1; count],
            unmet: Vec::new(),
            place: vec![NONE; count],
            random: Random(0x9E37_79B9_7F4A_7C15),
            bounds: Vec::new(),
        };
        mending.close_up();
        (0..count as u32).for_each(|demand| mending.look(demand));
        mending
    }

    /// Puts begin and commit of every transaction next to each other.
    fn close_up(&mut self) {
        let points = self.known.points;
        for txn in (0..self.known.problem.txns.len() as u32).filter(|_| points.split) {
            let [begin, commit] = [points.begin(txn), points.commit(txn)].map(|point| point as usize);
            let middle = f64::midpoint(self.at[begin], self.at[commit]);
            (self.at[begin], self.at[commit]) = (middle - HALF, middle + HALF);
        }
    }

    /// Moves until all is met, or there is no progress.
    fn run(&mut self, budget: &Budget) -> Result<bool, Exhausted> {
        let patience = PATIENCE + PATIENCE_PER_POINT * self.at.len();
        let (mut least, mut idle) = (usize::MAX, 0);
        while !self.unmet.is_empty() && idle < patience {
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
                self.shift(best);
            }
        }
        Ok(self.unmet.is_empty())
    }

    /// The best move of what a demand is about.
    fn best_of(&mut self, demand: u32) -> Move {
        let mut best = Move { gain: i64::MIN, body: [0; 2], span: EVERYWHERE };
        for body in self.bodies(demand) {
            let found = self.best(body);
            if found.gain > best.gain || (found.gain == best.gain && self.random.below(2) == 0) {
                best = found;
            }
        }
        best
    }

    /// What can be moved for a demand.
    fn bodies(&self, demand: u32) -> Vec<Body> {
        let mut bodies: Vec<Body> = Vec::new();
        for point in self.demands.edges(demand).iter().flat_map(|&(from, to)| [from, to]) {
            bodies.push([point; 2]);
            bodies.extend(self.both(point));
        }
        bodies.sort_unstable();
        bodies.dedup();
        bodies
    }

    /// Begin and commit of a point's transaction, if they are two.
    fn both(&self, point: u32) -> Option<Body> {
        let points = self.known.points;
        let is_helper = point as usize >= points.count(self.known.problem.txns.len());
        let txn = points.txn(point);
        (points.split && !is_helper).then(|| [points.begin(txn), points.commit(txn)])
    }

    /// The best place of a body.
    fn best(&mut self, body: Body) -> Move {
        self.bounds.clear();
        let [first, second] = body.map(|point| self.demands.about(point));
        let more = if body[0] == body[1] { &[] } else { second };
        let more = more.iter().filter(|demand| first.binary_search(demand).is_err());
        let (mut now, mut start) = (0, 0);
        for &demand in first.iter().chain(more) {
            let weight = self.weights[demand as usize];
            now += if self.place[demand as usize] == NONE { weight } else { 0 };
            for way in self.demands.ways(demand) {
                let Some((low, high)) = room(way, body, &self.at) else { continue };
                if low == f64::NEG_INFINITY {
                    start += weight;
                } else {
                    self.bounds.push((low, weight));
                }
                if high < f64::INFINITY {
                    self.bounds.push((high, -weight));
                }
            }
        }
        self.bounds.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        let (most, span) = self.sweep(start, self.at[body[0] as usize], self.limits(body));
        Move { gain: most - now, body, span }
    }

    /// Where a body may be at all: a single begin or commit stays on its side of the other.
    fn limits(&self, body: Body) -> Span {
        match self.both(body[0]) {
            Some([begin, commit]) if body == [begin; 2] => (f64::NEG_INFINITY, self.at[commit as usize]),
            Some([begin, commit]) if body == [commit; 2] => (self.at[begin as usize], f64::INFINITY),
            _ => EVERYWHERE,
        }
    }

    /// The most weight that can be met, and the nearest span to `here` where it is; before all bounds it is `start`.
    fn sweep(&self, start: i64, here: f64, limits: Span) -> (i64, Span) {
        let (mut met, mut last) = (start, f64::NEG_INFINITY);
        let (mut most, mut nearest, mut span) = (i64::MIN, f64::INFINITY, limits);
        let end = std::iter::once((f64::INFINITY, 0));
        for (bound, change) in self.bounds.iter().copied().chain(end) {
            let (low, high) = (last.max(limits.0), bound.min(limits.1));
            let distance = (low - here).max(here - high).max(0.0);
            if low < high && (met > most || (met == most && distance < nearest)) {
                (most, nearest, span) = (met, distance, (low, high));
            }
            met += change;
            last = bound;
        }
        (most, span)
    }

    fn shift(&mut self, Move { body, span: (low, high), .. }: Move) {
        let here = self.at[body[0] as usize];
        let mut low = if low == f64::NEG_INFINITY { high.min(here) - STEP } else { low };
        let high = if high == f64::INFINITY { low.max(here) + STEP } else { high };
        for point in body {
            low += (high - low) * self.random.unit();
            self.at[point as usize] = low;
        }
        for point in body {
            for place in 0..self.demands.about(point).len() {
                self.look(self.demands.about(point)[place]);
            }
        }
    }

    /// Looks whether a demand is met.
    fn look(&mut self, demand: u32) {
        let (met, place) = (self.demands.is_met(demand, &self.at), self.place[demand as usize]);
        if met && place != NONE {
            self.unmet.swap_remove(place as usize);
            if let Some(&moved) = self.unmet.get(place as usize) {
                self.place[moved as usize] = place;
            }
            self.place[demand as usize] = NONE;
        } else if !met && place == NONE {
            self.place[demand as usize] = self.unmet.len() as u32;
            self.unmet.push(demand);
        }
    }
}

/// Where a body must be for a way to be met; `None` if the rest breaks it wherever the body is.
fn room(way: &[(u32, u32)], body: Body, at: &[f64]) -> Option<Span> {
    let (mut low, mut high) = EVERYWHERE;
    for &(from, to) in way {
        let [before, after] = [from, to].map(|point| at[point as usize]);
        match [from, to].map(|point| body.contains(&point)) {
            [true, true] if from == body[1] => return None,
            [true, true] => {}
            [true, false] => high = high.min(after),
            [false, true] => low = low.max(before),
            [false, false] if before >= after => return None,
            [false, false] => {}
        }
    }
    (low < high).then_some((low, high))
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
    use margay_history::{Access, History, HistoryBuilder, ObjectId, OpDetail, OpKind};
    use margay_levels::Level;
    use margay_order::topological_order;
    use margay_verdict::Question;

    use super::*;
    use crate::known::Saturated;
    use crate::open::open_pairs;
    use crate::prepare::prepare;
    use crate::problem::Problem;

    /// A serial execution of blind writes with a few reads among them, every transaction in a session of its own.
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
            let Ok(draft) = prepare(&history, question) else { panic!("a draft") };
            let problem = Problem::new(&history, question, &draft);
            let mut known = Known::new(&problem, crate::points::of(level), false);
            let Ok(Saturated::Acyclic(reach)) = known.saturate(&budget) else { panic!("no cycle") };
            let open = open_pairs(&known, &reach, usize::MAX, &budget).expect("no limit").expect("no limit");
            let graph = known.graph();
            let mut places = vec![0; graph.node_count()];
            let order = topological_order(&graph).expect("no cycle");
            order.iter().zip(0..).for_each(|(&point, place)| places[point as usize] = place);
            let demands = Demands::new(&known, &graph, &open);
            let unmet = |places: &[u32]| {
                let at: Vec<f64> = places.iter().map(|&place| f64::from(place)).collect();
                (0..demands.count() as u32).filter(|&demand| !demands.is_met(demand, &at)).count()
            };
            assert!(unmet(&places) > 100, "{level}: nothing to mend");
            let mended = mend(&known, &graph, &open, &places, &budget).expect("no limit");
            assert_eq!(mended.map(|places| unmet(&places)), Some(0), "{level}");
        }
    }
}
