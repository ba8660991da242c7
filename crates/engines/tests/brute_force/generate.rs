//! Random small histories: what a more or less correct database may answer, and then a few changes.
//!
//! Transactions run one after the other; each sees the newest state, an older one, or for each
//! operation another. So lists, rows and scans show what somebody wrote, and about half of the
//! histories satisfy a given level.

use std::collections::BTreeMap;

use crate::judge::matching;
use crate::model::{
    Columns, Condition, History, Object, Op, Outcome, Seen, Set, Term, Txn, Value, Version, Write,
};

/// A small generator of random numbers (xorshift64*).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d);
        (0..4).for_each(|_| _ = random.next());
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        ((self.next() >> 33) % limit as u64) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn number(&mut self, limit: i64) -> i64 {
        self.below(limit as usize) as i64
    }
}

/// What a history is made of.
struct Shape {
    kinds: Vec<Kind>,
    /// How many percent of the values are small numbers, which others write too.
    duplicates: usize,
    unknown: usize,
    aborted: usize,
    timed: bool,
    evidence: bool,
    /// How many percent of what was seen is changed afterwards.
    changed: usize,
    /// How many percent of the operations see an old state.
    stale: usize,
    /// Whether columns are written one by one.
    partial: bool,
    /// How many percent of the operations on rows are updates of all that match, and how many of
    /// these nobody saw the rows of.
    updates: usize,
    hidden: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Register,
    List,
    Row,
}

/// The history of a seed.
pub fn history(seed: u64) -> History {
    let mut random = Random::new(seed);
    let shape = shape(&mut random);
    let mut run = Run::new(&mut random, shape);
    run.transactions();
    run.finish()
}

fn shape(random: &mut Random) -> Shape {
    let count = 1 + random.below(3);
    let only = match random.below(6) {
        0 | 1 => Some(Kind::List),
        2 => Some(Kind::Register),
        3 | 4 => Some(Kind::Row),
        _ => None,
    };
    let kind = |random: &mut Random| [Kind::Register, Kind::List, Kind::Row][random.below(3)];
    Shape {
        kinds: (0..count).map(|_| only.unwrap_or_else(|| kind(random))).collect(),
        duplicates: [0, 0, 10, 50][random.below(4)],
        unknown: [0, 15, 40][random.below(3)],
        aborted: [0, 0, 20][random.below(3)],
        timed: random.chance(50),
        evidence: random.chance(35),
        changed: [0, 3, 10][random.below(3)],
        stale: [0, 10, 30, 60][random.below(4)],
        partial: random.chance(50),
        updates: [0, 0, 25, 50][random.below(4)],
        hidden: [0, 0, 0, 30][random.below(4)],
    }
}

struct Run<'r> {
    random: &'r mut Random,
    shape: Shape,
    history: History,
    /// After each transaction that took effect.
    states: Vec<(Vec<Value>, Vec<Version>)>,
    /// Who took effect, in order.
    order: Vec<usize>,
    next: i64,
}

impl<'r> Run<'r> {
    fn new(random: &'r mut Random, shape: Shape) -> Self {
        let mut next = 10;
        let objects: Vec<Object> = shape
            .kinds
            .iter()
            .map(|&kind| {
                let some = random.chance(40);
                next += 1;
                let initial = match kind {
                    _ if !some => Value::Absent,
                    Kind::Register => Value::Number(next),
                    Kind::List => Value::List(vec![next]),
                    Kind::Row => Value::Row(Columns::from([("v", random.number(5)), ("w", next)])),
                };
                Object { row: kind == Kind::Row, initial }
            })
            .collect();
        let values = objects.iter().map(|object| object.initial.clone()).collect();
        let states = vec![(values, vec![None; objects.len()])];
        let history = History { objects, txns: Vec::new(), evidence: Default::default() };
        Self { random, shape, history, states, order: Vec::new(), next }
    }

    fn transactions(&mut self) {
        let count = 2 + self.random.below(4);
        let sessions = 1 + self.random.below(3);
        let mut clock = 0;
        for txn in 0..count {
            let outcome = if self.random.chance(self.shape.unknown) {
                Outcome::Unknown
            } else if self.random.chance(self.shape.aborted) {
                Outcome::Aborted
            } else {
                Outcome::Committed
            };
            let effective =
                outcome == Outcome::Committed || outcome == Outcome::Unknown && self.random.chance(60);
            let session = self.random.below(sessions);
            let same = self.history.txns.iter().filter(|txn| txn.session == session);
            let last = same.filter_map(|txn| txn.time).map(|time| time.1).max().unwrap_or(0);
            let start = (clock - self.random.number(6)).max(last + 1);
            clock = start.max(clock) + 1 + self.random.number(3);
            let time = self.shape.timed.then_some((start, clock));
            let (ops, writes) = self.operations(txn);
            self.history.txns.push(Txn { session, outcome, ops, time });
            if effective {
                let mut state = self.states[self.states.len() - 1].clone();
                for (object, write) in writes {
                    state.0[object] = write.apply(&state.0[object]);
                    state.1[object] = Some(txn);
                }
                self.states.push(state);
                self.order.push(txn);
            }
        }
    }

    /// What a transaction does, and what it writes.
    fn operations(&mut self, txn: usize) -> (Vec<Op>, Vec<(usize, Write)>) {
        let newest = self.states.len() - 1;
        let snapshot =
            if self.random.chance(self.shape.stale) { self.random.below(newest + 1) } else { newest };
        let drifts = self.random.chance(self.shape.stale);
        let mut own: Vec<Option<Value>> = vec![None; self.history.objects.len()];
        let (mut ops, mut all) = (Vec::new(), Vec::new());
        for place in 0..1 + self.random.below(4) {
            let at = if drifts { self.random.below(newest + 1) } else { snapshot };
            let (values, versions) = self.states[at].clone();
            let seen: Vec<Value> =
                values.into_iter().zip(&own).map(|(value, own)| own.clone().unwrap_or(value)).collect();
            let versions: Vec<Version> = versions
                .iter()
                .zip(&own)
                .map(|(v, own)| if own.is_some() { Some(txn) } else { *v })
                .collect();
            let object = self.random.below(seen.len());
            let op = self.operation(object, &seen);
            let writes: Vec<(usize, Write)> = match &op {
                Op::Write(object, write) => vec![(*object, write.clone())],
                Op::Update(condition, set, _) => {
                    let rows = matching(*condition, &seen, |object| self.history.objects[object].row);
                    rows.into_iter().map(|row| (row, Write::of_update(set, &seen[row]))).collect()
                }
                _ => Vec::new(),
            };
            if !matches!(op, Op::Write(..)) && self.shape.evidence && self.random.chance(30) {
                self.version_set(txn, place, &op, &versions);
            }
            for (object, write) in &writes {
                let base = own[*object].clone().unwrap_or_else(|| self.states[newest].0[*object].clone());
                own[*object] = Some(write.apply(&base));
            }
            all.extend(writes);
            ops.push(op);
        }
        // An own version that was seen too early is no version, nor is one of an update that nobody
        // saw.
        let others = &self.history.txns;
        let writes = |txn: usize, object: usize| {
            others.get(txn).map_or(&ops, |txn| &txn.ops).iter().any(|op| op.writes(object))
        };
        for set in self.history.evidence.sets.iter_mut().filter(|set| set.0 == txn) {
            set.2.retain(|&(object, version)| version.is_none_or(|version| writes(version, object)));
        }
        self.history.evidence.sets.retain(|set| !set.2.is_empty());
        (ops, all)
    }

    fn operation(&mut self, object: usize, seen: &[Value]) -> Op {
        let kind = self.shape.kinds[object];
        if kind == Kind::Row && self.random.chance(self.shape.updates) {
            return self.update(seen);
        }
        if kind == Kind::Row && self.random.chance(30) {
            return self.scan(seen);
        }
        if self.random.chance(50) {
            Op::Write(object, self.write(kind))
        } else {
            Op::Read(object, self.observe(object, &seen[object]))
        }
    }

    fn condition(&mut self) -> Condition {
        let low = self.random.number(4);
        match self.random.below(4) {
            0 => Condition::True,
            _ => Condition::Between("v", low, low + self.random.number(3)),
        }
    }

    fn scan(&mut self, seen: &[Value]) -> Op {
        let condition = self.condition();
        let rows = self.returned(condition, seen);
        Op::Scan(condition, rows.into_iter().map(|row| (row, self.observe(row, &seen[row]))).collect())
    }

    fn update(&mut self, seen: &[Value]) -> Op {
        let (condition, set) = (self.condition(), self.set());
        if self.random.chance(self.shape.hidden) {
            return Op::Update(condition, set, None);
        }
        let rows = self.returned(condition, seen);
        let new = |row: usize| Write::of_update(&set, &seen[row]).apply(&seen[row]);
        let rows = rows.into_iter().map(|row| (row, self.told(new(row)))).collect();
        Op::Update(condition, set, Some(rows))
    }

    fn set(&mut self) -> Set {
        let number = self.random.number(5);
        let first = match self.random.below(5) {
            0 => return None,
            1 if self.random.chance(20) => ("v", Term::Null),
            1 | 2 => ("v", Term::Number(number)),
            3 => ("v", Term::Plus("v", 1)),
            _ => ("w", Term::Number(self.value())),
        };
        let second = ("w", Term::Plus("v", 100));
        Some(if first.0 == "v" && self.random.chance(20) { vec![first, second] } else { vec![first] })
    }

    /// The rows that match, more or less.
    fn returned(&mut self, condition: Condition, seen: &[Value]) -> Vec<usize> {
        let objects = &self.history.objects;
        let mut rows = matching(condition, seen, |object| objects[object].row);
        if self.random.chance(self.shape.changed) {
            let row = self.random.below(seen.len());
            match rows.iter().position(|&object| object == row) {
                Some(place) => _ = rows.remove(place),
                None if self.history.objects[row].row => rows.push(row),
                None => {}
            }
        }
        rows
    }

    fn value(&mut self) -> i64 {
        if self.random.chance(self.shape.duplicates) {
            return 10 + self.random.number(3);
        }
        self.next += 1;
        self.next
    }

    fn write(&mut self, kind: Kind) -> Write {
        match kind {
            Kind::Register if self.random.chance(10) => Write::Put(Value::Absent),
            Kind::Register => Write::Put(Value::Number(self.value())),
            Kind::List if self.random.chance(self.shape.duplicates / 10) => {
                Write::Put(Value::List(vec![self.value()]))
            }
            Kind::List => Write::Append(self.value()),
            Kind::Row if self.random.chance(15) => Write::Put(Value::Absent),
            Kind::Row => {
                let mut columns = Columns::from([("v", self.random.number(5)), ("w", self.value())]);
                if self.shape.partial && self.random.chance(50) {
                    columns.remove(["v", "w"][self.random.below(2)]);
                }
                Write::Merge(columns)
            }
        }
    }

    /// What the client tells of a value.
    fn observe(&mut self, object: usize, value: &Value) -> Seen {
        if self.random.chance(3) {
            return Seen::Unknown;
        }
        let other = self.random.below(self.states.len());
        let changed = self.random.chance(self.shape.changed);
        let value = if changed { self.states[other].0[object].clone() } else { value.clone() };
        let value = if changed && self.random.chance(30) { self.odd(value) } else { value };
        self.told(value)
    }

    /// What the client tells of a value that it saw.
    fn told(&mut self, value: Value) -> Seen {
        let Value::Row(row) = value else { return Seen::Value(value) };
        let mut columns: BTreeMap<&'static str, Option<i64>> =
            ["v", "w"].into_iter().map(|name| (name, row.get(name).copied())).collect();
        if self.shape.partial && self.random.chance(25) {
            columns.remove(["v", "w"][self.random.below(2)]);
        }
        Seen::Columns(columns)
    }

    /// A value that is a little wrong.
    fn odd(&mut self, value: Value) -> Value {
        match value {
            Value::List(mut items) if !items.is_empty() => {
                match self.random.below(3) {
                    0 => _ = items.pop(),
                    1 => items.reverse(),
                    _ => _ = items.remove(0),
                }
                Value::List(items)
            }
            Value::Number(_) => Value::Number(10 + self.random.number(8)),
            Value::Row(mut row) => {
                row.insert("v", self.random.number(5));
                Value::Row(row)
            }
            _ => Value::Absent,
        }
    }

    fn version_set(&mut self, txn: usize, place: usize, op: &Op, versions: &[Version]) {
        let looked = |object: &usize| match op {
            Op::Read(read, _) => read == object,
            _ => self.history.objects[*object].row,
        };
        let mut set: Vec<(usize, Version)> =
            (0..versions.len()).filter(looked).map(|object| (object, versions[object])).collect();
        set.retain(|_| self.random.chance(80));
        if self.random.chance(self.shape.changed)
            && let Some((object, version)) = set.first_mut()
        {
            let other = self.random.below(self.states.len());
            *version = self.states[other].1[*object];
        }
        if !set.is_empty() {
            self.history.evidence.sets.push((txn, place, set));
        }
    }

    fn finish(mut self) -> History {
        if self.shape.evidence {
            self.evidence();
        }
        self.history
    }

    fn evidence(&mut self) {
        let (orders, stamps) = (self.random.chance(50), self.random.chance(50));
        if orders {
            for object in 0..self.history.objects.len() {
                let mut writers: Vec<usize> =
                    self.order.iter().copied().filter(|&txn| self.history.writes(txn, object)).collect();
                writers.retain(|_| self.random.chance(80));
                if self.random.chance(self.shape.changed) && writers.len() > 1 {
                    writers.swap(0, 1);
                }
                if writers.len() > 1 {
                    self.history.evidence.orders.push((object, writers));
                }
            }
        }
        if stamps {
            self.stamps();
        }
    }

    fn stamps(&mut self) {
        let which = [self.random.chance(60), self.random.chance(60), self.random.chance(40)];
        for (place, txn) in self.order.clone().into_iter().enumerate() {
            let late = 2 * (place as i64 + 1);
            let early = late - 1 - 2 * i64::from(self.random.chance(self.shape.stale));
            let moved = if self.random.chance(self.shape.changed) { self.random.number(3) } else { 0 };
            let evidence = &mut self.history.evidence;
            if which[0] {
                evidence.commits.insert(txn, late + moved);
            }
            if which[1] {
                evidence.snapshots.insert(txn, early);
            }
            if which[2] {
                evidence.serializations.insert(txn, late - moved);
            }
        }
    }
}
