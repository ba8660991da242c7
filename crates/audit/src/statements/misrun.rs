//! Lemmas about executions, and that they leave no order.

use hashbrown::HashSet;
use margay_executions::{
    Constraints, Course, Demand, Family, Machine, Orders, Prints, Rules, demands, has_lemmas,
};
use margay_history::{History, Outcome, TxnId};
use margay_verdict::Budget;
use margay_verdict::execution::{Misrun, Moment};

use crate::{Rejected, reject};

/// Whether the lemmas are true, and leave no order that the level and the evidence allow.
pub(super) fn refuted(
    history: &History,
    rules: Rules,
    lemmas: &[Misrun],
    budget: &Budget,
) -> Result<(), Rejected> {
    if !has_lemmas(history, rules) {
        return reject("lemmas about executions have no meaning at this level, or with snapshot timestamps");
    }
    let mut machine = Machine::new(history, true)?.within(budget);
    let Some(prints) = Prints::new(history, &mut machine)? else {
        return reject("a statement may touch anything");
    };
    let constraints = Constraints::new(history, rules);
    let Some(orders) = Orders::new(history, rules, &constraints) else {
        return reject("there are too many transactions for lemmas about executions");
    };
    let mut orders = orders.within(budget);
    for lemma in lemmas {
        budget.poll()?;
        let certain = |a: Moment, b: Moment| orders.is_certain(history, rules, a, b);
        check(history, rules, &mut machine, &prints, lemma, &certain)?;
        if !orders.learn(lemma) {
            return reject("a lemma about transactions that are not there, or that surely committed");
        }
    }
    match orders.candidate() {
        Some(None) => Ok(()),
        Some(Some(_)) => reject("the lemmas leave an order"),
        None => reject("whether the lemmas leave an order was not decided"),
    }
}

/// Executes what a lemma names, and compares what that demands with what the lemma assumes.
fn check(
    history: &History,
    rules: Rules,
    machine: &mut Machine<'_>,
    prints: &Prints,
    lemma: &Misrun,
    certain: &dyn Fn(Moment, Moment) -> bool,
) -> Result<(), Rejected> {
    let mut named: HashSet<TxnId> = HashSet::new();
    for (place, &(txn, sees)) in lemma.run.iter().enumerate() {
        let live = txn.index() < history.txn_count() && history.outcome(txn) != Outcome::Aborted;
        let sees_all = sees as usize == place;
        let possible = sees_all || rules.family == Family::Snapshot && (sees as usize) < place;
        if !live || !named.insert(txn) || !possible {
            return reject("a lemma executes what cannot be executed");
        }
    }
    let course = Course::of_lemma(machine, prints, rules, &lemma.run, lemma.op)?;
    let Some(demanded) = demands(&course, prints, rules) else {
        return reject("a lemma whose last transaction fits");
    };
    let assumed: HashSet<(Moment, Moment)> = lemma.order.iter().copied().collect();
    let before = |a: Moment, b: Moment| assumed.contains(&(a, b)) || certain(a, b);
    let met = |demand: &Demand| match *demand {
        Demand::Before(a, b) => before(a, b),
        Demand::Apart(txn, writer, reader) => {
            let commit = Moment { txn, begins: false };
            lemma.absent.contains(&txn)
                || writer.is_some_and(|writer| before(commit, writer))
                || before(reader, commit)
        }
    };
    match demanded.demands.iter().all(met) {
        true => Ok(()),
        false => reject("a lemma assumes less than its misfit depends on"),
    }
}
