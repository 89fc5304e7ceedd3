//! What tracers have lost, so that a span of which one end is missing is not told to be still going on where that end
//! may be among what was lost.

use std::collections::HashMap;

/// From when to when each source has lost something, as far as that is known so far.
#[derive(Debug, Default)]
pub(crate) struct Losses(HashMap<u32, (u64, u64)>);

impl Losses {
    /// Something was lost between these times; one that is not known may have been any.
    pub(crate) fn add(&mut self, source: u32, from: Option<i64>, to: Option<i64>) {
        let ns = |time: i64| u64::try_from(time).unwrap_or(0);
        let (from, to) = (from.map_or(0, ns), to.map_or(u64::MAX, ns));
        let (first, last) = self.0.entry(source).or_insert((from, to));
        (*first, *last) = (from.min(*first), to.max(*last));
    }

    /// Whether something may have been lost after that time.
    pub(crate) fn is_after(&self, source: u32, time: u64) -> bool {
        self.0.get(&source).is_some_and(|(_, last)| *last >= time)
    }

    /// Whether something may have been lost before that time.
    pub(crate) fn is_before(&self, source: u32, time: u64) -> bool {
        self.0.get(&source).is_some_and(|(first, _)| *first <= time)
    }
}
