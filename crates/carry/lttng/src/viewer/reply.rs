//! Replies of a relay to viewers. They have no header: the request decides the layout.

use super::request::RequestKind;
use crate::fault::{Fault, Reason};
use crate::packet_index::PacketIndex;
use crate::wire::{Fields, PutFields};
use blkkin_ctf::clock_offsets::Measurements;
use blkkin_ctf::schema::Uuid;

/// Flags of [`Reply::Index`] and [`Reply::Packet`].
pub mod flags {
    /// The viewer must request metadata before the packet.
    pub const NEW_METADATA: u32 = 1;
    /// The viewer must request new streams.
    pub const NEW_STREAM: u32 = 2;
}

/// Reply to a [`Request`](super::Request).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Version of the relay.
    Connected {
        /// Number of the viewer's connection.
        connection: u64,
        /// Major version.
        major: u32,
        /// Minor version.
        minor: u32,
        /// [`OWN_REQUESTS`](super::OWN_REQUESTS), or 0.
        abilities: u32,
    },
    /// Sessions of the relay.
    Sessions(Vec<Session>),
    /// Result of attaching, with the streams of the session.
    Attached {
        /// Result of the request.
        status: AttachStatus,
        /// Streams; empty unless the viewer is attached.
        streams: Vec<Stream>,
    },
    /// Index of a packet, or the state of the stream.
    Index {
        /// Offset of the packet, for a request of its bytes.
        offset: u64,
        /// Index of the packet; only `end` and `class` are valid for [`IndexStatus::Inactive`].
        index: PacketIndex,
        /// State of the stream.
        status: IndexStatus,
        /// Flags of [`flags`].
        flags: u32,
    },
    /// Bytes of a packet.
    Packet {
        /// Result of the request.
        status: PacketStatus,
        /// Flags of [`flags`].
        flags: u32,
        /// Bytes, at most as many as were requested.
        bytes: Vec<u8>,
    },
    /// Metadata that was not sent before.
    Metadata {
        /// Result of the request.
        status: MetadataStatus,
        /// Bytes of the metadata.
        bytes: Vec<u8>,
    },
    /// Streams that were not listed before.
    NewStreams {
        /// State of the session.
        status: NewStreamsStatus,
        /// Streams.
        streams: Vec<Stream>,
    },
    /// Status of creating a viewer session or of detaching; 1 means success.
    Status(u32),
    /// News of all sessions that the viewer is attached to.
    News(News),
    /// Measurements of the clocks of a session's producer.
    Clocks {
        /// Number of the first measurement in the list, among all that the producer has reported.
        first: u64,
        /// Measurements in their order; empty if the producer does not report any.
        measurements: Measurements,
    },
}

/// News of sessions. The packets of a stream are in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Set in the last reply to a request.
    pub is_last: bool,
    /// News of sessions.
    pub sessions: Vec<SessionNews>,
    /// News of streams.
    pub streams: Vec<StreamNews>,
}

/// News of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionNews {
    /// Id of the session.
    pub session: u64,
    /// Time before which the viewer has all events of the session once it has taken this reply, in
    /// nanoseconds since 1970; 0 if the time is unknown.
    pub complete_ns: u64,
    /// Set if the viewer must request new streams, or the end of the session.
    pub has_streams: bool,
    /// Set if the relay has more measurements of clocks.
    pub has_clocks: bool,
}

/// News of a stream: what [`Reply::Index`] says, and the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamNews {
    /// Id of the stream.
    pub stream: u64,
    /// Offset of the packet, for a request of its bytes.
    pub offset: u64,
    /// Index of the packet; only `end` and `class` are valid for [`IndexStatus::Inactive`].
    pub index: PacketIndex,
    /// State of the stream.
    pub status: IndexStatus,
    /// Flags of [`flags`].
    pub flags: u32,
    /// Bytes of the packet. Empty if they are to be requested.
    pub bytes: Vec<u8>,
}

/// Session of a relay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// Id of the session.
    pub id: u64,
    /// Interval of the live timer in microseconds; 0 if viewers cannot attach.
    pub live_timer_us: u32,
    /// Number of viewers.
    pub clients: u32,
    /// Number of streams.
    pub streams: u32,
    /// Name of the traced machine.
    pub host: String,
    /// Name of the session.
    pub name: String,
}

/// Stream of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// Id of the stream.
    pub id: u64,
    /// Id of the trace: one metadata stream and its data streams.
    pub trace: u64,
    /// True for the metadata stream.
    pub is_metadata: bool,
    /// Path of the trace.
    pub path: String,
    /// Name of the stream's file.
    pub name: String,
}

/// Defines an enum of a status field, whose undefined values are refused.
macro_rules! status {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $number:literal $variant:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$variant_doc])* $variant = $number,)*
        }

        impl $name {
            fn decode(fields: &mut Fields<'_>) -> Result<$name, Fault> {
                match fields.u32()? {
                    $($number => Ok($name::$variant),)*
                    other => Err(fields.fault(Reason::Value(other.into()))),
                }
            }
        }
    };
}

status! {
    /// Result of attaching to a session.
    AttachStatus {
        /// The viewer is attached.
        1 Ok,
        /// The viewer was attached before.
        2 Already,
        /// The session is unknown or closed.
        3 Unknown,
        /// The session is not live.
        4 NotLive,
        /// The position is undefined.
        5 SeekError,
        /// The connection was not prepared for attaching.
        6 NoSession,
    }
}

status! {
    /// State of a stream.
    IndexStatus {
        /// A packet follows in the stream.
        1 Ok,
        /// Nothing is known yet; the viewer asks again.
        2 Retry,
        /// The stream ended.
        3 End,
        /// The stream is unknown.
        4 Error,
        /// The stream has no event before the time in `end`.
        5 Inactive,
    }
}

status! {
    /// Result of requesting a packet's bytes.
    PacketStatus {
        /// The bytes follow.
        1 Ok,
        /// The viewer asks again.
        2 Retry,
        /// There are no such bytes, or the flags say what to request first.
        3 Error,
        /// The stream ended.
        4 End,
    }
}

status! {
    /// Result of requesting metadata.
    MetadataStatus {
        /// Metadata follows.
        1 Ok,
        /// All metadata was sent.
        2 NoNew,
        /// The stream is unknown, or its metadata is complete.
        3 Error,
    }
}

status! {
    /// Result of requesting new streams.
    NewStreamsStatus {
        /// The new streams follow, possibly 0.
        1 Ok,
        /// There are no new streams.
        2 NoNew,
        /// The session is unknown, or the viewer is not attached.
        3 Error,
        /// The session ended.
        4 End,
    }
}

/// Sizes of fields with padded strings, in bytes.
const HOST_SIZE: usize = 64;
const NAME_SIZE: usize = 255;
const PATH_SIZE: usize = 4096;
/// Sizes of the entries of lists, in bytes.
const SESSION_SIZE: usize = 8 + 3 * 4 + HOST_SIZE + NAME_SIZE;
const STREAM_SIZE: usize = 2 * 8 + 4 + PATH_SIZE + NAME_SIZE;
const MEASUREMENT_SIZE: usize = 4 * 8;
/// Maximum number of measurements in a reply.
pub const MEASUREMENTS_MAX: u32 = 4096;
/// Maximum number of sessions in a reply.
const SESSIONS_MAX: u32 = 65_536;
/// Maximum number of sessions, and of packets, in a list of news.
pub(crate) const NEWS_MAX: u32 = 65_536;
/// Maximum number of streams in a reply.
const STREAMS_MAX: u32 = 16_384;
/// Maximum size in bytes of a packet's part, and of metadata, in a reply.
const BYTES_MAX: u64 = 64 << 20;

impl Reply {
    /// Appends the reply to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Reply::Connected { connection, major, minor, abilities } => {
                out.put_u64(*connection);
                out.put_u32(*major);
                out.put_u32(*minor);
                out.put_u32(*abilities);
            }
            Reply::Sessions(sessions) => {
                out.put_u32(u32::try_from(sessions.len()).unwrap_or(u32::MAX));
                for session in sessions {
                    out.put_u64(session.id);
                    out.put_u32(session.live_timer_us);
                    out.put_u32(session.clients);
                    out.put_u32(session.streams);
                    out.put_padded(&session.host, HOST_SIZE);
                    out.put_padded(&session.name, NAME_SIZE);
                }
            }
            Reply::Attached { status, streams } => put_streams(out, *status as u32, streams),
            Reply::NewStreams { status, streams } => put_streams(out, *status as u32, streams),
            Reply::Index { offset, index, status, flags } => {
                out.put_u64(*offset);
                index.encode(out);
                out.put_u32(*status as u32);
                out.put_u32(*flags);
            }
            Reply::Packet { status, flags, bytes } => {
                out.put_u32(*status as u32);
                out.put_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
                out.put_u32(*flags);
                out.extend_from_slice(bytes);
            }
            Reply::Metadata { status, bytes } => {
                out.put_u64(bytes.len() as u64);
                out.put_u32(*status as u32);
                out.extend_from_slice(bytes);
            }
            Reply::Status(status) => out.put_u32(*status),
            Reply::News(news) => news.encode(out),
            Reply::Clocks { first, measurements: Measurements { boot: Uuid(boot), list } } => {
                out.put_u64(*first);
                out.extend_from_slice(boot);
                out.put_u32(u32::try_from(list.len()).unwrap_or(u32::MAX));
                list.iter().for_each(|one| out.put_measurement(one));
            }
        }
    }

    /// Decodes the reply to a request, and returns it with its size in bytes; `None` if it is
    /// incomplete.
    pub fn decode(kind: RequestKind, bytes: &[u8]) -> Result<Option<(Reply, usize)>, Fault> {
        let mut fields = Fields::new(name_of(kind), bytes, 0);
        match decode_fields(kind, &mut fields) {
            Ok(reply) => Ok(Some((reply, bytes.len() - fields.remaining()))),
            Err(Fault { reason: Reason::Short, .. }) => Ok(None),
            Err(fault) => Err(fault),
        }
    }
}

impl News {
    fn encode(&self, out: &mut Vec<u8>) {
        let News { is_last, sessions, streams } = self;
        out.put_u32((*is_last).into());
        out.put_u32(u32::try_from(sessions.len()).unwrap_or(u32::MAX));
        for session in sessions {
            out.put_u64(session.session);
            out.put_u64(session.complete_ns);
            out.put_u32(session.has_streams.into());
            out.put_u32(session.has_clocks.into());
        }
        out.put_u32(u32::try_from(streams.len()).unwrap_or(u32::MAX));
        for stream in streams {
            out.put_u64(stream.stream);
            out.put_u64(stream.offset);
            stream.index.encode(out);
            out.put_u32(stream.status as u32);
            out.put_u32(stream.flags);
            out.put_u32(u32::try_from(stream.bytes.len()).unwrap_or(u32::MAX));
            out.extend_from_slice(&stream.bytes);
        }
    }

    fn decode(fields: &mut Fields<'_>) -> Result<News, Fault> {
        let mut news = News { is_last: fields.u32()? != 0, ..News::default() };
        for _ in 0..count(fields, NEWS_MAX, "up to 65536 sessions")? {
            news.sessions.push(SessionNews {
                session: fields.u64()?,
                complete_ns: fields.u64()?,
                has_streams: fields.u32()? != 0,
                has_clocks: fields.u32()? != 0,
            });
        }
        for _ in 0..count(fields, NEWS_MAX, "up to 65536 packets")? {
            let (stream, offset) = (fields.u64()?, fields.u64()?);
            let index = PacketIndex::decode(fields)?;
            let (status, flags) = (IndexStatus::decode(fields)?, fields.u32()?);
            let size = fields.u32()?;
            let bytes = bytes_of(fields, size.into())?;
            news.streams.push(StreamNews { stream, offset, index, status, flags, bytes });
        }
        Ok(news)
    }
}

fn name_of(kind: RequestKind) -> &'static str {
    match kind {
        RequestKind::Connect => "reply to CONNECT",
        RequestKind::ListSessions => "reply to LIST_SESSIONS",
        RequestKind::Attach => "reply to ATTACH_SESSION",
        RequestKind::NextIndex => "reply to GET_NEXT_INDEX",
        RequestKind::Packet => "reply to GET_PACKET",
        RequestKind::Metadata => "reply to GET_METADATA",
        RequestKind::NewStreams => "reply to GET_NEW_STREAMS",
        RequestKind::CreateViewerSession => "reply to CREATE_SESSION",
        RequestKind::Detach => "reply to DETACH_SESSION",
        RequestKind::Await => "reply to AWAIT",
        RequestKind::Clocks => "reply to GET_CLOCKS",
    }
}

fn put_streams(out: &mut Vec<u8>, status: u32, streams: &[Stream]) {
    out.put_u32(status);
    out.put_u32(u32::try_from(streams.len()).unwrap_or(u32::MAX));
    for stream in streams {
        out.put_u64(stream.id);
        out.put_u64(stream.trace);
        out.put_u32(stream.is_metadata.into());
        out.put_padded(&stream.path, PATH_SIZE);
        out.put_padded(&stream.name, NAME_SIZE);
    }
}

fn count(fields: &mut Fields<'_>, max: u32, permitted: &'static str) -> Result<u32, Fault> {
    let declared = fields.u32()?;
    match declared <= max {
        true => Ok(declared),
        false => {
            let reason = Reason::Size { declared: declared.into(), permitted };
            Err(fields.fault(reason))
        }
    }
}

/// Fails if the message ends before `count` entries of `size` bytes, so that an incomplete list is
/// not decoded again whenever bytes arrive.
fn expect_entries(fields: &Fields<'_>, count: u32, size: usize) -> Result<(), Fault> {
    match fields.remaining() / size >= count as usize {
        true => Ok(()),
        false => Err(fields.fault(Reason::Short)),
    }
}

fn bytes_of(fields: &mut Fields<'_>, declared: u64) -> Result<Vec<u8>, Fault> {
    if declared > BYTES_MAX {
        return Err(fields.fault(Reason::Size { declared, permitted: "up to 64 MiB" }));
    }
    Ok(fields.take(declared as usize)?.to_vec())
}

fn streams_of(fields: &mut Fields<'_>) -> Result<Vec<Stream>, Fault> {
    let count = count(fields, STREAMS_MAX, "up to 16384 streams")?;
    expect_entries(fields, count, STREAM_SIZE)?;
    let stream = |_| {
        Ok(Stream {
            id: fields.u64()?,
            trace: fields.u64()?,
            is_metadata: fields.u32()? != 0,
            path: fields.string(PATH_SIZE)?.to_owned(),
            name: fields.string(NAME_SIZE)?.to_owned(),
        })
    };
    (0..count).map(stream).collect()
}

fn decode_fields(kind: RequestKind, fields: &mut Fields<'_>) -> Result<Reply, Fault> {
    Ok(match kind {
        RequestKind::Connect => {
            let connection = fields.u64()?;
            let (major, minor, abilities) = (fields.u32()?, fields.u32()?, fields.u32()?);
            Reply::Connected { connection, major, minor, abilities }
        }
        RequestKind::ListSessions => {
            let count = count(fields, SESSIONS_MAX, "up to 65536 sessions")?;
            expect_entries(fields, count, SESSION_SIZE)?;
            let session = |_| {
                Ok(Session {
                    id: fields.u64()?,
                    live_timer_us: fields.u32()?,
                    clients: fields.u32()?,
                    streams: fields.u32()?,
                    host: fields.string(HOST_SIZE)?.to_owned(),
                    name: fields.string(NAME_SIZE)?.to_owned(),
                })
            };
            Reply::Sessions((0..count).map(session).collect::<Result<_, Fault>>()?)
        }
        RequestKind::Attach => {
            let status = AttachStatus::decode(fields)?;
            Reply::Attached { status, streams: streams_of(fields)? }
        }
        RequestKind::NewStreams => {
            let status = NewStreamsStatus::decode(fields)?;
            Reply::NewStreams { status, streams: streams_of(fields)? }
        }
        RequestKind::NextIndex => {
            let (offset, index) = (fields.u64()?, PacketIndex::decode(fields)?);
            let status = IndexStatus::decode(fields)?;
            Reply::Index { offset, index, status, flags: fields.u32()? }
        }
        RequestKind::Packet => {
            let status = PacketStatus::decode(fields)?;
            let (size, flags) = (fields.u32()?, fields.u32()?);
            let size = if status == PacketStatus::Ok { size } else { 0 };
            Reply::Packet { status, flags, bytes: bytes_of(fields, size.into())? }
        }
        RequestKind::Metadata => {
            let size = fields.u64()?;
            let status = MetadataStatus::decode(fields)?;
            let size = if status == MetadataStatus::Ok { size } else { 0 };
            Reply::Metadata { status, bytes: bytes_of(fields, size)? }
        }
        RequestKind::CreateViewerSession | RequestKind::Detach => Reply::Status(fields.u32()?),
        RequestKind::Await => Reply::News(News::decode(fields)?),
        RequestKind::Clocks => {
            let (first, boot) = (fields.u64()?, Uuid(fields.bytes16()?));
            let count = count(fields, MEASUREMENTS_MAX, "up to 4096 measurements")?;
            expect_entries(fields, count, MEASUREMENT_SIZE)?;
            let list: Result<_, Fault> = (0..count).map(|_| fields.measurement()).collect();
            Reply::Clocks { first, measurements: Measurements { boot, list: list? } }
        }
    })
}
