//! Certificates in files.

use margay_history::{History, NameId, OpId, TxnId, Version};
use margay_levels::profile::Granularity;
use margay_levels::{Anomaly, Level};
use margay_testkit::history;
use margay_verdict::mechanism::{Certified, Locking, Mechanisms, Points, ReadView};
use margay_verdict::wire::{fingerprint, from_json, to_json};
use margay_verdict::{
    Breach, Broken, Certificate, Claim, Edge, Lemma, Order, Point, Question, ReadFrom, Reason, Versions,
};

const TEXT: &str = "table t(id; id int, v int) | init: x=0 t/4={v:3} | T1@s1: r(x,0) w(x,1) | T2@s1: r(x,1) \
    scan(t, v > 2){4:{v:3}} w(t/4,{v:5}) | T7@s2: a(l,5) r(l,[5]) unknown";

fn certificates(h: &History) -> Vec<Certificate> {
    let (a, b, c) = (TxnId(0), TxnId(1), TxnId(2));
    let object = |name: &str| h.objects().find(|&o| h.show_object(o) == name).expect("an object of the test");
    let (x, row, column) = (object("x"), object("t/4"), NameId(0));
    let op = |txn: TxnId, i| OpId(h.op_range(txn).start + i);
    let reads = vec![
        ReadFrom { op: op(b, 0), object: x, version: Version::Of(a) },
        ReadFrom { op: op(b, 1), object: row, version: Version::Initial },
    ];
    let edge = |from, to, reason| Edge { from, to, reason };
    let session = edge(a, b, Reason::Session);
    let edges = vec![
        session.clone(),
        edge(b, c, Reason::RealTime),
        edge(a, b, Reason::Read { op: op(b, 0), object: x }),
        edge(a, b, Reason::Write { object: row }),
        edge(a, b, Reason::AntiRead { op: op(a, 0), object: x, version: Version::Initial }),
        edge(a, b, Reason::AntiRead { op: op(a, 0), object: x, version: Version::Of(c) }),
        edge(a, b, Reason::ReadColumn { op: op(b, 1), object: row, column }),
        edge(a, b, Reason::AntiReadColumn { op: op(b, 1), object: row, column, version: Version::Of(c) }),
        edge(a, b, Reason::Visible { op: op(b, 1), object: row, path: vec![session] }),
    ];
    vec![
        Certificate::Order(Order { txns: vec![b, a, c], reads: reads.clone() }),
        Certificate::Points(vec![Point::Begin(a), Point::Begin(c), Point::Commit(a), Point::Commit(c)]),
        Certificate::Versions(Versions {
            committed: vec![c],
            orders: vec![(x, vec![a]), (row, vec![b])],
            reads,
        }),
        Certificate::Operations { anomaly: Anomaly::G1a, ops: vec![op(b, 1), op(c, 0)] },
        Certificate::Refutation(vec![Lemma { edges: edges.clone() }, Lemma { edges: edges.clone() }]),
        breach(Broken::Read { op: op(b, 1) }),
        breach(Broken::Locks { object: x, ops: [op(a, 0), op(b, 0)] }),
        breach(Broken::Updates { object: row, txns: [a, c] }),
        breach(Broken::Dependencies(edges)),
        Certificate::Both(Box::new([
            Certificate::Order(Order { txns: vec![b, a, c], reads: Vec::new() }),
            Certificate::Points(vec![Point::Begin(a), Point::Commit(a)]),
        ])),
    ]
}

fn breach(broken: Broken) -> Certificate {
    let mechanisms = Mechanisms {
        view: ReadView::FirstRead,
        together: true,
        read_locks: true,
        write_locks: Some(Granularity::Row),
        first_updater_wins: false,
        skips_unchanged: false,
        locking: Locking::NewestGaps,
        certifier: Certified::Ssi,
        read_regions: true,
        write_regions: false,
        update_search: true,
        points: Some(Points::Commit),
    };
    Certificate::Intervals(Breach { profile: None, mechanisms, broken })
}

#[test]
fn what_was_written_reads_back() {
    let h = history(TEXT);
    for certificate in certificates(&h) {
        for level in Level::ALL {
            for (real_time, instants) in [(false, false), (true, false), (false, true)] {
                let question = Question { level, real_time, instants };
                let claim = Claim::of(&h, question, None, &certificate);
                let text = to_json(&h, &claim, &certificate);
                assert_eq!(from_json(&h, None, &text), Ok((claim, certificate.clone())), "{text}");
            }
        }
    }
}

/// Files of version 0.1.0 do not say by which rules they were made.
#[test]
fn files_without_rules_are_read() {
    let h = history(TEXT);
    let question = Question::new(Level::ReadCommitted);
    for certificate in certificates(&h) {
        let claim = Claim::of(&h, question, None, &certificate);
        let mut old = to_json(&h, &claim, &certificate);
        for field in [
            "\"dialect\":\"generic\",",
            "\"profile\":null,",
            "\"reading\":\"item\",",
            "\"translation\":\"recorded\",",
            "\"translation\":\"executed\",",
        ] {
            old = old.replace(field, "");
        }
        if !matches!(certificate, Certificate::Unexplained(_)) {
            assert_eq!(from_json(&h, None, &old), Ok((claim, certificate)), "{old}");
        }
    }
}

#[test]
fn what_is_wrong_is_said() {
    let h = history(TEXT);
    let question = Question::new(Level::Serializable);
    let certificate = &certificates(&h)[4];
    let good = to_json(&h, &Claim::of(&h, question, None, certificate), certificate);
    let print = fingerprint(&h);
    let cases = [
        ("\"margay-certificate\":1", "\"margay-certificate\":2", "version 2"),
        (&print[..], "0000000000000000", "another history"),
        ("\"verdict\":\"violated\"", "\"verdict\":\"holds\"", "proves \"violated\""),
        ("\"level\":\"serializable\"", "\"level\":\"serialisable\"", "serialisable"),
        ("\"dialect\":\"generic\"", "\"dialect\":\"mysql\"", "dialect mysql where it is generic"),
        ("\"translation\":\"recorded\"", "\"translation\":\"executed\"", "translation executed where it is"),
        ("\"translation\":\"recorded\"", "\"translation\":\"guessed\"", "no translation \"guessed\""),
        ("\"reading\":\"item\"", "\"reading\":\"statement\"", "reading statement where it is item"),
        ("\"profile\":null", "\"profile\":\"mysql/serializable\"", "not about the mechanisms"),
        ("\"real-time\":false", "\"real-time\":0", "real-time"),
        ("\"real-time\":false", "\"real_time\":false", "real-time"),
        ("\"from\":1", "\"from\":5", "no transaction 5"),
        ("\"object\":\"x\"", "\"object\":\"y\"", "no object \"y\""),
        ("\"object\":[\"t\",4]", "\"object\":[\"t\",5]", "no object"),
        ("\"op\":[2,0]", "\"op\":[2,9]", "no operation 9"),
        ("\"why\":\"session\"", "\"why\":\"because\"", "because"),
        ("\"why\":\"session\"", "\"why\":\"session\",\"op\":[1,0]", "unknown field"),
        ("\"refutation\"", "\"refutations\"", "none of"),
        ("{\"", "\"", "not a certificate"),
    ];
    for (from, to, said) in cases {
        assert!(good.contains(from), "{from}");
        let error = from_json(&h, None, &good.replacen(from, to, 1)).expect_err(to);
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_fingerprint_is_of_the_content() {
    let print = fingerprint(&history(TEXT));
    let reordered = "table t(id; id int, v int) | T7@s2: a(l,5) r(l,[5]) unknown | init: t/4={v:3} x=0 | T1@s1: r(x,0) \
        w(x,1) | T2@s1: r(x,1) scan(t, v > 2){4:{v:3}} w(t/4,{v:5})";
    assert_eq!(fingerprint(&history(reordered)), print);
    let others = [
        ("r(x,0)", "r(x,1)"),
        ("w(x,1)", "w(y,1)"),
        ("T7", "T8"),
        ("unknown", "abort"),
        ("v > 2", "v > 1"),
        ("{v:3} |", "{v:4} |"),
        ("@s2", "@s3"),
        ("a(l,5)", "a(l,5)@[1,2]"),
        ("unknown", "unknown | commit T1=5"),
        ("unknown", "unknown | order x: init T1"),
    ];
    for (from, to) in others {
        assert!(TEXT.contains(from), "{from}");
        assert_ne!(fingerprint(&history(&TEXT.replacen(from, to, 1))), print, "{to}");
    }
}
