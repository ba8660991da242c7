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

/// The reader sees a violation before the end of the pipe, and nothing is written that proves
/// nothing.
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

/// Timestamps give the order, with and without times; a read that they do not explain is a
/// violation, and no other level is needed to say so.
#[test]
fn timestamps_in_a_pipe_give_the_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (history, proof) = (path("history.jsonl"), path("proof.jsonl"));
    let args =
        ["simulate", "--protocol", "si-fuw", "--evidence", "snapshot,commit", "--transactions", "3000", "-"];
    let text = margay(args).expect(0).stdout;
    fs::write(&history, &text).expect("a file");
    let check = ["check", "-", "--engine", "follow", "--level", "snapshot-isolation", "--json"];
    let args = check.iter().copied().chain(["--certificate", &proof]);
    let said = margay_with(args, text.as_bytes()).expect(0).json();
    assert_eq!(said["verdict"], "holds");
    let audited = margay(["audit", &history, &proof]).expect(0);
    assert!(audited.stdout.starts_with("accepted: snapshot-isolation holds"), "{}", audited.stdout);
    let stale = r#"{"margay":1,"initial":[["x",0]]}
{"session":0,"txn":1,"write":[["x",1]]}
{"evidence":"snapshot","txn":1,"ts":1}
{"evidence":"commit","txn":1,"ts":2}
{"session":0,"txn":1,"commit":true}
{"session":1,"txn":2,"read":[["x",0]]}
{"evidence":"snapshot","txn":2,"ts":5}
{"evidence":"commit","txn":2,"ts":6}
{"session":1,"txn":2,"commit":true}
"#;
    let said = margay_with(check, stale.as_bytes()).expect(1).json();
    assert_eq!((&said["verdict"], &said["engine"]), (&"violated".into(), &"follow".into()), "{said}");
    let early = stale.replace("\"ts\":5", "\"ts\":1");
    assert_eq!(margay_with(check, early.as_bytes()).expect(0).json()["verdict"], "holds");
    // One that overlaps another and writes the same.
    let lost = early.replace("\"read\":[[\"x\",0]]", "\"write\":[[\"x\",7]]");
    assert_eq!(margay_with(check, lost.as_bytes()).expect(1).json()["verdict"], "violated");
}

#[test]
fn a_horizon_names_what_it_cannot_decide() {
    let text = r#"{"margay":1,"unit":"ms","initial":[["x",0]]}
{"session":0,"txn":1,"at":[1,2],"write":[["x",1]]}
{"session":0,"txn":1,"at":[3,4],"commit":true}
{"session":1,"txn":2,"at":[14,15],"read":[["x",0]]}
{"session":1,"txn":2,"at":[16,17],"commit":true}
"#;
    let check = ["check", "-", "--engine", "follow", "--level", "serializable", "--json", "--horizon"];
    let within = |horizon| margay_with(check.iter().copied().chain([horizon]), text.as_bytes());
    assert_eq!(within("20ms").expect(0).json()["verdict"], "holds");
    let said = within("5ms").expect(3).json();
    assert_eq!(said["follow"]["undecided"], serde_json::json!([2]));
    assert!(
        said["reason"].as_str().is_some_and(|why| why.contains("T2") && why.contains("horizon")),
        "{said}"
    );
    let file = ["check", "nothing.jsonl", "--level", "serializable", "--horizon", "5ms"];
    assert!(margay(file).expect(2).stderr.contains("for a pipe"));
}

/// A recorder that was killed leaves half a line: it is named, and its transaction may or may not
/// have committed.
#[test]
fn a_pipe_that_is_cut_off_is_named() {
    let text = r#"{"margay":1,"initial":[["x",0]]}
{"session":0,"txn":1,"at":[1,2],"write":[["x",1]]}
{"session":1,"txn":2,"at":[10,11],"read":[["x",1]]}
{"session":1,"txn":2,"at":[12,13],"commit":true}
{"session":0,"txn":1,"at":[14"#;
    let said = margay_with(CHECK, text.as_bytes()).expect(0);
    assert!(said.stderr.contains("line 5 is cut off"), "{}", said.stderr);
}

/// A client that never ends its transaction holds up everybody after it, until memory is at its
/// limit.
#[test]
fn a_memory_limit_is_named_while_a_client_stalls() {
    let mut text =
        String::from("{\"margay\":1}\n{\"session\":99,\"txn\":1,\"at\":[0,1],\"read\":[[\"x\",null]]}\n");
    let pad = "p".repeat(2_000);
    for txn in 2..40_000_u64 {
        let (at, session) = (10 * txn, txn % 8);
        text.push_str(&format!(
            "{{\"session\":{session},\"txn\":{txn},\"at\":[{at},{}],\"write\":[[\"x\",\"{pad}{txn}\"]]}}\n\
             {{\"session\":{session},\"txn\":{txn},\"at\":[{},{}],\"commit\":true}}\n",
            at + 1,
            at + 2,
            at + 3
        ));
    }
    let said = margay_with(CHECK.iter().copied().chain(["--memory", "60M", "--json"]), text.as_bytes());
    let said = said.expect(3).json();
    assert!(said["reason"].as_str().is_some_and(|why| why.contains("memory")), "{said}");
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
