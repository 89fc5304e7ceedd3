//! The agent's side of a ring: consumes complete events, as packets with generated headers.

use crate::cells::{Cells, Word};
use crate::clock::Clock;
use crate::event_layout::{HEADER_SIZE, TIME_AT};
use crate::packet::{self, Header};
use crate::position;
use crate::shape::{self, Mode, Shape};
#[cfg(loom)]
use loom::sync::atomic::fence;
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
#[cfg(not(loom))]
use std::sync::atomic::fence;

/// Reader of one ring. The reader keeps its own position; the copy in the memory is for writers and
/// for other readers.
#[derive(Clone, Debug)]
pub struct Reader {
    ring: usize,
    clock: Clock,
    position: u64,
    /// End time of the last consumed packet.
    last_time: u64,
    /// Number of the next packet: consumed packets, plus sub-buffers that were overwritten unread.
    count: u64,
    freeing: Freeing,
    /// Number of discarded events in the header of the last consumed packet.
    discarded: u64,
    /// Number of events discarded in the rings that this ring replaced; included in `discarded`.
    before: u64,
    /// Number of this ring's discarded events that do not belong to the current recording.
    forgotten: u64,
    /// Set once the ring held invalid data; the ring is not read again.
    is_corrupt: bool,
    /// Cut-off of a snapshot; `None` for a reader that continues as long as events are recorded.
    end: Option<RingState>,
}

/// State of a ring at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingState {
    /// Position up to which writers have published events.
    position: u64,
    /// Time of the last event, or a later time.
    time: u64,
    /// Number of events discarded up to this moment, or a larger number.
    discarded: u64,
}

/// Policy for freeing consumed events, so that writers may overwrite them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Freeing {
    OnTake,
    OnFree,
    /// Another reader frees events, and may do so before this reader has copied them.
    ByOtherReader,
    /// This reader frees no events. No other reader frees events that this reader has not consumed.
    Never,
}

/// State that a ring's reader stores in the ring. The next agent continues from this state if the
/// reader's process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderState {
    /// Position at which the ring started.
    pub start: u64,
    /// Position before which events had been freed.
    pub read: u64,
    /// Position before which events had been written to a file or dropped, or were being written.
    pub next: u64,
    /// Size of the file before the write up to `next`, in bytes.
    pub size_before: u64,
    /// Size of the file after the write up to `next`, in bytes.
    pub size_after: u64,
    /// Number of events discarded in the rings that this ring replaced.
    pub discarded_before: u64,
    /// Number of this ring's discarded events that do not belong to the current recording.
    pub discarded_forgotten: u64,
    /// Set if the agent must discard the contents of the rings that this ring replaced.
    pub is_cleared: bool,
}

/// Oldest event that a reader can still consume from a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldestEvent {
    /// Time since the event, in units of the ring's clock.
    pub age: u64,
    /// Set if the reader has lost earlier events, because writers have overwritten them.
    pub is_after_overwritten: bool,
}

/// Result of consuming a packet from a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOutcome {
    /// A packet with at least one event.
    Packet(Packet),
    /// No packet can be consumed now: the ring has no unread event before the cut-off, the
    /// sub-buffer is not full and the caller accepts no part of it, writers change the position too
    /// fast for a consistent load, or the ring held invalid data before.
    Empty,
    /// Events were overwritten, or freed by another reader, before this reader could copy them;
    /// number of bytes skipped.
    Overwritten(u64),
    /// The ring held invalid data; the ring is not read again.
    Invalid,
}

/// A packet consumed from a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Header that the reader generated for the packet.
    pub header: Header,
    /// Set if more events may follow in the packet's sub-buffer.
    pub is_partial: bool,
}

/// Events that can be consumed at the reader's position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Events up to the end of a sub-buffer that writers have left.
    Whole(ExtentEnd),
    /// Events so far in the sub-buffer that writers are filling, or events up to the cut-off.
    Part(ExtentEnd),
    Nothing,
    Invalid,
}

/// End of the events that can be consumed, and the ring's state at that position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ExtentEnd {
    position: u64,
    time: u64,
    /// Number of events discarded before this end.
    discarded: u64,
    /// Position of the next sub-buffer in [`Extent::Whole`]; equal to `position` in
    /// [`Extent::Part`].
    next: u64,
}

impl Reader {
    /// Returns a reader that starts at the beginning of a ring. `clock` is the writers' clock: no
    /// packet ends later than the clock's current time. Otherwise a single far-future time in the
    /// memory would become the time of all later packets.
    pub fn new(shape: &Shape, ring: usize, clock: Clock) -> Reader {
        Reader {
            ring,
            clock,
            position: shape.start,
            last_time: 0,
            count: 0,
            freeing: Freeing::OnTake,
            discarded: 0,
            before: 0,
            forgotten: 0,
            is_corrupt: false,
            end: None,
        }
    }

    /// Returns a reader for a snapshot, from the oldest sub-buffer that can still be read. Writers
    /// may overwrite a sub-buffer before this reader has read it ([`TakeOutcome::Overwritten`]).
    /// The ring's other reader is not affected. In discard mode the snapshot starts at the events
    /// that the other reader has not freed.
    pub fn from_oldest(cells: &Cells, shape: &Shape, ring: usize, clock: Clock) -> Reader {
        let mut reader =
            Reader { freeing: Freeing::ByOtherReader, ..Reader::new(shape, ring, clock) };
        // Acquire: pairs with the release of a writer's last store.
        let write = cells.load(shape.control_of(ring), Word::Write, Acquire);
        reader.position = match shape.mode {
            Mode::Discard => cells.load(shape.control_of(ring), Word::Read, Acquire),
            Mode::Overwrite => reader.oldest(shape, write).unwrap_or(shape.start),
        };
        reader
    }

    /// Returns a reader for a snapshot that starts at this reader's position, or at the oldest
    /// sub-buffer if that is later. This reader is unchanged.
    #[must_use]
    pub fn for_snapshot(&self, cells: &Cells, shape: &Shape) -> Reader {
        let position = self.overtaken_position(cells, shape).unwrap_or(self.position);
        // In discard mode, events after this reader's position are never overwritten.
        let freeing =
            if shape.mode == Mode::Discard { Freeing::Never } else { Freeing::ByOtherReader };
        Reader { position, freeing, ..self.clone() }
    }

    /// Limits the reader to the events before `end`, a snapshot's cut-off.
    #[must_use]
    pub fn with_cutoff(self, end: RingState) -> Reader {
        Reader { end: Some(end), ..self }
    }

    /// Returns true if events at this reader's position have been overwritten, or may be at any
    /// time.
    pub fn is_overtaken(&self, cells: &Cells, shape: &Shape) -> bool {
        self.overtaken_position(cells, shape).is_some()
    }

    fn overtaken_position(&self, cells: &Cells, shape: &Shape) -> Option<u64> {
        // Acquire: as above.
        let write = cells.load(shape.control_of(self.ring), Word::Write, Acquire);
        let oldest = self.oldest(shape, write).filter(|_| shape.mode == Mode::Overwrite);
        oldest.filter(|oldest| self.is_before(*oldest))
    }

    /// Returns the oldest event at or after this reader's position; `None` if no event is there, if
    /// the ring holds invalid data, or if writers overwrite events too fast.
    pub fn oldest_event(&self, cells: &Cells, shape: &Shape) -> Option<OldestEvent> {
        (0..STEADY_TRIES).find_map(|_| {
            let overtaken = self.overtaken_position(cells, shape);
            let position = overtaken.unwrap_or(self.position);
            let reader = Reader { position, ..self.clone() };
            let write = cells.write_position(shape, self.ring);
            let time = reader.first_time(cells, shape, write)?;
            // Otherwise writers may have overwritten the event meanwhile.
            let write = reader.write_after_copies(cells, shape);
            let oldest = reader.oldest(shape, write).filter(|_| shape.mode == Mode::Overwrite);
            oldest.is_none_or(|oldest| !reader.is_before(oldest)).then(|| OldestEvent {
                age: self.clock.now_after_loads().saturating_sub(time),
                is_after_overwritten: overtaken.is_some(),
            })
        })
    }

    /// Returns the time of the event at the reader's position; for a sub-buffer without events, the
    /// time at which writers left it. `None` if there is no event.
    fn first_time(&self, cells: &Cells, shape: &Shape, write: u64) -> Option<u64> {
        let (Extent::Whole(until) | Extent::Part(until)) = self.extent(cells, shape, write) else {
            return None;
        };
        let begin = self.events_position(shape);
        let place = self.place(shape, begin);
        if until.position == begin {
            return Some(until.time);
        }
        let mut first = [0; HEADER_SIZE];
        if !cells.can_read(place..place + first.len()) {
            return None;
        }
        cells.copy_out(place, &mut first);
        let mut time = [0; 8];
        time.copy_from_slice(&first[TIME_AT..]);
        Some(u64::from_le_bytes(time))
    }

    /// Skips the sub-buffers whose last event is older than `time`, up to the first other one. The
    /// skipped packets are not reported as lost.
    pub fn skip_older(&mut self, cells: &Cells, shape: &Shape, time: u64) {
        let count = self.count;
        for _ in 0..=shape.subbuffer_count {
            let write = cells.write_position(shape, self.ring);
            if self.skip_overwritten(cells, shape, write).is_some() {
                continue;
            }
            let next = match self.extent_before_limit(cells, shape, write) {
                Extent::Whole(until) if until.time < time => until.next,
                Extent::Part(until) if until.time < time => until.position,
                _ => break,
            };
            // If writers have overwritten the sub-buffer meanwhile, its header may be a newer one.
            let write = self.write_after_copies(cells, shape);
            if self.skip_overwritten(cells, shape, write).is_none() {
                self.position = next;
            }
        }
        self.count = count;
    }

    /// Skips all events recorded or discarded so far. They are not reported.
    pub fn skip_all(&mut self, cells: &Cells, shape: &Shape) {
        // Acquire: pairs with the release of a writer's last store. Events that are discarded
        // meanwhile may count either way.
        self.position = cells.load(shape.control_of(self.ring), Word::Write, Acquire);
        (self.count, self.before, self.discarded) = (0, 0, 0);
        self.forgotten = cells.lost(shape, self.ring);
    }

    /// Starts a new recording. Packets and discarded events so far have been reported; later
    /// packets and discarded events are counted from 0.
    pub fn start_recording(&mut self) {
        let told = self.discarded.saturating_sub(self.before);
        self.forgotten = self.forgotten.saturating_add(told);
        (self.count, self.before, self.discarded) = (0, 0, 0);
    }

    /// Makes the reader free events only on a call of [`free`](Self::free), after the caller has
    /// stored them.
    #[must_use]
    pub fn with_explicit_free(self) -> Reader {
        Reader { freeing: Freeing::OnFree, ..self }
    }

    /// Returns a reader for a ring whose last reader belonged to an earlier process. The reader
    /// continues at `from.read`, after the packet with the header `last`, and frees no events.
    pub fn resume(
        shape: &Shape,
        ring: usize,
        clock: Clock,
        from: ReaderState,
        last: Option<Header>,
    ) -> Reader {
        let new = Reader::new(shape, ring, clock);
        let reader = Reader { freeing: Freeing::Never, position: from.read, ..new };
        let (before, forgotten) = (from.discarded_before, from.discarded_forgotten);
        Reader { before, forgotten, ..reader.continue_after(last) }
    }

    /// Returns the number of events of the current recording that were discarded so far, in this
    /// ring and in the rings that it replaced.
    fn discarded_total(&self, cells: &Cells, shape: &Shape) -> u64 {
        self.total_discarded(cells.lost(shape, self.ring))
    }

    /// Converts this ring's number of discarded events to the number to report. Adds the events
    /// discarded in replaced rings, and subtracts events of earlier recordings.
    fn total_discarded(&self, discarded: u64) -> u64 {
        self.before.saturating_add(discarded.saturating_sub(self.forgotten))
    }

    /// Makes this reader continue the packets of a replaced ring. Packet number, time and discarded
    /// events continue from `last`, the header of that ring's last packet; `None` changes nothing.
    #[must_use]
    pub fn continue_after(self, last: Option<Header>) -> Reader {
        let Some(last) = last else { return self };
        let (last_time, count) = (last.last_time, last.number.saturating_add(1));
        Reader { last_time, count, discarded: last.discarded, before: last.discarded, ..self }
    }

    /// Stores a pending write: the read position after it, and the file's size before and after. If
    /// this process is killed, its successor keeps a complete write and undoes a partial one.
    pub fn store_pending_write(&self, cells: &Cells, shape: &Shape, sizes: (u64, u64)) {
        let control = shape.control_of(self.ring);
        cells.store(control, Word::SizeBefore, sizes.0, Relaxed);
        cells.store(control, Word::SizeAfter, sizes.1, Relaxed);
        // Release: a successor that sees the position sees the sizes; pairs with the acquire in
        // `Cells::reader_state`.
        cells.store(control, Word::Next, self.position, Release);
    }

    /// Stores two counts for this process's successor: events discarded in replaced rings, and this
    /// ring's discarded events that do not belong to the current recording.
    pub fn store_discarded(&self, cells: &Cells, shape: &Shape) {
        let control = shape.control_of(self.ring);
        cells.store(control, Word::Before, self.before, Relaxed);
        cells.store(control, Word::Forgotten, self.forgotten, Relaxed);
    }

    /// Stores, for this process's successor, that the contents of replaced rings are to be
    /// discarded.
    pub fn store_cleared(&self, cells: &Cells, shape: &Shape) {
        cells.store(shape.control_of(self.ring), Word::First, 1, Relaxed);
    }

    /// Frees the consumed events, so that writers may overwrite them.
    pub fn free(&self, cells: &Cells, shape: &Shape) {
        // Release: pairs with the writer's acquire in `Writer::next`.
        cells.store(shape.control_of(self.ring), Word::Read, self.position, Release);
    }

    /// Returns the approximate number of unread bytes; headers and unused ends of sub-buffers count
    /// too.
    pub fn unread_size(&self, cells: &Cells, shape: &Shape) -> u64 {
        // Relaxed: for display only.
        let control = shape.control_of(self.ring);
        let write = cells.load(control, Word::Write, Relaxed);
        let restart = cells.load(control, Word::Restart, Relaxed);
        let waiting = position::unread(shape, restart, self.position, write);
        waiting.min(shape.ring_size() as u64)
    }

    /// Returns true if the ring has no unread event, if it holds invalid data, or if writers change
    /// the position too fast for a consistent load. Unlike [`unread_size`](Self::unread_size),
    /// ignores the header of a sub-buffer that has no event yet.
    pub fn is_drained(&self, cells: &Cells, shape: &Shape) -> bool {
        // Acquire: pairs with the release of a writer's last store.
        let write = cells.load(shape.control_of(self.ring), Word::Write, Acquire);
        let extent = self.extent(cells, shape, write);
        self.is_corrupt || matches!(extent, Extent::Nothing | Extent::Invalid)
    }

    /// Consumes the next packet, and appends its header and events to `buffer`. If `part` is true,
    /// also consumes the events of a sub-buffer that is not full yet.
    pub fn take(
        &mut self,
        cells: &Cells,
        shape: &Shape,
        part: bool,
        buffer: &mut Vec<u8>,
    ) -> TakeOutcome {
        let start = buffer.len();
        let taken = self.take_with(cells, shape, part, |place| {
            buffer.extend_from_slice(&[0; packet::SIZE]);
            cells.append_to(place, buffer);
        });
        match taken {
            TakeOutcome::Packet(packet) => {
                let header = packet.header.to_bytes();
                buffer[start..start + packet::SIZE].copy_from_slice(&header);
            }
            _ => buffer.truncate(start),
        }
        taken
    }

    /// Returns true if consumed events stay unchanged in the memory until they are
    /// [freed](Self::free). Only then may [`take_in_place`](Self::take_in_place) be called.
    pub fn takes_in_place(&self, shape: &Shape) -> bool {
        shape.mode == Mode::Discard && self.freeing == Freeing::OnFree
    }

    /// Consumes the next packet like [`take`](Self::take), but leaves its events in the memory and
    /// returns their range. The events stay unchanged until they are freed, unless the program
    /// writes invalid data.
    ///
    /// # Panics
    ///
    /// If [`takes_in_place`](Self::takes_in_place) is false.
    pub fn take_in_place(
        &mut self,
        cells: &Cells,
        shape: &Shape,
        part: bool,
    ) -> (TakeOutcome, Range<usize>) {
        assert!(self.takes_in_place(shape), "what is not copied would be overwritten");
        let mut events = 0..0;
        let taken = self.take_with(cells, shape, part, |place| events = place);
        (taken, events)
    }

    /// Appends a final packet without events to `buffer` if events were discarded after the last
    /// packet, because CTF reports them in the next packet. Call this when the ring has no unread
    /// event and no writer. The ring's events and [`Header::discarded`] of its last packet then add
    /// up to all events that programs tried to record, except overwritten ones.
    pub fn finish(&mut self, cells: &Cells, shape: &Shape, buffer: &mut Vec<u8>) -> Option<Packet> {
        let discarded = self.discarded_total(cells, shape);
        if discarded <= self.discarded {
            return None;
        }
        // Spans the time from the end of the last packet until now.
        let header = self.header(shape, 0, 0, u64::MAX, discarded);
        buffer.extend_from_slice(&header.to_bytes());
        Some(Packet { header, is_partial: false })
    }

    /// Consumes the next packet, and calls `copy` with the byte range of its events. A writer may
    /// have overwritten the range meanwhile, so the caller discards the copy unless a packet is
    /// returned.
    fn take_with(
        &mut self,
        cells: &Cells,
        shape: &Shape,
        part: bool,
        copy: impl FnMut(Range<usize>),
    ) -> TakeOutcome {
        if self.is_corrupt {
            return TakeOutcome::Empty;
        }
        let taken = self.take_next(cells, shape, part, copy);
        self.is_corrupt = taken == TakeOutcome::Invalid;
        taken
    }

    fn take_next(
        &mut self,
        cells: &Cells,
        shape: &Shape,
        part: bool,
        mut copy: impl FnMut(Range<usize>),
    ) -> TakeOutcome {
        let control = shape.control_of(self.ring);
        // Skips sub-buffers whose events have all been consumed as parts.
        for _ in 0..=shape.subbuffer_count {
            // Acquire: pairs with the release of a writer's last store; all bytes before the
            // position are seen.
            let write = cells.load(control, Word::Write, Acquire);
            if let Some(skipped) = self.skip_overwritten(cells, shape, write) {
                return skipped;
            }
            let (until, is_partial) = match self.extent_before_limit(cells, shape, write) {
                Extent::Whole(until) => (until, false),
                Extent::Part(until) if part => (until, true),
                Extent::Part(_) | Extent::Nothing => return TakeOutcome::Empty,
                Extent::Invalid => {
                    let write = self.write_after_copies(cells, shape);
                    return self
                        .skip_overwritten(cells, shape, write)
                        .unwrap_or(TakeOutcome::Invalid);
                }
            };
            let begin = self.events_position(shape);
            let size = until.position.wrapping_sub(begin) as usize;
            let place = self.place(shape, begin);
            let mut first = [0; HEADER_SIZE];
            if !cells.can_read(place..place + size) {
                return TakeOutcome::Invalid;
            }
            if size > 0 {
                cells.copy_out(place, &mut first);
                copy(place..place + size);
            }
            let write = self.write_after_copies(cells, shape);
            if let Some(skipped) = self.skip_overwritten(cells, shape, write) {
                return skipped;
            }
            self.position = if is_partial { until.position } else { until.next };
            if self.freeing == Freeing::OnTake {
                // Release: pairs with the writer's acquire in `Writer::next`, which overwrites only
                // freed events.
                cells.store(control, Word::Read, self.position, Release);
            }
            if size == 0 {
                continue;
            }
            let mut first_time = [0; 8];
            first_time.copy_from_slice(&first[TIME_AT..]);
            let first_time = u64::from_le_bytes(first_time);
            let discarded = until.discarded.min(cells.lost(shape, self.ring));
            let discarded = self.total_discarded(discarded);
            let header = self.header(shape, size, first_time, until.time, discarded);
            return TakeOutcome::Packet(Packet { header, is_partial });
        }
        // An honest writer never leaves that many empty sub-buffers.
        TakeOutcome::Invalid
    }

    /// Loads the writers' position. The load is ordered after all copies of bytes.
    fn write_after_copies(&self, cells: &Cells, shape: &Shape) -> u64 {
        // Acquire: no copy is moved after the load; pairs with the release fence in
        // `RingLock::switch`. If a writer has begun to overwrite a sub-buffer, its position was
        // already beyond the sub-buffer before, and `oldest` allows for that distance.
        fence(Acquire);
        cells.load(shape.control_of(self.ring), Word::Write, Relaxed)
    }

    /// Moves the reader's position forward past events that may have been overwritten: to the
    /// oldest sub-buffer that is safe to read, or in discard mode to the other reader's position.
    /// Returns [`TakeOutcome::Overwritten`], or `None` if the position is not moved.
    fn skip_overwritten(
        &mut self,
        cells: &Cells,
        shape: &Shape,
        write: u64,
    ) -> Option<TakeOutcome> {
        let oldest = match (shape.mode, self.freeing) {
            // Writers overwrite events that the other reader has freed. Loaded after `write`, which
            // a writer stores when it has begun to overwrite.
            (Mode::Discard, Freeing::ByOtherReader) => {
                cells.load(shape.control_of(self.ring), Word::Read, Acquire)
            }
            (Mode::Discard, _) => return None,
            (Mode::Overwrite, _) => self.oldest(shape, write)?,
        };
        let skipped = oldest.wrapping_sub(self.position);
        self.is_before(oldest).then(|| {
            // CTF readers detect lost packets by missing numbers. A sub-buffer that was consumed in
            // part counts too.
            let size = shape.subbuffer_size as u64;
            let lost = (skipped + self.position % size) / size;
            self.count = self.count.saturating_add(lost);
            self.position = self.position.wrapping_add(skipped);
            TakeOutcome::Overwritten(skipped)
        })
    }

    /// Returns true if all events before `position` have been consumed or skipped.
    pub fn has_reached(&self, position: u64) -> bool {
        !self.is_before(position)
    }

    /// Returns true if the reader is before `position`. Positions wrap: a distance of 2^63 or more
    /// is negative.
    fn is_before(&self, position: u64) -> bool {
        (1..1 << 63).contains(&position.wrapping_sub(self.position))
    }

    /// Returns the next packet's header. Times and counts of successive headers never decrease, and
    /// sizes are valid, even if the program writes invalid data.
    fn header(
        &mut self,
        shape: &Shape,
        events_size: usize,
        first_time: u64,
        last_time: u64,
        discarded: u64,
    ) -> Header {
        // The current time is after all that was copied; the times of valid data are before it.
        let now = self.clock.now_after_loads().max(self.last_time);
        let first_time = first_time.clamp(self.last_time, now);
        let size = (packet::SIZE + events_size) as u64;
        let header = Header {
            uuid: shape.uuid,
            stream: shape.stream,
            cpu: self.ring as u32,
            first_time,
            last_time: last_time.clamp(first_time, now),
            content_size: size,
            packet_size: size,
            number: self.count,
            discarded: discarded.max(self.discarded),
        };
        self.last_time = header.last_time;
        self.discarded = header.discarded;
        self.count = self.count.saturating_add(1);
        header
    }

    /// Returns the [extent](Self::extent) at the reader's position, limited to the cut-off if there
    /// is one.
    fn extent_before_limit(&self, cells: &Cells, shape: &Shape, write: u64) -> Extent {
        let Some(end) = self.end else { return self.extent(cells, shape, write) };
        if !self.is_before(end.position) {
            return Extent::Nothing;
        }
        let extent = self.extent(cells, shape, write);
        let (Extent::Whole(until) | Extent::Part(until)) = extent else { return extent };
        // Positions wrap, so that a distance of 2^63 or more is negative.
        let is_beyond = (1..1 << 63).contains(&until.position.wrapping_sub(end.position));
        if !is_beyond {
            return extent;
        }
        let RingState { position, time, discarded } = end;
        match Reader::is_events(position.wrapping_sub(self.events_position(shape))) {
            true => Extent::Part(ExtentEnd { position, time, discarded, next: position }),
            // Only invalid data have a cut-off within a header.
            false => Extent::Nothing,
        }
    }

    /// Returns the events that can be consumed at the reader's position.
    fn extent(&self, cells: &Cells, shape: &Shape, write: u64) -> Extent {
        let waiting = write.wrapping_sub(self.position);
        if waiting == 0 {
            return Extent::Nothing;
        }
        // At most a ring before its restart and a ring after it can be unread. A position within a
        // header was stored by a program that writes invalid data.
        let offset = (self.position % shape.subbuffer_size as u64) as usize;
        if waiting > 2 * shape.ring_size() as u64 || (1..packet::SIZE).contains(&offset) {
            return Extent::Invalid;
        }
        let start = self.subbuffer_start(shape);
        let events = self.events_position(shape);
        if write.wrapping_sub(start) >= shape.subbuffer_size as u64 {
            // Writers have left the sub-buffer. Its header gives the end of its events; the reader
            // accepts a plausible one.
            let mut bytes = [0; packet::SIZE];
            let place = self.place(shape, start);
            if !cells.can_read(place..place + packet::SIZE) {
                return Extent::Invalid;
            }
            cells.copy_out(place, &mut bytes);
            let Some(header) = Header::from_bytes(&bytes) else { return Extent::Invalid };
            let end = start.wrapping_add(header.content_size);
            let next = start.wrapping_add(header.packet_size);
            let is_sound = header.content_size <= shape.subbuffer_size as u64
                && Reader::is_events(end.wrapping_sub(events))
                && header.packet_size >= shape.subbuffer_size as u64
                && header.packet_size.is_multiple_of(shape.subbuffer_size as u64)
                && header.packet_size <= write.wrapping_sub(start);
            return match is_sound {
                true => Extent::Whole(ExtentEnd {
                    position: end,
                    time: header.last_time,
                    discarded: header.discarded,
                    next,
                }),
                false => Extent::Invalid,
            };
        }
        let moment = cells.try_state(shape, self.ring, write);
        let Some(moment) = moment else { return Extent::Nothing };
        let RingState { position, time, discarded } = moment;
        if position.wrapping_sub(start) >= shape.subbuffer_size as u64 {
            return Extent::Nothing;
        }
        match position.wrapping_sub(events) {
            0 => Extent::Nothing,
            size if Reader::is_events(size) => {
                Extent::Part(ExtentEnd { position, time, discarded, next: position })
            }
            _ => Extent::Invalid,
        }
    }

    /// Returns true if this is a valid size for a sub-buffer's events: 0 bytes, or at least the
    /// header of one event and less than [`shape::SUBBUFFER_SIZE_MAX`].
    fn is_events(size: u64) -> bool {
        size == 0 || (HEADER_SIZE as u64..shape::SUBBUFFER_SIZE_MAX as u64).contains(&size)
    }

    fn subbuffer_start(&self, shape: &Shape) -> u64 {
        self.position - self.position % shape.subbuffer_size as u64
    }

    /// Returns the position of the first event that has not been consumed.
    fn events_position(&self, shape: &Shape) -> u64 {
        match self.position.is_multiple_of(shape.subbuffer_size as u64) {
            true => self.position.wrapping_add(packet::SIZE as u64),
            false => self.position,
        }
    }

    fn place(&self, shape: &Shape, position: u64) -> usize {
        shape.data_of(self.ring).start + (position % shape.ring_size() as u64) as usize
    }

    /// Returns the position of the oldest sub-buffer that is safe to read when the writers are at
    /// `write`; `None` if all sub-buffers since the ring's start are safe to read. Excludes the
    /// sub-buffer after the current one, because a writer may be about to begin it.
    fn oldest(&self, shape: &Shape, write: u64) -> Option<u64> {
        let size = shape.subbuffer_size as u64;
        let current = write - write % size;
        let kept = size * (shape.subbuffer_count as u64 - 2);
        let written = current.wrapping_sub(shape.start);
        (written > kept).then(|| current.wrapping_sub(kept))
    }
}

/// Maximum number of attempts to load a position together with its time.
const STEADY_TRIES: usize = 8;

impl Cells {
    /// Returns the ring's current state. If events are recorded too fast for a consistent load, the
    /// time and the number of discarded events are set to their maximum, `u64::MAX`; readers limit
    /// both to the current values.
    pub fn state(&self, shape: &Shape, ring: usize) -> RingState {
        let position = self.write_position(shape, ring);
        let without_time = RingState { position, time: u64::MAX, discarded: u64::MAX };
        self.try_state(shape, ring, position).unwrap_or(without_time)
    }

    /// Returns the writers' position, the time of the last event before it or a later time, and the
    /// number of discarded events; `None` if the position changed in every attempt. `end` is the
    /// position that was loaded last.
    fn try_state(&self, shape: &Shape, ring: usize, mut end: u64) -> Option<RingState> {
        // Each writer stores the time of its event before the position after it. Suppose that the
        // position is the same before and after the load of the time. Then all events up to it are
        // not later than that time, and all later events are not earlier. The discarded events are
        // loaded in between, so they belong to the same moment.
        let control = shape.control_of(ring);
        for _ in 0..STEADY_TRIES {
            let time = self.load(control, Word::LastTime, Acquire);
            let discarded = self.lost(shape, ring);
            let again = self.load(control, Word::Write, Acquire);
            if again == end {
                return Some(RingState { position: end, time, discarded });
            }
            end = again;
        }
        None
    }

    /// Returns the writers' position.
    pub fn write_position(&self, shape: &Shape, ring: usize) -> u64 {
        self.load(shape.control_of(ring), Word::Write, Acquire)
    }

    /// Returns the state that a ring's last reader has stored in the ring.
    pub fn reader_state(&self, shape: &Shape, ring: usize) -> ReaderState {
        let control = shape.control_of(ring);
        // Acquire: pairs with the release in `Reader::store_pending_write`.
        let next = self.load(control, Word::Next, Acquire);
        ReaderState {
            start: shape.start,
            read: self.load(control, Word::Read, Acquire),
            next,
            size_before: self.load(control, Word::SizeBefore, Relaxed),
            size_after: self.load(control, Word::SizeAfter, Relaxed),
            discarded_before: self.load(control, Word::Before, Relaxed),
            discarded_forgotten: self.load(control, Word::Forgotten, Relaxed),
            is_cleared: self.load(control, Word::First, Relaxed) != 0,
        }
    }

    /// Returns the number of events lost so far, as counted by a ring's writers. These events found
    /// the ring full, were larger than a sub-buffer, or could lock no ring.
    pub fn lost(&self, shape: &Shape, ring: usize) -> u64 {
        let control = shape.control_of(ring);
        // Acquire: a later load of the position stays after these loads.
        let lost = self.load(control, Word::Lost, Acquire);
        lost.wrapping_add(self.load(control, Word::Unplaced, Acquire))
    }

    /// Returns true if a writer holds the ring's lock.
    pub fn is_owned(&self, shape: &Shape, ring: usize) -> bool {
        self.load(shape.control_of(ring), Word::Owner, Acquire) != 0
    }

    /// Returns the number of events recorded into a ring so far, as counted by its writers.
    pub fn recorded(&self, shape: &Shape, ring: usize) -> u64 {
        self.load(shape.control_of(ring), Word::Recorded, Relaxed)
    }

    /// Returns the number of events with shortened strings so far, as counted by writers. The count
    /// of one ring may include events of other rings.
    pub fn cut(&self, shape: &Shape, ring: usize) -> u64 {
        self.load(shape.control_of(ring), Word::Cut, Relaxed)
    }

    /// Returns the number of lost events that are not yet [marked as counted](Self::store_counted).
    /// Excludes events lost before recordings were cleared.
    pub fn lost_uncounted(&self, shape: &Shape, ring: usize) -> u64 {
        let control = shape.control_of(ring);
        let counted = self.load(control, Word::Counted, Relaxed);
        let done = counted.max(self.load(control, Word::Forgotten, Relaxed));
        self.lost(shape, ring).saturating_sub(done)
    }

    /// Marks all events lost so far as counted, for this process's successor.
    pub fn store_counted(&self, shape: &Shape, ring: usize) {
        let lost = self.lost(shape, ring);
        self.store(shape.control_of(ring), Word::Counted, lost, Relaxed);
    }
}
