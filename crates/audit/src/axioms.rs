//! Biswas and Enea's axioms: `be-read-committed`, `read-atomic`, `causal`.
//!
//! # Problem
//! A commit order contains session order and reads-from; and whenever t3 reads x from t1, and t2
//! writes x too and is visible to t3, then t2 comes before t1. Visible means: t3 read from t2 in an
//! earlier operation; t2 is before t3 in its session or t3 reads from it; or a path of such steps
//! leads from t2 to t3.
//!
//! # Algorithm
//! Versions follow the commit order, so "t2 comes before t1" compares two places in it. Of the
//! writers of x in one session that are visible, the last stands last. For `causal`, a vector of
//! what is visible of each session is carried along the commit order. What reads saw comes from
//! [`super::registers`] where it can tell, and else from [`super::execution`].
//!
//! # Cost
//! `causal`: reads × sessions, in blocks of sessions so that the vectors stay small; the others:
//! reads × sources of one transaction.

use margay_history::{History, ObjectId, OpId, SessionId, TxnId};
use margay_levels::definition::{Axiom, Family};
use margay_verdict::{Budget, Exhausted, Order, Predicates, Question};

use super::execution::{Execution, Picks, Seen};
use super::precedence::Precedence;
use super::registers::Registers;
use super::{Rejected, reject};

pub(super) fn audit(
    history: &History,
    question: Question,
    order: &Order,
    budget: &Budget,
) -> Result<(), Rejected> {
    match plain(history, question, order, budget) {
        Err(Stop::Unclear) => {}
        Err(Stop::Rejected(why)) => return Err(why),
        Ok(()) => return Ok(()),
    }
    general(history, question, order, budget)
}

/// For any history.
fn general(history: &History, question: Question, order: &Order, budget: &Budget) -> Result<(), Rejected> {
    let predicates = Predicates::compile(history)?.within(budget);
    let execution = Execution::by_commit_order(&predicates, &order.txns, Picks::listed(&order.reads)?)?;
    let seen = execution.explain()?;
    check(&execution, &seen, &order.txns, question)
}

/// For histories whose reads name their sources.
fn plain(history: &History, question: Question, order: &Order, budget: &Budget) -> Result<(), Stop> {
    let mut committed = vec![false; history.txn_count()];
    order.txns.iter().for_each(|txn| committed[txn.index()] = true);
    let is_committed = |txn: TxnId| committed[txn.index()];
    let registers = Registers::of(history, is_committed).filter(|_| order.reads.is_empty());
    let mut registers = registers.ok_or(Stop::Unclear)?;
    let writes = history.txns().filter(|&txn| is_committed(txn)).flat_map(|txn| {
        let ops = history.ops(txn).filter(|op| op.kind.writes());
        ops.flat_map(move |op| op.accesses.iter().map(move |access| (txn, access.object)))
    });
    let axioms = Axioms::new(history, &order.txns, writes, budget);
    axioms.check(question, &order.txns, |txn, into| registers.reads(txn, into).ok_or(Stop::Unclear))
}

/// Whether `order`, by which the execution's versions are ordered, satisfies the level's axiom.
pub(super) fn check(
    execution: &Execution<'_>,
    seen: &[Seen],
    order: &[TxnId],
    question: Question,
) -> Result<(), Rejected> {
    let history = execution.history();
    let mut by_txn: Vec<&Seen> = seen.iter().collect();
    by_txn.sort_by_key(|seen| (seen.op, seen.object));
    let mut writes: Vec<(TxnId, ObjectId)> = Vec::new();
    for (&object, writers) in &execution.orders {
        writes.extend(writers.iter().map(|&txn| (txn, object)));
    }
    writes.sort_unstable();
    let axioms = Axioms::new(history, order, writes.into_iter(), execution.predicates.budget());
    axioms.check(question, order, |txn, into| {
        let own = &by_txn[by_txn.partition_point(|seen| seen.txn < txn)..];
        let own = own.iter().take_while(|seen| seen.txn == txn);
        into.extend(own.map(|seen| {
            let source = seen.rank.checked_sub(1).map(|place| execution.orders[&seen.object][place]);
            Read { op: seen.op, object: seen.object, source }
        }));
        Ok::<(), Rejected>(())
    })
}

/// Why a commit order was not accepted.
enum Stop {
    /// What the reads saw cannot be told without computing the versions.
    Unclear,
    Rejected(Rejected),
}

impl From<Rejected> for Stop {
    fn from(rejected: Rejected) -> Self {
        Stop::Rejected(rejected)
    }
}

impl From<Exhausted> for Stop {
    fn from(exhausted: Exhausted) -> Self {
        Stop::Rejected(exhausted.into())
    }
}

/// What an operation saw of an object: the version of `source`, or the initial one.
#[derive(Clone, Copy)]
pub(super) struct Read {
    pub(super) op: OpId,
    pub(super) object: ObjectId,
    pub(super) source: Option<TxnId>,
}

struct Axioms<'a> {
    history: &'a History,
    budget: &'a Budget,
    /// Where each transaction stands in the commit order.
    places: Vec<u32>,
    /// Where each transaction's begin in `written`, and how many there are.
    starts: Vec<u32>,
    /// The objects that each transaction writes, sorted.
    written: Vec<ObjectId>,
}

impl<'a> Axioms<'a> {
    /// `writes` is by transaction.
    fn new(
        history: &'a History,
        order: &[TxnId],
        writes: impl Iterator<Item = (TxnId, ObjectId)>,
        budget: &'a Budget,
    ) -> Self {
        let mut places = vec![NOWHERE; history.txn_count()];
        order.iter().enumerate().for_each(|(place, txn)| places[txn.index()] = place as u32);
        let (mut starts, mut written) = (Vec::with_capacity(places.len() + 1), Vec::new());
        let mut writes = writes.peekable();
        let mut own: Vec<ObjectId> = Vec::new();
        for txn in history.txns() {
            starts.push(written.len() as u32);
            own.clear();
            own.extend(std::iter::from_fn(|| writes.next_if(|write| write.0 == txn)).map(|write| write.1));
            own.sort_unstable();
            own.dedup();
            written.extend_from_slice(&own);
        }
        starts.push(written.len() as u32);
        Self { history, budget, places, starts, written }
    }

    /// `reads` adds what a transaction read.
    fn check<E: From<Rejected> + From<Exhausted>>(
        &self,
        question: Question,
        order: &[TxnId],
        reads: impl FnMut(TxnId, &mut Vec<Read>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut precedence = Precedence::new(self.history, question);
        for &txn in order {
            precedence.begin(txn);
            precedence.commit(txn)?;
        }
        match question.level.family() {
            Family::CommitOrder(Axiom::ReadBefore) => self.direct(true, reads),
            Family::CommitOrder(Axiom::Direct) => self.direct(false, reads),
            Family::CommitOrder(Axiom::Causal) => self.causal(order, reads),
            _ => Err(Rejected("a commit order does not prove this level".to_owned()).into()),
        }
    }

    fn written(&self, txn: TxnId) -> &[ObjectId] {
        &self.written[self.starts[txn.index()] as usize..self.starts[txn.index() + 1] as usize]
    }

    fn committed(&self) -> impl Iterator<Item = TxnId> + '_ {
        self.history.txns().filter(|txn| self.places[txn.index()] != NOWHERE)
    }

    fn reads_follow_order(&self, txn: TxnId, reads: &[Read]) -> Result<(), Rejected> {
        let place = self.places[txn.index()];
        let backwards = |from: TxnId| self.places[from.index()] >= place;
        match reads.iter().any(|read| read.source.is_some_and(backwards)) {
            true => {
                reject(format!("{} reads from a transaction that comes later", self.history.show_txn(txn)))
            }
            false => Ok(()),
        }
    }

    /// `from` wrote what `txn` read, and is visible to it: its version is not newer than what was
    /// seen.
    fn visible(&self, from: TxnId, txn: TxnId, read: &Read) -> Result<(), Rejected> {
        let newer = read.source.is_none_or(|seen| self.places[from.index()] > self.places[seen.index()]);
        match newer && from != txn {
            true => reject(format!(
                "{} did not see the version of {} by {}, which is visible to it, nor a later one",
                self.history.show_txn(txn),
                self.history.show_object(read.object),
                self.history.show_txn(from)
            )),
            false => Ok(()),
        }
    }

    /// `earlier`: only what earlier operations read from is visible; otherwise whatever the
    /// transaction read from, and its session.
    fn direct<E: From<Rejected> + From<Exhausted>>(
        &self,
        earlier: bool,
        mut reads: impl FnMut(TxnId, &mut Vec<Read>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut own, mut sources) = (Vec::new(), Vec::new());
        let mut last: Vec<Option<TxnId>> = vec![None; if earlier { 0 } else { self.history.object_count() }];
        for txn in self.committed() {
            self.budget.poll()?;
            own.clear();
            reads(txn, &mut own)?;
            self.reads_follow_order(txn, &own)?;
            sources.clear();
            sources.extend(own.iter().filter_map(|read| Some((read.source?, read.op))));
            sources.sort_unstable();
            sources.dedup_by_key(|source| source.0);
            own.sort_unstable_by_key(|read| (read.object, read.op));
            for &(source, op) in &sources {
                self.saw_newest(source, txn, &own, |read| !earlier || op < read.op)?;
            }
            if !earlier {
                let session = self.history.session_of(txn);
                for read in &own {
                    let before = last[read.object.index()].filter(|&w| self.history.session_of(w) == session);
                    before.map_or(Ok(()), |before| self.visible(before, txn, read))?;
                }
                self.written(txn).iter().for_each(|object| last[object.index()] = Some(txn));
            }
        }
        Ok(())
    }

    /// `from` is visible to those of the reads, sorted by object, that `counts` admits.
    fn saw_newest(
        &self,
        from: TxnId,
        txn: TxnId,
        reads: &[Read],
        counts: impl Fn(&Read) -> bool,
    ) -> Result<(), Rejected> {
        let written = self.written(from);
        if reads.len() <= written.len() {
            let both = reads.iter().filter(|read| written.binary_search(&read.object).is_ok());
            return both.filter(|read| counts(read)).try_for_each(|read| self.visible(from, txn, read));
        }
        for &object in written {
            let start = reads.partition_point(|read| read.object < object);
            let same = reads[start..].iter().take_while(|read| read.object == object);
            same.filter(|read| counts(read)).try_for_each(|read| self.visible(from, txn, read))?;
        }
        Ok(())
    }

    fn causal<E: From<Rejected> + From<Exhausted>>(
        &self,
        order: &[TxnId],
        mut reads: impl FnMut(TxnId, &mut Vec<Read>) -> Result<(), E>,
    ) -> Result<(), E> {
        let writers = Writers::of(self);
        let sessions = self.history.session_count();
        let width = (CLOCKS / self.history.txn_count().max(1)).clamp(1, sessions.max(1));
        for start in (0..sessions).step_by(width) {
            self.causal_from(order, &writers, start..(start + width).min(sessions), &mut reads)?;
        }
        Ok(())
    }

    /// What is visible of the sessions of one block, along the commit order. A clock holds, for
    /// each session, one more than the last visible transaction.
    fn causal_from<E: From<Rejected> + From<Exhausted>>(
        &self,
        order: &[TxnId],
        writers: &Writers,
        block: std::ops::Range<usize>,
        mut reads: impl FnMut(TxnId, &mut Vec<Read>) -> Result<(), E>,
    ) -> Result<(), E> {
        let width = block.len();
        let mut clocks = vec![0u32; self.history.txn_count() * width];
        let mut last: Vec<Option<TxnId>> = vec![None; self.history.session_count()];
        let (mut clock, mut own) = (vec![0u32; width], Vec::new());
        for &txn in order {
            self.budget.poll()?;
            clock.fill(0);
            own.clear();
            reads(txn, &mut own)?;
            self.reads_follow_order(txn, &own)?;
            let session = self.history.session_of(txn).index();
            for from in last[session].into_iter().chain(own.iter().filter_map(|read| read.source)) {
                let theirs = &clocks[from.index() * width..][..width];
                clock.iter_mut().zip(theirs).for_each(|(mine, &theirs)| *mine = (*mine).max(theirs));
                let session = self.history.session_of(from).index();
                if block.contains(&session) {
                    let mine = &mut clock[session - block.start];
                    *mine = (*mine).max(from.0 + 1);
                }
            }
            for read in &own {
                self.visible_by(&clock, &block, txn, read, writers.of_object(read.object))?;
            }
            clocks[txn.index() * width..][..width].copy_from_slice(&clock);
            last[session] = Some(txn);
        }
        Ok(())
    }

    fn visible_by(
        &self,
        clock: &[u32],
        block: &std::ops::Range<usize>,
        txn: TxnId,
        read: &Read,
        writers: &[TxnId],
    ) -> Result<(), Rejected> {
        let mut next = writers.partition_point(|&w| self.history.session_of(w).index() < block.start);
        while let Some(&writer) = writers.get(next) {
            let session: SessionId = self.history.session_of(writer);
            if !block.contains(&session.index()) {
                break;
            }
            let rest = &writers[next..];
            let of_session = &rest[..rest.partition_point(|&w| self.history.session_of(w) == session)];
            let visible = of_session.partition_point(|w| w.0 < clock[session.index() - block.start]);
            if let Some(last) = visible.checked_sub(1) {
                self.visible(of_session[last], txn, read)?;
            }
            next += of_session.len();
        }
        Ok(())
    }
}

/// The writers of each object, by id: session by session.
struct Writers {
    starts: Vec<u32>,
    all: Vec<TxnId>,
}

impl Writers {
    fn of(axioms: &Axioms<'_>) -> Self {
        let objects = axioms.history.object_count();
        let mut starts = vec![0u32; objects + 2];
        axioms.written.iter().for_each(|object| starts[object.index() + 2] += 1);
        for object in 0..=objects {
            starts[object + 1] += starts[object];
        }
        let mut all = vec![TxnId(0); axioms.written.len()];
        for txn in axioms.history.txns() {
            for object in axioms.written(txn) {
                let place = &mut starts[object.index() + 1];
                all[*place as usize] = txn;
                *place += 1;
            }
        }
        Self { starts, all }
    }

    fn of_object(&self, object: ObjectId) -> &[TxnId] {
        &self.all[self.starts[object.index()] as usize..self.starts[object.index() + 1] as usize]
    }
}

/// The place of a transaction that is not in the commit order.
const NOWHERE: u32 = u32::MAX;

/// How many clock entries are held at a time.
const CLOCKS: usize = 1 << 25;

#[cfg(test)]
mod tests {
    use margay_levels::Level;

    use super::*;

    const LEVELS: [Level; 3] = [Level::BeReadCommitted, Level::ReadAtomic, Level::Causal];

    /// All orders of these transactions.
    fn orders(txns: &[TxnId]) -> Vec<Vec<TxnId>> {
        let Some((&first, rest)) = txns.split_first() else { return vec![Vec::new()] };
        let mut all = Vec::new();
        for order in orders(rest) {
            for place in 0..=order.len() {
                let mut longer = order.clone();
                longer.insert(place, first);
                all.push(longer);
            }
        }
        all
    }

    /// How many commit orders of a history the two ways accept and reject; they must agree.
    fn judged(text: &str) -> (usize, usize) {
        let history = margay_testkit::history(text);
        let (mut accepted, mut rejected) = (0, 0);
        for level in LEVELS {
            let question = Question::new(level);
            for txns in orders(&history.txns().collect::<Vec<_>>()) {
                let order = Order { txns, reads: Vec::new() };
                let budget = Budget::unlimited();
                let general = general(&history, question, &order, &budget).is_ok();
                match plain(&history, question, &order, &budget) {
                    Err(Stop::Unclear) => continue,
                    plain => assert_eq!(plain.is_ok(), general, "{level} {:?}", order.txns),
                }
                accepted += usize::from(general);
                rejected += usize::from(!general);
            }
        }
        (accepted, rejected)
    }

    #[test]
    fn plain_registers_are_judged_like_computed_versions() {
        let texts = [
            "T1@s1: w(x,1) w(y,1) | T2@s1: w(x,2) | T3@s2: r(x,1) r(y,1) | T4@s3: r(y,1) r(x,2)",
            "init: x=0 y=0 | T1@s1: w(x,1) w(y,1) | T2@s2: r(y,0) r(x,1) | T3@s2: r(x,1) w(x,2) r(x,2)",
            "T1@s1: w(x,1) | T2@s2: r(x,1) w(y,1) | T3@s3: r(y,1) r(x,_) | T4@s3: w(x,3)",
            "T1: w(x,1; y,1) | T2: w(x,2; y,2) | T3: r(x,2) r(y,1) | T4: r(y,1; x,2)",
        ];
        for text in texts {
            let (accepted, rejected) = judged(text);
            assert!(accepted > 0 && rejected > 0, "{text}: {accepted} accepted, {rejected} rejected");
        }
    }

    /// Which of two versions was read is not told by its value: the general way decides.
    #[test]
    fn what_does_not_name_its_source_is_unclear() {
        let texts =
            ["T1: w(x,1) | T2: w(x,1) | T3: r(x,1)", "T1: a(x,1) | T2: r(x,[1])", "T1: w(x,1) r(x,2)"];
        for text in texts {
            assert_eq!(judged(text), (0, 0), "{text}");
        }
    }
}
