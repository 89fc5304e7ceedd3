//! Random numbers, the same in each run.

/// xorshift64*: enough to vary tests.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Mostly little more than `min`, seldom as much as `max`.
    pub(crate) fn between(&mut self, min: usize, max: usize) -> usize {
        match self.below(256) {
            0 => max,
            1..8 => min + self.below(max - min + 1),
            _ => min + self.below((max - min + 1).min(9)),
        }
    }
}
