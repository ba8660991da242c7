//! Audits a history whose order is recorded, by running each transaction at its timestamps.
//!
//! # Algorithm
//! At a serializable level a transaction runs at its place in the serialization order. At a
//! snapshot level it runs on the state at its snapshot timestamp, and what it wrote appears at its
//! commit timestamp, unless another wrote the same object in between. So only the state at the last
//! moment is kept, and what was written by those that have begun. Each transaction is a history of
//! one transaction for the audit.
//!
//! # Invariants
//! Moments never go back. Session order and real time are held against them where the question uses
//! them.
//!
//! # Differs from the paper
//! Chronos and Aion keep a list of versions for each key, because transactions come in the order of
//! their commits. Here the moments of a stretch of the history are sorted first, and the versions
//! are those of the current moment.
//!
//! # Cost
//! Linear in the operations; a transaction with conditions looks at all rows.

use std::collections::VecDeque;

use hashbrown::HashMap;
use margay_audit::{Unaudited, audit_part};
use margay_certify::Replay;
use margay_history::{History, OpKind};
use margay_levels::Level;
use margay_levels::definition::Family;
use margay_verdict::state::Overlay;
use margay_verdict::{
    Budget, Cell, Certificate, Checker, Finding, Order, Point, Predicates, Question, State, Verdict,
};

use crate::auditor::Unaccepted;
use crate::settled::Change;
use crate::{Settled, Transaction, Trouble};

/// A time, and the order of what happens at that time.
pub(crate) type Moment = (i64, u8);

/// A begin (`false`) or a commit of the transaction of this label.
pub(crate) type Event = (Moment, u64, bool);

/// How many transactions that committed are kept for the account of a violation.
const RECENT: usize = 1_000;

/// What the timestamps prove of what is asked.
#[must_use]
pub(crate) fn asked(question: Question) -> Question {
    let level = match (question.uses_real_time(), question.level.family()) {
        (true, _) => crate::followed(question).unwrap_or(question.level),
        (false, Family::Serial | Family::Snapshot) => question.level,
        (false, _) => Level::SnapshotIsolation,
    };
    Question::new(level)
}

/// When a transaction begins and commits; none if timestamps are missing.
///
/// # Errors
/// Why its timestamps are no order.
pub(crate) fn moments(question: Question, txn: &Transaction) -> Result<Option<(Moment, Moment)>, String> {
    let (stamps, label) = (txn.stamps, txn.label);
    if question.level.family() == Family::Serial {
        return match (stamps.snapshot.or(stamps.commit), stamps.serialization) {
            (Some(_), _) => Err("at this level, only a serialization order is followed".to_owned()),
            (None, place) => Ok(place.map(|ts| ((ts, 2), (ts, 3)))),
        };
    }
    let (Some(snapshot), Some(commit)) = (stamps.snapshot, stamps.commit) else { return Ok(None) };
    match snapshot < commit {
        true => Ok(Some(((snapshot, 1), (commit, 0)))),
        false if snapshot == commit && !txn.writes => Ok(Some(((snapshot, 1), (snapshot, 1)))),
        false => Err(format!("transaction {label} writes, and commits no later than its snapshot")),
    }
}

/// Which timestamps are asked for.
pub(crate) fn missing(question: Question) -> &'static str {
    match question.level.family() {
        Family::Serial => "place in the serialization order",
        _ => "snapshot and commit timestamp",
    }
}

/// What a transaction changes, and the objects that it wrote.
type Effects = (Vec<Change>, Vec<Box<[u8]>>);

/// A transaction that has begun.
struct Begun {
    txn: Transaction,
    commit: Moment,
    changes: Vec<Change>,
    /// The objects that it wrote.
    written: Vec<Box<[u8]>>,
    /// Who wrote one of them and committed meanwhile.
    beaten_by: Option<u64>,
}

/// A transaction that committed.
struct Gone {
    txn: Transaction,
    /// What was there before.
    before: Vec<Change>,
    written: Vec<Box<[u8]>>,
}

/// What ran so far.
pub(crate) struct Stamped {
    question: Question,
    settled: Settled,
    begun: HashMap<u64, Begun>,
    recent: VecDeque<Gone>,
    /// The last moment.
    reached: Option<(Moment, u64)>,
    /// When the last one to begin began, by the clock.
    latest: i64,
    /// By session: the last turn that has begun.
    turns: HashMap<u64, u64>,
    transactions: u64,
    /// The transaction of which a rejection tells, for the account.
    refused: Option<Refused>,
}

/// What was not accepted.
enum Refused {
    Begin(Transaction),
    Overlap(Transaction, u64),
}

impl Stamped {
    /// At the initial state.
    pub fn new(asked: Question, settled: Settled) -> Self {
        Self {
            question: asked,
            settled,
            begun: HashMap::new(),
            recent: VecDeque::new(),
            reached: None,
            latest: i64::MIN,
            turns: HashMap::new(),
            transactions: 0,
            refused: None,
        }
    }

    pub fn question(&self) -> Question {
        self.question
    }

    /// How many transactions committed.
    pub fn transactions(&self) -> u64 {
        self.transactions
    }

    /// How many have begun and not committed.
    pub fn open(&self) -> usize {
        self.begun.len()
    }

    /// When those that have begun commit.
    pub fn commits(&self) -> impl Iterator<Item = (Moment, u64)> + '_ {
        self.begun.values().map(|begun| (begun.commit, begun.txn.label))
    }

    /// The last moment.
    pub fn reached(&self) -> Option<Moment> {
        self.reached.map(|reached| reached.0)
    }

    /// The memory of the state, and of the transactions that are kept.
    pub fn bytes(&self) -> usize {
        let kept =
            self.begun.values().map(|begun| &begun.txn).chain(self.recent.iter().map(|gone| &gone.txn));
        self.settled.bytes() + kept.map(Transaction::bytes).sum::<usize>()
    }

    /// Runs a transaction on what is there now.
    ///
    /// # Errors
    /// Why it cannot have begun now.
    pub fn begin(&mut self, txn: Transaction, budget: &Budget) -> Result<(), Unaccepted> {
        let points = moments(self.question, &txn).map_err(Unaccepted::Rejected)?;
        let missing = || format!("transaction {} has no {}", txn.label, missing(self.question));
        let (begin, commit) = points.ok_or_else(missing).map_err(Unaccepted::Rejected)?;
        self.pass(begin, txn.label)?;
        let turn = self.turns.entry(txn.session).or_default();
        *turn = txn.turn.max(*turn);
        self.latest = self.latest.max(txn.start);
        let history = self.settled.part(std::iter::once((&txn, true)))?;
        let cells = match audit_part(&history, self.question, &alone(&history, self.question), budget) {
            Ok(cells) => cells,
            Err(Unaudited::Rejected(why)) => {
                self.refused = Some(Refused::Begin(txn));
                return Err(Unaccepted::Rejected(why.to_string()));
            }
            Err(Unaudited::Exhausted(limit)) => {
                return Err(Unaccepted::Trouble(Trouble::Outside(limit.to_string())));
            }
        };
        let (changes, written) = self.effects(&history, &cells)?;
        self.begun.insert(txn.label, Begun { txn, commit, changes, written, beaten_by: None });
        Ok(())
    }

    /// What a transaction changes, and which objects it wrote.
    fn effects(&mut self, history: &History, cells: &[Cell]) -> Result<Effects, Unaccepted> {
        let mut changes = Vec::new();
        for (object, cell) in history.objects().zip(cells) {
            if *cell != Cell::Value(history.initial(object)) {
                changes.push(self.settled.change(history, object, cell)?);
            }
        }
        let mut objects: Vec<_> = match history.has_kind(OpKind::Update) {
            true => updated(history).map_err(Unaccepted::Rejected)?,
            false => {
                let ops = history.txns().flat_map(|txn| history.ops(txn));
                let writes = ops.filter(|op| matches!(op.kind, OpKind::Write | OpKind::Append));
                writes.flat_map(|op| op.accesses.iter().map(|access| access.object)).collect()
            }
        };
        objects.sort_unstable();
        objects.dedup();
        let written: Result<_, Trouble> = objects.iter().map(|&o| self.settled.key(history, o)).collect();
        Ok((changes, written?))
    }

    /// What one that has begun wrote appears.
    ///
    /// # Errors
    /// Why it cannot have committed now.
    pub fn commit(&mut self, label: u64) -> Result<(), Unaccepted> {
        let rejected = |why: String| Err(Unaccepted::Rejected(why));
        let Some(Begun { txn, commit, changes, written, beaten_by }) = self.begun.remove(&label) else {
            return rejected(format!("transaction {label} commits without having begun"));
        };
        self.pass(commit, label)?;
        if self.question.uses_session_order() && self.turns.get(&txn.session).is_some_and(|&t| t > txn.turn) {
            return rejected(format!(
                "by its timestamps, a later one of its session begins before {label} commits"
            ));
        }
        let end = txn.end.saturating_add(self.settled.skew());
        if self.question.uses_real_time() && end < self.latest {
            return rejected(format!("transaction {label} had ended before one began that does not see it"));
        }
        if let Some(other) = beaten_by {
            self.refused = Some(Refused::Overlap(txn, other));
            return rejected(format!("transactions {other} and {label} overlap and wrote one object"));
        }
        if self.question.level.family() != Family::Serial {
            for other in
                self.begun.values_mut().filter(|other| other.written.iter().any(|o| written.contains(o)))
            {
                other.beaten_by.get_or_insert(label);
            }
        }
        let before = changes.into_iter().map(|change| self.settled.apply(change)).collect();
        self.recent.push_back(Gone { txn, before, written });
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        self.transactions += 1;
        Ok(())
    }

    /// Time goes on.
    fn pass(&mut self, moment: Moment, label: u64) -> Result<(), Unaccepted> {
        if let Some((reached, other)) = self.reached {
            let same_place = self.question.level.family() == Family::Serial && reached.0 == moment.0;
            if moment < reached || same_place && other != label {
                let why = format!("the timestamps of transaction {label} are no later than those of {other}");
                return Err(Unaccepted::Rejected(why));
            }
        }
        self.reached = Some((moment, label));
        Ok(())
    }

    /// The proof that what was not accepted contradicts the timestamps: a small history, and the
    /// finding about it.
    pub fn violation(&mut self, budget: &Budget) -> Option<(History, Finding)> {
        let window = match self.refused.take()? {
            Refused::Begin(txn) => self.misread(&txn)?,
            Refused::Overlap(txn, other) => {
                let other = &self.recent.iter().find(|gone| gone.txn.label == other)?.txn;
                let both = [txn.unseeing(), other.unseeing()];
                let blind = !both.iter().any(|txn| txn.searches);
                blind.then(|| self.settled.window(&both, &HashMap::new()))?.ok()?
            }
        };
        match Replay.check(&window, self.question, budget) {
            Verdict::Violated(findings) => Some((window, findings.into_iter().next()?)),
            _ => None,
        }
    }

    /// A transaction that saw something else than was there, with those that wrote what it names.
    fn misread(&mut self, txn: &Transaction) -> Option<History> {
        let part = self.settled.part(std::iter::once((txn, true))).ok()?;
        let keys: Vec<_> =
            part.objects().map(|o| self.settled.key(&part, o)).collect::<Result<_, _>>().ok()?;
        let touch = |gone: &&Gone| gone.written.iter().any(|object| keys.contains(object));
        let writers: Vec<&Gone> = self.recent.iter().filter(touch).collect();
        if txn.searches || writers.iter().any(|gone| gone.txn.searches) {
            return self.settled.window(std::slice::from_ref(txn), &HashMap::new()).ok();
        }
        let mut before = HashMap::new();
        for change in writers.iter().rev().flat_map(|gone| &gone.before) {
            before.insert(change.key(), change.pair());
        }
        let mut txns: Vec<Transaction> = writers.iter().map(|gone| gone.txn.unseeing()).collect();
        txns.push(txn.clone());
        self.settled.window(&txns, &before).ok()
    }
}

/// The certificate of a history of one transaction.
fn alone(history: &History, question: Question) -> Certificate {
    let txns: Vec<_> = history.txns().collect();
    match question.level.family() {
        Family::Serial => Certificate::Order(Order { txns, reads: Vec::new() }),
        _ => Certificate::Points(txns.iter().flat_map(|&t| [Point::Begin(t), Point::Commit(t)]).collect()),
    }
}

/// The objects that predicate updates wrote, and the others.
fn updated(history: &History) -> Result<Vec<margay_history::ObjectId>, String> {
    let predicates = Predicates::compile(history).map_err(|outside| outside.0)?;
    let state = State::initial(&predicates);
    let mut view = Overlay::new(&state);
    for op in history.txns().flat_map(|txn| history.ops(txn)) {
        view.run(&op).map_err(|fault| fault.show(history))?;
    }
    Ok(view.into_effects().into_iter().map(|effect| effect.0).collect())
}
