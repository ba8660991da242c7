//! Replay of SQL statements.
//!
//! # Problem
//! A history of SQL statements says what was asked and what came back; with the order that the
//! database tells, what must come back follows.
//!
//! # Algorithm
//! Enne (section 6, Algorithm 4) on the interpreter of crate `sql`. Serializable levels:
//! transactions one after the other, each on the state that those before it left. Snapshot levels:
//! in the order of their commits, each on the state of the last commit that its snapshot has;
//! nobody changes a row that was written since. Rows, predicates, aggregates, joins, whatever the
//! interpreter knows, are compared with what was observed, and the first statement that gives
//! something else ends it.
//!
//! # Invariants
//! - `holds` carries the execution that was run, which audit runs again without indexes. `violated`
//!   carries the transactions up to the first mismatch, and audit has tried everything else that
//!   the timestamps leave.
//!
//! # Cost
//! Each statement once, with the interpreter's indexes; states that no later snapshot has are
//! forgotten.

use margay_audit::audit;
use margay_executions::{
    Constraints, Family, Machine, Ran, Rules, in_row_order, show_given, show_observed, show_statement,
    unknowns,
};
use margay_history::{History, OpId, TxnId};
use margay_levels::Anomaly;
use margay_sql::{Outcome, SqlError};
use margay_verdict::execution::{Execution, Reading, StatementSight, Unexplained};
use margay_verdict::{Budget, Certificate, Finding, Outside, Point, Question, Verdict, Why};

/// A transaction and the state that it sees: how many have committed before it.
type Placed = (TxnId, u32);

/// Replays begin and commit points.
pub(crate) fn run(
    history: &History,
    question: Question,
    budget: &Budget,
    points: &[Point],
) -> Result<Verdict, Why> {
    let Some(rules) = Rules::of(question, Reading::Item) else {
        return Err(Why::Level(format!("replay of statements does not decide {}", question.level)));
    };
    let outside = |outside: Outside| Why::Outside(outside.0);
    if !unknowns(history).map_err(outside)?.is_empty() {
        return Err(Why::Outside("initial values that are not known".to_owned()));
    }
    let case = Case { history, question, rules, order: placed(points) };
    let mut machine = Machine::new(history, true).map_err(outside)?.within(budget);
    match case.walk(&mut machine, budget)? {
        None => Ok(Verdict::Holds(Certificate::Execution(case.execution(&mut machine).map_err(outside)?))),
        Some(halt) => case.violated(halt),
    }
}

/// Each transaction at its commit, with the commits before its begin.
fn placed(points: &[Point]) -> Vec<Placed> {
    let mut commits = 0;
    let mut begun: hashbrown::HashMap<TxnId, u32> = hashbrown::HashMap::new();
    let mut order = Vec::with_capacity(points.len() / 2);
    for point in points {
        match *point {
            Point::Begin(txn) => _ = begun.insert(txn, commits),
            Point::Commit(txn) => {
                order.push((txn, begun.get(&txn).copied().unwrap_or(commits)));
                commits += 1;
            }
        }
    }
    order
}

struct Case<'h> {
    history: &'h History,
    question: Question,
    rules: Rules,
    order: Vec<Placed>,
}

/// Where a replay ended.
struct Halt {
    /// The place of the transaction.
    place: usize,
    op: OpId,
    notes: Vec<String>,
}

impl Case<'_> {
    fn walk(&self, machine: &mut Machine<'_>, budget: &Budget) -> Result<Option<Halt>, Why> {
        let needed = self.needed();
        let constraints = Constraints::new(self.history, self.rules);
        let mut before = constraints.placed();
        for (place, &(txn, at)) in self.order.iter().enumerate() {
            budget.poll().map_err(|limit| Why::Exhausted(limit, format!("{place} replayed")))?;
            if !before.may_follow(txn) {
                let first = OpId(self.history.op_range(txn).start);
                let what =
                    "Sessions or real time, as far as the level counts them, are against the recorded order.";
                return Ok(Some(Halt { place, op: first, notes: vec![what.to_owned()] }));
            }
            machine.forget(needed[place]);
            let halt = self.transaction(machine, place, (txn, at), before.order());
            if let Some(halt) = halt.map_err(|outside| Why::Outside(outside.0))? {
                return Ok(Some(halt));
            }
            before.push(txn);
        }
        Ok(None)
    }

    /// For each place the earliest state that is seen there or later.
    fn needed(&self) -> Vec<u32> {
        let mut least = u32::MAX;
        let mut needed: Vec<u32> =
            self.order.iter().rev().map(|&(_, at)| (least = least.min(at), least).1).collect();
        needed.reverse();
        needed
    }

    fn transaction(
        &self,
        machine: &mut Machine<'_>,
        place: usize,
        (txn, at): Placed,
        before: &[TxnId],
    ) -> Result<Option<Halt>, Outside> {
        let sight = StatementSight::state(at);
        let (mut transaction, mut ran) = (machine.begin(), Ran::default());
        for op in machine.statements(txn)? {
            let step = machine.step(&mut transaction, op, &sight)?;
            if !step.fits {
                return Ok(Some(Halt { place, op, notes: self.told(place, op, at, &step.result) }));
            }
            ran.add(&step, &mut Vec::new());
        }
        let here = machine.position();
        let first = OpId(self.history.op_range(txn).start);
        let late = |write: &&margay_sql::Write| {
            machine.last_writer(write.table, &write.key, here).is_some_and(|(state, _)| state > at)
        };
        let conflict = ran.changes().find(late).filter(|_| self.rules.family == Family::Snapshot);
        if let Some(write) = conflict {
            let table = &machine.database().schema(write.table).name;
            let what = format!(
                "{} changes a row of {table} that was written after its snapshot.",
                self.history.show_txn(txn)
            );
            return Ok(Some(Halt { place, op: first, notes: vec![what] }));
        }
        if !in_row_order(self.history, self.rules, machine, before, txn, &ran.writes) {
            let what = "Commit timestamps are against the serialization order.".to_owned();
            return Ok(Some(Halt { place, op: first, notes: vec![what] }));
        }
        machine.commit(transaction, &ran, self.rules.skips());
        Ok(None)
    }

    /// What was observed beside what comes out.
    fn told(&self, place: usize, op: OpId, at: u32, given: &Result<Outcome, SqlError>) -> Vec<String> {
        let history = self.history;
        let txn = history.show_txn(history.txn_of(op));
        let text = show_statement(history, op);
        vec![
            format!("After {place} transactions, {txn} executed {text}"),
            format!("  and observed {}", show_observed(history, op)),
            format!("  where the state after {at} transactions gives {}", show_given(given)),
        ]
    }

    fn execution(&self, machine: &mut Machine<'_>) -> Result<Execution, Outside> {
        let mut sights = Vec::new();
        for (place, &(txn, at)) in self.order.iter().enumerate() {
            if at as usize != place {
                sights.extend(machine.statements(txn)?.into_iter().map(|op| (op, StatementSight::state(at))));
            }
        }
        let order = self.order.iter().map(|entry| entry.0).collect();
        Ok(Execution { reading: self.rules.reading(), order, sights, initial: Vec::new() })
    }

    fn violated(&self, halt: Halt) -> Result<Verdict, Why> {
        let txn = self.order[halt.place].0;
        let txns: Vec<TxnId> = self.order[..=halt.place].iter().map(|entry| entry.0).collect();
        let what = halt.notes.join(" ");
        let certificate = Certificate::Unexplained(Unexplained {
            reading: Reading::Item,
            rows: None,
            txns,
            op: halt.op,
            lemmas: Vec::new(),
            clashes: None,
            notes: halt.notes,
        });
        match audit(self.history, self.question, &certificate) {
            Ok(()) => {
                let finding = Finding { anomaly: Anomaly::ResultMismatch, txns: vec![txn], certificate };
                Ok(Verdict::Violated(vec![finding]))
            }
            Err(why) => {
                Err(Why::MissingEvidence(format!("{what}; but what is recorded does not prove it: {why}")))
            }
        }
    }
}
