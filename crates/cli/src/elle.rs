//! `margay elle`: the command line of elle-cli, answered by Margay's engines.
//!
//! # Algorithm
//! Each model is a level, and the engines decide it. A model that is no level is ruled out by what they find, and holds if a level that is stronger does. An anomaly is
//! looked for at the weakest levels that forbid it. What is found is told under Elle's names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use margay::{Assume, Options, ambiguities, assumed};
use margay_formats::Format;
use margay_history::History;
use margay_levels::model::boundary;
use margay_levels::{Anomaly, Level, Model};
use margay_verdict::{Budget, Finding, Question, Verdict, explain};
use serde_json::{Value, json};

use crate::failure::{Failure, Status};
use crate::{duration, files, terminal};

/// What elle-cli's models are; the history itself tells which it is.
const MODELS: [&str; 11] = [
    "list-append",
    "rw-register",
    "bank",
    "counter",
    "set",
    "set-full",
    "long-fork",
    "cas-register",
    "mutex",
    "comments",
    "sequential",
];

/// The options of elle-cli.
#[derive(Args)]
#[command(
    after_help = "Exit status: 0 true, 1 false, 2 bad usage or unreadable input, 3 unknown. See docs/ELLE.md."
)]
pub struct ElleArgs {
    /// The histories
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The workload; the history tells, so it need not be said
    #[arg(long, short, value_parser = MODELS)]
    model: Option<String>,
    /// The format of the histories, instead of finding it out
    #[arg(long, short)]
    format: Option<ElleFormat>,
    /// The consistency models that must hold
    #[arg(long, short, value_delimiter = ',', default_value = "strict-serializable", value_parser = model)]
    consistency_models: Vec<Model>,
    /// Anomalies that must not occur, besides
    #[arg(long, short, value_delimiter = ',', value_parser = anomaly)]
    anomalies: Vec<Anomaly>,
    /// Print all that was found as a JSON object
    #[arg(long, short)]
    verbose: bool,
    /// How to print the result
    #[arg(long, default_value = "text")]
    output: Output,
    /// Write the explanations here, a file for each kind of anomaly
    #[arg(long, short)]
    directory: Option<PathBuf>,
    /// Versions of each register follow session order
    #[arg(long)]
    sequential_keys: bool,
    /// Versions of each register follow real time
    #[arg(long)]
    linearizable_keys: bool,
    /// Who reads a register and then writes it made the later version: always so
    #[arg(long)]
    wfr_keys: bool,
    /// Give up on a history after this time: 500ms, 10s, 2m
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    timeout: Option<Duration>,
    #[command(flatten)]
    ignored: Ignored,
}

/// What elle-cli takes and Margay has no use for.
#[derive(Args)]
struct Ignored {
    #[arg(long, short = 's', hide = true)]
    cycle_search_timeout: Option<u64>,
    #[arg(long, short = 'p', hide = true)]
    plot_format: Option<String>,
    #[arg(long, short = 't', hide = true)]
    plot_timeout: Option<u64>,
    #[arg(long, short = 'b', hide = true)]
    max_plot_bytes: Option<u64>,
    #[arg(long, short = 'g', hide = true)]
    group_size: Option<u64>,
    #[arg(long, short = 'n', hide = true)]
    allow_negative_balances: bool,
    #[arg(long, hide = true)]
    max_transfer: Option<u64>,
    #[arg(long, short = 'o', hide = true)]
    total_amount: Option<u64>,
}

/// A format of elle-cli.
#[derive(Clone, Copy, ValueEnum)]
enum ElleFormat {
    /// EDN
    Edn,
    /// JSON
    Json,
}

/// How to print.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// `FILE true`, `FILE false` or `FILE unknown`
    Text,
    /// One object
    Json,
}

fn model(name: &str) -> Result<Model, String> {
    name.parse().map_err(|unknown: margay_levels::UnknownName| unknown.to_string())
}

fn anomaly(name: &str) -> Result<Anomaly, String> {
    name.parse().map_err(|unknown: margay_levels::UnknownName| unknown.to_string())
}

/// What came of one history.
#[derive(Default)]
struct Outcome {
    /// Whether something was not decided.
    open: bool,
    findings: Vec<Told>,
}

/// A finding, in the recorder's labels and in words.
#[derive(PartialEq, Eq)]
struct Told {
    anomaly: Anomaly,
    transactions: Vec<u64>,
    explanation: String,
}

impl Told {
    fn of(history: &History, finding: &Finding) -> Self {
        let transactions = finding.txns.iter().map(|&txn| history.txn_label(txn)).collect();
        Self { anomaly: finding.anomaly, transactions, explanation: explain::finding(history, finding) }
    }
}

/// Reads, asks, prints; one history after the other.
pub fn run(args: ElleArgs) -> Result<Status, Failure> {
    let mut worst = Status::Fine;
    for path in &args.files {
        let history = read(path, &args)?;
        let outcome = check(&history, &args);
        let (word, status) = match (outcome.findings.is_empty(), outcome.open) {
            (false, _) => (json!(false), Status::Violated),
            (true, true) => (json!("unknown"), Status::Unknown),
            (true, false) => (json!(true), Status::Fine),
        };
        if let Some(directory) = &args.directory {
            write_texts(directory, &outcome.findings)?;
        }
        if args.verbose || args.output == Output::Json {
            let mut object = object(&word, &outcome.findings);
            object["ambiguities"] = notes(&history).into();
            terminal::print_json(&serde_json::to_string_pretty(&object).expect("plain JSON"))?;
        } else {
            terminal::print(&format!("{}\t{}", path.display(), word.as_str().unwrap_or(&word.to_string())))?;
        }
        worst = if worst == Status::Violated || status == Status::Fine { worst } else { status };
    }
    Ok(worst)
}

fn read(path: &Path, args: &ElleArgs) -> Result<History, Failure> {
    let format = args.format.map(|format| match format {
        ElleFormat::Edn => Format::Edn,
        ElleFormat::Json => Format::ElleJson,
    });
    let (loaded, _) = files::read_history(path, format, false)?;
    assume(loaded.history, args.sequential_keys, args.linearizable_keys)
}

/// The history with the version orders that follow from what is taken for granted.
pub fn assume(history: History, sequential_keys: bool, linearizable_keys: bool) -> Result<History, Failure> {
    let assume = Assume { sequential_keys, linearizable_keys };
    if assume == Assume::default() {
        return Ok(history);
    }
    let orders = assumed(&history, assume)
        .map_err(|what| Failure::new(format!("nothing can be assumed of its keys: {what}")))?;
    history.with_version_orders(orders).map_err(|invalid| Failure::new(invalid.what))
}

/// The writes that reads cannot tell apart, in words; a few. They are no violation.
pub fn notes(history: &History) -> Vec<String> {
    if history.op_count() > LARGE {
        return Vec::new();
    }
    ambiguities(history).iter().take(NOTES).map(|found| found.show(history)).collect()
}

/// In larger histories nobody looks for them.
const LARGE: usize = 1_000_000;

/// How many are told.
const NOTES: usize = 3;

fn check(history: &History, args: &ElleArgs) -> Outcome {
    let mut outcome = Outcome::default();
    for &model in &args.consistency_models {
        match model.level() {
            Some(level) => outcome.ask(history, level, args.timeout, |_| true),
            None => {
                let implied = Model::StrongSerializable.implies(model);
                let forbidden = |anomaly| model.prohibits(anomaly);
                outcome.ask(history, Level::StrictSerializable, args.timeout, forbidden);
                outcome.open |= !implied;
            }
        }
    }
    for &wanted in &args.anomalies {
        for level in wanted.weakest_forbidding() {
            outcome.ask(history, level, args.timeout, |anomaly| anomaly.implies(wanted));
        }
    }
    outcome
}

impl Outcome {
    /// Asks at a level, and takes what `counts` of what was found.
    fn ask(
        &mut self,
        history: &History,
        level: Level,
        limit: Option<Duration>,
        counts: impl Fn(Anomaly) -> bool,
    ) {
        let budget = limit.map_or(Budget::unlimited(), |limit| Budget::unlimited().with_time(limit));
        let decision = margay::decide(history, Question::new(level), &Options::default(), &budget);
        let history = decision.about(history);
        match &decision.verdict {
            Verdict::Holds(_) | Verdict::Clean => {}
            Verdict::Unknown(_) => self.open = true,
            Verdict::Violated(findings) => {
                for finding in findings.iter().filter(|finding| counts(finding.anomaly)) {
                    let told = Told::of(history, finding);
                    if !self.findings.contains(&told) {
                        self.findings.push(told);
                    }
                }
            }
        }
    }
}

/// Elle calls a read that differs from an earlier one of its transaction `internal`, too.
fn elles_name(anomaly: Anomaly) -> &'static str {
    match anomaly {
        Anomaly::NonRepeatableRead => Anomaly::Internal.name(),
        other => other.name(),
    }
}

fn by_name(findings: &[Told]) -> BTreeMap<&'static str, Vec<&Told>> {
    let mut all: BTreeMap<&'static str, Vec<&Told>> = BTreeMap::new();
    findings.iter().for_each(|finding| all.entry(elles_name(finding.anomaly)).or_default().push(finding));
    all
}

/// Elle's result map.
fn object(word: &Value, findings: &[Told]) -> Value {
    let case = |told: &&Told| json!({"transactions": told.transactions, "explanation": told.explanation});
    let names = by_name(findings);
    let cases: BTreeMap<_, Vec<Value>> =
        names.iter().map(|(name, all)| (*name, all.iter().map(case).collect())).collect();
    let boundary = boundary(findings.iter().map(|finding| finding.anomaly));
    let sorted = |models: Vec<Model>| {
        let mut names: Vec<_> = models.into_iter().map(Model::name).collect();
        names.sort_unstable();
        names
    };
    json!({
        "valid?": word,
        "anomaly-types": names.keys().collect::<Vec<_>>(),
        "anomalies": cases,
        "not": sorted(boundary.not),
        "also-not": sorted(boundary.also_not),
    })
}

/// A file of explanations for each kind of anomaly.
fn write_texts(directory: &Path, findings: &[Told]) -> Result<(), Failure> {
    std::fs::create_dir_all(directory)
        .map_err(|error| Failure::new(format!("{}: {error}", directory.display())))?;
    for (name, all) in by_name(findings) {
        let texts = all.iter().enumerate();
        let texts: Vec<String> =
            texts.map(|(i, told)| format!("{name} #{i}\n{}\n", told.explanation)).collect();
        files::write_text(&directory.join(format!("{name}.txt")), &texts.join("\n"))?;
    }
    Ok(())
}
