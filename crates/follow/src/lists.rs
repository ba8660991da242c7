//! What a list that was seen teaches about the order of its appends.
//!
//! # Algorithm
//! A list shows its whole past. At the first place where the list differs from what a transaction
//! saw of it, the element that was seen there was appended before the one that is there now,
//! however long ago that was: its writer is better taken first.

use margay_history::{ObjectId, OpKind, Value, ValueId};

use crate::repair::Lesson;
use crate::search::Search;

impl Search<'_> {
    /// Which appends to a list have to change places so that the transaction agrees with it.
    pub(crate) fn relist(&self, place: u32, object: ObjectId) -> Option<Lesson> {
        let seen = self.seen_list(place, object)?;
        let now = self.world().cell(object).elements(self.world().history())?;
        let at = seen.iter().zip(now).position(|(seen, now)| seen != now)?;
        let (step, late) = self.appender(object, at)?;
        if let Some(other) = now.iter().position(|element| *element == seen[at]) {
            let (_, first) = self.appender(object, other)?;
            return (first != late).then(|| (vec![(first, late)], step));
        }
        let appends = |&place: &u32| self.appends(place, object, seen[at]);
        if let Some(first) = self.window().iter().copied().find(appends) {
            return Some((vec![(first, late)], step));
        }
        let (first, until) = self.left_out(object).into_iter().find(|left_out| appends(&left_out.0))?;
        let step = self.agreed_before(first, until.min(step))?;
        Some((vec![(first, self.steps().get(step)?.place)], step))
    }

    /// What a transaction saw of a list before it appended to it.
    fn seen_list(&self, place: u32, object: ObjectId) -> Option<&[ValueId]> {
        let history = self.world().history();
        let ops = history.ops(self.calendar().txns[place as usize]);
        let of_object =
            |op: &margay_history::Op<'_>| op.accesses.iter().any(|access| access.object == object);
        let first = ops.into_iter().find(of_object).filter(|op| op.kind == OpKind::Read)?;
        let access = first.accesses.iter().find(|access| access.object == object)?;
        match history.value(access.value) {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    /// The step that appended the element at a place of the list, and by whom.
    fn appender(&self, object: ObjectId, at: usize) -> Option<(usize, u32)> {
        let history = self.world().history();
        let length = |step: u32| {
            let before = self.before(step, object);
            before.map_or(0, |cell| cell.elements(history).map_or(0, <[ValueId]>::len))
        };
        let writers = self.writers(object);
        let step = writers[writers.partition_point(|&step| length(step) <= at).checked_sub(1)?] as usize;
        Some((step, self.steps()[step].place))
    }

    fn appends(&self, place: u32, object: ObjectId, element: ValueId) -> bool {
        let ops = self.world().history().ops(self.calendar().txns[place as usize]);
        let mut appends = ops.filter(|op| op.kind == OpKind::Append).flat_map(|op| op.accesses);
        appends.any(|access| access.object == object && access.value == element)
    }
}
