//! A guess of when everything happened, where neither clocks nor sessions tell.
//!
//! # Algorithm
//! Points are given places on a line by relaxation. First every reader is drawn to a unit after its writer, which spreads a history over a line about as it was executed: how long
//! a version lives does not depend on when. Then the draw is let go, and what must hold pushes: every edge of the known graph forward, and of two versions of
//! an object the one out of the other's way, in the direction that is nearer. A point moves by the average of the pushes on it.
//!
//! # Invariants
//! Only a guess: nothing depends on it but time.
//!
//! # Cost
//! A few hundred sweeps over edges and open pairs.

use margay_order::Graph;

use crate::known::{Known, Label};

/// How often everything is drawn, and how often it is pushed at first and later.
const DRAWN: usize = 300;
const PUSHED: usize = 300;
const PUSHED_AGAIN: usize = 40;

/// How strongly readers are drawn to their writers while the rest pushes, and how far apart what must be apart is pushed.
const DRAW: f64 = 0.002;
const APART: f64 = 0.05;

/// Places for all points of a known graph.
pub(crate) struct Embedding<'k> {
    known: &'k Known<'k>,
    drawn: Vec<(u32, u32)>,
    fixed: Vec<(u32, u32)>,
    /// Versions of which one must get out of the other's way.
    pairs: Vec<(u32, u32)>,
    line: Line,
}

impl<'k> Embedding<'k> {
    /// The places by what is known; `pairs` have still to be decided.
    pub fn new(known: &'k Known<'k>, graph: &Graph, pairs: &[(u32, u32)]) -> Self {
        let nodes = graph.node_count() as u32;
        let edges =
            || (0..nodes).flat_map(|from| graph.edges(from).map(move |(to, label)| (from, to, label)));
        let is_read = |label: u32| matches!(known.label(label), Label::Read(_));
        let mut embedding = Self {
            known,
            drawn: edges().filter(|edge| is_read(edge.2)).map(|(from, to, _)| (from, to)).collect(),
            fixed: edges().map(|(from, to, _)| (from, to)).collect(),
            pairs: pairs.to_vec(),
            line: Line { at: vec![0.0; nodes as usize], moves: vec![(0.0, 0.0); nodes as usize] },
        };
        for _ in 0..DRAWN {
            embedding.draw(1.0);
            embedding.line.shift();
        }
        embedding.push(PUSHED, |_, _| false);
        embedding
    }

    /// Where a point may be.
    pub fn at(&self, point: u32) -> f64 {
        self.line.at[point as usize]
    }

    /// Makes the places better by what `is_decided` says of the pairs.
    pub fn refine(&mut self, is_decided: impl Fn(u32, u32) -> bool) {
        self.push(PUSHED_AGAIN, is_decided);
    }

    fn draw(&mut self, weight: f64) {
        for &(from, to) in &self.drawn {
            self.line.push(from, to, 1.0 - self.line.gap(from, to), weight);
        }
    }

    fn push(&mut self, sweeps: usize, is_decided: impl Fn(u32, u32) -> bool) {
        let decided: Vec<[bool; 2]> =
            self.pairs.iter().map(|&(a, b)| [is_decided(a, b), is_decided(b, a)]).collect();
        for _ in 0..sweeps {
            self.draw(DRAW);
            self.fixed.iter().for_each(|&(from, to)| self.line.part(from, to));
            for (&(a, b), &[forward, backward]) in self.pairs.iter().zip(&decided) {
                let ways = [self.line.way(self.known, a, b), self.line.way(self.known, b, a)];
                let gaps = ways.map(|(from, to)| self.line.gap(from, to));
                let (from, to) = if forward || (!backward && gaps[0] >= gaps[1]) { ways[0] } else { ways[1] };
                self.line.part(from, to);
            }
            self.line.shift();
        }
    }
}

struct Line {
    at: Vec<f64>,
    /// What moves each point: the sum of the pushes, and their weight.
    moves: Vec<(f64, f64)>,
}

impl Line {
    fn gap(&self, from: u32, to: u32) -> f64 {
        self.at[to as usize] - self.at[from as usize]
    }

    /// Pushes two points apart by `by`.
    fn push(&mut self, from: u32, to: u32, by: f64, weight: f64) {
        for (node, by) in [(from, -by), (to, by)] {
            let moved = &mut self.moves[node as usize];
            *moved = (moved.0 + weight * by / 2.0, moved.1 + weight);
        }
    }

    /// Pushes two points apart if they are not.
    fn part(&mut self, from: u32, to: u32) {
        let missing = APART - self.gap(from, to);
        if missing > 0.0 {
            self.push(from, to, missing, 1.0);
        }
    }

    /// The points between which `a` would be before `b`: the last that has to be before, and `b`'s.
    fn way(&self, known: &Known<'_>, a: u32, b: u32) -> (u32, u32) {
        let (problem, points) = (known.problem, known.points);
        let [ta, tb] = [a, b].map(|v| problem.versions[v as usize].txn);
        let mut last = points.commit(ta);
        for &read in known.readers(a) {
            let reader = problem.reads[read as usize].txn;
            let begin = points.begin(reader);
            if reader != tb && self.at[begin as usize] > self.at[last as usize] {
                last = begin;
            }
        }
        (last, points.commit(tb))
    }

    fn shift(&mut self) {
        for (at, moved) in self.at.iter_mut().zip(&mut self.moves) {
            let (sum, weight) = std::mem::take(moved);
            *at += 1.5 * sum / weight.max(1.0);
        }
    }
}
