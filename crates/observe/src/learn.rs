//! Orders from a SAT solver, and what every wrong one teaches.
//!
//! # Problem
//! Where neither time nor evidence gives the order, there are more orders than anybody can try one
//! after the other. Most of them are wrong for the same reason.
//!
//! # Algorithm
//! A SAT solver holds what is before what, beginnings of snapshots included ([`Orders`]). It
//! proposes an order; the order is executed; the first transaction that cannot have run like this
//! depends on a few others, and on few things about their order ([`demands`]). That these do not
//! all hold is learned, and the solver proposes another order. When it has none left, what was
//! learned proves that there is none: the lemmas are the certificate.
//!
//! # Invariants
//! - Every lemma is one that the audit can check by executing the transactions that it names: what
//!   it assumes is what their own execution demands. Without the others, a transaction that sets a
//!   row may find it as it would leave it, and then the misfit depends on what that one saw. Where
//!   the order does not have what is demanded then, the lemma names everybody up to the misfit.
//!
//! # Differs from the paper
//! The paper's solver sees the whole formula, arithmetic included. Here it sees only the order, and
//! the interpreter does the rest: a result that any subset of many writers could give, such as a
//! sum over a table, teaches little at a time. After [`Options::lemmas`] lemmas the answer is left
//! to others.
//!
//! # Cost
//! An execution of the log and one of a few transactions for each lemma, the square of the moments
//! for each order, the cube once.

use hashbrown::{HashMap, HashSet};
use margay_executions::{
    Blame, Candidate, Constraints, Counts, Course, Demand, Family, Machine, Orders, Prints, Rules, demands,
    has_lemmas,
};
use margay_history::{History, OpId, Outcome, TxnId};
use margay_verdict::execution::{Execution, Misrun, Moment, StatementSight};
use margay_verdict::{Budget, Exhausted, Outside};

use crate::options::Options;
use crate::search::Misfit;

/// The most transactions that are executed for lemmas, all orders together.
const WORK: usize = 200_000;

/// What learning came to.
#[derive(Debug)]
pub enum Learned {
    /// An execution.
    Execution(Execution),
    /// Lemmas that leave no order, and the farthest misfit on the way.
    Refuted(Vec<Misrun>, Option<Misfit>),
    /// No answer: there are too many transactions or lemmas, or a statement may touch anything.
    Nothing,
    /// The budget is used up.
    Exhausted(Exhausted),
}

/// Learns until there is an execution or no order is left.
///
/// # Errors
/// When a statement is outside the fragment.
pub fn learn(
    history: &History,
    rules: Rules,
    constraints: &Constraints<'_>,
    options: Options,
    budget: &Budget,
) -> Result<Learned, Outside> {
    if !has_lemmas(history, rules) {
        return Ok(Learned::Nothing);
    }
    let mut machine = Machine::new(history, options.indexes)?.within(budget);
    let Some(prints) = Prints::new(history, &mut machine)? else { return Ok(Learned::Nothing) };
    let Some(orders) = Orders::new(history, rules, constraints) else { return Ok(Learned::Nothing) };
    let mut orders = orders.within(budget);
    let (mut lemmas, mut worst) = (Vec::new(), None);
    loop {
        if let Err(exhausted) = budget.poll_now() {
            return Ok(Learned::Exhausted(exhausted));
        }
        let candidate = match orders.candidate() {
            Some(Some(candidate)) => candidate,
            Some(None) => return Ok(Learned::Refuted(lemmas, worst)),
            // Only the budget ends the solver.
            None => return Ok(budget.poll_now().map_or_else(Learned::Exhausted, |()| Learned::Nothing)),
        };
        let course = execute(&mut machine, &prints, rules, &candidate)?;
        let Some((place, blame)) = course.misfit else {
            return Ok(fitting(history, rules, &candidate));
        };
        worst = farther(worst, &course, place, blame);
        let certain = |a, b| orders.is_certain(history, rules, a, b);
        let teacher = Teacher { prints: &prints, rules, candidate: &candidate, certain: &certain };
        let Some(lemma) = teacher.lemma(&mut machine, &course)? else {
            return Ok(Learned::Nothing);
        };
        let most = options.lemmas.min(WORK / candidate.len().max(1));
        if lemmas.len() >= most || !orders.learn(&lemma) {
            return Ok(Learned::Nothing);
        }
        lemmas.push(lemma);
    }
}

/// Executes an order up to the first transaction that cannot have run like this.
fn execute(
    machine: &mut Machine<'_>,
    prints: &Prints,
    rules: Rules,
    candidate: &Candidate,
) -> Result<Course, Outside> {
    machine.take_back(0);
    let mut course = Course::default();
    for &member in candidate {
        if !course.push(machine, prints, rules, member, Counts::First)? {
            break;
        }
    }
    Ok(course)
}

/// The execution that an order is. Timestamps that order the versions of single rows are left to
/// others.
fn fitting(history: &History, rules: Rules, candidate: &Candidate) -> Learned {
    if rules.family == Family::Serial && !history.evidence().commits.is_empty() {
        return Learned::Nothing;
    }
    let older = candidate.iter().zip(0..).filter(|((_, sees), place)| sees != place);
    let sights = older.flat_map(|(&(txn, sees), _)| {
        history.op_range(txn).map(move |op| (OpId(op), StatementSight::state(sees)))
    });
    let order = candidate.iter().map(|(txn, _)| *txn).collect();
    Learned::Execution(Execution {
        reading: rules.reading(),
        order,
        sights: sights.collect(),
        initial: Vec::new(),
    })
}

fn farther(worst: Option<Misfit>, course: &Course, place: usize, blame: Blame) -> Option<Misfit> {
    let Blame::Statement(op) = blame else { return worst };
    let misfit = Misfit { place: u32::try_from(place).unwrap_or(u32::MAX), txn: course.run[place].0, op };
    Some(worst.filter(|worst| (worst.place, worst.op) >= (misfit.place, op)).unwrap_or(misfit))
}

/// An order, and what is needed to say what its misfit teaches.
struct Teacher<'a> {
    prints: &'a Prints,
    rules: Rules,
    candidate: &'a Candidate,
    /// Whether one moment is before another in every order.
    certain: &'a dyn Fn(Moment, Moment) -> bool,
}

impl Teacher<'_> {
    /// What the misfit of the order's course teaches: about few transactions if their execution
    /// shows it.
    fn lemma(&self, machine: &mut Machine<'_>, course: &Course) -> Result<Option<Misrun>, Outside> {
        let (Some((_, blame)), Some(demanded)) = (course.misfit, demands(course, self.prints, self.rules))
        else {
            return Ok(None);
        };
        let op = match blame {
            Blame::Statement(op) => Some(op),
            Blame::Conflict(_) => None,
        };
        let run = among(&course.run, &demanded.places);
        let few = Course::of_lemma(machine, self.prints, self.rules, &run, op)?;
        let few = demands(&few, self.prints, self.rules).and_then(|few| self.assume(run, op, few.demands));
        Ok(few.or_else(|| self.assume(course.run.clone(), op, demanded.demands)))
    }

    /// The lemma that assumes what the misfit of a run demands; `None` if the order does not have
    /// all of that.
    fn assume(&self, run: Vec<(TxnId, u32)>, op: Option<OpId>, demands: HashSet<Demand>) -> Option<Misrun> {
        let places: HashMap<TxnId, (u32, u32)> =
            self.candidate.iter().zip(0..).map(|(&(txn, sees), place)| (txn, (sees, place))).collect();
        // A beginning stands between the last commit that it sees and the next.
        let time = |moment: Moment| {
            places.get(&moment.txn).map(|(sees, place)| if moment.begins { 2 * sees } else { 2 * place + 1 })
        };
        let (mut order, mut absent) = (Vec::new(), Vec::new());
        for demand in demands {
            match demand {
                Demand::Before(a, b) if time(a) < time(b) => order.push((a, b)),
                Demand::Before(..) => return None,
                Demand::Apart(txn, writer, reader) => {
                    let commit = Moment { txn, begins: false };
                    let after = writer.filter(|&writer| time(commit) < time(writer));
                    match after {
                        _ if !places.contains_key(&txn) => absent.push(txn),
                        Some(writer) => order.push((commit, writer)),
                        None if time(reader) < time(commit) => order.push((reader, commit)),
                        None => return None,
                    }
                }
            }
        }
        order.retain(|&(a, b)| !(self.certain)(a, b));
        absent.sort_unstable();
        absent.dedup();
        order.sort_unstable();
        order.dedup();
        Some(Misrun { run, op, order, absent })
    }
}

/// Those of a run at some places, each with how many of those it sees.
fn among(run: &[(TxnId, u32)], places: &[usize]) -> Vec<(TxnId, u32)> {
    let seen = |sees: u32| places.iter().filter(|&&other| other < sees as usize).count();
    let member = |&place: &usize| {
        let (txn, sees) = run[place];
        (txn, u32::try_from(seen(sees)).unwrap_or(u32::MAX))
    };
    places.iter().map(member).collect()
}

/// Whether a history is one of those whose orders are worth learning about: committed or not, few
/// enough.
#[must_use]
pub fn is_small(history: &History, rules: Rules) -> bool {
    let live = history.txns().filter(|&txn| history.outcome(txn) != Outcome::Aborted).count();
    live * Orders::moments_of_each(rules) <= Orders::MAX_MOMENTS
}
