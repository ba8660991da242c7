//! The logs that strategies are compared on.

use margay_history::{History, OpKind, ValueId};
use margay_levels::Level;
use margay_sql::Value;

use crate::ablation::Asked;
use crate::mutated::{Mutation, mutated};
use crate::support::log::{Log, Seen};
use crate::support::rich::rich;
use crate::support::simulate::{Fault, Protocol, Simulator, Watch};
use crate::support::tiny::{replacing, tiny};
use crate::support::{LEVELS, Random};
use crate::{bank, faulty, rubis, tpcc, twitter, wrong};

/// The name of a set, and how its logs are made.
type Set = (&'static str, fn() -> Vec<Asked>);

/// All sets.
pub const ALL: [Set; 8] = [
    ("random", random),
    ("transfers", transfers),
    ("short", short),
    ("long", long),
    ("mutated", || mutations(1000)),
    ("mutated-10000", || mutations(10_000)),
    ("unknown", unknown),
    ("right", right),
];

/// Random SQL of two or three transactions, at all levels.
fn random() -> Vec<Asked> {
    let logs: [fn(u64) -> History; 3] = [tiny, rich, replacing];
    logs.into_iter().flat_map(|log| (0..40).map(move |seed| (log(seed), LEVELS.to_vec()))).collect()
}

/// The paper's transfers that nobody looks at, and then an impossible balance.
fn transfers() -> Vec<Asked> {
    [12, 18, 100, 1000]
        .map(|count| (transferred(count), vec![Level::ReadCommitted, Level::Serializable]))
        .to_vec()
}

fn transferred(count: u64) -> History {
    let mut log = Log::new(&[("accounts", &["id"], &[("id", "int"), ("balance", "int")])]);
    for (id, balance) in [(1, 100), (2, 300)] {
        log.row("accounts", &[Value::Int(id)], &[("balance", Value::Int(balance))]);
    }
    for txn in 1..count {
        let give = "UPDATE accounts SET balance = balance + 10 WHERE id = 2";
        let take = "UPDATE accounts SET balance = balance - 10 WHERE id = 1";
        log.txn(txn, txn, &[(give, None), (take, None)], OpKind::Commit);
    }
    log.txn(0, count, &[("SELECT balance FROM accounts WHERE id = 2", Some(&[&[66]]))], OpKind::Commit);
    log.finish()
}

const PROTOCOLS: [(Protocol, Level); 3] = [
    (Protocol::Serial, Level::Serializable),
    (Protocol::Snapshot, Level::SnapshotIsolation),
    (Protocol::Committed, Level::ReadCommitted),
];

const FAULTS: [Fault; 3] = [Fault::WrongAggregate, Fault::MissedRow, Fault::LostWrite];

/// Logs of 20 transactions whose order nothing tells, of a database that errs once.
fn short() -> Vec<Asked> {
    let kinds: [wrong::Transaction; 3] = [wrong::registers, wrong::accounts, wrong::sums];
    let mut logs = Vec::new();
    for (kind, (protocol, level), fault) in each(&kinds) {
        let made = (0..3).filter_map(|seed| wrong::log(kind, protocol, fault, seed, 20));
        logs.extend(made.map(|log| (log, vec![level])));
    }
    logs
}

/// The same with 300 transactions over 30 rows.
fn long() -> Vec<Asked> {
    let kinds: [faulty::Transaction; 3] = [faulty::registers, faulty::accounts, faulty::orders];
    let mut logs = Vec::new();
    for (kind, (protocol, level), fault) in each(&kinds) {
        logs.extend(faulty::log(kind, protocol, fault, 1, 300, false).map(|log| (log, vec![level])));
    }
    logs
}

fn each<K: Copy>(kinds: &[K]) -> Vec<(K, (Protocol, Level), Fault)> {
    let faults = |kind, protocol| FAULTS.map(|fault| (kind, protocol, fault));
    let protocols = |kind| PROTOCOLS.into_iter().flat_map(move |protocol| faults(kind, protocol));
    kinds.iter().flat_map(|&kind| protocols(kind)).collect()
}

fn simulated(number: usize, protocol: Protocol, seed: u64, count: u64) -> History {
    let workloads = [
        (bank::TABLES, bank::load as fn(&mut Simulator), bank::transaction as fn(&mut Random, u64) -> _),
        (twitter::TABLES, twitter::load, twitter::transaction),
        (rubis::TABLES, rubis::load, rubis::transaction),
        (tpcc::TABLES, tpcc::load, tpcc::transaction),
    ];
    let (tables, load, mut transaction) = workloads[number];
    let mut simulator = Simulator::new(tables, protocol, seed);
    (simulator.watch, simulator.commits) = (Watch::All, false);
    load(&mut simulator);
    simulator.run(8, count, &mut transaction);
    simulator.finish()
}

/// Logs of bank-server, Twitter, RUBiS and TPC-C with client times, and one result changed.
fn mutations(transactions: u64) -> Vec<Asked> {
    let mut logs = Vec::new();
    for (number, (protocol, level)) in (0..4).flat_map(|n| PROTOCOLS.map(|protocol| (n, protocol))) {
        let history = simulated(number, protocol, 7, transactions);
        for (seed, mutation) in
            [(1, Mutation::Number), (2, Mutation::Number), (3, Mutation::Dropped), (4, Mutation::Dropped)]
        {
            logs.extend(mutated(&history, mutation, &mut Random(seed)).map(|log| (log, vec![level])));
        }
    }
    logs
}

/// Right logs of the same workloads.
fn right() -> Vec<Asked> {
    let logs = (0..4)
        .flat_map(|n| PROTOCOLS.map(|(protocol, level)| (simulated(n, protocol, 7, 2000), vec![level])));
    logs.collect()
}

/// Transfers between accounts whose initial balances are not known, with balances and sums that fit
/// and some that do not.
fn unknown() -> Vec<Asked> {
    (0..24).map(|seed| (unknown_log(seed), vec![Level::Serializable, Level::ReadCommitted])).collect()
}

fn unknown_log(seed: u64) -> History {
    let mut log = Log::new(&[("accounts", &["id"], &[("id", "int"), ("balance", "int")])]);
    let mut random = Random(seed);
    for id in 0..2 {
        let key = log.builder.values().int(id);
        let table = log.builder.table("accounts");
        let object = log.builder.object(Some(table), key);
        log.builder.initial(object, ValueId::UNKNOWN).expect("an object");
    }
    let mut balances = [100, 200];
    for txn in 0..6 {
        let (id, by) = (random.below(2) as usize, 10 * (1 + random.below(3) as i64));
        let lie = if txn == 5 && seed.is_multiple_of(2) { 1 } else { 0 };
        let (text, seen) = match random.below(3) {
            0 => {
                balances[id] += by;
                (format!("UPDATE accounts SET balance = balance + {by} WHERE id = {id}"), None)
            }
            1 => (format!("SELECT balance FROM accounts WHERE id = {id}"), Some(balances[id] + lie)),
            _ => ("SELECT SUM(balance) FROM accounts".to_owned(), Some(balances[0] + balances[1] + lie)),
        };
        let seen = seen.map_or(Seen::Nothing, |number| Seen::Rows(vec![vec![Value::Int(number)]]));
        log.sql(txn, txn, None, &text, &[], &seen);
        log.op(txn, txn, None, OpKind::Commit);
    }
    log.finish()
}
