//! What a trace says it lacks.

use blkkin_ctf::clock::TimeScale;
use std::fmt;

/// Events or packets that the tracer made but the trace does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What is missing.
    pub kind: LossKind,
    /// How many; `None` if the trace only says that there were some, or that some of those that
    /// it counts may have been outside of the range that is read.
    pub count: Option<u64>,
    /// When the loss began and ended: nanoseconds, and cycles of the stream's clock.
    pub from: Option<(i64, u64)>,
    /// See `from`.
    pub to: Option<(i64, u64)>,
}

/// What is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossKind {
    /// The tracer had no room for them.
    Events,
    /// Whole packets were overwritten or deleted, with an unknown number of events.
    Packets,
}

impl Loss {
    /// Whether it may have happened in part between `begin` and `end`.
    pub(crate) fn overlaps(&self, begin: Option<i64>, end: Option<i64>) -> bool {
        let ns = |time: Option<(i64, u64)>| time.map(|(ns, _)| ns);
        let (from, to) = (ns(self.from.or(self.to)), ns(self.to.or(self.from)));
        let is_before = matches!((to, begin), (Some(to), Some(begin)) if to < begin);
        let is_after = matches!((from, end), (Some(from), Some(end)) if from > end);
        !is_before && !is_after
    }

    /// What is known of the part between `begin` and `end`: not how many there were.
    pub(crate) fn clip(&mut self, begin: Option<i64>, end: Option<i64>, scale: TimeScale) {
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
