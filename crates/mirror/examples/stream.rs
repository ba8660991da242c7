//! Verification while clients run: two of them on threads of their own, the pipeline, the mirror.
//!
//! `cargo run -p margay-mirror --example stream`

use std::thread;

use margay_history::{Access, Interval, ObjectId, OpId, OpKind, TxnId, ValueId, Values};
use margay_levels::profile::Found;
use margay_mirror::{Mechanisms, Mirror, Pipeline, Trace};

/// What a client records of one operation on the register `x`.
struct Recorded {
    txn: u32,
    op: u32,
    kind: OpKind,
    at: (i64, i64),
    value: Option<ValueId>,
}

const X: ObjectId = ObjectId(0);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut values = Values::default();
    let (old, new) = (values.int(0), values.int(1));
    let op = |txn, op, kind, at, value| Recorded { txn, op, kind, at, value };
    let writer = vec![op(1, 0, OpKind::Write, (10, 20), Some(new)), op(1, 1, OpKind::Commit, (21, 25), None)];
    // It reads the old value although the writer had its commit acknowledged at 25.
    let reader = vec![op(2, 2, OpKind::Read, (30, 40), Some(old)), op(2, 3, OpKind::Commit, (41, 42), None)];
    let (mut pipeline, clients) = Pipeline::new(2);
    let threads: Vec<_> = clients
        .into_iter()
        .zip([writer, reader])
        .map(|(mut client, operations)| {
            thread::spawn(move || {
                for operation in operations {
                    assert!(client.push(operation.at.0, operation).is_ok(), "the clock goes back");
                }
            })
        })
        .collect();
    let Found(profile) = "postgresql/read-committed".parse()?;
    let mut mirror = Mirror::new(Mechanisms::of(profile), 0);
    mirror.initial(X, old);
    let mut feed = |_, recorded: Recorded| {
        let access = recorded.value.map(|value| Access { object: X, value });
        let (txn, op) = (TxnId(recorded.txn), OpId(recorded.op));
        let at = Interval::new(recorded.at.0, recorded.at.1);
        let trace = Trace { txn, op, kind: recorded.kind, at, accesses: access.as_slice() };
        mirror.feed(trace, &values).expect("the pipeline keeps the order");
    };
    while pipeline.wait(&mut feed) {}
    mirror.finish(&values);
    threads.into_iter().for_each(|thread| thread.join().expect("a client ends"));
    while let Some(violation) = mirror.next_violation() {
        println!("{}: {:?}", violation.breach.broken.anomaly(), violation.breach.broken);
    }
    println!("{:?}", mirror.statistics());
    Ok(())
}
