//! `margay run --workload hermitage` and `coo`: a table of what each level prevents, by trying it.
//!
//! # Invariants
//! Whatever an interleaving shows is also checked against what the database promises at the level: a broken
//! promise is a violation.

use std::fmt::Write;
use std::time::Duration;

use margay::Options;
use margay_drivers::Database;
use margay_history::History;
use margay_levels::Level;
use margay_runner::scripted::{Performance, play};
use margay_runner::{Job, choose_level, level_name};
use margay_verdict::{Budget, Question, Verdict};
use margay_workloads::scripted::Line;
use margay_workloads::{Scripted, coo, hermitage};
use serde::Serialize;

use super::drive::target;
use crate::args::RunArgs;
use crate::failure::{Failure, Status};
use crate::progress::Progress;
use crate::terminal::{self, Paint};
use crate::view::one_line;

/// How long the check of one interleaving may take.
const LIMIT: Duration = Duration::from_secs(10);

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
    interleavings: usize,
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
    let failed = |error: String| Failure::new(format!("{target}: {error}"));
    let setting = Job::setting(&args.workload, args.clients, args.seed);
    let _progress = Progress::show(&format!("trying {} on {target}", args.workload), !args.common.quiet);
    let database = margay_drivers::open(&target, &setting).map_err(failed)?;
    let (name, version) = database.identity();
    let mut table =
        Table { workload: args.workload.name, dbms: format!("{name} {version}"), levels: Vec::new() };
    for (own_name, promised) in levels(database.as_ref(), args).map_err(failed)? {
        let mut stage = Stage::new(database.as_ref(), &own_name, promised);
        let prevents = match which {
            Scripted::Hermitage => stage.hermitage(),
            Scripted::Coo => stage.coo(),
        };
        let prevents = prevents.map_err(failed)?;
        table.levels.push(stage.row(prevents));
    }
    drop(database);
    drop(_progress);
    if args.common.json {
        terminal::print_json(&one_line(&table))?;
    } else if !args.common.quiet {
        terminal::print(&table.text(which, Paint::for_stdout()))?;
    }
    let kept = table.levels.iter().all(|level| level.broken.is_empty());
    Ok(if kept { Status::Fine } else { Status::Violated })
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
    broken: Vec<String>,
    undecided: usize,
    interleavings: usize,
}

impl<'a> Stage<'a> {
    fn new(database: &'a dyn Database, own_name: &'a str, promised: Level) -> Self {
        Self { database, own_name, promised, broken: Vec::new(), undecided: 0, interleavings: 0 }
    }

    fn row(self, prevents: Vec<Cell>) -> Row {
        let Stage { broken, undecided, interleavings, .. } = self;
        let level = level_name(self.own_name);
        Row { level, promises: self.promised.name(), prevents, broken, undecided, interleavings }
    }

    /// Plays, and holds what came of it against the promise.
    fn play(&mut self, name: String, lines: Vec<Line>) -> Result<Performance, String> {
        let performance = play(self.database, self.own_name, lines)?;
        self.interleavings += 1;
        match verdict(&performance.history, self.promised) {
            Verdict::Violated(_) => self.broken.push(name),
            Verdict::Unknown(_) => self.undecided += 1,
            Verdict::Holds(_) | Verdict::Clean => {}
        }
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

    /// A pattern is prevented if what is left of it is serializable in real time: the third transaction,
    /// which reads what is left, comes last.
    fn coo(&mut self) -> Result<Vec<Cell>, String> {
        let mut cells = Vec::new();
        for pattern in coo::PATTERNS {
            let anomaly = format!("{} {}", pattern.class, pattern.name);
            let history = self.play(anomaly.clone(), pattern.lines())?.history;
            let (result, mark) = match verdict(&history, Level::StrictSerializable) {
                Verdict::Holds(_) | Verdict::Clean => ("prevented", "✓"),
                Verdict::Violated(_) => ("possible", "—"),
                Verdict::Unknown(_) => ("unknown", "?"),
            };
            cells.push(Cell { anomaly, result, mark });
        }
        Ok(cells)
    }
}

fn verdict(history: &History, level: Level) -> Verdict {
    let budget = Budget::unlimited().with_time(LIMIT);
    margay::decide(history, Question::new(level), &Options::default(), &budget).verdict
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
        let told = match self.broken.as_slice() {
            [] => "nothing that this forbids".to_owned(),
            broken => format!("what this forbids: {}", broken.join("; ")),
        };
        let open = match self.undecided {
            0 => String::new(),
            some => format!(", {some} undecided"),
        };
        format!(
            "{} promises {}: {} interleavings showed {told}{open}",
            self.level, self.promises, self.interleavings
        )
    }
}
