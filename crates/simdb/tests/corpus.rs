//! The corpus: every history's verdicts, recomputed by the naive engine.
//!
//! A file says which levels hold and which fail: the maximal ones that hold, the minimal ones that
//! fail, by implication. With `MARGAY_BLESS=1` the two lines are rewritten as the naive engine has
//! it; then read the difference before committing it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use margay_history::History;
use margay_levels::Level;
use margay_naive::holds;
use margay_verdict::{Budget, Question};

/// A file of the corpus.
struct Entry {
    path: PathBuf,
    text: String,
}

impl Entry {
    /// What the header line `# name: …` says.
    fn header(&self, name: &str) -> Option<&str> {
        let prefix = format!("# {name}: ");
        self.text.lines().find_map(|line| line.strip_prefix(&prefix))
    }

    /// The history: all lines that are no comments.
    fn history(&self) -> History {
        let lines: Vec<&str> = self.text.lines().filter(|line| !line.starts_with('#')).collect();
        match margay_testkit::parse(&lines.join(" | ")) {
            Ok(history) => history,
            Err(error) => panic!("{}: {error}", self.path.display()),
        }
    }
}

fn entries() -> Vec<Entry> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let folders =
        fs::read_dir(&root).expect("the corpus is there").map(|entry| entry.expect("readable").path());
    let files =
        folders.filter(|path| path.is_dir()).flat_map(|folder| fs::read_dir(folder).expect("readable"));
    let mut paths: Vec<PathBuf> = files.map(|entry| entry.expect("readable").path()).collect();
    paths.sort();
    let read = |path: PathBuf| Entry { text: fs::read_to_string(&path).expect("readable"), path };
    paths.into_iter().filter(|path| path.extension().is_some_and(|e| e == "hist")).map(read).collect()
}

/// By level, whether it holds.
fn judge(entry: &Entry) -> Vec<(Level, bool)> {
    let history = entry.history();
    let budget = Budget::unlimited().with_time(Duration::from_secs(20));
    let all = Level::ALL.into_iter().map(|level| match holds(&history, Question::new(level), &budget) {
        Ok(holds) => (level, holds),
        Err(why) => panic!("{}: {level}: {why}", entry.path.display()),
    });
    all.collect()
}

/// The levels that hold and are implied by no other that does.
fn maximal(verdicts: &[(Level, bool)]) -> String {
    let hold: Vec<Level> = verdicts.iter().filter(|v| v.1).map(|v| v.0).collect();
    names(hold.iter().filter(|l| !hold.iter().any(|m| m != *l && m.implies(**l))))
}

/// The levels that fail and imply no other that does.
fn minimal(verdicts: &[(Level, bool)]) -> String {
    let fail: Vec<Level> = verdicts.iter().filter(|v| !v.1).map(|v| v.0).collect();
    names(fail.iter().filter(|l| !fail.iter().any(|m| m != *l && l.implies(*m))))
}

fn names<'a>(levels: impl Iterator<Item = &'a Level>) -> String {
    let names: Vec<&str> = levels.map(|level| level.name()).collect();
    if names.is_empty() { "nothing".to_string() } else { names.join(", ") }
}

fn bless(entry: &Entry, holds: &str, fails: &str) {
    let line = |line: &str| match line {
        _ if line.starts_with("# holds: ") => format!("# holds: {holds}\n"),
        _ if line.starts_with("# fails: ") => format!("# fails: {fails}\n"),
        _ => format!("{line}\n"),
    };
    let text: String = entry.text.lines().map(line).collect();
    fs::write(&entry.path, text).expect("writable");
}

#[test]
fn verdicts_are_what_the_naive_engine_says() {
    let mut wrong = Vec::new();
    for entry in entries() {
        let verdicts = judge(&entry);
        let (holds, fails) = (maximal(&verdicts), minimal(&verdicts));
        if std::env::var_os("MARGAY_BLESS").is_some() {
            bless(&entry, &holds, &fails);
        } else if (entry.header("holds"), entry.header("fails")) != (Some(&holds), Some(&fails)) {
            wrong.push(format!("{}: holds {holds}; fails {fails}", entry.path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Who implies a level that fails must fail: a law of the judge.
#[test]
fn verdicts_respect_implication() {
    for entry in entries() {
        let verdicts = judge(&entry);
        for &(strong, _) in verdicts.iter().filter(|v| v.1) {
            let broken = verdicts.iter().find(|(weak, holds)| strong.implies(*weak) && !holds);
            assert_eq!(broken, None, "{}: {strong} holds", entry.path.display());
        }
    }
}

#[test]
fn every_file_says_why_and_whence() {
    let all = entries();
    for entry in &all {
        let missing = ["why", "source"].into_iter().find(|name| entry.header(name).is_none_or(str::is_empty));
        assert_eq!(missing, None, "{}", entry.path.display());
    }
    let count =
        |folder: &str| all.iter().filter(|e| e.path.parent().is_some_and(|p| p.ends_with(folder))).count();
    assert_eq!((count("3ts-coo"), count("vbox"), count("hermitage")), (55, 3, 16));
}
