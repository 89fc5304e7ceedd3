//! Packets of a ring, from the memory that an image has of it.
//!
//! A sub-buffer starts with a packet header that a writer has written: magic number, UUID, stream,
//! ring, times, and a number that gives the sub-buffer's position. A sub-buffer whose header is
//! missing gets its position from its neighbour in the memory. The sub-buffers are read in the
//! order of their positions, also those that the agent has read already: what it has written may
//! not have reached the disk.

use crate::area::{LoadedRange, RingArea};
use crate::events::{EventWalker, Run};
use crate::image::{Image, PAGE, long};
use blkkin_ring::packet::{self, Header};
use blkkin_ring::{Mode, Shape, layout};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

/// Number of sub-buffers, by what an image has of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubbufferCounts {
    /// Sub-buffers of which all events were found.
    pub intact: u64,
    /// Sub-buffers of which some events were found, or none although the sub-buffer was found.
    pub torn: u64,
    /// Sub-buffers that must have existed, of which nothing was found.
    pub missing: u64,
}

/// Counts of the events and sub-buffers of one ring that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingCounts {
    /// Sub-buffers of the ring.
    pub subbuffers: SubbufferCounts,
    /// Number of events that were found.
    pub events: u64,
    /// Size of these events, in bytes.
    pub bytes: u64,
    /// Number of bytes with events, as far as headers tell, that are lost.
    pub bytes_lost: u64,
}

impl RingCounts {
    /// Adds the counts of another ring.
    pub fn add(&mut self, more: &RingCounts) {
        self.subbuffers.intact += more.subbuffers.intact;
        self.subbuffers.torn += more.subbuffers.torn;
        self.subbuffers.missing += more.subbuffers.missing;
        self.events += more.events;
        self.bytes += more.bytes;
        self.bytes_lost += more.bytes_lost;
    }
}

/// Words of a ring's control; `None` if the image lacks them.
#[derive(Clone, Copy, Debug)]
struct Control {
    write: u64,
    last_time: u64,
    discarded: u64,
    read: u64,
}

/// A sub-buffer that the image has in part or in whole.
#[derive(Clone, Copy, Debug)]
struct Subbuffer {
    /// Index in the ring's memory.
    index: u64,
    header: Option<Header>,
}

/// End of a sub-buffer's events.
#[derive(Clone, Copy, Debug)]
struct Extent {
    /// Size of the content with the header, in bytes; `None` if nothing tells it.
    size: Option<u64>,
    last_time: u64,
    discarded: u64,
}

/// Reader of one ring in an image.
pub(crate) struct RingReader<'r> {
    images: &'r [Image],
    area: &'r RingArea,
    ring: usize,
    control: Option<Control>,
    /// Sub-buffers by their number, which counts from the ring's start.
    subbuffers: BTreeMap<u64, Subbuffer>,
    counts: RingCounts,
    /// Time of the last event that was found.
    last_time: u64,
}

/// State of a stream of packets that is written, which may continue in another set of rings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StreamState {
    /// Number of the next packet.
    number: u64,
    last_time: u64,
    discarded: u64,
}

/// Destination of the packets of a ring.
pub(crate) struct Packets<'p> {
    pub(crate) state: &'p mut StreamState,
    pub(crate) write: &'p mut dyn FnMut(&Header, &[u8]) -> io::Result<()>,
}

impl<'r> RingReader<'r> {
    /// Reads the headers of a ring's sub-buffers. Returns `None` if the image has nothing of them.
    pub(crate) fn open(
        images: &'r [Image],
        area: &'r RingArea,
        ring: usize,
    ) -> io::Result<Option<RingReader<'r>>> {
        let mut reader = RingReader {
            images,
            area,
            ring,
            control: None,
            subbuffers: BTreeMap::new(),
            counts: RingCounts::default(),
            last_time: 0,
        };
        reader.control = reader.read_control()?;
        let indexes = reader.indexes();
        let mut headers = BTreeMap::new();
        for index in indexes {
            let header = reader.read_header(index)?;
            if header.is_some() || reader.has_bytes(index)? {
                headers.insert(index, header);
            }
        }
        reader.number_subbuffers(&headers);
        Ok((!headers.is_empty()).then_some(reader))
    }

    fn shape(&self) -> &Shape {
        &self.area.shape
    }

    fn subbuffer_size(&self) -> u64 {
        self.shape().subbuffer_size as u64
    }

    fn read_control(&self) -> io::Result<Option<Control>> {
        let start = self.shape().control_of(self.ring) as u64;
        let range = start..start + layout::CONTROL_SIZE as u64;
        // A copy may have an earlier state.
        let own = self.area.area.own();
        let Some(bytes) = own.bytes(self.images, range)? else { return Ok(None) };
        Ok(Some(Control {
            write: long(&bytes, layout::WRITE),
            last_time: long(&bytes, layout::LAST_TIME),
            discarded: long(&bytes, layout::LOST).saturating_add(long(&bytes, layout::UNPLACED)),
            read: long(&bytes, layout::READ),
        }))
    }

    /// Returns the number and the time of the first event of each sub-buffer that has a header. No
    /// other sub-buffer of a machine has both.
    pub(crate) fn identities(&self) -> impl Iterator<Item = (u64, u64)> {
        let subbuffers = self.subbuffers.values();
        subbuffers.filter_map(|one| one.header).map(|header| (header.number, header.first_time))
    }

    /// Returns the least number of a sub-buffer that was found.
    pub(crate) fn first_number(&self) -> Option<u64> {
        self.subbuffers.keys().next().copied()
    }

    /// Leaves out the sub-buffers from this number on, which another area has. Returns `None` if
    /// nothing remains.
    pub(crate) fn before(mut self, number: u64) -> Option<RingReader<'r>> {
        self.subbuffers.split_off(&number);
        self.counts = RingCounts::default();
        (!self.subbuffers.is_empty()).then_some(self)
    }

    /// Returns the range of the sub-buffer with this index, in bytes of the area.
    fn place(&self, index: u64) -> Range<u64> {
        let size = self.subbuffer_size();
        let start = self.shape().data_of(self.ring).start as u64 + index * size;
        start..start + size
    }

    /// Returns the indexes of the sub-buffers of which the image has a page.
    fn indexes(&self) -> Vec<u64> {
        let page = PAGE as u64;
        let data = self.shape().data_of(self.ring);
        let (start, end) = (data.start as u64 / page, data.end as u64 / page);
        let pages = self.subbuffer_size() / page;
        let mut indexes: Vec<u64> =
            self.area.area.pages_in(start..end).map(|index| (index - start) / pages).collect();
        indexes.dedup();
        indexes
    }

    /// Returns false if all bytes of a sub-buffer are 0 or missing. Copies of shared memory have
    /// zeros where no page was allocated.
    fn has_bytes(&self, index: u64) -> io::Result<bool> {
        let loaded = self.area.area.load(self.images, self.place(index))?;
        Ok(loaded.has.contains(&true))
    }

    /// Reads the header of a sub-buffer. `None` if it is missing, or if it is not of this ring and
    /// this sub-buffer.
    fn read_header(&self, index: u64) -> io::Result<Option<Header>> {
        let start = self.place(index).start;
        let range = start..start + packet::SIZE as u64;
        let Some(bytes) = self.area.area.bytes(self.images, range)? else { return Ok(None) };
        let mut header = [0; packet::SIZE];
        header.copy_from_slice(&bytes);
        let shape = self.shape();
        Ok(Header::from_bytes(&header).filter(|header| {
            header.uuid == shape.uuid
                && header.stream == shape.stream
                && header.cpu as usize == self.ring
                && header.number % shape.subbuffer_count as u64 == index
        }))
    }

    /// Returns the number of the sub-buffer that writers were filling.
    fn current(&self) -> Option<u64> {
        let control = self.control?;
        Some(control.write.wrapping_sub(self.shape().start) / self.subbuffer_size())
    }

    /// Sorts the sub-buffers by number. One without header gets its number from the one before it
    /// or after it in the memory, or is the one that writers were filling.
    fn number_subbuffers(&mut self, headers: &BTreeMap<u64, Option<Header>>) {
        let count = self.shape().subbuffer_count as u64;
        let current = self.current();
        let own = |index: u64, header: &Option<Header>| {
            header.map(|one| one.number).or(current.filter(|current| current % count == index))
        };
        let mut numbers: Vec<(u64, Option<u64>)> =
            headers.iter().map(|(index, header)| (*index, own(*index, header))).collect();
        for at in 1..numbers.len() {
            let [(before, number), (index, own)] = [numbers[at - 1], numbers[at]];
            if own.is_none() && index == before + 1 && number != current {
                numbers[at].1 = number.and_then(|number| number.checked_add(1));
            }
        }
        for at in (1..numbers.len()).rev() {
            let [(index, own), (after, number)] = [numbers[at - 1], numbers[at]];
            if own.is_none() && after == index + 1 {
                numbers[at - 1].1 = number.and_then(|number| number.checked_sub(1));
            }
        }
        for ((index, number), header) in numbers.into_iter().zip(headers.values()) {
            let Some(number) = number else {
                // Nothing tells when its events were recorded.
                self.counts.subbuffers.missing += 1;
                continue;
            };
            // A later number is of a sub-buffer that was begun without an event.
            if current.is_none_or(|current| number <= current) {
                self.subbuffers.insert(number, Subbuffer { index, header: *header });
            }
        }
        self.counts.subbuffers.missing += self.count_missing(current, headers);
    }

    /// Returns how many sub-buffers were not found, although they had events: those since the
    /// oldest that the mode keeps.
    fn count_missing(&self, current: Option<u64>, headers: &BTreeMap<u64, Option<Header>>) -> u64 {
        let (Some(current), Some(control)) = (current, self.control) else { return 0 };
        if control.write == self.shape().start {
            return 0;
        }
        let count = self.shape().subbuffer_count as u64;
        let oldest = (current + 1).saturating_sub(count);
        let read = control.read.wrapping_sub(self.shape().start) / self.subbuffer_size();
        let first = if self.shape().mode == Mode::Discard { read.max(oldest) } else { oldest };
        // Without an unread event, nothing must be there.
        let first = first.min(current + 1);
        // A restart of the ring skips numbers. The header before it tells how many.
        let size = self.subbuffer_size();
        let gaps: Vec<Range<u64>> = self
            .subbuffers
            .iter()
            .filter_map(|(number, one)| {
                let next = number.checked_add(one.header?.packet_size / size)?;
                let gap = (number + 1).max(first)..next.min(current);
                (*number < current && !gap.is_empty()).then_some(gap)
            })
            .collect();
        // Without that header, a sub-buffer in the memory of a skipped one has another number.
        let is_skipped = |index: u64, header: &Option<Header>| {
            let has_other = header.is_some_and(|one| !(first..=current).contains(&one.number));
            let distance = (current % count + count - index) % count;
            let expected = current.checked_sub(distance).filter(|expected| *expected >= first);
            has_other && expected.is_some_and(|one| !gaps.iter().any(|gap| gap.contains(&one)))
        };
        let skipped = headers.iter().filter(|(index, header)| is_skipped(**index, header)).count();
        let in_gaps: u64 = gaps.iter().map(|gap| gap.end - gap.start).sum();
        let found = self.subbuffers.range(first..current + 1).count();
        (current + 1 - first).saturating_sub(in_gaps).saturating_sub((skipped + found) as u64)
    }

    /// Reads the events of all sub-buffers, and passes them on as packets. With
    /// `unread_only`, leaves out what the agent had read.
    pub(crate) fn read(
        mut self,
        walker: &mut EventWalker<'_>,
        unread_only: bool,
        packets: &mut Packets<'_>,
    ) -> io::Result<RingCounts> {
        let all: Vec<(u64, Subbuffer)> =
            self.subbuffers.iter().map(|(number, one)| (*number, *one)).collect();
        // For each sub-buffer, the header of the next one that has a header.
        let mut next = None;
        let mut nexts: Vec<Option<Header>> = Vec::with_capacity(all.len());
        for (_, subbuffer) in all.iter().rev() {
            nexts.push(next);
            next = subbuffer.header.or(next);
        }
        for ((number, subbuffer), next) in all.iter().zip(nexts.into_iter().rev()) {
            let skipped = if unread_only { self.read_size(*number) } else { 0 };
            self.read_subbuffer(*number, *subbuffer, next, skipped, walker, packets)?;
        }
        Ok(self.counts)
    }

    /// Returns the size of the part of a sub-buffer that the agent has read, in bytes.
    fn read_size(&self, number: u64) -> u64 {
        let Some(control) = self.control else { return 0 };
        let start = number.saturating_mul(self.subbuffer_size());
        let read = control.read.wrapping_sub(self.shape().start);
        read.saturating_sub(start).min(self.subbuffer_size())
    }

    /// Returns the end of a sub-buffer's events. `next` is the header of the next sub-buffer.
    fn extent(&self, number: u64, header: Option<Header>, next: Option<Header>) -> Extent {
        let size = self.subbuffer_size();
        match self.control {
            Some(control) if self.current() == Some(number) => Extent {
                size: Some(control.write.wrapping_sub(self.shape().start) % size),
                last_time: control.last_time,
                discarded: control.discarded,
            },
            _ => match header {
                // A writer that begins a sub-buffer writes a header without events.
                Some(header)
                    if (packet::SIZE as u64..=size).contains(&header.content_size)
                        && (self.control.is_some() || next.is_some()) =>
                {
                    let Header { content_size, last_time, discarded, .. } = header;
                    Extent { size: Some(content_size), last_time, discarded }
                }
                _ => Extent {
                    size: None,
                    last_time: next.map_or_else(|| self.latest_time(), |next| next.first_time),
                    discarded: 0,
                },
            },
        }
    }

    /// Returns a time that is later than all events, if no word of the ring tells one.
    fn latest_time(&self) -> u64 {
        /// Time after the start of the last sub-buffer, in ticks of the clock: several hours.
        const LATER: u64 = 1 << 46;
        let headers = self.subbuffers.values().filter_map(|one| one.header);
        let latest = headers.map(|header| header.first_time).max();
        match (self.control, latest) {
            (Some(control), _) => control.last_time,
            (None, Some(latest)) => latest.saturating_add(LATER),
            (None, None) => u64::MAX,
        }
    }

    fn read_subbuffer(
        &mut self,
        number: u64,
        Subbuffer { index, header }: Subbuffer,
        next: Option<Header>,
        skipped: u64,
        walker: &mut EventWalker<'_>,
        packets: &mut Packets<'_>,
    ) -> io::Result<()> {
        let Extent { size, last_time, discarded } = self.extent(number, header, next);
        let start = (packet::SIZE as u64).max(skipped);
        if size.is_some_and(|size| size <= start) {
            return Ok(());
        }
        let place = self.place(index);
        let end = size.map_or(place.end, |size| place.start + size);
        let loaded = self.area.area.load(self.images, place.start..end)?;
        let first_time = header
            .map_or_else(|| self.last_time.max(earliest_before(next)), |header| header.first_time);
        let mut runs: Vec<Run> = Vec::new();
        for piece in pieces(&loaded, start as usize) {
            let earliest = runs.last().map_or(first_time, |run| run.times.1);
            let has_start = piece.start as u64 == start;
            let times = earliest..=last_time.max(earliest);
            runs.append(&mut walker.runs(&loaded.bytes, piece, has_start, times));
        }
        let bytes: u64 = runs.iter().map(|run| run.place.len() as u64).sum();
        let expected = size.map(|size| size - start);
        self.counts.bytes_lost += expected.unwrap_or(bytes) - bytes;
        match expected == Some(bytes) {
            true => self.counts.subbuffers.intact += 1,
            false => self.counts.subbuffers.torn += 1,
        }
        let mut at = start as usize;
        for run in &runs {
            if run.place.start != at {
                // Readers see the gap by the missing number.
                packets.state.number += 1;
            }
            at = run.place.end;
            self.write_packet(run, &loaded.bytes, discarded, packets)?;
        }
        if expected != Some(bytes) {
            packets.state.number += 1;
        }
        Ok(())
    }

    fn write_packet(
        &mut self,
        run: &Run,
        bytes: &[u8],
        discarded: u64,
        packets: &mut Packets<'_>,
    ) -> io::Result<()> {
        let Some(events) = bytes.get(run.place.clone()) else { return Ok(()) };
        let size = (packet::SIZE + events.len()) as u64;
        let state = &mut *packets.state;
        state.discarded = state.discarded.max(discarded);
        let first_time = run.times.0.max(state.last_time);
        let header = Header {
            uuid: self.shape().uuid,
            stream: self.shape().stream,
            cpu: self.ring as u32,
            first_time,
            last_time: run.times.1.max(first_time),
            content_size: size,
            packet_size: size,
            number: state.number,
            discarded: state.discarded,
        };
        state.number += 1;
        state.last_time = header.last_time;
        self.last_time = run.times.1;
        self.counts.events += run.count;
        self.counts.bytes += events.len() as u64;
        (packets.write)(&header, events)
    }
}

/// Returns a time before the events of a sub-buffer without header, if the next one has the header
/// `next`. Without a limit, numbers in events could pass for times.
fn earliest_before(next: Option<Header>) -> u64 {
    /// Number of times that the sub-buffer may last as long as the next one.
    const LONGER: u64 = 1024;
    /// Further duration, in ticks of the clock: some seconds.
    const MORE: u64 = 1 << 32;
    next.map_or(0, |next| {
        let lasts = next.last_time.saturating_sub(next.first_time);
        next.first_time.saturating_sub(lasts.saturating_mul(LONGER).saturating_add(MORE))
    })
}

/// Returns the ranges of a sub-buffer's content without gaps, from `start` on.
fn pieces(loaded: &LoadedRange, start: usize) -> Vec<Range<usize>> {
    let mut pieces: Vec<Range<usize>> = Vec::new();
    for (page, has) in loaded.has.iter().enumerate() {
        let from = (page * PAGE).max(start);
        let to = ((page + 1) * PAGE).min(loaded.bytes.len());
        if !has || from >= to {
            continue;
        }
        match pieces.last_mut() {
            Some(last) if last.end == from => last.end = to,
            _ => pieces.push(from..to),
        }
    }
    pieces
}
