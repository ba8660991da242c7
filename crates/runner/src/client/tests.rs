//! Clients on databases that do as they are told.

use std::sync::{Barrier, Mutex};
use std::time::Instant;

use margay_client::{Action, Change, Database, Space, Start};

use super::*;
use crate::trace::Chunk;
use crate::{Job, Monitor};

/// A database that answers at once, and allocates nothing.
struct Stub;

impl Database for Stub {
    fn identity(&self) -> (String, String) {
        ("stub".to_owned(), "1".to_owned())
    }

    fn levels(&self) -> Vec<&'static str> {
        Vec::new()
    }

    fn prepare(&self, _own_name: &str, _start: &Start) -> Result<(), String> {
        Ok(())
    }

    fn connect(&self, _client: usize, _own_name: &str) -> Result<Box<dyn Connection + '_>, String> {
        Ok(Box::new(Stub))
    }
}

impl Connection for Stub {
    fn begin(&mut self) -> Result<(), Trouble> {
        Ok(())
    }

    fn execute(&mut self, ask: Ask, rows: &mut Vec<(Obj, Value)>) -> Result<(), Trouble> {
        if let Ask::Read(obj) = ask {
            rows.push((obj, Value::Int(7)));
        }
        Ok(())
    }

    fn sql(&mut self, _text: &str, _params: &[Cell]) -> Result<Answer, Trouble> {
        Ok(Answer::default())
    }

    fn commit(&mut self) -> Result<(), Trouble> {
        Ok(())
    }

    fn rollback(&mut self) -> Result<(), Trouble> {
        Ok(())
    }
}

/// Five statements.
#[derive(Debug)]
struct Statements;

impl Procedure for Statements {
    fn run(&self, session: &mut dyn Session) -> Result<Wish, Stop> {
        for _ in 0..5 {
            session.sql("UPDATE t SET v = $1 WHERE k = $2", &[Cell::Int(1), Cell::Int(2)])?;
        }
        Ok(Wish::Commit)
    }
}

/// Deletes find nothing.
struct Empty {
    deletes_read: bool,
}

impl Connection for Empty {
    fn begin(&mut self) -> Result<(), Trouble> {
        Ok(())
    }

    fn execute(&mut self, ask: Ask, rows: &mut Vec<(Obj, Value)>) -> Result<(), Trouble> {
        if let Ask::Write(obj, _) = ask {
            rows.push((obj, Value::Absent));
        }
        Ok(())
    }

    fn deletes_read(&self) -> bool {
        self.deletes_read
    }

    fn commit(&mut self) -> Result<(), Trouble> {
        Ok(())
    }

    fn rollback(&mut self) -> Result<(), Trouble> {
        Ok(())
    }
}

fn job() -> Job {
    Job {
        workload: "rw-register".parse().expect("a workload"),
        clients: 1,
        seed: 0,
        own_name: String::new(),
        others: Vec::new(),
        retries: 0,
        harms: Vec::new(),
        transactions: None,
        duration: None,
    }
}

fn with_client(run: impl FnOnce(&mut Client<'_>, &Tape, &Monitor)) {
    with_job(&Stub, &job(), None, run);
}

fn with_limit(max_lag: Duration, run: impl FnOnce(&mut Client<'_>, &Tape, &Monitor)) {
    with_job(&Stub, &job(), Some(max_lag), run);
}

fn with_job(
    database: &dyn Database,
    job: &Job,
    max_lag: Option<Duration>,
    run: impl FnOnce(&mut Client<'_>, &Tape, &Monitor),
) {
    let monitor = Monitor::default();
    let shared = Shared {
        dbms: String::new(),
        database,
        job,
        program: None,
        monitor: &monitor,
        clock: Instant::now(),
        silent: false,
        max_lag,
        silence: Duration::from_millis(300),
        first: 0,
        all: 1,
        ready: Barrier::new(1),
        failure: Mutex::new(None),
    };
    let tape = Tape::new(false);
    let (recorder, rows, span) = (Recorder::new(&tape), Vec::new(), Span::default());
    let answered = None;
    let mut client =
        Client { shared: &shared, number: 0, tape: &tape, recorder, rows, lost: 0, answered, span };
    run(&mut client, &tape, &monitor);
}

/// MariaDB at REPEATABLE READ was accused of reads that no moment explains: they were deletes that
/// had found nothing, and had waited for others' commits.
#[test]
fn a_delete_that_finds_nothing_is_a_read_where_it_reads_as_reads_do() {
    for (deletes_read, operations) in [(true, 3), (false, 2)] {
        with_client(|client, tape, _| {
            let asks = vec![Ask::Write(Obj::new(Space::Row, 3), Change::Delete)];
            let next = Next::Plan(Plan { asks, commits: true });
            client.attempt(&mut Empty { deletes_read }, &next).expect("it runs");
            let (mut chunk, mut told) = (Chunk::default(), 0);
            tape.take(&mut chunk);
            let counted = chunk.replay(|_| {
                told += 1;
                Ok::<_, ()>(())
            });
            assert_eq!((counted, told), (Ok(()), operations));
        });
    }
}

#[test]
fn who_waits_for_the_collector_promises_to_have_called_nothing() {
    let limit = Duration::from_millis(2);
    with_limit(limit, |client, tape, monitor| {
        // Nobody waits before the run is as old as the limit.
        thread::sleep(2 * limit);
        thread::scope(|scope| {
            scope.spawn(|| {
                // The collector comes nearer only after it has seen that the client goes on
                // promising.
                let mut chunk = Chunk::default();
                let mut promised = |later: i64| loop {
                    match tape.take(&mut chunk) {
                        now if now >= later => return now,
                        _ => thread::yield_now(),
                    }
                };
                let first = promised(1);
                promised(first + 2 * limit.as_nanos() as i64);
                monitor.has_collected(i64::MAX);
            });
            client.wait_for_collector();
        });
        assert!(client.span.waited > limit, "{:?}", client.span);
        let waited = client.span.waited;
        client.wait_for_collector();
        assert_eq!(client.span.waited, waited, "there is nothing to wait for");
    });
}

#[test]
fn nobody_waits_for_a_collector_when_the_run_is_over() {
    with_limit(Duration::ZERO, |client, _, monitor| {
        monitor.stop();
        client.wait_for_collector();
        assert_eq!(client.span.waited, Duration::ZERO);
    });
}

/// What a client does between the calls of its transactions allocates nothing, once the chunks that
/// go to the collector and back are warm.
#[test]
fn recording_allocates_nothing() {
    with_client(|client, tape, monitor| {
        let obj = Obj::new(Space::Register, 3);
        let asks = vec![Ask::Read(obj), Ask::Write(obj, Change::Put(4)), Ask::Read(obj)];
        let next = [Next::Plan(Plan { asks, commits: true }), Next::Procedure(Box::new(Statements))];
        let mut chunk = Chunk::default();
        let mut round = || {
            for (label, next) in (0..300).zip(next.iter().cycle()) {
                client.recorder.enter(0, label);
                let end = client.attempt(&mut Stub, next).expect("it runs");
                client.shared.monitor.count(end.ended);
            }
            tape.take(&mut chunk);
            chunk.clear();
        };
        (0..4).for_each(|_| round());
        let allocated = allocation_counter::measure(|| (0..10).for_each(|_| round()));
        assert_eq!(allocated.count_total, 0, "{allocated:?}");
        assert_eq!(monitor.counts().committed, 4200);
    });
}

/// A database that gives trouble: each commit takes the next of its answers, and then there is none
/// any more. So does each attempt to connect.
#[derive(Default)]
struct Troubled {
    statements: Mutex<Vec<Trouble>>,
    commits: Mutex<Vec<Trouble>>,
    connects: Mutex<Vec<Result<(), String>>>,
    /// What was asked, transaction by transaction.
    asked: Mutex<Vec<Vec<Ask>>>,
}

impl Database for Troubled {
    fn identity(&self) -> (String, String) {
        Stub.identity()
    }

    fn levels(&self) -> Vec<&'static str> {
        Vec::new()
    }

    fn prepare(&self, _own_name: &str, _start: &Start) -> Result<(), String> {
        Ok(())
    }

    fn connect(&self, _client: usize, _own_name: &str) -> Result<Box<dyn Connection + '_>, String> {
        match self.connects.lock().expect("no panic").pop() {
            Some(Err(why)) => Err(why),
            Some(Ok(())) | None => Ok(Box::new(self)),
        }
    }
}

impl Connection for &Troubled {
    fn begin(&mut self) -> Result<(), Trouble> {
        self.asked.lock().expect("no panic").push(Vec::new());
        Ok(())
    }

    fn execute(&mut self, ask: Ask, rows: &mut Vec<(Obj, Value)>) -> Result<(), Trouble> {
        self.asked.lock().expect("no panic").last_mut().expect("a transaction").push(ask);
        self.statements.lock().expect("no panic").pop().map_or_else(|| Stub.execute(ask, rows), Err)
    }

    fn commit(&mut self) -> Result<(), Trouble> {
        self.commits.lock().expect("no panic").pop().map_or(Ok(()), Err)
    }

    fn rollback(&mut self) -> Result<(), Trouble> {
        Ok(())
    }
}

/// The objects of a transaction, without the values that are written.
fn objects(asks: &[Ask]) -> Vec<(bool, Obj)> {
    let object = |ask: &Ask| match ask {
        Ask::Read(obj) => (false, *obj),
        Ask::Write(obj, _) => (true, *obj),
        other => panic!("registers know no {other:?}"),
    };
    asks.iter().map(object).collect()
}

/// Which of the plans each transaction is, if the database refuses so many commits.
fn plans_that_are_run(retries: u32, refusals: usize, transactions: u64) -> Vec<usize> {
    let job = Job { retries, transactions: Some(transactions), ..job() };
    let refused = (0..refusals).map(|_| Trouble::Refused("conflict".to_owned())).collect();
    let database = Troubled { commits: Mutex::new(refused), ..Troubled::default() };
    with_job(&database, &job, None, |client, _, monitor| {
        client.work(vec![client.shared.database.connect(0, "").expect("a connection")]);
        let counts = monitor.counts();
        assert_eq!((counts.aborted, counts.total()), (refusals as u64, transactions));
    });
    let mut source = job.workload.plans(job.seed, 0, 1);
    let plans: Vec<_> = (0..transactions).map(|_| objects(&source.plan().asks)).collect();
    let asked = database.asked.into_inner().expect("no panic");
    let values: Vec<Change> = asked.iter().flatten().filter_map(written).collect();
    assert!(values.iter().enumerate().all(|(at, value)| !values[..at].contains(value)), "{values:?}");
    let which = |asks: &Vec<Ask>| plans.iter().position(|plan| *plan == objects(asks)).expect("a plan");
    asked.iter().map(which).collect()
}

fn written(ask: &Ask) -> Option<Change> {
    match ask {
        Ask::Write(_, change) => Some(*change),
        _ => None,
    }
}

/// Each attempt is a transaction of its own, with values of its own.
#[test]
fn what_is_refused_is_tried_again_as_often_as_is_wanted() {
    assert_eq!(plans_that_are_run(0, 2, 4), [0, 1, 2, 3]);
    assert_eq!(plans_that_are_run(2, 1, 4), [0, 0, 1, 2]);
    assert_eq!(plans_that_are_run(2, 2, 4), [0, 0, 0, 1]);
    assert_eq!(plans_that_are_run(2, 4, 7), [0, 0, 0, 1, 1, 2, 3]);
}

#[test]
fn a_commit_without_an_answer_is_unknown_and_its_client_goes_on_in_a_new_session() {
    let job = Job { transactions: Some(3), retries: 5, ..job() };
    let lost = vec![Trouble::Lost("gone".to_owned())];
    let down = vec![Err("not yet".to_owned()), Err("not yet".to_owned()), Ok(())];
    let database = Troubled { commits: Mutex::new(lost), connects: Mutex::new(down), ..Troubled::default() };
    with_job(&database, &job, None, |client, tape, monitor| {
        client.work(vec![client.shared.database.connect(0, "").expect("a connection")]);
        assert_eq!((client.span.dropped.as_ref(), client.lost), (None, 1), "two attempts to connect fail");
        assert_eq!((monitor.counts().unknown, monitor.counts().committed), (1, 2));
        let (mut chunk, mut ended) = (Chunk::default(), Vec::new());
        tape.take(&mut chunk);
        let told = chunk.replay(|op| {
            if let Action::Commit | Action::Abort | Action::Unknown = op.action {
                ended.push((op.session, matches!(op.action, Action::Unknown)));
            }
            Ok::<_, ()>(())
        });
        assert_eq!((told, ended), (Ok(()), vec![(0, true), (1, false), (1, false)]));
    });
}

/// Runs on MariaDB at READ UNCOMMITTED that lost connections were called violated: others had seen
/// what a transaction had written after its client had given it up, and before the server did.
#[test]
fn a_transaction_that_was_cut_off_is_gone_unless_others_see_what_is_not_committed() {
    for (level, counts) in [("SERIALIZABLE", (1, 0)), ("READ UNCOMMITTED", (0, 1))] {
        let job = Job { transactions: Some(2), own_name: level.to_owned(), ..job() };
        let lost = Mutex::new(vec![Trouble::Lost("gone".to_owned())]);
        let database = Troubled { statements: lost, ..Troubled::default() };
        with_job(&database, &job, None, |client, _, monitor| {
            client.work(vec![client.shared.database.connect(0, "").expect("a connection")]);
            assert_eq!((monitor.counts().aborted, monitor.counts().unknown), counts, "{level}");
        });
    }
}

#[test]
fn a_connection_is_tried_for_several_times() {
    let down = vec![Err("down".to_owned()); 3];
    let database = Troubled { connects: Mutex::new(down), ..Troubled::default() };
    with_job(&database, &job(), None, |client, _, _| {
        assert!(client.connect("", 2).is_err_and(|why| why == "down"));
        assert!(client.connect("", 2).is_ok(), "the second attempt");
    });
}

/// A regression: clients of a server that was dead for good went on trying until the run was over,
/// and nobody heard of it.
#[test]
fn a_client_gives_up_when_nobody_gets_an_answer() {
    let job = Job { transactions: Some(100), ..job() };
    let lost = Mutex::new(vec![Trouble::Lost("gone".to_owned())]);
    let connects = Mutex::new([vec![Err("refused".to_owned()); 1000], vec![Ok(())]].concat());
    let database = Troubled { commits: lost, connects, ..Troubled::default() };
    with_job(&database, &job, None, |client, _, monitor| {
        client.work(vec![client.shared.database.connect(0, "").expect("a connection")]);
        assert_eq!((monitor.lost(), monitor.counts().total()), (1, 1));
        let dropped = client.span.dropped.as_deref();
        assert_eq!(dropped, Some("client 0: no client got an answer for 0.3 s: refused"));
        assert_eq!(client.span.lost.as_ref().map(|(_, why)| why.as_str()), Some("gone"));
        assert_eq!(client.span.answered, None);
    });
}

/// A regression: a full disk under SQLite was recorded as thousands of commits of unknown outcome,
/// and as nothing else.
#[test]
fn a_full_disk_ends_the_run_and_is_named() {
    let full = "database or disk is full";
    for (at_commit, trouble) in
        [(true, Trouble::Lost(full.to_owned())), (false, Trouble::Failed(full.to_owned()))]
    {
        let job = Job { transactions: Some(100), ..job() };
        let (commits, statements) =
            if at_commit { (vec![trouble; 50], vec![]) } else { (vec![], vec![trouble; 50]) };
        let (commits, statements) = (Mutex::new(commits), Mutex::new(statements));
        let database = Troubled { commits, statements, ..Troubled::default() };
        with_job(&database, &job, None, |client, _, monitor| {
            client.work(vec![client.shared.database.connect(0, "").expect("a connection")]);
            assert_eq!((monitor.counts().total(), monitor.stopped()), (1, true));
            let dropped = client.span.dropped.clone().expect("a reason");
            assert!(dropped.contains("the disk of the database is full: database or disk"), "{dropped}");
        });
    }
}

/// Connecting takes long on a busy machine, and is no part of what was wanted.
#[test]
fn the_time_of_a_run_begins_when_all_are_connected() {
    let job = Job { duration: Some(Duration::ZERO), ..job() };
    with_job(&Stub, &job, None, |client, _, monitor| {
        assert!(!client.is_over(), "it has not begun");
        client.span.first = Some(client.clock());
        assert!(client.is_over());
        client.work(vec![Box::new(Stub)]);
        assert_eq!(monitor.counts().total(), 0);
    });
    let job = Job { duration: Some(Duration::from_secs(3600)), ..job };
    with_job(&Stub, &job, None, |client, _, _| {
        client.span.first = Some(client.clock());
        assert!(!client.is_over());
        client.span.first = Some(-3_600_000_000_000);
        assert!(client.is_over());
    });
}

/// The clock is read once for each call; what follows a transaction in its session is seen to be
/// later all the same.
#[test]
fn a_transaction_begins_after_the_last_one_has_ended() {
    let job = Job { transactions: Some(3), ..job() };
    with_job(&Stub, &job, None, |client, tape, _| {
        client.work(vec![client.shared.database.connect(0, "").expect("a connection")]);
        let (mut chunk, mut all) = (Chunk::default(), Vec::new());
        tape.take(&mut chunk);
        let told = chunk.replay(|op| {
            all.push((op.txn, op.before, op.after));
            Ok::<_, ()>(())
        });
        assert!(told.is_ok() && all.iter().all(|(_, before, after)| before <= after), "{all:?}");
        for two in all.windows(2) {
            let ((one, _, answered), (next, called, _)) = (two[0], two[1]);
            assert!(if one == next { called == answered } else { called > answered }, "{all:?}");
        }
        assert_eq!(all.last().map(|(txn, ..)| *txn), Some(3));
    });
}
