//! Stream of a session: its file, and the packets that viewers may read.
//!
//! Packets arrive on the data connection, their indexes on the control connection, in any order
//! between the two. A packet is published when both have arrived, in the order of packets. Its
//! entry in the index file is then written, from which viewers learn where it is.

use crate::chunk::Chunk;
use crate::clock_log::ClockLog;
use crate::files::{Disk, is_full};
use crate::metadata::Metadata;
use blkkin_ctf::metadata::METADATA_SIZE_MAX;
use blkkin_lttng::relay::{DataHeader, Index};
use blkkin_lttng::{IndexEntry, IndexLayout, PacketIndex, index_path};
use blkkin_sys::keep_access_time;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A stream of a session.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: u64,
    /// Id of the trace: the same for all streams with the same path.
    pub(crate) trace: u64,
    /// Path of the trace below the chunk's directory.
    pub(crate) path: String,
    pub(crate) name: String,
    pub(crate) is_metadata: bool,
    /// Set for streams without indexes: their packets are written, but not published.
    pub(crate) is_snapshot: bool,
    layout: IndexLayout,
    disk: Disk,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Parts of the stream, one in each chunk. The last one is being written.
    parts: VecDeque<Part>,
    /// Complete packets without an index, in their order.
    packets: VecDeque<Packet>,
    /// Indexes whose packets have not arrived, by the sequence number of their packet.
    indexes: BTreeMap<u64, Index>,
    /// True while the data connection writes a packet at the end of the last part.
    is_writing: bool,
    /// Sequence number of the last published packet, or of the last packet in a snapshot.
    last: Option<u64>,
    /// Sequence number in its stream that the next published packet must have.
    next_sequence: Option<u64>,
    /// Rotations that are not due yet, in their order.
    rotations: VecDeque<StreamRotation>,
    beacon: Option<Beacon>,
    /// Set when the producer has closed the stream. The inner value is the sequence number of its
    /// last packet, if it has any.
    closed: Option<Option<u64>>,
    metadata: Metadata,
    /// Metadata that is not in the file yet, because the disk is full.
    unwritten: Vec<u8>,
    /// Set if measurements of clocks could not be written.
    lacks_clocks: bool,
}

/// Part of a stream in one chunk.
#[derive(Debug)]
struct Part {
    chunk: Arc<Chunk>,
    /// Files that are being written; `None` once the part is complete, so that it takes no
    /// descriptors.
    files: Option<PartFiles>,
    /// Set for metadata without content, whose file has a hidden name.
    is_hidden: bool,
    /// Number of the part's first packet among the packets of all parts.
    first: u64,
    published: u64,
    /// Offset of the part's first byte among the bytes of all parts.
    base: u64,
    size: u64,
}

#[derive(Debug)]
struct PartFiles {
    data: Arc<File>,
    /// Index file; `None` for metadata and snapshots.
    index: Option<File>,
}

/// A complete packet in the last part.
#[derive(Clone, Copy, Debug)]
struct Packet {
    net_sequence: u64,
    offset: u64,
    size: u64,
}

/// A rotation that waits for the packets that belong to the present chunk.
#[derive(Debug)]
struct StreamRotation {
    chunk: Arc<Chunk>,
    /// Sequence number in its stream of the first packet in the new chunk.
    at: u64,
}

/// Promise that a stream has no event before a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beacon {
    pub(crate) end: u64,
    pub(crate) class: u64,
}

/// State of a stream for a viewer that has read all earlier packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextPacket {
    Packet {
        /// Offset of the packet among the bytes of all parts.
        offset: u64,
        index: PacketIndex,
        /// Number of the packet after this one.
        next: u64,
    },
    Inactive(Beacon),
    Nothing,
    End,
}

/// Maximum number of chunks whose packets a viewer can read, for each stream. A viewer that is
/// further behind sees a gap in the sequence numbers of packets.
const PARTS_MAX: usize = 8;
/// Maximum number of packets or indexes that wait for each other, in each stream.
const WAITING_MAX: usize = 1 << 16;

impl State {
    /// Returns whether the producer has closed the stream, and all its packets are there.
    fn is_complete(&self) -> bool {
        match self.closed {
            Some(None) => true,
            Some(Some(last)) => self.last.is_some_and(|own| own >= last),
            None => false,
        }
    }

    fn is_waiting(&self) -> bool {
        !self.packets.is_empty() || !self.indexes.is_empty() || self.is_writing
    }

    /// Closes the files of a complete stream.
    fn release_files(&mut self) {
        if self.is_complete()
            && !self.is_writing
            && let Some(part) = self.parts.back_mut()
        {
            part.files = None;
        }
    }

    /// Removes the parts in deleted chunks, and the oldest parts if there are too many.
    fn forget_parts(&mut self) {
        while let [first, _, ..] = self.parts.make_contiguous()
            && (first.chunk.is_deleted() || self.parts.len() > PARTS_MAX)
        {
            self.parts.pop_front();
        }
    }
}

impl Part {
    fn create(stream: &Stream, chunk: Arc<Chunk>, first: u64, base: u64) -> io::Result<Part> {
        let create = |path: PathBuf| {
            let file = OpenOptions::new().read(true).write(true).create_new(true).open(path);
            file.inspect(keep_access_time)
        };
        let has_index = !stream.is_metadata && !stream.is_snapshot;
        // A directory is a trace for readers once it has metadata.
        let name = if stream.is_metadata { METADATA_NEW } else { &stream.name };
        let (data, index) = chunk.open_in(&stream.path, |directory| {
            let data = create(directory.join(name))?;
            let index =
                has_index.then(|| create(index_path(directory, &stream.name))).transpose()?;
            Ok((data, index))
        })?;
        if let Some(index) = &index {
            stream.disk.write(index, &stream.layout.header(), 0)?;
        }
        let files = Some(PartFiles { data: Arc::new(data), index });
        let is_hidden = stream.is_metadata;
        Ok(Part { chunk, files, is_hidden, first, published: 0, base, size: 0 })
    }

    /// Gives the file of metadata its name, once it has some.
    fn show(&mut self, stream: &Stream) -> io::Result<()> {
        if std::mem::take(&mut self.is_hidden) {
            self.chunk.open_in(&stream.path, |directory| {
                fs::rename(directory.join(METADATA_NEW), directory.join(&stream.name))
            })?;
        }
        Ok(())
    }

    /// Appends an entry to the index file.
    fn publish(&mut self, stream: &Stream, packet: Packet, index: &Index) -> io::Result<()> {
        let index_file = self.files.as_ref().and_then(|files| files.index.as_ref());
        let file = index_file.ok_or(io::ErrorKind::NotFound)?;
        let entry = IndexEntry {
            offset: packet.offset,
            packet: index.packet,
            instance: index.instance,
            packet_sequence: index.packet_sequence,
        };
        let mut bytes = Vec::new();
        entry.encode(stream.layout, &mut bytes);
        stream.disk.try_write(file, &bytes, stream.layout.offset_of(self.published))?;
        self.published += 1;
        Ok(())
    }

    /// Reads the entry of a published packet. Returns the packet's offset among the bytes of all
    /// parts, and its index.
    fn entry(&self, stream: &Stream, number: u64) -> io::Result<(u64, PacketIndex)> {
        let layout = stream.layout;
        let offset = layout.offset_of(number - self.first);
        let mut bytes = vec![0; layout.entry_size()];
        match &self.files {
            Some(files) => {
                let file = files.index.as_ref().ok_or(io::ErrorKind::NotFound)?;
                file.read_exact_at(&mut bytes, offset)?;
            }
            None => {
                let open = |directory: &Path| File::open(index_path(directory, &stream.name));
                self.chunk.open_in(&stream.path, open)?.read_exact_at(&mut bytes, offset)?;
            }
        }
        let entry = IndexEntry::decode(layout, &bytes).map_err(io::Error::other)?;
        Ok((self.base + entry.offset, entry.packet))
    }

    fn end(&self) -> u64 {
        self.first + self.published
    }

    /// Returns the data file for reading or writing.
    fn data(&self, stream: &Stream) -> io::Result<Arc<File>> {
        match &self.files {
            Some(files) => Ok(files.data.clone()),
            None => {
                let open = |directory: &Path| File::open(directory.join(&stream.name));
                self.chunk.open_in(&stream.path, open).map(Arc::new)
            }
        }
    }
}

/// Identity of a new stream.
#[derive(Debug)]
pub(crate) struct StreamName {
    pub(crate) id: u64,
    pub(crate) trace: u64,
    pub(crate) path: String,
    pub(crate) name: String,
    pub(crate) layout: IndexLayout,
}

/// Name of the stream that holds a trace's metadata, and name of its file without content.
const METADATA: &str = "metadata";
pub(crate) const METADATA_NEW: &str = ".metadata.new";

impl Stream {
    /// Makes a stream and its file in a chunk.
    pub(crate) fn create(
        name: StreamName,
        chunk: Arc<Chunk>,
        is_snapshot: bool,
        disk: Disk,
    ) -> io::Result<Stream> {
        let StreamName { id, trace, path, name, layout } = name;
        let is_metadata = name == METADATA;
        let state = Mutex::default();
        let stream =
            Stream { id, trace, path, name, is_metadata, is_snapshot, layout, disk, state };
        let part = Part::create(&stream, chunk, 0, 0)?;
        stream.state.lock().parts.push_back(part);
        Ok(stream)
    }

    /// Begins a packet at the end of the stream. Returns the file, and the offset of the packet in
    /// it. Fails if another packet is being written.
    pub(crate) fn begin_packet(&self) -> io::Result<(Arc<File>, u64)> {
        let mut state = self.state.lock();
        let part = state.parts.back().filter(|_| !state.is_writing);
        let part = part.ok_or(io::ErrorKind::ResourceBusy)?;
        let begun = (part.data(self)?, part.size);
        state.is_writing = true;
        Ok(begun)
    }

    pub(crate) fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Ends a packet whose bytes were written. The packet is dropped if `header` is `None`.
    pub(crate) fn end_packet(&self, header: Option<DataHeader>) -> io::Result<()> {
        let mut state = self.state.lock();
        state.is_writing = false;
        let Some(header) = header else { return self.advance(&mut state) };
        let size = u64::from(header.data_size) + u64::from(header.padding_size);
        let Some(part) = state.parts.back_mut() else { return Ok(()) };
        let packet = Packet { net_sequence: header.net_sequence, offset: part.size, size };
        part.size += size;
        if self.is_snapshot {
            state.last = Some(header.net_sequence);
            state.release_files();
            return Ok(());
        }
        if state.packets.len() >= WAITING_MAX {
            return Err(io::Error::other("too many packets wait for their indexes"));
        }
        state.packets.push_back(packet);
        self.advance(&mut state)
    }

    /// Takes the index of a packet, or a beacon.
    pub(crate) fn take_index(&self, index: Index) -> io::Result<()> {
        let mut state = self.state.lock();
        if index.is_beacon() {
            state.beacon = Some(Beacon { end: index.packet.end, class: index.packet.class });
            return Ok(());
        }
        // The promise of an earlier beacon does not hold for the new packet.
        state.beacon = None;
        if state.indexes.len() >= WAITING_MAX {
            return Err(io::Error::other("too many indexes wait for their packets"));
        }
        state.indexes.insert(index.net_sequence, index);
        self.advance(&mut state)
    }

    /// Publishes packets that have an index, and rotates when it is due.
    fn advance(&self, state: &mut State) -> io::Result<()> {
        while let Some(packet) = state.packets.front().copied() {
            let Some(index) = state.indexes.get(&packet.net_sequence).copied() else { break };
            if index.packet.packet_bits != packet.size * 8 {
                let (declared, size) = (index.packet.packet_bits / 8, packet.size);
                return Err(io::Error::other(format!(
                    "index of stream {} declares a packet of {declared} bytes instead of {size}",
                    self.name
                )));
            }
            let rotation = state.rotations.front();
            let is_due = rotation.is_some_and(|rotation| {
                index.packet_sequence.is_some_and(|own| own >= rotation.at)
            });
            if is_due {
                if state.is_writing {
                    // The rotation goes on at the end of the packet that is being written.
                    return Ok(());
                }
                self.rotate_now(state)?;
                continue;
            }
            let Some(part) = state.parts.back_mut() else { break };
            match part.publish(self, packet, &index) {
                // The packet is published when the next one or its index arrives.
                Err(error) if is_full(&error) => return Ok(()),
                published => published?,
            }
            state.packets.pop_front();
            state.indexes.remove(&packet.net_sequence);
            state.last = Some(packet.net_sequence);
            state.next_sequence = index.packet_sequence.map(|own| own.saturating_add(1));
        }
        let is_complete = state.packets.is_empty() && state.indexes.is_empty() && !state.is_writing;
        let next = state.next_sequence.unwrap_or(0);
        while is_complete && state.rotations.front().is_some_and(|rotation| next >= rotation.at) {
            self.rotate_now(state)?;
        }
        state.release_files();
        Ok(())
    }

    /// Moves the stream to another chunk. Packet `at` and later ones belong to it.
    pub(crate) fn rotate(&self, chunk: Arc<Chunk>, at: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        state.rotations.push_back(StreamRotation { chunk, at });
        if self.is_metadata || self.is_snapshot {
            if !self.write_rest(&mut state)? {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.rotate_now(&mut state)?;
            state.metadata.restart();
            return Ok(());
        }
        self.advance(&mut state)
    }

    /// Begins a part in the new chunk, and moves all packets that are not published to it.
    fn rotate_now(&self, state: &mut State) -> io::Result<()> {
        let Some(StreamRotation { chunk, .. }) = state.rotations.pop_front() else { return Ok(()) };
        let Some(old) = state.parts.back_mut() else { return Ok(()) };
        let from = state.packets.front().map_or(old.size, |packet| packet.offset);
        let mut new = Part::create(self, chunk, old.end(), old.base + from)?;
        let (data, new_data) = (old.data(self)?, new.data(self)?);
        let mut buffer = vec![0; 256 << 10];
        while from + new.size < old.size {
            let size = (old.size - from - new.size).min(buffer.len() as u64) as usize;
            let part = buffer.get_mut(..size).unwrap_or_default();
            data.read_exact_at(part, from + new.size)?;
            self.disk.write(&new_data, part, new.size)?;
            new.size += size as u64;
        }
        data.set_len(from)?;
        old.size = from;
        old.files = None;
        for packet in &mut state.packets {
            packet.offset -= from;
        }
        state.parts.push_back(new);
        state.forget_parts();
        Ok(())
    }

    /// Removes the parts in chunks that were deleted. Viewers skip them.
    pub(crate) fn forget_deleted(&self) {
        self.state.lock().forget_parts();
    }

    /// Appends metadata with its padding. Returns false if it is not in the file yet, because the
    /// disk is full; see [`Stream::write_metadata`].
    pub(crate) fn append_metadata(&self, bytes: &[u8]) -> io::Result<bool> {
        let mut state = self.state.lock();
        if !state.metadata.append(bytes) || state.unwritten.len() > METADATA_SIZE_MAX {
            return Err(io::Error::other("the metadata is too large"));
        }
        state.unwritten.extend_from_slice(bytes);
        self.write_rest(&mut state)
    }

    /// Writes metadata that could not be written before. Returns false while the disk is full.
    pub(crate) fn write_metadata(&self) -> io::Result<bool> {
        self.write_rest(&mut self.state.lock())
    }

    fn write_rest(&self, state: &mut State) -> io::Result<bool> {
        let State { parts, unwritten, .. } = state;
        let part = parts.back_mut().filter(|_| !unwritten.is_empty());
        let Some(part) = part else { return Ok(true) };
        let file = part.data(self)?;
        match self.disk.try_write(&file, unwritten, part.size) {
            Err(error) if is_full(&error) => return Ok(false),
            written => written?,
        }
        part.size += unwritten.len() as u64;
        unwritten.clear();
        part.show(self)?;
        Ok(true)
    }

    /// Appends measurements of clocks to the file beside the metadata; see
    /// [`ClockLog::append_to`]. Fails once, and again after a success.
    pub(crate) fn append_clocks(&self, clocks: &ClockLog) -> io::Result<()> {
        let mut state = self.state.lock();
        let Some(part) = state.parts.back() else { return Ok(()) };
        let written = clocks.append_to(&part.chunk, &self.path, state.lacks_clocks);
        let was_lacking = std::mem::replace(&mut state.lacks_clocks, written.is_err());
        if was_lacking { Ok(()) } else { written }
    }

    /// Drops the metadata in the file; all of it arrives again.
    pub(crate) fn reset_metadata(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        state.metadata.restart();
        state.unwritten.clear();
        let Some(part) = state.parts.back_mut() else { return Ok(()) };
        part.size = 0;
        part.data(self)?.set_len(0)
    }

    /// Calls `read` with the stream's metadata.
    pub(crate) fn with_metadata<T>(&self, read: impl FnOnce(&Metadata) -> T) -> T {
        read(&self.state.lock().metadata)
    }

    /// Returns the size of the whole declarations in the stream's metadata, in bytes.
    pub(crate) fn metadata_size(&self) -> usize {
        self.with_metadata(Metadata::whole)
    }

    /// Notes that the producer sends no packet after `last`.
    pub(crate) fn close(&self, last: Option<u64>) {
        let mut state = self.state.lock();
        state.closed = Some(last);
        state.release_files();
    }

    /// Returns whether the stream is closed, and all its packets have arrived.
    pub(crate) fn is_complete(&self) -> bool {
        self.state.lock().is_complete()
    }

    /// Returns whether the stream is closed, and packets are missing that its producer has sent.
    pub(crate) fn lacks_packets(&self) -> bool {
        let state = self.state.lock();
        state.closed.is_some() && !state.is_complete()
    }

    /// Returns whether packet `last` or an earlier one has not arrived yet, or has no index.
    pub(crate) fn is_pending(&self, last: Option<u64>) -> bool {
        let state = self.state.lock();
        match (last, state.last) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(asked), Some(last)) => last < asked,
        }
    }

    /// Returns the number that the next published packet will get.
    pub(crate) fn end(&self) -> u64 {
        self.state.lock().parts.back().map_or(0, Part::end)
    }

    /// Returns whether packets or indexes wait for each other, or for room on the disk.
    pub(crate) fn is_waiting(&self) -> bool {
        self.state.lock().is_waiting()
    }

    /// Returns the packet with this number, or the state of the stream if the packet is missing.
    /// `is_over` is set if the session has ended.
    pub(crate) fn next(&self, number: u64, is_over: bool) -> io::Result<NextPacket> {
        let state = self.state.lock();
        let part = state.parts.iter().find(|part| number < part.end());
        if let Some(part) = part {
            // Packets before the first part were removed.
            let number = number.max(part.first);
            let (offset, index) = part.entry(self, number)?;
            return Ok(NextPacket::Packet { offset, index, next: number + 1 });
        }
        let is_complete = state.is_complete();
        Ok(match state.beacon {
            _ if is_complete || is_over => NextPacket::End,
            Some(beacon) if !state.is_waiting() => NextPacket::Inactive(beacon),
            _ => NextPacket::Nothing,
        })
    }

    /// Reads up to `size` bytes of published packets at `offset`. Returns fewer at the end of a
    /// part, and none for an offset without a byte.
    pub(crate) fn read(&self, offset: u64, size: usize) -> io::Result<Vec<u8>> {
        let (file, within, size) = {
            let state = self.state.lock();
            let holds = |part: &&Part| (part.base..part.base + part.size).contains(&offset);
            let Some(part) = state.parts.iter().find(holds) else { return Ok(Vec::new()) };
            let within = offset - part.base;
            let size = (part.size - within).min(size as u64) as usize;
            (part.data(self)?, within, size)
        };
        let mut bytes = vec![0; size];
        file.read_exact_at(&mut bytes, within)?;
        Ok(bytes)
    }
}
