//! One of several workers that verify a history together.
//!
//! # Problem
//! Several threads, processes or machines are to find what one thread finds, byte for byte, however
//! many they are.
//!
//! # Algorithm
//! Windows are epochs of time, so where they end does not depend on who takes part. Each process
//! reads the whole history; its workers share the sessions out, bring their operations to
//! transactions, and tell each other those that ended ([`Fresh`]). Objects are shared out among all
//! workers of all processes. An epoch goes in rounds, in each of which everybody waits for
//! everybody:
//!
//! 1. *Fresh*. Locks and versions of the transactions meet those of others, in the shard of each
//!    worker.
//! 2. *Open*. Of transactions that can be judged, each shard explains what only its own objects
//!    have to do with, and sends the open reads of snapshots that others share to the transaction's
//!    home.
//! 3. *Joined*. The home explains them together, and says where the snapshots may lie. Each shard
//!    concludes.
//!
//! What is certain goes to the first worker with the next round; it is the certifier.
//!
//! # Invariants
//! Whatever decides what is found is a function of the history and of the epoch: the ends of
//! epochs, the horizon, the order of windows. Only what the certifier has forgotten comes when it
//! comes; it saves memory. All workers go through the same rounds: none waits for a letter that
//! nobody sends.
//!
//! # Differs from the paper
//! The paper's verifiers exchange dependencies only, each with the transactions of its own clients.
//! Here a transaction is known everywhere, because every process reads the history: that costs half
//! of one thread's work in each process, and saves 40 to 60 bytes for each operation and process.
//!
//! # Cost
//! Three rounds per epoch. What crosses from one process to another are open reads with the
//! versions of their objects, and the dependencies that are certain.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use margay_history::{History, Interval, ObjectId, OpId, Values};
use margay_mechanisms::{World, common};
use margay_verdict::{Budget, Exhausted};

use crate::certifier::Judged;
use crate::check::trace;
use crate::front::Front;
use crate::judge::{Answer, Explained, Joined, join};
use crate::letter::{Certain, Content, Exchange, Fresh, Letter, Lost, Narrowed, OpenLetter, Opens};
use crate::merged::Merged;
use crate::mirror::{Mirror, forget, is_within};
use crate::shard::{Ordered, place};
use crate::txn::Ended;

/// The worker that has the certifier.
const CERTIFIER: usize = 0;

/// What one worker found of a window: of its transactions by their places, and of its versions.
type Window = (Vec<(usize, Explained)>, Vec<Ordered>);

/// Why a history was not verified to its end.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// Time or memory of this worker is used up, or of another one.
    Exhausted(Option<Exhausted>),
    Lost(Lost),
}

impl From<Lost> for Stopped {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}

/// A mirror with one share of the objects, and the way to the others.
pub(crate) struct Seat<'a> {
    pub mirror: &'a mut Mirror,
    pub post: &'a mut dyn Exchange,
    pub values: &'a Values,
    pub budget: &'a Budget,
    /// What goes to the certifier with the next round.
    later: Vec<(usize, Letter)>,
    /// Transactions that were judged and not certified yet, and the horizon before.
    judged: VecDeque<(Vec<Ended>, i64)>,
}

/// The sessions of one worker, as far as they have been read.
struct Source<'h> {
    history: &'h History,
    ops: Merged<'h>,
    front: Front,
    running: BTreeMap<i64, usize>,
}

impl Source<'_> {
    /// Reads up to a time on the common clock.
    fn read(&mut self, end: Option<i64>, mirror: &Mirror) -> Fresh {
        let (mut ended, mut operations) = (Vec::new(), 0);
        while let Some(next) = self.next()
            && end.is_some_and(|end| is_within(next, end))
            && let Some((op, txn)) = self.ops.next()
        {
            let Some((trace, asked)) = trace(self.history, op, txn) else { continue };
            let step = self.front.take(trace, &asked, &mirror.searches, self.history.values());
            // They come in order, as `unfit` has seen.
            let Ok(step) = step else { continue };
            operations += 1;
            if step.started {
                *self.running.entry(step.now).or_default() += 1;
            }
            if let Some(done) = step.ended {
                forget(&mut self.running, done.course.start());
                ended.push((step.now, op, done));
            }
        }
        let (low, next) = (self.running.keys().next().copied(), self.next());
        Fresh { ended: Arc::new(ended), low, next, operations }
    }

    /// When the next operation is called, on the common clock.
    fn next(&self) -> Option<i64> {
        let next = self.ops.next_at()?;
        Some(common(Interval::new(next, next), self.history.header().skew).before)
    }

    /// What is running when nothing more comes.
    fn finish(&mut self, mirror: &Mirror) -> Fresh {
        self.running.clear();
        let world = World { values: self.history.values(), searches: &mirror.searches };
        let open = self.front.finish(world).into_iter().map(|open| (i64::MAX, OpId(open.id.0), open));
        Fresh { ended: Arc::new(open.collect()), low: None, next: None, operations: 0 }
    }
}

impl<'a> Seat<'a> {
    pub fn new(
        mirror: &'a mut Mirror,
        post: &'a mut dyn Exchange,
        values: &'a Values,
        budget: &'a Budget,
    ) -> Self {
        Self { mirror, post, values, budget, later: Vec::new(), judged: VecDeque::new() }
    }

    /// Verifies this worker's share of a history.
    pub fn play(mut self, history: &History) -> Result<(), Stopped> {
        let (process, me) = (self.post.process(), self.post.index());
        let mine = |place: usize| place % process.len() == me - process.start;
        let mut source = Source {
            history,
            ops: Merged::among(history, |session| mine(session.index())),
            front: Front::new(self.mirror.mechanisms, history.header().skew),
            running: BTreeMap::new(),
        };
        let mut end = None;
        loop {
            let fresh = source.read(end, self.mirror);
            let (all, next) = self.gather(fresh)?;
            if let Some(end) = end {
                self.mirror.now = end;
                self.meet(all, end)?;
            }
            let Some(next) = next else { break };
            end = Some(self.mirror.next_epoch(next));
        }
        let open = source.finish(self.mirror);
        let (open, _) = self.gather(open)?;
        self.meet(open, i64::MAX)?;
        // The certifier hears of the last epoch, and tells all what it found.
        self.round(Vec::new())?;
        let mut letters = Vec::new();
        if me == CERTIFIER {
            let told = Letter(self.mirror.account());
            letters.extend((1..self.post.count()).map(|to| (to, told.clone())));
        }
        for content in self.round(letters)? {
            let Content::Found(found, dependencies) = content else { return Err(unexpected()) };
            self.mirror.take_account(found, dependencies);
        }
        Ok(())
    }

    /// Tells the other workers of this process what was read, and answers what all of them have:
    /// the transactions that ended, in their order, and when the next operation is called.
    fn gather(&mut self, fresh: Fresh) -> Result<(Vec<Ended>, Option<i64>), Stopped> {
        let letters = self.post.process().map(|to| (to, Letter(Content::Fresh(fresh.clone())))).collect();
        let (mut all, mut next) = (Vec::new(), None);
        self.mirror.low = None;
        for content in self.round(letters)? {
            let Content::Fresh(fresh) = content else { return Err(unexpected()) };
            all.extend(fresh.ended.iter().cloned());
            let earlier = |one: Option<i64>, other: Option<i64>| one.into_iter().chain(other).min();
            (self.mirror.low, next) = (earlier(self.mirror.low, fresh.low), earlier(next, fresh.next));
            self.mirror.statistics.operations += fresh.operations;
        }
        all.sort_unstable_by_key(|(at, op, _)| (*at, *op));
        Ok((all.into_iter().map(|(_, _, ended)| ended).collect(), next))
    }

    /// Transactions that ended in an epoch meet others; what can be judged when it is over is.
    fn meet(&mut self, all: Vec<Ended>, end: i64) -> Result<(), Stopped> {
        let met = self.mirror.meet(&all, self.values);
        self.later.push((CERTIFIER, Letter(Content::Certain(Certain::Met(met.alarms)))));
        let count = all.len();
        all.into_iter().for_each(|ended| self.mirror.keep(ended));
        self.mirror.now = end;
        let most = self.judge(met.most)?;
        self.mirror.adapt(count, most);
        Ok(())
    }

    /// Judges all that can be; answers how many versions there are of one object, at most.
    fn judge(&mut self, most: usize) -> Result<usize, Stopped> {
        let mut all = most;
        loop {
            let (window, horizon) = (self.mirror.ready(), self.mirror.horizon());
            let answers = self.mirror.answer(&window, self.values);
            let opens = self.tell_open(&window, answers.iter().flatten(), most)?;
            for opens in &opens {
                all = all.max(opens.most);
                self.mirror.forgotten = self.mirror.forgotten.max(opens.forgotten);
            }
            if window.is_empty() {
                return Ok(all);
            }
            let joined = self.join(&window, opens)?;
            let concluded = self.mirror.conclude(&window, answers, &joined, self.values);
            self.tell_certain(joined, concluded);
            self.mirror.put_away(&window);
            let more = Mirror::is_full(&window);
            if self.post.index() == CERTIFIER {
                self.judged.push_back((window, horizon));
            }
            if !more {
                return Ok(all);
            }
        }
    }

    /// Sends open reads to the homes of their transactions, and answers those of which this is the
    /// home.
    fn tell_open<'b>(
        &mut self,
        window: &[Ended],
        answers: impl Iterator<Item = &'b Answer>,
        most: usize,
    ) -> Result<Vec<Opens>, Stopped> {
        let limit = self.budget.poll().err();
        let workers = self.post.count();
        let mut reads: Vec<Vec<OpenLetter>> = vec![Vec::new(); workers];
        for (number, answer) in answers.enumerate() {
            let home = home(&window[number], workers);
            for read in answer.shared.iter().filter(|read| read.only.is_none()) {
                let versions = self.mirror.store.get(read.seen.object).versions.clone();
                reads[home].push((number, read.clone(), versions));
            }
        }
        let (stop, forgotten) = (limit.is_some(), self.mirror.forgotten);
        let letter = |reads| Letter(Content::Open(Opens { most, stop, forgotten, reads }));
        let letters = reads.into_iter().map(letter).enumerate().collect();
        let mut all = Vec::with_capacity(workers);
        for content in self.round(letters)? {
            let Content::Open(opens) = content else { return Err(unexpected()) };
            all.push(opens);
        }
        match all.len() == workers && all.iter().all(|opens| !opens.stop) {
            true => Ok(all),
            false => Err(Stopped::Exhausted(limit)),
        }
    }

    /// Explains the open reads of this worker's transactions, and answers what concerns this
    /// worker's objects.
    fn join(&mut self, window: &[Ended], opens: Vec<Opens>) -> Result<Vec<Joined>, Stopped> {
        let workers = self.post.count();
        if workers == 1 {
            return Ok(Vec::new());
        }
        let mut reads: Vec<OpenLetter> = opens.into_iter().flat_map(|opens| opens.reads).collect();
        reads.sort_by_key(|(number, read, _)| (*number, read.spot));
        let mut all: Vec<Joined> = window.iter().map(|_| Joined::default()).collect();
        let mut letters: Vec<Vec<Narrowed>> = vec![Vec::new(); workers];
        for reads in reads.chunk_by(|a, b| a.0 == b.0) {
            let number = reads[0].0;
            let Some(ended) = window.get(number) else { return Err(unexpected()) };
            let open = reads.iter().map(|(_, read, versions)| (read, versions.as_slice()));
            let joined = join(ended, open, self.mirror.fixed(self.values));
            let readers = &joined.explained.readers;
            for (to, letter) in letters.iter_mut().enumerate().filter(|(to, _)| concerns(ended, *to, workers))
            {
                let own = readers.iter().filter(|(_, object, _)| at(*object, workers) == to);
                letter.push((number, joined.by.clone(), own.copied().collect()));
            }
            all[number].explained = joined.explained;
            all[number].explained.readers.clear();
        }
        let letters = letters.into_iter().map(|all| Letter(Content::Joined(all))).enumerate().collect();
        for content in self.round(letters)? {
            let Content::Joined(narrowed) = content else { return Err(unexpected()) };
            for (number, by, readers) in narrowed {
                let Some(joined) = all.get_mut(number) else { return Err(unexpected()) };
                (joined.by, joined.explained.readers) = (by, readers);
            }
        }
        Ok(all)
    }

    /// What this worker found goes to the certifier with the next round.
    fn tell_certain(&mut self, joined: Vec<Joined>, concluded: Vec<(Vec<Explained>, Ordered)>) {
        // A worker has one shard.
        let Some((mut all, ordered)) = concluded.into_iter().next() else { return };
        all.iter_mut().zip(joined).for_each(|(all, joined)| all.add(joined.explained));
        // Counters are told once.
        let mut sum = Explained::default();
        for found in &mut all {
            found.readers.clear();
            sum.wr.add(std::mem::take(&mut found.wr));
            sum.rw.add(std::mem::take(&mut found.rw));
            sum.open.add(std::mem::take(&mut found.open));
        }
        let is_something = |(_, found): &(usize, Explained)| *found != Explained::default();
        let mut told: Vec<(usize, Explained)> = all.into_iter().enumerate().filter(is_something).collect();
        told.push((0, sum));
        let letter = Letter(Content::Certain(Certain::Judged(told, vec![ordered])));
        self.later.push((CERTIFIER, letter));
    }

    /// A round: sends letters and what waits for the certifier; answers what came. The certifier
    /// takes what is for it.
    fn round(&mut self, letters: Vec<(usize, Letter)>) -> Result<Vec<Content>, Stopped> {
        let mut all = std::mem::take(&mut self.later);
        all.extend(letters);
        let (mut alarms, mut found, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        for letter in self.post.exchange(all)? {
            match letter.0 {
                Content::Certain(Certain::Met(more)) => alarms.extend(more),
                Content::Certain(Certain::Judged(explained, ordered)) => found.push((explained, ordered)),
                other => rest.push(other),
            }
        }
        self.mirror.tell(alarms);
        self.certify(found)?;
        Ok(rest)
    }

    /// The certifier takes over what all workers found of windows, each of which sent one letter
    /// for each.
    fn certify(&mut self, found: Vec<Window>) -> Result<(), Stopped> {
        let windows = self.judged.len();
        if found.is_empty() {
            return Ok(());
        }
        if found.len() != windows * self.post.count() {
            return Err(unexpected());
        }
        let (mut all, waiting): (Vec<Judged>, _) = (Vec::new(), std::mem::take(&mut self.judged));
        for (window, horizon) in waiting {
            let explained = window.iter().map(|_| Explained::default()).collect();
            all.push(Judged { window, horizon, explained, ordered: Vec::new() });
        }
        for (place, (explained, ordered)) in found.into_iter().enumerate() {
            let judged = &mut all[place % windows];
            judged.ordered.extend(ordered);
            for (number, found) in explained {
                let Some(all) = judged.explained.get_mut(number) else { return Err(unexpected()) };
                all.add(found);
            }
        }
        all.into_iter().for_each(|judged| self.mirror.certify(judged));
        Ok(())
    }
}

/// The worker where the open reads of a transaction come together.
fn home(ended: &Ended, workers: usize) -> usize {
    ended.id.index() % workers
}

/// The worker that has an object.
fn at(object: ObjectId, workers: usize) -> usize {
    place(object, workers as u32) as usize
}

/// Whether where the snapshots of a transaction lie concerns a worker: it has searched, or has read
/// there.
fn concerns(ended: &Ended, worker: usize, workers: usize) -> bool {
    !ended.searches.is_empty() || ended.reads.iter().any(|seen| at(seen.object, workers) == worker)
}

/// A letter that nobody should have sent.
fn unexpected() -> Stopped {
    Stopped::Lost(Lost("a worker sent what was not its turn".to_owned()))
}
