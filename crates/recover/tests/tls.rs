//! Evidence out of servers that are reached with encryption. PostgreSQL's takes no other
//! connections here: clients, shadows and the reader of the log all have to be encrypted.

mod common;

use common::{ask, job, open_url, started, with_evidence};
use margay_certify::Certify;
use margay_levels::Level;
use margay_runner::{Extras, Job, Monitor};
use margay_servers::{Authority, Certificate, Server};
use margay_verdict::Verdict;

/// Runs a job on a server, with these options behind its address; it is certified by what the
/// server's log says.
fn is_certified(server: fn(&Certificate) -> Result<Server, String>, options: &str, shadows: u32) {
    let Some(authority) = started(Authority::new()) else { return };
    let certificate = authority.certify("IP:127.0.0.1").expect("a certificate");
    let Some(server) = started(server(&certificate)) else { return };
    let job = job("mixed", "SERIALIZABLE", 1, 60);
    let setting = Job::setting(&job.workload, job.clients, job.seed);
    let url = format!("{}?{options}{}", server.url(), authority.file().display());
    let watched = open_url(&url, &setting).with_shadows(shadows);
    let recording = margay_runner::run(watched.database(), &job, &Monitor::default(), Extras::default());
    let (history, gaps) = with_evidence(&watched, recording.expect("a recording").history);
    assert_eq!(gaps, []);
    assert!(!history.evidence().version_orders.is_empty());
    let verdict = ask(&Certify, &history, Level::Serializable);
    assert!(matches!(verdict, Verdict::Holds(_)), "{verdict:?}");
}

#[test]
fn postgresql() {
    is_certified(Server::postgres_encrypted, "sslmode=verify-full&sslrootcert=", 4);
}

#[test]
fn mariadb() {
    is_certified(Server::mariadb_encrypted, "ssl-mode=VERIFY_IDENTITY&ssl-ca=", 0);
}
