//! What can go wrong between the text of a statement and its meaning.

use std::fmt;

use crate::dialect::Dialect;

/// A place in the text of a statement, counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// The line.
    pub line: u64,
    /// The column, in characters.
    pub column: u64,
}

/// Why a text has no meaning here, or why its evaluation stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SqlError {
    /// The text is not SQL of its dialect.
    Parse {
        /// What the parser says.
        message: String,
        /// Where it stopped, if it knows.
        at: Option<Position>,
    },
    /// The text is SQL, but outside the fragment that this crate gives a meaning to.
    Unsupported {
        /// The construct.
        construct: String,
        /// Where it stands, if the parser knows.
        at: Option<Position>,
    },
    /// No column has this name.
    UnknownColumn(String),
    /// Several columns have this name.
    AmbiguousColumn(String),
    /// No table has this name.
    UnknownTable(String),
    /// No procedure has this name.
    UnknownProcedure(String),
    /// A table of this name is there already.
    TableExists(String),
    /// No value was bound to this parameter (counted from one).
    MissingParameter(usize),
    /// Operands whose types do not fit, or text that is no value of the type asked for.
    Type(String),
    /// A number outside the range of its type.
    Overflow(String),
    /// A division by zero where the dialect makes it an error.
    DivisionByZero,
    /// A key, NOT NULL or CHECK constraint refuses the statement.
    Constraint(String),
    /// A scalar subquery that gives several rows.
    SubqueryRows,
    /// The statement took too long: see [`Database::stop_when`](crate::Database::stop_when).
    Stopped,
    /// The build has no parser: see the feature `parser`, which is `sql` of the crate `margay`.
    NoParser,
    /// A raised condition, or a loop that exceeded its budget, in a stored procedure.
    Procedure(String),
}

impl SqlError {
    /// A construct outside the fragment, at no known place.
    pub fn unsupported(construct: impl Into<String>) -> Self {
        SqlError::Unsupported { construct: construct.into(), at: None }
    }

    /// The error as the dialect means it: where types are not static, operands that do not fit are
    /// converted by rules outside the fragment, and are no errors of the statement.
    pub(crate) fn in_dialect(self, dialect: Dialect) -> Self {
        match self {
            SqlError::Type(message) if !dialect.is_strict() => SqlError::unsupported(message),
            SqlError::SubqueryRows if dialect == Dialect::Sqlite => SqlError::unsupported(self.to_string()),
            other => other,
        }
    }

    /// True if the statement is outside the fragment, rather than wrong.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, SqlError::Unsupported { .. } | SqlError::NoParser)
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SqlError::Parse { message, at } => {
                f.write_str(message)?;
                place(f, *at)
            }
            SqlError::Unsupported { construct, at } => {
                write!(f, "outside the SQL fragment: {construct}")?;
                place(f, *at)
            }
            SqlError::UnknownColumn(name) => write!(f, "no column is called {name}"),
            SqlError::AmbiguousColumn(name) => write!(f, "several columns are called {name}"),
            SqlError::UnknownTable(name) => write!(f, "no table is called {name}"),
            SqlError::UnknownProcedure(name) => write!(f, "no procedure is called {name}"),
            SqlError::TableExists(name) => write!(f, "a table is called {name} already"),
            SqlError::MissingParameter(number) => write!(f, "no value is bound to parameter {number}"),
            SqlError::Type(message) | SqlError::Procedure(message) => f.write_str(message),
            SqlError::Overflow(what) => write!(f, "{what} is out of range"),
            SqlError::DivisionByZero => f.write_str("division by zero"),
            SqlError::Stopped => f.write_str("the statement was stopped"),
            SqlError::NoParser => f.write_str("this build reads no SQL, switch on the feature `sql`"),
            SqlError::Constraint(name) => write!(f, "constraint violated: {name}"),
            SqlError::SubqueryRows => f.write_str("a scalar subquery gives more than one row"),
        }
    }
}

fn place(f: &mut fmt::Formatter<'_>, at: Option<Position>) -> fmt::Result {
    match at {
        Some(at) => write!(f, " (line {}, column {})", at.line, at.column),
        None => Ok(()),
    }
}

impl std::error::Error for SqlError {}
