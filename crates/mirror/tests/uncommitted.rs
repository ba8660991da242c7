//! Readers that see what is not committed, of writers that do not wait for each other: only a
//! profile of one's own says so.

use margay_audit::audit;
use margay_history::History;
use margay_levels::{Anomaly, Level};
use margay_mirror::{Engine, Mechanisms, simulated};
use margay_simdb::{Mix, Protocol, SimConfig, simulate_history};
use margay_testkit::history;
use margay_verdict::{Budget, Checker, Question, Verdict};

const ANY: Question = Question { real_time: false, ..Question::new(Level::ReadUncommitted) };

fn check(history: &History, locks: bool) -> Verdict {
    let locking = simulated("simdb-read-uncommitted").expect("a simulated database");
    let mechanisms = if locks { locking } else { Mechanisms { write_locks: None, ..locking } };
    Engine { mechanisms: Some(mechanisms), ..Engine::default() }.check(history, ANY, &Budget::unlimited())
}

/// The anomalies that are found, each once; the audit accepts every finding.
fn found(text: &str, locks: bool) -> Vec<Anomaly> {
    let h = history(text);
    let Verdict::Violated(findings) = check(&h, locks) else { return Vec::new() };
    for finding in &findings {
        assert_eq!(audit(&h, ANY, &finding.certificate), Ok(()), "{text}: {finding:?}");
    }
    let mut anomalies: Vec<Anomaly> = findings.iter().map(|finding| finding.anomaly).collect();
    anomalies.dedup();
    anomalies
}

#[test]
fn others_overwrite_what_a_transaction_wrote() {
    let text =
        "init: x=0 | T1: w(x,1)@[10,20] r(x,2)@[50,60] commit@[70,80] | T2: w(x,2)@[30,40] commit@[42,44]";
    assert_eq!(found(text, false), []);
    assert_eq!(found(text, true), [Anomaly::MutualExclusion, Anomaly::ConsistentRead]);
    // It is not what was there before, nor what was overwritten.
    assert_eq!(found(&text.replace("r(x,2)", "r(x,0)"), false), [Anomaly::ConsistentRead]);
    assert_eq!(found(&text.replace("r(x,2)", "r(x,1)"), false), [Anomaly::ConsistentRead]);
    assert_eq!(found(&text.replace("[30,40]", "[3,4]"), false), [Anomaly::ConsistentRead]);
    assert_eq!(found(&text.replace("[30,40]", "[15,25]"), false), []);
}

#[test]
fn the_last_write_counts_for_the_order() {
    let text =
        "T1: w(x,1)@[10,20] w(y,1)@[50,60] commit@[91,92] | T2: w(y,2)@[12,22] w(x,2)@[52,62] commit@[93,94]";
    assert_eq!(found(text, false), [Anomaly::SerializationCertifier]);
    let again = text.replace(" commit@[91,92]", " w(x,3)@[70,80] commit@[91,92]");
    assert_eq!(found(&again, false), [], "both objects are as T1 left them");
    // A deletion may have found nothing: then the write before it was the last.
    assert_eq!(found(&again.replace("w(x,3)", "d(x)"), false), []);
    let between = "T1: w(x,1)@[10,20] w(x,3)@[50,60] commit@[91,92] | T2: w(x,2)@[30,40] commit@[93,94]";
    assert_eq!(found(between, false), []);
    assert_eq!(found(between, true), [Anomaly::MutualExclusion]);
}

#[test]
fn what_follows_without_locks_is_certain() {
    let mut violated = 0;
    for protocol in Protocol::ALL {
        for seed in 0..6 {
            let mut config = SimConfig::new(protocol, seed);
            (config.transactions, config.keys, config.clients) = (80, 4, 8);
            config.mix = Mix::NAMED[seed as usize % 4].1;
            let (h, _) = simulate_history(&config).expect("a history");
            let verdict = check(&h, false);
            let weak = matches!(protocol, Protocol::ReadUncommitted | Protocol::Serial);
            assert!(!weak || verdict == Verdict::Clean, "{protocol} {seed}: {verdict:?}");
            let Verdict::Violated(findings) = verdict else { continue };
            violated += 1;
            for finding in findings.iter().take(4) {
                assert_eq!(audit(&h, ANY, &finding.certificate), Ok(()), "{protocol} {seed}: {finding:?}");
            }
        }
    }
    assert!(violated > 10, "{violated}");
}
