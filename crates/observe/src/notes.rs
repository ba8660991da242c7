//! A misfit in words: the statement, what was observed, and what it gives on each state that it can
//! have seen.

use margay_executions::{Choices, Family, Machine, Ran, Rules, show_given, show_observed, show_statement};
use margay_history::TxnId;
use margay_verdict::Outside;
use margay_verdict::execution::{Reading, StatementSight};

use crate::search::Misfit;

/// How many states are told.
const STATES: usize = 6;

/// What there is to say of a misfit.
#[derive(Debug)]
pub struct MisfitNotes {
    /// Wrong whatever state was seen, rather than right on one that the level forbids.
    pub is_semantic: bool,
    /// The lines.
    pub lines: Vec<String>,
    /// The transactions that the statement may have seen, and its own.
    pub txns: Vec<TxnId>,
}

/// A place in the order of transactions, in words.
fn after(transactions: u32, word: &str) -> String {
    match transactions {
        0 if word == "After" => "At the beginning".to_owned(),
        0 => "initial state".to_owned(),
        1 => format!("{word} one transaction"),
        more => format!("{word} {more} transactions"),
    }
}

/// Tells a misfit, on the database at its place.
///
/// # Errors
/// When a statement of the transaction has no meaning here.
pub fn tell(machine: &mut Machine<'_>, rules: Rules, misfit: Misfit) -> Result<MisfitNotes, Outside> {
    let history = machine.history();
    let lines = vec![
        format!(
            "{}, {} executed {}",
            after(machine.position(), "After"),
            history.show_txn(misfit.txn),
            show_statement(history, misfit.op)
        ),
        format!("  and observed {}.", show_observed(history, misfit.op)),
    ];
    let mut told = MisfitNotes { is_semantic: true, lines, txns: vec![misfit.txn] };
    states(machine, misfit, &mut told)?;
    let free =
        Rules { family: Family::Committed(Reading::Item), session: false, real_time: false, instants: false };
    let here = machine.position();
    let mut choices = Choices::new(machine, free, misfit.txn, (0, here))?;
    if let Some(choice) = choices.next(machine)? {
        machine.drop(choice.transaction);
        told.is_semantic = false;
    }
    told.lines.push(match (told.is_semantic, rules.family) {
        (true, _) => {
            "No committed state, and no mixture of them, gives what was observed: the answer itself is wrong."
                .to_owned()
        }
        (false, family) => {
            format!("Committed rows explain it, but not {}: the isolation is wrong.", asked(family))
        }
    });
    Ok(told)
}

fn asked(family: Family) -> &'static str {
    match family {
        Family::Serial => "all of them as of the moment of the commit",
        Family::Snapshot => "all of them as of one snapshot without a write conflict",
        Family::Repeatable => "the rows that were read as of the moment of the commit",
        Family::Committed(_) => "as of one state per statement",
    }
}

/// What the transaction's statements give up to the one that does not fit, on each state in which
/// something differs.
fn states(machine: &mut Machine<'_>, misfit: Misfit, told: &mut MisfitNotes) -> Result<(), Outside> {
    let ops = machine.statements(misfit.txn)?;
    let mut next = Some(machine.position());
    let mut count = 0;
    while let Some(at) = next {
        let mut transaction = machine.begin();
        let mut ran = Ran::default();
        for &op in ops.iter().take_while(|op| **op <= misfit.op) {
            let Ok(step) = machine.step(&mut transaction, op, &StatementSight::state(at)) else { break };
            let mut tables = if step.result.is_err() { machine.all_tables() } else { Vec::new() };
            ran.add(&step, &mut tables);
            if op == misfit.op {
                told.lines.push(format!(
                    "  on the {} it gives {}",
                    after(at, "state after"),
                    show_given(&step.result)
                ));
            }
        }
        machine.drop(transaction);
        next = machine.earlier(&ran, at)?;
        count += 1;
        if count == STATES && next.is_some() {
            told.lines.push("  and so on for earlier states".to_owned());
            break;
        }
    }
    Ok(())
}
