//! A history without some of its transactions has nothing of them.

use margay_testkit::{history, show};

fn without(text: &str, label: u64) -> Option<String> {
    let history = history(text);
    let out = history.find_txn(label).unwrap();
    history.restrict(|txn| txn != out).map(|part| show(&part))
}

#[test]
fn what_was_seen_of_a_dropped_transaction_is_forgotten() {
    let cases = [
        ("T1: w(x,1) | T2: r(x,1) r(x,2) | T3: w(x,2)", 1, "T2: r(x,?) r(x,2) | T3: w(x,2)"),
        ("T1: a(x,1) | T2: a(x,2) | T3: r(x,[1 2])", 1, "T2: a(x,2) | T3: r(x,[2])"),
        ("T1: a(x,1) | T2: a(x,1) r(x,[1])", 1, "T2: a(x,1) r(x,?)"),
        ("init: x=0 | T1: d(x) | T2: r(x,_) r(x,0)", 1, "init: x=0 | T2: r(x,?) r(x,0)"),
        ("T1: w(t/1,{v:1}) | T2: r(t/1,{v:1 w:2}) r(t/1,{w:2})", 1, "T2: r(t/1,?) r(t/1,{w:2})"),
        (
            "T1: w(t/1,{v:1}) | T2: scan(t, v > 0){} scan(u, v > 0){}",
            1,
            "T2: scan(t, v > 0) scan(u, v > 0){}",
        ),
        ("T1: w(x,1) abort | T2: r(x,1)", 1, "T2: r(x,?)"),
        (
            "T1: w(x,1) | T2: w(x,2) | order x: T1 T2 | commit T1=1 | commit T2=2",
            1,
            "T2: w(x,2) | order x: T2 | commit T2=2",
        ),
    ];
    for (text, label, left) in cases {
        assert_eq!(without(text, label).as_deref(), Some(left), "{text}");
    }
}

#[test]
fn what_depends_on_a_dropped_transaction_cannot_be_restricted() {
    assert_eq!(without("T1: w(t/1,{v:1}) | T2: upd(t, v > 0, v = 2){1:{v:2}}", 1), None);
    assert!(without("T1: w(u/1,{v:1}) | T2: upd(t, v > 0, v = 2){}", 1).is_some());
}
