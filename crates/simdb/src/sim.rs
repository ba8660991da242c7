//! The simulation: events in time, clients, and what they record.
//!
//! # Algorithm
//! A client calls at `before`; the call reaches the database one latency later, takes effect at
//! that instant unless it has to wait, and the answer is there at `after`, another latency later.
//! Then the client thinks and calls again. One event per call is enough: the instant at which it is
//! (re)tried. Events are ordered by time, and by the order of their scheduling at one time.
//!
//! # Invariants
//! - `before < effect < after` for every operation with an answer; a commit whose answer is lost
//!   may take effect after its interval.
//! - Equal configurations give equal histories, byte for byte, on any machine.
//! - Memory is bounded by clients, keys and the versions that active transactions can still see,
//!   not by the number of transactions. The record of firings is the exception.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use margay_client::{Action, Ask, BuilderSink, Obj, Recorded, Rng, Schema, Sink, Space, Start, Value};
use margay_history::{History, Invalid};

use crate::config::SimConfig;
use crate::db::{Db, Deferred, Seen, Stop};
use crate::evidence::Notes;
use crate::execute::execute;
use crate::fault::Fault;
use crate::report::Report;
use crate::rules::{Commit, Rules, rules};
use crate::workload::{Asker, Workload};

/// Runs a simulation into a sink.
///
/// # Errors
/// When the sink fails.
pub fn simulate<S: Sink>(config: &SimConfig, sink: &mut S) -> Result<Report, S::Error> {
    sink.start(&initial_state(config))?;
    Simulation::new(config, sink).run()
}

/// Simulates into a history.
///
/// # Errors
/// When the simulation is not a history: more operations than one can hold.
pub fn simulate_history(config: &SimConfig) -> Result<(History, Report), Invalid> {
    let mut sink = BuilderSink::default();
    let report = simulate(config, &mut sink)?;
    Ok((sink.finish()?, report))
}

/// What a history of this configuration says first: names, tables, initial values.
#[must_use]
pub fn initial_state(config: &SimConfig) -> Start {
    let objects =
        |used: bool, space| (0..if used { config.keys } else { 0 }).map(move |k| Obj::new(space, k));
    let registers = objects(config.mix.registers(), Space::Register);
    let all = registers.chain(objects(config.mix.rows(), Space::Row));
    let valued = all.map(|obj| (obj, obj.initial(config.domain)));
    Start {
        dbms: format!("simdb-{}", config.protocol),
        level: config.protocol.promises()[0].name().to_owned(),
        skew: config.skew as i64,
        table: config.mix.rows(),
        initial: valued.filter(|(_, value)| *value != Value::Absent).collect(),
        schema: Schema::default(),
    }
}

/// What a client calls for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    Begin,
    Statement(Ask),
    Commit,
    Rollback,
    /// A commit whose request is lost: the database aborts.
    LostRequest,
    /// A commit whose answer is lost.
    LostAnswer,
}

#[derive(Debug)]
struct Client {
    asker: Asker,
    timing: Rng,
    /// How far its clock is ahead.
    offset: i64,
    call: Call,
    before: i64,
    label: u64,
    /// Operations recorded in this transaction.
    ops: u32,
    /// Operations to come before the end.
    left: u32,
    /// What stays in the record about its clock.
    skewed: Option<u32>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Call(u32),
    /// The first of the deferred writes is due.
    Apply,
}

struct Simulation<'a, S: Sink> {
    config: &'a SimConfig,
    sink: &'a mut S,
    db: Db,
    rules: Box<dyn Rules>,
    workload: Workload,
    clients: Vec<Client>,
    events: BinaryHeap<Reverse<(i64, u64, Event)>>,
    scheduled: u64,
    /// Who waits, in order of arrival.
    waiting: Vec<u32>,
    /// Sorted by time.
    deferred: VecDeque<Deferred>,
    /// Retired lists with the last label that may have asked for them.
    retired: VecDeque<(u64, u32)>,
    notes: Notes,
    report: Report,
    answer: Vec<Seen>,
    rows: Vec<(Obj, Value)>,
}

impl<'a, S: Sink> Simulation<'a, S> {
    fn new(config: &'a SimConfig, sink: &'a mut S) -> Self {
        let mut db = Db::new(config);
        let clients = (0..config.clients).map(|number| client(config, &mut db, number)).collect();
        Self {
            config,
            sink,
            rules: rules(config.protocol, config.clients as usize),
            workload: Workload::new(config),
            clients,
            events: BinaryHeap::new(),
            scheduled: 0,
            waiting: Vec::new(),
            deferred: VecDeque::new(),
            retired: VecDeque::new(),
            notes: Notes::new(config),
            report: Report::default(),
            answer: Vec::new(),
            rows: Vec::new(),
            db,
        }
    }

    fn run(mut self) -> Result<Report, S::Error> {
        for me in 0..self.clients.len() {
            self.call(me, Call::Begin, 0);
        }
        while let Some(Reverse((time, _, event))) = self.events.pop() {
            self.db.now = time;
            match event {
                Event::Call(me) => self.effect(me as usize)?,
                Event::Apply => self.apply_deferred()?,
            }
            self.take_deferred();
            self.wake();
        }
        assert!(self.waiting.is_empty(), "somebody waits for nobody");
        self.report.firings = self.db.faults.firings;
        Ok(self.report)
    }

    fn schedule(&mut self, time: i64, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((time, self.scheduled, event)));
    }

    /// Client `me`, which has had its last answer at `after`, calls.
    fn call(&mut self, me: usize, call: Call, after: i64) {
        let timing = self.config.timing;
        let client = &mut self.clients[me];
        client.call = call;
        client.before = after + 1 + client.timing.below(timing.think) as i64;
        let effect = client.before + latency(&mut client.timing, self.config);
        self.schedule(effect, Event::Call(me as u32));
    }

    /// Records an operation that has taken effect now; answers when its client knows.
    fn record(&mut self, me: usize, action: Action<'_>) -> Result<i64, S::Error> {
        let client = &mut self.clients[me];
        let after = self.db.now + latency(&mut client.timing, self.config);
        // A client that never learns gives up before the database is done.
        let told = match action {
            Action::Unknown => client.before + (self.db.now - client.before) / 2,
            _ => after,
        };
        client.ops += 1;
        self.report.operations += 1;
        self.sink.op(Recorded {
            session: me as u64,
            txn: client.label,
            before: client.before + client.offset,
            after: told + client.offset,
            action,
        })?;
        Ok(after)
    }

    /// The call of a client reaches the database, or is tried again.
    fn effect(&mut self, me: usize) -> Result<(), S::Error> {
        self.db.locks.go_on(me);
        match self.clients[me].call {
            Call::Begin => self.begin(me),
            Call::Statement(ask) => self.statement(me, ask),
            Call::Commit | Call::LostAnswer => self.commit(me),
            Call::Rollback => self.abort(me, Action::Abort),
            Call::LostRequest => self.abort(me, Action::Unknown),
        }
    }

    fn begin(&mut self, me: usize) -> Result<(), S::Error> {
        if self.report.transactions == self.config.transactions {
            return Ok(());
        }
        self.report.transactions += 1;
        let label = self.report.transactions;
        let client = &mut self.clients[me];
        (client.label, client.ops) = (label, 0);
        client.left = client.asker.begin(self.config.ops);
        self.db.txns[me].label = label;
        let after = self.record(me, Action::Begin)?;
        self.call_next(me, after);
        Ok(())
    }

    fn call_next(&mut self, me: usize, after: i64) {
        let client = &mut self.clients[me];
        let call = if client.left > 0 {
            client.left -= 1;
            Call::Statement(self.workload.next(&mut client.asker))
        } else if client.asker.chance(self.config.aborts.0) {
            Call::Rollback
        } else if client.asker.chance(self.config.unknown.0) {
            if client.asker.chance(500_000) { Call::LostRequest } else { Call::LostAnswer }
        } else {
            Call::Commit
        };
        let last = self.report.transactions;
        self.retired.extend(self.workload.retired.drain(..).map(|list| (last, list)));
        self.call(me, call, after);
    }

    fn statement(&mut self, me: usize, ask: Ask) -> Result<(), S::Error> {
        let mut answer = std::mem::take(&mut self.answer);
        let step = execute(&mut self.db, self.rules.as_mut(), me, ask, &mut answer);
        let result = match step {
            Ok(()) => self.answered(me, ask, &mut answer),
            Err(stop) => self.stopped(me, stop),
        };
        self.answer = answer;
        result
    }

    fn stopped(&mut self, me: usize, stop: Stop) -> Result<(), S::Error> {
        if let Stop::Wait(blockers) = stop
            && self.db.locks.wait(me, blockers)
        {
            self.waiting.push(me as u32);
            return Ok(());
        }
        self.report.refused += 1;
        self.abort(me, Action::Abort)
    }

    fn answered(&mut self, me: usize, ask: Ask, answer: &mut Vec<Seen>) -> Result<(), S::Error> {
        let mut rows = std::mem::take(&mut self.rows);
        rows.clear();
        rows.extend(answer.drain(..).map(|seen| (seen.obj, seen.value)));
        let action = match ask {
            Ask::Read(obj) => Action::Read(obj, &rows[0].1),
            Ask::Write(obj, change) => Action::Write(obj, change),
            Ask::Aggregate(cond) if self.config.sql => {
                let (count, sum) = aggregate(&rows);
                Action::Aggregate(cond, count, sum)
            }
            Ask::Scan(cond) | Ask::Aggregate(cond) => Action::Scan(cond, &rows),
            Ask::Update(cond, set) => Action::Update(cond, set, &rows),
        };
        let after = self.record(me, action);
        self.rows = rows;
        let after = after?;
        let client = &self.clients[me];
        self.notes.version_set(self.sink, client.label, client.ops - 1, &self.db.looked)?;
        self.call_next(me, after);
        Ok(())
    }

    fn commit(&mut self, me: usize) -> Result<(), S::Error> {
        match self.rules.commit(&mut self.db, me) {
            Ok(Commit::Later) => {
                let at = self.db.now + latency(&mut self.clients[me].timing, self.config);
                self.schedule(at, Event::Call(me as u32));
                Ok(())
            }
            Ok(Commit::At(ts)) => self.committed(me, ts),
            Err(_) => {
                self.report.refused += 1;
                let lost = self.clients[me].call == Call::LostAnswer;
                self.abort(me, if lost { Action::Unknown } else { Action::Abort })
            }
        }
    }

    fn committed(&mut self, me: usize, ts: u64) -> Result<(), S::Error> {
        self.report.committed += 1;
        let told = self.told(me);
        self.rules.end(&mut self.db, me, Some(ts));
        let (label, snapshot) = (self.clients[me].label, self.db.txns[me].snapshot);
        self.db.commit(me, ts);
        self.db.locks.release_all(me);
        if let Some(firing) = self.clients[me].skewed {
            self.db.faults.firings[firing as usize].visible = true;
        }
        self.notes.committed(self.sink, label, ts, snapshot)?;
        self.notes.successions(self.sink, &mut self.db.successions)?;
        self.finish(me, told)
    }

    /// What a client hears of its commit.
    fn told(&mut self, me: usize) -> Action<'static> {
        if self.clients[me].call == Call::LostAnswer {
            return Action::Unknown;
        }
        if !self.db.txns[me].writes.is_empty() && self.db.faults.roll(Fault::UnknownCommitted) {
            let txn = &mut self.db.txns[me];
            txn.mark = Some(self.db.faults.record(Fault::UnknownCommitted, txn.label, self.db.now));
            return Action::Abort;
        }
        Action::Commit
    }

    fn abort(&mut self, me: usize, told: Action<'static>) -> Result<(), S::Error> {
        let ts = self.rules.abort_ts(&mut self.db, me);
        self.rules.end(&mut self.db, me, None);
        self.db.abort(me, ts);
        self.db.locks.release_all(me);
        self.finish(me, told)
    }

    fn finish(&mut self, me: usize, told: Action<'static>) -> Result<(), S::Error> {
        self.report.unknown += u64::from(matches!(told, Action::Unknown));
        let after = self.record(me, told)?;
        self.forget_lists();
        self.call(me, Call::Begin, after);
        Ok(())
    }

    /// A retired list goes when everyone who may have asked for it has ended.
    fn forget_lists(&mut self) {
        if self.retired.is_empty() {
            return;
        }
        let active = self.db.txns.iter().map(|t| t.label).filter(|&label| label != 0);
        let oldest = active.min().unwrap_or(u64::MAX);
        while let Some(&(last, list)) = self.retired.front()
            && last < oldest
        {
            self.db.store.forget(list);
            self.retired.pop_front();
        }
    }

    /// Whoever waits for somebody that has released something tries again.
    fn wake(&mut self) {
        if self.db.released.is_empty() {
            return;
        }
        let locks = &self.db.locks;
        let waits = |me: &mut u32| locks.waits_for(*me, &self.db.released);
        let woken: Vec<u32> = self.waiting.extract_if(.., waits).collect();
        for me in woken {
            self.schedule(self.db.now + 1, Event::Call(me));
        }
        self.db.released.clear();
    }

    fn take_deferred(&mut self) {
        for deferred in std::mem::take(&mut self.db.deferred) {
            self.schedule(deferred.at, Event::Apply);
            let place = self.deferred.partition_point(|d| d.at <= deferred.at);
            self.deferred.insert(place, deferred);
        }
    }

    fn apply_deferred(&mut self) -> Result<(), S::Error> {
        if let Some(deferred) = self.deferred.pop_front() {
            self.db.apply(deferred);
        }
        self.notes.successions(self.sink, &mut self.db.successions)
    }
}

fn aggregate(rows: &[(Obj, Value)]) -> (u64, Option<i64>) {
    let values = rows.iter().filter_map(|(_, value)| match value {
        Value::Row(row) => row.v,
        _ => None,
    });
    (rows.len() as u64, values.reduce(|a, b| a + b))
}

fn latency(rng: &mut Rng, config: &SimConfig) -> i64 {
    let timing = config.timing;
    let stall = if rng.chance(timing.stalls.0) { 1 + rng.below(timing.stall) } else { 0 };
    (1 + rng.below(timing.latency) + stall) as i64
}

/// A client with its clock.
fn client(config: &SimConfig, db: &mut Db, number: u32) -> Client {
    let mut clock = Rng::new(config.seed, 2 << 32 | u64::from(number));
    let mut offset = clock.below(config.skew + 1) as i64 - (config.skew / 2) as i64;
    let mut skewed = None;
    if db.faults.roll(Fault::ClockSkew) {
        skewed = Some(db.faults.record(Fault::ClockSkew, 0, 0));
        let off = (1 + clock.below(20)) * config.timing.latency;
        offset += if clock.below(2) == 0 { off as i64 } else { -(off as i64) };
    }
    Client {
        asker: Asker::new(config, number),
        timing: Rng::new(config.seed, 3 << 32 | u64::from(number)),
        offset,
        call: Call::Begin,
        before: 0,
        label: 0,
        ops: 0,
        left: 0,
        skewed,
    }
}
