//! The commands that need no engine.

mod common;

use std::fs;
use std::process::Command;

use common::{finish, margay, margay_with, root};
use tempfile::TempDir;

#[test]
fn alone_it_says_what_it_is_and_what_to_try() {
    let run = margay([""; 0]).expect(0);
    assert!(run.stdout.starts_with("Margay decides whether"), "{}", run.stdout);
    for command in ["margay check", "margay simulate", "margay convert", "margay levels", "margay --help"] {
        assert!(run.stdout.contains(command), "{}", run.stdout);
    }
    assert!(run.stdout.lines().count() <= 10 && run.stderr.is_empty(), "{}{}", run.stdout, run.stderr);
}

#[test]
fn help_and_version() {
    let help = margay(["--help"]).expect(0).stdout;
    for command in
        ["check", "audit", "convert", "simulate", "levels", "anomalies", "profiles", "explain", "completions"]
    {
        assert!(help.contains(&format!("  {command} ")), "{command}: {help}");
    }
    assert!(
        help.contains(
            "Exit status: 0 holds or clean, 1 violated, 2 bad usage or unreadable input, 3 unknown"
        )
    );
    assert!(margay(["--version"]).expect(0).stdout.starts_with("margay "));
    let check = margay(["check", "--help"]).expect(0).stdout;
    for flag in
        ["--level", "--engine", "--real-time", "--from", "--json", "--certificate", "--timeout", "--quiet"]
    {
        assert!(check.contains(flag), "{flag}: {check}");
    }
}

#[test]
fn tables_and_explanations() {
    for level in margay_levels::Level::ALL {
        assert!(margay(["levels"]).expect(0).stdout.contains(level.name()), "{level}");
    }
    assert!(margay(["anomalies"]).expect(0).stdout.contains("G-single-item"));
    assert!(margay(["profiles"]).expect(0).stdout.contains("postgresql"));
    for name in ["write-skew", "serializable", "SI", "cursor-stability"] {
        assert!(!margay(["explain", name]).expect(0).stdout.is_empty(), "{name}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "\"$0\" anomalies | true", env!("CARGO_BIN_EXE_margay")]);
    let run = finish(shell, b"");
    assert_eq!(run.stderr, "");
}

#[test]
fn completions_generate() {
    for (shell, has) in [
        ("bash", "strict-serializable"),
        ("zsh", "strict-serializable"),
        ("fish", "strict-serializable"),
        ("elvish", "convert"),
        ("powershell", "convert"),
    ] {
        assert!(margay(["completions", shell]).expect(0).stdout.contains(has), "{shell}");
    }
}

#[test]
fn the_completions_of_bash_are_bash() {
    let script = margay(["completions", "bash"]).expect(0).stdout;
    // Levels, anomalies, profiles, protocols, faults, simulated targets.
    for name in [
        "snapshot-isolation",
        "lost-update",
        "postgresql/repeatable-read",
        "percolator",
        "aborted-read",
        "sim:ssi",
    ] {
        assert!(script.contains(&format!(" {name} ")), "{name}");
    }
    let mut bash = Command::new("bash");
    bash.args(["-c", "source /dev/stdin && complete -p margay"]);
    assert!(finish(bash, script.as_bytes()).expect(0).stdout.contains("_margay"));
}

#[test]
fn the_native_format_comes_back_as_it_was() {
    let folder = TempDir::new().expect("a folder");
    for example in fs::read_dir(root().join("examples")).expect("the examples") {
        let example = example.expect("an entry").path();
        if example.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        let native = margay(["convert".as_ref(), example.as_os_str(), "-".as_ref()]).expect(0).stdout;
        for name in ["h.jsonl", "h.jsonl.gz", "h.jsonl.zst", "h.margay-bin", "h.margay-bin.gz"] {
            let file = folder.path().join(name);
            let run = margay(["convert".as_ref(), example.as_os_str(), file.as_os_str()]).expect(0);
            assert!(run.stdout.contains(" transactions, "), "{}", run.stdout);
            let back = margay(["convert".as_ref(), file.as_os_str(), "-".as_ref()]).expect(0).stdout;
            assert_eq!(back, native, "{} through {name}", example.display());
        }
        let piped =
            margay_with(["convert", "-", "-", "--from", "margay", "--to", "margay"], native.as_bytes());
        assert_eq!(piped.expect(0).stdout, native);
    }
}

/// A history that every format can carry: integers, nothing but reads and writes.
const PLAIN: &str = "\
{\"margay\":1,\"unit\":\"index\"}
{\"session\":0,\"txn\":0,\"at\":[0,1],\"write\":[[1,5]]}
{\"session\":0,\"txn\":0,\"at\":[0,1],\"commit\":true}
{\"session\":1,\"txn\":2,\"at\":[2,3],\"read\":[[1,5]]}
{\"session\":1,\"txn\":2,\"at\":[2,3],\"commit\":true}
";

#[test]
fn other_formats_come_back_and_are_recognised() {
    let operations = |text: &str| {
        let access = |line: &&str| line.contains("\"read\"") || line.contains("\"write\"");
        let value = |line: &str| line.split_once("[[1,").map(|(_, rest)| rest.to_owned());
        text.lines().filter(access).map(value).collect::<Vec<_>>()
    };
    for (format, timed) in
        [("edn", true), ("elle-json", true), ("text", false), ("awdit", false), ("dbcop", false)]
    {
        let folder = TempDir::new().expect("a folder");
        let plain = if timed {
            PLAIN.to_owned()
        } else {
            PLAIN.replace(",\"at\":[0,1]", "").replace(",\"at\":[2,3]", "")
        };
        let file = folder.path().join("history");
        let args = ["convert".as_ref(), "-".as_ref(), file.as_os_str(), "--to".as_ref(), format.as_ref()];
        margay_with(args, plain.as_bytes()).expect(0);
        let back = margay(["convert".as_ref(), file.as_os_str(), "-".as_ref()]).expect(0).stdout;
        assert_eq!(operations(&back), operations(&plain), "{format}: {back}");
    }
}

#[test]
fn what_a_format_cannot_carry_is_an_error_that_names_the_operation() {
    let folder = TempDir::new().expect("a folder");
    let out = folder.path().join("out");
    let scan = "{\"session\":0,\"txn\":7,\"scan\":{\"table\":\"t\",\"where\":\"v > 1\"},\"rows\":[]}\n";
    let history = format!("{{\"margay\":1}}\n{scan}{{\"session\":0,\"txn\":7,\"commit\":true}}\n");
    let args = ["convert", "-", out.to_str().expect("a path"), "--to", "awdit"];
    let run = margay_with(args, history.as_bytes()).expect(2);
    assert!(run.stderr.contains("transaction 7, operation 0 (scan)"), "{}", run.stderr);
    assert!(!out.exists());
    let run = margay(["convert", "examples/transfer.jsonl", "-", "--to", "leopard"]).expect(2);
    assert!(run.stderr.contains("not written"), "{}", run.stderr);
}

#[test]
fn a_simulated_history_is_the_same_again_and_can_be_checked() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("h.margay-bin");
    let file = file.to_str().expect("a path");
    let args =
        ["simulate", "--protocol", "ss2pl", "--transactions", "200", "--mix", "registers", "--seed", "7"];
    let text = margay(args.into_iter().chain(["-"])).expect(0).stdout;
    assert_eq!(margay(args.into_iter().chain(["-"])).expect(0).stdout, text);
    let run = margay(args.into_iter().chain([file])).expect(0);
    assert!(
        run.stdout.contains("200 transactions") && run.stdout.contains("margay simulate"),
        "{}",
        run.stdout
    );
    // A stream is in the order in which it was recorded, a history session by session.
    let converted = margay_with(["convert", "-", "-"], text.as_bytes()).expect(0).stdout;
    assert_eq!(margay(["convert", file, "-"]).expect(0).stdout, converted);
    margay(["check", file, "--level", "strict-serializable"]).expect(0);
}

#[test]
fn a_simulated_fault_is_found() {
    let args = [
        "simulate",
        "--protocol",
        "si-fuw",
        "--fault",
        "lost-update=0.5",
        "--keys",
        "3",
        "--mix",
        "registers",
        "-",
    ];
    let history = margay(args).expect(0).stdout;
    let json = margay_with(["check", "-", "--level", "SI", "--json"], history.as_bytes()).expect(1).json();
    assert_eq!(json["verdict"], "violated");
}

#[test]
fn what_cannot_be_simulated_says_why() {
    for (args, says) in [
        (["simulate", "-"].as_slice(), "--protocol"),
        (&["simulate", "--protocol", "ss3pl", "-"], "did you mean ss2pl"),
        (&["simulate", "--protocol", "ssi", "--fault", "write-skw", "-"], "did you mean write-skew"),
        (&["simulate", "--protocol", "ssi", "--clients", "0", "-"], "--clients takes"),
    ] {
        let run = margay(args).expect(2);
        assert!(run.stdout.is_empty() && run.stderr.contains(says), "{args:?}: {}", run.stderr);
    }
}

/// Manual pages come from the same source as the help texts.
#[test]
fn there_is_a_manual_page_for_every_command() {
    assert!(margay(["man"]).expect(0).stdout.contains(".TH margay 1"));
    let folder = tempfile::tempdir().expect("a folder");
    margay(["man", &folder.path().display().to_string()]).expect(0);
    for name in ["margay.1", "margay-run.1", "margay-check.1", "margay-audit.1"] {
        let page = fs::read_to_string(folder.path().join(name)).expect(name);
        assert!(page.contains(".SH OPTIONS"), "{name}: {page}");
    }
}

/// What stands at an arrow of a cycle can be looked up.
#[test]
fn arrows_are_explained() {
    for (name, word) in
        [("ww", "overwrote"), ("wr", "read what"), ("rw", "missed"), ("real-time", "ended before")]
    {
        assert!(margay(["explain", name]).expect(0).stdout.contains(word), "{name}");
    }
}
