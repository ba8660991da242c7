//! `be-read-committed`, `read-atomic` and `causal`: commit orders.
//!
//! # Problem
//! Find a total order that contains session order and reads-from, in which, whenever t3 reads x
//! from t1, every other writer t2 of x that is visible to t3 comes before t1; or show that there is
//! none. Visible: read from in an earlier operation; session order or read from; a path of these.
//!
//! # Algorithm
//! [AWDIT §4]: what each read saw is certain, so every "t2 before t1" is an edge, and the level
//! holds if and only if all edges together have no cycle. Few edges are enough: of the visible
//! writers in one session the last, since session order does the rest.
//! - Direct visibility: for each source t2 of t3, look through the smaller of what t2 writes and
//!   what t3 reads.
//! - `causal`: a clock for each transaction says how much of each session is visible to it. Within
//!   a session clocks only grow, so for each object and session one pointer moves forward through
//!   the writers.
//!
//! A read of the initial version while a writer is visible is a cycle by itself.
//!
//! # Invariants
//! Edges whose reads are certain only; so a cycle is a violation even where the case is open.
//!
//! # Differs from the paper
//! Lists and read-before-write add version orders as edges. An edge that clocks imply is left out;
//! of the edges from one session to one transaction only the last is kept, which bounds the edges
//! by transactions times sessions however many reads there are.
//!
//! # Cost
//! n^1.5 for direct visibility, n times sessions for `causal`, in operations n.

use margay_history::{ObjectId, SessionId, TxnId, Version};
use margay_levels::definition::Axiom;
use margay_order::{Graph, topological_order};
use margay_verdict::{Budget, Exhausted};

use crate::case::{Case, Read};
use crate::deps::{Deps, Layout, Why};

/// A read saw the initial version though a writer is visible to the reader.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unseen {
    pub(crate) read: u32,
    pub(crate) writer: TxnId,
}

/// Adds the edges of the axiom.
///
/// # Errors
/// The limit that was reached.
///
/// # Returns
/// The reads of initial versions that were not initial any more to their readers; a few.
pub(crate) fn add_axiom(
    case: &Case<'_>,
    axiom: Axiom,
    deps: &mut Deps,
    budget: &Budget,
) -> Result<Vec<Unseen>, Exhausted> {
    let mut edges = Edges { case, found: Vec::new(), unseen: Vec::new(), limit: 1 << 20 };
    match axiom {
        Axiom::ReadBefore => direct(case, &mut edges, true, budget)?,
        Axiom::Direct => direct(case, &mut edges, false, budget)?,
        _ => causal(case, &mut edges, budget)?,
    }
    edges.compact();
    for &(to, _, from, read) in &edges.found {
        deps.add(from.0, to.0, Why::Visible(read));
    }
    Ok(edges.unseen)
}

/// What was found so far.
struct Edges<'a, 'h> {
    case: &'a Case<'h>,
    /// To whom, from which session, from whom, by which read.
    found: Vec<(TxnId, SessionId, TxnId, u32)>,
    unseen: Vec<Unseen>,
    limit: usize,
}

impl Edges<'_, '_> {
    /// `writer` writes what `read` saw another version of, and is visible to the reader.
    fn visible(&mut self, read: u32, writer: TxnId) {
        let Read { txn, from, .. } = self.case.reads[read as usize];
        match from {
            _ if writer == txn => {}
            Version::Initial if self.unseen.len() < 8 => self.unseen.push(Unseen { read, writer }),
            Version::Of(source) if source != writer => {
                let session = self.case.history.session_of(writer);
                let implied = session == self.case.history.session_of(source) && writer < source;
                if !implied {
                    self.found.push((source, session, writer, read));
                }
            }
            _ => {}
        }
        if self.found.len() > self.limit {
            self.compact();
            self.limit = (2 * self.found.len()).max(1 << 20);
        }
    }

    /// Of the edges from one session to one transaction only the last counts.
    fn compact(&mut self) {
        self.found.sort_unstable_by(|a, b| (a.0, a.1, b.2, a.3).cmp(&(b.0, b.1, a.2, b.3)));
        self.found.dedup_by_key(|edge| (edge.0, edge.1));
    }
}

/// The reads of each transaction: `reads` is sorted by operation, so a range.
fn by_txn<'c>(case: &'c Case<'_>) -> impl Iterator<Item = (usize, &'c [Read])> {
    let mut start = 0;
    case.reads.chunk_by(|a, b| a.txn == b.txn).map(move |reads| {
        start += reads.len();
        (start - reads.len(), reads)
    })
}

/// `earlier`: only what earlier operations read from is visible; otherwise all that the transaction
/// read from, and its session.
fn direct(
    case: &Case<'_>,
    edges: &mut Edges<'_, '_>,
    earlier: bool,
    budget: &Budget,
) -> Result<(), Exhausted> {
    let written = &case.written;
    let mut sources: Vec<(TxnId, u32)> = Vec::new();
    let mut by_object: Vec<(ObjectId, u32)> = Vec::new();
    // The last writer of each object, of whichever session.
    let mut last: Vec<Option<TxnId>> = vec![None; if earlier { 0 } else { case.history.object_count() }];
    let mut next = 0;
    for txn in case.txns() {
        budget.poll()?;
        let start = next;
        while next < case.reads.len() && case.reads[next].txn == txn {
            next += 1;
        }
        let reads = &case.reads[start..next];
        sources.clear();
        sources.extend(reads.iter().filter_map(|read| match read.from {
            Version::Of(from) => Some((from, read.op.0)),
            Version::Initial => None,
        }));
        sources.sort_unstable();
        sources.dedup_by_key(|source| source.0);
        by_object.clear();
        by_object.extend(reads.iter().enumerate().map(|(i, read)| (read.object, (start + i) as u32)));
        by_object.sort_unstable();
        for &(source, op) in &sources {
            shared(written.of(source), &by_object, |read| {
                if !earlier || op < case.reads[read as usize].op.0 {
                    edges.visible(read, source);
                }
            });
        }
        if !earlier {
            let session = case.history.session_of(txn);
            for &(object, read) in &by_object {
                let before = last[object.index()].filter(|&w| case.history.session_of(w) == session);
                before.into_iter().for_each(|writer| edges.visible(read, writer));
            }
            written.of(txn).iter().for_each(|object| last[object.index()] = Some(txn));
        }
    }
    Ok(())
}

/// The reads of the objects that are written, by the smaller side. Both are sorted by object.
fn shared(written: &[ObjectId], reads: &[(ObjectId, u32)], mut each: impl FnMut(u32)) {
    if written.len() <= reads.len() {
        for &object in written {
            let start = reads.partition_point(|read| read.0 < object);
            reads[start..].iter().take_while(|read| read.0 == object).for_each(|read| each(read.1));
        }
    } else {
        for read in reads.iter().filter(|read| written.binary_search(&read.0).is_ok()) {
            each(read.1);
        }
    }
}

/// How much of each session is visible to each transaction: one more than the last visible
/// transaction's number.
struct Visibility {
    sessions: usize,
    clocks: Vec<u32>,
}

impl Visibility {
    fn new(case: &Case<'_>, order: &[u32], graph: &Graph) -> Self {
        let sessions = case.history.session_count();
        let mut visibility = Self { sessions, clocks: vec![0; sessions * case.history.txn_count()] };
        for &node in order {
            for &to in graph.successors(node) {
                visibility.absorb(case, to, node);
            }
        }
        visibility
    }

    fn absorb(&mut self, case: &Case<'_>, to: u32, from: u32) {
        let width = self.sessions;
        let (to, start) = (to as usize * width, from as usize * width);
        let (mine, theirs) = if to < start {
            let (low, high) = self.clocks.split_at_mut(start);
            (&mut low[to..to + width], &high[..width])
        } else {
            let (low, high) = self.clocks.split_at_mut(to);
            (&mut high[..width], &low[start..start + width])
        };
        mine.iter_mut().zip(theirs).for_each(|(mine, &theirs)| *mine = (*mine).max(theirs));
        let own = &mut mine[case.history.session_of(TxnId(from)).index()];
        *own = (*own).max(from + 1);
    }

    fn of(&self, txn: TxnId) -> &[u32] {
        &self.clocks[txn.index() * self.sessions..][..self.sessions]
    }
}

/// Session order and reads-from alone decide what is visible.
pub(crate) fn session_and_reads(case: &Case<'_>) -> Deps {
    let mut deps = Deps::new(case);
    deps.reads(case);
    for session in case.history.sessions() {
        let txns: Vec<TxnId> = case.history.session_txns(session).filter(|&t| case.has(t)).collect();
        txns.windows(2).for_each(|pair| deps.add(pair[0].0, pair[1].0, Why::Session));
    }
    deps
}

fn causal(case: &Case<'_>, edges: &mut Edges<'_, '_>, budget: &Budget) -> Result<(), Exhausted> {
    let base = session_and_reads(case);
    // A cycle is a violation by itself, and shows without the axiom.
    let graph = base.graph(Layout::Txns);
    drop(base);
    let Some(order) = topological_order(&graph) else { return Ok(()) };
    let bytes = case.history.session_count() * case.history.txn_count() * 4;
    budget.charge(bytes as u64)?;
    let visibility = Visibility::new(case, &order, &graph);
    drop((graph, order));
    let mut groups = Groups::new(case);
    let mut session = None;
    for (start, reads) in by_txn(case) {
        budget.poll()?;
        let txn = reads[0].txn;
        if session != Some(case.history.session_of(txn)) {
            session = Some(case.history.session_of(txn));
            groups.round += 1;
        }
        let clock = visibility.of(txn);
        for (i, read) in reads.iter().enumerate() {
            let source = match read.from {
                Version::Of(source) => visibility.of(source),
                Version::Initial => &[],
            };
            groups.last_visible(read.object, clock, |session, writer| {
                let implied = source.get(session).is_some_and(|&seen| writer.0 < seen);
                if !implied {
                    edges.visible((start + i) as u32, writer);
                }
            });
        }
    }
    Ok(())
}

/// The writers of one object in one session, and how far they are visible to the session that is
/// looked at.
struct Group {
    session: u32,
    start: u32,
    end: u32,
    /// For which session the rest stands.
    round: u32,
    /// Where `next` stands.
    place: u32,
    /// The first writer that was not visible yet; [`NOBODY`] if all were.
    next: u32,
    /// The one before it, or [`NOBODY`].
    last: u32,
}

const NOBODY: u32 = u32::MAX;

/// The writers of each object, session by session.
struct Groups {
    starts: Vec<u32>,
    list: Vec<Group>,
    writers: Vec<TxnId>,
    /// Counts the sessions that were looked at.
    round: u32,
}

impl Groups {
    fn new(case: &Case<'_>) -> Self {
        let mut groups = Self { starts: vec![0], list: Vec::new(), writers: Vec::new(), round: 0 };
        let mut own: Vec<TxnId> = Vec::new();
        for object in case.history.objects() {
            own.clear();
            own.extend_from_slice(case.writers.of(object));
            own.sort_unstable();
            for of_session in own.chunk_by(|&a, &b| case.history.session_of(a) == case.history.session_of(b))
            {
                let start = groups.writers.len() as u32;
                groups.writers.extend_from_slice(of_session);
                let (session, end) = (case.history.session_of(of_session[0]).0, groups.writers.len() as u32);
                let (next, last) = (of_session[0].0, NOBODY);
                groups.list.push(Group { session, start, end, round: 0, place: start, next, last });
            }
            groups.starts.push(groups.list.len() as u32);
        }
        groups
    }

    /// The last writer of each session that the clock has seen.
    fn last_visible(&mut self, object: ObjectId, clock: &[u32], mut each: impl FnMut(usize, TxnId)) {
        let of_object = self.starts[object.index()] as usize..self.starts[object.index() + 1] as usize;
        for group in &mut self.list[of_object] {
            if group.round != self.round {
                group.round = self.round;
                group.place = group.start;
                (group.next, group.last) = (self.writers[group.start as usize].0, NOBODY);
            }
            let session = group.session as usize;
            while group.next < clock[session] {
                group.last = group.next;
                group.place += 1;
                let more = group.place < group.end;
                group.next = if more { self.writers[group.place as usize].0 } else { NOBODY };
            }
            if group.last != NOBODY {
                each(session, TxnId(group.last));
            }
        }
    }
}
