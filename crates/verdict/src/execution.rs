//! How SQL statements can have been executed, and that they cannot: what certificates say of it.
//!
//! What an execution is, and which ones a level allows, is written down in the crate
//! `margay-executions`, where they are executed.

use std::collections::BTreeMap;

use margay_history::{ObjectId, OpId, TxnId};
use margay_sql::{Possible, Term, Value};

/// Which committed states one statement saw.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct StatementSight {
    /// The state: how many transactions of the order it has.
    pub at: u32,
    /// Rows that were seen as of other states.
    pub pins: Vec<Pin>,
}

impl StatementSight {
    /// The whole state after so many transactions.
    #[must_use]
    pub fn state(at: u32) -> Self {
        Self { at, pins: Vec::new() }
    }
}

/// A row that was seen as of another state than the rest.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Pin {
    /// The table's name.
    pub table: String,
    /// The key, in the form in which keys are compared.
    pub key: Vec<Value>,
    /// The state.
    pub at: u32,
    /// It was not seen at all: the transaction that made this state deleted the row and inserted
    /// another one of the same key.
    pub missed: bool,
}

/// How what was observed can have happened.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Execution {
    /// What is read by read-committed.
    pub reading: Reading,
    /// The transactions that committed, first to last.
    pub order: Vec<TxnId>,
    /// What statements saw; a statement that is not here saw everything that committed before its
    /// own transaction.
    pub sights: Vec<(OpId, StatementSight)>,
    /// The values of initial rows that the history does not know; where nothing is said, 0, an
    /// empty text, or NULL.
    pub initial: Vec<Initial>,
}

/// A value that a row had initially, though the history does not know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Initial {
    /// The row.
    pub object: ObjectId,
    /// The column.
    pub column: String,
    /// The value.
    pub value: Value,
}

/// That no execution explains what was observed: the transactions of the history that matter, and
/// the statement at which it showed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unexplained {
    /// What is read by read-committed.
    pub reading: Reading,
    /// The rows that are looked at: whatever else is said is said of the log of these alone (a part
    /// of it). Without, of the whole log.
    pub rows: Option<Vec<PartRow>>,
    /// The transactions that have to be explained together, in the order in which the engine met
    /// them: every transaction that may come before one of them by the order that is asked for is
    /// one of them.
    pub txns: Vec<TxnId>,
    /// The statement at which it showed.
    pub op: OpId,
    /// Lemmas that leave no order; where there are none, everything is tried.
    pub lemmas: Vec<Misrun>,
    /// Bounds on sums of unknown integers that cannot all be true, and that leave no model of the
    /// formula; without, nothing is said of the formula.
    pub clashes: Option<Vec<Clash>>,
    /// What the statement gives on the states that it can have seen, and what was observed, for
    /// people. The audit does not look at it.
    pub notes: Vec<String>,
}

/// What `read-committed` lets a statement see.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Reading {
    /// The definition: each row as of some committed state.
    #[default]
    Item,
    /// As databases with snapshots implement it: one committed state per statement.
    Statement,
}

impl Reading {
    /// Both, with their names in files and on the command line.
    pub const ALL: [(Reading, &'static str); 2] =
        [(Reading::Item, "item"), (Reading::Statement, "statement")];

    /// The reading's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The reading of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Reading> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|&(reading, _)| reading)
    }
}

/// Rows by their table's name and their key, or all rows of a table.
pub type PartRow = (String, Option<Vec<Value>>);

/// The beginning or the commit of a transaction. Where transactions see all that committed before
/// them, there are commits only.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Moment {
    /// The transaction.
    pub txn: TxnId,
    /// Whether it is the beginning.
    pub begins: bool,
}

/// Transactions that cannot all have run like this.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Misrun {
    /// The transactions that matter, first to last, each with how many of those before it sees. The
    /// last one does not fit.
    pub run: Vec<(TxnId, u32)>,
    /// The statement of the last one that gives something else; without, the transaction writes
    /// what another wrote since its snapshot.
    pub op: Option<OpId>,
    /// What is assumed to be before what.
    pub order: Vec<(Moment, Moment)>,
    /// The transactions that are assumed not to have committed.
    pub absent: Vec<TxnId>,
}

/// Unknown integers, each with its factor.
pub type Form = Vec<(Term, i128)>;

/// That a sum of unknown integers is at most some number; and how often it is added in a [`Clash`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bound {
    /// The sum.
    pub form: Form,
    /// The number.
    pub at_most: i128,
    /// How often it is added.
    pub times: i128,
}

/// Bounds that cannot all be true.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clash {
    /// The bounds.
    pub bounds: Vec<Bound>,
}

impl Clash {
    /// Whether the bounds add up to what cannot be.
    #[must_use]
    pub fn is_one(&self) -> bool {
        self.sum().is_some_and(|(left, most)| left.values().all(|&factor| factor == 0) && most < 0)
    }

    fn sum(&self) -> Option<(BTreeMap<Term, i128>, i128)> {
        let (mut left, mut most) = (BTreeMap::new(), 0i128);
        for bound in &self.bounds {
            if bound.times <= 0 {
                return None;
            }
            most = most.checked_add(bound.at_most.checked_mul(bound.times)?)?;
            for &(term, factor) in &bound.form {
                let known = left.entry(term).or_insert(0i128);
                *known = known.checked_add(factor.checked_mul(bound.times)?)?;
            }
        }
        Some((left, most))
    }
}

/// Which values some cells can have, and a result that contradicts it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invariant {
    /// The statement with the result.
    pub op: OpId,
    /// The cells that are known. All others can be anything.
    pub cells: Vec<InvariantCell>,
    /// For people. The audit does not look at it.
    pub notes: Vec<String>,
}

/// What a column of a row can be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvariantCell {
    /// The table's name.
    pub table: String,
    /// The row's key, in the form in which keys are compared.
    pub key: Vec<Value>,
    /// The column's name.
    pub column: String,
    /// What it can be.
    pub values: Possible,
}
