//! What a session reports.

use crate::event::{Executed, Times};

/// Bits of the status that the server tells with most answers.
pub mod status {
    /// A transaction is open.
    pub const IN_TRANSACTION: u16 = 1;
    /// Statements outside of a transaction commit by themselves.
    pub const AUTOCOMMIT: u16 = 2;
    /// Another result follows.
    pub(crate) const MORE_RESULTS: u16 = 8;
    /// Rows wait to be fetched.
    pub(crate) const CURSOR: u16 = 0x40;
}

/// What happened on a connection.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The server has accepted the client.
    Connected(Connected),
    /// A statement, or several in one text.
    Ran(Ran),
    /// The client chose a database by a command of the protocol.
    Database(String),
    /// The session is as new: its transaction was rolled back, its settings are gone. It may have
    /// another database.
    Reset(Option<String>, Times),
    /// The session cannot be understood from here on, and why.
    Blind(String),
}

/// A session at its beginning.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Connected {
    /// The server's number of the connection.
    pub thread: u32,
    /// The database that the client chose.
    pub database: Option<String>,
    /// Whether texts are UTF-8.
    pub unicode: bool,
    /// Whether updates count the rows that they found, not those that they changed.
    pub counts_found: bool,
    /// The status.
    pub status: u16,
}

/// The answers to one command.
#[derive(Clone, PartialEq, Debug)]
pub struct Ran {
    /// Its results. If one failed, it is the last.
    pub answers: Vec<Answer>,
}

/// One result.
#[derive(Clone, PartialEq, Debug)]
pub struct Answer {
    /// What ran. The tag of its outcome is empty.
    pub executed: Executed,
    /// Whether it has columns.
    pub returns: bool,
    /// How many rows it changed, if it has no columns.
    pub affected: u64,
    /// How many rows it changed of those that it found, if the server says so. A client may want
    /// `affected` to count those that were found.
    pub changed: Option<u64>,
    /// The first number that the server chose for an `AUTO_INCREMENT` column; 0 is none.
    pub inserted: u64,
    /// The status after it; none after an error.
    pub status: Option<u16>,
}
