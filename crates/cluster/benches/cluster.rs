//! What verifying on several workers costs: `cargo bench -p margay-cluster`. CPU seconds of all
//! threads, of user and system, and seconds by the clock; the ratio is to one thread in windows, as
//! `Mirror` is used alone. Processes are threads here, with sockets between them: what crosses is
//! the same.

use std::fs;
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use margay_cluster::{Cluster, Generation, Hosts, Network, Token, crossed};
use margay_history::History;
use margay_mirror::{Engine, Mechanisms, Mirror, Workers, simulated};
use margay_simdb::{Mix, Protocol, SimConfig, simulate_history};
use margay_verdict::Budget;

/// As in the binary of the command line.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let transactions = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(100_000);
    println!("| mechanisms of | operations | how | CPU s | s | CPU ratio | bytes/operation across |");
    println!("|---|---:|---|---:|---:|---:|---:|");
    for protocol in [Protocol::RcMvcc, Protocol::SiFuw, Protocol::Ssi, Protocol::Ss2pl] {
        let config = SimConfig {
            clients: 24,
            transactions,
            ops: (8, 8),
            keys: 2_000,
            mix: Mix::NAMED[0].1,
            ..SimConfig::new(protocol, 1)
        };
        let history = simulate_history(&config).expect("a simulation is a history").0;
        let name = format!("simdb-{protocol}");
        let by = simulated(&name).expect("a simulated database");
        let mut one = None;
        let mut row = |how: &str, work: &dyn Fn()| {
            let (before, cpu_before, start) = (crossed(), cpu(), Instant::now());
            work();
            let (seconds, wall) = (cpu() - cpu_before, start.elapsed().as_secs_f64());
            let ratio = seconds / *one.get_or_insert(seconds);
            let bytes = (crossed() - before) as f64 / history.op_count() as f64;
            let count = history.op_count();
            println!("| {name} | {count} | {how} | {seconds:.2} | {wall:.2} | {ratio:.2} | {bytes:.1} |");
        };
        let alone = |mirror: Mirror| {
            let mut mirror = mirror;
            Engine::play(&mut mirror, &history, &Budget::unlimited()).expect("a timed history");
            assert_eq!(mirror.statistics().violations, 0, "a correct database");
        };
        row("one thread", &|| alone(Mirror::new(by, 0).with_windows(32..=512)));
        row("one thread, one by one", &|| alone(Mirror::new(by, 0)));
        row("one thread, epochs", &|| alone(Mirror::new(by, 0).with_epochs(Engine::epoch(&history))));
        row("2 threads of `with_threads`", &|| alone(Mirror::new(by, 0).with_threads(2)));
        for workers in [1, 2] {
            row(&format!("1x{workers}"), &|| verify(&Cluster::new(workers, None), &history, by));
        }
        row("2x1", &|| processes(2, &history, by));
    }
}

fn verify(cluster: &Cluster, history: &History, by: Mechanisms) {
    let found = cluster.verify(history, by, &Budget::unlimited());
    assert!(found.expect("a verdict").0.is_empty(), "a correct database");
}

fn processes(count: usize, history: &History, by: Mechanisms) {
    let listeners: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    let address = |listener: &TcpListener| listener.local_addr().expect("an address").to_string();
    let text = listeners.iter().map(address).collect::<Vec<_>>().join("\n");
    drop(listeners);
    let network = |process| Network {
        hosts: Hosts::parse(&text).expect("hosts"),
        process,
        token: Token::new("the token of a benchmark").expect("a token"),
        patience: Duration::from_secs(30),
        generation: Generation::Try(0),
    };
    thread::scope(|scope| {
        for process in 0..count {
            let cluster = Cluster::new(1, Some(network(process)));
            scope.spawn(move || verify(&cluster, history, by));
        }
    });
}

/// CPU seconds of all threads so far.
fn cpu() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |place: usize| fields.get(place).and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}
