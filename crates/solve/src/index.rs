//! Who wrote what: writers by object and value.

use hashbrown::{HashMap, HashSet};
use margay_history::{History, NameId, ObjectId, Op, OpId, OpKind, Outcome, TxnId, Value, ValueId, Version};
use margay_levels::Anomaly;
use margay_verdict::Cell;
use margay_verdict::cell::{key_column, observed_matches};
use margay_verdict::sole::{Found, Sole};

use crate::blind::Blind;
use crate::problem::is_nothing;
use crate::projections::Projections;

/// Final writes of transactions that may have committed, and appended elements.
pub(crate) struct Writers<'h> {
    history: &'h History,
    /// Transactions of unknown outcome that cannot have committed.
    dead: &'h HashSet<TxnId>,
    /// Sorted by object, then value.
    finals: Vec<(ObjectId, ValueId, TxnId)>,
    /// Where each object's begin, and how many there are.
    starts: Vec<u32>,
    /// Who wrote a value.
    sole: Sole,
    lists: HashSet<ObjectId>,
    /// Who appended an element to a list.
    elements: HashMap<(ObjectId, ValueId), TxnId>,
    /// All that each transaction appended to a list, in order.
    appends: HashMap<ObjectId, Vec<(TxnId, Vec<ValueId>)>>,
    /// By object: whether its values are rows, so that a read may show fewer columns than a write.
    /// Empty without tables.
    rows: Vec<bool>,
    /// The writes of these, by what reads show of them.
    projections: Projections,
    /// Those of them that are written in part.
    partial: HashSet<ObjectId>,
    /// What nothing can be said of.
    blind: Blind,
}

impl<'h> Writers<'h> {
    /// The writers of a history, without those in `dead`.
    pub fn of(history: &'h History, dead: &'h HashSet<TxnId>) -> Self {
        let mut writers = Self {
            history,
            dead,
            finals: Vec::new(),
            starts: Vec::new(),
            sole: Sole::default(),
            lists: HashSet::new(),
            elements: HashMap::new(),
            appends: HashMap::new(),
            rows: Vec::new(),
            projections: Projections::default(),
            partial: HashSet::new(),
            blind: Blind::of(history, dead),
        };
        let mut written = vec![false; history.object_count()];
        for txn in history.txns() {
            writers.add(txn, &mut written);
        }
        let mut both: Vec<ObjectId> =
            writers.lists.iter().copied().filter(|list| written[list.index()]).collect();
        both.sort_unstable();
        for list in both {
            let name = history.show_object(list);
            writers.blind.add(history, list, || format!("{name} is both written and appended to"));
        }
        writers.sole = Sole::of(&writers.finals);
        writers.finals.sort_unstable();
        writers.starts = starts(&writers.finals, history.object_count());
        if !history.tables().is_empty() {
            writers.check_rows();
        }
        writers
            .blind
            .find_tails(history, |txn| history.outcome(txn) != Outcome::Aborted && !dead.contains(&txn));
        writers
    }

    fn add(&mut self, txn: TxnId, written: &mut [bool]) {
        let start = self.finals.len();
        for op in self.history.ops(txn) {
            for access in op.accesses {
                match op.kind {
                    OpKind::Append => self.add_element(txn, access.object, access.value),
                    OpKind::Write | OpKind::Update => {
                        written[access.object.index()] = true;
                        self.finals.push((access.object, access.value, txn));
                    }
                    _ => {}
                }
            }
        }
        if !self.may_commit(txn) {
            self.finals.truncate(start);
        } else if self.finals.len() > start + 1 {
            // The last write of each object is the final one.
            let mut own = self.finals.split_off(start);
            own.reverse();
            own.sort_by_key(|write| write.0);
            own.dedup_by_key(|write| write.0);
            self.finals.extend(own);
        }
    }

    fn add_element(&mut self, txn: TxnId, object: ObjectId, value: ValueId) {
        self.lists.insert(object);
        let appends = self.appends.entry(object).or_default();
        match appends.last_mut().filter(|(last, _)| *last == txn) {
            Some((_, values)) => values.push(value),
            None => appends.push((txn, vec![value])),
        }
        // An element of the initial list counts: who saw it need not have seen this append.
        let history = self.history;
        let initial =
            matches!(history.value(history.initial(object)), Value::List(items) if items.contains(&value));
        if self.elements.insert((object, value), txn).is_some() || initial {
            self.blind.add(history, object, || {
                format!("{} is appended twice to {}", history.show_value(value), history.show_object(object))
            });
        }
    }

    /// What nothing, or not all, can be said of.
    pub fn blind(&self) -> &Blind {
        &self.blind
    }

    /// Rows of one object that are not written whole every time, or that show columns which nobody
    /// writes, are written in part: a version of them depends on the one before it.
    fn check_rows(&mut self) {
        let history = self.history;
        let ops = || history.txns().flat_map(|txn| history.ops(txn));
        let accesses = |writes: bool| {
            let ops = ops().filter(move |op| op.kind.writes() == writes);
            ops.flat_map(|op| op.accesses).map(|access| (access.object, access.value))
        };
        let written = || history.initial_values().iter().copied().chain(accesses(true));
        let mut shapes: Vec<Option<Columns<'_>>> = vec![None; history.object_count()];
        for (object, value) in written() {
            let Some(columns) = columns(history, object, value) else { continue };
            if !same_names(shapes[object.index()].get_or_insert(columns), columns) {
                self.partial.insert(object);
            }
        }
        // What an update does not set it leaves, whatever it shows.
        let set = |op: &Op<'_>| history.update(op.id).is_some_and(|update| update.set.is_some());
        self.partial.extend(ops().filter(set).flat_map(|op| op.accesses).map(|access| access.object));
        for (object, value) in accesses(false) {
            let Some(columns) = columns(history, object, value) else { continue };
            self.projections.ask(history, object, value);
            let shape = shapes[object.index()].unwrap_or_default();
            let is_key = |name: NameId| key_column(history, object, history.name(name)).is_some();
            let is_written = |name| shape.binary_search_by_key(&name, |column| column.0).is_ok();
            if !same_names(shape, columns) && columns.iter().any(|c| !is_written(c.0) && !is_key(c.0)) {
                self.partial.insert(object);
            }
        }
        let odd = |value: ValueId| !matches!(history.value(value), Value::Row(_) | Value::Null);
        for (object, _) in written().filter(|(object, value)| self.partial.contains(object) && odd(*value)) {
            self.blind
                .add(history, object, || format!("{} is not always a row", history.show_object(object)));
        }
        let blind = &self.blind;
        self.partial.retain(|&object| !blind.has(history, object));
        self.rows = shapes.iter().map(Option::is_some).collect();
        self.projections.index(history, &self.finals);
    }

    /// The objects whose rows are written in part.
    pub fn partial(&self) -> &HashSet<ObjectId> {
        &self.partial
    }

    /// Whether a transaction may have committed.
    pub fn may_commit(&self, txn: TxnId) -> bool {
        self.history.outcome(txn) != Outcome::Aborted && !self.dead.contains(&txn)
    }

    pub fn is_list(&self, object: ObjectId) -> bool {
        !self.lists.is_empty() && self.lists.contains(&object)
    }

    /// Who appended an element to a list.
    pub fn appender(&self, object: ObjectId, value: ValueId) -> Option<TxnId> {
        self.elements.get(&(object, value)).copied()
    }

    /// All that a transaction appended to a list, in order.
    pub fn appended(&self, object: ObjectId, txn: TxnId) -> &[ValueId] {
        let all = self.appends.get(&object).map_or(&[][..], Vec::as_slice);
        all.binary_search_by_key(&txn, |(t, _)| *t).map_or(&[], |found| &all[found].1)
    }

    /// The transactions that appended to a list and may have committed.
    pub fn appenders(&self, object: ObjectId) -> impl Iterator<Item = TxnId> + '_ {
        let all = self.appends.get(&object).into_iter().flatten().map(|(txn, _)| *txn);
        all.filter(|&txn| self.may_commit(txn))
    }

    /// Final writes of an object by transactions that may have committed.
    pub fn finals(&self, object: ObjectId) -> &[(ObjectId, ValueId, TxnId)] {
        let (start, end) = (self.starts[object.index()], self.starts[object.index() + 1]);
        &self.finals[start as usize..end as usize]
    }

    /// Whether a read of `observed` can have seen `written`.
    pub fn matches(&self, object: ObjectId, observed: ValueId, written: ValueId) -> bool {
        observed == written || observed_matches(self.history, object, observed, &Cell::Value(written))
    }

    /// The versions that a read of `value` by `reader` may have seen.
    pub fn candidates(&self, object: ObjectId, value: ValueId, reader: TxnId, out: &mut Vec<Version>) {
        if self.matches(object, value, self.history.initial(object)) {
            out.push(Version::Initial);
        }
        let seen = |w: &&(ObjectId, ValueId, TxnId)| w.2 != reader && self.matches(object, value, w.1);
        if self.rows.get(object.index()) == Some(&true) || is_nothing(self.history, value) {
            match self.projections.find(self.history, object, value) {
                Some(places) => {
                    out.extend(
                        places.map(|place| &self.finals[place]).filter(seen).map(|w| Version::Of(w.2)),
                    );
                }
                None => out.extend(self.finals(object).iter().filter(seen).map(|w| Version::Of(w.2))),
            }
            return;
        }
        match self.sole.find(value) {
            Found::Nobody => {}
            Found::Only((written, txn)) => {
                out.extend((written == object && txn != reader).then_some(Version::Of(txn)));
            }
            Found::Several => {
                let all = self.finals(object);
                let start = all.partition_point(|w| w.1 < value);
                let same = all[start..].iter().take_while(|w| w.1 == value);
                out.extend(same.map(|w| w.2).filter(|&t| t != reader).map(Version::Of));
            }
        }
    }

    /// Why no version explains what `op` saw of `object`, with the operations that show it.
    pub fn why_unreadable(&self, history: &History, op: OpId, object: ObjectId) -> (Anomaly, Vec<OpId>) {
        let reader = history.txn_of(op);
        let seen = history.op(op).accesses.iter().find(|a| a.object == object).map(|a| a.value);
        let Some(value) = seen.filter(|_| history.op(op).kind == OpKind::Read) else {
            return (Anomaly::ResultMismatch, vec![op]);
        };
        let mut found = (Anomaly::GarbageRead, vec![op]);
        for txn in history.txns() {
            for writer in history.ops(txn).filter(|w| w.kind.writes() && w.kind != OpKind::Append) {
                if writer.accesses.iter().any(|a| a.object == object && self.matches(object, value, a.value))
                {
                    let anomaly = match history.outcome(txn) {
                        _ if txn == reader => Anomaly::FutureRead,
                        Outcome::Aborted => Anomaly::G1a,
                        _ => Anomaly::G1b,
                    };
                    found = (anomaly, vec![op, writer.id]);
                    if anomaly != Anomaly::FutureRead {
                        return found;
                    }
                }
            }
        }
        found
    }
}

/// The columns of a row, sorted by name.
type Columns<'h> = &'h [(NameId, ValueId)];

/// The columns of a row of a table.
fn columns(history: &History, object: ObjectId, value: ValueId) -> Option<Columns<'_>> {
    match history.value(value) {
        Value::Row(columns) if history.object(object).table.is_some() => Some(columns),
        _ => None,
    }
}

fn same_names(a: Columns<'_>, b: Columns<'_>) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0)
}

fn starts(finals: &[(ObjectId, ValueId, TxnId)], objects: usize) -> Vec<u32> {
    let mut starts = vec![0; objects + 1];
    finals.iter().for_each(|write| starts[write.0.index() + 1] += 1);
    for object in 0..objects {
        starts[object + 1] += starts[object];
    }
    starts
}
