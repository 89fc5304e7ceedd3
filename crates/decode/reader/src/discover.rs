//! Finds traces: a directory with a `metadata` file is one, and any directory above it leads to
//! it. Directories with the same trace UUID (chunks of a rotation, snapshots) are opened as one
//! trace; a stream file given by itself is read with the metadata beside it.

use crate::error::{Problem, ProblemKind};
use crate::file::StreamFile;
use crate::packets::WaitingFile;
use crate::scan::{FileScan, PacketRef, Scan};
use crate::trace::{Stream, Trace, TraceData};
use blkkin_ctf::decode::Decoder;
use blkkin_ctf::metadata;
use blkkin_ctf::schema::Schema;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Something to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A trace directory, a directory above some, or a stream file.
    Path(PathBuf),
    /// Metadata followed by packets, or packets alone if the metadata is given.
    Stdin {
        /// The metadata file.
        metadata: Option<PathBuf>,
    },
}

/// What was found.
#[derive(Debug, Default)]
pub struct Opened {
    /// The traces.
    pub traces: Vec<Arc<Trace>>,
    /// What could not be opened.
    pub problems: Vec<Problem>,
}

/// Deepest directory nesting that is searched.
pub(crate) const DEPTH_MAX: usize = 32;

/// Opens all traces of `sources`.
pub fn open(sources: &[Source]) -> Opened {
    open_numbered(sources, 0)
}

/// Opens all traces of `sources`, and numbers them from `first_id`.
pub(crate) fn open_numbered(sources: &[Source], first_id: usize) -> Opened {
    let mut opened = Opened::default();
    let mut found = Vec::new();
    for source in sources {
        match source {
            Source::Path(path) => match find(path) {
                Ok(directories) => found.extend(directories),
                Err(problem) => opened.problems.push(problem),
            },
            Source::Stdin { metadata } => match crate::stdin::open(metadata.as_deref()) {
                Ok(directory) => found.push(directory),
                Err(problem) => opened.problems.push(problem),
            },
        }
    }
    open_found(found, first_id, &mut opened);
    opened
}

/// A directory (or the like) that holds metadata and streams.
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    /// The path as it was given, which is part of the trace's name.
    pub(crate) given: PathBuf,
    pub(crate) metadata: Metadata,
    pub(crate) files: Vec<Arc<StreamFile>>,
    /// Whether packets of several streams may share a file.
    pub(crate) shared: bool,
}

/// Where metadata is. Files are read one at a time, when it is their turn to be parsed.
pub(crate) enum Metadata {
    File(PathBuf),
    Bytes(Vec<u8>),
}

impl Metadata {
    fn read(self) -> Result<Vec<u8>, Problem> {
        match self {
            Metadata::File(path) => read_metadata(&path),
            Metadata::Bytes(bytes) => Ok(bytes),
        }
    }
}

impl Found {
    /// The schema, and how many bytes of metadata it comes from, which are forgotten.
    fn parse(&mut self) -> Result<(Schema, usize), Problem> {
        let nothing = Metadata::Bytes(Vec::new());
        let bytes = std::mem::replace(&mut self.metadata, nothing).read()?;
        let size = bytes.len();
        let schema = metadata::parse(bytes).map_err(|error| {
            let kind = ProblemKind::Metadata(error.to_string());
            Problem::new(&self.path.join("metadata"), None, kind)
        })?;
        Ok((schema, size))
    }
}

fn find(given: &Path) -> Result<Vec<Found>, Problem> {
    let kind = fs::metadata(given).map_err(|error| Problem::io(given, "open", &error))?;
    if !kind.is_dir() {
        return find_file(given).map(|found| vec![found]);
    }
    let mut directories = Vec::new();
    search(given, 0, &mut directories)?;
    if directories.is_empty() {
        return Err(Problem::new(given, None, ProblemKind::NoTrace));
    }
    directories.sort();
    directories.into_iter().map(|path| found_directory(given, path)).collect()
}

fn search(path: &Path, depth: usize, directories: &mut Vec<PathBuf>) -> Result<(), Problem> {
    if path.join("metadata").is_file() {
        directories.push(path.to_owned());
    }
    if depth == DEPTH_MAX {
        return Ok(());
    }
    for entry in entries(path)? {
        // `index` holds LTTng's packet indexes, never a trace.
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory && entry.file_name() != "index" {
            search(&entry.path(), depth + 1, directories)?;
        }
    }
    Ok(())
}

fn entries(path: &Path) -> Result<Vec<fs::DirEntry>, Problem> {
    let problem = |error| Problem::io(path, "read directory", &error);
    let entries: Result<Vec<_>, _> = fs::read_dir(path).map_err(problem)?.collect();
    entries.map_err(problem)
}

fn found_directory(given: &Path, path: PathBuf) -> Result<Found, Problem> {
    let metadata = Metadata::File(path.join("metadata"));
    let mut files: Vec<PathBuf> = entries(&path)?
        .into_iter()
        .filter(|entry| {
            let name = entry.file_name();
            name != "metadata" && !name.as_encoded_bytes().starts_with(b".")
        })
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    let files = files.into_iter().map(|path| Arc::new(StreamFile::new(path))).collect();
    Ok(Found { path, given: given.to_owned(), metadata, files, shared: false })
}

fn find_file(given: &Path) -> Result<Found, Problem> {
    let directory = given.parent().unwrap_or(Path::new(""));
    let metadata = directory.join("metadata");
    if !metadata.is_file() || given.file_name().is_some_and(|name| name == "metadata") {
        return Err(Problem::new(given, None, ProblemKind::NoTrace));
    }
    Ok(Found {
        path: directory.to_owned(),
        given: given.to_owned(),
        metadata: Metadata::File(metadata),
        files: vec![Arc::new(StreamFile::new(given.to_owned()))],
        shared: false,
    })
}

pub(crate) fn read_metadata(path: &Path) -> Result<Vec<u8>, Problem> {
    let size = fs::metadata(path).map_err(|error| Problem::io(path, "open", &error))?.len();
    if size > metadata::METADATA_SIZE_MAX as u64 {
        let limit = metadata::METADATA_SIZE_MAX >> 20;
        let kind = ProblemKind::Metadata(format!("larger than {limit} MiB"));
        return Err(Problem::new(path, None, kind));
    }
    fs::read(path).map_err(|error| Problem::io(path, "read", &error))
}

/// The directories of one trace.
struct Group {
    /// That of the longest metadata, which only grows: it describes all of the streams.
    schema: Schema,
    metadata_size: usize,
    members: Vec<Found>,
}

impl Group {
    fn add(&mut self, found: Found) {
        match self.members.iter_mut().find(|other| other.path == found.path) {
            Some(same) if !found.shared => {
                // A stream file of a directory that was given before.
                for file in found.files {
                    if same.files.iter().all(|other| other.path() != file.path()) {
                        same.files.push(file);
                    }
                }
            }
            _ => self.members.push(found),
        }
    }
}

/// Opens what was found, as one trace for each UUID.
fn open_found(found: Vec<Found>, first_id: usize, opened: &mut Opened) {
    let mut groups: Vec<Group> = Vec::new();
    for mut found in found {
        let (schema, metadata_size) = match found.parse() {
            Ok(parsed) => parsed,
            Err(problem) => {
                opened.problems.push(problem);
                continue;
            }
        };
        let uuid = schema.trace.uuid;
        let same = |group: &&mut Group| uuid.is_some() && group.schema.trace.uuid == uuid;
        match groups.iter_mut().find(same) {
            Some(group) => {
                if group.metadata_size < metadata_size {
                    (group.schema, group.metadata_size) = (schema, metadata_size);
                }
                group.add(found);
            }
            None => groups.push(Group { schema, metadata_size, members: vec![found] }),
        }
    }
    for Group { schema, members, .. } in groups {
        let decoder = match Decoder::new(Arc::new(schema)) {
            Ok(decoder) => decoder,
            Err(error) => {
                let path = members[0].path.join("metadata");
                let kind = ProblemKind::Metadata(error.to_string());
                opened.problems.push(Problem::new(&path, None, kind));
                continue;
            }
        };
        let id = first_id + opened.traces.len();
        let trace = open_trace(id, decoder, &members, &mut opened.problems);
        opened.traces.push(Arc::new(trace));
    }
}

fn open_trace(id: usize, decoder: Decoder, group: &[Found], problems: &mut Vec<Problem>) -> Trace {
    let data = Arc::new(TraceData::new(decoder));
    let mut streams: BTreeMap<(u64, Option<u64>, usize), Stream> = BTreeMap::new();
    for found in group {
        for file in &found.files {
            let first_packets = match first_packets(&data, file, found.shared) {
                Ok(packets) => packets,
                Err(problem) => {
                    problems.push(problem);
                    continue;
                }
            };
            for packet in first_packets {
                let class = packet.packet.stream;
                let class_id = data.decoder.schema().streams[class].id;
                let instance = packet.packet.instance;
                // Without a stream id and a time there is nothing to join files by.
                let joined = instance.is_some() && packet.packet.begin.is_some();
                let unique = if joined { 0 } else { streams.len() + 1 };
                let stream =
                    streams.entry((class_id, instance, unique)).or_insert_with(|| Stream {
                        class,
                        class_id,
                        instance,
                        name: file.path().display().to_string(),
                        files: Vec::new(),
                        shared: found.shared,
                    });
                let first = (packet.packet.begin, packet.packet.seq);
                stream.files.push(WaitingFile { file: file.clone(), first });
            }
        }
    }
    let name = name(data.decoder.schema(), group);
    let path = group[0].path.clone();
    Trace { id, path, name, streams: streams.into_values().collect(), data }
}

/// The first packet of each stream in a file: of one, unless the file is shared.
fn first_packets(
    data: &TraceData,
    file: &Arc<StreamFile>,
    shared: bool,
) -> Result<Vec<PacketRef>, Problem> {
    let mut scan = FileScan::new(data, file.clone());
    let mut firsts: Vec<PacketRef> = Vec::new();
    loop {
        let packet = match scan.next(data) {
            Ok(Scan::Packet(packet)) => packet,
            Ok(Scan::End) => return Ok(firsts),
            Ok(Scan::Cut(problem)) | Err(problem) if firsts.is_empty() => return Err(problem),
            // Reported when the stream is read.
            Ok(Scan::Cut(_)) | Err(_) => return Ok(firsts),
        };
        let identity = (packet.packet.stream, packet.packet.instance);
        if !firsts.iter().any(|first| (first.packet.stream, first.packet.instance) == identity) {
            firsts.push(packet);
        }
        if !shared {
            return Ok(firsts);
        }
    }
}

/// The name that babeltrace2 gives a trace: its host's, and the way to it from the path that was
/// given.
fn name(schema: &Schema, group: &[Found]) -> String {
    let [found, others @ ..] = group else { return String::new() };
    let way = found.path.strip_prefix(&found.given).unwrap_or(Path::new(""));
    let way = if others.is_empty() { way.display().to_string() } else { String::new() };
    match (schema.trace.env_str("hostname"), way.as_str()) {
        (Some(hostname), "") => hostname.to_owned(),
        (Some(hostname), way) => format!("{hostname}/{way}"),
        (None, _) => way,
    }
}
