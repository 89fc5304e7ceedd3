//! Assembly of events into requests: an extractor and an assembler as one consumer of events.

use crate::assembler::{Assembler, Counts, Limits, Sink};
use crate::extract::Extractor;
use crate::refusal::Refusals;
use blkkin_reader::{Consumer, Event, Loss, Stream, Trace};
use std::ops::ControlFlow;

/// Consumer of events that passes each emitted request to a sink.
#[derive(Debug)]
pub struct Collector<S> {
    extractor: Extractor,
    assembler: Assembler,
    /// Sink that receives each emitted request.
    pub sink: S,
    /// Wall-clock time of a live recording; `None` as long as event time is used.
    now: Option<i64>,
}

impl<S: Sink> Collector<S> {
    /// Creates a collector that uses event time.
    pub fn new(limits: Limits, sink: S) -> Collector<S> {
        let (extractor, assembler) = (Extractor::default(), Assembler::new(limits));
        Collector { extractor, assembler, sink, now: None }
    }

    /// Switches to the caller's clock and emits the requests that are complete at `now`.
    pub fn advance(&mut self, now: i64) -> ControlFlow<()> {
        self.now = Some(now);
        self.assembler.advance(now, &mut self.sink)
    }

    /// Emits all open requests. To be called at the end of the input.
    pub fn finish(&mut self) -> ControlFlow<()> {
        self.assembler.finish(&mut self.sink)
    }

    /// Returns the assembler's counters.
    pub fn counts(&self) -> Counts {
        self.assembler.counts()
    }

    /// Returns the statistics of malformed events.
    pub fn refusals(&self) -> &Refusals {
        self.extractor.refusals()
    }

    /// Returns the number of events unrelated to spans.
    pub fn unrelated_events(&self) -> u64 {
        self.extractor.others()
    }

    /// Returns the number of disk requests that no span caused, such as writeback.
    pub fn unattributed_events(&self) -> u64 {
        self.extractor.unattributed()
    }
}

impl<S: Sink> Consumer for Collector<S> {
    #[inline]
    fn event(&mut self, event: &mut Event<'_>) -> ControlFlow<()> {
        let Collector { extractor, assembler, sink, now } = self;
        let time = event.time();
        let trace = event.trace();
        if extractor.is_new(trace) {
            assembler.set_alignment(trace.id as u32, trace.alignment().clone());
        }
        let flow = extractor
            .read(event, |report| assembler.add(report, now.or(time).unwrap_or_default(), sink));
        match (flow, now.or(time)) {
            (Some(flow), _) => flow,
            (None, Some(now)) => assembler.advance(now, sink),
            (None, None) => ControlFlow::Continue(()),
        }
    }

    fn loss(&mut self, trace: &Trace, _: &Stream, loss: &Loss) -> ControlFlow<()> {
        let ns = |time: Option<(i64, u64)>| time.map(|(ns, _)| ns);
        self.assembler.add_loss(trace.id as u32, ns(loss.from), ns(loss.to));
        ControlFlow::Continue(())
    }
}
