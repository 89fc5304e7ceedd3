//! Moves over events that nobody wants to see: to count them, or to get to the first that somebody
//! does.
//!
//! Where an event ends is only known once its strings have been found, so one packet's events are
//! a chain of steps that wait for each other. Two packets are two chains, which the processor
//! works on at the same time: [`Skipping::run_two`].

use super::decoder::{Decoder, StreamDecoder};
use super::error::DecodeErrorKind;
use super::header::Header;
use super::plain::Plain;
use super::program::Program;
use super::strings::NulMap;
use super::view::{Stop, View};
use super::visit::Nothing;
use super::walk::{Machine, clock_after};

/// A walk over the events of one view.
#[derive(Debug)]
pub struct Skipping<'s> {
    decoder: &'s Decoder,
    stream: &'s StreamDecoder,
    view: View<'s>,
    machine: &'s mut Machine,
    map: NulMap<'s>,
    /// Where the next event starts, in bits from the view's start.
    pub position: u64,
    /// Events so far.
    pub count: u64,
    /// The walk ends before the first event whose header moves the clock beyond this.
    pub last_clock: u64,
    /// Whether a clock went back at an event. Those of LTTng's short headers never do.
    pub went_back: bool,
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
        let map = NulMap::new(view.whole_bytes());
        Skipping {
            decoder,
            stream,
            view,
            machine,
            map,
            position,
            count: 0,
            last_clock: u64::MAX,
            went_back: false,
            stop: None,
        }
    }

    /// Walks to the view's end, to [`Skipping::last_clock`], or until something stops it.
    pub fn run(&mut self) {
        loop {
            match self.stream.event_header {
                Header::Large => self.run_usual::<true>(),
                Header::Compact => self.run_usual::<false>(),
                Header::Program(_) => {}
            }
            if !self.step() {
                return;
            }
        }
    }

    /// Walks over two views' events in turn, until one of them is at its end or stopped.
    pub fn run_two(a: &mut Skipping<'_>, b: &mut Skipping<'_>) {
        loop {
            match (&a.stream.event_header, &b.stream.event_header) {
                (Header::Large, Header::Large) => Skipping::run_two_usual::<true>(a, b),
                (Header::Compact, Header::Compact) => Skipping::run_two_usual::<false>(a, b),
                _ => {}
            }
            if !(a.step() && b.step()) {
                return;
            }
        }
    }

    fn run_usual<const LARGE: bool>(&mut self) {
        let mut usual = Usual::of(self);
        loop {
            while usual.step::<LARGE>() {}
            if !usual.move_on() {
                break;
            }
        }
        let end = usual.end();
        self.go_on_from(end);
    }

    fn run_two_usual<const LARGE: bool>(a: &mut Skipping<'_>, b: &mut Skipping<'_>) {
        let (mut of_a, mut of_b) = (Usual::of(a), Usual::of(b));
        loop {
            while of_a.step::<LARGE>() && of_b.step::<LARGE>() {}
            if !(of_a.move_on() | of_b.move_on()) {
                break;
            }
        }
        let (end_of_a, end_of_b) = (of_a.end(), of_b.end());
        a.go_on_from(end_of_a);
        b.go_on_from(end_of_b);
    }

    fn go_on_from(&mut self, end: UsualEnd) {
        if end.count > 0 {
            self.position = end.at as u64 * 8;
            self.machine.clock = end.clock;
            self.count += end.count;
        }
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
            Ok(true) => {
                self.went_back |= self.machine.clock < clock;
                self.position = at;
                self.count += 1;
                return true;
            }
            Ok(false) => {}
            Err(stop) => self.stop = Some(stop),
        }
        self.machine.clock = clock;
        false
    }

    /// Moves over an event; `false`: it is the one to end before, whether or not it is there in full.
    #[inline(always)]
    fn event(&mut self, at: &mut u64) -> Result<bool, Stop> {
        let Skipping { decoder, stream, view, machine, .. } = self;
        let event = match &stream.event_header {
            Header::Large => decoder.lttng_header::<true>(stream, *view, at, machine)?,
            Header::Compact => decoder.lttng_header::<false>(stream, *view, at, machine)?,
            Header::Program(program) => {
                decoder.other_header(stream, program, *view, at, machine)?
            }
        };
        if machine.clock > self.last_clock {
            return Ok(false);
        }
        let body = &stream.bodies[event as usize];
        match &body.plain {
            Some(plain) => plain.skip(*view, at)?,
            None => decoder.walk(body, *view, at, machine, &mut Nothing)?,
        }
        if *at == self.position {
            return Err(Stop::bad(self.view.base_bits() + *at, DecodeErrorKind::EmptyEvent));
        }
        Ok(true)
    }
}

/// The short way over what nearly all traces of LTTng consist of: events with its usual header,
/// in its short form, and nothing but whole bytes and strings.
struct Usual<'u, 's> {
    map: &'u mut NulMap<'s>,
    /// Where the next event starts in the map.
    at: usize,
    clock: u64,
    count: u64,
    /// Indexes of event classes by id.
    ids: &'s [u32],
    bodies: &'s [Program],
    /// The last event's id and body. Events of one class come in bursts, and that the next one is
    /// of the same can be guessed, where looking it up is a chain of loads.
    last: (u64, Option<&'s Plain>),
    last_clock: u64,
    /// Size of the whole view.
    size: usize,
}

/// How far the short way went.
struct UsualEnd {
    at: usize,
    clock: u64,
    count: u64,
}

impl<'u, 's> Usual<'u, 's> {
    fn of(skipping: &'u mut Skipping<'s>) -> Usual<'u, 's> {
        let size = skipping.view.whole_bytes().len();
        let map_start = size - skipping.map.rest().len();
        Usual {
            map: &mut skipping.map,
            at: skipping.position.div_ceil(8) as usize - map_start,
            clock: skipping.machine.clock,
            count: 0,
            ids: &skipping.stream.event_of_id.dense,
            bodies: &skipping.stream.bodies,
            last: (u64::MAX, None),
            last_clock: skipping.last_clock,
            size,
        }
    }

    fn end(&self) -> UsualEnd {
        let map_start = self.size - self.map.rest().len();
        UsualEnd { at: map_start + self.at, clock: self.clock, count: self.count }
    }

    /// Moves the map on to the next event; `false` if that would bring little.
    fn move_on(&mut self) -> bool {
        let moves = self.map.move_on(self.at);
        if moves {
            self.at = 0;
        }
        moves
    }

    /// Moves over one event; `false` if that needs a closer look, or the map ends.
    #[inline(always)]
    fn step<const LARGE: bool>(&mut self) -> bool {
        self.after_event::<LARGE>().is_some()
    }

    #[inline(always)]
    fn after_event<const LARGE: bool>(&mut self) -> Option<()> {
        let word = u64::from_le_bytes(*self.map.rest().get(self.at..)?.first_chunk()?);
        let (size, id, time) = Header::short_parts(LARGE, word)?;
        if id != self.last.0 {
            // There is no class of the index that stands for "no event".
            let body = self.bodies.get(*self.ids.get(id as usize)? as usize)?;
            self.last = (id, body.plain.as_ref());
        }
        let end = self.last.1?.end_in(self.map, self.at + size)?;
        let clock = clock_after(self.clock, time, if LARGE { 32 } else { 27 });
        if clock > self.last_clock {
            return None;
        }
        (self.at, self.clock) = (end, clock);
        self.count += 1;
        Some(())
    }
}
