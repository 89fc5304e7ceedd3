//! Exponential backoff with jitter, to spread the retries of exporters that failed together.

use std::time::Duration;

/// Exponential backoff delays up to a maximum. Each delay is reduced by a random part of at most a
/// half.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    first: Duration,
    max: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(first: Duration, max: Duration) -> Backoff {
        Backoff { first, max, next: first }
    }

    /// Returns the next delay, with jitter, and doubles the delay after it.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(self.max);
        jittered(pause, random())
    }

    /// Returns the delay before a first retry, with jitter, without advancing the backoff.
    pub(crate) fn least(&self) -> Duration {
        jittered(self.first, random())
    }

    /// Resets the backoff to its first delay, after a success.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }
}

/// Returns a random duration between half of `pause` and all of it.
fn jittered(pause: Duration, random: u64) -> Duration {
    pause.mul_f64(0.5 + random as f64 / u64::MAX as f64 / 2.0)
}

/// Returns 64 random bits from `getrandom`, or bits derived from the time if `getrandom` fails.
fn random() -> u64 {
    match blkkin_sys::random_words::<1>() {
        Some([word]) => word,
        None => blkkin_sys::moment_identity()[3].wrapping_mul(0x9e37_79b9_7f4a_7c15),
    }
}

#[cfg(test)]
mod tests {
    use super::{Backoff, jittered};
    use std::time::Duration;

    #[test]
    fn pauses_grow_up_to_the_longest() {
        let (first, max) = (Duration::from_millis(100), Duration::from_millis(350));
        let mut backoff = Backoff::new(first, max);
        for whole in [100, 200, 350, 350] {
            let whole = Duration::from_millis(whole);
            let pause = backoff.pause();
            assert!(whole / 2 <= pause && pause <= whole, "{pause:?} of {whole:?}");
        }
        backoff.reset();
        assert!(backoff.pause() <= first);
        assert_eq!(jittered(first, 0), first / 2);
        assert_eq!(jittered(first, u64::MAX), first);
    }
}
