//! What a report says, as data: the object of `--json`, which every other form is made from.
//!
//! # Invariants
//! - The fields beside [`Report::report`] are pinned: they are the whole object of `--json` as it
//!   always was. What is new goes into [`Details`].
//! - `docs/REPORT.schema.json` describes this object; a test holds both together.
//! - Nothing here refers to a history: a report that was written to a file can be shown again
//!   without it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::picture::Picture;
use crate::series::Series;

/// A verdict in one word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Word {
    /// Proved to be possible.
    Holds,
    /// Nothing found, nothing proved.
    Clean,
    /// Impossible.
    Violated,
    /// No answer.
    Unknown,
    /// A run that has not ended; only the live page shows it.
    Running,
}

impl Word {
    /// The word itself.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Word::Holds => "holds",
            Word::Clean => "clean",
            Word::Violated => "violated",
            Word::Unknown => "unknown",
            Word::Running => "running",
        }
    }
}

/// All that is said of one history and one level.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The verdict.
    pub verdict: Word,
    /// The level in question.
    pub level: String,
    /// Who answered.
    pub engine: Option<String>,
    /// Why there is no answer.
    pub reason: Option<String>,
    /// What was found, the most telling first.
    pub anomalies: Vec<Anomaly>,
    /// The weakest of Elle's models that the anomalies rule out.
    #[serde(default)]
    pub not: Vec<String>,
    /// The stronger ones, which are ruled out with them.
    #[serde(default)]
    pub also_not: Vec<String>,
    /// Sizes and times.
    pub stats: Stats,
    /// What was run, if a database was driven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
    /// What people want to see besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Box<Details>>,
    /// Fields of other versions, kept as they are.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// One anomaly.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Anomaly {
    /// Its name.
    pub name: String,
    /// The recorder's labels of the transactions that show it.
    pub transactions: Vec<u64>,
    /// Line by line what happened.
    pub explanation: String,
}

/// Sizes and times.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Stats {
    /// Transactions of the history.
    pub transactions: usize,
    /// Its operations.
    pub operations: usize,
    /// Its sessions.
    pub sessions: usize,
    /// How long reading took.
    pub read_seconds: f64,
    /// How long deciding took, the audit included.
    pub check_seconds: f64,
    /// The most memory the process had.
    pub peak_rss_bytes: Option<u64>,
}

/// What was run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// The database's address.
    pub target: String,
    /// Its name and version.
    pub dbms: String,
    /// The level that it was asked for, in its own words.
    pub level: String,
    /// What clients asked.
    pub workload: String,
    /// How many clients there were.
    pub clients: u32,
    /// The seed of their plans.
    pub seed: u64,
    /// Transactions that committed.
    pub committed: u64,
    /// Transactions that aborted.
    pub aborted: u64,
    /// Transactions whose clients never learned.
    pub unknown: u64,
    /// How long it took.
    pub seconds: f64,
    /// Why clients gave up before their time.
    pub dropped: Vec<String>,
    /// The command that does it again.
    pub again: String,
    /// What else the runner tells.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// What people want to see besides the verdict.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Details {
    /// The version of this part of the schema.
    pub version: u32,
    /// What the history is called.
    pub subject: String,
    /// The verdict in one sentence.
    pub headline: String,
    /// When the history was checked, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// What the level promises, in plain words.
    pub promise: String,
    /// The sentence that the database does not promise the level, if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beyond: Option<String>,
    /// Whether real time was assumed beyond the level.
    pub real_time: bool,
    /// What kind of proof there is.
    pub proof: Option<String>,
    /// What exactly the proof proves, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// What came of auditing it: `accepted`, `rejected`, `skipped` or `nothing`.
    pub audited: String,
    /// The certificates that the audit rejected on the way: bugs of engines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<EngineFault>,
    /// How to do it again.
    pub again: Again,
    /// What each engine said, where more than one was asked.
    #[serde(default)]
    pub checks: Vec<Check>,
    /// What was found and does not count: documented deviations of the product, and what the user
    /// accepts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expected: Vec<Expected>,
    /// The first anomalies with their pictures, in the order of [`Report::anomalies`].
    #[serde(default)]
    pub cases: Vec<Case>,
    /// What happened over time.
    #[serde(default)]
    pub series: Option<Series>,
    /// The SQL of the transactions of the first anomaly, in the order in which it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sql: Option<String>,
}

/// A certificate that the audit rejected.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EngineFault {
    /// The engine that made it.
    pub engine: String,
    /// What it was to prove: `holds` or `violated`.
    pub claimed: String,
    /// Why the audit rejected it.
    pub reason: String,
}

/// What exactly a proof proves: the rules by which the history was read.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Claim {
    /// `level`, or `mechanisms`: a breach of mechanisms is no violation of a level.
    pub about: String,
    /// What statements and conditions mean: `postgresql`, `mysql`, …
    pub dialect: String,
    /// What statements were taken for: `recorded`, `executed`, `rows-stable`, …
    pub translation: String,
    /// What `read-committed` lets a statement see: `item` or `statement`.
    pub reading: String,
    /// The profile whose mechanisms are broken.
    pub profile: Option<String>,
    /// `independently`, or `re-executed`: the audit then runs the engine's own code once more.
    pub checked: String,
    /// All that in words, where it is not what goes without saying.
    pub words: Vec<String>,
}

/// How to do it again.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Again {
    /// The command that gives this report.
    pub command: Option<String>,
    /// The command that audits the proof, or what to do to be able to.
    pub audit: String,
    /// The seed, if clients' plans came from one.
    pub seed: Option<u64>,
}

/// What one engine said.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Check {
    /// Its name.
    pub engine: String,
    /// The level that it was asked for.
    pub level: String,
    /// Its verdict.
    pub verdict: Word,
    /// Why it has no answer, or what it found first.
    pub reason: Option<String>,
    /// How long it took.
    pub seconds: f64,
}

/// Something that was found and does not count.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Expected {
    /// The name of the deviation that the product documents; nothing if the user accepts it.
    pub deviation: Option<String>,
    /// The anomaly.
    pub anomaly: String,
    /// The recorder's labels of the transactions that show it.
    pub transactions: Vec<u64>,
    /// Why it does not count.
    pub reason: String,
}

/// One anomaly for someone who has never heard of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Case {
    /// What it is called in plain words.
    pub title: String,
    /// What it means.
    pub meaning: String,
    /// What happened here, step by step; each a sentence.
    pub steps: Vec<String>,
    /// Why the level does not allow that.
    pub impossible: String,
    /// The levels that this proof refutes, weakest first.
    pub breaks: Vec<String>,
    /// The levels that this proof does not refute. Where finding out would take a search, a level
    /// is in neither list.
    pub allowed: Vec<String>,
    /// The picture, unless it would be too large.
    #[serde(default)]
    pub picture: Option<Picture>,
}
