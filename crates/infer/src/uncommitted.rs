//! `read-uncommitted`: some version order has no cycle of write dependencies.
//!
//! # Problem
//! Reads may show anything that somebody wrote, so they say nothing of version orders, with one
//! exception: a list shows the order of its elements. Reads of one list that contradict each other
//! tell nothing at this level.
//!
//! # Algorithm
//! Of each list the reads that are not the beginning of another are kept (mostly one); the writers
//! of neighbouring elements are joined. If that graph has no cycle, an order of its nodes gives all
//! version orders.
//!
//! # Cost
//! Linear, where the reads of a list do not contradict each other.

use hashbrown::{HashMap, HashSet};
use margay_history::{History, ObjectId, OpKind, Outcome, TxnId, Value, ValueId};
use margay_levels::Anomaly;

use crate::case::{Case, Local};
use crate::fragment::row;
use crate::index::{Index, Use, plain};

/// Makes the case of a history at this level: only what counts there.
pub(crate) fn restrict(case: &mut Case<'_>, index: &Index) {
    let history = case.history;
    case.reads.clear();
    case.pairs.clear();
    case.open = None;
    let committed = |txn: TxnId| history.outcome(txn) == Outcome::Committed;
    case.forget_unknown();
    let mut reads: HashMap<ObjectId, HashSet<ValueId>> = HashMap::new();
    let written = Written::new(history);
    case.local.clear();
    for op in history.txns().filter(|&t| committed(t)).flat_map(|t| history.ops(t)) {
        for access in op.accesses.iter().filter(|_| matches!(op.kind, OpKind::Read | OpKind::Scan)) {
            let is_list = index.uses[access.object.index()] == Use::List;
            if is_list {
                reads.entry(access.object).or_default().insert(access.value);
            }
            let lacks = access.value != ValueId::UNKNOWN && written.lacks(access.object, access.value);
            if lacks && row(history, access.value).is_some_and(|columns| columns.len() > 1) {
                case.open = Some("a row whose columns may be of several writes".to_string());
            } else if lacks {
                case.local.push(Local { names: vec![Anomaly::GarbageRead], ops: vec![op.id] });
            } else if is_list && repeats(history, access.value) {
                case.local.push(Local { names: vec![Anomaly::DuplicateElements], ops: vec![op.id] });
            }
        }
    }
    let mut lists: Vec<_> = reads.into_iter().collect();
    lists.sort_unstable_by_key(|list| list.0);
    for (object, values) in lists {
        for read in maximal(history, values) {
            let writers = read.iter().filter_map(|&e| index.appender(object, e)).map(|a| a.txn);
            let writers: Vec<TxnId> = writers.filter(|&t| committed(t)).collect();
            let pairs = writers.windows(2).filter(|pair| pair[0] != pair[1]);
            case.pairs.extend(pairs.map(|pair| (object, pair[0], pair[1])));
        }
    }
}

fn repeats(history: &History, value: ValueId) -> bool {
    let Value::List(items) = history.value(value) else { return false };
    items.iter().collect::<HashSet<_>>().len() < items.len()
}

/// The reads that are not the beginning of another; none if they contradict each other.
fn maximal(history: &History, values: HashSet<ValueId>) -> Vec<&[ValueId]> {
    let mut reads: Vec<&[ValueId]> = values
        .into_iter()
        .filter_map(|value| match history.value(value) {
            Value::List(items) => Some(items),
            _ => None,
        })
        .collect();
    reads.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
    let mut kept: Vec<&[ValueId]> = Vec::new();
    for read in reads {
        if !kept.iter().any(|longer| longer.starts_with(read)) {
            kept.push(read);
        }
    }
    if contradict(&kept) { Vec::new() } else { kept }
}

fn contradict(reads: &[&[ValueId]]) -> bool {
    let places: Vec<HashMap<ValueId, usize>> =
        reads.iter().map(|read| read.iter().enumerate().map(|(i, &e)| (e, i)).collect()).collect();
    let twice = places.iter().zip(reads).any(|(places, read)| places.len() < read.len());
    twice
        || places.iter().enumerate().any(|(i, theirs)| {
            let differs =
                |read: &&[ValueId]| !read.iter().filter_map(|element| theirs.get(element)).is_sorted();
            reads[i + 1..].iter().any(differs)
        })
}

/// What anybody wrote, whatever became of it.
struct Written<'h> {
    history: &'h History,
    values: HashSet<(ObjectId, ValueId)>,
    elements: HashSet<(ObjectId, ValueId)>,
}

impl<'h> Written<'h> {
    fn new(history: &'h History) -> Self {
        let mut written = Self { history, values: HashSet::new(), elements: HashSet::new() };
        for &(object, value) in history.initial_values() {
            written.add(object, value);
        }
        for op in history.txns().flat_map(|t| history.ops(t)).filter(|op| op.kind.writes()) {
            for access in op.accesses {
                match op.kind {
                    OpKind::Append => _ = written.elements.insert((access.object, access.value)),
                    _ => written.add(access.object, access.value),
                }
            }
        }
        written
    }

    fn add(&mut self, object: ObjectId, value: ValueId) {
        self.values.insert((object, plain(self.history, value)));
        if let Value::List(items) = self.history.value(value) {
            self.elements.extend(items.iter().map(|&item| (object, item)));
        }
    }

    /// Whether some of `value` was never written to the object.
    fn lacks(&self, object: ObjectId, value: ValueId) -> bool {
        match self.history.value(value) {
            Value::List(items) => items.iter().any(|&item| !self.elements.contains(&(object, item))),
            _ => {
                let initial = plain(self.history, self.history.initial(object)) == value;
                !initial && !self.values.contains(&(object, value))
            }
        }
    }
}
