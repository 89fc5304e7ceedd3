//! Sets of integers as ranges. The reader checks with them that the options of a variant are
//! disjoint; the writer makes the options disjoint.

use std::collections::BTreeMap;

/// A set of integers: a map from the lower to the upper end of inclusive, disjoint ranges.
#[derive(Default)]
pub(super) struct RangeSet(BTreeMap<i128, i128>);

impl RangeSet {
    /// Returns the highest range of the set that intersects `low..=high`; `None` if no range does.
    fn last_within(&self, low: i128, high: i128) -> Option<(i128, i128)> {
        let (&start, &end) = self.0.range(..=high).next_back()?;
        (end >= low).then_some((start, end))
    }

    /// Returns an integer of `low..=high` that is in the set, or `None`.
    pub(super) fn overlap(&self, low: i128, high: i128) -> Option<i128> {
        self.last_within(low, high).map(|(start, _)| start.max(low))
    }

    /// Inserts `low..=high`, and returns the parts of `low..=high` that were not in the set.
    pub(super) fn insert(&mut self, low: i128, high: i128) -> Vec<(i128, i128)> {
        let mut free = Vec::new();
        let (mut merged_low, mut merged_high, mut rest) = (low, high, high);
        // Iterates downwards; `rest` is the highest integer not examined yet.
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
