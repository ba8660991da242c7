//! Where in the execution each transaction probably was, if there is no time.
//!
//! # Problem
//! Sessions and reads say which transaction comes before which. A schedule also needs to know by
//! about how much: the order of two writers that nothing forces is usually the one that the rest of
//! the history suggests.
//!
//! # Algorithm
//! Least squares. A read comes about as long after the write that it saw as two writes of that item
//! are apart; the next transaction of a session comes about as long after the previous one as the
//! session's are apart. Each such edge is a spring of that length, and stiff if it is short.
//! Sessions hang between the start and the end, reads of initial versions from the start.
//! Conjugate gradients find where everything comes to rest. Parts that no spring joins to the start
//! are put behind it, one after the other.
//!
//! # Invariants
//! Only a guess. The same history has the same places every time.
//!
//! # Cost
//! One pass over the springs per step, and as many steps as [`STEPS`] and [`VISITS`] allow.

use crate::known::KnownGraph;
use crate::problem::INITIAL;

/// How many steps are made at most.
const STEPS: usize = 4_096;

/// How many springs are looked at, in all steps together.
const VISITS: usize = 32 << 20;

/// How small the forces are at the end, of those at the start.
const TOLERANCE: f64 = 1e-8;

/// A place for each transaction.
pub(super) fn places(known: &KnownGraph<'_>) -> Vec<f64> {
    let (springs, mut places) = Springs::new(known);
    springs.relax(&mut places);
    springs.put_apart(&mut places);
    places.truncate(springs.start as usize);
    places
}

/// One transaction about so long after another.
struct Spring {
    from: u32,
    to: u32,
    length: f32,
}

impl Spring {
    fn stiffness(&self) -> f64 {
        f64::from(self.length).powi(-2)
    }
}

struct Springs {
    /// The start, numbered after all transactions; the end has the next number.
    start: u32,
    all: Vec<Spring>,
}

impl Springs {
    /// The springs, and where everything is at first.
    fn new(known: &KnownGraph<'_>) -> (Self, Vec<f64>) {
        let start = known.problem.txns.len() as u32;
        let (mut springs, mut places) = (Self { start, all: Vec::new() }, vec![0.0; start as usize + 2]);
        places[start as usize + 1] = f64::from(start);
        springs.add_reads(known);
        if known.has_sessions() {
            springs.add_sessions(known, &mut places);
        }
        (springs, places)
    }

    fn add_reads(&mut self, known: &KnownGraph<'_>) {
        let problem = known.problem;
        for (number, read) in (0..).zip(&problem.reads) {
            let Some(version) = problem.seen(number) else { continue };
            let writer = problem.versions[version as usize].txn;
            let from = if writer == INITIAL { self.start } else { writer };
            let length = self.start as f32 / problem.item_versions(read.item).len() as f32;
            self.all.push(Spring { from, to: read.txn, length });
        }
    }

    /// Sessions of more than one transaction.
    fn add_sessions(&mut self, known: &KnownGraph<'_>, places: &mut [f64]) {
        let problem = known.problem;
        let session = |txn: &u32| problem.history.session_of(problem.txns[*txn as usize]);
        let txns: Vec<u32> = (0..self.start).collect();
        for txns in txns.chunk_by(|a, b| session(a) == session(b)).filter(|txns| txns.len() > 1) {
            let length = self.start as f32 / txns.len() as f32;
            let mut from = self.start;
            for (&to, number) in txns.iter().zip(0_u32..) {
                places[to as usize] = (f64::from(number) + 0.5) * f64::from(length);
                self.all.push(Spring { from, to, length });
                from = to;
            }
            self.all.push(Spring { from, to: self.start + 1, length });
        }
    }

    /// Moves everything to where it comes to rest.
    fn relax(&self, places: &mut [f64]) {
        let mut stiffness = vec![0.0; places.len()];
        for spring in &self.all {
            stiffness[spring.from as usize] += spring.stiffness();
            stiffness[spring.to as usize] += spring.stiffness();
        }
        let ease =
            |force: f64, point: usize| if stiffness[point] > 0.0 { force / stiffness[point] } else { 0.0 };
        let size = |forces: &[f64]| forces.iter().enumerate().map(|(i, &f)| f * ease(f, i)).sum::<f64>();
        let (mut forces, mut change) = (vec![0.0; places.len()], vec![0.0; places.len()]);
        self.pull(places, 1.0, &mut forces);
        let mut way: Vec<f64> = forces.iter().enumerate().map(|(i, &f)| ease(f, i)).collect();
        let mut left = size(&forces);
        let enough = left * TOLERANCE * TOLERANCE;
        for _ in 0..STEPS.min(VISITS / self.all.len().max(1)) {
            self.pull(&way, 0.0, &mut change);
            let step = -left / way.iter().zip(&change).map(|(w, c)| w * c).sum::<f64>();
            if left <= enough || !step.is_finite() {
                return;
            }
            for point in 0..places.len() {
                places[point] += step * way[point];
                forces[point] += step * change[point];
            }
            let before = std::mem::replace(&mut left, size(&forces));
            for (point, way) in way.iter_mut().enumerate() {
                *way = ease(forces[point], point) + left / before * *way;
            }
        }
    }

    /// What pulls at each point, if springs have so much of their lengths. The start and the end do
    /// not move.
    fn pull(&self, places: &[f64], lengths: f64, forces: &mut [f64]) {
        forces.fill(0.0);
        for spring in &self.all {
            let (from, to) = (spring.from as usize, spring.to as usize);
            let force = (places[to] - places[from] - lengths * f64::from(spring.length)) * spring.stiffness();
            forces[from] += force;
            forces[to] -= force;
        }
        forces[self.start as usize..].fill(0.0);
    }

    /// Moves the parts that are not joined to the start behind it, one after the other.
    fn put_apart(&self, places: &mut [f64]) {
        let parts = self.parts();
        let mut spans = vec![(f64::INFINITY, f64::NEG_INFINITY); places.len()];
        for (&part, &place) in parts.iter().zip(&*places) {
            let (low, high) = spans[part as usize];
            spans[part as usize] = (low.min(place), high.max(place));
        }
        let first = parts[self.start as usize] as usize;
        let mut end = spans[first].1;
        let mut shifts = vec![0.0; places.len()];
        for (part, &(low, high)) in spans.iter().enumerate().filter(|&(part, _)| part != first) {
            if low <= high {
                shifts[part] = end + 1.0 - low;
                end += 1.0 + high - low;
            }
        }
        places.iter_mut().zip(&parts).for_each(|(place, &part)| *place += shifts[part as usize]);
    }

    /// The part of each point.
    fn parts(&self) -> Vec<u32> {
        let mut parts: Vec<u32> = (0..self.start + 2).collect();
        for spring in &self.all {
            let (one, other) = (root(&mut parts, spring.from), root(&mut parts, spring.to));
            parts[one.max(other) as usize] = one.min(other);
        }
        (0..self.start + 2).map(|point| root(&mut parts, point)).collect()
    }
}

/// The number of a point's part.
fn root(parts: &mut [u32], mut point: u32) -> u32 {
    while parts[point as usize] != point {
        parts[point as usize] = parts[parts[point as usize] as usize];
        point = parts[point as usize];
    }
    point
}

#[cfg(test)]
mod tests {
    use margay_history::{Access, HistoryBuilder, ObjectId, OpDetail, OpKind};
    use margay_levels::Level;
    use margay_verdict::{Budget, Question};

    use super::*;
    use crate::points;
    use crate::prepare::prepare;
    use crate::problem::Problem;

    /// Each transaction increments one of two counters, in sessions whose numbers tell nothing: the
    /// places of those that change one counter are in the order in which they did.
    #[test]
    fn increments_are_in_their_order() {
        let mut builder = HistoryBuilder::new();
        for key in 0..2 {
            let (key, zero) = (builder.values().int(key), builder.values().int(0));
            let object = builder.object(None, key);
            builder.initial(object, zero).expect("each key once");
        }
        for txn in 0..200_u64 {
            let session = txn.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            for (kind, value) in [(OpKind::Read, txn / 2), (OpKind::Write, txn / 2 + 1)] {
                let value = builder.values().int(value.cast_signed());
                let accesses = [Access { object: ObjectId(txn as u32 % 2), value }];
                builder.push(session, txn, None, kind, &accesses, OpDetail::None).expect("an operation");
            }
            builder.push(session, txn, None, OpKind::Commit, &[], OpDetail::None).expect("an operation");
        }
        let history = builder.finish().expect("a history");
        let (question, budget) = (Question::new(Level::Serializable), Budget::unlimited());
        let Ok(draft) = prepare(&history, question, &budget) else { panic!("a draft") };
        let problem = Problem::new(&history, question, &draft, &budget).expect("no limits");
        let found = places(&KnownGraph::new(&problem, points::of(question.level), true));
        for counter in 0..2 {
            let mut txns: Vec<(u64, f64)> = problem
                .txns
                .iter()
                .zip(&found)
                .map(|(&txn, &place)| (history.txn_label(txn), place))
                .collect();
            txns.retain(|(label, _)| label % 2 == counter);
            txns.sort_unstable_by_key(|&(label, _)| label);
            assert!(txns.is_sorted_by(|a, b| a.1 < b.1), "{txns:?}");
        }
    }
}
