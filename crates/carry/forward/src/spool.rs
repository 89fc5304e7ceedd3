//! Traces below a directory: their metadata, and the packets of their streams by the index files.
//!
//! ```text
//! DIRECTORY/ust/pid/NAME/metadata         text, plain or in packets; grows, or is replaced by a
//!                                         longer text
//! DIRECTORY/ust/pid/NAME/STREAM           packets
//! DIRECTORY/ust/pid/NAME/index/STREAM.idx an entry for each packet
//! ```

use blkkin_ctf::metadata::{self, METADATA_SIZE_MAX, unpack};
use blkkin_ctf::schema::{ByteOrder, Uuid};
use blkkin_lttng::{INDEX_HEADER_SIZE, IndexEntry, IndexLayout, index_path, is_component};
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
    layout: IndexLayout,
    /// Number of entries that were read.
    read: u64,
}

const METADATA: &str = "metadata";
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
            if let Some(stream) = SpoolStream::open(name, &self.directory)? {
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
    fn open(name: &str, trace: &Path) -> io::Result<Option<SpoolStream>> {
        let path = index_path(trace, name);
        let (data, index) = match (File::open(trace.join(name)), File::open(&path)) {
            (Ok(data), Ok(index)) => (data, index),
            _ => return Ok(None),
        };
        let mut header = [0; INDEX_HEADER_SIZE];
        if index.read_exact_at(&mut header, 0).is_err() {
            // The header is not written yet.
            return Ok(None);
        }
        let layout = IndexLayout::decode(&header)
            .map_err(|fault| invalid(format!("{}: {fault}", path.display())))?;
        Ok(Some(SpoolStream { name: name.to_owned(), data, index, layout, read: 0 }))
    }

    /// Returns the number of packets whose entries are written and not read yet.
    pub(crate) fn waiting(&self) -> io::Result<u64> {
        let entries = self.layout.entries_in(self.index.metadata()?.len());
        Ok(entries.saturating_sub(self.read))
    }

    /// Returns the entry of the next packet; `None` if it is not written yet.
    pub(crate) fn next(&mut self) -> io::Result<Option<IndexEntry>> {
        let mut bytes = vec![0; self.layout.entry_size()];
        match self.index.read_exact_at(&mut bytes, self.layout.offset_of(self.read)) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let (name, number) = (&self.name, self.read);
        let entry = IndexEntry::decode(self.layout, &bytes)
            .map_err(|fault| invalid(format!("entry {number} of {name}.idx: {fault}")))?;
        match entry.packet.packet_bits / 8 {
            size if size <= PACKET_BYTES_MAX => Ok(Some(entry)),
            size => {
                Err(invalid(format!("entry {number} of {name}.idx has a packet of {size} bytes")))
            }
        }
    }

    /// Reads the bytes of a packet without its padding into `buffer`, and advances to the next
    /// packet.
    pub(crate) fn read(&mut self, entry: &IndexEntry, buffer: &mut Vec<u8>) -> io::Result<()> {
        buffer.resize(entry.packet.content_bits.div_ceil(8) as usize, 0);
        self.data.read_exact_at(buffer, entry.offset)?;
        self.read += 1;
        Ok(())
    }
}
