//! Executions that were once taken for explanations.

use margay_audit::audit;
use margay_history::{History, HistoryBuilder, OpDetail, OpKind, Table};
use margay_levels::Level;
use margay_verdict::execution::{Execution, Reading};
use margay_verdict::{Certificate, Question};

/// Three set one row. The first and the last have commit timestamps, and the end of the one between
/// them is not known.
fn stamped(first: i64, last: i64) -> History {
    let mut builder = HistoryBuilder::new();
    let column = |name: &str| (name.to_string(), "int".to_string());
    let columns = vec![column("k"), column("v")];
    let table = Table { name: "t".to_string(), key: vec!["k".to_string()], columns, ..Table::default() };
    let table = builder.declare_table(table).expect("declared once");
    let (key, value) = (builder.values().int(1), builder.values().int(0));
    let name = builder.values().intern_name("v");
    let row = builder.values().row(&[(name, value)]);
    let object = builder.object(Some(table), key);
    builder.initial(object, row).expect("one initial value");
    for (txn, end) in [(1, OpKind::Commit), (2, OpKind::Unknown), (3, OpKind::Commit)] {
        let text = format!("UPDATE t SET v = {txn} WHERE k = 1");
        let detail = OpDetail::Sql { text: &text, params: &[], rows: None, count: None };
        builder.push(txn, txn, None, OpKind::Sql, &[], detail).expect("a good operation");
        builder.push(txn, txn, None, end, &[], OpDetail::None).expect("a good end");
    }
    builder.commit(1, first);
    builder.commit(3, last);
    builder.finish().expect("a good history")
}

/// The audit forgot the first writer when the second had written, so that nothing was left to
/// compare the timestamp of the third with.
#[test]
fn a_writer_without_a_timestamp_hides_nobody() {
    let verdict = |first, last| {
        let history = stamped(first, last);
        let order = [1, 2, 3].map(|label| history.find_txn(label).expect("a transaction of the test"));
        let execution = Execution {
            reading: Reading::Item,
            order: order.to_vec(),
            sights: Vec::new(),
            initial: Vec::new(),
        };
        audit(&history, Question::new(Level::Serializable), &Certificate::Execution(execution)).is_ok()
    };
    assert!(verdict(1, 2));
    assert!(!verdict(2, 1));
}
