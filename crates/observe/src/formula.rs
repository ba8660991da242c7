//! Answers by the formula of a log, where trying one order after the other does not help: initial
//! values that nobody knows, and rows that may be seen as of many states.

use margay_audit::audit_alone_within;
use margay_executions::formula::Open;
use margay_executions::{Family, Rules, show_observed, show_statement, unknown_rows};
use margay_history::{OpId, TxnId};
use margay_levels::Anomaly;
use margay_verdict::execution::{Clash, Reading, Unexplained};
use margay_verdict::{Budget, Certificate, Finding, Outside, Verdict};

use crate::clash::{Limits, Solved, solve};
use crate::engine::{Asked, isolation};
use crate::options::Options;

/// How many statements are told.
const TOLD: usize = 8;

/// The most pairs of transactions whose order is open: formulas of more are solved by luck. Where
/// fewer proposals are looked at, a quarter as many pairs.
const PAIRS: usize = 400;

/// How many decisions of the SAT solver go with each proposal.
const DECISIONS: u64 = 250;

/// The question about some transactions, after which all others come.
pub(crate) struct Formula<'a, 'c, 'h> {
    pub asked: &'a Asked<'c, 'h>,
    pub txns: &'a [TxnId],
    /// The statement at which a search got stuck.
    pub op: OpId,
    pub budget: &'a Budget,
}

impl Formula<'_, '_, '_> {
    /// The answer, if there is one within the limits.
    ///
    /// # Errors
    /// What has no terms.
    pub fn answer(&self, options: Options) -> Result<Option<Verdict>, Outside> {
        let Asked { history, question, rules, constraints } = *self.asked;
        if options.clashes == 0 || self.is_large(PAIRS.min(options.clashes / 4)) {
            return Ok(None);
        }
        let decisions = Limits::DEFAULT.decisions.min(options.clashes as u64 * DECISIONS);
        let limits = Limits { proposals: options.clashes, decisions };
        if let Solved::Refuted(clashes, blamed) = self.solve(rules, self.txns, Open::Anything, limits)? {
            return self.violated(options.reading, clashes, blamed, limits).map(Some);
        }
        let Solved::Execution(execution) =
            self.solve(rules, constraints.preferred(), Open::Integers, limits)?
        else {
            return Ok(None);
        };
        let certificate = Certificate::Execution(execution);
        // The formula has no overflow halfway, and the interpreter has.
        let confirmed = audit_alone_within(history, question, &certificate, self.budget).is_ok();
        Ok(confirmed.then_some(Verdict::Holds(certificate)))
    }

    /// Whether the order of too many transactions is open.
    fn is_large(&self, most: usize) -> bool {
        let before = |a, b| self.asked.constraints.before(a, b) || self.asked.constraints.before(b, a);
        let pairs = self
            .txns
            .iter()
            .enumerate()
            .flat_map(|(at, &a)| self.txns[at + 1..].iter().map(move |&b| (a, b)));
        pairs.filter(|&(a, b)| !before(a, b)).take(most + 1).count() > most
    }

    fn solve(&self, rules: Rules, txns: &[TxnId], open: Open, limits: Limits) -> Result<Solved, Outside> {
        solve(self.asked.history, rules, (txns, open), limits, self.budget)
    }

    fn violated(
        &self,
        reading: Reading,
        clashes: Vec<Clash>,
        blamed: Vec<OpId>,
        limits: Limits,
    ) -> Result<Verdict, Outside> {
        let Asked { history, rules, .. } = *self.asked;
        let blamed = if blamed.is_empty() { vec![self.op] } else { blamed };
        let free = Rules {
            family: Family::Committed(Reading::Item),
            session: false,
            real_time: false,
            instants: false,
        };
        let freely = self.solve(free, self.txns, Open::Anything, limits);
        let is_semantic = matches!(freely, Ok(Solved::Refuted(..)));
        let mut txns: Vec<TxnId> = blamed.iter().map(|&op| history.txn_of(op)).collect();
        txns.sort_unstable();
        txns.dedup();
        let anomaly = if is_semantic { Anomaly::ResultMismatch } else { isolation(rules) };
        let op = blamed.iter().copied().max().unwrap_or(self.op);
        let notes = self.notes(&blamed, is_semantic);
        let (txns_all, lemmas) = (self.txns.to_vec(), Vec::new());
        let clashes = Some(clashes);
        let unexplained = Unexplained { reading, rows: None, txns: txns_all, op, lemmas, clashes, notes };
        let certificate = Certificate::Unexplained(unexplained);
        Ok(Verdict::Violated(vec![Finding { anomaly, txns, certificate }]))
    }

    fn notes(&self, blamed: &[OpId], is_semantic: bool) -> Vec<String> {
        let history = self.asked.history;
        let open = if unknown_rows(history).is_empty() { "No" } else { "No initial values and no" };
        let mut notes = vec![format!("{open} execution gives all of this together:")];
        for &op in blamed.iter().take(TOLD) {
            let txn = history.show_txn(history.txn_of(op));
            let (statement, seen) = (show_statement(history, op), show_observed(history, op));
            notes.push(format!("  {txn} executed {statement} and observed {seen}"));
        }
        if blamed.len() > TOLD {
            notes.push(format!("  and {} statements more", blamed.len() - TOLD));
        }
        notes.push(match is_semantic {
            true => "No mixture of committed rows gives it either: an answer itself is wrong.".to_owned(),
            false => "Mixtures of committed rows that the level does not allow may explain it.".to_owned(),
        });
        notes
    }
}
