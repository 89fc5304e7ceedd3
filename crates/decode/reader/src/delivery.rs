//! One thread's part in a reading: which events pass, and the accounts.

use crate::bind::BoundFilter;
use crate::cursor::Cursor;
use crate::event::Event;
use crate::loss::Loss;
use crate::reading::Reading;
use crate::stats::Stats;
use blkkin_ctf::clock::TimeScale;
use std::sync::atomic::Ordering;

/// See the module's documentation.
pub(crate) struct Work<'w, 'r> {
    reading: &'w Reading<'r>,
    filter: Option<BoundFilter>,
    pub(crate) stats: Stats,
    /// What `progress` has not been told yet.
    events_untold: u64,
}

impl<'w, 'r> Work<'w, 'r> {
    pub(crate) fn new(reading: &'w Reading<'r>) -> Work<'w, 'r> {
        let filter = reading.filter.clone();
        Work { reading, filter, stats: Stats::default(), events_untold: 0 }
    }

    /// Whether a time is in the range that is wanted.
    #[inline]
    pub(crate) fn in_range(&self, time: Option<i64>) -> bool {
        let Some(time) = time else { return true };
        let Reading { begin, end, .. } = self.reading;
        begin.is_none_or(|begin| time >= begin) && end.is_none_or(|end| time <= end)
    }

    /// What is to be told of a loss, which goes to the accounts too: what the range that is wanted
    /// has of it.
    pub(crate) fn loss(&mut self, mut loss: Loss, scale: Option<TimeScale>) -> Option<Loss> {
        let Reading { begin, end, losses_whole, .. } = *self.reading;
        if !loss.overlaps(begin, end) {
            return None;
        }
        if let Some(scale) = scale.filter(|_| !losses_whole) {
            loss.clip(begin, end, scale);
        }
        self.stats.add_loss(&loss);
        Some(loss)
    }

    /// Passes the cursor's event on, if it passes the filter.
    #[inline]
    pub(crate) fn event(
        &mut self,
        number: usize,
        cursor: &mut Cursor,
        class: u32,
        time: Option<i64>,
        pass_on: impl FnOnce(&mut Event<'_>),
    ) {
        let (trace, stream) = self.reading.stream(number);
        let mut problem = None;
        let stream_number = number;
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
            // The file was cut within the event, which is told of elsewhere.
            None if cursor.is_ended() => {}
            None => {
                self.stats.events += 1;
                self.events_untold += 1;
            }
        }
    }

    /// Whether every event passes.
    pub(crate) fn takes_all(&self) -> bool {
        let Reading { begin, end, filter, .. } = self.reading;
        begin.is_none() && end.is_none() && filter.is_none()
    }

    /// Adds events that were passed over to the accounts.
    pub(crate) fn events(&mut self, count: u64) {
        self.stats.events += count;
        self.events_untold += count;
    }

    /// Whether `progress` should be told.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.events_untold >= 4096
    }

    /// Tells `progress` of `bytes` more, and of the events since the last time.
    pub(crate) fn tell(&mut self, bytes: u64) {
        let progress = &self.reading.progress;
        progress.bytes.fetch_add(bytes, Ordering::Relaxed);
        progress.events.fetch_add(self.events_untold, Ordering::Relaxed);
        self.events_untold = 0;
    }
}
