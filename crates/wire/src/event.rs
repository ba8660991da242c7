//! What a session reports.

use std::sync::Arc;

use crate::rows::Rows;

/// What happened on a connection.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The process number of the server's backend.
    Backend(u32),
    /// The server reported a setting.
    Parameter(String, String),
    /// A Parse or Bind succeeded that was sent at this time: the transaction may have taken its
    /// snapshot.
    Planned(i64),
    /// A statement of the extended protocol.
    Executed(Box<Executed>),
    /// All statements of a Query message. If one failed, it is the last.
    Queried(Vec<Executed>),
    /// An error that belongs to no statement, such as a failed Parse, or a commit that failed at
    /// Sync.
    Refused(Refusal, i64),
    /// The server is ready: `I` idle, `T` in a transaction, `E` in a failed one. At this time.
    Ready(u8, i64),
    /// The session cannot be understood from here on, and why.
    Blind(String),
}

/// A statement as it was prepared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prepared {
    /// Its text; none if it is too long or not UTF-8.
    pub text: Option<Arc<str>>,
    /// The types of its parameters as far as they are known; 0 is unknown.
    pub types: Vec<u32>,
}

/// Parameters of an execution.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Bound {
    /// The values; none if they were too long.
    pub values: Option<Vec<Option<Vec<u8>>>>,
    /// Their formats: 0 text, 1 binary; one for all, or none for text.
    pub formats: Vec<u16>,
    /// The formats of the result's columns, likewise.
    pub results: Vec<u16>,
}

impl Bound {
    /// The format of a parameter.
    #[must_use]
    pub fn format(&self, at: usize) -> u16 {
        pick(&self.formats, at)
    }

    /// The format of a column of the result.
    #[must_use]
    pub fn result(&self, at: usize) -> u16 {
        pick(&self.results, at)
    }
}

fn pick(formats: &[u16], at: usize) -> u16 {
    match formats {
        [] => 0,
        [all] => *all,
        each => each.get(at).copied().unwrap_or(0),
    }
}

/// A column of a result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The number of its type.
    pub kind: u32,
}

/// A statement that ran.
#[derive(Clone, PartialEq, Debug)]
pub struct Executed {
    /// What was prepared. Of a Query with several statements, each has the text of all.
    pub prepared: Arc<Prepared>,
    /// Its parameters; none in a Query.
    pub bound: Option<Arc<Bound>>,
    /// The columns of its result, if the server described them.
    pub columns: Option<Arc<[Column]>>,
    /// Its rows.
    pub rows: Rows,
    /// Whether all rows came.
    pub complete: bool,
    /// What became of it.
    pub outcome: Outcome,
    /// When.
    pub times: Times,
}

/// When a statement ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// When its Bind or Query was sent.
    pub before: i64,
    /// When its answer was complete.
    pub after: i64,
}

/// What became of a statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It succeeded, with this command tag. The tag is empty if its portal was given up before its
    /// last row.
    Done(String),
    /// It failed.
    Failed(Refusal),
    /// There was no answer.
    Lost,
}

/// An error of the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The SQLSTATE.
    pub code: String,
    /// How severe it is.
    pub severity: Severity,
}

/// How severe an error is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// It ends the statement.
    Error,
    /// It ends the connection.
    Fatal,
}
