//! Reports through the real binary: every form, `margay report`, and the live page of `margay run`.

#[path = "../../report/tests/common/browser.rs"]
#[allow(dead_code, reason = "the tests of reports use the rest")]
mod browser;
mod common;
#[path = "../../report/tests/common/schema.rs"]
mod schema;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use browser::Browser;
use common::{margay, margay_with, root};
use serde_json::Value;
use tempfile::TempDir;

const SKEW: &str = "examples/write-skew.jsonl";

fn check(more: &[&str]) -> common::Run {
    margay(["check", SKEW, "--level", "serializable"].iter().chain(more))
}

#[test]
fn every_form_is_written_beside_the_account() {
    let folder = TempDir::new().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let names = ["r.html", "r.xml", "r.dot", "r.svg"].map(file);
    let run = check(&["--report", &names[0], "--junit", &names[1], "--dot", &names[2], "--svg", &names[3]])
        .expect(1);
    assert!(run.stdout.starts_with("violated: "), "{}", run.stdout);
    let starts = ["<!doctype html>", "<?xml ", "digraph ", "<svg "];
    for (name, start) in names.iter().zip(starts) {
        assert!(fs::read_to_string(name).expect("it was written").starts_with(start), "{name}");
    }
    let html = fs::read_to_string(&names[0]).expect("it was written");
    assert!(
        html.contains("margay check examples/write-skew.jsonl --level serializable"),
        "how to do it again"
    );
}

#[test]
fn the_result_of_json_can_be_shown_again() {
    let result = check(&["--json"]).expect(1).stdout;
    for (form, start) in [
        ("text", "violated: "),
        ("html", "<!doctype"),
        ("junit", "<?xml"),
        ("dot", "digraph"),
        ("svg", "<svg"),
    ] {
        let run = margay_with(["report", "-", "--to", form], result.as_bytes()).expect(0);
        assert!(run.stdout.starts_with(start), "{form}: {}", run.stdout);
    }
    let untimed =
        |text: &str| text.lines().filter(|line| !line.contains("checked in")).collect::<Vec<_>>().join("\n");
    let text = margay_with(["report", "-"], result.as_bytes()).expect(0).stdout;
    let curves = text.find("\n  over time").unwrap_or(text.len());
    assert_eq!(untimed(&text[..curves]).trim_end(), untimed(&check(&[]).expect(1).stdout).trim_end());
    margay_with(["report", "-", "--to", "svg", "--anomaly", "7"], result.as_bytes()).expect(2);
    let wrong = margay_with(["report", "-"], b"{\"verdict\": 7}").expect(2);
    assert!(wrong.stderr.contains("no result of --json"), "{}", wrong.stderr);
}

#[test]
fn json_is_what_the_schema_says() {
    let text = fs::read_to_string(root().join("docs/REPORT.schema.json")).expect("the schema");
    let schema: Value = serde_json::from_str(&text).expect("JSON");
    let runs = [
        check(&["--json"]).json(),
        margay(["check", SKEW, "--level", "causal", "--json"]).json(),
        margay([
            "check",
            "examples/stale-read.jsonl",
            "--engine",
            "mirror",
            "--dbms",
            "postgresql",
            "--level",
            "read-committed",
            "--json",
        ])
        .json(),
        margay(["check", SKEW, "--level", "cursor-stability", "--json"]).json(),
        margay([
            "run",
            "sim:si",
            "--claim",
            "serializable",
            "--workload",
            "write-skew",
            "--transactions",
            "200",
            "--json",
        ])
        .json(),
    ];
    for json in runs {
        assert_eq!(schema::errors(&schema, &schema, &json, ""), Vec::<String>::new());
    }
}

#[test]
fn only_one_thing_has_standard_output() {
    check(&["--json", "--report", "-"]).expect(2);
    check(&["--junit", "-", "--svg", "-"]).expect(2);
    assert!(check(&["--junit", "-"]).expect(1).stdout.starts_with("<?xml"));
    let run = margay(["check", "examples/transfer.jsonl", "--level", "serializable", "--svg", "nowhere.svg"])
        .expect(0);
    assert!(
        run.stderr.contains("there is no cycle") && !root().join("nowhere.svg").exists(),
        "{}",
        run.stderr
    );
}

#[test]
fn an_audited_certificate_has_a_report_too() {
    let folder = TempDir::new().expect("a folder");
    let (proof, html) = (folder.path().join("proof.json"), folder.path().join("audit.html"));
    check(&["--certificate", &proof.display().to_string()]).expect(1);
    let args = ["audit", SKEW, &proof.display().to_string(), "--report", &html.display().to_string()]
        .map(str::to_owned);
    assert!(margay(args).expect(0).stdout.starts_with("accepted: violated"));
    assert!(fs::read_to_string(html).expect("it was written").contains("Write skew"));
}

#[test]
fn a_run_has_a_report_with_curves_and_every_engine() {
    let args = [
        "run",
        "sim:si",
        "--claim",
        "serializable",
        "--workload",
        "write-skew",
        "--transactions",
        "300",
        "--engine",
        "auto,solve",
        "--json",
    ];
    let json = margay(args).json();
    let report = &json["report"];
    assert!(report["checks"].as_array().is_some_and(|checks| checks.len() >= 2), "{}", report["checks"]);
    let plots: Vec<&str> = report["series"]["curves"]
        .as_array()
        .expect("curves")
        .iter()
        .filter_map(|curve| curve["plot"].as_str())
        .collect();
    for plot in ["Throughput", "Latency of transactions", "Abort rate", "Overlap ratio", "Memory"] {
        assert!(plots.contains(&plot), "{plot}: {plots:?}");
    }
    assert_eq!(json["run"]["seed"], report["again"]["seed"]);
}

/// A run that serves, and the address that it prints.
fn serve(more: &[&str]) -> (Child, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_margay"))
        .args(["run", "sim:si", "--claim", "serializable", "--workload", "write-skew", "--clients", "4"])
        .arg("--no-report")
        .args(more)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    let url =
        lines.map_while(Result::ok).find_map(|line| line.strip_prefix("live page: ").map(str::to_owned));
    (child, url.expect("an address"))
}

fn get(url: &str) -> String {
    let (host, path) = url.trim_start_matches("http://").split_once('/').expect("a path");
    let mut stream = TcpStream::connect(host).expect("it listens");
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn other_machines_need_the_token() {
    let (mut child, url) = serve(&["--duration", "500ms", "--serve=0.0.0.0:0"]);
    let url = url.replace("0.0.0.0", "127.0.0.1");
    assert!(get(&url).starts_with("HTTP/1.1 200 "), "{url}");
    let (bare, token) = url.split_once("?token=").expect("a token");
    assert!(get(bare).starts_with("HTTP/1.1 403 ") && token.len() == 32, "{url}");
    assert_eq!(child.wait().expect("it ends").code(), Some(1), "and the exit status is the verdict's");
}

#[test]
fn the_live_page_ends_as_the_report() {
    let Some(mut browser) = Browser::start() else { return };
    let (mut child, url) = serve(&["--duration", "2s", "--serve", "--linger", "60s"]);
    browser.open(&url);
    browser.wait("document.querySelectorAll('.plots figure').length > 2");
    let folder = root().join("target/report");
    fs::create_dir_all(&folder).expect("target can be written");
    browser.screenshot(&folder.join("run-live.png"));
    browser.wait("document.querySelector('.word').textContent === 'violated'");
    browser.wait("!document.documentElement.hasAttribute('data-live')");
    assert!(browser.count("svg.cycle .arrow") >= 2 && browser.count(".checks tbody tr") >= 1);
    browser.open(&url);
    assert_eq!(browser.text(".word"), "violated", "a reload shows the same");
    browser.screenshot(&folder.join("run-end.png"));
    assert_eq!(browser.complaints(&url), Vec::<String>::new());
    child.kill().and_then(|()| child.wait()).expect("it can be ended");
}
