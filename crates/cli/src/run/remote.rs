//! `margay run --verify-at`: one of several machines, which records its own clients and streams the
//! recording to `margay verify`. What one machine saw is not verified by itself.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use margay_drivers::Wishes;
use margay_remote::{Machine, Recorder};
use margay_runner::{Counts, Extras, Job, Monitor, Output, Team};
use serde_json::json;

use super::interrupt::Interrupts;
use super::{drive, record};
use crate::args::RunArgs;
use crate::failure::{Failure, Status};
use crate::progress::Progress;
use crate::{duration, terminal, token, verify};

/// How far the verifier may be behind when nobody says. What it has not got is in memory.
const MAX_LAG: Duration = Duration::from_secs(10);

#[derive(Args)]
pub struct RemoteArgs {
    /// One of several load machines: record on this machine (--record), and stream the recording to
    /// `margay verify --listen`, which verifies all machines together. All machines run the same
    /// command, except for --machine and --record (docs/CLUSTER.md)
    #[arg(long, value_name = "HOST:PORT", requires_all = ["machine", "record"], conflicts_with_all = [
        "start", "fault", "script", "reproduce", "certificate", "certificate_recovery", "claim", "horizon", "serve",
        "accept", "report", "junit", "dot", "svg", "require_transactions", "engine", "timeout", "stats", "strict"])]
    pub verify_at: Option<String>,
    /// Which machine this is, of how many: 3/8. Each machine runs --clients; --transactions are those
    /// of all machines together. The first machine creates and drops the tables
    #[arg(long, value_name = "I/N", requires = "verify_at", value_parser = verify::machine)]
    pub machine: Option<(usize, usize)>,
    /// The file with the token that the verifier and all recorders share; otherwise the environment
    /// variable MARGAY_CLUSTER_TOKEN has it
    #[arg(long, value_name = "FILE", requires = "verify_at")]
    pub token_file: Option<PathBuf>,
    /// How long to try to reach the verifier, at the beginning and when the connection breaks
    #[arg(long, value_name = "TIME", default_value = "30s", requires = "verify_at", value_parser = duration::parse)]
    pub patience: Duration,
}

/// The other machines, by way of the verifier.
struct Others<'a>(&'a Recorder);

impl Team for Others<'_> {
    fn place(&self) -> (u32, u32) {
        let Machine { number, of } = self.0.machine();
        (number as u32 - 1, of as u32)
    }

    fn clock(&self) -> Instant {
        self.0.clock()
    }

    fn may_prepare(&self) -> Result<bool, String> {
        self.0.may_prepare()
    }

    fn begin(&self) -> Result<(), String> {
        self.0.begin()
    }

    fn promise(&self, before: i64) {
        self.0.promise(before);
    }

    fn verified(&self) -> i64 {
        self.0.verified()
    }

    fn is_over(&self) -> bool {
        self.0.is_over()
    }

    fn end(&self, why: &str) {
        self.0.end(why);
    }

    fn wait_for_others(&self) {
        self.0.wait_for_others();
    }
}

/// Writes to the disk first, and then to the verifier.
struct Both {
    disk: Output<'static>,
    recorder: Recorder,
}

impl Write for Both {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        self.disk.write_all(lines)?;
        self.recorder.write(lines);
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.disk.flush()
    }
}

/// Records, streams, and says what the verifier says.
pub fn run(args: &RunArgs, verifier: &str) -> Result<Status, Failure> {
    let (Some((number, of)), Some(path)) = (args.remote.machine, &args.record) else {
        return Err(Failure::new("--verify-at needs --machine I/N and --record FILE"));
    };
    if args.workload.program().is_some() {
        return Err(Failure::new(format!(
            "{}: a workload of SQL programs cannot be streamed yet, only one of reads and writes",
            args.workload.name
        )));
    }
    let secret = token::read(args.remote.token_file.as_deref())?;
    let target = drive::target(args);
    let failed = |error: String| Failure::new(format!("{target}: {error}"));
    let setting = Job::setting(&args.workload, args.clients, args.seed);
    let monitor = Arc::new(Monitor::default());
    let interrupts = Interrupts::listen(&monitor)?;
    let wishes = Wishes {
        statement_timeout: args.statement_timeout,
        promises: args.promises,
        joins: number > 1,
        ..Wishes::default()
    };
    let database = margay_drivers::open_for(&target, &setting, wishes).map_err(failed)?;
    if database.address().is_none() {
        return Err(failed("--verify-at needs a server that all machines can reach".to_owned()));
    }
    let (levels, _) = drive::levels(database.as_ref(), args).map_err(failed)?;
    let job = drive::job(args, levels);
    let disk = record::open(path)?;
    let machine = Machine { number, of };
    let (subject, patience) = (subject(&job), args.remote.patience);
    let recorder = Recorder::start(verifier, machine, secret, subject, patience, Instant::now());
    let output: Output = Box::new(Both { disk, recorder: recorder.clone() });
    let team = Others(&recorder);
    let extras = Extras {
        output: Some(output),
        max_lag: Some(args.max_lag.unwrap_or(MAX_LAG)),
        silence: args.give_up_after,
        team: Some(&team),
        ..Extras::default()
    };
    let recording = {
        let _progress = Progress::follow(drive::live_line(&monitor, &job), !args.common.quiet);
        margay_runner::run(database.as_ref(), &job, &monitor, extras)
    };
    let recording = recording.map_err(|why| {
        // The verifier hears of it, too.
        recorder.end(&why);
        _ = recorder.verdict();
        failed(why)
    })?;
    let verdict = recorder.verdict();
    interrupts.end();
    recording.dropped.iter().for_each(|why| terminal::warn(why));
    say(args, (number, of), recording.counts, verdict)
}

/// What all machines must have in common.
fn subject(job: &Job) -> String {
    let Job { workload, clients, seed, retries, .. } = job;
    format!(
        "{workload} at {}, {clients} clients each, seed {seed}, retries {retries}, transactions {:?}, duration {:?}",
        drive::level_names(job),
        job.transactions,
        job.duration
    )
}

/// Prints what was recorded here, and what the verifier says of all machines.
fn say(
    args: &RunArgs,
    (number, of): (usize, usize),
    counts: Counts,
    verdict: Result<String, String>,
) -> Result<Status, Failure> {
    let (status, text) = match &verdict {
        Ok(said) => {
            let (status, text) = said.split_once('\n').unwrap_or(("", said));
            (status.parse().map_or(Status::Unknown, Status::of), text.to_owned())
        }
        Err(why) => (Status::Unknown, format!("unknown: {why}")),
    };
    if args.common.json {
        let (verdict, reason) = text.split_once(": ").map_or((text.as_str(), None), |(w, r)| (w, Some(r)));
        terminal::print_json(&crate::view::one_line(&json!({
            "verdict": verdict, "reason": reason, "machine": number, "machines": of,
            "committed": counts.committed, "aborted": counts.aborted, "unknown": counts.unknown,
        })))?;
    } else if !args.common.quiet {
        terminal::print(&format!(
            "machine {number} of {of}: {} committed, {} aborted, {} unknown\nall machines: {text}\n",
            counts.committed, counts.aborted, counts.unknown
        ))?;
    }
    Ok(status)
}
