//! Who reaches whom, of those whose order can matter.
//!
//! # Problem
//! Without sessions there are no chains, and a matrix of all pairs of a hundred thousand points is
//! too large. But all that anybody asks is about points of transactions that write or read one and
//! the same item, at least one of which writes it.
//!
//! # Algorithm
//! A block of points at a time, along a topological order: which points each of them reaches, in
//! one pass over the graph from there on ([`Sources`]). What is asked about the block is looked up
//! and kept.
//!
//! # Invariants
//! A pair that is not kept is one that nobody asks about, or there is no path.
//!
//! # Cost
//! `edges × points / 64` steps, and as many questions as there are pairs of a writer with another
//! writer or a reader of the same item; up to [`STEPS`] and [`QUESTIONS`]. 64 bytes per point, and
//! eight for every path that is kept.

use hashbrown::HashSet;
use margay_order::{Graph, GraphBuilder, Sources};
use margay_verdict::{Budget, Exhausted};

use super::KnownGraph;
use crate::problem::INITIAL;

/// How many points are in a block: as many as have a bit in one line of the processor's cache.
const BLOCK: u32 = 512;

/// How many steps are too many.
const STEPS: usize = 1 << 33;

/// How many pairs are too many.
const QUESTIONS: usize = 1 << 27;

/// Who reaches whom of those that are asked about, and how much comes before each point, less what
/// comes after.
pub(crate) struct Pairs {
    reached: HashSet<(u32, u32)>,
    ranks: Vec<i64>,
}

impl Pairs {
    /// For the points of an acyclic graph in one of its topological orders; `None` if that is too
    /// much.
    pub(super) fn new(
        known: &KnownGraph<'_>,
        graph: &Graph,
        order: &[u32],
        budget: &Budget,
    ) -> Result<Option<Self>, Exhausted> {
        let nodes = graph.node_count() as u32;
        let items = items(known);
        let questions: usize = items.iter().map(Points::questions).sum();
        if graph.edge_count() / 64 * nodes as usize > STEPS || questions > QUESTIONS {
            return Ok(None);
        }
        let (graph, places) = along(graph, order);
        let asked = asked(&items, &places);
        let along: Vec<u32> = (0..nodes).collect();
        let (mut reached, mut ranks, mut next) = (HashSet::new(), vec![0; nodes as usize], 0);
        for first in (0..nodes).step_by(BLOCK as usize) {
            budget.poll()?;
            let end = first.saturating_add(BLOCK).min(nodes);
            // Who comes before the block is reached by none of it.
            let sources = Sources::new(&graph, &along[first as usize..], first..end);
            sources.rank(&mut ranks);
            while let Some(&(place, item, others)) = asked.get(next).filter(|asked| asked.0 < end) {
                let Points { writers, readers } = &items[item as usize];
                let to = writers.iter().chain(if others { readers.as_slice() } else { &[] }).copied();
                let to = to.filter(|&to| sources.reach(place, places[to as usize]));
                reached.extend(to.map(|to| (order[place as usize], to)));
                next += 1;
            }
        }
        let ranks = places.iter().map(|&place| ranks[place as usize]).collect();
        Ok(Some(Self { reached, ranks }))
    }

    pub(super) fn reaches(&self, from: u32, to: u32) -> bool {
        self.reached.contains(&(from, to))
    }

    pub(super) fn ranks(&self) -> &[i64] {
        &self.ranks
    }
}

/// The points that have to do with one item.
#[derive(Default)]
struct Points {
    writers: Vec<u32>,
    readers: Vec<u32>,
}

impl Points {
    fn questions(&self) -> usize {
        self.writers.len() * (self.writers.len() + 2 * self.readers.len())
    }
}

/// The graph with the places of its points for their numbers, so that what is near in time is near
/// in memory; and the places.
fn along(graph: &Graph, order: &[u32]) -> (Graph, Vec<u32>) {
    let mut places = vec![0; order.len()];
    order.iter().zip(0..).for_each(|(&node, place)| places[node as usize] = place);
    let mut builder = GraphBuilder::new();
    for (&node, place) in order.iter().zip(0..) {
        graph.successors(node).iter().for_each(|&to| builder.add(place, places[to as usize], 0));
    }
    (builder.build(order.len()), places)
}

/// From the place of which point something is asked about which item, and whether about its readers
/// too, in the order of the places.
fn asked(items: &[Points], places: &[u32]) -> Vec<(u32, u32, bool)> {
    let mut asked = Vec::new();
    for (points, item) in items.iter().zip(0..) {
        asked.extend(points.writers.iter().map(|&from| (places[from as usize], item, true)));
        asked.extend(points.readers.iter().map(|&from| (places[from as usize], item, false)));
    }
    asked.sort_unstable();
    asked
}

fn items(known: &KnownGraph<'_>) -> Vec<Points> {
    let (problem, points) = (known.problem, known.points);
    let mut all: Vec<Points> = Vec::new();
    all.resize_with(problem.items().count(), Points::default);
    for version in problem.versions.iter().filter(|version| version.txn != INITIAL) {
        let writers = &mut all[version.item.index()].writers;
        writers.push(points.begin(version.txn));
        if points.split {
            writers.push(points.commit(version.txn));
        }
    }
    for read in 0..problem.reads.len() as u32 {
        all[problem.reads[read as usize].item.index()].readers.push(known.node(read));
    }
    for item in &mut all {
        item.readers.sort_unstable();
        item.readers.dedup();
    }
    all
}

#[cfg(test)]
mod tests {
    use margay_levels::Level;
    use margay_order::{Closure, topological_order};
    use margay_testkit::random;
    use margay_verdict::Question;

    use super::*;
    use crate::points;
    use crate::prepare::prepare;
    use crate::problem::Problem;

    /// Of what is asked about, the pairs say the same as a matrix; and so do the ranks.
    #[test]
    fn pairs_agree_with_a_matrix() {
        let mut paths = 0;
        for history in (1..400).map(random) {
            for level in [Level::Serializable, Level::StrictSnapshotIsolation] {
                let question = Question::new(level);
                let Ok(draft) = prepare(&history, question, &Budget::unlimited()) else { continue };
                let problem =
                    Problem::new(&history, question, &draft, &Budget::unlimited()).expect("no limits");
                let known = KnownGraph::new(&problem, points::of(level), true);
                let graph = known.graph();
                let Some(order) = topological_order(&graph) else { continue };
                let pairs =
                    Pairs::new(&known, &graph, &order, &Budget::unlimited()).ok().flatten().expect("few");
                let matrix = Closure::new(&graph, &order);
                assert_eq!(pairs.ranks, matrix.ranks());
                for Points { writers, readers } in items(&known) {
                    for (&a, &b) in
                        writers.iter().flat_map(|a| writers.iter().chain(&readers).map(move |b| (a, b)))
                    {
                        assert_eq!(pairs.reaches(a, b), matrix.reaches(a, b));
                        assert_eq!(pairs.reaches(b, a), matrix.reaches(b, a));
                        paths += usize::from(matrix.reaches(a, b));
                    }
                }
            }
        }
        assert!(paths > 300, "{paths}");
    }
}
