//! Asking about a history in one line, and what the answer looks like.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use margay_history::History;
use margay_levels::Level;
use margay_report::html::{self, Place};
use margay_report::view::{Again, EngineFault, Stats};
use margay_report::{Paint, Source, text};
use margay_verdict::{Budget, Question, Verdict, wire};

use crate::decide::{Decision, Options, decide};
use crate::recorder::{BadHistory, Recorder};

/// The width of the account that [`Report`] displays.
const WIDTH: usize = 100;

/// Decides whether `history` is possible under `level`, with the engine that suits, and audits the
/// answer.
///
/// ```
/// use margay::{Level, Recorder, check};
///
/// let recorder = Recorder::new();
/// for (session, mine, other) in [(0, "alice", "bob"), (1, "bob", "alice")] {
///     let mut t = recorder.session(session).begin();
///     t.read(other, None::<i64>);
///     t.write(mine, "off call");
///     t.commit();
/// }
/// let history = recorder.history()?;
/// assert!(check(&history, Level::SnapshotIsolation).holds());
/// let report = check(&history, Level::Serializable);
/// assert!(report.is_violated());
/// println!("{report}");
/// # Ok::<(), margay::BadHistory>(())
/// ```
#[must_use]
pub fn check(history: &History, level: Level) -> Report<'_> {
    check_with(history, Question::new(level), &Options::default(), &Budget::unlimited())
}

/// The same with options and limits.
#[must_use]
pub fn check_with<'h>(
    history: &'h History,
    question: Question,
    options: &Options,
    budget: &Budget,
) -> Report<'h> {
    let decision = decide(history, question, options, budget);
    Report { history, question, decision }
}

/// The answer to a question, as text ([`fmt::Display`], as the terminal shows it), JSON and HTML,
/// with the certificate that proves it.
#[derive(Debug)]
pub struct Report<'h> {
    history: &'h History,
    question: Question,
    decision: Decision,
}

impl Report<'_> {
    /// What was decided.
    #[must_use]
    pub fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The verdict.
    #[must_use]
    pub fn verdict(&self) -> &Verdict {
        &self.decision.verdict
    }

    /// Whether the level is proved to hold.
    #[must_use]
    pub fn holds(&self) -> bool {
        matches!(self.verdict(), Verdict::Holds(_))
    }

    /// Whether the level is proved to be violated.
    #[must_use]
    pub fn is_violated(&self) -> bool {
        matches!(self.verdict(), Verdict::Violated(_))
    }

    /// The certificate as the text of its file, for `margay audit`; `None` for `unknown`.
    #[must_use]
    pub fn certificate(&self) -> Option<String> {
        let claim = self.decision.claim(self.history, self.question)?;
        let certificate = self.verdict().certificate()?;
        Some(wire::to_json(self.decision.about(self.history), &claim, certificate))
    }

    /// The object that `margay check --json` prints.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string(&self.view()).unwrap_or_default()
    }

    /// One HTML file that needs no network.
    #[must_use]
    pub fn html(&self) -> String {
        html::page(&self.view(), Place::File)
    }

    fn view(&self) -> margay_report::Report {
        let history = self.decision.about(self.history);
        let claim = self.decision.claim(self.history, self.question);
        let mut report = margay_report::Report::new(Source {
            history,
            subject: "the history",
            level: self.question.level.name(),
            question: Some(self.question),
            engine: self.decision.engine,
            verdict: &self.decision.verdict,
            translation: claim.map(|claim| claim.translation).unwrap_or_default(),
            budget: &Budget::unlimited(),
            audited: self.decision.audited.word(),
            faults: self.decision.engine_faults(),
            stats: Stats {
                transactions: history.txn_count(),
                operations: history.op_count(),
                sessions: history.session_count(),
                check_seconds: self.decision.took.as_secs_f64(),
                ..Stats::default()
            },
            again: Again::default(),
            curves: false,
        });
        let coverage =
            self.decision.coverage.as_ref().map(|coverage| ("coverage".to_owned(), coverage.json()));
        report.more.extend(coverage);
        report
    }
}

impl Decision {
    /// The rejected certificates, for a report.
    #[must_use]
    pub fn engine_faults(&self) -> Vec<EngineFault> {
        let fault = |fault: &crate::Fault| EngineFault {
            engine: fault.engine.to_owned(),
            claimed: fault.claimed.to_owned(),
            reason: fault.reason.clone(),
        };
        self.faults.iter().map(fault).collect()
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(text::text(&self.view(), Paint::OFF, WIDTH).trim_end())
    }
}

/// What [`assert_isolated!`](crate::assert_isolated) takes: a [`History`] or a [`Recorder`].
pub trait AsHistory {
    /// The history.
    ///
    /// # Errors
    /// When what was recorded is no history.
    fn as_history(&self) -> Result<Cow<'_, History>, BadHistory>;
}

impl AsHistory for History {
    fn as_history(&self) -> Result<Cow<'_, History>, BadHistory> {
        Ok(Cow::Borrowed(self))
    }
}

impl AsHistory for Recorder {
    fn as_history(&self) -> Result<Cow<'_, History>, BadHistory> {
        self.history().map(Cow::Owned)
    }
}

/// Fails a test, with the account of what happened, unless the history is possible under the level.
/// The history, the certificate and the page of a failure are left in `target/margay/`.
///
/// ```should_panic
/// let recorder = margay::Recorder::new();
/// let mut t = recorder.session(0).begin();
/// t.read("x", 7); // nobody wrote 7
/// t.commit();
/// margay::assert_isolated!(recorder, margay::Level::ReadCommitted);
/// ```
#[macro_export]
macro_rules! assert_isolated {
    ($history:expr, $level:expr $(,)?) => {
        if let ::std::result::Result::Err(account) =
            $crate::isolated(&$history, $level, ::std::module_path!(), ::std::line!())
        {
            ::std::panic!("{account}");
        }
    };
}

/// What [`assert_isolated!`](crate::assert_isolated) does. The module and the line name the files
/// that a failure leaves behind.
///
/// # Errors
/// The account of the failure: the level is violated, or it could not be decided, or there is no
/// history.
pub fn isolated(history: &impl AsHistory, level: Level, module: &str, line: u32) -> Result<(), String> {
    let history = history.as_history().map_err(|bad| format!("this is no history: {bad}"))?;
    let report = check(&history, level);
    if report.holds() {
        return Ok(());
    }
    let name = format!("{}-{line}", module.replace("::", "-"));
    Err(format!("{report}\n{}", leave_behind(&report, &history, &name)))
}

/// Writes what a failure leaves behind, and says where; if it cannot be written, says that.
fn leave_behind(report: &Report<'_>, history: &History, name: &str) -> String {
    let folder = artefacts();
    let write = || -> Result<(), String> {
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let target = margay_formats::Target::Path(folder.join(format!("{name}.jsonl")));
        margay_formats::write(history, margay_formats::Format::Margay, target)
            .map_err(|error| error.render())?;
        let put = |ending: &str, text: &str| {
            std::fs::write(folder.join(format!("{name}.{ending}")), text).map_err(|error| error.to_string())
        };
        put("html", &report.html())?;
        report.certificate().map_or(Ok(()), |certificate| put("certificate.json", &certificate))
    };
    match write() {
        Ok(()) => format!("history and page: {}", folder.join(format!("{name}.{{jsonl,html}}")).display()),
        Err(error) => format!("history and page could not be kept in {}: {error}", folder.display()),
    }
}

/// `target/margay` of the package whose test is running.
fn artefacts() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let found = package.as_deref().and_then(|package| {
        package.ancestors().map(|folder| folder.join("target")).find(|target| target.is_dir())
    });
    target.or(found).unwrap_or_else(|| Path::new("target").to_owned()).join("margay")
}
