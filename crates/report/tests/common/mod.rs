//! What the tests of reports share: reports of the corpus, and a browser.
#![allow(dead_code, reason = "every test file uses some of it")]

pub mod browser;
pub mod schema;

use std::fs;
use std::path::{Path, PathBuf};

use margay::{Decision, Options};
use margay_history::History;
use margay_levels::Level;
use margay_report::view::{Again, Stats};
use margay_report::{Report, Source};
use margay_verdict::{Budget, Question, Verdict};

/// The root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace exists")
}

/// Where what tests make can be looked at.
pub fn artefacts() -> PathBuf {
    let folder = root().join("target/report");
    fs::create_dir_all(&folder).expect("target can be written");
    folder
}

/// A history of the corpus and a level that it breaks.
pub struct Entry {
    /// `folder-name`.
    pub name: String,
    pub history: History,
    pub level: Level,
}

/// The histories of the corpus that break a level, each with the first level that its file names.
pub fn corpus() -> Vec<Entry> {
    let mut paths: Vec<PathBuf> = fs::read_dir(root().join("corpus"))
        .expect("the corpus is there")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.is_dir())
        .flat_map(|folder| {
            fs::read_dir(folder).expect("readable").map(|entry| entry.expect("readable").path())
        })
        .filter(|path| path.extension().is_some_and(|extension| extension == "hist"))
        .collect();
    paths.sort();
    paths.iter().filter_map(|path| entry(path)).collect()
}

fn entry(path: &Path) -> Option<Entry> {
    let text = fs::read_to_string(path).expect("readable");
    let fails = text.lines().find_map(|line| line.strip_prefix("# fails: "))?;
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let history = margay_testkit::parse(&lines.join(" | "))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let question = |level: &Level| Question { real_time: false, ..Question::new(*level) };
    let violated = |level: &Level| {
        let verdict = decide(&history, question(level)).verdict;
        matches!(verdict, Verdict::Violated(_))
    };
    // Not every level of the list is decided by every engine for every construct.
    let level = fails.split(", ").filter_map(|name| name.parse().ok()).find(violated)?;
    let part = |path: Option<&std::ffi::OsStr>| path.expect("it has one").to_string_lossy().into_owned();
    let name = format!("{}-{}", part(path.parent().and_then(Path::file_name)), part(path.file_stem()));
    Some(Entry { name, history, level })
}

fn decide(history: &History, question: Question) -> Decision {
    margay::decide(history, question, &Options::default(), &Budget::unlimited())
}

/// The report of a history.
pub fn report(history: &History, level: Level, subject: &str) -> Report {
    let question = Question { real_time: false, ..Question::new(level) };
    let answer = decide(history, question);
    Report::new(Source {
        history,
        subject,
        level: level.name(),
        question: Some(question),
        engine: answer.engine,
        verdict: &answer.verdict,
        translation: margay_verdict::Translation::Recorded,
        budget: &Budget::unlimited(),
        audited: answer.audited.word(),
        faults: Vec::new(),
        stats: stats(history),
        again: Again {
            command: Some(format!("margay check {subject} --level {level}")),
            audit: "--certificate FILE keeps it for margay audit".to_owned(),
            seed: None,
        },
        curves: true,
    })
}

/// Sizes of a history, and times that are always the same.
pub fn stats(history: &History) -> Stats {
    Stats {
        transactions: history.txn_count(),
        operations: history.op_count(),
        sessions: history.session_count(),
        read_seconds: 0.0002,
        check_seconds: 0.0031,
        peak_rss_bytes: Some(20 << 20),
    }
}
