//! The known graph: what must come before what, whatever the choices.
//!
//! # Problem
//! Before anything is searched, find every order that the history forces; most violations show here as a cycle, and most pairs of writers need no choice
//! afterwards.
//!
//! # Algorithm
//! Start from session order, real time and the reads that saw one possible writer. Then, to a fixpoint, for versions `a`, `b` of one object
//! ([Cobra §3.3] calls the second rule an inference of write order, [Vbox §4.3] pruning):
//! - **R1** `begin(a) ⇝ commit(b)` ⇒ `a` is before `b`: `commit(a) → begin(b)`, and every reader of `a` goes `begin(reader) → commit(b)`;
//! - **R2** a reader `r` of `a` with `commit(b) ⇝ begin(r)` ⇒ `b` is before `a`: `commit(b) → begin(a)`.
//!
//! Each rule refutes the other order by a cycle, and remembers which, so that a certificate can tell. Reachability is kept per chain when
//! sessions count ([`Clocks`]); then only the first writer of each session matters to R1 and the last to R2, because the rest follows
//! by session order. Timestamps of the evidence are chains of ticks in the same way as real time, which is a chain of moments, one per start: a transaction's commit goes to the first moment after its end, each moment to its start.
//!
//! # Invariants
//! The edges are between transactions that must have committed, so they hold in every model. An edge derived in round `k` is justified by edges of
//! rounds before `k`: justifications are never circular.
//!
//! # Differs from the paper
//! Vbox creates constraints first and prunes them; here no pair of writers is ever materialised. Real time counts only if the question says so.
//!
//! # Cost
//! Rounds × (edges × chains + versions × sessions × log). Without sessions a bit matrix serves up to [`CLOSURE_BYTES`]; beyond, nothing is derived.

use hashbrown::HashMap;
use margay_history::TxnId;
use margay_levels::definition::Family;
use margay_order::{
    Chains, Clocks, Closure, Graph, GraphBuilder, components, estimated_ranks, shortest_cycle,
    topological_order,
};
use margay_verdict::{Budget, Exhausted, Stamp};

use crate::points::Points;
use crate::problem::{INITIAL, Problem, Read, Stand};

/// The largest bit matrix that is made.
const CLOSURE_BYTES: usize = 1 << 30;

/// The largest clocks that are made.
const CLOCK_BYTES: usize = 4 << 30;

/// What an edge of the known graph is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Label {
    /// From a transaction's begin to its commit.
    Inside,
    /// Session order.
    Session,
    /// To, between and from moments.
    Time,
    /// To, between and from ticks, where it leaves them.
    Recorded(Stamp),
    /// A read saw its only candidate.
    Read(u32),
    /// Something derived.
    Derived(u32),
}

/// An edge that was derived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Derived {
    pub kind: Kind,
    pub round: u32,
}

/// What was derived, and from what.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Version `a` is before version `b`.
    Before { a: u32, b: u32, why: Forced },
    /// Whoever made `read` comes before version `b`, because what it saw is before `b`.
    Anti { read: u32, b: u32, why: Forced },
}

/// Why one version must be before another.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Forced {
    /// Evidence, a list, or the initial version.
    Fact,
    /// R1.
    Reaches,
    /// R2, by this read.
    ByRead(u32),
}

/// The known graph.
pub(crate) struct Known<'p> {
    pub problem: &'p Problem<'p>,
    pub points: Points,
    /// Whether session order is in it.
    sessions: bool,
    nodes: usize,
    /// Chains of nodes that are no points: the first, and how many.
    helpers: Vec<(u32, u32)>,
    edges: GraphBuilder,
    pub derived: Vec<Derived>,
    /// Facts about versions that need not be there.
    optional_facts: Vec<(u32, u32)>,
    /// Timestamps of transactions that need not have committed: from a point to a tick.
    optional_stamps: Vec<(u32, u32, u32)>,
    /// Reads by the version that they certainly saw.
    reader_starts: Vec<u32>,
    readers: Vec<u32>,
}

/// The saturated graph with reachability, or a cycle.
pub(crate) enum Saturated {
    Acyclic(Reach),
    Cyclic(Vec<(u32, u32, u32)>),
}

/// Who reaches whom.
pub(crate) enum Reach {
    Chains(Chains, Clocks),
    Matrix(Closure),
    /// Too large to keep: only about how much comes before each node, less what comes after.
    Estimated(Vec<i64>),
    /// Nobody asked.
    Unknown,
}

impl Reach {
    pub fn reaches(&self, from: u32, to: u32) -> bool {
        match self {
            Reach::Chains(chains, clocks) => clocks.reaches(chains, from, to),
            Reach::Matrix(closure) => closure.reaches(from, to),
            Reach::Estimated(_) | Reach::Unknown => false,
        }
    }

    /// A number per node that grows along every path: how many come before it, less how many come after. It guesses the order well where nothing else is known.
    pub fn ranks(&self) -> Option<Vec<i64>> {
        match self {
            Reach::Chains(chains, clocks) => Some(clocks.ranks(chains)),
            Reach::Matrix(closure) => Some(closure.ranks()),
            Reach::Estimated(ranks) => Some(ranks.clone()),
            Reach::Unknown => None,
        }
    }
}

const INSIDE: u32 = 0;
const SESSION: u32 = 1;
const TIME: u32 = 2;
const RECORDED: u32 = 3;
const READS: u32 = RECORDED + STAMPS.len() as u32;

const STAMPS: [Stamp; 4] = [Stamp::Serialization, Stamp::Commit, Stamp::Inside, Stamp::Outside];

impl<'p> Known<'p> {
    /// The base graph; `sessions` adds session order.
    pub fn new(problem: &'p Problem<'p>, points: Points, sessions: bool) -> Self {
        let (reader_starts, readers) = readers(problem);
        let nodes = points.count(problem.txns.len()) + problem.own_points.len();
        let mut known = Self {
            problem,
            points,
            sessions,
            nodes,
            helpers: Vec::new(),
            edges: GraphBuilder::new(),
            derived: Vec::new(),
            optional_facts: Vec::new(),
            optional_stamps: Vec::new(),
            reader_starts,
            readers,
        };
        known.add_inside();
        known.add_reads();
        if sessions {
            known.add_sessions();
        }
        if problem.question.uses_real_time() {
            known.add_moments();
        }
        known.add_stamps();
        known.add_facts();
        known
    }

    fn forced(&self, txn: u32) -> bool {
        self.problem.forced[txn as usize]
    }

    /// Where a read stands.
    pub fn node(&self, read: u32) -> u32 {
        let Read { txn, stand, .. } = self.problem.reads[read as usize];
        match stand {
            Stand::Point(point) => self.points.count(self.problem.txns.len()) as u32 + point,
            _ => self.points.begin(txn),
        }
    }

    /// The transaction of a node; moments and ticks have none.
    pub fn txn(&self, node: u32) -> Option<u32> {
        let points = self.points.count(self.problem.txns.len());
        match (node as usize).checked_sub(points) {
            None => Some(self.points.txn(node)),
            Some(own) => self.problem.own_points.get(own).copied(),
        }
    }

    fn add_inside(&mut self) {
        let first = self.points.count(self.problem.txns.len()) as u32;
        for (&txn, point) in self.problem.own_points.iter().zip(first..) {
            self.edges.add(point, self.points.begin(txn), INSIDE);
        }
        if self.points.split {
            for txn in 0..self.problem.txns.len() as u32 {
                self.edges.add(self.points.begin(txn), self.points.commit(txn), INSIDE);
            }
        }
    }

    fn add_reads(&mut self) {
        for (i, read) in self.problem.reads.iter().enumerate() {
            let Some(version) = self.problem.seen(i as u32) else { continue };
            let writer = self.problem.versions[version as usize].txn;
            if writer != INITIAL && self.forced(read.txn) && self.forced(writer) {
                self.edges.add(self.points.commit(writer), self.node(i as u32), READS + i as u32);
            }
        }
    }

    fn add_sessions(&mut self) {
        let mut last: Option<u32> = None;
        let problem = self.problem;
        let session = |t: u32| problem.history.session_of(problem.txns[t as usize]);
        for txn in (0..problem.txns.len() as u32).filter(|&t| problem.forced[t as usize]) {
            if let Some(before) = last.filter(|&before| session(before) == session(txn)) {
                self.edges.add(self.points.commit(before), self.points.begin(txn), SESSION);
            }
            last = Some(txn);
        }
    }

    fn add_moments(&mut self) {
        let (history, txns) = (self.problem.history, &self.problem.txns);
        let mut starts: Vec<(i64, u32)> = (0..txns.len() as u32)
            .filter_map(|t| history.start(txns[t as usize]).map(|start| (start, t)))
            .collect();
        starts.sort_unstable();
        let base = self.add_helpers(starts.len());
        for (moment, &(_, txn)) in starts.iter().enumerate() {
            let moment = moment as u32;
            self.edges.add(base + moment, self.points.begin(txn), TIME);
            if moment > 0 {
                self.edges.add(base + moment - 1, base + moment, TIME);
            }
        }
        for txn in 0..txns.len() as u32 {
            let Some(end) = history.end(txns[txn as usize]) else { continue };
            let end = end.saturating_add(history.header().skew);
            let next = starts.partition_point(|&(start, _)| start <= end);
            if next < starts.len() {
                self.edges.add(self.points.commit(txn), base + next as u32, TIME);
            }
        }
    }

    /// A chain of nodes that are no points; answers the first.
    fn add_helpers(&mut self, count: usize) -> u32 {
        let first = self.nodes as u32;
        self.helpers.push((first, count as u32));
        self.nodes += count;
        first
    }

    /// What timestamps of the evidence say, through chains of ticks, one per distinct timestamp.
    fn add_stamps(&mut self) {
        let (evidence, points) = (self.problem.history.evidence(), self.points);
        if !self.heeds_stamps() {
            return;
        }
        let dense = |&(id, ts): &(TxnId, i64)| {
            let txn = self.problem.txns.binary_search(&id).ok()?;
            Some((txn as u32, ts))
        };
        if !points.split {
            let stamps: Vec<_> = evidence.serializations.iter().filter_map(dense).collect();
            let at: Vec<_> = stamps.iter().map(|&(txn, ts)| (points.commit(txn), ts)).collect();
            return self.add_ticks(&at, &at, Stamp::Serialization, |enter, leave| enter < leave);
        }
        let commits: Vec<_> =
            evidence.commits.iter().filter_map(dense).map(|(txn, ts)| (points.commit(txn), ts)).collect();
        let begins: Vec<_> =
            evidence.snapshots.iter().filter_map(dense).map(|(txn, ts)| (points.begin(txn), ts)).collect();
        self.add_ticks(&commits, &commits, Stamp::Commit, |enter, leave| enter < leave);
        self.add_ticks(&commits, &begins, Stamp::Inside, |enter, leave| enter <= leave);
        self.add_ticks(&begins, &commits, Stamp::Outside, |enter, leave| enter < leave);
    }

    /// Whether timestamps of the evidence order transactions, not only versions.
    fn heeds_stamps(&self) -> bool {
        matches!(self.problem.question.level.family(), Family::Serial | Family::Snapshot)
    }

    /// From every point that enters to every point that leaves at a time that is `before`, through one chain.
    fn add_ticks(
        &mut self,
        enter: &[(u32, i64)],
        leave: &[(u32, i64)],
        stamp: Stamp,
        before: impl Fn(i64, i64) -> bool,
    ) {
        if enter.is_empty() || leave.is_empty() {
            return;
        }
        let label = RECORDED + STAMPS.iter().position(|&s| s == stamp).unwrap_or(0) as u32;
        let mut times: Vec<i64> = enter.iter().map(|&(_, ts)| ts).collect();
        times.sort_unstable();
        times.dedup();
        let first = self.add_helpers(times.len());
        for tick in 1..times.len() as u32 {
            self.edges.add(first + tick - 1, first + tick, label);
        }
        let mut own: HashMap<u32, i64> = HashMap::new();
        for &(point, ts) in enter {
            let tick = first + times.partition_point(|&time| time < ts) as u32;
            match self.forced(self.points.txn(point)) {
                true => self.edges.add(point, tick, label),
                false => self.optional_stamps.push((point, tick, label)),
            }
            own.insert(self.points.txn(point), ts);
        }
        for &(point, ts) in leave {
            // A transaction's own commit may well be at its own snapshot's time.
            let own = own.get(&self.points.txn(point)).filter(|_| stamp == Stamp::Inside);
            let limit = own.copied().filter(|&own| before(own, ts));
            let passed =
                times.partition_point(|&time| before(time, ts) && limit.is_none_or(|own| time < own));
            if passed > 0 {
                self.edges.add(first + passed as u32 - 1, point, label);
            }
            for &(other, time) in enter.iter().filter(|_| limit.is_some()) {
                let different = self.points.txn(other) != self.points.txn(point);
                if different && before(time, ts) && Some(time) >= limit {
                    match self.forced(self.points.txn(other)) {
                        true => self.edges.add(other, point, label),
                        false => self.optional_stamps.push((other, point, label)),
                    }
                }
            }
        }
    }

    /// What timestamps say of transactions that need not have committed: from a point to a tick, with the label.
    pub fn optional_stamps(&self) -> &[(u32, u32, u32)] {
        &self.optional_stamps
    }

    fn add_facts(&mut self) {
        for &(a, b) in &self.problem.facts {
            let [ta, tb] = [a, b].map(|v| self.problem.versions[v as usize].txn);
            if self.forced(tb) && (ta == INITIAL || self.forced(ta)) {
                self.order(a, b, Forced::Fact, 0, &Reach::Unknown);
            } else {
                self.optional_facts.push((a, b));
            }
        }
    }

    /// Adds what follows from version `a` being before version `b`; answers whether anything was new.
    fn order(&mut self, a: u32, b: u32, why: Forced, round: u32, reach: &Reach) -> bool {
        let [ta, tb] = [a, b].map(|v| self.problem.versions[v as usize].txn);
        let mut new = false;
        if ta != INITIAL && !reach.reaches(self.points.commit(ta), self.points.after_earlier(tb)) {
            let to = self.points.after_earlier(tb);
            self.derive(self.points.commit(ta), to, Kind::Before { a, b, why }, round);
            new = true;
        }
        for place in self.reader_starts[a as usize]..self.reader_starts[a as usize + 1] {
            let read = self.readers[place as usize];
            let (from, to) = (self.node(read), self.points.commit(tb));
            if self.problem.reads[read as usize].txn != tb
                && self.problem.is_firm(read)
                && !reach.reaches(from, to)
            {
                self.derive(from, to, Kind::Anti { read, b, why }, round);
                new = true;
            }
        }
        new
    }

    fn derive(&mut self, from: u32, to: u32, kind: Kind, round: u32) {
        let label = READS + (self.problem.reads.len() + self.derived.len()) as u32;
        self.derived.push(Derived { kind, round });
        self.edges.add(from, to, label);
    }

    /// What a label means.
    pub fn label(&self, label: u32) -> Label {
        match label {
            INSIDE => Label::Inside,
            SESSION => Label::Session,
            TIME => Label::Time,
            RECORDED..READS => Label::Recorded(STAMPS[(label - RECORDED) as usize]),
            _ if ((label - READS) as usize) < self.problem.reads.len() => Label::Read(label - READS),
            _ => Label::Derived(label - READS - self.problem.reads.len() as u32),
        }
    }

    /// The graph as it stands.
    pub fn graph(&self) -> Graph {
        self.edges.build(self.nodes)
    }

    /// The graph as it stands, turned around.
    pub fn reversed(&self) -> Graph {
        self.edges.build_reversed(self.nodes)
    }

    /// The reads that certainly saw a version.
    pub fn readers(&self, version: u32) -> &[u32] {
        let (start, end) = (self.reader_starts[version as usize], self.reader_starts[version as usize + 1]);
        &self.readers[start as usize..end as usize]
    }

    /// Those of them that come before later versions.
    pub fn firm_readers(&self, version: u32) -> impl Iterator<Item = u32> + '_ {
        self.readers(version).iter().copied().filter(|&read| self.problem.is_firm(read))
    }

    /// How many reads are in [`Known::readers`].
    pub fn certain_reads(&self) -> usize {
        self.readers.len()
    }

    /// Whether a read is in [`Known::readers`].
    pub fn is_certain(&self, read: u32) -> bool {
        self.problem.seen(read).is_some_and(|version| self.readers(version).contains(&read))
    }

    /// What evidence and lists say of versions that need not be there.
    pub fn optional_facts(&self) -> &[(u32, u32)] {
        &self.optional_facts
    }

    /// Session order to and from transactions that need not have committed but are taken to have.
    pub fn optional_sessions(&self, active: &[bool]) -> Vec<(u32, u32)> {
        if !self.sessions || self.problem.forced.iter().all(|&f| f) {
            return Vec::new();
        }
        let session = |t: u32| self.problem.history.session_of(self.problem.txns[t as usize]);
        let all: Vec<u32> = (0..active.len() as u32).filter(|&t| active[t as usize]).collect();
        let pairs = all.windows(2).map(|pair| (pair[0], pair[1]));
        pairs.filter(|&(a, b)| session(a) == session(b) && !(self.forced(a) && self.forced(b))).collect()
    }

    /// Applies R1 and R2 until nothing changes or a cycle shows.
    pub fn saturate(&mut self, budget: &Budget) -> Result<Saturated, Exhausted> {
        for round in 1.. {
            budget.poll()?;
            let graph = self.graph();
            let Some(order) = topological_order(&graph) else {
                return Ok(Saturated::Cyclic(cycle(&graph)));
            };
            let reach = self.reach(&graph, &order);
            if matches!(reach, Reach::Estimated(_)) || !self.round(&reach, round, budget)? {
                return Ok(Saturated::Acyclic(reach));
            }
        }
        unreachable!("rounds end when nothing new is derived")
    }

    /// Clocks where sessions are few, else a matrix.
    fn reach(&self, graph: &Graph, order: &[u32]) -> Reach {
        let matrix = Closure::bytes_for(self.nodes);
        if self.sessions {
            let chains = self.chains();
            let clocks = self.nodes * chains.count() * 8;
            if clocks <= matrix.max(1 << 20) && clocks <= CLOCK_BYTES {
                let clocks = Clocks::new(graph, order, &chains);
                return Reach::Chains(chains, clocks);
            }
        }
        match matrix <= CLOSURE_BYTES {
            true => Reach::Matrix(Closure::new(graph, order)),
            false => Reach::Estimated(estimated_ranks(graph, order)),
        }
    }

    /// Sessions, each optional transaction by itself, and the helpers.
    fn chains(&self) -> Chains {
        let history = self.problem.history;
        let mut chain = vec![0; self.nodes];
        let mut position = vec![0; self.nodes];
        let mut next = vec![0; history.session_count()];
        let mut alone = history.session_count() as u32;
        for txn in 0..self.problem.txns.len() as u32 {
            let mut session = history.session_of(self.problem.txns[txn as usize]).0;
            let at = if self.forced(txn) {
                next[session as usize] += 2;
                next[session as usize] - 2
            } else {
                session = alone;
                alone += 1;
                0
            };
            for (point, at) in [(self.points.begin(txn), at), (self.points.commit(txn), at + 1)] {
                chain[point as usize] = session;
                position[point as usize] = at;
            }
        }
        for &(first, count) in &self.helpers {
            for place in 0..count {
                chain[(first + place) as usize] = alone;
                position[(first + place) as usize] = place;
            }
            alone += 1;
        }
        Chains::new(chain, position)
    }

    /// The sessions of those that committed, and the helpers; what is in no session has no edges and stands anywhere.
    pub fn visible_chains(&self, active: &[bool]) -> Chains {
        let history = self.problem.history;
        let (mut chain, mut position) = (vec![0; self.nodes], vec![0; self.nodes]);
        let mut next = vec![0; history.session_count()];
        for txn in (0..self.problem.txns.len()).filter(|&txn| active[txn]) {
            let session = history.session_of(self.problem.txns[txn]);
            (chain[txn], position[txn]) = (session.0, next[session.index()]);
            next[session.index()] += 1;
        }
        for (&(first, count), number) in self.helpers.iter().zip(history.session_count() as u32..) {
            for place in 0..count {
                (chain[(first + place) as usize], position[(first + place) as usize]) = (number, place);
            }
        }
        Chains::new(chain, position)
    }

    fn round(&mut self, reach: &Reach, round: u32, budget: &Budget) -> Result<bool, Exhausted> {
        let mut new = false;
        for item in self.problem.items() {
            budget.poll()?;
            let range = self.problem.item_versions(item);
            let groups = self.groups(range.clone());
            for a in range {
                if a == groups.initial || self.forced(self.problem.versions[a as usize].txn) {
                    new |= self.apply(reach, round, a, &groups);
                }
            }
        }
        Ok(new)
    }

    fn apply(&mut self, reach: &Reach, round: u32, a: u32, groups: &Groups) -> bool {
        let (points, versions) = (self.points, &self.problem.versions);
        let commit = |b: u32| points.commit(versions[b as usize].txn);
        let mut pairs: Vec<(u32, u32, Forced)> = Vec::new();
        for group in groups.iter() {
            let next = if a == groups.initial {
                group.first()
            } else {
                let begin = points.after_earlier(versions[a as usize].txn);
                let place = group.partition_point(|&b| b != a && !reach.reaches(begin, commit(b)));
                group[place..].iter().find(|&&b| b != a)
            };
            if let Some(&b) = next {
                let why = if a == groups.initial { Forced::Fact } else { Forced::Reaches };
                pairs.push((a, b, why));
            }
            for read in self.firm_readers(a) {
                let node = self.node(read);
                let seen = group.partition_point(|&b| reach.reaches(commit(b), node));
                if let Some(&b) = group[..seen].last().filter(|&&b| b != a && a != groups.initial) {
                    pairs.push((b, a, Forced::ByRead(read)));
                }
            }
        }
        let mut new = false;
        for (a, b, why) in pairs {
            new |= self.order(a, b, why, round, reach);
        }
        new
    }

    /// Forced versions of one object by session, or one by one when sessions do not count.
    pub fn groups(&self, range: std::ops::Range<u32>) -> Groups {
        let written: Vec<u32> = (range.start + 1..range.end)
            .filter(|&v| self.forced(self.problem.versions[v as usize].txn))
            .collect();
        let session = |v: u32| {
            let txn = self.problem.versions[v as usize].txn;
            self.problem.history.session_of(self.problem.txns[txn as usize])
        };
        let mut ends = Vec::new();
        for place in 1..=written.len() {
            let same = self.sessions
                && place < written.len()
                && session(written[place - 1]) == session(written[place]);
            if !same {
                ends.push(place);
            }
        }
        Groups { initial: range.start, written, ends }
    }
}

/// Versions of one object in groups that session order orders.
pub(crate) struct Groups {
    initial: u32,
    written: Vec<u32>,
    ends: Vec<usize>,
}

impl Groups {
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.written[start..end])
    }
}

fn readers(problem: &Problem<'_>) -> (Vec<u32>, Vec<u32>) {
    let certain = || {
        problem.reads.iter().enumerate().filter_map(|(i, read)| {
            let version = problem.seen(i as u32)?;
            let writer = problem.versions[version as usize].txn;
            let sure =
                problem.forced[read.txn as usize] && (writer == INITIAL || problem.forced[writer as usize]);
            sure.then_some((i as u32, version))
        })
    };
    let mut starts = vec![0u32; problem.versions.len() + 2];
    certain().for_each(|(_, version)| starts[version as usize + 2] += 1);
    for version in 0..=problem.versions.len() {
        starts[version + 1] += starts[version];
    }
    let mut all = vec![0; starts[problem.versions.len() + 1] as usize];
    for (read, version) in certain() {
        let place = &mut starts[version as usize + 1];
        all[*place as usize] = read;
        *place += 1;
    }
    starts.pop();
    (starts, all)
}

/// A short cycle of a graph that has one.
pub(crate) fn cycle(graph: &Graph) -> Vec<(u32, u32, u32)> {
    let mut components = components(graph);
    components.sort_by_key(Vec::len);
    let smallest = &components[0];
    let few = smallest.len().clamp(1, 64);
    let step = smallest.len() / few;
    let starts = smallest.iter().copied().step_by(step.max(1));
    shortest_cycle(starts, |node| graph.edges(node).collect::<Vec<_>>()).expect("a component holds a cycle")
}
