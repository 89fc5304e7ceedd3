//! Reading of traces that are still being recorded, in directories or in memory.
//!
//! A [`Follower`] reads in rounds. A round delivers the whole packets that were added since the
//! last round, merged by time. Events are ordered within a round. They are ordered between rounds
//! too, unless the producer writes a packet with a delay. A round of [`Follower::deliver_until`]
//! ends at a time that all producers have reached, so that delays do not matter. Before a round,
//! [`Follower::refresh`] checks for added or removed files, added metadata, and new streams in
//! known files. After such a change it opens all sources again, and each stream continues after its
//! last packet. Delivered packets of a live trace are freed after each round.

use crate::alignment::TimeBase;
use crate::discover::{OpenTraces, Source, open_numbered};
use crate::error::{Problem, ProblemKind};
use crate::event_merge::Consumer;
use crate::file::{FileId, id_of};
use crate::limits::DEPTH_MAX;
use crate::live::LiveTrace;
use crate::measurements;
use crate::packet::StreamId;
use crate::packets::StreamPackets;
use crate::reading::Reading;
use crate::stats::Stats;
use crate::trace::Trace;
use blkkin_ctf::clock_offsets;
use blkkin_ctf::schema::Uuid;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Reader of traces that are still being recorded.
#[derive(Debug)]
pub struct Follower {
    sources: Vec<Source>,
    time_base: TimeBase,
    /// Total sizes of the files with measurements of clocks that were read, by id of the trace.
    measured: HashMap<usize, u64>,
    traces: Vec<Arc<Trace>>,
    /// Undelivered packets of each stream, in the order of the streams of all traces.
    packets: Vec<StreamPackets>,
    /// Undelivered packets of streams that are missing at present, for instance because their
    /// metadata is not completely written yet.
    absent: HashMap<StreamKey, StreamPackets>,
    /// Files of the sources at the last opening.
    files: Vec<FileState>,
    /// Generations of the live traces, in the order of the sources, at the last opening.
    generations: Vec<u64>,
    listed_at: Instant,
    next_id: usize,
    problems: Vec<Problem>,
    /// Files that end within the header of their first packet.
    unfinished: HashSet<PathBuf>,
    /// Streams for which the sources were opened again, because the streams were found in a file of
    /// another stream. Each stream causes only one reopening per file.
    reported_streams: HashSet<(PathBuf, StreamId)>,
}

/// File of a source, as found at a listing. The order is that of the paths.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileState {
    /// Path below the source's path.
    path: PathBuf,
    /// Identity of the file, which changes if another file replaces it.
    id: FileId,
    /// Size in bytes. For a stream file that is not in `unfinished`, 0 if the file is empty and 1
    /// otherwise, because further growth of such a file does not require that the sources are
    /// opened again.
    size: u64,
}

/// Key of a stream that stays the same when the stream's trace is opened again. It consists of UUID
/// or path of the trace, class id, stream id, and the path of the stream's file if the ids are
/// ambiguous.
type StreamKey = (Result<Uuid, PathBuf>, u64, Option<u64>, String);

/// Time for which [`Follower::wait`] sleeps between rounds.
const PAUSE: Duration = Duration::from_millis(50);
/// Minimum time between two listings of the sources' files, unless metadata has grown, a file has a
/// new stream, or the next round is the last.
const LIST_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of attempts in one check to open the sources, whose files may change meanwhile.
const OPEN_TRIES_MAX: usize = 8;

impl Follower {
    /// Opens the sources. They may still have no traces.
    pub fn new(sources: &[Source]) -> Follower {
        Follower::with_time_base(sources, TimeBase::Recorded)
    }

    /// Opens the sources, which may still have no traces, and gives times of a clock. Measurements
    /// are read again when their files have grown. Live traces are corrected by
    /// [`LiveTrace::set_correction`].
    pub fn with_time_base(sources: &[Source], time_base: TimeBase) -> Follower {
        let mut follower = Follower {
            sources: sources.to_vec(),
            time_base,
            measured: HashMap::new(),
            traces: Vec::new(),
            packets: Vec::new(),
            absent: HashMap::new(),
            files: Vec::new(),
            generations: Vec::new(),
            listed_at: Instant::now(),
            next_id: 0,
            problems: Vec::new(),
            unfinished: HashSet::new(),
            reported_streams: HashSet::new(),
        };
        follower.files = follower.list_files();
        follower.generations = follower.live_generations();
        follower.open();
        follower
    }

    /// Returns the traces that the last opening found.
    pub fn traces(&self) -> &[Arc<Trace>] {
        &self.traces
    }

    /// Returns the problems of the last opening, and the problems of packets that the current
    /// metadata does not describe. A file that ends within the header of its first packet is no
    /// problem, because the file may grow.
    pub fn problems(&self) -> Vec<Problem> {
        let packets = self.packets.iter().chain(self.absent.values());
        let undescribed = packets.filter_map(StreamPackets::undescribed);
        self.problems.iter().chain(undescribed).cloned().collect()
    }

    /// Checks for added packets, metadata and streams, and for added or removed files. Returns true
    /// if the sources were opened again. Changed traces then have new ids, and streams may have new
    /// numbers.
    ///
    /// Files are listed every 250 ms, after metadata has grown or a file has a new stream, and
    /// always before the last round: `is_last`. New metadata and streams of live traces are noticed
    /// at once.
    pub fn refresh(&mut self, is_last: bool) -> bool {
        let mut is_due = is_last || self.listed_at.elapsed() >= LIST_INTERVAL;
        let mut has_new_streams = self.has_new_streams();
        for tries in 0..OPEN_TRIES_MAX {
            // Producers write metadata before the packets that need it. So the sizes of stream
            // files are frozen before the metadata is checked, and later packets are left for the
            // next round.
            self.packets.iter().for_each(StreamPackets::freeze_sizes);
            let generations = self.live_generations();
            let has_changed_live = generations != self.generations;
            if !is_due
                && !has_new_streams
                && !has_changed_live
                && !self.files.iter().any(metadata_has_grown)
            {
                return tries > 0;
            }
            if std::mem::take(&mut is_due) {
                let traces = self.traces.clone();
                let unaligned = self.align(&traces);
                self.problems.extend(unaligned);
            }
            self.listed_at = Instant::now();
            let files = self.list_files();
            if files == self.files && !has_new_streams && !has_changed_live {
                return tries > 0;
            }
            has_new_streams = false;
            self.files = files;
            self.generations = generations;
            self.open();
        }
        true
    }

    /// Returns true if a file has packets of a stream that was not found in that file at the last
    /// opening. Returns true only once for each such stream and file.
    fn has_new_streams(&mut self) -> bool {
        let mut is_new = false;
        let streams = self.traces.iter().flat_map(|trace| trace.streams.iter().map(move |_| trace));
        for (trace, packets) in streams.zip(&self.packets) {
            for (identity, file) in packets.other_streams() {
                let is_known = trace.streams.iter().any(|stream| {
                    let has_file =
                        || stream.files.iter().any(|other| other.file.path() == file.path());
                    stream.id() == identity && has_file()
                });
                is_new |=
                    !is_known && self.reported_streams.insert((file.path().to_owned(), identity));
            }
        }
        is_new
    }

    /// Delivers the events of the packets that [`Follower::refresh`] found. `select` sets the
    /// range, filter and other options of the reading.
    pub fn deliver(
        &mut self,
        select: impl for<'r> FnOnce(Reading<'r>) -> Reading<'r>,
        consumer: &mut impl Consumer,
    ) -> Stats {
        self.deliver_round(None, select, consumer)
    }

    /// Delivers events like [`Follower::deliver`], but only those before `end_ns`, in nanoseconds
    /// from the clock's origin as [`Event::time`](crate::Event::time). All other events stay for
    /// later rounds, also those of packets that begin before `end_ns`. Events without a time are
    /// delivered, and so are all events of packets that declare an end before `end_ns`.
    ///
    /// The order of events is total over all rounds if packets that appear after a round's
    /// [`Follower::refresh`] have no events before its `end_ns`, and `end_ns` never decreases. If
    /// the consumer returns [`ControlFlow::Break`](std::ops::ControlFlow::Break), the remaining
    /// events of started packets are not delivered in any round.
    pub fn deliver_until(
        &mut self,
        end_ns: i64,
        select: impl for<'r> FnOnce(Reading<'r>) -> Reading<'r>,
        consumer: &mut impl Consumer,
    ) -> Stats {
        self.deliver_round(Some(end_ns), select, consumer)
    }

    fn deliver_round(
        &mut self,
        end_ns: Option<i64>,
        select: impl for<'r> FnOnce(Reading<'r>) -> Reading<'r>,
        consumer: &mut impl Consumer,
    ) -> Stats {
        let packets = std::mem::take(&mut self.packets);
        let reading = select(Reading::new(&self.traces));
        let inputs = packets.into_iter().enumerate().map(|(number, packets)| {
            let mut input = reading.merge_input(number, reading.prepare(packets));
            input.round_end = end_ns;
            input
        });
        let (stats, inputs) = reading.merge_inputs(inputs.collect(), consumer);
        self.packets = inputs.into_iter().filter_map(|input| input.into_packets()).collect();
        self.packets.iter().for_each(StreamPackets::free_delivered);
        stats
    }

    /// Sleeps until the next round is due.
    pub fn wait(&self) {
        std::thread::sleep(PAUSE);
    }

    /// Opens all sources again; each stream continues after its last delivered packet.
    fn open(&mut self) {
        let OpenTraces { mut traces, problems } = open_numbered(&self.sources, self.next_id);
        self.next_id += traces.len();
        for trace in traces.iter_mut().filter_map(Arc::get_mut) {
            let is_same = |old: &&Arc<Trace>| is_same_trace(old, trace);
            let is_older = |old: &&Arc<Trace>| old.path == trace.path && old.name == trace.name;
            if let Some(old) = self.traces.iter().find(is_same) {
                (trace.id, trace.data) = (old.id, old.data.clone());
            } else if let Some(old) = self.traces.iter().find(is_older)
                && let Some(data) = Arc::get_mut(&mut trace.data)
            {
                data.alignment = old.data.alignment.clone();
            }
        }
        self.measured.retain(|id, _| traces.iter().any(|trace| trace.id == *id));
        let unaligned = self.align(&traces);
        let packets = std::mem::take(&mut self.packets);
        // Packet numbers stay unique although streams may change their numbers.
        let number = packets.iter().map(StreamPackets::number).max().unwrap_or(0);
        self.absent.extend(stream_keys(&self.traces).zip(packets));
        let streams = traces.iter().flat_map(|trace| trace.streams.iter().map(move |s| (trace, s)));
        for ((trace, stream), key) in streams.zip(stream_keys(&traces)) {
            let packets = StreamPackets::new(trace.data.clone(), stream);
            let mut packets = packets.growing();
            packets.number_from(number);
            if let Some(before) = self.absent.remove(&key) {
                packets.resume_from(before);
            }
            self.packets.push(packets);
        }
        // Open files of removed chunks would keep their space on the disk.
        self.absent.retain(|_, packets| !packets.are_deleted());
        self.traces = traces;
        let is_unfinished = |problem: &Problem| problem.kind == ProblemKind::TruncatedHeader;
        let (unfinished, problems) = problems.into_iter().partition(is_unfinished);
        let unfinished: Vec<Problem> = unfinished;
        self.unfinished = unfinished.into_iter().map(|problem| problem.path).collect();
        self.problems = problems;
        self.problems.extend(unaligned);
    }

    /// Corrects the times of traces whose measurements have grown.
    fn align(&mut self, traces: &[Arc<Trace>]) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.time_base == TimeBase::Relay {
            for trace in traces {
                let size = measurements::size_of(trace);
                if self.measured.insert(trace.id, size).unwrap_or(0) != size {
                    problems.extend(measurements::align(trace));
                }
            }
        }
        problems
    }

    fn live_generations(&self) -> Vec<u64> {
        let generations = |source: &Source| match source {
            Source::Live(trace) => vec![trace.generation()],
            Source::LiveSet(set) => set.traces().iter().map(LiveTrace::generation).collect(),
            Source::Path(_) | Source::Stdin { .. } => Vec::new(),
        };
        self.sources.iter().flat_map(generations).collect()
    }

    /// Lists the files of the sources. The sources must be opened again if a file is added or
    /// removed, or if its listed size changes.
    fn list_files(&self) -> Vec<FileState> {
        let mut files = Vec::new();
        for source in &self.sources {
            if let Source::Path(path) = source {
                self.list_below(path, 0, &mut files);
            }
        }
        files.sort();
        files
    }

    fn list_below(&self, path: &Path, depth: usize, files: &mut Vec<FileState>) {
        let Ok(entries) = fs::read_dir(path) else { return };
        for entry in entries.flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() && name != "index" && depth < DEPTH_MAX => {
                    self.list_below(&path, depth + 1, files);
                }
                // Measurements are looked at by `align`.
                Ok(metadata) if metadata.is_file() && name != clock_offsets::FILE => {
                    // A stream file can usually be identified as soon as it has a byte, so only the
                    // change from empty to not empty matters.
                    let is_open = name != "metadata" && !self.unfinished.contains(&path);
                    let size = if is_open { metadata.len().min(1) } else { metadata.len() };
                    files.push(FileState { path, id: id_of(&metadata), size });
                }
                _ => {}
            }
        }
    }
}

/// Returns true if a reopened trace has the path, name and schema of the earlier one, whose id and
/// decoder then stay valid.
fn is_same_trace(old: &Trace, new: &Trace) -> bool {
    old.path == new.path && old.name == new.name && old.schema() == new.schema()
}

fn metadata_has_grown(file: &FileState) -> bool {
    file.path.file_name().is_some_and(|name| name == "metadata")
        && fs::metadata(&file.path).is_ok_and(|metadata| metadata.len() != file.size)
}

fn stream_keys(traces: &[Arc<Trace>]) -> impl Iterator<Item = StreamKey> {
    traces.iter().flat_map(|trace| {
        let uuid = trace.schema().trace.uuid.ok_or_else(|| trace.path.clone());
        trace.streams.iter().map(move |stream| {
            // A stream that has no unique id has a single file, whose path identifies it.
            let name = if stream.has_unique_id() { "" } else { &stream.name };
            (uuid.clone(), stream.class_id, stream.instance, name.to_owned())
        })
    })
}
