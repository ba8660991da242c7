//! One process of a cluster over a simulated history, for the tests of this crate: `node HOSTS
//! PROCESS WORKERS PROTOCOL SEED TRANSACTIONS PATIENCE_MS`. The answer is one line. Exit status as
//! of `margay`.

use std::process::ExitCode;
use std::time::Duration;

use margay_cluster::{Cluster, Generation, Hosts, Network, Token, supervise};
use margay_mirror::{Workers, simulated};
use margay_simdb::{Fault, Mix, Ppm, Protocol, SimConfig, simulate_history};
use margay_verdict::Budget;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [hosts, process, workers, protocol, seed, transactions, patience] = args.as_slice() else {
        eprintln!("node HOSTS PROCESS WORKERS PROTOCOL SEED TRANSACTIONS PATIENCE_MS");
        return ExitCode::from(2);
    };
    let Some(generation) = Generation::of_this_process() else {
        return supervise().map_or(ExitCode::from(2), ExitCode::from);
    };
    let number = |text: &String| text.parse::<u64>().expect("a number");
    let protocol: Protocol = protocol.parse().expect("a protocol");
    let mut config = SimConfig::new(protocol, number(seed));
    (config.transactions, config.clients, config.keys) = (number(transactions), 12, 50);
    config.mix = Mix::NAMED[0].1;
    let fault = Fault::ALL.into_iter().find(|fault| fault.breaks(protocol).is_some());
    if let Some(fault) = fault.filter(|_| number(seed) > 0) {
        config = config.with_fault(fault, Ppm::percent(10));
    }
    let history = simulate_history(&config).expect("a history").0;
    let network = Network {
        hosts: Hosts::parse(&hosts.replace(',', "\n")).expect("hosts"),
        process: number(process) as usize,
        token: Token::new(&std::env::var("MARGAY_CLUSTER_TOKEN").unwrap_or_default()).expect("a token"),
        patience: Duration::from_millis(number(patience)),
        generation,
    };
    let by = simulated(&format!("simdb-{protocol}")).expect("a simulated database");
    let cluster = Cluster::new(number(workers) as usize, Some(network));
    let found = cluster.verify(&history, by, &Budget::unlimited());
    if let Some(trouble) = cluster.trouble() {
        eprintln!("error: {trouble}");
        return ExitCode::from(2);
    }
    match found {
        Err(why) => {
            println!("unknown: {why}");
            ExitCode::from(3)
        }
        Ok((found, _)) if found.is_empty() => {
            println!("clean");
            ExitCode::SUCCESS
        }
        Ok((found, _)) => {
            println!("violated: {found:?}");
            ExitCode::from(1)
        }
    }
}
