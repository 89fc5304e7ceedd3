//! Events that tracers lost. If a trace lost events after a span's start, the missing end of the
//! span is marked as possibly lost, not as unfinished. The same holds for a missing start and
//! losses before the span's last event.

use std::collections::HashMap;

/// Earliest start and latest end of each trace's losses, in nanoseconds since 1970, by the reader's
/// id of the trace.
#[derive(Debug, Default)]
pub(crate) struct Losses(HashMap<u32, (u64, u64)>);

impl Losses {
    /// Adds a loss between two times, in nanoseconds since 1970; `None` means unbounded.
    pub(crate) fn add(&mut self, source: u32, from: Option<i64>, to: Option<i64>) {
        let ns = |time: i64| u64::try_from(time).unwrap_or(0);
        let (from, to) = (from.map_or(0, ns), to.map_or(u64::MAX, ns));
        let (first, last) = self.0.entry(source).or_insert((from, to));
        (*first, *last) = (from.min(*first), to.max(*last));
    }

    /// Returns true if the source may have lost events at or after `time`.
    pub(crate) fn has_loss_since(&self, source: u32, time: u64) -> bool {
        self.0.get(&source).is_some_and(|(_, last)| *last >= time)
    }

    /// Returns true if the source may have lost events between two times.
    pub(crate) fn has_loss_between(&self, source: u32, from: u64, to: u64) -> bool {
        self.has_loss_since(source, from) && self.has_loss_until(source, to)
    }

    /// Returns true if the source may have lost events at or before `time`.
    pub(crate) fn has_loss_until(&self, source: u32, time: u64) -> bool {
        self.0.get(&source).is_some_and(|(first, _)| *first <= time)
    }
}
