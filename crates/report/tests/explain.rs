//! Certificates in words.

use margay_history::{ObjectId, OpId, TxnId, Version};
use margay_levels::Anomaly;
use margay_report::explain;
use margay_testkit::history;
use margay_verdict::{Certificate, Edge, Finding, Lemma, Reason};

#[test]
fn a_cycle_in_words() {
    let h = history("init: x=0 y=0 | T1: r(x,0) w(y,1) | T2: r(y,0) w(x,1)");
    let object = |name: &str| h.objects().find(|&o| h.show_object(o) == name).expect("an object of the test");
    let rw = |from: u32, to: u32, object: ObjectId| Edge {
        from: TxnId(from),
        to: TxnId(to),
        reason: Reason::AntiRead {
            op: OpId(h.op_range(TxnId(from)).start),
            object,
            version: Version::Initial,
        },
    };
    let lemma = Lemma { edges: vec![rw(0, 1, object("x")), rw(1, 0, object("y"))] };
    let finding = Finding {
        anomaly: Anomaly::G2Item,
        txns: vec![TxnId(0), TxnId(1)],
        certificate: Certificate::Refutation(vec![lemma]),
    };
    let text = explain::finding(&h, &finding);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "T1 comes before T2: T1 read x = 0, the initial version, and T2 wrote 1 later.");
    assert_eq!(lines[1], "T2 comes before T1: T2 read y = 0, the initial version, and T1 wrote 1 later.");
    assert_eq!(lines[2], "So each comes before the next: T1, T2, T1, which is impossible.");
    assert!(lines[3].starts_with("This is G2-item: "), "{text}");
}

#[test]
fn single_operations_in_words() {
    let h = history("T1: w(x,1) abort | T2: r(x,1)");
    let ops = vec![OpId(h.op_range(TxnId(1)).start)];
    let certificate = Certificate::Operations { anomaly: Anomaly::G1a, ops };
    let lines = explain::certificate(&h, &certificate);
    assert_eq!(lines, ["T2 read x = 1.", "Only T1 wrote that to x, and aborted."]);
    let long = format!("T1: w(x,'{}') abort | T2: r(x,'{}')", "a".repeat(500), "a".repeat(500));
    let h = history(&long);
    assert!(explain::certificate(&h, &certificate).iter().all(|line| line.len() < 120));
}
