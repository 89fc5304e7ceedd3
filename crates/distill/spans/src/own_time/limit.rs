//! Limit on the number of bands: the shortest are merged into a neighbour.

use super::{BANDS_MAX, Band};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Reduces the number of bands to [`BANDS_MAX`]. The shortest band is merged into the longer of its
/// neighbours, and left out if it has none because children ran before and after it.
pub(super) fn limit(bands: &mut Vec<Band<'_>>) {
    if bands.len() <= BANDS_MAX {
        return;
    }
    let mut list = List::new(bands);
    while list.count > BANDS_MAX && list.remove_shortest() {}
    let mut is_removed = list.is_removed.into_iter();
    bands.retain(|_| !is_removed.next().unwrap_or(false));
}

/// Bands as a linked list, with a heap of their lengths.
struct List<'l, 'a> {
    bands: &'l mut [Band<'a>],
    count: usize,
    before: Vec<usize>,
    after: Vec<usize>,
    is_removed: Vec<bool>,
    /// Length and index of each band. Entries of removed bands and of former lengths are skipped.
    shortest: BinaryHeap<Reverse<(u64, usize)>>,
}

/// Index of an absent neighbour.
const NONE: usize = usize::MAX;

impl<'l, 'a> List<'l, 'a> {
    fn new(bands: &'l mut [Band<'a>]) -> List<'l, 'a> {
        let count = bands.len();
        List {
            count,
            before: (0..count).map(|at| at.wrapping_sub(1)).collect(),
            after: (1..count).chain([NONE]).collect(),
            is_removed: vec![false; count],
            shortest: bands
                .iter()
                .enumerate()
                .map(|(at, band)| Reverse((band.duration_ns, at)))
                .collect(),
            bands,
        }
    }

    /// Removes the shortest band; returns false if no band is left.
    fn remove_shortest(&mut self) -> bool {
        let Some(Reverse((duration, at))) = self.shortest.pop() else { return false };
        if self.is_removed[at] || self.bands[at].duration_ns != duration {
            return true;
        }
        let (before, after) = (self.before[at], self.after[at]);
        let adjacent = |one: usize, next: usize| {
            let is_adjacent = self.bands.get(one).zip(self.bands.get(next));
            is_adjacent.is_some_and(|(one, next)| one.end_ns() == next.start_ns)
        };
        let length = |neighbour: usize| self.bands[neighbour].duration_ns;
        match (adjacent(before, at), adjacent(at, after)) {
            (true, true) if length(before) >= length(after) => self.merge(before, at),
            (_, true) => {
                // The following band's kind counts.
                let Band { kind, detail, .. } = self.bands[after];
                (self.bands[at].kind, self.bands[at].detail) = (kind, detail);
                self.merge(at, after);
            }
            (true, false) => self.merge(before, at),
            (false, false) => self.unlink(at),
        }
        true
    }

    /// Merges a band into the one before it, and so the following one if that continues them.
    fn merge(&mut self, into: usize, at: usize) {
        self.bands[into].duration_ns += self.bands[at].duration_ns;
        self.unlink(at);
        let neighbours = [(self.before[into], into), (into, self.after[into])];
        for (one, next) in neighbours {
            if let (Some(a), Some(b)) = (self.bands.get(one), self.bands.get(next))
                && a.is_continued_by(b)
            {
                self.bands[one].duration_ns += self.bands[next].duration_ns;
                self.unlink(next);
                self.shortest.push(Reverse((self.bands[one].duration_ns, one)));
                return;
            }
        }
        self.shortest.push(Reverse((self.bands[into].duration_ns, into)));
    }

    fn unlink(&mut self, at: usize) {
        let (before, after) = (self.before[at], self.after[at]);
        if let Some(next) = self.after.get_mut(before) {
            *next = after;
        }
        if let Some(next) = self.before.get_mut(after) {
            *next = before;
        }
        self.is_removed[at] = true;
        self.count -= 1;
    }
}
