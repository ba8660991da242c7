//! The measurements of `docs/BENCHMARKS.md`: `cargo bench -p margay-mirror --bench mirror -- WHAT`,
//! where WHAT is `speed`, `searches`, `linear`, `threads`, `stream [OPERATIONS]`, `pipeline` or
//! `messages`. Times are CPU seconds of the measured part, where one thread works; of the wall
//! where several do.

mod bank;
mod pred;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs;
use std::time::Instant;

use bank::{Bank, Event, Load};
use margay_history::{Access, History, ObjectId, OpId, OpKind, TxnId, Values};
use margay_levels::profile::Found;
use margay_mirror::{Engine, Mechanisms, Mirror, Pipeline, Trace, simulated};
use margay_simdb::{Mix, Protocol, Rng, SimConfig, simulate_history};
use margay_verdict::Budget;

/// As in the binary of the command line.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CLIENTS: u32 = 24;

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    match args.next().as_deref() {
        Some("speed") => speed(),
        Some("searches") => searches(),
        Some("linear") => linear(),
        Some("threads") => threads(),
        Some("stream") => stream(args.next().and_then(|n| n.parse().ok()).unwrap_or(50_000_000)),
        Some("pipeline") => pipeline(),
        Some("messages") => messages(),
        _ => eprintln!("one of: speed, searches, linear, threads, stream [OPERATIONS], pipeline, messages"),
    }
}

/// CPU seconds of the main thread so far.
fn cpu() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    if let Some(nanoseconds) = text.split_whitespace().next().and_then(|n| n.parse::<f64>().ok()) {
        return nanoseconds / 1e9;
    }
    all_cpu()
}

/// CPU seconds of all threads so far.
fn all_cpu() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |place: usize| fields.get(place).and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// The resident set, in MiB.
fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4 / 1024
}

fn validating() -> Mechanisms {
    let Found(profile) = "foundationdb".parse().expect("a profile");
    Mechanisms::of(profile)
}

/// A simulated history of registers in the shape of BlindW-RW: 2,000 keys, eight operations per
/// transaction.
fn blindw(protocol: Protocol, transactions: u64) -> History {
    let mix = Mix::NAMED[0].1;
    let config = SimConfig {
        clients: CLIENTS,
        transactions,
        ops: (8, 8),
        keys: 2_000,
        mix,
        ..SimConfig::new(protocol, 1)
    };
    simulate_history(&config).expect("a simulation is a history").0
}

/// Operations in the order of `before`.
fn sorted(load: Load, transactions: usize) -> (Bank, Vec<Event>) {
    let (mut bank, mut events, mut ended) = (Bank::new(load, CLIENTS, 1_000, 1), Vec::new(), 0);
    while ended < transactions {
        let before = events.len();
        bank.step(&mut events);
        ended += usize::from(events.len() > before);
    }
    events.sort_by_key(|event| event.at.before);
    (bank, events)
}

fn start(bank: &Bank) -> Mirror {
    let mut mirror = Mirror::new(validating(), 0);
    let zero = Values::default().int(0);
    (0..bank.registers()).for_each(|object| mirror.initial(ObjectId(object), zero));
    mirror
}

/// Small integers are their own ids, so no table of values is needed.
fn feed(mirror: &mut Mirror, number: usize, event: &Event, values: &Values, ids: &mut Values) {
    let access = Access { object: ObjectId(event.object), value: ids.int(event.value) };
    let accesses = if event.kind.outcome().is_some() || event.kind == OpKind::Begin {
        &[][..]
    } else {
        std::slice::from_ref(&access)
    };
    let op = OpId((number % (1 << 31)) as u32);
    let trace = Trace { txn: TxnId(event.txn), op, kind: event.kind, at: event.at, accesses };
    mirror.feed(trace, values).expect("in order");
}

/// Feeds all and answers CPU seconds.
fn run_events(mirror: &mut Mirror, events: &[Event]) -> f64 {
    let mut ids = Values::default();
    events.iter().for_each(|event| _ = ids.int(event.value));
    let values = ids.clone();
    let start = cpu();
    for (number, event) in events.iter().enumerate() {
        feed(mirror, number, event, &values, &mut ids);
    }
    mirror.finish(&values);
    cpu() - start
}

fn run_history(history: &History, mirror: Mirror) -> (f64, f64, Mirror) {
    let mut mirror = mirror;
    let (cpu_start, start) = (cpu(), Instant::now());
    Engine::play(&mut mirror, history, &Budget::unlimited()).expect("a timed history");
    (cpu() - cpu_start, start.elapsed().as_secs_f64(), mirror)
}

fn speed() {
    println!("| trace | mechanisms of | operations | CPU s | operations/s | ww, wr, rw known |");
    println!("|---|---|---:|---:|---:|---|");
    let known = |mirror: &Mirror| {
        let s = mirror.statistics();
        assert_eq!(s.violations, 0, "a correct database");
        format!("{:.4}, {:.4}, {:.4}", s.ww.known(), s.wr.known(), s.rw.known())
    };
    let row = |trace: &str, of: &str, count: usize, seconds: f64, known: String| {
        println!("| {trace} | {of} | {count} | {seconds:.2} | {:.0} | {known} |", count as f64 / seconds);
    };
    for protocol in [Protocol::RcMvcc, Protocol::SiFuw, Protocol::Ssi, Protocol::Ss2pl] {
        let history = blindw(protocol, 100_000);
        let name = format!("simdb-{protocol}");
        let mirror = Mirror::new(simulated(&name).expect("a simulated database"), 0);
        let (seconds, _, mirror) = run_history(&history, mirror);
        row("BlindW-RW", &name, history.op_count(), seconds, known(&mirror));
    }
    for (load, name) in [(Load::BlindWRw, "BlindW-RW"), (Load::SmallBank, "SmallBank")] {
        let (bank, events) = sorted(load, 300_000);
        let mut mirror = start(&bank);
        let seconds = run_events(&mut mirror, &events);
        row(name, "foundationdb", events.len(), seconds, known(&mirror));
    }
}

/// Registers, and the same number of rows that are searched by ranges of two columns: a transaction
/// has two operations on registers, or two searches, of which half change each row that they find
/// by its key.
fn searches() {
    println!(
        "| trace | mechanisms of | rows | operations | accesses | CPU s | operations/s | accesses/s | remembered at most |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|---:|");
    for name in [
        "postgresql/read-committed",
        "postgresql/repeatable-read",
        "postgresql/serializable",
        "mysql/serializable",
    ] {
        let Found(profile) = name.parse().expect("a profile");
        for keys in [1_000, 10_000] {
            for (trace, pred) in [("BlindW-RW", false), ("BlindW-Pred", true)] {
                let stream = pred::stream(pred, keys, if pred { 20_000 } else { 100_000 });
                let (seconds, most) = stream.run(Mirror::new(Mechanisms::of(profile), 0));
                let (count, accesses) = (stream.operations.len(), stream.accesses());
                let rate = |count: usize| count as f64 / seconds;
                println!(
                    "| {trace} | {name} | {keys} | {count} | {accesses} | {seconds:.2} | {:.0} | {:.0} | {most} |",
                    rate(count),
                    rate(accesses)
                );
            }
        }
    }
}

fn linear() {
    println!("| transactions | operations | CPU s | µs per transaction |");
    println!("|---:|---:|---:|---:|");
    for transactions in [10_000, 30_000, 100_000, 300_000, 1_000_000] {
        let (bank, events) = sorted(Load::SmallBank, transactions);
        let seconds = run_events(&mut start(&bank), &events);
        let each = seconds * 1e6 / transactions as f64;
        println!("| {transactions} | {} | {seconds:.2} | {each:.2} |", events.len());
    }
}

fn threads() {
    println!("| threads | operations | CPU s of all | s by the clock | operations/s |");
    println!("|---:|---:|---:|---:|---:|");
    let history = blindw(Protocol::Ssi, 300_000);
    for threads in [1, 2] {
        let mechanisms = simulated("simdb-ssi").expect("a simulated database");
        let mirror = Mirror::new(mechanisms, 0).with_threads(threads);
        let before = all_cpu();
        let (_, wall, mirror) = run_history(&history, mirror);
        let (count, all) = (history.op_count(), all_cpu() - before);
        assert_eq!(mirror.statistics().violations, 0);
        println!("| {threads} | {count} | {all:.2} | {wall:.2} | {:.0} |", count as f64 / wall);
    }
}

/// What verification on several workers would send: nothing is sent, only counted.
fn messages() {
    println!(
        "| history | mechanisms of | operations | open reads | shared | edges/operation | against | bytes/operation: 1 worker | 2 | 4 | 8 |"
    );
    println!("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    let mut histories = vec![];
    for protocol in [Protocol::RcMvcc, Protocol::SiFuw, Protocol::Ssi, Protocol::Ss2pl, Protocol::Occ] {
        histories.push(("2,000 keys", protocol, blindw(protocol, 20_000)));
    }
    for (name, mix) in Mix::NAMED {
        for protocol in [Protocol::SiFuw, Protocol::Ssi] {
            let small = SimConfig {
                clients: CLIENTS,
                transactions: 10_000,
                keys: 100,
                mix,
                ..SimConfig::new(protocol, 1)
            };
            let history = simulate_history(&small).expect("a simulation is a history").0;
            histories.push((name, protocol, history));
        }
    }
    for (name, protocol, history) in histories {
        let mut line = String::new();
        for workers in [1, 2, 4, 8] {
            let mechanisms = simulated(&format!("simdb-{protocol}")).expect("a simulated database");
            let (_, _, mirror) = run_history(&history, Mirror::new(mechanisms, 0).with_bundle_count(workers));
            let (s, bundles) = (mirror.statistics(), mirror.bundles().expect("they are counted"));
            if workers == 1 {
                let percent = |part: u64, all: u64| 100.0 * part as f64 / all.max(1) as f64;
                line = format!(
                    "| {name} | simdb-{protocol} | {} | {:.1} % | {:.1} % | {:.2} | {:.2} % |",
                    s.operations,
                    percent(s.open.open, s.open.all),
                    percent(s.open.shared, s.open.all),
                    s.graph.all as f64 / s.operations as f64,
                    percent(s.graph.against, s.graph.all),
                );
            }
            line += &format!(" {:.0} |", bundles.bytes as f64 / s.operations as f64);
        }
        println!("{line}");
    }
}

/// Simulated clients through the pipeline into the mirror, for as long as one likes.
fn stream(operations: usize) {
    println!("| operations | resident MiB | remembered | CPU s |");
    println!("|---:|---:|---:|---:|");
    let mut bank = Bank::new(Load::SmallBank, CLIENTS, 1_000, 1);
    let mut mirror = start(&bank);
    let (mut pipeline, mut clients) = Pipeline::new(CLIENTS as usize);
    let (mut ids, values, mut done, mut out) = (Values::default(), Values::default(), 0, Vec::new());
    let (began, tenth) = (cpu(), operations / 10);
    while done < operations {
        let client = bank.step(&mut out) as usize;
        for event in out.drain(..) {
            clients[client].push(event.at.before, event).expect("clocks do not go back");
        }
        pipeline.dispatch(|_, event| {
            // Balances wrap, so that every value is a small integer and no table grows.
            let event = Event { value: event.value.rem_euclid(1 << 20), ..event };
            feed(&mut mirror, done, &event, &values, &mut ids);
            done += 1;
            if done.is_multiple_of(tenth) {
                let size = mirror.size();
                let kept = size.versions + size.readers + size.locks + size.nodes + size.transactions;
                println!("| {done} | {} | {kept} | {:.1} |", resident(), cpu() - began);
            }
        });
    }
    assert_eq!(mirror.statistics().violations, 0, "a correct database");
}

/// So many operations a client hands over at a time.
const ROUND: usize = 64;

/// 24 clients hand over batch after batch; after each round whatever nothing can come before any
/// more is given out: by the pipeline, and by one heap of all operations.
fn pipeline() {
    let per = 12_000_000 / CLIENTS as usize / ROUND * ROUND;
    let times = |client: u32| {
        let (mut rng, mut time) = (Rng::new(7, u64::from(client)), 0_i64);
        let next = move |_| {
            time += 1 + rng.below(400) as i64;
            time
        };
        (0..per).map(next).collect::<Vec<i64>>()
    };
    let all: Vec<Vec<i64>> = (0..CLIENTS).map(times).collect();
    let clients = filling(&all);
    let (both, order) = by_pipeline(&all);
    let ours = both - clients;
    let (theirs, same) = by_heap(&all);
    assert_eq!(order, same, "both give out the same order of times");
    let count = per * CLIENTS as usize;
    println!("| dispatch of {count} operations of {CLIENTS} clients | CPU s | operations/s |");
    println!("|---|---:|---:|");
    let rows = [
        ("two-level pipeline: the dispatcher", ours),
        ("two-level pipeline: the clients, who fill their buffers and hand them over", clients),
        ("one heap: the dispatcher", theirs),
    ];
    for (name, seconds) in rows {
        println!("| {name} | {seconds:.2} | {:.0} |", count as f64 / seconds);
    }
    println!(
        "\nThe dispatcher is {:.1} times as fast; with the clients' part {:.1}.",
        theirs / ours,
        theirs / both
    );
}

/// An operation as large as a real one.
type Item = [i64; 6];

/// What came out; the item was moved to where it is looked at.
fn mix(sum: u64, time: i64, item: &Item) -> u64 {
    std::hint::black_box(item);
    sum.wrapping_mul(31).wrapping_add(time as u64)
}

/// The part of the clients alone; what they hand over is dropped from time to time, so that memory
/// is used again as it is in the whole.
fn filling(all: &[Vec<i64>]) -> f64 {
    let mut seconds = 0.0;
    for part in 0..all[0].len() / (16 * ROUND) {
        let (pipeline, mut clients) = Pipeline::<Item>::new(all.len());
        let start = cpu();
        for (client, times) in clients.iter_mut().zip(all) {
            for &time in &times[part * 16 * ROUND..(part + 1) * 16 * ROUND] {
                client.push(time, [time; 6]).expect("in order");
            }
        }
        seconds += cpu() - start;
        drop((pipeline, clients));
    }
    seconds
}

fn by_pipeline(all: &[Vec<i64>]) -> (f64, u64) {
    let (mut pipeline, mut clients) = Pipeline::<Item>::new(all.len());
    let (start, mut sum) = (cpu(), 0_u64);
    for round in 0..all[0].len() / ROUND {
        for (client, times) in clients.iter_mut().zip(all) {
            for &time in &times[round * ROUND..(round + 1) * ROUND] {
                client.push(time, [time; 6]).expect("in order");
            }
        }
        pipeline.dispatch(|time, item| sum = mix(sum, time, &item));
    }
    drop(clients);
    while pipeline.wait(|time, item| sum = mix(sum, time, &item)) {}
    (cpu() - start, sum)
}

fn by_heap(all: &[Vec<i64>]) -> (f64, u64) {
    let mut heap: BinaryHeap<Reverse<(i64, Item)>> = BinaryHeap::new();
    let (start, mut sum) = (cpu(), 0_u64);
    for round in 0..=all[0].len() / ROUND {
        let last = round == all[0].len() / ROUND;
        let mut watermark = i64::MAX;
        for times in all.iter().filter(|_| !last) {
            let batch = &times[round * ROUND..(round + 1) * ROUND];
            batch.iter().for_each(|&time| heap.push(Reverse((time, [time; 6]))));
            watermark = watermark.min(batch[ROUND - 1]);
        }
        while heap.peek().is_some_and(|Reverse((time, _))| *time < watermark)
            && let Some(Reverse((time, item))) = heap.pop()
        {
            sum = mix(sum, time, &item);
        }
    }
    (cpu() - start, sum)
}
