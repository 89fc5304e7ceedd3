//! Recordings that go on: reads what there is, and then what comes.
//!
//! A [`Follower`] reads in rounds. In each it passes on the whole packets that have come since
//! the last one, merged by time; so order holds within a round, and between rounds as far as the
//! producer's own delay allows. When files or metadata have been added, all is opened anew and
//! reading goes on where it was.

use crate::discover::{Opened, Source, open_numbered};
use crate::error::Problem;
use crate::packets::StreamPackets;
use crate::reading::{Consumer, Reading};
use crate::trace::{Stream, Trace};
use crate::work::Stats;
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
    /// What the sources looked like when they were opened.
    look: Vec<(PathBuf, u64)>,
    looked: Instant,
    next_id: usize,
    problems: Vec<Problem>,
}

/// How long to wait when nothing has come.
const PAUSE: Duration = Duration::from_millis(50);
/// How often to look for new files.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

impl Follower {
    /// Opens the sources as they are now, of which there may be none yet.
    pub fn new(sources: &[Source]) -> Follower {
        let mut follower = Follower {
            sources: sources.to_vec(),
            traces: Vec::new(),
            packets: Vec::new(),
            look: Vec::new(),
            looked: Instant::now(),
            next_id: 0,
            problems: Vec::new(),
        };
        follower.look = follower.look_now();
        follower.open();
        follower
    }

    /// The traces as they are known now.
    pub fn traces(&self) -> &[Arc<Trace>] {
        &self.traces
    }

    /// What could not be opened, as of the last time.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Passes on what has come since the last time and what `select` selects of it.
    pub fn round(
        &mut self,
        select: impl for<'r> FnOnce(Reading<'r>) -> Reading<'r>,
        consumer: &mut impl Consumer,
    ) -> Stats {
        let packets = std::mem::take(&mut self.packets);
        let reading = select(Reading::new(&self.traces));
        let lanes = packets.into_iter().enumerate();
        let lanes = lanes.map(|(number, packets)| reading.lane(number, packets)).collect();
        let (stats, lanes) = reading.ordered_lanes(lanes, consumer);
        self.packets = lanes.into_iter().filter_map(|lane| lane.into_packets()).collect();
        stats
    }

    /// Waits a moment, and looks whether files or metadata have been added.
    pub fn wait(&mut self) {
        std::thread::sleep(PAUSE);
        if self.looked.elapsed() >= LOOK_AGAIN {
            self.looked = Instant::now();
            let look = self.look_now();
            if look != self.look {
                self.look = look;
                self.open();
            }
        }
    }

    /// Opens all sources, and goes on in each stream where it was.
    fn open(&mut self) {
        let Opened { traces, problems } = open_numbered(&self.sources, self.next_id);
        self.next_id += traces.len();
        let mut before: Vec<_> = streams(&self.traces)
            .map(|stream| stream.key())
            .zip(std::mem::take(&mut self.packets))
            .collect();
        for trace in &traces {
            for stream in &trace.streams {
                let only = stream.shared.then_some((stream.class, stream.instance));
                let packets = StreamPackets::new(trace.data.clone(), &stream.files, only);
                let mut packets = packets.growing();
                if let Some(index) = before.iter().position(|(key, _)| *key == stream.key()) {
                    packets.go_on_from(before.swap_remove(index).1);
                }
                self.packets.push(packets);
            }
        }
        self.traces = traces;
        self.problems = problems;
    }

    /// The files that there are, with the sizes of metadata files.
    fn look_now(&self) -> Vec<(PathBuf, u64)> {
        let mut files = Vec::new();
        for source in &self.sources {
            if let Source::Path(path) = source {
                look(path, 0, &mut files);
            }
        }
        files.sort();
        files
    }
}

fn streams(traces: &[Arc<Trace>]) -> impl Iterator<Item = &Stream> {
    traces.iter().flat_map(|trace| &trace.streams)
}

fn look(path: &Path, depth: usize, files: &mut Vec<(PathBuf, u64)>) {
    let Ok(entries) = fs::read_dir(path) else { return };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() && name != "index" && depth < 32 => {
                look(&path, depth + 1, files);
            }
            // A data file counts from its first byte on, then it can tell what it is.
            Ok(metadata) if metadata.is_file() => {
                let size = if name == "metadata" { metadata.len() } else { metadata.len().min(1) };
                files.push((path, size));
            }
            _ => {}
        }
    }
}
