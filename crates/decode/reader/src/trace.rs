//! An opened trace: its schema, its decoder and its streams.

use crate::packets::WaitingFile;
use blkkin_ctf::clock::TimeScale;
use blkkin_ctf::decode::Decoder;
use blkkin_ctf::schema::{Schema, StreamClass};
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
    pub(crate) files: Vec<WaitingFile>,
    /// Whether its files hold other streams' packets too.
    pub(crate) shared: bool,
}

impl Stream {
    /// Whether it is all that has its ids, in any number of files.
    pub(crate) fn is_joined(&self) -> bool {
        self.instance.is_some() && self.files.iter().all(|file| file.first.0.is_some())
    }
}
