//! Acyclicity as a theory for a SAT solver, whichever solver it is.
//!
//! # Problem
//! Some edges of a graph are always there; others come in sets, each set with the literal that
//! turns it on. Tell the solver as early as possible when the literals that are true close a cycle,
//! and which literals would.
//!
//! # Algorithm
//! An order of the nodes in which all present edges go forward is kept up incrementally, as by
//! Pearce and Kelly. An edge that already goes forward costs nothing. One that goes backward is
//! followed forward from its target and backward from its source, inside the window of places
//! between the two: meeting its source is a cycle; otherwise the nodes found are put in order
//! within the places that they held. An absent edge from something found forward to something found
//! backward would now close a cycle: its literal is false. The reason is looked for only when the
//! solver asks.
//!
//! Backtracking takes edges away, which leaves the order right, so the order is never undone.
//!
//! # Invariants
//! - Every present edge goes from a lower to a higher place, unless a conflict has been reported
//!   and not yet been backtracked.
//! - A literal's edges are given once, before it can be true.
//! - A reason uses only edges that were there when the literal was found false.
//!
//! # Differs from the paper
//! [Vbox §4.6] detects cycles and propagates over the whole graph; here only the window is looked
//! at, which finds every cycle but not every literal that would close one.
//!
//! # Cost
//! Per edge that goes backward, the edges inside the window and one sort of the nodes found.

use std::sync::Arc;

use margay_order::Graph;

use crate::lit::Lit;

const NONE: u32 = u32::MAX;

/// An edge with the literal that turns it on.
#[derive(Clone, Copy, Debug)]
struct Optional {
    from: u32,
    to: u32,
    lit: Lit,
    /// The next present edge with the same source, and with the same target.
    next_out: u32,
    next_in: u32,
    /// The next edge with the same source, present or not.
    next_possible: u32,
    /// Its place among the present ones, or [`NONE`].
    since: u32,
}

/// One edge of a cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Link {
    /// An edge that is always there, by its label.
    Fixed(u32),
    /// An edge that was given with [`Acyclic::attach`], by its number.
    Optional(u32),
}

/// A cycle as `(from, to, link)`.
pub(crate) type Cycle = Vec<(u32, u32, Link)>;

/// The theory.
pub(crate) struct Acyclic {
    graph: Arc<Graph>,
    reversed: Arc<Graph>,
    /// Where each node stands.
    place: Vec<u32>,
    edges: Vec<Optional>,
    first_out: Vec<u32>,
    first_in: Vec<u32>,
    first_possible: Vec<u32>,
    /// The edges of each literal: a range of `edges`.
    of_lit: Vec<(u32, u32)>,
    /// Whether a literal is false, and since how many present edges.
    refuted: Vec<Option<(u32, u32)>>,
    present: Vec<u32>,
    levels: Vec<(usize, usize)>,
    /// Literals that were found to be impossible, with their edge; not yet told from `told` on.
    impossible: Vec<(Lit, u32)>,
    told: usize,
    /// Every cycle that was used, for certificates.
    pub cycles: Vec<Cycle>,
    scratch: Scratch,
}

/// What a search from one edge needs, kept between searches.
#[derive(Default)]
struct Scratch {
    /// Who was found in the present search, and from where: `(search, from, link)`.
    forward: Vec<(u32, u32, Link)>,
    backward: Vec<u32>,
    search: u32,
    found_forward: Vec<u32>,
    found_backward: Vec<u32>,
    places: Vec<u32>,
}

impl Acyclic {
    /// The theory of a graph and what is turned around, with an order in which its edges go
    /// forward.
    pub fn new(graph: Arc<Graph>, reversed: Arc<Graph>, order: &[u32]) -> Self {
        let nodes = graph.node_count();
        let mut place = vec![0; nodes];
        order.iter().enumerate().for_each(|(at, &node)| place[node as usize] = at as u32);
        let scratch = Scratch {
            forward: vec![(0, NONE, Link::Fixed(0)); nodes],
            backward: vec![0; nodes],
            ..Scratch::default()
        };
        Self {
            graph,
            reversed,
            place,
            edges: Vec::new(),
            first_out: vec![NONE; nodes],
            first_in: vec![NONE; nodes],
            first_possible: vec![NONE; nodes],
            of_lit: Vec::new(),
            refuted: Vec::new(),
            present: Vec::new(),
            levels: Vec::new(),
            impossible: Vec::new(),
            told: 0,
            cycles: Vec::new(),
            scratch,
        }
    }

    /// The place of each node in an order that all present edges follow.
    pub fn places(&self) -> &[u32] {
        &self.place
    }

    /// Gives the edges that a literal turns on. They are numbered in the order in which they are
    /// given.
    pub fn attach(&mut self, lit: Lit, edges: &[(u32, u32)]) {
        self.reserve(lit);
        let first = self.edges.len() as u32;
        for &(from, to) in edges {
            let number = self.edges.len() as u32;
            let next_possible = std::mem::replace(&mut self.first_possible[from as usize], number);
            let (next_out, next_in) = (NONE, NONE);
            self.edges.push(Optional { from, to, lit, next_out, next_in, next_possible, since: NONE });
        }
        self.of_lit[lit.index()] = (first, self.edges.len() as u32);
    }

    fn reserve(&mut self, lit: Lit) {
        let length = self.of_lit.len().max((lit.index() | 1) + 1);
        self.of_lit.resize(length, (0, 0));
        self.refuted.resize(length, None);
    }

    /// A literal became true: its edges are there. On a conflict, the literals that cannot all be
    /// true.
    pub fn assert(&mut self, lit: Lit) -> Result<(), Vec<Lit>> {
        let Some(&(start, end)) = self.of_lit.get(lit.index()) else { return Ok(()) };
        (start..end).try_for_each(|edge| self.insert(edge))
    }

    fn insert(&mut self, edge: u32) -> Result<(), Vec<Lit>> {
        let Optional { from, to, .. } = self.edges[edge as usize];
        if self.place[from as usize] >= self.place[to as usize] {
            if self.look_forward(from, to) {
                return Err(self.cycle(edge));
            }
            self.look_backward(from, to);
            self.reorder();
            self.insert_present(edge);
            self.refute();
        } else {
            self.insert_present(edge);
        }
        Ok(())
    }

    fn insert_present(&mut self, edge: u32) {
        let Optional { from, to, .. } = self.edges[edge as usize];
        let next_out = std::mem::replace(&mut self.first_out[from as usize], edge);
        let next_in = std::mem::replace(&mut self.first_in[to as usize], edge);
        let entry = &mut self.edges[edge as usize];
        (entry.next_out, entry.next_in, entry.since) = (next_out, next_in, self.present.len() as u32);
        self.present.push(edge);
    }

    /// Finds what `to` reaches up to the place of `from`; whether `from` is among it.
    fn look_forward(&mut self, from: u32, to: u32) -> bool {
        let limit = self.place[from as usize];
        self.search_path(to, from, limit, NONE)
    }

    /// Breadth first from `start`, over edges that were there before `until`, up to the place
    /// `limit`; stops at `goal`.
    fn search_path(&mut self, start: u32, goal: u32, limit: u32, until: u32) -> bool {
        let (graph, edges, place, scratch) = (&self.graph, &self.edges, &self.place, &mut self.scratch);
        scratch.search += 1;
        let search = scratch.search;
        scratch.found_forward.clear();
        scratch.found_forward.push(start);
        scratch.forward[start as usize] = (search, NONE, Link::Fixed(0));
        let mut next = 0;
        while let Some(&node) = scratch.found_forward.get(next) {
            if node == goal {
                return true;
            }
            next += 1;
            let mut visit = |to: u32, link: Link| {
                if place[to as usize] <= limit && scratch.forward[to as usize].0 != search {
                    scratch.forward[to as usize] = (search, node, link);
                    scratch.found_forward.push(to);
                }
            };
            for (to, label) in graph.edges(node) {
                visit(to, Link::Fixed(label));
            }
            let mut edge = self.first_out[node as usize];
            while edge != NONE {
                let Optional { to, next_out, since, .. } = edges[edge as usize];
                if since < until {
                    visit(to, Link::Optional(edge));
                }
                edge = next_out;
            }
        }
        false
    }

    /// Finds what reaches `from`, down to the place of `to`.
    fn look_backward(&mut self, from: u32, to: u32) {
        let limit = self.place[to as usize];
        let (reversed, edges, place, scratch) = (&self.reversed, &self.edges, &self.place, &mut self.scratch);
        let search = scratch.search;
        scratch.found_backward.clear();
        scratch.found_backward.push(from);
        scratch.backward[from as usize] = search;
        let mut next = 0;
        while let Some(&node) = scratch.found_backward.get(next) {
            next += 1;
            let mut visit = |before: u32| {
                if place[before as usize] > limit && scratch.backward[before as usize] != search {
                    scratch.backward[before as usize] = search;
                    scratch.found_backward.push(before);
                }
            };
            reversed.successors(node).iter().for_each(|&before| visit(before));
            let mut edge = self.first_in[node as usize];
            while edge != NONE {
                visit(edges[edge as usize].from);
                edge = edges[edge as usize].next_in;
            }
        }
    }

    /// Puts what was found backward before what was found forward, in the places that they hold
    /// together.
    fn reorder(&mut self) {
        let (place, scratch) = (&mut self.place, &mut self.scratch);
        scratch.found_backward.sort_unstable_by_key(|&node| place[node as usize]);
        scratch.found_forward.sort_unstable_by_key(|&node| place[node as usize]);
        let nodes = || scratch.found_backward.iter().chain(&scratch.found_forward);
        scratch.places.clear();
        scratch.places.extend(nodes().map(|&node| place[node as usize]));
        scratch.places.sort_unstable();
        for (&node, &at) in nodes().zip(&scratch.places) {
            place[node as usize] = at;
        }
    }

    /// Edges from what was found forward to what was found backward have become impossible.
    fn refute(&mut self) {
        let (search, now) = (self.scratch.search, self.present.len() as u32);
        for &node in &self.scratch.found_forward {
            let mut edge = self.first_possible[node as usize];
            while edge != NONE {
                let Optional { to, lit, next_possible, .. } = self.edges[edge as usize];
                if self.scratch.backward[to as usize] == search && self.refuted[lit.index()].is_none() {
                    self.refuted[lit.index()] = Some((edge, now));
                    self.impossible.push((lit, edge));
                }
                edge = next_possible;
            }
        }
    }

    /// The next literal that is false because of the present edges.
    pub fn next_false(&mut self) -> Option<Lit> {
        let &(lit, _) = self.impossible.get(self.told)?;
        self.told += 1;
        Some(lit)
    }

    /// Why a literal that [`Acyclic::next_false`] told is false: these are true.
    pub fn explain(&mut self, lit: Lit) -> Vec<Lit> {
        let Some((edge, until)) = self.refuted[lit.index()] else { return Vec::new() };
        let Optional { from, to, .. } = self.edges[edge as usize];
        let found = self.search_path(to, from, self.place[from as usize], until);
        debug_assert!(found, "what was found false has a reason");
        let mut lits = self.cycle(edge);
        lits.retain(|&other| other != lit);
        lits
    }

    /// The cycle of an edge and the path just found from its target to its source; answers its
    /// literals.
    fn cycle(&mut self, edge: u32) -> Vec<Lit> {
        let Optional { from, to, lit, .. } = self.edges[edge as usize];
        let (mut cycle, mut lits) = (vec![(from, to, Link::Optional(edge))], vec![lit]);
        let mut node = from;
        while node != to {
            let (_, before, link) = self.scratch.forward[node as usize];
            cycle.push((before, node, link));
            if let Link::Optional(edge) = link {
                lits.push(self.edges[edge as usize].lit);
            }
            node = before;
        }
        cycle.reverse();
        self.cycles.push(cycle);
        lits.sort_unstable();
        lits.dedup();
        lits
    }

    /// How many levels there are.
    #[cfg(feature = "cadical")]
    pub fn levels(&self) -> usize {
        self.levels.len()
    }

    /// A new level.
    pub fn push_level(&mut self) {
        self.levels.push((self.present.len(), self.impossible.len()));
    }

    /// Back to `level` levels.
    pub fn pop_to(&mut self, level: usize) {
        let Some(&(present, impossible)) = self.levels.get(level) else { return };
        self.levels.truncate(level);
        while self.present.len() > present {
            let Some(edge) = self.present.pop() else { break };
            let Optional { from, to, next_out, next_in, .. } = self.edges[edge as usize];
            self.first_out[from as usize] = next_out;
            self.first_in[to as usize] = next_in;
            self.edges[edge as usize].since = NONE;
        }
        for (lit, _) in self.impossible.drain(impossible..) {
            self.refuted[lit.index()] = None;
        }
        self.told = self.told.min(impossible);
    }
}
