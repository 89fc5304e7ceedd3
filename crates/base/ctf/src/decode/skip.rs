//! Moves over events that nobody wants to see, to count them.
//!
//! Where an event ends is only known once its strings have been found, so one packet's events are
//! a chain of steps that wait for each other. Two packets are two chains, which the processor
//! works on at the same time: [`Skipping::run_two`].

use super::header::Header;
use super::{Decoder, Machine, Nothing, Stop, StreamDecoder, View};

/// A walk over the events of one view.
#[derive(Debug)]
pub struct Skipping<'s> {
    decoder: &'s Decoder,
    stream: &'s StreamDecoder,
    view: View<'s>,
    machine: &'s mut Machine,
    /// Where the next event starts, in bits from the view's start.
    pub position: u64,
    /// Events so far.
    pub count: u64,
    /// Why it ended before the view did: the machine's clock is as it was before that event.
    pub stop: Option<Stop>,
}

impl<'s> Skipping<'s> {
    /// A walk from `position` on.
    pub fn new(
        decoder: &'s Decoder,
        stream: usize,
        view: View<'s>,
        position: u64,
        machine: &'s mut Machine,
    ) -> Skipping<'s> {
        let stream = &decoder.streams[stream];
        Skipping { decoder, stream, view, machine, position, count: 0, stop: None }
    }

    /// Walks to the view's end, or until something stops it.
    pub fn run(&mut self) {
        while self.step() {}
    }

    /// Walks over two views' events in turn, until one of them is at its end or stopped.
    pub fn run_two(a: &mut Skipping<'_>, b: &mut Skipping<'_>) {
        while a.step() && b.step() {}
    }

    /// Whether the view has no event more.
    pub fn is_at_end(&self) -> bool {
        self.position >= self.view.end_bits()
    }

    /// Moves over one event; `false` if there is none, or it cannot be read.
    #[inline(always)]
    fn step(&mut self) -> bool {
        if self.is_at_end() {
            return false;
        }
        let mut at = self.position;
        let clock = self.machine.clock;
        match self.event(&mut at) {
            Ok(()) => {
                self.position = at;
                self.count += 1;
                true
            }
            Err(stop) => {
                self.machine.clock = clock;
                self.stop = Some(stop);
                false
            }
        }
    }

    #[inline(always)]
    fn event(&mut self, at: &mut u64) -> Result<(), Stop> {
        let Skipping { decoder, stream, view, machine, .. } = self;
        let event = match &stream.event_header {
            Header::Large => decoder.lttng_header::<true>(stream, *view, at, machine)?,
            Header::Compact => decoder.lttng_header::<false>(stream, *view, at, machine)?,
            Header::Program(program) => {
                decoder.other_header(stream, program, *view, at, machine)?
            }
        };
        let body = &stream.bodies[event as usize];
        match &body.plain {
            Some(plain) => plain.skip(*view, at),
            None => decoder.walk(body, *view, at, machine, &mut Nothing),
        }
    }
}
