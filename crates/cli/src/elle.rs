//! `margay elle`: the command line of elle-cli, answered by Margay's engines.
//!
//! # Algorithm
//! Most models are levels, and the engines decide them. A model that is no level holds if a level
//! that implies it holds, and is ruled out by a proof that refutes it; otherwise the answer is
//! `unknown`. An anomaly is absent if a level that forbids it holds. What is found is told under
//! Elle's names.
//!
//! # Invariants
//! `true` and `false` both stand on what the audit accepted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use margay::{Assume, Options, ambiguities, assumed};
use margay_audit::reach::boundary;
use margay_audit::{Reach, reach};
use margay_formats::Format;
use margay_history::History;
use margay_levels::{Anomaly, Level, Model};
use margay_report::explain;
use margay_verdict::{Budget, Finding, Question, Translation, Verdict};
use serde_json::{Value, json};

use crate::failure::{Failure, Status};
use crate::files::Unread;
use crate::{duration, files, limits, terminal};

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
    /// The workload; by default it is detected from the history
    #[arg(long, short, value_parser = MODELS)]
    model: Option<String>,
    /// The format of the histories, instead of detecting it
    #[arg(long, short)]
    format: Option<ElleFormat>,
    /// The consistency models that must hold
    #[arg(long, short, value_delimiter = ',', default_value = "strict-serializable", value_parser = model)]
    consistency_models: Vec<Model>,
    /// More anomalies that must not occur
    #[arg(long, short, value_delimiter = ',', value_parser = anomaly)]
    anomalies: Vec<Anomaly>,
    /// Print all findings as a JSON object
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
    /// A transaction that reads a register and then writes it made the later version; always on
    #[arg(long)]
    wfr_keys: bool,
    /// Give up on a history after this time: 500ms, 10s, 2m
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    timeout: Option<Duration>,
    /// Give up when the process holds more memory than this: 500M, 4G. By default half of the
    /// machine's memory
    #[arg(long, value_name = "SIZE", value_parser = limits::size)]
    memory: Option<u64>,
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
    findings: Vec<ElleFinding>,
}

/// A finding, in the recorder's labels and in words.
#[derive(Clone, PartialEq, Eq)]
struct ElleFinding {
    anomaly: Anomaly,
    transactions: Vec<u64>,
    explanation: String,
    reach: Reach,
}

impl ElleFinding {
    fn of(
        history: &History,
        question: Question,
        finding: &Finding,
        translation: Translation,
        budget: &Budget,
    ) -> Self {
        let transactions = finding.txns.iter().map(|&txn| history.txn_label(txn)).collect();
        let reach = reach(history, question, finding, translation, budget);
        let explanation = explain::finding_with(history, finding, &reach);
        Self { anomaly: finding.anomaly, transactions, explanation, reach }
    }
}

/// What was said at a level.
enum Said {
    Holds,
    /// At least one finding.
    Violated(Vec<ElleFinding>),
    Open,
}

/// Reads, asks, prints; one history after the other.
pub fn run(args: ElleArgs) -> Result<Status, Failure> {
    let mut worst = Status::Fine;
    for path in &args.files {
        let budget = limits::budget(args.timeout, args.memory);
        let history = match read(path, &args, &budget) {
            Err(Unread::Exhausted(_)) => None,
            read => Some(read?),
        };
        let outcome = match &history {
            Some(history) => check(history, &args, &budget),
            None => Outcome { open: true, ..Outcome::default() },
        };
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
            object["ambiguities"] = history.as_ref().map(notes).unwrap_or_default().into();
            terminal::print_json(&serde_json::to_string_pretty(&object).expect("plain JSON"))?;
        } else {
            terminal::print(&format!("{}\t{}", path.display(), word.as_str().unwrap_or(&word.to_string())))?;
        }
        worst = if worst == Status::Violated || status == Status::Fine { worst } else { status };
    }
    Ok(worst)
}

fn read(path: &Path, args: &ElleArgs, budget: &Budget) -> Result<History, Unread> {
    let format = args.format.map(|format| match format {
        ElleFormat::Edn => Format::Edn,
        ElleFormat::Json => Format::ElleJson,
    });
    let (loaded, _) = files::read_history(path, format, false, budget)?;
    Ok(assume(loaded.history, args.sequential_keys, args.linearizable_keys)?)
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

fn check(history: &History, args: &ElleArgs, budget: &Budget) -> Outcome {
    let mut outcome = Outcome::default();
    let ask = |level| ask(history, level, budget);
    for &model in &args.consistency_models {
        match model.meaning() {
            Some(level) => outcome.any_holds(&[level], ask, |_| true),
            None => outcome.model(model, ask),
        }
    }
    for &wanted in &args.anomalies {
        let is_wanted = |told: &ElleFinding| told.anomaly.implies(wanted);
        outcome.any_holds(&wanted.weakest_forbidding(), ask, is_wanted);
    }
    outcome
}

impl Outcome {
    /// A model that is no level.
    fn model(&mut self, model: Model, ask: impl Fn(Level) -> Said + Copy) {
        let mut stronger = Outcome::default();
        stronger.any_holds(&model.implied_by(), ask, |told| told.reach.models.contains(&model));
        if !stronger.open {
            return self.add(stronger.findings);
        }
        let weaker = model.implied_levels().into_iter().find_map(|level| match ask(level) {
            Said::Violated(found) => Some(found),
            _ => None,
        });
        match weaker {
            Some(found) => self.add(found),
            None => self.open = true,
        }
    }

    /// Nothing is wrong if one of the levels holds. If none does, what `counts` of all that was
    /// found is wrong; if nothing counts, that is open.
    fn any_holds(
        &mut self,
        levels: &[Level],
        ask: impl Fn(Level) -> Said,
        counts: impl Fn(&ElleFinding) -> bool,
    ) {
        let mut counting = Vec::new();
        for &level in levels {
            match ask(level) {
                Said::Holds => return,
                Said::Violated(found) => counting.extend(found.into_iter().filter(&counts)),
                Said::Open => {}
            }
        }
        self.open |= counting.is_empty();
        self.add(counting);
    }

    fn add(&mut self, found: Vec<ElleFinding>) {
        for told in found {
            if !self.findings.contains(&told) {
                self.findings.push(told);
            }
        }
    }
}

/// Asks at a level. Whatever is decided was audited.
fn ask(history: &History, level: Level, budget: &Budget) -> Said {
    let question = Question::new(level);
    let decision = margay::decide(history, question, &Options::default(), budget);
    let translation = decision.claim(history, question).map_or_else(Default::default, |c| c.translation);
    let history = decision.about(history);
    match &decision.verdict {
        Verdict::Holds(_) | Verdict::Clean => Said::Holds,
        Verdict::Violated(findings) => Said::Violated(
            findings
                .iter()
                .map(|finding| ElleFinding::of(history, question, finding, translation, budget))
                .collect(),
        ),
        Verdict::Unknown(_) => Said::Open,
    }
}

/// Elle calls a read that differs from an earlier one of its transaction `internal`, too.
fn elles_name(anomaly: Anomaly) -> &'static str {
    match anomaly {
        Anomaly::NonRepeatableRead => Anomaly::Internal.name(),
        other => other.name(),
    }
}

fn by_name(findings: &[ElleFinding]) -> BTreeMap<&'static str, Vec<&ElleFinding>> {
    let mut all: BTreeMap<&'static str, Vec<&ElleFinding>> = BTreeMap::new();
    findings.iter().for_each(|finding| all.entry(elles_name(finding.anomaly)).or_default().push(finding));
    all
}

/// Elle's result map.
fn object(word: &Value, findings: &[ElleFinding]) -> Value {
    let case =
        |told: &&ElleFinding| json!({"transactions": told.transactions, "explanation": told.explanation});
    let names = by_name(findings);
    let cases: BTreeMap<_, Vec<Value>> =
        names.iter().map(|(name, all)| (*name, all.iter().map(case).collect())).collect();
    let (not, also_not) = boundary(findings.iter().map(|told| &told.reach)).names();
    json!({
        "valid?": word,
        "anomaly-types": names.keys().collect::<Vec<_>>(),
        "anomalies": cases,
        "not": not,
        "also-not": also_not,
    })
}

/// A file of explanations for each kind of anomaly.
fn write_texts(directory: &Path, findings: &[ElleFinding]) -> Result<(), Failure> {
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
