//! What reads cannot say.
//!
//! # Problem
//! An update whose rows nobody saw may have changed any row of its table. What is in a list that is
//! also replaced as a whole, or to which an element was appended twice, depends on the order of all
//! its writers. Neither can be said by which version a read saw.
//!
//! # Algorithm
//! Tables of the first kind make no reads and no versions at all. Lists of the second kind have
//! versions, and a read may have seen each version that ends as the read does.
//!
//! # Invariants
//! A read has too many candidates, never too few: a refutation stands. An order is replayed before
//! it is believed, and if it is the wrong one another is looked for ([`crate::replay`]).

use hashbrown::{HashMap, HashSet};
use margay_history::{History, ObjectId, OpKind, Outcome, TableId, TxnId, Value, ValueId, Version};
use margay_verdict::Cell;
use margay_verdict::cell::observed_matches;

/// What is known of a list that a transaction left.
#[derive(Clone, Debug)]
enum Tail {
    /// Everything.
    Whole(Vec<ValueId>),
    /// Its last elements.
    Ends(Vec<ValueId>),
    /// A value that is no list, and perhaps something appended.
    Odd,
}

/// Tables of which nothing, and lists of which not everything can be said.
#[derive(Default)]
pub(crate) struct Blind {
    tables: HashSet<TableId>,
    lists: HashSet<ObjectId>,
    tails: HashMap<ObjectId, Vec<(TxnId, Tail)>>,
    why: Option<String>,
}

impl Blind {
    /// The tables with updates whose rows nobody saw.
    pub fn of(history: &History, dead: &HashSet<TxnId>) -> Self {
        let mut blind = Self::default();
        if !history.has_kind(OpKind::Update) {
            return blind;
        }
        let alive = |&txn: &TxnId| history.outcome(txn) != Outcome::Aborted && !dead.contains(&txn);
        for op in history.txns().filter(alive).flat_map(|txn| history.ops(txn)) {
            if let Some(update) = history.update(op.id).filter(|update| !update.observed) {
                blind.tables.insert(history.predicate(update.predicate).table);
                blind.why.get_or_insert_with(|| {
                    "a predicate update whose affected rows were not recorded".to_string()
                });
            }
        }
        blind
    }

    /// Why not everything can be said, if so.
    pub fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// Whether nothing can be said of a table.
    pub fn has_table(&self, table: TableId) -> bool {
        self.tables.contains(&table)
    }

    /// Whether nothing can be said of an object.
    pub fn has(&self, history: &History, object: ObjectId) -> bool {
        !self.tables.is_empty() && history.object(object).table.is_some_and(|table| self.has_table(table))
    }

    /// Whether an object is a list of which not everything can be said.
    pub fn is_odd(&self, object: ObjectId) -> bool {
        !self.lists.is_empty() && self.lists.contains(&object)
    }

    /// Adds an object: with its table if it is in one.
    pub fn add(&mut self, history: &History, object: ObjectId, why: impl FnOnce() -> String) {
        match history.object(object).table {
            Some(table) => _ = self.tables.insert(table),
            None => _ = self.lists.insert(object),
        }
        self.why.get_or_insert_with(why);
    }

    /// Finds what each transaction left of the lists.
    pub fn find_tails(&mut self, history: &History, may_commit: impl Fn(TxnId) -> bool) {
        if self.lists.is_empty() {
            return;
        }
        for txn in history.txns().filter(|&txn| may_commit(txn)) {
            let mut own: HashMap<ObjectId, Tail> = HashMap::new();
            for op in history.ops(txn).filter(|op| op.kind.writes()) {
                for access in op.accesses.iter().filter(|access| self.lists.contains(&access.object)) {
                    let tail = after(history, own.remove(&access.object), op.kind, access.value);
                    own.insert(access.object, tail);
                }
            }
            own.into_iter()
                .for_each(|(object, tail)| self.tails.entry(object).or_default().push((txn, tail)));
        }
    }

    /// The versions of a list that a read of `value` by `reader` may have seen.
    pub fn candidates(
        &self,
        history: &History,
        object: ObjectId,
        value: ValueId,
        reader: TxnId,
        out: &mut Vec<Version>,
    ) {
        if observed_matches(history, object, value, &Cell::Value(history.initial(object))) {
            out.push(Version::Initial);
        }
        let seen = elements(history, value);
        let fits = |tail: &Tail| match (tail, seen) {
            (Tail::Whole(list), Some(seen)) => list == seen,
            (Tail::Ends(end), Some(seen)) => seen.ends_with(end),
            (Tail::Odd, _) => true,
            (_, None) => false,
        };
        let others = self.tails.get(&object).into_iter().flatten();
        let others = others.filter(|(txn, tail)| *txn != reader && fits(tail));
        out.extend(others.map(|(txn, _)| Version::Of(*txn)));
    }
}

fn after(history: &History, before: Option<Tail>, kind: OpKind, value: ValueId) -> Tail {
    match (kind, before) {
        (OpKind::Append, None) => Tail::Ends(vec![value]),
        (OpKind::Append, Some(Tail::Odd)) => Tail::Odd,
        (OpKind::Append, Some(Tail::Whole(mut list))) => {
            list.push(value);
            Tail::Whole(list)
        }
        (OpKind::Append, Some(Tail::Ends(mut list))) => {
            list.push(value);
            Tail::Ends(list)
        }
        _ => elements(history, value).map_or(Tail::Odd, |list| Tail::Whole(list.to_vec())),
    }
}

/// The elements of a list; nothing at all is an empty list.
fn elements(history: &History, value: ValueId) -> Option<&[ValueId]> {
    match history.value(value) {
        Value::List(elements) => Some(elements),
        Value::Null => Some(&[]),
        _ => None,
    }
}
