//! The agent's side of a set of rings: the shared memory of a program's rings for one channel, and
//! a reader of each ring.

use blkkin_control::RingDescription;
use blkkin_ring::packet::{Header, UUID};
use blkkin_ring::{
    Cells, Clock, DESCRIPTION, Mode, OldestEvent, Reader, ReaderState, RingState, SHAPE_SIZE,
    Shape, TakeOutcome,
};
use blkkin_sys::{Piece, SharedMemory};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The rings of a program for one channel in one shared memory, with a reader for each ring.
#[derive(Debug)]
pub(crate) struct Rings {
    cells: Cells,
    /// Descriptor of the memory; `None` once the memory is sealed. Packets are read from sealed
    /// memory only.
    file: Option<Arc<OwnedFd>>,
    identity: Identity,
    clock: Clock,
    /// Result of [`charge_min`] when the rings were mapped.
    charge_min: u64,
    /// Set if an earlier agent made the memory, which this agent only reads.
    is_adopted: bool,
    shape: Shape,
    readers: Vec<(Reader, RingCounts)>,
}

/// Identity of a shared memory, equal for all descriptors of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    device: u64,
    number: u64,
}

impl Identity {
    pub(crate) fn of(file: impl AsFd) -> io::Result<Identity> {
        let found = rustix::fs::fstat(file)?;
        Ok(Identity { device: found.st_dev, number: found.st_ino })
    }
}

/// Cut-offs of a snapshot: states of rings, by the identity of their memory and the ring's index in
/// it.
pub(crate) type RingEnds = HashMap<(Identity, usize), RingState>;

/// Saved state of a ring's reader, to which the reader can be rewound.
#[derive(Debug)]
pub(crate) struct ReaderMark((Reader, RingCounts));

/// Counters of the packets that the agent has read from a ring, and of packets overwritten unread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RingCounts {
    pub(crate) packets: u64,
    pub(crate) packets_lost: u64,
    pub(crate) bytes: u64,
    /// Set once the ring held invalid data; the ring is not read again.
    pub(crate) is_broken: bool,
}

/// Packets for one stream file, in their order. Either the headers and events of all packets are in
/// `copied`, or the events of all packets are still in the ring.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    headers: Vec<Header>,
    copied: Vec<u8>,
    /// Ranges of the packets' events in the rings' memory; empty if the events are in `copied`.
    in_place: Vec<Range<usize>>,
    /// Set if events are copied in any case.
    is_copy: bool,
}

impl Packets {
    /// Sets whether the events of packets that are read from now on are copied in any case.
    pub(crate) fn copy_events(&mut self, is_copy: bool) {
        self.is_copy = is_copy;
    }

    /// Returns the headers and events of packets that were copied.
    pub(crate) fn copied(&self) -> &[u8] {
        &self.copied
    }

    /// Adds padding to the last packet, so that the size of all is a multiple of `size`. The events
    /// must be copied.
    pub(crate) fn pad(&mut self, size: u64) {
        assert!(self.in_place.is_empty(), "their memory has no room for padding");
        let whole = self.size().next_multiple_of(size);
        let padding = whole - self.size();
        let Some(last) = self.headers.last_mut() else { return };
        let start = (whole - padding - last.packet_size) as usize;
        last.packet_size += padding;
        let bytes = last.to_bytes();
        self.copied.resize(whole as usize, 0);
        if let Some(own) = self.copied.get_mut(start..start + bytes.len()) {
            own.copy_from_slice(&bytes);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.headers.clear();
        self.copied.clear();
        self.in_place.clear();
    }

    pub(crate) fn headers(&self) -> &[Header] {
        &self.headers
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// Returns the size that the packets will have in a file, in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.headers.iter().map(|header| header.packet_size).sum()
    }

    /// Sets the UUID in the headers of all packets: that of their trace, which may differ from that
    /// of the rings.
    pub(crate) fn set_uuid(&mut self, uuid: [u8; 16]) {
        let mut place = 0;
        for header in &mut self.headers {
            let is_changed = std::mem::replace(&mut header.uuid, uuid) != uuid;
            let own = place + UUID.start..place + UUID.end;
            place += usize::try_from(header.packet_size).unwrap_or(usize::MAX);
            if let Some(bytes) = self.copied.get_mut(own).filter(|_| is_changed) {
                bytes.copy_from_slice(&uuid);
            }
        }
    }

    /// Appends packets of another set of rings. The events of all packets must be copied.
    pub(crate) fn append(&mut self, mut more: Packets) {
        assert!(self.in_place.is_empty() && more.in_place.is_empty(), "they are of another memory");
        self.copied.append(&mut more.copied);
        self.headers.append(&mut more.headers);
    }
}

/// Copying of a ring's packets to a snapshot, which is done in pieces.
#[derive(Debug)]
pub(crate) struct RingCopy {
    reader: Reader,
    /// Number of bytes that may still be copied.
    left: usize,
    /// Number of times that writers may still overtake the reader.
    overtaken_left: usize,
}

/// Size in bytes of a piece of a ring's copy, after which the packets are written to the snapshot.
/// A ring may be large, and the agent serves others between two pieces.
const PIECE_SIZE: usize = 2 << 20;

impl Rings {
    /// Makes rings of which no descriptor is kept.
    fn sealed(
        cells: Cells,
        identity: Identity,
        clock: Clock,
        readers: Vec<(Reader, RingCounts)>,
        shape: Shape,
    ) -> Rings {
        let (charge_min, is_adopted) = (charge_min(&shape), false);
        Rings { cells, file: None, identity, clock, charge_min, is_adopted, shape, readers }
    }

    /// Maps rings of an earlier agent for reading. A program still has them mapped. `shape` is the
    /// result of [`shape_of_orphans`].
    pub(crate) fn adopt(file: &OwnedFd, shape: Shape, clock: Clock) -> io::Result<Rings> {
        // Seals the memory, as the earlier agent may have been killed before doing so. Sealed
        // memory loses no pages.
        let fixed = shape.data_of(0).start;
        blkkin_sys::seal_shared(file.as_fd(), shape.memory_size(), fixed)?;
        let kept = Arc::new(file.try_clone()?);
        let cells = Cells::new(SharedMemory::map_to_read(file.as_fd())?).without_holes(kept);
        cells.exclude_from_dump();
        let reader = |ring| Reader::from_oldest(&cells, &shape, ring, clock);
        let readers = (0..shape.rings).map(|ring| (reader(ring), RingCounts::default())).collect();
        let identity = Identity::of(file)?;
        Ok(Rings { is_adopted: true, ..Rings::sealed(cells, identity, clock, readers, shape) })
    }

    /// Returns the reader state that an earlier agent has stored in a ring, with its last announced
    /// write. Returns `None` if there is no ring `ring`.
    pub(crate) fn prior_state(&self, ring: usize) -> Option<ReaderState> {
        (ring < self.count()).then(|| self.cells.reader_state(&self.shape, ring))
    }

    /// Returns the position at which the recorded packets of a ring end.
    pub(crate) fn end(&self, ring: usize) -> u64 {
        self.cells.write_position(&self.shape, ring)
    }

    /// Makes an adopted ring's reader continue from a state that the earlier agent has stored.
    /// `last` is the header of the last packet in the stream's file.
    pub(crate) fn read_from(&mut self, ring: usize, from: ReaderState, last: Option<Header>) {
        self.readers[ring].0 = Reader::resume(&self.shape, ring, self.clock, from, last);
    }

    /// Makes rings, and returns them with the descriptor that is sent to the program. Pages of
    /// events are allocated on their first write, or now if the kernel accounts memory strictly.
    pub(crate) fn create(shape: Shape, clock: Clock) -> io::Result<(Rings, Arc<OwnedFd>)> {
        let (file, cells) = Cells::create(c"blkkin-rings", &shape)?;
        cells.exclude_from_dump();
        let readers = (0..shape.rings).map(|ring| {
            (Reader::new(&shape, ring, clock).with_explicit_free(), RingCounts::default())
        });
        let identity = Identity::of(&file)?;
        let file = Arc::new(OwnedFd::from(file));
        let cells = cells.without_holes(file.clone());
        let (readers, kept) = (readers.collect(), Some(file.clone()));
        let rings = Rings::sealed(cells, identity, clock, readers, shape);
        let rings = Rings { file: kept, ..rings };
        Ok((rings, file))
    }

    /// Maps rings that the tracer of the kernel has made in an eBPF map, in place of `replaced`.
    /// Fails unless they have the same identity, mode and sizes; the tracer chooses their number.
    pub(crate) fn of_kernel(memory: &OwnedFd, replaced: &Rings) -> io::Result<Rings> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "rings of another channel");
        let cells = Cells::new(blkkin_sys::bpf::map_block(memory.as_fd())?);
        let shape = cells.shape().map_err(io::Error::other)?;
        let of_a_ring = |shape: &Shape| {
            (shape.uuid, shape.stream, shape.mode, shape.subbuffer_size, shape.subbuffer_count)
        };
        if of_a_ring(&shape) != of_a_ring(&replaced.shape) {
            return Err(invalid());
        }
        cells.exclude_from_dump();
        let clock = Clock::Monotonic;
        let reader = |ring| Reader::new(&shape, ring, clock).with_explicit_free();
        let readers = (0..shape.rings).map(|ring| (reader(ring), RingCounts::default())).collect();
        // Files of all eBPF maps have the same number.
        let identity = replaced.identity;
        Ok(Rings::sealed(cells, identity, clock, readers, shape))
    }

    /// Writes the description of the rings for a reader that finds only their memory, after a crash
    /// of the machine or of the agent.
    pub(crate) fn describe(&self, description: &RingDescription) {
        // Without a description, such a reader lists the rings and cannot read their events.
        if let Ok(block) = description.to_block(DESCRIPTION.len()) {
            self.cells.describe(&block);
        }
    }

    /// Seals the memory, so that it can be read whatever the program does with its descriptor. The
    /// program must have mapped the memory, or have ended.
    pub(crate) fn seal(&mut self) -> io::Result<()> {
        if let Some(file) = &self.file {
            self.cells.seal(file.as_fd(), &self.shape)?;
            self.file = None;
        }
        Ok(())
    }

    /// Returns the memory's descriptor; `None` once the memory is sealed.
    pub(crate) fn file(&self) -> Option<Arc<OwnedFd>> {
        self.file.clone()
    }

    /// Returns whether the memory is sealed, so that the rings can be read.
    pub(crate) fn is_sealed(&self) -> bool {
        self.file.is_none()
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// Returns the number of bytes that are charged to the user's quota: the allocated pages, but
    /// at least [`charge_min`].
    pub(crate) fn charge(&self) -> u64 {
        self.cells.allocated_size().max(self.charge_min)
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(crate) fn count(&self) -> usize {
        self.readers.len()
    }

    pub(crate) fn counts(&self, ring: usize) -> RingCounts {
        self.readers[ring].1
    }

    /// Returns the number of discarded events that the program has counted in a ring so far. They
    /// found the ring full, were larger than a sub-buffer, could lock no ring, or lost each lock to
    /// a takeover.
    pub(crate) fn discarded(&self, ring: usize) -> u64 {
        self.cells.lost(&self.shape, ring)
    }

    /// Returns the number of events that were recorded in a ring so far. The program counts them in
    /// the ring.
    pub(crate) fn recorded(&self, ring: usize) -> u64 {
        self.cells.recorded(&self.shape, ring)
    }

    /// Returns the number of events with shortened strings so far, as counted by the program. One
    /// ring has the count for all rings.
    pub(crate) fn events_cut(&self, ring: usize) -> u64 {
        self.cells.cut(&self.shape, ring)
    }

    /// Returns the number of discarded events of all rings together, as counted by the program.
    pub(crate) fn discarded_in_all(&self) -> u64 {
        (0..self.count()).map(|ring| self.discarded(ring)).fold(0, u64::saturating_add)
    }

    /// Returns the sum over all rings of the discarded events that no agent has counted as a loss.
    /// Excludes events that do not belong to the current recording.
    pub(crate) fn discarded_uncounted(&self) -> u64 {
        let uncounted = |ring| self.cells.lost_uncounted(&self.shape, ring);
        (0..self.count()).map(uncounted).fold(0, u64::saturating_add)
    }

    /// Stores in the memory, for the next agent, that all discarded events are counted.
    pub(crate) fn note_counted(&self) {
        if !self.is_adopted {
            (0..self.count()).for_each(|ring| self.cells.store_counted(&self.shape, ring));
        }
    }

    /// Returns the number of unread bytes of a ring.
    pub(crate) fn waiting(&self, ring: usize) -> u64 {
        self.readers[ring].0.unread_size(&self.cells, &self.shape)
    }

    /// Returns whether a ring has no event to read: the agent has read all events, the ring holds
    /// invalid data, or writers change the position too fast for a consistent load.
    pub(crate) fn is_drained(&self, ring: usize) -> bool {
        self.readers[ring].0.is_drained(&self.cells, &self.shape)
    }

    /// Returns the number of unread packets of all rings. Unread bytes are converted to packets by
    /// the size of a sub-buffer.
    pub(crate) fn packets_waiting(&self) -> u64 {
        let packets = |ring| self.waiting(ring).div_ceil(self.shape.subbuffer_size as u64);
        (0..self.count()).map(packets).fold(0, u64::saturating_add)
    }

    /// Requests a wake-up by the next event, because the agent is about to sleep. The caller must
    /// drain all rings once more afterwards.
    pub(crate) fn fall_asleep(&self) {
        self.cells.fall_asleep();
    }

    /// Returns whether all threads that write into the rings are registered for barriers.
    pub(crate) fn is_registered(&self) -> bool {
        self.cells.is_registered()
    }

    /// Announces that the next drain is far away. A thread that finds a ring filling up will wake
    /// the agent.
    pub(crate) fn doze(&self) {
        self.cells.doze();
    }

    /// Announces that the next drain is soon, so that no wake-up is needed when a ring fills up.
    pub(crate) fn rouse(&self) {
        self.cells.rouse();
    }

    /// Withdraws the request for a wake-up, because the agent polls the rings.
    pub(crate) fn wake_up(&self) {
        self.cells.wake();
    }

    /// Reads packets of a ring into `packets`, until the ring is empty, `packets` has at least as
    /// many bytes as fit into the ring, or the next packet might not fit into `room` bytes. One
    /// packet is read in any case. Stops early if writers overtake the reader three times, or if
    /// the ring holds invalid data.
    pub(crate) fn read_packets(&mut self, ring: usize, packets: &mut Packets, room: u64) {
        let (reader, counts) = &mut self.readers[ring];
        let in_place = !packets.is_copy && reader.takes_in_place(&self.shape);
        let (mut size, mut overwritten) = (packets.size(), 0);
        let ring_size = self.shape.ring_size() as u64;
        let next_max = self.shape.subbuffer_size as u64;
        while size == 0 || size < ring_size && size + next_max <= room {
            let taken = if in_place {
                let (taken, events) = reader.take_in_place(&self.cells, &self.shape, true);
                if matches!(taken, TakeOutcome::Packet(_)) {
                    packets.in_place.push(events);
                }
                taken
            } else {
                reader.take(&self.cells, &self.shape, true, &mut packets.copied)
            };
            match taken {
                TakeOutcome::Packet(packet) => {
                    size += packet.header.packet_size;
                    counts.packets += 1;
                    counts.bytes += packet.header.content_size;
                    packets.headers.push(packet.header);
                }
                TakeOutcome::Overwritten(bytes) => {
                    let lost = bytes / self.shape.subbuffer_size as u64;
                    counts.packets_lost = counts.packets_lost.saturating_add(lost);
                    // Otherwise a program that overwrites packets fast enough could keep the loop
                    // from ending.
                    overwritten += 1;
                    if overwritten > 2 {
                        return;
                    }
                }
                TakeOutcome::Empty => return,
                TakeOutcome::Invalid => {
                    counts.is_broken = true;
                    return;
                }
            }
        }
    }

    /// Writes packets to a file at `offset`. After an error, the file may contain a part of them.
    pub(crate) fn write(&self, packets: &Packets, file: &File, offset: u64) -> io::Result<()> {
        if packets.in_place.is_empty() {
            return file.write_all_at(&packets.copied, offset);
        }
        assert!(packets.copied.is_empty() && packets.in_place.len() == packets.headers.len());
        let headers: Vec<_> = packets.headers.iter().map(Header::to_bytes).collect();
        let pieces = headers.iter().zip(&packets.in_place);
        let pieces =
            pieces.flat_map(|(header, events)| [Piece::Own(header), Piece::Shared(events.clone())]);
        self.cells.write_to(file.as_fd(), offset, pieces)
    }

    /// Stores in the memory, for the next agent, that the packets read last will be written.
    /// `sizes` are the sizes of the file before and after the write.
    pub(crate) fn announce(&self, ring: usize, sizes: (u64, u64)) {
        self.readers[ring].0.store_pending_write(&self.cells, &self.shape, sizes);
    }

    /// Frees the space of the packets that were read. They must have been written to the file.
    pub(crate) fn free(&self, ring: usize) {
        self.readers[ring].0.free(&self.cells, &self.shape);
    }

    /// Returns the present state of a ring's reader, for `rewind`.
    pub(crate) fn mark(&self, ring: usize) -> ReaderMark {
        ReaderMark(self.readers[ring].clone())
    }

    /// Returns the present state of a ring's reader, for `rewind`; `None` if there is no ring
    /// `ring`.
    pub(crate) fn mark_of(&self, ring: usize) -> Option<ReaderMark> {
        self.readers.get(ring).cloned().map(ReaderMark)
    }

    /// Restores an earlier state of a ring's reader, because the packets read since then could not
    /// be written.
    pub(crate) fn rewind(&mut self, ring: usize, mark: ReaderMark) {
        self.readers[ring] = mark.0;
    }

    /// Makes a ring's next packets continue the number, the end time and the discarded events of
    /// packet `last`. Does nothing if there is no packet `last` or no ring `ring`.
    pub(crate) fn continue_after(&mut self, ring: usize, last: Option<Header>) {
        let Some((reader, _)) = self.readers.get_mut(ring) else { return };
        *reader = reader.clone().continue_after(last);
        if !self.is_adopted {
            reader.store_discarded(&self.cells, &self.shape);
        }
    }

    /// Adds a last packet without events if events were discarded since the last packet; its header
    /// counts them. The ring must have no unread event.
    pub(crate) fn finish(&mut self, ring: usize, packets: &mut Packets) {
        let (reader, _) = &mut self.readers[ring];
        let last = reader.finish(&self.cells, &self.shape, &mut packets.copied);
        packets.headers.extend(last.map(|packet| packet.header));
    }

    /// Drops all packets of a ring, as if none had been recorded; its file will be empty. Reads
    /// only words that exist even before the program has mapped the memory.
    pub(crate) fn forget(&mut self, ring: usize) {
        self.skip(ring);
        self.note_beginning(ring);
    }

    /// Skips all packets of a ring, without storing this in the memory for the next agent.
    pub(crate) fn skip(&mut self, ring: usize) {
        self.readers[ring].0.skip_all(&self.cells, &self.shape);
    }

    /// Restarts a ring's packet numbers and its count of discarded events, for a new, empty file.
    pub(crate) fn restart(&mut self, ring: usize) {
        self.readers[ring].0.start_recording();
        self.note_beginning(ring);
    }

    /// Stores in the memory, for the next agent, that the ring's file is empty and that packets of
    /// older sets are to be dropped. Frees the packets read so far.
    fn note_beginning(&self, ring: usize) {
        let (reader, _) = &self.readers[ring];
        reader.store_pending_write(&self.cells, &self.shape, (0, 0));
        reader.store_discarded(&self.cells, &self.shape);
        reader.store_cleared(&self.cells, &self.shape);
        reader.free(&self.cells, &self.shape);
    }

    /// Returns whether writers have overwritten unread events of a ring, or may do so at any time.
    pub(crate) fn is_overtaken(&self, ring: usize) -> bool {
        self.readers[ring].0.is_overtaken(&self.cells, &self.shape)
    }

    /// Returns the number of packets that a snapshot of a ring would have.
    pub(crate) fn packets_kept(&self, ring: usize) -> u64 {
        let reader = self.readers[ring].0.for_snapshot(&self.cells, &self.shape);
        let waiting = reader.unread_size(&self.cells, &self.shape);
        waiting.div_ceil(self.shape.subbuffer_size as u64)
    }

    /// Returns the present state of a ring, as the cut-off of a snapshot.
    pub(crate) fn moment(&self, ring: usize) -> RingState {
        self.cells.state(&self.shape, ring)
    }

    /// Returns the oldest event that a snapshot of a ring would contain.
    pub(crate) fn oldest_event(&self, ring: usize) -> Option<OldestEvent> {
        self.readers[ring].0.oldest_event(&self.cells, &self.shape)
    }

    /// Returns the number of bytes that the kernel has allocated for the rings.
    pub(crate) fn allocated_size(&self) -> u64 {
        self.cells.allocated_size()
    }

    /// Begins to copy a ring's packets up to the cut-off `end`, or all packets if `end` is `None`.
    /// Leaves out the packets that ended before `since`, a time of the ring's clock. `last` is the
    /// header of the packet that the ring's packets continue. All packets stay unread for the
    /// ring's own reader.
    pub(crate) fn begin_copy(
        &self,
        ring: usize,
        end: Option<RingState>,
        since: Option<u64>,
        last: Option<Header>,
    ) -> RingCopy {
        let reader = self.readers[ring].0.for_snapshot(&self.cells, &self.shape);
        let mut reader = reader.continue_after(last);
        if let Some(end) = end {
            reader = reader.with_cutoff(end);
        }
        if let Some(since) = since {
            reader.skip_older(&self.cells, &self.shape, since);
        }
        // A writer may begin a sub-buffer while the ring is copied.
        let left = self.shape.ring_size() + self.shape.subbuffer_size;
        // Each time that writers overtake the reader, it skips at least one sub-buffer, and the
        // copy ends with the ring's state at the beginning. A hostile program could go on.
        let overtaken_left = self.shape.ring_size() / self.shape.subbuffer_size + 2;
        RingCopy { reader, left, overtaken_left }
    }

    /// Appends copies of a ring's next packets, of about [`PIECE_SIZE`] bytes. Packets that writers
    /// overwrite meanwhile are missing. Returns true once all packets are copied.
    pub(crate) fn copy_piece(&self, copy: &mut RingCopy, packets: &mut Packets) -> bool {
        let start = packets.copied.len();
        loop {
            let before = packets.copied.len();
            if before - start >= PIECE_SIZE {
                return false;
            }
            match copy.reader.take(&self.cells, &self.shape, true, &mut packets.copied) {
                TakeOutcome::Packet(packet) => packets.headers.push(packet.header),
                TakeOutcome::Overwritten(_) if copy.overtaken_left > 0 => {
                    copy.overtaken_left -= 1;
                }
                TakeOutcome::Overwritten(_) | TakeOutcome::Empty | TakeOutcome::Invalid => {
                    return true;
                }
            }
            let copied = packets.copied.len() - before;
            let Some(left) = copy.left.checked_sub(copied) else { return true };
            copy.left = left;
        }
    }
}

/// Returns the minimum number of bytes that is charged for a set of rings, even before an event is
/// recorded. Small sets and sets in overwrite mode are charged as a whole, and all sets if the
/// kernel accounts memory strictly.
pub(crate) fn charge_min(shape: &Shape) -> u64 {
    // Rings in overwrite mode fill up in any case.
    match shape.mode == Mode::Overwrite || blkkin_sys::is_accounting_strict() {
        true => shape.memory_size() as u64,
        false => CHARGE_MIN.min(shape.memory_size() as u64),
    }
}

const CHARGE_MIN: u64 = 256 << 10;

/// Reads the shape of rings from memory that a program offers. The memory is not mapped.
pub(crate) fn shape_of_orphans(file: &OwnedFd) -> io::Result<Shape> {
    let size = blkkin_sys::sealed_size(file.as_fd())?;
    let mut bytes = [0; SHAPE_SIZE];
    let mut read = 0;
    while read < bytes.len() {
        match rustix::io::pread(file, &mut bytes[read..], read as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => read += more,
        }
    }
    let memory_size = usize::try_from(size).unwrap_or(usize::MAX);
    let shape = Shape::of_memory(&bytes, memory_size).map_err(io::Error::other)?;
    match shape.memory_size() == memory_size {
        true => Ok(shape),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "rings that are smaller or larger than their memory",
        )),
    }
}

/// Returns the numbers of the online processors, in ascending order.
pub(crate) fn online_processors() -> Vec<usize> {
    match read_list("/sys/devices/system/cpu/online") {
        list if list.is_empty() => (0..available()).collect(),
        list => list,
    }
}

/// Returns the highest number of a possible processor, plus 1. Offline processors count too.
pub(crate) fn possible_processors() -> usize {
    let last = read_list("/sys/devices/system/cpu/possible").into_iter().max();
    last.map_or_else(available, |last| last + 1)
}

fn available() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the numbers in a file that contains a list such as `0-3,5`; empty if it cannot be read.
fn read_list(path: &str) -> Vec<usize> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut numbers = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            numbers.extend(first..=last.min(blkkin_ring::RINGS_MAX));
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use blkkin_ring::{Encoder, Outcome, Room, Writer};

    /// One drain reads at most a sub-buffer more than fits into a ring, even if the writer refills
    /// the ring as fast as it is read.
    #[test]
    fn no_more_is_taken_than_fits_into_a_ring() {
        let (rings, subbuffer_size) = (possible_processors().max(2), 4096);
        let (uuid, stream, start) = ([1; 16], 0, 0);
        let shape = Shape {
            rings,
            subbuffer_size,
            subbuffer_count: 4,
            mode: Mode::Discard,
            uuid,
            stream,
            event_size: 0,
            wait_us: 0,
            start,
        };
        let (mut rings, file) = Rings::create(shape, Clock::Monotonic).unwrap();
        let memory = SharedMemory::map(file.as_fd()).unwrap();
        let writer = Writer::new(Cells::new(memory), Clock::Monotonic).unwrap();
        let most = (rings.shape().ring_size() + subbuffer_size) as u64;
        let mut all: Vec<Packets> = (0..rings.count()).map(|_| Packets::default()).collect();
        let mut recorded = 0;
        for _ in 0..20 {
            let mut room = Room::new();
            while writer.record(&mut Encoder::new(&mut room, 1).event()) == Outcome::Recorded {
                recorded += 1;
            }
            for (ring, packets) in all.iter_mut().enumerate() {
                rings.read_packets(ring, packets, u64::MAX);
                rings.free(ring);
                assert!(packets.size() <= most, "{} of {most}", packets.size());
            }
        }
        let events = most / blkkin_ring::HEADER_SIZE as u64;
        assert!(recorded > events, "only {recorded}, of which {events} fit");
    }

    /// A snapshot of a ring ends even if the program continuously advances its write position.
    #[test]
    fn n9_a_snapshot_of_a_ring_ends() {
        let (subbuffer_size, uuid, stream, start) = (1 << 20, [1; 16], 0, 0);
        let (rings, subbuffer_count, mode) = (2, 4, Mode::Overwrite);
        let event_size = 0;
        let shape = Shape {
            rings,
            subbuffer_size,
            subbuffer_count,
            event_size,
            wait_us: 0,
            mode,
            uuid,
            stream,
            start,
        };
        let (rings, file) = Rings::create(shape, Clock::Monotonic).unwrap();
        let memory = SharedMemory::map(file.as_fd()).unwrap();
        // Each sub-buffer looks full. The snapshot therefore copies it before it reads the position
        // again.
        let size = subbuffer_size as u64;
        let header = Header {
            uuid,
            stream,
            cpu: 0,
            first_time: 0,
            last_time: 0,
            content_size: size,
            packet_size: size,
            number: 0,
            discarded: 0,
        };
        for place in shape.data_of(0).step_by(subbuffer_size) {
            memory.copy_in(place, &header.to_bytes());
        }
        let done = std::sync::atomic::AtomicBool::new(false);
        let longest = std::thread::scope(|scope| {
            scope.spawn(|| {
                use std::sync::atomic::Ordering::Relaxed;
                let mut position = 0;
                let begun = std::time::Instant::now();
                while !done.load(Relaxed) && begun.elapsed().as_secs() < 20 {
                    position += 2 * shape.ring_size() as u64;
                    memory.word(4096).store(position, Relaxed);
                    // Until the pause ends, the position does not change.
                    (0..100).for_each(|_| std::hint::spin_loop());
                }
            });
            while memory.word(4096).load(std::sync::atomic::Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            let took = |_| {
                let begun = std::time::Instant::now();
                let mut copy = rings.begin_copy(0, None, Some(1), None);
                while !rings.copy_piece(&mut copy, &mut Packets::default()) {}
                begun.elapsed()
            };
            let longest = (0..20).map(took).max().unwrap();
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            longest
        });
        blkkin_sys::testing::figure(
            "N9",
            &format!("the longest of 20 snapshots of a ring: {longest:?}"),
        );
        assert!(longest < std::time::Duration::from_secs(2), "{longest:?}");
    }
}
