//! Recorded transactions meet those of the log.
//!
//! # Algorithm
//! By the name that the database gave the transaction while it ran. Where nobody heard a name (the
//! connection was lost with the commit's answer, or the database has none to tell), by what was
//! changed: the last write of every object, if exactly one transaction fits.
//!
//! # Invariants
//! What the log has and nobody claims, and what was committed and is not in the log, is told;
//! nothing is guessed.

use std::collections::{BTreeMap, HashMap};

use margay_client::Testimony;
use margay_history::{History, ObjectId, OpKind, Outcome, TxnId, ValueId};

use crate::log::{Change, Commit};
use crate::names::Names;

/// Where a log and a recording do not agree, or do not tell enough.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Gap {
    /// The client was told that it committed, and the log does not have it.
    NotInLog(TxnId),
    /// The log has a change of an object by a transaction that no client claims.
    Unclaimed(String, ObjectId),
    /// A committed transaction wrote the object by what its client says, and did not by the log; or
    /// the reverse.
    Differs(TxnId, ObjectId),
    /// Two snapshots see two commits the other way round, so that there is no order of commits.
    Fork(u64, u64),
    /// The transaction inserted a row whose deletion its snapshot does not see. For PostgreSQL that
    /// is another row, which no rule about concurrent writers speaks of; in a history it is the
    /// same object. So the transaction has no snapshot timestamp.
    Reborn(TxnId, ObjectId),
    /// A shadow transaction with the same snapshot saw another version of the object than the one
    /// that the snapshot's numbers say.
    Shadow(TxnId, ObjectId),
}

impl Gap {
    /// For people.
    #[must_use]
    pub fn show(&self, history: &History) -> String {
        match self {
            Gap::NotInLog(txn) => {
                format!("{} committed, but the log does not have it", history.show_txn(*txn))
            }
            Gap::Unclaimed(id, object) => {
                format!("the log's {id} changed {}, and no client claims it", history.show_object(*object))
            }
            Gap::Differs(txn, object) => format!(
                "whether {} wrote {}: its client and the log do not agree",
                history.show_txn(*txn),
                history.show_object(*object)
            ),
            Gap::Fork(one, other) => {
                format!("snapshots see the commits of {one} and {other} in different orders")
            }
            Gap::Shadow(txn, object) => format!(
                "a shadow of {} saw another version of {} than its snapshot tells",
                history.show_txn(*txn),
                history.show_object(*object)
            ),
            Gap::Reborn(txn, object) => format!(
                "{} inserted {}, whose deletion its snapshot does not see",
                history.show_txn(*txn),
                history.show_object(*object)
            ),
        }
    }
}

/// Which recorded transaction each commit of the log is.
#[derive(Debug)]
pub(crate) struct Met {
    /// By commit.
    pub txns: Vec<Option<TxnId>>,
    /// By commit: the objects that it changed, each once.
    pub objects: Vec<Vec<ObjectId>>,
    /// By commit: those among them that were not there before.
    pub inserted: Vec<Vec<ObjectId>>,
    pub gaps: Vec<Gap>,
}

/// The last write of an object, and whether it was an append.
type Last = (ValueId, bool);

pub(crate) fn meet(history: &History, log: &[Commit], told: &[Testimony]) -> Met {
    let names = Names::new(history);
    let objects = log.iter().map(|commit| changed(&names, &commit.changes)).collect();
    let inserted = log.iter().map(|commit| inserted(&names, &commit.changes)).collect();
    let mut met = Met { txns: by_name(history, log, told), objects, inserted, gaps: Vec::new() };
    let mut claimed = vec![false; history.txn_count()];
    met.txns.iter().flatten().for_each(|txn| claimed[txn.index()] = true);
    met.by_content(history, &names, log, &claimed);
    met.compare(history, log);
    met
}

fn by_name(history: &History, log: &[Commit], told: &[Testimony]) -> Vec<Option<TxnId>> {
    let named = told.iter().filter_map(|told| Some((told.id.as_deref()?, history.find_txn(told.txn)?)));
    let named: HashMap<&str, TxnId> = named.collect();
    log.iter().map(|commit| named.get(commit.id.as_str()).copied()).collect()
}

fn changed(names: &Names<'_>, changes: &[Change]) -> Vec<ObjectId> {
    let mut objects: Vec<ObjectId> = changes.iter().filter_map(|change| names.object(change)).collect();
    objects.sort_unstable();
    objects.dedup();
    objects
}

/// The objects whose first change was an insertion.
fn inserted(names: &Names<'_>, changes: &[Change]) -> Vec<ObjectId> {
    let mut first: HashMap<ObjectId, bool> = HashMap::new();
    for change in changes {
        if let Some(object) = names.object(change) {
            first.entry(object).or_insert(change.inserted);
        }
    }
    first.into_iter().filter(|entry| entry.1).map(|entry| entry.0).collect()
}

/// The last write of every object that a transaction wrote.
pub(crate) fn written(history: &History, txn: TxnId) -> BTreeMap<ObjectId, Last> {
    let writes = history.ops(txn).filter(|op| op.kind.writes());
    let last = |op: margay_history::Op<'_>| {
        let appended = op.kind == OpKind::Append;
        op.accesses.iter().map(|a| (a.object, (a.value, appended))).collect::<Vec<_>>()
    };
    writes.flat_map(last).collect()
}

/// Whether a transaction executed statements, of which nobody recorded the rows.
pub(crate) fn speaks_sql(history: &History, txn: TxnId) -> bool {
    history.ops(txn).any(|op| op.kind == OpKind::Sql)
}

impl Met {
    /// Finds those without a name by what they changed.
    fn by_content(&mut self, history: &History, names: &Names<'_>, log: &[Commit], claimed: &[bool]) {
        let nameless = |t: &TxnId| history.outcome(*t) != Outcome::Aborted && !claimed[t.index()];
        let mut open: HashMap<Vec<ObjectId>, Vec<TxnId>> = HashMap::new();
        for txn in history.txns().filter(nameless) {
            let objects: Vec<ObjectId> = written(history, txn).into_keys().collect();
            open.entry(objects).or_default().push(txn);
        }
        for (place, commit) in log.iter().enumerate().filter(|(_, commit)| !commit.changes.is_empty()) {
            if self.txns[place].is_some() {
                continue;
            }
            let Some(candidates) = open.get_mut(&self.objects[place]) else { continue };
            let mut fitting = candidates.iter().filter(|&&txn| fits(history, names, txn, commit));
            if let (Some(&txn), None) = (fitting.next(), fitting.next()) {
                self.txns[place] = Some(txn);
                candidates.retain(|&other| other != txn);
            }
        }
    }

    /// Notes where both sides do not agree.
    fn compare(&mut self, history: &History, log: &[Commit]) {
        let mut met = vec![None; history.txn_count()];
        for (place, commit) in log.iter().enumerate() {
            match self.txns[place] {
                Some(txn) => met[txn.index()] = Some(place),
                None => {
                    let unclaimed = self.objects[place].iter().map(|&o| Gap::Unclaimed(commit.id.clone(), o));
                    self.gaps.extend(unclaimed);
                }
            }
        }
        for txn in history.txns().filter(|&txn| !speaks_sql(history, txn)) {
            let wrote = written(history, txn);
            match met[txn.index()] {
                Some(place) => self.differences(txn, place, wrote.into_keys().collect()),
                None if history.outcome(txn) == Outcome::Committed && !wrote.is_empty() => {
                    self.gaps.push(Gap::NotInLog(txn));
                }
                None => {}
            }
        }
    }

    fn differences(&mut self, txn: TxnId, place: usize, wrote: Vec<ObjectId>) {
        let logged = &self.objects[place];
        let only = |one: &[ObjectId], other: &[ObjectId]| -> Vec<Gap> {
            one.iter().filter(|o| !other.contains(o)).map(|&o| Gap::Differs(txn, o)).collect()
        };
        let gaps = [only(logged, &wrote), only(&wrote, logged)].concat();
        self.gaps.extend(gaps);
    }
}

fn fits(history: &History, names: &Names<'_>, txn: TxnId, commit: &Commit) -> bool {
    let rows: HashMap<ObjectId, &Change> =
        commit.changes.iter().filter_map(|change| Some((names.object(change)?, change))).collect();
    written(history, txn).iter().all(|(object, &(value, appended))| {
        rows.get(object).is_some_and(|change| names.shows(value, appended, change.row.as_ref()))
    })
}
