//! [`Clock`]: the time, which tests can replace.

use std::time::{Duration, Instant};

/// Source of time.
pub trait Clock: Send + Sync {
    /// Time of day, in nanoseconds since 1970. May jump.
    fn now_ns(&self) -> u64;

    /// Monotonic time since an arbitrary moment.
    fn uptime(&self) -> Duration;
}

/// The clock of the machine.
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
