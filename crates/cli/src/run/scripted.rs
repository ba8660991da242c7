//! `margay run --workload hermitage` and `coo`: a table of what each level prevents, by trying it.
//!
//! # Invariants
//! Whatever an interleaving shows is also checked against what the database promises at the level:
//! a broken promise is a violation. An interleaving that no engine decides makes the result
//! `unknown`, unless it is violated.

use std::fmt::Write;
use std::fs;
use std::time::Duration;

use margay::{Decision, Options};
use margay_drivers::Database;
use margay_formats::Format;
use margay_history::History;
use margay_levels::Level;
use margay_report::Report;
use margay_report::view::{Again, Check};
use margay_runner::scripted::{Performance, play};
use margay_runner::{Job, choose_level, level_name};
use margay_verdict::{Budget, Question, Verdict};
use margay_workloads::scripted::Line;
use margay_workloads::{Scripted, coo, hermitage};
use serde::Serialize;

use super::CLAIMS_TIME;
use super::account::quoted;
use super::drive::target;
use crate::args::RunArgs;
use crate::failure::{Failure, Status};
use crate::progress::Progress;
use crate::terminal::{self, Paint};
use crate::view::{Frame, ReportView, Stats, one_line};
use crate::{check, files, report};

/// How long the check of one interleaving may take.
const INTERLEAVING_LIMIT: Duration = Duration::from_secs(10);

/// The object of `--json`.
#[derive(Serialize)]
struct Table {
    workload: &'static str,
    dbms: String,
    levels: Vec<Row>,
}

/// What one level prevents.
#[derive(Serialize)]
struct Row {
    level: String,
    promises: &'static str,
    /// For each column its word.
    prevents: Vec<Cell>,
    /// The interleavings whose history the promised level does not allow.
    broken: Vec<String>,
    /// How many no engine could decide.
    undecided: usize,
    /// Which they are, and why.
    why_undecided: Vec<String>,
    interleavings: usize,
}

/// One interleaving at one level, and what was decided about it.
struct Tried {
    level: String,
    promised: Level,
    name: String,
    history: History,
    decision: Decision,
}

#[derive(Serialize)]
struct Cell {
    anomaly: String,
    result: &'static str,
    #[serde(skip)]
    mark: &'static str,
}

/// Plays all interleavings at all levels, or at those that were asked for.
pub fn run(args: &RunArgs, which: Scripted) -> Result<Status, Failure> {
    let target = target(args);
    let to_stdout = report::one_stream(args.common.json, &args.output, [])?;
    let failed = |error: String| Failure::new(format!("{target}: {error}"));
    let setting = Job::setting(&args.workload, args.clients, args.seed);
    let progress = Progress::show(&format!("trying {} on {target}", args.workload), !args.common.quiet);
    let database = margay_drivers::open(&target, &setting).map_err(failed)?;
    let (name, version) = database.identity();
    let dbms = format!("{name} {version}");
    let mut table = Table { workload: args.workload.name, dbms, levels: Vec::new() };
    let mut tried = Vec::new();
    for (own_name, promised) in levels(database.as_ref(), args).map_err(failed)? {
        let mut stage = Stage::new(database.as_ref(), &own_name, promised);
        let prevents = match which {
            Scripted::Hermitage => stage.hermitage(),
            Scripted::Coo => stage.coo(),
        };
        let prevents = prevents.map_err(failed)?;
        let (row, all) = stage.finish(prevents);
        table.levels.push(row);
        tried.extend(all);
    }
    drop(database);
    drop(progress);
    keep(args, &tried)?;
    if let Some(report) = report_of(args, &table, &tried) {
        report::write(&args.output, &report)?;
    }
    if args.common.json {
        terminal::print_json(&one_line(&table))?;
    } else if !args.common.quiet && !to_stdout {
        terminal::print(&table.text(which, Paint::for_stdout()))?;
    }
    Ok(status(&tried))
}

fn status(tried: &[Tried]) -> Status {
    match tried.iter().min_by_key(|tried| weight(tried)) {
        Some(worst) => check::status(&worst.decision.verdict),
        None => Status::Fine,
    }
}

/// What counts most comes first.
fn weight(tried: &Tried) -> u32 {
    match tried.decision.verdict {
        Verdict::Violated(_) => 0,
        Verdict::Unknown(_) => 1,
        Verdict::Clean => 2,
        Verdict::Holds(_) => 3,
    }
}

/// Writes a history for each interleaving into the folder of `--record`, and a certificate into
/// that of `--certificate`.
fn keep(args: &RunArgs, tried: &[Tried]) -> Result<(), Failure> {
    for folder in [&args.record, &args.certificate].into_iter().flatten() {
        fs::create_dir_all(folder).map_err(|error| {
            Failure::new(format!("{}: {error}; {} needs a folder here", folder.display(), args.workload))
        })?;
    }
    for one in tried {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' };
        let name: String = format!("{}-{}", one.level, one.name).chars().map(plain).collect();
        if let Some(folder) = &args.record {
            let path = folder.join(format!("{name}.jsonl"));
            margay_formats::write(&one.history, Format::Margay, files::target(&path))?;
        }
        let proved = one.decision.verdict.certificate().is_some();
        if let Some(folder) = args.certificate.as_ref().filter(|_| proved) {
            let path = folder.join(format!("{name}.json"));
            let question = Question::new(one.promised);
            check::write_certificate(&path, &one.history, Some(question), &one.decision)?;
        }
    }
    Ok(())
}

/// A report of the interleaving that counts most, with a line for each; nothing if nothing was
/// tried.
fn report_of(args: &RunArgs, table: &Table, tried: &[Tried]) -> Option<Report> {
    let main = tried.iter().min_by_key(|tried| weight(tried))?;
    let broken = tried.iter().filter(|tried| weight(tried) == 0).count();
    let undecided = tried.iter().filter(|tried| weight(tried) == 1).count();
    let levels: Vec<&str> = table.levels.iter().map(|row| row.level.as_str()).collect();
    let (target, levels) = (quoted(&target(args)), levels.join(","));
    let command = format!("margay run {target} --workload {} --level {levels}", table.workload);
    let budget = Budget::unlimited().with_time(CLAIMS_TIME);
    let again = Again {
        command: Some(command.clone()),
        audit: "--record FOLDER and --certificate FOLDER save the histories and proofs for margay audit"
            .to_owned(),
        seed: None,
    };
    let frame = Frame {
        subject: table.workload,
        budget: &budget,
        real_time: false,
        instants: false,
        again,
        curves: false,
    };
    let stats = Stats::of(&main.history, Duration::ZERO, main.decision.took);
    let mut view = ReportView::framed(&main.history, main.promised.name(), &main.decision, stats, frame);
    let shown = match weight(main) {
        0 | 1 => format!("; first {} at {}", main.name, main.level),
        _ => String::new(),
    };
    let details = view.details();
    details.headline = format!(
        "{} interleavings of {} on {} at {levels}: {broken} broke a promise, {undecided} undecided{shown}",
        tried.len(),
        table.workload,
        table.dbms
    );
    details.checks = tried.iter().map(Tried::line).collect();
    Some(view.report)
}

impl Tried {
    /// The name and the reason, if it is undecided.
    fn undecided(&self) -> Option<String> {
        match &self.decision.verdict {
            Verdict::Unknown(why) => Some(format!("{}: {why}", self.name)),
            _ => None,
        }
    }

    /// The line of a report, or of JUnit.
    fn line(&self) -> Check {
        let verdict = &self.decision.verdict;
        let reason = match verdict {
            Verdict::Unknown(why) => Some(why.to_string()),
            Verdict::Violated(findings) => findings.first().map(|finding| finding.anomaly.name().to_owned()),
            Verdict::Holds(_) | Verdict::Clean => None,
        };
        Check {
            engine: format!("{} at {}", self.name, self.level),
            level: self.promised.name().to_owned(),
            verdict: margay_report::gather::word(verdict),
            reason,
            seconds: self.decision.took.as_secs_f64(),
        }
    }
}

/// The levels to try, weakest first, and what they promise.
fn levels(database: &dyn Database, args: &RunArgs) -> Result<Vec<(String, Level)>, String> {
    let offered: Vec<String> = database.levels().into_iter().rev().map(level_name).collect();
    let asked = if args.level.is_empty() { &offered } else { &args.level };
    asked.iter().map(|name| choose_level(database, Some(name))).collect()
}

/// One level of a database.
struct Stage<'a> {
    database: &'a dyn Database,
    own_name: &'a str,
    promised: Level,
    tried: Vec<Tried>,
    /// Patterns of Coo that no engine could call prevented or possible, and why.
    unclear: Vec<String>,
}

impl<'a> Stage<'a> {
    fn new(database: &'a dyn Database, own_name: &'a str, promised: Level) -> Self {
        Self { database, own_name, promised, tried: Vec::new(), unclear: Vec::new() }
    }

    fn finish(self, prevents: Vec<Cell>) -> (Row, Vec<Tried>) {
        let Stage { promised, tried, unclear, .. } = self;
        let undecided: Vec<String> = tried.iter().filter_map(Tried::undecided).collect();
        let broken = tried.iter().filter(|tried| weight(tried) == 0).map(|tried| tried.name.clone());
        let row = Row {
            level: level_name(self.own_name),
            promises: promised.name(),
            prevents,
            broken: broken.collect(),
            undecided: undecided.len(),
            why_undecided: undecided.into_iter().chain(unclear).collect(),
            interleavings: tried.len(),
        };
        (row, tried)
    }

    /// Plays an interleaving, and checks it against the promise.
    fn play(&mut self, name: String, lines: Vec<Line>) -> Result<Performance, String> {
        let performance = play(self.database, self.own_name, lines)?;
        let (level, promised) = (level_name(self.own_name), self.promised);
        let history = performance.history.clone();
        let decision = decide(&history, promised);
        self.tried.push(Tried { level, promised, name, history, decision });
        Ok(performance)
    }

    fn hermitage(&mut self) -> Result<Vec<Cell>, String> {
        let mut cells = Vec::new();
        for anomaly in hermitage::ANOMALIES {
            let mut results = Vec::new();
            for test in hermitage::TESTS.iter().filter(|test| test.anomaly == anomaly) {
                let name = format!("{anomaly}: {}", test.variant);
                let played = self.play(name, test.lines())?.played;
                results.push((test.writes, test.happened(&played)));
            }
            let prevents = hermitage::prevents(&results);
            let (result, mark) = (prevents.word(), prevents.mark());
            cells.push(Cell { anomaly: anomaly.to_owned(), result, mark });
        }
        Ok(cells)
    }

    /// A pattern is prevented if what is left of it is serializable in real time: the third
    /// transaction, which reads what is left, comes last.
    fn coo(&mut self) -> Result<Vec<Cell>, String> {
        let mut cells = Vec::new();
        for pattern in coo::PATTERNS {
            let anomaly = format!("{} {}", pattern.class, pattern.name);
            let history = self.play(anomaly.clone(), pattern.lines())?.history;
            let strict = decide(&history, Level::StrictSerializable).verdict;
            if let Verdict::Unknown(why) = &strict {
                self.unclear.push(format!("whether {anomaly} is prevented: {why}"));
            }
            let (result, mark) = match strict {
                Verdict::Holds(_) | Verdict::Clean => ("prevented", "✓"),
                Verdict::Violated(_) => ("possible", "—"),
                Verdict::Unknown(_) => ("unknown", "?"),
            };
            cells.push(Cell { anomaly, result, mark });
        }
        Ok(cells)
    }
}

fn decide(history: &History, level: Level) -> Decision {
    let budget = Budget::unlimited().with_time(INTERLEAVING_LIMIT);
    margay::decide(history, Question::new(level), &Options::default(), &budget)
}

impl Table {
    fn text(&self, which: Scripted, paint: Paint) -> String {
        let mut out = format!(
            "{}: what its levels prevent (✓ prevented, R/O prevented for reads, — possible)\n\n",
            paint.bold(&self.dbms)
        );
        match which {
            Scripted::Hermitage => self.levels_down(&mut out),
            Scripted::Coo => self.levels_across(&mut out),
        }
        out.push('\n');
        for level in &self.levels {
            let _ = writeln!(out, "  {}", level.kept());
        }
        out
    }

    /// A line for each level.
    fn levels_down(&self, out: &mut String) {
        let wide = self.levels.iter().map(|level| level.level.len()).max().unwrap_or_default();
        let names = self.levels.first().map_or(&[][..], |level| &level.prevents);
        let _ = write!(out, "  {:wide$}", "");
        names.iter().for_each(|cell| *out += &format!("  {}", cell.anomaly));
        for level in &self.levels {
            let _ = write!(out, "\n  {:wide$}", level.level);
            for cell in &level.prevents {
                let _ = write!(out, "  {:w$}", cell.mark, w = cell.anomaly.len());
            }
        }
        out.push('\n');
    }

    /// A line for each anomaly.
    fn levels_across(&self, out: &mut String) {
        let names = self.levels.first().map_or(&[][..], |level| &level.prevents);
        let wide = names.iter().map(|cell| cell.anomaly.len()).max().unwrap_or_default();
        let _ = write!(out, "  {:wide$}", "");
        self.levels.iter().for_each(|level| *out += &format!("  {}", level.level));
        for (at, name) in names.iter().enumerate() {
            let _ = write!(out, "\n  {:wide$}", name.anomaly);
            for level in &self.levels {
                let _ = write!(out, "  {:w$}", level.prevents[at].mark, w = level.level.len());
            }
        }
        out.push('\n');
    }
}

impl Row {
    /// Whether the promise was kept, in a sentence.
    fn kept(&self) -> String {
        let shown = match self.broken.as_slice() {
            [] => "nothing that this forbids".to_owned(),
            broken => format!("what this forbids: {}", broken.join("; ")),
        };
        let undecided = match self.undecided {
            0 => String::new(),
            some => format!(", {some} undecided"),
        };
        let mut out = format!(
            "{} promises {}: {} interleavings showed {shown}{undecided}",
            self.level, self.promises, self.interleavings
        );
        self.why_undecided.iter().for_each(|why| out += &format!("\n    undecided: {why}"));
        out
    }
}
