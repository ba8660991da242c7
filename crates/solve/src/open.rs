//! The pairs of versions that nothing orders.
//!
//! # Algorithm
//! Within one session the versions of an object that must be before a given one come first, those that must be after it last, and what is open is between:
//! two binary searches per version and session, not one question per pair. Without session order every version is a group by itself.
//!
//! In the serializable family two versions that nobody read can stand either way in any order of the rest, so they are left out.
//!
//! # Cost
//! Versions × sessions × log, and what is open.

use margay_verdict::{Budget, Exhausted};

use crate::known::{Known, Reach};

/// The open pairs of versions that must be there, but for those that fit into any order of the rest; `None` if there are more than `most`, or if that is not known.
pub(crate) fn open_pairs(
    known: &Known<'_>,
    reach: &Reach,
    most: usize,
    budget: &Budget,
) -> Result<Option<Vec<(u32, u32)>>, Exhausted> {
    let (points, problem, versions) = (known.points, known.problem, &known.problem.versions);
    if matches!(reach, Reach::Unknown) {
        return Ok(None);
    }
    let begin = |v: u32| points.after_earlier(versions[v as usize].txn);
    let commit = |v: u32| points.commit(versions[v as usize].txn);
    let must = |a: u32, b: u32| reach.reaches(begin(a), commit(b));
    let unread = |v: u32| known.firm_readers(v).next().is_none();
    let matters = |a: u32, b: u32| points.split || problem.has_open_reads() || !unread(a) || !unread(b);
    let mut pairs = Vec::new();
    for item in problem.items() {
        let groups = known.groups(problem.item_versions(item));
        let groups: Vec<&[u32]> = groups.iter().collect();
        for (place, group) in groups.iter().enumerate() {
            for &a in *group {
                budget.poll()?;
                for later in &groups[place + 1..] {
                    let start = later.partition_point(|&b| must(b, a));
                    let open = later[start..].partition_point(|&b| !must(a, b));
                    let open = later[start..start + open].iter();
                    pairs.extend(open.filter(|&&b| matters(a, b)).map(|&b| (a, b)));
                }
                if pairs.len() > most {
                    return Ok(None);
                }
            }
        }
    }
    Ok(Some(pairs))
}
