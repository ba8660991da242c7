//! Processes by their numbers, as Linux tells of them in `/proc`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a signal may take: it acts when the process runs next, and on a busy machine that is
/// not at once.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the programs are called that run in a server's folder.
const SERVERS: [&str; 3] = ["postgres", "initdb", "mariadbd"];

/// Sends a signal; who is gone needs none.
pub(crate) fn signal(name: &str, processes: &[u32]) {
    let processes = processes.iter().map(u32::to_string);
    let _ = Command::new("kill").args(["-s", name]).args(processes).stderr(Stdio::null()).status();
}

/// Stops processes, and waits until they have.
pub(crate) fn stop(processes: &[u32]) {
    signal_until("STOP", processes, |state| matches!(state, 'T' | 't' | 'Z' | 'X'));
}

/// Kills processes, and waits until they are gone, with all that they held.
pub(crate) fn kill(processes: &[u32]) {
    signal_until("KILL", processes, |state| matches!(state, 'Z' | 'X'));
}

/// Who is gone has done all that can be wanted.
fn signal_until(name: &str, processes: &[u32], done: impl Fn(char) -> bool) {
    signal(name, processes);
    let deadline = Instant::now() + PATIENCE;
    let all = || processes.iter().all(|process| state(*process).is_none_or(|(state, _)| done(state)));
    while !all() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A process and its descendants, each after its parent.
pub(crate) fn family(root: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> =
        numbers().filter_map(|process| Some((process, state(process)?.1))).collect();
    let mut family = vec![root];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(process, _)| process));
        next += 1;
    }
    family
}

/// The servers whose working directory is in a folder.
pub(crate) fn servers_in(folder: &Path) -> Vec<u32> {
    let is_server = |process: &u32| {
        let place = format!("/proc/{process}");
        let name = fs::read_to_string(format!("{place}/comm")).unwrap_or_default();
        let inside = fs::read_link(format!("{place}/cwd")).is_ok_and(|at| at.starts_with(folder));
        inside && SERVERS.contains(&name.trim_end())
    };
    numbers().filter(is_server).collect()
}

fn numbers() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The letter of a process's state, and its parent.
pub(crate) fn state(process: u32) -> Option<(char, u32)> {
    let told = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Its name stands in brackets, and may have brackets.
    let mut fields = told.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}
