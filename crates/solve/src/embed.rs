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
//! [`SWEEPS`] × (edges + open pairs).

use margay_order::Graph;

use crate::known::{Known, Label};

/// How often everything is moved, drawn and pushed.
const SWEEPS: usize = 300;

/// How strongly readers are drawn to their writers while the rest pushes, and how far apart what must be apart is pushed.
const DRAW: f64 = 0.002;
const APART: f64 = 0.05;

/// A place for every node of the graph. `pairs` are versions of which one must get out of the other's way.
pub(crate) fn places(known: &Known<'_>, graph: &Graph, pairs: &[(u32, u32)]) -> Vec<f64> {
    let nodes = graph.node_count() as u32;
    let edges = || (0..nodes).flat_map(|from| graph.edges(from).map(move |(to, label)| (from, to, label)));
    let drawn: Vec<(u32, u32)> = edges()
        .filter(|&(_, _, label)| matches!(known.label(label), Label::Read(_)))
        .map(|(from, to, _)| (from, to))
        .collect();
    let fixed: Vec<(u32, u32)> = edges().map(|(from, to, _)| (from, to)).collect();
    let mut line = Line { at: vec![0.0; nodes as usize], moves: vec![(0.0, 0.0); nodes as usize] };
    for _ in 0..SWEEPS {
        drawn.iter().for_each(|&(from, to)| line.push(from, to, 1.0 - line.gap(from, to), 1.0));
        line.shift();
    }
    for _ in 0..SWEEPS {
        drawn.iter().for_each(|&(from, to)| line.push(from, to, 1.0 - line.gap(from, to), DRAW));
        fixed.iter().for_each(|&(from, to)| line.part(from, to));
        for &(a, b) in pairs {
            let ways = [line.way(known, a, b), line.way(known, b, a)];
            let nearer = if line.gap(ways[0].0, ways[0].1) >= line.gap(ways[1].0, ways[1].1) { 0 } else { 1 };
            line.part(ways[nearer].0, ways[nearer].1);
        }
        line.shift();
    }
    line.at
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
