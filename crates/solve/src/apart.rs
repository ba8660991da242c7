//! Independent components, solved apart and in parallel.
//!
//! # Problem
//! Transactions that share no object (tenants of one database, say) constrain each other at most by time. Searching them together multiplies what each has to try.
//!
//! # Algorithm
//! Components are made by what must be decided together: all that touch an item which somebody writes; sessions, if their order counts; transactions with timestamps,
//! if these do. Small components are put together in batches; each batch is solved by itself ([`Problem::part`]), on as many threads as there are processors. If all hold, their orders
//! are merged; if one does not, its lemmas refute the whole.
//!
//! # Mathematics
//! Real time joins no components, because it is an interval order, as with linearizability [Herlihy and Wing 1990], which is local for the same reason. Suppose that orders of all
//! components, each of which respects real time, and real time between them made a cycle. It goes through components in turn: it enters one at a begin `x`, leaves it
//! at a commit `y`, and `x` is before `y` in the component's order. So `y` did not end before `x` began: `y` ended after `x` began, and that was after the end of the transaction
//! from which the cycle came. Around the cycle ends would only grow. So there is none, and the union has a linear order.
//!
//! # Invariants
//! Session order, where it counts, is real time between components: a session in which it is not stays together. Which violation is found does not depend on the
//! threads: of several the one in the first batch counts.
//!
//! # Cost
//! Linear, but for solving. Nothing is done if one component is nearly everything.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashMap;
use margay_history::TxnId;
use margay_levels::definition::Family;
use margay_order::{GraphBuilder, topological_order};
use margay_verdict::{Budget, Certificate, Order, Verdict};

use crate::points::Points;
use crate::problem::Problem;
use crate::search::Stopped;

/// How many transactions a batch has at least, but for the last.
pub(crate) const BATCH: usize = 256;

/// Solves components apart; `None` if there is nothing to be gained.
pub(crate) fn apart(
    problem: &Problem<'_>,
    points: Points,
    batch: usize,
    budget: &Budget,
) -> Result<Option<Verdict>, Stopped> {
    if problem.txns.len() <= batch {
        return Ok(None);
    }
    let batches = batches(components(problem, points), batch);
    let largest = batches.iter().map(Vec::len).max().unwrap_or(0);
    if batches.len() < 2 || 10 * largest > 9 * problem.txns.len() {
        return Ok(None);
    }
    let mut orders = Vec::new();
    for answer in answers(problem, points, &batches, budget).into_iter().flatten() {
        match answer? {
            Verdict::Holds(order) => orders.push(order),
            other => return Ok(Some(other)),
        }
    }
    Ok(Some(Verdict::Holds(merge(problem, points, &orders))))
}

/// Sets that grow together.
struct Sets(Vec<u32>);

impl Sets {
    fn find(&mut self, mut node: u32) -> u32 {
        while self.0[node as usize] != node {
            self.0[node as usize] = self.0[self.0[node as usize] as usize];
            node = self.0[node as usize];
        }
        node
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a.max(b) as usize] = a.min(b);
    }

    fn join_all(&mut self, all: impl IntoIterator<Item = u32>) {
        let mut all = all.into_iter();
        if let Some(first) = all.next() {
            all.for_each(|other| self.join(first, other));
        }
    }
}

/// The components, each in order, the one with the first transaction first.
fn components(problem: &Problem<'_>, points: Points) -> Vec<Vec<u32>> {
    let mut sets = Sets((0..problem.txns.len() as u32).collect());
    let writer = |item| {
        let first = problem.item_versions(item).nth(1)?;
        Some(problem.versions[first as usize].txn)
    };
    for item in problem.items() {
        let written = problem.item_versions(item).skip(1);
        sets.join_all(written.map(|version| problem.versions[version as usize].txn));
    }
    for read in &problem.reads {
        if let Some(writer) = writer(read.item) {
            sets.join(writer, read.txn);
        }
    }
    if problem.question.uses_session_order() {
        join_sessions(problem, &mut sets);
    }
    sets.join_all(stamped(problem, points));
    let mut places: HashMap<u32, usize> = HashMap::new();
    let mut components: Vec<Vec<u32>> = Vec::new();
    for txn in 0..problem.txns.len() as u32 {
        let place = *places.entry(sets.find(txn)).or_insert(components.len());
        if place == components.len() {
            components.push(Vec::new());
        }
        components[place].push(txn);
    }
    components
}

/// Sessions stay together, unless real time counts and orders each of their transactions after all before it.
fn join_sessions(problem: &Problem<'_>, sets: &mut Sets) {
    let (history, real_time) = (problem.history, problem.question.uses_real_time());
    let all: Vec<u32> = (0..problem.txns.len() as u32).collect();
    let id = |txn: u32| problem.txns[txn as usize];
    for session in all.chunk_by(|&a, &b| history.session_of(id(a)) == history.session_of(id(b))) {
        let mut last = Some(i64::MIN);
        let mut clean = real_time;
        for &txn in session {
            let end = history.end(id(txn)).map(|end| end.saturating_add(history.header().skew));
            clean &= matches!((last, history.start(id(txn))), (Some(last), Some(start)) if last < start);
            last = last.zip(end).map(|(last, end)| last.max(end));
        }
        if !clean {
            sets.join_all(session.iter().copied());
        }
    }
}

/// The transactions whose recorded timestamps order them.
fn stamped(problem: &Problem<'_>, points: Points) -> Vec<u32> {
    let evidence = problem.history.evidence();
    let stamps: Vec<TxnId> = match points.split {
        true if points.overlap => Vec::new(),
        true => evidence.commits.iter().chain(&evidence.snapshots).map(|stamp| stamp.0).collect(),
        false if problem.question.level.family() != Family::Serial => Vec::new(),
        false => evidence.serializations.iter().map(|stamp| stamp.0).collect(),
    };
    stamps.iter().filter_map(|id| problem.txns.binary_search(id).ok()).map(|txn| txn as u32).collect()
}

/// Small components together, the largest batches first.
fn batches(components: Vec<Vec<u32>>, least: usize) -> Vec<Vec<u32>> {
    let (mut batches, mut open) = (Vec::new(), Vec::new());
    for component in components {
        if component.len() >= least {
            batches.push(component);
            continue;
        }
        open.extend(component);
        if open.len() >= least {
            batches.push(std::mem::take(&mut open));
        }
    }
    batches.extend((!open.is_empty()).then_some(open));
    batches.iter_mut().for_each(|batch| batch.sort_unstable());
    batches.sort_by_key(|batch| std::cmp::Reverse(batch.len()));
    batches
}

/// The answers of the batches, those after the first violated one left out.
fn answers(
    problem: &Problem<'_>,
    points: Points,
    batches: &[Vec<u32>],
    budget: &Budget,
) -> Vec<Option<Result<Verdict, Stopped>>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(batches.len());
    let (next, first_violated) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
    let all = Mutex::new((0..batches.len()).map(|_| None).collect::<Vec<_>>());
    let work = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            if place >= batches.len() || place > first_violated.load(Ordering::Relaxed) {
                return;
            }
            let answer = crate::solve(&problem.part(&batches[place]), points, budget);
            if !matches!(answer, Ok(Verdict::Holds(_))) {
                first_violated.fetch_min(place, Ordering::Relaxed);
            }
            if let Ok(mut all) = all.lock() {
                all[place] = Some(answer);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    all.into_inner().unwrap_or_default()
}

/// One order of all, in which each component's order and real time, if it counts, are contained.
fn merge(problem: &Problem<'_>, points: Points, orders: &[Certificate]) -> Certificate {
    let chains: Vec<Vec<u32>> = orders.iter().map(|order| crate::numbers(problem, points, order)).collect();
    let merged = match problem.question.uses_real_time() {
        true => in_time(problem, points, &chains),
        false => chains.concat(),
    };
    match crate::holds(problem, points, merged) {
        Verdict::Holds(order) => order,
        _ => Certificate::Order(Order::default()),
    }
}

/// The points of all chains in an order that real time allows.
fn in_time(problem: &Problem<'_>, points: Points, chains: &[Vec<u32>]) -> Vec<u32> {
    let history = problem.history;
    let mut edges = GraphBuilder::new();
    let mut taken = vec![false; points.count(problem.txns.len())];
    for chain in chains {
        chain.windows(2).for_each(|pair| edges.add(pair[0], pair[1], 0));
        chain.iter().for_each(|&point| taken[point as usize] = true);
    }
    let inside = |&txn: &u32| taken[points.commit(txn) as usize];
    let txns: Vec<u32> = (0..problem.txns.len() as u32).filter(inside).collect();
    let start = |&txn: &u32| Some((history.start(problem.txns[txn as usize])?, txn));
    let mut starts: Vec<(i64, u32)> = txns.iter().filter_map(start).collect();
    starts.sort_unstable();
    let moments = taken.len() as u32;
    for (place, &(_, txn)) in (0..).zip(&starts) {
        edges.add(moments + place, points.begin(txn), 0);
        if place > 0 {
            edges.add(moments + place - 1, moments + place, 0);
        }
    }
    for &txn in &txns {
        let Some(end) = history.end(problem.txns[txn as usize]) else { continue };
        let end = end.saturating_add(history.header().skew);
        let next = starts.partition_point(|&(start, _)| start <= end);
        if next < starts.len() {
            edges.add(points.commit(txn), moments + next as u32, 0);
        }
    }
    let all = topological_order(&edges.build(taken.len() + starts.len())).unwrap_or_default();
    all.into_iter().filter(|&point| taken.get(point as usize) == Some(&true)).collect()
}

#[cfg(test)]
mod tests {
    use margay_audit::audit;
    use margay_history::History;
    use margay_levels::Level;
    use margay_simdb::{Fault, Mix, Ppm, Protocol, SimConfig, simulate_history};
    use margay_testkit::random;
    use margay_verdict::Question;

    use super::*;
    use crate::trust::{believed, proved};
    use crate::{points, prepare::prepare};

    const LEVELS: [Level; 6] = [
        Level::RepeatableRead,
        Level::Serializable,
        Level::StrongSessionSerializable,
        Level::StrictSerializable,
        Level::SnapshotIsolation,
        Level::StrictSnapshotIsolation,
    ];

    /// Whether a history that comes apart has the same answer apart and as a whole; nothing if it does not.
    fn same(history: &History, level: Level) -> Option<bool> {
        let question = Question::new(level);
        let (draft, points) = (prepare(history, question, &Budget::unlimited()).ok()?, points::of(level));
        let problem = Problem::new(history, question, &draft, &Budget::unlimited()).expect("no limits");
        let budget = Budget::unlimited();
        let verdict = apart(&problem, points, 1, &budget).ok()??;
        let whole = crate::solve(&problem, points, &budget).ok()?;
        assert_eq!(verdict.word(), whole.word(), "{level}: {}", margay_testkit::show(history));
        let verdict = match verdict {
            Verdict::Violated(found) if draft.bold => {
                Verdict::Violated(proved(history, question, problem.strategies, found, &budget)?)
            }
            Verdict::Violated(found) => {
                match crate::shown(history, question, problem.strategies, &draft, found, &budget) {
                    Verdict::Unknown(_) => return None,
                    shown => shown,
                }
            }
            Verdict::Holds(order) => match believed(&problem, points, &draft, order, &budget) {
                Verdict::Unknown(_) => return None,
                believed => believed,
            },
            other => other,
        };
        let audited = verdict.certificate().map(|certificate| audit(history, question, certificate));
        assert_eq!(audited, Some(Ok(())), "{level}: {}", margay_testkit::show(history));
        Some(matches!(verdict, Verdict::Holds(_)))
    }

    #[test]
    fn apart_is_the_same_as_together() {
        let (mut held, mut failed) = (0, 0);
        let mut look = |history: &History| {
            for level in LEVELS {
                match same(history, level) {
                    Some(true) => held += 1,
                    Some(false) => failed += 1,
                    None => {}
                }
            }
        };
        (1..1500).map(random).for_each(|history| look(&history));
        for seed in 0..200 {
            let protocol = [Protocol::Ss2pl, Protocol::SiFuw, Protocol::RcMvcc][seed as usize % 3];
            let mix = Mix::NAMED[seed as usize / 3 % Mix::NAMED.len()].1;
            let small = SimConfig::small(protocol, mix, seed);
            let mut config = SimConfig { clients: 8, transactions: 40, ops: (1, 3), keys: 60, ..small };
            if seed % 2 == 0 {
                config = config.with_fault(Fault::ALL[seed as usize % Fault::ALL.len()], Ppm::percent(20));
            }
            look(&simulate_history(&config).expect("a history").0);
        }
        println!("{held} hold, {failed} do not");
        assert!(held > 300 && failed > 60, "{held} hold, {failed} do not");
    }
}
