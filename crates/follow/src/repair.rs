//! What a dead end teaches about the order.
//!
//! # Problem
//! Two writers of one object were taken in the wrong order, and nobody reads the object until long
//! afterwards. Going back step by step would try everything in between first.
//!
//! # Algorithm
//! Take a transaction that cannot be taken, and each object that is against it. One of these would
//! make it agree with the object:
//! 1. to be taken before the last writers of the object, together with everything that has to come
//!    before it;
//! 2. another order of these writers: one of them moved, and the transaction behind all of them or
//!    before the last; Of a list, the appends that what was seen shows in another order
//!    ([`crate::lists`]);
//! 3. a write of unknown outcome that was left out, because a later transaction of its session came
//!    first, or because something else changed what it saw.
//!
//! One that agrees, but would overwrite what others have still to see, is taken before that was
//! written.
//!
//! The search goes back to the first step that this concerns, and prefers that order from then on.
//!
//! # Invariants
//! This is only advice: it changes what is tried first. Each piece of advice is followed a few
//! times at most, so the search ends.

use std::borrow::Cow;

use margay_history::ObjectId;
use margay_verdict::Cell;

use crate::candidate::Candidate;
use crate::search::Search;

/// How many writers of an object are looked at.
const WRITERS: usize = 8;

/// How many transactions that were left out are looked at, and at how many moments.
const LEFT_OUT: usize = 64;

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
        let candidate = self.prepared(place).filter(|candidate| !candidate.strands.sums)?;
        if let Some(object) = self.spoils(place) {
            return self.before_the_last(place, object).filter(|lesson| self.is_open(lesson.0[0]));
        }
        let is_new = |lesson: &Lesson| lesson.0.iter().any(|&pair| self.is_open(pair));
        let lessons = candidate.against.iter().take(OBJECTS).filter_map(|&object| {
            let ways = [Self::earlier, Self::relist, Self::reorder, Self::revive];
            let mut lessons = ways.iter().filter_map(|way| way(self, place, object)).filter(is_new);
            let first = lessons.next()?;
            // What contradicts an earlier lesson comes last: then the two would take turns.
            let agrees = |lesson: &Lesson| !lesson.0.iter().any(|&pair| self.is_contrary(pair));
            if agrees(&first) { Some(first) } else { lessons.find(agrees).or(Some(first)) }
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
            if candidate.fits(self.world(), object, self.before(step, object)?.as_ref()) {
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

    /// When a transaction that would overwrite what is still to be seen could have been taken
    /// before that was written.
    fn before_the_last(&self, place: u32, object: ObjectId) -> Option<Lesson> {
        let last = *self.writers(object).last()?;
        let writer = self.steps()[last as usize].place;
        if self.calendar().precedes(writer, place) {
            return None;
        }
        let step = self.agreed_before(place, last as usize)?;
        Some((vec![(place, writer)], step))
    }

    /// Which transaction of unknown outcome that was left out would have made the transaction agree
    /// with the object, and when.
    fn revive(&self, place: u32, object: ObjectId) -> Option<Lesson> {
        let candidate = self.candidate(place);
        // What too many have overwritten since is of no use.
        let writers = self.writers(object);
        let first = writers.len().checked_sub(WRITERS + 1).map_or(0, |last| writers[last] as usize + 1);
        let left_out = self.left_out(object).into_iter().filter(|&(_, until)| until >= first);
        left_out.take(LEFT_OUT).find_map(|(left_out, until)| {
            let step = self.agreed_before(left_out, until)?;
            let made = self.outcome_since(left_out, step, object)?;
            let helps = candidate.fits(self.world(), object, &made);
            let instead = self.steps().get(step)?.place;
            helps.then(|| (vec![(left_out, instead)], step))
        })
    }

    /// The last step up to this one before which a transaction agreed with everything.
    pub(crate) fn agreed_before(&self, place: u32, mut step: usize) -> Option<usize> {
        let fresh;
        let candidate = match self.prepared(place) {
            Some(candidate) => candidate,
            None => {
                fresh = self.fresh(place);
                &fresh
            }
        };
        if candidate.strands.sums {
            return None;
        }
        for _ in 0..LEFT_OUT {
            let mut objects = candidate.objects().iter();
            let against = objects.find(|&&o| !candidate.fits(self.world(), o, &self.cell_before(step, o)));
            let Some(&object) = against else { return Some(step) };
            let writers = self.writers(object);
            let last = writers.partition_point(|&writer| (writer as usize) < step).checked_sub(1)?;
            let earlier = writers[last] as usize;
            let mut between = self.steps()[earlier..step].iter();
            if between.any(|step| self.calendar().precedes(step.place, place)) {
                return None;
            }
            step = earlier;
        }
        None
    }

    /// What an object held before a step.
    fn cell_before(&self, step: usize, object: ObjectId) -> Cow<'_, Cell> {
        let writers = self.writers(object);
        let next = writers.get(writers.partition_point(|&writer| (writer as usize) < step));
        next.and_then(|&next| self.before(next, object))
            .unwrap_or_else(|| Cow::Borrowed(self.world().cell(object)))
    }

    /// What an object holds now if a transaction had taken effect before a step, and those that
    /// wrote it since after that.
    fn outcome_since(&self, place: u32, step: usize, object: ObjectId) -> Option<Cell> {
        let writers = self.writers(object);
        let since = &writers[writers.partition_point(|&writer| (writer as usize) < step)..];
        if since.len() > WRITERS {
            return None;
        }
        let start = self.cell_before(step, object);
        let later = since.iter().map(|&writer| self.steps()[writer as usize].place);
        let places: Vec<u32> = std::iter::once(place).chain(later).collect();
        self.outcome(&places, object, &start)
    }

    /// An order of the last writers of an object among which the transaction agrees with it: one of
    /// them moved behind some others, the latest first.
    fn reorder(&self, place: u32, object: ObjectId) -> Option<Lesson> {
        let all = self.writers(object);
        let writers = &all[all.len().saturating_sub(WRITERS)..];
        let places: Vec<u32> = writers.iter().map(|&step| self.steps()[step as usize].place).collect();
        (0..places.len()).rev().find_map(|from| {
            let start = self.before(writers[from], object)?;
            let tail = &places[from..];
            (1..tail.len()).find_map(|to| {
                let mut behind = tail.to_vec();
                behind[..=to].rotate_left(1);
                let mut ahead = tail.to_vec();
                ahead[..=to].rotate_right(1);
                let moved = |order: &[u32], pairs: Vec<Advice>| {
                    // Before the one that was moved, its move would not matter.
                    let at = self.room(place, object, order, &start).filter(|&at| at > to)?;
                    let late = order[at..].iter().map(|&writer| (place, writer));
                    Some((pairs.into_iter().chain(late).collect(), writers[from] as usize))
                };
                moved(&behind, tail[1..=to].iter().map(|&other| (other, tail[0])).collect())
                    .or_else(|| moved(&ahead, tail[..to].iter().map(|&other| (tail[to], other)).collect()))
            })
        })
    }

    /// After how many of these writers of an object the transaction agrees with it, the most first.
    fn room(&self, place: u32, object: ObjectId, order: &[u32], start: &Cell) -> Option<usize> {
        if !self.may_follow(order) {
            return None;
        }
        let is_free = |&at: &usize| order.get(at).is_none_or(|&late| !self.calendar().precedes(late, place));
        (0..=order.len()).rev().take_while(is_free).find(|&at| {
            let with: Vec<u32> = [&order[..at], &[place], &order[at..]].concat();
            self.outcome(&with, object, start).is_some()
        })
    }

    /// What an object held before a step that wrote it.
    pub(crate) fn before(&self, step: u32, object: ObjectId) -> Option<Cow<'_, Cell>> {
        self.steps()[step as usize].replaced.get(object)
    }

    fn may_follow(&self, places: &[u32]) -> bool {
        let late = |(i, &place): (usize, &u32)| {
            places[..i].iter().any(|&earlier| self.calendar().precedes(place, earlier))
        };
        !places.iter().enumerate().any(late)
    }

    /// What an object holds after these, if they agree with it.
    fn outcome(&self, places: &[u32], object: ObjectId, start: &Cell) -> Option<Cell> {
        places.iter().try_fold(start.clone(), |cell, &place| match self.prepared(place) {
            Some(candidate) => candidate.after(self.world(), object, cell),
            None => self.fresh(place).after(self.world(), object, cell),
        })
    }

    /// A transaction that is not prepared.
    fn fresh(&self, place: u32) -> Candidate {
        Candidate::new(self.world(), self.calendar().txns[place as usize])
    }
}
