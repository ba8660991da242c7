//! How much memory the process needed at most.

/// The peak resident set in bytes, where the system tells (Linux).
pub fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    high_water_mark(&status)
}

fn high_water_mark(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_line() {
        let status = "Name:\tmargay\nVmPeak:\t  9999 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n";
        assert_eq!(high_water_mark(status), Some(2 << 20));
        assert_eq!(high_water_mark("Name:\tmargay\n"), None);
    }
}
