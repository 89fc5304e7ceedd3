//! Description of a reading: traces to read, range, filter, limit, and number of threads.
//!
//! [`Reading::ordered`], [`Reading::lines`] and [`Reading::unordered`] run the reading, each in a
//! module of its own.

use crate::bind::BoundFilter;
use crate::packets::{StopCheck, StreamPackets};
use crate::stats::Progress;
use crate::trace::{Stream, Trace};
use std::collections::HashMap;
use std::sync::Arc;

/// Description of a reading: traces, selection of events, and options. Its methods run the reading.
#[derive(Debug)]
pub struct Reading<'r> {
    traces: &'r [Arc<Trace>],
    /// For each stream, the index of its trace and the index of the stream in that trace.
    streams: Vec<(usize, usize)>,
    /// Rank of each stream, by stream number. It orders events at the same time.
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

/// Desired total size of the windows of all cursors in an ordered reading, in bytes.
const WINDOWS_SIZE: usize = 4 << 20;
/// Minimum size of the window of a merge input's cursor, in bytes.
pub(crate) const WINDOW_SIZE_MIN: usize = 64 << 10;

impl<'r> Reading<'r> {
    /// Makes a reading of all events of `traces`, on one thread.
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

    /// Sets the maximum number of threads that decode events.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Sets the desired total size, in bytes, of the packets in a slice. (Each thread prints one
    /// slice at a time.) By default the size is computed.
    pub fn slice_size(mut self, bytes: u64) -> Self {
        self.slice_size = Some(bytes);
        self
    }

    /// Selects the events from `begin` to `end`, both inclusive and in nanoseconds from the clock's
    /// origin. `None` means no limit. Events without a time are always selected.
    pub fn range(mut self, begin: Option<i64>, end: Option<i64>) -> Self {
        (self.begin, self.end) = (begin, end);
        self
    }

    /// Selects the events that `filter` accepts; `None` selects all events.
    pub fn filter(mut self, filter: Option<BoundFilter>) -> Self {
        self.filter = filter;
        self
    }

    /// Makes the reading stop after `limit` events; `None` means no limit. [`Reading::unordered`]
    /// ignores the limit.
    pub fn limit(mut self, limit: Option<u64>) -> Self {
        self.limit = limit;
        self
    }

    /// Delivers losses that overlap the range as they are. By default they are clipped to the
    /// range, and a clipped loss has no count, because the number inside of the range is unknown.
    pub fn losses_whole(mut self) -> Self {
        self.losses_whole = true;
        self
    }

    /// Sets a callback that stops the reading: once it returns true, the reading ends after the
    /// packets that are started or queued for a thread.
    pub fn stop_when(mut self, stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.stop = Some(StopCheck::new(stop));
        self
    }

    /// Returns the counters of this reading, which are updated while it runs.
    pub fn progress(&self) -> Arc<Progress> {
        self.progress.clone()
    }

    /// Returns the total size of all stream files in bytes, against which progress is measured.
    pub fn total_bytes(&self) -> u64 {
        let streams = self.traces.iter().flat_map(|trace| &trace.streams);
        let files = streams.flat_map(|stream| &stream.files);
        // Streams may share a file.
        let files: HashMap<_, _> = files.map(|file| (Arc::as_ptr(&file.file), file)).collect();
        files.values().map(|file| file.file.size().unwrap_or(0)).sum()
    }

    /// Returns the earliest and the latest time that packets declare as begin or end, in
    /// nanoseconds. `None` if no packet declares a time.
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

    /// Returns the size of a cursor's window in an ordered reading, in bytes.
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

    /// Applies the reading's stop callback to the packets of a stream.
    pub(crate) fn prepare(&self, packets: StreamPackets) -> StreamPackets {
        packets.stop_when(self.stop.clone())
    }
}

/// Returns the rank of each stream, which orders events at the same time. Streams with equal keys
/// share a rank. Streams without an id are numbered within their class by their paths, as in
/// babeltrace2.
fn ranks(traces: &[Arc<Trace>], streams: &[(usize, usize)]) -> Vec<u32> {
    let ids: Vec<Vec<(u64, u64)>> = traces.iter().map(|trace| trace.stream_ids()).collect();
    let key = |&(number, stream): &(usize, usize)| {
        let trace = &traces[number];
        let uuid = trace.schema().trace.uuid;
        // Absent UUIDs sort last.
        (uuid.is_none(), uuid, &*trace.name, ids[number][stream])
    };
    let mut sorted: Vec<_> = streams.iter().map(key).collect();
    sorted.sort();
    sorted.dedup();
    let rank = |stream| sorted.partition_point(|other| *other < key(stream)) as u32;
    streams.iter().map(rank).collect()
}
