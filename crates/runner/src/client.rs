//! One client: plans, calls, and what becomes of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use margay_drivers::{Connection, Obj, Trouble, Value};
use margay_workloads::{Generator, Plan};

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

    fn work(&mut self, mut connection: Box<dyn Connection>) {
        let (job, clients) = (self.shared.job, self.shared.job.clients);
        let mut plans = Generator::new(job.workload, job.seed, self.number, clients);
        for index in 0..job.share(self.number) {
            if self.is_over() {
                return;
            }
            let label = index * u64::from(clients) + u64::from(self.number) + 1;
            let session = u64::from(self.number) + u64::from(clients) * u64::from(self.trace.lost);
            self.trace.enter(session, label);
            let (ended, lost) = match self.transaction(connection.as_mut(), &plans.plan()) {
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

    fn reconnect(&mut self) -> Option<Box<dyn Connection>> {
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
