//! The daemon's side: takes what is complete, as packets with headers of its own.

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

/// Reads one ring. The position is the reader's own: what the memory says of it is for writers.
#[derive(Clone, Debug)]
pub struct Reader {
    ring: usize,
    clock: Clock,
    position: u64,
    /// When the last packet that was taken ends.
    last_time: u64,
    /// Packets so far, and sub-buffers that were overwritten unread.
    count: u64,
    freeing: Freeing,
    /// Events discarded, as the last packet says.
    discarded: u64,
    /// Those of them that were discarded in the ring before this one.
    before: u64,
    /// Events discarded in this ring that nobody is to be told of.
    forgotten: u64,
    /// Whether the memory has had nonsense.
    is_corrupt: bool,
    /// The moment up to which it reads; `None` is without end.
    end: Option<Moment>,
}

/// How far a ring had been written at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Where the events end that had been recorded.
    position: u64,
    /// All of them happened by this time.
    time: u64,
    /// Events that had been discarded.
    discarded: u64,
}

/// When writers are told that they need not wait any more for what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Freeing {
    OnTake,
    OnFree,
    /// It only looks; that is up to another reader.
    ByOtherReader,
    /// There is no other reader, and writers are not told.
    Never,
}

/// What a reader has left that was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Where the ring starts.
    pub start: u64,
    /// It had freed what comes before this position, …
    pub read: u64,
    /// … and begun to write what comes before this one …
    pub next: u64,
    /// … to a file of this size, …
    pub size_before: u64,
    /// … which has this one if it was done.
    pub size_after: u64,
    /// Events that were discarded in the ring before this one, …
    pub discarded_before: u64,
    /// … and in this one, of which nobody is to be told.
    pub discarded_forgotten: u64,
    /// Whether nothing is wanted any more that is in the rings before this one.
    pub is_first: bool,
}

/// What was found in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// A packet.
    Packet(Packet),
    /// Nothing new.
    Nothing,
    /// Sub-buffers have been overwritten before they could be read: so many bytes.
    Overwritten(u64),
    /// What cannot be. The ring is not read any more.
    Nonsense,
}

/// A packet that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// What its header says.
    pub header: Header,
    /// Whether there may be more events of its sub-buffer.
    pub is_partial: bool,
}

/// How much there is to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// The rest of a sub-buffer that has been left.
    Whole(ExtentEnd),
    /// Of the one that is being written.
    Part(ExtentEnd),
    Nothing,
    Nonsense,
}

/// To where events can be taken, and what is known of that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ExtentEnd {
    position: u64,
    time: u64,
    /// Events that had been discarded.
    discarded: u64,
    /// Position of the next sub-buffer, where this one has been left.
    next: u64,
}

impl Reader {
    /// A reader of a ring, from its start. `clock` is that of its writers: no packet ends later than
    /// now, or a time from far ahead, once written into the memory, would be that of all later packets.
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

    /// A reader of a ring from the oldest sub-buffer that can still be read, for snapshots. It only
    /// looks: nobody waits for it, so that what it wants to read may be overwritten
    /// ([`Taken::Overwritten`]); and it does not disturb the ring's other reader. Where events are discarded, that
    /// is what the other reader has not freed.
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

    /// The same for snapshots of what this reader, which takes nothing, has not passed over.
    #[must_use]
    pub fn looking(&self, cells: &Cells, shape: &Shape) -> Reader {
        let position = self.overtaken_position(cells, shape).unwrap_or(self.position);
        // Where events are discarded, nothing is overwritten that it has not passed over.
        let freeing =
            if shape.mode == Mode::Discard { Freeing::Never } else { Freeing::ByOtherReader };
        Reader { position, freeing, ..self.clone() }
    }

    /// Has it read only what the ring held at that moment.
    #[must_use]
    pub fn until(self, end: Moment) -> Reader {
        Reader { end: Some(end), ..self }
    }

    /// Whether so much has been written behind this reader's position that it was overwritten.
    pub fn is_overtaken(&self, cells: &Cells, shape: &Shape) -> bool {
        self.overtaken_position(cells, shape).is_some()
    }

    fn overtaken_position(&self, cells: &Cells, shape: &Shape) -> Option<u64> {
        // Acquire: as above.
        let write = cells.load(shape.control_of(self.ring), Word::Write, Acquire);
        let oldest = self.oldest(shape, write).filter(|_| shape.mode == Mode::Overwrite);
        oldest.filter(|oldest| self.is_behind(*oldest))
    }

    /// Passes over all that is there, as if nothing had been recorded or discarded so far.
    pub fn pass_over(&mut self, cells: &Cells, shape: &Shape) {
        // Acquire: pairs with the release of a writer's last store. Events that are discarded meanwhile
        // come before or after, as one likes.
        self.position = cells.load(shape.control_of(self.ring), Word::Write, Acquire);
        (self.count, self.before, self.discarded) = (0, 0, 0);
        self.forgotten = cells.lost(shape, self.ring);
    }

    /// What it has taken is told, and what was discarded by then; what comes after that is told as if nothing
    /// had been before.
    pub fn begin_anew(&mut self) {
        let told = self.discarded.saturating_sub(self.before);
        self.forgotten = self.forgotten.saturating_add(told);
        (self.count, self.before, self.discarded) = (0, 0, 0);
    }

    /// Has it free what it has taken only when it is told to ([`free`](Self::free)): when that is safe
    /// elsewhere.
    #[must_use]
    pub fn when_told(self) -> Reader {
        Reader { freeing: Freeing::OnFree, ..self }
    }

    /// A reader of a ring that another process has left, from `position` on, behind the packet that ends
    /// with `last`. It only looks.
    pub fn behind(
        shape: &Shape,
        ring: usize,
        clock: Clock,
        (position, left): (u64, Left),
        last: Option<Header>,
    ) -> Reader {
        let reader =
            Reader { freeing: Freeing::Never, position, ..Reader::new(shape, ring, clock) };
        let (before, forgotten) = (left.discarded_before, left.discarded_forgotten);
        Reader { before, forgotten, ..reader.going_on(last) }
    }

    /// Events that were discarded so far, in this ring and in those before it.
    fn discarded_total(&self, cells: &Cells, shape: &Shape) -> u64 {
        self.total_discarded(cells.lost(shape, self.ring))
    }

    /// The same, where so many were in this ring.
    fn total_discarded(&self, discarded: u64) -> u64 {
        self.before.saturating_add(discarded.saturating_sub(self.forgotten))
    }

    /// Has its packets go on behind those of another ring: in number, time and discarded events.
    #[must_use]
    pub fn going_on(self, last: Option<Header>) -> Reader {
        let Some(last) = last else { return self };
        let (last_time, count) = (last.last_time, last.number.saturating_add(1));
        Reader { last_time, count, discarded: last.discarded, before: last.discarded, ..self }
    }

    /// Says that what was taken is about to be written to a file, which has the first size before and the
    /// second one then. So if this process is killed, the next one knows where to go on: what was written
    /// as a whole is done, and a part of it is taken back.
    pub fn announce(&self, cells: &Cells, shape: &Shape, sizes: (u64, u64)) {
        let control = shape.control_of(self.ring);
        cells.store(control, Word::SizeBefore, sizes.0, Relaxed);
        cells.store(control, Word::SizeAfter, sizes.1, Relaxed);
        // Release: whoever sees the position sees the sizes.
        cells.store(control, Word::Next, self.position, Release);
    }

    /// Notes what was discarded in the ring before, and what is forgotten, for the process after this one.
    pub fn note_before(&self, cells: &Cells, shape: &Shape) {
        let control = shape.control_of(self.ring);
        cells.store(control, Word::Before, self.before, Relaxed);
        cells.store(control, Word::Forgotten, self.forgotten, Relaxed);
    }

    /// Notes that nothing is wanted any more of rings before this one, for the process after this one.
    pub fn note_first(&self, cells: &Cells, shape: &Shape) {
        cells.store(shape.control_of(self.ring), Word::First, 1, Relaxed);
    }

    /// Freeing what was taken.
    pub fn free(&self, cells: &Cells, shape: &Shape) {
        // Release: as in `take`.
        cells.store(shape.control_of(self.ring), Word::Read, self.position, Release);
    }

    /// Bytes that can be taken, roughly: headers and ends of sub-buffers count too.
    pub fn waiting(&self, cells: &Cells, shape: &Shape) -> u64 {
        // Relaxed: a number to be shown.
        let control = shape.control_of(self.ring);
        let write = cells.load(control, Word::Write, Relaxed);
        let restart = cells.load(control, Word::Restart, Relaxed);
        let waiting = position::unread(shape, restart, (self.position, write));
        waiting.min(shape.ring_size() as u64)
    }

    /// True if no event is left to read. Unlike [`waiting`](Self::waiting) it does not count the header of a
    /// sub-buffer that a writer has begun before it was moved to another processor.
    pub fn is_drained(&self, cells: &Cells, shape: &Shape) -> bool {
        // Acquire: pairs with the release of a writer's last store.
        let write = cells.load(shape.control_of(self.ring), Word::Write, Acquire);
        let extent = self.extent(cells, shape, write);
        self.is_corrupt || matches!(extent, Extent::Nothing | Extent::Nonsense)
    }

    /// Appends the next packet to `buffer`, a header and events; with `part`, also what is there of
    /// a sub-buffer that is not full yet.
    pub fn take(
        &mut self,
        cells: &Cells,
        shape: &Shape,
        part: bool,
        buffer: &mut Vec<u8>,
    ) -> Taken {
        let start = buffer.len();
        let taken = self.take_with(cells, shape, part, |place| {
            buffer.extend_from_slice(&[0; packet::SIZE]);
            cells.append_to(place, buffer);
        });
        match taken {
            Taken::Packet(packet) => {
                let header = packet.header.to_bytes();
                buffer[start..start + packet::SIZE].copy_from_slice(&header);
            }
            _ => buffer.truncate(start),
        }
        taken
    }

    /// Whether what it has taken stays as it is in the memory until it is [freed](Self::free), so that it
    /// can be taken [in its place](Self::take_in_place).
    pub fn takes_in_place(&self, shape: &Shape) -> bool {
        shape.mode == Mode::Discard && self.freeing == Freeing::OnFree
    }

    /// Takes the next packet as [`take`](Self::take) does, but leaves its events where they are, and says
    /// where that is. Only programs that write nonsense change them before they are freed.
    ///
    /// # Panics
    ///
    /// If it does not [take so](Self::takes_in_place).
    pub fn take_in_place(
        &mut self,
        cells: &Cells,
        shape: &Shape,
        part: bool,
    ) -> (Taken, Range<usize>) {
        assert!(self.takes_in_place(shape), "what is not copied would be overwritten");
        let mut events = 0..0;
        let taken = self.take_with(cells, shape, part, |place| events = place);
        (taken, events)
    }

    /// Appends a last packet to `buffer`, without events, if events have been discarded of which no
    /// packet has told yet: a CTF reader learns of them from the next packet. To be called when there
    /// is nothing to take and there are no writers any more; then the events in all packets of a ring
    /// and [`Header::discarded`] of the last are all that were tried, but for what was overwritten.
    pub fn finish(&mut self, cells: &Cells, shape: &Shape, buffer: &mut Vec<u8>) -> Option<Packet> {
        let discarded = self.discarded_total(cells, shape);
        if discarded <= self.discarded {
            return None;
        }
        // From the end of the last packet until now.
        let header = self.header(shape, 0, (0, u64::MAX), discarded);
        buffer.extend_from_slice(&header.to_bytes());
        Some(Packet { header, is_partial: false })
    }

    /// Takes the next packet. `copy` is told where its events are, and copies them if they do not stay; what
    /// it has copied counts if a packet is taken.
    fn take_with(
        &mut self,
        cells: &Cells,
        shape: &Shape,
        part: bool,
        copy: impl FnMut(Range<usize>),
    ) -> Taken {
        if self.is_corrupt {
            return Taken::Nothing;
        }
        let taken = self.take_next(cells, shape, part, copy);
        self.is_corrupt = taken == Taken::Nonsense;
        taken
    }

    fn take_next(
        &mut self,
        cells: &Cells,
        shape: &Shape,
        part: bool,
        mut copy: impl FnMut(Range<usize>),
    ) -> Taken {
        let control = shape.control_of(self.ring);
        // Sub-buffers of which everything has been taken as a part are passed.
        for _ in 0..=shape.subbuffer_count {
            // Acquire: pairs with the release of a writer's last store; what lies before is there.
            let write = cells.load(control, Word::Write, Acquire);
            if let Some(skipped) = self.skip_overwritten(cells, shape, write) {
                return skipped;
            }
            let (until, is_partial) = match self.extent_before_limit(cells, shape, write) {
                Extent::Whole(until) => (until, false),
                Extent::Part(until) if part => (until, true),
                Extent::Part(_) | Extent::Nothing => return Taken::Nothing,
                Extent::Nonsense => {
                    let write = self.write_after_copies(cells, shape);
                    return self.skip_overwritten(cells, shape, write).unwrap_or(Taken::Nonsense);
                }
            };
            let begin = self.events_position(shape);
            let size = until.position.wrapping_sub(begin) as usize;
            let place = self.place(shape, begin);
            let mut first = [0; HEADER_SIZE];
            if !cells.can_read(place..place + size) {
                return Taken::Nonsense;
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
                // Release: pairs with the writer's acquire in `Writer::is_full`: it overwrites only
                // what has been read.
                cells.store(control, Word::Read, self.position, Release);
            }
            if size == 0 {
                continue;
            }
            let mut first_time = [0; 8];
            first_time.copy_from_slice(&first[TIME_AT..]);
            let times = (u64::from_le_bytes(first_time), until.time);
            let discarded = until.discarded.min(cells.lost(shape, self.ring));
            let discarded = self.total_discarded(discarded);
            let header = self.header(shape, size, times, discarded);
            return Taken::Packet(Packet { header, is_partial });
        }
        // Nobody fills sub-buffers with nothing.
        Taken::Nonsense
    }

    /// The position that a writer has come to, loaded after everything that was copied.
    fn write_after_copies(&self, cells: &Cells, shape: &Shape) -> u64 {
        // Acquire: no copy is done after the load. If a writer has begun to overwrite a sub-buffer,
        // its position was beyond the one before, and `oldest` leaves that room.
        fence(Acquire);
        cells.load(shape.control_of(self.ring), Word::Write, Relaxed)
    }

    /// Moves on to the oldest sub-buffer that is still there, if that is further on.
    fn skip_overwritten(&mut self, cells: &Cells, shape: &Shape, write: u64) -> Option<Taken> {
        let oldest = match (shape.mode, self.freeing) {
            // Writers overwrite what the other reader has freed; loaded behind `write`, which a writer
            // stores when it has begun to.
            (Mode::Discard, Freeing::ByOtherReader) => {
                cells.load(shape.control_of(self.ring), Word::Read, Acquire)
            }
            (Mode::Discard, _) => return None,
            (Mode::Overwrite, _) => self.oldest(shape, write)?,
        };
        let skipped = oldest.wrapping_sub(self.position);
        self.is_behind(oldest).then(|| {
            // Readers of CTF learn of lost packets from numbers that are missing. One of which a part
            // has been taken counts too.
            let size = shape.subbuffer_size as u64;
            let lost = (skipped + self.position % size) / size;
            self.count = self.count.saturating_add(lost);
            self.position = self.position.wrapping_add(skipped);
            Taken::Overwritten(skipped)
        })
    }

    /// Whether it is before that position. Behind is also what is far ahead, as positions wrap.
    fn is_behind(&self, position: u64) -> bool {
        (1..1 << 63).contains(&position.wrapping_sub(self.position))
    }

    /// The next packet's header: whatever the memory says, times and counts do not go back and sizes
    /// are right.
    fn header(
        &mut self,
        shape: &Shape,
        events_size: usize,
        (first_time, last_time): (u64, u64),
        discarded: u64,
    ) -> Header {
        // Now, which is after all that was copied; an honest writer's times are before.
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

    /// The part of the [extent](Self::extent) that comes before the reader's end, if it has one.
    fn extent_before_limit(&self, cells: &Cells, shape: &Shape, write: u64) -> Extent {
        let Some(end) = self.end else { return self.extent(cells, shape, write) };
        if !self.is_behind(end.position) {
            return Extent::Nothing;
        }
        let extent = self.extent(cells, shape, write);
        let (Extent::Whole(until) | Extent::Part(until)) = extent else { return extent };
        // Positions wrap, so that a distance that is too large is a negative one.
        let is_beyond = (1..1 << 63).contains(&until.position.wrapping_sub(end.position));
        if !is_beyond {
            return extent;
        }
        let Moment { position, time, discarded } = end;
        match Reader::is_events(position.wrapping_sub(self.events_position(shape))) {
            true => Extent::Part(ExtentEnd { position, time, discarded, next: position }),
            // Only a program that writes nonsense ends within a header.
            false => Extent::Nothing,
        }
    }

    /// What there is to take, at the reader's position.
    fn extent(&self, cells: &Cells, shape: &Shape, write: u64) -> Extent {
        let waiting = write.wrapping_sub(self.position);
        if waiting == 0 {
            return Extent::Nothing;
        }
        // Less than a ring before it went on at its start, and less than one behind that. Within a header is
        // where a program may say that it was read up to.
        let offset = (self.position % shape.subbuffer_size as u64) as usize;
        if waiting > 2 * shape.ring_size() as u64 || (1..packet::SIZE).contains(&offset) {
            return Extent::Nonsense;
        }
        let start = self.subbuffer_start(shape);
        let events = self.events_position(shape);
        if write.wrapping_sub(start) >= shape.subbuffer_size as u64 {
            // It has been left. Its header says where its events end; the reader goes by that as
            // far as it makes sense.
            let mut bytes = [0; packet::SIZE];
            let place = self.place(shape, start);
            if !cells.can_read(place..place + packet::SIZE) {
                return Extent::Nonsense;
            }
            cells.copy_out(place, &mut bytes);
            let Some(header) = Header::from_bytes(&bytes) else { return Extent::Nonsense };
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
                false => Extent::Nonsense,
            };
        }
        let moment = cells.steady(shape, self.ring, write);
        let Some(moment) = moment else { return Extent::Nothing };
        let Moment { position, time, discarded } = moment;
        if position.wrapping_sub(start) >= shape.subbuffer_size as u64 {
            return Extent::Nothing;
        }
        match position.wrapping_sub(events) {
            0 => Extent::Nothing,
            size if Reader::is_events(size) => {
                Extent::Part(ExtentEnd { position, time, discarded, next: position })
            }
            _ => Extent::Nonsense,
        }
    }

    /// Whether so many bytes can be events: none, or at least a header.
    fn is_events(size: u64) -> bool {
        size == 0 || (HEADER_SIZE as u64..shape::SUBBUFFER_SIZE_MAX as u64).contains(&size)
    }

    fn subbuffer_start(&self, shape: &Shape) -> u64 {
        self.position - self.position % shape.subbuffer_size as u64
    }

    /// Where the events start that are not taken yet.
    fn events_position(&self, shape: &Shape) -> u64 {
        match self.position.is_multiple_of(shape.subbuffer_size as u64) {
            true => self.position.wrapping_add(packet::SIZE as u64),
            false => self.position,
        }
    }

    fn place(&self, shape: &Shape, position: u64) -> usize {
        shape.data_of(self.ring).start + (position % shape.ring_size() as u64) as usize
    }

    /// Where the oldest sub-buffer starts that no writer may be writing to, where positions have
    /// come to `write`; `None` if nothing has been overwritten yet. The one behind that which is
    /// being written may be being begun.
    fn oldest(&self, shape: &Shape, write: u64) -> Option<u64> {
        let size = shape.subbuffer_size as u64;
        let current = write - write % size;
        let kept = size * (shape.subbuffer_count as u64 - 2);
        let written = current.wrapping_sub(shape.start);
        (written > kept).then(|| current.wrapping_sub(kept))
    }
}

/// How often a steady position is looked for.
const STEADY_TRIES: usize = 8;

impl Cells {
    /// How far a ring has been written now. Where events come too fast to tell the time of the last one, the
    /// moment's time is the end of time; readers bound it by the clock.
    pub fn moment(&self, shape: &Shape, ring: usize) -> Moment {
        let position = self.end(shape, ring);
        let without_time = Moment { position, time: u64::MAX, discarded: u64::MAX };
        self.steady(shape, ring, position).unwrap_or(without_time)
    }

    /// The ring's position with its time, or `None` if the position changed at each look. `end` is the position
    /// that was loaded last.
    fn steady(&self, shape: &Shape, ring: usize, mut end: u64) -> Option<Moment> {
        // Each writer stores the time of its event before the position behind it. So if the
        // position is the same before and after the time was loaded, all events up to it happened
        // by then, and all later ones do not happen before. What was discarded by then was so between
        // them.
        let control = shape.control_of(ring);
        for _ in 0..STEADY_TRIES {
            let time = self.load(control, Word::LastTime, Acquire);
            let discarded = self.lost(shape, ring);
            let again = self.load(control, Word::Write, Acquire);
            if again == end {
                return Some(Moment { position: end, time, discarded });
            }
            end = again;
        }
        None
    }

    /// Where a ring's events end now.
    pub fn end(&self, shape: &Shape, ring: usize) -> u64 {
        self.load(shape.control_of(ring), Word::Write, Acquire)
    }

    /// What a ring's reader has left.
    pub fn left(&self, shape: &Shape, ring: usize) -> Left {
        let control = shape.control_of(ring);
        // Acquire: pairs with `Reader::announce`.
        let next = self.load(control, Word::Next, Acquire);
        Left {
            start: shape.start,
            read: self.load(control, Word::Read, Acquire),
            next,
            size_before: self.load(control, Word::SizeBefore, Relaxed),
            size_after: self.load(control, Word::SizeAfter, Relaxed),
            discarded_before: self.load(control, Word::Before, Relaxed),
            discarded_forgotten: self.load(control, Word::Forgotten, Relaxed),
            is_first: self.load(control, Word::First, Relaxed) != 0,
        }
    }

    /// Events of a ring that were lost so far, as its writers count them: because it was full, or
    /// because they found no ring at all and this was the first that they looked at.
    pub fn lost(&self, shape: &Shape, ring: usize) -> u64 {
        let control = shape.control_of(ring);
        // Acquire: where the reader looks at the position again, it does so later.
        let lost = self.load(control, Word::Lost, Acquire);
        lost.wrapping_add(self.load(control, Word::Unplaced, Acquire))
    }

    /// Events of a ring that were recorded so far, as its writers count them.
    pub fn recorded(&self, shape: &Shape, ring: usize) -> u64 {
        self.load(shape.control_of(ring), Word::Recorded, Relaxed)
    }

    /// Events with shortened strings so far, as writers count them; those of all rings at one of
    /// them.
    pub fn cut(&self, shape: &Shape, ring: usize) -> u64 {
        self.load(shape.control_of(ring), Word::Cut, Relaxed)
    }

    /// The same as `lost`, without those that a reader's process has [counted](Self::note_counted), or was to forget.
    pub fn lost_uncounted(&self, shape: &Shape, ring: usize) -> u64 {
        let control = shape.control_of(ring);
        let counted = self.load(control, Word::Counted, Relaxed);
        let done = counted.max(self.load(control, Word::Forgotten, Relaxed));
        self.lost(shape, ring).saturating_sub(done)
    }

    /// Notes for the process after this one that all events lost so far have been counted.
    pub fn note_counted(&self, shape: &Shape, ring: usize) {
        let lost = self.lost(shape, ring);
        self.store(shape.control_of(ring), Word::Counted, lost, Relaxed);
    }
}
