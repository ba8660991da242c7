//! `margay proxy`: relay an application's connections, record what it does, decide, and say it.
//!
//! There are two questions. Without `--claim` the database is judged: did it keep what it promises at the level that
//! transactions asked for? With `--claim` the application is judged: did it run into anomalies that its level allows?

mod account;

use std::fs::{self, OpenOptions, Permissions};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use margay::{Audited, Choice, Decision, Options as Deciding};
use margay_drivers::Target;
use margay_formats::Format;
use margay_levels::Level;
use margay_proxy::{Options, OwnLevel, Proxy, Recorded};
use margay_runner::{Mechanisms, Monitor};
use margay_verdict::{Verdict, Why};

use crate::args::ProxyArgs;
use crate::check::{self, Task};
use crate::expected::Expectation;
use crate::failure::{Failure, Status};
use crate::level::Asked;
use crate::progress::Progress;
use crate::run::interrupt::{Ending, Interrupts};
use crate::run::record;
use crate::{files, limits, report, terminal};

/// Where clients connect when nobody says, and no command is started.
const PORT: u16 = 6432;
/// How long the check may take when nobody says.
const TIMEOUT: Duration = Duration::from_secs(60);
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
    /// The weakest level that transactions asked for, and what the database promises there.
    pub own: OwnLevel,
    pub promised: Level,
    /// What is verified.
    pub claim: Asked,
}

/// What one engine said.
pub struct Decided {
    pub level: Asked,
    pub decision: Decision,
}

/// Relays, records, decides, prints.
pub fn run(args: &ProxyArgs) -> Result<Status, Failure> {
    let kept = [args.record.as_deref(), args.certificate.as_deref()];
    let to_stdout = report::one_stream(args.common.json, &args.output, kept)?;
    let expectation = Expectation::read(args.accept.as_deref(), !args.strict)?;
    let done = relay(args)?;
    let mut decided = decide_all(args, &done);
    let decisions = decided.iter_mut().map(|decided| &mut decided.decision);
    let aside = expectation.sort(&done.recorded.history, decisions);
    let covered = covered(args, &done.recorded, &mut decided);
    if let Some(why) = shortfall(&done) {
        decided.iter_mut().for_each(|decided| soften(&why, &mut decided.decision));
    }
    let main = decisive(&decided, covered);
    if let Some(path) = &args.certificate {
        let question = check::question(&task(args, main.level, Choice::Auto));
        check::write_certificate(path, &done.recorded.history, question, &main.decision)?;
    }
    let mut view = account::view(args, &done, &decided, main);
    aside.show(&main.decision.verdict, main.level.name(), view.details());
    report::write(&args.output, &view.report)?;
    if args.common.json {
        terminal::print_json(&view.json())?;
    } else if !args.common.quiet && !to_stdout {
        terminal::print(&account::account(args, &done, &decided, &view))?;
    }
    expectation.status(&aside, check::status(&main.decision.verdict))
}

/// Relays until the command has ended, or somebody interrupts.
fn relay(args: &ProxyArgs) -> Result<Done, Failure> {
    let Target::Postgres(url) = &args.target else {
        return Err(Failure::new("margay proxy relays to PostgreSQL: give a target postgres://…"));
    };
    let failed = |error: String| Failure::new(format!("{}: {error}", args.target));
    let monitor = Arc::new(Monitor::default());
    let interrupts = Interrupts::listen(&monitor)?;
    let output = args.record.as_deref().map(open).transpose()?;
    let options = Options {
        url: url.clone(),
        listen: listen(args)?,
        initial: args.initial,
        level: args.level,
        sole_writer: args.sole_writer,
        output,
    };
    let proxy = {
        let _progress =
            Progress::show(&format!("asking {} about its tables", args.target), !args.common.quiet);
        Proxy::start(options).map_err(failed)?
    };
    if args.command.is_empty() && !args.common.quiet {
        terminal::tell("listening", &format!("{}; Ctrl-C ends and verifies", proxy.address()));
    }
    let mut child = start(args, &proxy)?;
    let command = {
        // A command has the terminal to itself.
        let told = proxy.progress();
        let line = move || {
            let (counts, (verified, violations)) = told();
            format!("recorded {} transactions; {verified} verified, {violations} violations;", counts.total())
        };
        let _progress = Progress::follow(line, !args.common.quiet && args.command.is_empty());
        wait(child.as_mut(), &monitor)?
    };
    let recorded = proxy.finish(args.drain.unwrap_or(DRAIN)).map_err(failed)?;
    let ending = interrupts.end();
    if let Some(path) = args.record.as_deref().filter(|path| !files::is_stream(path)) {
        // What is known only at the end, such as rows that were looked up, belongs to the header.
        margay_formats::write(&recorded.history, Format::Margay, files::target(path))?;
        let failed = |error| Failure::new(format!("{}: {error}", path.display()));
        fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
    }
    let own = recorded.levels.first().copied().flatten().unwrap_or(OwnLevel::ReadCommitted);
    let promised = own.promise(&recorded.version);
    let promised =
        promised.ok_or_else(|| failed(format!("no profile of PostgreSQL {}", recorded.version)))?;
    let claim = args.claim.unwrap_or(Asked::Level(promised));
    Ok(Done { recorded, command, ending, own, promised, claim })
}

/// Where clients connect: another address than this machine's own needs a word.
fn listen(args: &ProxyArgs) -> Result<SocketAddr, Failure> {
    let port = if args.command.is_empty() { PORT } else { 0 };
    let address = args.listen.unwrap_or(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    if !address.ip().is_loopback() && !args.listen_anywhere {
        return Err(Failure::new(format!(
            "{address} can be reached from other machines, without encryption: --listen-anywhere allows it"
        )));
    }
    Ok(address)
}

/// The recording, which nobody else may read: it has what the application wrote.
fn open(path: &Path) -> Result<margay_proxy::Output, Failure> {
    if !files::is_stream(path) {
        let failed = |error| Failure::new(format!("{}: {error}", path.display()));
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path).map_err(failed)?;
    }
    record::open(path)
}

/// Starts the command, with the addresses that PostgreSQL's clients look for.
fn start(args: &ProxyArgs, proxy: &Proxy) -> Result<Option<Child>, Failure> {
    let [program, rest @ ..] = args.command.as_slice() else { return Ok(None) };
    let (address, [user, password, database]) = (proxy.address(), proxy.names());
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let mut command = Command::new(program);
    command.args(rest).env("PGHOST", &host).env("PGPORT", &port).env("PGSSLMODE", "disable");
    command.env("DATABASE_URL", proxy.url()).env_remove("PGHOSTADDR").env_remove("PGSERVICE");
    for (name, value) in [("PGUSER", user), ("PGPASSWORD", password), ("PGDATABASE", database)] {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command.spawn().map(Some).map_err(|error| Failure::new(format!("{program}: {error}")))
}

/// Waits for the command, or for a signal. A command that is interrupted gets the signal from the terminal, too.
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

fn task(args: &ProxyArgs, level: Asked, engine: Choice) -> Task {
    let budget = limits::budget(args.common.timeout.or(Some(TIMEOUT)), args.common.memory);
    Task { level, real_time: false, instants: false, options: Deciding::with_engine(engine), budget }
}

/// The engine that suits, and the mirror if the database is judged, and all transactions are of one level.
fn decide_all(args: &ProxyArgs, done: &Done) -> Vec<Decided> {
    let one = matches!(done.recorded.levels[..], [Some(_)]);
    let profile = done.own.profile(&done.recorded.version).filter(|_| one && args.claim.is_none());
    let mirror = profile.map(|profile| margay::mirror_of(Mechanisms::of(profile)));
    let asked = [(done.claim, Choice::Auto)];
    let asked = asked.into_iter().chain(mirror.map(|mirror| (Asked::Level(done.promised), mirror)));
    asked.map(|(level, engine)| decide(args, done, level, engine)).collect()
}

fn decide(args: &ProxyArgs, done: &Done, level: Asked, engine: Choice) -> Decided {
    let history = &done.recorded.history;
    let what = format!("checking {} transactions", history.txn_count());
    let _progress = Progress::show(&what, !args.common.quiet);
    Decided { level, decision: check::decide(&task(args, level, engine), history) }
}

/// What holds for the part that was understood is `clean`, if that is enough. Says whether the mirror followed enough.
fn covered(args: &ProxyArgs, recorded: &Recorded, decided: &mut [Decided]) -> bool {
    let enough = |part: u64, all: u64| part > 0 && 100.0 * part as f64 >= args.require_coverage * all as f64;
    let decision = &mut decided[0].decision;
    if let Some(coverage) = &decision.coverage
        && matches!(coverage.verdict, "holds" | "clean")
        && matches!(decision.verdict, Verdict::Unknown(_))
        && enough(coverage.transactions as u64, coverage.all_transactions as u64)
    {
        decision.verdict = Verdict::Clean;
    }
    enough(recorded.followed, recorded.counts.total())
}

/// The verdict that counts: that of the engine that suits. A violation that the mirror found counts more, and if the
/// engine has no answer, so does a mirror that found nothing and followed enough.
fn decisive(decided: &[Decided], covered: bool) -> &Decided {
    let weight = |decided: &&Decided| match decided.decision.verdict {
        Verdict::Violated(_) => 0,
        Verdict::Holds(_) => 1,
        Verdict::Clean if covered || decided.decision.engine != Some("mirror") => 2,
        Verdict::Clean => 4,
        Verdict::Unknown(_) => 3,
    };
    decided.iter().min_by_key(weight).expect("at least one engine is asked")
}

/// Why there can be no verdict, if that is so.
fn shortfall(done: &Done) -> Option<String> {
    let recorded = &done.recorded;
    match (&recorded.failed, recorded.concerns.first()) {
        (Some(why), _) => Some(why.clone()),
        (None, Some(why)) => Some(why.clone()),
        (None, None) if done.ending == Ending::Terminated => Some("the proxy was terminated".to_owned()),
        (None, None) if recorded.counts.committed == 0 => Some("no transaction was committed".to_owned()),
        (None, None) => None,
    }
}

/// What is left of a verdict if not everything was recorded: nothing that accuses, and nothing that acquits.
fn soften(why: &str, decision: &mut Decision) {
    let kept = match &decision.verdict {
        Verdict::Holds(_) => "what was recorded holds",
        Verdict::Clean => "nothing was found in what was recorded",
        Verdict::Violated(_) => "what was recorded alone would be a violation",
        Verdict::Unknown(_) => return,
    };
    decision.verdict = Verdict::Unknown(Why::Incomplete(format!("{why}; {kept}")));
    decision.audited = Audited::Nothing;
}
