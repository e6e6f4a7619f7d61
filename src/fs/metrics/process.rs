//! What the system says of our process.

use rustix::time::{ClockId, clock_gettime};

/// Memory in bytes, and threads; `None` for what the system doesn't tell.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) resident_bytes: Option<u64>,
    pub(super) peak_resident_bytes: Option<u64>,
    pub(super) anonymous_bytes: Option<u64>,
    pub(super) threads: Option<u64>,
}

impl Status {
    /// As it is now.
    pub(super) fn now() -> Self {
        std::fs::read_to_string("/proc/self/status").map(|text| Self::parse(&text)).unwrap_or_default()
    }

    /// Reads proc(5)'s `status`.
    fn parse(text: &str) -> Self {
        let number = |name: &str| -> Option<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.trim().trim_end_matches(" kB").parse().ok()
        };
        let bytes = |name| number(name).map(|kib| kib.saturating_mul(1024));
        Self {
            resident_bytes: bytes("VmRSS"),
            peak_resident_bytes: bytes("VmHWM"),
            anonymous_bytes: bytes("RssAnon"),
            threads: number("Threads"),
        }
    }
}

/// Descriptors that are open, but for the one that this takes.
pub(super) fn open_descriptors() -> Option<u64> {
    Some((std::fs::read_dir("/proc/self/fd").ok()?.count() as u64).saturating_sub(1))
}

/// The processor's time that all threads have taken, in seconds.
pub(super) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_tells_of_memory_threads_and_time() {
        let now = Status::now();
        assert!(now.anonymous_bytes < now.resident_bytes && now.resident_bytes <= now.peak_resident_bytes);
        assert!(now.anonymous_bytes > Some(100_000) && now.threads > Some(0));
        assert!(open_descriptors() > Some(2));
        let before = cpu_seconds();
        assert!(cpu_seconds() >= before && before > 0.0);
    }

    #[test]
    fn what_it_does_not_tell_is_left_out() {
        assert_eq!(Status::parse("VmRSSx:\t7 kB\nThreads:\tmany\n"), Status::default());
        let told = Status::parse("VmRSS:\t  7 kB\n");
        assert_eq!(told, Status { resident_bytes: Some(7168), ..Status::default() });
    }
}
