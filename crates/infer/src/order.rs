//! Orders that prove `holds`, and cycles where there is none.
//!
//! # Algorithm
//! An order of the nodes that all dependencies follow is the certificate: of transactions (a serial
//! or a commit order), of begin and commit points, or, for the levels of graphs, of the versions of
//! each object. Versions that nobody saw may stand in any order, so they stand in this one.
//! - Snapshot levels: writers of one object may not overlap, seen or not; the unseen ones are put
//!   one after the other as they commit in a first order, and the graph is ordered again.
//! - `parallel-snapshot`: with session order, wr and ww ordered, no rw edge may lead back from a
//!   transaction to one that reaches it.
//!
//! # Invariants
//! Nothing is said of a case that is open, or whose registers are not traceable where rw edges
//! count.

use margay_history::{OpKind, Outcome, TxnId};
use margay_levels::Level;
use margay_levels::definition::{Axiom, Family};
use margay_order::{Chains, Clocks, Graph, GraphBuilder, components, shortest_cycle};
use margay_verdict::{
    Budget, Certificate, Exhausted, Finding, Order, Point, ReadFrom, Verdict, Versions, Why as Reason,
};

use crate::case::{Case, Next, Read};
use crate::counts_rw;
use crate::cycles::{Steps, way};
use crate::deps::{Deps, Layout, Why, in_order};
use crate::proof::Prover;

/// The layout in which a level is decided.
fn layout(level: Level) -> Layout {
    match level.family() {
        Family::Snapshot => Layout::Points { overlap: false },
        Family::CommitOrder(Axiom::Prefix) => Layout::Points { overlap: true },
        _ => Layout::Txns,
    }
}

/// The labels of a short cycle, if there is one.
fn cycle(deps: &Deps, layout: Layout) -> Option<Vec<u32>> {
    let graph = deps.graph(layout);
    let component = components(&graph).into_iter().min_by_key(Vec::len)?;
    let mut inside = vec![false; graph.node_count()];
    component.iter().for_each(|&node| inside[node as usize] = true);
    let starts = (STEPS / component.len()).max(1);
    let edges = |node: u32| graph.edges(node).filter(|edge| inside[edge.0 as usize]).collect::<Vec<_>>();
    let found = shortest_cycle(component.iter().copied().take(starts), edges)?;
    Some(found.into_iter().map(|(_, _, label)| label).collect())
}

/// How many nodes are looked at in search of a short cycle.
const STEPS: usize = 1_000_000;

/// An order that all dependencies follow, if there is one. At `parallel-snapshot` that is not
/// enough, and none is given.
pub(crate) fn of(deps: &Deps, level: Level) -> Option<Vec<u32>> {
    if level == Level::ParallelSnapshot {
        return None;
    }
    in_order(&deps.graph(layout(level)))
}

/// The answer where no kind of cycle was found; `order` is that of [`of`].
pub(crate) fn holds(
    case: &Case<'_>,
    deps: &Deps,
    order: Option<Vec<u32>>,
    prover: &mut Prover<'_, '_>,
    budget: &Budget,
) -> Result<Verdict, Exhausted> {
    let level = case.question.level;
    let layout = layout(level);
    let base = (level == Level::ParallelSnapshot).then(|| without_rw(deps, layout));
    let base = base.as_ref().unwrap_or(deps);
    let Some(order) = order.or_else(|| in_order(&base.graph(layout))) else {
        return Ok(violated(base, layout, prover));
    };
    if let Some(why) = undecided(case) {
        return Ok(Verdict::Unknown(why));
    }
    Ok(match level.family() {
        Family::Serial => Verdict::Holds(serial(case, &order)),
        Family::Snapshot => snapshot(case, deps, layout, &order, budget)?,
        Family::CommitOrder(Axiom::Prefix) => Verdict::Holds(points(case, deps, layout, &order)),
        Family::CommitOrder(_) => Verdict::Holds(serial(case, &order)),
        Family::Graph if level == Level::ParallelSnapshot => parallel(case, deps, &order, budget)?,
        Family::Graph => Verdict::Holds(versions(case, deps, &order)),
    })
}

/// Why an order proves nothing.
fn undecided(case: &Case<'_>) -> Option<Reason> {
    if let Some(open) = &case.open {
        return Some(Reason::Outside(open.clone()));
    }
    if !case.local.is_empty() {
        return Some(Reason::Outside("an operation that nothing explains, and no proof of it".into()));
    }
    let what = "the reads of registers do not tell the order of their versions";
    let told = !counts_rw(case.question.level) || case.is_traceable();
    (!told).then(|| Reason::MissingEvidence(what.into()))
}

/// A short cycle as a finding.
pub(crate) fn finding(deps: &Deps, layout: Layout, prover: &mut Prover<'_, '_>) -> Option<Finding> {
    let lemma = prover.lemma(deps, &cycle(deps, layout)?)?;
    prover.finding(None, vec![lemma])
}

fn violated(deps: &Deps, layout: Layout, prover: &mut Prover<'_, '_>) -> Verdict {
    match finding(deps, layout, prover) {
        Some(finding) => Verdict::Violated(vec![finding]),
        None => Verdict::Unknown(Reason::Outside("a cycle that no certificate can show".into())),
    }
}

fn serial(case: &Case<'_>, order: &[u32]) -> Certificate {
    let txns =
        order.iter().filter(|&&node| (node as usize) < case.history.txn_count()).map(|&node| TxnId(node));
    Certificate::Order(Order { txns: txns.filter(|&t| case.has(t)).collect(), reads: left_out(case) })
}

/// What scans saw of the rows that they did not return.
fn left_out(case: &Case<'_>) -> Vec<ReadFrom> {
    if !case.history.has_kind(OpKind::Scan) {
        return Vec::new();
    }
    let reads = case.reads.iter().filter(|read| case.is_predicate(read));
    reads.map(|read| ReadFrom { op: read.op, object: read.object, version: read.from }).collect()
}

fn points(case: &Case<'_>, deps: &Deps, layout: Layout, order: &[u32]) -> Certificate {
    let point = |&node: &u32| {
        let txn = deps.txn(layout, node).filter(|&txn| case.has(txn))?;
        Some(if node.is_multiple_of(2) { Point::Begin(txn) } else { Point::Commit(txn) })
    };
    Certificate::Points(order.iter().filter_map(point).collect())
}

/// Where each transaction stands in an order, at its commit.
fn places(case: &Case<'_>, deps: &Deps, layout: Layout, order: &[u32]) -> Vec<u32> {
    let mut places = vec![0; case.history.txn_count()];
    for (place, &node) in order.iter().enumerate() {
        if let Some(txn) = deps.txn(layout, node) {
            places[txn.index()] = place as u32;
        }
    }
    places
}

/// The same dependencies with the versions that nobody saw one after the other, by these places.
fn lined_up(case: &Case<'_>, deps: &Deps, places: &[u32]) -> Deps {
    let mut deps = deps.clone();
    for object in case.history.objects() {
        let mut rest = case.writers.rest(object).to_vec();
        rest.sort_by_key(|txn| places[txn.index()]);
        rest.windows(2).for_each(|pair| deps.add(pair[0].0, pair[1].0, Why::Write(object)));
    }
    deps
}

/// How often forced orders are looked for.
const ROUNDS: usize = 4;

/// How many orders of two unseen versions are looked at.
const PAIRS: usize = 1_000_000;

/// Adds the orders of unseen versions of one object whose opposite would close a cycle.
fn force(
    case: &Case<'_>,
    deps: &mut Deps,
    closes: impl Fn(&Deps) -> Closes,
    budget: &Budget,
) -> Result<(), Exhausted> {
    let pairs = |object| {
        let rest = case.writers.rest(object);
        rest.iter().flat_map(move |&a| rest.iter().filter(move |&&b| a != b).map(move |&b| (object, a, b)))
    };
    let mut open: Vec<_> = case.history.objects().flat_map(pairs).take(PAIRS).collect();
    for _ in 0..ROUNDS {
        let before = open.len();
        let graph = closes(deps);
        let mut steps = Steps::new(STEPS, budget);
        let mut left = Vec::new();
        for (object, a, b) in open {
            match graph.leads(a, b, &mut steps)? {
                true => deps.add(a.0, b.0, Why::Write(object)),
                false => left.push((object, a, b)),
            }
        }
        open = left;
        if open.len() == before {
            return Ok(());
        }
    }
    Ok(())
}

/// A graph in which a way from one writer to another forbids the opposite order of their versions.
struct Closes {
    graph: Graph,
    /// By transaction: where ways begin, and where they end.
    from: fn(u32) -> u32,
    to: fn(u32) -> [u32; 2],
}

impl Closes {
    fn leads(&self, a: TxnId, b: TxnId, steps: &mut Steps<'_>) -> Result<bool, Exhausted> {
        let ends = (self.to)(b.0);
        let found = way(&self.graph, (self.from)(a.0), |node| ends.contains(&node), |_| true, steps)?;
        Ok(found.is_some())
    }

    fn points(deps: &Deps) -> Self {
        let graph = deps.graph(Layout::Points { overlap: false });
        Self { graph, from: |txn| 2 * txn, to: |txn| [2 * txn + 1; 2] }
    }

    /// Ways with at most one rw edge.
    fn one_rw(deps: &Deps) -> Self {
        let mut builder = GraphBuilder::new();
        for (label, dep) in deps.all.iter().enumerate() {
            let label = label as u32;
            match dep.why {
                Why::Anti(_) => builder.add(2 * dep.from, 2 * dep.to + 1, label),
                Why::OnAnti => builder.add(2 * dep.from + 1, 2 * dep.to + 1, label),
                _ => {
                    builder.add(2 * dep.from, 2 * dep.to, label);
                    builder.add(2 * dep.from + 1, 2 * dep.to + 1, label);
                }
            }
        }
        let graph = builder.build(2 * deps.nodes as usize);
        Self { graph, from: |txn| 2 * txn, to: |txn| [2 * txn, 2 * txn + 1] }
    }
}

/// Ways to line unseen versions up, the cheapest first: as a serial order has them if there is one,
/// as `order` has them, and with all that is forced.
fn line_ups(
    case: &Case<'_>,
    deps: &Deps,
    order: &[u32],
    layout: Layout,
    closes: fn(&Deps) -> Closes,
    accept: impl Fn(Deps) -> Result<Option<Certificate>, Exhausted>,
    budget: &Budget,
) -> Result<Verdict, Exhausted> {
    let by = |deps: &Deps, layout: Layout, order: &[u32]| {
        accept(lined_up(case, deps, &places(case, deps, layout, order)))
    };
    if let Some(serial) = in_order(&deps.graph(Layout::Txns))
        && let Some(found) = by(deps, Layout::Txns, &serial)?
    {
        return Ok(Verdict::Holds(found));
    }
    if let Some(found) = by(deps, layout, order)? {
        return Ok(Verdict::Holds(found));
    }
    let mut forced = deps.clone();
    force(case, &mut forced, closes, budget)?;
    if let Some(order) = in_order(&without_rw(&forced, layout).graph(layout))
        && let Some(found) = by(&forced, layout, &order)?
    {
        return Ok(Verdict::Holds(found));
    }
    let what = "no read saw some of the versions, and their order is not known";
    Ok(Verdict::Unknown(Reason::MissingEvidence(what.into())))
}

/// At the levels of points rw edges belong to the order; in a graph of transactions
/// (`parallel-snapshot`) they do not.
fn without_rw(deps: &Deps, layout: Layout) -> Deps {
    let mut deps = deps.clone();
    if layout == Layout::Txns {
        deps.all.retain(|dep| !matches!(dep.why, Why::Anti(_) | Why::OnAnti));
    }
    deps
}

fn snapshot(
    case: &Case<'_>,
    deps: &Deps,
    layout: Layout,
    order: &[u32],
    budget: &Budget,
) -> Result<Verdict, Exhausted> {
    if case.history.objects().all(|object| case.writers.rest(object).len() < 2) {
        return Ok(Verdict::Holds(points(case, deps, layout, order)));
    }
    let accept = |deps: Deps| {
        budget.poll()?;
        Ok(in_order(&deps.graph(layout)).map(|order| points(case, &deps, layout, &order)))
    };
    line_ups(case, deps, order, layout, Closes::points, accept, budget)
}

fn versions(case: &Case<'_>, deps: &Deps, order: &[u32]) -> Certificate {
    let places = places(case, deps, Layout::Txns, order);
    let mut orders = Vec::new();
    for object in case.history.objects().filter(|&o| case.writers.of(o).len() > 1) {
        let mut writers = case.writers.of(object).to_vec();
        writers.sort_by_key(|txn| places[txn.index()]);
        orders.push((object, writers));
    }
    let taken = case.txns().filter(|&t| case.history.outcome(t) == Outcome::Unknown).collect();
    Certificate::Versions(Versions { committed: taken, orders, reads: left_out(case) })
}

/// `order` is of session order, wr and ww. What is left are the rw edges.
fn parallel(case: &Case<'_>, deps: &Deps, order: &[u32], budget: &Budget) -> Result<Verdict, Exhausted> {
    let accept = |deps: Deps| one_rw_is_fine(case, &deps, budget);
    line_ups(case, deps, order, Layout::Txns, Closes::one_rw, accept, budget)
}

/// No rw edge leads back.
fn one_rw_is_fine(case: &Case<'_>, deps: &Deps, budget: &Budget) -> Result<Option<Certificate>, Exhausted> {
    let deps = without_rw(deps, Layout::Txns);
    let graph = deps.graph(Layout::Txns);
    let Some(order) = in_order(&graph) else { return Ok(None) };
    budget.poll()?;
    budget.charge(8 * (order.len() * (case.history.session_count() + 1)) as u64)?;
    let places = places(case, &deps, Layout::Txns, &order);
    let chains = chains(case, &deps);
    let clocks = Clocks::new(&graph, &order, &chains);
    let back = |read: &Read, next: TxnId| next != read.txn && clocks.reaches(&chains, next.0, read.txn.0);
    let leads_back = |read: &Read| match read.next {
        Next::Txn(txn) => back(read, txn),
        Next::Rest => {
            let rest = case.writers.rest(read.object).iter().copied();
            rest.min_by_key(|txn| places[txn.index()]).is_some_and(|first| back(read, first))
        }
        Next::Nothing => false,
    };
    let more = |&(read, txn): &(u32, TxnId)| back(&case.reads[read as usize], txn);
    let fine = !case.reads.iter().any(leads_back) && !case.antis.iter().any(more);
    Ok(fine.then(|| versions(case, &deps, &order)))
}

/// Sessions; and extra nodes in one row.
fn chains(case: &Case<'_>, deps: &Deps) -> Chains {
    let history = case.history;
    let mut chain: Vec<u32> = history.txns().map(|txn| history.session_of(txn).0).collect();
    let mut position: Vec<u32> = history.txns().map(|txn| txn.0).collect();
    for extra in deps.txns..deps.nodes {
        chain.push(history.session_count() as u32);
        position.push(extra);
    }
    Chains::new(chain, position)
}
