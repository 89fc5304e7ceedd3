//! Delivery of events to a consumer on one thread: checks against range and filter, and totals of
//! the delivered events.

use crate::alignment::CorrectedScale;
use crate::bind::BoundFilter;
use crate::cursor::Cursor;
use crate::event::Event;
use crate::loss::Loss;
use crate::reading::Reading;
use crate::stats::Stats;
use std::sync::atomic::Ordering;

/// Delivery of events on one thread, with the reading's range and filter and the thread's totals.
pub(crate) struct Delivery<'w, 'r> {
    reading: &'w Reading<'r>,
    filter: Option<BoundFilter>,
    pub(crate) stats: Stats,
    /// Number of events since the last update of `progress`.
    unreported_events: u64,
}

/// Event at which the cursor of a stream stands.
pub(crate) struct StreamEvent<'c> {
    /// Number of the stream in the reading.
    pub(crate) stream: usize,
    /// Cursor of the stream, after the event's header.
    pub(crate) cursor: &'c mut Cursor,
    /// Index of the event class in the stream class.
    pub(crate) class: u32,
    /// Time in nanoseconds from the clock's origin; `None` if the stream has no clock.
    pub(crate) time: Option<i64>,
}

impl<'w, 'r> Delivery<'w, 'r> {
    pub(crate) fn new(reading: &'w Reading<'r>) -> Delivery<'w, 'r> {
        let filter = reading.filter.clone();
        Delivery { reading, filter, stats: Stats::default(), unreported_events: 0 }
    }

    /// Returns true if `time` is in the reading's range. An event without a time (`None`) is always
    /// in the range.
    #[inline]
    pub(crate) fn in_range(&self, time: Option<i64>) -> bool {
        let Some(time) = time else { return true };
        let Reading { begin, end, .. } = self.reading;
        begin.is_none_or(|begin| time >= begin) && end.is_none_or(|end| time <= end)
    }

    /// Adds a loss to the totals and returns the loss, clipped to the reading's range unless the
    /// reading delivers whole losses. Returns `None` for a loss outside of the range, which is not
    /// counted.
    pub(crate) fn count_loss(
        &mut self,
        mut loss: Loss,
        scale: Option<CorrectedScale>,
    ) -> Option<Loss> {
        let Reading { begin, end, losses_whole, .. } = *self.reading;
        if !loss.overlaps(begin, end) {
            return None;
        }
        if let Some(scale) = scale.filter(|_| !losses_whole) {
            loss.clip(begin, end, &scale);
        }
        self.stats.add_loss(&loss);
        Some(loss)
    }

    /// Passes an event to `pass_on` if the filter accepts it, and counts it unless its decoding has
    /// failed. Records a problem for an event that cannot be decoded.
    #[inline]
    pub(crate) fn deliver(&mut self, event: StreamEvent<'_>, pass_on: impl FnOnce(&mut Event<'_>)) {
        let StreamEvent { stream: stream_number, cursor, class, time } = event;
        let (trace, stream) = self.reading.stream(stream_number);
        let mut problem = None;
        let mut event =
            Event { cursor, trace, stream, stream_number, class, time, problem: &mut problem };
        if let Some(filter) = &mut self.filter
            && !filter.accepts(&mut event)
        {
            self.stats.problems.extend(problem);
            return;
        }
        pass_on(&mut event);
        match problem {
            Some(problem) => self.stats.problems.push(problem),
            // The file is truncated within the event; the packet scan reports that.
            None if cursor.is_ended() => {}
            None => {
                self.stats.events += 1;
                self.unreported_events += 1;
            }
        }
    }

    /// Returns true if the reading has neither a range nor a filter.
    pub(crate) fn accepts_all(&self) -> bool {
        let Reading { begin, end, filter, .. } = self.reading;
        begin.is_none() && end.is_none() && filter.is_none()
    }

    /// Adds `count` events, which were skipped without delivery, to the totals.
    pub(crate) fn count_events(&mut self, count: u64) {
        self.stats.events += count;
        self.unreported_events += count;
    }

    /// Returns true if enough events have accumulated for an update of `progress`.
    #[inline]
    pub(crate) fn is_report_due(&self) -> bool {
        self.unreported_events >= 4096
    }

    /// Adds `bytes` and the events since the last update to the reading's `progress`.
    pub(crate) fn report_progress(&mut self, bytes: u64) {
        let progress = &self.reading.progress;
        progress.bytes.fetch_add(bytes, Ordering::Relaxed);
        progress.events.fetch_add(self.unreported_events, Ordering::Relaxed);
        self.unreported_events = 0;
    }
}
