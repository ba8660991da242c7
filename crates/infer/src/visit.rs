//! The walk from the committed transactions to all that must have, and what each read saw.

use hashbrown::{HashMap, HashSet};
use margay_history::{Access, History, ObjectId, Op, OpId, OpKind, Outcome, TxnId, Value, ValueId, Version};
use margay_levels::Anomaly;
use margay_verdict::Budget;
use margay_verdict::last_writes::LastWriter;

use crate::case::{ListRead, Local, Next, Read, Stop, unexplained};
use crate::index::{Index, Use, plain};
use crate::scans::{Left, Scans};

/// A larger table is not kept for the next transaction: clearing it costs its capacity.
const KEPT: usize = 256;

/// The walk.
pub(crate) struct Visit<'a, 'h> {
    history: &'h History,
    index: &'a Index,
    scans: Option<Scans<'h>>,
    pub(crate) committed: Vec<bool>,
    pending: Vec<TxnId>,
    pub(crate) reads: Vec<Read>,
    pub(crate) lists: Vec<ListRead>,
    met: HashSet<(ObjectId, ValueId)>,
    pub(crate) local: Vec<Local>,
    pub(crate) open: Option<String>,
    /// What the visited transaction has written so far, and how often.
    own: HashMap<ObjectId, (ValueId, u32)>,
}

impl<'a, 'h> Visit<'a, 'h> {
    /// # Errors
    /// A condition of a scan that is outside the fragment.
    pub(crate) fn new(history: &'h History, index: &'a Index) -> Result<Self, String> {
        let pending: Vec<TxnId> =
            history.txns().rev().filter(|&t| history.outcome(t) == Outcome::Committed).collect();
        let mut committed = vec![false; history.txn_count()];
        pending.iter().for_each(|txn| committed[txn.index()] = true);
        let reads = history.txns().flat_map(|txn| history.ops(txn)).filter(|op| op.kind == OpKind::Read);
        let register = |access: &&Access| index.uses[access.object.index()] == Use::Register;
        let reads = reads.map(|op| op.accesses.iter().filter(register).count()).sum();
        let scans = history.has_kind(OpKind::Scan).then(|| Scans::new(history, index)).transpose()?;
        Ok(Self {
            history,
            index,
            scans,
            committed,
            pending,
            reads: Vec::with_capacity(reads),
            lists: Vec::new(),
            met: HashSet::new(),
            local: Vec::new(),
            open: None,
            own: HashMap::new(),
        })
    }

    /// # Errors
    /// What of the history is outside the fragment, or the limit that was reached.
    pub(crate) fn run(&mut self, budget: &Budget) -> Result<(), Stop> {
        let history = self.history;
        while let Some(txn) = self.pending.pop() {
            budget.poll()?;
            if self.own.capacity() > KEPT {
                self.own = HashMap::new();
            }
            self.own.clear();
            for op in history.ops(txn) {
                for access in op.accesses {
                    self.access(txn, &op, access);
                }
                if op.kind == OpKind::Scan {
                    self.returned(txn, &op)?;
                    self.left_out(txn, &op)?;
                }
            }
        }
        Ok(())
    }

    fn access(&mut self, txn: TxnId, op: &Op<'_>, access: &Access) {
        match op.kind {
            OpKind::Write | OpKind::Append => {
                let own = self.own.entry(access.object).or_insert((access.value, 0));
                *own = (access.value, own.1 + 1);
            }
            OpKind::Read | OpKind::Scan if access.value != ValueId::UNKNOWN => {
                let own = self.own.get(&access.object).copied();
                match self.index.uses[access.object.index()] {
                    Use::List => self.list(txn, op.id, access, own.map_or(0, |own| own.1)),
                    _ => match own {
                        Some(own) => self.internal(txn, op.id, access, own.0),
                        None => self.external(txn, op.id, access),
                    },
                }
            }
            _ => {}
        }
    }

    fn unexplained(&mut self, txn: TxnId, op: OpId, names: &[Anomaly]) {
        unexplained(self.history, &mut self.local, &mut self.open, txn, op, names);
    }

    fn internal(&mut self, txn: TxnId, op: OpId, access: &Access, own: ValueId) {
        if plain(self.history, own) != plain(self.history, access.value) {
            self.unexplained(txn, op, &[Anomaly::Internal]);
        }
    }

    fn external(&mut self, txn: TxnId, op: OpId, access: &Access) {
        let history = self.history;
        let (object, value) = (access.object, access.value);
        let initial = plain(history, history.initial(object)) == plain(history, value);
        let from = match self.index.last_writer(history, object, value) {
            LastWriter::One(writer) if writer != txn && !initial => Version::Of(writer),
            // What the transaction itself writes later it cannot have seen.
            LastWriter::One(writer) if writer == txn && initial => Version::Initial,
            LastWriter::None if initial => Version::Initial,
            LastWriter::One(writer) if writer != txn => return self.written_twice(object, value),
            LastWriter::Several => return self.written_twice(object, value),
            LastWriter::One(_) | LastWriter::None => {
                use Anomaly::{FutureRead, G1a, G1b, GarbageRead, ResultMismatch};
                return self.unexplained(txn, op, &[GarbageRead, G1a, FutureRead, G1b, ResultMismatch]);
            }
        };
        self.saw(txn, op, object, from);
    }

    fn written_twice(&mut self, object: ObjectId, value: ValueId) {
        let history = self.history;
        self.open.get_or_insert_with(|| {
            let (object, value) = (history.show_object(object), history.show_value(value));
            format!("{value} was written to {object} more than once")
        });
    }

    fn saw(&mut self, txn: TxnId, op: OpId, object: ObjectId, from: Version) {
        self.commit(from);
        if self.index.uses[object.index()] != Use::Unwritten {
            self.reads.push(Read { txn, op, object, from, next: Next::Nothing });
        }
    }

    /// Who was seen committed.
    fn commit(&mut self, from: Version) {
        if let Version::Of(txn) = from
            && !self.committed[txn.index()]
        {
            self.committed[txn.index()] = true;
            self.pending.push(txn);
        }
    }

    fn list(&mut self, txn: TxnId, op: OpId, access: &Access, own: u32) {
        self.lists.push(ListRead { object: access.object, txn, op, value: access.value, own });
        if !self.met.insert((access.object, access.value)) {
            return;
        }
        if let Value::List(items) = self.history.value(access.value) {
            for &item in items {
                let found = self.index.appender(access.object, item).map(|append| append.txn);
                if let Some(txn) = found.filter(|&t| self.history.outcome(t) == Outcome::Unknown) {
                    self.commit(Version::Of(txn));
                }
            }
        }
    }

    /// A scan returns each row once, and only rows that match its condition; what is absent matches
    /// none.
    fn returned(&mut self, txn: TxnId, op: &Op<'_>) -> Result<(), String> {
        let Some(scan) = self.history.scan(op.id).filter(|scan| scan.observed) else { return Ok(()) };
        if op.shows_twice().is_some() {
            self.unexplained(txn, op.id, &[Anomaly::ResultMismatch]);
            return Ok(());
        }
        for access in op.accesses.iter().filter(|access| access.value != ValueId::UNKNOWN) {
            let Some(scans) = &self.scans else { return Ok(()) };
            if !scans.matches(scan.predicate, access.object, access.value)? {
                self.unexplained(txn, op.id, &[Anomaly::G1b, Anomaly::Internal, Anomaly::ResultMismatch]);
                return Ok(());
            }
        }
        Ok(())
    }

    /// What a scan saw of the rows that it did not return.
    fn left_out(&mut self, txn: TxnId, op: &Op<'_>) -> Result<(), String> {
        let Some(scan) = self.history.scan(op.id).filter(|scan| scan.observed) else { return Ok(()) };
        let Some(mut scans) = self.scans.take() else { return Ok(()) };
        for object in scans.domain(scan.predicate) {
            if op.accesses.iter().any(|access| access.object == object) {
                continue;
            }
            if self.index.uses[object.index()] == Use::List {
                return Err("a scan of lists".to_string());
            }
            match self.own.get(&object) {
                Some(own) if scans.matches(scan.predicate, object, own.0)? => {
                    self.unexplained(txn, op.id, &[Anomaly::Internal]);
                }
                Some(_) => {}
                None => match scans.left(scan.predicate, object, txn)? {
                    Left::One(from) => self.saw(txn, op.id, object, from),
                    Left::Missed => self.unexplained(txn, op.id, &[Anomaly::PredicateReadMiss]),
                    Left::Several => {
                        let object = self.history.show_object(object);
                        self.open.get_or_insert_with(|| {
                            format!("a scan left out one of several versions of {object}")
                        });
                    }
                },
            }
        }
        self.scans = Some(scans);
        Ok(())
    }
}
