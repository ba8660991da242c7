//! A hash of what a history says, whatever the numbers of its ids.

use margay_history::{Access, History, ObjectId, Op, PredicateId, Table, Value, ValueId, Version};

/// Sixteen hexadecimal digits that two readings of one history share, and different histories
/// hardly ever do.
///
/// The database and the level that the header names are left out: they do not change what happened.
#[must_use]
pub fn fingerprint(history: &History) -> String {
    let print = Print::new(history);
    let mut hash = Hash::new();
    hash.text(history.header().unit.name());
    hash.number(history.header().skew as u64);
    hash.number(print.initial());
    print.unseen(&mut hash);
    for txn in history.txns() {
        hash.number(history.session_label(history.session_of(txn)));
        hash.number(history.txn_label(txn));
        history.ops(txn).for_each(|op| print.op(&op, &mut hash));
    }
    hash.number(print.evidence());
    format!("{:016x}", hash.finish())
}

/// FNV-1a over words, with a last mix.
struct Hash(u64);

impl Hash {
    fn new() -> Self {
        Hash(0xcbf2_9ce4_8422_2325)
    }

    fn number(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x0000_0100_0000_01b3);
        self.0 ^= self.0 >> 29;
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        text.bytes().for_each(|byte| self.number(u64::from(byte)));
    }

    fn finish(mut self) -> u64 {
        self.number(0x9e37_79b9_7f4a_7c15);
        (self.0 ^ self.0 >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// A hash of its own of everything in `parts`.
fn hashed(parts: impl FnOnce(&mut Hash)) -> u64 {
    let mut hash = Hash::new();
    parts(&mut hash);
    hash.finish()
}

struct Print<'h> {
    history: &'h History,
    /// By object.
    objects: Vec<u64>,
}

impl<'h> Print<'h> {
    fn new(history: &'h History) -> Self {
        let mut print = Self { history, objects: Vec::new() };
        print.objects = history.objects().map(|object| print.hash_object(object)).collect();
        print
    }

    fn hash_object(&self, object: ObjectId) -> u64 {
        let object = self.history.object(object);
        hashed(|hash| {
            object.table.iter().for_each(|&table| hash.text(&self.history.table(table).name));
            hash.number(self.value(object.key));
        })
    }

    fn value(&self, id: ValueId) -> u64 {
        hashed(|hash| match self.history.value(id) {
            Value::Null => hash.number(1),
            Value::Unknown => hash.number(2),
            Value::Bool(b) => hash.number(3 + u64::from(b)),
            Value::Int(i) => [5, i as u64].iter().for_each(|&n| hash.number(n)),
            Value::UInt(u) => [6, u].iter().for_each(|&n| hash.number(n)),
            Value::Float(f) => [7, f.to_bits()].iter().for_each(|&n| hash.number(n)),
            Value::Text(text) => {
                hash.number(8);
                hash.text(text);
            }
            Value::List(items) => {
                hash.number(9);
                items.iter().for_each(|&item| hash.number(self.value(item)));
            }
            // Columns come in the order of their ids, which depends on the reader: a sum does not.
            Value::Row(columns) => {
                hash.number(10);
                let column = |&(name, value)| {
                    hashed(|hash| {
                        hash.text(self.history.name(name));
                        hash.number(self.value(value));
                    })
                };
                hash.number(columns.iter().map(column).fold(0, u64::wrapping_add));
            }
        })
    }

    fn access(&self, access: &Access, hash: &mut Hash) {
        hash.number(self.objects[access.object.index()]);
        hash.number(self.value(access.value));
    }

    fn initial(&self) -> u64 {
        let one = |&(object, value): &(ObjectId, ValueId)| {
            hashed(|hash| self.access(&Access { object, value }, hash))
        };
        self.history.initial_values().iter().map(one).fold(0, u64::wrapping_add)
    }

    /// What the recorder could not see; nothing for tables that it saw.
    fn unseen(&self, hash: &mut Hash) {
        let is_open = |table: &&Table| table.initial_unknown || table.has_unseen_writers();
        let mut tables: Vec<&Table> = self.history.tables().iter().filter(is_open).collect();
        tables.sort();
        for table in tables {
            hash.text(&table.name);
            hash.number(u64::from(table.initial_unknown) + 2 * u64::from(table.written_by_anything));
            table.columns_by_anything.iter().for_each(|column| hash.text(column));
        }
    }

    fn op(&self, op: &Op<'_>, hash: &mut Hash) {
        hash.number(op.kind as u64);
        hash.number(op.accesses.len() as u64);
        op.accesses.iter().for_each(|access| self.access(access, hash));
        if let Some(at) = op.at {
            hash.number(at.before as u64);
            hash.number(at.after as u64);
        }
        if let Some(scan) = self.history.scan(op.id) {
            self.predicate(scan.predicate, hash);
            hash.number(u64::from(scan.observed));
        }
        if let Some(update) = self.history.update(op.id) {
            self.predicate(update.predicate, hash);
            update.set.iter().for_each(|set| hash.text(set));
            hash.number(u64::from(update.observed));
        }
        if let Some(statement) = self.history.statement(op.id) {
            hash.text(&statement.text);
            let values = statement.params.iter().chain(statement.rows.iter().flatten());
            values.for_each(|&value| hash.number(self.value(value)));
            statement.count.iter().for_each(|&count| hash.number(count));
        }
    }

    fn predicate(&self, predicate: PredicateId, hash: &mut Hash) {
        let predicate = self.history.predicate(predicate);
        hash.text(&self.history.table(predicate.table).name);
        hash.text(&predicate.text);
    }

    fn version(&self, version: Version, hash: &mut Hash) {
        match version {
            Version::Initial => hash.number(1),
            Version::Of(txn) => [2, self.history.txn_label(txn)].iter().for_each(|&n| hash.number(n)),
        }
    }

    fn evidence(&self) -> u64 {
        let evidence = self.history.evidence();
        let orders = evidence.version_orders.iter().map(|order| {
            hashed(|hash| {
                hash.number(self.objects[order.object.index()]);
                order.versions.iter().for_each(|&version| self.version(version, hash));
            })
        });
        let set = |op, object: ObjectId, version| {
            hashed(|hash| {
                hash.number(self.history.txn_label(self.history.txn_of(op)));
                hash.number(u64::from(self.history.op_index(op)));
                hash.number(self.objects[object.index()]);
                self.version(version, hash);
            })
        };
        let sets =
            evidence.version_sets.iter().flat_map(|s| s.versions.iter().map(move |&(o, v)| set(s.op, o, v)));
        let stamps = [&evidence.snapshots, &evidence.commits, &evidence.serializations];
        let stamps =
            stamps.into_iter().enumerate().flat_map(|(kind, column)| column.iter().map(move |s| (kind, s)));
        let stamps = stamps.map(|(kind, &(txn, ts))| {
            hashed(|hash| {
                [kind as u64, self.history.txn_label(txn), ts as u64].iter().for_each(|&n| hash.number(n));
            })
        });
        orders.chain(sets).chain(stamps).fold(0, u64::wrapping_add)
    }
}
