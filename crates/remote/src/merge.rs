//! Recordings of several machines become one, by the verifier's clock.
//!
//! # Algorithm
//! Each line gets the verifier's times instead of its own: a call the earliest that it may have
//! had, an answer the latest ([`Clock`]). Lines wait, in the order of their answers, until all
//! machines have promised that nothing is missing before them: the *watermark* is the earliest of
//! all promises. So a machine that is silent holds all others up.
//!
//! # Invariants
//! - Within a machine, answers do not go back in time, and within a session, calls do not. The
//!   earlier bound of an earlier call holds for a later one too, and the later bound of a later
//!   answer for an earlier one.
//! - A session belongs to one machine.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use margay_formats::glance;

use crate::clock::{Clock, Exchange};

/// Recordings that become one.
#[derive(Debug)]
pub struct Merge {
    lanes: Vec<Lane>,
    /// By answer, machine and place on its machine.
    waiting: BTreeMap<(i64, usize, u64), Waiting>,
    /// Which machine has a session.
    owners: HashMap<u64, usize>,
}

/// A line by the verifier's clock, and when its operation was called.
#[derive(Debug)]
struct Waiting {
    before: i64,
    line: Vec<u8>,
}

/// What has come from one machine.
#[derive(Debug)]
struct Lane {
    clock: Clock,
    /// What comes was not called before this.
    promise: i64,
    /// The latest answer so far.
    answered: i64,
    /// The latest call of each session.
    called: HashMap<u64, i64>,
    lines: u64,
    /// Frames whose lines are not all released: their numbers and their last answers.
    frames: VecDeque<(u64, i64)>,
    /// All frames up to this number are released.
    released: u64,
    /// Half of the widest bounds so far.
    error: i64,
}

impl Merge {
    /// Of so many machines. They are numbered from 0.
    #[must_use]
    pub fn new(machines: usize) -> Self {
        let lane = || Lane {
            clock: Clock::default(),
            promise: i64::MIN,
            answered: i64::MIN,
            called: HashMap::new(),
            lines: 0,
            frames: VecDeque::new(),
            released: 0,
            error: 0,
        };
        let lanes = (0..machines).map(|_| lane()).collect();
        Self { lanes, waiting: BTreeMap::new(), owners: HashMap::new() }
    }

    /// Learns about a machine's clock.
    ///
    /// # Errors
    /// When the clock has jumped.
    pub fn learn(&mut self, machine: usize, exchange: Exchange) -> Result<(), String> {
        self.lanes[machine].clock.learn(exchange)
    }

    /// Whether anything is known about a machine's clock.
    #[must_use]
    pub fn is_known(&self, machine: usize) -> bool {
        self.lanes[machine].clock.bounds(0).is_some()
    }

    /// The next frame of a machine: lines in the order of their answers, and the promise that
    /// everything that was called before a time has come, by its own clock.
    ///
    /// # Errors
    /// What is wrong with a line.
    pub fn take(&mut self, machine: usize, number: u64, promise: i64, lines: &[u8]) -> Result<(), String> {
        for line in lines.split_inclusive(|&byte| byte == b'\n') {
            self.line(machine, line)?;
        }
        let lane = &mut self.lanes[machine];
        let (earliest, latest) = lane.clock.bounds(promise).ok_or("its clock is not known")?;
        if promise != i64::MIN {
            lane.promise = lane.promise.max(earliest);
            lane.error = lane.error.max((latest.saturating_sub(earliest) + 1) / 2);
        }
        lane.frames.push_back((number, lane.answered));
        Ok(())
    }

    fn line(&mut self, machine: usize, line: &[u8]) -> Result<(), String> {
        let lane = &mut self.lanes[machine];
        lane.lines += 1;
        let place = lane.lines;
        let wrong = |what: &str| format!("line {}: {what}", place + 1);
        let seen = glance(line).map_err(|error| wrong(&error.to_string()))?;
        let seen = seen.ok_or_else(|| wrong("evidence is not streamed"))?;
        let owner = *self.owners.entry(seen.session).or_insert(machine);
        if owner != machine {
            return Err(wrong(&format!("machine {} has session {} too", owner + 1, seen.session)));
        }
        let at = seen.at.ok_or_else(|| wrong("an operation without an interval"))?;
        let bounds = |local| lane.clock.bounds(local).ok_or_else(|| wrong("its clock is not known"));
        let ((earliest, _), (_, latest)) = (bounds(at.before)?, bounds(at.after)?);
        let called = lane.called.entry(seen.session).or_insert(i64::MIN);
        let before = earliest.max(lane.promise).max(*called);
        let after = latest.max(lane.answered).max(before);
        (*called, lane.answered) = (before, after);
        let line = retimed(line, (at.before, at.after), (before, after));
        let line = line.ok_or_else(|| wrong("its interval is not written as Margay writes it"))?;
        self.waiting.insert((after, machine, place), Waiting { before, line });
        Ok(())
    }

    /// A machine's recording has ended.
    pub fn end(&mut self, machine: usize) {
        self.lanes[machine].promise = i64::MAX;
    }

    /// Passes on the lines of which none before them is missing. Answers the time before which
    /// every call has been passed on.
    pub fn release(&mut self, mut take: impl FnMut(&[u8]) -> Result<(), String>) -> Result<i64, String> {
        let watermark = self.lanes.iter().map(|lane| lane.promise).min().unwrap_or(i64::MAX);
        while let Some(first) = self.waiting.first_entry().filter(|first| first.key().0 < watermark) {
            take(&first.remove().line)?;
        }
        for lane in &mut self.lanes {
            let done = lane.frames.iter().take_while(|frame| frame.1 < watermark).count();
            lane.released = lane.frames.drain(..done).next_back().map_or(lane.released, |frame| frame.0);
        }
        let earliest = self.waiting.values().map(|waiting| waiting.before).min();
        Ok(watermark.min(earliest.unwrap_or(i64::MAX)))
    }

    /// The last frame of a machine of which all lines have been passed on.
    #[must_use]
    pub fn released(&self, machine: usize) -> u64 {
        self.lanes[machine].released
    }

    /// How many lines have come from a machine.
    #[must_use]
    pub fn lines(&self, machine: usize) -> u64 {
        self.lanes[machine].lines
    }

    /// By how much intervals were widened at most, on either side.
    #[must_use]
    pub fn error(&self) -> Duration {
        let worst = self.lanes.iter().map(|lane| lane.error).max().unwrap_or_default();
        Duration::from_nanos(worst.max(0) as u64)
    }
}

/// The line with another interval.
fn retimed(line: &[u8], (before, after): (i64, i64), (earliest, latest): (i64, i64)) -> Option<Vec<u8>> {
    let old = format!("\"at\":[{before},{after}]").into_bytes();
    let places = line.windows(old.len()).enumerate().filter(|(_, part)| *part == old);
    let new = format!("\"at\":[{earliest},{latest}]").into_bytes();
    // A column of this name may look the same.
    places.map(|(place, _)| [&line[..place], &new, &line[place + old.len()..]].concat()).find(|line| {
        let at = glance(line).ok().flatten().and_then(|seen| seen.at);
        at.is_some_and(|at| (at.before, at.after) == (earliest, latest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose clock shows so much less, with an error of half of `round`.
    fn exchange(behind: i64, round: i64) -> Exchange {
        Exchange { asked: behind, heard: round / 2, answered: round / 2, arrived: behind + round }
    }

    fn line(session: u64, txn: u64, before: i64, after: i64) -> Vec<u8> {
        format!("{{\"session\":{session},\"txn\":{txn},\"at\":[{before},{after}],\"begin\":true}}\n")
            .into_bytes()
    }

    fn released(merge: &mut Merge) -> (Vec<u64>, i64) {
        let mut txns = Vec::new();
        let until = merge.release(|line| {
            txns.push(glance(line).expect("a line").expect("an operation").txn);
            Ok(())
        });
        (txns, until.expect("lines"))
    }

    #[test]
    fn lines_come_in_the_order_of_all_clocks_and_wait_for_the_silent() {
        let mut merge = Merge::new(2);
        merge.learn(0, exchange(0, 10)).expect("a clock");
        merge.learn(1, exchange(1_000, 10)).expect("a clock");
        let first = [line(0, 1, 100, 200), line(0, 3, 1_500, 1_600)].concat();
        merge.take(0, 1, 1_700, &first).expect("lines");
        assert_eq!(released(&mut merge), (vec![], i64::MIN), "the other machine was not heard yet");
        // Its 100 is 1,100 of the first.
        merge.take(1, 1, 300, &line(1, 2, 100, 200)).expect("lines");
        let (txns, until) = released(&mut merge);
        assert_eq!(txns, [1, 2]);
        assert!((1_280..=1_300).contains(&until), "{until}");
        assert_eq!((merge.released(0), merge.released(1)), (0, 1));
        merge.end(1);
        assert_eq!(released(&mut merge).0, [3]);
        assert_eq!(merge.released(0), 1);
        merge.end(0);
        assert_eq!(released(&mut merge), (vec![], i64::MAX));
    }

    #[test]
    fn what_was_called_before_the_watermark_and_answered_later_holds_the_answer_back() {
        let mut merge = Merge::new(1);
        merge.learn(0, exchange(0, 0)).expect("a clock");
        merge.take(0, 1, 500, &line(0, 1, 100, 900)).expect("lines");
        let (txns, until) = released(&mut merge);
        assert!(txns.is_empty(), "{txns:?}");
        assert!(until <= 100, "{until}");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let mut merge = Merge::new(2);
        assert!(merge.take(0, 1, 0, &line(0, 1, 1, 2)).is_err_and(|why| why.contains("clock")));
        merge.learn(0, exchange(0, 0)).expect("a clock");
        merge.learn(1, exchange(0, 0)).expect("a clock");
        merge.take(0, 1, 0, &line(7, 1, 1, 2)).expect("lines");
        let why = merge.take(1, 1, 0, &line(7, 2, 1, 2)).expect_err("a session of another");
        assert_eq!(why, "line 2: machine 1 has session 7 too");
        assert!(merge.take(1, 2, 0, b"{\"session\":1}\n").is_err());
        assert!(merge.take(1, 3, 0, b"nothing\n").is_err_and(|why| why.starts_with("line 4")));
    }

    #[test]
    fn only_the_interval_changes() {
        let told = br#"{"session":1,"txn":2,"at":[5,6],"write":[["\"at\":[5,6]",1]],"x":{"at":[5,6]}}"#;
        let Some(new) = retimed(told, (5, 6), (-5, 16)) else { panic!("no interval") };
        let told = String::from_utf8(new).expect("text");
        assert!(told.starts_with(r#"{"session":1,"txn":2,"at":[-5,16],"write":[["\"at\":[5,6]""#), "{told}");
    }
}
