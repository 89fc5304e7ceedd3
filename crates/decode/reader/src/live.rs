//! Trace that a producer in the same process appends to in memory. A
//! [`Follower`](crate::Follower) of [`Source::Live`](crate::Source::Live) reads it like a growing
//! trace in a directory.

use crate::alignment::Alignment;
use crate::file::StreamFile;
use crate::input::{Metadata, TraceInput};
use crate::limits::STREAMS_MAX;
use crate::live_stream::{Budget, LiveStream};
use blkkin_ctf::clock_offsets::Correction;
use blkkin_ctf::metadata::METADATA_SIZE_MAX;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Handle of a trace in memory, by which a producer appends metadata and packets. Clones refer to
/// the same trace, and threads may append at the same time.
///
/// The producer appends metadata before the packets that need it. At most one
/// [`Follower`](crate::Follower) may read the trace, because it frees the packets that it has
/// delivered. Undelivered packets are kept up to a [limit](Self::set_size_max).
#[derive(Clone)]
pub struct LiveTrace(Arc<Shared>);

/// Set of live traces that grows while a [`Follower`](crate::Follower) of
/// [`Source::LiveSet`](crate::Source::LiveSet) reads them. Clones refer to the same set.
#[derive(Clone, Debug, Default)]
pub struct LiveSet(Arc<Mutex<Vec<LiveTrace>>>);

impl LiveSet {
    /// Adds a trace, whose name no other trace of the set has.
    pub fn add(&self, trace: LiveTrace) {
        self.0.lock().push(trace);
    }

    /// Returns the traces in the order in which they were added.
    pub fn traces(&self) -> Vec<LiveTrace> {
        self.0.lock().clone()
    }
}

impl PartialEq for LiveSet {
    /// Compares the identity of the sets, not their contents.
    fn eq(&self, other: &LiveSet) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for LiveSet {}

struct Shared {
    name: String,
    state: Mutex<State>,
    budget: Arc<Budget>,
    alignment: Alignment,
}

#[derive(Default)]
struct State {
    metadata: Vec<u8>,
    streams: BTreeMap<u64, Arc<LiveStream>>,
    /// Generation counter, incremented when metadata or the first sound packet of a stream are
    /// added. The trace must then be opened again.
    generation: u64,
}

/// Initial limit of the memory for undelivered packets: 256 MiB.
const SIZE_MAX: u64 = 256 << 20;

impl LiveTrace {
    /// Makes a trace without metadata and streams. `name` is the path of the opened
    /// [`Trace`](crate::Trace), and must be unique among the live traces that are read together.
    /// Fails if the name is empty or has a NUL character.
    pub fn new(name: &str) -> io::Result<LiveTrace> {
        if name.is_empty() || name.contains('\0') {
            return Err(invalid("a live trace needs a name without NUL characters"));
        }
        Ok(LiveTrace(Arc::new(Shared {
            name: name.to_owned(),
            state: Mutex::default(),
            budget: Arc::new(Budget::new(SIZE_MAX)),
            alignment: Alignment::default(),
        })))
    }

    /// Returns the name of the trace.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Sets the maximum memory for undelivered packets, in bytes. The default is 256 MiB.
    pub fn set_size_max(&self, bytes: u64) {
        self.0.budget.set_size_max(bytes);
    }

    /// Returns the size of all undelivered packets in bytes, with 8 bytes more for each.
    pub fn undelivered_bytes(&self) -> u64 {
        self.0.budget.used()
    }

    /// Replaces the metadata, in any form that a metadata file may have. The new metadata must
    /// describe the packets that were appended before. Fails if it is too large.
    pub fn set_metadata(&self, bytes: Vec<u8>) -> io::Result<()> {
        check_metadata_size(bytes.len())?;
        let mut state = self.0.state.lock();
        state.metadata = bytes;
        state.generation += 1;
        Ok(())
    }

    /// Appends to the metadata, for instance declarations of new event classes in TSDL. Fails if
    /// the metadata would become too large.
    pub fn append_metadata(&self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.0.state.lock();
        check_metadata_size(state.metadata.len().saturating_add(bytes.len()))?;
        state.metadata.extend_from_slice(bytes);
        state.generation += 1;
        Ok(())
    }

    /// Corrects times from now on; `None` ends that. Packets that were appended before should have
    /// had nearly the same correction.
    pub fn set_correction(&self, correction: Option<Arc<Correction>>) {
        self.0.alignment.set(correction);
    }

    /// Appends a whole packet, or several whole packets, of the stream that the producer calls
    /// `stream`. All packets with the same `stream` must have the same stream class and stream id
    /// in their headers. A damaged packet is lost, together with the packets that follow it in the
    /// same call.
    ///
    /// Fails if there is no metadata yet, or if the bytes cannot be stored; the packet is then not
    /// appended. The kind of the error is [`io::ErrorKind::StorageFull`] if the undelivered packets
    /// would exceed their limit.
    pub fn append_packet(&self, stream: u64, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Err(invalid("a packet has no bytes"));
        }
        let live = self.stream(stream)?;
        let had_identity = live.has_identity();
        live.append(bytes)?;
        if !had_identity {
            // The packet may be the first sound one, which shows the stream's class and id.
            self.0.state.lock().generation += 1;
        }
        Ok(())
    }

    fn stream(&self, key: u64) -> io::Result<Arc<LiveStream>> {
        let mut state = self.0.state.lock();
        if state.metadata.is_empty() {
            return Err(invalid("a live trace needs metadata before its packets"));
        }
        if let Some(stream) = state.streams.get(&key) {
            return Ok(stream.clone());
        }
        if state.streams.len() >= STREAMS_MAX {
            return Err(invalid(&format!("a live trace has at most {STREAMS_MAX} streams")));
        }
        let stream = Arc::new(LiveStream::create(self.0.budget.clone())?);
        state.streams.insert(key, stream.clone());
        Ok(stream)
    }

    /// Returns the generation counter, which changes when the trace must be opened again.
    pub(crate) fn generation(&self) -> u64 {
        self.0.state.lock().generation
    }

    /// Returns the present metadata and streams for opening; `None` before there is metadata. The
    /// files have their present sizes as frozen sizes, so the metadata describes all their packets.
    pub(crate) fn input(&self) -> Option<TraceInput> {
        let state = self.0.state.lock();
        if state.metadata.is_empty() {
            return None;
        }
        let path = Path::new(&self.0.name);
        let files = state.streams.iter().map(|(key, stream)| {
            Arc::new(StreamFile::from_live(path.join(key.to_string()), stream.clone()))
        });
        Some(TraceInput {
            path: path.to_owned(),
            source_path: PathBuf::new(),
            metadata: Metadata::Bytes(state.metadata.clone()),
            files: files.collect(),
            shared: false,
            alignment: Some(self.0.alignment.clone()),
        })
    }

    /// Returns the memory that the kernel has allocated for all streams, in bytes.
    #[cfg(test)]
    pub(crate) fn allocated_size(&self) -> u64 {
        self.0.state.lock().streams.values().map(|stream| stream.allocated_size()).sum()
    }
}

impl PartialEq for LiveTrace {
    /// Compares the identity of the traces, not their contents.
    fn eq(&self, other: &LiveTrace) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for LiveTrace {}

impl fmt::Debug for LiveTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LiveTrace").field(&self.0.name).finish()
    }
}

fn check_metadata_size(size: usize) -> io::Result<()> {
    match size <= METADATA_SIZE_MAX {
        true => Ok(()),
        false => Err(invalid(&format!("metadata is larger than {} MiB", METADATA_SIZE_MAX >> 20))),
    }
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}
