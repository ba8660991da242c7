//! `margay check` and `margay audit` through the real binary: every exit status, the JSON,
//! certificates.

mod common;

use std::fs;

use common::{margay, margay_with, root};
use serde_json::Value;
use tempfile::TempDir;

const SKEW: &str = "examples/write-skew.jsonl";
const TRANSFER: &str = "examples/transfer.jsonl";

fn keys(object: &Value) -> Vec<&str> {
    object.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// A write skew behind so many independent writers that trying all orders takes forever.
fn hopeless() -> String {
    let writer = |id: usize| {
        let (begin, end) = (format!("{{\"session\":{id},\"txn\":{id},"), "\"commit\":true}");
        format!("{begin}\"write\":[[\"k{id}\",1]]}}\n{begin}{end}\n")
    };
    let skew = fs::read_to_string(root().join(SKEW)).expect("the example");
    std::iter::once(skew).chain((10..40).map(writer)).collect()
}

#[test]
fn every_exit_status() {
    margay(["check", TRANSFER, "--level", "strict-serializable"]).expect(0);
    margay(["check", SKEW, "--level", "serializable"]).expect(1);
    margay(["check", "no-such-file", "--level", "serializable"]).expect(2);
    margay(["check", TRANSFER, "--level", "cursor-stability"]).expect(3);
}

#[test]
fn the_pinned_json_of_a_violation() {
    let run = margay(["check", SKEW, "--level", "serializable", "--json"]).expect(1);
    let json = run.json();
    assert_eq!(
        keys(&json),
        ["also_not", "anomalies", "engine", "level", "not", "reason", "report", "stats", "verdict"]
    );
    assert_eq!((&json["verdict"], &json["level"]), (&Value::from("violated"), &Value::from("serializable")));
    assert_eq!(json["reason"], Value::Null);
    assert!(margay::NAMES.contains(&json["engine"].as_str().expect("a name")));
    let anomaly = &json["anomalies"][0];
    assert_eq!(keys(anomaly), ["explanation", "name", "transactions"]);
    let name = anomaly["name"].as_str().expect("a name");
    assert!(name.parse::<margay_levels::Anomaly>().is_ok(), "{name}");
    assert_eq!(anomaly["transactions"], serde_json::json!([1, 2]));
    assert!(!anomaly["explanation"].as_str().expect("a text").is_empty());
    let stats = &json["stats"];
    assert_eq!(
        keys(stats),
        ["check_seconds", "operations", "peak_rss_bytes", "read_seconds", "sessions", "transactions"]
    );
    assert_eq!(
        (&stats["transactions"], &stats["operations"], &stats["sessions"]),
        (&2.into(), &8.into(), &2.into())
    );
    assert!(stats["read_seconds"].as_f64().expect("a number") > 0.0);
    assert!(!cfg!(target_os = "linux") || stats["peak_rss_bytes"].as_u64().expect("a number") > 1 << 20);
    assert_eq!(run.stdout.lines().count(), 1);
}

#[test]
fn the_json_of_the_other_verdicts() {
    let json = margay(["check", TRANSFER, "--level", "SI", "--json", "--quiet"]).expect(0).json();
    assert_eq!((&json["verdict"], &json["anomalies"]), (&"holds".into(), &serde_json::json!([])));
    assert_eq!(json["level"], "snapshot-isolation");
    let json = margay(["check", TRANSFER, "--level", "serializable", "--engine", "replay", "--json"])
        .expect(3)
        .json();
    assert_eq!((&json["verdict"], &json["engine"]), (&"unknown".into(), &"replay".into()));
    assert!(json["reason"].as_str().expect("a reason").contains("missing evidence"));
}

#[test]
fn a_model_of_elles_that_no_engine_decides_is_unknown() {
    let json = margay(["check", TRANSFER, "--level", "cursor-stability", "--json"]).expect(3).json();
    assert_eq!(json["level"], "cursor-stability");
    assert!(json["reason"].as_str().expect("a reason").contains("cursor-stability"));
}

#[test]
fn people_read_the_verdict_first_then_the_proof() {
    let violated = margay(["check", SKEW, "--level", "serializable"]).expect(1).stdout;
    assert!(
        violated.starts_with("violated: examples/write-skew.jsonl is impossible under serializable\n"),
        "{violated}"
    );
    for says in [
        "engine ",
        "2 transactions, 8 operations, 2 sessions",
        "audited: accepted",
        "T1",
        "T2",
        "alice",
        "bob",
    ] {
        assert!(violated.contains(says), "{says}: {violated}");
    }
    assert!(!violated.contains('\x1b'), "no colours without a terminal");
    let holds = margay(["check", TRANSFER, "--level", "serializable"]).expect(0).stdout;
    assert!(holds.starts_with("holds: "), "{holds}");
    assert!(holds.contains("an order of the transactions, audited: accepted"), "{holds}");
    assert!(holds.contains("margay audit"), "{holds}");
}

#[test]
fn quiet_says_nothing() {
    let run = margay(["check", SKEW, "--level", "serializable", "--quiet"]).expect(1);
    assert_eq!((run.stdout, run.stderr), (String::new(), String::new()));
}

#[test]
fn real_time_is_an_assumption_that_can_be_added() {
    margay(["check", "examples/stale-read.jsonl", "--level", "serializable"]).expect(0);
    margay(["check", "examples/stale-read.jsonl", "--level", "serializable", "--real-time"]).expect(1);
}

#[test]
fn standard_input_is_a_history_too() {
    let text = fs::read(root().join(SKEW)).expect("the example");
    margay_with(["check", "-", "--level", "serializable"], &text).expect(1);
}

#[test]
fn no_time_no_answer() {
    let args = ["check", "-", "--level", "serializable", "--engine", "naive", "--timeout", "50ms", "--json"];
    let json = margay_with(args, hopeless().as_bytes()).expect(3).json();
    assert!(json["reason"].as_str().expect("a reason").contains("out of time"), "{json}");
    assert!(json["stats"]["check_seconds"].as_f64().expect("a number") < 5.0, "{json}");
}

#[test]
fn certificates_are_written_and_audited() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("proof.json");
    let file = file.to_str().expect("a path");
    for (history, level, status) in
        [(TRANSFER, "strict-serializable", 0), (SKEW, "SI", 0), (SKEW, "serializable", 1)]
    {
        margay(["check", history, "--level", level, "--certificate", file]).expect(status);
        let run = margay(["audit", history, file]).expect(0);
        assert!(run.stdout.starts_with("accepted: "), "{}", run.stdout);
        let json = margay(["audit", history, file, "--json"]).expect(0).json();
        assert_eq!(json["audit"], "accepted");
        assert_eq!(json["verdict"], if status == 0 { "holds" } else { "violated" });
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "no drafts are left");
    }
}

#[test]
fn a_forged_level_is_rejected_and_another_history_is_refused() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("proof.json");
    let file = file.to_str().expect("a path");
    margay(["check", SKEW, "--level", "SI", "--certificate", file]).expect(0);
    let run = margay(["audit", TRANSFER, file]).expect(2);
    assert!(run.stderr.contains("of another history"), "{}", run.stderr);
    let text = fs::read_to_string(file).expect("the certificate");
    fs::write(file, text.replace("snapshot-isolation", "serializable")).expect("a forgery");
    let run = margay(["audit", SKEW, file]).expect(1);
    assert!(run.stdout.starts_with("rejected: ") && run.stdout.contains("reason: "), "{}", run.stdout);
    let json = margay(["audit", SKEW, file, "--json"]).expect(1).json();
    assert_eq!((&json["audit"], &json["level"]), (&"rejected".into(), &"serializable".into()));
    assert!(!json["reason"].as_str().expect("a reason").is_empty());
}

#[test]
fn a_certificate_outlives_a_conversion() {
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
    let (proof, binary) = (path("proof.json"), path("skew.margay-bin"));
    margay(["check", SKEW, "--level", "serializable", "--certificate", &proof]).expect(1);
    margay(["convert", SKEW, &binary]).expect(0);
    margay(["audit", &binary, &proof]).expect(0);
}

#[test]
fn a_value_that_nobody_wrote_is_a_violation_of_every_level() {
    let history = "{\"margay\":1}\n{\"session\":1,\"txn\":1,\"read\":[[\"x\",7]]}\n{\"session\":1,\"txn\":1,\"commit\":true}\n";
    for level in ["read-uncommitted", "strict-serializable"] {
        let json =
            margay_with(["check", "-", "--level", level, "--json"], history.as_bytes()).expect(1).json();
        assert_eq!(json["anomalies"][0]["name"], "garbage-read", "{json}");
    }
}

#[test]
fn what_is_no_certificate_is_unreadable() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("proof.json");
    for bytes in [b"".as_slice(), b"{", b"[]", b"{}", b"\xff\xfe", b"{\"margay\":1}\n"] {
        fs::write(&file, bytes).expect("the file");
        let run = margay(["audit".as_ref(), TRANSFER.as_ref(), file.as_os_str()]).expect(2);
        assert!(run.stderr.starts_with(&format!("error: {}", file.display())), "{}", run.stderr);
        assert_eq!(run.stdout, "");
    }
    margay(["audit", TRANSFER, "no-such-file"]).expect(2);
}

#[test]
fn unknown_leaves_no_certificate() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("proof.json");
    let args = ["check", TRANSFER, "--level", "cursor-stability", "--engine", "solve", "--certificate"];
    let args = args.map(std::ffi::OsStr::new).into_iter().chain([file.as_os_str()]);
    let run = margay(args).expect(3);
    assert!(run.stderr.contains("`unknown` has no certificate"), "{}", run.stderr);
    assert!(!file.exists());
}

#[test]
fn standard_output_carries_one_thing() {
    margay(["check", TRANSFER, "--level", "SI", "--certificate", "-", "--json"]).expect(2);
    let certificate = margay(["check", TRANSFER, "--level", "SI", "--certificate", "-"]).expect(0).stdout;
    margay_with(["audit", TRANSFER, "-"], certificate.as_bytes()).expect(0);
}

#[test]
fn the_database_is_named_by_whoever_asks() {
    const STALE: &str = "examples/stale-read.jsonl";
    let mirror = |dbms: &str, level: &str| {
        margay(["check", STALE, "--engine", "mirror", "--dbms", dbms, "--level", level])
    };
    let run = mirror("postgresql", "read-committed").expect(1);
    assert!(run.stdout.contains("consistent-read") && run.stdout.contains("[="), "{}", run.stdout);
    mirror("postgresql-15/repeatable-read", "snapshot-isolation").expect(1);
    mirror("examples/profile.toml", "snapshot-isolation").expect(1);
    let run = mirror("mysql", "repeatable-read").expect(3);
    assert!(run.stdout.contains("mysql/repeatable-read does not promise"), "{}", run.stdout);
    let run = mirror("postgre", "read-committed").expect(2);
    assert!(run.stderr.contains("did you mean postgresql?"), "{}", run.stderr);
    mirror("no-such-file.toml", "read-committed").expect(2);
    let run = margay(["check", STALE, "--dbms", "postgresql", "--level", "read-committed"]).expect(2);
    assert!(run.stderr.contains("--engine mirror"), "{}", run.stderr);
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("bad.toml");
    fs::write(&file, "like = \"postgresql\"\nconsistent_read = \"begin\"\n").expect("written");
    let run = mirror(&file.to_string_lossy(), "read-committed").expect(2);
    assert!(run.stderr.contains("unknown key `consistent_read`"), "{}", run.stderr);
}

#[test]
fn strategies_are_switched_off_by_name() {
    let long = margay(["check", "--help"]).expect(0).stdout;
    assert!(!margay(["check", "-h"]).expect(0).stdout.contains("--switch-off"));
    for name in margay::strategies() {
        assert!(long.contains(name), "{name}: {long}");
    }
    let last = margay::strategies().last().expect("solve has strategies");
    let check = |engine: &str, name: &str| {
        margay(["check", SKEW, "--level", "serializable", "--engine", engine, "--switch-off", name, "--json"])
    };
    let command = check("solve", last).expect(1).json()["report"]["again"]["command"].to_string();
    assert!(command.contains(&format!("--switch-off {last}")), "{command}");
    let other = check("observe", last).expect(2);
    assert!(other.stderr.contains(&format!("observe has no strategy {last}")), "{}", other.stderr);
    check("auto", last).expect(2);
    assert!(check("solve", "thought").expect(2).stderr.contains("there are"));
}

/// Leopard's ratios: of all dependencies those that overlap, and of those the deduced ones.
#[test]
fn mirror_counts_dependencies() {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("history.jsonl");
    let path = file.to_str().expect("a path");
    margay(["simulate", "--protocol", "ssi", "--transactions", "200", "--seed", "1", path]).expect(0);
    let json =
        margay(["check", path, "--engine", "mirror", "--level", "serializable", "--json"]).expect(0).json();
    let found = &json["dependencies"];
    let count = |kind: &str, how: &str| found[kind][how].as_f64().expect("a number");
    let sum = |how: &str| ["ww", "wr", "rw"].iter().map(|kind| count(kind, how)).sum::<f64>();
    let overlapping = sum("deduced") + sum("uncertain");
    let all = sum("certain") + overlapping;
    assert!(all > 0.0, "{found}");
    let ratio = |name: &str| found[name].as_f64().expect("a number");
    assert!((ratio("overlap_ratio") - overlapping / all).abs() < 1e-9, "{found}");
    let deduced = if overlapping == 0.0 { 1.0 } else { sum("deduced") / overlapping };
    assert!((ratio("deduced_ratio") - deduced).abs() < 1e-9, "{found}");
    assert!(margay(["check", SKEW, "--level", "serializable", "--json"]).json()["dependencies"].is_null());
}

/// In 0.1.0 `infer` claimed `holds` here, the audit rejected that, and `auto` said `unknown`
/// although `naive` and `solve` had a proof of the violation.
#[test]
fn auto_finds_the_proof_of_another_engine() {
    let case = "crates/cli/tests/cases/scan-of-one-row-does-not-match.jsonl";
    margay(["check", case, "--level", "serializable"]).expect(1);
}

#[test]
fn no_audit_is_said() {
    let run = margay(["check", TRANSFER, "--level", "serializable", "--no-audit"]).expect(0);
    assert!(run.stdout.contains("not audited, because of --no-audit"), "{}", run.stdout);
}

/// Files of `crates/engines/tests/cases`.
fn case(name: &str) -> String {
    format!("crates/engines/tests/cases/{name}")
}

/// Mechanisms of no database in particular "proved" `violated under serializable`, and the page
/// said "is impossible under snapshot-isolation".
#[test]
fn made_up_mechanisms_are_no_violation_of_a_level() {
    let history = case("forged-mechanisms.jsonl");
    for file in ["forged-mechanisms-1.json", "forged-mechanisms-2.json"] {
        let (file, folder) = (case(file), TempDir::new().expect("a folder"));
        let page = folder.path().join("audit.html").display().to_string();
        let run = margay(["audit", &history, &file, "--report", &page]).expect(0);
        assert!(
            run.stdout.starts_with("accepted: not possible for a database with the mechanisms"),
            "{}",
            run.stdout
        );
        assert!(run.stdout.contains("no profile that has these mechanisms"), "{}", run.stdout);
        let html = fs::read_to_string(&page).expect("a page");
        assert!(
            !html.contains("is impossible under s") && html.contains("no profile that has these mechanisms")
        );
        let json = margay(["audit", &history, &file, "--json"]).expect(0).json();
        assert_eq!(json["claim"]["about"], "mechanisms");
        assert!(json["claim"]["words"].to_string().contains("no profile that has these mechanisms"));
    }
}

/// `holds` and `violated` of one history and level were both accepted, and neither said by which
/// reading.
#[test]
fn an_audit_names_the_reading() {
    let history = case("reading-item-or-statement.jsonl");
    for (file, reading, checked) in [
        ("reading-item.json", "item", "independently"),
        ("reading-statement.json", "statement", "re-executed"),
    ] {
        let run = margay(["audit", &history, &case(file)]).expect(0);
        assert!(run.stdout.contains(&format!("reading {reading}")), "{}", run.stdout);
        assert_eq!(run.stdout.contains("no independent check"), checked == "re-executed", "{}", run.stdout);
        let json = margay(["audit", &history, &case(file), "--json"]).expect(0).json();
        assert_eq!(
            (&json["claim"]["reading"], &json["claim"]["checked"]),
            (&reading.into(), &checked.into())
        );
    }
    let check = |reading: &str| {
        let args = [
            "check",
            &history,
            "--level",
            "read-committed",
            "--engine",
            "observe",
            "--reading",
            reading,
            "--json",
        ];
        margay(args).json()["report"]["claim"].clone()
    };
    for reading in ["item", "statement"] {
        assert_eq!(check(reading)["reading"], reading);
        assert_eq!(check(reading)["translation"], "executed");
    }
}

/// What was proved about rows says so, and is audited as that.
#[test]
fn a_certificate_names_its_translation_and_dialect() {
    for (file, status, dialect) in [("dialect-innodb.jsonl", 0, "mysql"), ("dialect-tidb.jsonl", 1, "tidb")] {
        for engine in ["auto", "naive", "solve", "observe"] {
            let (history, folder) = (case(file), TempDir::new().expect("a folder"));
            let proof = folder.path().join("proof.json").display().to_string();
            let args = [
                "check",
                &history,
                "--level",
                "serializable",
                "--engine",
                engine,
                "--certificate",
                &proof,
                "--json",
            ];
            let json = margay(args).expect(status).json();
            assert_eq!(json["report"]["claim"]["dialect"], dialect);
            let translation = if engine == "observe" { "executed" } else { "rows-stable" };
            let claim = margay(["audit", &history, &proof, "--json"]).expect(0).json()["claim"].clone();
            assert_eq!(claim["translation"], json["report"]["claim"]["translation"], "{engine}");
            assert!(engine == "auto" || claim["translation"] == translation, "{engine}: {claim}");
        }
    }
}

/// The headline named the level alone, which does not forbid what was found: only real time, or
/// instants, do.
#[test]
fn a_headline_says_what_else_was_asked_for() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("stale.jsonl");
    let stale = "{\"margay\":1,\"initial\":[[\"x\",0]]}\n\
        {\"session\":0,\"txn\":1,\"at\":[1,2],\"write\":[[\"x\",1]]}\n\
        {\"session\":0,\"txn\":1,\"at\":[3,4],\"commit\":true}\n\
        {\"session\":1,\"txn\":2,\"at\":[5,6],\"read\":[[\"x\",0]]}\n\
        {\"session\":1,\"txn\":2,\"at\":[7,8],\"commit\":true}\n";
    fs::write(&path, stale).expect("a file");
    let path = path.display().to_string();
    margay(["check", &path, "--level", "serializable"]).expect(0);
    let told = margay(["check", &path, "--level", "serializable", "--real-time"]).expect(1);
    assert!(
        told.stdout.contains("impossible under serializable in the order of real time"),
        "{}",
        told.stdout
    );
    let level = ["check", &path, "--level", "strict-snapshot-isolation", "--instants"];
    let told = margay(level).expect(1);
    assert!(told.stdout.contains("under strict-snapshot-isolation with instants"), "{}", told.stdout);
    let refused = margay(["check", &path, "--level", "serializable", "--instants"]).expect(2);
    assert!(refused.stderr.contains("strict-snapshot-isolation"), "{}", refused.stderr);
}

/// A call of a function that nobody knows made a whole history undecidable. Now its part is
/// decided, and says so.
#[test]
fn what_is_not_understood_is_left_out_and_the_answer_says_how_much_it_covers() {
    let folder = TempDir::new().expect("a folder");
    let write = |name: &str, second: u64| {
        let path = folder.path().join(name);
        let text = format!(
            "{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n",
            r#"{"margay":1,"dbms":"postgresql-15","tables":{"t":{"key":["id"],"columns":{"id":"int","v":"int"},"initial":"unknown"},"o":{"key":["id"],"columns":{"id":"int","v":"jsonb"}}}}"#,
            r#"{"session":0,"txn":1,"sql":"SELECT v FROM t WHERE id = 1","rows":[[5]]}"#,
            format_args!(
                r#"{{"session":1,"txn":2,"sql":"SELECT v FROM t WHERE id = 1","rows":[[{second}]]}}"#
            ),
            r#"{"session":0,"txn":1,"sql":"INSERT INTO o (id, v) SELECT id, v FROM o","count":3}"#,
            r#"{"session":0,"txn":1,"sql":"UPDATE t SET v = 6 WHERE id = 1","count":1}"#,
            r#"{"session":1,"txn":2,"sql":"UPDATE t SET v = 7 WHERE id = 1","count":1}"#,
            r#"{"session":0,"txn":1,"commit":true}"#,
            r#"{"session":1,"txn":2,"commit":true}"#,
        );
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let (lost, fine) = (write("lost.jsonl", 5), write("fine.jsonl", 6));
    let proof = folder.path().join("proof.json").display().to_string();
    let json = margay(["check", &lost, "--level", "serializable", "--certificate", &proof, "--json"])
        .expect(1)
        .json();
    assert_eq!(json["coverage"]["tables"]["covered"], 1);
    assert_eq!(json["coverage"]["transactions"]["covered"], 1);
    assert_eq!(json["report"]["claim"]["translation"], "projected-stable");
    margay(["audit", &lost, &proof]).expect(0);
    margay(["audit", &fine, &proof]).expect(2);
    let claim = fs::read_to_string(&proof).expect("a certificate");
    fs::write(&proof, claim.replace("projected-stable", "projected-stable-whole")).expect("a file");
    margay(["audit", &lost, &proof]).expect(2);
    let json = margay(["check", &fine, "--level", "serializable", "--json"]).expect(3).json();
    assert_eq!(json["coverage"]["verdict"], "holds");
    let reason = json["reason"].as_str().expect("a reason");
    assert!(reason.starts_with("holds for 1 of 2 tables and 1 of 2 transactions"), "{reason}");
}
