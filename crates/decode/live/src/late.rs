//! Consumer that counts late events: those that are earlier than the end of an earlier round.

use blkkin_reader::{Consumer, Event, Loss, Stream, TimeBase, Trace};
use std::ops::ControlFlow;

/// Consumer that passes everything on to another one, and counts late events.
#[derive(Debug)]
pub struct Late<C> {
    /// The other consumer.
    pub consumer: C,
    /// End of the last round.
    end_ns: i64,
    /// Time by which an event may be earlier and is not late.
    tolerance_ns: i64,
    count: u64,
}

/// Tolerance for corrected times: they may step back where the next measurement of a clock takes
/// effect, by at most its error. This exceeds that on any usual network.
const ALIGNED_TOLERANCE_NS: i64 = 10_000_000;

impl<C> Late<C> {
    /// Makes a consumer that passes everything on to `consumer`.
    pub fn new(consumer: C, time_base: TimeBase) -> Late<C> {
        let tolerance_ns = if time_base == TimeBase::Relay { ALIGNED_TOLERANCE_NS } else { 0 };
        Late { consumer, end_ns: i64::MIN, tolerance_ns, count: 0 }
    }

    /// Ends a round, in which all events before `end_ns` were delivered.
    pub fn end_round(&mut self, end_ns: i64) {
        self.end_ns = self.end_ns.max(end_ns);
    }

    /// Returns the number of events that were delivered after later events of other streams.
    pub fn count(&self) -> u64 {
        self.count
    }
}

impl<C: Consumer> Consumer for Late<C> {
    fn event(&mut self, event: &mut Event<'_>) -> ControlFlow<()> {
        if event.time().is_some_and(|time| time < self.end_ns.saturating_sub(self.tolerance_ns)) {
            self.count += 1;
        }
        self.consumer.event(event)
    }

    fn loss(&mut self, trace: &Trace, stream: &Stream, loss: &Loss) -> ControlFlow<()> {
        self.consumer.loss(trace, stream, loss)
    }
}
