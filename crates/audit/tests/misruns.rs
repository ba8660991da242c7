//! Lemmas about executions that were once taken for true.

use margay_audit::audit;
use margay_executions::{Answer, Choices, Constraints, Machine, Orders, Rules, exhaust};
use margay_history::{Access, History, HistoryBuilder, OpDetail, OpId, OpKind, Table, TxnId, ValueId};
use margay_levels::Level;
use margay_verdict::execution::{Execution, Misrun, Moment, Reading, StatementSight, Unexplained};
use margay_verdict::{Budget, Certificate, Question};

/// One inserts a row, another one adds to it, and a third one, in the session of the second, reads
/// it as it was inserted.
fn inserted_and_added_to() -> History {
    let mut builder = HistoryBuilder::new();
    let column = |name: &str| (name.to_string(), "int".to_string());
    let columns = vec![column("k"), column("v")];
    let table = Table { name: "t".to_string(), key: vec!["k".to_string()], columns, ..Table::default() };
    builder.declare_table(table).expect("declared once");
    let zero = builder.values().int(0);
    let told = [builder.values().list(&[zero])];
    let statements: [(u64, u64, &str, Option<&[ValueId]>); 3] = [
        (1, 1, "INSERT INTO t VALUES (1, 0)", None),
        (2, 2, "UPDATE t SET v = v + 1 WHERE k = 1", None),
        (2, 3, "SELECT v FROM t WHERE k = 1", Some(&told)),
    ];
    for (session, txn, text, rows) in statements {
        let none: &[Access] = &[];
        let detail = OpDetail::Sql { text, params: &[], rows, count: None };
        builder.push(session, txn, None, OpKind::Sql, none, detail).expect("a good operation");
        builder.push(session, txn, None, OpKind::Commit, none, OpDetail::None).expect("a good end");
        builder.commit(txn, txn as i64);
    }
    builder.finish().expect("a good history")
}

/// Under snapshot isolation the second one need not have seen the row, and then it added nothing
/// and was in nobody's way. The lemma assumed only that it committed later.
#[test]
fn who_adds_to_a_row_must_have_seen_it_inserted() {
    let history = inserted_and_added_to();
    let txn = |label: u64| history.find_txn(label).expect("a transaction of the test");
    let (one, two, three) = (txn(1), txn(2), txn(3));
    let first = |txn: TxnId| OpId(history.op_range(txn).start);
    let question = Question::new(Level::StrongSessionSnapshotIsolation);
    let execution = Execution {
        reading: Reading::Item,
        order: vec![one, two, three],
        sights: vec![(first(two), StatementSight::state(0)), (first(three), StatementSight::state(2))],
        initial: Vec::new(),
    };
    assert_eq!(audit(&history, question, &Certificate::Execution(execution)), Ok(()));
    let (begin, commit) = (|txn| Moment { txn, begins: true }, |txn| Moment { txn, begins: false });
    let order = vec![
        (begin(one), commit(two)),
        (commit(one), commit(two)),
        (commit(two), begin(three)),
        (commit(one), begin(three)),
    ];
    let op = first(three);
    let lemma = Misrun { run: vec![(one, 0), (two, 1), (three, 2)], op: Some(op), order, absent: Vec::new() };
    let unexplained = Unexplained {
        reading: Reading::Item,
        rows: None,
        txns: vec![one, two, three],
        op,
        lemmas: vec![lemma],
        clashes: None,
        notes: Vec::new(),
    };
    let answer = audit(&history, question, &Certificate::Unexplained(unexplained));
    assert_eq!(
        answer.map_err(|why| why.0),
        Err("a lemma assumes less than its misfit depends on".to_string())
    );
}

/// The solver and the choices end with the budget, and what they then have not found is not said to
/// be missing.
#[test]
fn what_the_budget_ended_refutes_nothing() {
    let history = inserted_and_added_to();
    let over = Budget::unlimited();
    over.cancel();
    for level in [Level::Serializable, Level::SnapshotIsolation, Level::ReadCommitted] {
        let rules = Rules::of(Question::new(level), Reading::Item).expect("a level of executions");
        let constraints = Constraints::new(&history, rules);
        let orders = || Orders::new(&history, rules, &constraints).expect("few transactions");
        assert!(matches!(orders().candidate(), Some(Some(_))), "{level}");
        assert_eq!(orders().within(&over).candidate(), None, "{level}");
        let all = exhaust(&history, rules, None, 1_000, &Budget::unlimited());
        assert!(matches!(all, Ok(Answer::Explained | Answer::Refuted)), "{level}: {all:?}");
        assert_eq!(exhaust(&history, rules, None, 1_000, &over), Ok(Answer::TooMany), "{level}");
    }
    // The read of the third one on the empty database fits nothing.
    let rules = Rules::of(Question::new(Level::SnapshotIsolation), Reading::Item).expect("a level");
    let mut machine = Machine::new(&history, true).expect("in the fragment");
    let three = history.find_txn(3).expect("a transaction of the test");
    let choices = Choices::new(&mut machine, rules, three, (0, 0)).expect("in the fragment");
    let mut choices = choices.within(&over);
    assert!(choices.next(&mut machine).expect("in the fragment").is_none() && choices.cut);
}
