//! Following an order that is recorded: timestamps as they come.
//!
//! # Algorithm
//! Nobody says until which timestamp everything has come. A transaction that begins after another
//! has ended has no earlier timestamps than that one. So everything is taken to have come up to the
//! first commit of a transaction that had not ended when one began that is open or lacks
//! timestamps; and the last [`HELD`](super::HELD) commits are held back.
//!
//! # Invariants
//! This is a guess. A transaction with timestamps before what is settled ends the following, and a
//! violation that was found meanwhile is withdrawn.

use hashbrown::{HashMap, HashSet};
use margay_history::Outcome;

use super::{Follower, Found};
use crate::auditor::Unaccepted;
use crate::stamped::{Event, Moment, Stamped, asked, missing, moments};
use crate::{Part, Settled, Transaction, Trouble};

impl Follower<'_> {
    /// Settles up to the moment at which everything seems to have come, but for so many commits;
    /// all if nothing is held back.
    pub(super) fn look_at_stamps(&mut self, leave: Option<usize>) -> Result<(), Trouble> {
        if self.auditor.transactions() > 0 {
            self.stop("timestamps came after transactions had been settled without them");
            return Ok(());
        }
        let mut stamped = match self.stamped.take() {
            Some(stamped) => stamped,
            None => Stamped::new(asked(self.question), Settled::new(&self.header)?),
        };
        let ran = self.run_until(&mut stamped, leave);
        self.known = self.waiting.len();
        self.waiting_bytes = self.waiting.iter().map(Transaction::bytes).sum();
        let found = ran.as_ref().is_err_and(|why| matches!(why, Unaccepted::Rejected(_)));
        let found = found.then(|| stamped.violation(&self.budget)).flatten();
        let limit = stamped.reached().map_or(i64::MIN, |reached| reached.0);
        self.found = found.map(|(window, finding)| Found { window, finding, limit });
        self.stamped = Some(stamped);
        match ran {
            Ok(()) => Ok(()),
            Err(Unaccepted::Trouble(trouble)) => Err(trouble),
            Err(Unaccepted::Rejected(why)) => {
                self.stop(format!("what is recorded is no order: {why}"));
                Ok(())
            }
        }
    }

    fn run_until(&mut self, stamped: &mut Stamped, leave: Option<usize>) -> Result<(), Unaccepted> {
        if let Some(line) = self.intake.untimed().filter(|_| stamped.question().uses_real_time()) {
            let why = format!("an operation without an interval (line {line})");
            return Err(Unaccepted::Rejected(why));
        }
        let (mut timed, mut open) = (Vec::new(), self.intake.earliest_line());
        for txn in &mut self.waiting {
            txn.stamps = self.intake.stamps(txn.label);
            match moments(stamped.question(), txn).map_err(Unaccepted::Rejected)? {
                Some(points) => timed.push((points, txn.label, txn.last())),
                None if txn.outcome == Outcome::Committed => open = open.min(txn.place()),
                None => {}
            }
        }
        if let (None, Some(txn)) = (leave, self.unstamped(stamped)) {
            let what = missing(stamped.question());
            return Err(Unaccepted::Rejected(format!("transaction {txn} has no {what}")));
        }
        let until = leave.map(|leave| until(&timed, open, leave));
        let due = |moment: Moment| until.is_none_or(|until| moment < until);
        let mut events: Vec<Event> = Vec::new();
        for &((begin, commit), label, _) in &timed {
            events.push((begin, label, false));
            events.push((commit, label, true));
        }
        events.extend(stamped.commits().map(|(commit, label)| (commit, label, true)));
        events.retain(|event| due(event.0));
        events.sort_unstable();
        let begun: HashSet<u64> = events.iter().filter(|event| !event.2).map(|event| event.1).collect();
        let (begun, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|txn| begun.contains(&txn.label));
        self.waiting = rest;
        let mut begun: HashMap<u64, Transaction> = begun.into_iter().map(|txn| (txn.label, txn)).collect();
        let mut settled = Vec::with_capacity(events.len());
        for (_, label, commits) in events {
            match begun.remove(&label) {
                Some(txn) if !commits => {
                    self.intake.forget_stamps(label);
                    stamped.begin(txn, &self.budget)?;
                }
                _ => stamped.commit(label)?,
            }
            settled.push((!commits, label));
        }
        let left: Vec<u64> = match leave {
            Some(_) => super::forget_unknowns(&mut self.waiting),
            None => self.waiting.drain(..).map(|txn| txn.label).collect(),
        };
        if settled.is_empty() && left.is_empty() {
            return Ok(());
        }
        (self.sink)(&Part::Stamped(settled), &left).map_err(|error| {
            Unaccepted::Trouble(Trouble::Outside(format!("the proof cannot be written: {error}")))
        })
    }

    /// A transaction that committed and has no timestamps.
    fn unstamped(&self, stamped: &Stamped) -> Option<u64> {
        let lacks = |txn: &&Transaction| {
            txn.outcome == Outcome::Committed && moments(stamped.question(), txn) == Ok(None)
        };
        self.waiting.iter().find(lacks).map(|txn| txn.label)
    }
}

/// The first moment of which it is not certain that everything before it has come.
fn until(timed: &[((Moment, Moment), u64, u64)], open: u64, leave: usize) -> Moment {
    let mut commits: Vec<Moment> = timed.iter().map(|timed| timed.0.1).collect();
    commits.sort_unstable();
    let held_back = commits.len().checked_sub(leave).and_then(|place| commits.get(place).copied());
    let not_over = timed.iter().filter(|timed| timed.2 >= open).map(|timed| timed.0.1).min();
    let last = commits.last().copied().unwrap_or((i64::MIN, 0));
    let held_back = if commits.len() < leave { Some((i64::MIN, 0)) } else { held_back };
    held_back.unwrap_or(last).min(not_over.unwrap_or(last))
}
