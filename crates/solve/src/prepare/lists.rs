//! What reads of lists say.
//!
//! # Algorithm
//! A read of a list shows a version: that of whoever appended its last element. The longest read of
//! a list is the order of its elements, all others must be the beginning of it, and whatever nobody
//! saw comes after it.

use hashbrown::{HashMap, HashSet};
use margay_history::{Access, History, ObjectId, OpId, Outcome, TxnId, Value, ValueId, Version};
use margay_levels::Anomaly;

use super::{Own, Walk};
use crate::problem::{Fact, is_nothing};

impl Walk<'_, '_> {
    /// A read of a list: what the transaction appended itself stands at the end; the rest is a
    /// version that somebody else made.
    pub(super) fn read_list(&mut self, txn: TxnId, op: OpId, access: Access) {
        let Access { object, value } = access;
        let Some(elements) = elements(self.history, value) else {
            return self.find(Anomaly::GarbageRead, txn, vec![op]);
        };
        let mut sorted = elements.to_vec();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return self.find(Anomaly::DuplicateElements, txn, vec![op]);
        }
        let own: &[ValueId] = match self.own(object) {
            Some(Own::Appended(own)) => own,
            _ => &[],
        };
        let Some(seen) = elements.strip_suffix(own) else {
            return self.find(Anomaly::Internal, txn, vec![op]);
        };
        let first = self.draft.candidates.len() as u32;
        let committed = self.history.outcome(txn) == Outcome::Committed;
        let shown = committed && !own.is_empty();
        let anomaly = match self.list_version(txn, object, seen) {
            // What stands before its own elements was seen; where version orders are all that
            // counts, the list itself shows what they came after.
            Ok(version) if self.own_reads && !own.is_empty() => {
                self.draft.candidates.push(version);
                self.finish_read(txn, op, object, first);
                None
            }
            Ok(_) | Err(Anomaly::G1b) if shown => None,
            Ok(_) if self.overlap && !own.is_empty() => None,
            Ok(version) => {
                self.draft.candidates.push(version);
                self.finish_read(txn, op, object, first);
                None
            }
            Err(anomaly) => Some(anomaly),
        };
        if anomaly.is_none() {
            let writers = elements.iter().filter_map(|&value| self.writers.appender(object, value));
            let unknown = writers.filter(|&w| w != txn && self.history.outcome(w) == Outcome::Unknown);
            self.draft.needs.extend(unknown.map(|writer| (txn, writer)));
        }
        match anomaly {
            Some(anomaly) => self.find(anomaly, txn, vec![op]),
            None if committed && !elements.is_empty() => self.longest.push((object, op, value)),
            None if !elements.is_empty() => self.uncertain.push((object, op, value)),
            _ => {}
        }
    }

    /// Which version of a list these elements are.
    fn list_version(&self, txn: TxnId, object: ObjectId, seen: &[ValueId]) -> Result<Version, Anomaly> {
        let initial = elements(self.history, self.history.initial(object)).unwrap_or(&[]);
        let Some(rest) = seen.strip_prefix(initial) else {
            return Err(Anomaly::G1b);
        };
        let writers = rest.iter().map(|&value| self.writers.appender(object, value));
        let Some(writers) = writers.collect::<Option<Vec<TxnId>>>() else {
            return Err(Anomaly::GarbageRead);
        };
        if !writers.iter().all(|&writer| self.writers.may_commit(writer)) {
            return Err(Anomaly::G1a);
        }
        if self.is_misordered(object, rest, &writers) {
            return Err(Anomaly::IncompatibleOrder);
        }
        let Some(&writer) = writers.last() else { return Ok(Version::Initial) };
        match rest.ends_with(self.writers.appended(object, writer)) {
            true if writer != txn => Ok(Version::Of(writer)),
            _ if writers.contains(&txn) => Err(Anomaly::FutureRead),
            _ => Err(Anomaly::G1b),
        }
    }

    /// Whether two elements of one transaction stand in another order than it appended them.
    fn is_misordered(&self, object: ObjectId, elements: &[ValueId], writers: &[TxnId]) -> bool {
        let mut next: HashMap<TxnId, usize> = HashMap::new();
        elements.iter().zip(writers).any(|(element, &writer)| {
            let place = self.writers.appended(object, writer).iter().position(|value| value == element);
            let last = next.insert(writer, place.unwrap_or(0));
            last.is_some_and(|last| place < Some(last))
        })
    }

    /// Two reads of one list by committed transactions must agree; the longest then tells the
    /// version order.
    pub(super) fn lists(&mut self) {
        let mut reads = std::mem::take(&mut self.longest);
        let mut certain: HashMap<ObjectId, &[ValueId]> = HashMap::new();
        let length = |value| elements(self.history, value).map_or(0, <[ValueId]>::len);
        reads.sort_by_key(|&(object, op, value)| (object, std::cmp::Reverse(length(value)), op));
        for reads in reads.chunk_by(|a, b| a.0 == b.0) {
            let (object, op, value) = reads[0];
            let longest = elements(self.history, value).unwrap_or(&[]);
            let odd = reads
                .iter()
                .find(|&&(_, _, v)| !elements(self.history, v).is_some_and(|e| longest.starts_with(e)));
            match odd {
                Some(&(_, other, _)) => {
                    self.find(Anomaly::IncompatibleOrder, self.history.txn_of(op), vec![op, other])
                }
                None => {
                    self.list_order(object, self.history.txn_of(op), longest);
                    certain.insert(object, longest);
                }
            }
        }
        self.uncertain_lists(&certain);
    }

    /// What transactions of unknown outcome read counts if they committed. Who saw something else
    /// than what is certain did not.
    fn uncertain_lists(&mut self, certain: &HashMap<ObjectId, &[ValueId]>) {
        for (object, op, value) in std::mem::take(&mut self.uncertain) {
            let seen = elements(self.history, value).unwrap_or(&[]);
            let longest = certain.get(&object).copied().unwrap_or(&[]);
            let reader = self.history.txn_of(op);
            match (longest.starts_with(seen), seen.starts_with(longest)) {
                (true, _) => {}
                (false, true) => self.list_order(object, reader, seen),
                (false, false) => self.draft.impossible.push(reader),
            }
        }
    }

    fn list_order(&mut self, object: ObjectId, reader: TxnId, longest: &[ValueId]) {
        let mut order: Vec<Version> = vec![Version::Initial];
        for &value in longest {
            if let Some(writer) = self.writers.appender(object, value)
                && order.last() != Some(&Version::Of(writer))
            {
                order.push(Version::Of(writer));
            }
        }
        let last = order[order.len() - 1];
        let seen: HashSet<ValueId> = longest.iter().copied().collect();
        let unseen =
            |&txn: &TxnId| self.writers.appended(object, txn).iter().any(|value| !seen.contains(value));
        let later =
            self.writers.appenders(object).filter(unseen).map(Version::Of).filter(|&later| later != last);
        let (item, source) = (object.into(), Some(reader));
        let after: Vec<_> = later.map(|later| Fact { item, first: last, second: later, source }).collect();
        let inside = order.windows(2).map(|pair| Fact { item, first: pair[0], second: pair[1], source });
        self.draft.facts.extend(inside.chain(after));
    }
}

/// The elements of a list; nothing at all is an empty list.
fn elements(history: &History, value: ValueId) -> Option<&[ValueId]> {
    match history.value(value) {
        Value::List(elements) => Some(elements),
        _ if is_nothing(history, value) => Some(&[]),
        _ => None,
    }
}
