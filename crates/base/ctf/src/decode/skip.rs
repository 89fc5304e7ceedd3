//! Skipping of events, to count them or to find the first one in a time range.
//!
//! The end of an event is known only after its strings have been found, so the events of one packet
//! are a chain of dependent steps. [`EventSkipper::run_two`] walks two packets at once: the
//! processor executes their two chains in parallel.

use super::decoder::{Decoder, StreamDecoder};
use super::error::DecodeErrorKind;
use super::header::Header;
use super::plain::PlainProgram;
use super::program::Program;
use super::strings::NulMap;
use super::view::{Stop, View};
use super::visit::NullVisitor;
use super::walk::{Machine, clock_after};

/// A walk that skips the events of one view without visiting their fields.
#[derive(Debug)]
pub struct EventSkipper<'s> {
    decoder: &'s Decoder,
    stream: &'s StreamDecoder,
    view: View<'s>,
    machine: &'s mut Machine,
    map: NulMap<'s>,
    /// Start of the next event, in bits from the view's start.
    pub position: u64,
    /// Number of events skipped so far.
    pub count: u64,
    /// Limit of the clock. The walk ends before the first event whose header sets the clock beyond
    /// this limit.
    pub last_clock: u64,
    /// Set if the clock decreased at an event. LTTng's short headers cannot make it decrease,
    /// except by a wrap of all 64 bits, which the fast path does not detect.
    pub clock_decreased: bool,
    /// Error that ended the walk before the view's end; `None` if there was none. After an error,
    /// the machine's clock is the one before the failed event.
    pub stop: Option<Stop>,
}

impl<'s> EventSkipper<'s> {
    /// Starts a walk at `position`, in bits from the view's start.
    pub fn new(
        decoder: &'s Decoder,
        stream: usize,
        view: View<'s>,
        position: u64,
        machine: &'s mut Machine,
    ) -> EventSkipper<'s> {
        let stream = &decoder.streams[stream];
        let map = NulMap::new(view.whole_bytes());
        EventSkipper {
            decoder,
            stream,
            view,
            machine,
            map,
            position,
            count: 0,
            last_clock: u64::MAX,
            clock_decreased: false,
            stop: None,
        }
    }

    /// Walks to the view's end, to [`EventSkipper::last_clock`], or to an error.
    pub fn run(&mut self) {
        loop {
            match self.stream.event_header {
                Header::Large => self.run_fast::<true>(),
                Header::Compact => self.run_fast::<false>(),
                Header::Program(_) => {}
            }
            if !self.step() {
                return;
            }
        }
    }

    /// Walks over the events of two views alternately, until one of the walks ends.
    pub fn run_two(a: &mut EventSkipper<'_>, b: &mut EventSkipper<'_>) {
        loop {
            match (&a.stream.event_header, &b.stream.event_header) {
                (Header::Large, Header::Large) => EventSkipper::run_two_fast::<true>(a, b),
                (Header::Compact, Header::Compact) => EventSkipper::run_two_fast::<false>(a, b),
                _ => {}
            }
            if !(a.step() && b.step()) {
                return;
            }
        }
    }

    fn run_fast<const LARGE: bool>(&mut self) {
        let mut fast = FastPath::of(self);
        loop {
            while fast.step::<LARGE>() {}
            if !fast.move_map() {
                break;
            }
        }
        let end = fast.end();
        self.apply(end);
    }

    fn run_two_fast<const LARGE: bool>(a: &mut EventSkipper<'_>, b: &mut EventSkipper<'_>) {
        let (mut of_a, mut of_b) = (FastPath::of(a), FastPath::of(b));
        loop {
            while of_a.step::<LARGE>() && of_b.step::<LARGE>() {}
            if !(of_a.move_map() | of_b.move_map()) {
                break;
            }
        }
        let (end_of_a, end_of_b) = (of_a.end(), of_b.end());
        a.apply(end_of_a);
        b.apply(end_of_b);
    }

    fn apply(&mut self, end: FastPathEnd) {
        if end.count > 0 {
            self.position = end.at as u64 * 8;
            self.machine.clock = end.clock;
            self.count += end.count;
        }
    }

    /// Returns whether the view has no more events.
    pub fn is_at_end(&self) -> bool {
        self.position >= self.view.end_bits()
    }

    /// Skips one event. Returns `false` at the end of the view, beyond the clock's limit, or after
    /// an error.
    #[inline(always)]
    fn step(&mut self) -> bool {
        if self.is_at_end() {
            return false;
        }
        let mut at = self.position;
        let clock = self.machine.clock;
        match self.event(&mut at) {
            Ok(true) => {
                self.clock_decreased |= self.machine.clock < clock;
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

    /// Skips an event. Returns `false` if the event's clock is beyond the limit, even if the view
    /// ends within the event's body.
    #[inline(always)]
    fn event(&mut self, at: &mut u64) -> Result<bool, Stop> {
        let EventSkipper { decoder, stream, view, machine, .. } = self;
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
            None => decoder.walk(body, *view, at, machine, &mut NullVisitor)?,
        }
        if *at == self.position {
            return Err(Stop::bad(self.view.base_bits() + *at, DecodeErrorKind::EmptyEvent));
        }
        Ok(true)
    }
}

/// Fast path over LTTng's usual events, which have a short header and a body in plain form.
struct FastPath<'u, 's> {
    map: &'u mut NulMap<'s>,
    /// Offset of the next event from the map's start, in bytes.
    at: usize,
    clock: u64,
    count: u64,
    /// Index of each event class, by id. Ids beyond the end of the slice need the general path.
    ids: &'s [u32],
    bodies: &'s [Program],
    /// Id and body of the previous event. Events of one class come in bursts, so the processor can
    /// predict that the next event has the same class. A lookup by id would instead add a chain of
    /// dependent loads to each event.
    last: (u64, Option<&'s PlainProgram>),
    last_clock: u64,
    /// Size of the whole view in bytes.
    size: usize,
}

/// Position, clock and event count at the end of the fast path.
struct FastPathEnd {
    at: usize,
    clock: u64,
    count: u64,
}

impl<'u, 's> FastPath<'u, 's> {
    fn of(skipping: &'u mut EventSkipper<'s>) -> FastPath<'u, 's> {
        let size = skipping.view.whole_bytes().len();
        let map_start = size - skipping.map.rest().len();
        FastPath {
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

    fn end(&self) -> FastPathEnd {
        let map_start = self.size - self.map.rest().len();
        FastPathEnd { at: map_start + self.at, clock: self.clock, count: self.count }
    }

    /// Moves the start of the NUL map to the next event. Returns `false` without a change if the
    /// map has been computed and the next event is in its first half.
    fn move_map(&mut self) -> bool {
        let moves = self.map.move_to(self.at);
        if moves {
            self.at = 0;
        }
        moves
    }

    /// Skips one event. Returns `false` if the event needs the general path, or the map ends.
    #[inline(always)]
    fn step<const LARGE: bool>(&mut self) -> bool {
        self.after_event::<LARGE>().is_some()
    }

    #[inline(always)]
    fn after_event<const LARGE: bool>(&mut self) -> Option<()> {
        let word = u64::from_le_bytes(*self.map.rest().get(self.at..)?.first_chunk()?);
        let (size, id, time) = Header::short_parts(LARGE, word)?;
        if id != self.last.0 {
            // The index `NO_EVENT` is beyond the last body, so `get` rejects unknown ids too.
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
