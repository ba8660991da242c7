//! Begin and commit points.
//!
//! For the snapshot levels (and `parallel-snapshot`, which they imply) every transaction runs on
//! the state at its begin point, and no other may commit a write of the same object between its
//! begin and its commit. For `prefix`, and the weaker levels that it implies, two writers of one
//! object may overlap: then versions follow the order of commits, each read saw the last version
//! committed before its begin point, and [`super::execution`] checks the values.
//!
//! # Cost
//! Linear in the history for the snapshot levels; a scan looks at every object of its table.

use hashbrown::HashMap;
use margay_history::{History, ObjectId, TxnId, Version};
use margay_levels::Level;
use margay_levels::definition::Family;
use margay_verdict::instants::{self, Instants};
use margay_verdict::state::Overlay;
use margay_verdict::{Budget, Cell, Effect, Point, Predicates, Question, State};

use super::execution::{Execution, Picks};
use super::order::Writers;
use super::precedence::Precedence;
use super::{Rejected, committed_set, reject};

pub(super) fn audit(
    history: &History,
    question: Question,
    points: &[Point],
    budget: &Budget,
) -> Result<(), Rejected> {
    let places = placed(history, question, points)?;
    match question.level {
        Level::RepeatableRead => reject("points do not prove repeatable-read"),
        level if level.family() == Family::Serial => reject(format!("points do not prove {level}")),
        level if level.family() == Family::Snapshot => {
            stamps(history, points)?;
            snapshots(history, points, &places, budget).map(drop)
        }
        Level::ParallelSnapshot => snapshots(history, points, &places, budget).map(drop),
        _ => overlapping(history, points, &places, budget),
    }
}

/// Runs every transaction on the state at its begin point, at a snapshot level; answers what every
/// object holds in the end.
pub(super) fn replay(
    history: &History,
    question: Question,
    points: &[Point],
    budget: &Budget,
) -> Result<Vec<Cell>, Rejected> {
    let places = placed(history, question, points)?;
    stamps(history, points)?;
    snapshots(history, points, &places, budget)
}

fn placed(history: &History, question: Question, points: &[Point]) -> Result<Places, Rejected> {
    let places = places(history, points)?;
    precedence(history, question, points)?;
    if question.uses_instants() {
        in_time(history, points.iter().copied())?;
    }
    Ok(places)
}

/// Where each transaction begins and commits.
struct Places {
    begins: Vec<usize>,
    commits: Vec<usize>,
}

fn places(history: &History, points: &[Point]) -> Result<Places, Rejected> {
    let begun = |point: &Point| match *point {
        Point::Begin(txn) => Some(txn),
        Point::Commit(_) => None,
    };
    let committed = |point: &Point| match *point {
        Point::Commit(txn) => Some(txn),
        Point::Begin(_) => None,
    };
    committed_set(history, points.iter().filter_map(begun))?;
    committed_set(history, points.iter().filter_map(committed))?;
    let unset = || vec![usize::MAX; history.txn_count()];
    let mut places = Places { begins: unset(), commits: unset() };
    for (place, point) in points.iter().enumerate() {
        match *point {
            Point::Begin(txn) => places.begins[txn.index()] = place,
            Point::Commit(txn) if places.begins[txn.index()] == usize::MAX => {
                return reject(format!("{} commits without having begun", history.show_txn(txn)));
            }
            Point::Commit(txn) => places.commits[txn.index()] = place,
        }
    }
    match history
        .txns()
        .find(|t| places.begins[t.index()] != usize::MAX && places.commits[t.index()] == usize::MAX)
    {
        Some(txn) => reject(format!("{} begins and does not commit", history.show_txn(txn))),
        None => Ok(places),
    }
}

fn precedence(history: &History, question: Question, points: &[Point]) -> Result<(), Rejected> {
    let mut precedence = Precedence::new(history, question);
    for point in points {
        match *point {
            Point::Begin(txn) => precedence.begin(txn),
            Point::Commit(txn) => precedence.commit(txn)?,
        }
    }
    Ok(())
}

/// Every point lies at an instant that clients vouch for, and none before one that comes earlier.
pub(super) fn in_time(history: &History, points: impl Iterator<Item = Point>) -> Result<(), Rejected> {
    match instants::late(&Instants::of_all(history), points) {
        None => Ok(()),
        Some(Point::Begin(txn)) => {
            reject(format!("{} begins later than its first statement was answered", history.show_txn(txn)))
        }
        Some(Point::Commit(txn)) => {
            reject(format!("{} commits later than its commit was answered", history.show_txn(txn)))
        }
    }
}

/// Commit timestamps order the commits; a snapshot timestamp says which of them it has.
fn stamps(history: &History, points: &[Point]) -> Result<(), Rejected> {
    let evidence = history.evidence();
    let mut last_commit = i64::MIN;
    // The two latest snapshots, because a transaction's commit may well be at its own snapshot's
    // time.
    let mut snapshots: [Option<(i64, TxnId)>; 2] = [None, None];
    for point in points {
        match *point {
            Point::Begin(txn) => {
                let Some(ts) = evidence.snapshot(txn) else { continue };
                if last_commit > ts {
                    return reject(format!(
                        "{} began before a commit that is at the begin point",
                        history.show_txn(txn)
                    ));
                }
                snapshots = latest_two(snapshots, (ts, txn));
            }
            Point::Commit(txn) => {
                let Some(ts) = evidence.commit(txn) else { continue };
                if ts < last_commit {
                    return reject(format!(
                        "{} commits against the order of commit timestamps",
                        history.show_txn(txn)
                    ));
                }
                if snapshots.iter().flatten().any(|&(snapshot, other)| other != txn && ts <= snapshot) {
                    return reject(format!(
                        "the commit of {} is missing from a snapshot",
                        history.show_txn(txn)
                    ));
                }
                last_commit = ts;
            }
        }
    }
    Ok(())
}

fn latest_two(seen: [Option<(i64, TxnId)>; 2], new: (i64, TxnId)) -> [Option<(i64, TxnId)>; 2] {
    match seen {
        [Some(first), _] if first.0 >= new.0 => [seen[0], seen[1].max(Some(new))],
        [first, _] => [Some(new), first],
    }
}

/// Runs every transaction on the state at its begin point.
fn snapshots(
    history: &History,
    points: &[Point],
    places: &Places,
    budget: &Budget,
) -> Result<Vec<Cell>, Rejected> {
    let predicates = Predicates::compile(history)?.within(budget);
    let mut state = State::initial(&predicates);
    let mut writers = Writers::new(history, &commit_order(points))?;
    let mut written_at = vec![0; history.object_count()];
    let mut pending: HashMap<TxnId, Vec<(ObjectId, Vec<Effect>)>> = HashMap::new();
    for (place, point) in points.iter().enumerate() {
        match *point {
            Point::Begin(txn) => {
                pending.insert(txn, run(&predicates, &state, &writers, txn)?);
            }
            Point::Commit(txn) => {
                for (object, effects) in pending.remove(&txn).unwrap_or_default() {
                    if written_at[object.index()] > places.begins[txn.index()] {
                        return reject(format!(
                            "{} writes {}, which another transaction wrote after its begin",
                            history.show_txn(txn),
                            history.show_object(object)
                        ));
                    }
                    written_at[object.index()] = place;
                    writers.wrote(object, txn)?;
                    effects.iter().for_each(|effect| state.change(object, effect));
                }
            }
        }
    }
    Ok(state.into_cells())
}

fn run(
    predicates: &Predicates<'_>,
    state: &State<'_>,
    writers: &Writers<'_>,
    txn: TxnId,
) -> Result<Vec<(ObjectId, Vec<Effect>)>, Rejected> {
    let (history, mut view) = (predicates.history(), Overlay::new(state));
    for op in history.ops(txn) {
        predicates.budget().poll()?;
        let own = |object| if view.wrote(object) { Version::Of(txn) } else { writers.last(object) };
        writers.look_over(&op, own)?;
        view.run(&op).map_err(|fault| Rejected(fault.show(history)))?;
    }
    Ok(view.into_effects())
}

fn commit_order(points: &[Point]) -> Vec<TxnId> {
    let commit = |point: &Point| match *point {
        Point::Commit(txn) => Some(txn),
        Point::Begin(_) => None,
    };
    points.iter().filter_map(commit).collect()
}

/// Versions in the order of commits; each read saw the last one committed before its begin point.
fn overlapping(
    history: &History,
    points: &[Point],
    places: &Places,
    budget: &Budget,
) -> Result<(), Rejected> {
    let predicates = Predicates::compile(history)?.within(budget);
    let by_begin = Picks::Before { begins: &places.begins, places: &places.commits };
    let execution = Execution::by_commit_order(&predicates, &commit_order(points), by_begin)?;
    execution.explain().map(|_| ())
}
