//! Reading in order of time: the events of all streams are merged on the caller's thread.

use crate::delivery::{Delivery, StreamEvent};
use crate::event::Event;
use crate::loss::Loss;
use crate::merge::{Item, Merge, MergeInput};
use crate::packets::StreamPackets;
use crate::reading::{Reading, WINDOW_SIZE_MIN};
use crate::stats::Stats;
use crate::trace::{Stream, Trace};
use std::ops::ControlFlow;

/// Consumer that receives events and losses in order of time.
pub trait Consumer {
    /// Receives the next event. [`ControlFlow::Break`] ends the reading.
    fn event(&mut self, event: &mut Event<'_>) -> ControlFlow<()>;

    /// Receives a loss, in time order with the events. [`ControlFlow::Break`] ends the reading.
    fn loss(&mut self, trace: &Trace, stream: &Stream, loss: &Loss) -> ControlFlow<()>;

    /// Called if an event of the current slice is later than its packet's end. The slice is then
    /// extended to the end of the streams, unless the call returns [`ControlFlow::Break`].
    #[doc(hidden)]
    fn disorder(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

impl Reading<'_> {
    /// Passes the selected events and losses to `consumer` in order of time, until the consumer
    /// returns [`ControlFlow::Break`] or the limit is reached. Returns the totals.
    pub fn ordered(&self, consumer: &mut impl Consumer) -> Stats {
        let inputs =
            (0..self.stream_count()).map(|number| self.merge_input(number, self.packets(number)));
        self.merge_inputs(inputs.collect(), consumer).0
    }

    /// Makes the merge input for stream `number`. `packets` may be a part of the stream.
    pub(crate) fn merge_input(&self, number: usize, packets: StreamPackets) -> MergeInput {
        let (trace, stream) = self.stream(number);
        let mut input =
            MergeInput::new(number, trace.data.clone(), stream.class, packets, self.window());
        input.begin = self.begin;
        input
    }

    /// Makes a merge input for stream `number`, which gets its packets later, slice by slice. The
    /// input's window is small, because bytes read beyond a slice's end are wasted.
    pub(crate) fn empty_input(&self, number: usize) -> MergeInput {
        let (trace, stream) = self.stream(number);
        let mut input =
            MergeInput::empty(number, trace.data.clone(), stream.class, WINDOW_SIZE_MIN);
        input.begin = self.begin;
        input
    }

    /// Passes the selected events and losses of `inputs` to `consumer` in order of time. Returns
    /// the totals, and the inputs for reuse.
    pub(crate) fn merge_inputs(
        &self,
        inputs: Vec<MergeInput>,
        consumer: &mut impl Consumer,
    ) -> (Stats, Vec<MergeInput>) {
        let mut merge = Merge::new(inputs, &self.ranks);
        let mut delivery = Delivery::new(self);
        while self.limit != Some(0) && self.step(&mut merge, &mut delivery, consumer).is_continue()
        {
            if delivery.is_report_due() {
                delivery.report_progress(std::mem::take(&mut merge.report.bytes));
            }
        }
        delivery.report_progress(merge.report.bytes);
        delivery.stats.problems.append(&mut merge.report.problems);
        (delivery.stats, merge.into_inputs())
    }

    #[inline]
    fn step(
        &self,
        merge: &mut Merge<'_>,
        delivery: &mut Delivery<'_, '_>,
        consumer: &mut impl Consumer,
    ) -> ControlFlow<()> {
        match merge.next() {
            None => ControlFlow::Break(()),
            Some(Item::Disorder) => {
                consumer.disorder()?;
                merge.extend_to_end(|number| self.packets(number));
                ControlFlow::Continue(())
            }
            Some(Item::Loss { stream, loss }) => {
                let (trace, stream) = self.stream(stream);
                match delivery.count_loss(loss, trace.data.scale(stream.class)) {
                    Some(loss) => consumer.loss(trace, stream, &loss),
                    None => ControlFlow::Continue(()),
                }
            }
            Some(Item::Event { input, class }) => {
                if self.end.is_some_and(|end| input.floor() > end) {
                    return ControlFlow::Break(());
                }
                let time = input.time();
                if !delivery.in_range(time) {
                    return ControlFlow::Continue(());
                }
                let (stream, cursor) = (input.stream, &mut input.cursor);
                let mut flow = ControlFlow::Continue(());
                delivery.deliver(StreamEvent { stream, cursor, class, time }, |event| {
                    flow = consumer.event(event);
                });
                match self.limit {
                    Some(limit) if delivery.stats.events >= limit => ControlFlow::Break(()),
                    _ => flow,
                }
            }
        }
    }
}
