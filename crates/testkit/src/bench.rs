//! The frame of benchmarks that print a table: each case in a process of its own, so that the peaks
//! of memory do not mix.

use std::process::Command;
use std::time::Instant;

use margay_verdict::Verdict;

/// A table of cases. The program is called again for each of them, as `child NUMBER`; `PART` as its
/// argument chooses the cases whose name has it.
pub struct Bench<'a> {
    /// The first two lines of the table.
    pub head: &'a str,
    /// The cases' names.
    pub names: Vec<&'a str>,
    /// What a child finds out about a case.
    pub child: &'a dyn Fn(usize) -> String,
    /// The row of a case, with what its child said.
    pub row: &'a dyn Fn(usize, &str) -> String,
}

impl Bench<'_> {
    /// Does what the program's arguments say.
    ///
    /// # Panics
    /// When this program cannot be called again.
    pub fn main(&self) {
        let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
        match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["child", number] => println!("{}", (self.child)(number.parse().expect("a number"))),
            _ => self.table(args.first().map_or("", String::as_str)),
        }
    }

    fn table(&self, part: &str) {
        println!("{}", self.head);
        for (number, _) in self.names.iter().enumerate().filter(|(_, name)| name.contains(part)) {
            let program = std::env::current_exe().expect("this program");
            let output =
                Command::new(program).args(["child", &number.to_string()]).output().expect("a child");
            println!("{}", (self.row)(number, String::from_utf8_lossy(&output.stdout).trim()));
        }
    }
}

/// Does some work, and tells what it cost: `seconds | CPU s | peak, MB`.
pub fn measured<T>(work: impl FnOnce() -> T) -> (T, String) {
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let done = work();
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    (done, format!("{seconds:.2} | {cpu:.2} | {}", peak_megabytes()))
}

/// A verdict in a word, or why there is none.
#[must_use]
pub fn word(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Unknown(why) => format!("unknown: {why}"),
        verdict => verdict.word().to_string(),
    }
}

/// User and system time of this process, in seconds; 0 where the system does not tell.
#[must_use]
pub fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or("");
    let ticks: u64 = after.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}

/// The largest resident memory of this process so far.
fn peak_megabytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) / 1024
}
