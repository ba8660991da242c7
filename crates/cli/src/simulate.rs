//! `margay simulate`.
//!
//! The simulation's options are data of `margay_simdb`; each becomes a flag here, so the two cannot
//! drift apart.

use std::io;
use std::sync::atomic::Ordering;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};
use margay_formats::Format;
use margay_report::table::wrap;
use margay_simdb::{
    Action, BuilderSink, Fault, JsonSink, Note, OPTIONS, Protocol, Recorded, Report, SimConfig, Sink, Start,
    simulate,
};

use crate::args::SimulateArgs;
use crate::args::named::offered;
use crate::failure::{Failure, Status};
use crate::progress::{Counter, Progress};
use crate::{convert, files, terminal};

/// The simulation that the flags describe.
pub struct Simulation(SimConfig);

/// Simulates, writes the history, and says what was done on purpose.
pub fn run(args: SimulateArgs) -> Result<Status, Failure> {
    let to = args.to.map_or_else(|| convert::format_of(&args.output), Ok)?;
    convert::must_be_writable(to)?;
    if files::is_stream(&args.output) && to == Format::Margay {
        return stream(&args);
    }
    let (history, report) = {
        let config = &args.simulation.0;
        let ended = Counter::of(config.transactions);
        let _progress = Progress::count(&format!("simulating {}", config.protocol), &ended, "", !args.quiet);
        let failed = |error: margay_history::Invalid| Failure::new(error.to_string());
        let mut sink = CountingSink { sink: BuilderSink::default(), ended };
        let report = simulate(config, &mut sink).map_err(failed)?;
        (sink.sink.finish().map_err(failed)?, report)
    };
    margay_formats::write(&history, to, files::target(&args.output))?;
    if args.quiet || files::is_stream(&args.output) {
        return Ok(Status::Fine);
    }
    terminal::print(&summary(&args, &report))
}

/// Counts the transactions that end.
struct CountingSink<S> {
    sink: S,
    ended: Counter,
}

impl<S: Sink> Sink for CountingSink<S> {
    type Error = S::Error;

    fn start(&mut self, start: &Start) -> Result<(), S::Error> {
        self.sink.start(start)
    }

    fn op(&mut self, op: Recorded<'_>) -> Result<(), S::Error> {
        if matches!(op.action, Action::Commit | Action::Abort | Action::Unknown) {
            self.ended.done.fetch_add(1, Ordering::Relaxed);
        }
        self.sink.op(op)
    }

    fn note(&mut self, note: Note<'_>) -> Result<(), S::Error> {
        self.sink.note(note)
    }
}

/// Writes lines as they are recorded, so that the history need not fit into memory.
fn stream(args: &SimulateArgs) -> Result<Status, Failure> {
    let mut sink = JsonSink::new(io::stdout().lock());
    let written = simulate(&args.simulation.0, &mut sink).and_then(|_| sink.flush());
    match written {
        // Who reads has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Status::Fine),
        Err(error) => Err(Failure::new(format!("standard output: {error}"))),
        Ok(()) => Ok(Status::Fine),
    }
}

fn summary(args: &SimulateArgs, report: &Report) -> String {
    let out = args.output.display();
    let mut text = format!(
        "{out}: {} transactions, {} operations; {} committed, {} refused by the database, {} of unknown outcome\n",
        report.transactions, report.operations, report.committed, report.refused, report.unknown
    );
    for (fault, _) in &args.simulation.0.faults {
        let (fired, visible) = report.count(*fault);
        text += &format!("  fault {fault}: fired {fired} times, {visible} times to be seen\n");
    }
    text + &format!("  again: {}\n", args.simulation.0.command(&out.to_string()))
}

impl clap::Args for Simulation {
    fn augment_args(command: Command) -> Command {
        let options = OPTIONS.iter().map(|&(name, value, help)| {
            let arg = Arg::new(name).long(name).value_name(value).help(sentence(help));
            let arg = arg.action(ArgAction::Append).hide_possible_values(true);
            match name {
                "protocol" => arg.value_parser(offered(|| Protocol::ALL.map(Protocol::name).to_vec())),
                "fault" => arg.value_parser(offered(|| Fault::ALL.map(Fault::name).to_vec())),
                _ => arg,
            }
        });
        command.args(options).mut_arg("protocol", |arg| arg.required(true))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for Simulation {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut config = SimConfig::default();
        for (name, ..) in OPTIONS {
            for value in matches.get_many::<String>(name).into_iter().flatten() {
                let refused = |error| clap::Error::raw(ErrorKind::ValueValidation, format!("{error}\n"));
                config.set(name, value).map_err(refused)?;
            }
        }
        Ok(Self(config))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// With a capital, as all help begins.
fn sentence(help: &str) -> String {
    let mut letters = help.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Workloads answer to what clients read, so they are played live, on threads and real clocks, and
/// not in simulated time.
const WORKLOADS: &str = "\
To run a workload of `margay run` that is not in SQL against the same databases, in real time:
  margay run sim:PROTOCOL[+FAULT[=P]…] --workload W --record OUT
Its histories differ from run to run; those of `simulate` do not.";

/// The protocols and faults, each with its line, and where workloads are.
pub fn names() -> String {
    let line = |name: &str, column: usize, text: &str| {
        wrap(text, 96, &format!("  {name:<column$} "), column + 3).join("\n")
    };
    let protocols = Protocol::ALL.map(|protocol| line(protocol.name(), 16, protocol.description()));
    let faults = Fault::ALL.map(|fault| line(fault.name(), 24, fault.description()));
    format!("Protocols:\n{}\n\nFaults:\n{}\n\n{WORKLOADS}", protocols.join("\n"), faults.join("\n"))
}
