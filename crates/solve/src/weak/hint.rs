//! What reads probably saw.
//!
//! # Problem
//! An operation that saw part of a row leaves many versions open, and so does every row that a scan
//! left out. Chosen one by one they do not fit together, and the search mends them one by one.
//!
//! # Algorithm
//! In an order of the transactions by time, an operation saw the latest version, before its
//! transaction, that explains all that it saw of an object: of those that may have been there when
//! it ended, if there is one. First without those whose outcome is not known, then with them.
//!
//! # Invariants
//! Only a guess: it decides what the solver tries first.

use margay_verdict::{Budget, Exhausted};

use crate::atoms::guess;
use crate::known::KnownGraph;
use crate::problem::{INITIAL, Item, Stand};
use crate::strategy::Strategy;

/// How many versions are tried for one point.
const TRIES: usize = 256;

/// What each read probably saw, if the transactions came in this order.
pub(super) fn hints(known: &KnownGraph<'_>, order: &[u32], budget: &Budget) -> Result<Vec<u32>, Exhausted> {
    let problem = known.problem;
    let mut seen: Vec<u32> = Vec::with_capacity(problem.reads.len());
    for read in 0..problem.reads.len() as u32 {
        budget.poll()?;
        seen.push(problem.seen(read).unwrap_or_else(|| guess(known, read)));
    }
    if !problem.has_open_reads() || !problem.strategies.has(Strategy::Hints) {
        return Ok(seen);
    }
    let mut together: Vec<Vec<u32>> = vec![Vec::new(); problem.own_points.len()];
    for (read, of) in (0..).zip(&problem.reads) {
        match of.stand {
            Stand::Point(point) => together[point as usize].push(read),
            Stand::Free if problem.seen(read).is_none() => together.push(vec![read]),
            _ => {}
        }
    }
    let places = super::choice::places(order);
    let commits = Commits::new(known, &places);
    let sure = Guess::new(known, &places, |txn| problem.forced[txn as usize]);
    let any = Guess::new(known, &places, |_| true);
    for reads in together {
        budget.poll()?;
        let reader = places[problem.reads[reads[0] as usize].txn as usize];
        let limits = [commits.before_end(known, reads[0]).min(reader), reader];
        let mut found =
            limits.iter().flat_map(|&limit| [&sure, &any].map(|guess| guess.explain(&reads, limit)));
        if let Some(found) = found.find_map(|found| found) {
            reads.iter().zip(found).for_each(|(&read, version)| seen[read as usize] = version);
        }
    }
    Ok(seen)
}

/// When transactions began to commit, each with the latest place of those that had.
struct Commits(Vec<(i64, u32)>);

impl Commits {
    fn new(known: &KnownGraph<'_>, places: &[u32]) -> Self {
        let (history, txns) = (known.problem.history, &known.problem.txns);
        let last = |id| history.ops(id).last().and_then(|op| op.at).map(|at| at.before);
        let timed = (0..).zip(txns).filter_map(|(txn, &id)| Some((last(id)?, places[txn as usize])));
        let mut commits: Vec<(i64, u32)> = timed.collect();
        commits.sort_unstable();
        let mut latest = 0;
        for (_, place) in &mut commits {
            latest = latest.max(*place);
            *place = latest;
        }
        Self(commits)
    }

    /// Before which place everybody stands who may have committed when a read ended.
    fn before_end(&self, known: &KnownGraph<'_>, read: u32) -> u32 {
        let problem = known.problem;
        let Some(at) = problem.history.op(problem.reads[read as usize].op).at else { return u32::MAX };
        let begun = self.0.partition_point(|&(time, _)| time <= at.after);
        begun.checked_sub(1).map_or(0, |last| self.0[last].1 + 1)
    }
}

/// Versions in order.
struct Guess<'a> {
    known: &'a KnownGraph<'a>,
    places: &'a [u32],
    /// The versions of each item, the initial one first.
    versions: Vec<Vec<u32>>,
}

impl<'a> Guess<'a> {
    fn new(known: &'a KnownGraph<'a>, places: &'a [u32], counts: impl Fn(u32) -> bool) -> Self {
        let problem = known.problem;
        let txn = |version: u32| problem.versions[version as usize].txn;
        let ordered = |item: Item| {
            let all = problem.item_versions(item);
            let mut versions: Vec<u32> = all.filter(|&v| txn(v) == INITIAL || counts(txn(v))).collect();
            versions.sort_by_key(|&v| (txn(v) != INITIAL).then(|| places[txn(v) as usize]));
            versions
        };
        let versions = problem.items().map(ordered).collect();
        Self { known, places, versions }
    }

    /// Where a version stands; the initial one before all.
    fn place(&self, version: u32) -> Option<u32> {
        let txn = self.known.problem.versions[version as usize].txn;
        (txn != INITIAL).then(|| self.places[txn as usize])
    }

    /// What the reads of one operation and object saw if it stands as late as it can before a
    /// place.
    fn explain(&self, reads: &[u32], limit: u32) -> Option<Vec<u32>> {
        let problem = self.known.problem;
        let all = || reads.iter().map(|&read| &self.versions[problem.reads[read as usize].item.index()]);
        let mut limit = Some(limit);
        for _ in 0..TRIES {
            // The last version of each item before the limit; the latest of them is where the point
            // stands.
            let last =
                |versions: &Vec<u32>| versions.partition_point(|&v| self.place(v) < limit).checked_sub(1);
            let found: Option<Vec<u32>> =
                all().map(|versions| last(versions).map(|at| versions[at])).collect();
            let found = found?;
            let fits = |(&read, version): (&u32, &u32)| problem.candidates(read).contains(version);
            if reads.iter().zip(&found).all(fits) {
                return Some(found);
            }
            limit = Some(found.iter().filter_map(|&version| self.place(version)).max()?);
        }
        None
    }
}
