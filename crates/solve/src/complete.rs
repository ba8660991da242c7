//! Completing a saturated graph, one pair of versions at a time.
//!
//! # Problem
//! Saturation leaves pairs of versions that nothing orders. Where neither time nor sessions say anything, a schedule gets stuck early: it finds out too
//! late what an order of two versions entails.
//!
//! # Algorithm
//! Decide the pairs one by one, the surest first, and after each decision saturate completely. The guess is where [`crate::embed`] puts the points.
//! Reachability is kept as a matrix of bits both ways, so that a new edge costs one sweep of words per row that it changes; a third matrix says which pairs of points
//! mean anything to a rule, so that only those of the new bits are looked at. A decision that closes a cycle is undone, and the other one made.
//! When both fail, earlier decisions were wrong: it goes back to before the last few hundred, makes this one first, and goes on from there.
//!
//! # Invariants
//! The matrices are transitively closed after every step. Rules R1 and R2 of the known graph are applied to every pair that is reached.
//!
//! # Cost
//! `nodes² / 8` bytes, three times. Each step sets at least one bit in every row that it sweeps, `nodes / 64` words long.

use margay_order::{Graph, topological_order};
use margay_verdict::{Budget, Exhausted};

use crate::embed::Embedding;
use crate::known::Known;
use crate::problem::INITIAL;

/// The largest number of points: three matrices of so many bits squared.
const MOST_NODES: usize = 28_000;

/// After how many dead ends it gives up.
const DEAD_ENDS: usize = 8;

/// How much is kept to come back to.
const KEPT_BYTES: usize = 256 << 20;

/// A square matrix of bits.
struct Bits {
    words: usize,
    bits: Vec<u64>,
}

impl Bits {
    fn new(nodes: usize) -> Self {
        let words = nodes.div_ceil(64);
        Self { words, bits: vec![0; words * nodes] }
    }

    fn row(&self, node: u32) -> &[u64] {
        &self.bits[node as usize * self.words..][..self.words]
    }

    fn row_mut(&mut self, node: u32) -> &mut [u64] {
        &mut self.bits[node as usize * self.words..][..self.words]
    }

    fn get(&self, from: u32, to: u32) -> bool {
        self.row(from)[to as usize / 64] >> (to % 64) & 1 == 1
    }

    fn set(&mut self, from: u32, to: u32) {
        self.row_mut(from)[to as usize / 64] |= 1 << (to % 64);
    }

    fn count(&self, node: u32) -> i64 {
        self.row(node).iter().map(|word| i64::from(word.count_ones())).sum()
    }
}

/// The numbers of the bits that are set in words, each given with its place.
fn ones(words: &[(u32, u64)]) -> impl Iterator<Item = u32> + '_ {
    words.iter().flat_map(|&(place, word)| {
        let mut rest = word;
        std::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            Some(place * 64 + bit)
        })
    })
}

/// What `row` and `node` have and `old` has not, as words with their places.
fn gain(row: &[u64], node: u32, old: &[u64]) -> Vec<(u32, u64)> {
    let new = |(place, (&word, &old)): (usize, (&u64, &u64))| {
        let own = if place as u32 == node / 64 { 1 << (node % 64) } else { 0 };
        let word = (word | own) & !old;
        (word != 0).then_some((place as u32, word))
    };
    row.iter().zip(old).enumerate().filter_map(new).collect()
}

/// An order of all points in which the open pairs are decided, as a place for each; `None` if there is none to be found.
pub(crate) fn complete(
    known: &Known<'_>,
    graph: &Graph,
    reversed: &Graph,
    open: &[(u32, u32)],
    budget: &Budget,
) -> Result<Option<Vec<u32>>, Exhausted> {
    let Some(mut completion) = Completion::new(known, graph, reversed, open) else { return Ok(None) };
    let start = (completion.forward.bits.clone(), completion.backward.bits.clone());
    if !completion.run(open.to_vec(), budget)? {
        // Where the first guess fails, one that follows the decisions may not, and the other way round.
        (completion.forward.bits, completion.backward.bits) = start;
        completion.refines = true;
        if !completion.run(open.to_vec(), budget)? {
            return Ok(None);
        }
    }
    let ranks = completion.ranks();
    let mut order: Vec<u32> = (0..ranks.len() as u32).collect();
    order.sort_by_key(|&node| ranks[node as usize]);
    let mut places = vec![0; order.len()];
    order.iter().zip(0..).for_each(|(&node, place)| places[node as usize] = place);
    Ok(Some(places))
}

/// A step closed a cycle.
struct Cyclic;

/// One word of a matrix as it was: `(backward, place, word)`.
type Change = (bool, u32, u64);

/// How a completion stood, to come back to.
struct Kept {
    forward: Vec<u64>,
    backward: Vec<u64>,
    open: Vec<(u32, u32)>,
}

/// A graph on its way to a complete one.
struct Completion<'k> {
    known: &'k Known<'k>,
    forward: Bits,
    backward: Bits,
    /// Pairs of points that a rule is about.
    told: Bits,
    changes: Vec<Change>,
    /// Where each point may be.
    guess: Embedding<'k>,
    /// Whether the guess is made better as decisions are made.
    refines: bool,
}

impl<'k> Completion<'k> {
    /// The completion of an acyclic graph; `None` if it is too large, or if more is open than orders of versions.
    fn new(known: &'k Known<'k>, graph: &Graph, reversed: &Graph, open: &[(u32, u32)]) -> Option<Self> {
        let nodes = graph.node_count();
        let certain = known.problem.forced.iter().all(|&f| f) && !known.problem.has_open_reads();
        if nodes > MOST_NODES || !certain || open.is_empty() {
            return None;
        }
        let mut completion = Self {
            known,
            forward: closed(graph)?,
            backward: closed(reversed)?,
            told: Bits::new(nodes),
            changes: Vec::new(),
            guess: Embedding::new(known, graph, open),
            refines: false,
        };
        completion.tell();
        Some(completion)
    }

    /// Marks the pairs of points that a rule is about.
    fn tell(&mut self) {
        let (problem, points) = (self.known.problem, self.known.points);
        for item in problem.items() {
            let written = problem.item_versions(item).skip(1);
            for a in problem.item_versions(item) {
                for b in written.clone().filter(|&b| b != a) {
                    let [ta, tb] = [a, b].map(|v| problem.versions[v as usize].txn);
                    for &read in self.known.readers(a) {
                        let reader = problem.reads[read as usize].txn;
                        self.told.set(points.commit(tb), points.begin(reader));
                    }
                    if a != problem.item_versions(item).start {
                        self.told.set(points.after_earlier(ta), points.commit(tb));
                    }
                }
            }
        }
    }

    /// How much comes before each point, less how much comes after it.
    fn ranks(&self) -> Vec<i64> {
        let nodes = (self.forward.bits.len() / self.forward.words.max(1)) as u32;
        (0..nodes).map(|node| self.backward.count(node) - self.forward.count(node)).collect()
    }

    /// Decides what is open; answers whether all of it could be decided.
    fn run(&mut self, mut open: Vec<(u32, u32)>, budget: &Budget) -> Result<bool, Exhausted> {
        let mut kept: Vec<Kept> = Vec::new();
        let mut dead_ends = 0;
        while self.prepare(&mut open) {
            self.keep(&mut kept, &open);
            let batch = (open.len() / 8).clamp(64.min(open.len()), open.len());
            let now: Vec<_> = open.drain(..batch).collect();
            if let Err(pair) = self.decide_all(&now, budget)? {
                dead_ends += 1;
                if dead_ends > DEAD_ENDS || !self.turn_back(&mut kept, &mut open, pair) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Drops what has been decided, and puts the surest first; answers whether anything is left.
    fn prepare(&mut self, open: &mut Vec<(u32, u32)>) -> bool {
        if self.refines {
            let (known, forward) = (self.known, &self.forward);
            self.guess.refine(|a, b| is_decided(known, forward, a, b));
        }
        open.retain(|&(a, b)| !self.is_decided(a, b) && !self.is_decided(b, a));
        let sure = |&(a, b): &(u32, u32)| self.margin(a, b) - self.margin(b, a);
        open.sort_by(|one, other| sure(other).abs().total_cmp(&sure(one).abs()));
        for pair in open.iter_mut().filter(|pair| sure(pair) < 0.0) {
            *pair = (pair.1, pair.0);
        }
        !open.is_empty()
    }

    /// How far `b` is behind `a` and all who read `a`.
    fn margin(&self, a: u32, b: u32) -> f64 {
        let (problem, points) = (self.known.problem, self.known.points);
        let [ta, tb] = [a, b].map(|v| problem.versions[v as usize].txn);
        let at = |point: u32| self.guess.at(point);
        let readers = self.known.readers(a).iter().map(|&read| problem.reads[read as usize].txn);
        let begins = readers.filter(|&reader| reader != tb).map(|reader| at(points.begin(reader)));
        at(points.commit(tb)) - begins.fold(at(points.commit(ta)), f64::max)
    }

    /// Decides these pairs, as they stand if possible; the first that cannot be decided either way is the error.
    fn decide_all(
        &mut self,
        pairs: &[(u32, u32)],
        budget: &Budget,
    ) -> Result<Result<(), (u32, u32)>, Exhausted> {
        for &(a, b) in pairs {
            budget.poll()?;
            if !self.decide_either(a, b) {
                return Ok(Err((a, b)));
            }
        }
        Ok(Ok(()))
    }

    fn decide_either(&mut self, a: u32, b: u32) -> bool {
        self.is_decided(a, b)
            || self.is_decided(b, a)
            || self.decide(a, b).is_ok()
            || self.decide(b, a).is_ok()
    }

    fn keep(&self, kept: &mut Vec<Kept>, open: &[(u32, u32)]) {
        let size = 16 * self.forward.bits.len() + 8 * open.len();
        if kept.len() > 1 && (kept.len() + 1) * size > KEPT_BYTES {
            kept.remove(1);
        }
        let (forward, backward) = (self.forward.bits.clone(), self.backward.bits.clone());
        kept.push(Kept { forward, backward, open: open.to_vec() });
    }

    /// Goes back to where a pair could still be decided, and decides it there; false if there is no such place.
    fn turn_back(&mut self, kept: &mut Vec<Kept>, open: &mut Vec<(u32, u32)>, pair: (u32, u32)) -> bool {
        while let Some(last) = kept.pop() {
            (self.forward.bits, self.backward.bits, *open) = (last.forward, last.backward, last.open);
            if self.decide_either(pair.0, pair.1) {
                return true;
            }
        }
        false
    }

    fn is_decided(&self, a: u32, b: u32) -> bool {
        is_decided(self.known, &self.forward, a, b)
    }

    /// Puts `a` before `b` with all that follows; what fails leaves nothing behind.
    fn decide(&mut self, a: u32, b: u32) -> Result<(), Cyclic> {
        self.changes.clear();
        let mut edges = Vec::new();
        self.order(a, b, &mut edges);
        while let Some((from, to)) = edges.pop() {
            if self.insert(from, to, &mut edges).is_err() {
                self.undo();
                return Err(Cyclic);
            }
        }
        Ok(())
    }

    /// The edges of `a` being before `b`.
    fn order(&self, a: u32, b: u32, edges: &mut Vec<(u32, u32)>) {
        let (problem, points) = (self.known.problem, self.known.points);
        let [ta, tb] = [a, b].map(|v| problem.versions[v as usize].txn);
        edges.push((points.commit(ta), points.after_earlier(tb)));
        for &read in self.known.readers(a) {
            let reader = problem.reads[read as usize].txn;
            if reader != tb && !self.forward.get(points.begin(reader), points.commit(tb)) {
                edges.push((points.begin(reader), points.commit(tb)));
            }
        }
    }

    fn insert(&mut self, from: u32, to: u32, edges: &mut Vec<(u32, u32)>) -> Result<(), Cyclic> {
        if from == to || self.forward.get(to, from) {
            return Err(Cyclic);
        }
        if self.forward.get(from, to) {
            return Ok(());
        }
        // Whoever reaches `from` reaches at least as much, so nobody gains more than `from` does.
        let gained = gain(self.forward.row(to), to, self.forward.row(from));
        let gaining = gain(self.backward.row(from), from, self.backward.row(to));
        let mut news: Vec<(u32, u32)> = Vec::new();
        for node in ones(&gaining) {
            self.widen(node, &gained, &mut news);
        }
        for node in ones(&gained) {
            self.widen_back(node, &gaining);
        }
        for (first, second) in news {
            self.apply(first, second, edges);
        }
        Ok(())
    }

    /// A node reaches all that was gained; collects what a rule is about.
    fn widen(&mut self, node: u32, gained: &[(u32, u64)], news: &mut Vec<(u32, u32)>) {
        let start = node * self.forward.words as u32;
        for &(place, word) in gained {
            let old = self.forward.bits[(start + place) as usize];
            let new = word & !old;
            if new != 0 {
                self.changes.push((false, start + place, old));
                self.forward.bits[(start + place) as usize] = old | word;
                let told = new & self.told.bits[(start + place) as usize];
                news.extend(ones(&[(place, told)]).map(|other| (node, other)));
            }
        }
    }

    fn widen_back(&mut self, node: u32, gaining: &[(u32, u64)]) {
        let start = node * self.backward.words as u32;
        for &(place, word) in gaining {
            let old = self.backward.bits[(start + place) as usize];
            if word & !old != 0 {
                self.changes.push((true, start + place, old));
                self.backward.bits[(start + place) as usize] = old | word;
            }
        }
    }

    /// R1 and R2, where one point has come to reach another.
    fn apply(&self, first: u32, second: u32, edges: &mut Vec<(u32, u32)>) {
        let (problem, points) = (self.known.problem, self.known.points);
        let [x, y] = [first, second].map(|point| points.txn(point));
        for &own in problem.txn_versions(x) {
            let item = problem.versions[own as usize].item;
            if first == points.after_earlier(x) && second == points.commit(y) {
                let other =
                    problem.txn_versions(y).iter().find(|&&v| problem.versions[v as usize].item == item);
                if let Some(&other) = other {
                    self.order(own, other, edges);
                }
            }
            if first == points.commit(x) && second == points.begin(y) {
                for read in problem.txn_reads(y).filter(|&r| problem.reads[r as usize].item == item) {
                    if let Some(seen) = problem.seen(read).filter(|&seen| seen != own) {
                        self.before(own, seen, edges);
                    }
                }
            }
        }
    }

    /// `b` is before what a read saw; that cannot be the initial version.
    fn before(&self, b: u32, seen: u32, edges: &mut Vec<(u32, u32)>) {
        if self.known.problem.versions[seen as usize].txn == INITIAL {
            let point = self.known.points.commit(self.known.problem.versions[b as usize].txn);
            edges.push((point, point));
        } else {
            self.order(b, seen, edges);
        }
    }

    fn undo(&mut self) {
        while let Some((back, place, word)) = self.changes.pop() {
            let bits = if back { &mut self.backward.bits } else { &mut self.forward.bits };
            bits[place as usize] = word;
        }
    }
}

fn is_decided(known: &Known<'_>, forward: &Bits, a: u32, b: u32) -> bool {
    let [ta, tb] = [a, b].map(|v| known.problem.versions[v as usize].txn);
    forward.get(known.points.after_earlier(ta), known.points.commit(tb))
}

fn closed(graph: &Graph) -> Option<Bits> {
    let order = topological_order(graph)?;
    let mut bits = Bits::new(graph.node_count());
    for &node in order.iter().rev() {
        for &to in graph.successors(node) {
            if !bits.get(node, to) {
                let row = bits.row(to).to_vec();
                bits.row_mut(node).iter_mut().zip(row).for_each(|(mine, theirs)| *mine |= theirs);
                bits.set(node, to);
            }
        }
    }
    Some(bits)
}
