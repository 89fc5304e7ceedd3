//! Events in order of time, one after the other on the caller's thread.

use crate::delivery::Work;
use crate::event::Event;
use crate::loss::Loss;
use crate::merge::{Item, Lane, Merge};
use crate::packets::StreamPackets;
use crate::reading::{Reading, WINDOW_SIZE_MIN};
use crate::stats::Stats;
use crate::trace::{Stream, Trace};
use std::ops::ControlFlow;

/// Receives events in order of time.
pub trait Consumer {
    /// The next event.
    fn event(&mut self, event: &mut Event<'_>) -> ControlFlow<()>;

    /// Something was lost here.
    fn loss(&mut self, trace: &Trace, stream: &Stream, loss: &Loss) -> ControlFlow<()>;

    /// Only in slices of a reading: times are not in order, so this slice goes on to the end.
    #[doc(hidden)]
    fn disorder(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

impl Reading<'_> {
    /// Passes all events on, in order of time, until the consumer breaks.
    pub fn ordered(&self, consumer: &mut impl Consumer) -> Stats {
        let lanes = (0..self.stream_count()).map(|number| self.lane(number, self.packets(number)));
        self.ordered_lanes(lanes.collect(), consumer).0
    }

    /// The stream's lane in a merge, with packets that may not be all of it.
    pub(crate) fn lane(&self, number: usize, packets: StreamPackets) -> Lane {
        let (trace, stream) = self.stream(number);
        let mut lane = Lane::new(number, trace.data.clone(), stream.class, packets, self.window());
        lane.begin = self.begin;
        lane
    }

    /// The stream's lane in a merge of slices, without packets yet. Its window is small, because
    /// what is read behind a slice's end is read in vain.
    pub(crate) fn empty_lane(&self, number: usize) -> Lane {
        let (trace, stream) = self.stream(number);
        let mut lane = Lane::empty(number, trace.data.clone(), stream.class, WINDOW_SIZE_MIN);
        lane.begin = self.begin;
        lane
    }

    /// Passes the lanes' events on, in order of time, and gives the lanes back.
    pub(crate) fn ordered_lanes(
        &self,
        lanes: Vec<Lane>,
        consumer: &mut impl Consumer,
    ) -> (Stats, Vec<Lane>) {
        let mut merge = Merge::new(lanes, &self.ranks);
        let mut work = Work::new(self);
        while self.limit != Some(0) && self.step(&mut merge, &mut work, consumer).is_continue() {
            if work.has_news() {
                work.tell(std::mem::take(&mut merge.account.bytes));
            }
        }
        work.tell(merge.account.bytes);
        work.stats.problems.append(&mut merge.account.problems);
        (work.stats, merge.into_lanes())
    }

    #[inline]
    fn step(
        &self,
        merge: &mut Merge<'_>,
        work: &mut Work<'_, '_>,
        consumer: &mut impl Consumer,
    ) -> ControlFlow<()> {
        match merge.next() {
            None => ControlFlow::Break(()),
            Some(Item::Disorder) => {
                consumer.disorder()?;
                merge.go_on(|number| self.packets(number));
                ControlFlow::Continue(())
            }
            Some(Item::Loss { stream, loss }) => {
                let (trace, stream) = self.stream(stream);
                match work.loss(loss, trace.scale(stream.class)) {
                    Some(loss) => consumer.loss(trace, stream, &loss),
                    None => ControlFlow::Continue(()),
                }
            }
            Some(Item::Event { lane, class }) => {
                if self.end.is_some_and(|end| lane.floor() > end) {
                    return ControlFlow::Break(());
                }
                let time = lane.time();
                if !work.in_range(time) {
                    return ControlFlow::Continue(());
                }
                let mut flow = ControlFlow::Continue(());
                work.event(lane.stream, &mut lane.cursor, class, time, |event| {
                    flow = consumer.event(event);
                });
                match self.limit {
                    Some(limit) if work.stats.events >= limit => ControlFlow::Break(()),
                    _ => flow,
                }
            }
        }
    }
}
