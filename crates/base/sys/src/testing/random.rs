//! Reproducible random numbers for tests.

/// Xorshift64* generator; its quality suffices to vary tests.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Makes a generator that starts from this seed. Similar seeds give different numbers too.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns a random number of 64 bits.
    #[expect(clippy::should_implement_trait, reason = "numbers do not come to an end")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a random number below `end`. `end` must not be 0.
    pub fn below<N: TryInto<u64> + TryFrom<u64>>(&mut self, end: N) -> N {
        let end = end.try_into().ok().expect("an end above 0");
        N::try_from(self.next() % end).ok().expect("less than the end")
    }

    /// Returns a random number from `min` to `max`, both included. Most numbers exceed `min` by at
    /// most 8, and at least one in 256 is `max`.
    pub fn between(&mut self, min: usize, max: usize) -> usize {
        match self.below(256) {
            0 => max,
            1..8 => min + self.below(max - min + 1),
            _ => min + self.below((max - min + 1).min(9)),
        }
    }

    /// Returns true with a probability of `percent` per cent.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns a clone of a random item.
    pub fn one_of<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }
}
