//! Exponential backoff with jitter, to spread the retries of clients that failed together.

use std::time::Duration;

/// Exponential delay between retries, with jitter.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Creates a backoff whose delay, before jitter, is initially `first` and doubles up to
    /// `longest`.
    pub fn new(first: Duration, longest: Duration) -> Backoff {
        Backoff { first, longest, next: first }
    }

    /// Returns the delay before the next retry: a random time between half of the current delay and
    /// all of it. Then doubles the current delay, up to the longest.
    pub fn next_delay(&mut self) -> Duration {
        let turn = self.next.min(self.longest);
        self.next = turn.saturating_mul(2).min(self.longest);
        let [random] = blkkin_sys::random_words::<1>().unwrap_or([u64::MAX]);
        turn / 2 + turn.mul_f64(random as f64 / u64::MAX as f64 / 2.0)
    }

    /// Resets the delay after a success.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::Backoff;
    use std::time::Duration;

    #[test]
    fn it_grows_to_its_limit_and_begins_again() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        for turn_ms in [100, 200, 400, 800, 1000, 1000, 1000] {
            let turn = Duration::from_millis(turn_ms);
            let waits = backoff.next_delay();
            assert!(waits >= turn / 2 && waits <= turn, "{waits:?} of {turn:?}");
        }
        backoff.reset();
        assert!(backoff.next_delay() <= Duration::from_millis(100));
    }
}
