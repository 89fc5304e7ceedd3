//! A program's trace on disk, as LTTng lays it out: metadata, a file of packets for each channel and
//! processor, and an index beside each.
//!
//! Whoever reads it at any moment finds sense: metadata is replaced as a whole, before the first packet
//! that needs it is there, and packets that cannot be written whole are taken back.

use crate::clock::Rate;
use crate::metadata;
use crate::owner::Owner;
use crate::rings::{Packets, online_processors};
use blkkin_control::{Context, EventType};
use blkkin_ctf::schema::{EnvValue, Schema};
use blkkin_ctf::tsdl::{Written, write_more};
use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// What a trace says of itself.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) uuid: [u8; 16],
    pub(crate) env: Vec<(String, EnvValue)>,
    pub(crate) clock_name: &'static str,
    pub(crate) rate: Rate,
}

/// A trace that is being written. There is nothing on disk before its first packet, so that programs that
/// record nothing leave nothing.
#[derive(Debug)]
pub(crate) struct Trace {
    directory: PathBuf,
    has_begun: bool,
    owner: Owner,
    schema: Schema,
    /// Text of the metadata that is to be on disk, and how much of the schema it tells.
    text: String,
    written: Written,
    text_on_disk: usize,
    /// As the schema has them.
    streams: Vec<Stream>,
    files: HashMap<(u32, u32), StreamFile>,
    /// Whether there is an index beside each stream. Snapshots have none.
    indexed: bool,
}

/// A channel.
#[derive(Debug)]
struct Stream {
    number: u32,
    name: String,
    /// Indexes of the types that it has.
    types: HashSet<u32>,
}

#[derive(Debug)]
struct StreamFile {
    data: File,
    size: u64,
    index: Option<(File, u64)>,
}

const INDEX_HEADER: [u32; 4] = [0xc1f1_dcc1, 1, 1, INDEX_ENTRY_SIZE as u32];
const INDEX_ENTRY_SIZE: usize = 72;
/// Programs of one name and number that begin in one second.
const SAME_NAME_MAX: u32 = 1000;
const METADATA_NEW: &str = ".metadata.new";

impl Trace {
    /// One in that directory; if that is there already, in one beside it.
    pub(crate) fn new(directory: PathBuf, owner: Owner, about: About, indexed: bool) -> Trace {
        let About { uuid, env, clock_name, rate } = about;
        Trace {
            directory,
            has_begun: false,
            owner,
            schema: metadata::trace(uuid, env, clock_name, rate),
            text: String::new(),
            written: Written::default(),
            text_on_disk: 0,
            streams: Vec::new(),
            files: HashMap::new(),
            indexed,
        }
    }

    /// Makes the directory, and the files of processors that run: idle ones have one too.
    fn begin(&mut self) -> io::Result<()> {
        if self.has_begun {
            return Ok(());
        }
        let wanted = self.directory.clone();
        let mut again = 1;
        while let Err(error) = self.owner.create_directory(&self.directory) {
            if error.kind() != io::ErrorKind::AlreadyExists || again > SAME_NAME_MAX {
                self.directory = wanted;
                return Err(error);
            }
            again += 1;
            let name = wanted.file_name().unwrap_or_default().to_string_lossy();
            self.directory = wanted.with_file_name(format!("{name}-{again}"));
        }
        self.has_begun = true;
        if self.indexed {
            self.owner.create_directory(&self.directory.join("index"))?;
        }
        Ok(())
    }

    /// Adds a channel, whose stream has its number, if it is not there yet.
    pub(crate) fn add_channel(&mut self, number: u32, name: &str, contexts: &[Context]) {
        if !self.streams.iter().any(|stream| stream.number == number) {
            let (name, types) = (name.to_owned(), HashSet::new());
            self.streams.push(Stream { number, name, types });
            self.schema.streams.push(metadata::stream(number, contexts));
        }
    }

    /// Adds a type of events to a stream, if it has none of that index.
    pub(crate) fn add_event(&mut self, stream: u32, event_type: &EventType) {
        let mut streams = self.streams.iter_mut().zip(&mut self.schema.streams);
        let Some((known, class)) = streams.find(|(known, _)| known.number == stream) else {
            return;
        };
        if known.types.insert(event_type.index) {
            class.events.push(metadata::event(event_type));
        }
    }

    /// Brings the metadata on disk up to date.
    fn write_metadata(&mut self) -> io::Result<()> {
        let more = write_more(&self.schema, &mut self.written).map_err(io::Error::other)?;
        self.text.push_str(&more);
        if self.text_on_disk == self.text.len() && self.text_on_disk > 0 {
            return Ok(());
        }
        let (new, path) = (self.directory.join(METADATA_NEW), self.directory.join("metadata"));
        let text = self.text.as_bytes();
        self.owner.act(|| {
            fs::write(&new, text)
                .and_then(|()| fs::rename(&new, &path))
                .inspect_err(|_| drop(fs::remove_file(&new)))
        })?;
        self.text_on_disk = self.text.len();
        Ok(())
    }

    /// Makes a stream's file, if it has none.
    fn open_stream(&mut self, stream: u32, cpu: u32) -> io::Result<()> {
        if self.files.contains_key(&(stream, cpu)) {
            return Ok(());
        }
        let channel = self.streams.iter().find(|one| one.number == stream);
        let name = format!("{}_{cpu}", channel.map_or("", |channel| &channel.name));
        let data = self.directory.join(&name);
        let index = self.directory.join("index").join(format!("{name}.idx"));
        let create = |path: &Path| OpenOptions::new().write(true).create_new(true).open(path);
        let file = self.owner.act(|| {
            let data = create(&data)?;
            let index = match self.indexed {
                true => {
                    let header: Vec<u8> =
                        INDEX_HEADER.iter().flat_map(|word| word.to_be_bytes()).collect();
                    let file = create(&index)?;
                    file.write_all_at(&header, 0)?;
                    Some((file, header.len() as u64))
                }
                false => None,
            };
            io::Result::Ok(StreamFile { data, size: 0, index })
        });
        let file = file.inspect_err(|_| {
            self.owner.act(|| drop((fs::remove_file(&data), fs::remove_file(&index))));
        })?;
        self.files.insert((stream, cpu), file);
        Ok(())
    }

    /// Forgets all packets.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.files.values_mut().try_for_each(StreamFile::clear)
    }

    /// Appends packets to a stream, all or none of them. What they need must be in the metadata.
    pub(crate) fn append(&mut self, stream: u32, cpu: u32, packets: &Packets) -> io::Result<()> {
        self.begin()?;
        self.write_metadata()?;
        if !self.files.contains_key(&(stream, cpu)) {
            // Processors that are idle have files too.
            for idle in online_processors() {
                self.open_stream(stream, idle as u32)?;
            }
            self.open_stream(stream, cpu)?;
        }
        match self.files.get_mut(&(stream, cpu)) {
            Some(file) => file.append(packets),
            None => Ok(()),
        }
    }
}

impl StreamFile {
    fn clear(&mut self) -> io::Result<()> {
        if let Some((index, size)) = &mut self.index {
            *size = 4 * INDEX_HEADER.len() as u64;
            index.set_len(*size)?;
        }
        self.size = 0;
        self.data.set_len(0)
    }

    fn append(&mut self, packets: &Packets) -> io::Result<()> {
        let mut entries = Vec::new();
        let mut offset = self.size;
        for header in &packets.headers {
            let words = [
                offset,
                header.packet_size * 8,
                header.content_size * 8,
                header.first_time,
                header.last_time,
                header.discarded,
                header.stream.into(),
                header.cpu.into(),
                header.number,
            ];
            entries.extend(words.iter().flat_map(|word| word.to_be_bytes()));
            offset += header.packet_size;
        }
        let written =
            self.data.write_all_at(&packets.bytes, self.size).and_then(|()| match &self.index {
                Some((index, size)) => index.write_all_at(&entries, *size),
                None => Ok(()),
            });
        if written.is_err() {
            // Readers must not take a part for a packet. If not even that is possible, the rest of a
            // packet is missing at the file's end, which readers report.
            let _ = self.data.set_len(self.size);
            if let Some((index, size)) = &self.index {
                let _ = index.set_len(*size);
            }
            return written;
        }
        self.size += packets.bytes.len() as u64;
        if let Some((_, size)) = &mut self.index {
            *size += entries.len() as u64;
        }
        Ok(())
    }
}
