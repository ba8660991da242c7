//! The part of a history that is understood, where the whole is not.
//!
//! # Problem
//! If no engine can decide about a history because of a statement, or because of something that its
//! recorder did not see, the part without it can still be asked about ([`margay_rows::project`]).
//!
//! # Algorithm
//! Engines are asked about the projection. `violated` there is `violated`: levels are closed under
//! leaving out what a projection leaves out. `holds` there is `holds` only if nothing was left out;
//! else the answer stays `unknown`, and [`Coverage`] says how much holds.
//!
//! # Invariants
//! A certificate names the projection as its translation, and the audit makes it again from the
//! original.

use margay_verdict::{Verdict, Why};

/// How much of a history an answer covers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Coverage {
    /// Tables that are covered.
    pub tables: usize,
    /// Tables of the history.
    pub all_tables: usize,
    /// Transactions that are covered as a whole.
    pub transactions: usize,
    /// Transactions of the history.
    pub all_transactions: usize,
    /// What is not covered, and why; at most 20 reasons.
    pub left_out: Vec<String>,
    /// The answer about what is covered: `holds`, `clean`, `violated` or `unknown`.
    pub verdict: &'static str,
}

impl Coverage {
    /// Whether the whole history is covered.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.tables == self.all_tables
            && self.transactions == self.all_transactions
            && self.left_out.is_empty()
    }

    /// In words: `holds for 9 of 12 tables and 1204 of 1311 transactions`.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self { tables, all_tables, transactions, all_transactions, verdict, .. } = self;
        format!(
            "{verdict} for {tables} of {all_tables} tables and {transactions} of {all_transactions} transactions"
        )
    }

    /// The field `coverage` of `--json`.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "verdict": self.verdict,
            "tables": { "covered": self.tables, "all": self.all_tables },
            "transactions": { "covered": self.transactions, "all": self.all_transactions },
            "left_out": self.left_out,
        })
    }

    /// The verdict about the whole history, given that about what is covered.
    pub(crate) fn whole(&self, part: Verdict) -> Verdict {
        match part {
            Verdict::Holds(_) | Verdict::Clean if !self.is_whole() => {
                let first = self.left_out.first().map(|why| format!("; left out: {why}")).unwrap_or_default();
                Verdict::Unknown(Why::Incomplete(format!("{}{first}", self.sentence())))
            }
            other => other,
        }
    }
}
