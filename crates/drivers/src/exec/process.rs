//! One process of a driver: a line to it, a line from it.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use margay_client::Trouble;
use serde_json::{Map, Value as Json};

use super::{Driver, PATIENCE};

/// A longer line is no answer.
const LINE: u64 = 64 << 20;

/// Requests whose answers tell nothing, and what only others' answers tell.
const SILENT: [&str; 4] = ["begin", "write", "commit", "rollback"];
const ANSWERS: [&str; 4] = ["value", "pairs", "rows", "count"];

/// How long a process may take to end by itself.
const FAREWELL: Duration = Duration::from_secs(2);

/// It ends with this: its standard input is closed, and it has a little time to put its things in
/// order.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    /// None when it is to end.
    requests: Option<ChildStdin>,
    answers: Receiver<String>,
    /// How long an answer may take.
    pub patience: Duration,
}

impl Process {
    /// Starts a command by the shell.
    pub fn start(command: &str) -> Result<Self, String> {
        let mut child = Command::new("sh")
            .args(["-c", &format!("exec {command}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("no shell: {error}"))?;
        let (Some(requests), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("no pipes".to_owned());
        };
        let (sender, answers) = sync_channel(1);
        let mut output = BufReader::new(output);
        thread::spawn(move || {
            let mut line = String::new();
            while matches!(output.by_ref().take(LINE).read_line(&mut line), Ok(1..)) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, requests: Some(requests), answers, patience: PATIENCE })
    }

    /// Sends a request and waits for its answer.
    pub fn ask(&mut self, driver: &Driver, request: &Json) -> Result<Map<String, Json>, Trouble> {
        if let Some(why) = driver.broken() {
            return Err(Trouble::Failed(why));
        }
        if let Ok(line) = self.answers.try_recv() {
            return Err(surplus(driver, &line));
        }
        let line = format!("{request}\n");
        // If nobody reads it, the process has ended, and so have its answers.
        let _ = self.requests.as_mut().map(|pipe| pipe.write_all(line.as_bytes()));
        match self.answers.recv_timeout(self.patience) {
            Ok(line) => self.read(driver, request, &line),
            Err(RecvTimeoutError::Timeout) => {
                let _ = self.child.kill();
                Err(Trouble::Lost(format!(
                    "the driver has not answered {request} within {:?}",
                    self.patience
                )))
            }
            Err(RecvTimeoutError::Disconnected) => Err(Trouble::Lost(self.ended())),
        }
    }

    fn read(&mut self, driver: &Driver, request: &Json, line: &str) -> Result<Map<String, Json>, Trouble> {
        let Ok(Json::Object(mut answer)) = serde_json::from_str(line) else {
            let line: String = line.trim_end().chars().take(200).collect();
            let why = format!("the driver answered {request} with `{line}`, which is no JSON object");
            return Err(Trouble::Failed(driver.break_with(why)));
        };
        let mut told = |key| Some(answer.remove(key)?.as_str().unwrap_or("no reason").to_owned());
        let trouble = told("refused").map(Trouble::Refused);
        let trouble = trouble.or_else(|| told("lost").map(Trouble::Lost));
        trouble.or_else(|| told("failed").map(Trouble::Failed)).map_or(Ok(()), Err)?;
        let silent = request["op"].as_str().is_some_and(|op| SILENT.contains(&op));
        let tells = ANSWERS.iter().any(|field| answer.contains_key(*field));
        if silent && tells { Err(surplus(driver, line)) } else { Ok(answer) }
    }

    /// How the process ended.
    fn ended(&mut self) -> String {
        match self.child.wait() {
            Ok(status) => format!("the driver has ended: {status}"),
            Err(error) => format!("the driver has ended: {error}"),
        }
    }
}

/// An answer that belongs to another request. With those after it one behind, values would stand
/// at the wrong reads, and databases be accused.
fn surplus(driver: &Driver, line: &str) -> Trouble {
    let line: String = line.trim_end().chars().take(200).collect();
    let why = format!("the driver said `{line}` when nothing had asked for it: its answers are out of step");
    Trouble::Failed(driver.break_with(why))
}

impl Drop for Process {
    fn drop(&mut self) {
        self.requests = None;
        let end = Instant::now() + FAREWELL;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            thread::sleep(Duration::from_millis(2));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
