//! The conformance suite: an engine against [`margay_naive`], on all tiny histories and on random
//! ones, and the laws that every engine keeps.
//!
//! # Laws
//! 1. Where the definitions decide, an engine that decides says the same. Every certificate passes
//!    the audit; every finding names transactions, and an anomaly that the level forbids.
//! 2. Asking twice gives the same answer.
//! 3. New names for keys, sessions and transactions change nothing.
//! 4. If a level holds, no level that it implies is violated, whatever the evidence: evidence
//!    narrows, never widens.
//! 5. If a level holds, it holds without any one transaction, where what others saw of that one is
//!    forgotten ([`History::restrict`]): the same orders and points without it explain what is
//!    left. That is true at every level but read-uncommitted, where reads of a list that contradict
//!    each other tell nothing: without one of them the other tells.
//!
//! A case that fails is made small and printed in the mini language.

use margay_audit::audit;
use margay_history::History;
use margay_levels::Level;
use margay_naive::holds;
use margay_verdict::{Budget, Checker, Question, Verdict};

use crate::copy::{Edit, copy};
use crate::mini::show;
use crate::random::random;
use crate::rng::Rng;
use crate::shrink::shrink;
use crate::tiny::tiny;

/// What the suite runs.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many random histories.
    pub random: usize,
    /// The seed of the first; the others follow.
    pub seed: u64,
    /// Of the tiny histories, every how many-th; 0 for none.
    pub tiny: usize,
    /// Whether the engine may answer `unknown` where the definitions decide.
    pub may_be_unknown: bool,
}

impl Default for Options {
    /// All tiny histories, and 500 random ones, or as many as the environment variable
    /// `MARGAY_RANDOM` says.
    fn default() -> Self {
        let random = std::env::var("MARGAY_RANDOM").ok().and_then(|n| n.parse().ok()).unwrap_or(500);
        Self { random, seed: 1, tiny: 1, may_be_unknown: true }
    }
}

/// What was run.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    /// Histories.
    pub histories: usize,
    /// Answers that were `holds` or `clean`.
    pub holds: usize,
    /// Answers that were `violated`.
    pub violated: usize,
    /// Answers that were `unknown`.
    pub unknown: usize,
}

/// Runs the suite.
///
/// # Panics
/// When the engine breaks a law, with the smallest history that was found to show it.
pub fn conformance(engine: &dyn Checker, levels: &[Level], options: Options) -> Tally {
    let suite = Suite { engine, levels, options };
    let mut tally = Tally::default();
    if options.tiny > 0 {
        tiny(|history| {
            tally.histories += 1;
            if tally.histories.is_multiple_of(options.tiny) {
                suite.try_history(&history, "a tiny history", 0, &mut tally);
            }
        });
    }
    for seed in (options.seed..).take(options.random) {
        tally.histories += 1;
        suite.try_history(&random(seed), &format!("seed {seed}"), seed, &mut tally);
    }
    tally
}

struct Suite<'a> {
    engine: &'a dyn Checker,
    levels: &'a [Level],
    options: Options,
}

impl Suite<'_> {
    fn try_history(&self, history: &History, from: &str, seed: u64, tally: &mut Tally) {
        let Err(error) = self.laws(history, seed, tally) else { return };
        let fails = |history: &History| self.laws(history, seed, &mut Tally::default()).is_err();
        let small = shrink(history, &fails);
        let again = self.laws(&small, seed, &mut Tally::default()).err().unwrap_or(error);
        panic!(
            "engine {}, {from}:\n{}\n{again}\n(found in {})",
            self.engine.name(),
            show(&small),
            show(history)
        );
    }

    fn laws(&self, history: &History, seed: u64, tally: &mut Tally) -> Result<(), String> {
        let mut rng = Rng::new(seed);
        let mut answers = Vec::new();
        for &level in self.levels {
            let timed = history.is_timed();
            let (real_time, instants) = (rng.chance(10) && timed, rng.chance(40) && timed);
            let question = Question { level, real_time, instants };
            let answer = self.ask(history, question);
            self.definition(history, question, &answer)?;
            proved(history, question, &answer)?;
            match answer {
                Verdict::Holds(_) | Verdict::Clean => tally.holds += 1,
                Verdict::Violated(_) => tally.violated += 1,
                Verdict::Unknown(_) => tally.unknown += 1,
            }
            answers.push((question, answer));
        }
        implications(&answers)?;
        if seed > 0 {
            let (question, answer) = rng.pick(&answers).clone();
            self.repeated(history, question, &answer)?;
            self.names(history, question, &answer, seed)?;
            self.dropped(history, question, &answer, &mut rng)?;
        }
        Ok(())
    }

    fn ask(&self, history: &History, question: Question) -> Verdict {
        self.engine.check(history, question, &Budget::unlimited())
    }

    fn definition(&self, history: &History, question: Question, answer: &Verdict) -> Result<(), String> {
        let Ok(expected) = holds(history, question, &Budget::unlimited()) else { return Ok(()) };
        let right = match answer {
            Verdict::Holds(_) => expected,
            Verdict::Violated(_) => !expected,
            Verdict::Clean => true,
            // Engines that know nothing of instants say so.
            Verdict::Unknown(_) => self.options.may_be_unknown || question.uses_instants(),
        };
        let expected = if expected { "holds" } else { "is violated" };
        let Question { level, real_time, .. } = question;
        let assumed = match real_time {
            _ if question.uses_instants() => " with instants",
            true => " with real time",
            false => "",
        };
        if right {
            Ok(())
        } else {
            Err(format!("{level}{assumed} {expected}, and the engine says {answer:?}"))
        }
    }

    fn repeated(&self, history: &History, question: Question, answer: &Verdict) -> Result<(), String> {
        let again = self.ask(history, question);
        same(question.level, "asked twice", answer, &again)?;
        if again == *answer {
            Ok(())
        } else {
            Err(format!("{}: asked twice, two certificates", question.level))
        }
    }

    fn names(
        &self,
        history: &History,
        question: Question,
        answer: &Verdict,
        seed: u64,
    ) -> Result<(), String> {
        let edit = Edit { keep: &|_| true, times: true, evidence: true, names: seed };
        let Some(other) = copy(history, &edit) else { return Ok(()) };
        let renamed = self.ask(&other, question);
        // Where an engine may be unknown, names may decide whether it is: they decide what it tries
        // first.
        let undecided = |verdict: &Verdict| matches!(verdict, Verdict::Unknown(_));
        let may_be_unknown = self.options.may_be_unknown || question.uses_instants();
        if may_be_unknown && (undecided(answer) || undecided(&renamed)) {
            return Ok(());
        }
        same(question.level, "with other names", answer, &renamed)
    }

    fn dropped(
        &self,
        history: &History,
        question: Question,
        answer: &Verdict,
        rng: &mut Rng,
    ) -> Result<(), String> {
        if !matches!(answer, Verdict::Holds(_))
            || question.level == Level::ReadUncommitted
            || history.txn_count() == 0
        {
            return Ok(());
        }
        let out = margay_history::TxnId::at(rng.below(history.txn_count()));
        let Some(part) = history.restrict(|txn| txn != out) else { return Ok(()) };
        match self.ask(&part, question) {
            Verdict::Violated(findings) => Err(format!(
                "{} holds, and without {} it is violated in\n{}\n{findings:?}",
                question.level,
                history.show_txn(out),
                show(&part)
            )),
            _ => Ok(()),
        }
    }
}

/// Certificates pass the audit, and findings say something.
fn proved(history: &History, question: Question, answer: &Verdict) -> Result<(), String> {
    let level = question.level;
    let check = |certificate| {
        audit(history, question, certificate)
            .map_err(|why| format!("{level}: {}, but the audit says: {why}\n{certificate:?}", answer.word()))
    };
    match answer {
        Verdict::Holds(certificate) => check(certificate),
        Verdict::Violated(findings) => {
            if findings.is_empty() {
                return Err(format!("{level}: violated without a finding"));
            }
            for finding in findings {
                check(&finding.certificate)?;
                if finding.txns.is_empty() {
                    return Err(format!("{level}: {} without transactions", finding.anomaly));
                }
                if !question.real_time && !level.forbids(finding.anomaly) {
                    return Err(format!("{level} does not forbid {}: {finding:?}", finding.anomaly));
                }
            }
            Ok(())
        }
        Verdict::Clean | Verdict::Unknown(_) => Ok(()),
    }
}

fn same(level: Level, how: &str, first: &Verdict, second: &Verdict) -> Result<(), String> {
    if first.word() == second.word() {
        return Ok(());
    }
    Err(format!("{level}: {how}, the answer is not {first:?} but {second:?}"))
}

/// Holds(strong) and Violated(weak) exclude each other.
fn implications(answers: &[(Question, Verdict)]) -> Result<(), String> {
    for (strong, _) in answers.iter().filter(|(_, answer)| matches!(answer, Verdict::Holds(_))) {
        for (weak, answer) in answers {
            let weaker = strong.level.implies(weak.level)
                && (strong.uses_real_time() || !weak.uses_real_time())
                && (strong.uses_instants() || !weak.uses_instants());
            if weaker && matches!(answer, Verdict::Violated(_)) {
                return Err(format!(
                    "{} holds, and the weaker {} is violated: {answer:?}",
                    strong.level, weak.level
                ));
            }
        }
    }
    Ok(())
}
