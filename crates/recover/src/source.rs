//! A log that is read beside the workload.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::log::Commit;

/// How often a log is looked at.
const REST: Duration = Duration::from_millis(200);

/// The log of a database, from where it was opened.
pub(crate) trait Source: Send {
    /// Takes in what there is.
    fn read(&mut self) -> Result<(), String>;

    /// Everything up to now.
    fn finish(self: Box<Self>) -> Result<Vec<Commit>, String>;
}

/// A thread that reads a log until it is told to come to its end.
pub(crate) struct Reader {
    end: Sender<()>,
    thread: JoinHandle<Result<Vec<Commit>, String>>,
}

impl Reader {
    pub fn start(source: Box<dyn Source>) -> Self {
        let (end, ended) = channel();
        Self { end, thread: thread::spawn(move || follow(source, &ended)) }
    }

    /// What the log told, when the workload is over.
    pub fn finish(self) -> Result<Vec<Commit>, String> {
        let _ = self.end.send(());
        self.thread.join().unwrap_or_else(|_| Err("the reader of the log panicked".to_owned()))
    }
}

fn follow(mut source: Box<dyn Source>, ended: &Receiver<()>) -> Result<Vec<Commit>, String> {
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(REST) {
        source.read()?;
    }
    source.finish()
}
