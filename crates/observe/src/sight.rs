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

use hashbrown::HashSet;
use margay_executions::{Constraints, Family, Rules};
use margay_history::TxnId;
use margay_verdict::execution::Reading;
use margay_verdict::{Budget, Outside, Verdict};

use crate::engine::{Asked, GLANCE, MAX_WHOLE_TXNS, Observe};
use crate::invariant;
use crate::options::Options;
use crate::repair::{Repair, Repaired};
use crate::search::{FEW_EACH, Found, Limits};

/// How many transactions invariants are asked about for themselves.
const SUSPECTS: usize = 2;

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
        // One pass over the log for all of them, then one for each of the likeliest.
        let any = |txns: &[TxnId]| {
            let one = invariant::refuted_among(asked.history, asked.constraints, (None, txns), budget);
            let alone = || txns.iter().copied().take(SUSPECTS).find_map(refuted);
            one.ok().flatten().or_else(alone)
        };
        if rules.family == Family::Committed(Reading::Item) && self.options.repair {
            let may_wait = !asked.rules.session && !asked.rules.real_time;
            let repair = Repair::new(&timed, &constraints, may_wait, self.options, budget)?;
            let stuck = match repair.run() {
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
        // the order. Elsewhere it is enough to look longer where invariants allow what does not fit
        // at once.
        let hasty = Way { limits: wide, first_only: false, hasty: true };
        let first_only = Way { first_only: true, hasty: false, ..hasty };
        let in_order = Limits { width: 1, patience: u32::MAX, ..wide };
        let ways: &[Way] = match rules.family {
            Family::Committed(Reading::Item) if self.options.repair => &[first_only],
            Family::Committed(_) => &[Way { limits: in_order, first_only: false, hasty: false }, first_only],
            _ if self.options.quick => &[hasty],
            _ => &[hasty, Way { hasty: false, ..hasty }],
        };
        let (mut suspects, mut told) = (Vec::new(), HashSet::new());
        for (at, way) in ways.iter().enumerate() {
            let mut search = timed.search(few, way.limits, &[])?;
            (search.each, search.impatient, search.recent) = (FEW_EACH, true, true);
            (search.first_only, search.hasty) = (way.first_only, way.hasty);
            match search.run(budget) {
                Found::Execution(execution) => return Ok(Some(asked.holds(execution))),
                Found::Cut(_) | Found::Refuted(_) => suspects.extend(search.suspects()),
                _ => return Ok(None),
            }
            let last = at + 1 == ways.len();
            if self.options.invariants && (way.hasty || last) {
                suspects.retain(|&txn| told.insert(txn));
                if let Some(verdict) = any(&suspects) {
                    return Ok(Some(verdict));
                }
                suspects.clear();
            }
        }
        Ok(None)
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

/// How an execution is looked for.
#[derive(Clone, Copy)]
struct Way {
    limits: Limits,
    first_only: bool,
    hasty: bool,
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
