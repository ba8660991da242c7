//! A line on standard error that says what is going on and for how long.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use margay_report::limit::visible;

/// Shows its line until it is dropped; nothing at all where standard error is no terminal.
pub struct Progress {
    worker: Option<(Sender<()>, JoinHandle<()>)>,
}

/// What is over sooner needs no line.
const PATIENCE: Duration = Duration::from_millis(300);
const TICK: Duration = Duration::from_millis(100);
const SPINNER: [char; 4] = ['|', '/', '-', '\\'];

impl Progress {
    /// Starts to show `what`, if `wanted`.
    pub fn show(what: &str, wanted: bool) -> Self {
        let what = what.to_owned();
        Self::follow(move || what.clone(), wanted)
    }

    /// Starts to show what `what` says at each moment, if `wanted`.
    pub fn follow(what: impl Fn() -> String + Send + 'static, wanted: bool) -> Self {
        if !wanted || !io::stderr().is_terminal() {
            return Self { worker: None };
        }
        let (stop, stopped) = mpsc::channel();
        let worker = thread::spawn(move || {
            let start = Instant::now();
            let mut wait = PATIENCE;
            let mut ticks = 0;
            while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let seconds = start.elapsed().as_secs_f64();
                draw(&format!(
                    "\r\x1b[K{} {} {seconds:.1} s",
                    SPINNER[ticks % SPINNER.len()],
                    visible(&what())
                ));
                (wait, ticks) = (TICK, ticks + 1);
            }
            if ticks > 0 {
                draw("\r\x1b[K");
            }
        });
        Self { worker: Some((stop, worker)) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, worker)) = self.worker.take() {
            drop(stop);
            let _ = worker.join();
        }
    }
}

/// A terminal that went away is no reason to fail.
fn draw(text: &str) {
    let mut err = io::stderr();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}
