//! From events to requests: an extractor and an assembler, as a consumer of a reading.

use crate::{Assembler, Counts, Extractor, Limits, Refusals, Sink};
use blkkin_reader::{Consumer, Event, Loss, Stream, Trace};
use std::ops::ControlFlow;

/// Hands requests to a sink as they become complete.
#[derive(Debug)]
pub struct Collector<S> {
    extractor: Extractor,
    assembler: Assembler,
    /// Where requests go.
    pub sink: S,
    /// What time it is, for a recording that goes on; the events' own time counts without.
    now: Option<i64>,
}

impl<S: Sink> Collector<S> {
    /// One that goes by the events' own time.
    pub fn new(limits: Limits, sink: S) -> Collector<S> {
        let (extractor, assembler) = (Extractor::default(), Assembler::new(limits));
        Collector { extractor, assembler, sink, now: None }
    }

    /// Goes by this time from now on, and hands on what is complete by then.
    pub fn advance(&mut self, now: i64) -> ControlFlow<()> {
        self.now = Some(now);
        self.assembler.advance(now, &mut self.sink)
    }

    /// Hands on what is left, because nothing more will come.
    pub fn finish(&mut self) -> ControlFlow<()> {
        self.assembler.finish(&mut self.sink)
    }

    /// What became of requests.
    pub fn counts(&self) -> Counts {
        self.assembler.counts()
    }

    /// What could not be understood.
    pub fn refusals(&self) -> &Refusals {
        self.extractor.refusals()
    }

    /// Events that say nothing of spans.
    pub fn others(&self) -> u64 {
        self.extractor.others()
    }
}

impl<S: Sink> Consumer for Collector<S> {
    #[inline]
    fn event(&mut self, event: &mut Event<'_>) -> ControlFlow<()> {
        let Collector { extractor, assembler, sink, now } = self;
        let time = event.time();
        let flow = extractor
            .read(event, |said| assembler.add(said, now.or(time).unwrap_or_default(), sink));
        match (flow, now.or(time)) {
            (Some(flow), _) => flow,
            (None, Some(now)) => assembler.advance(now, sink),
            (None, None) => ControlFlow::Continue(()),
        }
    }

    fn loss(&mut self, trace: &Trace, _: &Stream, loss: &Loss) -> ControlFlow<()> {
        let ns = |time: Option<(i64, u64)>| time.map(|(ns, _)| ns);
        self.assembler.lose(trace.id as u32, ns(loss.from), ns(loss.to));
        ControlFlow::Continue(())
    }
}
