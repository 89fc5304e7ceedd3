//! A reading: which traces, which part of them, and the plain way to go through them, which is
//! one event after the other on the caller's thread.

use crate::bind::BoundFilter;
use crate::packets::{StopCheck, StreamPackets};
use crate::stats::Progress;
use crate::trace::{Stream, Trace};
use std::collections::HashMap;
use std::sync::Arc;

/// A reading of traces: what to read of them, and how.
#[derive(Debug)]
pub struct Reading<'r> {
    traces: &'r [Arc<Trace>],
    /// All streams: index of the trace, index in the trace.
    streams: Vec<(usize, usize)>,
    /// By stream number: its place where times are equal.
    pub(crate) ranks: Vec<u32>,
    pub(crate) threads: usize,
    pub(crate) slice_size: Option<u64>,
    pub(crate) begin: Option<i64>,
    pub(crate) end: Option<i64>,
    pub(crate) filter: Option<BoundFilter>,
    pub(crate) limit: Option<u64>,
    pub(crate) losses_whole: bool,
    stop: Option<StopCheck>,
    pub(crate) progress: Arc<Progress>,
}

/// Bytes of windows over all streams of one thread.
const WINDOWS_SIZE: usize = 4 << 20;
/// Bytes of one window.
pub(crate) const WINDOW_SIZE_MIN: usize = 64 << 10;

impl<'r> Reading<'r> {
    /// Reads all of `traces`, on one thread.
    pub fn new(traces: &'r [Arc<Trace>]) -> Reading<'r> {
        let streams: Vec<(usize, usize)> = (0..traces.len())
            .flat_map(|trace| (0..traces[trace].streams.len()).map(move |stream| (trace, stream)))
            .collect();
        let ranks = ranks(traces, &streams);
        Reading {
            traces,
            streams,
            ranks,
            threads: 1,
            slice_size: None,
            begin: None,
            end: None,
            filter: None,
            limit: None,
            losses_whole: false,
            stop: None,
            progress: Arc::default(),
        }
    }

    /// Uses up to `threads` threads where it can.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Bytes of packets that a thread prints at a time; what is best is found out otherwise.
    pub fn slice_size(mut self, bytes: u64) -> Self {
        self.slice_size = Some(bytes);
        self
    }

    /// Passes on only what happened from `begin` to `end` (both inclusive, in nanoseconds).
    pub fn range(mut self, begin: Option<i64>, end: Option<i64>) -> Self {
        (self.begin, self.end) = (begin, end);
        self
    }

    /// Passes on only events for which the filter is true.
    pub fn filter(mut self, filter: Option<BoundFilter>) -> Self {
        self.filter = filter;
        self
    }

    /// Stops after so many events.
    pub fn limit(mut self, limit: Option<u64>) -> Self {
        self.limit = limit;
        self
    }

    /// Passes on losses that go beyond the range as they are, instead of what is known of their
    /// part in it (which is not how many there were).
    pub fn losses_whole(mut self) -> Self {
        self.losses_whole = true;
        self
    }

    /// Begins no more packets once `stop` gives `true`.
    pub fn stop_when(mut self, stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.stop = Some(StopCheck::new(stop));
        self
    }

    /// Where to look how far it is.
    pub fn progress(&self) -> Arc<Progress> {
        self.progress.clone()
    }

    /// Bytes in all stream files, for progress.
    pub fn total_bytes(&self) -> u64 {
        let streams = self.traces.iter().flat_map(|trace| &trace.streams);
        let files = streams.flat_map(|stream| &stream.files);
        // Streams may share a file.
        let files: HashMap<_, _> = files.map(|file| (Arc::as_ptr(&file.file), file)).collect();
        files.values().map(|file| file.file.size().unwrap_or(0)).sum()
    }

    /// When the first packet begins and the last one ends, in nanoseconds, as far as packets say.
    pub fn span(&self) -> Option<(i64, i64)> {
        let mut span: Option<(i64, i64)> = None;
        for number in 0..self.stream_count() {
            let mut packets = self.packets(number);
            while let Some(packet) = packets.next() {
                let (begin, end) = match (packet.begin_ns, packet.end_ns) {
                    (Some(begin), end) => (begin, end.unwrap_or(begin)),
                    (None, Some(end)) => (end, end),
                    (None, None) => continue,
                };
                let (first, last) = span.unwrap_or((begin, end));
                span = Some((first.min(begin), last.max(end)));
            }
        }
        span
    }

    pub(crate) fn stream_count(&self) -> usize {
        self.streams.len()
    }

    /// Bytes that a cursor should hold.
    pub(crate) fn window(&self) -> usize {
        (WINDOWS_SIZE / self.stream_count().max(1)).clamp(WINDOW_SIZE_MIN, 256 << 10)
    }

    pub(crate) fn stream(&self, number: usize) -> (&'r Trace, &'r Stream) {
        let (trace, stream) = self.streams[number];
        let trace = &self.traces[trace];
        (trace, &trace.streams[stream])
    }

    pub(crate) fn packets(&self, number: usize) -> StreamPackets {
        let (trace, stream) = self.stream(number);
        self.prepare(StreamPackets::new(trace.data.clone(), stream))
    }

    /// Lets packets know what the reading wants of them.
    pub(crate) fn prepare(&self, packets: StreamPackets) -> StreamPackets {
        packets.stop_when(self.stop.clone())
    }
}

/// The order of streams where times are equal; streams that nothing tells apart share a rank.
/// Streams without an id are numbered within their class by their paths, as babeltrace2 numbers
/// them.
fn ranks(traces: &[Arc<Trace>], streams: &[(usize, usize)]) -> Vec<u32> {
    let ids: Vec<Vec<(u64, u64)>> = traces.iter().map(|trace| trace.stream_ids()).collect();
    let key = |&(number, stream): &(usize, usize)| {
        let trace = &traces[number];
        let uuid = trace.schema().trace.uuid;
        // Absent UUIDs come last.
        (uuid.is_none(), uuid, &*trace.name, ids[number][stream])
    };
    let mut sorted: Vec<_> = streams.iter().map(key).collect();
    sorted.sort();
    sorted.dedup();
    let rank = |stream| sorted.partition_point(|other| *other < key(stream)) as u32;
    streams.iter().map(rank).collect()
}
