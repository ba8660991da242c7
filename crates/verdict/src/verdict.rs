//! What an engine says.

use std::fmt;

use crate::budget::Exhausted;
use crate::certificate::{Certificate, Finding};

/// The answer to a question.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// The level holds, and the certificate proves it.
    Holds(Certificate),
    /// Nothing was found by an engine that does not prove.
    Clean,
    /// The level is violated. Never empty; the most telling finding first, each with its own
    /// certificate.
    Violated(Vec<Finding>),
    /// No answer, and why.
    Unknown(Why),
}

impl Verdict {
    /// The verdict in one word, as in the output of `margay check`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Holds(_) => "holds",
            Verdict::Clean => "clean",
            Verdict::Violated(_) => "violated",
            Verdict::Unknown(_) => "unknown",
        }
    }

    /// The certificate to audit: of `holds`, or of the first finding.
    #[must_use]
    pub fn certificate(&self) -> Option<&Certificate> {
        match self {
            Verdict::Holds(certificate) => Some(certificate),
            Verdict::Violated(findings) => findings.first().map(|finding| &finding.certificate),
            Verdict::Clean | Verdict::Unknown(_) => None,
        }
    }
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Why {
    /// A limit was reached; the text says how far the engine came.
    Exhausted(Exhausted, String),
    /// The engine needs evidence that the history does not have.
    MissingEvidence(String),
    /// The history uses something outside the engine's fragment.
    Outside(String),
    /// The engine does not decide this level.
    Level(String),
    /// A program that the engine runs is not there.
    Program(String),
    /// Too little happened for an answer about what was asked.
    Incomplete(String),
    /// The audit rejected the engine's own certificate: the engine is wrong, and nobody should
    /// believe it.
    Rejected(String),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Exhausted(limit, progress) if progress.is_empty() => write!(f, "{limit}"),
            Why::Exhausted(limit, progress) => write!(f, "{limit} ({progress})"),
            Why::MissingEvidence(what) => write!(f, "missing evidence: {what}"),
            Why::Outside(what) => write!(f, "outside this engine's fragment: {what}"),
            Why::Level(what) | Why::Program(what) | Why::Incomplete(what) => f.write_str(what),
            Why::Rejected(what) => write!(f, "the engine's own certificate does not pass the audit: {what}"),
        }
    }
}
