//! Several machines that run one job together.
//!
//! Each machine has its own share of the clients. Clients are numbered across all machines, so
//! sessions, transactions and written values of different machines differ, as in one run.

use std::time::Instant;

/// What a run asks the other machines.
pub trait Team: Sync {
    /// The number of this machine, from 0, and how many there are.
    fn place(&self) -> (u32, u32);

    /// The clock of the recording.
    fn clock(&self) -> Instant;

    /// Whether this machine creates and drops the tables. Returns when it may create them.
    ///
    /// # Errors
    /// Why there will be no run.
    fn may_prepare(&self) -> Result<bool, String>;

    /// Returns when the tables are there and all machines may begin.
    ///
    /// # Errors
    /// Why they may not.
    fn begin(&self) -> Result<(), String>;

    /// Everything that was called before this time has been written to the output.
    fn promise(&self, before: i64);

    /// Everything that was called before this time is verified.
    fn verified(&self) -> i64;

    /// Whether clients should stop.
    fn is_over(&self) -> bool;

    /// Everything has been written. If the run failed, says why.
    fn end(&self, why: &str);

    /// Returns when no machine uses the tables any more.
    fn wait_for_others(&self);
}
