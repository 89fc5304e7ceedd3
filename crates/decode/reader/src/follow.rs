//! Recordings that go on: reads what there is, and then what comes.
//!
//! A [`Follower`] reads in rounds. In each it passes on the whole packets that have come since
//! the last one, merged by time; so order holds within a round, and between rounds as far as the
//! producer's own delay allows. Before a round, [`Follower::look`] sees whether files or metadata
//! have been added; then all is opened anew and reading goes on where it was.

use crate::discover::{Opened, Source, open_numbered};
use crate::error::{Problem, ProblemKind};
use crate::file::{FileId, id_of};
use crate::limits::DEPTH_MAX;
use crate::ordered::Consumer;
use crate::packet::StreamId;
use crate::packets::StreamPackets;
use crate::reading::Reading;
use crate::stats::Stats;
use crate::trace::Trace;
use blkkin_ctf::schema::Uuid;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Reads recordings that go on.
#[derive(Debug)]
pub struct Follower {
    sources: Vec<Source>,
    traces: Vec<Arc<Trace>>,
    /// What is left of each stream, in the order of the streams of all traces.
    packets: Vec<StreamPackets>,
    /// What is left of streams that were there before and are not at the moment, for instance
    /// because only half of the metadata has come.
    absent: HashMap<StreamKey, StreamPackets>,
    /// What the sources looked like when they were opened.
    look: Vec<Seen>,
    looked: Instant,
    next_id: usize,
    problems: Vec<Problem>,
    /// Files that end within the header of their first packet.
    unfinished: HashSet<PathBuf>,
    /// Streams that were met in files of other streams, for which all was opened anew.
    strangers: HashSet<(PathBuf, StreamId)>,
}

/// A file, and as much of its size as matters.
type Seen = (PathBuf, FileId, u64);

/// What stays the same of a stream when its trace is opened anew.
type StreamKey = (Result<Uuid, PathBuf>, u64, Option<u64>, String);

/// How long to wait when nothing has come.
const PAUSE: Duration = Duration::from_millis(50);
/// How often to look for new files.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// How often to open files and metadata that change all the time.
const TRIES_MAX: usize = 8;

impl Follower {
    /// Opens the sources as they are now, of which there may be none yet.
    pub fn new(sources: &[Source]) -> Follower {
        let mut follower = Follower {
            sources: sources.to_vec(),
            traces: Vec::new(),
            packets: Vec::new(),
            absent: HashMap::new(),
            look: Vec::new(),
            looked: Instant::now(),
            next_id: 0,
            problems: Vec::new(),
            unfinished: HashSet::new(),
            strangers: HashSet::new(),
        };
        follower.look = follower.look_now();
        follower.open();
        follower
    }

    /// The traces as they are known now.
    pub fn traces(&self) -> &[Arc<Trace>] {
        &self.traces
    }

    /// What could not be opened, as of the last time, and what cannot be read with the metadata
    /// that there is.
    pub fn problems(&self) -> Vec<Problem> {
        let packets = self.packets.iter().chain(self.absent.values());
        let undescribed = packets.filter_map(StreamPackets::undescribed);
        self.problems.iter().chain(undescribed).cloned().collect()
    }

    /// Looks for packets, files and metadata that have been added. Gives whether traces were
    /// opened anew: then traces have new ids, and streams new numbers.
    pub fn look(&mut self) -> bool {
        self.look_if(self.looked.elapsed() >= LOOK_AGAIN)
    }

    /// The same for the last time: files that came a moment ago are found, too, for which [`Follower::look`] looks
    /// now and then.
    pub fn look_at_all(&mut self) -> bool {
        self.look_if(true)
    }

    fn look_if(&mut self, mut is_due: bool) -> bool {
        let mut has_strangers = self.meets_strangers();
        for tries in 0..TRIES_MAX {
            // Metadata comes before the packets that need it. So it is looked at after them, and
            // what comes later than that is left for the next time.
            self.packets.iter().for_each(StreamPackets::hold);
            if !is_due && !has_strangers && !self.look.iter().any(metadata_has_grown) {
                return tries > 0;
            }
            is_due = false;
            self.looked = Instant::now();
            let look = self.look_now();
            if look == self.look && !has_strangers {
                return tries > 0;
            }
            has_strangers = false;
            self.look = look;
            self.open();
        }
        true
    }

    /// Whether a file has got packets of a stream that it had none of when it was opened.
    fn meets_strangers(&mut self) -> bool {
        let mut is_new = false;
        let streams = self.traces.iter().flat_map(|trace| trace.streams.iter().map(move |_| trace));
        for (trace, packets) in streams.zip(&self.packets) {
            for (identity, file) in packets.strangers() {
                let is_known = trace.streams.iter().any(|stream| {
                    let has_file =
                        || stream.files.iter().any(|other| other.file.path() == file.path());
                    stream.identity() == identity && has_file()
                });
                is_new |= !is_known && self.strangers.insert((file.path().to_owned(), identity));
            }
        }
        is_new
    }

    /// Passes on what had come when [`Follower::look`] was called, and what `select` selects of
    /// it.
    pub fn round(
        &mut self,
        select: impl for<'r> FnOnce(Reading<'r>) -> Reading<'r>,
        consumer: &mut impl Consumer,
    ) -> Stats {
        let packets = std::mem::take(&mut self.packets);
        let reading = select(Reading::new(&self.traces));
        let lanes = packets.into_iter().enumerate();
        let lanes = lanes.map(|(number, packets)| reading.lane(number, reading.prepare(packets)));
        let (stats, lanes) = reading.ordered_lanes(lanes.collect(), consumer);
        self.packets = lanes.into_iter().filter_map(|lane| lane.into_packets()).collect();
        stats
    }

    /// Waits a moment.
    pub fn wait(&self) {
        std::thread::sleep(PAUSE);
    }

    /// Opens all sources, and goes on in each stream where it was.
    fn open(&mut self) {
        let Opened { mut traces, problems } = open_numbered(&self.sources, self.next_id);
        self.next_id += traces.len();
        for trace in traces.iter_mut().filter_map(Arc::get_mut) {
            let is_same = |old: &&Arc<Trace>| is_unchanged(old, trace);
            if let Some(old) = self.traces.iter().find(is_same) {
                (trace.id, trace.data) = (old.id, old.data.clone());
            }
        }
        let packets = std::mem::take(&mut self.packets);
        // No number may come twice, since streams may change theirs.
        let number = packets.iter().map(StreamPackets::number).max().unwrap_or(0);
        self.absent.extend(stream_keys(&self.traces).zip(packets));
        let streams = traces.iter().flat_map(|trace| trace.streams.iter().map(move |s| (trace, s)));
        for ((trace, stream), key) in streams.zip(stream_keys(&traces)) {
            let packets = StreamPackets::new(trace.data.clone(), stream);
            let mut packets = packets.growing();
            packets.count_from(number);
            if let Some(before) = self.absent.remove(&key) {
                packets.go_on_from(before);
            }
            self.packets.push(packets);
        }
        self.traces = traces;
        let is_unfinished = |problem: &Problem| problem.kind == ProblemKind::CutInHeader;
        let (unfinished, problems) = problems.into_iter().partition(is_unfinished);
        let unfinished: Vec<Problem> = unfinished;
        self.unfinished = unfinished.into_iter().map(|problem| problem.path).collect();
        self.problems = problems;
    }

    /// The files that there are, with the sizes of those whose size decides whether and how they
    /// can be read.
    fn look_now(&self) -> Vec<Seen> {
        let mut files = Vec::new();
        for source in &self.sources {
            if let Source::Path(path) = source {
                self.look_below(path, 0, &mut files);
            }
        }
        files.sort();
        files
    }

    fn look_below(&self, path: &Path, depth: usize, files: &mut Vec<Seen>) {
        let Ok(entries) = fs::read_dir(path) else { return };
        for entry in entries.flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() && name != "index" && depth < DEPTH_MAX => {
                    self.look_below(&path, depth + 1, files);
                }
                Ok(metadata) if metadata.is_file() => {
                    // Most data files count from their first byte on: they can tell what they are.
                    let is_open = name != "metadata" && !self.unfinished.contains(&path);
                    let size = if is_open { metadata.len().min(1) } else { metadata.len() };
                    files.push((path, id_of(&metadata), size));
                }
                _ => {}
            }
        }
    }
}

/// Whether what was made of the trace before still holds.
fn is_unchanged(old: &Trace, new: &Trace) -> bool {
    old.path == new.path && old.name == new.name && old.schema() == new.schema()
}

fn metadata_has_grown((path, _, size): &Seen) -> bool {
    path.file_name().is_some_and(|name| name == "metadata")
        && fs::metadata(path).is_ok_and(|metadata| metadata.len() != *size)
}

fn stream_keys(traces: &[Arc<Trace>]) -> impl Iterator<Item = StreamKey> {
    traces.iter().flat_map(|trace| {
        let uuid = trace.schema().trace.uuid.ok_or_else(|| trace.path.clone());
        trace.streams.iter().map(move |stream| {
            // Streams that nothing else tells apart are told apart by their only file.
            let name = if stream.is_joined() { "" } else { &stream.name };
            (uuid.clone(), stream.class_id, stream.instance, name.to_owned())
        })
    })
}
