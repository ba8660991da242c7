//! A map with a forgotten lock, caught in ten lines: `cargo test -p margay --example
//! forgotten_lock`.
//!
//! Each client reads a counter and writes it back incremented. The map locks every call, but not
//! the two calls together, so updates get lost.

use std::collections::HashMap;
use std::sync::{Barrier, Mutex};

use margay::{Level, Recorder, check};

fn main() {
    let history = run().history().expect("a history");
    println!("{}", check(&history, Level::Serializable));
}

fn run() -> Recorder {
    let (map, both) = (Mutex::new(HashMap::from([("x", 0)])), Barrier::new(2));
    let recorder = Recorder::with_clock();
    recorder.initial("x", 0);
    std::thread::scope(|scope| {
        for number in 0..2 {
            let (session, map, both) = (recorder.session(number), &map, &both);
            scope.spawn(move || {
                let mut t = session.begin();
                let x = map.lock().expect("no panic")["x"];
                t.read("x", x);
                both.wait(); // both have read: what happens now and then happens always
                map.lock().expect("no panic").insert("x", x + 1);
                t.write("x", x + 1);
                t.commit();
            });
        }
    });
    recorder
}

#[test]
fn the_lost_update_is_found() {
    let history = run().history().expect("a history");
    let report = check(&history, Level::SnapshotIsolation);
    assert!(report.is_violated(), "{report}");
    assert!(report.to_string().contains("lost-update"), "{report}");
}
