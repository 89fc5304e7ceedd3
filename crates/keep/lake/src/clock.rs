//! [`Clock`]: source of the time, which tests replace.

use std::time::{Duration, Instant};

/// Source of the time of day and of a monotonic time.
pub trait Clock: Send + Sync {
    /// Returns the time of day in nanoseconds since 1970. The clock may jump.
    fn now_ns(&self) -> u64;

    /// Returns the time since an arbitrary moment. It is monotonic.
    fn uptime(&self) -> Duration;
}

/// Clock of the operating system, which stores use by default.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Instant,
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        blkkin_store::time_of_day_ns()
    }

    fn uptime(&self) -> Duration {
        self.started.elapsed()
    }
}
