//! Orders that prove `holds`, and cycles where there is none.
//!
//! # Algorithm
//! An order of the nodes that all dependencies follow is the certificate: of transactions (a serial or a commit order), of begin and commit points, or, for
//! the levels of graphs, of the versions of each object. Versions that nobody saw may stand in any order, so they stand in this one.
//! - Snapshot levels: writers of one object may not overlap, seen or not; the unseen ones are put one after the other as they commit in a first order,
//!   and the graph is ordered again.
//! - `parallel-snapshot`: with session order, wr and ww ordered, no rw edge may lead back from a transaction to one that reaches it.
//!
//! # Invariants
//! Nothing is said of a case that is open, or whose registers are not traceable where rw edges count.

use margay_history::{Outcome, TxnId};
use margay_levels::Level;
use margay_levels::definition::{Axiom, Family};
use margay_order::{Chains, Clocks, Graph, GraphBuilder, components, shortest_cycle};
use margay_verdict::{Certificate, Finding, Order, Point, Verdict, Versions, Why as Reason};

use crate::case::{Case, Next, Read};
use crate::counts_rw;
use crate::cycles::way;
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

/// An order that all dependencies follow, if there is one. At `parallel-snapshot` that is not enough, and none is given.
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
) -> Verdict {
    let level = case.question.level;
    let layout = layout(level);
    let base = (level == Level::ParallelSnapshot).then(|| without_rw(deps, layout));
    let base = base.as_ref().unwrap_or(deps);
    let Some(order) = order.or_else(|| in_order(&base.graph(layout))) else {
        return violated(base, layout, prover);
    };
    if let Some(open) = &case.open {
        return Verdict::Unknown(Reason::Outside(open.clone()));
    }
    if !case.local.is_empty() {
        return Verdict::Unknown(Reason::Outside(
            "an operation that nothing explains, and no proof of it".into(),
        ));
    }
    if counts_rw(level) && !case.is_traceable() {
        let what = "the reads of registers do not tell the order of their versions";
        return Verdict::Unknown(Reason::MissingEvidence(what.into()));
    }
    match level.family() {
        Family::Serial => Verdict::Holds(serial(case, &order)),
        Family::Snapshot => snapshot(case, deps, layout, &order),
        Family::CommitOrder(Axiom::Prefix) => Verdict::Holds(points(case, deps, layout, &order)),
        Family::CommitOrder(_) => Verdict::Holds(serial(case, &order)),
        Family::Graph if level == Level::ParallelSnapshot => parallel(case, deps, &order),
        Family::Graph => Verdict::Holds(versions(case, deps, &order)),
    }
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
    Certificate::Order(Order { txns: txns.filter(|&t| case.has(t)).collect(), reads: Vec::new() })
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

/// How often forced orders are looked for, and how far.
const ROUNDS: usize = 4;

/// Adds the orders of unseen versions of one object whose opposite would close a cycle.
fn force(case: &Case<'_>, deps: &mut Deps, closes: impl Fn(&Deps) -> Closes) {
    let pairs = |object| {
        let rest = case.writers.rest(object);
        rest.iter().flat_map(move |&a| rest.iter().filter(move |&&b| a != b).map(move |&b| (object, a, b)))
    };
    let mut open: Vec<_> = case.history.objects().flat_map(pairs).collect();
    for _ in 0..ROUNDS {
        let before = open.len();
        let graph = closes(deps);
        let mut steps = STEPS;
        open.retain(|&(object, a, b)| {
            let forced = graph.leads(a, b, &mut steps);
            if forced {
                deps.add(a.0, b.0, Why::Write(object));
            }
            !forced
        });
        if open.len() == before {
            return;
        }
    }
}

/// A graph in which a way from one writer to another forbids the opposite order of their versions.
struct Closes {
    graph: Graph,
    /// By transaction: where ways begin, and where they end.
    from: fn(u32) -> u32,
    to: fn(u32) -> [u32; 2],
}

impl Closes {
    fn leads(&self, a: TxnId, b: TxnId, steps: &mut usize) -> bool {
        let ends = (self.to)(b.0);
        way(&self.graph, (self.from)(a.0), |node| ends.contains(&node), |_| true, steps).is_some()
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

/// Ways to line unseen versions up, the cheapest first: as a serial order has them if there is one, as `order` has them, and with all that is forced.
fn line_ups(
    case: &Case<'_>,
    deps: &Deps,
    order: &[u32],
    layout: Layout,
    closes: fn(&Deps) -> Closes,
    accept: impl Fn(Deps) -> Option<Certificate>,
) -> Verdict {
    let serial = || {
        let order = in_order(&deps.graph(Layout::Txns))?;
        accept(lined_up(case, deps, &places(case, deps, Layout::Txns, &order)))
    };
    let as_told = || accept(lined_up(case, deps, &places(case, deps, layout, order)));
    let forced = || {
        let mut deps = deps.clone();
        force(case, &mut deps, closes);
        let order = in_order(&without_rw(&deps, layout).graph(layout))?;
        accept(lined_up(case, &deps, &places(case, &deps, layout, &order)))
    };
    let found = serial().or_else(as_told).or_else(forced);
    let what = "nobody saw some versions, and their order is not told";
    found.map_or_else(|| Verdict::Unknown(Reason::MissingEvidence(what.into())), Verdict::Holds)
}

/// At the levels of points rw edges belong to the order; in a graph of transactions (`parallel-snapshot`) they do not.
fn without_rw(deps: &Deps, layout: Layout) -> Deps {
    let mut deps = deps.clone();
    if layout == Layout::Txns {
        deps.all.retain(|dep| !matches!(dep.why, Why::Anti(_) | Why::OnAnti));
    }
    deps
}

fn snapshot(case: &Case<'_>, deps: &Deps, layout: Layout, order: &[u32]) -> Verdict {
    if case.history.objects().all(|object| case.writers.rest(object).len() < 2) {
        return Verdict::Holds(points(case, deps, layout, order));
    }
    line_ups(case, deps, order, layout, Closes::points, |deps| {
        let order = in_order(&deps.graph(layout))?;
        Some(points(case, &deps, layout, &order))
    })
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
    Certificate::Versions(Versions { committed: taken, orders, reads: Vec::new() })
}

/// `order` is of session order, wr and ww. What is left are the rw edges.
fn parallel(case: &Case<'_>, deps: &Deps, order: &[u32]) -> Verdict {
    line_ups(case, deps, order, Layout::Txns, Closes::one_rw, |deps| one_rw_is_fine(case, &deps))
}

/// No rw edge leads back.
fn one_rw_is_fine(case: &Case<'_>, deps: &Deps) -> Option<Certificate> {
    let deps = without_rw(deps, Layout::Txns);
    let graph = deps.graph(Layout::Txns);
    let order = in_order(&graph)?;
    let places = places(case, &deps, Layout::Txns, &order);
    let chains = chains(case, &deps);
    let clocks = Clocks::new(&graph, &order, &chains);
    let leads_back = |read: &Read| {
        let next = match read.next {
            Next::Txn(txn) => Some(txn),
            Next::Rest => {
                case.writers.rest(read.object).iter().copied().min_by_key(|txn| places[txn.index()])
            }
            Next::Nothing => None,
        };
        next.is_some_and(|next| next != read.txn && clocks.reaches(&chains, next.0, read.txn.0))
    };
    if case.reads.iter().any(leads_back) { None } else { Some(versions(case, &deps, &order)) }
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
