//! Which faults fire, and the record of it.

use margay_client::Rng;

use crate::config::SimConfig;
use crate::fault::Fault;
use crate::report::Firing;

const COUNT: usize = Fault::ALL.len();

/// The faults of a simulation. A fault that is switched off draws no random number, so it cannot
/// change what others do.
#[derive(Debug)]
pub(crate) struct Faults {
    ppm: [u32; COUNT],
    streams: Vec<Rng>,
    /// For choices that a fault has to make.
    pub choice: Rng,
    pub firings: Vec<Firing>,
    /// Whether any fault is on that makes reads return wrong values.
    pub in_reads: bool,
}

impl Faults {
    pub fn new(config: &SimConfig) -> Self {
        let mut ppm = [0; COUNT];
        config.faults.iter().for_each(|&(fault, p)| ppm[fault as usize] = p.0);
        let stream = |i: usize| Rng::new(config.seed, 1000 + i as u64);
        let wrong = [Fault::DirtyRead, Fault::AbortedRead, Fault::IntermediateRead];
        Self {
            ppm,
            streams: (0..COUNT).map(stream).collect(),
            choice: Rng::new(config.seed, 999),
            firings: Vec::new(),
            in_reads: wrong.iter().any(|&f| ppm[f as usize] > 0),
        }
    }

    pub fn armed(&self, fault: Fault) -> bool {
        self.ppm[fault as usize] > 0
    }

    /// Whether the fault happens now.
    pub fn roll(&mut self, fault: Fault) -> bool {
        self.armed(fault) && self.streams[fault as usize].chance(self.ppm[fault as usize])
    }

    /// Writes down that it did.
    pub fn record(&mut self, fault: Fault, txn: u64, time: i64) -> u32 {
        self.firings.push(Firing { fault, txn, time, visible: false });
        (self.firings.len() - 1) as u32
    }
}
