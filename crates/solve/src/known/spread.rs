//! What follows from the known graph where sessions count: only what changed is looked at again.
//!
//! # Problem
//! Derive every order of two versions that the graph forces, as [`super::saturate`] does, in a
//! history of a million transactions. Rounds over all versions look at everything again and again,
//! although each derived edge changes what is known of a few transactions nearby.
//!
//! # Algorithm
//! A clock per node says how much of each session comes before it. Clocks are passed on to
//! successors, along an order that guesses time, until none grows. Then the rules are applied where
//! clocks grew, to the sessions whose entries did, and so on until nothing is derived.
//! - **R1** For a version `b` and each session: the last version `a` of it with
//!   `begin(a) ⇝ commit(b)` is before `b`, so every reader of `a` goes `begin(reader) → commit(b)`.
//!   Earlier versions of that session follow by session order. Nor is there anything to do for a
//!   version that is before another such one: the latest of them by the guess is compared with the
//!   others.
//! - **R2** For a read of `a` and each session: the last version `b` of it with
//!   `commit(b) ⇝ begin(reader)` is before `a`. That the readers of `b` come before `a` too is left
//!   to R1, at `a`.
//!
//! # Invariants
//! - `rows[node][chain]` is one more than the latest position of `chain` that was found to reach
//!   `node`, or 0.
//! - `rounds[node][chain]` is at least the round of every edge of some path that
//!   `rows[node][chain]` stands for, and an edge derived from that entry has a later round:
//!   justifications are never circular.
//! - An entry only grows, so the visits end, also if there is a cycle. Then some node reaches
//!   itself.
//!
//! # Cost
//! Visits × (edges + reads and writes × changed sessions × log); a few visits per node. Memory:
//! `nodes × sessions × 6` bytes.

use margay_order::{Chains, Clocks, Graph, topological_order};
use margay_verdict::{Budget, Exhausted};

use super::saturate::{Attempt, Saturated};
use super::{Forced, Kind, KnownGraph, Reach, cycle};
use crate::problem::{INITIAL, Item};
use crate::schedule::{linear, times};

/// No edge.
const NONE: u32 = u32::MAX;

impl KnownGraph<'_> {
    /// Saturates by clocks along these chains, with an attempt when the rules were applied once:
    /// that derives most, for a quarter of the cost.
    pub(super) fn spread(
        &mut self,
        chains: Chains,
        attempt: Attempt<'_>,
        budget: &Budget,
    ) -> Result<Saturated, Exhausted> {
        let graph = self.graph();
        let Some(order) = linear(&graph, &times(self, self.nodes)) else {
            return Ok(Saturated::Cyclic(cycle(&graph, budget)));
        };
        let mut spread = Spread::new(self, &graph, &chains, order);
        if let Some(order) = spread.run(attempt, budget)? {
            return Ok(Saturated::Ordered(order));
        }
        let rows = std::mem::take(&mut spread.rows);
        drop(spread);
        let graph = self.graph();
        Ok(match topological_order(&graph) {
            Some(order) => {
                let clocks = Clocks::with_backward(&graph, &order, &chains, rows);
                Saturated::Acyclic(Reach::Chains(chains, clocks))
            }
            None => Saturated::Cyclic(cycle(&graph, budget)),
        })
    }
}

struct Spread<'k, 'p> {
    known: &'k mut KnownGraph<'p>,
    graph: &'k Graph,
    chains: &'k Chains,
    written: Written,
    /// How far the point that comes after earlier versions is before the commit, in its chain.
    lead: u32,
    rows: Vec<u32>,
    rounds: Vec<u16>,
    /// The chains whose entries changed since the rules were last applied, one bit for every 64th.
    changed: Vec<u64>,
    /// Derived edges as lists by source: the first, and of each the target, the round and the next.
    first: Vec<u32>,
    edges: Vec<[u32; 3]>,
    order: Vec<u32>,
    place: Vec<u32>,
    /// The places of the nodes whose clocks are to be passed on, and of those to which rules are to
    /// be applied.
    waiting: Places,
    open: Places,
    /// By version: one that is before it, the latest by the guess, or [`NONE`].
    latest: Vec<u32>,
    found: Vec<Found>,
}

/// A version that a rule is about.
#[derive(Clone, Copy)]
struct Found {
    version: u32,
    chain: u32,
    position: u32,
    /// What is derived from it.
    round: u16,
}

impl<'k, 'p> Spread<'k, 'p> {
    fn new(known: &'k mut KnownGraph<'p>, graph: &'k Graph, chains: &'k Chains, order: Vec<u32>) -> Self {
        let nodes = order.len();
        let mut place = vec![0; nodes];
        order.iter().zip(0..).for_each(|(&node, at)| place[node as usize] = at);
        let written = Written::new(known, chains);
        Self {
            lead: u32::from(known.points.split && !known.points.overlap),
            latest: vec![NONE; known.problem.versions.len()],
            known,
            graph,
            chains,
            written,
            rows: vec![0; nodes * chains.count()],
            rounds: vec![0; nodes * chains.count()],
            changed: vec![u64::MAX; nodes],
            first: vec![NONE; nodes],
            edges: Vec::new(),
            order,
            place,
            waiting: Places::all(nodes),
            open: Places::all(nodes),
            found: Vec::new(),
        }
    }

    /// Passes clocks on and applies the rules until nothing changes, or a node reaches itself;
    /// answers what the attempt finds.
    fn run(&mut self, attempt: Attempt<'_>, budget: &Budget) -> Result<Option<Vec<u32>>, Exhausted> {
        let mut open = Vec::new();
        for round in 0.. {
            while let Some(place) = self.waiting.take() {
                budget.poll()?;
                if !self.pass_on(self.order[place as usize]) {
                    return Ok(None);
                }
            }
            open.extend(std::iter::from_fn(|| self.open.take()));
            if open.is_empty() {
                return Ok(None);
            }
            if round == 1
                && let Some(order) = attempt(self.known)?
            {
                return Ok(Some(order));
            }
            for place in open.drain(..) {
                budget.poll()?;
                self.apply(self.order[place as usize]);
            }
        }
        unreachable!("entries only grow, so rounds end")
    }

    /// Passes the clock of a node on to its successors; false if it reaches itself.
    fn pass_on(&mut self, node: u32) -> bool {
        if self.reaches(node, node) {
            return false;
        }
        for place in 0..self.graph.successors(node).len() {
            self.join(node, self.graph.successors(node)[place], 0);
        }
        let mut edge = self.first[node as usize];
        while edge != NONE {
            let [to, round, next] = self.edges[edge as usize];
            self.join(node, to, round as u16);
            edge = next;
        }
        true
    }

    /// The rules for the changed entries of a node.
    fn apply(&mut self, node: u32) {
        let (problem, points) = (self.known.problem, self.known.points);
        let changed = std::mem::take(&mut self.changed[node as usize]);
        let Some(txn) = self.known.txn(node).filter(|&txn| problem.forced[txn as usize]) else { return };
        if node == points.begin(txn) {
            for read in problem.txn_reads(txn) {
                self.read(read, node, changed);
            }
        }
        if node == points.commit(txn) {
            for &version in problem.txn_versions(txn) {
                if changed == u64::MAX {
                    self.first_written(version, node);
                }
                self.write(version, node, changed);
            }
        }
    }

    /// R2.
    fn read(&mut self, read: u32, node: u32, changed: u64) {
        let (problem, points) = (self.known.problem, self.known.points);
        let Some(seen) = problem.seen(read).filter(|_| problem.is_firm(read)) else { return };
        let writer = problem.versions[seen as usize].txn;
        if writer == INITIAL || !problem.forced[writer as usize] {
            return;
        }
        self.find(problem.reads[read as usize].item, node, changed, 0, seen);
        let to = points.after_earlier(writer);
        let found = std::mem::take(&mut self.found);
        for &Found { version, chain, position, round } in &found {
            if !self.covers(to, chain, position) {
                let kind = Kind::Before { a: version, b: seen, why: Forced::ByRead(read) };
                self.add(self.commit(version), to, kind, round);
            }
        }
        self.found = found;
    }

    /// R1.
    fn write(&mut self, version: u32, node: u32, changed: u64) {
        let (problem, points) = (self.known.problem, self.known.points);
        self.find(problem.versions[version as usize].item, node, changed, self.lead, version);
        let found = std::mem::take(&mut self.found);
        let latest = self.latest_of(version, &found);
        let to = points.after_earlier(points.txn(node));
        for &Found { version: a, chain, position, round } in &found {
            if a != latest && self.covers(self.after_earlier(latest), chain, position) {
                continue;
            }
            if !self.covers(to, chain, position) {
                self.add(self.commit(a), to, Kind::Before { a, b: version, why: Forced::Reaches }, round);
            }
            self.add_readers(a, version, node, Forced::Reaches, round);
        }
        self.found = found;
    }

    /// Of those found to be before a version, now and earlier, the latest by the guess.
    fn latest_of(&mut self, version: u32, found: &[Found]) -> u32 {
        let place = |version: u32| self.place[self.commit(version) as usize];
        let before = Some(self.latest[version as usize]).filter(|&latest| latest != NONE);
        let all = found.iter().map(|found| found.version).chain(before);
        let latest = all.max_by_key(|&version| place(version)).unwrap_or(NONE);
        self.latest[version as usize] = latest;
        latest
    }

    /// The readers of the initial version come before the first version of each session.
    fn first_written(&mut self, version: u32, node: u32) {
        let item = self.known.problem.versions[version as usize].item;
        let initial = self.known.problem.item_versions(item).start;
        let first = |group: Group<'_>| group.versions[0] == version;
        if !self.known.readers(initial).is_empty() && self.written.groups(item).any(first) {
            self.add_readers(initial, version, node, Forced::Fact, 0);
        }
    }

    /// Who read `a` comes before `b`, which is committed at `node`.
    fn add_readers(&mut self, a: u32, b: u32, node: u32, why: Forced, round: u16) {
        let problem = self.known.problem;
        for place in 0..self.known.readers(a).len() {
            let read = self.known.readers(a)[place];
            let from = self.known.node(read);
            let other = problem.reads[read as usize].txn != problem.versions[b as usize].txn;
            if other && problem.is_firm(read) && !self.reaches(from, node) {
                self.add(from, node, Kind::Anti { read, b, why }, round);
            }
        }
    }

    /// Collects the last version of each changed session that a node's clock, and `lead` more,
    /// covers, but not `but`.
    fn find(&mut self, item: Item, node: u32, changed: u64, lead: u32, but: u32) {
        self.found.clear();
        let entries = node as usize * self.chains.count()..(node as usize + 1) * self.chains.count();
        let (row, rounds) = (&self.rows[entries.clone()], &self.rounds[entries]);
        for Group { chain, versions, positions } in self.written.groups(item) {
            let end = row[chain as usize];
            if changed >> (chain % 64) & 1 == 0 || end == 0 {
                continue;
            }
            let mut count = positions.partition_point(|&position| position < end + lead);
            count -= usize::from(lead > 0 && count > 0 && versions[count - 1] == but);
            if count > 0 && versions[count - 1] != but {
                let (version, position) = (versions[count - 1], positions[count - 1]);
                let round = rounds[chain as usize].saturating_add(1);
                self.found.push(Found { version, chain, position, round });
            }
        }
    }

    fn commit(&self, version: u32) -> u32 {
        self.known.points.commit(self.known.problem.versions[version as usize].txn)
    }

    fn after_earlier(&self, version: u32) -> u32 {
        self.known.points.after_earlier(self.known.problem.versions[version as usize].txn)
    }

    fn reaches(&self, from: u32, to: u32) -> bool {
        self.covers(to, self.chains.chain(from), self.chains.position(from))
    }

    /// Whether a position of a chain is known to reach a node.
    fn covers(&self, node: u32, chain: u32, position: u32) -> bool {
        self.rows[node as usize * self.chains.count() + chain as usize] > position
    }

    /// Adds an edge that was derived.
    fn add(&mut self, from: u32, to: u32, kind: Kind, round: u16) {
        self.known.derive(from, to, kind, u32::from(round));
        self.edges.push([to, u32::from(round), self.first[from as usize]]);
        self.first[from as usize] = self.edges.len() as u32 - 1;
        self.join(from, to, round);
    }

    /// Passes the clock of a node on along an edge.
    fn join(&mut self, from: u32, to: u32, round: u16) {
        let width = self.chains.count();
        let own = self.chains.chain(from) as usize;
        let (theirs, mine) = two_rows(&mut self.rows, to, from, width);
        let (their_rounds, my_rounds) = two_rows(&mut self.rounds, to, from, width);
        let more = |(&m, &t): (&u32, &u32)| m.cast_signed() > t.cast_signed();
        let end = self.chains.position(from) + 1;
        let grows = mine.iter().zip(theirs.iter()).fold(theirs[own] < end, |grows, pair| grows | more(pair));
        if !grows {
            return;
        }
        let mut changed = 0;
        for (chain, (t, &m)) in theirs.iter_mut().zip(mine).enumerate() {
            if m > *t {
                *t = m;
                their_rounds[chain] = my_rounds[chain].max(round);
                changed |= 1 << (chain % 64);
            }
        }
        if theirs[own] < end {
            theirs[own] = end;
            their_rounds[own] = round;
            changed |= 1 << (own % 64);
        }
        self.changed[to as usize] |= changed;
        self.waiting.insert(self.place[to as usize]);
        self.open.insert(self.place[to as usize]);
    }
}

/// A set of places, which are taken in order.
struct Places {
    bits: Vec<u64>,
    /// No earlier word has a bit.
    first: usize,
}

impl Places {
    fn all(count: usize) -> Self {
        let mut bits = vec![u64::MAX; count.div_ceil(64)];
        if let Some(last) = bits.last_mut().filter(|_| !count.is_multiple_of(64)) {
            *last = (1 << (count % 64)) - 1;
        }
        Self { bits, first: 0 }
    }

    fn insert(&mut self, place: u32) {
        self.bits[place as usize / 64] |= 1 << (place % 64);
        self.first = self.first.min(place as usize / 64);
    }

    /// Takes the first place.
    fn take(&mut self) -> Option<u32> {
        while *self.bits.get(self.first)? == 0 {
            self.first += 1;
        }
        let bits = &mut self.bits[self.first];
        let place = self.first as u32 * 64 + bits.trailing_zeros();
        *bits &= *bits - 1;
        Some(place)
    }
}

/// Row `a` to write and row `b` to read.
fn two_rows<T>(rows: &mut [T], a: u32, b: u32, width: usize) -> (&mut [T], &[T]) {
    let (a, b) = (a as usize * width, b as usize * width);
    if a < b {
        let (low, high) = rows.split_at_mut(b);
        (&mut low[a..a + width], &high[..width])
    } else {
        let (low, high) = rows.split_at_mut(a);
        (&mut high[..width], &low[b..b + width])
    }
}

/// Versions of forced transactions, by item and session.
struct Written {
    versions: Vec<u32>,
    /// Where their commits stand in their chains.
    positions: Vec<u32>,
    /// The chain of each group, and where it starts in `versions`; and one more.
    groups: Vec<(u32, u32)>,
    /// Where the groups of each item start; and one more.
    items: Vec<u32>,
}

/// Those of one item and one session.
struct Group<'w> {
    chain: u32,
    versions: &'w [u32],
    positions: &'w [u32],
}

impl Written {
    fn new(known: &KnownGraph<'_>, chains: &Chains) -> Self {
        let problem = known.problem;
        let (mut versions, mut positions, mut groups, mut items) = (vec![], vec![], vec![], vec![]);
        for item in problem.items() {
            items.push(groups.len() as u32);
            let mut last = NONE;
            for version in problem.item_versions(item).skip(1) {
                let txn = problem.versions[version as usize].txn;
                if !problem.forced[txn as usize] {
                    continue;
                }
                let commit = known.points.commit(txn);
                if chains.chain(commit) != last {
                    last = chains.chain(commit);
                    groups.push((last, versions.len() as u32));
                }
                versions.push(version);
                positions.push(chains.position(commit));
            }
        }
        items.push(groups.len() as u32);
        groups.push((NONE, versions.len() as u32));
        Self { versions, positions, groups, items }
    }

    fn groups(&self, item: Item) -> impl Iterator<Item = Group<'_>> {
        let (start, end) = (self.items[item.index()] as usize, self.items[item.index() + 1] as usize);
        self.groups[start..=end].windows(2).map(|pair| {
            let range = pair[0].1 as usize..pair[1].1 as usize;
            Group {
                chain: pair[0].0,
                versions: &self.versions[range.clone()],
                positions: &self.positions[range],
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use margay_levels::Level;
    use margay_order::{Closure, shortest_path};
    use margay_testkit::random;
    use margay_verdict::Question;

    use super::*;
    use crate::known::Label;
    use crate::points;
    use crate::prepare::prepare;
    use crate::problem::Problem;

    /// Every derived edge follows from edges of earlier rounds.
    fn justified(known: &KnownGraph<'_>) {
        let (graph, versions) = (known.graph(), &known.problem.versions);
        for derived in &known.derived {
            let (a, b, why) = match derived.kind {
                Kind::Before { a, b, why } => (a, b, why),
                Kind::Anti { read, b, why } => (known.problem.seen(read).expect("one candidate"), b, why),
            };
            let [ta, tb] = [a, b].map(|v| versions[v as usize].txn);
            let (from, to) = match why {
                Forced::Fact => continue,
                Forced::Reaches => (known.points.after_earlier(ta), known.points.commit(tb)),
                Forced::ByRead(read) => (known.points.commit(ta), known.node(read)),
            };
            let earlier = |&(_, label): &(u32, u32)| match known.label(label) {
                Label::Derived(other) => known.derived[other as usize].round < derived.round,
                _ => true,
            };
            let next = |node| graph.edges(node).filter(earlier).collect::<Vec<_>>();
            assert!(shortest_path(from, to, next).is_some(), "{derived:?}");
        }
    }

    /// What spreads is what rounds over all versions derive, and nothing rests on itself.
    #[test]
    fn spreading_agrees_with_rounds() {
        let budget = Budget::unlimited();
        let (mut derived, mut cyclic) = (0, 0);
        let levels = [
            Level::StrongSessionSerializable,
            Level::StrictSerializable,
            Level::StrongSessionSnapshotIsolation,
            Level::Prefix,
        ];
        for (history, level) in
            (1..1_000).map(random).flat_map(|history| levels.map(|l| (history.clone(), l)))
        {
            let question = Question::new(level);
            let Ok(draft) = prepare(&history, question, &budget) else { continue };
            let problem = Problem::new(&history, question, &draft, &budget).expect("no limits");
            let [mut one, mut other] = [(); 2].map(|()| KnownGraph::new(&problem, points::of(level), true));
            let chains = one.few_chains().expect("few");
            let spread = one.spread(chains, &mut |_| Ok(None), &budget).expect("no limits");
            let rounds = other.rounds(&budget).expect("no limits");
            justified(&one);
            derived += one.derived.len();
            match (spread, rounds) {
                (Saturated::Acyclic(reach), Saturated::Acyclic(_)) => {
                    let graph = other.graph();
                    let closure = Closure::new(&graph, &topological_order(&graph).expect("no cycle"));
                    let nodes = one.points.count(problem.txns.len()) as u32;
                    for (from, to) in (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))) {
                        assert_eq!(reach.reaches(from, to), closure.reaches(from, to), "{from} {to} {level}");
                    }
                }
                (Saturated::Cyclic(_), Saturated::Cyclic(_)) => cyclic += 1,
                _ => panic!("a cycle in one of the two at {level}"),
            }
        }
        assert!(derived > 1_000 && cyclic > 50, "{derived} edges derived, {cyclic} cycles");
    }
}
