//! Whatever the shape, workers on timely find what one thread finds; and whoever is wrong is named.

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use margay_cluster::{Cluster, Generation, Hosts, Network, Token, crossed};
use margay_history::History;
use margay_mirror::{Engine, Mechanisms, Mirror, Violation, Workers, simulated};
use margay_simdb::{Fault, Mix, Ppm, Protocol, SimConfig, simulate_history};
use margay_verdict::{Budget, Why};

/// As in the binary of the command line.
const TOKEN: &str = "a token of this test alone";

fn history(protocol: Protocol, seed: u64, transactions: u64) -> History {
    let mut config = SimConfig::new(protocol, seed);
    (config.transactions, config.clients, config.keys) = (transactions, 9, 12);
    config.mix = Mix::NAMED[seed as usize % 4].1;
    (config.aborts, config.unknown) = (Ppm::percent(8), Ppm::percent(6));
    let mut faults = Fault::ALL.into_iter().filter(|fault| fault.breaks(protocol).is_some()).cycle();
    if let Some(fault) = faults.nth(seed as usize) {
        config = config.with_fault(fault, Ppm::percent(15));
    }
    simulate_history(&config).expect("a history").0
}

fn mechanisms(protocol: Protocol) -> Mechanisms {
    simulated(&format!("simdb-{protocol}")).expect("a simulated database")
}

fn alone(history: &History, mechanisms: Mechanisms) -> Vec<Violation> {
    let mut mirror = Mirror::new(mechanisms, history.header().skew).with_epochs(Engine::epoch(history));
    Engine::play(&mut mirror, history, &Budget::unlimited()).expect("a timed history");
    std::iter::from_fn(|| mirror.next_violation()).collect()
}

/// Addresses on which nobody listens.
fn hosts(count: usize) -> Hosts {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    let address = |listener: &TcpListener| listener.local_addr().expect("an address").to_string();
    Hosts::parse(&listeners.iter().map(address).collect::<Vec<_>>().join("\n")).expect("hosts")
}

fn network(hosts: &Hosts, process: usize, patience: Duration) -> Network {
    let (token, generation) = (Token::new(TOKEN).expect("a token"), Generation::Try(0));
    Network { hosts: hosts.clone(), process, token, patience, generation }
}

/// What each of several processes finds, which here are threads with sockets between them.
fn processes(
    networks: Vec<Network>,
    workers: usize,
    history: &History,
    by: Mechanisms,
) -> Vec<Result<Vec<Violation>, String>> {
    let verify = |network: Network| {
        let cluster = Cluster::new(workers, Some(network));
        let found = cluster.verify(history, by, &Budget::unlimited());
        match (found, cluster.trouble()) {
            (Ok((found, _)), None) => Ok(found),
            (Err(Why::Incomplete(why)), Some(trouble)) if why == trouble => Err(why),
            other => panic!("{other:?}"),
        }
    };
    thread::scope(|scope| {
        let all: Vec<_> = networks.into_iter().map(|one| scope.spawn(move || verify(one))).collect();
        all.into_iter().map(|one| one.join().expect("no panic")).collect()
    })
}

#[test]
fn every_shape_finds_the_same_byte_for_byte() {
    let (mut count, mut seed) = (0, 0);
    for protocol in Protocol::ALL {
        seed += 1;
        let (history, by) = (history(protocol, seed, 250), mechanisms(protocol));
        let one = alone(&history, by);
        for workers in [1, 2, 3, 7] {
            let found = Cluster::new(workers, None).verify(&history, by, &Budget::unlimited());
            assert_eq!(found.expect("a timed history").0, one, "{protocol} 1x{workers}");
        }
        for (count, workers) in [(2, 1), (2, 2), (3, 2)] {
            let hosts = hosts(count);
            let networks = (0..count).map(|process| network(&hosts, process, Duration::from_secs(30)));
            for found in processes(networks.collect(), workers, &history, by) {
                assert_eq!(found.as_ref(), Ok(&one), "{protocol} {count}x{workers}");
            }
        }
        count += one.len();
    }
    assert!(count > 100, "{count}");
    assert!(crossed() > 10_000, "{}", crossed());
}

#[test]
fn time_that_is_used_up_is_no_verdict() {
    let (history, by) = (history(Protocol::Ssi, 1, 300), mechanisms(Protocol::Ssi));
    let budget = Budget::unlimited();
    budget.cancel();
    let found = Cluster::new(2, None).verify(&history, by, &budget);
    assert!(matches!(found, Err(Why::Exhausted(..))), "{found:?}");
}

#[test]
fn who_is_wrong_is_named() {
    let (one, other) = (history(Protocol::Ssi, 1, 40), history(Protocol::Ssi, 2, 40));
    let by = mechanisms(Protocol::Ssi);
    let patience = Duration::from_secs(20);
    let errors = |change: &dyn Fn(&mut Network)| {
        let hosts = hosts(2);
        let mut networks = vec![network(&hosts, 0, patience), network(&hosts, 1, patience)];
        change(&mut networks[1]);
        let found = processes(networks, 1, &one, by);
        found.into_iter().map(|found| found.expect_err("an error")).collect::<Vec<_>>()
    };
    for why in errors(&|network| network.token = Token::new("quite another token").expect("a token")) {
        assert!(why.starts_with("127.0.0.1:") && why.ends_with("has another token"), "{why}");
    }
    for why in errors(&|network| network.hosts = three(&network.hosts)) {
        assert!(why.contains("counts") || why.contains("has another token"), "{why}");
    }
    // Of two that have read different histories both say so.
    let hosts = hosts(2);
    let verify = |process: usize, history: &History, workers: usize| {
        let cluster = Cluster::new(workers, Some(network(&hosts, process, patience)));
        assert!(cluster.verify(history, by, &Budget::unlimited()).is_err());
        cluster.trouble().expect("trouble")
    };
    for (history, workers, why) in [(&other, 1, "has read another history"), (&one, 2, "workers, this one")] {
        let both = thread::scope(|scope| {
            let first = scope.spawn(|| verify(0, &one, 1));
            let second = scope.spawn(|| verify(1, history, workers));
            [first.join().expect("no panic"), second.join().expect("no panic")]
        });
        for (number, told) in both.iter().enumerate() {
            assert!(told.contains(&format!("(process {})", 1 - number)) && told.contains(why), "{told}");
        }
    }
}

/// Two known hosts and one more.
fn three(hosts: &Hosts) -> Hosts {
    let text = format!("{hosts}\n127.0.0.1:9");
    Hosts::parse(&text).expect("hosts")
}

#[test]
fn who_does_not_come_is_named() {
    let (history, by) = (history(Protocol::Ssi, 1, 40), mechanisms(Protocol::Ssi));
    let (hosts, start) = (hosts(2), Instant::now());
    let patience = Duration::from_millis(300);
    for (process, other) in [(0, 1), (1, 0)] {
        let found = processes(vec![network(&hosts, process, patience)], 1, &history, by);
        let why = found[0].as_ref().expect_err("nobody came");
        assert!(why.ends_with(&format!("(process {other}) does not answer")), "{why}");
    }
    let why = processes(vec![network(&hosts, 2, patience)], 1, &history, by).remove(0).expect_err("no such");
    assert_eq!(why, "there is no process 2: the hosts are numbered 0 to 1");
    // Two with one number: the second cannot listen.
    let address = hosts.to_string().lines().next().expect("a host").to_owned();
    let _taken = TcpListener::bind(&address).expect("a port");
    let why = processes(vec![network(&hosts, 0, patience)], 1, &history, by).remove(0).expect_err("taken");
    assert!(why.starts_with(&address) && why.ends_with("is another process 0 at work?"), "{why}");
    assert!(start.elapsed() < Duration::from_secs(20));
}
