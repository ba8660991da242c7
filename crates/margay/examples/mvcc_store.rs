//! A multi-version store that forgets the first-updater check.
//!
//! Every transaction reads from its snapshot, and commits without asking whether somebody else has
//! written the same key since: snapshot isolation without its second half.

use std::collections::BTreeMap;

use margay::{Level, Recorder, check};

/// Versions of each key, oldest first, with the number of the commit that made them.
#[derive(Default)]
struct Store {
    versions: BTreeMap<&'static str, Vec<(u64, i64)>>,
    commits: u64,
    first_updater_wins: bool,
}

struct Snapshot {
    at: u64,
    writes: BTreeMap<&'static str, i64>,
}

impl Store {
    fn begin(&self) -> Snapshot {
        Snapshot { at: self.commits, writes: BTreeMap::new() }
    }

    fn read(&self, snapshot: &Snapshot, key: &'static str) -> Option<i64> {
        let own = snapshot.writes.get(key).copied();
        let seen = || self.versions.get(key)?.iter().rev().find(|(made, _)| *made <= snapshot.at);
        own.or_else(|| seen().map(|(_, value)| *value))
    }

    fn commit(&mut self, snapshot: Snapshot) -> bool {
        let newest = |key| self.versions.get(key).and_then(|all: &Vec<(u64, i64)>| all.last());
        let late = |key| newest(key).is_some_and(|(made, _)| *made > snapshot.at);
        if self.first_updater_wins && snapshot.writes.keys().any(|key| late(*key)) {
            return false;
        }
        self.commits += 1;
        for (key, value) in snapshot.writes {
            self.versions.entry(key).or_default().push((self.commits, value));
        }
        true
    }
}

/// Two clients withdraw from one account at the same time.
fn run(first_updater_wins: bool) -> Recorder {
    let mut store = Store { first_updater_wins, ..Store::default() };
    let recorder = Recorder::new();
    let mut set_up = (store.begin(), recorder.session(0).begin());
    set_up.0.writes.insert("balance", 100);
    set_up.1.write("balance", 100);
    assert!(store.commit(set_up.0), "nobody else is there");
    set_up.1.commit();

    let mut open = Vec::new();
    for client in [1, 2] {
        let (mut snapshot, mut t) = (store.begin(), recorder.session(client).begin());
        let balance = store.read(&snapshot, "balance");
        t.read("balance", balance);
        let rest = balance.unwrap_or(0) - 10 * client as i64;
        snapshot.writes.insert("balance", rest);
        t.write("balance", rest);
        open.push((snapshot, t));
    }
    for (snapshot, t) in open {
        if store.commit(snapshot) { t.commit() } else { t.abort() }
    }
    recorder
}

fn main() {
    let history = run(false).history().expect("a history");
    println!("{}", check(&history, Level::SnapshotIsolation));
}

#[test]
fn only_the_store_that_checks_is_isolated() {
    margay::assert_isolated!(run(true), Level::Serializable);
    let history = run(false).history().expect("a history");
    let report = check(&history, Level::SnapshotIsolation);
    assert!(report.is_violated(), "{report}");
}
