//! Cursor over the events of a packet, through a window on the packet's file.
//!
//! A packet may be of any size, so the window has only a part of it. When an event is decoded, the
//! window has at least [`AHEAD`] bytes from the event's start on. It has fewer if the packet ends
//! earlier, or if another cursor has read the bytes. Nearly every event fits. For a larger event
//! the window grows, up to [`EVENT_SIZE_MAX`] and the end of the packet, and the event's visitor
//! restarts.

use crate::error::{Problem, ProblemKind};
use crate::file::Handle;
use crate::limits::EVENT_SIZE_MAX;
use crate::packet::{Mark, PacketRef};
use crate::trace::TraceData;
use blkkin_ctf::decode::{
    DecodeError, DecodeErrorKind, EventSkipper, Machine, NullVisitor, Stop, View, Visitor,
};
use std::sync::Arc;

/// Minimum number of bytes in the window from the start of the event to decode: 16 KiB. The window
/// has fewer if the packet ends earlier, or if another cursor has read the bytes.
const AHEAD: usize = 16 << 10;

/// Bytes of a packet that one cursor has read and hands over to another cursor.
#[derive(Debug)]
pub(crate) struct PacketBytes {
    /// Number of the packet, unique in its stream.
    packet: u64,
    /// Data of the packet from byte `base` on, in the first `buffered` bytes; the remaining bytes
    /// of the buffer are unused.
    buffer: Vec<u8>,
    base: u64,
    buffered: usize,
    /// Set if the data extend to the end of the packet's content, or of a truncated file.
    complete: bool,
}

/// Result of a walk that skipped events in the window without visiting their fields.
struct SkipOutcome {
    position: u64,
    count: u64,
    stop: Option<Stop>,
    at_end: bool,
    went_back: bool,
}

impl PacketBytes {
    /// Returns true if byte `position` of the packet is in the buffer.
    fn has(&self, position: u64) -> bool {
        (self.base..self.base + self.buffered as u64).contains(&position)
    }
}

impl SkipOutcome {
    fn from_skipping(skipping: EventSkipper<'_>) -> SkipOutcome {
        let at_end = skipping.is_at_end();
        let EventSkipper { position, count, stop, clock_decreased: went_back, .. } = skipping;
        SkipOutcome { position, count, stop, at_end, went_back }
    }
}

#[derive(Debug)]
pub(crate) struct Cursor {
    machine: Machine,
    packet: Option<PacketRef>,
    handle: Handle,
    /// Bytes of the packet's header and context.
    header: Vec<u8>,
    /// Window on the packet, in the first `buffered` bytes. The remaining bytes are spare capacity
    /// and stay allocated, so that they are not zeroed again.
    buffer: Vec<u8>,
    buffered: usize,
    window: usize,
    /// Maximum number of bytes before the current event that are retained for
    /// [`Cursor::hand_over`].
    retained_max: usize,
    /// Position of the first retained byte, from the packet's start; `None` if no bytes are
    /// retained.
    retained_from: Option<u64>,
    /// Bytes handed over by another cursor, kept until this cursor starts the bytes' packet.
    handover: Option<PacketBytes>,
    /// Former window buffer, replaced by handed-over bytes and kept for reuse.
    replaced: Option<Vec<u8>>,
    /// Offset of the start of `buffer` in the packet, in bytes.
    base: u64,
    /// End of the packet's content in the window, in bits from the start of `buffer`.
    end_bits: u64,
    /// Set if the window reaches to the end of the packet's content, or of a truncated file.
    complete: bool,
    /// Minimum number of bits that [`Cursor::next`] buffers from each event's start on; 0 if
    /// `complete` is set, or if the window was handed over.
    ahead_bits: u64,
    /// Start of the current event, in bits from the start of `buffer`. `body_start` has the same
    /// unit and origin.
    event_start: u64,
    body_start: u64,
    /// Clock before the current event, in cycles.
    event_clock: u64,
    class: u32,
    /// Start of the next event, in bits from the start of `buffer`; `None` until the end of the
    /// current event is known.
    next_start: Option<u64>,
}

impl Cursor {
    /// Makes a cursor for streams of `data` with a window of `window` bytes, at least 32 KiB. The
    /// window grows for large events and packet headers, and for retained bytes.
    pub(crate) fn new(data: &TraceData, window: usize) -> Cursor {
        Cursor {
            machine: data.decoder.machine(),
            packet: None,
            handle: Handle::default(),
            header: Vec::new(),
            buffer: Vec::new(),
            buffered: 0,
            window: window.max(2 * AHEAD),
            retained_max: 0,
            retained_from: None,
            handover: None,
            replaced: None,
            base: 0,
            end_bits: 0,
            complete: true,
            ahead_bits: 0,
            event_start: 0,
            body_start: 0,
            event_clock: 0,
            class: 0,
            next_start: None,
        }
    }

    /// Makes the cursor retain up to `size` bytes before the current event for
    /// [`Cursor::hand_over`].
    pub(crate) fn retain(&mut self, size: usize) {
        self.retained_max = size;
    }

    /// Hands over the window with the retained bytes, and continues in a new window, a buffer of
    /// `spare` if there is one. Returns `None`, and keeps the window, if no bytes are retained, if
    /// byte `from` of the packet is outside of the window, or if the window has too many bytes. The
    /// receiving cursor then reads the file itself. In any case this cursor now retains the bytes
    /// from byte `from` on.
    pub(crate) fn hand_over(&mut self, from: u64, spare: &mut Vec<Vec<u8>>) -> Option<PacketBytes> {
        let packet = self.packet_number();
        let was_retained = self.retained_from.replace(from).is_some();
        let passed = from.checked_sub(self.base).filter(|_| was_retained)?;
        let passed = usize::try_from(passed).ok().filter(|passed| *passed <= self.retained_max)?;
        // After a large event much unread data remains, which each slice would copy.
        let has_large_rest = self.buffered > self.retained_max + 2 * self.window;
        if passed > self.buffered || has_large_rest {
            return None;
        }
        let (buffered, base, complete) = (self.buffered, self.base, self.complete);
        let room = spare.pop().unwrap_or_default();
        let buffer = std::mem::replace(&mut self.buffer, room);
        self.buffered -= passed;
        self.base += passed as u64;
        if self.buffer.len() < self.buffered {
            self.buffer = vec![0; self.retained_max + 2 * self.window];
        }
        self.buffer[..self.buffered].copy_from_slice(&buffer[passed..buffered]);
        self.move_positions(passed);
        self.set_end();
        Some(PacketBytes { packet, buffer, base, buffered, complete })
    }

    /// Stores bytes of a packet that another cursor has read, until this cursor starts the packet.
    /// Moves unused buffers to `spare`.
    pub(crate) fn accept_bytes(&mut self, handover: Option<PacketBytes>, spare: &mut Vec<Vec<u8>>) {
        let unused =
            std::mem::replace(&mut self.handover, handover).map(|handover| handover.buffer);
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

    /// Returns the packet that the cursor started last; `None` before the first.
    pub(crate) fn packet(&self) -> Option<&PacketRef> {
        self.packet.as_ref()
    }

    /// Starts a packet at its first event, or at its mark if it has one.
    pub(crate) fn start(&mut self, data: &TraceData, packet: PacketRef) -> Result<(), Problem> {
        let last = self.packet.as_ref().filter(|last| Arc::ptr_eq(&last.file, &packet.file));
        let is_last = last.is_some_and(|last| last.number == packet.number);
        if last.is_none() {
            self.handle = Handle::default();
        }
        self.buffered = 0;
        self.base = 0;
        self.end_bits = 0;
        self.complete = false;
        self.event_start = 0;
        self.body_start = 0;
        self.next_start = None;
        self.retained_from = (self.retained_max > 0).then_some(0);
        if packet.is_independent() {
            self.machine.clock = packet.clock_before;
        }
        let header_size = packet.packet.first_event.div_ceil(8) as usize;
        let mark = packet.mark;
        let start = mark.map_or(0, |mark| mark.position / 8);
        let handover = self.handover.take_if(|handover| handover.packet == packet.number);
        let mut handover = handover.filter(|handover| handover.has(start));
        // The slices of one packet share its header.
        let has_header = is_last && mark.is_some() && self.header.len() == header_size;
        self.packet = Some(packet);
        if !has_header {
            // If reading fails, the header of the last packet must not remain.
            self.header.clear();
            match handover.take_if(|_| mark.is_none()) {
                Some(handover) => self.use_handover(handover),
                // The bytes between the header and the mark are not read.
                None if mark.is_some() => self.fill_to(header_size)?,
                None => self.fill(header_size)?,
            }
            self.header.extend_from_slice(&self.buffer[..header_size.min(self.buffered)]);
        }
        self.decode_packet_header(data)?;
        self.event_start = self.packet.as_ref().map_or(0, |packet| packet.packet.first_event);
        if let Some(mark) = mark {
            self.machine.clock = mark.clock;
            match handover {
                Some(handover) => {
                    self.event_start = mark.position - handover.base * 8;
                    self.use_handover(handover);
                }
                None => {
                    self.buffered = 0;
                    self.base = start;
                    self.event_start = mark.position % 8;
                    self.fill(AHEAD)?;
                }
            }
        }
        self.next_start = Some(self.event_start);
        Ok(())
    }

    fn decode_packet_header(&mut self, data: &TraceData) -> Result<(), Problem> {
        match data.decoder.packet(View::whole(&self.header), &mut self.machine) {
            Ok(_) => Ok(()),
            Err(Stop::Incomplete) => Err(self.overrun_problem()),
            Err(Stop::Invalid(error)) => Err(self.decode_problem(&error)),
        }
    }

    /// Moves to the next event of the packet and returns the index of its class. Returns `None` at
    /// the packet's end. A problem ends the packet.
    #[inline]
    pub(crate) fn next(&mut self, data: &TraceData) -> Result<Option<u32>, Problem> {
        if self.next_start.is_none() {
            self.body(data, &mut NullVisitor)?;
        }
        self.event_start = self.next_start.unwrap_or(self.event_start);
        let ahead = (self.buffered as u64 * 8).saturating_sub(self.event_start);
        if ahead < self.ahead_bits {
            self.fill(AHEAD)?;
        }
        self.decode_event_header(data)
    }

    fn decode_event_header(&mut self, data: &TraceData) -> Result<Option<u32>, Problem> {
        loop {
            let Some(packet) = &self.packet else { return Ok(None) };
            let view = View::new(&self.buffer[..self.buffered], self.base, self.end_bits);
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
                    self.event_clock = clock;
                    self.body_start = position;
                    self.next_start = None;
                    return Ok(Some(class));
                }
                Err(stop) => {
                    self.machine.clock = clock;
                    if !self.read_more(stop)? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Skips the remaining events of the packet. Returns their number, and the problem if one ended
    /// the packet early.
    pub(crate) fn skip_rest(&mut self, data: &TraceData) -> (u64, Option<Problem>) {
        let mut count = 0;
        self.event_start = self.next_start.unwrap_or(self.event_start);
        loop {
            let Some(mut skipping) = self.skipping(data) else { return (count, None) };
            skipping.run();
            let skipped = SkipOutcome::from_skipping(skipping);
            count += skipped.count;
            match self.finish_skip(skipped) {
                Ok(true) => {}
                Ok(false) => return (count, None),
                Err(problem) => return (count, Some(problem)),
            }
        }
    }

    /// Skips all events up to and including clock value `last_clock`, or to the packet's end.
    pub(crate) fn skip_to(&mut self, data: &TraceData, last_clock: u64) -> Result<(), Problem> {
        self.event_start = self.next_start.unwrap_or(self.event_start);
        loop {
            let Some(mut skipping) = self.skipping(data) else { return Ok(()) };
            skipping.last_clock = last_clock;
            skipping.run();
            let skipped = SkipOutcome::from_skipping(skipping);
            let is_reached = skipped.stop.is_none() && !skipped.at_end;
            let more = self.finish_skip(skipped);
            self.next_start = Some(self.event_start);
            if is_reached || !more? {
                return Ok(());
            }
        }
    }

    /// Skips events of about `size` bytes. Returns the mark after the skipped events, and a flag
    /// that is true if the packet may have more events. Returns `None` if the clock went backwards,
    /// since the mark is then no bound for the times of earlier events. A problem ends the packet.
    pub(crate) fn skip_some(&mut self, data: &TraceData, size: usize) -> Option<(Mark, bool)> {
        if let Err(end) = self.read_step(size) {
            return Some(end);
        }
        if let Some(mut skipping) = self.part_skipping(data, size) {
            skipping.run();
            let skipped = SkipOutcome::from_skipping(skipping);
            if let Some(moved) = self.finish_part(&skipped) {
                return moved;
            }
        }
        self.skip_buffered(data)
    }

    /// Skips events of about `size` bytes in each of two packets, like [`Cursor::skip_some`].
    /// Interleaves the walks if both windows have more than `size` unread bytes.
    pub(crate) fn skip_some_of_two(
        (a, data_a): (&mut Cursor, &TraceData),
        (b, data_b): (&mut Cursor, &TraceData),
        size: usize,
    ) -> [Option<(Mark, bool)>; 2] {
        let (read_a, read_b) = (a.read_step(size), b.read_step(size));
        if read_a.is_err() || read_b.is_err() {
            return [
                read_a.map_or_else(Some, |()| a.skip_some(data_a, size)),
                read_b.map_or_else(Some, |()| b.skip_some(data_b, size)),
            ];
        }
        let parts = a.part_skipping(data_a, size).zip(b.part_skipping(data_b, size));
        let Some((mut skip_a, mut skip_b)) = parts else {
            return [a.skip_some(data_a, size), b.skip_some(data_b, size)];
        };
        EventSkipper::run_two(&mut skip_a, &mut skip_b);
        skip_a.run();
        skip_b.run();
        let (skip_a, skip_b) =
            (SkipOutcome::from_skipping(skip_a), SkipOutcome::from_skipping(skip_b));
        let moved_a = a.finish_part(&skip_a).unwrap_or_else(|| a.skip_buffered(data_a));
        let moved_b = b.finish_part(&skip_b).unwrap_or_else(|| b.skip_buffered(data_b));
        [moved_a, moved_b]
    }

    /// Reads the bytes for a step of `size` bytes, unless they are buffered. If that fails, returns
    /// the result of a step that skips nothing, and ends the packet.
    fn read_step(&mut self, size: usize) -> Result<(), (Mark, bool)> {
        self.event_start = self.next_start.unwrap_or(self.event_start);
        let needed = size + 1;
        if self.complete || (self.event_start / 8) as usize + needed <= self.buffered {
            return Ok(());
        }
        let mark = self.mark();
        let read = self.fill(needed);
        self.next_start = Some(self.event_start);
        read.map_err(|_| (mark, false))
    }

    /// Makes a walk over the next `size` buffered bytes. Returns `None` unless more bytes follow
    /// them in the window.
    fn part_skipping<'c>(
        &'c mut self,
        data: &'c TraceData,
        size: usize,
    ) -> Option<EventSkipper<'c>> {
        let all = View::new(&self.buffer[..self.buffered], self.base, self.end_bits);
        let end = (self.event_start / 8) as usize + size;
        if end >= all.whole_bytes().len() {
            return None;
        }
        let view = View::new(&self.buffer[..end], self.base, end as u64 * 8);
        let stream = self.packet.as_ref()?.packet.stream;
        Some(EventSkipper::new(&data.decoder, stream, view, self.event_start, &mut self.machine))
    }

    /// Applies the result of a walk over a part of the window. Returns the result for
    /// [`Cursor::skip_some`], or `None` if the walk has skipped no event.
    fn finish_part(&mut self, skipped: &SkipOutcome) -> Option<Option<(Mark, bool)>> {
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

    /// Skips all buffered events. Reads more bytes first if no whole event is buffered. Returns the
    /// same as [`Cursor::skip_some`].
    fn skip_buffered(&mut self, data: &TraceData) -> Option<(Mark, bool)> {
        self.event_start = self.next_start.unwrap_or(self.event_start);
        loop {
            let mut skipping = self.skipping(data)?;
            skipping.run();
            let skipped = SkipOutcome::from_skipping(skipping);
            if skipped.went_back {
                return None;
            }
            self.event_start = skipped.position;
            let mark = self.mark();
            let is_stopped = skipped.count == 0 && skipped.stop.is_some();
            match self.finish_skip(skipped) {
                // More bytes of the event are buffered now.
                Ok(true) if is_stopped => {}
                more => {
                    self.next_start = Some(self.event_start);
                    return Some((mark, matches!(more, Ok(true))));
                }
            }
        }
    }

    /// Returns a mark at the next event, without its time, which the caller of
    /// [`Cursor::skip_some`] sets.
    fn mark(&self) -> Mark {
        let position = self.base * 8 + self.event_start;
        Mark { position, clock: self.machine.clock, ns: i64::MIN }
    }

    /// Returns a mark before the current event, at which the packet can be started again. The
    /// event's fields must not have been decoded.
    pub(crate) fn mark_before_event(&self) -> Mark {
        Mark { position: self.position(), clock: self.event_clock, ns: i64::MIN }
    }

    /// Skips events of two packets, with interleaved walks, until one of the packets ends or has a
    /// problem. Returns the number of events skipped in both packets.
    pub(crate) fn skip_two(
        (a, data_a): (&mut Cursor, &TraceData),
        (b, data_b): (&mut Cursor, &TraceData),
        problems: &mut Vec<Problem>,
    ) -> u64 {
        let mut count = 0;
        for cursor in [&mut *a, &mut *b] {
            cursor.event_start = cursor.next_start.take().unwrap_or(cursor.event_start);
        }
        while let (Some(mut skip_a), Some(mut skip_b)) = (a.skipping(data_a), b.skipping(data_b)) {
            EventSkipper::run_two(&mut skip_a, &mut skip_b);
            let (skip_a, skip_b) =
                (SkipOutcome::from_skipping(skip_a), SkipOutcome::from_skipping(skip_b));
            count += skip_a.count + skip_b.count;
            let more_a = a.finish_skip(skip_a);
            let more_b = b.finish_skip(skip_b);
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

    fn skipping<'c>(&'c mut self, data: &'c TraceData) -> Option<EventSkipper<'c>> {
        let packet = self.packet.as_ref()?;
        let view = View::new(&self.buffer[..self.buffered], self.base, self.end_bits);
        let (stream, machine) = (packet.packet.stream, &mut self.machine);
        Some(EventSkipper::new(&data.decoder, stream, view, self.event_start, machine))
    }

    /// Applies the result of a walk, and reads more bytes if the walk needs them. Returns false at
    /// the packet's end.
    fn finish_skip(&mut self, skipped: SkipOutcome) -> Result<bool, Problem> {
        self.event_start = skipped.position;
        match skipped.stop {
            Some(stop) => self.read_more(stop),
            None if !skipped.at_end => Ok(true),
            None if self.complete => Ok(false),
            None => self.fill(AHEAD).map(|()| true),
        }
    }

    /// Visits the fields of the current event's contexts and payload. Returns false if the file is
    /// truncated within the event.
    #[inline]
    pub(crate) fn body<V: Visitor>(
        &mut self,
        data: &TraceData,
        visitor: &mut V,
    ) -> Result<bool, Problem> {
        loop {
            let Some(packet) = &self.packet else { return Ok(false) };
            let view = View::new(&self.buffer[..self.buffered], self.base, self.end_bits);
            let mut position = self.body_start;
            let machine = &mut self.machine;
            let stream = packet.packet.stream;
            match data.decoder.event_body(stream, self.class, view, &mut position, machine, visitor)
            {
                Ok(()) if position == self.event_start => {
                    let kind = DecodeErrorKind::EmptyEvent;
                    let problem =
                        self.decode_problem(&DecodeError { at_bits: self.position(), kind });
                    self.end_packet();
                    return Err(problem);
                }
                Ok(()) => {
                    self.next_start = Some(position);
                    return Ok(true);
                }
                Err(stop) => {
                    if !self.read_more(stop)? {
                        return Ok(false);
                    }
                    visitor.restart();
                }
            }
        }
    }

    /// Passes the bytes of the current event's contexts and payload to `read`; see
    /// [`crate::Event::read_plain`].
    #[inline]
    pub(crate) fn plain_body(
        &mut self,
        mut read: impl FnMut(&[u8]) -> Option<usize>,
    ) -> Result<bool, Problem> {
        loop {
            if self.packet.is_none() {
                return Ok(false);
            }
            let view = View::new(&self.buffer[..self.buffered], self.base, self.end_bits);
            let start = self.body_start.div_ceil(8) as usize;
            match read(view.whole_bytes().get(start..).unwrap_or(&[])) {
                Some(size) => {
                    self.next_start = Some((start + size) as u64 * 8);
                    return Ok(true);
                }
                None => {
                    if !self.read_more(Stop::Incomplete)? {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Visits the fields of the packet's context. Returns false if they cannot be decoded.
    pub(crate) fn packet_context<V: Visitor>(&mut self, data: &TraceData, visitor: &mut V) -> bool {
        let Some(packet) = &self.packet else { return false };
        let clock = self.machine.clock;
        let stream = packet.packet.stream;
        let view = View::whole(&self.header);
        let done = data.decoder.packet_context(stream, view, &mut self.machine, visitor);
        self.machine.clock = clock;
        done.is_ok()
    }

    /// Returns the position of the current event in the packet, in bits.
    fn position(&self) -> u64 {
        self.base * 8 + self.event_start
    }

    /// Reads more bytes after a walk has stopped. Returns true if the walk can be repeated, and
    /// false if the file is truncated here.
    #[cold]
    fn read_more(&mut self, stop: Stop) -> Result<bool, Problem> {
        match stop {
            Stop::Invalid(error) => {
                let problem = self.decode_problem(&error);
                self.end_packet();
                Err(problem)
            }
            Stop::Incomplete if !self.complete => {
                let buffered = self.buffered - (self.event_start / 8) as usize;
                if buffered >= EVENT_SIZE_MAX {
                    let problem = self.too_large();
                    self.end_packet();
                    return Err(problem);
                }
                self.fill((buffered * 2).clamp(AHEAD, EVENT_SIZE_MAX))?;
                Ok(true)
            }
            Stop::Incomplete => {
                let cut = self.packet.as_ref().is_some_and(|packet| packet.missing_bytes > 0);
                let problem = self.overrun_problem();
                self.end_packet();
                if cut { Ok(false) } else { Err(problem) }
            }
        }
    }

    /// Fills the window from the file like [`Cursor::fill_to`], up to the size of the window or to
    /// `least` bytes, whichever is larger.
    fn fill(&mut self, least: usize) -> Result<(), Problem> {
        self.fill_to(self.window.max(least))
    }

    /// Drops the bytes before the current event, except for retained bytes. Then reads until `size`
    /// bytes from the current event on are buffered, or the packet ends.
    fn fill_to(&mut self, size: usize) -> Result<(), Problem> {
        let passed = ((self.event_start / 8) as usize).min(self.buffered);
        if passed > self.retained_max {
            self.retained_from = None;
        }
        let droppable = self.retained_from.map_or(u64::MAX, |from| from.saturating_sub(self.base));
        let dropped = usize::try_from(droppable).map_or(passed, |bytes| bytes.min(passed));
        if dropped > 0 {
            self.buffer.copy_within(dropped..self.buffered, 0);
            self.buffered -= dropped;
            self.base += dropped as u64;
            self.move_positions(dropped);
        }
        let Some(packet) = &self.packet else { return Ok(()) };
        let content = packet.content_bits.div_ceil(8).min(packet.size);
        let at = self.base + self.buffered as u64;
        let remaining = content.saturating_sub(at);
        let room = (size + (passed - dropped)).saturating_sub(self.buffered);
        let wanted_size = remaining.min(room as u64) as usize;
        if self.buffer.is_empty() && self.retained_max > 0 {
            self.buffer = vec![0; self.retained_max + 2 * self.window];
        }
        if self.buffer.len() < self.buffered + wanted_size {
            self.buffer.resize(self.buffered + wanted_size, 0);
        }
        let destination = &mut self.buffer[self.buffered..self.buffered + wanted_size];
        let read = match packet.file.read(&mut self.handle, packet.offset + at, destination) {
            Ok(read) => read,
            Err(problem) => {
                self.end_packet();
                return Err(problem);
            }
        };
        self.buffered += read;
        // A file that has been truncated since the scan of its packets ends early.
        self.complete = read as u64 == remaining || read < wanted_size;
        self.ahead_bits = if self.complete { 0 } else { AHEAD as u64 * 8 };
        self.set_end();
        Ok(())
    }

    /// Replaces the window by bytes from another cursor. The bytes extend to the end of the slice
    /// for which they were read, so few events need more bytes.
    fn use_handover(&mut self, handover: PacketBytes) {
        let PacketBytes { buffer, base, buffered, complete, .. } = handover;
        self.replaced = Some(std::mem::replace(&mut self.buffer, buffer));
        (self.base, self.buffered, self.complete) = (base, buffered, complete);
        self.ahead_bits = 0;
        self.set_end();
    }

    /// Adjusts all positions in the window after `count` bytes were dropped from its start.
    fn move_positions(&mut self, count: usize) {
        let bits = count as u64 * 8;
        for position in [&mut self.event_start, &mut self.body_start] {
            *position = position.saturating_sub(bits);
        }
        self.next_start = self.next_start.map(|start| start.saturating_sub(bits));
    }

    /// Computes the end of the packet's content in the window.
    fn set_end(&mut self) {
        let content_bits = self.packet.as_ref().map_or(0, |packet| packet.content_bits);
        let end_bits = content_bits.saturating_sub(self.base.saturating_mul(8));
        self.end_bits = end_bits.min(self.buffered as u64 * 8);
    }

    /// Returns true if the end of the current event is known.
    #[inline]
    pub(crate) fn is_body_decoded(&self) -> bool {
        self.next_start.is_some()
    }

    /// Returns true after a problem or the end of a truncated file has ended the packet. The packet
    /// then has no further bytes, and the current event is invalid or incomplete.
    #[inline]
    pub(crate) fn is_ended(&self) -> bool {
        self.buffered == 0
    }

    fn end_packet(&mut self) {
        self.buffered = 0;
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

    fn decode_problem(&self, error: &DecodeError) -> Problem {
        let kind = match error.kind {
            DecodeErrorKind::UnknownEvent(_) => ProblemKind::UnknownEventClass(error.to_string()),
            _ => ProblemKind::Data(error.to_string()),
        };
        self.problem(error.at_bits, kind)
    }

    /// Returns the problem for a current event that exceeds [`EVENT_SIZE_MAX`], or whose line is
    /// too large.
    pub(crate) fn too_large(&self) -> Problem {
        self.problem(self.position(), ProblemKind::EventTooLarge)
    }

    fn overrun_problem(&self) -> Problem {
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
