//! The corpora of other tools, with what is documented of them.
//!
//! The folder is not part of the project: it lies beside the workspace, or where the environment
//! variable `MARGAY_CORPORA` says. Tests that want it print that they are skipped where it is
//! absent.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

use margay_levels::Level;

/// One documented answer.
#[derive(Clone, Debug)]
pub struct Case {
    /// The file or folder of the history.
    pub path: PathBuf,
    /// The same, below the corpora, with `/` between its parts.
    pub name: String,
    /// The level.
    pub level: Level,
    /// Whether the database is assumed to keep real time.
    pub real_time: bool,
    /// Whether it is documented to hold.
    pub holds: bool,
}

/// Where the corpora are, if they are there.
#[must_use]
pub fn corpora() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora");
    let path = std::env::var_os("MARGAY_CORPORA").map_or_else(beside, PathBuf::from);
    path.is_dir().then_some(path)
}

/// Every documented answer of the corpora at `root`, in a fixed order.
#[must_use]
pub fn cases(root: &Path) -> Vec<Case> {
    let mut all = Cases { root, all: Vec::new() };
    all.awdit();
    all.tables("mtc");
    all.tables("polysi");
    all.tables("isovista");
    all.dbcop();
    all.cobra();
    all.veristrong();
    all.vbox();
    all.elle("elle-tests", 2, 5, 4);
    all.elle("elle-cli", 2, 3, usize::MAX);
    all.all.sort_by(|a, b| (&a.name, a.level).cmp(&(&b.name, b.level)));
    all.all
}

struct Cases<'a> {
    root: &'a Path,
    all: Vec<Case>,
}

/// The levels behind the short names of the tables.
const SHORT: [(&str, Level); 5] = [
    ("RC", Level::BeReadCommitted),
    ("RA", Level::ReadAtomic),
    ("CC", Level::Causal),
    ("SI", Level::StrongSessionSnapshotIsolation),
    ("SER", Level::StrongSessionSerializable),
];

impl Cases<'_> {
    fn add(&mut self, name: &str, level: Level, holds: bool) {
        let path = self.root.join(name);
        if path.exists() {
            let real_time = name.starts_with("vbox-coo");
            self.all.push(Case { path, name: name.to_string(), level, real_time, holds });
        }
    }

    /// The folder is the strongest level that holds, of three in a row.
    fn awdit(&mut self) {
        let folders = ["none", "read-committed", "read-atomic", "causal"];
        let levels = [Level::BeReadCommitted, Level::ReadAtomic, Level::Causal];
        for (strength, folder) in folders.iter().enumerate() {
            for name in files(self.root, &format!("awdit/{folder}")) {
                for (i, &level) in levels.iter().enumerate() {
                    self.add(&name, level, i < strength);
                }
            }
        }
    }

    /// Lines of a file's name and sentences like `SER, SI violated; CC, RA, RC ok`.
    fn tables(&mut self, set: &str) {
        for line in lines(&self.root.join(set).join("VERDICTS.tsv")) {
            let Some((name, said)) = line.split_once('\t') else { continue };
            let said = said.rsplit('\t').next().unwrap_or(said).replace("(lost update)", "");
            // Levels wait for the word that judges them.
            let mut waiting = Vec::new();
            for word in said.split(|c: char| !c.is_ascii_alphabetic()) {
                match word {
                    "violated" | "ok" => {
                        waiting
                            .drain(..)
                            .for_each(|level| self.add(&format!("{set}/{name}"), level, word == "ok"));
                    }
                    _ => waiting.extend(SHORT.iter().filter(|(short, _)| *short == word).map(|s| s.1)),
                }
            }
        }
    }

    /// A column per level.
    fn dbcop(&mut self) {
        for line in lines(&self.root.join("dbcop/VERDICTS.tsv")) {
            let columns: Vec<&str> = line.split('\t').collect();
            for (said, (_, level)) in columns.iter().skip(3).zip(SHORT) {
                self.add(&format!("dbcop/{}.bincode", columns[0]), level, *said == "ok");
            }
        }
    }

    /// One level per line.
    fn cobra(&mut self) {
        for line in lines(&self.root.join("cobra/VERDICTS.tsv")) {
            let columns: Vec<&str> = line.split('\t').collect();
            if let [name, _, "SER", said, ..] = columns[..] {
                self.add(&format!("cobra/{name}"), Level::StrongSessionSerializable, said == "holds");
            }
        }
    }

    /// Recorded at a serializable level.
    fn veristrong(&mut self) {
        for name in ["BL-1k", "tpcc-1k"] {
            self.add(&format!("veristrong/{name}"), Level::StrongSessionSerializable, true);
        }
    }

    /// None of them is serializable, in Vbox's setting: the database keeps real time.
    fn vbox(&mut self) {
        let mut names: Vec<String> = std::fs::read_dir(self.root.join("vbox-coo"))
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names.iter().for_each(|name| self.add(&format!("vbox-coo/{name}"), Level::Serializable, false));
    }

    /// Rows that name a model of ours and add no assumption; columns: the models, the answer,
    /// options.
    fn elle(&mut self, set: &str, models: usize, valid: usize, options: usize) {
        for line in lines(&self.root.join(set).join("EXPECTED.tsv")) {
            let columns: Vec<&str> = line.split('\t').collect();
            let plain = columns.get(options).is_none_or(|&o| o == "-");
            let whole = matches!(columns.get(1), Some(&"list-append" | &"rw-register" | &"closed-predicate"));
            let (Some(models), Some(valid)) = (columns.get(models), columns.get(valid)) else { continue };
            if !plain || !whole || !matches!(*valid, "true" | "false") {
                continue;
            }
            let models = models.replace("(default)", "").replace("--consistency-models", "");
            // Of several models one may be the violated one; only a single one tells.
            if let Ok(level) = models.trim().parse() {
                self.add(&format!("{set}/{}", columns[0]), level, *valid == "true");
            }
        }
    }
}

fn lines(path: &Path) -> Vec<String> {
    let text = read_to_string(path).unwrap_or_default();
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_string).collect()
}

/// All files below a folder, as names below the root.
fn files(root: &Path, folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let name = format!("{folder}/{name}");
        if entry.path().is_dir() { found.extend(files(root, &name)) } else { found.push(name) }
    }
    found.sort();
    found
}
