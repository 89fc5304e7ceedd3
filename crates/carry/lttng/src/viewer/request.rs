//! Requests of viewers: a header of 16 bytes, then the request's fields.

use super::{MAJOR, MINOR};
use crate::fault::{Fault, Reason};
use crate::wire::{Fields, PutFields};

/// A request of a viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Version of the viewer, as its first request.
    Connect {
        /// Major version.
        major: u32,
        /// Minor version.
        minor: u32,
        /// 1 for requests, 2 for notifications.
        kind: u32,
    },
    /// Requests the list of sessions.
    ListSessions {
        /// Set if the list has sessions, too, that ended a short time ago. Only relays with
        /// [`OWN_REQUESTS`](super::OWN_REQUESTS) take it.
        with_ended: bool,
    },
    /// Attaches the viewer to a session.
    Attach {
        /// Id of the session in the list.
        session: u64,
        /// Position at which streams are read first; `None` for an undefined value.
        seek: Option<Seek>,
    },
    /// Requests the index of a stream's next packet.
    NextIndex {
        /// Id of the stream.
        stream: u64,
    },
    /// Requests bytes of a packet.
    Packet {
        /// Id of the stream.
        stream: u64,
        /// Offset of the bytes, as the index of a packet says.
        offset: u64,
        /// Number of bytes.
        size: u32,
    },
    /// Requests metadata that was not sent yet.
    Metadata {
        /// Id of the metadata stream.
        stream: u64,
    },
    /// Requests the streams that were not listed yet.
    NewStreams {
        /// Id of the session.
        session: u64,
    },
    /// Prepares the connection for attaching.
    CreateViewerSession,
    /// Detaches the viewer from a session.
    Detach {
        /// Id of the session.
        session: u64,
    },
    /// Requests replies whenever a session that the viewer is attached to has something new, until
    /// the viewer sends another request. Only relays with [`OWN_REQUESTS`](super::OWN_REQUESTS)
    /// take it.
    Await {
        /// Maximum size of packets in all replies together, in bytes. At least one index is sent.
        room: u32,
        /// Maximum number of replies.
        count: u32,
        /// Time after which the last reply is sent, without news, in milliseconds; 0 for no limit.
        timeout_ms: u32,
    },
    /// Requests measurements of the clocks of the session's producer. Only relays with
    /// [`OWN_REQUESTS`](super::OWN_REQUESTS) take it.
    Clocks {
        /// Id of the session.
        session: u64,
        /// Number of measurements that the viewer does not need again.
        known: u64,
    },
    /// A request that is not implemented.
    Unknown(u32),
}

/// Position at which streams are read first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The oldest packet that the relay has.
    Beginning,
    /// The next packet that arrives.
    Last,
}

/// Kind of a request, which decides the layout of its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// The reply is a version.
    Connect,
    /// The reply is a list of sessions.
    ListSessions,
    /// The reply is a list of streams.
    Attach,
    /// The reply is a packet's index.
    NextIndex,
    /// The reply is a packet's bytes.
    Packet,
    /// The reply is metadata.
    Metadata,
    /// The reply is a list of streams.
    NewStreams,
    /// The reply is a status.
    CreateViewerSession,
    /// The reply is a status.
    Detach,
    /// The replies are lists of news.
    Await,
    /// The reply is a list of measurements.
    Clocks,
}

const HEADER_SIZE: usize = 16;
/// Size in bytes of the largest request's fields.
const FIELDS_SIZE_MAX: u64 = 20;

const CONNECT: u32 = 1;
const LIST_SESSIONS: u32 = 2;
const ATTACH_SESSION: u32 = 3;
const GET_NEXT_INDEX: u32 = 4;
const GET_PACKET: u32 = 5;
const GET_METADATA: u32 = 6;
const GET_NEW_STREAMS: u32 = 7;
const CREATE_SESSION: u32 = 8;
const DETACH_SESSION: u32 = 9;
/// Requests that LTTng does not have. Their numbers are far from those of LTTng.
const AWAIT: u32 = 0x424b_0001;
const LIST_WITH_ENDED: u32 = 0x424b_0002;
const GET_CLOCKS: u32 = 0x424b_0003;

fn name_of(number: u32) -> &'static str {
    match number {
        CONNECT => "CONNECT",
        LIST_SESSIONS | LIST_WITH_ENDED => "LIST_SESSIONS",
        ATTACH_SESSION => "ATTACH_SESSION",
        GET_NEXT_INDEX => "GET_NEXT_INDEX",
        GET_PACKET => "GET_PACKET",
        GET_METADATA => "GET_METADATA",
        GET_NEW_STREAMS => "GET_NEW_STREAMS",
        CREATE_SESSION => "CREATE_SESSION",
        DETACH_SESSION => "DETACH_SESSION",
        AWAIT => "AWAIT",
        GET_CLOCKS => "GET_CLOCKS",
        _ => "request",
    }
}

impl Request {
    /// Decodes the first request in `bytes`, and returns it with its size in bytes; `None` if it is
    /// incomplete.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Request, usize)>, Fault> {
        let Some(header) = bytes.get(..HEADER_SIZE) else { return Ok(None) };
        let mut fields = Fields::new("request", header, 0);
        let (declared, number) = (fields.u64()?, fields.u32()?);
        let message = name_of(number);
        if declared > FIELDS_SIZE_MAX {
            let reason = Reason::Size { declared, permitted: "up to 20" };
            return Err(Fault { message, offset: 0, reason });
        }
        let size = HEADER_SIZE + declared as usize;
        let Some(bytes) = bytes.get(..size) else { return Ok(None) };
        let mut fields = Fields::new(message, bytes, HEADER_SIZE);
        let request = match number {
            CONNECT => {
                fields.u64()?;
                let (major, minor, kind) = (fields.u32()?, fields.u32()?, fields.u32()?);
                Request::Connect { major, minor, kind }
            }
            LIST_SESSIONS | LIST_WITH_ENDED => {
                Request::ListSessions { with_ended: number == LIST_WITH_ENDED }
            }
            ATTACH_SESSION => {
                let session = fields.u64()?;
                fields.u64()?;
                let seek = match fields.u32()? {
                    1 => Some(Seek::Beginning),
                    2 => Some(Seek::Last),
                    _ => None,
                };
                Request::Attach { session, seek }
            }
            GET_NEXT_INDEX => Request::NextIndex { stream: fields.u64()? },
            GET_PACKET => {
                let (stream, offset, size) = (fields.u64()?, fields.u64()?, fields.u32()?);
                Request::Packet { stream, offset, size }
            }
            GET_METADATA => Request::Metadata { stream: fields.u64()? },
            GET_NEW_STREAMS => Request::NewStreams { session: fields.u64()? },
            CREATE_SESSION => Request::CreateViewerSession,
            DETACH_SESSION => Request::Detach { session: fields.u64()? },
            AWAIT => Request::Await {
                room: fields.u32()?,
                count: fields.u32()?,
                timeout_ms: fields.u32()?,
            },
            GET_CLOCKS => Request::Clocks { session: fields.u64()?, known: fields.u64()? },
            other => return Ok(Some((Request::Unknown(other), size))),
        };
        fields.end()?;
        Ok(Some((request, size)))
    }

    /// Appends the request to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (number, size) = match self {
            Request::Connect { .. } => (CONNECT, 20),
            Request::ListSessions { with_ended: false } => (LIST_SESSIONS, 0),
            Request::ListSessions { with_ended: true } => (LIST_WITH_ENDED, 0),
            Request::Attach { .. } => (ATTACH_SESSION, 20),
            Request::NextIndex { .. } => (GET_NEXT_INDEX, 8),
            Request::Packet { .. } => (GET_PACKET, 20),
            Request::Metadata { .. } => (GET_METADATA, 8),
            Request::NewStreams { .. } => (GET_NEW_STREAMS, 8),
            Request::CreateViewerSession => (CREATE_SESSION, 0),
            Request::Detach { .. } => (DETACH_SESSION, 8),
            Request::Await { .. } => (AWAIT, 12),
            Request::Clocks { .. } => (GET_CLOCKS, 16),
            Request::Unknown(number) => (*number, 0),
        };
        out.put_u64(size);
        out.put_u32(number);
        out.put_u32(0);
        match self {
            Request::Connect { major, minor, kind } => {
                out.put_u64(u64::MAX);
                out.put_u32(*major);
                out.put_u32(*minor);
                out.put_u32(*kind);
            }
            Request::Attach { session, seek } => {
                out.put_u64(*session);
                out.put_u64(0);
                out.put_u32(match seek {
                    Some(Seek::Beginning) => 1,
                    Some(Seek::Last) => 2,
                    None => 0,
                });
            }
            Request::Packet { stream, offset, size } => {
                out.put_u64(*stream);
                out.put_u64(*offset);
                out.put_u32(*size);
            }
            Request::NextIndex { stream: id }
            | Request::Metadata { stream: id }
            | Request::NewStreams { session: id }
            | Request::Detach { session: id } => out.put_u64(*id),
            Request::Clocks { session, known } => {
                out.put_u64(*session);
                out.put_u64(*known);
            }
            Request::Await { room, count, timeout_ms } => {
                out.put_u32(*room);
                out.put_u32(*count);
                out.put_u32(*timeout_ms);
            }
            Request::ListSessions { .. } | Request::CreateViewerSession | Request::Unknown(_) => {}
        }
    }

    /// Returns the request with which a viewer begins.
    pub fn connect() -> Request {
        Request::Connect { major: MAJOR, minor: MINOR, kind: 1 }
    }

    /// Returns the kind of the request's reply; `None` if the request is not implemented.
    pub fn kind(&self) -> Option<RequestKind> {
        Some(match self {
            Request::Connect { .. } => RequestKind::Connect,
            Request::ListSessions { .. } => RequestKind::ListSessions,
            Request::Attach { .. } => RequestKind::Attach,
            Request::NextIndex { .. } => RequestKind::NextIndex,
            Request::Packet { .. } => RequestKind::Packet,
            Request::Metadata { .. } => RequestKind::Metadata,
            Request::NewStreams { .. } => RequestKind::NewStreams,
            Request::CreateViewerSession => RequestKind::CreateViewerSession,
            Request::Detach { .. } => RequestKind::Detach,
            Request::Await { .. } => RequestKind::Await,
            Request::Clocks { .. } => RequestKind::Clocks,
            Request::Unknown(_) => return None,
        })
    }
}
