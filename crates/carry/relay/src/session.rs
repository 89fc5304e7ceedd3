//! Session of a producer's connection: its streams and chunks.

use crate::chunk::Chunk;
use crate::clock_log::ClockLog;
use crate::files::Disk;
use crate::output::{Output, now_s};
use crate::stream::{Stream, StreamName};
use crate::waiters::Waiters;
use blkkin_ctf::clock_offsets::{Measurement, Measurements};
use blkkin_ctf::schema::Uuid;
use blkkin_lttng::IndexLayout;
use blkkin_lttng::relay::{AddStream, ChunkAction, CreateChunk, CreateSession, Rotation};
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Origin of a session. Connections with the same origin write to the same output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    /// Id of the producer.
    pub(crate) producer: [u8; 16],
    /// Id of the session at the producer.
    pub(crate) id: u64,
    /// Address of the producer. Only data connections from it may add packets.
    pub(crate) peer: IpAddr,
}

/// A session of a producer's connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) host: String,
    pub(crate) name: String,
    pub(crate) live_timer_us: u32,
    pub(crate) is_snapshot: bool,
    pub(crate) origin: Origin,
    pub(crate) output: Arc<Output>,
    /// Number of attached viewers.
    pub(crate) viewers: AtomicU32,
    /// Viewers that wait for news.
    pub(crate) waiters: Waiters,
    /// Time before which all events were received, in nanoseconds since 1970; 0 if it is unknown.
    complete_ns: AtomicU64,
    /// Number of the data connection that adds packets; 0 before the first packet.
    data_connection: AtomicU64,
    /// Set once that data connection is closed.
    has_all_data: AtomicBool,
    disk: Disk,
    /// Measurements of the producer's clocks. Locked before the state.
    clocks: Mutex<ClockLog>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Streams by their ids, which have the order in which the streams were added.
    streams: BTreeMap<u64, Arc<Stream>>,
    /// Id of the last stream that viewers may see; 0 before there are any.
    published: u64,
    /// Chunks that are not closed, by their ids.
    chunks: BTreeMap<u64, Arc<Chunk>>,
    /// Id of the chunk in which new streams begin.
    current: Option<u64>,
    /// Time at which the producer has closed its connection.
    ended: Option<Instant>,
}

/// Description of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSummary {
    /// Id of the session.
    pub id: u64,
    /// Name of the traced machine.
    pub host: String,
    /// Name of the session.
    pub name: String,
    /// Interval of the live timer in microseconds; 0 if viewers cannot attach.
    pub live_timer_us: u32,
    /// Number of attached viewers.
    pub viewers: u32,
    /// Number of streams, with those of metadata.
    pub streams: u32,
}

/// Maximum time for which a data connection stays open after its control connection.
const DATA_PATIENCE: Duration = Duration::from_secs(10);
/// Time for which an ended session is kept, so that packets in flight are still written and viewers
/// read the rest.
const KEPT_AFTER_END: Duration = Duration::from_secs(30);
/// Maximum number of streams of a session. Tests have fewer, since each has two files.
const STREAMS_MAX: usize = if cfg!(test) { 64 } else { 16_384 };
/// Number of streams of complete traces that make room for others when there are as many as that.
const FORGOTTEN_AT_ONCE: usize = STREAMS_MAX / 8;

impl Session {
    pub(crate) fn new(
        id: u64,
        created: CreateSession,
        output: Arc<Output>,
        peer: IpAddr,
        disk: Disk,
    ) -> Session {
        Session {
            id,
            host: created.host,
            name: created.name,
            live_timer_us: created.live_timer_us,
            is_snapshot: created.is_snapshot,
            origin: Origin { producer: created.producer, id: created.id, peer },
            output,
            viewers: AtomicU32::new(0),
            waiters: Waiters::default(),
            complete_ns: AtomicU64::new(0),
            data_connection: AtomicU64::new(0),
            has_all_data: AtomicBool::new(false),
            disk,
            clocks: Mutex::default(),
            state: Mutex::default(),
        }
    }

    pub(crate) fn summary(&self) -> SessionSummary {
        SessionSummary {
            id: self.id,
            host: self.host.clone(),
            name: self.name.clone(),
            live_timer_us: self.live_timer_us,
            viewers: self.viewers.load(Ordering::Relaxed),
            streams: u32::try_from(self.state.lock().streams.len()).unwrap_or(u32::MAX),
        }
    }

    /// Returns whether the data connection with this number may add packets: the first one that
    /// does, from the producer's address.
    pub(crate) fn admits(&self, connection: u64, peer: IpAddr) -> bool {
        if peer != self.origin.peer {
            return false;
        }
        let own = &self.data_connection;
        let claim = own.compare_exchange(0, connection, Ordering::Relaxed, Ordering::Relaxed);
        claim.is_ok() || claim == Err(connection)
    }

    /// Adds a stream to the present chunk. Before version 2.11 there are no chunks, so the first
    /// stream begins one. If there are too many streams, the oldest complete traces are forgotten:
    /// new viewers do not see them, but those that read them already do. Returns the stream, and
    /// the ids of those that were forgotten.
    pub(crate) fn add_stream(
        &self,
        id: u64,
        added: AddStream,
        layout: IndexLayout,
    ) -> io::Result<(Arc<Stream>, Vec<u64>)> {
        let clocks = self.clocks.lock();
        let mut state = self.state.lock();
        let AddStream { name, path, .. } = added;
        let mut forgotten = Vec::new();
        if state.streams.len() >= STREAMS_MAX {
            forgotten = state.forget_complete();
        }
        if state.streams.len() >= STREAMS_MAX {
            return Err(io::Error::other(format!("a session has at most {STREAMS_MAX} streams")));
        }
        let current = state.current.unwrap_or(0);
        let chunk = state.chunks.get(&current).cloned();
        let chunk = match chunk {
            Some(chunk) => chunk,
            None => self.begin_chunk(&mut state, &CreateChunk::default())?,
        };
        let trace = state.streams.values().find(|stream| stream.path == path);
        let trace = trace.map_or(id, |stream| stream.trace);
        let name = StreamName { id, trace, path, name, layout };
        let stream = Stream::create(name, chunk, self.is_snapshot, self.disk.clone())?;
        let stream = Arc::new(stream);
        self.write_clocks(&stream, &clocks);
        state.streams.insert(id, stream.clone());
        Ok((stream, forgotten))
    }

    fn begin_chunk(&self, state: &mut State, created: &CreateChunk) -> io::Result<Arc<Chunk>> {
        let CreateChunk { id, created_s, name } = created;
        let created_s = if *created_s == 0 { now_s() } else { *created_s };
        let chunk = self.output.chunk(*id, created_s, name.as_deref())?;
        state.chunks.insert(*id, chunk.clone());
        state.current = Some(*id);
        Ok(chunk)
    }

    /// Begins a chunk, in which new streams begin.
    pub(crate) fn create_chunk(&self, created: &CreateChunk) -> io::Result<()> {
        let mut state = self.state.lock();
        if !state.chunks.contains_key(&created.id) {
            self.begin_chunk(&mut state, created)?;
        }
        Ok(())
    }

    /// Returns whether the session has an open chunk.
    pub(crate) fn has_chunk(&self) -> bool {
        !self.state.lock().chunks.is_empty()
    }

    /// Moves streams to another chunk. Fails if a stream or the chunk is unknown.
    pub(crate) fn rotate(&self, rotation: &Rotation) -> io::Result<()> {
        let unknown = || io::Error::from(io::ErrorKind::NotFound);
        // Without a new chunk, the session ends.
        let Some(id) = rotation.chunk else { return Ok(()) };
        let chunk = self.state.lock().chunks.get(&id).cloned().ok_or_else(unknown)?;
        for (stream, at) in &rotation.positions {
            let stream = self.stream(*stream).ok_or_else(unknown)?;
            stream.rotate(chunk.clone(), *at)?;
            self.write_clocks(&stream, &self.clocks.lock());
        }
        Ok(())
    }

    /// Takes a measurement of the producer's clocks, and adds it to the traces that are not
    /// complete.
    pub(crate) fn take_clocks(&self, boot: Uuid, measurement: Measurement) {
        let mut clocks = self.clocks.lock();
        if clocks.add(boot, measurement) {
            for stream in self.streams().iter().filter(|stream| !stream.is_complete()) {
                self.write_clocks(stream, &clocks);
            }
        }
    }

    /// Writes measurements of clocks beside a trace, if `stream` is its metadata.
    fn write_clocks(&self, stream: &Stream, clocks: &ClockLog) {
        let written = if stream.is_metadata { stream.append_clocks(clocks) } else { Ok(()) };
        if let Err(error) = written {
            self.disk.log(&format!("offsets of clocks cannot be written: {error}"));
        }
    }

    /// Returns the measurements of the producer's clocks; see [`ClockLog::after`].
    pub(crate) fn clocks_after(&self, known: u64) -> (u64, Measurements) {
        self.clocks.lock().after(known)
    }

    /// Returns the number of measurements of the producer's clocks.
    pub(crate) fn clocks_count(&self) -> u64 {
        self.clocks.lock().count()
    }

    /// Ends a chunk.
    pub(crate) fn close_chunk(
        &self,
        id: u64,
        closed_s: u64,
        action: Option<ChunkAction>,
    ) -> io::Result<()> {
        let chunk = self.state.lock().chunks.remove(&id);
        let chunk = chunk.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        match action {
            Some(ChunkAction::Complete) => chunk.complete(),
            Some(ChunkAction::Delete) => chunk.delete(),
            Some(ChunkAction::Keep) | None => {}
        }
        chunk.end_use(&self.output.directory, closed_s)?;
        for stream in self.streams() {
            stream.forget_deleted();
        }
        Ok(())
    }

    pub(crate) fn stream(&self, id: u64) -> Option<Arc<Stream>> {
        self.state.lock().streams.get(&id).cloned()
    }

    /// Returns all streams.
    pub(crate) fn streams(&self) -> Vec<Arc<Stream>> {
        self.state.lock().streams.values().cloned().collect()
    }

    /// Lets viewers see all streams that were added so far.
    pub(crate) fn publish_streams(&self) {
        let mut state = self.state.lock();
        state.published = state.streams.keys().next_back().copied().unwrap_or(state.published);
    }

    /// Returns the streams for viewers after that with the id `last`. The streams of a trace are
    /// only shown together with its metadata stream.
    pub(crate) fn published_after(&self, last: u64) -> Vec<Arc<Stream>> {
        let state = self.state.lock();
        let new = state.streams.range(last + 1..).take_while(|(id, _)| **id <= state.published);
        new.map(|(_, stream)| stream.clone()).collect()
    }

    /// Returns the id of the last stream that viewers may see.
    pub(crate) fn published(&self) -> u64 {
        self.state.lock().published
    }

    /// Notes that the producer has closed its connection. Its use of chunks ends.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.ended = Some(Instant::now());
        for chunk in std::mem::take(&mut state.chunks).into_values() {
            if let Err(error) = chunk.end_use(&self.output.directory, now_s()) {
                self.disk.log(&format!("a chunk cannot be closed: {error}"));
            }
        }
        drop(state);
        self.waiters.wake();
    }

    /// Notes that the producer's data connection is closed.
    pub(crate) fn end_data(&self) {
        self.has_all_data.store(true, Ordering::Relaxed);
        self.waiters.wake();
    }

    /// Notes the producer's promise that all events before a time were sent before.
    pub(crate) fn promise_complete(&self, until_ns: u64) {
        self.complete_ns.fetch_max(until_ns, Ordering::SeqCst);
    }

    /// Returns the time before which all events were received and published, in nanoseconds since
    /// 1970; 0 if it is unknown.
    pub(crate) fn complete_ns(&self) -> u64 {
        self.complete_ns.load(Ordering::SeqCst)
    }

    /// Returns whether no packet follows: the producer has closed its connections, or its control
    /// connection a while ago.
    pub(crate) fn is_over(&self) -> bool {
        let has_all = self.has_all_data.load(Ordering::Relaxed);
        let has_data = self.data_connection.load(Ordering::Relaxed) != 0;
        self.ended().is_some_and(|ended| has_all || !has_data || ended.elapsed() >= DATA_PATIENCE)
    }

    /// Returns whether the session ended so long ago that viewers without it are not awaited.
    pub(crate) fn is_old(&self) -> bool {
        self.ended().is_some_and(|ended| ended.elapsed() >= KEPT_AFTER_END)
    }

    /// Returns the time at which the producer has closed its connection.
    pub(crate) fn ended(&self) -> Option<Instant> {
        self.state.lock().ended
    }
}

impl State {
    /// Forgets the streams of the oldest traces all of whose streams are complete. Returns their
    /// ids.
    fn forget_complete(&mut self) -> Vec<u64> {
        let streams = || self.streams.values();
        let open: HashSet<u64> =
            streams().filter(|one| !one.is_complete()).map(|one| one.trace).collect();
        let complete = streams().map(|one| one.trace).filter(|trace| !open.contains(trace));
        let traces: HashSet<u64> = complete.take(FORGOTTEN_AT_ONCE).collect();
        let forgotten = streams().filter(|one| traces.contains(&one.trace)).map(|one| one.id);
        let forgotten: Vec<u64> = forgotten.collect();
        self.streams.retain(|_, stream| !traces.contains(&stream.trace));
        forgotten
    }
}

impl Stream {
    /// Returns the path of the stream's trace below the session's directory. Before version 2.11
    /// the path of a stream starts with host and session.
    pub(crate) fn trace_path(path: &str, minor: u32) -> &str {
        if minor >= 11 {
            return path;
        }
        let domain = ["/ust/", "/kernel/"].iter().filter_map(|domain| path.find(domain)).min();
        let domain = domain.or_else(|| path.ends_with("/kernel").then(|| path.len() - 7));
        domain.and_then(|at| path.get(at + 1..)).unwrap_or(path)
    }
}
