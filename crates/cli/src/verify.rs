//! `margay verify`: verifies what recorders on several machines stream, while their clients run.

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use margay_remote::{Gathered, Listening, Takes};
use margay_stream::{End, followed};
use margay_verdict::Question;
use serde_json::json;

use crate::args::named::LEVEL;
use crate::args::{CommonArgs, EXIT_STATUS, OutputArgs};
use crate::failure::{Failure, Status};
use crate::level::Asked;
use crate::progress::{Progress, ProgressState, rate};
use crate::stream::{BEAT, Draft, Following, Stream};
use crate::{duration, limits, terminal, token};

#[derive(Args)]
#[command(after_help = EXIT_STATUS)]
pub struct VerifyArgs {
    /// Where recorders connect: HOST:PORT; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: String,
    /// How many recorders there are: `margay run --verify-at HOST:PORT --machine I/N`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub recorders: u16,
    /// The isolation level in question (see `margay levels`). Engine follow must be able to decide it
    #[arg(long, value_name = "LEVEL", value_parser = LEVEL, hide_possible_values = true)]
    pub level: Asked,
    /// The file with the token that the verifier and all recorders share; otherwise the environment
    /// variable MARGAY_CLUSTER_TOKEN has it
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// How long to wait for the recorders at the beginning, and for one that is silent. Then the
    /// verdict is `unknown` and names the machine
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration::parse)]
    pub patience: Duration,
    /// At a level without real time: transactions that are at most this far apart may be reordered
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub horizon: Option<Duration>,
    /// Save the history of all machines, by the verifier's clock, if no machine is missing
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Write the certificate that proves the verdict; `margay audit` needs the file of --record too
    #[arg(long, value_name = "FILE", requires = "record")]
    pub certificate: Option<PathBuf>,
    #[command(flatten)]
    pub common: CommonArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What takes the lines of all machines.
struct Verifying<'a> {
    stream: &'a Stream<'a>,
    question: Question,
    record: Option<Draft>,
    following: Option<Following>,
    looked: Instant,
    start: Instant,
    shown: Arc<Mutex<ProgressState>>,
    /// Why it stopped, if the command failed.
    failure: Option<Failure>,
}

/// Waits for recorders, verifies what they send, and answers.
pub fn run(args: &VerifyArgs) -> Result<Status, Failure> {
    let question = args.level.level().map(Question::new).filter(|&question| followed(question).is_some());
    let Some(question) = question else {
        let level = args.level.name();
        return Err(Failure::new(format!(
            "engine follow does not decide {level}: record with --record on each machine, and check later"
        )));
    };
    let secret = token::read(args.token_file.as_deref())?;
    let stream = Stream {
        level: args.level,
        horizon: args.horizon,
        certificate: args.certificate.as_deref(),
        subject: "what the recorders saw",
        stats: false,
        common: &args.common,
        output: &args.output,
    };
    let record = args.record.as_deref().map(Draft::new).transpose()?;
    let recorders = usize::from(args.recorders);
    let listening = Listening::at(&args.listen, recorders, secret, args.patience).map_err(Failure::new)?;
    if !args.common.quiet {
        let address = listening.address().map_err(|why| Failure::new(why.to_string()))?;
        terminal::warn(&format!("listening at {address} for {recorders} recorders"));
    }
    let shown = Arc::new(Mutex::new(ProgressState::phase("waiting for recorders")));
    let said = Arc::clone(&shown);
    let said = move || said.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let progress = Progress::follow(said, !args.common.quiet);
    let now = Instant::now();
    let mut verifying = Verifying {
        stream: &stream,
        question,
        record,
        following: None,
        looked: now,
        start: now,
        shown,
        failure: None,
    };
    let gathered = listening.gather(&mut verifying);
    drop(progress);
    match gathered {
        Ok(gathered) => verifying.answer(gathered),
        Err(why) => {
            verifying.record.take().into_iter().for_each(Draft::drop);
            Err(verifying.failure.take().unwrap_or_else(|| Failure::new(why)))
        }
    }
}

impl Verifying<'_> {
    /// Answers, and tells the recorders.
    fn answer(mut self, gathered: Gathered) -> Result<Status, Failure> {
        let decided = self.decide(&gathered);
        let (status, text) = match &decided {
            Ok((status, text)) => (*status, text.clone()),
            Err(failure) => (Status::Failed, failure.text().to_owned()),
        };
        gathered.tell(status as u8, &text);
        decided.map(|(status, _)| status)
    }

    fn decide(&mut self, gathered: &Gathered) -> Result<(Status, String), Failure> {
        let lost = gathered.lost.clone();
        match self.record.take() {
            Some(record) if lost.is_none() => record.take_name()?,
            Some(record) => record.drop(),
            None => {}
        }
        let missing =
            || Failure::new(lost.clone().unwrap_or_else(|| "no recorder has sent anything".to_owned()));
        let mut following = self.following.take().ok_or_else(missing)?;
        if let Some(why) = lost {
            following.stop(&why);
        }
        let mut end = following.finish()?;
        if end == End::Whole && following.settled() == 0 {
            end = End::Stopped("no transaction committed".to_owned());
        }
        let told = json!({ "lines": gathered.lines, "clock_error_ns": gathered.error.as_nanos() as u64 });
        following.answer(self.stream, self.question, end, Some(("machines", told)))
    }

    fn fail(&mut self, failure: Failure) -> String {
        let why = failure.text().to_owned();
        self.failure.get_or_insert(failure);
        why
    }

    fn show(&self) {
        let Some(following) = &self.following else { return };
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        "verifying".clone_into(&mut shown.phase);
        shown.rate = rate(following.settled(), self.start.elapsed(), " transactions");
    }
}

impl Takes for Verifying<'_> {
    fn header(&mut self, line: &[u8]) -> Result<(), String> {
        if let Some(record) = &self.record {
            record.write(|out| out.write_all(line)).map_err(|failure| failure.text().to_owned())?;
        }
        let budget = limits::budget(self.stream.common.timeout, self.stream.common.memory);
        let opened = Following::open(self.stream, self.question, line.to_vec(), budget);
        self.following = Some(opened.map_err(|failure| self.fail(failure))?);
        self.start = Instant::now();
        Ok(())
    }

    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        if let Some(record) = &self.record {
            record.write(|out| out.write_all(line)).map_err(|failure| failure.text().to_owned())?;
        }
        let Some(following) = &mut self.following else { return Ok(()) };
        following.line(line).map_err(|failure| self.fail(failure))
    }

    fn advance(&mut self, until: i64) -> Result<(), String> {
        let eager = self.looked.elapsed() >= BEAT;
        let Some(following) = &mut self.following else { return Ok(()) };
        following.advance(until, eager).map_err(|failure| self.fail(failure))?;
        if eager {
            self.looked = Instant::now();
            self.show();
        }
        Ok(())
    }

    fn note(&mut self, what: &str) {
        terminal::warn(what);
    }

    fn is_over(&self) -> bool {
        self.following.as_ref().is_some_and(Following::is_over)
    }
}

/// A machine of the command line: I/N.
pub fn machine(text: &str) -> Result<(usize, usize), String> {
    let wrong = || format!("`{text}` is not I/N with I from 1 to N, such as 3/8");
    let (number, of) = text.split_once('/').ok_or_else(wrong)?;
    let (number, of): (usize, usize) =
        (number.parse().map_err(|_| wrong())?, of.parse().map_err(|_| wrong())?);
    if (1..=of).contains(&number) && of <= 256 { Ok((number, of)) } else { Err(wrong()) }
}
