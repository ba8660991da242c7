//! The same for asynchronous clients: tasks of tokio that read, wait, and write.

use std::sync::Arc;

use margay::{Level, Recorder, check};
use tokio::sync::{Barrier, Mutex};

async fn client(number: u64, recorder: Recorder, register: Arc<Mutex<i64>>, both: Arc<Barrier>) {
    let mut t = recorder.session(number).begin();
    let seen = *register.lock().await;
    t.read("x", seen);
    both.wait().await; // the lock was given back too early
    *register.lock().await = seen + 1;
    t.write("x", seen + 1);
    t.commit();
}

fn run() -> Recorder {
    let recorder = Recorder::with_clock();
    recorder.initial("x", 0);
    let (register, both) = (Arc::new(Mutex::new(0)), Arc::new(Barrier::new(2)));
    let runtime = tokio::runtime::Builder::new_multi_thread().build().expect("a runtime");
    runtime.block_on(async {
        let spawn = |number| {
            let (register, both) = (Arc::clone(&register), Arc::clone(&both));
            tokio::spawn(client(number, recorder.clone(), register, both))
        };
        let clients = [spawn(0), spawn(1)];
        for client in clients {
            client.await.expect("it ends");
        }
    });
    recorder
}

fn main() {
    let history = run().history().expect("a history");
    println!("{}", check(&history, Level::Serializable));
}

#[test]
fn the_lost_update_is_found() {
    let history = run().history().expect("a history");
    let report = check(&history, Level::Serializable);
    assert!(report.is_violated(), "{report}");
}
