//! Runs on a server of our own, with what was recovered of them.

#![allow(dead_code, reason = "every test file that includes this module uses a part of it")]

use std::thread::sleep;
use std::time::Duration;

use margay_audit::audit;
use margay_drivers::{Setting, Target};
use margay_history::History;
use margay_recover::{Gap, Plugin, Watched};
use margay_runner::{Extras, Job, Monitor};
use margay_servers::Server;
pub use margay_servers::started;
use margay_verdict::{Budget, Checker, Question, Verdict};
use margay_workloads::Workload;

pub fn postgres() -> Option<Server> {
    started(Server::postgres())
}

pub fn mariadb() -> Option<Server> {
    started(Server::mariadb())
}

/// A connection of our own to PostgreSQL.
pub fn connected(url: &str) -> postgres::Client {
    for _ in 0..300 {
        match postgres::Client::connect(url, postgres::NoTls) {
            Ok(client) => return client,
            Err(_) => sleep(Duration::from_millis(100)),
        }
    }
    panic!("the server does not take connections")
}

/// The port opens a little before the server takes connections.
pub fn open(server: &Server, setting: &Setting) -> Watched {
    open_url(server.url(), setting)
}

pub fn open_url(url: &str, setting: &Setting) -> Watched {
    let target: Target = url.parse().expect("a target");
    for _ in 0..300 {
        match margay_drivers::open(&target, setting) {
            Ok(database) => return Watched::new(database).expect("something to recover"),
            Err(_) => sleep(Duration::from_millis(100)),
        }
    }
    panic!("the server does not take connections")
}

pub fn job(workload: &str, level: &str, seed: u64, transactions: u64) -> Job {
    Job {
        workload: workload.parse::<Workload>().expect("a workload"),
        clients: 6,
        seed,
        own_name: level.to_owned(),
        others: Vec::new(),
        retries: 0,
        harms: Vec::new(),
        transactions: Some(transactions),
        duration: None,
    }
}

/// Runs a job, and answers the history with its evidence.
pub fn run(server: &Server, job: &Job) -> (History, Vec<Gap>) {
    run_with(server, job, Plugin::Auto)
}

/// The same with a plugin of PostgreSQL's.
pub fn run_with(server: &Server, job: &Job, plugin: Plugin) -> (History, Vec<Gap>) {
    let setting = Job::setting(&job.workload, job.clients, job.seed);
    let watched = open(server, &setting).with_plugin(plugin);
    let recording = margay_runner::run(watched.database(), job, &Monitor::default(), Extras::default())
        .expect("a recording");
    with_evidence(&watched, recording.history)
}

pub fn with_evidence(watched: &Watched, history: History) -> (History, Vec<Gap>) {
    let recovered = watched.recover(&history).expect("a log");
    (history.with_evidence(recovered.evidence).expect("evidence about this history"), recovered.gaps)
}

/// Asks an engine, and audits its answer.
pub fn ask(engine: &dyn Checker, history: &History, level: margay_levels::Level) -> Verdict {
    let question = Question::new(level);
    let verdict = engine.check(history, question, &Budget::unlimited().with_time(Duration::from_secs(60)));
    if let Some(certificate) = verdict.certificate() {
        assert_eq!(audit(history, question, certificate), Ok(()), "{} at {level}", engine.name());
    }
    verdict
}
