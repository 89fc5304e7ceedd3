//! Traces below a directory: their metadata, and the packets of their streams by the index files.
//!
//! ```text
//! DIRECTORY/ust/pid/NAME/metadata         text, plain or in packets; grows, or is replaced by a
//!                                         longer text
//! DIRECTORY/ust/pid/NAME/STREAM           packets
//! DIRECTORY/ust/pid/NAME/index/STREAM.idx header of 16 bytes, then an entry for each packet
//! ```

use blkkin_ctf::metadata::{self, METADATA_SIZE_MAX, unpack};
use blkkin_ctf::schema::{ByteOrder, Uuid};
use blkkin_lttng::is_component;
use blkkin_lttng::relay::Index;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A trace below the directory.
#[derive(Debug)]
pub(crate) struct SpoolTrace {
    pub(crate) directory: PathBuf,
    /// Path below the directory, with `/` between its components.
    pub(crate) path: String,
    pub(crate) uuid: Uuid,
    pub(crate) byte_order: ByteOrder,
}

/// A stream file of a trace with its index.
#[derive(Debug)]
pub(crate) struct SpoolStream {
    pub(crate) name: String,
    data: File,
    index: File,
    entry_size: usize,
    /// Number of entries that were read.
    read: u64,
}

/// A packet by its index entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpoolPacket {
    pub(crate) offset: u64,
    /// Index without the handle and the sequence number at the relay.
    pub(crate) index: Index,
}

const METADATA: &str = "metadata";
const INDEX_MAGIC: [u8; 4] = 0xc1f1_dcc1_u32.to_be_bytes();
const INDEX_HEADER_SIZE: u64 = 16;
/// Size of an entry of version 1.0, and of one with instance id and sequence number.
const ENTRY_SIZES: [usize; 2] = [56, 72];
/// Maximum depth of directories.
const DEPTH_MAX: usize = 16;
/// Maximum size of a packet in bytes.
const PACKET_BYTES_MAX: u64 = 256 << 20;

/// Returns the directories of all traces at and below `root`, in the order of their paths.
pub(crate) fn find_traces(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    find_below(root, 0, &mut found)?;
    found.sort();
    Ok(found)
}

fn find_below(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    if directory.join(METADATA).is_file() {
        found.push(directory.to_owned());
    }
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if depth < DEPTH_MAX && !is_hidden && entry.file_type()?.is_dir() {
            find_below(&entry.path(), depth + 1, found)?;
        }
    }
    Ok(())
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
        Ok(Some(SpoolTrace { directory: directory.to_owned(), path, uuid, byte_order }))
    }

    /// Reads the text of the metadata; `None` while it is empty or incomplete.
    pub(crate) fn metadata(&self) -> io::Result<Option<String>> {
        read_metadata(&self.directory)
    }

    /// Opens the stream files that have an index and whose names are not in `known`.
    pub(crate) fn new_streams(&self, known: impl Fn(&str) -> bool) -> io::Result<Vec<SpoolStream>> {
        let entries = match fs::read_dir(self.directory.join("index")) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut streams = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(".idx"));
            let Some(name) = name.filter(|name| is_component(name) && !known(name)) else {
                continue;
            };
            let index = self.directory.join("index").join(format!("{name}.idx"));
            if let Some(stream) = SpoolStream::open(name, &self.directory.join(name), &index)? {
                streams.push(stream);
            }
        }
        streams.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(streams)
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
    fn open(name: &str, data: &Path, index: &Path) -> io::Result<Option<SpoolStream>> {
        let (data, index_file) = match (File::open(data), File::open(index)) {
            (Ok(data), Ok(index)) => (data, index),
            _ => return Ok(None),
        };
        let mut header = [0; INDEX_HEADER_SIZE as usize];
        if index_file.read_exact_at(&mut header, 0).is_err() {
            // The header is not written yet.
            return Ok(None);
        }
        let wrong = || invalid(format!("{} is no index of a stream", index.display()));
        let [magic @ .., _, _, _, _, _, _, _, _, a, b, c, d] = header;
        let entry_size = u32::from_be_bytes([a, b, c, d]) as usize;
        if magic != INDEX_MAGIC || !ENTRY_SIZES.contains(&entry_size) {
            return Err(wrong());
        }
        let name = name.to_owned();
        Ok(Some(SpoolStream { name, data, index: index_file, entry_size, read: 0 }))
    }

    /// Returns the number of packets whose entries are written and not read yet.
    pub(crate) fn waiting(&self) -> io::Result<u64> {
        let entries = self.index.metadata()?.len().saturating_sub(INDEX_HEADER_SIZE);
        Ok((entries / self.entry_size as u64).saturating_sub(self.read))
    }

    /// Returns the next packet; `None` if its entry is not written yet.
    pub(crate) fn next(&mut self) -> io::Result<Option<SpoolPacket>> {
        let mut entry = [0; 72];
        let entry = entry.get_mut(..self.entry_size).unwrap_or_default();
        let offset = INDEX_HEADER_SIZE + self.read * self.entry_size as u64;
        match self.index.read_exact_at(entry, offset) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let mut fields = entry.chunks_exact(8).map(|field| {
            let field = field.try_into().unwrap_or_default();
            u64::from_be_bytes(field)
        });
        let mut field = || fields.next().unwrap_or_default();
        let offset = field();
        let mut index = Index {
            packet_bits: field(),
            content_bits: field(),
            begin: field(),
            end: field(),
            discarded: field(),
            class: field(),
            instance: Some(field()),
            packet_sequence: Some(field()),
            ..Index::default()
        };
        if self.entry_size < 72 {
            index.packet_sequence = Some(self.read);
        }
        let is_whole = index.packet_bits.is_multiple_of(8) && index.packet_bits > 0;
        let is_small = index.packet_bits / 8 <= PACKET_BYTES_MAX;
        if !is_whole || !is_small || index.content_bits > index.packet_bits {
            let (name, number) = (&self.name, self.read);
            let size = index.packet_bits;
            return Err(invalid(format!("entry {number} of {name}.idx has a size of {size} bits")));
        }
        Ok(Some(SpoolPacket { offset, index }))
    }

    /// Reads the bytes of a packet without its padding into `buffer`, and advances to the next
    /// packet.
    pub(crate) fn read(&mut self, packet: &SpoolPacket, buffer: &mut Vec<u8>) -> io::Result<()> {
        buffer.resize(packet.index.content_bits.div_ceil(8) as usize, 0);
        self.data.read_exact_at(buffer, packet.offset)?;
        self.read += 1;
        Ok(())
    }
}
