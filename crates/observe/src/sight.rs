//! What most logs need: the most natural execution, or one result that is wrong for itself.
//!
//! # Algorithm
//! A database that keeps its promise mostly does so in the order of real time, with each statement
//! on a recent state. Such an execution is looked for first, within few steps; at `read-committed`
//! by `repair.rs`. What does not fit then is mostly what is wrong: invariants are asked about that
//! alone.
//!
//! # Invariants
//! - What is found follows rules at least as strict as those that are asked for; nothing is refuted
//!   by this search.
//!
//! # Cost
//! Linear in the log.

use margay_executions::{Constraints, Family, Rules};
use margay_verdict::execution::Reading;
use margay_verdict::{Budget, Outside, Verdict};

use crate::engine::{Asked, GLANCE, MAX_WHOLE_TXNS, Observe};
use crate::invariant;
use crate::options::Options;
use crate::repair::{Repair, Repaired};
use crate::search::{FEW_EACH, Found, Limits};

impl Observe {
    /// Most logs are right, and in the most natural way: in the order of real time, each statement
    /// on a recent state. What does not fit then is mostly what is wrong: invariants are asked
    /// about that alone.
    pub(crate) fn at_first_sight(
        &self,
        asked: &Asked<'_, '_>,
        budget: &Budget,
    ) -> Result<Option<Verdict>, Outside> {
        let Some(rules) = natural(asked) else { return Ok(None) };
        let few = Options { steps: self.options.steps.min(GLANCE), ..self.options };
        // By the definition of `read-committed`, rows of other states come where no recent state
        // fits.
        let rules = Rules { family: asked.rules.family, ..rules };
        let constraints = Constraints::new(asked.history, rules);
        let timed = Asked { rules, constraints: &constraints, ..*asked };
        let wide = self.first_limits(asked.history);
        let refuted =
            |txn| invariant::refuted(asked.history, asked.constraints, Some(txn), budget).ok().flatten();
        if rules.family == Family::Committed(Reading::Item) && self.options.repair {
            let stuck = match Repair::new(&timed, &constraints, self.options, budget)?.run() {
                Repaired::Execution(execution) => return Ok(Some(asked.holds(execution))),
                Repaired::Stuck(txn) => Some(txn),
                Repaired::Exhausted => return Ok(None),
                Repaired::Nothing => None,
            };
            if let Some(verdict) = stuck.filter(|_| self.options.invariants).and_then(refuted) {
                return Ok(Some(verdict));
            }
        }
        // Where each statement has a state of its own, commits come in the order of calls, and it
        // is these states that are looked for; or the first that fits is the right one, and it is
        // the order.
        let ways: &[(Limits, bool)] = match rules.family {
            Family::Committed(Reading::Item) if self.options.repair => &[(wide, true)],
            Family::Committed(_) => &[(Limits { width: 1, patience: u32::MAX, ..wide }, false), (wide, true)],
            _ => &[(wide, false)],
        };
        let mut suspects = Vec::new();
        for &(limits, first_only) in ways {
            let mut search = timed.search(few, limits, &[])?;
            (search.each, search.impatient, search.recent) = (FEW_EACH, true, true);
            search.first_only = first_only;
            match search.run(budget) {
                Found::Execution(execution) => return Ok(Some(asked.holds(execution))),
                Found::Cut(_) | Found::Refuted(_) => suspects.extend(search.suspects()),
                _ => return Ok(None),
            }
        }
        suspects.sort_unstable();
        suspects.dedup();
        suspects.retain(|_| self.options.invariants);
        Ok(suspects.into_iter().find_map(refuted))
    }

    /// The same with more patience.
    pub(crate) fn in_real_time(
        &self,
        asked: &Asked<'_, '_>,
        budget: &Budget,
    ) -> Result<Option<Verdict>, Outside> {
        let Some(rules) = natural(asked).filter(|rules| *rules != asked.rules) else { return Ok(None) };
        let constraints = Constraints::new(asked.history, rules);
        let timed = Asked { rules, constraints: &constraints, ..*asked };
        let mut search = timed.search(self.short(), self.first_limits(asked.history), &[])?;
        search.each = FEW_EACH;
        Ok(match search.run(budget) {
            Found::Execution(execution) => Some(asked.holds(execution)),
            _ => None,
        })
    }
}

/// The rules of the most natural executions: real time orders transactions, and at `read-committed`
/// a statement sees one state. What these allow, the rules that are asked for allow too. Nothing
/// where there are no times, or little to search.
fn natural(asked: &Asked<'_, '_>) -> Option<Rules> {
    let Asked { history, rules, .. } = *asked;
    let family = match rules.family {
        Family::Serial | Family::Snapshot => rules.family,
        Family::Committed(_) => Family::Committed(Reading::Statement),
        Family::Repeatable => return None,
    };
    let suits = history.is_timed() && history.txn_count() > MAX_WHOLE_TXNS;
    suits.then_some(Rules { family, session: true, real_time: true, ..rules })
}
