//! Audits a history part by part.
//!
//! # Algorithm
//! A part is some transactions and their order, or their begin and commit points. The audit of
//! whole histories replays it on the state after the parts before it. What is left to be checked is
//! that no transaction belongs before an earlier part: by real time, if it had ended before one of
//! those began; by session order, if one of those came later in its session.

use hashbrown::{HashMap, HashSet};
use margay_audit::{Unaudited, audit_part};
use margay_follow::unnoticed;
use margay_history::{History, Op, Outcome, TxnId, ValueId};
use margay_levels::Level;
use margay_verdict::{Budget, Certificate, Order, Point, Question};

use crate::perhaps::{Member, Perhaps, Step, number};
use crate::{Change, Settled, Transaction, Trouble};

/// In which order the transactions of a part take effect, by their labels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// One after the other.
    Order(Vec<u64>),
    /// Begins (`true`) and commits.
    Points(Vec<(bool, u64)>),
    /// The same, by timestamps. Here a transaction may begin in one part and commit in a later one.
    Stamped(Vec<(bool, u64)>),
    /// One took effect in an earlier part, which had been settled without it: directly after a
    /// step, or before all.
    Late(u64, Option<Step>),
}

impl Part {
    /// The transactions, each once.
    pub fn labels(&self) -> impl Iterator<Item = u64> + '_ {
        let (order, points) = match self {
            Part::Order(order) => (&order[..], &[][..]),
            Part::Points(points) | Part::Stamped(points) => (&[][..], &points[..]),
            Part::Late(..) => (&[][..], &[][..]),
        };
        let begun = points.iter().filter(|point| point.0).map(|point| point.1);
        order.iter().copied().chain(begun)
    }

    /// A certificate's, if it is of a kind that has parts.
    pub(crate) fn of(history: &History, certificate: &Certificate) -> Option<Self> {
        let label = |txn: TxnId| history.txn_label(txn);
        match certificate {
            Certificate::Order(order) => Some(Part::Order(order.txns.iter().map(|&t| label(t)).collect())),
            Certificate::Points(points) => {
                let point = |point: &Point| match *point {
                    Point::Begin(txn) => (true, label(txn)),
                    Point::Commit(txn) => (false, label(txn)),
                };
                Some(Part::Points(points.iter().map(point).collect()))
            }
            _ => None,
        }
    }

    /// The certificate about a history that has these transactions.
    #[must_use]
    pub fn certificate(&self, history: &History) -> Option<Certificate> {
        let txns: HashMap<u64, TxnId> = history.txns().map(|txn| (history.txn_label(txn), txn)).collect();
        let find = |label: &u64| txns.get(label).copied();
        match self {
            Part::Order(order) => {
                let txns: Option<Vec<TxnId>> = order.iter().map(find).collect();
                Some(Certificate::Order(Order { txns: txns?, reads: Vec::new() }))
            }
            Part::Points(points) | Part::Stamped(points) => {
                let point = |(begins, label): &(bool, u64)| {
                    find(label).map(if *begins { Point::Begin } else { Point::Commit })
                };
                points.iter().map(point).collect::<Option<_>>().map(Certificate::Points)
            }
            Part::Late(..) => None,
        }
    }

    /// How many steps it has.
    pub(crate) fn len(&self) -> usize {
        match self {
            Part::Order(order) => order.len(),
            Part::Points(points) | Part::Stamped(points) => points.len(),
            Part::Late(..) => 0,
        }
    }

    /// The step at a place. Of an order, all commit.
    pub(crate) fn step(&self, place: usize) -> Option<Step> {
        match self {
            Part::Order(order) => order.get(place).map(|&label| (false, label)),
            Part::Points(points) | Part::Stamped(points) => points.get(place).copied(),
            Part::Late(..) => None,
        }
    }

    /// Puts a transaction directly after a step, or before all.
    fn insert(&mut self, label: u64, after: Option<Step>) {
        let place = match after {
            Some(step) => (0..self.len()).rev().find(|&place| self.step(place) == Some(step)).map(|p| p + 1),
            None => Some(0),
        };
        let Some(place) = place else { return };
        match self {
            Part::Order(order) => order.insert(place, label),
            Part::Points(points) | Part::Stamped(points) => {
                points.splice(place..place, [(true, label), (false, label)]);
            }
            Part::Late(..) => {}
        }
    }

    /// The same with transactions that took effect late at their places.
    pub(crate) fn with(mut self, late: &HashMap<Step, Vec<u64>>) -> Self {
        if late.is_empty() {
            return self;
        }
        let found: Vec<(Step, u64)> = (0..self.len())
            .filter_map(|place| self.step(place))
            .filter_map(|step| late.get(&step).map(|labels| (step, labels)))
            .flat_map(|(step, labels)| labels.iter().map(move |&label| (step, label)))
            .collect();
        found.into_iter().for_each(|(step, label)| self.insert(label, Some(step)));
        self
    }

    /// The same without stand-ins, and their numbers.
    pub(crate) fn without_stand_ins(self) -> (Self, Vec<usize>) {
        let numbers: Vec<usize> = self.labels().filter_map(number).collect();
        let is_real = |label: u64| number(label).is_none();
        let part = match self {
            Part::Order(mut order) => {
                order.retain(|&label| is_real(label));
                Part::Order(order)
            }
            Part::Points(mut points) => {
                points.retain(|&(_, label)| is_real(label));
                Part::Points(points)
            }
            other => other,
        };
        (part, numbers)
    }

    /// Appends another part of the same kind.
    pub fn extend(&mut self, other: Part) {
        match (self, other) {
            (all, Part::Late(label, after)) => all.insert(label, after),
            (Part::Order(all), Part::Order(more)) => all.extend(more),
            (Part::Points(all), Part::Points(more)) | (Part::Stamped(all), Part::Stamped(more)) => {
                all.extend(more);
            }
            _ => {}
        }
    }

    /// The longest beginning that leaves out at least so many transactions, ends before a step, and
    /// in which all that begin commit.
    pub(crate) fn split(self, leave: usize, before: usize) -> Part {
        match self {
            Part::Order(mut order) => {
                order.truncate(order.len().saturating_sub(leave).min(before));
                Part::Order(order)
            }
            Part::Points(mut points) => {
                let most = points.len().saturating_sub(2 * leave).min(before);
                let (mut open, mut whole) = (0usize, 0);
                for (place, &(begins, _)) in points[..most].iter().enumerate() {
                    open = if begins { open + 1 } else { open - 1 };
                    whole = if open == 0 { place + 1 } else { whole };
                }
                points.truncate(whole);
                Part::Points(points)
            }
            // Nothing is held back: timestamps say what comes first.
            other => other,
        }
    }
}

/// Why a part is not accepted.
#[derive(Debug)]
pub enum Unaccepted {
    /// It proves nothing.
    Rejected(String),
    /// The lines are ill-formed, or the budget has ended.
    Trouble(Trouble),
}

impl From<Trouble> for Unaccepted {
    fn from(trouble: Trouble) -> Self {
        Unaccepted::Trouble(trouble)
    }
}

/// What was audited so far.
pub struct Auditor {
    question: Question,
    settled: Settled,
    /// When the last one to begin began.
    latest: i64,
    /// By session: the last turn.
    turns: HashMap<u64, u64>,
    transactions: u64,
    /// How many steps parts have had, and the last of them.
    steps: u64,
    last: Option<Step>,
}

impl Auditor {
    /// Nothing was audited. The level is one of [`crate::followed`].
    ///
    /// # Errors
    /// When the header is none.
    pub fn new(level: Level, header: &[u8]) -> Result<Self, Trouble> {
        let settled = Settled::new(header)?;
        let question = Question::new(level);
        let turns = HashMap::new();
        Ok(Self { question, settled, latest: i64::MIN, turns, transactions: 0, steps: 0, last: None })
    }

    /// Transactions that are no further apart than this may change places.
    ///
    /// # Errors
    /// When the header cannot be written.
    pub fn within(self, horizon: i64) -> Result<Self, Trouble> {
        Ok(Self { settled: self.settled.within(horizon)?, ..self })
    }

    /// What is proved.
    #[must_use]
    pub fn question(&self) -> Question {
        self.question
    }

    /// The state after all parts.
    #[must_use]
    pub fn settled(&self) -> &Settled {
        &self.settled
    }

    /// How many transactions were in parts.
    #[must_use]
    pub fn transactions(&self) -> u64 {
        self.transactions
    }

    /// Whether it, or a later one of its session, is in a part: then it can be in none any more.
    #[must_use]
    pub fn is_past(&self, txn: &Transaction) -> bool {
        self.turns.get(&txn.session).is_some_and(|&turn| turn >= txn.turn)
    }

    /// The last turn of a session that is in a part.
    #[must_use]
    pub fn turn(&self, session: u64) -> u64 {
        self.turns.get(&session).copied().unwrap_or_default()
    }

    /// Audits the next part, of exactly these transactions.
    ///
    /// # Errors
    /// Why it is not accepted.
    pub fn part(&mut self, txns: &[&Transaction], part: &Part, budget: &Budget) -> Result<(), Unaccepted> {
        self.part_without(txns, part, &[], budget)
    }

    /// The same; others of unknown outcome are not in it, but may have taken effect in it.
    ///
    /// # Errors
    /// Why it is not accepted.
    pub(crate) fn part_without(
        &mut self,
        txns: &[&Transaction],
        part: &Part,
        others: &[&Transaction],
        budget: &Budget,
    ) -> Result<(), Unaccepted> {
        let mut sorted = txns.to_vec();
        sorted.sort_unstable_by_key(|txn| (txn.session, txn.turn));
        sorted.iter().try_for_each(|txn| self.follows(txn))?;
        let (history, stand_ins) = self.history(&sorted, others)?;
        let unnamed = || Unaccepted::Rejected("a transaction that is not there".to_owned());
        let certificate = part.certificate(&history).ok_or_else(unnamed)?;
        let cells = audit_part(&history, self.question, &certificate, budget).map_err(|why| match why {
            Unaudited::Rejected(why) => Unaccepted::Rejected(why.to_string()),
            Unaudited::Exhausted(limit) => Unaccepted::Trouble(Trouble::Outside(limit.to_string())),
        })?;
        self.settled.take_over(&history, &cells)?;
        let unknown: HashSet<u64> =
            sorted.iter().filter(|txn| txn.outcome == Outcome::Unknown).map(|txn| txn.label).collect();
        self.leave_open(&history, (part, &certificate), others, &stand_ins)?;
        if !unknown.is_empty() {
            self.settled.open.settled(|label| unknown.contains(&label));
        }
        for txn in sorted {
            self.latest = self.latest.max(txn.start);
            self.turns.insert(txn.session, txn.turn);
        }
        self.transactions += txns.len() as u64;
        self.steps += part.len() as u64;
        self.last = part.len().checked_sub(1).and_then(|last| part.step(last)).or(self.last);
        Ok(())
    }

    /// What is audited, and the others, if they can be in it.
    fn history(
        &self,
        txns: &[&Transaction],
        others: &[&Transaction],
    ) -> Result<(History, Vec<u64>), Trouble> {
        let alone = txns.iter().map(|&txn| (txn, true));
        if !others.is_empty() || !self.settled.open.is_empty() {
            let mut all: Vec<_> = alone.clone().chain(others.iter().map(|&txn| (txn, false))).collect();
            all.sort_unstable_by_key(|(txn, _)| (txn.session, txn.turn));
            let (history, stand_ins) = self.settled.open_part(all.into_iter(), true)?;
            let unknown = |op: Op<'_>| {
                op.kind.writes() && op.accesses.iter().any(|access| access.value == ValueId::UNKNOWN)
            };
            let is_open = |&txn: &TxnId| history.outcome(txn) == Outcome::Unknown;
            let mut open = history.txns().filter(is_open);
            let writes_unknown = open.any(|txn| history.ops(txn).any(unknown));
            if history.unseen_content().is_none() && !writes_unknown {
                return Ok((history, stand_ins));
            }
        }
        Ok((self.settled.part(alone)?, Vec::new()))
    }

    /// Keeps what may have happened in a part unnoticed.
    fn leave_open(
        &mut self,
        history: &History,
        (part, order): (&Part, &Certificate),
        others: &[&Transaction],
        stand_ins: &[u64],
    ) -> Result<(), Trouble> {
        if others.is_empty() && stand_ins.is_empty() {
            return Ok(());
        }
        let others: HashMap<u64, &Transaction> = others.iter().map(|&txn| (txn.label, txn)).collect();
        let label = |txn: TxnId| history.txn_label(txn);
        let asked: Vec<TxnId> = history.txns().filter(|&txn| others.contains_key(&label(txn))).collect();
        let early: Vec<TxnId> = history.txns().filter(|&txn| number(label(txn)).is_some()).collect();
        let carried: Vec<Option<Perhaps>> =
            stand_ins.iter().map(|&label| self.settled.open.remove(label)).collect();
        let carried = |txn: TxnId| carried.get(number(label(txn))?)?.as_ref();
        let known = |txn: TxnId| carried(txn).map_or(label(txn), Perhaps::label);
        for unnoticed in unnoticed(history, order, &asked, &early) {
            let made = unnoticed.made.iter();
            let changes: Vec<Change> =
                made.map(|(o, cell)| self.settled.change(history, *o, cell)).collect::<Result<_, _>>()?;
            if let Some(perhaps) = carried(unnoticed.txn) {
                self.settled.open.insert(Perhaps { changes, ..perhaps.clone() });
                continue;
            }
            if !self.settled.open.members(label(unnoticed.txn)).is_empty() {
                // Nobody noticed it at an earlier place.
                continue;
            }
            let mut against: Vec<u64> = unnoticed.against.iter().map(|&txn| known(txn)).collect();
            let mut members = Vec::new();
            for (txn, after) in unnoticed.with.into_iter().chain([(unnoticed.txn, unnoticed.after)]) {
                match (carried(txn), others.get(&label(txn))) {
                    (Some(perhaps), _) => {
                        members.extend(perhaps.members.iter().cloned());
                        against.extend(&perhaps.against);
                    }
                    (None, Some(other)) => members.push(self.member(other, after, part)),
                    (None, None) => {}
                }
            }
            members.sort_unstable();
            members.dedup();
            let over = unnoticed.over.iter().map(|&txn| known(txn)).collect();
            let perhaps = Perhaps { members, changes, against, over };
            if perhaps.is_possible() {
                self.settled.open.insert(perhaps);
            }
        }
        self.settled.open.forget();
        Ok(())
    }

    /// One that may have taken effect in the next part, after so many of its steps.
    fn member(&self, txn: &Transaction, after: usize, part: &Part) -> Member {
        let last = after.checked_sub(1).and_then(|last| part.step(last)).or(self.last);
        let place = self.steps + after as u64;
        Member { place, label: txn.label, session: txn.session, turn: txn.turn, after: last }
    }

    /// One took effect where it may have, unnoticed; with all that then did, too.
    pub(crate) fn wake(&mut self, label: u64) -> Vec<Member> {
        let Some(perhaps) = self.settled.open.remove(label) else { return Vec::new() };
        self.settled.open.took_effect(&perhaps);
        for change in perhaps.changes {
            self.settled.apply(change);
        }
        for member in &perhaps.members {
            let turn = self.turns.entry(member.session).or_default();
            *turn = member.turn.max(*turn);
            self.transactions += 1;
        }
        perhaps.members
    }

    /// Whether a transaction may come after all parts so far.
    fn follows(&self, txn: &Transaction) -> Result<(), Unaccepted> {
        let label = txn.label;
        if txn.outcome == Outcome::Aborted {
            return Err(Unaccepted::Rejected(format!("transaction {label} aborted")));
        }
        if txn.end.saturating_add(self.settled.skew()) < self.latest {
            let why = format!("transaction {label} had ended before one of an earlier part began");
            return Err(Unaccepted::Rejected(why));
        }
        if self.is_past(txn) {
            let why = format!("transaction {label} comes after a later one of its session");
            return Err(Unaccepted::Rejected(why));
        }
        Ok(())
    }
}
