//! What is remembered does not grow with the length of the stream.

use std::cell::RefCell;
use std::collections::BinaryHeap;

use margay_history::{Access, Interval, ObjectId, OpId, OpKind, TxnId, Values};
use margay_mirror::{Asked, Mirror, Size, Trace, simulated};
use margay_simdb::simulate;
use margay_simdb::{Action, Change, Mix, Note, Obj, Ppm, Protocol, Recorded, SimConfig, Sink, Start, Value};
use margay_sql::Dialect;

/// An operation that waits for those that were called before it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Waiting(std::cmp::Reverse<(i64, u64)>, u32, u8, i64, Option<(u32, i64)>);

/// Feeds a mirror straight from the simulation, which records operations when they are answered.
struct Feeder {
    mirror: Mirror,
    values: Values,
    waiting: BinaryHeap<Waiting>,
    /// By client: when its last operation was answered; nothing it calls later is called before.
    answered: Vec<i64>,
    fed: u64,
    sizes: RefCell<Vec<Size>>,
}

const KINDS: [OpKind; 5] = [OpKind::Begin, OpKind::Read, OpKind::Write, OpKind::Commit, OpKind::Abort];

impl Feeder {
    fn feed_until(&mut self, time: i64) {
        while self.waiting.peek().is_some_and(|first| first.0.0.0 < time)
            && let Some(Waiting(std::cmp::Reverse((before, number)), txn, kind, after, access)) =
                self.waiting.pop()
        {
            let access = access
                .map(|(object, value)| Access { object: ObjectId(object), value: self.values.int(value) });
            let trace = Trace {
                txn: TxnId(txn),
                op: OpId(number as u32),
                kind: KINDS[kind as usize],
                at: Interval::new(before, after),
                accesses: access.as_slice(),
            };
            self.mirror.feed(trace, &self.values).expect("in order");
            self.fed += 1;
            if self.fed.is_multiple_of(5_000) {
                self.sizes.borrow_mut().push(self.mirror.size());
            }
        }
    }
}

impl Sink for Feeder {
    type Error = String;

    fn start(&mut self, start: &Start) -> Result<(), String> {
        for (obj, value) in &start.initial {
            if let Value::Int(value) = value {
                self.mirror.initial(ObjectId(obj.key), self.values.int(*value));
            }
        }
        Ok(())
    }

    fn op(&mut self, op: Recorded<'_>) -> Result<(), String> {
        let register = |obj: Obj, value: i64| Some((obj.key, value));
        let (kind, access) = match op.action {
            Action::Begin => (0, None),
            Action::Read(obj, Value::Int(value)) => (1, register(obj, *value)),
            Action::Write(obj, Change::Put(value)) => (2, register(obj, value)),
            Action::Commit => (3, None),
            Action::Abort => (4, None),
            other => return Err(format!("{other:?} is not for registers")),
        };
        let number = self.fed + self.waiting.len() as u64;
        let place = std::cmp::Reverse((op.before, number));
        self.waiting.push(Waiting(place, op.txn as u32, kind, op.after, access));
        self.answered[op.session as usize] = op.after;
        let time = self.answered.iter().copied().min().unwrap_or(i64::MIN);
        self.feed_until(time);
        Ok(())
    }

    fn note(&mut self, _: Note<'_>) -> Result<(), String> {
        Ok(())
    }
}

fn flat(protocol: Protocol) {
    let clients = 12;
    let config = SimConfig {
        clients,
        transactions: 40_000,
        ops: (2, 5),
        keys: 200,
        mix: Mix::NAMED[0].1,
        unknown: Ppm::NEVER,
        ..SimConfig::new(protocol, 7)
    };
    let mechanisms = simulated(&format!("simdb-{protocol}")).expect("a simulated database");
    let mut feeder = Feeder {
        mirror: Mirror::new(mechanisms, 0),
        values: Values::default(),
        waiting: BinaryHeap::new(),
        answered: vec![i64::MIN; clients as usize],
        fed: 0,
        sizes: RefCell::default(),
    };
    simulate(&config, &mut feeder).expect("a simulation of registers");
    feeder.feed_until(i64::MAX);
    feeder.mirror.finish(&feeder.values);
    assert_eq!(feeder.mirror.next_violation(), None, "{protocol}");
    let sizes = feeder.sizes.into_inner();
    let all = |size: &Size| size.versions + size.readers + size.locks + size.nodes + size.edges;
    let early = sizes[1..sizes.len() / 4].iter().map(all).max().expect("some");
    let late = sizes[sizes.len() * 3 / 4..].iter().map(all).max().expect("some");
    println!("{protocol}: {} operations, at most {early} early and {late} late", feeder.fed);
    assert!(late <= early + early / 2 + 100, "{protocol}: {early} grows to {late}");
    assert!(sizes.iter().all(|size| size.transactions <= 20 * clients as usize), "{protocol}");
}

/// A table of 300 rows whose values grow without end, searched by ranges of them.
#[test]
fn memory_stays_flat_where_rows_are_searched() {
    for name in ["simdb-ssi", "simdb-ss2pl", "simdb-rc-mvcc"] {
        let mut mirror = Mirror::new(simulated(name).expect("a simulated database"), 0);
        let (mut values, rows) = (Values::default(), 300);
        let column = values.intern_name("v");
        let table = mirror.searches().table(vec!["id".to_owned()]);
        let mut now: Vec<i64> = (0..i64::from(rows)).collect();
        for row in 0..rows {
            let (key, value) = (values.int(i64::from(row)), values.int(now[row as usize]));
            mirror.searches().object(ObjectId(row), table, key);
            mirror.initial(ObjectId(row), values.row(&[(column, value)]));
        }
        let (mut sizes, mut op) = (Vec::new(), 0);
        for txn in 0..6_000_u32 {
            let (low, row) = (i64::from(txn), txn * 7 % rows);
            let text = format!("v >= {low} AND v <= {}", low + 20);
            let search = mirror.searches().condition(table, &text, Dialect::Generic);
            let found = (0..rows).filter(|row| (low..=low + 20).contains(&now[*row as usize]));
            let mut access = |row: u32, v: i64| {
                let value = values.int(v);
                Access { object: ObjectId(row), value: values.row(&[(column, value)]) }
            };
            let seen: Vec<Access> = found.map(|row| access(row, now[row as usize])).collect();
            now[row as usize] = low + 300;
            let written = [access(row, low + 300)];
            let steps = [
                (OpKind::Scan, &seen[..], Some(search)),
                (OpKind::Write, &written, None),
                (OpKind::Commit, &[], None),
            ];
            for (step, (kind, accesses, search)) in (0_i64..).zip(steps) {
                let at = Interval::new(low * 100 + step * 10, low * 100 + step * 10 + 5);
                let trace = Trace { txn: TxnId(txn), op: OpId(op), kind, at, accesses };
                let asked = Asked { search, observed: search.is_some(), ..Asked::default() };
                mirror.feed_asked(trace, &asked, &values).expect("in order");
                op += 1;
            }
            sizes.push(mirror.size());
        }
        mirror.finish(&values);
        assert_eq!(mirror.next_violation(), None, "{name}");
        let all =
            |s: &Size| s.versions + s.readers + s.locks + s.indexed + s.nodes + s.edges + s.transactions;
        let most = |part: &[Size]| part.iter().map(all).max().expect("some");
        let (early, late) = (most(&sizes[..1_500]), most(&sizes[4_500..]));
        assert!(late <= early + early / 10, "{name}: {early} grows to {late}");
        assert!(sizes[1_000].indexed >= rows as usize, "searches use an index");
    }
}

#[test]
fn memory_stays_flat() {
    for protocol in [Protocol::Ssi, Protocol::Ss2pl, Protocol::RcMvcc, Protocol::Mvto, Protocol::Percolator] {
        flat(protocol);
    }
}
