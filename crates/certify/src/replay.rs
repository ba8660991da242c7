//! The engine **replay**: the database told its order, so run it.
//!
//! # Problem
//! A database that knows its serialization order, or at snapshot isolation its snapshot and commit
//! timestamps, says with them what every operation must have seen.
//!
//! # Algorithm
//! Enne (section 6, Algorithm 4). Serializable levels: transactions one after the other
//! ([`Replayer`]). Snapshot levels: begin and commit points by their timestamps; a transaction runs
//! on the state at its begin, and its writes appear at its commit, unless another wrote the same
//! object in between. Histories of SQL statements run on the interpreter (`statements`, with the
//! feature `sql`); aggregates among operations on rows are computed from the rows that match.
//!
//! # Invariants
//! - `holds` carries the order that was replayed. `violated` carries lemmas (`blame`) that audit
//!   has accepted: a mismatch is a violation *given the evidence*, and where no certificate can say
//!   so, the answer is that evidence is missing.
//! - A serial order proves every weaker level; that it fails refutes none of them.
//!
//! # Differs from the paper
//! Enne takes the order for granted and calls every mismatch an anomaly. Here session order, real
//! time, and recorded version orders are held against it as well, and transactions of unknown
//! outcome run if the order has them.
//!
//! # Cost
//! Linear; a predicate looks at the rows in its range (`store`).

use margay_audit::{Unaudited, audit_within, with_included, without_instants};
use margay_history::{History, ObjectId, OpKind, Outcome, TxnId, Version};
use margay_levels::definition::Family;
use margay_verdict::{
    Budget, Certificate, Checker, Effect, Fault, Finding, Lemma, Order, Point, Predicates, Question, Reason,
    Stamp, Verdict, Why, name,
};

use crate::blame::{Misfit, Recorded, against, lemmas};
use crate::local::local;
use crate::replayer::{Halt, Refused, Replayer, show};
use crate::sights::Unexplained;
use crate::store::{Own, Store};

/// The engine: replay of a recorded order. See the [crate documentation](crate).
#[derive(Clone, Copy, Default, Debug)]
pub struct Replay;

impl Checker for Replay {
    fn name(&self) -> &'static str {
        "replay"
    }

    fn check(&self, history: &History, question: Question, budget: &Budget) -> Verdict {
        let answer = |question| run(history, question, budget).unwrap_or_else(Verdict::Unknown);
        without_instants(history, question, budget, |question| {
            with_included(history, question, budget, answer)
        })
    }
}

fn run(history: &History, question: Question, budget: &Budget) -> Result<Verdict, Why> {
    let snapshot = question.level.family() == Family::Snapshot;
    let points = if snapshot { snapshot_points(history)? } else { serial_points(history)? };
    let predicates = match Predicates::compile(history) {
        Ok(predicates) => predicates,
        #[cfg(feature = "sql")]
        Err(_) if history.has_kind(OpKind::Sql) => {
            return crate::statements::run(history, question, budget, &points);
        }
        Err(outside) => return Err(Why::Outside(outside.0)),
    };
    let recorded = if snapshot { Recorded::Snapshot } else { Recorded::Serial };
    let case = Case { history, question, budget, predicates: &predicates, points, recorded };
    match case.orders().or_else(|| case.versions()) {
        Some(lemmas) => case.refuted(lemmas, "the recorded orders contradict each other"),
        None if snapshot => case.snapshots(),
        None => case.serial(),
    }
}

fn missing<T>(history: &History, what: &str, txn: TxnId) -> Result<T, Why> {
    Err(Why::MissingEvidence(format!("no {what} of {}", history.show_txn(txn))))
}

/// Every transaction begins and commits at once, in the serialization order.
fn serial_points(history: &History) -> Result<Vec<Point>, Why> {
    let evidence = history.evidence();
    let mut order: Vec<(i64, TxnId)> = Vec::with_capacity(evidence.serializations.len());
    for txn in history.txns().filter(|&t| history.outcome(t) != Outcome::Aborted) {
        match (evidence.serialization(txn), history.outcome(txn)) {
            (Some(ts), _) => order.push((ts, txn)),
            (None, Outcome::Committed) => return missing(history, "place in the serialization order", txn),
            (None, _) => {}
        }
    }
    order.sort_unstable();
    match order.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(Why::MissingEvidence(format!(
            "{} and {} have the same place in the serialization order",
            history.show_txn(pair[0].1),
            history.show_txn(pair[1].1)
        ))),
        None => Ok(order.iter().flat_map(|&(_, txn)| [Point::Begin(txn), Point::Commit(txn)]).collect()),
    }
}

/// Begin points behind the commits that their snapshots have, commits in the order of their
/// timestamps.
fn snapshot_points(history: &History) -> Result<Vec<Point>, Why> {
    let evidence = history.evidence();
    // At one time commits come first, then begins, then the commits of what began at its own
    // commit's time.
    let mut points: Vec<(i64, u8, TxnId)> = Vec::with_capacity(2 * evidence.commits.len());
    for txn in history.txns().filter(|&t| history.outcome(t) != Outcome::Aborted) {
        let committed = history.outcome(txn) == Outcome::Committed;
        match (evidence.snapshot(txn), evidence.commit(txn)) {
            (Some(snapshot), Some(commit)) if commit > snapshot => {
                points.extend([(snapshot, 1, txn), (commit, 0, txn)]);
            }
            (Some(snapshot), Some(_)) => points.extend([(snapshot, 2, txn), (snapshot, 3, txn)]),
            (None, _) if committed => return missing(history, "snapshot timestamp", txn),
            (_, None) if committed => return missing(history, "commit timestamp", txn),
            _ => {}
        }
    }
    points.sort_unstable();
    let point = |&(_, kind, txn): &(i64, u8, TxnId)| match kind {
        1 | 2 => Point::Begin(txn),
        _ => Point::Commit(txn),
    };
    Ok(points.iter().map(point).collect())
}

struct Case<'a> {
    history: &'a History,
    question: Question,
    budget: &'a Budget,
    predicates: &'a Predicates<'a>,
    points: Vec<Point>,
    recorded: Recorded,
}

/// What a transaction did, in order.
type Writes = Vec<(ObjectId, Effect)>;

/// What a snapshot replay did not accept.
enum Stop {
    Halt(Halt),
    /// The second wrote the object between the first one's begin and commit.
    Conflict(TxnId, TxnId, ObjectId),
    Why(Why),
}

impl Case<'_> {
    /// The order of the points against session order and real time.
    fn orders(&self) -> Option<Vec<Lemma>> {
        let history = self.history;
        let mut begun: Vec<Option<TxnId>> = vec![None; history.session_count()];
        let mut latest: Option<(i64, TxnId)> = None;
        for point in &self.points {
            match *point {
                Point::Begin(txn) => {
                    let place = &mut begun[history.session_of(txn).index()];
                    *place = (*place).max(Some(txn));
                    latest = latest.max(history.start(txn).map(|start| (start, txn)));
                }
                Point::Commit(txn) => {
                    let later = begun[history.session_of(txn).index()].filter(|&later| later > txn);
                    let after = latest.map(|l| l.1).filter(|&later| history.precedes(txn, later));
                    if let Some(later) = later.filter(|_| self.question.uses_session_order()) {
                        return Some(against(txn, later, Reason::Session, self.earlier()));
                    }
                    if let Some(later) = after.filter(|_| self.question.uses_real_time()) {
                        return Some(against(txn, later, Reason::RealTime, self.earlier()));
                    }
                }
            }
        }
        None
    }

    /// The timestamps that let one begin before another commits.
    fn earlier(&self) -> Stamp {
        match self.recorded {
            Recorded::Serial => Stamp::Serialization,
            Recorded::Snapshot => Stamp::Outside,
        }
    }

    /// The order of the commits against recorded version orders and commit timestamps.
    fn versions(&self) -> Option<Vec<Lemma>> {
        let evidence = self.history.evidence();
        let stamp = match self.recorded {
            Recorded::Serial => Stamp::Serialization,
            Recorded::Snapshot => Stamp::Commit,
        };
        let mut places = vec![None; self.history.txn_count()];
        for (place, point) in self.points.iter().enumerate() {
            if let Point::Commit(txn) = *point {
                places[txn.index()] = Some(place);
            }
        }
        evidence.version_orders.iter().find_map(|order| {
            let writers = order.versions.iter().filter_map(|version| match version {
                Version::Of(txn) => Some((places[txn.index()]?, *txn)),
                Version::Initial => None,
            });
            let writers: Vec<_> = writers.collect();
            let pair = writers.windows(2).find(|pair| pair[0].0 > pair[1].0)?;
            Some(against(pair[0].1, pair[1].1, Reason::Write { object: order.object }, stamp))
        })
    }

    fn refuted(&self, lemmas: Vec<Lemma>, what: &str) -> Result<Verdict, Why> {
        if !matches!(self.question.level.family(), Family::Serial | Family::Snapshot) {
            return Err(Why::MissingEvidence(format!("another order than the recorded one: {what}")));
        }
        let anomaly = name(self.history, self.question.level, &lemmas);
        let mut txns: Vec<TxnId> = lemmas.iter().flat_map(|l| l.edges.iter().map(|edge| edge.from)).collect();
        txns.sort_unstable();
        txns.dedup();
        let certificate = Certificate::Refutation(lemmas);
        match audit_within(self.history, self.question, &certificate, self.budget) {
            Ok(()) => Ok(Verdict::Violated(vec![Finding { anomaly, txns, certificate }])),
            Err(why) => {
                Err(Why::MissingEvidence(format!("{what}, but what is recorded does not prove it: {why}")))
            }
        }
    }

    /// A mismatch: by single operations if they show it, or by the recorded order.
    fn mismatch(&self, halt: &Halt) -> Result<Verdict, Why> {
        let unexplained = [Unexplained { op: halt.op, object: halt.object }];
        if let Some(finding) = local(self.history, self.question, &unexplained, self.budget) {
            return Ok(Verdict::Violated(vec![finding]));
        }
        if self.history.op(halt.op).kind == OpKind::Sql {
            return Err(Why::MissingEvidence(format!(
                "operation {} of {} was told {} where {} comes out, but what is recorded does not prove it",
                self.history.op_index(halt.op),
                self.history.show_txn(self.history.txn_of(halt.op)),
                halt.observed,
                halt.expected
            )));
        }
        let reader = self.history.txn_of(halt.op);
        let misfit = Misfit { op: halt.op, reader, object: halt.object, version: halt.version };
        let what = format!(
            "operation {} of {} saw of {} {} where {} was",
            self.history.op_index(halt.op),
            self.history.show_txn(reader),
            self.history.show_object(halt.object),
            halt.observed,
            halt.expected
        );
        self.refuted(self.needed(lemmas(self.history, self.recorded, &misfit)), &what)
    }

    /// One lemma if one is enough, or else all that are needed together.
    fn needed(&self, lemmas: Vec<Lemma>) -> Vec<Lemma> {
        let alone = |lemma: &&Lemma| {
            let alone = Certificate::Refutation(vec![(*lemma).clone()]);
            audit_within(self.history, self.question, &alone, self.budget).is_ok()
        };
        match lemmas.iter().take(16).find(alone) {
            Some(lemma) => vec![lemma.clone()],
            None => lemmas,
        }
    }

    fn serial(&self) -> Result<Verdict, Why> {
        let mut replayer = Replayer::new(self.predicates);
        let mut stamps = Stamps::new(self.history);
        let mut txns = Vec::with_capacity(self.points.len() / 2);
        for point in &self.points {
            let Point::Commit(txn) = *point else { continue };
            self.budget.poll().map_err(|limit| Why::Exhausted(limit, format!("{} replayed", txns.len())))?;
            match replayer.feed(txn) {
                Ok(()) => txns.push(txn),
                Err(Refused::Outside(outside)) => return Err(Why::Outside(outside.0)),
                Err(Refused::Halt(halt)) => return self.mismatch(&halt),
            }
            if let Some((later, object)) = stamps.wrote(self.history, txn, replayer.changed()) {
                let lemmas = against(txn, later, Reason::Write { object }, Stamp::Serialization);
                return self.refuted(lemmas, "commit timestamps are against the serialization order");
            }
        }
        Ok(Verdict::Holds(Certificate::Order(Order { txns, reads: Vec::new() })))
    }

    fn snapshots(&self) -> Result<Verdict, Why> {
        match self.walk() {
            Ok(()) => {
                let certificate = Certificate::Points(self.points.clone());
                if !self.is_open() {
                    return Ok(Verdict::Holds(certificate));
                }
                match audit_within(self.history, self.question, &certificate, self.budget) {
                    Ok(()) => Ok(Verdict::Holds(certificate)),
                    Err(Unaudited::Exhausted(limit)) => Err(Why::Exhausted(limit, "audited".to_owned())),
                    Err(Unaudited::Rejected(why)) => Err(Why::MissingEvidence(why.0)),
                }
            }
            Err(Stop::Why(why)) => Err(why),
            Err(Stop::Halt(halt)) => self.mismatch(&halt),
            Err(Stop::Conflict(txn, other, object)) => {
                let lemmas = against(other, txn, Reason::Write { object }, Stamp::Outside);
                self.refuted(lemmas, "two transactions that overlap wrote one object")
            }
        }
    }

    /// Whether timestamps leave open what only audit asks about: two commits at one time, or one
    /// that is not after its snapshot.
    fn is_open(&self) -> bool {
        let evidence = self.history.evidence();
        let commits = self.points.iter().filter_map(|point| match *point {
            Point::Commit(txn) => Some((evidence.commit(txn)?, evidence.snapshot(txn)?)),
            Point::Begin(_) => None,
        });
        let commits: Vec<(i64, i64)> = commits.collect();
        let apart = commits.windows(2).all(|pair| pair[0].0 < pair[1].0);
        !(apart && commits.iter().all(|(commit, snapshot)| commit > snapshot))
    }

    fn walk(&self) -> Result<(), Stop> {
        let history = self.history;
        let mut state = Store::new(self.predicates);
        let mut last = vec![(Version::Initial, 0); history.object_count()];
        let mut pending: Vec<(usize, Writes)> = vec![(0, Writes::new()); history.txn_count()];
        for (place, point) in self.points.iter().enumerate() {
            self.budget.poll().map_err(|limit| Stop::Why(Why::Exhausted(limit, String::new())))?;
            match *point {
                Point::Begin(txn) => {
                    pending[txn.index()] = (place, self.on_snapshot(txn, &state, &last)?);
                }
                Point::Commit(txn) => {
                    let (begin, writes) = std::mem::take(&mut pending[txn.index()]);
                    for (object, effect) in writes {
                        let before = &mut last[object.index()];
                        if let (Version::Of(other), at) = *before
                            && at > begin
                            && other != txn
                        {
                            return Err(Stop::Conflict(txn, other, object));
                        }
                        *before = (Version::Of(txn), place);
                        state.change(object, &effect);
                    }
                }
            }
        }
        Ok(())
    }

    fn on_snapshot(&self, txn: TxnId, state: &Store<'_>, last: &[(Version, usize)]) -> Result<Writes, Stop> {
        let mut view = Own::new(state);
        for op in self.history.ops(txn) {
            let own = |object| if view.wrote(object) { Version::Of(txn) } else { last[object.index()].0 };
            let set = self.history.evidence().version_set(op.id);
            let wrong = set.and_then(|set| set.versions.iter().find(|v| own(v.0) != v.1));
            if let Some(&(object, version)) = wrong {
                let (expected, observed) =
                    (show(self.predicates, own(object)), show(self.predicates, version));
                return Err(Stop::Halt(Halt { op: op.id, object, version: own(object), expected, observed }));
            }
            match view.run(&op) {
                Ok(()) => {}
                Err(Fault::Outside(outside)) => return Err(Stop::Why(Why::Outside(outside.0))),
                Err(Fault::Mismatch(m)) => {
                    let own =
                        |object| if view.wrote(object) { Version::Of(txn) } else { last[object.index()].0 };
                    return Err(Stop::Halt(Halt {
                        op: m.op,
                        object: m.object,
                        version: own(m.object),
                        expected: m.expected,
                        observed: m.observed,
                    }));
                }
            }
        }
        Ok(view.into_effects())
    }
}

/// The highest commit timestamp among the writers of each object; empty when there are none.
struct Stamps(Vec<Option<(i64, TxnId)>>);

impl Stamps {
    fn new(history: &History) -> Self {
        let objects = if history.evidence().commits.is_empty() { 0 } else { history.object_count() };
        Self(vec![None; objects])
    }

    /// An earlier writer of something that the transaction wrote, with a later commit timestamp.
    fn wrote(&mut self, history: &History, txn: TxnId, changed: &[ObjectId]) -> Option<(TxnId, ObjectId)> {
        let ts = history.evidence().commit(txn).filter(|_| !self.0.is_empty())?;
        for &object in changed {
            let latest = &mut self.0[object.index()];
            match *latest {
                Some((highest, other)) if ts < highest => return Some((other, object)),
                _ => *latest = Some((ts, txn)),
            }
        }
        None
    }
}
