//! `margay elle`, and what else those want who come from there.

mod common;

use std::fs;
use std::path::Path;

use common::margay;
use serde_json::json;
use tempfile::TempDir;

/// Two transactions that each read what the other is about to write.
const SKEW: &str = "\
{:process 0, :type :ok, :f :txn, :value [[:r :x []] [:append :y 1]]}
{:process 1, :type :ok, :f :txn, :value [[:r :y []] [:append :x 1]]}
{:process 2, :type :ok, :f :txn, :value [[:r :x [1]] [:r :y [1]]]}
";

/// In one session x becomes 1 and then 2; who reads 2 tells another, and that one reads 1.
const BACK: &str = "\
{:process 0, :type :ok, :f :txn, :value [[:w :x 1]]}
{:process 0, :type :ok, :f :txn, :value [[:w :x 2]]}
{:process 1, :type :ok, :f :txn, :value [[:r :x 2] [:w :y 1]]}
{:process 2, :type :ok, :f :txn, :value [[:r :y 1] [:r :x 1]]}
";

fn written(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).expect("a file");
    path.display().to_string()
}

#[test]
fn one_word_for_each_history() {
    let folder = TempDir::new().expect("a folder");
    let skew = written(folder.path(), "skew.edn", SKEW);
    let run = margay(["elle", "-m", "list-append", "-c", "serializable", &skew]).expect(1);
    assert_eq!(run.stdout, format!("{skew}\tfalse\n"));
    let run = margay(["elle", "-c", "snapshot-isolation", &skew, &skew]).expect(0);
    assert_eq!(run.stdout, format!("{skew}\ttrue\n{skew}\ttrue\n"));
    margay(["elle", "-c", "snapshot-isolation,repeatable-read", &skew]).expect(1);
    margay(["elle", "-c", "snapshot-isolation", "-a", "G2", &skew]).expect(1);
    margay(["elle", "-c", "snapshot-isolation", "-a", "G1", &skew]).expect(0);
    // A model that is no level is ruled out by what is found, or implied by what holds.
    margay(["elle", "-c", "update-serializable", &skew]).expect(0);
    margay(["elle", "-c", "snapshot-isolatio", &skew]).expect(2);
    margay(["elle", "-s", "1000", "-p", "svg", "-c", "read-committed", &skew]).expect(0);
}

#[test]
fn the_result_map_and_the_texts() {
    let folder = TempDir::new().expect("a folder");
    let skew = written(folder.path(), "skew.edn", SKEW);
    let texts = folder.path().join("texts");
    let directory = texts.display().to_string();
    let map = margay(["elle", "-v", "-c", "serializable", "-d", &directory, &skew]).expect(1).json();
    assert_eq!(map["valid?"], json!(false));
    assert_eq!(map["anomaly-types"], json!(["G2-item"]));
    assert_eq!(map["not"], json!(["repeatable-read"]));
    assert_eq!(
        map["also-not"],
        json!(["serializable", "strong-serializable", "strong-session-serializable"])
    );
    let text = fs::read_to_string(texts.join("G2-item.txt")).expect("a text");
    assert!(text.starts_with("G2-item #0\n") && text.contains("comes before"), "{text}");
}

#[test]
fn keys_may_be_assumed_to_be_sequential() {
    let folder = TempDir::new().expect("a folder");
    let back = written(folder.path(), "back.edn", BACK);
    margay(["check", &back, "--level", "serializable"]).expect(0);
    let json =
        margay(["check", &back, "--level", "serializable", "--sequential-keys", "--json"]).expect(1).json();
    assert_eq!(json["anomalies"][0]["name"], "G-single-item", "{json}");
    margay(["elle", "-c", "serializable", &back]).expect(0);
    margay(["elle", "-c", "serializable", "--sequential-keys", &back]).expect(1);
    let proof = folder.path().join("proof.json").display().to_string();
    let args = ["check", &back, "--level", "serializable", "--sequential-keys", "--certificate", &proof];
    margay(args).expect(1);
    margay(["audit", &back, &proof, "--sequential-keys"]).expect(0);
    // Without the assumption it is another history.
    margay(["audit", &back, &proof]).expect(2);
}
