//! Following: a pipe, a streamed proof and its audit, and a run.

mod common;

use std::fs;

use common::{margay, margay_with};

const CHECK: [&str; 6] = ["check", "-", "--engine", "follow", "--level", "strict-serializable"];

/// A recording, in the order in which it was recorded.
fn recorded(transactions: &str, more: &[&str]) -> Vec<u8> {
    let args = ["simulate", "--protocol", "ss2pl", "--seed", "4", "--transactions", transactions];
    margay(args.iter().chain(more).chain(&["-"])).expect(0).stdout.into_bytes()
}

#[test]
fn a_pipe_is_followed_and_its_proof_is_audited_side_by_side() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (history, proof) = (path("history.jsonl"), path("proof.jsonl"));
    let recorded = recorded("15000", &[]);
    fs::write(&history, &recorded).expect("a file");
    let args = CHECK.iter().copied().chain(["--json", "--certificate", &proof]);
    let said = margay_with(args, &recorded).expect(0).json();
    assert_eq!((&said["verdict"], &said["engine"]), (&"holds".into(), &"follow".into()));
    let settled = said["follow"]["settled"].as_u64().expect("a number");
    assert!(settled > 12_000, "{said}");
    let whole = margay(["check", &history, "--level", "strict-serializable", "--json"]).expect(0).json();
    for count in ["transactions", "operations", "sessions"] {
        assert_eq!(said["stats"][count], whole["stats"][count], "{count}");
    }
    let audited = margay(["audit", &history, &proof]).expect(0);
    assert!(audited.stdout.starts_with(&format!(
        "accepted: strict-serializable holds, by a settled order of {settled} transactions"
    )));
    let text = fs::read_to_string(&proof).expect("the proof");
    assert!(text.lines().count() > 3, "it was written in parts");
    let lines: Vec<&str> = text.lines().collect();
    fs::write(&proof, [&lines[..1], &lines[2..]].concat().join("\n")).expect("a file");
    assert!(margay(["audit", &history, &proof]).expect(1).stdout.starts_with("rejected: "));
}

/// The reader sees a violation before the end of the pipe, and nothing is written that proves nothing.
#[test]
fn a_stale_read_in_a_pipe_is_a_violation() {
    let folder = tempfile::tempdir().expect("a folder");
    let proof = folder.path().join("proof.jsonl");
    let text = r#"{"margay":1,"initial":[["x",0]]}
{"session":0,"txn":1,"at":[1,2],"write":[["x",1]]}
{"session":0,"txn":1,"at":[3,4],"commit":true}
{"session":1,"txn":2,"at":[10,11],"read":[["x",0]]}
{"session":1,"txn":2,"at":[12,13],"commit":true}
"#;
    let args = CHECK.iter().map(|&arg| arg.to_owned()).chain(["--certificate".to_owned()]);
    let said = margay_with(args.chain([proof.display().to_string()]), text.as_bytes()).expect(1);
    assert!(said.stdout.contains("T2 read x = 0"), "{}", said.stdout);
    assert!(!proof.exists() && said.stderr.contains("not written"), "{}", said.stderr);
    // At a level without real time an old version may be read.
    let plain = margay_with(["check", "-", "--engine", "follow", "--level", "serializable"], text.as_bytes());
    let plain = plain.expect(3).stdout;
    assert!(plain.contains("no order"), "{plain}");
}

/// What was there before is not known any more, but the list itself shows that an element was lost.
#[test]
fn a_lost_append_in_a_pipe_is_a_violation() {
    let mut lines: Vec<String> = String::from_utf8(recorded("2500", &["--mix", "lists", "--unknown", "0"]))
        .expect("text")
        .lines()
        .map(str::to_owned)
        .collect();
    let is_read = |line: &&String| line.contains(r#""read":[["l"#) && line.contains("]]]");
    let place =
        lines.iter().rposition(|line| is_read(&line) && line.matches(',').count() > 12).expect("a list");
    let (head, last) = lines[place].rsplit_once(',').expect("two elements");
    let (head, _) = head.rsplit_once(',').expect("three elements");
    lines[place] = format!("{head},{last}");
    let said = margay_with(CHECK, lines.join("\n").as_bytes()).expect(1);
    assert!(said.stdout.starts_with("violated"), "{}", said.stdout);
}

#[test]
fn ill_formed_lines_of_a_pipe_are_errors_with_their_place() {
    let text = "{\"margay\":1}\n{\"session\":0,\"txn\":1,\"at\":[1,2],\"wriet\":[[\"x\",1]]}\n";
    let said = margay_with(CHECK, text.as_bytes()).expect(2);
    assert!(said.stderr.contains("standard input:2"), "{}", said.stderr);
}

#[test]
fn a_run_is_followed_where_real_time_is_promised() {
    let common = ["--transactions", "3000", "--duration", "30s", "--json", "--no-report"];
    let said = margay(["run", "sim:ss2pl"].iter().chain(&common)).expect(0).json();
    let follow = &said["run"]["follow"];
    assert_eq!((&follow["whole"], &follow["stopped"]), (&true.into(), &serde_json::Value::Null), "{follow}");
    assert_eq!(follow["settled"], said["run"]["committed"], "{follow}");
    assert_eq!((&said["verdict"], &said["engine"]), (&"holds".into(), &"follow".into()));
    let plain = margay(["run", "sim:rc-mvcc"].iter().chain(&common)).expect(0).json();
    assert!(plain["run"]["follow"].is_null(), "{}", plain["run"]);
}
