//! The orders that a level and the evidence allow, and transactions placed one after the other.
//!
//! # Invariants
//! - A transaction is ready when no other that has to come before it is still to be placed.
//! - Taking the last transaction back restores everything.
//!
//! # Cost
//! The first transaction that is not placed yet is found from where it was last, in each of three
//! sorted lists: constant on average. The floor of a snapshot looks back over the transactions that
//! are concurrent.

use margay_history::{History, OpId, OpKind, Outcome, TxnId};
use margay_verdict::execution::Moment;
use margay_verdict::instants::Instants;

use super::rules::{Family, Rules};

/// Which transactions have to come before which.
#[derive(Debug)]
pub struct Constraints<'h> {
    history: &'h History,
    rules: Rules,
    /// By transaction: its place in an order that evidence gives.
    stamps: Vec<Option<i64>>,
    /// The live transactions as they probably committed.
    preferred: List,
    /// Those with a known start, by that.
    starts: List,
    /// The committed ones by their ends, and by their stamps.
    ends: List,
    stamped: List,
    /// The live ones without a stamp, if all committed ones have one.
    unstamped: Option<Vec<TxnId>>,
    /// By transaction: where its points lie, if that counts.
    instants: Option<Vec<Instants>>,
}

/// Transactions in some order, and the place of each.
#[derive(Debug)]
struct List {
    txns: Vec<TxnId>,
    places: Vec<u32>,
}

impl List {
    fn new<K: Ord>(
        history: &History,
        txns: impl Iterator<Item = TxnId>,
        key: impl Fn(TxnId) -> Option<K>,
    ) -> Self {
        let mut txns: Vec<TxnId> = txns.filter(|&txn| key(txn).is_some()).collect();
        txns.sort_by_key(|&txn| key(txn));
        let mut places = vec![u32::MAX; history.txn_count()];
        (0..).zip(&txns).for_each(|(place, txn)| places[txn.index()] = place);
        Self { txns, places }
    }

    fn place(&self, txn: TxnId) -> usize {
        self.places[txn.index()] as usize
    }
}

/// How many transactions that are ready are sorted at least: more than clients have open at a time.
const MANY: usize = 64;

/// How many commits of each session are looked at to find those that are in flight.
const FLYING_EACH: usize = 16;

/// Transactions in the order in which they are placed, and which come next.
#[derive(Debug)]
pub struct Placed<'c, 'h> {
    constraints: &'c Constraints<'h>,
    order: Vec<TxnId>,
    is_placed: Vec<bool>,
    /// The places of each session's transactions.
    sessions: Vec<Vec<u32>>,
    first: Cursors,
    committed_left: usize,
}

/// Where each list has its first transaction that is not placed.
#[derive(Clone, Copy, Debug, Default)]
struct Cursors {
    preferred: usize,
    start: usize,
    end: usize,
    stamp: usize,
}

impl<'h> Constraints<'h> {
    /// What the rules and the evidence of a history ask for.
    #[must_use]
    pub fn new(history: &'h History, rules: Rules) -> Self {
        let evidence = history.evidence();
        let column =
            if rules.family == Family::Serial { &evidence.serializations } else { &evidence.commits };
        let mut stamps = vec![None; history.txn_count()];
        column.iter().for_each(|&(txn, ts)| stamps[txn.index()] = Some(ts));
        let live: Vec<TxnId> = history.txns().filter(|&t| history.outcome(t) != Outcome::Aborted).collect();
        let committed = || live.iter().copied().filter(|&txn| history.outcome(txn) == Outcome::Committed);
        let stamp = |txn: TxnId| stamps[txn.index()];
        let unstamped: Vec<TxnId> = live.iter().copied().filter(|&txn| stamp(txn).is_none()).collect();
        let forced = unstamped.iter().all(|&txn| history.outcome(txn) != Outcome::Committed);
        Self {
            history,
            rules,
            preferred: preferred(history, &live, &stamps),
            starts: List::new(history, live.iter().copied(), |txn| history.start(txn)),
            ends: List::new(history, committed(), |txn| history.end(txn)),
            stamped: List::new(history, committed(), stamp),
            unstamped: (forced && !column.is_empty()).then_some(unstamped),
            instants: rules.instants.then(|| Instants::of_all(history)),
            stamps,
        }
    }

    /// The transactions that may have committed, as they probably did.
    #[must_use]
    pub fn preferred(&self) -> &[TxnId] {
        &self.preferred.txns
    }

    /// Whether `a` has to come before `b`, if both committed.
    #[must_use]
    pub fn before(&self, a: TxnId, b: TxnId) -> bool {
        let history = self.history;
        let session = self.rules.session && a < b && history.session_of(a) == history.session_of(b);
        let stamped = match (self.stamps[a.index()], self.stamps[b.index()]) {
            (Some(a), Some(b)) => a < b,
            _ => false,
        };
        let (a, b) = (Moment { txn: a, begins: false }, Moment { txn: b, begins: false });
        session || stamped || self.rules.real_time && history.precedes(a.txn, b.txn) || self.in_time(a, b)
    }

    /// Whether every statement of `b` sees what `a` wrote, if both committed.
    #[must_use]
    pub fn sees(&self, b: TxnId, a: TxnId) -> bool {
        let history = self.history;
        let session = self.rules.session && a < b && history.session_of(a) == history.session_of(b);
        match self.rules.family {
            Family::Serial => self.before(a, b),
            Family::Snapshot => session || self.rules.real_time && history.precedes(a, b),
            Family::Repeatable | Family::Committed(_) => false,
        }
    }

    /// Whether one moment was over before the other can have been.
    #[must_use]
    pub fn in_time(&self, first: Moment, second: Moment) -> bool {
        let Some(all) = &self.instants else { return false };
        let span = |moment: Moment| match (all[moment.txn.index()], moment.begins) {
            (instants, true) => instants.begin,
            (instants, false) => instants.commit,
        };
        span(first).precedes(span(second))
    }

    /// Whether everything outside of `part` has to come after everything inside.
    #[must_use]
    pub fn closes(&self, part: &[TxnId]) -> bool {
        let mut inside = vec![false; self.history.txn_count()];
        part.iter().for_each(|txn| inside[txn.index()] = true);
        let mut rest = self.preferred().iter().filter(|txn| !inside[txn.index()]).peekable();
        if rest.peek().is_none() {
            return true;
        }
        let ends = part.iter().map(|&txn| self.history.end(txn)).collect::<Option<Vec<i64>>>();
        let last = ends.and_then(|ends| ends.into_iter().max());
        let stamps = part.iter().map(|txn| self.stamps[txn.index()]).collect::<Option<Vec<i64>>>();
        let highest = stamps.and_then(|stamps| stamps.into_iter().max());
        rest.all(|&txn| {
            let later = self.rules.real_time
                && matches!((last, self.history.start(txn)), (Some(last), Some(start)) if last.saturating_add(self.history.header().skew) < start);
            later || matches!((highest, self.stamps[txn.index()]), (Some(highest), Some(stamp)) if highest < stamp)
        })
    }

    /// Nothing placed yet.
    #[must_use]
    pub fn placed(&self) -> Placed<'_, 'h> {
        let committed =
            self.preferred().iter().filter(|&&t| self.history.outcome(t) == Outcome::Committed).count();
        Placed {
            constraints: self,
            order: Vec::with_capacity(committed),
            is_placed: vec![false; self.history.txn_count()],
            sessions: vec![Vec::new(); self.history.session_count()],
            first: Cursors::default(),
            committed_left: committed,
        }
    }
}

/// By what evidence says; else by when the commit was called, or a last statement acknowledged;
/// else as they stand. Who reads what another one wrote, or waited for its lock, has called its own
/// commit later; but the answers to two commits may come in any order.
fn preferred(history: &History, live: &[TxnId], stamps: &[Option<i64>]) -> List {
    let commits = &history.evidence().commits;
    let known = |txn: TxnId| history.evidence().commit(txn);
    let end = |txn: TxnId| {
        let last = history.ops(txn).next_back().and_then(|op| Some((op.at?, op.kind)));
        last.map_or(0, |(at, kind)| if kind == OpKind::Commit { at.before } else { at.after })
    };
    let all_stamped = live.iter().all(|txn| stamps[txn.index()].is_some());
    let all_known = !commits.is_empty() && live.iter().all(|&txn| known(txn).is_some());
    List::new(history, live.iter().copied(), |txn| {
        if all_stamped {
            Some((stamps[txn.index()], end(txn), txn))
        } else if all_known {
            Some((known(txn), end(txn), txn))
        } else {
            Some((None, end(txn), txn))
        }
    })
}

impl<'h> Placed<'_, 'h> {
    /// The transactions so far.
    #[must_use]
    pub fn order(&self) -> &[TxnId] {
        &self.order
    }

    /// Whether every committed transaction is placed.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.committed_left == 0
    }

    /// Places a transaction.
    pub fn push(&mut self, txn: TxnId) {
        let place = u32::try_from(self.order.len()).unwrap_or(u32::MAX);
        self.order.push(txn);
        self.is_placed[txn.index()] = true;
        self.sessions[self.constraints.history.session_of(txn).index()].push(place);
        if self.constraints.history.outcome(txn) == Outcome::Committed {
            self.committed_left -= 1;
        }
    }

    /// Lets others come next though a transaction is not placed that was to come before; where
    /// neither sessions nor times nor evidence count, it is placed later. False if its evidence
    /// says where it belongs.
    pub fn set_aside(&mut self, txn: TxnId) -> bool {
        let free = self.constraints.stamps[txn.index()].is_none();
        self.is_placed[txn.index()] |= free;
        free
    }

    /// Takes the last transaction back.
    pub fn pop(&mut self) -> Option<TxnId> {
        let txn = self.order.pop()?;
        self.is_placed[txn.index()] = false;
        self.sessions[self.constraints.history.session_of(txn).index()].pop();
        if self.constraints.history.outcome(txn) == Outcome::Committed {
            self.committed_left += 1;
        }
        let Constraints { preferred, starts, ends, stamped, .. } = self.constraints;
        self.first.preferred = self.first.preferred.min(preferred.place(txn));
        self.first.start = self.first.start.min(starts.place(txn));
        self.first.end = self.first.end.min(ends.place(txn));
        self.first.stamp = self.first.stamp.min(stamped.place(txn));
        Some(txn)
    }

    /// Moves the cursors to the first transactions that are not placed.
    fn settle(&mut self) {
        let Constraints { preferred, starts, ends, stamped, .. } = self.constraints;
        let forward = |list: &List, from: &mut usize, placed: &[bool]| {
            while list.txns.get(*from).is_some_and(|txn| placed[txn.index()]) {
                *from += 1;
            }
        };
        forward(preferred, &mut self.first.preferred, &self.is_placed);
        forward(starts, &mut self.first.start, &self.is_placed);
        forward(ends, &mut self.first.end, &self.is_placed);
        forward(stamped, &mut self.first.stamp, &self.is_placed);
    }

    /// Up to `width` transactions that may come next, the preferred ones first; and whether there
    /// are more.
    pub fn ready(&mut self, width: usize) -> (Vec<TxnId>, bool) {
        self.settle();
        let Constraints { history, preferred, .. } = self.constraints;
        let mut ready: Vec<TxnId> = Vec::new();
        for txn in self.possible() {
            if !self.is_placed[txn.index()] && self.is_ready(txn) {
                ready.push(txn);
            }
            // Nobody needs all of a history's transactions at once; the list is sorted already
            // where there are so many.
            if ready.len() > width.saturating_mul(4).max(MANY) {
                break;
            }
        }
        ready.sort_by_key(|&txn| (history.outcome(txn) != Outcome::Committed, preferred.place(txn)));
        let more = ready.len() > width;
        ready.truncate(width);
        (ready, more)
    }

    /// Transactions among which all that are ready are.
    fn possible(&self) -> Box<dyn Iterator<Item = TxnId> + '_> {
        let Constraints { history, rules, preferred, starts, ends, stamped, unstamped, stamps, .. } =
            self.constraints;
        if let (Some(unstamped), Some(first)) = (unstamped, stamped.txns.get(self.first.stamp)) {
            let tied = stamped.txns[self.first.stamp..].iter();
            let tied = tied.take_while(move |txn| stamps[txn.index()] == stamps[first.index()]);
            return Box::new(tied.chain(unstamped).copied());
        }
        let last = ends.txns.get(self.first.end).and_then(|&first| history.end(first));
        match last {
            Some(last) if rules.real_time && starts.txns.len() == preferred.txns.len() => {
                let last = last.saturating_add(history.header().skew);
                let open = starts.txns[self.first.start..].iter().copied();
                Box::new(open.take_while(move |&txn| history.start(txn).is_some_and(|start| start <= last)))
            }
            _ => Box::new(preferred.txns[self.first.preferred..].iter().copied()),
        }
    }

    fn is_ready(&self, txn: TxnId) -> bool {
        let Constraints { history, rules, stamps, ends, stamped, .. } = self.constraints;
        let committed = history.outcome(txn) == Outcome::Committed;
        let commit = |txn| Moment { txn, begins: false };
        if rules.real_time
            && let Some(&other) = ends.txns.get(self.first.end)
            && (history.precedes(other, txn) || self.constraints.in_time(commit(other), commit(txn)))
        {
            return false;
        }
        if let (Some(&other), Some(stamp)) = (stamped.txns.get(self.first.stamp), stamps[txn.index()])
            && stamps[other.index()].is_some_and(|first| first < stamp)
        {
            return false;
        }
        let session_free = !rules.session || {
            let earlier =
                history.session_txns(history.session_of(txn)).rev().skip_while(|&other| other >= txn);
            let mut earlier = earlier.filter(|&other| history.outcome(other) == Outcome::Committed);
            earlier.next().is_none_or(|other| self.is_placed[other.index()])
        };
        session_free && (committed || !self.is_late(txn))
    }

    /// Whether a transaction of unknown outcome has to come before one that is placed.
    fn is_late(&self, txn: TxnId) -> bool {
        let Constraints { history, rules, stamps, .. } = self.constraints;
        let last = self.sessions[history.session_of(txn).index()].last();
        let session = rules.session && last.is_some_and(|&last| self.order[last as usize] > txn);
        let highest = self.order.iter().rev().find_map(|other| stamps[other.index()]);
        session || matches!((stamps[txn.index()], highest), (Some(own), Some(highest)) if own < highest)
    }

    /// Whether a transaction may come next.
    pub fn may_follow(&mut self, txn: TxnId) -> bool {
        self.settle();
        !self.is_placed[txn.index()] && self.is_ready(txn)
    }

    /// The states that the snapshot of a transaction may be: the earliest and the latest.
    #[must_use]
    pub fn snapshots(&self, txn: TxnId) -> (u32, u32) {
        let Constraints { history, rules, .. } = self.constraints;
        let here = u32::try_from(self.order.len()).unwrap_or(u32::MAX);
        let (mut low, mut high) = (0, here);
        if rules.session {
            let last = self.sessions[history.session_of(txn).index()].last();
            low = last.map_or(low, |last| low.max(last + 1));
        }
        if rules.real_time {
            let place = self.order.iter().rposition(|&other| history.precedes(other, txn));
            low = place.map_or(low, |place| low.max(place as u32 + 1));
        }
        if let Some(instants) = &self.constraints.instants {
            high = high.min(self.first_after(instants, txn));
        }
        if let Some(snapshot) = history.evidence().snapshot(txn) {
            let stamp = |other: &TxnId| history.evidence().commit(*other);
            let seen = self.order.iter().rposition(|other| stamp(other).is_some_and(|ts| ts <= snapshot));
            low = seen.map_or(low, |place| low.max(place as u32 + 1));
            let later =
                self.order.iter().rev().take_while(|other| stamp(other).is_none_or(|ts| ts > snapshot));
            let hidden = later
                .enumerate()
                .filter(|(_, other)| stamp(other).is_some())
                .last()
                .map_or(0, |(n, _)| n + 1);
            high = high.min(here - hidden as u32);
        }
        (low, high)
    }

    /// The earliest and the latest state that there can have been while a statement was executed,
    /// in an order of transactions that follows real time: all of them, if there are no times.
    #[must_use]
    pub fn states_at(&self, op: OpId) -> (u32, u32) {
        let history = self.constraints.history;
        let here = u32::try_from(self.order.len()).unwrap_or(u32::MAX);
        let Some(at) = history.op(op).at else { return (0, here) };
        let skew = history.header().skew;
        let over = |&txn: &TxnId| history.end(txn).is_some_and(|end| end.saturating_add(skew) < at.before);
        let low = self.order.iter().rposition(over).map_or(0, |place| place + 1);
        let called = |txn: TxnId| {
            let commit = history.ops(txn).next_back().and_then(|op| op.at);
            commit.is_some_and(|commit| at.after.saturating_add(skew) < commit.before)
        };
        let later = self.order[low..].iter().position(|&txn| called(txn));
        (low as u32, later.map_or(here, |place| (low + place) as u32))
    }

    /// The commits that a statement ran beside, by the states that they made: those that may have
    /// taken effect before it, and those after it. Earliest first.
    #[must_use]
    pub fn flying_at(&self, op: OpId) -> Vec<u32> {
        let history = self.constraints.history;
        let (Some(at), (_, last)) = (history.op(op).at, self.states_at(op)) else { return Vec::new() };
        let skew = history.header().skew;
        let over = |txn: TxnId| history.end(txn).is_some_and(|end| end.saturating_add(skew) < at.before);
        let near = (1..=last).rev().take(FLYING_EACH * history.session_count().max(1));
        let mut flying: Vec<u32> = near.filter(|state| !over(self.order[*state as usize - 1])).collect();
        flying.reverse();
        flying
    }

    /// How many transactions committed before the first whose commit was called after a snapshot
    /// had been taken. Who comes earlier than one that had ended by then had called its commit
    /// before.
    fn first_after(&self, instants: &[Instants], txn: TxnId) -> u32 {
        let taken = instants[txn.index()].begin;
        let commit = |other: &TxnId| instants[other.index()].commit;
        let near = self.order.iter().rev().take_while(|other| commit(other).until > taken.until);
        let later = near.enumerate().filter(|(_, other)| taken.precedes(commit(other))).last();
        let back = later.map_or(0, |(back, _)| back + 1);
        u32::try_from(self.order.len() - back).unwrap_or(u32::MAX)
    }
}
