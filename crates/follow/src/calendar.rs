//! Which transactions may take effect next, by session order and real time.
//!
//! # Design
//! The transactions that committed and have not taken effect stand in a linked list, by start. A
//! transaction may begin only if none that is left had ended before it began. So the ones to
//! consider are a prefix of the list: up to the first start after the earliest end so far. With `n`
//! clients that prefix has about `n` members, and finding it costs as much.
//!
//! With instants, it is the next point of each that may not be before another's that is due: first
//! its begin, then its commit.
//!
//! A transaction of unknown outcome has no end and need not take effect. It can no longer do so
//! once a later one of its session has; an early one, once any other has. Those that still can are in a list of their own.
//!
//! # Invariants
//! Removals are undone in reverse order ("dancing links"), so a removed member still knows its
//! neighbours.

use hashbrown::{HashMap, HashSet};
use margay_history::{History, OpKind, Outcome, SessionId, TxnId};
use margay_verdict::instants::Instants;
use margay_verdict::seen::seen;

use crate::Early;

/// No transaction.
const NONE: u32 = u32::MAX;

/// The transactions by start, and which of them are left.
pub(crate) struct Calendar {
    /// By start.
    pub txns: Vec<TxnId>,
    starts: Vec<i64>,
    /// With the skew; `i64::MAX` where nothing is known.
    ends: Vec<i64>,
    /// From when on the next point of each may be, and by when it must have been: its commit, or
    /// with instants its begin until it has begun.
    opens: Vec<i64>,
    due: Vec<i64>,
    /// When the client got its last answer.
    answered: Vec<i64>,
    /// By place: where its points lie, if that counts.
    instants: Option<Vec<Instants>>,
    must: Vec<bool>,
    /// Those that take effect before all others or never, and the places of those that cannot if
    /// they do.
    early: HashMap<u32, Vec<u32>>,
    sessions: Vec<SessionId>,
    /// The previous one of the same session, if any.
    previous: Vec<u32>,
    /// Two lists, of those that committed and of the others; one place behind all stands for both
    /// ends of each.
    next: Vec<u32>,
    prior: Vec<u32>,
    removed: Vec<bool>,
}

impl Calendar {
    /// Everything that committed, and what has an unknown outcome and writes.
    pub fn new(history: &History, instants: bool, early: &[Early]) -> Self {
        let are_early: HashSet<TxnId> = early.iter().map(|early| early.txn).collect();
        let matters = |&txn: &TxnId| match history.outcome(txn) {
            Outcome::Committed => true,
            Outcome::Aborted => false,
            Outcome::Unknown => history.ops(txn).any(|op| op.kind.writes() || op.kind == OpKind::Sql),
        };
        let mut txns: Vec<TxnId> = history.txns().filter(matters).collect();
        let start = |txn: TxnId| match are_early.contains(&txn) {
            true => i64::MIN,
            false => history.start(txn).unwrap_or(i64::MIN),
        };
        txns.sort_by_key(|&txn| (start(txn), txn));
        let skew = history.header().skew;
        let seen = seen(history);
        let end = |txn: &TxnId| history.end(*txn).or(seen.get(txn).copied());
        let end = |txn: &TxnId| match are_early.contains(txn) {
            true => i64::MIN,
            false => end(txn).map_or(i64::MAX, |end| end.saturating_add(skew)),
        };
        let must: Vec<bool> = txns
            .iter()
            .map(|txn| history.outcome(*txn) == Outcome::Committed || seen.contains_key(txn))
            .collect();
        let (next, prior) = linked(&must);
        let starts: Vec<i64> = txns.iter().map(|&txn| start(txn)).collect();
        let ends: Vec<i64> = txns.iter().map(end).collect();
        let instants: Option<Vec<Instants>> =
            instants.then(|| txns.iter().map(|&txn| Instants::of(history, txn)).collect());
        let due = |place: usize| match &instants {
            Some(instants) => ends[place].min(instants[place].begin.until),
            None => ends[place],
        };
        let mut places = HashMap::new();
        if !early.is_empty() {
            places.extend((0u32..).zip(&txns).map(|(place, &txn)| (txn, place)));
        }
        let place = |txn: &TxnId| places.get(txn).copied();
        let placed = |early: &Early| {
            Some((place(&early.txn)?, early.against.iter().filter_map(place).collect::<Vec<u32>>()))
        };
        Self {
            early: early.iter().filter_map(placed).collect(),
            due: (0..txns.len()).map(due).collect(),
            answered: txns.iter().map(|&txn| answered(history, txn)).collect(),
            opens: starts.clone(),
            starts,
            ends,
            instants,
            must,
            sessions: txns.iter().map(|&txn| history.session_of(txn)).collect(),
            previous: previous(history, &txns),
            next,
            prior,
            removed: vec![false; txns.len()],
            txns,
        }
    }

    /// Whether it committed for certain, as far as can be seen.
    pub fn must(&self, place: u32) -> bool {
        self.must[place as usize]
    }

    /// How many committed for certain.
    pub fn must_count(&self) -> usize {
        self.must.iter().filter(|&&must| must).count()
    }

    /// The latest moment at which its next point may be.
    pub fn end(&self, place: u32) -> i64 {
        self.due[place as usize]
    }

    /// By when its next point probably was: nobody who never got an answer waited for long.
    pub fn probably(&self, place: u32) -> i64 {
        self.due[place as usize].min(self.answered[place as usize])
    }

    /// With instants: it has begun, and its commit is next; or not any more.
    pub fn set_begun(&mut self, place: u32, begun: bool) {
        let at = place as usize;
        let Some(instants) = &self.instants else { return };
        (self.opens[at], self.due[at]) = match begun {
            true => (instants[at].commit.from, self.ends[at]),
            false => (self.starts[at], self.ends[at].min(instants[at].begin.until)),
        };
    }

    /// Whether one comes before the other by session order or real time.
    pub fn precedes(&self, a: u32, b: u32) -> bool {
        let (from, to) = (a as usize, b as usize);
        self.ends[from] < self.starts[to]
            || self.sessions[from] == self.sessions[to] && self.txns[from] < self.txns[to]
    }

    /// Whether it takes effect before all others or never.
    pub fn is_early(&self, place: u32) -> bool {
        self.early.contains_key(&place)
    }

    /// Whether it has taken effect, or no longer can.
    pub fn is_removed(&self, place: u32) -> bool {
        self.removed[place as usize]
    }

    /// Those that committed and may be under way now: nothing that is left had ended before they
    /// began. Answers the earliest of their ends.
    pub fn window(&self, into: &mut Vec<u32>) -> i64 {
        into.clear();
        let tail = self.txns.len();
        let (mut at, mut earliest) = (self.next[tail] as usize, i64::MAX);
        while at != tail && self.starts[at] <= earliest {
            into.push(at as u32);
            earliest = earliest.min(self.due[at]);
            at = self.next[at] as usize;
        }
        into.retain(|&place| self.opens[place as usize] <= earliest && self.follows_session(place));
        earliest
    }

    /// Those of unknown outcome that may still take effect and had started by then.
    pub fn open_unknowns(&self, earliest: i64) -> impl Iterator<Item = u32> + '_ {
        let after = |at: usize| Some(self.next[at]).filter(|&next| (next as usize) < self.txns.len());
        std::iter::successors(after(self.txns.len() + 1), move |&at| after(at as usize))
            .take_while(move |&at| self.starts[at as usize] <= earliest)
    }

    /// The first place that starts later.
    pub fn first_after(&self, time: i64) -> u32 {
        self.starts.partition_point(|&start| start <= time) as u32
    }

    /// Whether one of unknown outcome may take effect now, if that is the earliest end of the
    /// others.
    pub fn may_occur(&self, place: u32, earliest: i64) -> bool {
        !self.is_removed(place) && self.opens[place as usize] <= earliest && self.follows_session(place)
    }

    /// Whether everything of its session that committed before it has taken effect.
    fn follows_session(&self, place: u32) -> bool {
        let mut at = self.previous[place as usize];
        while at != NONE && !self.must[at as usize] {
            at = self.previous[at as usize];
        }
        at == NONE || self.removed[at as usize]
    }

    /// The earlier ones of its session that may still take effect, all of unknown outcome.
    pub fn open_before(&self, place: u32) -> impl Iterator<Item = u32> + '_ {
        let known = |at: u32| (at != NONE).then_some(at);
        std::iter::successors(known(self.previous[place as usize]), move |&at| {
            known(self.previous[at as usize])
        })
        .take_while(|&at| !self.removed[at as usize])
    }

    /// Those that no longer can take effect if one does: earlier ones of its session, and early ones
    /// if it is none; otherwise those that it is against.
    pub fn closed_by(&self, place: u32) -> Vec<u32> {
        let mut closed: Vec<u32> = self.open_before(place).collect();
        match self.early.get(&place) {
            Some(against) => closed.extend(against.iter().filter(|&&place| !self.is_removed(place))),
            None if self.early.is_empty() => {}
            None => {
                let early = self.open_unknowns(i64::MAX).take_while(|place| self.early.contains_key(place));
                closed.extend(early);
            }
        }
        closed
    }

    /// It has taken effect, or no longer can.
    pub fn remove(&mut self, place: u32) {
        self.removed[place as usize] = true;
        let (prior, next) = (self.prior[place as usize], self.next[place as usize]);
        self.next[prior as usize] = next;
        self.prior[next as usize] = prior;
    }

    /// Undoes the last removal.
    pub fn restore(&mut self, place: u32) {
        self.removed[place as usize] = false;
        let (prior, next) = (self.prior[place as usize], self.next[place as usize]);
        self.next[prior as usize] = place;
        self.prior[next as usize] = place;
    }
}

/// When the client of a transaction got its last answer, or gave up.
fn answered(history: &History, txn: TxnId) -> i64 {
    let last = history.ops(txn).filter_map(|op| op.at).map(|at| at.after).max();
    last.unwrap_or(i64::MAX)
}

/// A ring of the marked places and of one behind all, and one of the others and the next behind
/// all: which comes next, and which before.
fn linked(marked: &[bool]) -> (Vec<u32>, Vec<u32>) {
    let all = marked.len();
    let (mut next, mut prior) = (vec![NONE; all + 2], vec![NONE; all + 2]);
    for (tail, mark) in [(all, true), (all + 1, false)] {
        let mut last = tail;
        for place in (0..all).filter(|&place| marked[place] == mark).chain([tail]) {
            (next[last], prior[place]) = (place as u32, last as u32);
            last = place;
        }
    }
    (next, prior)
}

/// The previous member of each one's session.
fn previous(history: &History, txns: &[TxnId]) -> Vec<u32> {
    let mut by_id: Vec<u32> = (0..txns.len() as u32).collect();
    by_id.sort_unstable_by_key(|&place| txns[place as usize]);
    let mut previous = vec![NONE; txns.len()];
    for pair in by_id.windows(2) {
        let (a, b) = (txns[pair[0] as usize], txns[pair[1] as usize]);
        if history.session_of(a) == history.session_of(b) {
            previous[pair[1] as usize] = pair[0];
        }
    }
    previous
}
