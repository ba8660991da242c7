//! The pipeline gives out in order whatever the clients' timing, and nobody stalls it.

use std::thread;
use std::time::Duration;

use margay_history::{History, OpId};
use margay_mirror::{Engine, Mirror, Pipeline, Trace, simulated};
use margay_simdb::{Fault, Mix, Ppm, Protocol, Rng, SimConfig, simulate_history};
use margay_verdict::{Budget, Checker, Question, Verdict};

/// Clients on threads of their own, which pause, hurry, stay idle and leave as they like.
#[test]
fn ordered_whatever_the_timing() {
    for seed in 0..20 {
        let (mut pipeline, clients) = Pipeline::new(6);
        let handles: Vec<_> = clients
            .into_iter()
            .enumerate()
            .map(|(number, mut client)| {
                thread::spawn(move || {
                    let mut rng = Rng::new(seed, number as u64);
                    let (mut time, count) = (0_i64, rng.below(2_000));
                    for i in 0..count {
                        // Some clients live in a later time than others.
                        time += rng.below(1 + 50 * number as u64) as i64;
                        client.push(time, (number, i)).expect("time does not go back");
                        match rng.below(200) {
                            0 => thread::sleep(Duration::from_micros(rng.below(300))),
                            1 => client.idle(time + rng.below(3) as i64),
                            _ => {}
                        }
                        time = time.max(0) + 3;
                    }
                    count
                })
            })
            .collect();
        let mut out = Vec::new();
        while pipeline.wait(|before, item| out.push((before, item))) {}
        let sent: u64 = handles.into_iter().map(|handle| handle.join().expect("a client ends")).sum();
        assert_eq!(out.len() as u64, sent, "nothing is lost");
        assert!(out.is_sorted_by_key(|(before, _)| *before), "seed {seed}");
        for client in 0..6 {
            let mine = out.iter().filter(|(_, (number, _))| *number == client).map(|(_, (_, i))| *i);
            assert!(mine.is_sorted(), "client {client} stays in order");
        }
        assert_eq!(pipeline.waiting(), 0);
    }
}

#[test]
fn an_idle_client_holds_nothing_up_but_a_silent_one_does() {
    let (mut pipeline, mut clients) = Pipeline::new(3);
    let mut out = Vec::new();
    for time in 0..200 {
        clients[0].push(time, time).expect("in order");
    }
    clients[0].idle(200);
    pipeline.dispatch(|before, _| out.push(before));
    assert!(out.is_empty(), "the others may still have called earlier");
    clients[1].idle(150);
    pipeline.dispatch(|before, _| out.push(before));
    assert!(out.is_empty(), "one has said nothing yet");
    drop(clients.pop());
    pipeline.dispatch(|before, _| out.push(before));
    assert_eq!(out, (0..150).collect::<Vec<_>>(), "a client that is gone promises everything");
    assert_eq!(clients[1].push(149, 0), Err(0), "a promise is kept");
    drop(clients);
    while pipeline.wait(|before, _| out.push(before)) {}
    assert_eq!(out.len(), 200);
}

/// From clients on threads of their own through the pipeline into the mirror: what it finds is what
/// it finds in the finished history.
#[test]
fn the_mirror_is_fed_live() {
    for fault in [None, Some(Fault::StaleSnapshot)] {
        let mut config = SimConfig::new(Protocol::SiFuw, 5);
        (config.transactions, config.clients, config.keys) = (400, 6, 5);
        config.mix = Mix::NAMED[0].1;
        if let Some(fault) = fault {
            config = config.with_fault(fault, Ppm::percent(20));
        }
        let (history, _) = simulate_history(&config).expect("a simulation is a history");
        let mechanisms = simulated("simdb-si-fuw").expect("a simulated database");
        let question = Question::new(Protocol::SiFuw.promises()[0]);
        let offline = Engine { mechanisms: Some(mechanisms), ..Engine::default() }.check(
            &history,
            question,
            &Budget::unlimited(),
        );
        let mut mirror = Mirror::new(mechanisms, history.header().skew);
        history.initial_values().iter().for_each(|&(object, value)| mirror.initial(object, value));
        live(&history, &mut mirror);
        let first = mirror.next_violation();
        assert_eq!(first.is_some(), matches!(offline, Verdict::Violated(_)), "{fault:?}");
        assert_eq!(first.is_some(), fault.is_some(), "{fault:?}");
    }
}

/// Each session plays its operations on a thread; the mirror takes them as the pipeline gives them
/// out.
fn live(history: &History, mirror: &mut Mirror) {
    let (mut pipeline, clients) = Pipeline::new(history.session_count());
    thread::scope(|scope| {
        for (session, mut client) in history.sessions().zip(clients) {
            scope.spawn(move || {
                for op in history.session_txns(session).flat_map(|txn| history.ops(txn)) {
                    let before = op.at.expect("an interval").before;
                    client.push(before, op.id).expect("clocks do not go back");
                    if op.id.0.is_multiple_of(17) {
                        thread::yield_now();
                    }
                }
            });
        }
        let mut feed = |_, id: OpId| {
            let (op, txn) = (history.op(id), history.txn_of(id));
            let at = op.at.expect("an interval");
            let trace = Trace { txn, op: id, kind: op.kind, at, accesses: op.accesses };
            mirror.feed(trace, history.values()).expect("in order");
        };
        while pipeline.wait(&mut feed) {}
        assert_eq!(pipeline.waiting(), 0);
    });
    mirror.finish(history.values());
}
