//! Traces below a directory: their metadata, and the packets of their streams by the index files.
//!
//! ```text
//! DIRECTORY/ust/pid/NAME/metadata         text, plain or in packets; grows, or is replaced by a
//!                                         longer text
//! DIRECTORY/ust/pid/NAME/STREAM           packets
//! DIRECTORY/ust/pid/NAME/index/STREAM.idx an entry for each packet
//! ```

use crate::positions::{self, Position};
use blkkin_control::COMPLETE_FILE;
use blkkin_ctf::clock_offsets;
use blkkin_ctf::metadata::{self, METADATA_SIZE_MAX, unpack};
use blkkin_ctf::schema::{ByteOrder, Clock, Uuid};
use blkkin_lttng::{INDEX_HEADER_SIZE, IndexEntry, IndexLayout, index_path, is_component};
use blkkin_sys::keep_access_time;
use rustix::fs::{FallocateFlags, fallocate};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A trace below the directory.
#[derive(Clone, Debug)]
pub(crate) struct SpoolTrace {
    pub(crate) directory: PathBuf,
    /// Path below the directory, with `/` between its components.
    pub(crate) path: String,
    pub(crate) uuid: Uuid,
    pub(crate) byte_order: ByteOrder,
    /// Clock of the packets' times; `None` if the trace has none or several.
    pub(crate) clock: Option<TraceClock>,
}

/// Clock of a trace, which converts cycles to nanoseconds since the clock's origin and back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceClock {
    frequency: i128,
    offset_ns: i128,
}

/// A stream file of a trace with its index.
#[derive(Debug)]
pub(crate) struct SpoolStream {
    pub(crate) name: String,
    data: File,
    index: File,
    layout: IndexLayout,
    /// Number of entries that were read or skipped.
    read: u64,
    /// Positions after the last packets, and the ends of these packets in cycles.
    recent: VecDeque<(u64, u64)>,
    /// Number of entries whose packets are no longer needed, and size of these packets in bytes.
    removed: u64,
    bytes_removed: u64,
    /// Position in the data file after the last packet that was read or skipped.
    data_position: u64,
    /// Sizes in bytes of packets that were dropped before they were read, with the positions after
    /// them, unless they are in `removed`.
    gaps: VecDeque<(u64, u64)>,
}

const METADATA: &str = "metadata";
/// Name of the file that is in the directory of a trace or chunk while BlkKin's agent writes it.
const MARK: &str = ".recording";
const NS_PER_S: i128 = 1_000_000_000;
/// Maximum depth of directories.
const DEPTH_MAX: usize = 16;
/// Maximum number of packets whose ends are kept, to find where a recorder has shortened a file.
const RECENT_MAX: usize = 256;
/// Unit of [`MetadataExt::blocks`] in bytes.
const BLOCK: u64 = 512;
/// Maximum size of a packet in bytes.
const PACKET_BYTES_MAX: u64 = 256 << 20;

/// Traces below a directory, and directories that cannot be read.
#[derive(Debug, Default)]
pub(crate) struct FoundTraces {
    pub(crate) traces: Vec<PathBuf>,
    pub(crate) unreadable: Vec<(PathBuf, io::Error)>,
}

/// Returns the directories of all traces at and below `root`, in the order of their paths. Calls
/// `visit` for each directory before it is read. Directories may disappear at any time.
pub(crate) fn find_traces(root: &Path, visit: &mut dyn FnMut(&Path)) -> FoundTraces {
    let mut found = FoundTraces::default();
    find_below(root, 0, visit, &mut found);
    found.traces.sort();
    found
}

fn find_below(
    directory: &Path,
    depth: usize,
    visit: &mut dyn FnMut(&Path),
    found: &mut FoundTraces,
) {
    visit(directory);
    let entries = fs::read_dir(directory).and_then(|entries| {
        let below = entries.map(|entry| {
            let entry = entry?;
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            Ok((entry.path(), !is_hidden && entry.file_type()?.is_dir()))
        });
        below.collect::<io::Result<Vec<(PathBuf, bool)>>>()
    });
    let entries = match entries {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => return found.unreadable.push((directory.to_owned(), error)),
    };
    if directory.join(METADATA).is_file() {
        found.traces.push(directory.to_owned());
    }
    for (path, _) in entries.into_iter().filter(|(_, is_entered)| *is_entered) {
        if depth < DEPTH_MAX {
            find_below(&path, depth + 1, visit, found);
        }
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

impl SpoolTrace {
    /// Opens the trace in `directory`, which is at or below `root`. `None` if its metadata is
    /// empty or incomplete yet.
    pub(crate) fn open(root: &Path, directory: &Path) -> io::Result<Option<SpoolTrace>> {
        let Some(text) = read_metadata(directory)? else { return Ok(None) };
        let schema = metadata::parse(text.as_bytes())
            .map_err(|error| invalid(format!("{}: {error}", directory.display())))?;
        if !text.trim_start().starts_with("/* CTF 1.8") && schema.trace.uuid.is_none() {
            let why = "has no UUID, or metadata that a relay does not know";
            return Err(invalid(format!("{} {why}", directory.display())));
        }
        let uuid = schema.trace.uuid.unwrap_or(Uuid([0; 16]));
        let below = directory.strip_prefix(root).unwrap_or(directory);
        let names = below.components().map(|part| {
            let name = part.as_os_str().to_str().filter(|name| is_component(name));
            name.ok_or_else(|| invalid(format!("{} is no name for a relay", below.display())))
        });
        let path = names.collect::<io::Result<Vec<&str>>>()?.join("/");
        let byte_order = schema.trace.byte_order;
        let clock = match &schema.clocks[..] {
            [clock] => Some(TraceClock::new(clock)),
            _ => None,
        };
        Ok(Some(SpoolTrace { directory: directory.to_owned(), path, uuid, byte_order, clock }))
    }

    /// Returns whether BlkKin's agent is writing the trace, or may continue it.
    pub(crate) fn is_recorded(&self) -> bool {
        is_recorded(&self.directory)
    }

    /// Returns the name of the chunk that has the trace; `None` if BlkKin's agent does not divide
    /// the session.
    pub(crate) fn chunk(&self) -> Option<&str> {
        let (first, rest) = self.path.split_once('/')?;
        let mut rest = rest.split('/');
        let is_program = |own: &str, rest: &mut std::str::Split<'_, char>| {
            own == "ust" && rest.next() == Some("pid") && rest.next().is_some()
        };
        if is_program(first, &mut rest.clone()) {
            return None;
        }
        let own = rest.next()?;
        let is_divided =
            is_program(own, &mut rest.clone()) || own == "kernel" && rest.next().is_some();
        is_divided.then_some(first)
    }

    /// Returns the name of a stream among all streams of the directory.
    pub(crate) fn key(&self, stream: &str) -> String {
        format!("{}/{stream}", self.path)
    }

    /// Reads the text of the metadata; `None` while it is empty or incomplete.
    pub(crate) fn metadata(&self) -> io::Result<Option<String>> {
        read_metadata(&self.directory)
    }

    /// Opens the stream files that have an index and whose names are not in `known`. Returns them,
    /// and whether others are not complete yet.
    pub(crate) fn new_streams(
        &self,
        known: impl Fn(&str) -> bool,
    ) -> io::Result<(Vec<SpoolStream>, bool)> {
        let mut streams = Vec::new();
        let mut has_incomplete = false;
        let entries = match fs::read_dir(self.directory.join("index")) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok((streams, has_incomplete));
            }
            Err(error) => return Err(error),
        };
        for entry in entries {
            let name = entry?.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(".idx"));
            let Some(name) = name.filter(|name| is_component(name) && !known(name)) else {
                continue;
            };
            match SpoolStream::open(name, &self.directory)? {
                Some(stream) => streams.push(stream),
                None => has_incomplete = true,
            }
        }
        streams.sort_by(|a, b| a.name.cmp(&b.name));
        Ok((streams, has_incomplete))
    }

    /// Returns the state of the metadata file. It changes whenever the metadata does: it is
    /// replaced by another file, or grows.
    pub(crate) fn metadata_state(&self) -> io::Result<(u64, u64, u64)> {
        let file = fs::metadata(self.directory.join(METADATA))?;
        Ok((file.dev(), file.ino(), file.len()))
    }
}

/// Returns whether BlkKin's agent is writing a trace or a chunk, or may continue it.
pub(crate) fn is_recorded(directory: &Path) -> bool {
    directory.join(MARK).exists()
}

/// Returns the space on the disk of all packets below a directory, in bytes.
pub(crate) fn allocated_size(root: &Path) -> u64 {
    let mut size = 0;
    for directory in find_traces(root, &mut |_| ()).traces {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let of_stream = |entry: fs::DirEntry| {
            let name = entry.file_name();
            let is_other = name == METADATA || name.as_encoded_bytes().starts_with(b".");
            entry.metadata().ok().filter(|file| file.is_file() && !is_other)
        };
        size += entries.filter_map(of_stream).map(|file| file.blocks() * BLOCK).sum::<u64>();
    }
    size
}

/// Removes the directory of a closed chunk that has no traces any more. Returns whether it is gone.
pub(crate) fn remove_chunk(directory: &Path) -> bool {
    if is_recorded(directory) {
        return false;
    }
    for name in ["ust/pid", "ust", "kernel", ""] {
        let _ = fs::remove_dir(directory.join(name));
    }
    !directory.exists()
}

/// Removes a spool's hidden files, and its directories that have become empty. What cannot be
/// removed stays.
pub(crate) fn remove_empty(root: &Path) {
    for name in ["", ".new", ".lock"] {
        let _ = fs::remove_file(root.join(format!("{}{name}", positions::FILE)));
    }
    for name in ["", ".new"] {
        let _ = fs::remove_file(root.join(format!("{}{name}", clock_offsets::FILE)));
    }
    let _ = fs::remove_file(root.join(COMPLETE_FILE));
    let mut directories = Vec::new();
    let _ = find_traces(root, &mut |directory| directories.push(directory.to_owned()));
    // Directories follow those that they are in.
    for directory in directories.iter().rev() {
        let _ = fs::remove_dir(directory);
    }
}

impl TraceClock {
    fn new(clock: &Clock) -> TraceClock {
        let frequency = i128::from(clock.frequency.max(1));
        let cycles_ns = i128::from(clock.offset_cycles) * NS_PER_S / frequency;
        TraceClock { frequency, offset_ns: i128::from(clock.offset_seconds) * NS_PER_S + cycles_ns }
    }

    pub(crate) fn to_ns(self, cycles: u64) -> i128 {
        self.offset_ns + i128::from(cycles) * NS_PER_S / self.frequency
    }

    /// Returns the cycles at a time, rounded down; `None` before the clock's origin.
    pub(crate) fn to_cycles(self, ns: i128) -> Option<u64> {
        u64::try_from((ns - self.offset_ns) * self.frequency / NS_PER_S).ok()
    }
}

fn read_metadata(directory: &Path) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    let file = File::open(directory.join(METADATA))?;
    file.take(METADATA_SIZE_MAX as u64 + 1).read_to_end(&mut bytes)?;
    // Metadata in packets may be cut off while it is being written.
    Ok(unpack(bytes).ok().map(|metadata| metadata.text).filter(|text| !text.is_empty()))
}

impl SpoolStream {
    fn open(name: &str, trace: &Path) -> io::Result<Option<SpoolStream>> {
        let path = index_path(trace, name);
        // Producers make both files before the first packet.
        let open = |path: &Path| match File::open(path).inspect(keep_access_time) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            file => file.map(Some),
        };
        let (Some(data), Some(index)) = (open(&trace.join(name))?, open(&path)?) else {
            return Ok(None);
        };
        let mut header = [0; INDEX_HEADER_SIZE];
        if index.read_exact_at(&mut header, 0).is_err() {
            // The header is not written yet.
            return Ok(None);
        }
        let layout = IndexLayout::decode(&header)
            .map_err(|fault| invalid(format!("{}: {fault}", path.display())))?;
        Ok(Some(SpoolStream {
            name: name.to_owned(),
            data,
            index,
            layout,
            read: 0,
            recent: VecDeque::new(),
            removed: 0,
            bytes_removed: 0,
            data_position: 0,
            gaps: VecDeque::new(),
        }))
    }

    /// Returns the number of entries that are written.
    pub(crate) fn entries(&self) -> io::Result<u64> {
        Ok(self.layout.entries_in(self.index.metadata()?.len()))
    }

    /// Returns the number of entries that are written and not read yet, without removed ones before
    /// the next packet.
    pub(crate) fn waiting(&self) -> io::Result<u64> {
        let entries = self.entries()?;
        if entries <= self.read {
            return Ok(0);
        }
        Ok(self.find_next()?.map_or(0, |(number, _)| entries.saturating_sub(number)))
    }

    /// Returns the position of the next packet after the recorder has removed entries that were
    /// read, so that there are `entries` now: all of them when the session was cleared, the last
    /// ones when a write has failed. Returns `None` if it has not.
    pub(crate) fn rewound(&self, entries: u64) -> io::Result<Option<u64>> {
        for (position, end) in self.recent.iter().rev().filter(|(at, _)| *at <= entries) {
            if self.entry(position - 1)?.packet.end == *end {
                return Ok((*position < self.read).then_some(*position));
            }
        }
        Ok((self.read > 0).then_some(0))
    }

    /// Continues at an earlier position that [`rewound`](Self::rewound) has returned.
    pub(crate) fn rewind(&mut self, position: u64) {
        self.recent.retain(|(at, _)| *at <= position);
        self.gaps.retain(|(at, _)| *at < position);
        self.read = position;
        self.data_position = match position.checked_sub(1).map(|last| self.entry(last)) {
            Some(Ok(last)) => last.data_end(),
            _ => 0,
        };
        if position == 0 {
            (self.removed, self.bytes_removed) = (0, 0);
        }
    }

    /// Returns the position after the entries that were read or skipped.
    pub(crate) fn position(&self) -> Position {
        Position { packets: self.read, last_end: self.last_end() }
    }

    /// Returns the end of the last packet that was read or skipped, in cycles.
    pub(crate) fn last_end(&self) -> u64 {
        self.recent.back().map_or(0, |(_, end)| *end)
    }

    /// Skips all entries before a position. If the stream was cleared, it begins at the start.
    pub(crate) fn skip_to(&mut self, position: Position) -> io::Result<()> {
        if let Some(last) = self.last_before(position)? {
            self.read = position.packets;
            self.note(position.last_end);
            self.removed = position.packets;
            self.bytes_removed = last.data_end();
            self.data_position = self.bytes_removed;
        }
        Ok(())
    }

    /// Returns the entry before a position; `None` at the start, and if the stream was cleared, so
    /// that another packet is there.
    pub(crate) fn last_before(&self, position: Position) -> io::Result<Option<IndexEntry>> {
        match position.packets.checked_sub(1) {
            Some(last) if last < self.entries()? && !self.is_removed(last) => {
                Ok(Some(self.entry(last)?).filter(|last| last.packet.end == position.last_end))
            }
            _ => Ok(None),
        }
    }

    /// Notes the end of the packet before the position.
    fn note(&mut self, end: u64) {
        self.recent.push_back((self.read, end));
        if self.recent.len() > RECENT_MAX {
            self.recent.pop_front();
        }
    }

    /// Frees the space of all packets before `position` and of their entries, except for the last
    /// one, from which a recorder continues. The files keep their sizes. Returns the size in bytes
    /// of all packets before `position` that were needed until now.
    pub(crate) fn remove_to(&mut self, position: u64, trace: &Path) -> io::Result<u64> {
        if position <= self.removed {
            return Ok(0);
        }
        let kept = position - 1;
        let entry = self.entry(kept)?;
        let entries = INDEX_HEADER_SIZE as u64..self.layout.offset_of(kept);
        self.free(trace, entries, 0..entry.offset)?;
        let end = entry.data_end();
        let before = std::mem::replace(&mut self.bytes_removed, end);
        self.removed = position;
        let passed = self.gaps.partition_point(|(at, _)| *at < position);
        let dropped: u64 = self.gaps.drain(..passed).map(|(_, size)| size).sum();
        Ok(end.saturating_sub(before).saturating_sub(dropped))
    }

    /// Frees the space of the packets and entries in the positions `from..until` that are not freed
    /// yet, so that they are skipped. Returns the number and the size in bytes of these packets.
    pub(crate) fn drop_between(
        &self,
        from: u64,
        until: u64,
        trace: &Path,
    ) -> io::Result<(u64, u64)> {
        let (mut packets, mut bytes, mut data) = (0, 0, None);
        for number in from..until {
            if !self.is_removed(number) {
                let entry = self.entry(number)?;
                let from = data.map_or(entry.offset, |data: Range<u64>| data.start);
                data = Some(from..entry.data_end());
                (packets, bytes) = (packets + 1, bytes + entry.packet.packet_bits / 8);
            }
        }
        if let Some(data) = data {
            let entries = self.layout.offset_of(from)..self.layout.offset_of(until);
            self.free(trace, entries, data)?;
        }
        Ok((packets, bytes))
    }

    /// Frees the space of parts of the index and the data file. The files keep their sizes.
    fn free(&self, trace: &Path, entries: Range<u64>, data: Range<u64>) -> io::Result<()> {
        let writable = |path: &Path| File::options().write(true).open(path);
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let index_file = writable(&index_path(trace, &self.name))?;
        let data_file = writable(&trace.join(&self.name))?;
        // Without their entries, packets are not looked for.
        for (file, part) in [(&index_file, entries), (&data_file, data)] {
            if !part.is_empty() {
                fallocate(file, flags, part.start, part.end - part.start)?;
            }
        }
        Ok(())
    }

    /// Returns the size of the packets in bytes that were neither removed nor skipped.
    pub(crate) fn bytes_left(&self) -> io::Result<u64> {
        let mut size = 0;
        for number in self.removed..self.entries()? {
            if !self.is_removed(number) {
                size += self.entry(number)?.packet.packet_bits / 8;
            }
        }
        Ok(size)
    }

    /// Returns whether an entry was removed with its packet.
    pub(crate) fn is_removed(&self, number: u64) -> bool {
        let mut bytes = vec![0; self.layout.entry_size()];
        let read = self.index.read_exact_at(&mut bytes, self.layout.offset_of(number));
        read.is_ok() && bytes.iter().all(|byte| *byte == 0)
    }

    fn entry(&self, number: u64) -> io::Result<IndexEntry> {
        let mut bytes = vec![0; self.layout.entry_size()];
        self.index.read_exact_at(&mut bytes, self.layout.offset_of(number))?;
        let name = &self.name;
        let entry = IndexEntry::decode(self.layout, &bytes)
            .map_err(|fault| invalid(format!("entry {number} of {name}.idx: {fault}")))?;
        match entry.packet.packet_bits / 8 {
            size if size <= PACKET_BYTES_MAX => Ok(entry),
            size => {
                Err(invalid(format!("entry {number} of {name}.idx has a packet of {size} bytes")))
            }
        }
    }

    /// Returns the entry of the next packet that was not removed, with its number; `None` if it is
    /// not written yet.
    fn find_next(&self) -> io::Result<Option<(u64, IndexEntry)>> {
        let mut number = self.read;
        loop {
            match self.entry(number) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                Err(_) if self.is_removed(number) => number += 1,
                entry => return Ok(Some((number, entry?))),
            }
        }
    }

    /// Returns the entry of the next packet that was not removed, unless it is the last one.
    pub(crate) fn next_before_last(&self) -> io::Result<Option<IndexEntry>> {
        let entries = self.entries()?;
        Ok(self.find_next()?.filter(|(number, _)| number + 1 < entries).map(|(_, entry)| entry))
    }

    /// Returns the entry of the last packet; `None` if the stream is empty, or it was removed.
    pub(crate) fn last_entry(&self) -> io::Result<Option<IndexEntry>> {
        let last = self.entries()?.checked_sub(1).filter(|last| !self.is_removed(*last));
        last.map(|last| self.entry(last)).transpose()
    }

    /// Returns whether the file begins with the first packet that was recorded of the stream.
    pub(crate) fn has_first_packet(&self) -> bool {
        self.entry(0).is_ok_and(|entry| entry.packet_sequence == Some(0))
    }

    /// Sets the position, without a check of the packet before it.
    pub(crate) fn begin_at(&mut self, position: u64) {
        self.read = position;
    }

    /// Skips the next packet that was not removed.
    pub(crate) fn skip_next(&mut self) -> io::Result<()> {
        self.read = self.find_next()?.map_or(self.read, |(number, _)| number + 1);
        Ok(())
    }

    /// Reads the bytes of the next packet that was not removed, without its padding, into `buffer`,
    /// and advances to the one after it. Returns its entry; `None` if it is not written yet.
    pub(crate) fn read_next(&mut self, buffer: &mut Vec<u8>) -> io::Result<Option<IndexEntry>> {
        let Some((number, entry)) = self.find_next()? else { return Ok(None) };
        buffer.resize(entry.packet.content_bits.div_ceil(8) as usize, 0);
        self.data.read_exact_at(buffer, entry.offset)?;
        if number > self.read {
            self.gaps.push_back((number, entry.offset.saturating_sub(self.data_position)));
        }
        self.read = number + 1;
        self.data_position = entry.data_end();
        self.note(entry.packet.end);
        Ok(Some(entry))
    }
}
