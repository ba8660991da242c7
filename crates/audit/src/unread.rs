//! Certificates about SQL statements in a build without the feature `sql`: it can re-check none of
//! them.

use margay_history::History;
use margay_sql::SqlError;
use margay_verdict::execution::{Execution, Invariant, Unexplained};
use margay_verdict::{Budget, Question};

use crate::{Rejected, reject};

pub(crate) fn holds(_: &History, _: Question, _: &Execution, _: &Budget) -> Result<(), Rejected> {
    reject(SqlError::NoParser.to_string())
}

pub(crate) fn violated(_: &History, _: Question, _: &Unexplained, _: &Budget) -> Result<(), Rejected> {
    reject(SqlError::NoParser.to_string())
}

pub(crate) fn invariant(_: &History, _: Question, _: &Invariant, _: &Budget) -> Result<(), Rejected> {
    reject(SqlError::NoParser.to_string())
}
