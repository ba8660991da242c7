//! The server's log, read beside the relay and put on the relay's clock.
//!
//! # Algorithm
//! A thread looks at the log ten times a second ([`RawLog`]), and asks the server for its time
//! before. That the answer was made between question and answer bounds how far the two clocks are
//! apart. The narrowest of the latest bounds counts, widened by what clocks may drift meanwhile.
//!
//! # Invariants
//! - A commit happened on the relay's clock within [`Commit::at`].
//! - At [`Commit::seen`] everybody who took a snapshot saw it. The log itself does not tell: a
//!   commit is in it before it is visible.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use margay_drivers::PostgresAddress;
use margay_recover::{Moment, RawChange, RawCommit, RawLog};

/// How often the log is looked at.
const REST: Duration = Duration::from_millis(100);

/// How many bounds of the clocks' distance are kept.
const BOUNDS: usize = 100;

/// Two clocks drift apart by one nanosecond in so many, at most; and a reading may be off by this.
const DRIFT: i64 = 2000;
const READING: i64 = 20_000;

/// How long the last commits may take to become visible.
const PATIENCE: Duration = Duration::from_secs(3);

/// A transaction of the log, on the relay's clock.
#[derive(Debug)]
pub(crate) struct Commit {
    pub xid: u64,
    /// Between these times it committed.
    pub at: [i64; 2],
    /// When it was visible at the latest.
    pub seen: i64,
    pub changes: Vec<RawChange>,
    pub truncated: Vec<String>,
}

/// A log that is being read.
pub(crate) struct Log {
    pub pid: u32,
    end: Sender<()>,
    thread: JoinHandle<Result<ReadLog, String>>,
}

/// A log that has been read to its end.
pub(crate) struct ReadLog {
    pub commits: Vec<Commit>,
    /// Its connection, which was counted as one of Margay's own.
    pub raw: RawLog,
}

impl Log {
    /// Begins to read.
    pub fn open(address: &PostgresAddress, clock: Instant) -> Result<Self, String> {
        let mut raw = RawLog::open(address)?;
        let pid = raw.pid()?;
        // Older servers have no such function, and are in doubt anyway.
        let _ = crate::watch::flush(raw.client());
        let (end, ended) = channel();
        let reader = Reader { raw, clock, bounds: Vec::new(), commits: Vec::new(), visible: 0 };
        let spawned = thread::Builder::new().name("log".to_owned()).spawn(move || reader.follow(&ended));
        let thread = spawned.map_err(|error| format!("no thread for the log: {error}"))?;
        Ok(Self { pid, end, thread })
    }

    /// Everything up to now.
    pub fn finish(self) -> Result<ReadLog, String> {
        let _ = self.end.send(());
        self.thread.join().unwrap_or_else(|_| Err("the reader of the log panicked".to_owned()))
    }
}

/// How far the server's clock is ahead, at least and at most, and when that was found out.
#[derive(Clone, Copy, Debug)]
struct Bound {
    at: i64,
    ahead: [i64; 2],
}

struct Reader {
    raw: RawLog,
    clock: Instant,
    bounds: Vec<Bound>,
    commits: Vec<Commit>,
    /// How many of the commits are known to be visible.
    visible: usize,
}

impl Reader {
    fn follow(mut self, ended: &Receiver<()>) -> Result<ReadLog, String> {
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(REST) {
            let moment = self.moment()?;
            let read = self.raw.read()?;
            self.take(read, &moment);
        }
        let moment = self.moment()?;
        let read = self.raw.finish()?;
        self.take(read, &moment);
        let deadline = Instant::now() + PATIENCE;
        while self.visible < self.commits.len() {
            self.moment()?;
            if Instant::now() > deadline {
                return Err("the log has a commit that does not become visible".to_owned());
            }
        }
        Ok(ReadLog { commits: self.commits, raw: self.raw })
    }

    fn now(&self) -> i64 {
        self.clock.elapsed().as_nanos() as i64
    }

    /// Compares the clocks, and finds what has become visible.
    fn moment(&mut self) -> Result<Moment, String> {
        let before = self.now();
        let moment = self.raw.moment()?;
        let after = self.now();
        let time = moment.time * 1000;
        if self.bounds.len() == BOUNDS {
            self.bounds.remove(0);
        }
        self.bounds.push(Bound { at: before, ahead: [time - after, time + 999 - before] });
        let seen = |commit: &Commit| moment.snapshot.sees(commit.xid);
        while let Some(commit) = self.commits.get_mut(self.visible).filter(|commit| seen(commit)) {
            commit.seen = after;
            self.visible += 1;
        }
        Ok(moment)
    }

    fn take(&mut self, read: Vec<RawCommit>, moment: &Moment) {
        let Some([least, most]) = self.ahead() else { return };
        for RawCommit { xid, time, changes, truncated } in read {
            let time = time * 1000;
            let at = [time - most, time + 999 - least];
            let xid = widened(xid, moment.snapshot.xmax);
            if !changes.is_empty() || !truncated.is_empty() {
                self.commits.push(Commit { xid, at, seen: i64::MAX, changes, truncated });
            }
        }
    }

    /// How far the server's clock is ahead, at least and at most.
    fn ahead(&self) -> Option<[i64; 2]> {
        let now = self.now();
        let widened = self.bounds.iter().map(|bound| {
            let drift = (now - bound.at) / DRIFT + READING;
            [bound.ahead[0] - drift, bound.ahead[1] + drift]
        });
        widened.min_by_key(|[least, most]| most - least)
    }
}

/// The log has the lower half of a transaction's number, which is near this one.
fn widened(low: u32, near: u64) -> u64 {
    let distance = low.wrapping_sub(near as u32).cast_signed();
    near.wrapping_add_signed(i64::from(distance))
}

/// Commits that a snapshot does not see, and the next one does.
pub(crate) fn between<'c>(
    commits: &'c [Commit],
    first: &margay_recover::PgSnapshot,
    next: Option<&margay_recover::PgSnapshot>,
) -> Vec<&'c Commit> {
    let within = |commit: &&Commit| !first.sees(commit.xid) && next.is_none_or(|next| next.sees(commit.xid));
    commits.iter().filter(within).collect()
}

/// The log, if it is wanted and can be had; and why not.
pub(crate) fn open(address: &PostgresAddress, clock: Instant, wanted: bool) -> (Option<Log>, Option<String>) {
    if !wanted {
        return (None, None);
    }
    match Log::open(address, clock) {
        Ok(log) => (Some(log), None),
        Err(why) => (None, Some(format!("writes were not taken from the server's log: {why}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_get_their_upper_half() {
        let era = 7_u64 << 32;
        assert_eq!(widened(740, era + 745), era + 740);
        assert_eq!(widened(750, era + 745), era + 750);
        assert_eq!(widened(u32::MAX, era + 3), era - 1);
        assert_eq!(widened(2, era - 1), era + 2);
    }
}
