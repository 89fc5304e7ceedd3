//! An opened trace: its schema, its decoder and its streams.

use crate::file::StreamFile;
use crate::packet::{PacketKey, StreamId};
use blkkin_ctf::clock::TimeScale;
use blkkin_ctf::decode::Decoder;
use blkkin_ctf::schema::{Schema, StreamClass};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// What all streams of a trace share.
#[derive(Debug)]
pub(crate) struct TraceData {
    pub(crate) decoder: Decoder,
    /// By index of stream class.
    pub(crate) scales: Vec<Option<TimeScale>>,
}

impl TraceData {
    pub(crate) fn new(decoder: Decoder) -> TraceData {
        let schema = decoder.schema();
        let scale = |stream: &StreamClass| Some(TimeScale::new(schema.clocks.get(stream.clock?)?));
        let scales = schema.streams.iter().map(scale).collect();
        TraceData { decoder, scales }
    }

    pub(crate) fn scale(&self, stream: usize) -> Option<TimeScale> {
        self.scales.get(stream).copied().flatten()
    }
}

/// A trace: one metadata, any number of streams. Directories with the same trace UUID (rotated
/// chunks, snapshots) are one trace.
#[derive(Debug)]
pub struct Trace {
    /// Number of the trace among those read together. A trace whose metadata grows while it is
    /// followed gets a new one.
    pub id: usize,
    /// The directory (of several, the first).
    pub path: PathBuf,
    /// The name that babeltrace2 gives it: host name and path.
    pub name: String,
    /// All streams, by the ids of their class and their own.
    pub streams: Vec<Stream>,
    pub(crate) data: Arc<TraceData>,
}

impl Trace {
    /// The trace's metadata.
    pub fn schema(&self) -> &Arc<Schema> {
        self.data.decoder.schema()
    }

    /// The decoder for the trace's packets.
    pub fn decoder(&self) -> &Decoder {
        &self.data.decoder
    }

    /// By stream: the id of its class and its own. Streams that have none are numbered within
    /// their class in the order of their paths, with numbers that no other stream has.
    pub fn stream_ids(&self) -> Vec<(u64, u64)> {
        let mut order: Vec<usize> = (0..self.streams.len()).collect();
        order.sort_by_key(|&index| &self.streams[index].name);
        let named =
            self.streams.iter().filter_map(|stream| Some((stream.class_id, stream.instance?)));
        let mut taken: HashSet<(u64, u64)> = named.collect();
        let mut next: HashMap<u64, u64> = HashMap::new();
        let mut ids = vec![(0, 0); self.streams.len()];
        for index in order {
            let Stream { class_id, instance, .. } = self.streams[index];
            let id = instance.unwrap_or_else(|| {
                let next = next.entry(class_id).or_default();
                while !taken.insert((class_id, *next)) {
                    *next += 1;
                }
                *next
            });
            ids[index] = (class_id, id);
        }
        ids
    }

    /// How to convert times of streams of a class.
    pub fn scale(&self, stream_class: usize) -> Option<TimeScale> {
        self.data.scale(stream_class)
    }
}

/// One data stream: usually the events of one channel and CPU.
#[derive(Debug)]
pub struct Stream {
    /// Index of the stream class in the schema.
    pub class: usize,
    /// Id of the stream class.
    pub class_id: u64,
    /// Id of the stream within its class.
    pub instance: Option<u64>,
    /// The name that babeltrace2 gives it: the path of its first file.
    pub name: String,
    pub(crate) files: Vec<FilePart>,
}

#[derive(Clone, Debug)]
pub(crate) struct FilePart {
    pub(crate) file: Arc<StreamFile>,
    /// Time and number of the first packet.
    pub(crate) first: PacketKey,
    /// Where the stream's packets lie, if the file has packets of other streams too.
    pub(crate) runs: Option<Arc<[Range<u64>]>>,
}

impl Stream {
    /// The class and id that its packets name.
    pub(crate) fn identity(&self) -> StreamId {
        (self.class, self.instance)
    }

    /// Whether it is all that has its ids, in any number of files.
    pub(crate) fn is_joined(&self) -> bool {
        self.instance.is_some() && self.files.iter().all(|file| file.first.0.is_some())
    }
}
