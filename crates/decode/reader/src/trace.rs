//! An opened trace: schema, decoder and streams.

use crate::alignment::{Alignment, CorrectedScale};
use crate::file::StreamFile;
use crate::packet::{PacketKey, StreamId};
use blkkin_ctf::clock::TimeScale;
use blkkin_ctf::decode::Decoder;
use blkkin_ctf::schema::{Schema, StreamClass};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// Decoder and clocks, which all streams of a trace share.
#[derive(Debug)]
pub(crate) struct TraceData {
    pub(crate) decoder: Decoder,
    /// Conversion of times, by index of the stream class; `None` for a stream class without a
    /// clock.
    scales: Vec<Option<TimeScale>>,
    /// Correction of the times of the streams with the trace's first clock.
    pub(crate) alignment: Alignment,
    /// Set for a live trace: its producer sets the correction.
    pub(crate) is_live: bool,
}

impl TraceData {
    pub(crate) fn new(decoder: Decoder, live: Option<Alignment>) -> TraceData {
        let schema = decoder.schema();
        let scale = |stream: &StreamClass| Some(TimeScale::new(schema.clocks.get(stream.clock?)?));
        let scales = schema.streams.iter().map(scale).collect();
        let is_live = live.is_some();
        TraceData { decoder, scales, alignment: live.unwrap_or_default(), is_live }
    }

    /// Returns the present conversion of times for the streams of a class.
    pub(crate) fn scale(&self, stream: usize) -> Option<CorrectedScale> {
        let recorded = self.scales.get(stream).copied().flatten()?;
        let is_first = self.decoder.schema().streams.get(stream)?.clock == Some(0);
        let correction = if is_first { self.alignment.correction() } else { None };
        Some(CorrectedScale { recorded, correction })
    }
}

/// Trace with one schema and any number of streams. Directories with the same trace UUID (chunks of
/// a rotation, snapshots) form one trace.
#[derive(Debug)]
pub struct Trace {
    /// Number of the trace, unique among the traces that are read together. A followed trace gets
    /// a new number when its schema, path or name changes.
    pub id: usize,
    /// Directory of the trace, the first one if the trace has several; `<stdin>` for standard
    /// input, and the name of a live trace.
    pub path: PathBuf,
    /// Name as in babeltrace2: host name, if known, and path relative to the source. The name of a
    /// trace of several directories has no path.
    pub name: String,
    /// Streams of the trace, in order of class id and stream id.
    pub streams: Vec<Stream>,
    pub(crate) data: Arc<TraceData>,
}

impl Trace {
    /// Returns the schema of the trace's metadata.
    pub fn schema(&self) -> &Arc<Schema> {
        self.data.decoder.schema()
    }

    /// Returns the decoder for the trace's packets.
    pub fn decoder(&self) -> &Decoder {
        &self.data.decoder
    }

    /// Returns the class id and stream id of each stream. Streams without an id get numbers that no
    /// other stream of their class has, in the order of their paths.
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

    /// Returns the conversion of recorded times for the streams of a class; `None` if the class has
    /// no clock.
    pub fn time_scale(&self, stream_class: usize) -> Option<TimeScale> {
        self.data.scales.get(stream_class).copied().flatten()
    }

    /// Returns the correction of the trace's times.
    pub fn alignment(&self) -> &Alignment {
        &self.data.alignment
    }
}

/// Data stream of a trace: usually the events of one channel and CPU.
#[derive(Debug)]
pub struct Stream {
    /// Index of the stream class in the schema.
    pub class: usize,
    /// Id of the stream class in the metadata.
    pub class_id: u64,
    /// Id of the stream within its class; `None` if packets do not state one.
    pub instance: Option<u64>,
    /// Name as in babeltrace2: the path of the stream's first file.
    pub name: String,
    pub(crate) files: Vec<FilePart>,
}

/// Packets that one stream has in a file.
#[derive(Clone, Debug)]
pub(crate) struct FilePart {
    pub(crate) file: Arc<StreamFile>,
    /// Key of the stream's first packet in the file.
    pub(crate) first: PacketKey,
    /// Byte ranges that contain the stream's packets; `None` for the whole file.
    pub(crate) runs: Option<Arc<[Range<u64>]>>,
}

impl Stream {
    /// Returns the identity of the stream, unique in its trace unless packets state no stream id or
    /// no begin.
    pub(crate) fn id(&self) -> StreamId {
        (self.class, self.instance)
    }

    /// Returns true if no other stream of the trace can have the same class id and stream id.
    pub(crate) fn has_unique_id(&self) -> bool {
        let is_joined = |part: &FilePart| part.first.0.is_some() && part.file.live().is_none();
        self.instance.is_some() && self.files.iter().all(is_joined)
    }
}
