//! Operations per second of the mirror, on simulated traces of registers with 24 clients, one thread.
//!
//! `cargo run --release -p margay-mirror --example throughput [transactions]`

use std::time::Instant;

use margay_history::{History, OpId, TxnId};
use margay_mirror::{Mirror, Trace, simulated};
use margay_simdb::{Mix, Protocol, SimConfig, simulate_history};

fn main() {
    let transactions = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(100_000);
    for protocol in [Protocol::RcMvcc, Protocol::SiFuw, Protocol::Ssi, Protocol::Ss2pl] {
        let config = SimConfig {
            clients: 24,
            transactions,
            keys: 10_000,
            mix: Mix::NAMED[0].1,
            ..SimConfig::new(protocol, 1)
        };
        let (history, _) = simulate_history(&config).expect("a simulation is a history");
        run(protocol, &history);
    }
}

fn run(protocol: Protocol, history: &History) {
    let mut order: Vec<(i64, OpId, TxnId)> = history
        .txns()
        .flat_map(|txn| history.ops(txn).filter_map(move |op| Some((op.at?.before, op.id, txn))))
        .collect();
    order.sort_unstable();
    let mechanisms = simulated(&format!("simdb-{protocol}")).expect("a simulated database");
    let mut mirror = Mirror::new(mechanisms, 0);
    history.initial_values().iter().for_each(|&(object, value)| mirror.initial(object, value));
    let start = Instant::now();
    for &(_, op, txn) in &order {
        let op = history.op(op);
        let at = op.at.expect("every operation has its interval");
        let trace = Trace { txn, op: op.id, kind: op.kind, at, accesses: op.accesses };
        mirror.feed(trace, history.values()).expect("in order");
    }
    mirror.finish(history.values());
    let seconds = start.elapsed().as_secs_f64();
    let rate = order.len() as f64 / seconds;
    println!("{protocol:<10} {} operations in {seconds:.2} s: {rate:.0}/s", order.len());
    println!("{:<10} {:?}\n{:<10} {:?}", "", mirror.statistics(), "", mirror.size());
}
