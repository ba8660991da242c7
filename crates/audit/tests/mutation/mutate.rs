//! Ways to spoil a certificate.

use margay_history::{History, NameId, ObjectId, OpId, TxnId, Version};
use margay_levels::Anomaly;
use margay_testkit::Rng;
use margay_verdict::{Certificate, Edge, Point, ReadFrom, Reason, Stamp};

const STAMPS: [Stamp; 4] = [Stamp::Serialization, Stamp::Commit, Stamp::Inside, Stamp::Outside];

/// A certificate that differs in one place, or in two.
pub fn mutant(history: &History, certificate: &Certificate, rng: &mut Rng) -> Certificate {
    let mut mutant = certificate.clone();
    let mut spoiler = Spoiler { history, rng };
    for _ in 0..1 + usize::from(spoiler.rng.chance(25)) {
        spoiler.spoil(&mut mutant);
    }
    mutant
}

struct Spoiler<'a> {
    history: &'a History,
    rng: &'a mut Rng,
}

impl Spoiler<'_> {
    fn spoil(&mut self, certificate: &mut Certificate) {
        match certificate {
            Certificate::Order(order) => match self.rng.below(4) {
                0 if !order.reads.is_empty() => self.reads(&mut order.reads),
                _ => {
                    let new = self.txn();
                    self.sequence(&mut order.txns, new);
                }
            },
            Certificate::Points(points) => {
                let txn = self.txn();
                let new = if self.rng.chance(50) { Point::Begin(txn) } else { Point::Commit(txn) };
                self.sequence(points, new);
            }
            Certificate::Versions(versions) => match self.rng.below(4) {
                0 if !versions.reads.is_empty() => self.reads(&mut versions.reads),
                1 => {
                    let new = self.txn();
                    self.sequence(&mut versions.committed, new);
                }
                2 => {
                    let new = (self.object(), vec![self.txn()]);
                    self.sequence(&mut versions.orders, new);
                }
                _ => {
                    let new = self.txn();
                    let place = self.rng.below(versions.orders.len().max(1));
                    if let Some(order) = versions.orders.get_mut(place) {
                        self.sequence(&mut order.1, new);
                    }
                }
            },
            Certificate::Both(both) => {
                let part = self.rng.below(2);
                match self.rng.below(5) {
                    0 => both.swap(0, 1),
                    1 => *certificate = both[part].clone(),
                    _ => self.spoil(&mut both[part]),
                }
            }
            Certificate::Operations { anomaly, ops } => match self.rng.below(2) {
                0 => *anomaly = *self.rng.pick(Anomaly::ALL),
                _ => {
                    let new = self.op();
                    self.sequence(ops, new);
                }
            },
            Certificate::Refutation(lemmas) => {
                let place = self.rng.below(lemmas.len().max(1));
                match lemmas.get_mut(place) {
                    Some(_) if self.rng.chance(20) => _ = lemmas.remove(place),
                    Some(lemma) => self.edges(&mut lemma.edges),
                    None => {}
                }
            }
            // The naive engine, which this test mutates, makes none of these.
            Certificate::DeadEnd(_)
            | Certificate::Intervals(_)
            | Certificate::Execution(_)
            | Certificate::Unexplained(_)
            | Certificate::Invariant(_) => {}
        }
    }

    fn txn(&mut self) -> TxnId {
        TxnId::at(self.rng.below(self.history.txn_count()))
    }

    fn op(&mut self) -> OpId {
        OpId::at(self.rng.below(self.history.op_count()))
    }

    fn object(&mut self) -> ObjectId {
        ObjectId::at(self.rng.below(self.history.object_count().max(1)))
    }

    /// A column, if the history has rows.
    fn column(&mut self) -> Option<NameId> {
        let names = self.history.values().name_count();
        (names > 0).then(|| NameId::at(self.rng.below(names)))
    }

    fn version(&mut self) -> Version {
        if self.rng.chance(40) { Version::Initial } else { Version::Of(self.txn()) }
    }

    /// Swaps, drops, doubles, moves, replaces, adds.
    fn sequence<T: Clone>(&mut self, items: &mut Vec<T>, new: T) {
        let len = items.len();
        if len == 0 {
            return items.push(new);
        }
        let (a, b) = (self.rng.below(len), self.rng.below(len));
        match self.rng.below(6) {
            0 | 1 => items.swap(a, b),
            2 => _ = items.remove(a),
            3 => items.insert(b, items[a].clone()),
            4 => {
                let item = items.remove(a);
                items.insert(b, item);
            }
            _ if self.rng.chance(50) => items[a] = new,
            _ => items.insert(a, new),
        }
    }

    fn reads(&mut self, reads: &mut Vec<ReadFrom>) {
        let place = self.rng.below(reads.len());
        match self.rng.below(4) {
            0 => _ = reads.remove(place),
            1 => reads[place].op = self.op(),
            2 => reads[place].object = self.object(),
            _ => reads[place].version = self.version(),
        }
    }

    fn edges(&mut self, edges: &mut Vec<Edge>) {
        let new = Edge { from: self.txn(), to: self.txn(), reason: self.reason() };
        if edges.is_empty() || self.rng.chance(40) {
            return self.sequence(edges, new);
        }
        let place = self.rng.below(edges.len());
        match self.rng.below(6) {
            0 => edges[place].from = new.from,
            1 => edges[place].to = new.to,
            2 => edges[place].reason = new.reason,
            3 => {
                let edge = &mut edges[place];
                std::mem::swap(&mut edge.from, &mut edge.to);
            }
            _ => self.spoil_reason(&mut edges[place].reason),
        }
    }

    fn reason(&mut self) -> Reason {
        let (op, object, column) = (self.op(), self.object(), self.column());
        match self.rng.below(8) {
            0 => Reason::Session,
            5 => Reason::Recorded(*self.rng.pick(&STAMPS)),
            1 => Reason::RealTime,
            2 => Reason::Read { op, object },
            3 => Reason::Write { object },
            4 => Reason::AntiRead { op, object, version: self.version() },
            turn => match column {
                Some(column) if turn == 6 => Reason::ReadColumn { op, object, column },
                Some(column) => Reason::AntiReadColumn { op, object, column, version: self.version() },
                None => Reason::AntiRead { op, object, version: self.version() },
            },
        }
    }

    fn spoil_reason(&mut self, reason: &mut Reason) {
        let (new_op, new_object, new_version) = (self.op(), self.object(), self.version());
        match reason {
            Reason::Session => *reason = Reason::RealTime,
            Reason::RealTime | Reason::Recorded(_) => *reason = Reason::Session,
            Reason::Write { object } => *object = new_object,
            Reason::Read { op, object } if self.rng.chance(50) => {
                *reason = Reason::AntiRead { op: *op, object: *object, version: new_version };
            }
            Reason::Read { op, object } => match self.rng.below(2) {
                0 => *op = new_op,
                _ => *object = new_object,
            },
            Reason::AntiRead { op, object, version } => match self.rng.below(4) {
                0 => *op = new_op,
                1 => *object = new_object,
                2 => *reason = Reason::Read { op: *op, object: *object },
                _ => *version = new_version,
            },
            Reason::ReadColumn { op, object, .. } => match self.rng.below(3) {
                0 => *op = new_op,
                1 => *object = new_object,
                _ => *reason = Reason::Read { op: *op, object: *object },
            },
            Reason::AntiReadColumn { op, object, version, .. } => match self.rng.below(4) {
                0 => *op = new_op,
                1 => *object = new_object,
                2 => *reason = Reason::AntiRead { op: *op, object: *object, version: *version },
                _ => *version = new_version,
            },
            Reason::Visible { op, object, path } => match self.rng.below(3) {
                0 => *op = new_op,
                1 => *object = new_object,
                _ => self.edges(path),
            },
        }
    }
}
