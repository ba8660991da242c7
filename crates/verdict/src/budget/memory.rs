//! How much memory the process holds, and how much the machine has.

use std::fs;

/// The resident memory of this process in bytes, where the operating system tells it.
pub(super) fn resident() -> Option<u64> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(page_size())
}

/// What a process may hold by default: half of the machine's memory, or of what its control group
/// may have.
#[must_use]
pub fn default_memory() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    let group =
        fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    machine.into_iter().chain(group).min().map(|bytes: u64| bytes / 2)
}

/// The line `MemTotal` of `/proc/meminfo`, in bytes.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

/// The unit of `statm`. The standard library does not tell it, so it is taken from `smaps`.
fn page_size() -> u64 {
    static SIZE: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *SIZE.get_or_init(|| {
        let smaps = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        let line = smaps.lines().find_map(|line| line.strip_prefix("KernelPageSize:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(4) * 1024
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_has_more_than_this_process() {
        let (Some(resident), Some(limit)) = (resident(), default_memory()) else { return };
        assert!(1 << 16 < resident && resident < 2 * limit, "{resident} of {limit}");
        assert_eq!(total("MemTotal:        2048 kB\nMemFree: 1 kB\n"), Some(2 << 20));
    }
}
