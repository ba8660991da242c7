//! `margay proxy`: relay an application's connections, record what it does, decide, and say it.
//!
//! There are two questions. Without `--claim` the database is judged: did it keep what it promises
//! at the level that transactions asked for? With `--claim` the application is judged: did it run
//! into anomalies that its level allows?

mod account;
mod judge;

use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use margay::Choice;
use margay_drivers::Target;
use margay_formats::Format;
use margay_proxy::{Limit, Options, Output, Outputs, Proxy, Recorded, Secrecy, united};
use margay_runner::Monitor;
use margay_verdict::default_memory;

use crate::args::ProxyArgs;
use crate::check;
use crate::expected::Expectation;
use crate::failure::{Failure, Status};
use crate::progress::{Progress, ProgressState};
use crate::run::interrupt::{Ending, Interrupts};
use crate::run::record;
use crate::{files, limits, report, terminal};

/// Where clients connect when nobody says, and no command is started.
const PORT: u16 = 6432;
/// How long connections may stay open at the end when nobody says.
const DRAIN: Duration = Duration::from_secs(5);
/// How often it is looked whether the command has ended.
const LOOK: Duration = Duration::from_millis(20);

/// A relay that is over.
pub struct Done {
    pub recorded: Recorded,
    /// How the command ended, if one was started.
    pub command: Option<ExitStatus>,
    pub ending: Ending,
}

/// Relays, records, decides, prints.
pub fn run(args: &ProxyArgs) -> Result<Status, Failure> {
    let kept = [args.record.as_deref(), args.certificate.as_deref()];
    let to_stdout = report::one_stream(args.common.json, &args.output, kept)?;
    let expectation = Expectation::read(args.accept.as_deref(), !args.strict)?;
    let done = relay(args)?;
    let judgement = judge::judge(args, &done, &expectation)?;
    let main = judgement.main();
    let verdict = &main.main().decision.verdict;
    if let Some(path) = &args.certificate {
        let question = check::question(&judge::task(args, main.main().level, Choice::Auto, 1));
        check::write_certificate(path, main.main().history, question, &main.main().decision)?;
    }
    let mut view = account::view(args, &done, &judgement);
    judgement.aside.show(verdict, main.main().level.name(), view.details());
    report::write(&args.output, &view.report)?;
    if args.common.json {
        terminal::print_json(&view.json())?;
    } else if !args.common.quiet && !to_stdout {
        terminal::print(&account::account(args, &done, &judgement, &view))?;
    }
    expectation.status(&judgement.aside, check::status(verdict))
}

/// Recording may take half of the memory; the other half is for the check.
fn limit(memory: Option<u64>) -> Option<Limit> {
    let half = memory.or_else(default_memory)? / 2;
    let budget = limits::budget(None, Some(half));
    Some(Box::new(move || {
        let ended = budget.poll_now().is_err();
        ended.then(|| format!("the recording ended when it took {} MiB, half of --memory", half >> 20))
    }))
}

/// Relays until the command has ended, or somebody interrupts.
fn relay(args: &ProxyArgs) -> Result<Done, Failure> {
    let (Target::Postgres(url) | Target::Mysql(url)) = &args.target else {
        return Err(Failure::new(
            "margay proxy relays to PostgreSQL, MariaDB and MySQL: give a target postgres://… or mysql://…",
        ));
    };
    let failed = |error: String| Failure::new(format!("{}: {error}", args.target));
    let monitor = Arc::new(Monitor::default());
    let interrupts = Interrupts::listen(&monitor)?;
    let outputs = args.record.as_deref().map(outputs).transpose()?;
    let options = Options {
        url: url.clone(),
        listen: listen(args)?,
        certificate: args.tls_cert.clone().zip(args.tls_key.clone()).map(<[PathBuf; 2]>::from),
        initial: args.initial,
        level: args.level,
        sole_writer: args.sole_writer,
        log: args.evidence == "log",
        unit_field: args.unit.clone(),
        outputs,
        secrecy: Secrecy::new(args.hash_values, &args.redact).map_err(Failure::new)?,
        limit: limit(args.common.memory),
    };
    let proxy = {
        let _progress =
            Progress::show(&format!("asking {} about its tables", args.target), !args.common.quiet);
        Proxy::start(options).map_err(failed)?
    };
    if let Some(warning) = proxy.warning() {
        terminal::tell("warning", warning);
    }
    if args.command.is_empty() && !args.common.quiet {
        terminal::tell("listening", &format!("{}; Ctrl-C ends and verifies", proxy.address()));
    }
    let mut child = start(args, &proxy)?;
    let command = {
        // A command has the terminal to itself.
        let told = proxy.progress();
        let line = move || {
            let (counts, (verified, violations)) = told();
            let details =
                format!("{} transactions, {verified} verified, {violations} violations", counts.total());
            ProgressState { details, ..ProgressState::phase("recording") }
        };
        let _progress = Progress::follow(line, !args.common.quiet && args.command.is_empty());
        wait(child.as_mut(), &monitor)?
    };
    let mut recorded = proxy.finish(args.drain.unwrap_or(DRAIN)).map_err(failed)?;
    let ending = interrupts.end();
    if let Some(path) = args.record.as_deref().filter(|path| !files::is_stream(path)) {
        for part in &recorded.parts {
            // What is known only at the end, such as rows that were looked up, belongs to the header.
            let path = part_path(path, part.place.unwrap_or(0));
            let logged = part.logged.as_ref().map(|logged| (logged_path(&path), &logged.history));
            for (path, history) in [(path.clone(), &part.history)].into_iter().chain(logged) {
                margay_formats::write(history, Format::Margay, files::target(&path))?;
                let failed = |error| Failure::new(format!("{}: {error}", path.display()));
                fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(failed)?;
            }
        }
    }
    if args.unit.is_some() {
        unite(&mut recorded)?;
    }
    Ok(Done { recorded, command, ending })
}

/// Joins the transactions of each request. The recording on disk stays what it was.
fn unite(recorded: &mut Recorded) -> Result<(), Failure> {
    for part in &mut recorded.parts {
        let histories = [Some(&mut part.history), part.logged.as_mut().map(|logged| &mut logged.history)];
        for history in histories.into_iter().flatten() {
            let united = united(history).map_err(|error| Failure::new(error.to_string()))?;
            if let Some(united) = united {
                *history = united;
            }
        }
    }
    Ok(())
}

/// Where clients connect: another address than this machine's own needs a word.
fn listen(args: &ProxyArgs) -> Result<SocketAddr, Failure> {
    let port = if args.command.is_empty() { PORT } else { 0 };
    let address = args.listen.unwrap_or(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    if !address.ip().is_loopback() && !args.listen_anywhere {
        return Err(Failure::new(format!(
            "{address} can be reached from other machines: --listen-anywhere allows it, and --tls-cert encrypts"
        )));
    }
    Ok(address)
}

/// The files of a recording's parts. A stream has the first part alone.
fn outputs(path: &Path) -> Result<Outputs, Failure> {
    let (path, mut first) = (path.to_owned(), Some(open(path)?));
    Ok(Box::new(move |place| match (place, files::is_stream(&path)) {
        (0, _) => Ok(first.take()),
        (_, true) => Ok(None),
        _ => open(&part_path(&path, place)).map(Some).map_err(|failure| io::Error::other(failure.text())),
    }))
}

/// The file of a part: `run.jsonl.zst`, `run.2.jsonl.zst`, …
pub fn part_path(path: &Path, place: usize) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (stem, extension) =
        name.split_once('.').map_or((&*name, String::new()), |(stem, rest)| (stem, format!(".{rest}")));
    if place == 0 { path.to_owned() } else { path.with_file_name(format!("{stem}.{}{extension}", place + 1)) }
}

/// The file of the same part with writes from the server's log: `run.log.jsonl.zst`.
pub fn logged_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (stem, rest) = name.split_once('.').unwrap_or((&*name, "jsonl"));
    path.with_file_name(format!("{stem}.log.{rest}"))
}

/// A part, which nobody else may read: it has what the application wrote.
fn open(path: &Path) -> Result<Output, Failure> {
    if !files::is_stream(path) {
        let failed = |error| Failure::new(format!("{}: {error}", path.display()));
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path).map_err(failed)?;
    }
    record::open(path)
}

/// Starts the command, with the addresses that the database's clients look for.
fn start(args: &ProxyArgs, proxy: &Proxy) -> Result<Option<Child>, Failure> {
    let [program, rest @ ..] = args.command.as_slice() else { return Ok(None) };
    let (address, [user, password, database]) = (proxy.address(), proxy.names());
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let mut command = Command::new(program);
    command.args(rest).env("DATABASE_URL", proxy.url());
    let names = if matches!(args.target, Target::Mysql(_)) {
        command.env("MYSQL_HOST", &host).env("MYSQL_TCP_PORT", &port).env_remove("MYSQL_UNIX_PORT");
        ["MYSQL_USER", "MYSQL_PWD", "MYSQL_DATABASE"]
    } else {
        command.env("PGHOST", &host).env("PGPORT", &port);
        command.env("PGSSLMODE", if args.tls_cert.is_some() { "require" } else { "disable" });
        command.env_remove("PGHOSTADDR").env_remove("PGSERVICE");
        ["PGUSER", "PGPASSWORD", "PGDATABASE"]
    };
    for (name, value) in names.into_iter().zip([user, password, database]) {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command.spawn().map(Some).map_err(|error| Failure::new(format!("{program}: {error}")))
}

/// Waits for the command, or for a signal. A command that is interrupted gets the signal from the
/// terminal, too.
fn wait(child: Option<&mut Child>, monitor: &Monitor) -> Result<Option<ExitStatus>, Failure> {
    let Some(child) = child else {
        while !monitor.stopped() {
            thread::sleep(LOOK);
        }
        return Ok(None);
    };
    let mut killed = None;
    loop {
        if let Some(status) = child.try_wait().map_err(|error| Failure::new(error.to_string()))? {
            return Ok(Some(status));
        }
        let stopped = *killed.get_or_insert_with(Instant::now);
        match monitor.stopped() {
            true if stopped.elapsed() > DRAIN => drop(child.kill()),
            true => {}
            false => killed = None,
        }
        thread::sleep(LOOK);
    }
}
