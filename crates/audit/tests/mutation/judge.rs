//! What a certificate proves, by brute force, on tiny histories of registers and lists without
//! evidence.
//!
//! Nothing here is shared with the audit: states are recomputed from the beginning for every read,
//! all pairs are looked at, all choices are enumerated.

use std::collections::HashMap;

use margay_history::{History, ObjectId, OpId, OpKind, Outcome, TxnId, Value, ValueId, Version};
use margay_levels::Level;
use margay_levels::definition::{Axiom, Family};
use margay_verdict::{Edge, Lemma, Point, Question, Reason, Versions};

pub struct Judge<'h> {
    pub history: &'h History,
    pub question: Question,
}

/// A way in which it may have happened.
#[derive(Clone, Default)]
struct Choice {
    committed: Vec<TxnId>,
    orders: HashMap<ObjectId, Vec<TxnId>>,
    reads: HashMap<(OpId, ObjectId), Version>,
}

impl Judge<'_> {
    /// Whether this judge understands the history.
    pub fn understands(history: &History) -> bool {
        let plain = |kind| !matches!(kind, OpKind::Scan | OpKind::Update | OpKind::Sql);
        history.txns().flat_map(|t| history.ops(t)).all(|op| plain(op.kind))
            && history.evidence().is_empty()
            && history.objects().all(|o| history.object(o).table.is_none())
    }

    fn must_precede(&self, a: TxnId, b: TxnId) -> bool {
        let same = self.history.session_of(a) == self.history.session_of(b);
        self.question.uses_session_order() && same && a < b
            || self.question.uses_real_time() && self.history.precedes(a, b)
    }

    fn complete(&self, txns: &[TxnId]) -> bool {
        let count = |t: TxnId| txns.iter().filter(|&&u| u == t).count();
        self.history.txns().all(|t| match self.history.outcome(t) {
            Outcome::Committed => count(t) == 1,
            Outcome::Aborted => count(t) == 0,
            Outcome::Unknown => count(t) <= 1,
        })
    }

    /// What the writes of `txns`, one after the other, make of an object.
    fn value(&self, object: ObjectId, txns: &[TxnId]) -> Vec<ValueId> {
        let mut value = self.flat(self.history.initial(object));
        for op in txns.iter().flat_map(|&t| self.history.ops(t)) {
            self.apply(op.id, object, &mut value);
        }
        value
    }

    fn apply(&self, op: OpId, object: ObjectId, value: &mut Vec<ValueId>) {
        let op = self.history.op(op);
        for access in op.accesses.iter().filter(|a| a.object == object) {
            match op.kind {
                OpKind::Write => *value = self.flat(access.value),
                OpKind::Append => value.push(access.value),
                _ => {}
            }
        }
    }

    /// Registers as lists of one: the objects of one history never mix both.
    fn flat(&self, value: ValueId) -> Vec<ValueId> {
        match self.history.value(value) {
            Value::Null => Vec::new(),
            Value::List(items) => items.to_vec(),
            _ => vec![value],
        }
    }

    /// Whether every read of a transaction on `before` (by object) is what it recorded.
    fn runs(&self, txn: TxnId, before: &dyn Fn(ObjectId) -> Vec<ValueId>) -> bool {
        self.history.ops(txn).filter(|op| op.kind == OpKind::Read).all(|op| {
            op.accesses.iter().filter(|a| a.value != ValueId::UNKNOWN).all(|access| {
                let mut value = before(access.object);
                let earlier = self.history.ops(txn).filter(|own| own.id < op.id);
                earlier.for_each(|own| self.apply(own.id, access.object, &mut value));
                value == self.flat(access.value)
            })
        })
    }

    fn writes(&self, txn: TxnId, object: ObjectId) -> bool {
        let mut writes = self.history.ops(txn).filter(|op| op.kind.writes());
        writes.any(|op| op.accesses.iter().any(|a| a.object == object))
    }

    pub fn serial(&self, order: &[TxnId]) -> bool {
        let keeps = |i: usize| order[i + 1..].iter().all(|&later| !self.must_precede(later, order[i]));
        self.complete(order)
            && (0..order.len()).all(keeps)
            && (0..order.len()).all(|i| self.runs(order[i], &|object| self.value(object, &order[..i])))
    }

    /// The snapshot levels.
    pub fn points(&self, points: &[Point]) -> bool {
        let place = |point| points.iter().position(|&p| p == point);
        let begins: Vec<TxnId> = points
            .iter()
            .filter_map(|p| match p {
                Point::Begin(t) => Some(*t),
                _ => None,
            })
            .collect();
        let commits: Vec<TxnId> = points
            .iter()
            .filter_map(|p| match p {
                Point::Commit(t) => Some(*t),
                _ => None,
            })
            .collect();
        let paired = begins.iter().all(|&t| place(Point::Begin(t)) < place(Point::Commit(t)));
        if !self.complete(&begins) || !self.complete(&commits) || !paired || begins.len() != commits.len() {
            return false;
        }
        let visible = |to: TxnId, from: TxnId| place(Point::Commit(from)) < place(Point::Begin(to));
        let clash = |a: TxnId, b: TxnId| {
            let shared = self.history.objects().any(|o| self.writes(a, o) && self.writes(b, o));
            a != b && shared && !visible(a, b) && !visible(b, a)
        };
        let fine = |&txn: &TxnId| {
            let snapshot: Vec<TxnId> = commits.iter().copied().filter(|&from| visible(txn, from)).collect();
            self.runs(txn, &|object| self.value(object, &snapshot))
                && commits.iter().all(|&other| !clash(txn, other))
                && commits.iter().all(|&other| !self.must_precede(other, txn) || visible(txn, other))
        };
        commits.iter().all(fine)
    }

    /// Reads before the own first write of the object.
    fn external(&self, txn: TxnId) -> Vec<(OpId, ObjectId, Vec<ValueId>)> {
        let mut all = Vec::new();
        for op in self.history.ops(txn).filter(|op| op.kind == OpKind::Read) {
            for access in op.accesses.iter().filter(|a| a.value != ValueId::UNKNOWN) {
                let own = |o: &margay_history::Op<'_>| {
                    o.id < op.id && o.kind.writes() && o.accesses.iter().any(|a| a.object == access.object)
                };
                if !self.history.ops(txn).any(|o| own(&o)) {
                    all.push((op.id, access.object, self.flat(access.value)));
                }
            }
        }
        all
    }

    /// Every committed set, version order and choice of versions that explains what was seen.
    fn choices(&self) -> Vec<Choice> {
        let unknown: Vec<TxnId> =
            self.history.txns().filter(|&t| self.history.outcome(t) == Outcome::Unknown).collect();
        let known = self.history.txns().filter(|&t| self.history.outcome(t) == Outcome::Committed);
        let known: Vec<TxnId> = known.collect();
        let mut all = Vec::new();
        for set in 0..1u32 << unknown.len() {
            let taken = unknown.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).map(|(_, &t)| t);
            let committed: Vec<TxnId> = known.iter().copied().chain(taken).collect();
            let mut partial = vec![Choice { committed, ..Choice::default() }];
            for object in self.history.objects() {
                partial = partial.iter().flat_map(|choice| self.with_object(choice, object)).collect();
            }
            all.extend(partial);
        }
        all
    }

    fn with_object(&self, choice: &Choice, object: ObjectId) -> Vec<Choice> {
        let writers: Vec<TxnId> =
            choice.committed.iter().copied().filter(|&t| self.writes(t, object)).collect();
        let mut all = Vec::new();
        for order in permutations(&writers) {
            let own = |txn: &TxnId| {
                let before = order.iter().position(|t| t == txn).unwrap_or(0);
                self.own_reads(*txn, object, &order[..before])
            };
            if !writers.iter().all(own) {
                continue;
            }
            let mut choices = vec![choice.clone()];
            choices[0].orders.insert(object, order.clone());
            for &txn in &choice.committed {
                for (op, _, seen) in self.external(txn).into_iter().filter(|read| read.1 == object) {
                    let fits = |&k: &usize| {
                        (k == 0 || order[k - 1] != txn) && self.value(object, &order[..k]) == seen
                    };
                    let options: Vec<usize> = (0..=order.len()).filter(fits).collect();
                    let extended = choices.iter().flat_map(|choice| {
                        options.iter().map(|&k| {
                            let mut choice = choice.clone();
                            let version = if k == 0 { Version::Initial } else { Version::Of(order[k - 1]) };
                            choice.reads.insert((op, object), version);
                            choice
                        })
                    });
                    choices = extended.collect();
                }
            }
            all.extend(choices);
        }
        all
    }

    /// Reads after own writes: those on top of what came before.
    fn own_reads(&self, txn: TxnId, object: ObjectId, before: &[TxnId]) -> bool {
        let mut value = self.value(object, before);
        let mut wrote = false;
        for op in self.history.ops(txn) {
            let mut here = op.accesses.iter().filter(|a| a.object == object && a.value != ValueId::UNKNOWN);
            if wrote && op.kind == OpKind::Read && here.any(|a| self.flat(a.value) != value) {
                return false;
            }
            wrote |= op.kind.writes() && op.accesses.iter().any(|a| a.object == object);
            self.apply(op.id, object, &mut value);
        }
        true
    }

    /// The levels of graphs but `read-uncommitted`: whether some choice that agrees with the
    /// certificate has the shape. The certificate may leave open only what has one answer.
    pub fn versions(&self, versions: &Versions) -> bool {
        let agrees = |choice: &&Choice| {
            let unknown = |t: &TxnId| self.history.outcome(*t) == Outcome::Unknown;
            let mut taken: Vec<TxnId> = choice.committed.iter().copied().filter(unknown).collect();
            let mut listed = versions.committed.clone();
            taken.sort_unstable();
            listed.sort_unstable();
            let order = |(object, order): &(ObjectId, Vec<TxnId>)| {
                choice.orders.get(object).map_or(order.is_empty(), |chosen| chosen == order)
            };
            let told = |object: &ObjectId| versions.orders.iter().any(|o| o.0 == *object);
            taken == listed
                && versions.orders.iter().all(order)
                && choice.orders.iter().all(|(object, order)| order.len() < 2 || told(object))
                && versions
                    .reads
                    .iter()
                    .all(|r| choice.reads.get(&(r.op, r.object)).is_none_or(|&v| v == r.version))
        };
        self.choices().iter().filter(agrees).any(|choice| self.legal(choice))
    }

    fn legal(&self, choice: &Choice) -> bool {
        let n = self.history.txn_count();
        let (mut paths, mut rw) = (vec![vec![false; n]; n], Vec::new());
        for order in choice.orders.values() {
            for (i, a) in order.iter().enumerate() {
                order[i + 1..].iter().for_each(|b| paths[a.index()][b.index()] = true);
            }
        }
        for (&(op, object), &version) in &choice.reads {
            let reader = self.history.txn_of(op);
            let order = &choice.orders[&object];
            let seen = match version {
                Version::Initial => 0,
                Version::Of(txn) => {
                    paths[txn.index()][reader.index()] = true;
                    order.iter().position(|&t| t == txn).map_or(0, |i| i + 1)
                }
            };
            rw.extend(order[seen..].iter().filter(|&&t| t != reader).map(|&t| (reader, t)));
        }
        for &a in &choice.committed {
            choice
                .committed
                .iter()
                .filter(|&&b| self.must_precede(a, b))
                .for_each(|b| paths[a.index()][b.index()] = true);
        }
        if self.question.level == Level::RepeatableRead {
            rw.iter().for_each(|(a, b)| paths[a.index()][b.index()] = true);
        }
        for k in 0..n {
            for i in 0..n {
                for j in 0..n {
                    paths[i][j] |= paths[i][k] && paths[k][j];
                }
            }
        }
        let at_most_one = self.question.level == Level::ParallelSnapshot;
        (0..n).all(|i| !paths[i][i]) && !(at_most_one && rw.iter().any(|(a, b)| paths[b.index()][a.index()]))
    }

    /// Whether in every choice one of the lemmas is a cycle that the level forbids.
    pub fn refuted(&self, lemmas: &[Lemma]) -> bool {
        self.choices().iter().all(|choice| lemmas.iter().any(|lemma| self.arises(choice, &lemma.edges)))
    }

    fn arises(&self, choice: &Choice, edges: &[Edge]) -> bool {
        let closed =
            !edges.is_empty() && (0..edges.len()).all(|i| edges[i].to == edges[(i + 1) % edges.len()].from);
        closed && edges.iter().all(|edge| self.is_there(choice, edge)) && self.forbidden(edges)
    }

    fn is_there(&self, choice: &Choice, edge: &Edge) -> bool {
        let (from, to) = (edge.from, edge.to);
        let place = |object: &ObjectId, txn: TxnId| {
            choice.orders.get(object).and_then(|o| o.iter().position(|&t| t == txn))
        };
        let before = |object: &ObjectId, a: TxnId, b: TxnId| match (place(object, a), place(object, b)) {
            (Some(a), Some(b)) => a < b,
            _ => false,
        };
        let saw = |op: &OpId, object: &ObjectId, version: Version| {
            choice.reads.get(&(*op, *object)) == Some(&version)
        };
        if from == to || ![from, to].iter().all(|t| choice.committed.contains(t)) {
            return false;
        }
        match &edge.reason {
            Reason::Session => {
                self.question.uses_session_order()
                    && self.history.session_of(from) == self.history.session_of(to)
                    && from < to
            }
            Reason::RealTime => self.question.uses_real_time() && self.history.precedes(from, to),
            // Histories with evidence or tables are not understood.
            Reason::Recorded(_) | Reason::ReadColumn { .. } | Reason::AntiReadColumn { .. } => false,
            Reason::Write { object } => before(object, from, to),
            Reason::Read { op, object } => {
                self.history.txn_of(*op) == to && saw(op, object, Version::Of(from))
            }
            Reason::AntiRead { op, object, version } => {
                self.history.txn_of(*op) == from
                    && saw(op, object, *version)
                    && match version {
                        Version::Initial => place(object, to).is_some(),
                        Version::Of(txn) => before(object, *txn, to),
                    }
            }
            Reason::Visible { op, object, path } => {
                saw(op, object, Version::Of(to))
                    && place(object, from).is_some()
                    && from != self.history.txn_of(*op)
                    && path.iter().all(|edge| self.is_there(choice, edge))
                    && self.is_visible(from, path, *op)
            }
        }
    }

    fn is_visible(&self, from: TxnId, path: &[Edge], op: OpId) -> bool {
        let reader = self.history.txn_of(op);
        let mut at = from;
        for edge in path {
            let step = matches!(edge.reason, Reason::Session | Reason::Read { .. });
            if edge.from != at || !step {
                return false;
            }
            at = edge.to;
        }
        let earlier = |edge: &Edge| matches!(edge.reason, Reason::Read { op: first, .. } if first < op);
        at == reader
            && match self.question.level.family() {
                Family::CommitOrder(Axiom::ReadBefore) => path.len() == 1 && earlier(&path[0]),
                Family::CommitOrder(Axiom::Direct) => path.len() == 1,
                Family::CommitOrder(Axiom::Causal) => !path.is_empty(),
                _ => false,
            }
    }

    fn forbidden(&self, edges: &[Edge]) -> bool {
        let is_rw = |e: &&Edge| matches!(e.reason, Reason::AntiRead { .. });
        let is_wr = |e: &Edge| matches!(e.reason, Reason::Read { .. });
        let is_visible = |e: &Edge| matches!(e.reason, Reason::Visible { .. });
        let rw = edges.iter().filter(is_rw).count();
        let axioms =
            matches!(self.question.level, Level::BeReadCommitted | Level::ReadAtomic | Level::Causal);
        if !axioms && edges.iter().any(is_visible) {
            return false;
        }
        match self.question.level {
            Level::ReadUncommitted => rw == 0 && !edges.iter().any(is_wr),
            Level::ReadCommitted => rw == 0,
            Level::ParallelSnapshot => rw <= 1,
            _ if axioms && rw == 0 => true,
            _ if axioms => {
                let Some(start) = edges.iter().position(|e| is_rw(&e)) else { return false };
                let Reason::AntiRead { op, .. } = edges[start].reason else { return false };
                let mut path = edges.to_vec();
                path.rotate_left(start + 1);
                path.pop();
                rw == 1 && self.is_visible(edges[start].to, &path, op)
            }
            level if level == Level::Prefix || level.family() == Family::Snapshot => {
                self.impossible_points(edges)
            }
            _ => true,
        }
    }

    /// Whether the order of points that the edges ask for is a circle, of whatever points.
    fn impossible_points(&self, edges: &[Edge]) -> bool {
        let n = 2 * self.history.txn_count();
        let (begin, commit) = (|t: TxnId| 2 * t.index(), |t: TxnId| 2 * t.index() + 1);
        let mut paths = vec![vec![false; n]; n];
        self.history.txns().for_each(|t| paths[begin(t)][commit(t)] = true);
        for edge in edges {
            let (from, to) = match edge.reason {
                Reason::AntiRead { .. } => (begin(edge.from), commit(edge.to)),
                Reason::Write { .. } if self.question.level == Level::Prefix => {
                    (commit(edge.from), commit(edge.to))
                }
                _ => (commit(edge.from), begin(edge.to)),
            };
            paths[from][to] = true;
        }
        for k in 0..n {
            for i in 0..n {
                for j in 0..n {
                    paths[i][j] |= paths[i][k] && paths[k][j];
                }
            }
        }
        (0..n).any(|i| paths[i][i])
    }
}

fn permutations(items: &[TxnId]) -> Vec<Vec<TxnId>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for i in 0..items.len() {
        let mut rest = items.to_vec();
        let first = rest.remove(i);
        all.extend(permutations(&rest).into_iter().map(|mut tail| {
            tail.insert(0, first);
            tail
        }));
    }
    all
}
