//! Input that is no history: a clear error with file, line and column, exit status 2, no panic,
//! nothing written.

mod common;

use std::fs;

use common::{margay, margay_with};
use tempfile::TempDir;

/// What is given, where the error is, and a word of it.
struct Bad {
    name: &'static str,
    bytes: Vec<u8>,
    /// `line:column`, or nothing where there is no line.
    place: &'static str,
    says: &'static str,
}

fn lines(name: &'static str, text: &str, place: &'static str, says: &'static str) -> Bad {
    Bad { name, bytes: format!("{{\"margay\":1}}\n{text}\n").into_bytes(), place, says }
}

fn raw(name: &'static str, bytes: &[u8], place: &'static str, says: &'static str) -> Bad {
    Bad { name, bytes: bytes.to_vec(), place, says }
}

fn long_line() -> Bad {
    let text =
        format!("{{\"session\":1,\"txn\":1,\"write\":[[\"x\",\"{}\"]],\"oops\":1}}", "a".repeat(10_000_000));
    lines("long.jsonl", &text, "2:10000041", "oops")
}

fn cases() -> Vec<Bad> {
    vec![
        raw(
            "truncated.jsonl",
            b"{\"margay\":1}\n{\"session\":1,\"txn\":1,\"write\":[[\"x\",1\n",
            "2:37",
            "ends",
        ),
        lines("types.jsonl", r#"{"session":1,"txn":1,"write":"x"}"#, "2:30", "expected"),
        lines("text-id.jsonl", r#"{"session":1,"txn":"one","commit":true}"#, "2:20", "expected"),
        lines(
            "twice.jsonl",
            "{\"session\":1,\"txn\":1,\"commit\":true}\n{\"session\":2,\"txn\":1,\"commit\":true}",
            "3:22",
            "unique",
        ),
        lines(
            "after.jsonl",
            "{\"session\":1,\"txn\":1,\"commit\":true}\n{\"session\":1,\"txn\":1,\"write\":[[\"x\",1]]}",
            "3:22",
            "after the end",
        ),
        lines("back.jsonl", r#"{"session":1,"txn":1,"at":[20,10],"commit":true}"#, "2:27", "backwards"),
        long_line(),
        raw("bytes.jsonl", b"\xff\xfe{\"margay\":1}", "1:1", ""),
        raw("garbage", b"\x00\x01\x02\xfe\xffgarbage\x00\x00\x07", "", "not recognised"),
        raw("empty.jsonl", b"", "", "empty"),
        raw("cut.jsonl.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xab\x56", "", "too early"),
    ]
}

#[test]
fn every_command_refuses_it_with_its_place() {
    let folder = TempDir::new().expect("a folder");
    for Bad { name, bytes, place, says } in cases() {
        let file = folder.path().join(name);
        fs::write(&file, bytes).expect("the input");
        let file = file.to_str().expect("a path");
        let run = margay(["check", file, "--level", "causal"]).expect(2);
        assert_eq!(run.stdout, "", "{name}");
        let colon = if place.is_empty() { "" } else { ":" };
        let expected = format!("error: {file}:{place}{colon} ");
        assert!(place.is_empty() || run.stderr.starts_with(&expected), "{name}: {}", run.stderr);
        assert!(run.stderr.starts_with(&format!("error: {file}:")), "{name}: {}", run.stderr);
        assert!(run.stderr.contains(says), "{name}: {}", run.stderr);
        assert!(run.stderr.len() < 1000, "{name}: {} bytes of error", run.stderr.len());
    }
}

#[test]
fn the_offending_line_is_shown_with_a_caret_under_the_column() {
    let folder = TempDir::new().expect("a folder");
    for Bad { name, bytes, place, .. } in cases() {
        let Some((line, column)) = place.split_once(':') else { continue };
        let column: usize = column.parse().expect("a number");
        let file = folder.path().join(name);
        fs::write(&file, &bytes).expect("the input");
        let run = margay(["check", file.to_str().expect("a path"), "--level", "causal"]).expect(2);
        let shown: Vec<&str> = run.stderr.lines().collect();
        let [.., text, caret] = shown[..] else { panic!("{name}: {}", run.stderr) };
        let margin = format!(" {line} | ");
        let text = text.strip_prefix(&margin).unwrap_or_else(|| panic!("{name}: {}", run.stderr));
        let caret = caret.chars().skip(margin.len()).position(|c| c == '^').expect("a caret");
        // A long line is cut around the column, and says so.
        if text.starts_with('…') {
            assert_eq!(text.chars().nth(caret), Some('"'), "{name}")
        } else {
            assert_eq!(caret + 1, column, "{name}: {}", run.stderr)
        }
    }
}

#[test]
fn convert_writes_nothing() {
    let (inputs, outputs) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    for Bad { name, bytes, .. } in cases() {
        let file = inputs.path().join(name);
        fs::write(&file, bytes).expect("the input");
        let out = outputs.path().join("out.jsonl");
        margay([file.as_os_str(), out.as_os_str()].iter().fold(vec!["convert".into()], |mut args, path| {
            args.push(path.to_os_string());
            args
        }))
        .expect(2);
        let left: Vec<_> = fs::read_dir(outputs.path()).expect("a folder").collect();
        assert!(left.is_empty(), "{name} left {left:?}");
        assert_eq!(
            margay(["convert".as_ref(), file.as_os_str(), "-".as_ref()]).expect(2).stdout,
            "",
            "{name}"
        );
    }
}

#[test]
fn an_existing_file_survives_a_failed_conversion() {
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().join("out.jsonl");
    fs::write(&out, "precious").expect("the file");
    let run = margay_with(["convert".as_ref(), "-".as_ref(), out.as_os_str()], b"{\"margay\":1}\nnonsense\n")
        .expect(2);
    assert!(run.stderr.starts_with("error: <standard input>:2:1: "), "{}", run.stderr);
    assert_eq!(fs::read_to_string(&out).expect("the file"), "precious");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
}

#[test]
fn files_that_cannot_be_read() {
    let folder = TempDir::new().expect("a folder");
    let run = margay(["check", "no/such/file.jsonl", "--level", "causal"]).expect(2);
    assert_eq!(run.stderr, "error: no/such/file.jsonl: no such file or directory\n");
    margay(["check".as_ref(), folder.path().as_os_str(), "--level".as_ref(), "causal".as_ref()]).expect(2);
}

#[test]
fn names_that_nothing_bears_get_suggestions() {
    for (args, says) in [
        (["check", "x", "--level", "serialisable"].as_slice(), "did you mean serializable"),
        (&["check", "x", "--level", "qqqqqqqq"], "margay levels"),
        (&["check", "x", "--level", "causal", "--engine", "naiv"], "did you mean naive"),
        (&["check", "x", "--level", "causal", "--from", "ednn"], "did you mean \"edn\""),
        (&["convert", "x", "y", "--to", "marga"], "did you mean \"margay\""),
        (&["explain", "writeskew"], "did you mean write-skew"),
        (&["explain", "qqqqqqqq"], "margay anomalies"),
        (&["chek", "x"], "check"),
        (&["check", "x"], "--level"),
        (&["check", "x", "--level", "causal", "--timeout", "10"], "500ms, 10s"),
        (&["check", "examples/write-skew.jsonl"], "`margay levels` lists them"),
        (&["completions", "tcsh"], "possible values"),
    ] {
        let run = margay(args).expect(2);
        assert_eq!(run.stdout, "", "{args:?}");
        assert!(run.stderr.starts_with("error: ") && run.stderr.contains(says), "{args:?}: {}", run.stderr);
    }
}
