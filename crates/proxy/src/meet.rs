//! Recorded transactions meet the commits of the log.
//!
//! # Algorithm
//! A transaction and a commit fit if their times do, and if the commit has what the transaction's
//! statements are known to have written. A transaction that certainly wrote, and has one commit
//! that fits, is that commit; then others may have only one left. If nobody else can have written,
//! the same is true of a commit that only one transaction fits.
//!
//! # Invariants
//! Nothing is guessed: where several fit, nobody meets.

use std::collections::{HashMap, VecDeque};

use margay_history::{History, OpKind, Outcome, TableId, TxnId, Value, ValueId};

use crate::assemble::{Line, agrees, latest};
use crate::log::Commit;
use crate::writers::{Does, Writers};

/// What is compared.
pub(crate) struct Fits<'f> {
    /// The recording with its statements as operations on rows, as far as they are understood.
    pub content: &'f History,
    /// The same, with the conditions of updates that compute.
    pub asked: &'f History,
    /// The objects and values of both sides.
    pub known: &'f History,
    pub writers: &'f Writers<'f>,
    pub commits: &'f [&'f Commit],
    pub lines: &'f [Vec<Line>],
}

/// Who met which commit.
pub(crate) struct Met {
    commits: Vec<Option<usize>>,
    /// Transactions that no commit fits, and that need not have written.
    nothing: Vec<bool>,
}

impl Met {
    pub fn of(&self, txn: TxnId) -> Option<usize> {
        self.commits[txn.index()]
    }

    /// Whether a transaction that may have written did not.
    pub fn wrote_nothing(&self, txn: TxnId) -> bool {
        self.nothing[txn.index()]
    }
}

pub(crate) fn meet(wire: &History, fits: &Fits<'_>, alone: bool) -> Met {
    // Of one whose outcome is not known nobody knows what it wrote.
    let alone = alone && wire.txns().all(|txn| wire.outcome(txn) != Outcome::Unknown);
    let widest = fits.commits.iter().map(|commit| commit.at[1] - commit.at[0]).max().unwrap_or(0);
    let mut order: Vec<usize> = (0..fits.commits.len()).collect();
    order.sort_unstable_by_key(|&place| fits.commits[place].at[0]);
    let mut of_txns: Vec<Vec<usize>> = vec![Vec::new(); wire.txn_count()];
    let mut of_commits: Vec<Vec<TxnId>> = vec![Vec::new(); fits.commits.len()];
    for txn in wire.txns().filter(|&txn| wire.outcome(txn) == Outcome::Committed) {
        let Some(told) = CertainWrites::new(wire, fits, txn) else { continue };
        let from = order.partition_point(|&place| fits.commits[place].at[0] < told.at[0] - widest);
        let near = order[from..].iter().take_while(|&&place| fits.commits[place].at[0] <= told.at[1]);
        for &place in near.filter(|&&place| told.fits(fits, place)) {
            of_txns[txn.index()].push(place);
            of_commits[place].push(txn);
        }
    }
    let nothing: Vec<bool> = wire
        .txns()
        .map(|txn| {
            let committed = wire.outcome(txn) == Outcome::Committed;
            committed && fits.writers.is_optional(txn) && of_txns[txn.index()].is_empty()
        })
        .collect();
    let mut commits = vec![None; wire.txn_count()];
    let mut queue: VecDeque<TxnId> = wire.txns().collect();
    let mut taken = vec![false; fits.commits.len()];
    while let Some(txn) = queue.pop_front() {
        if commits[txn.index()].is_some() {
            continue;
        }
        let only_one = |place: &&usize| alone && of_commits[**place].len() == 1;
        let certain = match of_txns[txn.index()][..] {
            [place] if !fits.writers.is_optional(txn) => Some(place),
            ref several => several.iter().find(only_one).copied(),
        };
        let Some(place) = certain.filter(|&place| !taken[place]) else { continue };
        taken[place] = true;
        commits[txn.index()] = Some(place);
        for other in std::mem::take(&mut of_commits[place]) {
            of_txns[other.index()].retain(|known| *known != place);
            queue.push_back(other);
        }
        for other in std::mem::take(&mut of_txns[txn.index()]) {
            of_commits[other].retain(|known| *known != txn);
            queue.extend(&of_commits[other]);
        }
    }
    Met { commits, nothing }
}

/// What is certain of a transaction.
struct CertainWrites {
    /// When it committed.
    at: [i64; 2],
    /// How many rows of which tables it wrote at least.
    counts: HashMap<TableId, usize>,
    /// What it made of rows.
    rows: HashMap<margay_history::ObjectId, ValueId>,
    /// Tables with the condition that rows were asked for by.
    keys: Vec<(TableId, String)>,
}

impl CertainWrites {
    /// Nothing of a transaction that cannot have written.
    fn new(wire: &History, fits: &Fits<'_>, txn: TxnId) -> Option<Self> {
        let (mut counts, mut writes) = (HashMap::new(), false);
        for does in wire.ops(txn).filter_map(|op| fits.writers.does(&op)) {
            writes |= matches!(does, Does::Writes(..) | Does::May);
            if let Does::Writes(table, count) = does {
                *counts.entry(table).or_default() += usize::try_from(count).ok()?;
            }
        }
        let end = wire.ops(txn).next_back().and_then(|op| op.at).filter(|_| writes)?;
        let (mut rows, mut keys) = (HashMap::new(), Vec::new());
        for (op, own) in fits.content.ops(txn).zip(wire.ops(txn)) {
            let counted = matches!(fits.writers.does(&own), Some(Does::Writes(..)));
            if op.kind == OpKind::Write && counted {
                rows.extend(op.accesses.iter().map(|it| (it.object, it.value)));
            }
        }
        for (op, own) in fits.asked.ops(txn).zip(wire.ops(txn)) {
            let counted = matches!(fits.writers.does(&own), Some(Does::Writes(..)));
            for access in op.accesses.iter().filter(|_| counted && op.kind == OpKind::Write) {
                let object = fits.asked.object(access.object);
                if let (Some(table), Value::Int(key)) = (object.table, fits.asked.value(object.key))
                    && let [column] = &fits.asked.table(table).key[..]
                {
                    keys.push((table, format!("{column} = {key}")));
                }
            }
            if let Some(update) = fits.asked.update(op.id).filter(|_| counted) {
                let predicate = fits.asked.predicate(update.predicate);
                keys.push((predicate.table, predicate.text.to_string()));
            }
        }
        Some(Self { at: [end.before, end.after], counts, rows, keys })
    }

    fn fits(&self, fits: &Fits<'_>, place: usize) -> bool {
        let (commit, lines) = (fits.commits[place], &fits.lines[place]);
        if commit.at[1] < self.at[0] || commit.at[0] > self.at[1] {
            return false;
        }
        let has = |table: TableId| lines.iter().filter(|line| line.table == Some(table)).count();
        if self.counts.iter().any(|(table, count)| has(*table) < *count) {
            return false;
        }
        if self.rows.is_empty() && self.keys.is_empty() {
            return true;
        }
        let became: HashMap<_, _> = latest(lines).iter().map(|it| (it.object, it.value)).collect();
        // Keys that are not whole numbers may have several forms.
        let is_plain = |object| matches!(fits.known.value(fits.known.object(object).key), Value::Int(_));
        let agree = self.rows.iter().all(|(object, value)| match became.get(object) {
            Some(logged) => agrees(fits.known, *value, *logged),
            None => !is_plain(*object),
        });
        agree && self.keys.iter().all(|(table, condition)| asked_for(fits, *table, condition, lines))
    }
}

/// Whether a commit has a row of the key that a condition names; yes if it names none.
fn asked_for(fits: &Fits<'_>, table: TableId, condition: &str, lines: &[Line]) -> bool {
    let [column] = &fits.known.table(table).key[..] else { return true };
    let lower = condition.to_lowercase();
    if lower.contains(" or ") || lower.contains("not ") || condition.contains('(') {
        return true;
    }
    let named = condition.split(" AND ").filter_map(|part| part.split_once(" = "));
    let mut keys =
        named.filter(|(name, _)| name.trim().trim_matches('"') == column).map(|(_, key)| key.trim());
    let Some(key) = keys.next() else { return true };
    let Ok(key) = key.parse::<i64>() else { return true };
    let is = |object| matches!(fits.known.value(fits.known.object(object).key), Value::Int(it) if it == key);
    lines
        .iter()
        .filter(|line| line.table == Some(table))
        .flat_map(|line| &line.accesses)
        .any(|it| is(it.object))
}
