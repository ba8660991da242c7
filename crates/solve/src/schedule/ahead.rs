//! Which writers of an item must come first, by what is known of their readers.
//!
//! # Problem
//! Without time, a schedule that takes one of two writers of an item first is often wrong, and
//! learns it late.
//!
//! # Algorithm
//! If a writer `w` of an item must come before a reader of what `t` wrote there, `w` comes before
//! `t`, or the reader would have seen `w`. Who must come before whom by sessions and by reads is
//! one number per session and transaction. Of each item and session, only the first writer that is
//! not taken matters.
//!
//! # Invariants
//! This is true of every order; what it leaves open is guessed, and repaired ([`super::repair`]).
//!
//! # Cost
//! Four bytes per transaction and session, at most [`BYTES`]; a look at a transaction is one pass
//! over the sessions that write what it writes, for each reader.

use super::Schedule;
use crate::known::KnownGraph;
use crate::problem::{INITIAL, Item};

/// The largest clocks that are made.
const BYTES: usize = 256 << 20;

/// What is known of writers and readers, and how far each session is.
pub(super) struct Ahead {
    sessions: usize,
    /// By transaction.
    session: Vec<u32>,
    /// By transaction and session: the first transaction of the session that need not come before
    /// it.
    clocks: Vec<u32>,
    /// By item: its first group.
    starts: Vec<u32>,
    groups: Vec<Group>,
    /// By version.
    group_of: Vec<u32>,
    /// By session: the first transaction that is not taken.
    heads: Vec<u32>,
}

/// The versions of an item by one session.
#[derive(Clone, Copy)]
struct Group {
    session: u32,
    /// The transaction of the first version that is not taken; [`INITIAL`] if there is none.
    txn: u32,
    /// That version, and the end of them.
    next: u32,
    end: u32,
}

impl Ahead {
    /// Nothing taken yet; nothing if sessions do not count, or are too many. The order is one of
    /// the known graph.
    pub fn new(known: &KnownGraph<'_>, order: &[u32]) -> Option<Self> {
        let problem = known.problem;
        let (txns, sessions) = (problem.txns.len(), problem.history.session_count());
        if !known.has_sessions() || txns * sessions * 4 > BYTES {
            return None;
        }
        let session: Vec<u32> =
            problem.txns.iter().map(|&id| problem.history.session_of(id).index() as u32).collect();
        let mut heads = vec![txns as u32; sessions];
        (0..txns).rev().for_each(|txn| heads[session[txn] as usize] = txn as u32);
        let clocks = clocks(known, order, &session, &heads);
        let mut ahead = Self {
            sessions,
            session,
            clocks,
            starts: vec![0],
            groups: Vec::new(),
            group_of: Vec::new(),
            heads,
        };
        ahead.group(known);
        Some(ahead)
    }

    fn group(&mut self, known: &KnownGraph<'_>) {
        let problem = known.problem;
        self.group_of = vec![0; problem.versions.len()];
        for item in problem.items() {
            let first = self.groups.len();
            for version in problem.item_versions(item) {
                let txn = problem.versions[version as usize].txn;
                if txn == INITIAL {
                    continue;
                }
                let session = self.session[txn as usize];
                match self.groups[first..].last_mut() {
                    Some(group) if group.session == session => group.end = version + 1,
                    _ => self.groups.push(Group { session, txn, next: version, end: version + 1 }),
                }
                self.group_of[version as usize] = self.groups.len() as u32 - 1;
            }
            self.starts.push(self.groups.len() as u32);
        }
    }

    fn groups(&self, item: Item) -> &[Group] {
        &self.groups[self.starts[item.index()] as usize..self.starts[item.index() + 1] as usize]
    }

    /// A transaction was taken.
    fn take(&mut self, known: &KnownGraph<'_>, txn: u32) {
        let versions = &known.problem.versions;
        for &version in known.problem.txn_versions(txn) {
            let group = &mut self.groups[self.group_of[version as usize] as usize];
            group.next = version + 1;
            group.txn = if group.next < group.end { versions[group.next as usize].txn } else { INITIAL };
        }
        self.heads[self.session[txn as usize] as usize] = txn + 1;
    }

    /// A transaction was taken back.
    fn take_back(&mut self, known: &KnownGraph<'_>, txn: u32) {
        for &version in known.problem.txn_versions(txn) {
            let group = &mut self.groups[self.group_of[version as usize] as usize];
            if version < group.next {
                (group.next, group.txn) = (version, txn);
            }
        }
        let head = &mut self.heads[self.session[txn as usize] as usize];
        *head = (*head).min(txn);
    }
}

impl Schedule<'_> {
    /// A transaction that is not taken and must come before this one, and its version that says so.
    pub(super) fn needed_first(&self, txn: u32) -> Option<(u32, u32)> {
        let (ahead, problem) = (self.ahead.as_ref()?, self.problem);
        for &version in problem.txn_versions(txn) {
            let groups = ahead.groups(problem.versions[version as usize].item);
            for read in self.known.firm_readers(version) {
                let reader = problem.reads[read as usize].txn;
                let clock = &ahead.clocks[reader as usize * ahead.sessions..][..ahead.sessions];
                let first = |group: &&Group| {
                    group.txn < clock[group.session as usize]
                        && group.txn != txn
                        && group.txn != reader
                        && self.choices.active[group.txn as usize]
                };
                if let Some(group) = groups.iter().find(first) {
                    return Some((group.txn, group.next));
                }
            }
        }
        None
    }

    /// What a point waits for if it waits for this one: what is next in the session.
    pub(super) fn head(&self, point: u32) -> u32 {
        let Some(ahead) = self.ahead.as_ref().filter(|_| !self.is_moment(point)) else { return point };
        let txn = self.points.txn(point);
        let mut heads = ahead.heads[ahead.session[txn as usize] as usize]..txn;
        let head = heads.find(|&head| self.choices.active[head as usize]).unwrap_or(txn);
        match self.points.begin(head) {
            begin if head != txn && !self.done[begin as usize] => begin,
            _ if head != txn => self.points.commit(head),
            _ => point,
        }
    }

    pub(super) fn ahead_take(&mut self, txn: u32) {
        if let Some(ahead) = &mut self.ahead {
            ahead.take(self.known, txn);
        }
    }

    pub(super) fn ahead_take_back(&mut self, txn: u32) {
        if let Some(ahead) = &mut self.ahead {
            ahead.take_back(self.known, txn);
        }
    }
}

/// What must come before each transaction, by sessions and by reads that saw one possible version.
fn clocks(known: &KnownGraph<'_>, order: &[u32], session: &[u32], starts: &[u32]) -> Vec<u32> {
    let (problem, points, sessions) = (known.problem, known.points, starts.len());
    let mut clocks = starts.repeat(session.len());
    let mut row = vec![0; sessions];
    let begins = order.iter().filter(|&&node| (node as usize) < points.count(session.len()));
    for txn in begins.filter(|&&node| points.begin(points.txn(node)) == node).map(|&node| points.txn(node)) {
        let own = session[txn as usize];
        let previous = txn.checked_sub(1).filter(|&before| session[before as usize] == own);
        let seen = problem.txn_reads(txn).filter_map(|read| problem.seen(read));
        let writers = seen.map(|version| problem.versions[version as usize].txn);
        row.copy_from_slice(starts);
        for before in writers.filter(|&writer| writer != INITIAL).chain(previous) {
            let clock = &clocks[before as usize * sessions..][..sessions];
            row.iter_mut().zip(clock).for_each(|(own, other)| *own = (*own).max(*other));
            let of = &mut row[session[before as usize] as usize];
            *of = (*of).max(before + 1);
        }
        clocks[txn as usize * sessions..][..sessions].copy_from_slice(&row);
    }
    clocks
}
