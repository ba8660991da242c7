//! The binary `margay`: flags, resolved once, become calls of the libraries; what they answer
//! becomes text, JSON and an exit status.
//!
//! # Invariants
//! - Exit status: 0 holds or clean, 1 violated, 2 bad usage or unreadable input, 3 unknown.
//! - Standard output carries results only; progress, warnings and errors go to standard error.
//! - No engine is named here: the library `margay` asks them.

mod args;
mod audit;
mod check;
#[cfg(feature = "cluster")]
mod cluster;
mod convert;
mod duration;
mod elle;
mod expected;
mod failure;
mod files;
mod level;
mod limits;
mod memory;
mod progress;
mod proxy;
mod report;
mod run;
mod serve;
mod simulate;
mod stream;
mod terminal;
mod token;
mod verify;
mod view;

use std::path::Path;
use std::process::ExitCode;
use std::{fs, io};

use args::{Command, CommandLine};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use failure::{Failure, Status};

/// Engines hand what one thread has made to another that lets it go: this allocator does not mind.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const START: &str = "\
Margay decides whether a recorded database history is possible under an isolation level, and proves its answer.

  margay run                                   drive a database, record, verify; try `margay run sim:si --claim serializable`
  margay proxy postgres://… -- COMMAND         relay an application's connections, record, verify
  margay check HISTORY --level serializable    decide (any format; exit status 0 holds, 1 violated, 3 unknown)
  margay simulate --protocol ssi OUT           a history from a simulated database
  margay report RESULT.json --to html          show what --json printed again; also: text, junit, dot, svg
  margay convert IN OUT                        rewrite a history in another format
  margay levels                                the isolation levels; also: anomalies, profiles, explain NAME
  margay --help                                all commands; `margay check --help` for one
";

fn main() -> ExitCode {
    let status = run(parsed()).unwrap_or_else(|failure| {
        failure.print();
        Status::Failed
    });
    status.into()
}

/// The command line. Whoever forgets the level is told where the levels are.
fn parsed() -> CommandLine {
    CommandLine::try_parse().unwrap_or_else(|error| {
        let no_level = error.kind() == ErrorKind::MissingRequiredArgument
            && error.to_string().contains("--level <LEVEL>\n\nUsage");
        let _ = error.print();
        if no_level {
            eprintln!("Which level? `margay levels` lists them; serializable is the usual question.");
        }
        std::process::exit(error.exit_code())
    })
}

fn run(line: CommandLine) -> Result<Status, Failure> {
    let Some(command) = line.command else { return terminal::print(START) };
    match command {
        Command::Run(args) => run::run(*args),
        Command::Proxy(args) => proxy::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Check(args) => check::run(args),
        Command::Audit(args) => audit::run(args),
        Command::Elle(args) => elle::run(args),
        Command::Report(args) => report::run(args),
        Command::Convert(args) => convert::run(args),
        Command::Simulate(args) => simulate::run(args),
        Command::Levels => terminal::print(&margay_levels::render::levels_table()),
        Command::Anomalies => terminal::print(&margay_levels::render::anomalies_table()),
        Command::Profiles => terminal::print(&margay_levels::render::profiles_table()),
        Command::Explain { name } => explain(&name),
        Command::Completions { shell } => completions(shell),
        Command::Man { folder: None } => manual(),
        Command::Man { folder: Some(folder) } => manuals(&folder),
    }
}

fn explain(name: &str) -> Result<Status, Failure> {
    if let Some(text) = margay_levels::render::explain(name) {
        return terminal::print(&text);
    }
    let near = margay_levels::render::suggestions(name);
    Err(Failure::new(if near.is_empty() {
        format!("nothing is named `{name}`; see `margay levels`, `margay anomalies` and `margay profiles`")
    } else {
        format!("nothing is named `{name}`; did you mean {}?", near.join(", "))
    }))
}

fn completions(shell: clap_complete::Shell) -> Result<Status, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut CommandLine::command(), "margay", &mut script);
    terminal::print(&String::from_utf8_lossy(&script))
}

/// The page of the whole program.
fn manual() -> Result<Status, Failure> {
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(CommandLine::command()).render(&mut page);
    rendered.map_err(|error| Failure::new(format!("the manual page: {error}")))?;
    terminal::print_document(&String::from_utf8_lossy(&page))
}

/// One page for each command: margay.1, margay-run.1 and so on.
fn manuals(folder: &Path) -> Result<Status, Failure> {
    let failed = |error: io::Error| Failure::new(format!("{}: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(CommandLine::command(), folder).map_err(failed)?;
    Ok(Status::Fine)
}
