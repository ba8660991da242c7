//! What `read-uncommitted` asks of a history.
//!
//! # Problem
//! Reads may show anything that somebody wrote, so they tell nothing of versions; but a list shows
//! in which order its elements were appended, evidence shows what it shows, and what nobody wrote,
//! or an element that is there more often than it was appended, is wrong at every level.
//!
//! # Algorithm
//! A draft without reads: writes, and what lists and evidence say of their order. The rest is
//! [`crate::weak`]'s. Who does not certainly commit is left out, for nothing asks for it.
//!
//! # Cost
//! Linear, but for the lists of which several reads are not the beginnings of one: these are
//! compared with each other.

use hashbrown::{HashMap, HashSet};
use margay_history::{History, NameId, ObjectId, Op, OpId, OpKind, Outcome, TxnId, Value, ValueId, Version};
use margay_levels::Anomaly;
use margay_verdict::cell::key_column;
use margay_verdict::{Certificate, Finding, Predicates, Why};

use crate::prepare::{Stop, add_evidence};
use crate::problem::{Draft, Fact, Item};

/// The draft, or what is wrong at every level.
pub(crate) fn draft(predicates: &Predicates<'_>) -> Result<Draft, Stop> {
    let history = predicates.history();
    let committed = || history.txns().filter(|&txn| history.outcome(txn) == Outcome::Committed);
    let hidden = |op: &Op<'_>| history.update(op.id).is_some_and(|update| !update.observed);
    if committed().flat_map(|txn| history.ops(txn)).any(|op| hidden(&op)) {
        return Err(Stop::Unknown(Why::Outside(
            "a predicate update whose affected rows were not recorded".to_string(),
        )));
    }
    let written = Written::of(predicates);
    if let Some((anomaly, op)) =
        committed().flat_map(|txn| history.ops(txn)).find_map(|op| written.wrong(&op))
    {
        let certificate = Certificate::Operations { anomaly, ops: vec![op] };
        return Err(Stop::Violated(vec![Finding { anomaly, txns: vec![history.txn_of(op)], certificate }]));
    }
    let mut draft = Draft { bold: true, ..Draft::default() };
    for txn in committed() {
        let writes = history.ops(txn).filter(|op| op.kind.writes()).flat_map(|op| op.accesses);
        let mut items: Vec<Item> = writes.map(|access| access.object.into()).collect();
        items.sort_unstable();
        items.dedup();
        draft.writes.extend(items.into_iter().map(|item| (txn, item)));
    }
    add_lists(history, &written, &mut draft);
    add_evidence(history, &mut draft);
    Ok(draft)
}

/// A piece of what an object may hold.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Piece {
    /// A value that is no row and no list, or that nothing is there.
    Whole(ValueId),
    Element(ValueId),
    Column(NameId, ValueId),
    /// A column that an update computed without showing the result; it may hold anything.
    Computed(NameId),
}

/// All that anybody wrote, whatever became of it.
struct Written<'p> {
    predicates: &'p Predicates<'p>,
    pieces: HashSet<(ObjectId, Piece)>,
    /// Objects with computed columns.
    computed: HashSet<ObjectId>,
    /// By table: whether statements wrote to it whose effects nobody saw.
    opaque: Vec<bool>,
    /// By list and element: how often it was appended, and by whom.
    appended: HashMap<(ObjectId, ValueId), (usize, TxnId)>,
    /// Objects that were written as a whole, or were there initially: of their lists appends do not
    /// tell all.
    replaced: HashSet<ObjectId>,
}

impl<'p> Written<'p> {
    fn of(predicates: &'p Predicates<'p>) -> Self {
        let history = predicates.history();
        let mut written = Self {
            predicates,
            pieces: HashSet::new(),
            computed: HashSet::new(),
            opaque: vec![false; history.tables().len()],
            appended: HashMap::new(),
            replaced: HashSet::new(),
        };
        history.objects().for_each(|object| written.add(object, history.initial(object)));
        for op in history.txns().flat_map(|txn| history.ops(txn)).filter(|op| op.kind.writes()) {
            written.add_op(&op);
        }
        written
    }

    fn add_op(&mut self, op: &Op<'_>) {
        let history = self.predicates.history();
        let update = history.update(op.id);
        if let Some(update) = update.filter(|update| !update.observed) {
            self.opaque[history.predicate(update.predicate).table.index()] = true;
        }
        for access in op.accesses {
            let (object, value) = (access.object, access.value);
            if op.kind == OpKind::Append {
                self.pieces.insert((object, Piece::Element(value)));
                self.appended.entry((object, value)).or_insert((0, history.txn_of(op.id))).0 += 1;
                continue;
            }
            self.replaced.insert(object);
            self.add(object, value);
            if let Some(set) = update.and_then(|update| update.set.as_deref()) {
                self.add_computed(object, value, set);
            }
        }
    }

    fn add(&mut self, object: ObjectId, value: ValueId) {
        match self.predicates.history().value(value) {
            Value::List([]) => _ = self.pieces.insert((object, Piece::Whole(ValueId::NULL))),
            Value::List(items) => {
                self.pieces.extend(items.iter().map(|&item| (object, Piece::Element(item))));
            }
            Value::Row(columns) => {
                self.pieces.extend(columns.iter().map(|&(name, value)| (object, Piece::Column(name, value))));
            }
            _ => _ = self.pieces.insert((object, Piece::Whole(value))),
        }
    }

    /// Columns that an update sets and does not show.
    fn add_computed(&mut self, object: ObjectId, shown: ValueId, set: &str) {
        let history = self.predicates.history();
        let Ok(assignments) = self.predicates.assignments(set) else {
            let table = history.object(object).table;
            return table.into_iter().for_each(|table| self.opaque[table.index()] = true);
        };
        for target in assignments.targets() {
            let name = self.predicates.column(target).unwrap_or(NameId(u32::MAX));
            if history.values().column(shown, name).is_none_or(|value| value == ValueId::UNKNOWN) {
                self.pieces.insert((object, Piece::Computed(name)));
                self.computed.insert(object);
            }
        }
    }

    /// What is wrong at every level with what an operation saw.
    fn wrong(&self, op: &Op<'_>) -> Option<(Anomaly, OpId)> {
        if !matches!(op.kind, OpKind::Read | OpKind::Scan) {
            return None;
        }
        let garbage = op.accesses.iter().any(|access| self.is_garbage(access.object, access.value));
        let doubled = || op.accesses.iter().any(|access| self.is_doubled(access.object, access.value));
        match garbage {
            true => Some((Anomaly::GarbageRead, op.id)),
            false => doubled().then_some((Anomaly::DuplicateElements, op.id)),
        }
    }

    /// Whether nobody wrote some of what was seen.
    fn is_garbage(&self, object: ObjectId, seen: ValueId) -> bool {
        let history = self.predicates.history();
        let table = history.object(object).table;
        if table.is_some_and(|table| self.opaque[table.index()]) {
            return false;
        }
        let has = |piece| self.pieces.contains(&(object, piece));
        match history.value(seen) {
            Value::Unknown => false,
            Value::List(items) => !items.iter().all(|&item| has(Piece::Element(item))),
            Value::Row(columns) => !columns.iter().all(|&(name, value)| {
                value == ValueId::NULL
                    || value == ValueId::UNKNOWN
                    || has(Piece::Column(name, value))
                    || has(Piece::Computed(name))
                    || key_column(history, object, history.name(name)) == Some(value)
            }),
            _ => {
                let computed = table.is_some() && self.computed.contains(&object);
                !computed && !has(Piece::Whole(seen))
            }
        }
    }

    /// Whether an element was seen more often than it was appended.
    fn is_doubled(&self, object: ObjectId, seen: ValueId) -> bool {
        let history = self.predicates.history();
        let Value::List(items) = history.value(seen) else { return false };
        if self.replaced.contains(&object) || history.initial(object) != ValueId::NULL {
            return false;
        }
        let mut counts: HashMap<ValueId, usize> = HashMap::new();
        items.iter().for_each(|&item| *counts.entry(item).or_default() += 1);
        let appends = |item: ValueId| self.appended.get(&(object, item)).map_or(0, |appended| appended.0);
        counts.into_iter().any(|(item, count)| count > 1 && count > appends(item))
    }

    /// Who appended an element of a list, if that is certain.
    fn appender(&self, object: ObjectId, element: ValueId) -> Option<TxnId> {
        let initial = self.predicates.history().value(self.predicates.history().initial(object));
        let inherited = matches!(initial, Value::List(items) if items.contains(&element));
        let appended = self.appended.get(&(object, element)).filter(|appended| appended.0 == 1);
        appended.filter(|_| !inherited && !self.replaced.contains(&object)).map(|appended| appended.1)
    }
}

/// The lists that were read of one object, and by whom, the longest first.
type Lists<'h> = Vec<(&'h [ValueId], TxnId)>;

/// What lists say of the order of those who appended to them: nothing if they contradict each
/// other.
fn add_lists(history: &History, written: &Written<'_>, draft: &mut Draft) {
    let mut lists: HashMap<ObjectId, Lists<'_>> = HashMap::new();
    for txn in history.txns().filter(|&txn| history.outcome(txn) == Outcome::Committed) {
        for op in history.ops(txn).filter(|op| matches!(op.kind, OpKind::Read | OpKind::Scan)) {
            for access in op.accesses {
                if let Value::List(items) = history.value(access.value) {
                    lists.entry(access.object).or_default().push((items, txn));
                }
            }
        }
    }
    let mut lists: Vec<_> = lists.into_iter().collect();
    lists.sort_unstable_by_key(|(object, _)| *object);
    for (object, lists) in lists {
        let lists = longest(lists);
        if contradict(&lists) {
            continue;
        }
        for (list, reader) in lists {
            let writers = list.iter().filter_map(|&element| written.appender(object, element));
            let certain: Vec<TxnId> =
                writers.filter(|&txn| history.outcome(txn) == Outcome::Committed).collect();
            let pairs = certain.windows(2).filter(|pair| pair[0] != pair[1]);
            draft.facts.extend(pairs.map(|pair| Fact {
                item: object.into(),
                first: Version::Of(pair[0]),
                second: Version::Of(pair[1]),
                source: Some(reader),
            }));
        }
    }
}

/// Those that are not the beginning of another one.
fn longest(mut lists: Lists<'_>) -> Lists<'_> {
    lists.sort_unstable_by(|a, b| b.0.len().cmp(&a.0.len()).then(a.cmp(b)));
    let mut kept: Lists<'_> = Vec::new();
    for (list, reader) in lists {
        if !kept.iter().any(|(longer, _)| longer.starts_with(list)) {
            kept.push((list, reader));
        }
    }
    kept
}

/// Whether two elements are seen in both orders.
fn contradict(lists: &Lists<'_>) -> bool {
    let mut places: Vec<HashMap<ValueId, usize>> = Vec::new();
    for (list, _) in lists {
        let own: HashMap<ValueId, usize> = list.iter().copied().zip(0..).collect();
        let against = |other: &HashMap<ValueId, usize>| {
            !list.iter().filter_map(|element| other.get(element)).is_sorted()
        };
        if own.len() < list.len() || places.iter().any(against) {
            return true;
        }
        places.push(own);
    }
    false
}
