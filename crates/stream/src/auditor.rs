//! Audits a history part by part.
//!
//! # Algorithm
//! A part is some transactions and their order, or their begin and commit points. The audit of
//! whole histories replays it on the state after the parts before it. What is left to be checked is
//! that no transaction belongs before an earlier part: by real time, if it had ended before one of
//! those began; by session order, if one of those came later in its session.

use hashbrown::HashMap;
use margay_audit::{Unaudited, audit_part};
use margay_history::{History, Outcome, TxnId};
use margay_levels::Level;
use margay_verdict::{Budget, Certificate, Order, Point, Question};

use crate::{Settled, Transaction, Trouble};

/// In which order the transactions of a part take effect, by their labels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// One after the other.
    Order(Vec<u64>),
    /// Begins (`true`) and commits.
    Points(Vec<(bool, u64)>),
    /// The same, by timestamps. Here a transaction may begin in one part and commit in a later one.
    Stamped(Vec<(bool, u64)>),
}

impl Part {
    /// The transactions, each once.
    pub fn labels(&self) -> impl Iterator<Item = u64> + '_ {
        let (order, points) = match self {
            Part::Order(order) => (&order[..], &[][..]),
            Part::Points(points) | Part::Stamped(points) => (&[][..], &points[..]),
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
        }
    }

    /// Appends another part of the same kind.
    pub fn extend(&mut self, other: Part) {
        match (self, other) {
            (Part::Order(all), Part::Order(more)) => all.extend(more),
            (Part::Points(all), Part::Points(more)) | (Part::Stamped(all), Part::Stamped(more)) => {
                all.extend(more);
            }
            _ => {}
        }
    }

    /// The longest beginning that leaves out at least so many transactions and in which all that
    /// begin commit; and the rest.
    pub(crate) fn split(self, leave: usize) -> (Part, Part) {
        match self {
            Part::Order(mut order) => {
                let rest = order.split_off(order.len().saturating_sub(leave));
                (Part::Order(order), Part::Order(rest))
            }
            Part::Points(mut points) => {
                let most = points.len().saturating_sub(2 * leave);
                let (mut open, mut whole) = (0usize, 0);
                for (place, &(begins, _)) in points[..most].iter().enumerate() {
                    open = if begins { open + 1 } else { open - 1 };
                    whole = if open == 0 { place + 1 } else { whole };
                }
                let rest = points.split_off(whole);
                (Part::Points(points), Part::Points(rest))
            }
            // Nothing is held back: timestamps say what comes first.
            Part::Stamped(points) => (Part::Stamped(points), Part::Stamped(Vec::new())),
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
}

impl Auditor {
    /// Nothing was audited. The level is one of [`crate::followed`].
    ///
    /// # Errors
    /// When the header is none.
    pub fn new(level: Level, header: &[u8]) -> Result<Self, Trouble> {
        let settled = Settled::new(header)?;
        let question = Question::new(level);
        Ok(Self { question, settled, latest: i64::MIN, turns: HashMap::new(), transactions: 0 })
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
        let mut sorted = txns.to_vec();
        sorted.sort_unstable_by_key(|txn| (txn.session, txn.turn));
        sorted.iter().try_for_each(|txn| self.follows(txn))?;
        let history = self.settled.part(sorted.iter().map(|&txn| (txn, true)))?;
        let unnamed = || Unaccepted::Rejected("a transaction that is not there".to_owned());
        let certificate = part.certificate(&history).ok_or_else(unnamed)?;
        let cells = audit_part(&history, self.question, &certificate, budget).map_err(|why| match why {
            Unaudited::Rejected(why) => Unaccepted::Rejected(why.to_string()),
            Unaudited::Exhausted(limit) => Unaccepted::Trouble(Trouble::Outside(limit.to_string())),
        })?;
        self.settled.take_over(&history, &cells)?;
        for txn in sorted {
            self.latest = self.latest.max(txn.start);
            self.turns.insert(txn.session, txn.turn);
        }
        self.transactions += txns.len() as u64;
        Ok(())
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
