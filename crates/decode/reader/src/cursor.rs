//! The events of one packet after the other, through a window on the file.
//!
//! A packet may be of any size, so only a part of it is held: at least [`AHEAD`] bytes from each
//! event on, as long as the packet has them and no other cursor has read them before, which nearly
//! every event fits into. One that does not makes the window grow, as far as there are bytes in the file and up to
//! [`EVENT_SIZE_MAX`]; its visitor starts again.

use crate::error::{Problem, ProblemKind};
use crate::file::Handle;
use crate::limits::EVENT_SIZE_MAX;
use crate::packet::{Mark, PacketRef};
use crate::trace::TraceData;
use blkkin_ctf::decode::{
    DecodeError, DecodeErrorKind, Machine, Nothing, Skipping, Stop, View, Visitor,
};
use std::sync::Arc;

/// Bytes that are at hand before an event is decoded, if the packet has them.
const AHEAD: usize = 16 << 10;

/// Bytes of a packet that one cursor has read and hands to the cursor that comes after it.
#[derive(Debug)]
pub(crate) struct ReadBytes {
    /// The packet's number.
    packet: u64,
    /// The first `held` bytes are those of the packet from byte `base` on.
    buffer: Vec<u8>,
    base: u64,
    held: usize,
    /// Whether they reach to the end of the packet's content.
    complete: bool,
}

/// What came of skipping events in the window.
struct Skipped {
    position: u64,
    count: u64,
    stop: Option<Stop>,
    at_end: bool,
    went_back: bool,
}

impl ReadBytes {
    /// Whether byte `position` of the packet is among them.
    fn has(&self, position: u64) -> bool {
        (self.base..self.base + self.held as u64).contains(&position)
    }
}

impl Skipped {
    fn of(skipping: Skipping<'_>) -> Skipped {
        let at_end = skipping.is_at_end();
        let Skipping { position, count, stop, went_back, .. } = skipping;
        Skipped { position, count, stop, at_end, went_back }
    }
}

#[derive(Debug)]
pub(crate) struct Cursor {
    machine: Machine,
    packet: Option<PacketRef>,
    handle: Handle,
    /// The packet's header and context.
    header: Vec<u8>,
    /// What was read of the packet is in the first `held` bytes; the rest is room for more, kept
    /// so that it need not be cleared each time.
    buffer: Vec<u8>,
    held: usize,
    window: usize,
    /// Most bytes that are kept before the current event, to be handed over.
    kept_max: usize,
    /// The first of these bytes, from the packet's start; `None` if none are kept.
    kept_from: Option<u64>,
    /// Bytes that were handed to this cursor, until it begins their packet.
    given: Option<ReadBytes>,
    /// The previous buffer, after bytes that were handed over replaced it.
    replaced: Option<Vec<u8>>,
    /// Bytes from the packet's start to the start of `buffer`.
    base: u64,
    /// Where the content ends in the held bytes, in bits.
    end_bits: u64,
    /// Whether the held bytes reach to the end of the packet's content.
    complete: bool,
    /// Bits that [`Cursor::next`] wants to be held of each event, if the packet has them.
    ahead_bits: u64,
    /// The positions of the current event, in bits from the start of `buffer`.
    event_start: u64,
    body_start: u64,
    class: u32,
    /// Where the next event starts, if the current one's body has been walked.
    next_start: Option<u64>,
}

impl Cursor {
    /// A cursor for streams of `data`, which tries to hold no more than `window` bytes.
    pub(crate) fn new(data: &TraceData, window: usize) -> Cursor {
        Cursor {
            machine: data.decoder.machine(),
            packet: None,
            handle: Handle::default(),
            header: Vec::new(),
            buffer: Vec::new(),
            held: 0,
            window: window.max(4 * AHEAD),
            kept_max: 0,
            kept_from: None,
            given: None,
            replaced: None,
            base: 0,
            end_bits: 0,
            complete: true,
            ahead_bits: 0,
            event_start: 0,
            body_start: 0,
            class: 0,
            next_start: None,
        }
    }

    /// Makes the cursor keep up to `size` bytes of those that it has passed, for
    /// [`Cursor::hand_over`].
    pub(crate) fn keep(&mut self, size: usize) {
        self.kept_max = size;
    }

    /// Hands over the bytes that are kept, and keeps those from byte `from` of the packet on, in a
    /// buffer of `spare` if there is one. `None` if the bytes are too many: the next cursor reads
    /// the file itself.
    pub(crate) fn hand_over(&mut self, from: u64, spare: &mut Vec<Vec<u8>>) -> Option<ReadBytes> {
        let packet = self.packet_number();
        let was_kept = self.kept_from.replace(from).is_some();
        let passed = from.checked_sub(self.base).filter(|_| was_kept)?;
        let passed = usize::try_from(passed).ok().filter(|passed| *passed <= self.kept_max)?;
        // After a large event, much unread data remains; each slice would copy it.
        let is_much = self.held > self.kept_max + 2 * self.window;
        if passed > self.held || is_much {
            return None;
        }
        let (held, base, complete) = (self.held, self.base, self.complete);
        let room = spare.pop().unwrap_or_default();
        let buffer = std::mem::replace(&mut self.buffer, room);
        self.held -= passed;
        self.base += passed as u64;
        if self.buffer.len() < self.held {
            self.buffer = vec![0; self.kept_max + 2 * self.window];
        }
        self.buffer[..self.held].copy_from_slice(&buffer[passed..held]);
        self.move_positions(passed);
        self.set_end();
        Some(ReadBytes { packet, buffer, base, held, complete })
    }

    /// Accepts bytes of the next packet that another cursor has read. Buffers that are no longer
    /// used go to `spare`.
    pub(crate) fn take_over(&mut self, given: Option<ReadBytes>, spare: &mut Vec<Vec<u8>>) {
        let unused = std::mem::replace(&mut self.given, given).map(|given| given.buffer);
        spare.extend(unused.into_iter().chain(self.replaced.take()));
    }

    #[inline]
    pub(crate) fn cycles(&self) -> u64 {
        self.machine.clock
    }

    #[inline]
    pub(crate) fn packet_number(&self) -> u64 {
        self.packet.as_ref().map_or(0, |packet| packet.number)
    }

    /// The packet that was begun last.
    pub(crate) fn packet(&self) -> Option<&PacketRef> {
        self.packet.as_ref()
    }

    /// Begins a packet.
    pub(crate) fn start(&mut self, data: &TraceData, packet: PacketRef) -> Result<(), Problem> {
        let last = self.packet.as_ref().filter(|last| Arc::ptr_eq(&last.file, &packet.file));
        let is_last = last.is_some_and(|last| last.number == packet.number);
        if last.is_none() {
            self.handle = Handle::default();
        }
        self.held = 0;
        self.base = 0;
        self.end_bits = 0;
        self.complete = false;
        self.event_start = 0;
        self.body_start = 0;
        self.next_start = None;
        self.kept_from = (self.kept_max > 0).then_some(0);
        if packet.is_free() {
            self.machine.clock = packet.clock_before;
        }
        let header_size = packet.packet.first_event.div_ceil(8) as usize;
        let mark = packet.mark;
        let start = mark.map_or(0, |mark| mark.position / 8);
        let given = self.given.take_if(|given| given.packet == packet.number);
        let mut given = given.filter(|given| given.has(start));
        // Between a packet's slices its header is kept.
        let has_header = is_last && mark.is_some() && self.header.len() == header_size;
        self.packet = Some(packet);
        if !has_header {
            // If reading fails, the header of the last packet must not remain.
            self.header.clear();
            match given.take_if(|_| mark.is_none()) {
                Some(given) => self.replace_held(given),
                // Events before a mark are not read.
                None if mark.is_some() => self.hold(header_size)?,
                None => self.fill(header_size)?,
            }
            self.header.extend_from_slice(&self.buffer[..header_size.min(self.held)]);
        }
        self.machine_header(data)?;
        self.event_start = self.packet.as_ref().map_or(0, |packet| packet.packet.first_event);
        if let Some(mark) = mark {
            self.machine.clock = mark.clock;
            match given {
                Some(given) => {
                    self.event_start = mark.position - given.base * 8;
                    self.replace_held(given);
                }
                None => {
                    self.held = 0;
                    self.base = start;
                    self.event_start = mark.position % 8;
                    self.fill(AHEAD)?;
                }
            }
        }
        self.next_start = Some(self.event_start);
        Ok(())
    }

    fn machine_header(&mut self, data: &TraceData) -> Result<(), Problem> {
        match data.decoder.packet(View::whole(&self.header), &mut self.machine) {
            Ok(_) => Ok(()),
            Err(Stop::Short) => Err(self.cut_problem()),
            Err(Stop::Bad(error)) => Err(self.bad(&error)),
        }
    }

    /// Moves to the next event of the packet, and gives its class; `None` at the packet's end.
    /// After a problem the packet counts as ended.
    #[inline]
    pub(crate) fn next(&mut self, data: &TraceData) -> Result<Option<u32>, Problem> {
        if self.next_start.is_none() {
            self.body(data, &mut Nothing)?;
        }
        self.event_start = self.next_start.unwrap_or(self.event_start);
        let ahead = (self.held as u64 * 8).saturating_sub(self.event_start);
        if ahead < self.ahead_bits {
            self.fill(AHEAD)?;
        }
        self.header(data)
    }

    fn header(&mut self, data: &TraceData) -> Result<Option<u32>, Problem> {
        loop {
            let Some(packet) = &self.packet else { return Ok(None) };
            let view = View::new(&self.buffer[..self.held], self.base, self.end_bits);
            if self.event_start >= view.end_bits() {
                if self.complete {
                    return Ok(None);
                }
                self.fill(AHEAD)?;
                continue;
            }
            let stream = packet.packet.stream;
            let mut position = self.event_start;
            let clock = self.machine.clock;
            match data.decoder.event_header(stream, view, &mut position, &mut self.machine) {
                Ok(class) => {
                    self.class = class;
                    self.body_start = position;
                    self.next_start = None;
                    return Ok(Some(class));
                }
                Err(stop) => {
                    self.machine.clock = clock;
                    if !self.more(stop)? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Moves over all events that are left in the packet; gives how many, and what stopped it.
    pub(crate) fn skip_rest(&mut self, data: &TraceData) -> (u64, Option<Problem>) {
        let mut count = 0;
        self.event_start = self.next_start.unwrap_or(self.event_start);
        loop {
            let Some(mut skipping) = self.skipping(data) else { return (count, None) };
            skipping.run();
            let skipped = Skipped::of(skipping);
            count += skipped.count;
            match self.after_skipping(skipped) {
                Ok(true) => {}
                Ok(false) => return (count, None),
                Err(problem) => return (count, Some(problem)),
            }
        }
    }

    /// Moves over events, to the first one after `last_clock` or to the packet's end.
    pub(crate) fn skip_to(&mut self, data: &TraceData, last_clock: u64) -> Result<(), Problem> {
        self.event_start = self.next_start.unwrap_or(self.event_start);
        loop {
            let Some(mut skipping) = self.skipping(data) else { return Ok(()) };
            skipping.last_clock = last_clock;
            skipping.run();
            let skipped = Skipped::of(skipping);
            let is_there = skipped.stop.is_none() && !skipped.at_end;
            let more = self.after_skipping(skipped);
            self.next_start = Some(self.event_start);
            if is_there || !more? {
                return Ok(());
            }
        }
    }

    /// Moves over events of about `size` bytes, and gives the place behind them and whether there
    /// may be more; `None` if times go back, so that no event behind tells what was before it.
    /// A problem ends the packet.
    pub(crate) fn skip_some(&mut self, data: &TraceData, size: usize) -> Option<(Mark, bool)> {
        if let Some(mut skipping) = self.skipping_part(data, size) {
            skipping.run();
            let skipped = Skipped::of(skipping);
            if let Some(moved) = self.after_part(&skipped) {
                return moved;
            }
        }
        self.skip_held(data)
    }

    /// Does the same in two packets at the same time.
    pub(crate) fn skip_some_together(
        (a, data_a): (&mut Cursor, &TraceData),
        (b, data_b): (&mut Cursor, &TraceData),
        size: usize,
    ) -> [Option<(Mark, bool)>; 2] {
        let parts = a.skipping_part(data_a, size).zip(b.skipping_part(data_b, size));
        let Some((mut of_a, mut of_b)) = parts else {
            return [a.skip_some(data_a, size), b.skip_some(data_b, size)];
        };
        Skipping::run_two(&mut of_a, &mut of_b);
        of_a.run();
        of_b.run();
        let (of_a, of_b) = (Skipped::of(of_a), Skipped::of(of_b));
        let moved_a = a.after_part(&of_a).unwrap_or_else(|| a.skip_held(data_a));
        let moved_b = b.after_part(&of_b).unwrap_or_else(|| b.skip_held(data_b));
        [moved_a, moved_b]
    }

    /// A walk over `size` of the bytes that are held; `None` if no more are.
    fn skipping_part<'c>(&'c mut self, data: &'c TraceData, size: usize) -> Option<Skipping<'c>> {
        self.event_start = self.next_start.unwrap_or(self.event_start);
        let all = View::new(&self.buffer[..self.held], self.base, self.end_bits);
        let end = (self.event_start / 8) as usize + size;
        if end >= all.whole_bytes().len() {
            return None;
        }
        let view = View::new(&self.buffer[..end], self.base, end as u64 * 8);
        let stream = self.packet.as_ref()?.packet.stream;
        Some(Skipping::new(&data.decoder, stream, view, self.event_start, &mut self.machine))
    }

    /// Result of a walk over a part, as [`Cursor::skip_some`] gives it; `None` if an event is
    /// larger than the part.
    fn after_part(&mut self, skipped: &Skipped) -> Option<Option<(Mark, bool)>> {
        if skipped.went_back {
            return Some(None);
        }
        if skipped.count == 0 {
            return None;
        }
        self.event_start = skipped.position;
        self.next_start = Some(self.event_start);
        Some(Some((self.mark(), true)))
    }

    /// Moves over all events that are held, as [`Cursor::skip_some`] does.
    fn skip_held(&mut self, data: &TraceData) -> Option<(Mark, bool)> {
        self.event_start = self.next_start.unwrap_or(self.event_start);
        loop {
            let mut skipping = self.skipping(data)?;
            skipping.run();
            let skipped = Skipped::of(skipping);
            if skipped.went_back {
                return None;
            }
            self.event_start = skipped.position;
            let mark = self.mark();
            let is_stopped = skipped.count == 0 && skipped.stop.is_some();
            match self.after_skipping(skipped) {
                // There are more bytes of the event now.
                Ok(true) if is_stopped => {}
                more => {
                    self.next_start = Some(self.event_start);
                    return Some((mark, matches!(more, Ok(true))));
                }
            }
        }
    }

    /// The place of the next event.
    fn mark(&self) -> Mark {
        let position = self.base * 8 + self.event_start;
        Mark { position, clock: self.machine.clock, ns: i64::MIN }
    }

    /// Moves over the events of two packets at the same time, until one of them is at its end or
    /// has a problem; gives how many these were.
    pub(crate) fn skip_together(
        (a, data_a): (&mut Cursor, &TraceData),
        (b, data_b): (&mut Cursor, &TraceData),
        problems: &mut Vec<Problem>,
    ) -> u64 {
        let mut count = 0;
        for cursor in [&mut *a, &mut *b] {
            cursor.event_start = cursor.next_start.take().unwrap_or(cursor.event_start);
        }
        while let (Some(mut of_a), Some(mut of_b)) = (a.skipping(data_a), b.skipping(data_b)) {
            Skipping::run_two(&mut of_a, &mut of_b);
            let (of_a, of_b) = (Skipped::of(of_a), Skipped::of(of_b));
            count += of_a.count + of_b.count;
            let more_a = a.after_skipping(of_a);
            let more_b = b.after_skipping(of_b);
            let go_on = matches!((&more_a, &more_b), (Ok(true), Ok(true)));
            problems.extend(more_a.err());
            problems.extend(more_b.err());
            if !go_on {
                break;
            }
        }
        for cursor in [a, b] {
            cursor.next_start = Some(cursor.event_start);
        }
        count
    }

    fn skipping<'c>(&'c mut self, data: &'c TraceData) -> Option<Skipping<'c>> {
        let packet = self.packet.as_ref()?;
        let view = View::new(&self.buffer[..self.held], self.base, self.end_bits);
        let (stream, machine) = (packet.packet.stream, &mut self.machine);
        Some(Skipping::new(&data.decoder, stream, view, self.event_start, machine))
    }

    /// Whether there is more to skip; reads it.
    fn after_skipping(&mut self, skipped: Skipped) -> Result<bool, Problem> {
        self.event_start = skipped.position;
        match skipped.stop {
            Some(stop) => self.more(stop),
            None if !skipped.at_end => Ok(true),
            None if self.complete => Ok(false),
            None => self.fill(AHEAD).map(|()| true),
        }
    }

    /// Visits the current event's body; `false` if the file is known to have been cut within it.
    #[inline]
    pub(crate) fn body<V: Visitor>(
        &mut self,
        data: &TraceData,
        visitor: &mut V,
    ) -> Result<bool, Problem> {
        loop {
            let Some(packet) = &self.packet else { return Ok(false) };
            let view = View::new(&self.buffer[..self.held], self.base, self.end_bits);
            let mut position = self.body_start;
            let machine = &mut self.machine;
            let stream = packet.packet.stream;
            match data.decoder.event_body(stream, self.class, view, &mut position, machine, visitor)
            {
                Ok(()) if position == self.event_start => {
                    let kind = DecodeErrorKind::EmptyEvent;
                    let problem = self.bad(&DecodeError { at_bits: self.position(), kind });
                    self.end();
                    return Err(problem);
                }
                Ok(()) => {
                    self.next_start = Some(position);
                    return Ok(true);
                }
                Err(stop) => {
                    if !self.more(stop)? {
                        return Ok(false);
                    }
                    visitor.restart();
                }
            }
        }
    }

    /// Lets `read` read the current event's body, as [`crate::Event::read_plain`] says.
    #[inline]
    pub(crate) fn plain_body(
        &mut self,
        mut read: impl FnMut(&[u8]) -> Option<usize>,
    ) -> Result<bool, Problem> {
        loop {
            if self.packet.is_none() {
                return Ok(false);
            }
            let view = View::new(&self.buffer[..self.held], self.base, self.end_bits);
            let start = self.body_start.div_ceil(8) as usize;
            match read(view.whole_bytes().get(start..).unwrap_or(&[])) {
                Some(size) => {
                    self.next_start = Some((start + size) as u64 * 8);
                    return Ok(true);
                }
                None => {
                    if !self.more(Stop::Short)? {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Visits the packet's context.
    pub(crate) fn packet_context<V: Visitor>(&mut self, data: &TraceData, visitor: &mut V) -> bool {
        let Some(packet) = &self.packet else { return false };
        let clock = self.machine.clock;
        let stream = packet.packet.stream;
        let view = View::whole(&self.header);
        let done = data.decoder.packet_context(stream, view, &mut self.machine, visitor);
        self.machine.clock = clock;
        done.is_ok()
    }

    /// Bits of the packet before the current event.
    fn position(&self) -> u64 {
        self.base * 8 + self.event_start
    }

    /// After a walk has stopped: `true` if there are more bytes now and it may try again,
    /// `false` if the file is known to have been cut here.
    #[cold]
    fn more(&mut self, stop: Stop) -> Result<bool, Problem> {
        match stop {
            Stop::Bad(error) => {
                let problem = self.bad(&error);
                self.end();
                Err(problem)
            }
            Stop::Short if !self.complete => {
                let held = self.held - (self.event_start / 8) as usize;
                if held >= EVENT_SIZE_MAX {
                    let problem = self.too_large();
                    self.end();
                    return Err(problem);
                }
                self.fill((held * 2).clamp(AHEAD, EVENT_SIZE_MAX))?;
                Ok(true)
            }
            Stop::Short => {
                let cut = self.packet.as_ref().is_some_and(|packet| packet.missing > 0);
                let problem = self.cut_problem();
                self.end();
                if cut { Ok(false) } else { Err(problem) }
            }
        }
    }

    /// Drops the bytes before the current event, and reads more: to the window's size, and at
    /// least `least` bytes in all, as far as the packet has them.
    fn fill(&mut self, least: usize) -> Result<(), Problem> {
        self.hold(self.window.max(least))
    }

    /// Drops the bytes before the current event, and reads more until `size` bytes are held, as far
    /// as the packet has them.
    fn hold(&mut self, size: usize) -> Result<(), Problem> {
        let passed = ((self.event_start / 8) as usize).min(self.held);
        if passed > self.kept_max {
            self.kept_from = None;
        }
        let kept = self.kept_from.map_or(u64::MAX, |from| from.saturating_sub(self.base));
        let done = usize::try_from(kept).map_or(passed, |kept| kept.min(passed));
        if done > 0 {
            self.buffer.copy_within(done..self.held, 0);
            self.held -= done;
            self.base += done as u64;
            self.move_positions(done);
        }
        let Some(packet) = &self.packet else { return Ok(()) };
        let content = packet.content_bits.div_ceil(8).min(packet.size);
        let at = self.base + self.held as u64;
        let rest = content.saturating_sub(at);
        let room = (size + (passed - done)).saturating_sub(self.held);
        let want = rest.min(room as u64) as usize;
        if self.buffer.is_empty() && self.kept_max > 0 {
            self.buffer = vec![0; self.kept_max + 2 * self.window];
        }
        if self.buffer.len() < self.held + want {
            self.buffer.resize(self.held + want, 0);
        }
        let place = &mut self.buffer[self.held..self.held + want];
        let read = match packet.file.read(&mut self.handle, packet.offset + at, place) {
            Ok(read) => read,
            Err(problem) => {
                self.end();
                return Err(problem);
            }
        };
        self.held += read;
        // A file that has shrunk since its packets were found ends early.
        self.complete = read as u64 == rest || read < want;
        self.ahead_bits = if self.complete { 0 } else { AHEAD as u64 * 8 };
        self.set_end();
        Ok(())
    }

    /// Holds bytes that were handed over instead of those in the buffer. They reach as far as the
    /// slice that they were handed over for, and few events need more.
    fn replace_held(&mut self, given: ReadBytes) {
        let ReadBytes { buffer, base, held, complete, .. } = given;
        self.replaced = Some(std::mem::replace(&mut self.buffer, buffer));
        (self.base, self.held, self.complete) = (base, held, complete);
        self.ahead_bits = 0;
        self.set_end();
    }

    /// Moves all positions after `count` bytes were dropped before them.
    fn move_positions(&mut self, count: usize) {
        let bits = count as u64 * 8;
        for position in [&mut self.event_start, &mut self.body_start] {
            *position = position.saturating_sub(bits);
        }
        self.next_start = self.next_start.map(|start| start.saturating_sub(bits));
    }

    /// Works out where the content ends in the held bytes.
    fn set_end(&mut self) {
        let content_bits = self.packet.as_ref().map_or(0, |packet| packet.content_bits);
        let end_bits = content_bits.saturating_sub(self.base.saturating_mul(8));
        self.end_bits = end_bits.min(self.held as u64 * 8);
    }

    /// Whether it is known where the current event ends.
    #[inline]
    pub(crate) fn has_passed_body(&self) -> bool {
        self.next_start.is_some()
    }

    /// Whether nothing more can be read of the packet, and nothing could of the current event.
    #[inline]
    pub(crate) fn is_ended(&self) -> bool {
        self.held == 0
    }

    fn end(&mut self) {
        self.held = 0;
        self.end_bits = 0;
        self.complete = true;
        self.ahead_bits = 0;
        self.event_start = 0;
        self.body_start = 0;
        self.next_start = Some(0);
        if let Some(packet) = &mut self.packet {
            packet.content_bits = 0;
        }
    }

    fn bad(&self, error: &DecodeError) -> Problem {
        let kind = match error.kind {
            DecodeErrorKind::UnknownEvent(_) => ProblemKind::Undescribed(error.to_string()),
            _ => ProblemKind::Data(error.to_string()),
        };
        self.problem(error.at_bits, kind)
    }

    /// The current event is too large.
    pub(crate) fn too_large(&self) -> Problem {
        self.problem(self.position(), ProblemKind::EventTooLarge)
    }

    fn cut_problem(&self) -> Problem {
        let kind = ProblemKind::Data("event goes on beyond the packet's content".into());
        self.problem(self.position(), kind)
    }

    fn problem(&self, at_bits: u64, kind: ProblemKind) -> Problem {
        match &self.packet {
            Some(packet) => {
                Problem::new(packet.file.path(), Some(packet.offset + at_bits / 8), kind)
            }
            None => Problem::new("".as_ref(), None, kind),
        }
    }
}
