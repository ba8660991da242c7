//! `margay audit`: exit status 0 accepted, 1 rejected, 2 unreadable, 3 out of time or memory.

use std::path::Path;
use std::time::{Duration, Instant};

use margay_audit::{Unaudited, audit_within};
use margay_history::History;
use margay_report::Source;
use margay_report::view::Again;
use margay_verdict::{Budget, Certificate, Claim, Verdict, Why, wire};
use serde::Serialize;

use crate::args::AuditArgs;
use crate::failure::{Failure, Status};
use crate::files::{Unread, WHILE_READING};
use crate::progress::Progress;
use crate::terminal::{self, Paint};
use crate::view::{self, Stats, how_to_audit};
use crate::{files, limits, report, stream};

/// The object of `--json`.
#[derive(Serialize)]
struct Report {
    audit: &'static str,
    /// What the certificate is to prove.
    verdict: &'static str,
    /// The same in words.
    statement: String,
    /// By which rules.
    claim: margay_report::view::Claim,
    level: &'static str,
    real_time: bool,
    reason: Option<String>,
    stats: Stats,
    #[serde(skip)]
    proof: &'static str,
}

/// Reads both files, audits, prints.
pub fn run(args: AuditArgs) -> Result<Status, Failure> {
    if files::is_stream(&args.history) && files::is_stream(&args.certificate) {
        return Err(Failure::new("only one of HISTORY and CERTIFICATE can be standard input"));
    }
    if stream::is_proof(&args.certificate) {
        return stream::audit(&args);
    }
    let to_stdout = report::one_stream(args.common.json, &args.output, [])?;
    let quiet = args.common.quiet || to_stdout;
    let budget = limits::budget(args.common.timeout, args.common.memory);
    let (mut loaded, read) = match files::read_input(&args.history, &args.input, quiet, &budget) {
        // What the certificate is to prove was not read.
        Err(Unread::Exhausted(limit)) => {
            eprintln!("unknown: {limit} ({WHILE_READING})");
            return Ok(Status::Unknown);
        }
        read => read?,
    };
    let (claim, certificate) = read_certificate(&args.certificate, &mut loaded.history)?;
    let (question, start) = (claim.question, Instant::now());
    let (verdict, proof) = (certificate.proves(), margay_report::gather::proof(&certificate));
    let stats = Stats::of(&loaded.history, read, Duration::ZERO);
    let history = loaded.history;
    let checked = {
        let _progress = Progress::show(&format!("auditing {} transactions", history.txn_count()), !quiet);
        audit_within(&history, question, &certificate, &budget)
    };
    let (word, status, reason) = match checked {
        Ok(()) => ("accepted", Status::Fine, None),
        Err(Unaudited::Rejected(why)) => ("rejected", Status::Violated, Some(why.to_string())),
        Err(Unaudited::Exhausted(limit)) => ("unknown", Status::Unknown, Some(limit.to_string())),
    };
    let report = Report {
        audit: word,
        verdict,
        statement: claim.sentence(&certificate),
        claim: margay_report::gather::claimed(&claim, &certificate),
        level: question.level.name(),
        real_time: question.real_time,
        reason,
        stats: stats.checked_in(start.elapsed()),
        proof,
    };
    report.print(args.common.json, quiet)?;
    if args.output.is_wanted() {
        report::write(&args.output, &report.shown(&args, &history, &claim, &certificate, &budget))?;
    }
    Ok(status)
}

impl Report {
    fn print(&self, json: bool, quiet: bool) -> Result<Status, Failure> {
        match (json, quiet) {
            (true, _) => terminal::print_json(&view::one_line(self)),
            (false, true) => Ok(Status::Fine),
            (false, false) => terminal::print(&self.text(Paint::for_stdout())),
        }
    }

    /// What the certificate proves, if it does, in the form that other commands have.
    fn shown(
        &self,
        args: &AuditArgs,
        history: &History,
        claim: &Claim,
        certificate: &Certificate,
        budget: &Budget,
    ) -> margay_report::Report {
        let question = claim.question;
        let why = self.reason.clone().unwrap_or_default();
        let verdict = match (self.audit, margay_report::gather::finding(history, question.level, certificate))
        {
            ("accepted", Some(finding)) => Verdict::Violated(vec![finding]),
            ("accepted", None) => Verdict::Holds(certificate.clone()),
            _ => Verdict::Unknown(Why::MissingEvidence(format!("the certificate proves nothing: {why}"))),
        };
        let (subject, audit) =
            (args.history.display().to_string(), how_to_audit(&args.history, Some(&args.certificate)));
        margay_report::Report::new(Source {
            history,
            subject: &subject,
            level: self.level,
            question: Some(question),
            engine: None,
            verdict: &verdict,
            translation: claim.translation,
            budget,
            audited: if self.audit == "unknown" { "skipped" } else { self.audit },
            faults: Vec::new(),
            stats: self.stats.for_report(),
            again: Again { command: None, audit, seed: None },
            curves: args.output.report.is_some(),
        })
    }

    fn text(&self, paint: Paint) -> String {
        let mut out = format!("{}: {}, by {}\n", paint.verdict(self.audit), self.statement, self.proof);
        self.claim.words.iter().for_each(|words| out += &format!("  {words}\n"));
        if let Some(reason) = &self.reason {
            out += &format!("  reason: {reason}\n");
        }
        out + &paint.dim(&format!("  {}\n", self.stats.text()))
    }
}

/// A certificate may be of the rows that a history of statements was read as; then these are what
/// is audited. Files of version 0.1.0 do not say which: there all are tried.
fn read_certificate(path: &Path, history: &mut History) -> Result<(Claim, Certificate), Failure> {
    let text = files::read_text(path)?;
    let failed = |error: String| Failure::new(format!("{}: {error}", path.display()));
    let stated = wire::translation(&text).map_err(failed)?;
    let recorded = wire::from_json(history, None, &text);
    let of_rows = match (stated, &recorded) {
        (Some(stated), _) if stated.is_of_rows() => margay::under(history, stated).map(|rows| (stated, rows)),
        (None, Err(_)) => margay::translations(history)
            .find(|(translation, rows)| wire::from_json(rows, Some(*translation), &text).is_ok()),
        _ => None,
    };
    let Some((translation, rows)) = of_rows else { return recorded.map_err(failed) };
    let certified = wire::from_json(&rows, Some(translation), &text).map_err(failed)?;
    *history = rows;
    Ok(certified)
}
