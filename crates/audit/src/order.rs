//! A total order of the transactions.
//!
//! For the serializable levels the order is serial: audit replays it and compares every observation
//! with the state. An order that replays proves every level that serializability (with session
//! order or real time as asked) implies. For `be-read-committed`, `read-atomic` and `causal` an
//! order that does not replay may still be a commit order: [`super::axioms`] decides.
//!
//! # Cost
//! Linear in the history; a scan looks at every object of its table.

use margay_history::{History, ObjectId, Op, TxnId, Version, VersionOrder};
use margay_levels::Level;
use margay_levels::definition::Family;
use margay_verdict::state::effects;
use margay_verdict::{Budget, Cell, Order, Point, Predicates, Question, State};

use super::precedence::Precedence;
use super::{Rejected, axioms, committed_set, points, reject};

pub(super) fn audit(
    history: &History,
    question: Question,
    order: &Order,
    budget: &Budget,
) -> Result<(), Rejected> {
    committed_set(history, order.txns.iter().copied())?;
    match question.level.family() {
        Family::Snapshot => points::audit(history, question, &as_points(&order.txns), budget),
        Family::CommitOrder(_) if question.level != Level::Prefix => {
            replay(history, question, &order.txns, budget)
                .map(drop)
                .or_else(|_| axioms::audit(history, question, order, budget))
        }
        _ => replay(history, question, &order.txns, budget).map(drop),
    }
}

/// Every transaction commits where it begins.
fn as_points(txns: &[TxnId]) -> Vec<Point> {
    txns.iter().flat_map(|&txn| [Point::Begin(txn), Point::Commit(txn)]).collect()
}

/// Runs the transactions one after the other; answers what every object holds then.
pub(super) fn replay(
    history: &History,
    question: Question,
    txns: &[TxnId],
    budget: &Budget,
) -> Result<Vec<Cell>, Rejected> {
    let predicates = Predicates::compile(history)?.within(budget);
    let mut state = State::initial(&predicates);
    let mut precedence = Precedence::new(history, question);
    let mut evidence = Writers::new(history, txns)?;
    if question.level.family() == Family::Serial {
        follows_serialization(history, txns)?;
    }
    for &txn in txns {
        precedence.begin(txn);
        precedence.commit(txn)?;
        for op in history.ops(txn) {
            budget.poll()?;
            evidence.look(&op)?;
            evidence.change(&predicates, &state, &op)?;
            state.run(&op).map_err(|fault| Rejected(fault.show(history)))?;
        }
    }
    Ok(state.into_cells())
}

fn follows_serialization(history: &History, txns: &[TxnId]) -> Result<(), Rejected> {
    let stamped = |&txn: &TxnId| history.evidence().serialization(txn).map(|ts| (ts, txn));
    if history.evidence().serializations.is_empty() {
        return Ok(());
    }
    let stamps: Vec<_> = txns.iter().filter_map(stamped).collect();
    match stamps.windows(2).find(|pair| pair[0].0 > pair[1].0) {
        Some(pair) => reject(format!(
            "{} comes before {}, against the recorded serialization order",
            history.show_txn(pair[0].1),
            history.show_txn(pair[1].1)
        )),
        None => Ok(()),
    }
}

/// The places of the versions that evidence names follow its version order.
pub(super) fn follows_version_order(
    history: &History,
    order: &VersionOrder,
    place: impl Fn(TxnId) -> Option<usize>,
) -> Result<(), Rejected> {
    let writers = order.versions.iter().filter_map(|version| match version {
        Version::Of(txn) => Some((place(*txn)?, *txn)),
        Version::Initial => None,
    });
    let places: Vec<_> = writers.collect();
    match places.windows(2).find(|pair| pair[0].0 > pair[1].0) {
        Some(pair) => reject(format!(
            "{} wrote {} before {}, against the recorded version order",
            history.show_txn(pair[1].1),
            history.show_object(order.object),
            history.show_txn(pair[0].1)
        )),
        None => Ok(()),
    }
}

/// Holds what evidence says of versions against a replay: version orders, commit timestamps, and
/// version sets.
pub(super) struct Writers<'h> {
    history: &'h History,
    /// The last writer of each object; empty when evidence does not ask.
    last: Vec<Version>,
    /// The highest commit timestamp among the writers of each object.
    stamps: Vec<i64>,
}

impl<'h> Writers<'h> {
    /// `order` is the order in which versions appear.
    pub(super) fn new(history: &'h History, order: &[TxnId]) -> Result<Self, Rejected> {
        let evidence = history.evidence();
        let asked = !(evidence.version_sets.is_empty() && evidence.commits.is_empty());
        let objects = if asked { history.object_count() } else { 0 };
        if !evidence.version_orders.is_empty() {
            let mut places = vec![None; history.txn_count()];
            order.iter().enumerate().for_each(|(place, txn)| places[txn.index()] = Some(place));
            let follows = |order| follows_version_order(history, order, |txn| places[txn.index()]);
            evidence.version_orders.iter().try_for_each(follows)?;
        }
        Ok(Self { history, last: vec![Version::Initial; objects], stamps: vec![i64::MIN; objects] })
    }

    /// The last writer of an object; meaningful only where evidence asks.
    pub(super) fn last(&self, object: ObjectId) -> Version {
        self.last.get(object.index()).copied().unwrap_or(Version::Initial)
    }

    /// Whether the operation sees what evidence says that it saw.
    fn look(&self, op: &Op<'_>) -> Result<(), Rejected> {
        self.look_over(op, |object| self.last(object))
    }

    /// As told by `seen`, the writer of what the operation sees of an object.
    pub(super) fn look_over(&self, op: &Op<'_>, seen: impl Fn(ObjectId) -> Version) -> Result<(), Rejected> {
        let Some(set) = self.history.evidence().version_set(op.id) else { return Ok(()) };
        match set.versions.iter().find(|&&(object, version)| seen(object) != version) {
            Some(&(object, _)) => reject(format!(
                "{} saw another version of {} than the recorded one",
                self.history.show_txn(self.history.txn_of(op.id)),
                self.history.show_object(object)
            )),
            None => Ok(()),
        }
    }

    fn change(
        &mut self,
        predicates: &Predicates<'_>,
        state: &State<'_>,
        op: &Op<'_>,
    ) -> Result<(), Rejected> {
        if self.last.is_empty() || !op.kind.writes() {
            return Ok(());
        }
        let txn = self.history.txn_of(op.id);
        effects(predicates, op, state)?.iter().try_for_each(|(object, _)| self.wrote(*object, txn))
    }

    /// A version appears.
    pub(super) fn wrote(&mut self, object: ObjectId, txn: TxnId) -> Result<(), Rejected> {
        if self.last.is_empty() {
            return Ok(());
        }
        self.last[object.index()] = Version::Of(txn);
        let Some(ts) = self.history.evidence().commit(txn) else { return Ok(()) };
        let latest = &mut self.stamps[object.index()];
        if ts < *latest {
            return reject(format!(
                "{} writes {} after a transaction with a later commit timestamp",
                self.history.show_txn(txn),
                self.history.show_object(object)
            ));
        }
        *latest = ts;
        Ok(())
    }
}
