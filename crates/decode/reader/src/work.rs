//! One thread's part in a reading: which events pass, and the accounts.

use crate::bind::BoundFilter;
use crate::cursor::Cursor;
use crate::error::Problem;
use crate::event::Event;
use crate::loss::{Loss, LossKind};
use crate::reading::Reading;
use blkkin_ctf::clock::TimeScale;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far a reading is, for whoever wants to show it.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes of packets read.
    pub bytes: AtomicU64,
    /// Events passed on.
    pub events: AtomicU64,
}

/// What came of a reading.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Events passed on.
    pub events: u64,
    /// Events that the tracer discarded.
    pub events_lost: u64,
    /// Places where it discarded events but does not say how many.
    pub events_lost_unknown: u64,
    /// Packets that are missing.
    pub packets_lost: u64,
    /// Places where an unknown number of packets is missing.
    pub packets_lost_unknown: u64,
    /// What could not be read.
    pub problems: Vec<Problem>,
}

impl Stats {
    /// Adds what came of another part.
    pub fn add(&mut self, other: Stats) {
        self.events += other.events;
        self.events_lost = self.events_lost.saturating_add(other.events_lost);
        self.events_lost_unknown += other.events_lost_unknown;
        self.packets_lost = self.packets_lost.saturating_add(other.packets_lost);
        self.packets_lost_unknown += other.packets_lost_unknown;
        self.problems.extend(other.problems);
    }

    /// Drops problems that were found more than once.
    pub(crate) fn drop_repeated_problems(&mut self) {
        let mut known = HashSet::new();
        self.problems.retain(|problem| known.insert(problem.to_string()));
    }

    pub(crate) fn add_loss(&mut self, loss: &Loss) {
        match (loss.kind, loss.count) {
            (LossKind::Events, Some(count)) => {
                self.events_lost = self.events_lost.saturating_add(count);
            }
            (LossKind::Events, None) => self.events_lost_unknown += 1,
            (LossKind::Packets, Some(count)) => {
                self.packets_lost = self.packets_lost.saturating_add(count);
            }
            (LossKind::Packets, None) => self.packets_lost_unknown += 1,
        }
    }
}

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
