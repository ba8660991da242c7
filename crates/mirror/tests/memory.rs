//! What is remembered does not grow with the length of the stream.

use std::cell::RefCell;
use std::collections::BinaryHeap;

use margay_history::{Access, Interval, ObjectId, OpId, OpKind, TxnId, Values};
use margay_mirror::{Mirror, Size, Trace, simulated};
use margay_simdb::simulate;
use margay_simdb::{Action, Change, Mix, Note, Obj, Ppm, Protocol, Recorded, SimConfig, Sink, Start, Value};

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

#[test]
fn memory_stays_flat() {
    for protocol in [Protocol::Ssi, Protocol::Ss2pl, Protocol::RcMvcc, Protocol::Mvto, Protocol::Percolator] {
        flat(protocol);
    }
}
