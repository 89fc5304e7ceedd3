//! State of a viewer's connection, without its socket.

use crate::clock_log::ClockLog;
use crate::close::Close;
use crate::session::Session;
use crate::sessions::Sessions;
use crate::stream::{Beacon, NextPacket, Stream};
use crate::waiters::Waiter;
use blkkin_lttng::PacketIndex;
use blkkin_lttng::viewer::{
    self, AttachStatus, IndexStatus, MAJOR, MINOR, MetadataStatus, NewStreamsStatus, News,
    PacketStatus, Reply, Request, Seek, SessionNews, StreamNews, flags,
};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// State of a viewer's connection.
#[derive(Debug)]
pub struct Viewing {
    sessions: Arc<Sessions>,
    connection: u64,
    is_connected: bool,
    is_prepared: bool,
    attached: BTreeMap<u64, Attached>,
    /// Request for news that has no reply yet.
    wait: Option<Wait>,
    waiter: Arc<Waiter>,
}

/// Request for news.
#[derive(Clone, Copy, Debug)]
struct Wait {
    /// Maximum size of the packets in the next replies, in bytes.
    room: usize,
    /// Maximum number of replies.
    count: u32,
    /// Time at which a reply is sent without news.
    until: Option<Instant>,
}

/// A session that the viewer is attached to.
#[derive(Debug)]
struct Attached {
    session: Arc<Session>,
    /// Id of the last of the session's streams that the viewer knows.
    listed: u64,
    cursors: HashMap<u64, Cursor>,
    /// Time before which the viewer has all events, as it was told.
    complete_ns: u64,
    /// Number of measurements of clocks of which the viewer was told.
    clocks: u64,
}

/// Position of the viewer in a stream.
#[derive(Debug)]
struct Cursor {
    stream: Arc<Stream>,
    /// Number of the next packet.
    next: u64,
    /// Length of the metadata that was sent, in bytes of its text.
    sent: usize,
    /// Generation of the metadata that was sent.
    generation: u64,
    /// Beacon that was sent as news.
    beacon: Option<Beacon>,
    /// Set once the viewer knows that the stream has ended, and for metadata, whose end viewers do
    /// not ask for.
    is_over: bool,
}

/// Maximum number of bytes of a packet in one reply.
const PACKET_BYTES_MAX: usize = 1 << 20;

/// Maximum size of the packets in the replies to a request for news, in bytes, and maximum number
/// of entries in a reply.
const NEWS_BYTES_MAX: usize = 1 << 20;
const NEWS_MAX: usize = 4096;
/// Interval at which a session whose producer has gone is looked at while a viewer waits.
const END_PAUSE: Duration = Duration::from_millis(500);

/// Status of a successful reply without further fields.
const OK: u32 = 1;
/// Status of a failed detachment.
const UNKNOWN: u32 = 2;

impl Viewing {
    /// Makes the state of a connection.
    pub fn new(sessions: Arc<Sessions>) -> io::Result<Viewing> {
        let waiter = Waiter::new()?;
        let connection = sessions.new_id();
        let (is_connected, is_prepared) = (false, false);
        Ok(Viewing {
            sessions,
            connection,
            is_connected,
            is_prepared,
            attached: BTreeMap::new(),
            wait: None,
            waiter: Arc::new(waiter),
        })
    }

    /// Answers the requests that are complete in `input`, and appends the replies to `output`.
    /// Returns the size of these requests in bytes.
    pub fn receive(&mut self, input: &[u8], output: &mut Vec<u8>) -> Result<usize, Close> {
        let mut used = 0;
        // A reply may be large, so each is sent before the next request is read.
        if let Some((request, size)) = Request::decode(input)? {
            used += size;
            self.answer(request, output)?;
        }
        Ok(used)
    }

    /// Returns the waiter by which this viewer is woken.
    pub(crate) fn waiter(&self) -> Arc<Waiter> {
        self.waiter.clone()
    }

    /// Returns whether a request for news is open, and the time at which it must be looked at
    /// without any news.
    pub(crate) fn wait(&self) -> Option<Option<Instant>> {
        let wait = self.wait?;
        // That a session is over can be due to time alone.
        let soon = self.has_ending().then(|| Instant::now() + END_PAUSE);
        Some(wait.until.into_iter().chain(soon).min())
    }

    /// Returns whether the producer of a session has gone.
    pub(crate) fn has_ending(&self) -> bool {
        self.attached.values().any(|attached| attached.session.ended().is_some())
    }

    /// Returns whether a request for news is open.
    pub fn is_waiting(&self) -> bool {
        self.wait.is_some()
    }

    /// Answers the request for news if there are any, or if its time is over.
    pub fn answer_wait(&mut self, output: &mut Vec<u8>) {
        let Some(mut wait) = self.wait.take() else { return };
        self.waiter.begin();
        let mut news = self.news(&mut wait.room);
        let has_news = !news.sessions.is_empty() || !news.streams.is_empty();
        if has_news || wait.until.is_some_and(|until| until <= Instant::now()) {
            wait.count = wait.count.saturating_sub(1);
            // After a time without news, the viewer chooses another time.
            news.is_last = wait.count == 0 || wait.room == 0 || !has_news;
            let is_last = news.is_last;
            Reply::News(news).encode(output);
            if is_last {
                self.waiter.end();
                return;
            }
        }
        self.wait = Some(wait);
    }

    /// Collects what is new in all sessions.
    fn news(&mut self, room: &mut usize) -> News {
        let mut news = News::default();
        for (&session, attached) in &mut self.attached {
            // The complete time is read before the streams, so that all earlier packets are found.
            let complete_ns = attached.session.complete_ns();
            let is_whole = attached.stream_news(room, &mut news.streams);
            let has_streams = attached.has_new_streams() || attached.has_ended();
            let complete_ns = if is_whole && !has_streams { complete_ns } else { 0 };
            let clocks = attached.session.clocks_count();
            let has_clocks = std::mem::replace(&mut attached.clocks, clocks) != clocks;
            if has_streams || has_clocks || complete_ns > attached.complete_ns {
                attached.complete_ns = attached.complete_ns.max(complete_ns);
                news.sessions.push(SessionNews { session, complete_ns, has_streams, has_clocks });
            }
        }
        news
    }

    fn answer(&mut self, request: Request, output: &mut Vec<u8>) -> Result<(), Close> {
        if self.wait.take().is_some() {
            // The viewer does not wait any more.
            Reply::News(News { is_last: true, ..News::default() }).encode(output);
        }
        if !self.is_connected && !matches!(request, Request::Connect { .. }) {
            return Err(Close::Order("a request precedes the version"));
        }
        let reply = match request {
            Request::Connect { major, minor, kind } => {
                if major != MAJOR || ![1, 2].contains(&kind) {
                    return Err(Close::Version(major, minor));
                }
                self.is_connected = true;
                Reply::Connected {
                    connection: self.connection,
                    major: MAJOR,
                    minor: MINOR,
                    abilities: viewer::OWN_REQUESTS,
                }
            }
            Request::ListSessions { with_ended } => self.list(with_ended),
            Request::CreateViewerSession => {
                self.is_prepared = true;
                Reply::Status(OK)
            }
            Request::Attach { session, seek } => match self.attach(session, seek) {
                Ok(streams) => Reply::Attached { status: AttachStatus::Ok, streams },
                Err(status) => Reply::Attached { status, streams: Vec::new() },
            },
            Request::NewStreams { session } => self.new_streams(session),
            Request::NextIndex { stream } => self.next_index(stream),
            Request::Packet { stream, offset, size } => self.packet(stream, offset, size),
            Request::Metadata { stream } => self.metadata(stream),
            Request::Detach { session } => match self.attached.remove(&session) {
                Some(_) => Reply::Status(OK),
                None => Reply::Status(UNKNOWN),
            },
            Request::Clocks { session, known } => {
                let (first, measurements) = match self.attached.get(&session) {
                    Some(attached) => attached.session.clocks_after(known),
                    None => ClockLog::default().after(known),
                };
                Reply::Clocks { first, measurements }
            }
            Request::Await { room, count, timeout_ms } => {
                let timeout = Duration::from_millis(timeout_ms.into());
                let until = (timeout_ms > 0).then(|| Instant::now() + timeout);
                let (room, count) = ((room as usize).min(NEWS_BYTES_MAX), count.max(1));
                self.wait = Some(Wait { room, count, until });
                self.answer_wait(output);
                return Ok(());
            }
            Request::Unknown(number) => {
                Reply::Status(11).encode(output);
                return Err(Close::Unknown(number));
            }
        };
        reply.encode(output);
        Ok(())
    }

    fn list(&self, with_ended: bool) -> Reply {
        let entry = |summary: crate::SessionSummary| viewer::Session {
            id: summary.id,
            live_timer_us: summary.live_timer_us,
            clients: summary.viewers,
            streams: summary.streams,
            host: summary.host,
            name: summary.name,
        };
        let sessions =
            if with_ended { self.sessions.list_with_ended() } else { self.sessions.list() };
        Reply::Sessions(sessions.into_iter().map(entry).collect())
    }

    fn attach(&mut self, id: u64, seek: Option<Seek>) -> Result<Vec<viewer::Stream>, AttachStatus> {
        if !self.is_prepared {
            return Err(AttachStatus::NoSession);
        }
        let seek = seek.ok_or(AttachStatus::SeekError)?;
        let session = self.sessions.session(id).ok_or(AttachStatus::Unknown)?;
        if session.live_timer_us == 0 {
            return Err(AttachStatus::NotLive);
        }
        if self.attached.contains_key(&id) {
            return Err(AttachStatus::Already);
        }
        session.viewers.fetch_add(1, Ordering::Relaxed);
        session.waiters.add(&self.waiter);
        let cursors = HashMap::new();
        let mut attached = Attached { session, listed: 0, cursors, complete_ns: 0, clocks: 0 };
        let streams = attached.list_streams(seek);
        self.attached.insert(id, attached);
        Ok(streams)
    }

    fn new_streams(&mut self, session: u64) -> Reply {
        let (status, streams) = match self.attached.get_mut(&session) {
            None => (NewStreamsStatus::Error, Vec::new()),
            Some(attached) => {
                let streams = attached.list_streams(Seek::Beginning);
                let ends = streams.is_empty() && attached.has_ended();
                (if ends { NewStreamsStatus::End } else { NewStreamsStatus::Ok }, streams)
            }
        };
        Reply::NewStreams { status, streams }
    }

    /// Returns the attached session of a stream. Streams of other sessions are unknown.
    fn attached_of(&mut self, stream: u64) -> Option<&mut Attached> {
        self.attached.values_mut().find(|attached| attached.cursors.contains_key(&stream))
    }

    fn next_index(&mut self, stream: u64) -> Reply {
        let reply = |(offset, index), status, flags| Reply::Index { offset, index, status, flags };
        let none = (0, PacketIndex::default());
        let Some(attached) = self.attached_of(stream) else {
            return reply(none, IndexStatus::Error, 0);
        };
        let is_over = attached.session.is_over();
        let Some(cursor) = attached.cursors.get_mut(&stream) else {
            return reply(none, IndexStatus::Error, 0);
        };
        let (index, status) = match cursor.stream.next(cursor.next, is_over) {
            _ if cursor.stream.is_metadata => (none, IndexStatus::End),
            Ok(NextPacket::Packet { offset, index, next }) => {
                cursor.next = next;
                ((offset, index), IndexStatus::Ok)
            }
            Ok(NextPacket::Inactive(Beacon { end, class })) => {
                ((0, PacketIndex { end, class, ..none.1 }), IndexStatus::Inactive)
            }
            Ok(NextPacket::Nothing) => (none, IndexStatus::Retry),
            Ok(NextPacket::End) => {
                cursor.is_over = true;
                (none, IndexStatus::End)
            }
            Err(_) => (none, IndexStatus::Error),
        };
        // Metadata precedes the packet, so the flags after the packet was found tell of it.
        reply(index, status, attached.flags(stream))
    }

    fn packet(&mut self, stream: u64, offset: u64, size: u32) -> Reply {
        let cursor = self.attached_of(stream).and_then(|attached| attached.cursors.get(&stream));
        let size = (size as usize).min(PACKET_BYTES_MAX);
        let bytes = cursor.map(|cursor| cursor.stream.read(offset, size));
        match bytes {
            Some(Ok(bytes)) if !bytes.is_empty() => {
                Reply::Packet { status: PacketStatus::Ok, flags: 0, bytes }
            }
            _ => Reply::Packet { status: PacketStatus::Error, flags: 0, bytes: Vec::new() },
        }
    }

    fn metadata(&mut self, stream: u64) -> Reply {
        let reply = |status, bytes| Reply::Metadata { status, bytes };
        let Some(attached) = self.attached_of(stream) else {
            return reply(MetadataStatus::Error, Vec::new());
        };
        let cursor = attached.cursors.get_mut(&stream).filter(|cursor| cursor.stream.is_metadata);
        let Some(cursor) = cursor else { return reply(MetadataStatus::Error, Vec::new()) };
        let read = cursor.stream.with_metadata(|metadata| {
            (metadata.after(cursor.sent), metadata.whole(), metadata.generation)
        });
        let (more, whole, generation) = read;
        if generation != cursor.generation && cursor.sent > 0 {
            // Other metadata replaced what the viewer has.
            return reply(MetadataStatus::Error, Vec::new());
        }
        match more {
            Some(bytes) => {
                (cursor.sent, cursor.generation) = (whole, generation);
                reply(MetadataStatus::Ok, bytes)
            }
            None => reply(MetadataStatus::NoNew, Vec::new()),
        }
    }
}

impl Attached {
    /// Returns the streams that the viewer does not know, and begins to read them.
    fn list_streams(&mut self, seek: Seek) -> Vec<viewer::Stream> {
        let streams = self.session.published_after(self.listed);
        self.listed = streams.last().map_or(self.listed, |last| last.id);
        let list = streams.into_iter().map(|stream| {
            let next = match seek {
                Seek::Beginning => 0,
                Seek::Last => stream.end(),
            };
            let entry = viewer::Stream {
                id: stream.id,
                trace: stream.trace,
                is_metadata: stream.is_metadata,
                path: stream.path.clone(),
                name: stream.name.clone(),
            };
            let is_over = stream.is_metadata;
            let (sent, generation, beacon) = (0, 0, None);
            let cursor = Cursor { stream, next, sent, generation, beacon, is_over };
            self.cursors.insert(entry.id, cursor);
            entry
        });
        list.collect()
    }

    fn has_new_streams(&self) -> bool {
        self.session.published() > self.listed
    }

    /// Returns whether the session is over, and the viewer knows the ends of all its streams.
    fn has_ended(&self) -> bool {
        self.session.is_over() && self.cursors.values().all(|cursor| cursor.is_over)
    }

    /// Appends what is new in the session's streams: packets as far as there is `room`, beacons,
    /// ends, and that there is metadata. Returns whether these are all packets.
    fn stream_news(&mut self, room: &mut usize, news: &mut Vec<StreamNews>) -> bool {
        let is_over = self.session.is_over();
        let metadata: HashMap<u64, (usize, usize)> = self
            .cursors
            .values()
            .filter(|cursor| cursor.stream.is_metadata)
            .map(|cursor| (cursor.stream.trace, (cursor.sent, cursor.stream.metadata_size())))
            .collect();
        let mut is_whole = true;
        let data = self.cursors.iter_mut().filter(|(_, cursor)| !cursor.is_over);
        for (&stream, cursor) in data {
            let of_stream = |status| StreamNews {
                stream,
                offset: 0,
                index: PacketIndex::default(),
                status,
                flags: 0,
                bytes: Vec::new(),
            };
            let (sent, size) = metadata.get(&cursor.stream.trace).copied().unwrap_or_default();
            if size > sent {
                // The viewer must request the metadata before the packets.
                news.push(StreamNews {
                    flags: flags::NEW_METADATA,
                    ..of_stream(IndexStatus::Retry)
                });
                is_whole = false;
                continue;
            }
            if sent == 0 {
                // Without metadata, the packets cannot be read.
                if is_over {
                    cursor.is_over = true;
                    news.push(of_stream(IndexStatus::End));
                }
                is_whole = false;
                continue;
            }
            loop {
                if news.len() >= NEWS_MAX {
                    *room = 0;
                    return false;
                }
                match cursor.stream.next(cursor.next, is_over) {
                    Ok(NextPacket::Packet { offset, index, next }) => {
                        let size = usize::try_from(index.packet_bits / 8).unwrap_or(usize::MAX);
                        if size > *room && !news.is_empty() {
                            // It is the first of the next request.
                            *room = 0;
                            return false;
                        }
                        let read = (size <= *room).then(|| cursor.stream.read(offset, size).ok());
                        let whole = read.flatten().filter(|bytes| bytes.len() == size);
                        let bytes = whole.unwrap_or_default();
                        cursor.next = next;
                        let has_bytes = !bytes.is_empty();
                        *room = room.saturating_sub(size);
                        news.push(StreamNews {
                            offset,
                            index,
                            bytes,
                            ..of_stream(IndexStatus::Ok)
                        });
                        if !has_bytes {
                            // The viewer requests the bytes before it waits again.
                            *room = 0;
                            return false;
                        }
                    }
                    Ok(NextPacket::Inactive(beacon)) => {
                        if cursor.beacon != Some(beacon) {
                            cursor.beacon = Some(beacon);
                            let Beacon { end, class } = beacon;
                            let index = PacketIndex { end, class, ..PacketIndex::default() };
                            let inactive = of_stream(IndexStatus::Inactive);
                            news.push(StreamNews { index, ..inactive });
                        }
                        break;
                    }
                    Ok(NextPacket::Nothing) => {
                        is_whole &= !cursor.stream.is_waiting();
                        break;
                    }
                    Ok(NextPacket::End) => {
                        cursor.is_over = true;
                        news.push(of_stream(IndexStatus::End));
                        break;
                    }
                    Err(_) => {
                        news.push(of_stream(IndexStatus::Error));
                        break;
                    }
                }
            }
        }
        is_whole
    }

    /// Returns the flags of a reply about `stream`.
    fn flags(&self, stream: u64) -> u32 {
        let trace = self.cursors.get(&stream).map(|cursor| cursor.stream.trace);
        let metadata = self
            .cursors
            .values()
            .find(|cursor| cursor.stream.is_metadata && Some(cursor.stream.trace) == trace);
        let is_new = metadata.is_some_and(|cursor| cursor.stream.metadata_size() > cursor.sent);
        let has_streams = self.has_new_streams();
        let metadata = if is_new { flags::NEW_METADATA } else { 0 };
        metadata | if has_streams { flags::NEW_STREAM } else { 0 }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.session.viewers.fetch_sub(1, Ordering::Relaxed);
    }
}
