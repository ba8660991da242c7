//! A follower beside the run: it gets the recording as lines, while it is made, on a thread of its own.
//!
//! # Algorithm
//! In each round the collector passes on the lines of all clients, and the time before which every call has come. The
//! follower's thread takes them, and looks at what is new when it has caught up, every [`BEAT`] at most.
//!
//! # Invariants
//! Nobody waits for the follower. If it is too far behind, or its time is over, it stops and says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use margay_client::{Action, JsonSink, Recorded, Sink, Start};

use crate::Monitor;
use crate::collect::Patience;

/// How often it looks at what is new.
const BEAT: Duration = Duration::from_millis(100);

/// How many bytes of lines may wait for it.
const BACKLOG: usize = 256 << 20;

/// Follows a recording while it is made.
pub trait Follows: Send {
    /// The next line; the header is the first.
    fn line(&mut self, line: &[u8]);

    /// Everything has come that was called before this time. Looks at it now if that is wanted.
    fn advance(&mut self, until: i64, now: bool);

    /// All has come.
    fn finish(&mut self);

    /// Stops, and why.
    fn stop(&mut self, why: &str);

    /// How far it has come.
    fn followed(&self) -> Followed;
}

/// How far a follower has come.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Followed {
    /// The level that it follows.
    pub level: &'static str,
    /// Transactions whose order is settled and audited.
    pub settled: u64,
    /// Transactions that are open or held back.
    pub open: u64,
    /// Everything that had ended by this time was looked at.
    pub reached: i64,
    /// How far it is behind.
    pub lag: Duration,
    /// The most that it was behind.
    pub worst_lag: Duration,
    /// Bytes that it holds.
    pub memory: u64,
    /// The most bytes that it held.
    pub worst_memory: u64,
    /// Whether everything is settled.
    pub whole: bool,
    /// Why it stopped, if it did.
    pub stopped: Option<String>,
}

/// Lines, and the time before which all have come.
type Batch = (Vec<u8>, i64);

/// The collector's end.
pub(crate) struct Feed {
    sink: JsonSink<Vec<u8>>,
    out: Sender<Batch>,
    backlog: Arc<AtomicUsize>,
    /// Each client's transaction that has not ended, with its session.
    open: Vec<Option<(u64, u64)>>,
    is_over: bool,
}

/// The follower's end.
pub(crate) struct Follow<'a> {
    follower: Box<dyn Follows + 'a>,
    lines: Receiver<Batch>,
    backlog: Arc<AtomicUsize>,
    clock: Instant,
    worst: (Duration, u64),
}

/// Both ends.
pub(crate) fn connect<'a>(
    follower: Box<dyn Follows + 'a>,
    start: &Start,
    clients: usize,
    clock: Instant,
) -> Result<(Feed, Follow<'a>), String> {
    let (out, lines) = mpsc::channel();
    let backlog = Arc::new(AtomicUsize::new(0));
    let mut sink = JsonSink::new(Vec::new());
    sink.start(start).map_err(|error| format!("the recording cannot be followed: {error}"))?;
    let feed = Feed { sink, out, backlog: Arc::clone(&backlog), open: vec![None; clients], is_over: false };
    Ok((feed, Follow { follower, lines, backlog, clock, worst: (Duration::ZERO, 0) }))
}

impl Feed {
    /// The next operation of a client.
    pub fn op(&mut self, client: usize, op: Recorded<'_>) {
        if self.is_over {
            return;
        }
        let ended = matches!(op.action, Action::Commit | Action::Abort | Action::Unknown);
        self.open[client] = (!ended).then_some((op.session, op.txn));
        self.is_over |= self.sink.op(op).is_err();
    }

    /// A client has gone. What it left open is of unknown outcome.
    pub fn gone(&mut self, client: usize, now: i64) {
        if let Some((session, txn)) = self.open[client].take() {
            self.op(client, Recorded { session, txn, before: now, after: now, action: Action::Unknown });
        }
    }

    /// Passes on what there is. Everything that was called before this time is among it.
    pub fn pass(&mut self, until: i64) {
        let lines = self.sink.take();
        if self.is_over {
            return;
        }
        let waiting = self.backlog.fetch_add(lines.len(), Ordering::Relaxed) + lines.len();
        // Without a last batch the follower knows that it has not seen everything.
        self.is_over = waiting > BACKLOG || self.out.send((lines, until)).is_err();
    }
}

impl Follow<'_> {
    /// Follows until nothing more comes.
    pub fn run(mut self, monitor: &Monitor, patience: Patience<'_>) -> Followed {
        let mut looked = Instant::now();
        let mut reached = i64::MIN;
        while let Ok((mut lines, mut until)) = self.lines.recv() {
            self.take(&lines);
            while let Ok(next) = self.lines.try_recv() {
                (lines, until) = next;
                self.take(&lines);
            }
            let now = looked.elapsed() >= BEAT;
            if now {
                looked = Instant::now();
            }
            if !patience.lasts() {
                self.follower.stop("the time was over before all was followed");
            }
            self.follower.advance(until, now);
            reached = until;
            self.tell(monitor);
        }
        match reached == i64::MAX {
            _ if !patience.lasts() => self.follower.stop("the time was over before all was followed"),
            true => self.follower.finish(),
            false => self.follower.stop("it could not keep up with the clients"),
        }
        self.tell(monitor)
    }

    fn take(&mut self, lines: &[u8]) {
        self.backlog.fetch_sub(lines.len(), Ordering::Relaxed);
        let lines = lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        lines.for_each(|line| self.follower.line(line));
    }

    /// Says how far it has come.
    fn tell(&mut self, monitor: &Monitor) -> Followed {
        let mut followed = self.follower.followed();
        if !followed.whole && followed.reached > i64::MIN {
            let now = self.clock.elapsed().as_nanos() as i64;
            followed.lag = Duration::from_nanos((now - followed.reached).max(0) as u64);
        }
        self.worst = (self.worst.0.max(followed.lag), self.worst.1.max(followed.memory));
        (followed.worst_lag, followed.worst_memory) = self.worst;
        monitor.has_followed(followed.clone());
        followed
    }
}
