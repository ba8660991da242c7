//! Input that means harm: deep, large, cut off, or meant for the terminal that shows it.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Run, margay, root};
use tempfile::TempDir;

fn file(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = folder.path().join(name);
    fs::write(&path, content).expect("the input");
    path.to_str().expect("a path").to_owned()
}

fn case(name: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name);
    path.to_str().expect("a path").to_owned()
}

/// Fails the test if a terminal would obey anything of what was printed.
fn harmless(run: &Run, what: &str) {
    for text in [&run.stdout, &run.stderr] {
        let bad = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
        assert_eq!(bad, None, "{what}: {text:?}");
    }
}

/// A chain of thirty thousand additions ended the process by an overflow of the stack (exit status
/// 134): its tree is as deep as it is long. So did a condition of such a chain.
#[test]
fn a_long_chain_of_operators_does_not_end_the_process() {
    let folder = TempDir::new().expect("a folder");
    let header = r#"{"margay":1,"dbms":"postgresql-15","tables":{"t":{"key":["id"],"columns":{"id":"int","v":"int"}}},"initial":[[["t",1],{"id":1,"v":3}]]}"#;
    let chain = |piece: &str| vec![piece; 30_000].join("+");
    for (name, line) in [
        ("sum", format!(r#""sql":"SELECT {}","rows":[[30000]]"#, chain("1"))),
        ("calls", format!(r#""sql":"SELECT v FROM t WHERE id = {}","rows":[]"#, chain("abs(1, 2)"))),
        ("scan", format!(r#""scan":{{"table":"t","where":"v = {}"}},"rows":[]"#, chain("1"))),
        (
            "update",
            format!(r#""update":{{"table":"t","where":"v = 3","set":"v = {}"}},"rows":[]"#, chain("v")),
        ),
        ("nested", format!(r#""sql":"SELECT {}1{}","rows":[]"#, "(".repeat(30_000), ")".repeat(30_000))),
    ] {
        let text = format!(
            "{header}\n{{\"session\":0,\"txn\":1,{line}}}\n{{\"session\":0,\"txn\":1,\"commit\":true}}\n"
        );
        let path = file(&folder, &format!("{name}.jsonl"), text);
        for engine in ["auto", "solve", "infer", "naive", "observe"] {
            let run = margay(["check", &path, "--level", "serializable", "--engine", engine]);
            assert!(matches!(run.status, 2 | 3), "{name}, {engine}: {} {}", run.status, run.stderr);
        }
    }
}

/// Certificates and results come from others too.
#[test]
fn certificates_and_results_are_limited_in_depth_and_size() {
    let folder = TempDir::new().expect("a folder");
    let history = file(&folder, "h.jsonl", "{\"margay\":1}\n");
    let deep = file(&folder, "deep.json", "[".repeat(1_000_000));
    for deep in [deep, file(&folder, "object.json", "{\"a\":".repeat(1_000_000))] {
        let run = margay(["audit", &history, &deep]).expect(2);
        assert!(run.stderr.contains("recursion limit"), "{}", run.stderr);
        let run = margay(["report", &deep]).expect(2);
        assert!(run.stderr.contains("recursion limit"), "{}", run.stderr);
    }
    for args in [["audit", &history, "/dev/zero"].as_slice(), &["report", "/dev/zero"]] {
        let run = margay(args).expect(2);
        assert_eq!(run.stderr, "error: /dev/zero: this file is larger than 256 MiB\n");
    }
}

const CLEAR: &str = "\x1b[2J\x1b]0;owned\x07\u{9b}31m";
const ESCAPED: &str = "\\u001b[2J\\u001b]0;owned\\u0007\\u009b31m";

/// Names and values of a history speak to whoever reads the errors and warnings about it.
#[test]
fn nothing_of_a_history_reaches_the_terminal_as_it_is() {
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().join("out.edn");
    let out = out.to_str().expect("a path");
    let native = |line: &str| format!("{{\"margay\":1}}\n{line}\n");
    let inputs = [
        ("field.jsonl", native(&format!(r#"{{"session":0,"txn":1,"{ESCAPED}":1}}"#))),
        ("evidence.jsonl", native(&format!(r#"{{"evidence":"{ESCAPED}","txn":1}}"#))),
        (
            "value.jsonl",
            native(&format!(r#"{{"session":0,"txn":1,"read":[["{ESCAPED}",{{"{ESCAPED}":1}}]]}}"#)),
        ),
        ("table.jsonl", native(&format!(r#"{{"session":0,"txn":1,"write":[[["{ESCAPED}",1],1]]}}"#))),
        (
            "scan.jsonl",
            native(&format!(
                r#"{{"session":0,"txn":1,"scan":{{"table":"t","where":"{ESCAPED} = '{ESCAPED}'"}},"rows":[]}}"#
            )),
        ),
        ("sql.jsonl", native(&format!(r#"{{"session":0,"txn":1,"sql":"SELECT {ESCAPED}","rows":[]}}"#))),
        ("mop.edn", format!("{{:type :ok :process 0 :value [[\"{CLEAR}\" 1 2]]}}")),
        ("function.edn", format!("{{:type :ok :process 0 :f \"{CLEAR}\" :value 7}}")),
        ("key.edn", format!("{{:type :ok :process 0 :value [[:r \"{CLEAR}\" \"{CLEAR}\"]]}}")),
        ("op.hist", format!("[x:=1 {CLEAR}]\n")),
    ];
    for (name, text) in inputs {
        let path = file(&folder, name, text);
        for args in [
            ["convert", &path, out].as_slice(),
            &["convert", &path, out, "--rows"],
            &["check", &path, "--level", "serializable"],
            &["check", &path, "--level", "serializable", "--json"],
            &["check", &path, "--level", "read-committed", "--engine", "naive"],
            &["elle", "--model", "rw-register", &path],
        ] {
            harmless(&margay(args), &format!("{args:?}"));
        }
    }
}

#[test]
fn nothing_of_a_certificate_or_result_reaches_the_terminal_as_it_is() {
    let folder = TempDir::new().expect("a folder");
    let text = "{\"margay\":1}\n{\"session\":0,\"txn\":1,\"read\":[[\"x\",7]]}\n{\"session\":0,\"txn\":1,\"commit\":true}\n";
    let history = file(&folder, "h.jsonl", text);
    let certificate = folder.path().join("c.json");
    let certificate = certificate.to_str().expect("a path");
    let run = margay(["check", &history, "--level", "serializable", "--certificate", certificate, "--json"])
        .expect(1);
    let good = fs::read_to_string(certificate).expect("a certificate");
    for (at, word) in ["level", "verdict", "history"].into_iter().enumerate() {
        let value: serde_json::Value = serde_json::from_str(&good).expect("JSON");
        let mut value = value;
        value[word] = CLEAR.into();
        let forged = file(&folder, &format!("{at}.json"), value.to_string());
        harmless(&margay(["audit", &history, &forged]), word);
        value[word] = serde_json::Value::Null;
        value[CLEAR] = 1.into();
        let forged = file(&folder, &format!("{at}-field.json"), value.to_string());
        harmless(&margay(["audit", &history, &forged]), word);
    }
    // Every text of a result in turn.
    let result: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    let paths = texts_of(&result, String::new());
    assert!(paths.len() > 10, "{paths:?}");
    for path in paths {
        let mut forged = result.clone();
        *forged.pointer_mut(&path).expect("it is there") = CLEAR.into();
        let forged = file(&folder, "result.json", forged.to_string());
        for form in ["text", "html", "junit", "dot", "svg"] {
            harmless(&margay(["report", &forged, "--to", form]), &format!("{path} as {form}"));
        }
    }
}

fn texts_of(value: &serde_json::Value, at: String) -> Vec<String> {
    match value {
        serde_json::Value::String(_) => vec![at],
        serde_json::Value::Array(items) => {
            items.iter().enumerate().flat_map(|(i, item)| texts_of(item, format!("{at}/{i}"))).collect()
        }
        serde_json::Value::Object(fields) => {
            fields.iter().flat_map(|(name, field)| texts_of(field, format!("{at}/{name}"))).collect()
        }
        _ => Vec::new(),
    }
}

/// A compare-and-set in doubt was read as a blind write, and what it wrote could come from nowhere.
#[test]
fn a_swap_in_doubt_needs_its_condition() {
    let path = case("in-doubt-cas.edn");
    for engine in ["auto", "infer", "naive"] {
        margay(["check", &path, "--level", "strict-serializable", "--engine", engine]).expect(1);
    }
    let run = margay(["check", &path, "--level", "strict-serializable", "--engine", "solve"]);
    assert!(matches!(run.status, 1 | 3), "{}", run.stdout);
    // If nobody saw what it would have written, it did not happen.
    let folder = TempDir::new().expect("a folder");
    let text = fs::read_to_string(&path).expect("the case").replace(":read, :value 2", ":read, :value 1");
    let unseen = file(&folder, "unseen.edn", text);
    for level in ["read-uncommitted", "read-committed", "causal", "snapshot-isolation", "strict-serializable"]
    {
        for engine in ["auto", "solve", "infer", "naive"] {
            let run = margay(["check", &unseen, "--level", level, "--engine", engine]);
            assert!(matches!(run.status, 0 | 3), "{level}, {engine}: {}", run.stdout);
            assert!(run.status == 0 || engine == "infer", "{level}, {engine}: {}", run.stdout);
        }
    }
}

/// Each kind of log that others publish, from the command line.
#[test]
fn logs_of_others_are_recognised_and_decided() {
    let folder = TempDir::new().expect("a folder");
    let line = |process: u32, kind: &str, f: &str, value: &str| {
        format!("INFO  jepsen.util - {process}\t:{kind}\t:{f}\t{value}\n")
    };
    let log = |seen: &str| {
        [
            line(0, "invoke", "write", "1"),
            line(0, "ok", "write", "1"),
            line(1, "invoke", "cas", "[1 2]"),
            line(1, "info", "cas", ":timed-out"),
            line(0, "invoke", "read", "nil"),
            line(0, "ok", "read", seen),
        ]
        .concat()
    };
    let kv = |second: &str, seen: &str| {
        let op = |process: u32, kind: &str, f: &str, value: &str| {
            format!("{{:process {process}, :type :{kind}, :f :{f}, :key \"0\", :value {value}}}\n")
        };
        [
            op(0, "invoke", "append", "\"x 0 0 y\""),
            op(0, "ok", "append", "\"x 0 0 y\""),
            op(1, "invoke", second, "\"x 1 0 y\""),
            op(1, "ok", second, "\"x 1 0 y\""),
            op(0, "invoke", "append", "\"x 0 1 y\""),
            op(0, "ok", "append", "\"x 0 1 y\""),
            op(1, "invoke", "get", "nil"),
            op(1, "ok", "get", seen),
        ]
        .concat()
    };
    for (name, text, status) in [
        ("etcd-1.log", log("1"), [0, 0]),
        ("etcd-2.log", log("2"), [0, 0]),
        ("etcd-3.log", log("3"), [1, 1]),
        ("kv-1.txt", kv("put", "\"x 1 0 yx 0 1 y\""), [0, 0]),
        // No certificate can say yet what is wrong with a list that is both written and appended
        // to.
        ("kv-2.txt", kv("put", "\"x 0 0 yx 0 1 y\""), [1, 3]),
        ("kv-3.txt", kv("append", "\"x 0 0 yx 1 0 yx 0 1 y\""), [0, 0]),
        ("kv-4.txt", kv("append", "\"x 0 0 yx 0 1 y\""), [1, 1]),
    ] {
        let path = file(&folder, name, text);
        let run = margay(["check", &path, "--level", "strict-serializable"]);
        assert!(status.contains(&run.status), "{name}: {}{}", run.stdout, run.stderr);
    }
}

/// What the README and the format's page promise of extensions.
#[test]
fn an_extension_chooses_the_format_or_is_an_error() {
    let folder = TempDir::new().expect("a folder");
    let input = root().join("examples/transfer.jsonl");
    let input = input.to_str().expect("a path");
    let out = folder.path().join("h.mgb");
    margay(["convert", input, out.to_str().expect("a path")]).expect(0);
    assert!(fs::read(&out).expect("the output").starts_with(b"\x89MARGAY\n"));
    let out = folder.path().join("h.parquet");
    let run = margay(["convert", input, out.to_str().expect("a path")]).expect(2);
    assert!(run.stderr.contains("no format has the extension .parquet"), "{}", run.stderr);
    assert!(run.stderr.contains("edn (.edn)") && !out.exists(), "{}", run.stderr);
    let run = margay(["simulate", "--protocol", "serial", out.to_str().expect("a path")]);
    assert_eq!(run.status, 2, "{}", run.stderr);
}
