//! `margay check --engine follow -`, and `margay audit` of a proof that was streamed: histories
//! that need not fit into memory.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use margay::{Audited, Decision};
use margay_audit::audit_within;
use margay_formats::{Format, NativeReader, is_cut};
use margay_history::{History, HistoryBuilder};
use margay_report::view::Again;
use margay_stream::proof::{self, Audited as Proved, Late};
use margay_stream::{End, Follower, Found, Part, Trouble, followed};
use margay_verdict::{Budget, Certificate, Order, Question, Verdict, Why};
use serde_json::{Value, json};

use crate::args::{AuditArgs, CheckArgs, CommonArgs, OutputArgs};
use crate::failure::{Failure, Status};
use crate::files;
use crate::level::Asked;
use crate::limits;
use crate::progress::{Progress, ProgressState, rate};
use crate::terminal;
use crate::view::{Frame, ReportView, Stats, one_line};
use crate::{check, duration, memory};

/// How often the follower looks at what is new.
pub const BEAT: Duration = Duration::from_millis(250);

/// After how many lines it is asked whether there is enough to look at.
const LINES: u64 = 512;

/// The question, if the history is a stream in the native format and engine follow is asked about
/// an order in real time.
pub fn question(args: &CheckArgs) -> Result<Option<Question>, Failure> {
    let native = matches!(args.input.from, None | Some(Format::Margay));
    let assumes = args.input.sequential_keys || args.input.linearizable_keys || args.accept.is_some();
    // Parts are audited without instants.
    let assumes = assumes || args.instants;
    if args.horizon.is_some() && !(args.engine.is_named("follow") && files::is_stream(&args.history)) {
        return Err(Failure::new("--horizon is for a pipe: `margay check --engine follow --horizon 1s … -`"));
    }
    if !args.engine.is_named("follow") || !files::is_stream(&args.history) || !native || assumes {
        return Ok(None);
    }
    let asked =
        args.level.level().map(|level| Question { level, real_time: args.real_time, instants: false });
    let head = io::stdin().lock().fill_buf().map(|head| head.starts_with(b"{")).map_err(unreadable)?;
    Ok(asked.filter(|&question| head && followed(question).is_some()))
}

fn unreadable(error: io::Error) -> Failure {
    Failure::new(format!("standard input: {error}"))
}

fn failed(trouble: Trouble) -> Failure {
    match trouble {
        Trouble::Input(error) => Failure::from(error.in_file("standard input")),
        Trouble::Outside(why) => Failure::new(why),
    }
}

/// Where a file is written; it takes its name when it is whole.
pub struct Draft {
    path: PathBuf,
    draft: PathBuf,
    out: Arc<Mutex<BufWriter<File>>>,
}

impl Draft {
    /// At this path.
    pub fn new(path: &Path) -> Result<Self, Failure> {
        let mut draft = path.as_os_str().to_owned();
        draft.push(".margay-tmp");
        let file =
            File::create(&draft).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        let out = Arc::new(Mutex::new(BufWriter::new(file)));
        Ok(Self { path: path.to_owned(), draft: draft.into(), out })
    }

    /// Writes more of it.
    pub fn write(&self, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<(), Failure> {
        let written = write(&mut self.out.lock().unwrap_or_else(PoisonError::into_inner));
        written.map_err(|error| Failure::new(format!("{}: {error}", self.path.display())))
    }

    fn keep(self, transactions: u64) -> Result<(), Failure> {
        self.write(|out| proof::end(out, transactions))?;
        self.take_name()
    }

    /// It is whole.
    pub fn take_name(self) -> Result<(), Failure> {
        self.write(|out| out.flush())?;
        self.write(|_| fs::rename(&self.draft, &self.path))
    }

    /// It never will be whole.
    pub fn drop(self) {
        let _ = fs::remove_file(&self.draft);
        terminal::warn(&format!("{}: not written, because it would not be whole", self.path.display()));
    }
}

/// How a stream is followed, whatever command asks.
pub struct Stream<'a> {
    pub level: Asked,
    pub horizon: Option<Duration>,
    pub certificate: Option<&'a Path>,
    pub subject: &'static str,
    pub stats: bool,
    pub common: &'a CommonArgs,
    pub output: &'a OutputArgs,
}

/// A stream that is being followed.
pub struct Following {
    header: Vec<u8>,
    start: Instant,
    budget: Budget,
    draft: Option<Draft>,
    follower: Option<Follower<'static>>,
    /// Why there is no follower.
    outside: Option<String>,
}

impl Following {
    /// Nothing has come but the header.
    pub fn open(
        stream: &Stream,
        question: Question,
        header: Vec<u8>,
        budget: Budget,
    ) -> Result<Self, Failure> {
        let start = Instant::now();
        let draft = stream.certificate.map(Draft::new).transpose()?;
        let out = draft.as_ref().map(|draft| Arc::clone(&draft.out));
        let sink = Box::new(move |part: &Part, left: &[u64]| match &out {
            Some(out) => {
                proof::write_part(&mut *out.lock().unwrap_or_else(PoisonError::into_inner), part, left)
            }
            None => Ok(()),
        });
        let follower = Follower::new(question, &header, budget.clone(), sink);
        let follower = match stream.horizon {
            Some(horizon) => follower.and_then(|follower| follower.within(horizon)),
            None => follower,
        };
        let (follower, outside) = match follower {
            Ok(follower) => (Some(follower), None),
            Err(Trouble::Outside(why)) => (None, Some(why)),
            Err(input) => return Err(failed(input)),
        };
        if let (Some(draft), Some(follower)) = (&draft, &follower) {
            draft.write(|out| proof::begin(out, &follower.head()))?;
        }
        Ok(Self { header, start, budget, draft, follower, outside })
    }

    /// The next line.
    pub fn line(&mut self, line: &[u8]) -> Result<(), Failure> {
        self.follower.as_mut().map_or(Ok(()), |follower| follower.line(line)).map_err(failed)
    }

    /// Everything has come that was called before this time.
    pub fn advance(&mut self, until: i64, eager: bool) -> Result<(), Failure> {
        if let Err(limit) = self.budget.poll() {
            self.stop(&limit.to_string());
        }
        self.follower.as_mut().map_or(Ok(()), |follower| follower.advance(until, eager)).map_err(failed)
    }

    /// Whether time or memory is used up.
    pub fn is_over(&self) -> bool {
        self.budget.poll().is_err()
    }

    /// Stops, and why.
    pub fn stop(&mut self, why: &str) {
        if let Some(follower) = &mut self.follower {
            follower.stop(why);
        }
    }

    /// How many transactions are settled.
    pub fn settled(&self) -> u64 {
        self.follower.as_ref().map(Follower::progress).unwrap_or_default().settled
    }

    /// All has come.
    pub fn finish(&mut self) -> Result<End, Failure> {
        match &mut self.follower {
            Some(follower) => follower.finish().map_err(failed),
            None => Ok(End::Stopped(self.outside.clone().unwrap_or_default())),
        }
    }

    /// Writes and prints the answer. Answers with it in a line, too.
    pub fn answer(
        self,
        stream: &Stream,
        question: Question,
        end: End,
        more: Option<(&str, Value)>,
    ) -> Result<(Status, String), Failure> {
        let settled = self.settled();
        let Self { header, start, budget, draft, follower, .. } = self;
        match draft {
            Some(draft) if end == End::Whole => draft.keep(settled)?,
            Some(draft) => draft.drop(),
            None => {}
        }
        let found = follower.as_ref().and_then(Follower::found);
        let stamped = follower.as_ref().is_some_and(|follower| follower.is_stamped());
        let real_time = question.uses_real_time() || stamped;
        let found = found.filter(|_| real_time);
        let found = found.and_then(|found| Some((&found.window, proved(found, question, &budget)?)));
        let (history, decision) = match found {
            Some((window, decision)) => (window, Decision { took: start.elapsed(), ..decision }),
            None => (&headed(&header), decision(end, settled, start.elapsed())),
        };
        show(stream, question, history, &decision, follower.as_ref(), more)?;
        Ok((check::status(&decision.verdict), in_a_line(&decision.verdict)))
    }
}

fn in_a_line(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Holds(_) => "holds".to_owned(),
        Verdict::Clean => "clean".to_owned(),
        Verdict::Violated(findings) => findings
            .first()
            .map_or("violated".to_owned(), |first| format!("violated: {}", first.anomaly.name())),
        Verdict::Unknown(why) => format!("unknown: {why}"),
    }
}

/// Follows standard input, and answers.
pub fn check(args: &CheckArgs, question: Question) -> Result<Status, Failure> {
    let budget = limits::budget(args.common.timeout, args.common.memory);
    let stream = Stream {
        level: args.level,
        horizon: args.horizon,
        certificate: args.certificate.as_deref(),
        subject: "standard input",
        stats: args.stats,
        common: &args.common,
        output: &args.output,
    };
    let mut input = io::stdin().lock();
    let mut header = Vec::new();
    input.read_until(b'\n', &mut header).map_err(unreadable)?;
    let mut following = Following::open(&stream, question, header, budget.clone())?;
    let end = match &mut following.follower {
        Some(follower) => follow(&mut input, follower, &budget, args.common.quiet)?,
        None => following.finish()?,
    };
    following.answer(&stream, question, end, None).map(|(status, _)| status)
}

/// Reads to the end.
fn follow(
    input: &mut impl BufRead,
    follower: &mut Follower<'_>,
    budget: &Budget,
    quiet: bool,
) -> Result<End, Failure> {
    let now = Arc::new(Mutex::new(ProgressState::phase("following")));
    let shown = Arc::clone(&now);
    let said = move || shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (_progress, start) = (Progress::follow(said, !quiet), Instant::now());
    let (mut line, mut number, mut looked, mut told) = (Vec::new(), 0_u64, Instant::now(), false);
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line).map_err(unreadable)? == 0 {
            return follower.finish().map_err(failed);
        }
        if number > 0 && !line.ends_with(b"\n") && is_cut(&line) {
            terminal::warn(&format!(
                "line {} is cut off, and left out: what comes after it is not checked",
                number + 2
            ));
            continue;
        }
        follower.line(&line).map_err(failed)?;
        number += 1;
        if !number.is_multiple_of(LINES) {
            continue;
        }
        if let Err(limit) = budget.poll() {
            follower.stop(limit.to_string());
        }
        let eager = looked.elapsed() >= BEAT;
        follower.advance_by_guess(eager).map_err(failed)?;
        if eager {
            looked = Instant::now();
            let progress = follower.progress();
            let mut shown = now.lock().unwrap_or_else(PoisonError::into_inner);
            shown.rate = rate(progress.settled, start.elapsed(), " transactions");
            shown.details = format!(
                "{} settled, {} open, {} MB",
                progress.settled,
                progress.open,
                progress.memory / 1_000_000
            );
        }
        if let Some(why) = follower.stopped().filter(|_| !told && !quiet) {
            let word = if follower.found().is_some() { "violated" } else { "stopped" };
            terminal::warn(&format!("{word} by line {number}: {why}"));
            told = true;
        }
    }
}

/// The violation of a window. It is one of the whole if real time counts, or timestamps do: what is
/// before the window cannot come after it.
fn proved(found: &Found, question: Question, budget: &Budget) -> Option<Decision> {
    let Found { window, finding, .. } = found;
    let accepted = |&certificate: &&Certificate| audit_within(window, question, certificate, budget).is_ok();
    Some(&finding.certificate).filter(accepted)?;
    let nothing = Decision::unknown(Why::Incomplete(String::new()));
    let verdict = Verdict::Violated(vec![finding.clone()]);
    Some(Decision { engine: Some("follow"), verdict, audited: Audited::Accepted, ..nothing })
}

/// In words, which transactions have no order within the horizon.
pub fn undecided(labels: &[u64], count: u64) -> String {
    let shown: Vec<String> = labels.iter().take(8).map(|label| format!("T{label}")).collect();
    let more = if count > 8 { ", …" } else { "" };
    format!(
        "no order within the horizon was found for what {count} transactions saw ({}{more})",
        shown.join(", ")
    )
}

/// A history that has nothing but its header.
fn headed(header: &[u8]) -> History {
    let read = NativeReader::new(header).and_then(NativeReader::finish);
    read.unwrap_or_else(|_| HistoryBuilder::new().finish().expect("an empty history"))
}

fn decision(end: End, settled: u64, took: Duration) -> Decision {
    let nothing = Decision::unknown(Why::Incomplete(String::new()));
    let (verdict, audited) = match end {
        // The order itself was audited in parts, and is not in memory any more.
        End::Whole => (Verdict::Holds(Certificate::Order(Order::default())), Audited::Accepted),
        End::Partly { undecided, count } => {
            let others = settled.saturating_sub(count);
            let why = format!("{}; the other {others} have one", self::undecided(&undecided, count));
            (Verdict::Unknown(Why::Incomplete(why)), Audited::Nothing)
        }
        End::Stopped(why) => {
            let why = format!(
                "after {settled} transactions were settled: {why}; `margay check` of a file looks at all of it"
            );
            (Verdict::Unknown(Why::Incomplete(why)), Audited::Nothing)
        }
    };
    Decision { engine: Some("follow"), verdict, audited, took, ..nothing }
}

fn show(
    stream: &Stream,
    question: Question,
    history: &History,
    decision: &Decision,
    follower: Option<&Follower<'_>>,
    more: Option<(&str, Value)>,
) -> Result<(), Failure> {
    let progress = follower.map(Follower::progress).unwrap_or_default();
    let counts = follower.map(Follower::counts).unwrap_or_default();
    let stats = Stats::counted(counts, decision.took);
    let audit = match &stream.certificate {
        _ if !matches!(decision.verdict, Verdict::Holds(_)) => "`margay check` of a file keeps it".to_owned(),
        Some(file) => format!("again: margay audit HISTORY {}", file.display()),
        None => "--certificate FILE keeps the proof for margay audit".to_owned(),
    };
    let budget = Budget::unlimited();
    let frame = Frame {
        subject: stream.subject,
        budget: &budget,
        real_time: question.real_time,
        instants: question.instants,
        again: Again { command: None, audit, seed: None },
        curves: false,
    };
    let mut view = ReportView::framed(history, stream.level.name(), decision, stats, frame);
    let mut told =
        json!({ "settled": progress.settled, "open": progress.open, "memory_bytes": progress.memory });
    if let (Some(follower), Some(_)) = (follower, stream.horizon) {
        told["undecided"] = follower.undecided().into();
    }
    view.report.more.insert("follow".to_owned(), told);
    view.report.more.extend(more.map(|(name, told)| (name.to_owned(), told)));
    check::print(stream.output, stream.common, stream.stats, &view, false)
}

/// Whether the certificate is a proof that was streamed.
pub fn is_proof(path: &Path) -> bool {
    let head = File::open(path).and_then(|file| BufReader::new(file).fill_buf().map(<[u8]>::to_vec));
    head.is_ok_and(|head| proof::is_proof(&head))
}

/// Audits a proof against a history, side by side.
pub fn audit(args: &AuditArgs) -> Result<Status, Failure> {
    let start = Instant::now();
    let open = |path: &Path| -> Result<Box<dyn BufRead>, Failure> {
        if files::is_stream(path) {
            return Ok(Box::new(io::stdin().lock()));
        }
        let file = File::open(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        Ok(Box::new(BufReader::new(file)))
    };
    let budget = limits::budget(args.common.timeout, args.common.memory);
    let audited = {
        let _progress = Progress::show("auditing", !args.common.quiet);
        let late = match files::is_stream(&args.certificate) {
            true => Ok(Late::default()),
            false => Late::read(open(&args.certificate)?),
        };
        let (history, proof) = (open(&args.history)?, open(&args.certificate)?);
        late.and_then(|late| proof::audit(history, proof, late, &budget))
    };
    if let (Err(_), Err(limit)) = (&audited, budget.poll()) {
        eprintln!("unknown: {limit}");
        return Ok(Status::Unknown);
    }
    let (word, status, said) = match audited.map_err(failed)? {
        Proved::Accepted { level, transactions } => {
            let said = format!("{level} holds, by a settled order of {transactions} transactions");
            ("accepted", Status::Fine, said)
        }
        Proved::Rejected(why) => ("rejected", Status::Violated, why),
    };
    if args.common.json {
        let peak = memory::peak_rss_bytes();
        let stats = json!({ "check_seconds": start.elapsed().as_secs_f64(), "peak_rss_bytes": peak });
        terminal::print_json(&one_line(&json!({ "audit": word, "statement": said, "stats": stats })))?;
    } else if !args.common.quiet {
        terminal::print(&format!("{word}: {said} ({})\n", duration::show(start.elapsed())))?;
    }
    io::stdout().flush().map_err(unreadable)?;
    Ok(status)
}
