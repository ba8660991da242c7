//! How a command can end.

use std::process::ExitCode;

use margay_formats::FormatError;

use crate::terminal;

/// The exit status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// The level holds, nothing was found, or the command simply did what it was told.
    Fine,
    /// The level is violated, or the certificate rejected.
    Violated,
    /// Bad usage or unreadable input.
    Failed,
    /// No answer.
    Unknown,
}

impl Status {
    /// The status of this number, of a command that was run by another.
    pub fn of(number: u8) -> Self {
        let all = [Self::Fine, Self::Violated, Self::Failed];
        all.into_iter().find(|status| *status as u8 == number).unwrap_or(Self::Unknown)
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        ExitCode::from(status as u8)
    }
}

/// Why a command could not be carried out: what is printed on standard error before exit status 2.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure(String);

impl Failure {
    /// A failure that says `what`.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }

    /// What it says.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Prints it where it is not one: something is missing, and the rest goes on.
    pub fn print_as_warning(&self) {
        terminal::warn(&self.0);
    }

    /// Prints it.
    pub fn print(&self) {
        terminal::tell("error", &self.0);
    }
}

impl From<FormatError> for Failure {
    fn from(error: FormatError) -> Self {
        Self(error.render())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_pinned() {
        let all = [Status::Fine, Status::Violated, Status::Failed, Status::Unknown];
        assert_eq!(all.map(|status| status as u8), [0, 1, 2, 3]);
    }
}
