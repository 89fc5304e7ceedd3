//! The event consumer that writes traces. Start at [`Rewriter`].

use crate::directory::OutputDirectory;
use crate::error::Error;
use crate::stream::{StreamId, StreamWriter};
use crate::uuid;
use blkkin_ctf::encode::{self, Encoder};
use blkkin_ctf::schema::{Schema, Uuid, Version};
use blkkin_ctf::{ctf2, metadata, tsdl};
use blkkin_reader::{Consumer, Event, Loss, Stream, Trace};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// CTF version of the written traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Each trace has the version of its source trace.
    Same,
    /// All traces have this version.
    Version(Version),
}

/// Totals of the written traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of written traces.
    pub traces: u64,
    /// Number of written stream files.
    pub streams: u64,
    /// Number of written packets.
    pub packets: u64,
    /// Total size of the packets, in bytes.
    pub bytes: u64,
}

/// Consumer of events that writes traces. Call [`Rewriter::finish`] after the last event.
pub struct Rewriter {
    output: OutputDirectory,
    /// Traces being written, by id of the source trace.
    traces: HashMap<usize, OutputTrace>,
    /// Index in `streams`, by number of the source stream; `None` for a stream without events so
    /// far, and for streams of traces that are left out.
    stream_of_number: Vec<Option<usize>>,
    /// Index in `streams`, by id of the source trace and index of the stream in it.
    stream_of_index: HashMap<(usize, usize), usize>,
    streams: Vec<StreamWriter>,
    pub(crate) packet_size: usize,
    stop: Box<dyn Fn() -> bool + Send>,
    error: Option<Error>,
}

impl std::fmt::Debug for Rewriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rewriter").field("output", &self.output).finish_non_exhaustive()
    }
}

struct OutputTrace {
    directory: PathBuf,
    encoder: Arc<Encoder>,
    file_names: HashSet<String>,
    /// Ids of the written streams, by stream index. Streams without an id get the numbers by which
    /// a reader orders them, so events with equal times keep their order. If several streams have
    /// the same id, all but the first get unused ids.
    instances: Vec<u64>,
}

/// Size at which a packet without a forced end is completed, in bytes; smaller with many streams,
/// because of [`PACKETS_SIZE`].
const PACKET_SIZE: usize = 256 << 10;
/// Target for the total size of all streams' incomplete packets, in bytes. With many streams, the
/// packet size is reduced accordingly, but not below 4 KiB.
const PACKETS_SIZE: usize = 32 << 20;

impl Rewriter {
    /// Prepares to write `traces` into `root`, a directory that is empty or does not exist yet.
    /// Returns the rewriter, and an error for each trace that cannot be written in `form` and is
    /// left out. Fails if `root` is not empty or cannot be written. `stop` is polled after each
    /// event and loss; the reading ends when `stop` returns true.
    pub fn new(
        traces: &[Arc<Trace>],
        root: &Path,
        form: Form,
        stop: impl Fn() -> bool + Send + 'static,
    ) -> Result<(Rewriter, Vec<Error>), Error> {
        let stream_count: usize = traces.iter().map(|trace| trace.streams.len()).sum();
        let mut rewriter = Rewriter {
            output: OutputDirectory::create(root)?,
            traces: HashMap::new(),
            stream_of_number: Vec::new(),
            stream_of_index: HashMap::new(),
            streams: Vec::new(),
            packet_size: (PACKETS_SIZE / stream_count.max(1)).clamp(4 << 10, PACKET_SIZE),
            stop: Box::new(stop),
            error: None,
        };
        let mut errors = Vec::new();
        let uuids: Vec<_> = traces.iter().map(|trace| trace.schema().trace.uuid).collect();
        let uuids = uuid::renew(&uuids);
        let paths: Vec<&Path> = traces.iter().map(|trace| trace.path.as_path()).collect();
        for ((trace, directory), uuid) in traces.iter().zip(directories(&paths, root)).zip(uuids) {
            let prepared = prepare(trace, form, uuid);
            let prepared = prepared.map_err(|message| Error::new(&trace.path, message));
            match prepared {
                Ok((encoder, metadata)) => {
                    rewriter.output.trace(&directory, &metadata)?;
                    let output_trace = OutputTrace {
                        directory,
                        encoder: Arc::new(encoder),
                        file_names: HashSet::from(["metadata".to_owned(), "index".to_owned()]),
                        instances: instances(trace),
                    };
                    rewriter.traces.insert(trace.id, output_trace);
                }
                Err(error) => errors.push(error),
            }
        }
        Ok((rewriter, errors))
    }

    /// Completes all packets and traces. After an error, all written files are removed.
    pub fn finish(mut self) -> Result<Summary, Error> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let mut summary = Summary { traces: self.traces.len() as u64, ..Summary::default() };
        for stream in &mut self.streams {
            stream.finish(&mut self.output)?;
            summary.streams += 1;
            summary.packets += stream.packets;
            summary.bytes += stream.bytes;
        }
        self.output.complete()?;
        Ok(summary)
    }

    fn stream(&mut self, trace: &Trace, stream: &Stream) -> Option<usize> {
        let index = trace.streams.iter().position(|other| std::ptr::eq(other, stream))?;
        if let Some(&number) = self.stream_of_index.get(&(trace.id, index)) {
            return Some(number);
        }
        let out = self.traces.get_mut(&trace.id)?;
        let instance = out.instances[index];
        let base = Path::new(&stream.name).file_name().and_then(|name| name.to_str());
        let base = match base.filter(|name| !name.starts_with(['.', '<'])) {
            Some(name) if !shares_file(trace, stream) => name.to_owned(),
            _ => format!("stream{}_{instance}", stream.class_id),
        };
        let mut name = base.clone();
        let mut number = 1;
        while !out.file_names.insert(name.clone()) {
            number += 1;
            name = format!("{base}_{number}");
        }
        let path = out.directory.join(name);
        let encoder = out.encoder.clone();
        let number = self.streams.len();
        let id = StreamId { class: stream.class, instance };
        self.streams.push(StreamWriter::new(path, encoder, id, self.packet_size));
        self.stream_of_index.insert((trace.id, index), number);
        Some(number)
    }

    #[cold]
    fn new_stream(&mut self, event: &Event<'_>) -> Option<usize> {
        let number = event.stream_number();
        let stream = self.stream(event.trace(), event.stream())?;
        if self.stream_of_number.len() <= number {
            self.stream_of_number.resize(number + 1, None);
        }
        self.stream_of_number[number] = Some(stream);
        Some(stream)
    }

    fn control_flow(&self) -> ControlFlow<()> {
        match self.error.is_some() || (self.stop)() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

impl Consumer for Rewriter {
    #[inline]
    fn event(&mut self, event: &mut Event<'_>) -> ControlFlow<()> {
        let known = self.stream_of_number.get(event.stream_number()).copied().flatten();
        if let Some(stream) = known.or_else(|| self.new_stream(event))
            && let Err(error) = self.streams[stream].event(&mut self.output, event)
        {
            self.error = Some(error);
        }
        self.control_flow()
    }

    fn loss(&mut self, trace: &Trace, stream: &Stream, loss: &Loss) -> ControlFlow<()> {
        if let Some(stream) = self.stream(trace, stream)
            && let Err(error) = self.streams[stream].loss(&mut self.output, loss)
        {
            self.error = Some(error);
        }
        self.control_flow()
    }
}

/// Returns the stream ids, by index of the stream; each id is unique within its class.
fn instances(trace: &Trace) -> Vec<u64> {
    let ids = trace.stream_ids();
    let mut taken: HashSet<(u64, u64)> = ids.iter().copied().collect();
    let mut seen = HashSet::new();
    let mut next = 0;
    let unique = |(class, id)| match seen.insert((class, id)) {
        true => id,
        // Several files contain the packets of one stream, in an unknown order.
        false => {
            while !taken.insert((class, next)) {
                next += 1;
            }
            next
        }
    };
    ids.into_iter().map(unique).collect()
}

/// Returns true if other streams of the trace are in the same file.
fn shares_file(trace: &Trace, stream: &Stream) -> bool {
    trace.streams.iter().filter(|other| other.name == stream.name).count() > 1
}

/// Returns the encoder and the content of the metadata file for a trace.
fn prepare(trace: &Trace, form: Form, uuid: Option<Uuid>) -> Result<(Encoder, Vec<u8>), String> {
    let version = match form {
        Form::Same => trace.schema().version,
        Form::Version(version) => version,
    };
    let lowered = match version {
        Version::Ctf1 => encode::lower_to_ctf1(trace.decoder()),
        Version::Ctf2 => encode::lower_to_ctf2(trace.decoder()),
    };
    let mut lowered = lowered.map_err(|error| format!("cannot be written: {error}"))?;
    Arc::make_mut(&mut lowered.schema).trace.uuid = uuid;
    let metadata = metadata_file(&lowered.schema, version)?;
    let encoder = Encoder::new(lowered).map_err(|error| format!("cannot be written: {error}"))?;
    Ok((encoder, metadata))
}

fn metadata_file(schema: &Schema, version: Version) -> Result<Vec<u8>, String> {
    if version == Version::Ctf2 {
        return Ok(ctf2::write(schema).into_bytes());
    }
    let text = tsdl::write(schema).map_err(|error| format!("cannot be written: {error}"))?;
    Ok(match schema.trace.uuid {
        Some(uuid) => metadata::pack(&text, uuid, schema.trace.byte_order),
        None => text.into_bytes(),
    })
}

/// Returns a directory for each trace: the root for a single trace, else a directory below the root
/// with the trace's path without the common prefix. `trace` or a number is appended where paths are
/// equal or nested. No directory is inside another, because babeltrace2 does not search for traces
/// inside traces.
fn directories(paths: &[&Path], root: &Path) -> Vec<PathBuf> {
    if let [_] = paths {
        return vec![root.to_owned()];
    }
    let component_lists: Vec<Vec<String>> =
        paths.iter().map(|path| path_components(path)).collect();
    let first = component_lists.first().cloned().unwrap_or_default();
    let common = (0..first.len())
        .take_while(|&index| {
            component_lists.iter().all(|components| components.get(index) == first.get(index))
        })
        .count();
    let mut taken: HashSet<PathBuf> = HashSet::new();
    let mut made = Vec::with_capacity(component_lists.len());
    for components in &component_lists {
        let mut below: PathBuf = components[common..].iter().collect();
        let holds =
            |other: &Vec<String>| other.len() > components.len() && other.starts_with(components);
        if components.len() == common || component_lists.iter().any(holds) {
            below.push("trace");
        }
        let mut unique = below.clone();
        let mut number = 1;
        while !taken.insert(unique.clone()) {
            number += 1;
            let mut name = below.as_os_str().to_owned();
            name.push(format!("_{number}"));
            unique = name.into();
        }
        made.push(root.join(unique));
    }
    made
}

/// Returns the names in a path, without `<` and `>`. An existing path is canonicalized first.
fn path_components(path: &Path) -> Vec<String> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_string_lossy().replace(['<', '>'], "")),
        _ => None,
    };
    path.components().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_named_after_the_sources() {
        let check = |paths: &[&str], expected: &[&str]| {
            let paths: Vec<&Path> = paths.iter().map(Path::new).collect();
            let expected: Vec<PathBuf> =
                expected.iter().map(|name| Path::new("out").join(name)).collect();
            assert_eq!(directories(&paths, Path::new("out")), expected, "{paths:?}");
        };
        check(&["any/where"], &[""]);
        check(&["/s/ust/1", "/s/ust/2"], &["1", "2"]);
        check(&["/s/ust/1", "/s/kernel"], &["ust/1", "kernel"]);
        check(&["/a/host/ust", "/b/host/ust"], &["a/host/ust", "b/host/ust"]);
        check(&["/same", "/same", "/same"], &["trace", "trace_2", "trace_3"]);
        check(&["/a/same", "/b", "/a/same"], &["a/same", "b", "a/same_2"]);
        check(&["<stdin>", "/a"], &["stdin", "a"]);
        // No directory is inside another directory.
        check(&["/a", "/a/b", "/a/b/c"], &["trace", "b/trace", "b/c"]);
        check(&["/a/trace", "/a"], &["trace", "trace_2"]);
        check(&["/x/a", "/x/ab", "/x/a/c"], &["a/trace", "ab", "a/c"]);
    }
}
