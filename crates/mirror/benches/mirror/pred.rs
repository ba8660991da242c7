//! Streams in the shape of BlindW-RW and BlindW-Pred, as a correct database would show them: each
//! transaction takes place at one instant, which lies in the intervals of all its operations.

use margay_history::{Access, Interval, NameId, ObjectId, OpId, OpKind, PredicateId, TableId, TxnId, Values};
use margay_mirror::{Asked, Mirror, Searches, Trace};
use margay_simdb::Rng;
use margay_sql::Dialect;

use crate::{CLIENTS, cpu};

/// An operation with what it touched and asked.
pub struct Operation {
    txn: u32,
    kind: OpKind,
    at: Interval,
    accesses: Vec<Access>,
    search: Option<PredicateId>,
}

/// Operations in the order of `before`, and what they are about.
pub struct Stream {
    pub operations: Vec<Operation>,
    values: Values,
    searches: Searches,
    initial: Vec<Access>,
}

impl Stream {
    pub fn accesses(&self) -> usize {
        self.operations.iter().map(|op| op.accesses.len()).sum()
    }

    /// CPU seconds, and how much was remembered at most.
    pub fn run(&self, mut mirror: Mirror) -> (f64, usize) {
        *mirror.searches() = self.searches.clone();
        self.initial.iter().for_each(|access| mirror.initial(access.object, access.value));
        let (mut seconds, mut most) = (0.0, 0);
        for (part, operations) in self.operations.chunks(10_000).enumerate() {
            let start = cpu();
            for (number, op) in operations.iter().enumerate() {
                let Operation { txn, kind, at, ref accesses, search } = *op;
                let op = OpId((part * 10_000 + number) as u32);
                let trace = Trace { txn: TxnId(txn), op, kind, at, accesses };
                let asked = Asked { search, observed: search.is_some(), ..Asked::default() };
                mirror.feed_asked(trace, &asked, &self.values).expect("in order");
            }
            seconds += cpu() - start;
            let size = mirror.size();
            most = most.max(size.versions + size.readers + size.locks + size.nodes + size.edges);
        }
        mirror.finish(&self.values);
        assert_eq!(mirror.statistics().violations, 0, "a correct database");
        (seconds, most)
    }
}

/// A table (k, v1, v2) and what its rows are now.
struct Table {
    values: Values,
    searches: Searches,
    id: TableId,
    names: [NameId; 2],
    rows: Vec<[i64; 2]>,
}

/// So many transactions of a database with so many rows.
pub fn stream(pred: bool, rows: u32, transactions: u32) -> Stream {
    let (mut values, mut searches) = (Values::default(), Searches::default());
    let id = searches.table(vec!["k".to_owned()]);
    let names = ["v1", "v2"].map(|name| values.intern_name(name));
    let domain = i64::from(rows / 4);
    let row = |k: u32| [i64::from(k) % domain, i64::from(k) * 7 % domain];
    let mut table = Table { values, searches, id, names, rows: (0..rows).map(row).collect() };
    let initial = (0..rows).map(|k| table.declare(k)).collect();
    let (mut rng, mut operations) = (Rng::new(1, 2), Vec::new());
    for txn in 0..transactions {
        // Every client has a transaction in each round; they overlap.
        let instant = i64::from(txn) * 1_000;
        let (writes, mut done) = (rng.below(2) == 0, Vec::new());
        for _ in 0..2 {
            match pred {
                true => table.search(&mut rng, writes, &mut done),
                false => table.touch(&mut rng, writes, &mut done),
            }
        }
        done.push((OpKind::Commit, Vec::new(), None));
        let wide = i64::from(CLIENTS) * 450;
        let count = done.len() as i64;
        for (number, (kind, accesses, search)) in done.into_iter().enumerate() {
            let shift = wide * number as i64 / count;
            let at = Interval::new(instant - wide + shift, instant + shift);
            operations.push(Operation { txn, kind, at, accesses, search });
        }
    }
    operations.sort_by_key(|op| op.at.before);
    Stream { operations, values: table.values, searches: table.searches, initial }
}

type Done = Vec<(OpKind, Vec<Access>, Option<PredicateId>)>;

impl Table {
    fn declare(&mut self, k: u32) -> Access {
        let key = self.values.int(i64::from(k));
        self.searches.object(ObjectId(k), self.id, key);
        self.access(k)
    }

    fn access(&mut self, k: u32) -> Access {
        let cells = self.rows[k as usize].map(|cell| self.values.int(cell));
        let value = self.values.row(&[(self.names[0], cells[0]), (self.names[1], cells[1])]);
        Access { object: ObjectId(k), value }
    }

    fn write(&mut self, k: u32, column: usize, to: i64, done: &mut Done) {
        self.rows[k as usize][column] = to;
        let to = self.values.int(to);
        let value = self.values.row(&[(self.names[column], to)]);
        done.push((OpKind::Write, vec![Access { object: ObjectId(k), value }], None));
    }

    /// Reads or writes one row by its key.
    fn touch(&mut self, rng: &mut Rng, writes: bool, done: &mut Done) {
        let k = rng.below(self.rows.len() as u64) as u32;
        match writes {
            true => self.write(k, 0, rng.below(1 << 20) as i64, done),
            false => done.push((OpKind::Read, vec![self.access(k)], None)),
        }
    }

    /// Searches a range of one column, and may change each row that it finds.
    fn search(&mut self, rng: &mut Rng, writes: bool, done: &mut Done) {
        let domain = self.rows.len() as u64 / 4;
        let (column, low) = (rng.below(2) as usize, rng.below(domain) as i64);
        let (high, to) = (low + rng.below(3) as i64, rng.below(domain) as i64);
        let name = ["v1", "v2"][column];
        let text = format!("{name} >= {low} AND {name} <= {high}");
        let search = self.searches.condition(self.id, &text, Dialect::Generic);
        let matches = |row: &[i64; 2]| low <= row[column] && row[column] <= high;
        let found: Vec<u32> =
            (0..self.rows.len() as u32).filter(|k| matches(&self.rows[*k as usize])).collect();
        let accesses = found.iter().map(|k| self.access(*k)).collect();
        done.push((OpKind::Scan, accesses, Some(search)));
        found.into_iter().filter(|_| writes).for_each(|k| self.write(k, column, to, done));
    }
}
