//! Random tiny histories, as texts in the mini language.
//!
//! # Algorithm
//! Transactions run one after the other on a small model of a database whose isolation is chosen
//! for each history: serial, from one older state (a snapshot), from a state per operation, or from
//! a state per object. So most histories satisfy some levels and violate others. Then observations
//! are disturbed now and then: by any other value of the object, written by whomever. Sessions,
//! times and evidence are added from the order in which the transactions ran, or against it.

use std::collections::BTreeMap;
use std::fmt::Write;

use margay_history::History;

use crate::mini::parse;
use crate::rng::Rng;

/// A random history, always the same for one seed.
#[must_use]
pub fn random(seed: u64) -> History {
    let mut rng = Rng::new(seed);
    loop {
        let text = Draft::new(&mut rng).text();
        // A session's clock may contradict its order, which is no history: then the next one.
        if let Ok(history) = parse(&text) {
            return history;
        }
    }
}

/// A random history with evidence, always the same for one seed.
#[must_use]
pub fn random_with_evidence(seed: u64) -> History {
    // Every fourth random history has evidence. The seeds of two histories do not meet.
    let mut histories = (seed * 1_000_000..).map(random);
    histories.find(|history| !history.evidence().is_empty()).unwrap_or_else(|| random(seed))
}

#[derive(Clone, PartialEq, Debug)]
enum Val {
    Absent,
    Int(i64),
    List(Vec<i64>),
    Row(BTreeMap<&'static str, i64>),
}

impl Val {
    fn show(&self) -> String {
        match self {
            Val::Absent => "_".to_string(),
            Val::Int(i) => i.to_string(),
            Val::List(items) => {
                let items: Vec<_> = items.iter().map(i64::to_string).collect();
                format!("[{}]", items.join(" "))
            }
            Val::Row(columns) => {
                let columns: Vec<_> = columns.iter().map(|(n, v)| format!("{n}:{v}")).collect();
                format!("{{{}}}", columns.join(" "))
            }
        }
    }
}

/// What one object holds, and who wrote it.
type State = BTreeMap<&'static str, (Val, Option<usize>)>;

/// Whether a row matches.
type Condition = Box<dyn Fn(&Val) -> bool>;

/// How far the model isolates transactions.
#[derive(Clone, Copy, PartialEq)]
enum Isolation {
    Serial,
    Snapshot,
    Statement,
    Object,
}

const REGISTERS: [&str; 2] = ["x", "y"];
const LISTS: [&str; 2] = ["l", "m"];
const ROWS: [&str; 3] = ["t/1", "t/2", "t/3"];

/// One history in the making.
struct Draft<'r> {
    rng: &'r mut Rng,
    isolation: Isolation,
    objects: Vec<&'static str>,
    /// The states after each commit, the initial one first.
    states: Vec<State>,
    /// Everything that was ever written to an object.
    written: BTreeMap<&'static str, Vec<Val>>,
    next_value: i64,
    duplicates: bool,
    disturb: usize,
    txns: Vec<TxnDraft>,
}

struct TxnDraft {
    ops: Vec<String>,
    /// What operations saw: operation, object, writer.
    saw: Vec<(usize, &'static str, Option<usize>)>,
    wrote: Vec<&'static str>,
    outcome: &'static str,
}

impl<'r> Draft<'r> {
    fn new(rng: &'r mut Rng) -> Self {
        let isolation = *rng.pick(&[
            Isolation::Serial,
            Isolation::Snapshot,
            Isolation::Snapshot,
            Isolation::Statement,
            Isolation::Object,
        ]);
        let mut objects: Vec<&'static str> = Vec::new();
        match rng.below(6) {
            0 | 1 => objects.extend(REGISTERS),
            2 => objects.extend(LISTS),
            3 | 4 => objects.extend(&ROWS[..2 + rng.below(2)]),
            _ => objects.extend(["x", "l", "t/1"]),
        }
        let mut state = State::new();
        for &object in &objects {
            let value = match object {
                _ if rng.chance(40) => Val::Absent,
                "x" | "y" => Val::Int(0),
                "l" | "m" => Val::Absent,
                _ => Val::Row([("v", rng.below(9) as i64)].into()),
            };
            state.insert(object, (value, None));
        }
        let written = state.iter().map(|(&o, (v, _))| (o, vec![v.clone()])).collect();
        let (duplicates, disturb) = (rng.chance(15), *rng.pick(&[0, 0, 5, 20, 40]));
        Self {
            isolation,
            objects,
            states: vec![state],
            written,
            next_value: 1,
            duplicates,
            disturb,
            txns: Vec::new(),
            rng,
        }
    }

    fn text(mut self) -> String {
        let count = 2 + self.rng.below(3) + usize::from(self.rng.chance(20));
        (0..count).for_each(|txn| self.run(txn));
        self.write_down()
    }

    fn run(&mut self, txn: usize) {
        let base = match self.isolation {
            Isolation::Serial => self.states.len() - 1,
            _ => self.states.len() - 1 - self.rng.below(self.states.len().min(3)),
        };
        let mut view = self.states[base].clone();
        let mut own: Vec<(&'static str, Change)> = Vec::new();
        let mut draft = TxnDraft { ops: Vec::new(), saw: Vec::new(), wrote: Vec::new(), outcome: "" };
        for _ in 0..1 + self.rng.below(3) {
            self.refresh(&mut view, &own);
            self.op(txn, &mut view, &mut own, &mut draft);
        }
        let mut commits = true;
        if self.rng.chance(12) {
            (draft.outcome, commits) =
                if self.rng.chance(50) { (" abort", false) } else { (" unknown", self.rng.chance(50)) };
        }
        if commits {
            let mut state = self.states[self.states.len() - 1].clone();
            own.iter().for_each(|(object, change)| change.apply(txn, &mut state, object));
            self.scramble(&mut state);
            self.states.push(state);
        }
        self.txns.push(draft);
    }

    /// Where nothing is isolated, lists may even grow in different orders.
    fn scramble(&mut self, state: &mut State) {
        if self.isolation != Isolation::Object {
            return;
        }
        for object in LISTS {
            if let Some((Val::List(items), _)) = state.get_mut(object)
                && items.len() > 1
                && self.rng.chance(30)
            {
                let last = items.len() - 1;
                items.swap(last - 1, last);
            }
        }
    }

    /// Below snapshots, what a transaction has not written itself may change between its
    /// operations.
    fn refresh(&mut self, view: &mut State, own: &[(&'static str, Change)]) {
        let last = self.states.len();
        let statement = self.states[self.rng.below(last)].clone();
        for object in self.objects.clone() {
            if own.iter().any(|o| o.0 == object) {
                continue;
            }
            match self.isolation {
                Isolation::Serial | Isolation::Snapshot => {}
                Isolation::Statement => _ = view.insert(object, statement[object].clone()),
                Isolation::Object => {
                    _ = view.insert(object, self.states[self.rng.below(last)][object].clone())
                }
            }
        }
    }

    fn op(
        &mut self,
        txn: usize,
        view: &mut State,
        own: &mut Vec<(&'static str, Change)>,
        draft: &mut TxnDraft,
    ) {
        let object = self.objects[self.rng.below(self.objects.len())];
        let rows = object.starts_with("t/");
        let change = match self.rng.below(10) {
            0..=3 => return self.read(object, view, draft),
            4 if rows => return self.scan(view, draft),
            5 | 6 if rows && self.rng.chance(60) => return self.update(txn, view, own, draft),
            7 if self.rng.chance(40) => Change::Put(Val::Absent),
            _ => self.change(object),
        };
        let text = match &change {
            Change::Put(Val::Absent) => format!("d({object})"),
            Change::Put(value) | Change::Merge(value) => format!("w({object},{})", value.show()),
            Change::Append(item) => format!("a({object},{item})"),
        };
        self.apply(txn, object, change, view, own, draft);
        draft.ops.push(text);
    }

    fn change(&mut self, object: &'static str) -> Change {
        let value = if self.duplicates { 1 + self.rng.below(3) as i64 } else { self.next_value };
        self.next_value += 1;
        match object {
            "x" | "y" => Change::Put(Val::Int(value)),
            "l" | "m" => Change::Append(value),
            _ => {
                let small = if self.rng.chance(50) { value } else { self.rng.below(10) as i64 };
                let both = self.rng.chance(40);
                let columns = match self.rng.below(2) {
                    _ if both => BTreeMap::from([("v", small), ("w", value)]),
                    0 => BTreeMap::from([("v", small)]),
                    _ => BTreeMap::from([("w", value)]),
                };
                Change::Merge(Val::Row(columns))
            }
        }
    }

    fn apply(
        &mut self,
        txn: usize,
        object: &'static str,
        change: Change,
        view: &mut State,
        own: &mut Vec<(&'static str, Change)>,
        draft: &mut TxnDraft,
    ) {
        change.apply(txn, view, object);
        self.written.entry(object).or_default().push(view[object].0.clone());
        own.push((object, change));
        if !draft.wrote.contains(&object) {
            draft.wrote.push(object);
        }
    }

    fn read(&mut self, object: &'static str, view: &State, draft: &mut TxnDraft) {
        let (value, writer) = view[object].clone();
        draft.saw.push((draft.ops.len(), object, writer));
        let shown = if self.rng.chance(4) { "?".to_string() } else { self.disturbed(object, value).show() };
        draft.ops.push(format!("r({object},{shown})"));
    }

    /// What is reported of a value: the value, or now and then something else that the object held
    /// or might have.
    fn disturbed(&mut self, object: &str, value: Val) -> Val {
        if !self.rng.chance(self.disturb) {
            return value;
        }
        match value {
            Val::List(mut items) if items.len() > 1 && self.rng.chance(50) => {
                let i = self.rng.below(items.len() - 1);
                items.swap(i, i + 1);
                Val::List(items)
            }
            Val::List(mut items) if self.rng.chance(30) => {
                items.push(items[0]);
                Val::List(items)
            }
            Val::Int(_) if self.rng.chance(30) => Val::Int(99),
            _ => self.rng.pick(&self.written[object]).clone(),
        }
    }

    fn condition(&mut self) -> (String, Condition) {
        let k = self.rng.below(9) as i64;
        let column = |value: &Val, name: &str| match value {
            Val::Row(columns) => columns.get(name).copied(),
            _ => None,
        };
        match self.rng.below(3) {
            0 => (format!("v < {k}"), Box::new(move |value| column(value, "v").is_some_and(|v| v < k))),
            1 => (
                "w IS NULL".to_string(),
                Box::new(move |value| *value != Val::Absent && column(value, "w").is_none()),
            ),
            _ => (format!("v >= {k}"), Box::new(move |value| column(value, "v").is_some_and(|v| v >= k))),
        }
    }

    fn rows(&self, view: &State, matches: &dyn Fn(&Val) -> bool) -> Vec<&'static str> {
        self.objects.iter().copied().filter(|o| o.starts_with("t/") && matches(&view[o].0)).collect()
    }

    fn scan(&mut self, view: &State, draft: &mut TxnDraft) {
        let (text, matches) = self.condition();
        let mut found = self.rows(view, &matches);
        if !found.is_empty() && self.rng.chance(self.disturb) {
            let i = self.rng.below(found.len());
            found.remove(i);
        }
        let mut rows = Vec::new();
        for object in found {
            let value = self.disturbed(object, view[object].0.clone());
            rows.push(format!("{}:{}", &object[2..], value.show()));
        }
        let seen = if self.rng.chance(5) { String::new() } else { format!("{{{}}}", rows.join(" ")) };
        draft.ops.push(format!("scan(t, {text}){seen}"));
    }

    fn update(
        &mut self,
        txn: usize,
        view: &mut State,
        own: &mut Vec<(&'static str, Change)>,
        draft: &mut TxnDraft,
    ) {
        let (text, matches) = self.condition();
        let found = self.rows(view, &matches);
        let k = self.next_value;
        self.next_value += 1;
        let (set, kind) = match self.rng.below(4) {
            0 => (Some(format!("v = {k}")), 0),
            1 => (Some("v = v + 1".to_string()), 1),
            2 => (Some(format!("w = {k}")), 2),
            _ => (None, 3),
        };
        let mut rows = Vec::new();
        for object in found {
            let Val::Row(columns) = &view[object].0 else { continue };
            let change = match kind {
                0 => Change::Merge(Val::Row([("v", k)].into())),
                1 => match columns.get("v") {
                    Some(v) => Change::Merge(Val::Row([("v", v + 1)].into())),
                    None => continue,
                },
                2 => Change::Merge(Val::Row([("w", k)].into())),
                _ => Change::Put(Val::Absent),
            };
            self.apply(txn, object, change, view, own, draft);
            rows.push(format!("{}:{}", &object[2..], view[object].0.show()));
        }
        let seen = if self.rng.chance(8) { String::new() } else { format!("{{{}}}", rows.join(" ")) };
        draft.ops.push(match set {
            Some(set) => format!("upd(t, {text}, {set}){seen}"),
            None => format!("del(t, {text}){seen}"),
        });
    }

    /// Puts everything together: labels in a random order, sessions, times, evidence.
    fn write_down(self) -> String {
        let (rng, txns) = (self.rng, self.txns);
        let mut labels: Vec<usize> = (1..=txns.len()).collect();
        if rng.chance(50) {
            (0..labels.len()).for_each(|i| labels.swap(i, rng.below(i + 1)));
        }
        let sessions = if rng.chance(50) { 1 + rng.below(3) } else { 0 };
        let (timed, jitter) = (rng.chance(40), *rng.pick(&[0, 8, 25]));
        let mut out = String::from("init:");
        for (object, (value, _)) in &self.states[0] {
            if *value != Val::Absent {
                let _ = write!(out, " {object}={}", value.show());
            }
        }
        let mut segments = vec![out];
        let mut order: Vec<usize> = (0..txns.len()).collect();
        order.sort_by_key(|&i| labels[i]);
        for i in order {
            let session =
                if sessions > 0 { format!("@s{}", 100 + rng.below(sessions)) } else { String::new() };
            let mut text = format!("T{}{session}:", labels[i]);
            let mut now = 10 * i + rng.below(jitter + 1);
            for op in &txns[i].ops {
                let start = now + rng.below(3);
                now = start + 1 + rng.below(3 + jitter / 2);
                let at = if timed { format!("@[{start},{now}]") } else { String::new() };
                let _ = write!(text, " {op}{at}");
            }
            segments.push(text + txns[i].outcome);
        }
        if rng.chance(25) {
            evidence(rng, &txns, &labels, &mut segments);
        }
        segments.join(" | ")
    }
}

fn evidence(rng: &mut Rng, txns: &[TxnDraft], labels: &[usize], segments: &mut Vec<String>) {
    let name = |writer: Option<usize>| writer.map_or("init".to_string(), |w| format!("T{}", labels[w]));
    for word in ["commit", "snapshot", "serialization"] {
        if rng.chance(30) {
            for (i, label) in labels.iter().enumerate() {
                let wrong = if rng.chance(8) { 15 } else { 0 };
                if rng.chance(80) {
                    let at = match word {
                        "snapshot" if rng.chance(50) => 10 * i as i64 - 5,
                        "snapshot" => 10 * i as i64 + 5,
                        _ => 10 * i as i64 + 10,
                    };
                    let ts = at + wrong;
                    segments.push(format!("{word} T{label}={ts}"));
                }
            }
        }
    }
    for (i, txn) in txns.iter().enumerate() {
        for &(op, object, writer) in &txn.saw {
            if rng.chance(10) {
                segments.push(format!("saw T{}.{op} {object}={}", labels[i], name(writer)));
                break;
            }
        }
    }
    if rng.chance(30) {
        let object = *rng.pick(&["x", "y", "l", "t/1", "t/2"]);
        let mut writers: Vec<usize> = (0..txns.len()).filter(|&i| txns[i].wrote.contains(&object)).collect();
        if writers.len() > 1 {
            if rng.chance(20) {
                writers.swap(0, 1);
            }
            let writers: Vec<_> = writers.into_iter().map(|w| name(Some(w))).collect();
            segments.push(format!("order {object}: {}", writers.join(" ")));
        }
    }
}

#[derive(Clone, Debug)]
enum Change {
    Put(Val),
    Merge(Val),
    Append(i64),
}

impl Change {
    fn apply(&self, txn: usize, state: &mut State, object: &'static str) {
        let old = state.get(object).map_or(Val::Absent, |s| s.0.clone());
        let new = match (self, old) {
            (Change::Merge(Val::Row(new)), Val::Row(mut old)) => {
                old.extend(new);
                Val::Row(old)
            }
            (Change::Put(value) | Change::Merge(value), _) => value.clone(),
            (Change::Append(item), Val::List(mut items)) => {
                items.push(*item);
                Val::List(items)
            }
            (Change::Append(item), _) => Val::List(vec![*item]),
        };
        state.insert(object, (new, Some(txn)));
    }
}
