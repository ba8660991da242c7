//! A follower beside the run: it gets the recording as lines, while it is made, on a thread of its
//! own.
//!
//! # Algorithm
//! In each round the collector passes on the lines of all clients, and the time before which every
//! call has come. The follower's thread takes them, and looks at what is new when it has caught up,
//! every [`BEAT`] at most.
//!
//! # Invariants
//! Nobody waits for the follower. If it is too far behind, or its time is over, it stops and says
//! so.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::ScopedJoinHandle;
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

    /// What another thread calls to make it stop soon, whatever it is at.
    fn interrupt(&self) -> Box<dyn Fn() + Send>;
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
    /// It was less behind for 99 % of the time.
    pub usual_lag: Duration,
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
    lags: Lags,
}

/// For how long it was how far behind.
#[derive(Default)]
struct Lags {
    /// By milliseconds behind: for how many milliseconds; the last for all that are more.
    millis: Vec<u64>,
    /// By when everything had come that it has looked at.
    reached: Option<i64>,
    /// When it was asked last.
    asked: i64,
}

impl Lags {
    const MOST: usize = 60_000;

    /// It has reached this time now. Answers how far it was behind until then.
    fn reaches(&mut self, reached: i64, now: i64) -> Duration {
        let before = self.reached.replace(reached);
        let from = std::mem::replace(&mut self.asked, now);
        let Some(before) = before else { return Duration::ZERO };
        let millis = |time: i64| ((time - before).max(0) / 1_000_000) as usize;
        for lag in millis(from)..millis(now) {
            let lag = lag.min(Self::MOST);
            if self.millis.len() <= lag {
                self.millis.resize(lag + 1, 0);
            }
            self.millis[lag] += 1;
        }
        Duration::from_nanos((now - before).max(0) as u64)
    }

    /// How far it was behind at most for so many of a hundred parts of the time.
    fn percentile(&self, percent: u64) -> Duration {
        let mut left = self.millis.iter().sum::<u64>() * percent / 100;
        for (millis, &count) in self.millis.iter().enumerate() {
            if count > left {
                return Duration::from_millis(millis as u64 + 1);
            }
            left -= count;
        }
        Duration::ZERO
    }
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
    Ok((feed, Follow { follower, lines, backlog, clock, worst: (Duration::ZERO, 0), lags: Lags::default() }))
}

/// Waits for the follower's thread as long as verification may go on, and then interrupts it.
pub(crate) fn join(
    thread: ScopedJoinHandle<'_, Followed>,
    interrupt: impl Fn(),
    patience: Patience<'_>,
) -> std::thread::Result<Followed> {
    while !thread.is_finished() && patience.lasts() {
        std::thread::sleep(Duration::from_millis(1));
    }
    interrupt();
    thread.join()
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
            self.worst.0 = self.worst.0.max(self.lags.reaches(followed.reached, now));
        }
        self.worst = (self.worst.0.max(followed.lag), self.worst.1.max(followed.memory));
        (followed.worst_lag, followed.worst_memory) = self.worst;
        followed.usual_lag = self.lags.percentile(99);
        monitor.has_followed(followed.clone());
        followed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::sync::atomic::AtomicBool;

    use margay_client::Setting;

    use super::*;

    /// Counts what it is told.
    #[derive(Default)]
    struct Counts {
        lines: Vec<String>,
        told: Followed,
    }

    impl Follows for Counts {
        fn line(&mut self, line: &[u8]) {
            self.lines.push(String::from_utf8_lossy(line).into_owned());
            self.told.settled += 1;
        }

        fn advance(&mut self, until: i64, _: bool) {
            self.told.reached = until;
        }

        fn finish(&mut self) {
            let unknown = self.lines.iter().filter(|line| line.contains("\"unknown\":true")).count();
            (self.told.open, self.told.whole) = (unknown as u64, true);
        }

        fn stop(&mut self, why: &str) {
            self.told.stopped.get_or_insert(why.to_owned());
        }

        fn followed(&self) -> Followed {
            self.told.clone()
        }

        fn interrupt(&self) -> Box<dyn Fn() + Send> {
            Box::new(|| ())
        }
    }

    /// Searches for ever, unless it is interrupted.
    #[derive(Default)]
    struct Stuck(Arc<AtomicBool>, Followed);

    impl Follows for Stuck {
        fn line(&mut self, _: &[u8]) {}

        fn advance(&mut self, _: i64, _: bool) {}

        fn finish(&mut self) {
            while !self.0.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            self.stop("interrupted");
        }

        fn stop(&mut self, why: &str) {
            self.1.stopped.get_or_insert(why.to_owned());
        }

        fn followed(&self) -> Followed {
            self.1.clone()
        }

        fn interrupt(&self) -> Box<dyn Fn() + Send> {
            let over = Arc::clone(&self.0);
            Box::new(move || over.store(true, Ordering::Relaxed))
        }
    }

    /// A run of SQLite by 24 clients never ended: the order of its last transactions is hard to
    /// find, and nothing limited that search.
    #[test]
    fn a_follower_that_searches_for_too_long_is_interrupted() {
        let setting = Setting { clients: 1, keys: 2, domain: 2, seed: 1 };
        let start = setting.start("a database".to_owned(), "serializable".to_owned());
        let stuck = Stuck::default();
        let interrupt = stuck.interrupt();
        let (mut feed, follow) = connect(Box::new(stuck), &start, 1, Instant::now()).expect("both ends");
        feed.pass(i64::MAX);
        drop(feed);
        let (gone, monitor) = (OnceLock::new(), Monitor::default());
        let patience = Patience { limit: Some(Duration::from_millis(50)), gone: &gone };
        let told = std::thread::scope(|scope| {
            let thread = scope.spawn(|| follow.run(&monitor, patience));
            gone.get_or_init(Instant::now);
            join(thread, interrupt, patience).expect("no panic")
        });
        assert_eq!(told.stopped.as_deref(), Some("interrupted"));
    }

    fn connected() -> (Feed, Follow<'static>) {
        let setting = Setting { clients: 1, keys: 2, domain: 2, seed: 1 };
        let start = setting.start("a database".to_owned(), "serializable".to_owned());
        connect(Box::new(Counts::default()), &start, 2, Instant::now()).expect("both ends")
    }

    fn begin(txn: u64) -> Recorded<'static> {
        Recorded { session: txn, txn, before: 1, after: 2, action: Action::Begin }
    }

    fn followed(follow: Follow<'_>, limit: Option<Duration>) -> Followed {
        let gone = OnceLock::new();
        gone.get_or_init(Instant::now);
        follow.run(&Monitor::default(), Patience { limit, gone: &gone })
    }

    /// A transaction that stayed open would hold up everything that begins later.
    #[test]
    fn a_client_that_dies_leaves_an_unknown_outcome() {
        let (mut feed, follow) = connected();
        feed.op(0, begin(1));
        feed.op(1, begin(2));
        feed.gone(1, 5);
        feed.gone(1, 6);
        feed.pass(i64::MAX);
        drop(feed);
        let told = followed(follow, None);
        assert_eq!((told.settled, told.open, told.whole), (4, 1, true), "{told:?}");
    }

    #[test]
    fn a_follower_that_cannot_keep_up_stops_and_says_so() {
        let (mut feed, follow) = connected();
        feed.backlog.store(BACKLOG, Ordering::Relaxed);
        feed.op(0, begin(1));
        feed.pass(10);
        feed.pass(i64::MAX);
        drop(feed);
        let told = followed(follow, None);
        assert!(!told.whole && told.stopped.is_some_and(|why| why.contains("keep up")));
    }

    /// It reaches each time 30 ms late, and one 500 ms late.
    #[test]
    fn lags_count_as_long_as_they_last() {
        let mut lags = Lags::default();
        let millis = |millis: i64| millis * 1_000_000;
        for now in (100..10_000).step_by(10) {
            lags.reaches(millis(now - 30), millis(now));
        }
        assert_eq!(lags.percentile(99), Duration::from_millis(40));
        assert_eq!(lags.reaches(millis(10_400), millis(10_430)), Duration::from_millis(470));
        assert_eq!(lags.percentile(50), Duration::from_millis(36));
        assert!(lags.percentile(99) > Duration::from_millis(350));
    }

    #[test]
    fn a_follower_whose_time_is_over_stops_and_says_so() {
        let (mut feed, follow) = connected();
        feed.pass(i64::MAX);
        drop(feed);
        let told = followed(follow, Some(Duration::ZERO));
        assert!(!told.whole && told.stopped.is_some_and(|why| why.contains("time was over")));
    }
}
