//! The engine **certify**.

use hashbrown::HashMap;
use margay_audit::{Unaudited, audit_alone_within, audit_within, with_included, without_instants};
use margay_history::{History, ObjectId, Op, OpKind, Outcome, PredicateId, TxnId, Value};
use margay_levels::Level;
use margay_levels::definition::Family;
use margay_verdict::{
    Budget, Certificate, Checker, Exhausted, Finding, Lemma, Order, Point, Predicates, Question, ReadFrom,
    Verdict, Versions, Why, name,
};

use crate::candidate::{Tried, candidate};
use crate::chain::Chain;
use crate::cycle::{Steps, order_or_cycles, with_one_anti};
use crate::deps::{Anti, Deps, Rules, deps, rules};
use crate::guess::Guesser;
use crate::lemma::Prover;
use crate::local::local;
use crate::matches::Matches;
use crate::orders::{NoOrder, Orders};
use crate::scans::{Scans, unmatched};
use crate::sights::{Failed, ObjectSight, Sights};
use crate::taken::taken;
use crate::touches::Touches;
use crate::world::World;

/// So many rows that predicates asked about are looked at one by one, where nothing tells what was
/// seen of them.
const LEFT_OUT: usize = 4_000_000;

/// The engine: checking with a version certificate. See the [crate documentation](crate).
#[derive(Clone, Copy, Default, Debug)]
pub struct Certify;

impl Checker for Certify {
    fn name(&self) -> &'static str {
        "certify"
    }

    fn check(&self, history: &History, question: Question, budget: &Budget) -> Verdict {
        let answer = |question: Question| match rules(question.level) {
            Some(rules) => check(history, question, rules, budget).unwrap_or_else(Verdict::Unknown),
            None => {
                Verdict::Unknown(Why::Level(format!("engine certify does not decide {}", question.level)))
            }
        };
        without_instants(history, question, budget, |question| {
            with_included(history, question, budget, answer)
        })
    }
}

fn exhausted(limit: Exhausted) -> Why {
    Why::Exhausted(limit, String::new())
}

fn failed(failed: Failed) -> Why {
    match failed {
        Failed::Outside(outside) => Why::Outside(outside.0),
        Failed::Exhausted(limit) => exhausted(limit),
    }
}

fn check(history: &History, question: Question, rules: Rules, budget: &Budget) -> Result<Verdict, Why> {
    let predicates = Predicates::compile(history).map_err(|outside| Why::Outside(outside.0))?;
    let taken = taken(history);
    effects_are_known(history, &taken)?;
    sees_no_mixture(history, question)?;
    let touches = Touches::new(history, &taken);
    let orders = match Orders::new(history, &taken, &touches, budget) {
        Ok(orders) => orders,
        Err(NoOrder::Missing(object)) => {
            let object = history.show_object(object);
            return Err(Why::MissingEvidence(format!("the versions of {object} have no complete order")));
        }
        Err(NoOrder::Contradiction(lemma)) => return refuted(history, question, vec![lemma], budget),
        Err(NoOrder::Exhausted(limit)) => return Err(exhausted(limit)),
    };
    let world = World { history, predicates: &predicates, taken: &taken, touches: &touches, orders };
    Case { world, question, rules, budget }.decide()
}

/// A predicate update whose rows nobody saw may have written anything.
fn effects_are_known(history: &History, taken: &[bool]) -> Result<(), Why> {
    if !history.has_kind(OpKind::Update) {
        return Ok(());
    }
    let live = history.txns().filter(|t| taken[t.index()]);
    let hidden = |op: &Op<'_>| history.update(op.id).is_some_and(|update| !update.observed);
    match live.flat_map(|txn| history.ops(txn)).find(hidden) {
        Some(op) => Err(Why::MissingEvidence(format!(
            "the rows that operation {} of {} updated were not recorded",
            history.op_index(op.id),
            history.show_txn(history.txn_of(op.id))
        ))),
        None => Ok(()),
    }
}

/// At `prefix` what a list or a row shows beside the transaction's own write was seen, too, which
/// the dependencies here do not say.
fn sees_no_mixture(history: &History, question: Question) -> Result<(), Why> {
    if question.level != Level::Prefix {
        return Ok(());
    }
    let grows = |op: &Op<'_>, value| {
        op.kind == OpKind::Append || op.kind.writes() && matches!(history.value(value), Value::Row(_))
    };
    for txn in history.txns() {
        let mut own: Vec<ObjectId> = Vec::new();
        for op in history.ops(txn) {
            let reads = matches!(op.kind, OpKind::Read | OpKind::Scan | OpKind::Update);
            if reads && op.accesses.iter().any(|access| own.contains(&access.object)) {
                let what = "reads after a transaction's own append or write of a row, at prefix";
                return Err(Why::Outside(what.to_owned()));
            }
            let grown = op.accesses.iter().filter(|access| grows(&op, access.value));
            own.extend(grown.map(|access| access.object));
        }
    }
    Ok(())
}

/// `violated` by these lemmas, if audit agrees.
fn refuted(
    history: &History,
    question: Question,
    lemmas: Vec<Lemma>,
    budget: &Budget,
) -> Result<Verdict, Why> {
    if lemmas.is_empty() {
        return Err(Why::MissingEvidence("a cycle that no certificate can show".to_string()));
    }
    let anomaly = name(history, question.level, &lemmas);
    let mut txns: Vec<TxnId> = lemmas.iter().flat_map(|l| l.edges.iter().map(|edge| edge.from)).collect();
    txns.sort_unstable();
    txns.dedup();
    let certificate = Certificate::Refutation(lemmas);
    match audit_within(history, question, &certificate, budget) {
        Ok(()) => Ok(Verdict::Violated(vec![Finding { anomaly, txns, certificate }])),
        Err(Unaudited::Exhausted(limit)) => Err(Why::Exhausted(limit, String::new())),
        Err(why) => Err(Why::MissingEvidence(format!(
            "the recorded orders leave {anomaly} among {}, but what is recorded does not prove it: {why}",
            txns.iter().take(4).map(|&t| history.show_txn(t)).collect::<Vec<_>>().join(", ")
        ))),
    }
}

struct Case<'a> {
    world: World<'a>,
    question: Question,
    rules: Rules,
    budget: &'a Budget,
}

/// What the operations saw, and what that was found from.
struct Seen<'a> {
    sights: Sights,
    chains: HashMap<ObjectId, Chain>,
    matches: Option<Matches<'a>>,
}

impl<'a> Case<'a> {
    fn decide(&self) -> Result<Verdict, Why> {
        let history = self.world.history;
        let guesser = Guesser::new(history, &self.world.orders);
        let mut seen = self.see_items(&guesser).map_err(failed)?;
        match self.at_once(&seen.sights, &guesser).map_err(exhausted)? {
            Some(Tried::Order(txns)) => {
                return Ok(Verdict::Holds(Certificate::Order(Order { txns, reads: Vec::new() })));
            }
            Some(Tried::Misfit) => self.worth_looking()?,
            Some(Tried::Cycle) | None => {}
        }
        self.see_predicates(&mut seen, &guesser).map_err(failed)?;
        if let Some(finding) = local(history, self.question, &seen.sights.unexplained, self.budget) {
            return Ok(Verdict::Violated(vec![finding]));
        }
        self.budget.poll().map_err(exhausted)?;
        let graph = deps(&self.world, self.question, self.rules, &seen.sights.all);
        let order = match self.order(&graph)? {
            Ok(order) => order,
            Err(cycles) => return self.violated(&graph, &cycles, &mut seen),
        };
        if self.rules.reads {
            self.nothing_unexplained(&seen.sights)?;
        }
        drop(graph);
        match self.narrow(&mut seen.sights) {
            None => self.proved(&order, &seen.sights.all, false),
            Some(open) => {
                let graph = deps(&self.world, self.question, self.rules, &seen.sights.all);
                match self.order(&graph)? {
                    Ok(order) => self.proved(&order, &seen.sights.all, true),
                    Err(_) => Err(self.ambiguous(&seen.sights.all[open as usize])),
                }
            }
        }
    }

    /// What operations saw of returned objects.
    fn see_items(&self, guesser: &Guesser<'_>) -> Result<Seen<'a>, Failed> {
        let history = self.world.history;
        let mut tables = vec![false; history.tables().len()];
        for predicate in (0..self.world.predicates.count()).map(PredicateId::at) {
            tables[self.world.predicates.table_of(predicate).index()] = true;
        }
        let asked = |o: ObjectId| history.object(o).table.is_some_and(|t| tables[t.index()]);
        let mut sights = Sights::default();
        let chains = sights.items(&self.world, guesser, asked, self.budget)?;
        Ok(Seen { sights, chains, matches: None })
    }

    /// And of those that were left out.
    fn see_predicates(&self, seen: &mut Seen<'a>, guesser: &Guesser<'_>) -> Result<(), Failed> {
        let Seen { sights, chains, matches } = seen;
        let matches = matches.insert(Matches::new(self.world.predicates, chains));
        Scans { world: &self.world, guesser, chains, matches, sights }.run(self.budget)
    }

    /// One serial order that explains all predicates, if the first that comes to mind does.
    fn at_once(&self, sights: &Sights, guesser: &Guesser<'_>) -> Result<Option<Tried>, Exhausted> {
        let history = self.world.history;
        let asks = [OpKind::Scan, OpKind::Update, OpKind::Sql].iter().any(|&kind| history.has_kind(kind));
        // At the weaker levels a serial order is the proof that is audited soonest.
        let worth = asks || self.rules.family != Family::Serial;
        if !worth || self.rules.split || !self.rules.reads || !sights.unexplained.is_empty() {
            return Ok(None);
        }
        candidate(&self.world, self.question, &sights.all, guesser, self.budget).map(Some)
    }

    /// Where nothing but version orders is told, every predicate may have seen many versions of
    /// every row that it left out. If there are very many, a guess is next to certain to be wrong,
    /// and a graph of all of them takes long to say so.
    fn worth_looking(&self) -> Result<(), Why> {
        let (history, predicates) = (self.world.history, self.world.predicates);
        let evidence = history.evidence();
        let told = [&evidence.commits, &evidence.snapshots, &evidence.serializations];
        if !evidence.version_sets.is_empty() || told.iter().any(|stamps| !stamps.is_empty()) {
            return Ok(());
        }
        let asked = |op: &Op<'_>| {
            let scan = history.scan(op.id).map(|scan| scan.predicate);
            let update = || history.update(op.id).map(|update| update.predicate);
            let summary = || predicates.summary(op.id).map(|asked| asked.predicate);
            scan.or_else(update).or_else(summary).map_or(0, |predicate| predicates.domain(predicate).len())
        };
        let rows: usize = history.txns().flat_map(|txn| history.ops(txn)).map(|op| asked(&op)).sum();
        if rows > LEFT_OUT {
            Err(Why::MissingEvidence(format!(
                "which versions predicates saw of {rows} rows that they asked about: version orders alone leave too much open, timestamps or version sets would tell"
            )))
        } else {
            Ok(())
        }
    }

    /// An order of the nodes, or cycles that the level forbids.
    fn order(&self, graph: &Deps) -> Result<Result<Vec<u32>, Vec<Steps>>, Why> {
        let found = order_or_cycles(graph);
        match (found, self.question.level) {
            (Err(_), Level::ParallelSnapshot) => {
                Ok(match with_one_anti(graph, self.budget).map_err(exhausted)? {
                    cycles if cycles.is_empty() => Ok(Vec::new()),
                    cycles => Err(cycles),
                })
            }
            (found, _) => Ok(found),
        }
    }

    /// The first of some cycles that audit accepts.
    fn violated(&self, graph: &Deps, cycles: &[Steps], seen: &mut Seen<'a>) -> Result<Verdict, Why> {
        let Seen { sights, chains, matches } = seen;
        let prover = Prover { world: &self.world, deps: graph, sights: &sights.all };
        let mut refused = None;
        for cycle in cycles {
            let options = |index: u32, sight: &ObjectSight| match sights.options.get(&index) {
                Some(ranks) => ranks.clone(),
                None if sight.lo == sight.hi && (sight.item || sight.whole && self.pinned(sight)) => {
                    vec![sight.lo]
                }
                None => self.unmatched(sight, chains, matches),
            };
            let Some(lemmas) = prover.lemmas(cycle, options) else { continue };
            match refuted(self.world.history, self.question, lemmas, self.budget) {
                Ok(verdict) => return Ok(verdict),
                Err(why) => _ = refused.get_or_insert(why),
            }
        }
        let many = || Why::MissingEvidence("a cycle through reads of too many possible versions".to_string());
        Err(refused.unwrap_or_else(many))
    }

    fn pinned(&self, sight: &ObjectSight) -> bool {
        self.world.recorded(sight.op, sight.object).is_some()
    }

    fn unmatched(
        &self,
        sight: &ObjectSight,
        chains: &HashMap<ObjectId, Chain>,
        matches: &mut Option<Matches<'a>>,
    ) -> Vec<u32> {
        let history = self.world.history;
        let scan = history.scan(sight.op).map(|scan| scan.predicate);
        let update = || history.update(sight.op).map(|update| update.predicate);
        let counts_nothing = self.world.predicates.counts_nothing(sight.op);
        let summary = || self.world.predicates.summary(sight.op).filter(|_| counts_nothing);
        let predicate = scan.or_else(update).or_else(|| summary().map(|asked| asked.predicate));
        let found = predicate.zip(matches.as_mut()).and_then(|(p, all)| all.of(p, chains).ok());
        let matched = found.and_then(|all| all.iter().find(|m| m.object == sight.object));
        let versions = self.world.orders.of(sight.object).len() as u32 + 1;
        unmatched(matched, versions, self.world.orders.rank(sight.object, sight.txn))
    }

    /// Guesses where a range has holes; the first such sight.
    fn narrow(&self, sights: &mut Sights) -> Option<u32> {
        let mut first = None;
        for &(index, lo, hi) in &sights.guesses {
            let sight = &mut sights.all[index as usize];
            if self.rules.asks(sight) {
                (sight.lo, sight.hi) = (lo, hi);
                first.get_or_insert(index);
            }
        }
        for &(index, lo, hi) in &sights.summed {
            let sight = &mut sights.all[index as usize];
            (sight.lo, sight.hi) = (lo, hi);
            first.get_or_insert(index);
        }
        first
    }

    fn nothing_unexplained(&self, sights: &Sights) -> Result<(), Why> {
        let history = self.world.history;
        match sights.unexplained.first() {
            None => Ok(()),
            Some(case) if history.op(case.op).kind == OpKind::Sql => Err(Why::MissingEvidence(format!(
                "by the recorded orders operation {} of {} was not told what comes out, but what is recorded does not prove it",
                history.op_index(case.op),
                history.show_txn(history.txn_of(case.op))
            ))),
            Some(case) => Err(Why::MissingEvidence(format!(
                "by the recorded orders no version of {} is what operation {} of {} saw, but what is recorded does not prove it",
                history.show_object(case.object),
                history.op_index(case.op),
                history.show_txn(history.txn_of(case.op))
            ))),
        }
    }

    fn ambiguous(&self, sight: &ObjectSight) -> Why {
        let history = self.world.history;
        Why::MissingEvidence(format!(
            "which version of {} operation {} of {} saw",
            history.show_object(sight.object),
            history.op_index(sight.op),
            history.show_txn(sight.txn)
        ))
    }

    fn proved(&self, order: &[u32], sights: &[ObjectSight], guessed: bool) -> Result<Verdict, Why> {
        let rules = self.rules;
        let live = |point: &u32| self.world.taken.get(rules.txn(*point).index()) == Some(&true);
        let points = order.iter().copied().filter(live);
        // Without any cycle parallel snapshot isolation has a serial order; otherwise the order is
        // empty.
        let serial = rules.family == Family::Serial
            || self.question.level == Level::ParallelSnapshot && !order.is_empty();
        let certificate = match serial {
            true => {
                Certificate::Order(Order { txns: points.map(|p| rules.txn(p)).collect(), reads: Vec::new() })
            }
            _ if rules.split => Certificate::Points(points.map(|p| self.point(p)).collect()),
            _ => Certificate::Versions(self.versions(order, sights)),
        };
        let doubtful =
            guessed || matches!(self.question.level, Level::ReadUncommitted | Level::ParallelSnapshot);
        if !doubtful {
            return Ok(Verdict::Holds(certificate));
        }
        match audit_alone_within(self.world.history, self.question, &certificate, self.budget) {
            Ok(()) => {}
            Err(Unaudited::Exhausted(limit)) => return Err(Why::Exhausted(limit, String::new())),
            Err(Unaudited::Rejected(why)) => return Err(Why::MissingEvidence(why.0)),
        }
        Ok(Verdict::Holds(certificate))
    }

    fn point(&self, point: u32) -> Point {
        let txn = self.rules.txn(point);
        if self.rules.is_begin(point) { Point::Begin(txn) } else { Point::Commit(txn) }
    }

    fn versions(&self, order: &[u32], sights: &[ObjectSight]) -> Versions {
        let (history, world) = (self.world.history, &self.world);
        let unknown = |t: &TxnId| world.taken[t.index()] && history.outcome(*t) == Outcome::Unknown;
        let written = history.objects().filter(|&o| world.orders.of(o).len() > 1);
        let mut places = vec![u32::MAX; history.txn_count()];
        for (place, &node) in order.iter().enumerate().filter(|(_, n)| (**n as usize) < history.txn_count()) {
            places[node as usize] = place as u32;
        }
        let reads = if self.rules.reads { sights } else { &[] };
        Versions {
            committed: history.txns().filter(unknown).collect(),
            orders: written.map(|o| (o, world.orders.of(o).to_vec())).collect(),
            reads: reads.iter().filter_map(|sight| self.pick(sight, &places)).collect(),
        }
    }

    /// Which version a sight is said to have seen, where its value does not tell.
    fn pick(&self, sight: &ObjectSight, places: &[u32]) -> Option<ReadFrom> {
        let told = if sight.item { !sight.several } else { sight.hi == 0 };
        if told {
            return None;
        }
        let orders = &self.world.orders;
        let counts = match self.rules.anti {
            Anti::None => false,
            Anti::Items => sight.item,
            Anti::All => true,
        };
        let own = orders.rank(sight.object, sight.txn);
        let before = |rank: &u32| {
            let writer = orders.writer(sight.object, *rank);
            Some(*rank) != own && writer.is_none_or(|w| places[w.index()] < places[sight.txn.index()])
        };
        let rank =
            if counts { (sight.lo..=sight.hi).rev().find(before).unwrap_or(sight.lo) } else { sight.lo };
        let version = orders.version(sight.object, rank);
        Some(ReadFrom { op: sight.op, object: sight.object, version })
    }
}
