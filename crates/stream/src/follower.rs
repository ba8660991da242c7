//! Follows a history while it comes.
//!
//! # Algorithm
//! Somebody says up to which time everything has come: the watermark. A transaction that had ended
//! before it, and before the start of every transaction that is still open, is *due*: nothing that
//! is still to come can be needed to explain it. Those that have ended and are not due may take
//! effect, but need not yet. Engine follow finds an order of both on the settled state. Its last
//! [`HELD`] transactions are held back, because what comes later may tell that two of them belong
//! the other way round; what is before them is settled.
//!
//! # Invariants
//! - A settled part was audited, and is never revised, but for transactions of unknown outcome that
//!   took effect in it unnoticed ([`crate::perhaps`]).
//! - When somebody looks makes no difference to what may be found later: nothing is settled that may
//!   belong behind one that has ended and is not due; and a search that takes long is made smaller,
//!   never given up because much is waiting.
//! - If no order is found, the follower ends with the reason, and says nothing of what it had not
//!   settled. What it had settled was a choice, so that this is no violation by itself.
//!
//! # Differs from the paper
//! Lowe's search keeps every state that is possible. Here one is chosen; later transactions can
//! contradict the choice only if two that committed overlapped and nothing told them apart within
//! the next [`HELD`].
//!
//! # Cost
//! A part is searched when there are [`FRESH`] times as many new transactions as are held back, or
//! when somebody wants to know. So most transactions are searched once. A search that takes long is
//! put off twice: the same transactions are easier with those that come next.

mod by_stamps;
mod within;

use std::io;
use std::time::Duration;

use hashbrown::{HashMap, HashSet};
use margay_follow::{Early, Follow};
use margay_formats::{glance, stamp};
use margay_history::{History, Outcome, TxnId};
use margay_verdict::{Budget, Certificate, Finding, Question, Verdict};

use crate::auditor::Unaccepted;
use crate::perhaps::stand_in;
use crate::proof::Head;
use crate::stamped::{Stamped, asked};
use crate::watermark::ticks;
use crate::window::Window;
use crate::{Auditor, Counts, Intake, Part, Transaction, Trouble, followed};
use within::Within;

/// How many transactions are held back.
pub const HELD: usize = 1_000;

/// How many times as many transactions as are held back are looked at together, unless somebody
/// wants to know sooner.
const FRESH: usize = 4;

/// How often in a row a search that takes long is put off: with more transactions the same search
/// is often short.
const POSTPONED: u32 = 2;

/// How many times as many transactions as are held back are searched together at most if that takes
/// long.
const PATIENT: usize = 6;

/// How many transactions of unknown outcome may take effect later than anything else that is held.
const UNKNOWNS: usize = 1_000;

/// Where settled parts go, with the transactions of unknown outcome that will be in none.
pub type Sink<'a> = Box<dyn FnMut(&Part, &[u64]) -> io::Result<()> + Send + 'a>;

/// How a follower ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// Everything that committed is settled.
    Whole,
    /// What these saw has no order within the horizon; everything else is settled.
    Partly {
        /// Their labels, or the first of them.
        undecided: Vec<u64>,
        /// How many they are.
        count: u64,
    },
    /// It stopped, and why. The part up to there is settled.
    Stopped(String),
}

/// A violation.
pub struct Found {
    /// A few transactions, on objects that may have held anything before.
    pub window: History,
    /// That they have no order.
    pub finding: Finding,
    /// Everything that was called before this time had come; or that has timestamps before this
    /// one.
    limit: i64,
}

/// How far a follower has come.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Progress {
    /// Transactions that are settled.
    pub settled: u64,
    /// Transactions that are not: they are open, or held back.
    pub open: u64,
    /// Every transaction that had ended by then was looked at.
    pub reached: i64,
    /// Bytes that transactions and the state take.
    pub memory: u64,
}

/// Follows a history.
pub struct Follower<'a> {
    question: Question,
    header: Vec<u8>,
    auditor: Auditor,
    /// What ran by timestamps, if they have come.
    stamped: Option<Stamped>,
    /// How far transactions may be moved, at a level without real time.
    within: Option<Within>,
    intake: Intake,
    /// Ended, and not settled.
    waiting: Vec<Transaction>,
    /// How many of them were in a search.
    known: usize,
    waiting_bytes: usize,
    /// How often in a row a search was put off.
    postponed: u32,
    reached: i64,
    sink: Sink<'a>,
    budget: Budget,
    /// How many transactions are held back.
    held: usize,
    stopped: Option<String>,
    found: Option<Found>,
    /// By when all that is settled had ended.
    settled_by: i64,
    /// Whom the stand-ins of the last search stand for.
    stand_ins: Vec<u64>,
    /// The session and turn of settled transactions of unknown outcome: in another order they may
    /// take effect later.
    roaming: Vec<(u64, u64)>,
    /// Whether transactions of unknown outcome were forgotten that may take effect later.
    forgot: bool,
}

impl<'a> Follower<'a> {
    /// Nothing has come but the header.
    ///
    /// # Errors
    /// When the header is none, or cannot be followed; when no order in real time answers the
    /// question.
    pub fn new(question: Question, header: &[u8], budget: Budget, sink: Sink<'a>) -> Result<Self, Trouble> {
        let no_order = || Trouble::Outside("no order in real time answers this".to_owned());
        let auditor = Auditor::new(followed(question).ok_or_else(no_order)?, header)?;
        Ok(Self {
            question,
            header: header.to_vec(),
            stamped: None,
            within: None,
            intake: Intake::new(auditor.settled().unit()),
            auditor,
            waiting: Vec::new(),
            known: 0,
            waiting_bytes: 0,
            postponed: 0,
            reached: i64::MIN,
            sink,
            budget,
            held: HELD,
            stopped: None,
            found: None,
            settled_by: i64::MIN,
            stand_ins: Vec::new(),
            roaming: Vec::new(),
            forgot: false,
        })
    }

    /// Holds so many transactions back, instead of [`HELD`].
    #[must_use]
    pub fn holding(self, held: usize) -> Self {
        Self { held, ..self }
    }

    /// At a level without real time: looks for an order in which transactions that are no further
    /// apart may change places. What some transactions saw may need an order across it; then that
    /// is not decided, and they are named.
    ///
    /// # Errors
    /// When the level has real time, or the history no clock.
    pub fn within(mut self, horizon: Duration) -> Result<Self, Trouble> {
        let no = |why: &str| Err(Trouble::Outside(why.to_owned()));
        if self.question.uses_real_time() {
            return no("a level with real time has no horizon");
        }
        let Some(ticks) = ticks(self.auditor.settled().unit(), horizon) else {
            return no("a horizon needs times, and the history has none");
        };
        self.auditor = self.auditor.within(ticks)?;
        self.within = Some(Within::default());
        Ok(self)
    }

    /// Whether timestamps give the order.
    #[must_use]
    pub fn is_stamped(&self) -> bool {
        self.stamped.is_some()
    }

    /// The labels of transactions whose order is not decided, or the first of them.
    #[must_use]
    pub fn undecided(&self) -> &[u64] {
        self.within.as_ref().map_or(&[], Within::undecided)
    }

    /// How its proof begins.
    #[must_use]
    pub fn head(&self) -> Head {
        let horizon = self.within.is_some().then(|| self.auditor.settled().skew());
        Head { level: self.auditor.question().level, horizon, stamped: asked(self.question).level }
    }

    /// The next line. What comes after the follower has stopped is left alone.
    ///
    /// # Errors
    /// When the line is ill-formed.
    pub fn line(&mut self, line: &[u8]) -> Result<(), Trouble> {
        if self.stopped.is_some() {
            self.withdraw(line);
            return Ok(());
        }
        match self.intake.line(line) {
            Ok(Some(txn)) => self.ended(txn),
            Ok(None) => {}
            Err(Trouble::Outside(why)) => self.stop(why),
            Err(input) => return Err(input),
        }
        Ok(())
    }

    /// What was found counts no longer if something comes that should have come before.
    fn withdraw(&mut self, line: &[u8]) {
        let Some(found) = &self.found else { return };
        let late = match (&self.stamped, glance(line)) {
            (Some(_), Ok(None)) => {
                stamp(line).map_or(true, |stamp| stamp.is_none_or(|s| s.ts <= found.limit))
            }
            (Some(_), _) => false,
            (None, Ok(Some(seen))) => seen.at.is_none_or(|at| at.before < found.limit),
            (None, _) => true,
        };
        if late {
            self.found = None;
            self.stopped = Some("operations came later than others that were called after them".to_owned());
        }
    }

    /// The violation because of which it stopped, if it is one.
    #[must_use]
    pub fn found(&self) -> Option<&Found> {
        self.found.as_ref()
    }

    fn ended(&mut self, txn: Transaction) {
        let matters = match txn.outcome {
            Outcome::Committed => true,
            Outcome::Unknown => txn.writes,
            Outcome::Aborted => false,
        };
        if matters {
            self.waiting_bytes += txn.bytes();
            self.waiting.push(txn);
        } else {
            self.intake.forget_stamps(txn.label);
        }
    }

    /// Everything has come that was called before this time. Looks at what is due if there is
    /// enough of it, or if somebody wants to know.
    ///
    /// # Errors
    /// When lines are ill-formed, or the sink fails.
    pub fn advance(&mut self, watermark: i64, eager: bool) -> Result<(), Trouble> {
        let fresh = self.waiting.len() - self.known;
        let enough = if eager { 1 } else { self.known.max(FRESH * self.held) };
        if self.stopped.is_some() || fresh < enough {
            return Ok(());
        }
        if self.intake.is_stamped() {
            return self.look_at_stamps(Some(self.held));
        }
        let limit = watermark.min(self.intake.earliest());
        if limit > self.reached {
            self.look(limit, self.held)?;
        }
        Ok(())
    }

    /// The same where nobody says until when everything has come: as far as it seems so.
    ///
    /// # Errors
    /// When lines are ill-formed, or the sink fails.
    pub fn advance_by_guess(&mut self, eager: bool) -> Result<(), Trouble> {
        let reached = self.intake.reached();
        self.advance(reached, eager)
    }

    /// All has come.
    ///
    /// # Errors
    /// When lines are ill-formed, or the sink fails.
    pub fn finish(&mut self) -> Result<End, Trouble> {
        for txn in self.intake.finish() {
            self.ended(txn);
        }
        if self.stopped.is_none() {
            match self.intake.is_stamped() {
                true => self.look_at_stamps(None)?,
                false => self.look(i64::MAX, 0)?,
            }
        }
        Ok(match (&self.stopped, &self.within) {
            (Some(why), _) => End::Stopped(why.clone()),
            (None, Some(within)) if within.count() > 0 => {
                End::Partly { undecided: within.undecided().to_vec(), count: within.count() }
            }
            _ => End::Whole,
        })
    }

    /// Stops, and why.
    pub fn stop(&mut self, why: impl Into<String>) {
        self.stopped.get_or_insert(why.into());
    }

    /// Why it has stopped, if it has.
    #[must_use]
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// How much has come.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.intake.counts()
    }

    /// How far it has come.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let memory = self.waiting_bytes + self.intake.bytes() + self.auditor.settled().bytes();
        let memory = memory + self.stamped.as_ref().map_or(0, Stamped::bytes);
        let begun = self.stamped.as_ref().map_or(0, Stamped::open);
        Progress {
            settled: self.auditor.transactions() + self.stamped.as_ref().map_or(0, Stamped::transactions),
            open: (self.waiting.len() + self.intake.open() + begun) as u64,
            reached: self.reached,
            memory: memory as u64,
        }
    }

    /// What has ended, where what had ended before the limit is due.
    fn due(&self, limit: i64) -> impl Iterator<Item = (&Transaction, bool)> {
        let skew = self.auditor.settled().skew();
        let is_due = move |txn: &Transaction| txn.end.saturating_add(skew) < limit || limit == i64::MAX;
        let begun = self.waiting.iter().filter(move |txn| txn.start < limit || limit == i64::MAX);
        begun.map(move |txn| (txn, is_due(txn)))
    }

    /// Searches for an order of what has ended, where what had ended before the limit is due;
    /// settles all but some.
    fn look(&mut self, limit: i64, leave: usize) -> Result<(), Trouble> {
        if let Some(line) = self.intake.untimed() {
            self.stop(format!("an operation without an interval (line {line})"));
            return Ok(());
        }
        self.waiting.sort_by_key(|txn| (txn.start, txn.session, txn.turn));
        self.known = self.waiting.len();
        if self.within.is_some() {
            return self.look_within(limit, leave);
        }
        let (part, early) = self.open_part(limit, true)?;
        let question = self.auditor.question();
        let verdict = match Follow.glimpse(&part, question, &early, &self.budget) {
            Some(verdict) => verdict,
            None if self.postponed < POSTPONED && limit < i64::MAX => {
                self.postponed += 1;
                return Ok(());
            }
            None => match self.sooner(limit) {
                Some(sooner) => {
                    let before = self.auditor.transactions();
                    self.look_patiently(sooner)?;
                    let goes_on = self.stopped.is_none() && self.auditor.transactions() > before;
                    return if goes_on { self.look(limit, leave) } else { Ok(()) };
                }
                None => Follow.search(&part, question, &early, &self.budget),
            },
        };
        self.take(part, verdict, limit, leave)
    }

    /// A time before the limit up to which as many transactions began as can be searched with
    /// patience, if there are more.
    fn sooner(&self, limit: i64) -> Option<i64> {
        let sooner = self.waiting.get(PATIENT * self.held.max(1))?.start;
        (sooner < limit && sooner > self.reached).then_some(sooner)
    }

    fn look_patiently(&mut self, limit: i64) -> Result<(), Trouble> {
        let (part, early) = self.open_part(limit, true)?;
        let verdict = Follow.search(&part, self.auditor.question(), &early, &self.budget);
        self.take(part, verdict, limit, self.held)
    }

    /// What is due, and what may take effect before it.
    fn open_part(&mut self, limit: i64, wide: bool) -> Result<(History, Vec<Early>), Trouble> {
        let (part, stand_ins) = self.auditor.settled().open_part(self.due(limit), wide)?;
        let mut early = Vec::new();
        if !stand_ins.is_empty() {
            let txns: HashMap<u64, TxnId> = part.txns().map(|txn| (part.txn_label(txn), txn)).collect();
            let open = &self.auditor.settled().open;
            let place = |number| txns.get(&stand_in(number)).copied();
            for (number, &label) in stand_ins.iter().enumerate() {
                let others = stand_ins
                    .iter()
                    .enumerate()
                    .filter(|&(_, &other)| other != label && open.is_closed(other, label));
                let others = others.filter_map(|(other, _)| place(other));
                let members = open.members(label).iter();
                let real = members.filter_map(|member| txns.get(&member.label).copied());
                let against = others.chain(real).collect();
                early.extend(place(number).map(|txn| Early { txn, against }));
            }
        }
        self.stand_ins = stand_ins;
        Ok((part, early))
    }

    /// What a search has found about what is due.
    fn take(&mut self, part: History, verdict: Verdict, limit: i64, leave: usize) -> Result<(), Trouble> {
        self.postponed = 0;
        let order = match verdict {
            Verdict::Holds(certificate) => Part::of(&part, &certificate),
            Verdict::Violated(findings) => {
                self.no_order(part, &findings, limit);
                return Ok(());
            }
            Verdict::Unknown(why) => {
                self.stop(why.to_string());
                return Ok(());
            }
            Verdict::Clean => None,
        };
        let Some(order) = order else {
            self.stop("an order of another kind");
            return Ok(());
        };
        self.reached = limit;
        self.settle(order, leave)
    }

    /// Nothing continues the settled state: looks whether nothing continues any state.
    fn no_order(&mut self, part: History, findings: &[Finding], limit: i64) {
        let Some(finding) = findings.first() else { return self.stop("no order was found") };
        let shown: Vec<String> = finding.txns.iter().take(8).map(|&txn| part.show_txn(txn)).collect();
        self.stop(format!("no order continues what is settled: {}", shown.join(", ")));
        if self.auditor.transactions() == 0 && !self.forgot {
            self.found = Some(Found { window: part, finding: finding.clone(), limit });
            return;
        }
        let Certificate::DeadEnd(end) = &finding.certificate else { return };
        if self.forgot || !self.roaming.is_empty() {
            return;
        }
        let settled = self.settled_by.saturating_add(self.auditor.settled().skew());
        let window = Window { part: &part, objects: &end.objects, settled };
        let proved = window.without_order(self.auditor.question(), finding, &self.budget);
        self.found = proved.map(|(window, finding)| Found { window, finding, limit });
    }

    /// Settles an order but for so many transactions, and forgets it.
    fn settle(&mut self, order: Part, leave: usize) -> Result<(), Trouble> {
        let before = if leave == 0 { usize::MAX } else { self.until_an_absent_one(&order) };
        let (part, woken) = order.split(leave, before).without_stand_ins();
        woken.into_iter().try_for_each(|number| self.wake(number))?;
        let labels: HashSet<u64> = part.labels().collect();
        let (taken, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|txn| labels.contains(&txn.label));
        let txns: Vec<&Transaction> = taken.iter().collect();
        let ends = taken.iter().filter(|txn| txn.outcome == Outcome::Committed).map(|txn| txn.end);
        self.settled_by = ends.max().unwrap_or(i64::MIN).max(self.settled_by);
        let unknown = taken.iter().filter(|txn| txn.outcome == Outcome::Unknown);
        self.roaming.extend(unknown.map(|txn| (txn.session, txn.turn)));
        let audited = match taken.is_empty() {
            true => Ok(()),
            false => self.auditor.part_without(&txns, &part, &self.may_be_among(&rest), &self.budget),
        };
        let (left, mut rest): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|txn| txn.outcome == Outcome::Unknown && self.auditor.is_past(txn));
        let mut left: Vec<u64> = left.iter().map(|txn| txn.label).collect();
        let forgotten = forget_unknowns(&mut rest);
        self.forgot |= !forgotten.is_empty();
        left.extend(forgotten);
        self.roaming.retain(|&(session, turn)| self.auditor.turn(session) <= turn);
        self.known = rest.len();
        self.waiting_bytes = rest.iter().map(Transaction::bytes).sum();
        self.waiting = rest;
        match audited {
            Ok(()) if taken.is_empty() && left.is_empty() => Ok(()),
            Ok(()) => self.write(&part, &left),
            Err(Unaccepted::Rejected(why)) => {
                self.stop(format!("the audit rejects what was found: {why}"));
                Ok(())
            }
            Err(Unaccepted::Trouble(trouble)) => Err(trouble),
        }
    }

    fn write(&mut self, part: &Part, left: &[u64]) -> Result<(), Trouble> {
        let written = (self.sink)(part, left);
        written.map_err(|error| Trouble::Outside(format!("the proof cannot be written: {error}")))
    }

    /// One took effect in an earlier part, unnoticed until now.
    fn wake(&mut self, number: usize) -> Result<(), Trouble> {
        let Some(&label) = self.stand_ins.get(number) else { return Ok(()) };
        for woken in self.auditor.wake(label) {
            self.waiting.retain(|txn| txn.label != woken.label);
            self.roaming.push((woken.session, woken.turn));
            self.write(&Part::Late(woken.label, woken.after), &[])?;
        }
        Ok(())
    }

    /// The first step of an order that may belong behind one that committed and is not in it yet.
    fn until_an_absent_one(&self, order: &Part) -> usize {
        let labels: HashSet<u64> = order.labels().collect();
        let is_absent =
            |txn: &&Transaction| txn.outcome == Outcome::Committed && !labels.contains(&txn.label);
        let Some(start) = self.waiting.iter().filter(is_absent).map(|txn| txn.start).min() else {
            return usize::MAX;
        };
        let skew = self.auditor.settled().skew();
        let overlaps =
            |txn: &&Transaction| txn.outcome == Outcome::Committed && txn.end.saturating_add(skew) >= start;
        let overlapping: HashSet<u64> = self.waiting.iter().filter(overlaps).map(|txn| txn.label).collect();
        let mut steps = (0..order.len()).map_while(|place| order.step(place));
        steps.position(|(_, label)| overlapping.contains(&label)).unwrap_or(usize::MAX)
    }

    /// Those of unknown outcome that may have taken effect before all others that are left.
    fn may_be_among<'t>(&self, rest: &'t [Transaction]) -> Vec<&'t Transaction> {
        let skew = self.auditor.settled().skew();
        let committed = || rest.iter().filter(|txn| txn.outcome == Outcome::Committed);
        let earliest = committed().map(|txn| txn.end.saturating_add(skew)).min().unwrap_or(i64::MAX);
        let mut first: HashMap<u64, u64> = HashMap::new();
        for txn in committed() {
            let turn = first.entry(txn.session).or_insert(txn.turn);
            *turn = txn.turn.min(*turn);
        }
        let may = |txn: &&Transaction| {
            txn.outcome == Outcome::Unknown
                && txn.start <= earliest
                && first.get(&txn.session).is_none_or(|&turn| turn > txn.turn)
                && !self.auditor.is_past(txn)
        };
        rest.iter().filter(may).collect()
    }
}

/// Lets the oldest transactions of unknown outcome go, if there are too many: they are taken not to
/// have committed.
fn forget_unknowns(rest: &mut Vec<Transaction>) -> Vec<u64> {
    let is_unknown = |txn: &Transaction| txn.outcome == Outcome::Unknown;
    let mut too_many = rest.iter().filter(|txn| is_unknown(txn)).count().saturating_sub(UNKNOWNS);
    let mut forgotten = Vec::new();
    rest.retain(|txn| {
        let goes = is_unknown(txn) && too_many > 0;
        if goes {
            too_many -= 1;
            forgotten.push(txn.label);
        }
        !goes
    });
    forgotten
}
