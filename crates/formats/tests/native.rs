//! The native format: what it carries, and what it refuses, each with its place.

use margay_formats::{Format, FormatError, Source, Target};
use margay_history::{History, HistoryBuilder, Interval, OpDetail, OpKind, Outcome, Value, ValueId};

fn read(text: &str) -> Result<History, FormatError> {
    margay_formats::read(Source::bytes(text.as_bytes()), Some(Format::Margay)).map(|loaded| loaded.history)
}

fn written(history: &History) -> String {
    let mut out = Vec::new();
    margay_formats::write(history, Format::Margay, Target::Stream(Box::new(&mut out))).unwrap();
    String::from_utf8(out).unwrap()
}

/// A history with everything that the format can say, in its canonical form.
const ALL: &str = include_str!("all.jsonl");

#[test]
fn everything_comes_back_as_it_was_written() {
    let history = read(ALL).unwrap();
    assert_eq!((history.session_count(), history.txn_count(), history.op_count()), (2, 3, 17));
    assert_eq!(history.evidence().version_orders[0].versions.len(), 3);
    let text = written(&history);
    assert_eq!(text, ALL, "the file is canonical");
    assert_eq!(history.difference(&read(&text).unwrap()), None);
}

#[test]
fn sessions_may_be_mixed_and_ends_missing() {
    let history = read(
        "\n{ \"margay\" : 1 }\r\n\n{\"txn\":8,\"session\":2,\"write\":[[\"x\",1]]}\n{\"session\":1,\"txn\":9,\"begin\":true}\n\
         {\"session\":2,\"txn\":8,\"commit\":true}\n   \n{\"session\":1,\"read\":[[\"x\",1]],\"txn\":9}",
    )
    .unwrap();
    let labels: Vec<u64> = history.txns().map(|txn| history.txn_label(txn)).collect();
    assert_eq!(labels, [9, 8]);
    let outcomes: Vec<Outcome> = history.txns().map(|txn| history.outcome(txn)).collect();
    assert_eq!(outcomes, [Outcome::Unknown, Outcome::Committed]);
}

#[test]
fn numbers_keep_their_exact_value() {
    for (text, expected) in [
        ("9223372036854775807", "Int(9223372036854775807)"),
        ("9223372036854775808", "UInt(9223372036854775808)"),
        ("18446744073709551616", "Float(1.8446744073709552e19)"),
        ("1e0", "Float(1.0)"),
        ("0.1", "Float(0.1)"),
        ("5e-324", "Float(5e-324)"),
        ("-0", "Int(0)"),
    ] {
        let line = format!("{{\"margay\":1}}\n{{\"session\":0,\"txn\":0,\"write\":[[\"x\",{text}]]}}\n");
        let history = read(&line).unwrap();
        let value = history.ops(margay_history::TxnId(0)).next().unwrap().accesses[0].value;
        assert_eq!(format!("{:?}", history.value(value)), expected);
        assert_eq!(history.difference(&read(&written(&history)).unwrap()), None, "{text}");
    }
}

/// Each bad text with the place and the words of its error.
fn refused(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let error = read(text).expect_err(text);
        assert_eq!(error.to_string(), format!("<bytes>:{expected}"), "{text}");
    }
}

#[test]
fn bad_headers_are_refused() {
    refused(&[
        ("", "1:1: there is no header: the first line must be one, such as {\"margay\":1}"),
        ("\n \n", "3:1: there is no header: the first line must be one, such as {\"margay\":1}"),
        ("hello", "1:1: the first line must be the header, such as {\"margay\":1}"),
        (
            r#"{"session":0,"txn":1,"begin":true}"#,
            "1:1: the first line must be the header, such as {\"margay\":1}",
        ),
        ("{}", "1:1: the first line must be the header, such as {\"margay\":1}"),
        ("\u{feff}{\"margay\":1}", "1:1: the file begins with a byte order mark; remove it"),
        (r#"{"margay":2}"#, "1:11: this is version 2 of the format; this Margay reads version 1"),
        (r#"{"margay":"1"}"#, "1:11: expected the format's version, but there is a text"),
        (r#"{"margay":1,"margay":1}"#, "1:13: field \"margay\" occurs twice"),
        (r#"{"margay":1,"lvel":"x"}"#, "1:13: unknown field of the header \"lvel\"; did you mean \"level\"?"),
        (
            r#"{"margay":1,"unit":"min"}"#,
            "1:20: unknown unit \"min\"; one of ns, us, ms, s, index is expected",
        ),
        (r#"{"margay":1,"skew":-1}"#, "1:20: the clocks' skew cannot be negative"),
        (
            r#"{"margay":1,"initial":[["x",1],["x",2]]}"#,
            "1:32: this object was given an initial value before",
        ),
        (
            r#"{"margay":1,"tables":{"t":{"keys":[]}}}"#,
            "1:28: unknown field of a table \"keys\"; did you mean \"key\"?",
        ),
        (
            r#"{"margay":1,"tables":{"t":{"key":["k"],"columns":{"c":"int"}}}}"#,
            "1:23: key column \"k\" of table \"t\" is not among its columns",
        ),
        (
            r#"{"margay":1,"tables":{"t":{"columns":{"c":"int","c":"int"}}}}"#,
            "1:49: column \"c\" occurs twice",
        ),
        ("{\"margay\":1,", "1:13: expected a field's name, but the line ends"),
    ]);
}

/// Each bad line after a header with a begun transaction 1, with the column and the words of its
/// error.
fn refused_lines(cases: &[(&str, &str)]) {
    for (line, expected) in cases {
        let text = format!("{{\"margay\":1}}\n{{\"session\":0,\"txn\":1,\"begin\":true}}\n{line}\n");
        let error = read(&text).expect_err(line);
        assert_eq!(error.to_string(), format!("<bytes>:3:{expected}"), "{line}");
        assert!(error.snippet.is_some() || error.column == Some(1), "{line}");
    }
}

#[test]
fn lines_that_are_no_json_are_refused() {
    refused_lines(&[
        ("x", "1: expected an operation or evidence, which is an object, but there is something else"),
        ("[1]", "1: expected an operation or evidence, which is an object, but there is a list"),
        (r#"{"session":0,"#, "14: expected a field's name, but the line ends"),
        (r#"{"session":0"#, "13: expected `,` or `}`, but the line ends"),
        (r#"{"session":0,"txn":1,"begin":true} {}"#, "36: something follows the end of the object"),
        (r#"{"session":0,"txn":1,"read":[["x,1]]}"#, "31: this text does not end"),
        (r#"{"session" 0}"#, "12: expected `:`, but there is a number"),
        (r#"{"session":01}"#, "12: this is no number as JSON writes them"),
        (r#"{"session":0,"txn":1,"write":[["x",1e999]]}"#, "36: this number is too large"),
        (r#"{"session":0,"txn":1,"write":[["x",NaN]]}"#, "36: expected a value, but there is something else"),
        (r#"{"session":0,"txn":1,"write":[["x","\ud800"]]}"#, "37: half of a surrogate pair is no character"),
        (r#"{"session":0,"txn":1,"write":[["x","\q"]]}"#, "37: an escape that JSON does not know"),
    ]);
    let deep = format!(r#"{{"session":0,"txn":1,"write":[["x",{}1]]}}"#, "[".repeat(200_000));
    refused_lines(&[(&deep, "165: this nests too deeply")]);
}

#[test]
fn lines_of_the_wrong_shape_are_refused() {
    refused_lines(&[
        (r#"{"session":0,"begin":true}"#, "1: a begin needs the field \"txn\""),
        (r#"{"txn":2,"begin":true}"#, "1: a begin needs the field \"session\""),
        (
            r#"{"session":0,"txn":1}"#,
            "1: no operation on this line; one of begin, read, write, append, scan, update, sql, commit, abort, unknown",
        ),
        (r#"{"session":0,"txn":1,"begin":false}"#, "30: expected `true`, but there is a truth value"),
        (r#"{"session":0,"txn":1,"commit":1}"#, "31: expected `true`, but there is a number"),
        (
            r#"{"session":0,"txn":1,"read":[["x",1]],"write":[["x",1]]}"#,
            "39: two operations on one line: read and write",
        ),
        (r#"{"session":0,"session":0,"txn":1,"commit":true}"#, "14: field \"session\" occurs twice"),
        (r#"{"sesion":0,"txn":1,"commit":true}"#, "2: unknown field \"sesion\"; did you mean \"session\"?"),
        (r#"{"flavour":0}"#, "2: unknown field \"flavour\""),
        (r#"{"margay":1}"#, "2: a second header; a file has one, on its first line"),
        (
            r#"{"session":0,"txn":1,"read":[["x",1]],"count":1}"#,
            "39: field \"count\" does not belong to a read",
        ),
        (
            r#"{"session":0,"txn":1,"commit":true,"rows":[]}"#,
            "36: field \"rows\" does not belong to a commit",
        ),
        (r#"{"session":"a","txn":1,"commit":true}"#, "12: expected a session's number, but there is a text"),
        (
            r#"{"session":-1,"txn":1,"commit":true}"#,
            "12: expected a session's number, a whole number from 0 to 18446744073709551615",
        ),
        (
            r#"{"session":0,"txn":1.5,"commit":true}"#,
            "20: expected a transaction's number, a whole number from 0 to 18446744073709551615",
        ),
    ]);
}

#[test]
fn wrong_objects_values_and_times_are_refused() {
    refused_lines(&[
        (
            r#"{"session":0,"txn":1,"read":["x",1]}"#,
            "30: expected a pair of object and value, such as [\"x\",1], but there is a text",
        ),
        (
            r#"{"session":0,"txn":1,"read":{"x":1}}"#,
            "29: expected a list of pairs, such as [[\"x\",1]], but there is an object",
        ),
        (r#"{"session":0,"txn":1,"read":[]}"#, "22: a read of no object"),
        (r#"{"session":0,"txn":1,"read":[[]]}"#, "30: a pair is [object, value]: it is empty"),
        (r#"{"session":0,"txn":1,"read":[["x",1,2]]}"#, "37: a pair is [object, value]: too many items"),
        (
            r#"{"session":0,"txn":1,"read":[[null,1]]}"#,
            "31: expected an object: a key, or [table, key], but there is null",
        ),
        (
            r#"{"session":0,"txn":1,"read":[[{},1]]}"#,
            "31: expected an object: a key, or [table, key], but there is an object",
        ),
        (
            r#"{"session":0,"txn":1,"read":[[[1,2],1]]}"#,
            "32: expected a table's name, for an object is a key or [table, key], but there is a number",
        ),
        (
            r#"{"session":0,"txn":1,"read":[[["t"],1]]}"#,
            "31: an object is a key or [table, key]: too few items",
        ),
        (
            r#"{"session":0,"txn":1,"read":[[["t",1,2],1]]}"#,
            "38: an object is a key or [table, key]: too many items",
        ),
        (
            r#"{"session":0,"txn":1,"read":[[["t",null],1]]}"#,
            "36: expected a key: a scalar, or a list for a key of several columns, but there is null",
        ),
        (r#"{"session":0,"txn":1,"write":[["x"]]}"#, "22: a write without its value"),
        (
            r#"{"session":0,"txn":1,"write":[["x",{"a":1,"b":2,"a":3}]]}"#,
            "36: column \"a\" occurs twice in this row",
        ),
        (
            r#"{"session":0,"txn":1,"at":[9,5],"commit":true}"#,
            "27: time runs backwards: the operation begins at 9 and ends at 5",
        ),
        (
            r#"{"session":0,"txn":1,"at":[9],"commit":true}"#,
            "27: an interval is [before, after]: too few items",
        ),
        (
            r#"{"session":0,"txn":1,"at":[1,2,3],"commit":true}"#,
            "32: an interval is [before, after]: too many items",
        ),
        (
            r#"{"session":0,"txn":1,"at":7,"commit":true}"#,
            "27: expected an interval, such as [100,180], but there is a number",
        ),
        (
            r#"{"session":0,"txn":1,"at":[1,9223372036854775808],"commit":true}"#,
            "30: expected a time, a whole number of at most 64 bits",
        ),
    ]);
}

#[test]
fn wrong_scans_updates_and_statements_are_refused() {
    refused_lines(&[
        (r#"{"session":0,"txn":1,"scan":{"table":"t"}}"#, "29: a scan needs the field \"where\""),
        (
            r#"{"session":0,"txn":1,"scan":{"table":"t","where":"a","set":"b"}}"#,
            "54: unknown field of a scan \"set\"",
        ),
        (
            r#"{"session":0,"txn":1,"update":{"table":"t","where":"a"}}"#,
            "31: an update needs the field \"set\"",
        ),
        (
            r#"{"session":0,"txn":1,"update":{"table":"t","where":"a","set":7}}"#,
            "62: expected assignments as text, or null to delete, but there is a number",
        ),
        (
            r#"{"session":0,"txn":1,"scan":{"table":"t","where":"a"},"rows":[1]}"#,
            "63: expected a pair of object and value, such as [\"x\",1], but there is a number",
        ),
        (r#"{"session":0,"txn":1,"sql":7}"#, "28: expected a SQL statement, but there is a number"),
        (
            r#"{"session":0,"txn":1,"sql":"a","rows":[1]}"#,
            "40: expected a tuple, such as [1,\"a\"], but there is a number",
        ),
        (
            r#"{"session":0,"txn":1,"sql":"a","count":-1}"#,
            "40: expected the number of affected rows, a whole number from 0 to 18446744073709551615",
        ),
    ]);
}

#[test]
fn operations_out_of_order_are_refused() {
    refused(&[
        (
            "{\"margay\":1}\n{\"session\":0,\"txn\":1,\"commit\":true}\n{\"session\":0,\"txn\":1,\"read\":[[\"x\",1]]}",
            "3:22: an operation after the end of transaction 1",
        ),
        (
            "{\"margay\":1}\n{\"session\":0,\"txn\":1,\"commit\":true}\n{\"session\":1,\"txn\":1,\"begin\":true}",
            "3:22: transaction 1 belongs to session 0, not to session 1: ids of transactions are unique",
        ),
        (
            "{\"margay\":1}\n{\"session\":0,\"txn\":1,\"commit\":true}\n{\"session\":0,\"txn\":1,\"begin\":true}",
            "3:22: an operation after the end of transaction 1",
        ),
        (
            "{\"margay\":1}\n{\"session\":0,\"txn\":1,\"begin\":true}\n{\"session\":0,\"txn\":1,\"begin\":true}",
            "3:22: transaction 1 has operations before its begin",
        ),
        (
            "{\"margay\":1}\n{\"session\":0,\"txn\":1,\"begin\":true}\n{\"session\":0,\"txn\":2,\"begin\":true}\n\
             {\"session\":0,\"txn\":1,\"commit\":true}",
            "4:22: transaction 1 goes on after transaction 2 of its session began",
        ),
        (
            "{\"margay\":1}\n{\"session\":0,\"txn\":1,\"at\":[50,60],\"commit\":true}\n\
             {\"session\":0,\"txn\":2,\"at\":[10,20],\"commit\":true}",
            "3:1: transaction 2 ended before transaction 1 of the same session began, though it came after it",
        ),
        (
            "{\"margay\":1}\n{\"session\":0,\"txn\":1,\"at\":[50,60],\"begin\":true}\n\
             {\"session\":0,\"txn\":1,\"at\":[10,20],\"commit\":true}",
            "2:1: transaction 1 ended before it began",
        ),
    ]);
}

#[test]
fn wrong_evidence_is_refused() {
    refused_lines(&[
        (
            r#"{"evidence":"snapshoot","txn":1,"ts":1}"#,
            "13: unknown evidence \"snapshoot\"; did you mean \"snapshot\"?",
        ),
        (r#"{"evidence":"snapshot","txn":1}"#, "1: a snapshot needs the field \"ts\""),
        (
            r#"{"evidence":"commit","txn":1,"ts":1,"op":1}"#,
            "37: field \"op\" does not belong to a commit timestamp",
        ),
        (r#"{"evidence":"commit","txn":1,"ts":"1"}"#, "35: expected a timestamp, but there is a text"),
        (
            r#"{"evidence":"version-order","object":"x","txns":["1"]}"#,
            "50: expected a transaction's number, or null for the initial version, but there is a text",
        ),
        (
            r#"{"evidence":"version-set","txn":1,"op":0,"rows":[["x"]]}"#,
            "50: a pair is [object, transaction]: too few items",
        ),
        (
            r#"{"evidence":"version-set","txn":1,"op":4294967296,"rows":[]}"#,
            "40: no transaction has so many operations",
        ),
        // From here on the history as a whole tells, so only the line is known.
        (
            r#"{"evidence":"version-order","object":"x","txns":[7]}"#,
            "1: evidence about transaction 7, which is not in the history",
        ),
        (
            r#"{"evidence":"version-order","object":"x","txns":[1]}"#,
            "1: evidence about a version of x by transaction 1, which does not write it",
        ),
        (
            r#"{"evidence":"version-order","object":"x","txns":[null,null]}"#,
            "1: a version order names one version twice",
        ),
        (r#"{"evidence":"version-set","txn":1,"op":9,"rows":[]}"#, "1: transaction 1 has no operation 9"),
        (
            r#"{"evidence":"version-set","txn":1,"op":0,"rows":[]}"#,
            "1: operation 0 of transaction 1 is a begin, which sees no versions",
        ),
    ]);
}

#[test]
fn a_line_of_ten_megabytes_is_shown_in_part() {
    let line = format!(r#"{{"session":0,"txn":1,"write":[["x","{}",3]]}}"#, "a".repeat(10 << 20));
    let error = read(&format!("{{\"margay\":1}}\n{line}\n")).unwrap_err();
    assert_eq!((error.line, error.column), (Some(2), Some(10_485_799)));
    assert_eq!(error.what, "a pair is [object, value]: too many items");
    assert!(error.render().len() < 500, "{}", error.render().len());
}

#[test]
fn a_line_of_ten_megabytes_is_read() {
    let long = "a".repeat(10 << 20);
    let line = format!(r#"{{"session":0,"txn":1,"write":[["x","{long}"]]}}"#);
    let history = read(&format!("{{\"margay\":1}}\n{line}\n")).unwrap();
    let value = history.ops(margay_history::TxnId(0)).next().unwrap().accesses[0].value;
    assert!(matches!(history.value(value), Value::Text(text) if text == long));
}

#[test]
fn garbage_and_broken_text_have_their_column() {
    let bytes = b"{\"margay\":1}\n{\"session\":0,\"txn\":1,\"write\":[[\"x\",\"a\xffb\"]]}\n";
    let error = margay_formats::read(Source::bytes(bytes), None).unwrap_err();
    assert_eq!(error.to_string(), "<bytes>:2:38: this is not UTF-8 text");
    let error = margay_formats::read(Source::bytes(b"\x00\x01\x02garbage"), None).unwrap_err();
    assert_eq!(error.to_string(), "<bytes>: the format is not recognised; name it with --from");
    let error = margay_formats::read(Source::bytes(b"\x00\x01\x02"), Some(Format::Margay)).unwrap_err();
    assert_eq!(
        error.render(),
        "<bytes>:1:1: the first line must be the header, such as {\"margay\":1}\n   |\n 1 | ···\n   | ^"
    );
}

/// A value or key that a builder takes and JSON has no word for.
fn beyond(make: impl Fn(&mut HistoryBuilder) -> (ValueId, ValueId)) -> String {
    let mut builder = HistoryBuilder::new();
    let (key, value) = make(&mut builder);
    let access = margay_history::Access { object: builder.object(None, key), value };
    builder.push(0, 4, Some(Interval::new(1, 2)), OpKind::Begin, &[], OpDetail::None).unwrap();
    builder.push(0, 4, None, OpKind::Read, &[access], OpDetail::None).unwrap();
    let history = builder.finish().unwrap();
    let mut out = Vec::new();
    let error =
        margay_formats::write(&history, Format::Margay, Target::Stream(Box::new(&mut out))).unwrap_err();
    assert!(out.is_empty(), "nothing is written");
    error.to_string()
}

#[test]
fn what_json_cannot_say_is_an_error_that_names_the_operation() {
    let prefix = "<output>: transaction 4, operation 1 (read): the format margay cannot carry ";
    let number = |f: f64| beyond(|builder| (builder.values().text("x"), builder.values().float(f)));
    assert_eq!(number(f64::NAN), format!("{prefix}a number that is infinite or none"));
    assert_eq!(number(f64::INFINITY), format!("{prefix}a number that is infinite or none"));
    assert_eq!(
        beyond(|builder| (builder.values().text("x"), builder.values().list(&[ValueId::UNKNOWN]))),
        format!("{prefix}a value that is not known inside another")
    );
    assert_eq!(beyond(|_| (ValueId::NULL, ValueId::NULL)), format!("{prefix}a key that is absent or a row"));
}

#[test]
fn unknown_reads_are_not_absent_reads() {
    let history =
        read("{\"margay\":1}\n{\"session\":0,\"txn\":1,\"read\":[[\"x\"],[\"x\",null]]}\n").unwrap();
    let op = history.ops(margay_history::TxnId(0)).next().unwrap();
    assert!(matches!(history.value(op.accesses[0].value), Value::Unknown));
    assert!(matches!(history.value(op.accesses[1].value), Value::Null));
}

/// What a proxy cannot see, and what transactions said when they began, in the canonical form.
const UNSEEN: &str = r#"{"margay":1,"unit":"ns","skew":0,"tables":{"a":{"key":["id"],"columns":{"id":"int","v":{"type":"int","written-by":"anything"}},"initial":"unknown"},"b":{"written-by":"anything"}}}
{"session":0,"txn":1,"begin":true,"level":"read-committed","read-only":true,"unit":"GET /"}
{"session":0,"txn":1,"commit":true}
{"session":0,"txn":2,"begin":true,"level":"serializable"}
{"session":0,"txn":2,"commit":true}
{"session":0,"txn":3,"begin":true,"unit":"GET /"}
{"session":0,"txn":3,"commit":true}
{"session":0,"txn":4,"begin":true}
{"session":0,"txn":4,"commit":true}
"#;

#[test]
fn what_was_not_seen_and_what_transactions_asked_for_comes_back() {
    let history = read(UNSEEN).unwrap();
    assert_eq!(written(&history), UNSEEN);
    let [a, b] = history.tables() else { panic!("two tables") };
    assert!(a.initial_unknown && !a.written_by_anything && b.written_by_anything);
    assert_eq!(a.columns_by_anything, ["v"]);
    let said: Vec<_> =
        history.begins().map(|(txn, begin)| (history.txn_label(txn), begin.read_only)).collect();
    assert_eq!(said, [(1, true), (2, false), (3, false)]);
    let mut binary = Vec::new();
    margay_formats::write(&history, Format::MargayBin, Target::Stream(Box::new(&mut binary))).unwrap();
    let again = margay_formats::read(Source::bytes(&binary), None).unwrap().history;
    assert_eq!(history.difference(&again), None);
    let mut out = Vec::new();
    let text = margay_formats::write(&history, Format::Awdit, Target::Stream(Box::new(&mut out)));
    assert!(text.unwrap_err().what.contains("which anything may write"), "no silent loss");
}

#[test]
fn only_known_words_say_what_was_not_seen() {
    for (tables, error) in [
        (r#"{"a":{"initial":"absent"}}"#, "1:38: only \"unknown\" is expected here"),
        (r#"{"a":{"written-by":true}}"#, "1:41: expected \"anything\", but there is a truth value"),
        (r#"{"a":{"columns":{"v":{"written-by":"anything"}}}}"#, "1:43: a column needs the field \"type\""),
        (
            r#"{"a":{"key":["v"],"columns":{"v":{"type":"int","written-by":"anything"}}}}"#,
            "1:23: key column \"v\" of table \"a\" cannot be written by anything",
        ),
    ] {
        let text = format!("{{\"margay\":1,\"tables\":{tables}}}\n");
        assert_eq!(read(&text).unwrap_err().to_string(), format!("<bytes>:{error}"));
    }
    let begin =
        |field: &str| format!("{{\"margay\":1}}\n{{\"session\":0,\"txn\":1,\"commit\":true,{field}}}\n");
    let error = read(&begin(r#""level":"serializable""#)).unwrap_err().to_string();
    assert_eq!(error, "<bytes>:2:36: field \"level\" does not belong to a commit");
}
