//! Lists show the order of their versions.
//!
//! # Problem
//! A list that is only appended to shows, to whoever reads it, who wrote before whom [Elle §4.2.2].
//!
//! # Algorithm
//! The longest read of a list gives the order of its elements, and so of their writers. Every other
//! read is the beginning of it, or the two contradict each other. A read that ends with the last
//! element of a transaction saw that transaction's version; the next element tells who overwrote
//! it. What was appended and never seen comes after all that was.
//!
//! # Differs from the paper
//! Elements of unknown transactions that were seen count. A transaction whose elements stand apart,
//! or of which only the first were seen before another's, wrote both before and after the other:
//! that is a cycle of writes.
//!
//! # Cost
//! Linear in the lists that were read; equal lists of one object are looked at once.

use hashbrown::{HashMap, HashSet};
use margay_history::{ObjectId, TxnId, Value, ValueId, Version};
use margay_levels::Anomaly;
use margay_levels::definition::Family;
use margay_verdict::{Budget, Exhausted};

use crate::case::{Case, FINDINGS_KEPT, ListRead, Local, Next, Read, unexplained};
use crate::index::{Append, Index, initial_items};

/// Adds what the reads of lists show.
///
/// # Errors
/// The limit that was reached.
pub(crate) fn infer(
    case: &mut Case<'_>,
    index: &Index,
    mut reads: Vec<ListRead>,
    local: &mut Vec<Local>,
    budget: &Budget,
) -> Result<(), Exhausted> {
    reads.sort_unstable_by_key(|read| (read.object, read.op));
    for reads in reads.chunk_by(|a, b| a.object == b.object) {
        budget.poll()?;
        let object = reads[0].object;
        let initial = initial_items(case.history, object);
        let length = |read: &&ListRead| items(case, initial, read.value).map_or(0, <[_]>::len);
        let Some(longest) = reads.iter().max_by_key(length).copied() else { continue };
        let mut list = List {
            case: &mut *case,
            index,
            object,
            initial,
            longest,
            local: &mut *local,
            firsts: HashMap::new(),
            fine: HashMap::new(),
        };
        list.order();
        for read in reads {
            budget.poll()?;
            list.read(read);
        }
    }
    Ok(())
}

/// What was appended to what the list had at first; nothing if the value does not begin with that.
fn items<'h>(case: &Case<'h>, initial: &[ValueId], value: ValueId) -> Option<&'h [ValueId]> {
    match case.history.value(value) {
        Value::List(items) => items.strip_prefix(initial),
        Value::Null if initial.is_empty() => Some(&[]),
        _ => None,
    }
}

struct List<'a, 'h> {
    case: &'a mut Case<'h>,
    index: &'a Index,
    object: ObjectId,
    /// What the list has at first.
    initial: &'h [ValueId],
    longest: ListRead,
    local: &'a mut Vec<Local>,
    /// Where each transaction's elements begin in the longest.
    firsts: HashMap<TxnId, usize>,
    /// Whether a value is the beginning of the longest, and its elements stand as they may.
    fine: HashMap<ValueId, bool>,
}

impl<'h> List<'_, 'h> {
    fn items(&self, value: ValueId) -> &'h [ValueId] {
        items(self.case, self.initial, value).unwrap_or_default()
    }

    fn appender(&self, element: ValueId) -> Option<TxnId> {
        self.index.appender(self.object, element).map(|append| append.txn)
    }

    /// The order of versions that the longest read shows.
    fn order(&mut self) {
        let elements = self.items(self.longest.value);
        let mut order: Vec<TxnId> = Vec::new();
        let mut met = HashSet::new();
        let mut seen: HashMap<TxnId, u32> = HashMap::new();
        for (place, &element) in elements.iter().enumerate() {
            let Some(txn) = self.appender(element).filter(|&txn| self.case.has(txn)) else { continue };
            self.firsts.entry(txn).or_insert(place);
            *seen.entry(txn).or_default() += 1;
            if order.last() != Some(&txn) {
                order.push(txn);
            }
        }
        order.windows(2).for_each(|pair| self.case.pairs.push((self.object, pair[0], pair[1])));
        // What a transaction appended and nobody saw comes after what somebody saw.
        for pair in order.windows(2) {
            if seen[&pair[0]] < self.index.appended(self.object, pair[0]) {
                self.case.pairs.push((self.object, pair[1], pair[0]));
            }
        }
        order.retain(|&txn| met.insert(txn));
        self.case.writers.settle(self.object, &order);
        if let Some(&last) = order.last() {
            let rest = self.case.writers.rest(self.object).to_vec();
            self.case.pairs.extend(rest.into_iter().map(|txn| (self.object, last, txn)));
        }
    }

    fn read(&mut self, read: &ListRead) {
        if items(self.case, self.initial, read.value).is_none() {
            let names = [
                Anomaly::GarbageRead,
                Anomaly::G1b,
                Anomaly::Internal,
                Anomaly::IncompatibleOrder,
                Anomaly::ResultMismatch,
            ];
            return self.unexplained(read, &names);
        }
        let fine = match self.fine.get(&read.value) {
            Some(&fine) => fine,
            None => {
                let fine = self.examine(read);
                self.fine.insert(read.value, fine);
                fine
            }
        };
        if read.own > 0 {
            self.internal(read);
        } else if !self.shows_own_future(read, fine) {
            self.external(read, fine);
        }
    }

    fn unexplained(&mut self, read: &ListRead, names: &[Anomaly]) {
        unexplained(self.case.history, self.local, &mut self.case.open, read.txn, read.op, names);
    }

    /// What is wrong with a list whoever reads it.
    fn examine(&mut self, read: &ListRead) -> bool {
        let (elements, longest) = (self.items(read.value), self.items(self.longest.value));
        let prefix = longest.starts_with(elements);
        if prefix && read.value != self.longest.value && self.fine.get(&self.longest.value) == Some(&true) {
            return true;
        }
        let before = self.local.len();
        let appends: Vec<_> = elements.iter().map(|&e| self.index.appender(self.object, e)).collect();
        let distinct: HashSet<ValueId> = elements.iter().copied().collect();
        if distinct.len() < elements.len() {
            self.unexplained(read, &[Anomaly::DuplicateElements]);
        }
        if appends.iter().any(Option::is_none) {
            self.unexplained(read, &[Anomaly::GarbageRead]);
        }
        let aborted = |txn: TxnId| !self.case.has(txn);
        if let Some(first) = appends.iter().position(|a| a.is_some_and(|a| aborted(a.txn))) {
            let covered = appends[first..].iter().any(|a| a.is_some_and(|a| self.case.has(a.txn)));
            self.unexplained(read, &[Anomaly::G1a]);
            if covered {
                self.unexplained(read, &[Anomaly::DirtyUpdate]);
            }
        }
        let mut last: HashMap<TxnId, u32> = HashMap::new();
        let misordered = appends
            .iter()
            .flatten()
            .any(|append| last.insert(append.txn, append.place).is_some_and(|before| before > append.place));
        if misordered {
            self.unexplained(read, &[Anomaly::IncompatibleOrder]);
        } else if !prefix {
            self.local
                .push(Local { names: vec![Anomaly::IncompatibleOrder], ops: vec![read.op, self.longest.op] });
        }
        self.local.len() == before
    }

    /// After its own appends a transaction sees them at the end. What stands before them it saw,
    /// too: where more than the version order counts, that is a read.
    fn internal(&mut self, read: &ListRead) {
        let elements = self.items(read.value);
        if !self.ends_with(elements, read.txn, read.own as usize) {
            self.unexplained(read, &[Anomaly::Internal]);
            let future = |append: Append| append.txn == read.txn && append.place >= read.own;
            let appends = elements.iter().filter_map(|&e| self.index.appender(self.object, e));
            if appends.into_iter().any(future) {
                self.unexplained(read, &[Anomaly::FutureRead]);
            }
            return;
        }
        let counts = matches!(self.case.question.level.family(), Family::CommitOrder(_));
        let before = &elements[..elements.len() - read.own as usize];
        let last = before.last().and_then(|&last| self.appender(last));
        if let Some(from) = last.filter(|&txn| counts && txn != read.txn && self.case.has(txn)) {
            let (txn, op, object, from) = (read.txn, read.op, self.object, Version::Of(from));
            self.case.reads.push(Read { txn, op, object, from, next: Next::Nothing });
        }
    }

    /// Whether the last elements are the first so many that a transaction appended.
    fn ends_with(&self, elements: &[ValueId], txn: TxnId, count: usize) -> bool {
        let Some(start) = elements.len().checked_sub(count) else { return false };
        let appends = elements[start..].iter().map(|&element| self.index.appender(self.object, element));
        let mut placed = appends.enumerate();
        placed.all(|(i, append)| append.is_some_and(|a| a.txn == txn && a.place as usize == i))
    }

    fn shows_own_future(&mut self, read: &ListRead, fine: bool) -> bool {
        let elements = self.items(read.value);
        let own = match fine {
            true => self.firsts.get(&read.txn).is_some_and(|&first| first < elements.len()),
            false => elements.iter().any(|&element| self.appender(element) == Some(read.txn)),
        };
        if own {
            self.unexplained(read, &[Anomaly::FutureRead]);
        }
        own
    }

    fn external(&mut self, read: &ListRead, fine: bool) {
        let (elements, longest) = (self.items(read.value), self.items(self.longest.value));
        let append = elements.last().and_then(|&last| self.index.appender(self.object, last));
        let from = match append {
            None if elements.is_empty() => Version::Initial,
            Some(append) if self.case.has(append.txn) => {
                let whole = self.index.appended(self.object, append.txn);
                if append.place + 1 < whole || !self.ends_with(elements, append.txn, whole as usize) {
                    self.unexplained(read, &[Anomaly::G1b, Anomaly::ResultMismatch]);
                }
                Version::Of(append.txn)
            }
            _ => return,
        };
        let prefix = fine || longest.starts_with(elements);
        let follows = longest[elements.len().min(longest.len())..].iter();
        let next =
            follows.filter_map(|&e| self.appender(e)).find(|&t| Version::Of(t) != from && self.case.has(t));
        let next = match next {
            _ if !prefix => Next::Nothing,
            Some(txn) => Next::Txn(txn),
            None => Next::Rest,
        };
        self.case.reads.push(Read { txn: read.txn, op: read.op, object: self.object, from, next });
    }
}

/// No more than a few of one name.
pub(crate) fn few(local: Vec<Local>) -> Vec<Local> {
    let mut counts: HashMap<Anomaly, usize> = HashMap::new();
    local
        .into_iter()
        .filter(|local| {
            let count = counts.entry(local.names[0]).or_default();
            *count += 1;
            *count <= FINDINGS_KEPT
        })
        .collect()
}
