//! What a simulation tells beyond what clients saw.
//!
//! # Invariants
//! - Evidence is the truth about the database, faults included. Pieces that are left out are left
//!   out at random, by their own stream: thinning does not change the history.

use margay_client::{Note, Obj, Rng, Sink};

use crate::config::{EvidenceOptions, SimConfig};
use crate::db::Succession;
use crate::protocol::Protocol;

#[derive(Debug)]
pub(crate) struct Notes {
    options: EvidenceOptions,
    rng: Rng,
    snapshots: bool,
    serial: bool,
}

/// Whether transactions see snapshots, which have timestamps.
pub(crate) fn has_snapshots(protocol: Protocol) -> bool {
    use Protocol::*;
    matches!(protocol, SiFuw | SiFcw | Ssi | Percolator)
}

/// Whether commit timestamps are a serial order. Serializable snapshot isolation has one too, but
/// does not know it.
pub(crate) fn has_serial_order(protocol: Protocol) -> bool {
    use Protocol::*;
    matches!(protocol, Serial | Ss2pl | Occ | Mvto)
}

impl Notes {
    pub fn new(config: &SimConfig) -> Self {
        Self {
            options: config.evidence,
            rng: Rng::new(config.seed, 998),
            snapshots: has_snapshots(config.protocol),
            serial: has_serial_order(config.protocol),
        }
    }

    fn keep(&mut self, percent: u8) -> bool {
        percent > 0 && self.rng.chance(u32::from(percent) * 10_000)
    }

    pub fn committed<S: Sink>(
        &mut self,
        sink: &mut S,
        txn: u64,
        ts: u64,
        snapshot: Option<u64>,
    ) -> Result<(), S::Error> {
        if let Some(snapshot) = snapshot.filter(|_| self.snapshots)
            && self.keep(self.options.snapshot)
        {
            sink.note(Note::Snapshot(txn, snapshot as i64))?;
        }
        if self.keep(self.options.commit) {
            sink.note(Note::Commit(txn, ts as i64))?;
        }
        if self.serial && self.keep(self.options.serialization) {
            sink.note(Note::Serialization(txn, ts as i64))?;
        }
        Ok(())
    }

    pub fn successions<S: Sink>(&mut self, sink: &mut S, all: &mut Vec<Succession>) -> Result<(), S::Error> {
        for Succession { obj, earlier, later } in all.drain(..) {
            if earlier != later && self.keep(self.options.version_order) {
                sink.note(Note::VersionOrder(obj, [earlier, later]))?;
            }
        }
        Ok(())
    }

    pub fn version_set<S: Sink>(
        &mut self,
        sink: &mut S,
        txn: u64,
        op: u32,
        looked: &[(Obj, u64)],
    ) -> Result<(), S::Error> {
        if !looked.is_empty() && self.keep(self.options.version_set) {
            sink.note(Note::VersionSet(txn, op, looked))?;
        }
        Ok(())
    }
}
