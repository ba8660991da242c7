//! One client: plans, calls, and what becomes of them.
//!
//! # Cost
//! Reading the clock is most of what recording costs a client. Between the calls of a plan nothing
//! happens on its thread but the recording itself, and between two plans little more, so the time
//! of an answer is also that of the next call: an interval may be a little wider than its call,
//! never narrower. So the clock is read once for each call. A program thinks between its calls, so
//! each has its own two times. Nothing is allocated beside what the database and the workload
//! allocate anyway; a test counts.

use std::thread;
use std::time::{Duration, Instant};

use margay_client::{Answer, Ask, Cell, Connection, Obj, Rng, Trouble, Value};
use margay_workloads::{End as Wish, Generator, Plan, Procedure, Script, Session, Stop};

use crate::Shared;
use crate::trace::{Ended, Recorder, Tape};

/// How long a client rests before it looks again whether the collector has come nearer.
const NAP: Duration = Duration::from_millis(1);

/// How often a client tries to connect at first, how often when it has lost its connection, and how
/// long it rests in between.
const FIRST_TRIES: u32 = 20;
const TRIES: u32 = 480;
const REST: Duration = Duration::from_millis(125);

pub(crate) struct Client<'a> {
    shared: &'a Shared<'a>,
    number: u32,
    tape: &'a Tape,
    recorder: Recorder<'a>,
    rows: Vec<(Obj, Value)>,
    /// How many connections were lost.
    lost: u32,
    /// When the last call was answered, if that is recorded; nothing after a rest.
    answered: Option<i64>,
    span: Span,
}

/// A client's time, and why it had to stop early.
#[derive(Clone, Default, Debug)]
pub(crate) struct Span {
    pub first: Option<i64>,
    pub last: i64,
    /// When it got its last answer.
    pub answered: Option<i64>,
    /// When it first lost a connection, and why.
    pub lost: Option<(i64, String)>,
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
        let mut client = Client { shared, number, tape, recorder, rows, lost: 0, answered: None, span };
        let connections: Result<Vec<_>, String> =
            shared.job.levels().map(|level| client.connect(level, FIRST_TRIES)).collect();
        shared.ready.wait();
        shared.monitor.begins();
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
        let (job, all) = (self.shared.job, self.shared.all);
        let clients = u64::from(all);
        let mut levels = Rng::new(job.seed, 9 << 32 | u64::from(self.number));
        let mut source = self.source();
        let (mut next, mut tries) = (source.next(), 0);
        for index in 0..job.share(self.number, all) {
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
            let Some(why) = end.lost else { continue };
            self.lose(&why);
            if is_disk_full(&why) {
                return self.end_run(&format!("the disk of the database is full: {why}"));
            }
            match self.reconnect(level) {
                Ok(new) => connections[level] = new,
                Err(why) => return self.drop_out(&why),
            }
        }
    }

    fn lose(&mut self, why: &str) {
        self.shared.monitor.lose();
        let now = self.clock();
        self.span.lost.get_or_insert_with(|| (now, why.to_owned()));
    }

    /// No client can go on with this. What was recorded until now is still worth a verdict.
    fn end_run(&mut self, why: &str) {
        self.drop_out(why);
        self.shared.monitor.stop();
    }

    fn drop_out(&mut self, why: &str) {
        // Who is late anyway has not given up.
        if !self.is_over() {
            self.span.dropped = Some(format!("client {}: {why}", self.number));
        }
    }

    fn source(&self) -> Source {
        let (job, clients) = (self.shared.job, self.shared.all);
        match self.shared.program {
            Some(program) => Source::Script(program.client(job.seed, self.number, clients)),
            None => Source::Plans(job.workload.plans(job.seed, self.number, clients)),
        }
    }

    /// The time of a run begins when all clients are connected.
    fn is_over(&self) -> bool {
        let now = || self.answered.unwrap_or_else(|| self.clock());
        let late =
            |limit: Duration| self.span.first.is_some_and(|first| now() - first >= limit.as_nanos() as i64);
        self.shared.monitor.stopped() || self.shared.job.duration.is_some_and(late)
    }

    /// Between transactions: whoever waits here keeps nobody waiting, and promises to have called
    /// nothing.
    fn wait_for_collector(&mut self) {
        let Some(limit) = self.shared.max_lag else { return };
        let began = self.shared.clock.elapsed();
        let mut now = began;
        if now > self.shared.monitor.collected() + limit {
            self.answered = None;
        }
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

    /// The time of a call that comes soon after an answer: not the same, so that what comes after
    /// is seen to do so.
    fn call_next(&mut self) -> i64 {
        let Some(answered) = self.answered.take() else { return self.call() };
        self.tape.call(answered + 1);
        answered + 1
    }

    /// The time of a call that comes at once after an answer, unless the connection waits for its
    /// turn.
    fn call_after(&mut self, connection: &mut dyn Connection, answered: i64) -> i64 {
        if connection.wait_for_turn() {
            return self.call();
        }
        self.tape.call(answered);
        answered
    }

    fn attempt(&mut self, connection: &mut dyn Connection, next: &Next) -> Result<End, String> {
        let reads = matches!(next, Next::Plan(plan) if plan.asks.iter().all(reads));
        if connection.wait_for_turn() {
            self.answered = None;
        }
        let before = self.call_next();
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
            before = self.call_after(connection, before);
            let executed = connection.execute(ask, &mut self.rows);
            let after = self.now();
            if matches!((&executed, ask), (Err(Trouble::Lost(_)), Ask::Write(..)))
                && self.cut_off() == Ended::Unknown
            {
                // It may have been done, and others may see it.
                self.rows.clear();
                self.recorder.executed(before, after, ask, &mut self.rows);
            }
            if let Some(end) = self.settle(executed, before, self.cut_off())? {
                return Ok(end);
            }
            if !ask.deleted_nothing(&self.rows) || connection.deletes_read() {
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
        let before = self.call_after(connection, before);
        let ended = if commits { connection.commit() } else { connection.rollback() };
        let after = self.now();
        // A rollback without an answer is one all the same: the server gives up what its client
        // left.
        let lost = if commits { Ended::Unknown } else { self.cut_off() };
        if let Some(end) = self.settle(ended, before, lost)? {
            return Ok(end);
        }
        let ended = if commits { Ended::Committed } else { Ended::Aborted };
        self.answered = (!self.shared.silent).then_some(after);
        self.span.answered = Some(after);
        self.recorder.ended(before, after, ended);
        Ok(End { ended, refused: false, lost: None })
    }

    /// How a transaction ends whose connection is lost before anybody asked for its commit: it
    /// aborts. But nobody hears when, and where others see what is not committed they go on seeing
    /// it until the server has given it up; a recording that calls it aborted would say that it was
    /// gone by then.
    fn cut_off(&self) -> Ended {
        let seen = self.shared.job.levels().any(|level| level == "READ UNCOMMITTED");
        if seen { Ended::Unknown } else { Ended::Aborted }
    }

    /// What trouble makes of the transaction: nothing, or its end, which is `lost` when the
    /// connection is.
    fn settle(
        &mut self,
        called: Result<(), Trouble>,
        before: i64,
        lost: Ended,
    ) -> Result<Option<End>, String> {
        let (ended, refused, why) = match called {
            Ok(()) => return Ok(None),
            Err(Trouble::Failed(why)) if is_disk_full(&why) => (lost, false, Some(why)),
            Err(Trouble::Failed(why)) => return Err(why),
            Err(Trouble::Refused(_)) => (Ended::Aborted, true, None),
            Err(Trouble::Lost(why)) => (lost, false, Some(why)),
        };
        let after = self.now();
        if refused {
            self.span.answered = Some(after);
        }
        self.recorder.ended(before, after, ended);
        Ok(Some(End { ended, refused, lost: why }))
    }

    fn reconnect(&mut self, level: usize) -> Result<Box<dyn Connection + 'a>, String> {
        self.lost += 1;
        let own_name = self.shared.job.levels().nth(level).unwrap_or_default();
        self.connect(own_name, TRIES)
    }

    /// A server that is busy or just being started, or a relay that is impatient, may not take a
    /// connection at once. If nobody else gets an answer either, it is dead.
    fn connect(&self, own_name: &str, tries: u32) -> Result<Box<dyn Connection + 'a>, String> {
        let (mut answered, mut since) = (self.shared.monitor.answered(), Instant::now());
        let mut failed = "the run is over".to_owned();
        for _ in 0..tries {
            if self.is_over() {
                break;
            }
            self.tape.call(self.now());
            failed = match self.shared.database.connect(self.number as usize, own_name) {
                Ok(connection) => return Ok(connection),
                Err(why) => why,
            };
            thread::sleep(REST);
            let now_answered = self.shared.monitor.answered();
            if std::mem::replace(&mut answered, now_answered) != now_answered {
                since = Instant::now();
            } else if since.elapsed() > self.shared.silence {
                let silence = self.shared.silence.as_secs_f64();
                return Err(format!("no client got an answer for {silence} s: {failed}"));
            }
        }
        Err(failed)
    }
}

/// What databases say when there is no room for what they write.
fn is_disk_full(why: &str) -> bool {
    let why = why.to_ascii_lowercase();
    ["no space left on device", "disk is full", "disk full", "(53100)"].iter().any(|part| why.contains(part))
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
    fn dbms(&self) -> &str {
        &self.client.shared.dbms
    }

    fn sql(&mut self, text: &'static str, params: &[Cell]) -> Result<Answer, Stop> {
        if self.over.is_some() {
            return Err(Stop);
        }
        self.connection.wait_for_turn();
        let before = self.client.call();
        let answered = self.connection.sql(text, params);
        let after = self.client.now();
        match answered {
            Ok(answer) => {
                self.client.recorder.answered(before, after, text, params, &answer);
                Ok(answer)
            }
            Err(trouble) => {
                let cut_off = self.client.cut_off();
                self.over = self.client.settle(Err(trouble), before, cut_off).transpose();
                Err(Stop)
            }
        }
    }
}

#[cfg(test)]
mod tests;
