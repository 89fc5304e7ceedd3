//! A program's trace on disk, in LTTng's layout: metadata, a file of packets for each channel and
//! processor, and an index of each file.
//!
//! Metadata is replaced as a whole before the first packet that needs it is written, and packets
//! that cannot be written completely are removed. A reader therefore finds a valid trace at any
//! moment, except for a packet that is being written.

use crate::chunk_meter::ChunkMeter;
use crate::chunk_name::is_uuid_of;
use crate::clock::Rate;
use crate::direct::{BLOCK, DirectWriter};
use crate::metadata::{self, Domain};
use crate::notebook::Note;
use crate::output::Output;
use crate::page_cache::PageCacheTrimmer;
use crate::quota::Account;
use crate::rings::{Packets, Rings, online_processors};
use crate::session::SessionChannel;
use crate::size_limit::{FreeSpace, SizeLimit};
use blkkin_control::{Channel, EventType};
use blkkin_ctf::metadata::METADATA_SIZE_MAX;
use blkkin_ctf::schema::{EnvValue, Schema, Uuid};
use blkkin_ctf::tsdl::{WriteProgress, write_additions};
use blkkin_lttng::{INDEX_HEADER_SIZE, IndexEntry, IndexLayout, PacketIndex, index_path};
use blkkin_ring::packet::{self, Header};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Facts about a trace that its metadata contains: UUID, environment and clock.
#[derive(Debug)]
pub(crate) struct TraceDescription {
    pub(crate) uuid: [u8; 16],
    pub(crate) env: Vec<(String, EnvValue)>,
    pub(crate) clock_name: &'static str,
    /// UUID of the clock; `None` if it is unknown.
    pub(crate) clock_uuid: Option<Uuid>,
    pub(crate) rate: Rate,
}

/// Key of a stream's file in a trace. Each stream has one file for each processor, and one for the
/// additional ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StreamKey {
    pub(crate) stream: u32,
    pub(crate) cpu: u32,
}

/// A trace that is being written. Its directory is made when the first packet is written, so that
/// programs that record nothing leave nothing on disk.
#[derive(Debug)]
pub(crate) struct Trace {
    directory: PathBuf,
    has_begun: bool,
    /// Set if the trace was suspended and is continued. Files of its streams may then exist without
    /// being open.
    is_resumed: bool,
    output: Output,
    uuid: [u8; 16],
    /// Chunk of the session's trace that the trace belongs to. The default if the session's trace
    /// is not divided, or if the chunk was removed.
    chunk: ChunkMeter,
    schema: Schema,
    /// Text of the metadata. `written` records the part of the schema that the text describes,
    /// `text_on_disk` the number of bytes of the text that are in the file.
    text: String,
    written: WriteProgress,
    text_on_disk: usize,
    /// Set if the text of the metadata may lack streams or event types of the schema.
    has_more: bool,
    /// Streams of channels, in the order of the schema's streams.
    streams: Vec<Stream>,
    files: HashMap<StreamKey, StreamFile>,
    /// Note for the next agent; `None` for a snapshot, which has no mark and no index files either.
    note: Option<Note>,
    /// Open file of the mark, while the trace is being written; see [`MARK`].
    mark: Option<File>,
    /// Size limit of the session; `None` for a snapshot, whose size is not limited. `space` is the
    /// space on the file system that packets may use.
    size_limit: Option<Arc<SizeLimit>>,
    space: FreeSpace,
    /// Account to which the time of rewriting large metadata is charged. `may_postpone` is set if
    /// the rewriting may be postponed.
    account: Option<Arc<Account>>,
    may_postpone: bool,
    /// Trimmer of the trace's memory in the page cache. Snapshots have none: they are small, and
    /// read soon.
    page_cache: Option<PageCacheTrimmer>,
    /// Writer of packets without the page cache, if that was chosen.
    direct: Option<Arc<DirectWriter>>,
}

/// The stream of a channel in this trace.
#[derive(Debug)]
struct Stream {
    number: u32,
    name: String,
    /// Indexes of the event types that the schema of the stream describes.
    types: HashSet<u32>,
}

#[derive(Debug)]
struct StreamFile {
    data: Arc<File>,
    size: u64,
    /// Header of the last packet in the file.
    last: Option<Header>,
    index: Option<(File, u64)>,
}

/// Layout of all index files.
const INDEX_LAYOUT: IndexLayout = IndexLayout { has_instances: true };
/// Maximum number of traces with a number appended to their name, for the same program name,
/// process id and second. The first such trace has no number.
const SAME_NAME_MAX: u32 = 1000;
/// Maximum number of index entries that are read to find the last packet with an entry. The number
/// of packet headers that are read from there to find the end of the file has the same limit.
const UNINDEXED_MAX: u32 = 1 << 17;
/// Size of metadata in bytes above which the time for rewriting it is limited by a token bucket.
const LARGE: usize = 64 << 10;
const METADATA: &str = "metadata";
const METADATA_NEW: &str = ".metadata.new";
/// Name of the mark: an empty file that is removed when a trace is ended, unless the trace misses
/// events. Readers of CTF ignore hidden files. The agent that writes the trace holds a lock on the
/// mark. If the mark exists without a lock, the trace may miss events.
pub(crate) const MARK: &str = ".recording";

/// Kind of a file in a trace: metadata, mark, stream, or index of a stream. [`file_kind`] derives
/// it from the file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Metadata,
    Mark,
    Stream,
    Index,
}

/// Locks the mark, so that readers recognize that the trace is being written. Errors are ignored,
/// because some file systems have no locks.
fn lock(mark: &File) {
    let _ = mark.try_lock();
}

/// Returns the kind of the file with this name; `None` if a trace has no such file.
pub(crate) fn file_kind(name: &str) -> Option<FileKind> {
    if [METADATA, METADATA_NEW].contains(&name) {
        return Some(FileKind::Metadata);
    }
    if name == MARK {
        return Some(FileKind::Mark);
    }
    let (stream, part) = match name.strip_suffix(".idx") {
        Some(stream) => (stream, FileKind::Index),
        None => (name, FileKind::Stream),
    };
    let (_, cpu) = stream.rsplit_once('_')?;
    let is_number = !cpu.is_empty() && cpu.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(part)
}

impl Trace {
    /// Makes a trace that will be written to `directory`. If `directory` exists by then, a number
    /// is appended to the name.
    pub(crate) fn new(
        directory: PathBuf,
        output: Output,
        about: TraceDescription,
        note: Option<Note>,
    ) -> Trace {
        let TraceDescription { uuid, env, clock_name, clock_uuid, rate } = about;
        Trace {
            directory,
            has_begun: false,
            is_resumed: false,
            output,
            uuid,
            chunk: ChunkMeter::default(),
            schema: metadata::trace(uuid, env, clock_name, clock_uuid, rate),
            text: String::new(),
            written: WriteProgress::default(),
            text_on_disk: 0,
            has_more: true,
            streams: Vec::new(),
            files: HashMap::new(),
            note,
            mark: None,
            size_limit: None,
            space: FreeSpace::default(),
            account: None,
            may_postpone: false,
            page_cache: None,
            direct: None,
        }
    }

    /// Continues a suspended trace. Fails if its metadata cannot be read or parsed, or has another
    /// UUID.
    pub(crate) fn resume(directory: PathBuf, output: Output, note: Note) -> io::Result<Trace> {
        let invalid = |error: String| io::Error::new(io::ErrorKind::InvalidData, error);
        let mut text = String::new();
        let file = output.open_file(&directory.join(METADATA))?;
        file.take(METADATA_SIZE_MAX as u64).read_to_string(&mut text)?;
        let schema = blkkin_ctf::metadata::parse(text.as_bytes())
            .map_err(|error| invalid(error.to_string()))?;
        let uuid = schema.trace.uuid.map(|Uuid(uuid)| uuid);
        let uuid = uuid.filter(|uuid| is_uuid_of(note.uuid(), *uuid));
        let uuid = uuid.ok_or_else(|| invalid("it is another trace".to_owned()))?;
        let streams = schema.streams.iter().map(|stream| {
            let number = u32::try_from(stream.id).map_err(|error| invalid(error.to_string()))?;
            let types = stream.events.iter().filter_map(|event| u32::try_from(event.id).ok());
            Ok(Stream { number, name: String::new(), types: types.collect() })
        });
        let streams = streams.collect::<io::Result<Vec<Stream>>>()?;
        let mut written = WriteProgress::default();
        write_additions(&schema, &mut written).map_err(io::Error::other)?;
        let path = directory.join(MARK);
        let mark = output.open_file(&path).or_else(|_| output.create_file(&path)).ok();
        mark.iter().for_each(lock);
        Ok(Trace {
            directory,
            has_begun: true,
            is_resumed: true,
            output,
            uuid,
            chunk: ChunkMeter::default(),
            schema,
            text_on_disk: text.len(),
            text,
            written,
            has_more: false,
            streams,
            files: HashMap::new(),
            note: Some(note),
            mark,
            size_limit: None,
            space: FreeSpace::default(),
            account: None,
            may_postpone: false,
            page_cache: None,
            direct: None,
        })
    }

    /// Continues the file of a stream. `settle` receives the size of the file, or 0 if there is
    /// none, and returns the size to keep. An open file is not truncated. Returns the header of the
    /// last packet that is kept.
    pub(crate) fn resume_stream(
        &mut self,
        key: StreamKey,
        settle: impl FnOnce(u64) -> u64,
    ) -> io::Result<Option<Header>> {
        if let Some(file) = self.files.get(&key) {
            // The file is still open, and its size is known; nothing is truncated.
            settle(file.size);
            return Ok(file.last);
        }
        if !self.is_resumed {
            // The trace is new: a file at that path would belong to another trace.
            settle(0);
            return Ok(None);
        }
        let (data, index) = self.paths(key);
        let data = match self.output.open_file(&data) {
            Ok(data) => data,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // No packet of the stream was written.
                settle(0);
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let index = match self.output.open_file(&index) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create_index(&index)?,
            opened => opened?,
        };
        let size = data.metadata()?.len();
        let kept = settle(size).min(size);
        data.set_len(kept)?;
        let index = Some((index, INDEX_HEADER_SIZE as u64));
        let mut file = StreamFile { data: Arc::new(data), size: 0, last: None, index };
        file.find_end(kept)?;
        // Packets that were written through the page cache may end anywhere.
        if self.direct.is_some() && file.size.is_multiple_of(BLOCK) {
            let flags = fcntl_getfl(&file.data)?;
            fcntl_setfl(&file.data, flags | OFlags::DIRECT)?;
        }
        self.size_limit.iter().for_each(|bound| bound.add_continued(file.size));
        let last = file.last;
        self.files.insert(key, file);
        Ok(last)
    }

    /// Returns the schema of the trace so far.
    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Sets the account to which the time for rewriting large metadata is charged.
    pub(crate) fn charge_to(&mut self, account: Arc<Account>) {
        self.account = Some(account);
    }

    /// Sets whether rewriting large metadata may be postponed. If so, `append` fails with
    /// [`io::ErrorKind::ResourceBusy`] when the account's token bucket is empty.
    pub(crate) fn allow_postponing(&mut self, may_put_off: bool) {
        self.may_postpone = may_put_off;
    }

    /// Sets the trimmer that drops the trace's pages from the page cache.
    pub(crate) fn trim_by(&mut self, behind: Option<PageCacheTrimmer>) {
        self.page_cache = behind;
    }

    /// Sets the writer for packets without the page cache; `None` for the page cache.
    pub(crate) fn write_by(&mut self, direct: Option<Arc<DirectWriter>>) {
        self.direct = direct;
    }

    /// Returns whether packets are written without the page cache. Their events must be copied.
    pub(crate) fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// Gives packets the sizes that they will have in the file, before they are announced and
    /// appended.
    pub(crate) fn fit(&self, packets: &mut Packets) {
        if self.direct.is_some() {
            packets.pad(BLOCK);
        }
    }

    /// Sets the limit on the total size of the session's traces.
    pub(crate) fn limit_by(&mut self, bound: Arc<SizeLimit>) {
        self.size_limit = Some(bound);
    }

    /// Returns the number of bytes that the session's limit permits to write.
    pub(crate) fn room(&self) -> u64 {
        self.size_limit.as_ref().map_or(u64::MAX, |bound| bound.room())
    }

    /// Sets the chunk that the trace belongs to.
    pub(crate) fn count_in(&mut self, chunk: ChunkMeter) {
        self.chunk = chunk;
    }

    /// Returns the number of the chunk that the trace belongs to.
    pub(crate) fn chunk(&self) -> u64 {
        self.chunk.sequence
    }

    /// Returns the size of a stream's file in bytes; 0 if the file is not open.
    pub(crate) fn size(&self, key: StreamKey) -> u64 {
        self.files.get(&key).map_or(0, |file| file.size)
    }

    /// Returns the time of the last event in a stream's file, by the program's clock.
    pub(crate) fn last_time(&self, key: StreamKey) -> Option<u64> {
        self.files.get(&key)?.last.map(|header| header.last_time)
    }

    /// Returns the paths of a stream's file and of its index.
    fn paths(&self, StreamKey { stream, cpu }: StreamKey) -> (PathBuf, PathBuf) {
        let channel = self.streams.iter().find(|one| one.number == stream);
        let name = format!("{}_{cpu}", channel.map_or("", |channel| &channel.name));
        (self.directory.join(&name), index_path(&self.directory, &name))
    }

    /// Begins the trace, unless it has begun. Makes the directory; if its name is taken, appends a
    /// number to the name.
    fn begin(&mut self) -> io::Result<()> {
        if self.has_begun {
            return Ok(());
        }
        let wanted = self.directory.clone();
        let mut again = 1;
        while let Err(error) = self.output.create_directory(&self.directory) {
            if error.kind() != io::ErrorKind::AlreadyExists || again > SAME_NAME_MAX {
                self.directory = wanted;
                return Err(error);
            }
            again += 1;
            let name = wanted.file_name().unwrap_or_default().to_string_lossy();
            self.directory = wanted.with_file_name(format!("{name}-{again}"));
        }
        // The next agent must find the note if the trace has files.
        self.note_directory();
        if self.note.is_some()
            && let Err(error) = self.begin_recording()
        {
            // The file system may have room for another attempt later.
            let half = std::mem::replace(&mut self.directory, wanted);
            let _ = self.output.remove_directory(&half.join("index"));
            let _ = self.output.remove_directory(&half);
            return Err(error);
        }
        self.has_begun = true;
        Ok(())
    }

    /// Makes the directory of index files and the mark. Without the mark, readers would take an
    /// unfinished trace for a complete one, and the forwarder would remove it.
    fn begin_recording(&mut self) -> io::Result<()> {
        self.output.create_directory(&self.directory.join("index"))?;
        self.mark = Some(self.output.create_file(&self.directory.join(MARK))?);
        self.mark.iter().for_each(lock);
        Ok(())
    }

    /// Ends the trace. Keeps the mark if `misses` is set: the trace then lacks events without
    /// counting them.
    pub(crate) fn end(&mut self, misses: bool) {
        let mark = self.directory.join(MARK);
        if self.mark.take().is_some() && !misses {
            let _ = self.output.remove_file(&mark);
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Appends a note of the trace's directory for the next agent.
    pub(crate) fn note_directory(&mut self) {
        if let Some(note) = &mut self.note {
            note.note(&self.directory);
        }
    }

    pub(crate) fn note(&self) -> Option<&Note> {
        self.note.as_ref()
    }

    /// Adds the stream of a channel, unless the trace has a stream with this number.
    pub(crate) fn add_channel(&mut self, number: u32, added: &SessionChannel) {
        let Channel { name, contexts, .. } = &added.channel;
        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.number == number) {
            // A resumed trace has no names of channels in its metadata.
            name.clone_into(&mut stream.name);
        } else {
            let (name, types) = (name.to_owned(), HashSet::new());
            self.streams.push(Stream { number, name, types });
            let domain = if added.is_kernel { Domain::Kernel } else { Domain::Programs };
            self.schema.streams.push(metadata::stream(number, contexts, domain));
            self.has_more = true;
        }
    }

    /// Returns whether a stream describes the event type with this index.
    pub(crate) fn has_event(&self, stream: u32, index: u32) -> bool {
        let stream = self.streams.iter().find(|known| known.number == stream);
        stream.is_some_and(|known| known.types.contains(&index))
    }

    /// Adds the description of an event type to a stream, unless the stream has a type with this
    /// index.
    pub(crate) fn add_event(&mut self, stream: u32, event_type: &EventType) {
        let mut streams = self.streams.iter_mut().zip(&mut self.schema.streams);
        let Some((known, class)) = streams.find(|(known, _)| known.number == stream) else {
            return;
        };
        if known.types.insert(event_type.index) {
            class.events.push(metadata::event(event_type));
            self.has_more = true;
        }
    }

    /// Writes the metadata file, unless it describes the whole schema. Fails with
    /// [`io::ErrorKind::ResourceBusy`] if the writing is postponed.
    fn write_metadata(&mut self) -> io::Result<()> {
        if self.has_more {
            let more =
                write_additions(&self.schema, &mut self.written).map_err(io::Error::other)?;
            self.text.push_str(&more);
            self.has_more = false;
        }
        if self.text_on_disk == self.text.len() && self.text_on_disk > 0 {
            return Ok(());
        }
        let begun = Instant::now();
        let account = self.account.as_ref().filter(|_| self.text_on_disk > LARGE);
        if let Some(account) = account
            && self.may_postpone
            && !account.has_metadata_time(begun)
        {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let (new, path) = (self.directory.join(METADATA_NEW), self.directory.join(METADATA));
        let text = self.text.as_bytes();
        // Removes the temporary file of an earlier agent that was killed, or of another process.
        let removed = self.output.remove_file(&new);
        removed.or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        let written = self.output.create_file(&new).and_then(|file| file.write_all_at(text, 0));
        let renamed = written.and_then(|()| self.output.rename(&new, &path));
        if renamed.is_err() {
            let _ = self.output.remove_file(&new);
        }
        renamed?;
        if let Some(account) = account {
            account.spend_metadata(begun.elapsed());
        }
        self.chunk.add((self.text.len() - self.text_on_disk) as u64);
        self.text_on_disk = self.text.len();
        Ok(())
    }

    /// Makes a stream's file and its index, unless they are open.
    fn open_stream(&mut self, key: StreamKey) -> io::Result<()> {
        if self.files.contains_key(&key) {
            return Ok(());
        }
        let (data, index) = self.paths(key);
        let file = match self.direct {
            None => self.output.create_file(&data)?,
            Some(_) => self.output.create_direct_file(&data)?,
        };
        let index = match self.note.is_some().then(|| self.create_index(&index)).transpose() {
            Ok(index) => index.map(|index| (index, INDEX_HEADER_SIZE as u64)),
            Err(error) => {
                // The file was just made, so it holds no packets.
                let _ = self.output.remove_file(&data);
                return Err(error);
            }
        };
        let data = Arc::new(file);
        self.files.insert(key, StreamFile { data, size: 0, last: None, index });
        Ok(())
    }

    fn create_index(&self, path: &Path) -> io::Result<File> {
        let header = INDEX_LAYOUT.header();
        let file = self.output.create_file(path)?;
        let written = file.write_all_at(&header, 0);
        if written.is_err() {
            let _ = self.output.remove_file(path);
        }
        written.map(|()| file)
    }

    /// Removes the packets from all open files of streams, and the entries from their indexes.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        // All files are cleared, even if some of them fail.
        self.files.values_mut().map(StreamFile::clear).fold(Ok(()), Result::and)
    }

    /// Appends packets to a stream's file: all packets, or none if an error occurs. `rings` holds
    /// the events of packets that were not copied. The schema must describe the types of the
    /// packets' events.
    pub(crate) fn append(
        &mut self,
        key: StreamKey,
        packets: &mut Packets,
        rings: &Rings,
    ) -> io::Result<()> {
        packets.set_uuid(self.uuid);
        self.begin()?;
        self.write_metadata()?;
        if !self.files.contains_key(&key) {
            // Processors that are idle get files too.
            for idle in online_processors() {
                self.open_stream(StreamKey { cpu: idle as u32, ..key })?;
            }
            self.open_stream(key)?;
        }
        match self.files.get_mut(&key) {
            Some(file) => {
                let before = file.size;
                if let Some(bound) = &self.size_limit {
                    bound.check(packets.size())?;
                    self.space.take(&file.data, packets.size())?;
                }
                file.append(packets, rings, self.direct.as_deref())?;
                self.size_limit.iter().for_each(|bound| bound.add(packets.size()));
                self.chunk.add(packets.size());
                if let Some(behind) = self.page_cache.as_ref().filter(|_| self.direct.is_none()) {
                    behind.queue_due(&file.data, before..file.size);
                }
                Ok(())
            }
            None => Ok(()),
        }
    }
}

impl StreamFile {
    /// Searches for the last packet before `end`: first in the index, then by the headers of
    /// packets that the index lacks. Truncates the file after that packet, and completes the index.
    fn find_end(&mut self, end: u64) -> io::Result<()> {
        let Some((index, index_size)) = &mut self.index else { return Ok(()) };
        let entries = INDEX_LAYOUT.entries_in(index.metadata()?.len());
        let read_entry = |index: &File, number: u64| -> io::Result<Option<IndexEntry>> {
            let mut bytes = vec![0; INDEX_LAYOUT.entry_size()];
            index.read_exact_at(&mut bytes, INDEX_LAYOUT.offset_of(number))?;
            Ok(IndexEntry::decode(INDEX_LAYOUT, &bytes).ok())
        };
        // Searches from the end for an entry whose packet ends within `end` bytes. The entries at
        // the start may have been removed with their packets, and are zero.
        let mut last = None;
        for number in (0..entries).rev().take(UNINDEXED_MAX as usize) {
            let entry = read_entry(index, number)?.filter(|entry| {
                let after = entry.offset.checked_add(entry.packet.packet_bits / 8);
                after.is_some_and(|after| after <= end)
            });
            if let Some(entry) = entry {
                last = Some((number, entry));
                break;
            }
        }
        let header_at = |data: &File, offset: u64| -> io::Result<Option<Header>> {
            let mut bytes = [0; packet::SIZE];
            data.read_exact_at(&mut bytes, offset)?;
            let header = Header::from_bytes(&bytes)
                .filter(|header| header.packet_size >= packet::SIZE as u64)
                .filter(|header| offset.saturating_add(header.packet_size) <= end);
            Ok(header)
        };
        if let Some((number, entry)) = last {
            (self.size, *index_size) = (entry.offset, INDEX_LAYOUT.offset_of(number));
            // Readers may have this entry already, so it stays if its packet does.
            if self.size < end
                && let Some(header) = header_at(&self.data, self.size)?
            {
                self.size += header.packet_size;
                self.last = Some(header);
                *index_size = INDEX_LAYOUT.offset_of(number + 1);
            }
        }
        index.set_len(*index_size)?;
        // The index may lack packets of the last drain.
        for _ in 0..UNINDEXED_MAX {
            if self.size >= end {
                break;
            }
            let Some(header) = header_at(&self.data, self.size)? else { break };
            let mut entry = Vec::new();
            index_entry(self.size, &header, &mut entry);
            if let Some((index, size)) = &mut self.index {
                index.write_all_at(&entry, *size)?;
                *size += entry.len() as u64;
            }
            self.size += header.packet_size;
            self.last = Some(header);
        }
        // The bytes after the last packet belong to an incomplete packet.
        self.data.set_len(self.size)
    }

    fn clear(&mut self) -> io::Result<()> {
        if let Some((index, size)) = &mut self.index {
            *size = INDEX_HEADER_SIZE as u64;
            index.set_len(*size)?;
        }
        (self.size, self.last) = (0, None);
        self.data.set_len(0)
    }

    fn append(
        &mut self,
        packets: &Packets,
        rings: &Rings,
        direct: Option<&DirectWriter>,
    ) -> io::Result<()> {
        let mut entries = Vec::new();
        let mut offset = self.size;
        for header in packets.headers() {
            index_entry(offset, header, &mut entries);
            offset += header.packet_size;
        }
        let written = match direct {
            None => rings.write(packets, &self.data, self.size),
            Some(direct) => direct.write(packets, &self.data, self.size),
        };
        let written = written.and_then(|()| match &self.index {
            Some((index, size)) => index.write_all_at(&entries, *size),
            None => Ok(()),
        });
        if written.is_err() {
            // Readers must not find an incomplete packet. If the truncation fails too, the file
            // ends in one, which readers report.
            let _ = self.data.set_len(self.size);
            if let Some((index, size)) = &self.index {
                let _ = index.set_len(*size);
            }
            return written;
        }
        self.size += packets.size();
        self.last = packets.headers().last().copied().or(self.last);
        if let Some((_, size)) = &mut self.index {
            *size += entries.len() as u64;
        }
        Ok(())
    }
}

/// Appends the index entry of a packet at `offset` in its file.
fn index_entry(offset: u64, header: &Header, entries: &mut Vec<u8>) {
    let packet = PacketIndex {
        packet_bits: header.packet_size.saturating_mul(8),
        content_bits: header.content_size.saturating_mul(8),
        begin: header.first_time,
        end: header.last_time,
        discarded: header.discarded,
        class: header.stream.into(),
    };
    let (instance, packet_sequence) = (Some(header.cpu.into()), Some(header.number));
    IndexEntry { offset, packet, instance, packet_sequence }.encode(INDEX_LAYOUT, entries);
}
