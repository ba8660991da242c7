//! One client: plans, calls, and what becomes of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use margay_drivers::{Answer, Cell, Connection, Obj, Trouble, Value};
use margay_workloads::{End as Wish, Generator, Plan, Procedure, Script, Session, Stop};

use crate::Shared;
use crate::trace::{Ended, Trace};

/// How often a client tries to connect again, and how long it rests in between.
const TRIES: u32 = 40;
const REST: Duration = Duration::from_millis(250);

pub(crate) struct Client<'a> {
    shared: &'a Shared<'a>,
    number: u32,
    trace: Trace,
    rows: Vec<(Obj, Value)>,
}

/// How a transaction ended, and whether the connection did too.
type End = (Ended, Option<String>);

/// Where transactions come from.
enum Source {
    Plans(Generator),
    Script(Box<dyn Script>),
}

impl<'a> Client<'a> {
    /// Runs client number `number` to its end, on this thread.
    pub fn run(shared: &'a Shared<'a>, number: u32) -> Trace {
        let mut client = Client { shared, number, trace: Trace::default(), rows: Vec::new() };
        let connection = shared.database.connect(number as usize, &shared.job.own_name);
        shared.ready.wait();
        match connection {
            Ok(connection) => client.work(connection),
            Err(why) => shared.fail(why),
        }
        client.trace
    }

    fn work(&mut self, mut connection: Box<dyn Connection + 'a>) {
        let (job, clients) = (self.shared.job, self.shared.job.clients);
        let mut source = self.source();
        for index in 0..job.share(self.number) {
            if self.is_over() {
                return;
            }
            let label = index * u64::from(clients) + u64::from(self.number) + 1;
            let session = u64::from(self.number) + u64::from(clients) * u64::from(self.trace.lost);
            self.trace.enter(session, label);
            connection.enter(label);
            let ended = match &mut source {
                Source::Plans(plans) => self.transaction(connection.as_mut(), &plans.plan()),
                Source::Script(script) => self.procedure(connection.as_mut(), script.next().as_ref()),
            };
            let (ended, lost) = match ended {
                Ok(end) => end,
                Err(why) => return self.shared.fail(why),
            };
            self.count(ended).fetch_add(1, Ordering::Relaxed);
            if let Some(why) = lost {
                match self.reconnect() {
                    Some(new) => connection = new,
                    None => return self.trace.dropped = Some(format!("client {}: {why}", self.number)),
                }
            }
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

    fn count(&self, ended: Ended) -> &AtomicU64 {
        let monitor = self.shared.monitor;
        match ended {
            Ended::Committed => &monitor.committed,
            Ended::Aborted => &monitor.aborted,
            Ended::Unknown => &monitor.unknown,
        }
    }

    fn now(&self) -> i64 {
        self.shared.clock.elapsed().as_nanos() as i64
    }

    fn transaction(&mut self, connection: &mut dyn Connection, plan: &Plan) -> Result<End, String> {
        let before = self.now();
        let begun = connection.begin();
        match self.settle(begun, before, Ended::Aborted)? {
            None => self.trace.begin(before, self.now()),
            Some(end) => return Ok(end),
        }
        for &ask in &plan.asks {
            self.rows.clear();
            let before = self.now();
            let executed = connection.execute(ask, &mut self.rows);
            let after = self.now();
            if let Some(end) = self.settle(executed, before, Ended::Aborted)? {
                return Ok(end);
            }
            self.trace.executed(before, after, ask, &mut self.rows);
        }
        self.end(connection, plan.commits)
    }

    fn procedure(
        &mut self,
        connection: &mut dyn Connection,
        procedure: &dyn Procedure,
    ) -> Result<End, String> {
        let before = self.now();
        let begun = connection.begin();
        match self.settle(begun, before, Ended::Aborted)? {
            None => self.trace.begin(before, self.now()),
            Some(end) => return Ok(end),
        }
        let mut open = Open { client: self, connection, over: None };
        let wish = procedure.run(&mut open);
        match (wish, open.over) {
            (_, Some(over)) => over,
            (Ok(wish), None) => self.end(connection, wish == Wish::Commit),
            (Err(Stop), None) => self.end(connection, false),
        }
    }

    fn end(&mut self, connection: &mut dyn Connection, commits: bool) -> Result<End, String> {
        let before = self.now();
        let ended = if commits { connection.commit() } else { connection.rollback() };
        let after = self.now();
        // A rollback without an answer is one all the same: the server gives up what its client left.
        let lost = if commits { Ended::Unknown } else { Ended::Aborted };
        if let Some(end) = self.settle(ended, before, lost)? {
            return Ok(end);
        }
        let ended = if commits { Ended::Committed } else { Ended::Aborted };
        self.trace.ended(before, after, ended);
        Ok((ended, None))
    }

    /// What trouble makes of the transaction: nothing, or its end, which is `lost` when the connection is.
    fn settle(
        &mut self,
        called: Result<(), Trouble>,
        before: i64,
        lost: Ended,
    ) -> Result<Option<End>, String> {
        let (ended, why) = match called {
            Ok(()) => return Ok(None),
            Err(Trouble::Failed(why)) => return Err(why),
            Err(Trouble::Refused(_)) => (Ended::Aborted, None),
            Err(Trouble::Lost(why)) => (lost, Some(why)),
        };
        let after = self.now();
        self.trace.ended(before, after, ended);
        Ok(Some((ended, why)))
    }

    fn reconnect(&mut self) -> Option<Box<dyn Connection + 'a>> {
        self.trace.lost += 1;
        for _ in 0..TRIES {
            if self.is_over() {
                return None;
            }
            if let Ok(connection) =
                self.shared.database.connect(self.number as usize, &self.shared.job.own_name)
            {
                return Some(connection);
            }
            thread::sleep(REST);
        }
        None
    }
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
        let before = self.client.now();
        let answered = self.connection.sql(text, params);
        let after = self.client.now();
        match answered {
            Ok(answer) => {
                self.client.trace.answered(before, after, text, params, &answer);
                Ok(answer)
            }
            Err(trouble) => {
                self.over = self.client.settle(Err(trouble), before, Ended::Aborted).transpose();
                Err(Stop)
            }
        }
    }
}
