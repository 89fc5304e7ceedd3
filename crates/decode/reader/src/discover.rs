//! Discovery of traces. A directory with a `metadata` file is a trace, and a directory above traces
//! stands for all traces below it. Directories with the same trace UUID (chunks of a rotation,
//! snapshots) are opened as one trace. A single stream file is read with the metadata in its
//! directory. A live trace is opened in memory.

use crate::error::{Problem, ProblemKind};
use crate::file::StreamFile;
use crate::input::{Metadata, TraceInput};
use crate::limits::{DEPTH_MAX, STREAMS_MAX};
use crate::live::{LiveSet, LiveTrace};
use crate::live_stream::LiveStream;
use crate::measurements;
use crate::packet::{PacketRef, StreamId};
use crate::scan::{FileScan, ScanResult};
use crate::stdin;
use crate::trace::{FilePart, Stream, Trace, TraceData};
use blkkin_ctf::decode::Decoder;
use blkkin_ctf::schema::{EventClass, Schema, StreamClass};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Location in which traces are searched for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Path of a trace directory, of a directory above traces, or of a stream file.
    Path(PathBuf),
    /// Standard input. It contains metadata and then packets, or packets alone if `metadata` is
    /// given.
    Stdin {
        /// Path of the metadata file; `None` if standard input starts with metadata.
        metadata: Option<PathBuf>,
    },
    /// Trace that this process appends to in memory. Without a [`Follower`](crate::Follower), only
    /// the packets appended before the opening are read.
    Live(LiveTrace),
    /// Live traces of a set, and those that are added to it later.
    LiveSet(LiveSet),
}

/// Result of opening sources: the traces, and the problems found.
#[derive(Debug, Default)]
pub struct OpenTraces {
    /// Traces that could be opened, in the order of their ids.
    pub traces: Vec<Arc<Trace>>,
    /// Problems that kept a trace, file or stream from being opened, and warnings about opened
    /// traces.
    pub problems: Vec<Problem>,
}

impl OpenTraces {
    /// Corrects times by measurements of clocks that are beside the traces.
    pub fn align(&mut self) {
        self.problems.extend(self.traces.iter().flat_map(|trace| measurements::align(trace)));
    }
}

/// Opens all traces of `sources`, with ids from 0 on.
pub fn open(sources: &[Source]) -> OpenTraces {
    open_numbered(sources, 0)
}

/// Opens all traces of `sources`. The ids of the traces start at `first_id`.
pub(crate) fn open_numbered(sources: &[Source], first_id: usize) -> OpenTraces {
    let mut opened = OpenTraces::default();
    let mut found = Vec::new();
    for source in sources {
        match source {
            Source::Path(path) => match find(path) {
                Ok(directories) => found.extend(directories),
                Err(problem) => opened.problems.push(problem),
            },
            Source::Stdin { metadata } => match stdin::open(metadata.as_deref()) {
                Ok(directory) => found.push(directory),
                Err(problem) => opened.problems.push(problem),
            },
            Source::Live(trace) => found.extend(trace.input()),
            Source::LiveSet(set) => {
                found.extend(set.traces().iter().filter_map(LiveTrace::input));
            }
        }
    }
    open_inputs(found, first_id, &mut opened);
    opened
}

fn find(given: &Path) -> Result<Vec<TraceInput>, Problem> {
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
    directories.into_iter().map(|path| directory_input(given, path)).collect()
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

fn directory_input(given: &Path, path: PathBuf) -> Result<TraceInput, Problem> {
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
    Ok(TraceInput {
        path,
        source_path: given.to_owned(),
        metadata,
        files,
        shared: false,
        alignment: None,
    })
}

fn find_file(given: &Path) -> Result<TraceInput, Problem> {
    let directory = given.parent().unwrap_or(Path::new(""));
    let metadata = directory.join("metadata");
    if !metadata.is_file() || given.file_name().is_some_and(|name| name == "metadata") {
        return Err(Problem::new(given, None, ProblemKind::NoTrace));
    }
    Ok(TraceInput {
        path: directory.to_owned(),
        source_path: given.to_owned(),
        metadata: Metadata::File(metadata),
        files: vec![Arc::new(StreamFile::new(given.to_owned()))],
        shared: false,
        alignment: None,
    })
}

/// Inputs that are opened as one trace: all with the same UUID, or one without a UUID.
struct Group {
    /// Schema of the longest metadata. Metadata only grows, so this schema describes all streams,
    /// except after a [`ProblemKind::MetadataMismatch`].
    schema: Schema,
    metadata_size: usize,
    /// Directory that has the longest metadata.
    described_by: PathBuf,
    members: Vec<TraceInput>,
}

impl Group {
    fn add(&mut self, found: TraceInput) {
        match self.members.iter_mut().find(|other| other.path == found.path) {
            Some(same) if !found.shared => {
                // A stream file and its directory are both sources.
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

/// Returns true if packets that `part` describes can be read with `schema`, which may contain
/// further classes.
fn describes(schema: &Schema, part: &Schema) -> bool {
    let has_stream = |stream: &StreamClass| {
        let same = schema.streams.iter().find(|other| other.id == stream.id);
        same.is_some_and(|same| {
            let events: HashMap<u64, &EventClass> =
                same.events.iter().map(|event| (event.id, event)).collect();
            same.packet_context == stream.packet_context
                && same.event_header == stream.event_header
                && same.common_context == stream.common_context
                && stream.events.iter().all(|event| events.get(&event.id) == Some(&event))
        })
    };
    schema.trace.packet_header == part.trace.packet_header
        && part.clocks.iter().all(|clock| schema.clocks.contains(clock))
        && part.streams.iter().all(has_stream)
}

/// Opens the found inputs. Inputs with the same UUID become one trace.
fn open_inputs(found: Vec<TraceInput>, first_id: usize, opened: &mut OpenTraces) {
    let mut groups: Vec<Group> = Vec::new();
    for mut found in found {
        let (schema, metadata_size) = match found.parse(&mut opened.problems) {
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
                let is_longer = group.metadata_size < metadata_size;
                let (long, short) =
                    if is_longer { (&schema, &group.schema) } else { (&group.schema, &schema) };
                if !describes(long, short)
                    && let Some(uuid) = uuid
                {
                    let (path, described_by) = match is_longer {
                        true => (&group.described_by, &found.path),
                        false => (&found.path, &group.described_by),
                    };
                    let kind =
                        ProblemKind::MetadataMismatch { described_by: described_by.clone(), uuid };
                    opened.problems.push(Problem::new(path, None, kind));
                }
                if is_longer {
                    (group.schema, group.metadata_size) = (schema, metadata_size);
                    group.described_by = found.path.clone();
                }
                group.add(found);
            }
            None => {
                let described_by = found.path.clone();
                groups.push(Group { schema, metadata_size, described_by, members: vec![found] });
            }
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

fn open_trace(
    id: usize,
    decoder: Decoder,
    group: &[TraceInput],
    problems: &mut Vec<Problem>,
) -> Trace {
    let alignment = group.first().and_then(|found| found.alignment.clone());
    let data = Arc::new(TraceData::new(decoder, alignment));
    let mut streams: BTreeMap<(u64, Option<u64>, usize), Stream> = BTreeMap::new();
    for found in group {
        for file in &found.files {
            for FileStream { first: packet, runs } in
                file_streams(&data, file, found.shared, problems)
            {
                let class = packet.packet.stream;
                let class_id = data.decoder.schema().streams[class].id;
                let instance = packet.packet.instance;
                // Without a stream id or a begin, it is unknown which files form a stream, or in
                // which order, so each file is a stream. In a live trace each file is a stream in
                // any case.
                let joined =
                    instance.is_some() && packet.packet.begin.is_some() && file.live().is_none();
                let unique = if joined { 0 } else { streams.len() + 1 };
                let stream =
                    streams.entry((class_id, instance, unique)).or_insert_with(|| Stream {
                        class,
                        class_id,
                        instance,
                        name: file.path().display().to_string(),
                        files: Vec::new(),
                    });
                let first = (packet.packet.begin, packet.packet.seq);
                stream.files.push(FilePart { file: file.clone(), first, runs });
            }
        }
    }
    let name = name(data.decoder.schema(), group);
    let path = group[0].path.clone();
    Trace { id, path, name, streams: streams.into_values().collect(), data }
}

/// Packets that one stream has in a file.
struct FileStream {
    first: PacketRef,
    /// Byte ranges of the stream's packets; `None` if no packets of other streams were found in the
    /// file.
    runs: Option<Arc<[Range<u64>]>>,
}

/// Maximum number of recorded runs in one file; a run is a byte range of adjacent packets of one
/// stream. If the file has more runs, each stream scans the file from its last recorded run on.
const RUNS_MAX: usize = 1 << 20;

/// Returns the stream of a live trace's file, with the first packet that has a sound header.
fn live_stream(
    data: &TraceData,
    file: &Arc<StreamFile>,
    live: &LiveStream,
    problems: &mut Vec<Problem>,
) -> Vec<FileStream> {
    let scan = FileScan::new(data, file.clone());
    let mut scan = scan.restart_at(data, live.identity_start(), 0);
    let mut first_problem = None;
    loop {
        match scan.next(data) {
            Ok(ScanResult::Packet(first)) => {
                live.set_identity(first.offset, first.packet.first_event.div_ceil(8));
                return vec![FileStream { first: *first, runs: None }];
            }
            Err(problem) => {
                first_problem.get_or_insert(problem);
                if scan.skip_damaged_packet() {
                    scan.offset = scan.offset.max(live.start());
                    continue;
                }
            }
            Ok(ScanResult::End | ScanResult::TruncatedHeader(_)) => {}
        }
        // With a sound packet, damaged packets before it are reported when the stream is read.
        problems.extend(first_problem);
        return Vec::new();
    }
}

/// Returns the streams that have packets in a file. On standard input, or in a trace with several
/// stream classes, a file may have several streams. In all other cases only the first packet is
/// read.
fn file_streams(
    data: &TraceData,
    file: &Arc<StreamFile>,
    shared: bool,
    problems: &mut Vec<Problem>,
) -> Vec<FileStream> {
    if let Some(live) = file.live() {
        return live_stream(data, file, live, problems);
    }
    let mut scan = FileScan::new(data, file.clone());
    let looks_at_all = shared || data.decoder.schema().streams.len() > 1;
    let mut part_of: HashMap<StreamId, usize> = HashMap::new();
    let mut firsts: Vec<PacketRef> = Vec::new();
    let mut runs: Vec<Vec<Range<u64>>> = Vec::new();
    let (mut last, mut run_count) = (None, 0);
    loop {
        let packet = match scan.next(data) {
            Ok(ScanResult::Packet(packet)) => *packet,
            Ok(ScanResult::End) => break,
            Ok(ScanResult::TruncatedHeader(problem)) | Err(problem) => {
                // A problem after the first packet is reported when the stream is read.
                problems.extend(firsts.is_empty().then_some(problem));
                break;
            }
        };
        let (start, end) = (packet.offset, packet.offset + packet.size);
        let identity = packet.stream_id();
        let part = match part_of.get(&identity) {
            Some(&part) => part,
            None if firsts.len() == STREAMS_MAX => {
                let message = format!("the file has packets of more than {STREAMS_MAX} streams");
                let kind = ProblemKind::Data(message);
                problems.push(Problem::new(file.path(), Some(start), kind));
                break;
            }
            None => {
                part_of.insert(identity, firsts.len());
                firsts.push(packet);
                runs.push(Vec::new());
                firsts.len() - 1
            }
        };
        if !looks_at_all {
            break;
        }
        match runs[part].last_mut() {
            Some(run) if last == Some(part) => run.end = end,
            _ if run_count < RUNS_MAX => {
                runs[part].push(start..end);
                run_count += 1;
            }
            _ => {
                runs.iter_mut()
                    .filter_map(|runs| runs.last_mut())
                    .for_each(|run| run.end = u64::MAX);
                break;
            }
        }
        last = Some(part);
    }
    // The stream of the last scanned packet also reads the bytes after that packet, and reports
    // problems there.
    if let Some(run) = last.and_then(|last| runs[last].last_mut()) {
        run.end = u64::MAX;
    }
    let is_mixed = firsts.len() > 1;
    let parts = firsts.into_iter().zip(runs);
    parts.map(|(first, runs)| FileStream { first, runs: is_mixed.then(|| runs.into()) }).collect()
}

/// Returns the trace's name as in babeltrace2: the host name if known, then the path relative to
/// the path that the user gave. A trace of several directories has no path in its name.
fn name(schema: &Schema, group: &[TraceInput]) -> String {
    let [found, others @ ..] = group else { return String::new() };
    let way = found.path.strip_prefix(&found.source_path).unwrap_or(Path::new(""));
    let way = if others.is_empty() { way.display().to_string() } else { String::new() };
    match (schema.trace.env_str("hostname"), way.as_str()) {
        (Some(hostname), "") => hostname.to_owned(),
        (Some(hostname), way) => format!("{hostname}/{way}"),
        (None, _) => way,
    }
}
