//! The collector: takes what clients have recorded while they run, and brings it where it goes.
//!
//! # Algorithm
//! Every few milliseconds the tapes of all clients are emptied. Each operation becomes part of the
//! history, a line of the file if one is written, a step of the live verification, and a number of
//! the statistics. All of this happens on one thread that clients do not wait for.

use std::io::Write;
use std::sync::{OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use margay_client::{Action, BuilderSink, Recorded, Sink, Start};
use margay_history::{History, HistoryBuilder, Interval, OpKind};

use crate::follow::Feed;
use crate::lines::Lines;
use crate::live::{Live, Verified};
use crate::statements::{Statements, declare};
use crate::statistics::{Thread, memory};
use crate::trace::{Chunk, Tape};
use crate::{Mechanisms, Monitor, Team};

/// How long the collector rests.
const REST: Duration = Duration::from_millis(10);

/// Where a recording is written while it is made.
pub type Output<'a> = Box<dyn Write + Send + 'a>;

/// How long verification may go on after all clients have gone.
#[derive(Clone, Copy)]
pub(crate) struct Patience<'a> {
    pub limit: Option<Duration>,
    /// When they had gone, if they have.
    pub gone: &'a OnceLock<Instant>,
}

impl Patience<'_> {
    /// All clients have gone. Who waits for their threads may learn of it later.
    fn begins(self) {
        self.gone.get_or_init(Instant::now);
    }

    /// Whether verification may go on. Clients may go while it is at work.
    pub fn lasts(self) -> bool {
        self.gone.get().zip(self.limit).is_none_or(|(gone, limit)| gone.elapsed() < limit)
    }
}

pub(crate) struct Collector<'a> {
    tapes: &'a [Tape],
    monitor: &'a Monitor,
    clock: Instant,
    chunk: Chunk,
    history: BuilderSink,
    lines: Option<Lines<'a>>,
    live: Option<(Live, Statements)>,
    feed: Option<Feed>,
    team: Option<&'a dyn Team>,
    /// When each client's open transaction began.
    begun: Vec<i64>,
    patience: Patience<'a>,
    /// When the last round ended, and until when calls were verified then.
    last: Option<(i64, i64)>,
}

/// What the collector has in the end.
pub(crate) struct Collected {
    pub history: History,
    pub verified: Option<Verified>,
    /// What it has computed.
    pub cpu: Option<Duration>,
}

impl<'a> Collector<'a> {
    pub fn new(
        tapes: &'a [Tape],
        monitor: &'a Monitor,
        clock: Instant,
        start: &Start,
        output: Option<Output<'a>>,
        mechanisms: Option<Mechanisms>,
        patience: Patience<'a>,
    ) -> Result<Self, String> {
        let mut history = BuilderSink::default();
        history.start(start).map_err(no_history)?;
        let lines = output.map(|output| Lines::new(output, start)).transpose().map_err(not_written)?;
        let live = mechanisms.map(|mechanisms| mirror(&mechanisms, tapes.len(), start, history.builder()));
        let begun = vec![0; tapes.len()];
        let (chunk, last, feed) = (Chunk::default(), None, None);
        let team = None;
        Ok(Self { tapes, monitor, clock, chunk, history, lines, live, feed, team, begun, patience, last })
    }

    /// Tells other machines how far the recording is.
    pub fn with(self, team: Option<&'a dyn Team>) -> Self {
        Self { team, ..self }
    }

    /// Passes what is collected on to a follower, if there is one.
    pub fn feeding(self, feed: Option<Feed>) -> Self {
        Self { feed, ..self }
    }

    /// Collects until all clients are gone.
    pub fn run(mut self) -> Result<Collected, String> {
        loop {
            let over = self.round()?;
            if over {
                return self.finish();
            }
            thread::park_timeout(REST);
        }
    }

    /// Empties every tape once; answers whether all clients were gone before.
    fn round(&mut self) -> Result<bool, String> {
        let began = self.clock.elapsed().as_nanos() as i64;
        let (mut over, mut until) = (true, i64::MAX);
        for client in 0..self.tapes.len() {
            let mut chunk = std::mem::replace(&mut self.chunk, Chunk::placeholder());
            let promised = self.tapes[client].take(&mut chunk);
            over &= promised == i64::MAX;
            until = until.min(promised);
            let taken = chunk.replay(|op| self.take(client, op));
            chunk.clear();
            self.chunk = chunk;
            taken?;
            if let Some((live, _)) = &mut self.live {
                live.promise(client, promised);
            }
            if let Some(feed) = self.feed.as_mut().filter(|_| promised == i64::MAX) {
                feed.gone(client, began);
            }
        }
        if let Some(feed) = &mut self.feed {
            feed.pass(until);
        }
        let mut written = until.min(began);
        if let Some(lines) = &mut self.lines {
            written = written.min(lines.pass(began).map_err(not_written)?);
        }
        if over {
            self.patience.begins();
        }
        self.verify(began);
        let mut verified = began;
        if let Some(team) = self.team {
            team.promise(written);
            verified = verified.min(team.verified());
            if team.is_over() {
                self.monitor.stop();
            }
        }
        self.monitor.has_collected(verified);
        Ok(over)
    }

    fn take(&mut self, client: usize, op: Recorded<'_>) -> Result<(), String> {
        self.history.op(op).map_err(no_history)?;
        if let Some(lines) = &mut self.lines {
            lines.op(op).map_err(not_written)?;
        }
        if let Some(feed) = &mut self.feed {
            feed.op(client, op);
        }
        self.reflect(client, op);
        self.count(client, op);
        Ok(())
    }

    /// Tells the mirror of the operation that was recorded last.
    fn reflect(&mut self, client: usize, op: Recorded<'_>) {
        let (Some((live, statements)), Some(kind)) = (&mut self.live, self.history.kind()) else { return };
        if live.verified().ended.is_some() {
            return;
        }
        let at = Interval::new(op.before, op.after);
        if kind == OpKind::Sql {
            let told = statements.statement(client, self.history.builder(), live.searches());
            return live.push_asked(client, op.txn, told.kind, at, &told.accesses, Some(told.asked));
        }
        if kind.outcome().is_some() {
            statements.ended(client);
        }
        let (builder, accesses) = self.history.built();
        accesses.iter().for_each(|access| declare(builder, *access, live.searches()));
        live.push(client, op.txn, kind, at, accesses);
    }

    fn count(&mut self, client: usize, op: Recorded<'_>) {
        if matches!(op.action, Action::Begin) {
            self.begun[client] = op.before;
            return;
        }
        if !matches!(op.action, Action::Commit | Action::Abort | Action::Unknown) {
            return;
        }
        let mut statistics = self.monitor.statistics.lock().unwrap_or_else(PoisonError::into_inner);
        statistics.worked_between(self.begun[client], op.after);
        let point = statistics.at(op.after);
        match op.action {
            Action::Commit => point.committed += 1,
            Action::Unknown => point.unknown += 1,
            _ => point.aborted += 1,
        }
        point.took(op.after - self.begun[client]);
    }

    /// What was collected in a round that began then. It was recorded before, so that the
    /// verification is behind by as long as it takes, at least.
    fn verify(&mut self, began: i64) {
        let mut verified = (0, 0);
        if let Some((live, _)) = &mut self.live {
            live.advance(self.history.values(), || self.patience.lasts());
            verified = (live.verified().transactions, live.verified().violations);
        }
        let now = self.clock.elapsed().as_nanos() as i64;
        let reached = self.live.as_ref().map_or(now, |(live, _)| live.reached().min(began));
        self.monitor.verified(Duration::from_nanos((now - reached).max(0) as u64), verified);
        let mut statistics = self.monitor.statistics.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some((ended, reached)), Some(_)) = (self.last.replace((now, reached)), &self.live) {
            statistics.behind(reached, ended, now);
        }
        let point = statistics.at(now);
        (point.verified, point.violations) = verified;
        point.dependencies = self.live.as_ref().map_or([0; 3], |(live, _)| live.dependencies());
        if point.memory.is_none() {
            point.memory = memory();
        }
    }

    fn finish(mut self) -> Result<Collected, String> {
        let (values, patience) = (self.history.values(), self.patience);
        let verified = self.live.take().map(|(live, _)| live.finish(values, || patience.lasts()));
        if let Some(verified) = &verified {
            self.monitor.verified(Duration::ZERO, (verified.transactions, verified.violations));
        }
        if let Some(mut lines) = self.lines {
            lines.pass(i64::MAX).map_err(not_written)?;
        }
        let history = self.history.finish().map_err(no_history)?;
        let cpu = Thread::current().and_then(|thread| thread.cpu());
        Ok(Collected { history, verified, cpu })
    }
}

/// The mirror of a run, which knows what there is at its beginning.
fn mirror(
    mechanisms: &Mechanisms,
    clients: usize,
    start: &Start,
    builder: &mut HistoryBuilder,
) -> (Live, Statements) {
    let mut live = Live::new(*mechanisms, clients, []);
    Statements::declare(builder, live.searches());
    builder.initial_values().for_each(|access| live.initial(access));
    (live, Statements::new(builder, &start.dbms, mechanisms, clients))
}

fn no_history(error: margay_history::Invalid) -> String {
    format!("the recording is no history: {error}")
}

fn not_written(error: std::io::Error) -> String {
    format!("the recording cannot be written: {error}")
}
