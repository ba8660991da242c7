//! Who is visible to whom.
//!
//! # Algorithm
//! By one step, or by who was read before, is looked up. By paths, reachability is kept as one
//! position per session ([`Clocks`]) where that is small; else for a block of transactions at a
//! time, as one bit for each of them at each transaction that it leads to, in one pass over the
//! graph per block ([`Sources`]).
//!
//! # Cost
//! Clocks take 8 bytes per transaction and session. Blocks take [`BYTES`] at most, and in all
//! `edges × transactions / 64` steps.

use hashbrown::HashSet;
use margay_history::OpId;
use margay_levels::Level;
use margay_order::{Chains, Clocks, Graph, GraphBuilder, Sources, shortest_path};

use super::choice::{Choice, places};
use crate::known::{Kind, Label};
use crate::lemma::{CycleStep, Steps};

/// The memory of a block, and the least clocks that are too large.
const BYTES: usize = 256 << 20;

/// Who is visible to whom, for one block of transactions after the other.
pub(super) struct ReadVersions<'a> {
    choice: &'a Choice<'a>,
    how: How,
    /// The transactions of the present block.
    block: std::ops::Range<u32>,
    size: u32,
}

enum How {
    /// By a path.
    Paths(Box<Paths>),
    /// By one step.
    Direct,
    /// By a read before the one in question.
    Earlier,
}

/// A graph, one of its orders, and who reaches whom.
struct Paths {
    graph: Graph,
    order: Vec<u32>,
    /// The place of each node in it.
    places: Vec<u32>,
    reach: Reach,
}

enum Reach {
    Clocks(Chains, Clocks),
    Block(Sources),
}

impl<'a> ReadVersions<'a> {
    pub fn new(choice: &'a Choice<'a>, order: &[u32]) -> Self {
        let all = choice.problem.txns.len().max(1) as u32;
        let mut sight = Self { choice, how: How::Direct, block: 0..0, size: all };
        let graph = match choice.problem.question.level {
            Level::ReadAtomic => return sight,
            Level::BeReadCommitted => {
                sight.how = How::Earlier;
                return sight;
            }
            _ => visible(choice),
        };
        let chains = choice.known.visible_chains(&choice.active);
        let reach = if choice.nodes * chains.count() * 8 <= BYTES {
            let clocks = Clocks::new(&graph, order, &chains);
            Reach::Clocks(chains, clocks)
        } else {
            sight.size = Sources::most(choice.nodes, BYTES);
            Reach::Block(Sources::default())
        };
        sight.how =
            How::Paths(Box::new(Paths { graph, order: order.to_vec(), places: places(order), reach }));
        sight
    }

    /// Goes on to the next block; false if there is none.
    pub fn advance(&mut self) -> bool {
        let all = self.choice.problem.txns.len() as u32;
        self.block = self.block.end..self.block.end.saturating_add(self.size).min(all);
        if let How::Paths(paths) = &mut self.how
            && let Reach::Block(sources) = &mut paths.reach
        {
            *sources = Sources::new(&paths.graph, &paths.order, self.block.clone());
        }
        !self.block.is_empty()
    }

    /// What makes `from` visible to a read, if anything does and `from` is in the block.
    pub fn path(&self, from: u32, read: u32) -> Option<Steps> {
        let (choice, reader) = (self.choice, self.choice.problem.reads[read as usize].txn);
        let op = choice.problem.reads[read as usize].op;
        match &self.how {
            _ if !self.block.contains(&from) => None,
            How::Earlier => choice.source(from, reader, |earlier| earlier < op),
            How::Paths(paths) => {
                // A path stays between its ends in the order.
                let end = paths.places[reader as usize];
                let inside = |&(to, _): &(u32, u32)| paths.places[to as usize] <= end;
                let next = |node| paths.graph.edges(node).filter(inside).collect::<Vec<_>>();
                let reached = paths.reach.reaches(from, reader);
                reached.then(|| shortest_path(from, reader, next))?.map(|path| choice.steps(path))
            }
            How::Direct if self.same_session(from, reader) => Some(vec![(from, reader, CycleStep::Session)]),
            How::Direct => choice.source(from, reader, |_| true),
        }
    }

    fn same_session(&self, from: u32, reader: u32) -> bool {
        let problem = self.choice.problem;
        let session = |txn: u32| problem.history.session_of(problem.txns[txn as usize]);
        from < reader && session(from) == session(reader)
    }

    /// What is visible to an operation of a transaction.
    pub fn look(&self, txn: u32, op: OpId) -> Look<'_, 'a> {
        let sources = match self.how {
            How::Paths(_) => HashSet::new(),
            How::Direct => self.choice.sources(txn, |_| true),
            How::Earlier => self.choice.sources(txn, |earlier| earlier < op),
        };
        Look { sight: self, txn, sources }
    }
}

/// What is visible to an operation.
pub(super) struct Look<'s, 'a> {
    sight: &'s ReadVersions<'a>,
    txn: u32,
    /// Whose versions its transaction saw, where that is what counts.
    sources: HashSet<u32>,
}

impl Look<'_, '_> {
    /// Whether a transaction is visible, and in the block.
    pub fn sees(&self, from: u32) -> bool {
        self.sight.block.contains(&from)
            && match &self.sight.how {
                How::Paths(paths) => paths.reach.reaches(from, self.txn),
                How::Direct => self.sight.same_session(from, self.txn) || self.sources.contains(&from),
                How::Earlier => self.sources.contains(&from),
            }
    }
}

impl Reach {
    fn reaches(&self, from: u32, to: u32) -> bool {
        match self {
            Reach::Clocks(chains, clocks) => clocks.reaches(chains, from, to),
            Reach::Block(sources) => sources.reach(from, to),
        }
    }
}

/// Whether a node is the point of an operation.
fn is_own(choice: &Choice<'_>, node: u32) -> bool {
    let txns = choice.problem.txns.len();
    (txns..txns + choice.problem.own_points.len()).contains(&(node as usize))
}

/// The graph of transactions whose paths make visible.
fn visible(choice: &Choice<'_>) -> Graph {
    let (known, all) = (choice.known, choice.problem.question.level == Level::ParallelSnapshot);
    let counts = |step: CycleStep| match step {
        CycleStep::Session => true,
        CycleStep::Saw { read, .. } => choice.problem.is_dependency(read),
        CycleStep::Before { .. } | CycleStep::Fact { .. } => all,
        CycleStep::Anti { .. } => false,
        CycleStep::Known(label) => match known.label(label) {
            Label::Session => true,
            Label::Read(read) => choice.problem.is_dependency(read),
            Label::Time | Label::Recorded(_) => all,
            Label::Derived(derived) => {
                all && matches!(known.derived[derived as usize].kind, Kind::Before { .. })
            }
            Label::Inside => false,
        },
    };
    let txn = |node: u32| if is_own(choice, node) { known.txn(node).unwrap_or(node) } else { node };
    let mut builder = GraphBuilder::new();
    for (place, &(from, to, step)) in choice.edges.iter().enumerate() {
        if counts(step) {
            builder.add(txn(from), txn(to), place as u32);
        }
    }
    builder.build(choice.nodes)
}
