//! The parent of a process of a cluster.
//!
//! # Problem
//! When one process of a dataflow dies, timely ends all others, by panics in places that cannot be
//! caught. That must neither look like a verdict, nor be the end.
//!
//! # Algorithm
//! The command starts itself again as a child, and keeps what that prints until it has ended. If it
//! ended by itself, its output and status are the parent's. Otherwise it is started anew, a few
//! times: the children of the other machines have ended too, and meet again. All of them read the
//! recordings again, and find what a quiet run finds. When that was tried often enough, a last
//! child is told to give up, and says why in the form that was asked for: `unknown`.
//!
//! # Invariants
//! A child does not outlive its parent: it ends when its standard input does.

use std::io::{self, Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

/// The status of a child that has lost another process.
pub(crate) const LOST: i32 = 70;

/// A child is started again so often.
const TRIES: u32 = 5;

/// How long to wait before the first new beginning; before each further one that much longer.
const PAUSE: Duration = Duration::from_millis(150);

/// Says which try a child is.
const VARIABLE: &str = "MARGAY_CLUSTER_TRY";

/// Which child this is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Generation {
    /// So many have died before.
    Try(u32),
    /// Too many have: this one only says why there is no verdict.
    GivenUp(String),
}

impl Generation {
    /// Which child of a supervisor this process is, if it is one. It ends with its parent from now
    /// on.
    #[must_use]
    pub fn of_this_process() -> Option<Self> {
        let text = std::env::var(VARIABLE).ok()?;
        thread::spawn(|| {
            let mut nothing = [0; 64];
            while io::stdin().read(&mut nothing).is_ok_and(|count| count > 0) {}
            std::process::exit(LOST);
        });
        Some(text.parse().map_or(Self::GivenUp(text), Self::Try))
    }
}

/// Runs this very command as a child, again and again if it dies; answers the exit status.
///
/// # Errors
/// When it cannot be started, or its output cannot be read or written.
pub fn supervise() -> io::Result<u8> {
    let mut why = String::new();
    for number in 0..=TRIES {
        let (status, output) = child(&number.to_string())?;
        if let Some(verdict) = own(status) {
            io::stdout().write_all(&output)?;
            return Ok(verdict);
        }
        why = format!("the process died {} times, the last time by {}", number + 1, cause(status));
        eprintln!("margay: {why}");
        // The others have to notice first: they are to begin again, too.
        thread::sleep(PAUSE * (number + 1));
    }
    let (status, output) = child(&format!("{why}; nothing is known of the history"))?;
    io::stdout().write_all(&output)?;
    // Whatever the last one says, it has verified nothing.
    Ok(own(status).filter(|verdict| *verdict >= 2).unwrap_or(3))
}

/// Runs the command as a child; answers how it ended and what it printed.
fn child(number: &str) -> io::Result<(ExitStatus, Vec<u8>)> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(VARIABLE, number)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    // Kept open until the child has ended.
    let parent = child.stdin.take();
    let mut output = Vec::new();
    if let Some(stdout) = &mut child.stdout {
        stdout.read_to_end(&mut output)?;
    }
    let status = child.wait()?;
    drop(parent);
    Ok((status, output))
}

/// The status of a child that came to an end by itself.
fn own(status: ExitStatus) -> Option<u8> {
    status.code().and_then(|code| u8::try_from(code).ok()).filter(|code| *code <= 3)
}

/// What ended a child that did not end by itself.
fn cause(status: ExitStatus) -> String {
    match status.code() {
        Some(LOST) => "the loss of another one".to_owned(),
        Some(code) => format!("status {code}"),
        None => status.to_string(),
    }
}
