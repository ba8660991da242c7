//! Authors drive stores of their own: what is wrong is found, made small, and found again; what is
//! right holds.

mod own;

use std::collections::BTreeMap;
use std::time::Duration;

use margay_audit::audit;
use margay_client::blocking::{AsyncStore, AsyncTxn, Blocking};
use margay_client::{Begin, Bytes, Database, Stored, Trouble, Txn};
use margay_history::{Access, History, Op};
use margay_levels::Level;
use margay_runner::drive::{Options, Schedule, generic, run, shrink};
use margay_solve::Solve;
use margay_verdict::{Budget, Checker, Question, Verdict};
use margay_workloads::Workload;
use own::{Map, Mvcc, MvccTxn};

/// No call of the stores here waits for another client, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(20);

type Open = fn() -> Box<dyn Database>;

fn workload(name: &str) -> Workload {
    name.parse().expect("a workload")
}

/// The audited verdict; anything but the two certain ones fails the test.
fn holds(history: &History, level: Level) -> bool {
    let question = Question::new(level);
    let verdict = Solve.check(history, question, &Budget::unlimited().with_time(Duration::from_secs(60)));
    let certificate = verdict.certificate().unwrap_or_else(|| panic!("{verdict:?}"));
    assert_eq!(audit(history, question, certificate), Ok(()));
    matches!(verdict, Verdict::Holds(_))
}

/// A store whose mistake the workload finds, makes small, and finds again with the same seed.
fn is_caught(open: Open, name: &str, level: Level) {
    let (workload, options) = (workload(name), Options { patience: PATIENCE, ..Options::default() });
    let recording = run(open().as_ref(), workload, &options).expect("a recording");
    assert!(!holds(&recording.history, level), "{name} finds nothing");
    let violated = |history: &History| !holds(history, level);
    let case = shrink(|| Ok(open()), workload, &options, violated).expect("runs").expect("a case");
    assert!(case.options.transactions <= 12 && case.options.clients <= 3, "{case}");
    let again = run(open().as_ref(), workload, &case.options).expect("a recording");
    assert!(!holds(&again.history, level), "not found again: {case}");
}

/// A store that keeps its promise under every workload that speaks no SQL.
fn is_right(open: Open, level: Level) {
    for name in ["mixed", "rw-register", "list-append", "increment", "write-skew", "predicate"] {
        let recording = run(open().as_ref(), workload(name), &Options::default()).expect("a recording");
        assert!(recording.counts.committed > 20, "{name}: {:?}", recording.counts);
        assert!(holds(&recording.history, level), "{name}");
    }
}

#[test]
fn a_forgotten_lock_is_caught() {
    let open: Open = || Box::new(Stored::new(Map::default()));
    is_caught(open, "increment", Level::Serializable);
    is_caught(open, "mixed", Level::SnapshotIsolation);
}

/// Its transactions wait for each other, so turns cannot be one call at a time.
#[test]
fn a_lock_that_is_held_is_right() {
    let store = Stored::new(Map::held());
    let patience = Duration::from_millis(5);
    let options = Options { transactions: 30, patience, ..Options::default() };
    let recording = run(&store, workload("increment"), &options).expect("a recording");
    assert!(holds(&recording.history, Level::Serializable));
    assert_eq!(recording.counts.total(), 30);
}

#[test]
fn snapshots_without_a_first_updater_check_are_caught() {
    let open: Open = || Box::new(Stored::new(Mvcc::default()));
    is_caught(open, "increment", Level::SnapshotIsolation);
}

#[test]
fn snapshots_with_the_check_are_right_and_skew() {
    let open: Open = || Box::new(Stored::new(Mvcc::refusing()));
    is_right(open, Level::SnapshotIsolation);
    is_caught(open, "write-skew", Level::Serializable);
}

/// The same, asynchronously.
#[derive(Default)]
struct Later(Mvcc);

struct LaterTxn<'a>(MvccTxn<'a>);

impl AsyncStore for Later {
    type Txn<'a> = LaterTxn<'a>;

    async fn begin(&self, _how: Begin<'_>) -> Result<LaterTxn<'_>, Trouble> {
        tokio::task::yield_now().await;
        let (store, writes) = (&self.0, Default::default());
        Ok(LaterTxn(MvccTxn { store, snapshot: store.snapshot(), writes }))
    }
}

impl AsyncTxn for LaterTxn<'_> {
    async fn get(&mut self, key: &[u8]) -> Result<Option<Bytes>, Trouble> {
        tokio::time::sleep(Duration::from_micros(1)).await;
        self.0.get(key)
    }

    async fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Trouble> {
        self.0.put(key, value)
    }

    async fn commit(self) -> Result<(), Trouble> {
        tokio::task::yield_now().await;
        self.0.commit()
    }
}

#[test]
fn asynchronous_stores_are_driven_too() {
    let open: Open = || Box::new(Stored::new(Blocking::new(Later::default()).expect("a runtime")));
    is_caught(open, "increment", Level::SnapshotIsolation);
    let right = Later(Mvcc::refusing());
    let store = Stored::new(Blocking::new(right).expect("a runtime"));
    let recording = run(&store, workload("increment"), &Options::default()).expect("a recording");
    assert!(holds(&recording.history, Level::SnapshotIsolation));
}

/// What clients did and saw, by the names of things and without times.
fn shape(history: &History) -> BTreeMap<u64, Vec<String>> {
    let seen = |access: &Access| {
        format!("{}={}", history.show_object(access.object), history.show_value(access.value))
    };
    let op = |op: Op<'_>| format!("{:?} {:?}", op.kind, op.accesses.iter().map(seen).collect::<Vec<_>>());
    history.txns().map(|txn| (history.txn_label(txn), history.ops(txn).map(op).collect())).collect()
}

#[test]
fn a_seed_is_a_run() {
    let record = |seed| {
        let store = Stored::new(Map::default());
        let options = Options { seed, patience: PATIENCE, ..Options::default() };
        shape(&run(&store, workload("mixed"), &options).expect("a recording").history)
    };
    let [first, again, other] = [5, 5, 6].map(record);
    let differs = first.iter().find(|(txn, ops)| again.get(txn) != Some(ops));
    assert_eq!(differs, None, "not the same again");
    assert!(first != other, "seeds are runs of their own");
}

#[test]
fn runs_are_verified_while_they_run() {
    let options = Options { mechanisms: generic(Level::StrictSnapshotIsolation), ..Options::default() };
    let violations = |database: &dyn Database| {
        let recording = run(database, workload("rw-register"), &options).expect("a recording");
        let verified = recording.verified.expect("a verification");
        assert!(verified.ended.is_none() && verified.transactions > 100, "{verified:?}");
        verified.violations
    };
    assert!(violations(&Stored::new(Map::default())) > 0, "reads of several moments");
    assert_eq!(violations(&Stored::new(Mvcc::refusing())), 0);
}

#[test]
fn threads_may_run_freely() {
    let options = Options { schedule: Schedule::Free, ..Options::default() };
    let store = Stored::new(Map::held());
    let recording = run(&store, workload("mixed"), &options).expect("a recording");
    assert_eq!(recording.counts.total(), 200);
    assert!(holds(&recording.history, Level::Serializable));
}

#[test]
fn what_cannot_be_run_says_why() {
    let store = Stored::new(Map::default());
    let error = |name: &str, options: &Options| run(&store, workload(name), options).expect_err("an error");
    assert!(error("hermitage", &Options::default()).contains("no clients"));
    assert!(error("smallbank", &Options::default()).contains("SQL"));
    assert!(error("mixed", &Options { clients: 0, ..Options::default() }).contains("a client"));
}
