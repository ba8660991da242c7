use margay_recover::Datum;

use super::*;

/// Tables of one number each, as the catalogs tell them.
fn catalog(names: &[&str]) -> Catalog {
    let mut catalog = Catalog::default();
    for name in names {
        let columns =
            [("id", "int"), ("v", "int")].map(|(name, kind)| (name.to_owned(), kind.to_owned())).to_vec();
        let table =
            Table { name: (*name).to_owned(), key: vec!["id".to_owned()], columns, ..Table::default() };
        let path = format!("\"public\".\"{name}\"");
        let (kinds, anything, untold, unlogged, file) = (vec![23, 23], None, false, false, None);
        catalog.tables.push(KnownTable { table, path, kinds, anything, untold, unlogged, file });
    }
    catalog
}

/// A statement with the number of rows that it changed, or its rows.
enum Said {
    Wrote(&'static str, u64),
    Read(&'static str, i64),
}

/// Transactions, each with the times of its COMMIT.
fn wire(catalog: &Catalog, all: &[(&[Said], [i64; 2])]) -> History {
    let mut builder = HistoryBuilder::new();
    builder.header().dbms = Some("postgresql-15".to_owned());
    for known in &catalog.tables {
        builder.declare_table(known.table.clone()).expect("a table");
    }
    for (label, (said, end)) in (1..).zip(all) {
        let mut now = end[0] - 100;
        let mut at = || {
            now += 10;
            Some(Interval::new(now, now + 5))
        };
        let begin = OpDetail::Begin { level: Some("serializable"), read_only: false, unit: None };
        builder.push(label, label, at(), OpKind::Begin, &[], begin).expect("a begin");
        for said in *said {
            let (text, rows, count) = match said {
                Said::Wrote(text, count) => (text, None, Some(*count)),
                Said::Read(text, value) => {
                    let cell = builder.values().int(*value);
                    (text, Some(vec![builder.values().list(&[cell])]), None)
                }
            };
            let detail = OpDetail::Sql { text, params: &[], rows: rows.as_deref(), count };
            builder.push(label, label, at(), OpKind::Sql, &[], detail).expect("a statement");
        }
        let end = Some(Interval::new(end[0], end[1]));
        builder.push(label, label, end, OpKind::Commit, &[], OpDetail::None).expect("a commit");
    }
    builder.finish().expect("a history")
}

/// A commit of the log with what it made of rows.
fn commit(xid: u64, at: i64, rows: &[(&str, i64, i64)]) -> Commit {
    let changes = rows.iter().map(|(table, id, v)| RawChange {
        table: format!("public.{table}"),
        old: None,
        new: Some(vec![("id".to_owned(), Datum::Int(*id)), ("v".to_owned(), Datum::Int(*v))]),
    });
    Commit { xid, at: [at, at + 1], seen: at + 3, changes: changes.collect(), truncated: Vec::new() }
}

fn assembled(catalog: &Catalog, wire: &History, commits: &[Commit]) -> Result<Logged, String> {
    let commits: Vec<&Commit> = commits.iter().collect();
    assemble(&Sources { wire, catalog, commits: &commits, alone: false, settled: true, begun: 0 })
}

/// The kinds of operations of each transaction, with the number of rows of writes.
fn shape(history: &History) -> Vec<String> {
    let shown = |op: Op<'_>| match op.kind {
        OpKind::Write => format!("write {}", op.accesses.len()),
        kind => kind.name().to_owned(),
    };
    history.txns().map(|txn| history.ops(txn).map(shown).collect::<Vec<_>>().join(", ")).collect()
}

const READ: Said = Said::Read("SELECT v FROM t WHERE id = 1", 5);

#[test]
fn a_transaction_meets_the_commit_with_its_values() {
    let catalog = catalog(&["t"]);
    let one = [READ, Said::Wrote("UPDATE t SET v = 6 WHERE id = 1", 1)];
    let other = [Said::Wrote("UPDATE t SET v = 7 WHERE id = 1", 1)];
    let wire = wire(&catalog, &[(&one, [1000, 1010]), (&other, [1000, 1010])]);
    let log = [commit(8, 1003, &[("t", 1, 7)]), commit(7, 1004, &[("t", 1, 6)])];
    let logged = assembled(&catalog, &wire, &log).expect("a history");
    assert_eq!((logged.others, logged.lossy), (0, 0));
    assert_eq!(shape(&logged.history), ["begin, sql, write 1, commit", "begin, write 1, commit"]);
    let orders = &logged.history.evidence().version_orders;
    let writers: Vec<_> = orders[0].versions.iter().map(|version| format!("{version:?}")).collect();
    assert!(writers[1].contains('1') && writers[2].contains('0'), "the log's order: {writers:?}");
}

/// Both may be either: what they wrote is written by others, and what they read before stays.
#[test]
fn what_cannot_be_told_apart_is_not_guessed() {
    let catalog = catalog(&["t"]);
    let one = [READ, Said::Wrote("UPDATE t SET v = 6 WHERE id = 1", 1), READ];
    let wire = wire(&catalog, &[(&one, [1000, 1010]), (&one, [1002, 1012])]);
    let log = [commit(7, 1004, &[("t", 1, 6)]), commit(8, 1006, &[("t", 1, 6)])];
    let logged = assembled(&catalog, &wire, &log).expect("a history");
    assert_eq!((logged.others, logged.lossy), (2, 2));
    let split =
        ["begin, sql, commit", "begin, sql, commit", "begin, write 1, commit", "begin, write 1, commit"];
    assert_eq!(shape(&logged.history), split);
}

/// A commit outside of a transaction's time is not its own, whatever it has.
#[test]
fn time_counts() {
    let catalog = catalog(&["t"]);
    let one = [Said::Wrote("UPDATE t SET v = 6 WHERE id = 1", 1)];
    let wire = wire(&catalog, &[(&one, [1000, 1010])]);
    let logged = assembled(&catalog, &wire, &[commit(7, 1020, &[("t", 1, 6)])]).expect("a history");
    assert_eq!((logged.others, logged.lossy), (1, 1));
}

/// A trigger writes besides: with one statement all is its own. With two nobody knows whose it is,
/// and reads between are left out.
#[test]
fn what_triggers_write_belongs_to_their_transaction() {
    let catalog = catalog(&["t", "u"]);
    let update = || Said::Wrote("UPDATE t SET v = 6 WHERE id = 1", 1);
    let one = [update()];
    let two = [
        update(),
        Said::Read("SELECT v FROM u WHERE id = 1", 1),
        Said::Wrote("DELETE FROM t WHERE id = 3", 1),
    ];
    let wire = wire(&catalog, &[(&one, [1000, 1010]), (&two, [2000, 2010])]);
    let deleted = |mut commit: Commit| {
        let row = Some(vec![("id".to_owned(), Datum::Int(3))]);
        commit.changes.push(RawChange { table: "public.t".to_owned(), old: row, new: None });
        commit
    };
    let log =
        [commit(7, 1004, &[("t", 1, 6), ("u", 1, 1)]), deleted(commit(8, 2004, &[("t", 1, 6), ("u", 1, 2)]))];
    let logged = assembled(&catalog, &wire, &log).expect("a history");
    assert_eq!((logged.others, logged.lossy, logged.exact), (0, 1, false));
    assert_eq!(shape(&logged.history), ["begin, write 2, commit", "begin, write 3, commit"]);
}

#[test]
fn where_the_schema_may_have_changed_there_is_no_history() {
    let catalog = catalog(&["t"]);
    for text in ["CREATE TEMP TABLE t (id int)", "SELECT * INTO u FROM t", "DO $$ BEGIN DROP TABLE t; END $$"]
    {
        let said = [Said::Wrote(text, 1), READ];
        let wire = wire(&catalog, &[(&said, [1000, 1010])]);
        assert!(assembled(&catalog, &wire, &[]).is_err(), "{text}");
    }
}

/// Long values that did not change are not in the log: the row keeps them. A row whose key changes
/// is a new one, and nobody knows them there; it used to be taken for a row without them.
#[test]
fn what_the_log_leaves_out_is_not_guessed() {
    let catalog = catalog(&["t"]);
    let wire = wire(&catalog, &[(&[Said::Wrote("UPDATE t SET id = 2 WHERE id = 1", 1)], [1000, 1010])]);
    let key = |id| ("id".to_owned(), Datum::Int(id));
    let new = || Some(vec![key(2), ("v".to_owned(), Datum::Unchanged)]);
    for (old, expected) in [(None, &["{}"][..]), (Some(vec![key(1)]), &["absent", "{v: ?}"])] {
        let change = RawChange { table: "public.t".to_owned(), old, new: new() };
        let log = [Commit { changes: vec![change], ..commit(7, 1004, &[]) }];
        let history = assembled(&catalog, &wire, &log).expect("a history").history;
        let write = history.txns().flat_map(|txn| history.ops(txn)).find(|op| op.kind == OpKind::Write);
        let write = write.expect("a write");
        let shown: Vec<String> = write.accesses.iter().map(|it| history.show_value(it.value)).collect();
        assert_eq!(shown, expected);
    }
}

/// An update that computes says at least which row it is about. Two transactions of pgbench at the
/// same time used not to be told apart.
#[test]
fn a_transaction_meets_the_commit_with_its_keys() {
    let catalog = catalog(&["t"]);
    let one = [Said::Wrote("UPDATE t SET v = v + 1 WHERE id = 1", 1)];
    let other = [Said::Wrote("UPDATE t SET v = v + 1 WHERE id = 2", 1)];
    let wire = wire(&catalog, &[(&one, [1000, 1010]), (&other, [1000, 1010])]);
    let log = [commit(8, 1003, &[("t", 2, 7)]), commit(7, 1004, &[("t", 1, 6)])];
    let logged = assembled(&catalog, &wire, &log).expect("a history");
    assert_eq!((logged.others, logged.lossy), (0, 0));
}
