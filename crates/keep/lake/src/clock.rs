//! What time it is, for a store: tests have a clock of their own.

use std::time::{Duration, Instant};

/// What time it is.
pub trait Clock: Send + Sync {
    /// In nanoseconds since 1970. May jump.
    fn now_ns(&self) -> u64;

    /// Since some moment. Never goes back.
    fn uptime(&self) -> Duration;
}

/// The machine's.
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
