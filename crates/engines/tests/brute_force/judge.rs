//! The definitions of docs/LEVELS.md, tried choice by choice.
//!
//! Which transactions of unknown outcome committed, which version each read saw, the order of each
//! object's versions, begin and commit points: a level holds if some choice is legal. All orders of
//! at most a handful of transactions are tried one after the other, so there is nothing to get
//! wrong but the definitions.

use crate::model::{Condition, History, Op, Outcome, Seen, Value, Version, Write};

/// The levels that are defined here. `read-uncommitted` is not: its rule about lists is no
/// definition of reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    ReadCommitted,
    RepeatableRead,
    ParallelSnapshot,
    BeReadCommitted,
    ReadAtomic,
    Causal,
    Prefix,
    Snapshot(Order),
    Serial(Order),
}

/// What must be respected beside what was seen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub enum Order {
    Nothing,
    Sessions,
    Time,
}

/// How many choices are tried before a history is too large.
const STEPS: u64 = 3_000_000;

/// Whether a level holds; nothing if there are too many choices. With commit timestamps a
/// serializable level includes the snapshot level below it.
pub fn holds(history: &History, level: Level) -> Option<bool> {
    match level {
        Level::Serial(order) if !history.evidence.commits.is_empty() => {
            let both = (holds_alone(history, level), holds_alone(history, Level::Snapshot(order)));
            if let (Some(serial), Some(snapshot)) = both { Some(serial && snapshot) } else { None }
        }
        _ => holds_alone(history, level),
    }
}

fn holds_alone(history: &History, level: Level) -> Option<bool> {
    let outcome = |wanted| (0..history.txns.len()).filter(move |&t| history.txns[t].outcome == wanted);
    let unknown: Vec<usize> = outcome(Outcome::Unknown).collect();
    for mask in 0..1_u32 << unknown.len() {
        let taken = unknown.iter().enumerate().filter(|&(i, _)| mask >> i & 1 == 1).map(|(_, &t)| t);
        let mut committed: Vec<usize> = outcome(Outcome::Committed).chain(taken).collect();
        committed.sort_unstable();
        let hidden = committed.iter().any(|&txn| history.txns[txn].ops.iter().any(Op::is_hidden));
        let mut judge = Judge { history, level, committed, steps: STEPS };
        let found = match level {
            // What such an update wrote depends on a state, and these levels have none.
            _ if hidden && !matches!(level, Level::Snapshot(_) | Level::Serial(_)) => return None,
            Level::ReadCommitted | Level::RepeatableRead | Level::ParallelSnapshot => {
                judge.graph(0, &mut Graph::new(history.txns.len()))
            }
            Level::Snapshot(_) | Level::Serial(_) => judge.points(),
            _ => judge.commit_order(),
        };
        match judge.steps {
            0 => return None,
            _ if found => return Some(true),
            _ => {}
        }
    }
    Some(false)
}

struct Judge<'h> {
    history: &'h History,
    level: Level,
    committed: Vec<usize>,
    steps: u64,
}

/// Relations between transactions.
#[derive(Clone)]
struct Graph {
    ww: Vec<Vec<bool>>,
    wr: Vec<Vec<bool>>,
    rw: Vec<Vec<bool>>,
    /// Over predicates only.
    rw_predicate: Vec<Vec<bool>>,
}

impl Graph {
    fn new(count: usize) -> Self {
        let none = vec![vec![false; count]; count];
        Self { ww: none.clone(), wr: none.clone(), rw: none.clone(), rw_predicate: none }
    }
}

/// What the versions of an object hold, the initial one first; and what updates that are their
/// transactions' first writes of it saw: transaction, operation, version.
#[derive(Clone)]
struct Layout {
    values: Vec<Value>,
    updates: Vec<(usize, usize, Version)>,
}

/// A read of a version that another transaction made.
#[derive(Clone, Debug)]
struct Site {
    txn: usize,
    op: usize,
    object: usize,
    /// Whether the object itself was read, not only left out by a scan.
    item: bool,
    /// What it may have seen.
    versions: Vec<Version>,
}

impl Judge<'_> {
    fn step(&mut self) -> bool {
        self.steps = self.steps.saturating_sub(1);
        self.steps > 0
    }

    fn writers(&self, object: usize) -> Vec<usize> {
        self.committed.iter().copied().filter(|&txn| self.history.writes(txn, object)).collect()
    }

    fn follows_evidence(&self, object: usize, order: &[usize]) -> bool {
        let wrong =
            |(i, &a): (usize, &usize)| order[i + 1..].iter().any(|&b| self.history.told_before(object, b, a));
        !order.iter().enumerate().any(wrong)
    }

    /// What an object's versions can have held, in this order of its writers. What an update writes
    /// depends on what it saw, which may be any version before.
    fn layouts(&self, object: usize, order: &[usize]) -> Vec<Layout> {
        let initial = self.history.objects[object].initial.clone();
        let mut layouts = vec![Layout { values: vec![initial], updates: Vec::new() }];
        for (before, &txn) in order.iter().enumerate() {
            let versions = || std::iter::once(None).chain(order[..before].iter().map(|&t| Some(t)));
            let first = self.history.txns[txn].ops.iter().position(|op| op.writes(object));
            let update = first.filter(|&op| matches!(self.history.txns[txn].ops[op], Op::Update(..)));
            let mut longer = Vec::new();
            for layout in layouts {
                for (seen, version) in
                    versions().enumerate().take(if update.is_some() { before + 1 } else { 1 })
                {
                    let mut layout = layout.clone();
                    layout.updates.extend(update.map(|op| (txn, op, version)));
                    if let Some(value) = self.version(object, txn, &layout.values, seen) {
                        layout.values.push(value);
                        longer.push(layout);
                    }
                }
            }
            layouts = longer;
        }
        layouts
    }

    /// What a transaction makes of an object behind the last of these values, if an update that is
    /// its first write saw the version at `seen`; nothing if its client saw something else.
    fn version(&self, object: usize, txn: usize, values: &[Value], seen: usize) -> Option<Value> {
        let base = &values[values.len() - 1];
        let mut own: Option<Value> = None;
        for (place, op) in self.history.txns[txn].ops.iter().enumerate() {
            let told = self.history.told(txn, place, object);
            if let Some(value) = &own
                && (!self.shows(op, object, value) || told.is_some_and(|told| told != Some(txn)))
            {
                return None;
            }
            match op {
                Op::Write(_, write) if op.writes(object) => {
                    own = Some(write.apply(own.as_ref().unwrap_or(base)));
                }
                Op::Update(_, set, _) if op.writes(object) => {
                    let looked_at = own.as_ref().unwrap_or(&values[seen]);
                    let write = Write::of_update(set, looked_at);
                    own = Some(write.apply(own.as_ref().unwrap_or(base)));
                }
                _ => {}
            }
        }
        own
    }

    /// Whether an operation may have looked at this value of an object.
    fn shows(&self, op: &Op, object: usize, value: &Value) -> bool {
        match op {
            Op::Read(read, seen) => *read != object || seen.fits(value),
            Op::Scan(condition, rows) if self.history.objects[object].row => {
                let returned = rows.iter().find(|row| row.0 == object);
                condition.matches(value) == returned.is_some()
                    && returned.is_none_or(|(_, seen)| seen.fits(value))
            }
            Op::Update(condition, set, Some(rows)) if self.history.objects[object].row => {
                let returned = rows.iter().find(|row| row.0 == object);
                let new = || Write::of_update(set, value).apply(value);
                condition.matches(value) == returned.is_some()
                    && returned.is_none_or(|(_, seen)| seen.fits(&new()))
            }
            _ => true,
        }
    }

    /// Whether an operation looks at an object in a way that anybody knows of; and whether as an
    /// item.
    fn looks(&self, txn: usize, place: usize, object: usize) -> Option<bool> {
        let told = self.history.told(txn, place, object).is_some();
        match &self.history.txns[txn].ops[place] {
            Op::Read(read, seen) if *read == object && (told || *seen != Seen::Unknown) => Some(true),
            Op::Scan(_, rows) | Op::Update(_, _, Some(rows)) if self.history.objects[object].row => {
                Some(rows.iter().any(|row| row.0 == object))
            }
            _ => None,
        }
    }

    /// What the operations before their transactions' own writes may have seen of an object, by its
    /// version order; nothing if one can have seen no version.
    fn sites(&self, object: usize, order: &[usize], layout: &Layout) -> Option<Vec<Site>> {
        let mut sites = Vec::new();
        for &txn in &self.committed {
            for (place, op) in self.history.txns[txn].ops.iter().enumerate() {
                if matches!(op, Op::Write(..)) && op.writes(object) {
                    break;
                }
                let Some(item) = self.looks(txn, place, object) else { continue };
                let told = self.history.told(txn, place, object);
                let chosen = layout.updates.iter().find(|update| (update.0, update.1) == (txn, place));
                let versions = std::iter::once(None).chain(order.iter().map(|&writer| Some(writer)));
                let fits = |(version, value): &(Version, &Value)| {
                    *version != Some(txn)
                        && self.shows(op, object, value)
                        && told.is_none_or(|told| told == *version)
                        && chosen.is_none_or(|chosen| chosen.2 == *version)
                };
                let versions: Vec<Version> = versions.zip(&layout.values).filter(fits).map(|v| v.0).collect();
                if versions.is_empty() {
                    return None;
                }
                sites.push(Site { txn, op: place, object, item, versions });
                if op.writes(object) {
                    break;
                }
            }
        }
        Some(sites)
    }
}

// Levels of graphs.
impl Judge<'_> {
    /// Some version orders of the objects from `object` on, and what reads saw of them, are legal
    /// with what the graph has.
    fn graph(&mut self, object: usize, graph: &mut Graph) -> bool {
        if !self.is_legal(graph) {
            return false;
        }
        if object == self.history.objects.len() {
            return true;
        }
        for order in permutations(&self.writers(object)) {
            if !self.step() {
                return false;
            }
            if !self.follows_evidence(object, &order) {
                continue;
            }
            let mut graph = graph.clone();
            for (i, &a) in order.iter().enumerate() {
                order[i + 1..].iter().for_each(|&b| graph.ww[a][b] = true);
            }
            for layout in self.layouts(object, &order) {
                let Some(sites) = self.sites(object, &order, &layout) else { continue };
                if self.graph_sites(&sites, &order, object, graph.clone()) {
                    return true;
                }
            }
        }
        false
    }

    fn graph_sites(&mut self, sites: &[Site], order: &[usize], object: usize, mut graph: Graph) -> bool {
        let Some((site, rest)) = sites.split_first() else { return self.graph(object + 1, &mut graph) };
        for &version in &site.versions {
            if !self.step() {
                return false;
            }
            let mut graph = graph.clone();
            let later = match version {
                None => 0,
                Some(writer) => {
                    graph.wr[writer][site.txn] = true;
                    order.iter().position(|&t| t == writer).expect("a version is in the order") + 1
                }
            };
            for &writer in order[later..].iter().filter(|&&writer| writer != site.txn) {
                let rw = if site.item { &mut graph.rw } else { &mut graph.rw_predicate };
                rw[site.txn][writer] = true;
            }
            if self.graph_sites(rest, order, object, graph) {
                return true;
            }
        }
        false
    }

    fn is_legal(&self, graph: &Graph) -> bool {
        let Graph { ww, wr, rw, rw_predicate } = graph;
        let acyclic = |relations: &[&Vec<Vec<bool>>]| irreflexive(&closure(union(relations)));
        match self.level {
            Level::ReadCommitted => acyclic(&[ww, wr]),
            Level::RepeatableRead => acyclic(&[ww, wr, rw]),
            _ => {
                let paths = closure(union(&[ww, wr, &self.sessions()]));
                let rw = union(&[rw, rw_predicate]);
                let count = paths.len();
                let back = |a: usize| (0..count).any(|b| paths[a][b] && rw[b][a]);
                irreflexive(&paths) && !(0..count).any(back)
            }
        }
    }

    fn sessions(&self) -> Vec<Vec<bool>> {
        let mut order = vec![vec![false; self.history.txns.len()]; self.history.txns.len()];
        for &a in &self.committed {
            for &b in self.committed.iter().filter(|&&b| self.in_session(a, b)) {
                order[a][b] = true;
            }
        }
        order
    }

    fn in_session(&self, a: usize, b: usize) -> bool {
        a < b && self.history.txns[a].session == self.history.txns[b].session
    }
}

// Biswas and Enea's levels.
impl Judge<'_> {
    /// Some total order contains session order and reads-from, and satisfies the axiom.
    fn commit_order(&mut self) -> bool {
        for order in permutations(&self.committed) {
            let against = |(i, &a): (usize, &usize)| order[i + 1..].iter().any(|&b| self.in_session(b, a));
            if order.iter().enumerate().any(against) {
                continue;
            }
            if self.ordered(&order, 0, &Vec::new()) {
                return true;
            }
            if self.steps == 0 {
                return false;
            }
        }
        false
    }

    /// Some choice of what the objects from `object` on held satisfies the axiom, with these reads
    /// of the others.
    fn ordered(&mut self, order: &[usize], object: usize, reads: &[Site]) -> bool {
        if object == self.history.objects.len() {
            return self.axiom_sites(reads, order, &mut Vec::new());
        }
        if !self.step() {
            return false;
        }
        let writers: Vec<usize> =
            order.iter().copied().filter(|&txn| self.history.writes(txn, object)).collect();
        if !self.follows_evidence(object, &writers) {
            return false;
        }
        self.layouts(object, &writers).iter().any(|layout| {
            let Some(sites) = self.ordered_sites(order, &writers, object, layout) else { return false };
            self.ordered(order, object + 1, &[reads, &sites].concat())
        })
    }

    /// All reads of an object's versions that other transactions made, which follow the order.
    fn ordered_sites(
        &self,
        order: &[usize],
        writers: &[usize],
        object: usize,
        layout: &Layout,
    ) -> Option<Vec<Site>> {
        let mut sites = self.sites(object, writers, layout)?;
        let place = |txn: usize| order.iter().position(|&t| t == txn);
        for site in &mut sites {
            site.versions.retain(|version| version.is_none_or(|from| place(from) < place(site.txn)));
        }
        for (i, &txn) in writers.iter().enumerate() {
            let before = i.checked_sub(1).map(|before| writers[before]);
            sites.extend(self.own_sites(txn, object, before));
        }
        Some(sites)
    }

    /// Reads of a transaction's own version that show something of the version before: what stands
    /// before its own elements, or a column that its own writes leave alone.
    fn own_sites(&self, txn: usize, object: usize, before: Version) -> Vec<Site> {
        let mut own: Vec<Write> = Vec::new();
        let mut sites = Vec::new();
        for (op, what) in self.history.txns[txn].ops.iter().enumerate() {
            let seen = match what {
                Op::Write(_, write) => {
                    own.extend(what.writes(object).then(|| write.clone()));
                    continue;
                }
                // Which columns it sets does not depend on what it saw.
                Op::Update(_, set, _) => {
                    own.extend(what.writes(object).then(|| Write::of_update(set, &Value::Absent)));
                    continue;
                }
                Op::Read(read, seen) => Some(seen).filter(|_| *read == object),
                Op::Scan(_, rows) => rows.iter().find(|row| row.0 == object).map(|row| &row.1),
            };
            if seen.is_some_and(|seen| shows_before(seen, &own)) {
                sites.push(Site { txn, op, object, item: true, versions: vec![before] });
            }
        }
        sites
    }

    fn axiom_sites(&mut self, sites: &[Site], order: &[usize], chosen: &mut Vec<(Site, Version)>) -> bool {
        if !self.step() {
            return false;
        }
        let Some((site, rest)) = sites.split_first() else { return self.satisfies_axiom(order, chosen) };
        for &version in &site.versions {
            chosen.push((site.clone(), version));
            if self.axiom_sites(rest, order, chosen) {
                return true;
            }
            chosen.pop();
        }
        false
    }

    /// Whenever t3 reads x from t1, t2 ≠ t1 writes x and φ(t2, t3), then t2 comes before t1.
    fn satisfies_axiom(&self, order: &[usize], reads: &[(Site, Version)]) -> bool {
        let place = |txn: usize| order.iter().position(|&t| t == txn);
        let mut direct = self.sessions();
        for (site, version) in reads {
            version.iter().for_each(|&from| direct[from][site.txn] = true);
        }
        let causal = closure(direct.clone());
        let visible = |t2: usize, site: &Site| match self.level {
            Level::BeReadCommitted => reads
                .iter()
                .any(|(other, from)| other.txn == site.txn && other.op < site.op && *from == Some(t2)),
            Level::ReadAtomic => direct[t2][site.txn],
            Level::Causal => causal[t2][site.txn],
            _ => order.iter().any(|&t4| place(t2) <= place(t4) && direct[t4][site.txn]),
        };
        reads.iter().all(|(site, t1)| {
            self.writers(site.object).into_iter().all(|t2| {
                t2 == site.txn
                    || Some(t2) == *t1
                    || !visible(t2, site)
                    || t1.is_some_and(|t1| place(t2) < place(t1))
            })
        })
    }
}

fn shows_before(seen: &Seen, own: &[Write]) -> bool {
    if own.is_empty() || *seen == Seen::Unknown {
        return false;
    }
    if own.iter().all(|write| matches!(write, Write::Append(_))) {
        return true;
    }
    let Seen::Columns(columns) = seen else { return false };
    let leaves = |write: &Write, name: &str| match write {
        Write::Merge(set) => !set.contains_key(name),
        Write::Set(set) => !set.contains_key(name),
        Write::Put(_) | Write::Append(_) => false,
    };
    columns.keys().any(|name| own.iter().all(|write| leaves(write, name)))
}

/// What all objects hold, and whose version that is.
type State = (Vec<Value>, Vec<Version>);

/// A transaction among the commits: how many come before its begin, and what it wrote.
struct Placed {
    txn: usize,
    begin: usize,
    writes: Vec<(usize, Write)>,
}

impl Placed {
    fn writes(&self, object: usize) -> bool {
        self.writes.iter().any(|write| write.0 == object)
    }
}

// Serializable and snapshot levels.
impl Judge<'_> {
    fn points(&mut self) -> bool {
        let values: Vec<Value> = self.history.objects.iter().map(|object| object.initial.clone()).collect();
        let initial = (values, vec![None; self.history.objects.len()]);
        self.place(&mut Vec::new(), &mut vec![initial])
    }

    /// Puts one more transaction at the end of the commits.
    fn place(&mut self, placed: &mut Vec<Placed>, states: &mut Vec<State>) -> bool {
        if placed.len() == self.committed.len() {
            return true;
        }
        for txn in self.committed.clone() {
            if placed.iter().any(|other| other.txn == txn) {
                continue;
            }
            let first = if matches!(self.level, Level::Serial(_)) { placed.len() } else { 0 };
            for begin in first..=placed.len() {
                if !self.step() {
                    return false;
                }
                let Some(writes) = self.run(txn, &states[begin]) else { continue };
                let new = Placed { txn, begin, writes };
                if !self.may_stand(&new, placed) {
                    continue;
                }
                let mut state = states[states.len() - 1].clone();
                for (object, write) in &new.writes {
                    state.0[*object] = write.apply(&state.0[*object]);
                    state.1[*object] = Some(txn);
                }
                states.push(state);
                placed.push(new);
                if self.place(placed, states) {
                    return true;
                }
                placed.pop();
                states.pop();
            }
        }
        false
    }

    /// Whether all that must come before does, writers of one object do not overlap, and evidence
    /// agrees.
    fn may_stand(&self, new: &Placed, placed: &[Placed]) -> bool {
        let (txn, begin) = (new.txn, new.begin);
        let evidence = &self.history.evidence;
        let less = |a: Option<&i64>, b: Option<&i64>| matches!((a, b), (Some(a), Some(b)) if a < b);
        let snapshots = matches!(self.level, Level::Snapshot(_));
        self.committed.iter().filter(|&&other| other != txn).all(|&other| {
            let place = placed.iter().position(|p| p.txn == other);
            let before_begin = place.is_some_and(|place| place < begin);
            let both =
                |&object: &usize| new.writes(object) && place.is_some_and(|p| placed[p].writes(object));
            let shared = (0..self.history.objects.len()).filter(both);
            let stamped = if snapshots {
                less(evidence.commits.get(&other), evidence.commits.get(&txn))
            } else {
                less(evidence.serializations.get(&other), evidence.serializations.get(&txn))
            };
            let inside = match (evidence.snapshots.get(&txn), evidence.commits.get(&other)) {
                (Some(snapshot), Some(commit)) if snapshots => Some(commit <= snapshot),
                _ => None,
            };
            let mut shared = shared.peekable();
            let overlaps = place.is_some() && !before_begin && shared.peek().is_some();
            let misordered = place.is_some() && shared.any(|o| self.history.told_before(o, txn, other));
            (before_begin || !self.precedes(other, txn))
                && (place.is_some() || !stamped)
                && inside.is_none_or(|inside| inside == before_begin)
                && !overlaps
                && !misordered
        })
    }

    fn precedes(&self, a: usize, b: usize) -> bool {
        let (Level::Snapshot(order) | Level::Serial(order)) = self.level else { return false };
        // Whose outcome nobody learned may have committed at any later time.
        let ended = self.history.txns[a].outcome == Outcome::Committed;
        let times = (self.history.txns[a].time.filter(|_| ended), self.history.txns[b].time);
        order >= Order::Sessions && self.in_session(a, b)
            || order == Order::Time && matches!(times, (Some(a), Some(b)) if a.1 < b.0)
    }

    /// What a transaction writes if it runs on a state; nothing if its client saw something else.
    fn run(&self, txn: usize, state: &State) -> Option<Vec<(usize, Write)>> {
        let (mut values, mut versions) = state.clone();
        let mut writes = Vec::new();
        for (place, op) in self.history.txns[txn].ops.iter().enumerate() {
            let fits = |object: usize| {
                let told = self.history.told(txn, place, object);
                self.shows(op, object, &values[object]) && told.is_none_or(|told| told == versions[object])
            };
            if !(0..values.len()).all(fits) {
                return None;
            }
            let new: Vec<(usize, Write)> = match op {
                Op::Write(object, write) => vec![(*object, write.clone())],
                Op::Update(condition, set, _) => {
                    let rows = matching(*condition, &values, |object| self.history.objects[object].row);
                    rows.into_iter().map(|row| (row, Write::of_update(set, &values[row]))).collect()
                }
                _ => Vec::new(),
            };
            for (object, write) in &new {
                values[*object] = write.apply(&values[*object]);
                versions[*object] = Some(txn);
            }
            writes.extend(new);
        }
        Some(writes)
    }
}

fn permutations(all: &[usize]) -> Vec<Vec<usize>> {
    let Some((&first, rest)) = all.split_first() else { return vec![Vec::new()] };
    let shorter = permutations(rest);
    let with = |order: &Vec<usize>| {
        (0..=order.len())
            .map(|place| [&order[..place], &[first], &order[place..]].concat())
            .collect::<Vec<_>>()
    };
    shorter.iter().flat_map(with).collect()
}

fn union(relations: &[&Vec<Vec<bool>>]) -> Vec<Vec<bool>> {
    let count = relations[0].len();
    let row = |a: usize| (0..count).map(|b| relations.iter().any(|relation| relation[a][b])).collect();
    (0..count).map(row).collect()
}

fn closure(mut relation: Vec<Vec<bool>>) -> Vec<Vec<bool>> {
    for k in 0..relation.len() {
        for a in 0..relation.len() {
            for b in 0..relation.len() {
                relation[a][b] |= relation[a][k] && relation[k][b];
            }
        }
    }
    relation
}

fn irreflexive(relation: &[Vec<bool>]) -> bool {
    relation.iter().enumerate().all(|(a, row)| !row[a])
}

/// Which rows a scan of these values returns.
pub fn matching(condition: Condition, values: &[Value], is_row: impl Fn(usize) -> bool) -> Vec<usize> {
    (0..values.len()).filter(|&object| is_row(object) && condition.matches(&values[object])).collect()
}
