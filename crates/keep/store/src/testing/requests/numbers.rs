//! Random numbers and decimal digits for generated requests. Each takes a few nanoseconds.

use blkkin_model::SpanId;
use blkkin_sys::testing::Random;
use std::num::NonZeroU64;

/// Number of samples in the table of the duration distribution.
const STEPS: usize = 1024;
/// Standard deviation of the durations' natural logarithms. One request in a thousand takes about
/// ten times the median.
const SIGMA: f64 = 0.85;

#[derive(Clone, Debug)]
pub(super) struct Numbers {
    random: Random,
    /// Samples of the log-normal distribution, in multiples of the median.
    factors: Vec<f32>,
}

impl Numbers {
    pub(super) fn new(seed: u64) -> Numbers {
        let mut shape = Random::new(0);
        let mut uniform = || (shape.next() >> 11) as f64 / (1u64 << 53) as f64;
        // The sum of twelve uniform numbers approximates a normal distribution.
        let mut normal = || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        let factors = (0..STEPS).map(|_| (SIGMA * normal()).exp() as f32).collect();
        Numbers { random: Random::new(seed), factors }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.random.next()
    }

    /// Returns a random number that is less than `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    pub(super) fn index(&mut self, count: usize) -> usize {
        self.below(count as u64) as usize
    }

    pub(super) fn id(&mut self) -> SpanId {
        (NonZeroU64::MIN | self.next()).into()
    }

    /// Returns a random number from a log-normal distribution whose median is `median`.
    pub(super) fn log_normal(&mut self, median: u64) -> u64 {
        let at = self.index(STEPS);
        let factor = self.factors[at];
        let exact = 900 + self.below(200);
        (median as f32 * factor) as u64 * exact / 1000
    }
}

/// Buffer for the decimal digits of a number, so that formatting does not allocate.
#[derive(Default)]
pub(super) struct Digits([u8; 20]);

impl Digits {
    pub(super) fn of(&mut self, mut number: u64) -> &str {
        let mut start = self.0.len();
        loop {
            start -= 1;
            self.0[start] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        std::str::from_utf8(&self.0[start..]).unwrap_or_default()
    }
}
