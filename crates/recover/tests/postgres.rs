//! Certificates out of a real PostgreSQL.

mod common;

use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Instant;

use common::{ask, job, open, run, with_evidence};
use margay_certify::{Certify, Replay};
use margay_client::{Action, BuilderSink, Recorded, Sink};
use margay_drivers::{Ask, Change, Cond, Obj, Row, Setting, Space, Start, Trouble, Value};
use margay_history::{History, HistoryBuilder, OpDetail, OpKind};
use margay_levels::Level;
use margay_recover::{Gap, PgSnapshot, Watched};
use margay_report::explain;
use margay_runner::{Extras, Job, Monitor};
use margay_solve::Solve;
use margay_verdict::{Verdict, Why};
use postgres::{Client, NoTls};

/// Twenty short runs under load: every one is certified, at what the level promises and at all that
/// follows from it.
#[test]
fn serializable_is_certified_every_time() {
    let Some(server) = common::postgres() else { return };
    let workloads = ["mixed", "predicate", "write-skew", "list-append", "rw-register"];
    for seed in 0..20 {
        let workload = workloads[seed as usize % workloads.len()];
        let (history, gaps) = run(&server, &job(workload, "SERIALIZABLE", seed, 150));
        assert!(gaps.iter().all(|gap| matches!(gap, Gap::Reborn(..))), "{workload}, seed {seed}: {gaps:?}");
        for level in [Level::Serializable, Level::RepeatableRead, Level::ReadCommitted] {
            let verdict = ask(&Certify, &history, level);
            assert!(matches!(verdict, Verdict::Holds(_)), "{workload}, seed {seed}, {level}: {verdict:?}");
        }
    }
}

/// Snapshots and commits replay what clients saw.
#[test]
fn snapshot_isolation_is_replayed() {
    let Some(server) = common::postgres() else { return };
    for (seed, workload) in ["mixed", "write-skew", "increment"].into_iter().enumerate() {
        let (history, gaps) = run(&server, &job(workload, "REPEATABLE READ", seed as u64, 150));
        assert_eq!(gaps, [], "{workload}");
        for level in [Level::SnapshotIsolation, Level::StrictSnapshotIsolation] {
            for verdict in [ask(&Replay, &history, level), ask(&Certify, &history, level)] {
                assert!(matches!(verdict, Verdict::Holds(_)), "{workload}, {level}: {verdict:?}");
            }
        }
    }
}

/// Shadow transactions beside a run see what is computed from the snapshots' numbers.
#[test]
fn shadows_of_a_run_agree() {
    let Some(server) = common::postgres() else { return };
    let job = job("mixed", "REPEATABLE READ", 5, 150);
    let watched = open(&server, &Job::setting(&job.workload, job.clients, job.seed)).with_shadows(2);
    let recording = margay_runner::run(watched.database(), &job, &Monitor::default(), Extras::default());
    let history = recording.expect("a recording").history;
    let recovered = watched.recover(&history).expect("a log");
    assert_eq!(recovered.gaps, []);
    assert!(recovered.confirmed > 20, "{} versions", recovered.confirmed);
    let history = history.with_evidence(recovered.evidence).expect("evidence");
    assert!(matches!(ask(&Replay, &history, Level::SnapshotIsolation), Verdict::Holds(_)));
}

/// Statements of one transaction have snapshots of their own at READ COMMITTED; what is recovered
/// agrees with what was seen.
#[test]
fn read_committed_is_certified() {
    let Some(server) = common::postgres() else { return };
    for (seed, workload) in ["mixed", "predicate", "increment"].into_iter().enumerate() {
        let (history, gaps) = run(&server, &job(workload, "READ COMMITTED", seed as u64, 150));
        assert_eq!(gaps, [], "{workload}");
        let verdict = ask(&Certify, &history, Level::ReadCommitted);
        assert!(matches!(verdict, Verdict::Holds(_)), "{workload}: {verdict:?}");
    }
}

/// An insertion after a deletion that the snapshot does not see is another row for PostgreSQL. Then
/// its transaction has no snapshot timestamp, and is not accused by it.
#[test]
fn rows_that_come_back_have_no_snapshots() {
    let Some(server) = common::postgres() else { return };
    for seed in 0..3 {
        let (history, gaps) = run(&server, &job("predicate", "REPEATABLE READ", seed, 150));
        let reborn = |gap: &Gap| matches!(gap, Gap::Reborn(..));
        assert!(gaps.iter().all(reborn), "{gaps:?}");
        let verdict = ask(&Replay, &history, Level::SnapshotIsolation);
        if gaps.is_empty() {
            assert!(matches!(verdict, Verdict::Holds(_)), "{verdict:?}")
        } else {
            assert!(matches!(verdict, Verdict::Unknown(Why::MissingEvidence(_))), "{verdict:?}")
        }
    }
}

/// A key is deleted while another transaction runs, which then inserts it: PostgreSQL lets it at
/// REPEATABLE READ, and refuses it at SERIALIZABLE.
///
/// Who had read the row before has lost an update by our definition of snapshot isolation, and
/// certify proves it. Who had not is accused of nothing. Who looks again sees two rows with one
/// key, and if the old one comes first, misses its own write.
#[test]
fn a_key_that_comes_back_is_a_lost_update_of_who_had_read_it() {
    let Some(server) = common::postgres() else { return };
    let script = |level, read, again| reborn(&server, level, read, again);
    let (history, gaps) = script("REPEATABLE READ", 0, false).expect("no refusal");
    assert!(matches!(gaps[..], [Gap::Reborn(..)]), "{gaps:?}");
    let Verdict::Violated(findings) = ask(&Certify, &history, Level::SnapshotIsolation) else {
        panic!("the row was read, deleted, and inserted")
    };
    assert_eq!(findings[0].anomaly.name(), "G-single-item");
    let told = explain::finding(&history, &findings[0]);
    assert!(told.contains("PostgreSQL is known to allow this"), "{told}");
    assert!(matches!(ask(&Certify, &history, Level::ReadCommitted), Verdict::Holds(_)));
    let (history, gaps) = script("REPEATABLE READ", 1, false).expect("no refusal");
    assert!(matches!(gaps[..], [Gap::Reborn(..)]), "{gaps:?}");
    let verdict = ask(&Certify, &history, Level::SnapshotIsolation);
    assert!(matches!(verdict, Verdict::Holds(_)), "{verdict:?}");
    let (history, _) = script("REPEATABLE READ", 0, true).expect("no refusal");
    match ask(&Certify, &history, Level::ReadCommitted) {
        Verdict::Violated(findings) => {
            assert_eq!(findings[0].anomaly.name(), "internal");
            let told = explain::finding(&history, &findings[0]);
            assert!(told.contains("PostgreSQL is known to allow this"), "{told}");
        }
        verdict => assert!(matches!(verdict, Verdict::Holds(_)), "{verdict:?}"),
    }
    assert!(script("SERIALIZABLE", 0, false).is_none(), "the certifier sees the conflict");
}

/// One transaction reads row `read`, another deletes row 0 and commits, and the first one inserts
/// row 0, and reads `again` if it shall. Nothing if it is refused.
fn reborn(
    server: &margay_servers::Server,
    own_name: &str,
    read: u32,
    again: bool,
) -> Option<(History, Vec<Gap>)> {
    let setting = Setting { clients: 2, keys: 2, domain: 100, seed: 0 };
    let watched = open(server, &setting);
    let row = |key: u32| Obj::new(Space::Row, key);
    let there = Value::Row(Row { v: Some(5), w: Some(5) });
    let start = Start {
        initial: vec![(row(0), there.clone()), (row(1), there)],
        ..setting.start("postgresql-15".to_owned(), "repeatable-read".to_owned())
    };
    watched.database().prepare(own_name, &start).expect("tables");
    let mut sink = BuilderSink::default();
    sink.start(&start).expect("a start");
    let mut clients =
        [0, 1].map(|client| watched.database().connect(client, own_name).expect("a connection"));
    let mut clock = 0;
    let mut step = |client: usize, action: Action<'_>, rows: &mut Vec<(Obj, Value)>| {
        let connection = &mut clients[client];
        rows.clear();
        let done = match action {
            Action::Begin => {
                connection.enter(client as u64 + 1);
                connection.begin()
            }
            Action::Write(obj, change) => connection.execute(Ask::Write(obj, change), rows),
            Action::Commit => connection.commit(),
            _ => connection.execute(Ask::Read(row(read)), rows),
        };
        match done {
            Err(Trouble::Refused(_)) => return None,
            done => done.expect("an answer"),
        }
        clock += 10;
        let seen = std::mem::take(rows);
        let action = match (action, seen.first()) {
            (Action::Read(..), Some((obj, value))) => Action::Read(*obj, value),
            (action, _) => action,
        };
        let (session, txn) = (client as u64, client as u64 + 1);
        sink.op(Recorded { session, txn, before: clock, after: clock + 5, action }).expect("an operation");
        Some(())
    };
    let rows = &mut Vec::new();
    let look = || Action::Read(row(read), &Value::Absent);
    step(1, Action::Begin, rows)?;
    step(1, look(), rows)?;
    step(0, Action::Begin, rows)?;
    step(0, Action::Write(row(0), Change::Delete), rows)?;
    step(0, Action::Commit, rows)?;
    step(1, Action::Write(row(0), Change::Merge(Row { v: Some(7), w: Some(7) })), rows)?;
    if again {
        step(1, look(), rows)?;
    }
    step(1, Action::Commit, rows)?;
    drop(clients);
    watched.database().clean_up();
    Some(with_evidence(&watched, sink.finish().expect("a history")))
}

/// Emme's experiment: at READ COMMITTED, transactions whose only anomalies are those of predicates.
#[test]
fn predicate_anomalies_are_seen_by_certify_only() {
    let Some(server) = common::postgres() else { return };
    let history = phantoms(&server);
    for level in [Level::ReadCommitted, Level::RepeatableRead] {
        let verdict = ask(&Certify, &history, level);
        assert!(matches!(verdict, Verdict::Holds(_)), "{level}: {verdict:?}");
    }
    let Verdict::Violated(findings) = ask(&Certify, &history, Level::Serializable) else {
        panic!("phantoms are not serializable")
    };
    assert_eq!(findings[0].anomaly.name(), "G2");
    let items = items_only(&history);
    for verdict in [ask(&Certify, &items, Level::Serializable), ask(&Solve, &items, Level::Serializable)] {
        assert!(matches!(verdict, Verdict::Holds(_)), "{verdict:?}");
    }
}

const CLIENTS: u32 = 4;
const ROUNDS: u32 = 10;

/// Every client looks for rows in a range, waits until all have, and inserts a row of its own into
/// another's range.
fn phantoms(server: &margay_servers::Server) -> History {
    let setting = Setting { clients: CLIENTS, keys: 1, domain: 100, seed: 0 };
    let watched = open(server, &setting);
    let start = Start {
        initial: Vec::new(),
        ..setting.start("postgresql-15".to_owned(), "read-committed".to_owned())
    };
    watched.database().prepare("READ COMMITTED", &start).expect("tables");
    let sink = Mutex::new(BuilderSink::default());
    sink.lock().expect("a sink").start(&start).expect("a start");
    let (barrier, clock) = (Barrier::new(CLIENTS as usize), Instant::now());
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (watched, sink, barrier) = (&watched, &sink, &barrier);
            scope.spawn(move || phantom_client(watched, sink, barrier, clock, client));
        }
    });
    let history = sink.into_inner().expect("a sink").finish().expect("a history");
    watched.database().clean_up();
    let (history, gaps) = with_evidence(&watched, history);
    assert_eq!(gaps, []);
    history
}

fn phantom_client(
    watched: &Watched,
    sink: &Mutex<BuilderSink>,
    barrier: &Barrier,
    clock: Instant,
    client: u32,
) {
    let mut connection = watched.database().connect(client as usize, "READ COMMITTED").expect("a connection");
    let now = || clock.elapsed().as_nanos() as i64;
    for round in 0..ROUNDS {
        let txn = u64::from(round * CLIENTS + client + 1);
        let note = |before: i64, action: Action<'_>| {
            let op = Recorded { session: u64::from(client), txn, before, after: now(), action };
            sink.lock().expect("a sink").op(op).expect("an operation");
        };
        connection.enter(txn);
        let before = now();
        connection.begin().expect("a transaction");
        note(before, Action::Begin);
        let (low, mut rows) = (i64::from(client) * 10, Vec::new());
        let cond = Cond { low, high: low + 9 };
        let before = now();
        connection.execute(Ask::Scan(cond), &mut rows).expect("rows");
        note(before, Action::Scan(cond, &rows));
        barrier.wait();
        let row = Obj::new(Space::Row, round * CLIENTS + client);
        let v = i64::from((client + 1) % CLIENTS) * 10 + i64::from(round);
        let change = Change::Merge(Row { v: Some(v), w: Some(i64::from(row.key)) });
        let before = now();
        connection.execute(Ask::Write(row, change), &mut Vec::<(Obj, Value)>::new()).expect("a write");
        note(before, Action::Write(row, change));
        let before = now();
        connection.commit().expect("a commit");
        note(before, Action::Commit);
        barrier.wait();
    }
}

/// The same history for who does not know predicates: a scan is a read of the rows that it
/// returned.
fn items_only(history: &History) -> History {
    let mut builder = HistoryBuilder::like(history);
    for txn in history.txns() {
        let (session, label) = (history.session_label(history.session_of(txn)), history.txn_label(txn));
        for op in history.ops(txn) {
            let kind = if op.kind == OpKind::Scan { OpKind::Read } else { op.kind };
            if kind == OpKind::Read && op.accesses.is_empty() {
                continue;
            }
            builder.push(session, label, op.at, kind, op.accesses, OpDetail::None).expect("an operation");
        }
    }
    let items = builder.finish().expect("a history");
    let mut evidence = history.evidence().clone();
    evidence.version_sets.clear();
    items.with_evidence(evidence).expect("the same transactions")
}

/// What a snapshot sees by its numbers is what a shadow transaction with the same snapshot sees.
#[test]
fn shadow_transactions_see_what_snapshots_say() {
    let Some(server) = common::postgres() else { return };
    drop(open(&server, &Setting { clients: 1, keys: 1, domain: 1, seed: 0 }));
    let connect = || Client::connect(server.url(), NoTls).expect("a connection");
    let (mut reader, mut shadow) = (connect(), connect());
    let mut writers = [connect(), connect(), connect()];
    reader.batch_execute("CREATE TABLE shadow (k INT PRIMARY KEY)").expect("a table");
    // Who wrote each row, oldest first, in the order of their commits.
    let mut versions: [Vec<u64>; 3] = Default::default();
    for round in 0..12 {
        let xids: Vec<u64> = writers.iter_mut().enumerate().map(|(k, writer)| write(writer, k)).collect();
        // Some commit before the snapshot, the others after it.
        let early = |k: usize| !(round + k).is_multiple_of(3);
        let mut commit = |k: usize| {
            writers[k].batch_execute("COMMIT").expect("a commit");
            versions[k].push(xids[k]);
        };
        (0..3).filter(|&k| early(k)).for_each(&mut commit);
        reader.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").expect("a transaction");
        let told = "SELECT pg_current_snapshot()::text, pg_export_snapshot()";
        let told = reader.query_one(told, &[]).expect("a snapshot");
        let view = PgSnapshot::parse(told.get(0)).expect("a view");
        (0..3).filter(|&k| !early(k)).for_each(&mut commit);
        let begin = format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '{}'",
            told.get::<_, &str>(1)
        );
        shadow.batch_execute(&begin).expect("the same snapshot");
        let rows = shadow.query("SELECT k, xmin::text FROM shadow", &[]).expect("rows");
        for row in &rows {
            let (k, xmin): (i32, &str) = (row.get(0), row.get(1));
            let seen = versions[k as usize].iter().rev().find(|&&xid| view.sees(xid));
            assert_eq!(seen.map(u64::to_string).as_deref(), Some(xmin), "row {k} in round {round}");
        }
        let visible = versions.iter().filter(|all| all.iter().any(|&xid| view.sees(xid))).count();
        assert_eq!(rows.len(), visible);
        reader.batch_execute("COMMIT").expect("an end");
        shadow.batch_execute("COMMIT").expect("an end");
    }
}

/// Begins a transaction that writes row `k`; answers its number.
fn write(client: &mut Client, k: usize) -> u64 {
    client.batch_execute("BEGIN").expect("a transaction");
    let text = format!("INSERT INTO shadow VALUES ({k}) ON CONFLICT (k) DO UPDATE SET k = excluded.k");
    client.batch_execute(&text).expect("a write");
    let row = client.query_one("SELECT pg_current_xact_id()::text", &[]).expect("a number");
    row.get::<_, &str>(0).parse().expect("a number")
}
