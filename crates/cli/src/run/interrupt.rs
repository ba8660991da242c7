//! Signals that end a run.
//!
//! Ctrl-C once ends the run: what was recorded until then is verified. So does a termination
//! (SIGTERM, SIGHUP), but nobody may take the result for that of the whole run. A second signal
//! ends the program at once, and so does one that comes when the run is over; a server that was
//! started dies with it.
//!
//! # Design
//! The signals are blocked in all threads, and one thread waits for them. Threads inherit that from
//! the one that starts them; the programs that we start do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;

use margay_runner::Monitor;
use nix::sys::signal::{SigSet, Signal};

use crate::failure::Failure;
use crate::serve;

/// The exit status of a program that Ctrl-C has ended.
const INTERRUPTED: i32 = 130;

/// How a run came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// By itself.
    Complete,
    /// By Ctrl-C.
    Interrupted,
    /// By another signal.
    Terminated,
}

impl Ending {
    const ALL: [Ending; 3] = [Ending::Complete, Ending::Interrupted, Ending::Terminated];

    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            Ending::Complete => "complete",
            Ending::Interrupted => "interrupted",
            Ending::Terminated => "terminated",
        }
    }
}

/// Listens for signals during a run.
#[derive(Clone)]
pub struct Interrupts {
    ending: Arc<AtomicU8>,
    over: Arc<AtomicBool>,
}

impl Interrupts {
    /// Begins to listen; before other threads are started.
    pub fn listen(monitor: &Arc<Monitor>) -> Result<Self, Failure> {
        let mut signals = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            signals.add(signal);
        }
        let failed = |error: nix::Error| Failure::new(format!("signals cannot be caught: {error}"));
        signals.thread_block().map_err(failed)?;
        let own = Self { ending: Arc::default(), over: Arc::default() };
        let (listening, monitor) = (own.clone(), Arc::clone(monitor));
        thread::spawn(move || {
            while let Ok(signal) = signals.wait() {
                listening.hear(signal, &monitor);
            }
        });
        Ok(own)
    }

    /// The run is over; answers how it came to its end.
    pub fn end(&self) -> Ending {
        self.over.store(true, Ordering::Relaxed);
        Ending::ALL[usize::from(self.ending.load(Ordering::Relaxed))]
    }

    fn hear(&self, signal: Signal, monitor: &Monitor) {
        if serve::interrupted() {
            // The page was looked at long enough.
            return;
        }
        let ending = if signal == Signal::SIGINT { Ending::Interrupted } else { Ending::Terminated };
        let first = self.ending.compare_exchange(0, ending as u8, Ordering::Relaxed, Ordering::Relaxed);
        if self.over.load(Ordering::Relaxed) || first.is_err() {
            std::process::exit(INTERRUPTED);
        }
        monitor.stop();
        eprintln!(
            "{}: the run ends and is verified; a second signal ends the program at once",
            ending.word()
        );
    }
}
