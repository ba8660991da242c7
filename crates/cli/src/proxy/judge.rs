//! What is decided about a recording: each part alone, and then all of them.
//!
//! # Algorithm
//! A violation of one part is one of the whole. If there is none, the whole holds if every part does. Otherwise the
//! transactions count that are covered: with enough of them the answer is `clean`, with less `unknown`.
//!
//! A part has one history or two: what came over the wire, and the same with writes from the server's log, which
//! explains more. Each is decided alone. That others wrote, or triggers, keeps only the first from accusing anybody:
//! the log has what they wrote.

use std::time::Duration;

use margay::{Audited, Choice, Decision, Options as Deciding};
use margay_history::History;
use margay_levels::Level;
use margay_proxy::{Logged, OwnLevel, Part};
use margay_runner::Mechanisms;
use margay_verdict::{Verdict, Why};

use super::Done;
use crate::args::ProxyArgs;
use crate::check::{self, Task};
use crate::expected::{Aside, Expectation, excuse};
use crate::failure::Failure;
use crate::level::Asked;
use crate::limits;
use crate::progress::Progress;
use crate::run::interrupt::Ending;

/// How long the check may take when nobody says, and of one of many parts at least.
const TIMEOUT: Duration = Duration::from_secs(60);
const SHORTEST: Duration = Duration::from_secs(5);

/// What one engine said.
pub struct Decided<'r> {
    pub level: Asked,
    pub decision: Decision,
    /// What it was asked about.
    pub history: &'r History,
    /// Where writes were taken from the log.
    pub logged: Option<&'r Logged>,
}

/// What was decided about a part.
pub struct Judged<'r> {
    pub part: &'r Part,
    /// What the database promises at the weakest level that transactions asked for.
    pub promised: Level,
    pub decided: Vec<Decided<'r>>,
    /// The place of the decision that counts.
    chosen: usize,
}

/// What was decided about all parts.
pub struct Judgement<'r> {
    pub parts: Vec<Judged<'r>>,
    /// The place of the part that the report is about.
    main: usize,
    pub aside: Aside,
}

impl<'r> Judged<'r> {
    /// The decision that counts.
    pub fn main(&self) -> &Decided<'r> {
        &self.decided[self.chosen]
    }

    /// How many transactions the answer is about, of how many.
    pub fn covered(&self) -> (u64, u64) {
        let all = self.part.history.txn_count() as u64;
        let decided = self.decided.iter().map(|decided| {
            let (beside, lossy) = decided.logged.map_or((0, 0), |logged| (logged.others, logged.lossy));
            let covered = match (&decided.decision.verdict, &decided.decision.coverage) {
                (Verdict::Unknown(_), _) => 0,
                (_, Some(coverage)) => (coverage.transactions as u64).saturating_sub(beside),
                _ if decided.decision.engine == Some("mirror") => self.part.followed,
                _ => all,
            };
            covered.saturating_sub(lossy).min(all - self.part.veiled.unwrap_or(0))
        });
        (decided.max().unwrap_or(0).min(all), all)
    }
}

impl<'r> Judgement<'r> {
    /// The part that the report is about.
    pub fn main(&self) -> &Judged<'r> {
        &self.parts[self.main]
    }

    /// How many transactions the answers are about, of how many.
    pub fn covered(&self) -> (u64, u64) {
        self.parts.iter().map(Judged::covered).fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
    }

    /// Gives the whole its verdict.
    fn settle(&mut self, required: f64) {
        let word = |judged: &Judged<'_>| match judged.main().decision.verdict {
            Verdict::Violated(_) => 0,
            Verdict::Unknown(_) => 1,
            Verdict::Clean => 2,
            Verdict::Holds(_) => 3,
        };
        let worst = self.parts.iter().map(word).min().unwrap_or(1);
        let (covered, all) = self.covered();
        let enough = covered > 0 && 100.0 * covered as f64 >= required * all as f64;
        // Of parts that are equally bad the largest is shown; if enough is covered, the largest of the good ones.
        let shown = |judged: &Judged<'_>| match (worst, enough) {
            (1, true) => word(judged) > 1,
            _ => word(judged) == worst,
        };
        let places = (0..self.parts.len()).filter(|&at| shown(&self.parts[at]));
        self.main =
            places.max_by_key(|&at| (self.parts[at].part.counts.total(), usize::MAX - at)).unwrap_or(0);
        let main = &mut self.parts[self.main];
        let verdict = &mut main.decided[main.chosen].decision.verdict;
        match verdict {
            Verdict::Holds(_) if worst < 3 => *verdict = Verdict::Clean,
            Verdict::Clean if !enough => {
                let why =
                    format!("only {covered} of {all} transactions are covered; nothing was found in them");
                *verdict = Verdict::Unknown(Why::Incomplete(why));
            }
            _ => {}
        }
    }
}

/// Decides about all parts.
pub fn judge<'r>(
    args: &ProxyArgs,
    done: &'r Done,
    expectation: &Expectation,
) -> Result<Judgement<'r>, Failure> {
    let (mut parts, mut aside) = (Vec::new(), None);
    for part in &done.recorded.parts {
        let mut judged = judge_part(args, done, part)?;
        let again = |rest: &History, level| {
            check::decide(&task(args, level, Choice::Auto, done.recorded.parts.len()), rest).verdict
        };
        let mut of_part = None;
        for decided in &mut judged.decided {
            let (history, level) = (decided.history, decided.level);
            let decision = [(&mut decided.decision, level)].into_iter();
            of_part = Some(joined(of_part, expectation.sort(history, decision, again)));
        }
        judged.decided.iter_mut().for_each(|decided| take_part(decided, part));
        if args.claim.is_none() && may_deviate(part, &done.recorded.dbms) {
            judged.decided.iter_mut().for_each(|decided| excuse(&mut decided.decision));
        }
        for decided in &mut judged.decided {
            if let Some(why) = shortfall(done, part, decided.logged.is_some()) {
                soften(&why, &mut decided.decision);
            }
        }
        judged.chosen = decisive(&judged.decided);
        parts.push(judged);
        aside = of_part.map(|of_part| joined(aside.take(), of_part)).or(aside);
    }
    let mut judgement = Judgement { parts, main: 0, aside: aside.unwrap_or_default() };
    judgement.settle(args.require_coverage);
    Ok(judgement)
}

/// What is set aside in several parts or histories. A rule is of use if it is in one.
fn joined(before: Option<Aside>, mut part: Aside) -> Aside {
    let Some(mut aside) = before else { return part };
    aside.shown.append(&mut part.shown);
    aside.unused.retain(|rule| part.unused.contains(rule));
    aside
}

pub fn task(args: &ProxyArgs, level: Asked, engine: Choice, parts: usize) -> Task {
    let time = args.common.timeout.unwrap_or(TIMEOUT);
    let time = if parts > 1 { (time / parts as u32).max(SHORTEST.min(time)) } else { time };
    let budget = limits::budget(Some(time), args.common.memory);
    Task { level, real_time: false, instants: false, options: Deciding::with_engine(engine), budget }
}

/// The engine that suits, and the mirror if the database is judged, and all transactions are of one level.
fn judge_part<'r>(args: &ProxyArgs, done: &'r Done, part: &'r Part) -> Result<Judged<'r>, Failure> {
    let dbms = &done.recorded.dbms;
    let own = part.levels.first().copied().flatten().unwrap_or(OwnLevel::weakest(dbms));
    let promised = own.promise(dbms);
    let promised = promised.ok_or_else(|| Failure::new(format!("{}: no profile of {dbms}", args.target)))?;
    // A veiled recording does not say which reads lock.
    let one = matches!(part.levels[..], [Some(_)]) && part.veiled.is_none();
    let profile = own.profile(dbms).filter(|_| one && args.claim.is_none());
    let mirror = profile.map(|profile| margay::mirror_of(Mechanisms::of(profile)));
    let asked = [(args.claim.unwrap_or(Asked::Level(promised)), Choice::Auto)];
    let asked = asked.into_iter().chain(mirror.map(|mirror| (Asked::Level(promised), mirror)));
    let wire = asked.map(|(level, engine)| (level, engine, &part.history, None));
    let claimed = args.claim.unwrap_or(Asked::Level(promised));
    let logged = part.logged.as_ref().map(|logged| (claimed, Choice::Auto, &logged.history, Some(logged)));
    let parts = done.recorded.parts.len();
    let decided = wire.chain(logged).map(|(level, engine, history, logged)| {
        let what = format!("checking {} transactions", history.txn_count());
        let _progress = Progress::show(&what, !args.common.quiet);
        let decision = check::decide(&task(args, level, engine, parts), history);
        Decided { level, decision, history, logged }
    });
    Ok(Judged { part, promised, decided: decided.collect(), chosen: 0 })
}

/// Whether transactions may have asked for a level at which the product documents that it breaks our definition.
fn may_deviate(part: &Part, dbms: &str) -> bool {
    let deviates = |own: OwnLevel| own.profile(dbms).is_some_and(|profile| !profile.deviations.is_empty());
    part.levels.iter().any(|level| level.is_none_or(deviates))
}

/// What holds for the part that was understood is `clean`. So is what holds for writes of which only the log tells how
/// they came about.
fn take_part(decided: &mut Decided<'_>, part: &Part) {
    let Decided { decision, logged, .. } = decided;
    let exact = logged.is_none_or(|logged| logged.exact) && part.veiled.unwrap_or(0) == 0;
    if matches!(decision.verdict, Verdict::Holds(_)) && !exact {
        (decision.verdict, decision.audited) = (Verdict::Clean, Audited::Nothing);
    }
    let holds = |verdict: &str| matches!(verdict, "holds" | "clean");
    if decision.coverage.as_ref().is_some_and(|it| holds(it.verdict) && it.transactions > 0)
        && matches!(decision.verdict, Verdict::Unknown(_))
    {
        decision.verdict = Verdict::Clean;
    }
}

/// The place of the decision that counts: that of the engine that suits. A violation that the mirror found counts more.
fn decisive(decided: &[Decided<'_>]) -> usize {
    let weight = |&at: &usize| match decided[at].decision.verdict {
        Verdict::Violated(_) => 0,
        Verdict::Holds(_) => 1,
        Verdict::Clean => 2,
        Verdict::Unknown(_) => 3,
    };
    (0..decided.len()).min_by_key(weight).unwrap_or(0)
}

/// Why there can be no verdict about a part, if that is so. The log has what others wrote.
fn shortfall(done: &Done, part: &Part, logged: bool) -> Option<String> {
    let recorded = &done.recorded;
    let unseen = if logged { &[][..] } else { &part.concerns[..] };
    let why = recorded.failed.iter().chain(&recorded.concerns).chain(unseen).next().cloned();
    let ended = || match done.ending {
        Ending::Terminated => Some("the proxy was terminated".to_owned()),
        _ if recorded.counts().committed == 0 => Some("no transaction was committed".to_owned()),
        _ => None,
    };
    why.or_else(ended)
}

/// What is left of a verdict if not everything was recorded: nothing that accuses, and nothing that acquits.
fn soften(why: &str, decision: &mut Decision) {
    let kept = match &decision.verdict {
        Verdict::Holds(_) => "what was recorded holds",
        Verdict::Clean => "nothing was found in what was recorded",
        Verdict::Violated(_) => "what was recorded alone would be a violation",
        Verdict::Unknown(_) => return,
    };
    decision.verdict = Verdict::Unknown(Why::Incomplete(format!("{why}; {kept}")));
    decision.audited = Audited::Nothing;
}
