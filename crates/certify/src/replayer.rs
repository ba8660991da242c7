//! A stream of transactions in serialization order, verified while it is fed.
//!
//! # Algorithm
//! Enne (section 6, Algorithm 4): each transaction runs on the state that the ones before it left;
//! what it saw must be what is there. The first that is not is told with what was expected beside
//! what was observed.
//!
//! # Cost
//! Linear in the operations fed; a predicate looks at the rows in its range ([`crate::store`]).

use margay_history::{ObjectId, Op, OpId, OpKind, TxnId, Version};
use margay_verdict::state::{check, effects, plain_effects};
use margay_verdict::{Effect, Fault, Outside, Predicates, State};

use crate::store::Store;

/// Where a stream went wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Halt {
    /// The operation that saw something else than was there.
    pub op: OpId,
    /// Of this object.
    pub object: ObjectId,
    /// Who wrote what was there.
    pub version: Version,
    /// What was there.
    pub expected: String,
    /// What the client saw, or what evidence says that it saw.
    pub observed: String,
}

/// Why a transaction was not accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It cannot have run here.
    Halt(Halt),
    /// It uses something that has no meaning here.
    Outside(Outside),
}

impl From<Outside> for Refused {
    fn from(outside: Outside) -> Self {
        Refused::Outside(outside)
    }
}

/// The database as it is after the transactions fed so far.
#[derive(Clone, Debug)]
pub struct Replayer<'p> {
    predicates: &'p Predicates<'p>,
    store: Store<'p>,
    /// Who wrote what each object holds.
    last: Vec<Version>,
    /// What the last transaction changed, which is more than its client saw if nobody saw what it
    /// updated.
    changed: Vec<ObjectId>,
}

impl<'p> Replayer<'p> {
    /// The initial state.
    #[must_use]
    pub fn new(predicates: &'p Predicates<'p>) -> Self {
        let last = vec![Version::Initial; predicates.history().object_count()];
        Self { predicates, store: Store::new(predicates), last, changed: Vec::new() }
    }

    /// What every object holds.
    #[must_use]
    pub fn state(&self) -> &State<'p> {
        &self.store.state
    }

    /// Who wrote what an object holds.
    #[must_use]
    pub fn version(&self, object: ObjectId) -> Version {
        self.last[object.index()]
    }

    /// Runs the next transaction of the serialization order.
    ///
    /// # Errors
    /// The first operation that cannot have seen what it saw. The state is then in the middle of
    /// the transaction.
    pub fn feed(&mut self, txn: TxnId) -> Result<(), Refused> {
        self.changed.clear();
        self.predicates.history().ops(txn).try_for_each(|op| self.operation(txn, &op))
    }

    fn operation(&mut self, txn: TxnId, op: &Op<'p>) -> Result<(), Refused> {
        self.recorded(op)?;
        check(self.predicates, op, &self.store).map_err(|fault| self.refused(fault))?;
        match op.kind {
            OpKind::Write | OpKind::Append => {
                for (object, effect) in plain_effects(self.predicates.history(), op) {
                    self.change(txn, object, &effect);
                }
            }
            OpKind::Update | OpKind::Sql => {
                for (object, effect) in effects(self.predicates, op, &self.store)? {
                    self.change(txn, object, &effect);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn change(&mut self, txn: TxnId, object: ObjectId, effect: &Effect) {
        self.store.change(object, effect);
        self.last[object.index()] = Version::Of(txn);
        self.changed.push(object);
    }

    /// What the transaction that was fed last changed.
    pub(crate) fn changed(&self) -> &[ObjectId] {
        &self.changed
    }

    /// The versions that evidence says an operation saw are those that are there.
    fn recorded(&self, op: &Op<'_>) -> Result<(), Refused> {
        let history = self.predicates.history();
        let Some(set) = history.evidence().version_set(op.id) else { return Ok(()) };
        match set.versions.iter().find(|v| self.version(v.0) != v.1) {
            None => Ok(()),
            Some(&(object, version)) => Err(Refused::Halt(Halt {
                op: op.id,
                object,
                version: self.version(object),
                expected: show(self.predicates, self.version(object)),
                observed: show(self.predicates, version),
            })),
        }
    }

    fn refused(&self, fault: Fault) -> Refused {
        match fault {
            Fault::Outside(outside) => Refused::Outside(outside),
            Fault::Mismatch(m) => Refused::Halt(Halt {
                op: m.op,
                object: m.object,
                version: self.version(m.object),
                expected: m.expected,
                observed: m.observed,
            }),
        }
    }
}

/// A version for people.
pub(crate) fn show(predicates: &Predicates<'_>, version: Version) -> String {
    match version {
        Version::Initial => "the initial version".to_string(),
        Version::Of(txn) => format!("the version of {}", predicates.history().show_txn(txn)),
    }
}
