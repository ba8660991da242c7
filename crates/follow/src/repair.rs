//! What a dead end teaches about the order.
//!
//! # Problem
//! Two writers of one object were taken in the wrong order, and nobody reads the object until long afterwards. Going back step by step would try everything
//! in between first.
//!
//! # Algorithm
//! Take a transaction that cannot be taken, and each object that is against it. One of these would make it agree with the object:
//! 1. to be taken before the last writers of the object, together with everything that has to come before it;
//! 2. another order of these writers: one of them moved behind the others, or the last one moved to the front;
//! 3. a write of unknown outcome that was left out, because a later transaction of its session came first, or because something else changed what it saw.
//!
//! The search goes back to the first step that this concerns, and prefers that order from then on.
//!
//! # Invariants
//! This is only advice: it changes what is tried first. Each piece of advice is followed a few times at most, so the search ends.

use margay_history::ObjectId;
use margay_verdict::Cell;

use crate::candidate::Candidate;
use crate::search::Search;

/// How many writers of an object, or transactions that were left out, are looked at.
const WRITERS: usize = 8;

/// How many objects that are against a transaction are looked at.
const OBJECTS: usize = 32;

/// Prefer the first before the second.
pub(crate) type Advice = (u32, u32);

/// Some advice, and the step at which to start again.
pub(crate) type Lesson = (Vec<Advice>, usize);

impl Search<'_> {
    /// Advice that was not followed in vain before.
    pub(crate) fn learn(&self, blocked: &[u32]) -> Option<Lesson> {
        blocked.iter().find_map(|&place| self.lesson(place))
    }

    fn lesson(&self, place: u32) -> Option<Lesson> {
        let candidate = self.candidate(place);
        if candidate.strands.sums {
            return None;
        }
        let is_new = |lesson: &Lesson| lesson.0.iter().any(|&pair| self.is_open(pair));
        let lessons = candidate.against.iter().take(OBJECTS).filter_map(|&object| {
            let earlier = self.earlier(place, object).filter(is_new);
            let reorder = || self.reorder(place, object).filter(is_new);
            let revive = || self.revive(place, object).filter(is_new);
            let late = || self.late(place, object).filter(is_new);
            earlier.or_else(reorder).or_else(revive).or_else(late)
        });
        lessons.reduce(|(mut all, step), (more, other)| {
            all.extend(more);
            (all, step.min(other))
        })
    }

    /// Before which of the last writers the transaction agreed with the object.
    fn earlier(&self, place: u32, object: ObjectId) -> Option<Lesson> {
        let candidate = self.candidate(place);
        let mut late = Vec::new();
        for &step in self.writers(object).iter().rev().take(WRITERS) {
            let writer = self.steps()[step as usize].place;
            if self.calendar().precedes(writer, place) {
                return None;
            }
            late.push(writer);
            if candidate.fits(self.world(), object, self.before(step, object)?) {
                let needed = self.steps()[step as usize..].iter().map(|step| step.place);
                let needed = needed.filter(|&other| self.calendar().precedes(other, place));
                let first: Vec<u32> = needed.chain([place]).collect();
                let pairs = late.iter().flat_map(|&writer| first.iter().map(move |&first| (first, writer)));
                let advice: Vec<Advice> = pairs.filter(|pair| pair.0 != pair.1).collect();
                let possible = !advice.iter().any(|&(first, later)| self.calendar().precedes(later, first));
                return possible.then_some((advice, step as usize));
            }
        }
        None
    }

    /// Which transaction of unknown outcome would have made the transaction agree with the object.
    fn revive(&self, place: u32, object: ObjectId) -> Option<Lesson> {
        let candidate = self.candidate(place);
        self.closed().iter().rev().take(WRITERS * WRITERS).find_map(|&(left_out, step)| {
            let made = self.outcome_since(left_out, step as usize, object)?;
            let helps = candidate.fits(self.world(), object, &made);
            helps.then(|| (vec![(left_out, self.steps()[step as usize].place)], step as usize))
        })
    }

    /// Which transaction of unknown outcome would make the transaction agree with the object, had it been taken while it agreed itself.
    fn late(&self, place: u32, object: ObjectId) -> Option<Lesson> {
        let candidate = self.candidate(place);
        let writers = self.possible_writers(object).filter(|&other| self.prepared(other).is_some());
        writers.take(WRITERS * WRITERS).find_map(|other| {
            let lesson = self.candidate(other).against.iter().find_map(|&own| self.earlier(other, own))?;
            let made = self.outcome_since(other, lesson.1, object)?;
            candidate.fits(self.world(), object, &made).then_some(lesson)
        })
    }

    /// What an object holds now if a transaction had taken effect before a step, and those that wrote it since after that.
    fn outcome_since(&self, place: u32, step: usize, object: ObjectId) -> Option<Cell> {
        let writers = self.writers(object);
        let since = &writers[writers.partition_point(|&writer| (writer as usize) < step)..];
        if since.len() > WRITERS {
            return None;
        }
        let start = match since.first() {
            Some(&first) => self.before(first, object)?,
            None => self.world().cell(object),
        };
        let later = since.iter().map(|&writer| self.steps()[writer as usize].place);
        let places: Vec<u32> = std::iter::once(place).chain(later).collect();
        self.outcome(&places, object, start)
    }

    /// An order of the last writers of an object after which the transaction agrees with it.
    fn reorder(&self, place: u32, object: ObjectId) -> Option<Lesson> {
        let candidate = self.candidate(place);
        let all = self.writers(object);
        let writers = &all[all.len().saturating_sub(WRITERS)..];
        if writers.len() < 2 {
            return None;
        }
        let last = writers.len() - 1;
        (0..last).rev().find_map(|from| {
            let start = self.before(writers[from], object)?;
            let behind: Vec<usize> = (from + 1..=last).chain([from]).collect();
            let ahead: Vec<usize> = std::iter::once(last).chain(from..last).collect();
            [behind, ahead].into_iter().find_map(|order| {
                let places: Vec<u32> =
                    order.iter().map(|&i| self.steps()[writers[i] as usize].place).collect();
                let fits = self.may_follow(&places)
                    && self
                        .outcome(&places, object, start)
                        .is_some_and(|c| candidate.fits(self.world(), object, &c));
                fits.then(|| (advice(&places, order[0] == last), writers[from] as usize))
            })
        })
    }

    /// What an object held before a step that wrote it.
    fn before(&self, step: u32, object: ObjectId) -> Option<&Cell> {
        let replaced = &self.steps()[step as usize].replaced;
        replaced.iter().find(|made| made.0 == object).map(|made| &made.1)
    }

    fn may_follow(&self, places: &[u32]) -> bool {
        let late = |(i, &place): (usize, &u32)| {
            places[..i].iter().any(|&earlier| self.calendar().precedes(place, earlier))
        };
        !places.iter().enumerate().any(late)
    }

    /// What an object holds after these, if they agree with it.
    fn outcome(&self, places: &[u32], object: ObjectId, start: &Cell) -> Option<Cell> {
        places.iter().try_fold(start.clone(), |cell, &place| {
            let fresh;
            let candidate = match self.prepared(place) {
                Some(candidate) => candidate,
                None => {
                    fresh = Candidate::new(self.world(), self.calendar().txns[place as usize]);
                    &fresh
                }
            };
            candidate.after(self.world(), object, cell)
        })
    }
}

/// What puts the moved one at its end of the others.
fn advice(places: &[u32], to_front: bool) -> Vec<Advice> {
    match (to_front, places) {
        (true, [first, others @ ..]) => others.iter().map(|&other| (*first, other)).collect(),
        (false, [others @ .., last]) => others.iter().map(|&other| (other, *last)).collect(),
        _ => Vec::new(),
    }
}
