//! One client: plans, calls, and what becomes of them.
//!
//! # Cost
//! Reading the clock is most of what recording costs a client. Between the calls of a plan nothing happens on its thread but the recording itself, so the time of an answer
//! is also that of the next call: an interval may be a little wider than its call, never narrower. A program thinks between its calls, so each has its own two times.
//! Nothing is allocated beside what the database and the workload allocate anyway; a test counts.

use std::thread;
use std::time::Duration;

use margay_drivers::{Answer, Ask, Cell, Change, Connection, Obj, Trouble, Value};
use margay_simdb::Rng;
use margay_workloads::{End as Wish, Generator, Plan, Procedure, Script, Session, Stop};

use crate::Shared;
use crate::trace::{Ended, Recorder, Tape};

/// How long a client rests before it looks again whether the collector has come nearer.
const NAP: Duration = Duration::from_millis(1);

/// How often a client tries to connect again, and how long it rests in between.
const TRIES: u32 = 80;
const REST: Duration = Duration::from_millis(125);

pub(crate) struct Client<'a> {
    shared: &'a Shared<'a>,
    number: u32,
    tape: &'a Tape,
    recorder: Recorder<'a>,
    rows: Vec<(Obj, Value)>,
    /// How many connections were lost.
    lost: u32,
    span: Span,
}

/// A client's time, and why it had to stop early.
#[derive(Clone, Default, Debug)]
pub(crate) struct Span {
    pub first: Option<i64>,
    pub last: i64,
    /// How long it waited for the collector.
    pub waited: Duration,
    pub dropped: Option<String>,
}

/// How a transaction ended, whether the database refused it, and whether the connection ended too.
struct End {
    ended: Ended,
    refused: bool,
    lost: Option<String>,
}

/// Where transactions come from.
enum Source {
    Plans(Generator),
    Script(Box<dyn Script>),
}

/// A transaction to come.
enum Next {
    Plan(Plan),
    Procedure(Box<dyn Procedure>),
}

impl Source {
    fn next(&mut self) -> Next {
        match self {
            Source::Plans(plans) => Next::Plan(plans.plan()),
            Source::Script(script) => Next::Procedure(script.next()),
        }
    }

    fn again(&mut self, next: Next) -> Next {
        match (self, next) {
            (Source::Plans(plans), Next::Plan(plan)) => Next::Plan(plans.again(&plan)),
            (_, next) => next,
        }
    }
}

impl<'a> Client<'a> {
    /// Runs client number `number` to its end, on this thread.
    pub fn run(shared: &'a Shared<'a>, number: u32, tape: &'a Tape) -> Span {
        let (recorder, rows, span) = (Recorder::new(tape), Vec::new(), Span::default());
        let mut client = Client { shared, number, tape, recorder, rows, lost: 0, span };
        let connections: Result<Vec<_>, String> =
            shared.job.levels().map(|level| shared.database.connect(number as usize, level)).collect();
        shared.ready.wait();
        match connections {
            Ok(connections) => {
                client.span.first = Some(client.clock());
                client.work(connections);
            }
            Err(why) => shared.fail(why),
        }
        client.span.last = client.clock();
        tape.close();
        client.span
    }

    /// One connection for each level; each transaction takes one.
    fn work(&mut self, mut connections: Vec<Box<dyn Connection + 'a>>) {
        let (job, clients) = (self.shared.job, u64::from(self.shared.job.clients));
        let mut levels = Rng::new(job.seed, 9 << 32 | u64::from(self.number));
        let mut source = self.source();
        let (mut next, mut tries) = (source.next(), 0);
        for index in 0..job.share(self.number) {
            self.wait_for_collector();
            if self.is_over() {
                return;
            }
            let label = index * clients + u64::from(self.number) + 1;
            let session = u64::from(self.number) + clients * u64::from(self.lost);
            self.recorder.enter(session, label);
            let level = levels.below(connections.len() as u64) as usize;
            connections[level].enter(label);
            let end = match self.attempt(connections[level].as_mut(), &next) {
                Ok(end) => end,
                Err(why) => return self.shared.fail(why),
            };
            self.shared.monitor.count(end.ended);
            let again = end.refused && tries < job.retries;
            (next, tries) = if again { (source.again(next), tries + 1) } else { (source.next(), 0) };
            if let Some(why) = end.lost {
                match self.reconnect(level) {
                    Some(new) => connections[level] = new,
                    None => return self.drop_out(&why),
                }
            }
        }
    }

    fn drop_out(&mut self, why: &str) {
        // Who is late anyway has not given up.
        if !self.is_over() {
            self.span.dropped = Some(format!("client {}: {why}", self.number));
        }
    }

    fn source(&self) -> Source {
        let (job, clients) = (self.shared.job, self.shared.job.clients);
        match self.shared.program {
            Some(program) => Source::Script(program.client(job.seed, self.number, clients)),
            None => Source::Plans(job.workload.plans(job.seed, self.number, clients)),
        }
    }

    fn is_over(&self) -> bool {
        let late = |limit| self.shared.clock.elapsed() >= limit;
        self.shared.monitor.stopped() || self.shared.job.duration.is_some_and(late)
    }

    /// Between transactions: whoever waits here keeps nobody waiting, and promises to have called nothing.
    fn wait_for_collector(&mut self) {
        let Some(limit) = self.shared.max_lag else { return };
        let began = self.shared.clock.elapsed();
        let mut now = began;
        while now > self.shared.monitor.collected() + limit && !self.is_over() {
            self.tape.call(now.as_nanos() as i64);
            thread::sleep(NAP);
            now = self.shared.clock.elapsed();
        }
        self.span.waited += now - began;
    }

    /// The time, if it is recorded.
    fn now(&self) -> i64 {
        if self.shared.silent { 0 } else { self.clock() }
    }

    fn clock(&self) -> i64 {
        self.shared.clock.elapsed().as_nanos() as i64
    }

    /// The time of a call that comes now.
    fn call(&mut self) -> i64 {
        let before = self.now();
        self.tape.call(before);
        before
    }

    fn attempt(&mut self, connection: &mut dyn Connection, next: &Next) -> Result<End, String> {
        let reads = matches!(next, Next::Plan(plan) if plan.asks.iter().all(reads));
        let before = self.call();
        let begun = if reads { connection.begin_reading() } else { connection.begin() };
        let after = self.now();
        if let Some(end) = self.settle(begun, before, Ended::Aborted)? {
            return Ok(end);
        }
        self.recorder.begin(before, after);
        match next {
            Next::Plan(plan) => self.plan(connection, plan, after),
            Next::Procedure(procedure) => self.procedure(connection, procedure.as_ref()),
        }
    }

    fn plan(&mut self, connection: &mut dyn Connection, plan: &Plan, begun: i64) -> Result<End, String> {
        let mut before = begun;
        for &ask in &plan.asks {
            self.rows.clear();
            self.tape.call(before);
            let executed = connection.execute(ask, &mut self.rows);
            let after = self.now();
            if let Some(end) = self.settle(executed, before, Ended::Aborted)? {
                return Ok(end);
            }
            if !is_idle(ask, &self.rows) || connection.deletes_read() {
                self.recorder.executed(before, after, ask, &mut self.rows);
            }
            before = after;
        }
        self.end(connection, plan.commits, before)
    }

    fn procedure(
        &mut self,
        connection: &mut dyn Connection,
        procedure: &dyn Procedure,
    ) -> Result<End, String> {
        let mut open = Open { client: self, connection, over: None };
        let wish = procedure.run(&mut open);
        match (wish, open.over) {
            (_, Some(over)) => over,
            (wish, None) => {
                let before = self.now();
                self.end(connection, wish == Ok(Wish::Commit), before)
            }
        }
    }

    fn end(&mut self, connection: &mut dyn Connection, commits: bool, before: i64) -> Result<End, String> {
        self.tape.call(before);
        let ended = if commits { connection.commit() } else { connection.rollback() };
        let after = self.now();
        // A rollback without an answer is one all the same: the server gives up what its client left.
        let lost = if commits { Ended::Unknown } else { Ended::Aborted };
        if let Some(end) = self.settle(ended, before, lost)? {
            return Ok(end);
        }
        let ended = if commits { Ended::Committed } else { Ended::Aborted };
        self.recorder.ended(before, after, ended);
        Ok(End { ended, refused: false, lost: None })
    }

    /// What trouble makes of the transaction: nothing, or its end, which is `lost` when the connection is.
    fn settle(
        &mut self,
        called: Result<(), Trouble>,
        before: i64,
        lost: Ended,
    ) -> Result<Option<End>, String> {
        let (ended, refused, why) = match called {
            Ok(()) => return Ok(None),
            Err(Trouble::Failed(why)) => return Err(why),
            Err(Trouble::Refused(_)) => (Ended::Aborted, true, None),
            Err(Trouble::Lost(why)) => (lost, false, Some(why)),
        };
        let after = self.now();
        self.recorder.ended(before, after, ended);
        Ok(Some(End { ended, refused, lost: why }))
    }

    fn reconnect(&mut self, level: usize) -> Option<Box<dyn Connection + 'a>> {
        self.lost += 1;
        let own_name = self.shared.job.levels().nth(level)?;
        for _ in 0..TRIES {
            if self.is_over() {
                return None;
            }
            self.tape.call(self.now());
            if let Ok(connection) = self.shared.database.connect(self.number as usize, own_name) {
                return Some(connection);
            }
            thread::sleep(REST);
        }
        None
    }
}

fn reads(ask: &Ask) -> bool {
    matches!(ask, Ask::Read(_) | Ask::Scan(_) | Ask::Aggregate(_))
}

/// The open transaction of a procedure.
struct Open<'c, 'a> {
    client: &'c mut Client<'a>,
    connection: &'c mut dyn Connection,
    /// How it ended, or why nothing can go on, when a statement was not answered.
    over: Option<Result<End, String>>,
}

impl Session for Open<'_, '_> {
    fn sql(&mut self, text: &'static str, params: &[Cell]) -> Result<Answer, Stop> {
        if self.over.is_some() {
            return Err(Stop);
        }
        let before = self.client.call();
        let answered = self.connection.sql(text, params);
        let after = self.client.now();
        match answered {
            Ok(answer) => {
                self.client.recorder.answered(before, after, text, params, &answer);
                Ok(answer)
            }
            Err(trouble) => {
                self.over = self.client.settle(Err(trouble), before, Ended::Aborted).transpose();
                Err(Stop)
            }
        }
    }
}

/// Whether a statement was a delete that found nothing.
fn is_idle(ask: Ask, rows: &[(Obj, Value)]) -> bool {
    matches!((ask, rows), (Ask::Write(_, Change::Delete), [(_, Value::Absent)]))
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, Mutex};
    use std::time::Instant;

    use margay_drivers::{Database, Space, Start};

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

    fn with_client(run: impl FnOnce(&mut Client<'_>, &Tape, &Monitor)) {
        with_limit(None, run);
    }

    fn with_limit(max_lag: Option<Duration>, run: impl FnOnce(&mut Client<'_>, &Tape, &Monitor)) {
        let job = Job {
            workload: "rw-register".parse().expect("a workload"),
            clients: 1,
            seed: 0,
            own_name: String::new(),
            others: Vec::new(),
            retries: 0,
            harms: Vec::new(),
            transactions: None,
            duration: None,
        };
        let monitor = Monitor::default();
        let shared = Shared {
            database: &Stub,
            job: &job,
            program: None,
            monitor: &monitor,
            clock: Instant::now(),
            silent: false,
            max_lag,
            ready: Barrier::new(1),
            failure: Mutex::new(None),
        };
        let tape = Tape::new(false);
        let (recorder, rows, span) = (Recorder::new(&tape), Vec::new(), Span::default());
        let mut client = Client { shared: &shared, number: 0, tape: &tape, recorder, rows, lost: 0, span };
        run(&mut client, &tape, &monitor);
    }

    /// MariaDB at REPEATABLE READ was accused of reads that no moment explains: they were deletes that had found nothing, and had waited for others' commits.
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
        with_limit(Some(limit), |client, tape, monitor| {
            // Nobody waits before the run is as old as the limit.
            thread::sleep(2 * limit);
            thread::scope(|scope| {
                scope.spawn(|| {
                    // The collector comes nearer only after it has seen that the client goes on promising.
                    let mut chunk = Chunk::default();
                    while tape.take(&mut chunk) < Duration::from_millis(6).as_nanos() as i64 {
                        thread::yield_now();
                    }
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
        with_limit(Some(Duration::ZERO), |client, _, monitor| {
            monitor.stop();
            client.wait_for_collector();
            assert_eq!(client.span.waited, Duration::ZERO);
        });
    }

    /// What a client does between the calls of its transactions allocates nothing, once the chunks that go to the collector and back are warm.
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
}
