//! Mirror as an engine over a finished history.

use std::thread::available_parallelism;

use margay_history::{History, ObjectId, Op, OpId, TxnId};
use margay_levels::Level;
use margay_levels::profile::{self, Dbms, NoProfile, Profile};
use margay_mechanisms::{Searches, Unseen, interval, unfit};
use margay_verdict::mechanism::{Deduced, Mechanisms};
use margay_verdict::{Budget, Certificate, Checker, Exhausted, Finding, Question, Verdict, Why};

use crate::front::{Front, FrontStep};
use crate::letter::{Account, Exchange, Lost, Workers};
use crate::merged::Merged;
use crate::mirror::{Asked, Mirror, Trace, Violation};
use crate::seat::{Seat, Stopped};
use crate::shard::place;
use crate::simulated::simulated;

/// How many violations are told; the stream goes on without them.
const TOLD: usize = 16;

/// Histories of so many operations are worth several threads, if there are any. Whether they are
/// large decides, and not the machine: so the findings are the same everywhere.
const LARGE: usize = 100_000;

/// How many operations the longest epochs have.
const EPOCH: i128 = 80_000;

/// The engine `mirror`: all sessions of a history merged by `before`, under the mechanisms of its
/// database.
///
/// The mechanisms are those of the profile that the history's header names (`dbms` and `level`), or
/// given ones.
#[derive(Clone, Copy, Default, Debug)]
pub struct Engine {
    /// The mechanisms, where they do not come from the history's header.
    pub mechanisms: Option<Mechanisms>,
    /// The profile that they are of, if they are of one.
    pub profile: Option<Profile>,
    /// Those who verify together; otherwise this process does so alone.
    pub workers: Option<&'static dyn Workers>,
}

impl Engine {
    /// The engine for a database that is named by whoever asks, not by the history.
    ///
    /// # Errors
    /// When no profile fits, or it does not promise the level.
    pub fn of(dbms: &Dbms, history: &History, level: Level) -> Result<Self, NoProfile> {
        if let Dbms::Named(name) = dbms
            && let Some(mechanisms) = simulated(name)
        {
            return Ok(Self { mechanisms: Some(mechanisms), ..Self::default() });
        }
        let profile = dbms.profile(recorded(dbms, history), level)?;
        Ok(Self { mechanisms: Some(Mechanisms::of(&profile)), profile: Some(profile), workers: None })
    }
}

/// The level that the history says it was recorded at, if it speaks of the same database.
fn recorded<'h>(dbms: &Dbms, history: &'h History) -> Option<&'h str> {
    let (Dbms::Named(asked), header) = (dbms, history.header()) else { return None };
    let same = |named: &String| profile::same_dbms(named, asked);
    header.dbms.as_ref().is_some_and(same).then_some(header.level.as_deref()).flatten()
}

impl Checker for Engine {
    fn name(&self) -> &'static str {
        "mirror"
    }

    fn check(&self, history: &History, question: Question, budget: &Budget) -> Verdict {
        self.check_counting(history, question, budget).0
    }

    fn check_counting(
        &self,
        history: &History,
        question: Question,
        budget: &Budget,
    ) -> (Verdict, Option<Deduced>) {
        match self.answer(history, question, budget) {
            Ok((verdict, deduced)) => (verdict, Some(deduced)),
            Err(why) => (Verdict::Unknown(why), None),
        }
    }
}

impl Engine {
    fn answer(
        &self,
        history: &History,
        question: Question,
        budget: &Budget,
    ) -> Result<(Verdict, Deduced), Why> {
        if let Some(what) = history.unseen_content() {
            return Err(Why::Outside(what));
        }
        if let Some(level) = other_level(history) {
            return Err(Why::Outside(format!(
                "a transaction at {level}, which is not the level of the history"
            )));
        }
        let mechanisms = match self.mechanisms {
            Some(mechanisms) => mechanisms,
            None => mechanisms(history, question)?,
        };
        let (all, statistics) = match self.workers {
            Some(workers) => workers.verify(history, mechanisms, budget)?,
            None => Self::verify(history, mechanisms, budget)?,
        };
        let mut found = told(all);
        let name = self.profile.map(|profile| profile.name()).or_else(|| named(history, &mechanisms));
        found.iter_mut().for_each(|finding| name_profile(finding, name.as_ref()));
        match first_statement(history) {
            _ if !found.is_empty() => Ok((Verdict::Violated(found), statistics.deduced())),
            Some(text) if statistics.judged == 0 => {
                Err(Why::Outside(format!("every transaction has a statement such as `{text}`")))
            }
            _ => Ok((Verdict::Clean, statistics.deduced())),
        }
    }

    /// Verifies a history in this process.
    fn verify(history: &History, mechanisms: Mechanisms, budget: &Budget) -> Result<Account, Why> {
        let mut mirror = Mirror::new(mechanisms, history.header().skew);
        if history.op_count() >= LARGE {
            mirror = mirror.with_threads(available_parallelism().map_or(1, usize::from));
        }
        Self::play(&mut mirror, history, budget)?;
        let statistics = mirror.statistics();
        // The stream may go on finding more than anybody will read.
        Ok((std::iter::from_fn(|| mirror.next_violation()).take(TOLD).collect(), statistics))
    }

    /// Plays a whole history to a mirror: all its operations in the order of `before`.
    ///
    /// # Errors
    /// When an operation cannot be taken, or the budget is used up.
    pub fn play(mirror: &mut Mirror, history: &History, budget: &Budget) -> Result<(), Why> {
        fit(history)?;
        let stopped = |limit: Exhausted, done: usize| {
            Why::Exhausted(limit, format!("{done} of {} operations", history.op_count()))
        };
        *mirror.searches() = Searches::of(history);
        history.initial_values().iter().for_each(|&(object, value)| mirror.initial(object, value));
        let mut ops = Merged::of(history);
        if mirror.has_windows() {
            let go_on = |done| budget.poll().map_err(|limit| stopped(limit, done as usize));
            let make = |front: &mut Front, searches: &Searches| make(history, &mut ops, front, searches);
            mirror.feed_windows(history.values(), make, go_on)?;
        } else {
            for (done, (op, txn)) in ops.enumerate() {
                budget.poll().map_err(|limit| stopped(limit, done))?;
                feed(mirror, history, op, txn)?;
            }
        }
        mirror.finish(history.values());
        Ok(())
    }
}

impl Engine {
    /// How long an epoch may be, so that it has 80,000 operations if they come evenly.
    #[must_use]
    pub fn epoch(history: &History) -> i64 {
        let at = |op: Option<Op<'_>>| op.and_then(|op| interval(history, &op)).map(|at| at.before);
        let starts = history.sessions().filter_map(|session| {
            let txn = history.session_txns(session).next()?;
            at(history.ops(txn).next())
        });
        let ends = history.sessions().filter_map(|session| {
            let txn = history.session_txns(session).last()?;
            at(history.ops(txn).next_back())
        });
        let (first, last) = (starts.min().unwrap_or(0), ends.max().unwrap_or(0));
        let length = i128::from(last.saturating_sub(first)) * EPOCH / (history.op_count() as i128).max(1);
        i64::try_from(length).unwrap_or(i64::MAX).max(1)
    }

    /// Verifies one share of a history, with others that have the other shares. The mirror was made
    /// by [`Mirror::with_share`] and [`Mirror::with_epochs`]; only that of the first worker knows
    /// what was found.
    ///
    /// # Errors
    /// When the history cannot be taken, the budget is used up, or another worker is lost. Then
    /// nothing is known of the whole.
    pub fn play_share(
        mirror: &mut Mirror,
        history: &History,
        budget: &Budget,
        post: &mut dyn Exchange,
    ) -> Result<(), Why> {
        fit(history)?;
        *mirror.searches() = Searches::of(history);
        let (index, count) = (post.index(), post.count());
        let own = |object: ObjectId| place(object, count as u32) as usize == index;
        let initial = history.initial_values().iter().filter(|(object, _)| own(*object));
        initial.for_each(|&(object, value)| mirror.initial(object, value));
        Seat::new(mirror, post, history.values(), budget).play(history).map_err(|stopped| match stopped {
            Stopped::Exhausted(Some(limit)) => Why::Exhausted(limit, String::new()),
            Stopped::Exhausted(None) => Why::Incomplete("another worker used up its budget".to_owned()),
            Stopped::Lost(Lost(why)) => Why::Incomplete(why),
        })
    }
}

/// Whether a mirror can take a history.
fn fit(history: &History) -> Result<(), Why> {
    match unfit(history) {
        None => Ok(()),
        Some(what) if history.is_timed() => Err(Why::Outside(what)),
        Some(_) => Err(Why::MissingEvidence("the intervals of the operations".to_owned())),
    }
}

/// The first statement of which nothing is known.
fn first_statement(history: &History) -> Option<&str> {
    let mut ops = history.txns().flat_map(|txn| history.ops(txn));
    ops.find_map(|op| history.statement(op.id)).map(|statement| &*statement.text)
}

/// Hands the next operation to the front half.
fn make(
    history: &History,
    ops: &mut Merged<'_>,
    front: &mut Front,
    searches: &Searches,
) -> Option<FrontStep> {
    ops.find_map(|(op, txn)| {
        let (trace, asked) = trace(history, op, txn)?;
        front.take(trace, &asked, searches, history.values()).ok()
    })
}

fn feed(mirror: &mut Mirror, history: &History, op: OpId, txn: TxnId) -> Result<(), Why> {
    let Some((trace, asked)) = trace(history, op, txn) else { return Ok(()) };
    mirror.feed_asked(trace, &asked, history.values()).map_err(|unfit| Why::Outside(unfit.to_string()))
}

/// An operation as the mirror takes it, with what it asked.
pub(crate) fn trace(history: &History, op: OpId, txn: TxnId) -> Option<(Trace<'_>, Asked)> {
    let op = history.op(op);
    let at = interval(history, &op)?;
    let trace = Trace { txn, op: op.id, kind: op.kind, at, accesses: op.accesses };
    let (scan, update) = (history.scan(op.id), history.update(op.id));
    let asked = Asked {
        search: scan.map(|scan| scan.predicate).or(update.map(|update| update.predicate)),
        observed: scan.is_some_and(|scan| scan.observed) || update.is_some_and(|update| update.observed),
        changes: Unseen::of(history, &op, at).map(|unseen| unseen.pattern),
        lock: history.read_lock(op.id),
    };
    Some((trace, asked))
}

/// The first of all violations, as findings.
fn told(all: Vec<Violation>) -> Vec<Finding> {
    let finding = |Violation { txns, breach }: Violation| {
        let anomaly = breach.broken.anomaly();
        Finding { anomaly, txns, certificate: Certificate::Intervals(breach) }
    };
    all.into_iter().take(TOLD).map(finding).collect()
}

/// Whose mechanisms these are, by what the history says of its database.
fn named(history: &History, mechanisms: &Mechanisms) -> Option<String> {
    let header = history.header();
    let dbms = header.dbms.as_deref()?;
    if simulated(dbms).is_some() {
        return Some(dbms.to_owned());
    }
    let recorded = header.level.as_deref().map(|level| level.replace([' ', '_'], "-").to_lowercase());
    let has = |row: &&Profile| profile::same_dbms(row.dbms, dbms) && Mechanisms::of(row) == *mechanisms;
    let names = || profile::all().filter(has).map(Profile::name);
    let asked = |name: &String| recorded.as_ref().is_some_and(|level| name.ends_with(&format!("/{level}")));
    names().find(asked).or_else(|| names().next())
}

fn name_profile(finding: &mut Finding, name: Option<&String>) {
    if let Certificate::Intervals(breach) = &mut finding.certificate {
        breach.profile = name.cloned();
    }
}

/// The level of a transaction that asked for another one than the history names: its mechanisms
/// differ.
fn other_level(history: &History) -> Option<&str> {
    let fold = |level: &str| level.to_ascii_lowercase().replace([' ', '_'], "-");
    let common = history.header().level.as_deref().map(fold);
    let mut levels = history.begins().filter_map(|(_, begin)| begin.level.as_deref());
    levels.find(|level| Some(fold(level)) != common)
}

/// The mechanisms of the database that the history names, if it promises what is asked.
fn mechanisms(history: &History, question: Question) -> Result<Mechanisms, Why> {
    let header = history.header();
    let Some(dbms) = &header.dbms else {
        return Err(Why::MissingEvidence("which database it is: a profile".to_owned()));
    };
    if let Some(simulated) = simulated(dbms) {
        return match header.level.as_deref().map(str::parse::<Level>) {
            Some(Ok(promised)) if promised.implies(question.level) => Ok(simulated),
            _ => Err(Why::Level(format!("{dbms} does not promise {}", question.level.name()))),
        };
    }
    let named = Dbms::Named(dbms.clone());
    match named.profile(header.level.as_deref(), question.level) {
        Ok(profile) => Ok(Mechanisms::of(&profile)),
        Err(NoProfile::Unknown(unknown)) => Err(Why::MissingEvidence(unknown.to_string())),
        Err(not_promised) => Err(Why::Level(not_promised.to_string())),
    }
}
