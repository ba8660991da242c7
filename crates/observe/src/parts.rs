//! Certificates of long logs: a few rows, and the statements about them, that nothing explains.
//!
//! # Problem
//! That no order explains a long log is more than anybody can try, and more than lemmas about all
//! of its transactions can prove. But an answer is mostly wrong for a few rows.
//!
//! # Algorithm
//! Rows, closed under what those who can write them touch, are a log of their own ([`Part`]), and a
//! short one if the rows have few writers. The rows of the statement at which the search got stuck
//! come first, then those of its transaction, then every row for itself; last, the rows of whoever
//! touches the first ones. The first part that nothing explains is the answer; its certificate
//! names the rows.
//!
//! # Invariants
//! - Only what the audit accepts is told.
//!
//! # Cost
//! A copy of the log, and a short search, for each part; [`WORK`] and [`PARTS`] end it.

use hashbrown::{HashMap, HashSet};
use margay_audit::audit_within;
use margay_executions::{Answer, Machine, Orders, Part, RowSet, Rules, Touch, Touches, exhaust};
use margay_history::{History, TxnId};
use margay_sql::{TableId, Touched};
use margay_verdict::execution::Unexplained;
use margay_verdict::{Budget, Certificate, Finding, Outside, Question, Verdict};

use crate::engine::Observe;
use crate::options::Options;
use crate::search::Misfit;

/// The most operations of the history that are copied or looked through, all parts together.
const WORK: usize = 100_000_000;

/// The most moments of a part's transactions: a quick answer for each is worth more than a long one
/// for one.
const LARGEST: usize = 24;

/// The same where real time counts, which leaves few orders.
const LARGEST_TIMED: usize = 96;

/// How many parts are asked at most.
const PARTS: usize = 64;

/// How many rows are told.
const TOLD: usize = 4;

/// A part that nothing explains, where there is one that the audit accepts.
///
/// # Errors
/// When a statement is outside the fragment.
pub(crate) fn refuted(
    options: Options,
    (history, question, rules): (&History, Question, Rules),
    misfit: Misfit,
    budget: &Budget,
) -> Result<Option<Verdict>, Outside> {
    let mut machine = Machine::new(history, false)?.within(budget);
    let Some(touches) = Touches::new(history, &mut machine)? else { return Ok(None) };
    let largest = if rules.real_time { LARGEST_TIMED } else { LARGEST };
    let most = largest / Orders::moments_of_each(rules);
    let seeker = Seeker {
        history,
        question,
        rules,
        options,
        writers: Writers::new(&touches),
        touches: &touches,
        most,
    };
    let mut tried: HashSet<Vec<Touched>> = HashSet::new();
    let (mut work, mut asked) = (0, 0);
    let likely = seeker.seeds(misfit).take(2).collect::<Vec<_>>();
    let seeds = seeker
        .seeds(misfit)
        .map(|seed| (seed, FIRST_EFFORT))
        .chain(likely.into_iter().map(|seed| (seed, LAST_EFFORT)));
    for (seed, effort) in seeds {
        let Some(rows) = seeker.closed(&seed) else { continue };
        if effort == FIRST_EFFORT && !tried.insert(rows.clone()) {
            continue;
        }
        (work, asked) = (work + history.op_count(), asked + 1);
        if work > WORK || asked > PARTS || budget.poll_now().is_err() {
            break;
        }
        if let Some(verdict) = seeker.ask(&rows, effort, budget)? {
            return Ok(Some(verdict));
        }
    }
    Ok(None)
}

/// How many lemmas and how many proposals are looked at for a part, at most: at first, and at last
/// for those where the search got stuck.
const FIRST_EFFORT: (usize, usize) = (500, 200);
const LAST_EFFORT: (usize, usize) = (5_000, 400);

/// Who can write what, by their places among the statements.
struct Writers {
    rows: HashMap<Touched, Vec<usize>>,
    tables: HashMap<TableId, Vec<usize>>,
}

impl Writers {
    fn new(touches: &Touches) -> Self {
        let (mut rows, mut tables) = (HashMap::new(), HashMap::new());
        for (at, touch) in touches.statements.iter().enumerate() {
            for touched in &touch.writes {
                rows.entry(touched.clone()).or_insert_with(Vec::new).push(at);
                tables.entry(touched.0).or_insert_with(Vec::new).push(at);
            }
        }
        Writers { rows, tables }
    }

    fn of(&self, touched: &Touched) -> impl Iterator<Item = usize> {
        let (table, key) = touched;
        let single = self.rows.get(touched).filter(|_| key.is_some());
        let whole = match key {
            Some(_) => self.rows.get(&(*table, None)),
            None => self.tables.get(table),
        };
        single.into_iter().chain(whole).flatten().copied()
    }
}

struct Seeker<'a> {
    history: &'a History,
    question: Question,
    rules: Rules,
    options: Options,
    touches: &'a Touches,
    writers: Writers,
    /// The most transactions of a part that write.
    most: usize,
}

impl Seeker<'_> {
    /// Rows to begin with, the likeliest first.
    fn seeds(&self, misfit: Misfit) -> impl Iterator<Item = Vec<Touched>> {
        let rows = |is: &dyn Fn(&Touch) -> bool| -> Vec<Touched> {
            let found = self.touches.statements.iter().filter(|touch| is(touch));
            found.flat_map(|touch| touch.rows.iter().cloned()).collect()
        };
        let of = |touch: &Touch| self.history.txn_of(touch.op);
        let own = rows(&|touch| touch.op == misfit.op);
        let whole = rows(&|touch| of(touch) == misfit.txn);
        let near: HashSet<Touched> = whole.iter().cloned().collect();
        let near: HashSet<TxnId> = self
            .touches
            .statements
            .iter()
            .filter(|touch| touch.rows.iter().any(|row| near.contains(row)))
            .map(of)
            .collect();
        let wide = rows(&|touch| near.contains(&of(touch)));
        let single = self.touches.statements.iter().map(|touch| touch.rows.clone());
        [own, whole].into_iter().chain(single).chain([wide])
    }

    /// Rows with all that their writers touch, in order; `None` if that is too much.
    fn closed(&self, seed: &[Touched]) -> Option<Vec<Touched>> {
        let (mut set, mut open, mut txns) = (RowSet::default(), seed.to_vec(), HashSet::new());
        let mut closed = Vec::new();
        while let Some(touched) = open.pop() {
            if !set.insert(&touched) {
                continue;
            }
            for at in self.writers.of(&touched) {
                let touch = &self.touches.statements[at];
                txns.insert(self.history.txn_of(touch.op));
                if txns.len() > self.most {
                    return None;
                }
                open.extend(touch.rows.iter().filter(|row| !set.has(row)).cloned());
            }
            closed.push(touched);
        }
        closed.sort_unstable();
        closed.dedup();
        (!closed.is_empty()).then_some(closed)
    }

    /// Whether nothing explains the part of some rows.
    fn ask(
        &self,
        rows: &[Touched],
        (lemmas, clashes): (usize, usize),
        budget: &Budget,
    ) -> Result<Option<Verdict>, Outside> {
        let mut set = RowSet::default();
        rows.iter().for_each(|row| _ = set.insert(row));
        let Some(part) = Part::new(self.history, self.touches, &set) else { return Ok(None) };
        if part.history.txn_count() > self.most {
            return Ok(None);
        }
        let options = Options {
            invariants: false,
            parts: false,
            steps: self.options.steps.min(STEPS),
            lemmas: self.options.lemmas.min(lemmas),
            clashes: self.options.clashes.min(clashes),
            ..self.options
        };
        // What one part has no meaning for, the whole may have an answer to.
        let Ok(Verdict::Violated(findings)) =
            (Observe { options }).answer_to(&part.history, self.question, budget)
        else {
            return Ok(None);
        };
        let findings: Option<Vec<Finding>> =
            findings.iter().map(|finding| self.told(&part, rows, finding, budget)).collect();
        Ok(findings.filter(|findings| !findings.is_empty()).map(Verdict::Violated))
    }

    /// A finding about a part as one about the history, if the audit accepts it.
    fn told(&self, part: &Part, rows: &[Touched], finding: &Finding, budget: &Budget) -> Option<Finding> {
        let Certificate::Unexplained(inner) = &finding.certificate else { return None };
        // The audit would try far more before it gives up.
        let tried =
            || exhaust(&part.history, self.rules, Some(&inner.txns), TRIED, budget) == Ok(Answer::Refuted);
        if inner.lemmas.is_empty() && inner.clashes.is_none() && !tried() {
            return None;
        }
        let outer = part.translate(false, inner)?;
        let named = self.touches.named(rows);
        let mut notes = vec![self.note(part, rows)];
        notes.extend(outer.notes);
        let outer = Unexplained { rows: Some(named), notes, ..outer };
        let certificate = Certificate::Unexplained(outer);
        audit_within(self.history, self.question, &certificate, budget).ok()?;
        let txns = finding.txns.iter().map(|&txn| part.outer(txn)).collect::<Option<Vec<TxnId>>>()?;
        Some(Finding { anomaly: finding.anomaly, txns, certificate })
    }

    fn note(&self, part: &Part, rows: &[Touched]) -> String {
        let named = self.touches.named(rows);
        let show = |(table, key): &(String, Option<Vec<margay_sql::Value>>)| match key {
            None => table.clone(),
            Some(key) => {
                let key: Vec<String> = key.iter().map(ToString::to_string).collect();
                format!("{table} {}", key.join(", "))
            }
        };
        let told: Vec<String> = named.iter().take(TOLD).map(show).collect();
        let more = if named.len() > TOLD { ", …" } else { "" };
        format!(
            "Of {} transactions, {} have statements that can touch {}{more}; these alone:",
            self.history.txn_count(),
            part.history.txn_count(),
            told.join(", ")
        )
    }
}

/// How many statements are executed to see whether the audit can try everything.
const TRIED: u64 = 50_000;

/// How many statements the search for an execution of a part executes, beyond some for each
/// operation.
const STEPS: u64 = 20_000;
