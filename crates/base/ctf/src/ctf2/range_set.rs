//! Keeps apart the ranges of a variant's options, of which no two may hold the same integer.

use std::collections::BTreeMap;

/// The integers that options so far have taken: inclusive ranges that do not overlap, by their
/// lower end.
#[derive(Default)]
pub(super) struct Taken(BTreeMap<i128, i128>);

impl Taken {
    /// The first range that shares an integer with `low..=high`, seen from above.
    fn last_within(&self, low: i128, high: i128) -> Option<(i128, i128)> {
        let (&start, &end) = self.0.range(..=high).next_back()?;
        (end >= low).then_some((start, end))
    }

    /// An integer of `low..=high` that is taken.
    pub(super) fn overlap(&self, low: i128, high: i128) -> Option<i128> {
        self.last_within(low, high).map(|(start, _)| start.max(low))
    }

    /// Takes `low..=high`, and gives the parts of it that were free.
    pub(super) fn take(&mut self, low: i128, high: i128) -> Vec<(i128, i128)> {
        let mut free = Vec::new();
        let (mut merged_low, mut merged_high, mut rest) = (low, high, high);
        // From above; `rest` is the highest integer not looked at yet.
        while let Some((start, end)) = self.last_within(low, high) {
            if end < rest {
                free.push((end + 1, rest));
            }
            rest = start.saturating_sub(1);
            merged_low = merged_low.min(start);
            merged_high = merged_high.max(end);
            self.0.remove(&start);
        }
        if low <= rest {
            free.push((low, rest));
        }
        self.0.insert(merged_low, merged_high);
        free.reverse();
        free
    }
}
