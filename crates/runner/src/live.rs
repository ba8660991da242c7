//! Verification while clients run: their operations, in the order of time, through the mirror.
//!
//! # Algorithm
//! The collector brings operations client by client. The mirror's pipeline merges them, as far as
//! clients have promised not to have called earlier, and the mirror judges what comes out.
//!
//! # Invariants
//! What the mirror finds stops nothing: the run goes on, and the complete history is checked again
//! afterwards.

use margay_history::{Access, Interval, OpId, OpKind, TxnId, Values};
use margay_mirror::{Asked, Client, Mechanisms, Mirror, Pipeline, Searches, Trace};

/// Violations that are kept; the others are only counted.
const KEPT: usize = 16;

/// After so many operations it is asked whether to go on.
const LOOK: u32 = 64;

/// An operation on its way to the mirror.
struct Item {
    txn: TxnId,
    kind: OpKind,
    at: Interval,
    accesses: Accesses,
    asked: Option<Box<Asked>>,
}

/// Most operations touch one object at most.
enum Accesses {
    Few(Option<Access>),
    Many(Box<[Access]>),
}

impl Accesses {
    fn new(accesses: &[Access]) -> Self {
        match accesses {
            [] => Accesses::Few(None),
            [access] => Accesses::Few(Some(*access)),
            many => Accesses::Many(many.into()),
        }
    }

    fn as_slice(&self) -> &[Access] {
        match self {
            Accesses::Few(few) => few.as_slice(),
            Accesses::Many(many) => many,
        }
    }
}

/// What a live verification has come to.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Verified {
    /// Committed transactions that were judged.
    pub transactions: u64,
    /// Violations that were found.
    pub violations: u64,
    /// The transactions of the first of them, by their labels, and the mechanism that was broken.
    pub found: Vec<(Vec<u64>, &'static str)>,
    /// Why verification ended before the run, if it did.
    pub ended: Option<String>,
}

/// The mirror beside a recording that is still made.
pub struct Live {
    pipeline: Pipeline<Item>,
    clients: Vec<Option<Client<Item>>>,
    /// The time before which everything was fed.
    promised: Vec<i64>,
    /// Each client's transaction that has not ended, and when it was last answered.
    open: Vec<Option<(TxnId, i64)>>,
    mirror: Mirror,
    operations: u32,
    verified: Verified,
}

impl Live {
    /// A mirror of a database with these mechanisms and initial values.
    pub fn new(mechanisms: Mechanisms, clients: usize, initial: impl IntoIterator<Item = Access>) -> Self {
        let (pipeline, ends) = Pipeline::new(clients);
        let mut live = Self {
            pipeline,
            clients: ends.into_iter().map(Some).collect(),
            promised: vec![0; clients],
            open: vec![None; clients],
            mirror: Mirror::new(mechanisms, 0),
            operations: 0,
            verified: Verified::default(),
        };
        initial.into_iter().for_each(|access| live.initial(access));
        live
    }

    /// An object's initial value.
    pub fn initial(&mut self, access: Access) {
        self.mirror.initial(access.object, access.value);
    }

    /// What the mirror knows of tables, rows and conditions.
    pub fn searches(&mut self) -> &mut Searches {
        self.mirror.searches()
    }

    /// The next operation of a client. Transactions are known by their labels.
    pub fn push(&mut self, client: usize, label: u64, kind: OpKind, at: Interval, accesses: &[Access]) {
        self.push_asked(client, label, kind, at, accesses, None);
    }

    /// The next operation of a client, with what it asked.
    pub fn push_asked(
        &mut self,
        client: usize,
        label: u64,
        kind: OpKind,
        at: Interval,
        accesses: &[Access],
        asked: Option<Asked>,
    ) {
        let Some(end) = self.clients.get_mut(client).and_then(Option::as_mut) else { return };
        let (txn, accesses) = (TxnId(label as u32), Accesses::new(accesses));
        self.open[client] = kind.outcome().is_none().then_some((txn, at.after));
        let item = Item { txn, kind, at, accesses, asked: asked.map(Box::new) };
        if end.push(at.before, item).is_err() {
            self.give_up("a client's clock went back");
        }
    }

    /// A client calls nothing before this time any more.
    pub fn promise(&mut self, client: usize, time: i64) {
        let before = std::mem::replace(&mut self.promised[client], time);
        if time == i64::MAX {
            self.end(client, before);
        }
        match self.clients.get_mut(client) {
            Some(end) if time == i64::MAX => *end = None,
            Some(Some(end)) => end.idle(time),
            _ => {}
        }
    }

    /// A client has gone. Nobody will hear of its transaction any more, and nobody is to wait for
    /// that.
    fn end(&mut self, client: usize, promised: i64) {
        if let Some((txn, answered)) = self.open[client].take() {
            let time = answered.max(promised);
            let at = Interval::new(time, time);
            self.push_asked(client, u64::from(txn.0), OpKind::Unknown, at, &[], None);
        }
    }

    /// Judges whatever nothing can come before any more, as long as `go_on` says so.
    pub fn advance(&mut self, values: &Values, go_on: impl Fn() -> bool) {
        if self.verified.ended.is_some() {
            return;
        }
        let (mut unfit, mut late) = (None, false);
        let Self { pipeline, mirror, operations, .. } = self;
        pipeline.dispatch(|_, item| {
            late = late || (operations.is_multiple_of(LOOK) && !go_on());
            if late {
                return;
            }
            let op = OpId(*operations);
            *operations = operations.wrapping_add(1);
            let Item { txn, kind, at, ref accesses, ref asked } = item;
            let trace = Trace { txn, op, kind, at, accesses: accesses.as_slice() };
            let fed = match asked {
                Some(asked) => mirror.feed_asked(trace, asked, values),
                None => mirror.feed(trace, values),
            };
            if let Err(why) = fed {
                unfit.get_or_insert(why);
            }
        });
        if let Some(why) = unfit {
            self.give_up(&why.to_string());
        }
        self.gather();
        if late {
            self.run_out();
        }
    }

    /// All has come.
    #[must_use]
    pub fn finish(mut self, values: &Values, go_on: impl Fn() -> bool) -> Verified {
        self.clients.clear();
        self.advance(values, &go_on);
        if self.verified.ended.is_none() {
            let whole = self.mirror.finish_while(values, go_on);
            self.gather();
            if !whole {
                self.run_out();
            }
        }
        self.verified
    }

    /// The time was over before all was verified.
    fn run_out(&mut self) {
        let judged = self.verified.transactions;
        self.give_up(&format!("the time was over when {judged} committed transactions had been verified"));
    }

    /// The time before which everything has been judged or waits for a transaction to end.
    #[must_use]
    pub fn reached(&self) -> i64 {
        self.promised.iter().copied().min().unwrap_or(i64::MAX)
    }

    /// The dependencies that were looked at: certain by time alone, deduced, and neither.
    #[must_use]
    pub fn dependencies(&self) -> [u64; 3] {
        let told = self.mirror.statistics();
        let all = [told.ww, told.wr, told.rw];
        let sum = |pick: fn(&margay_mirror::Dependencies) -> u64| all.iter().map(pick).sum();
        [sum(|kind| kind.certain), sum(|kind| kind.deduced), sum(|kind| kind.uncertain)]
    }

    /// What it has come to so far.
    #[must_use]
    pub fn verified(&self) -> &Verified {
        &self.verified
    }

    fn give_up(&mut self, why: &str) {
        self.verified.ended.get_or_insert_with(|| why.to_owned());
        self.clients.clear();
    }

    fn gather(&mut self) {
        let statistics = self.mirror.statistics();
        self.verified.transactions = statistics.judged;
        self.verified.violations = statistics.violations;
        while let Some(violation) = self.mirror.next_violation() {
            if self.verified.found.len() < KEPT {
                let txns = violation.txns.iter().map(|txn| u64::from(txn.0)).collect();
                self.verified.found.push((txns, violation.breach.broken.anomaly().name()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use margay_history::ObjectId;
    use margay_levels::profile::Found;

    use super::*;

    /// A stale read: transaction 2 begins after transaction 1 has committed, and does not see it.
    fn stale(live: &mut Live, values: &mut Values) {
        let (old, new) = (values.int(0), values.int(1));
        let access = |value| [Access { object: ObjectId(0), value }];
        live.push(0, 1, OpKind::Write, Interval::new(10, 20), &access(new));
        live.push(0, 1, OpKind::Commit, Interval::new(21, 25), &[]);
        live.push(1, 2, OpKind::Read, Interval::new(30, 40), &access(old));
        live.push(1, 2, OpKind::Commit, Interval::new(41, 42), &[]);
    }

    fn live(values: &mut Values) -> Live {
        let Found(profile) = "postgresql/read-committed".parse().expect("a profile");
        let initial = Access { object: ObjectId(0), value: values.int(0) };
        Live::new(Mechanisms::of(profile), 2, [initial])
    }

    #[test]
    fn a_violation_is_found_while_clients_run() {
        let mut values = Values::default();
        let mut live = live(&mut values);
        stale(&mut live, &mut values);
        live.promise(0, 100);
        live.advance(&values, || true);
        assert_eq!(live.verified().violations, 0, "client 1 may still have called earlier");
        live.push(1, 4, OpKind::Begin, Interval::new(50, 51), &[]);
        live.promise(1, 90);
        live.advance(&values, || true);
        assert_eq!((live.reached(), live.verified().violations), (90, 1));
        assert_eq!(live.finish(&values, || true).found, [(vec![2], "consistent-read")]);
    }

    #[test]
    fn what_is_left_when_the_time_is_over_is_not_called_clean() {
        let mut values = Values::default();
        // Before anything was fed, and when only the last transactions are left to be judged.
        for asked in [0, 1] {
            let mut live = live(&mut values);
            stale(&mut live, &mut values);
            let left = std::cell::Cell::new(asked);
            let go_on = || left.replace(left.get() - 1) > 0;
            let verified = live.finish(&values, go_on);
            let why = verified.ended.expect("a reason");
            assert!(why.starts_with("the time was over when "), "{why}");
            assert!(verified.transactions < 2, "{asked}");
        }
    }

    /// Its transaction stayed open, and everything was remembered because it might still have
    /// looked at it.
    #[test]
    fn a_client_that_dies_holds_nothing_up() {
        let mut values = Values::default();
        let mut live = live(&mut values);
        let write = [Access { object: ObjectId(0), value: values.int(7) }];
        live.push(1, 2, OpKind::Write, Interval::new(1, 2), &write);
        live.promise(1, 5);
        live.promise(1, i64::MAX);
        for number in 0..1_000 {
            let (label, time) = (10 + number as u64, 10 + 10 * number);
            live.push(0, label, OpKind::Write, Interval::new(time, time + 1), &write);
            live.push(0, label, OpKind::Commit, Interval::new(time + 2, time + 3), &[]);
        }
        live.promise(0, 100_000);
        live.advance(&values, || true);
        let size = live.mirror.size();
        assert!(size.versions < 10 && size.transactions < 10, "{size:?}");
        assert_eq!(live.finish(&values, || true).transactions, 1_000);
    }

    #[test]
    fn a_statement_that_the_mirror_does_not_know_proves_nothing() {
        let mut values = Values::default();
        let mut live = live(&mut values);
        live.push(0, 1, OpKind::Sql, Interval::new(5, 8), &[]);
        stale(&mut live, &mut values);
        let verified = live.finish(&values, || true);
        assert_eq!((verified.ended, verified.violations, verified.transactions), (None, 0, 1));
    }
}
