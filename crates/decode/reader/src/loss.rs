//! Losses: events and packets that are missing in a trace according to its own counters.

use crate::alignment::CorrectedScale;
use std::fmt;

/// Loss of events or packets of a stream, according to the tracer's counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Unit of the loss: events or whole packets.
    pub kind: LossKind,
    /// Number of lost events or packets; `None` if it is unknown, either in total or within the
    /// reading's range.
    pub count: Option<u64>,
    /// Begin of the loss, in nanoseconds and in cycles of the stream's clock; `None` if unknown.
    pub from: Option<(i64, u64)>,
    /// End of the loss, in nanoseconds and in cycles of the stream's clock; `None` if unknown.
    pub to: Option<(i64, u64)>,
}

/// Unit in which a loss is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossKind {
    /// Events that the tracer discarded because its buffer was full.
    Events,
    /// Whole packets that were overwritten or deleted, with an unknown number of events.
    Packets,
}

impl Loss {
    /// Returns true if a part of the loss may lie between `begin` and `end`.
    pub(crate) fn overlaps(&self, begin: Option<i64>, end: Option<i64>) -> bool {
        let ns = |time: Option<(i64, u64)>| time.map(|(ns, _)| ns);
        let (from, to) = (ns(self.from.or(self.to)), ns(self.to.or(self.from)));
        let is_before = matches!((to, begin), (Some(to), Some(begin)) if to < begin);
        let is_after = matches!((from, end), (Some(from), Some(end)) if from > end);
        !is_before && !is_after
    }

    /// Clips the loss to the time between `begin` and `end`. The count of a clipped loss is
    /// unknown.
    pub(crate) fn clip(&mut self, begin: Option<i64>, end: Option<i64>, scale: &CorrectedScale) {
        let time = |ns: i64| (ns, scale.cycles(ns));
        if let (Some(begin), Some((from, _))) = (begin, self.from)
            && from < begin
        {
            (self.from, self.count) = (Some(time(begin)), None);
        }
        if let (Some(end), Some((to, _))) = (end, self.to)
            && to > end
        {
            (self.to, self.count) = (Some(time(end)), None);
        }
    }
}

impl fmt::Display for LossKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LossKind::Events => "event",
            LossKind::Packets => "packet",
        })
    }
}
