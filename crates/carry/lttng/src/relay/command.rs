//! Commands of the control connection: a header of 24 bytes, then the command's fields.

use super::index::{Index, NO_SEQUENCE};
use super::{MAJOR, MINOR};
use crate::fault::{Fault, Reason};
use crate::name::PATH_BYTES_MAX;
use crate::wire::{Fields, PutFields, text_size};
use blkkin_ctf::clock_offsets::Measurement;
use blkkin_ctf::schema::Uuid;

/// Codes of replies.
pub mod code {
    /// The command was carried out.
    pub const OK: u32 = 10;
    /// The command failed, or is unknown.
    pub const UNKNOWN: u32 = 11;
    /// The session cannot be created.
    pub const FATAL: u32 = 25;
    /// The command's fields are invalid.
    pub const INVALID: u32 = 97;
    /// A file cannot be created.
    pub const FILE: u32 = 153;
}

/// Abilities of a relay, as bits of [`Reply::Configuration`](super::Reply::Configuration).
pub mod abilities {
    /// Sessions can be cleared.
    pub const CLEAR: u64 = 1;
    /// The relay takes the commands that LTTng does not have. The number is unlikely to get a
    /// meaning in LTTng.
    pub const INLINE: u64 = 1 << 62;
    /// The relay tells its time, and takes offsets of clocks. LTTng's relay does not.
    pub const CLOCKS: u64 = 1 << 61;
}

/// A command of a producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Version of the producer, as its first command.
    Version {
        /// Major version.
        major: u32,
        /// Minor version.
        minor: u32,
    },
    /// Requests the relay's abilities.
    GetConfiguration,
    /// Creates the session of this connection.
    CreateSession(CreateSession),
    /// Adds a stream to the session.
    AddStream(AddStream),
    /// All streams of a trace were added; viewers may see them.
    StreamsSent,
    /// Appends metadata; the only command without a reply.
    SendMetadata {
        /// Handle of the metadata stream.
        stream: u64,
        /// Number of zero bytes that the relay appends.
        padding: u32,
        /// Bytes of the metadata.
        bytes: Vec<u8>,
    },
    /// Drops the metadata that was sent; all of it is sent again.
    ResetMetadata {
        /// Handle of the metadata stream.
        stream: u64,
        /// Version of the metadata.
        version: u64,
    },
    /// Index of a packet, or a beacon.
    SendIndex(Index),
    /// Ends a stream.
    CloseStream {
        /// Handle of the stream.
        stream: u64,
        /// Sequence number of the stream's last packet; `None` if it has none.
        last: Option<u64>,
    },
    /// Asks whether packets up to `last` have not arrived yet.
    DataPending {
        /// Handle of the stream.
        stream: u64,
        /// Sequence number of the packet that was sent last; `None` if none was.
        last: Option<u64>,
    },
    /// Asks whether all metadata has arrived, by the order of commands.
    QuiescentControl {
        /// Handle of the metadata stream.
        stream: u64,
    },
    /// Begins a check of all streams.
    BeginDataPending {
        /// Handle of the session.
        session: u64,
    },
    /// Ends a check of all streams.
    EndDataPending {
        /// Handle of the session.
        session: u64,
    },
    /// Moves streams to another chunk.
    RotateStreams(Rotation),
    /// Begins a chunk: a part of the session in a directory of its own.
    CreateChunk(CreateChunk),
    /// Ends a chunk.
    CloseChunk {
        /// Id of the chunk.
        id: u64,
        /// Time of closing, in seconds since 1970.
        closed_s: u64,
        /// Treatment of the chunk.
        action: Option<ChunkAction>,
    },
    /// Asks whether a chunk is still being written.
    ChunkExists {
        /// Id of the chunk.
        id: u64,
    },
    /// Starts the session's data; old producers send it.
    StartData,
    /// Bytes of the data connection, in any division. Only relays with [`abilities::INLINE`] take
    /// it. There is no reply.
    Data(Vec<u8>),
    /// Like [`Command::SendIndex`], without a reply. Only relays with [`abilities::INLINE`] take
    /// it.
    Index(Index),
    /// Promise that all events of the session before a time have been sent. Only relays with
    /// [`abilities::INLINE`] take it. There is no reply.
    Complete {
        /// The time in nanoseconds since 1970.
        until_ns: u64,
    },
    /// Requests the relay's time. Only relays with [`abilities::CLOCKS`] take it.
    GetTime,
    /// Measurement of the producer's clocks against the relay's. Only relays with
    /// [`abilities::CLOCKS`] take it. There is no reply.
    ReportClocks {
        /// Identity of the producer's boot.
        boot: Uuid,
        /// The measurement.
        measurement: Measurement,
    },
    /// A command that is not implemented.
    Unknown(u32),
}

/// Fields of [`Command::CreateSession`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateSession {
    /// Name of the session.
    pub name: String,
    /// Name of the producer's machine.
    pub host: String,
    /// Directory below the host's directory that the producer asks for; empty for none.
    pub base_path: String,
    /// Interval of the live timer in microseconds; 0 if the session is not live.
    pub live_timer_us: u32,
    /// True for a snapshot.
    pub is_snapshot: bool,
    /// True if the name contains the time of creation.
    pub has_time_in_name: bool,
    /// Id of the producer.
    pub producer: [u8; 16],
    /// Id of the session at the producer.
    pub id: u64,
    /// Time of creation in seconds since 1970.
    pub created_s: u64,
    /// Chunk that a new connection continues.
    pub chunk: Option<u64>,
}

/// Fields of [`Command::AddStream`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddStream {
    /// Name of the stream's file: channel and processor, or `metadata`.
    pub name: String,
    /// Directory of the trace below the session's directory. Before version 2.11 the path starts
    /// with host and session.
    pub path: String,
    /// Maximum size of a file in bytes; 0 for no limit.
    pub file_bytes: u64,
    /// Maximum number of files; 0 for no limit.
    pub file_count: u64,
    /// Id of the chunk.
    pub chunk: u64,
}

/// Fields of [`Command::RotateStreams`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// Id of the new chunk; `None` if the session ends.
    pub chunk: Option<u64>,
    /// Handles of the streams, with the number of each stream's first packet in the new chunk.
    pub positions: Vec<(u64, u64)>,
}

/// Fields of [`Command::CreateChunk`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreateChunk {
    /// Id of the chunk.
    pub id: u64,
    /// Time of creation in seconds since 1970.
    pub created_s: u64,
    /// Name of the chunk's directory, if the producer chooses it.
    pub name: Option<String>,
}

/// Treatment of a chunk at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkAction {
    /// The chunk moves to the completed chunks.
    Complete,
    /// The chunk stays.
    Keep,
    /// The chunk is removed.
    Delete,
}

/// Kind of a command, which decides the layout of its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// The reply is a version.
    Version,
    /// The reply is a code and flags.
    GetConfiguration,
    /// The reply is a session's handle.
    CreateSession,
    /// The reply is a stream's handle.
    AddStream,
    /// The reply is a code and a path.
    CloseChunk,
    /// The reply is a code and a flag.
    ChunkExists,
    /// The reply is a time.
    GetTime,
    /// The reply is a code or a flag.
    Other,
    /// There is no reply.
    Silent,
}

const HEADER_SIZE: usize = 24;
/// Maximum size of a command's fields in bytes. Only metadata and data are large.
const FIELDS_BYTES_MAX: u64 = 16 << 20;
/// Maximum size of the fields of commands other than `SEND_METADATA`, `ROTATE_STREAMS` and `DATA`.
const SMALL_BYTES_MAX: u64 = 64 << 10;
/// Maximum sizes with the NUL, from LTTng's sources.
const NAME_SIZE_MAX: usize = 255;
const HOST_SIZE_MAX: usize = 256;
const PATH_SIZE_MAX: usize = PATH_BYTES_MAX + 1;
const CHANNEL_SIZE_MAX: usize = 264;

const ADD_STREAM: u32 = 1;
const CREATE_SESSION: u32 = 2;
const START_DATA: u32 = 3;
const VERSION: u32 = 5;
const SEND_METADATA: u32 = 6;
const CLOSE_STREAM: u32 = 7;
const DATA_PENDING: u32 = 8;
const QUIESCENT_CONTROL: u32 = 9;
const BEGIN_DATA_PENDING: u32 = 10;
const END_DATA_PENDING: u32 = 11;
const SEND_INDEX: u32 = 13;
const STREAMS_SENT: u32 = 16;
const RESET_METADATA: u32 = 17;
const ROTATE_STREAMS: u32 = 18;
const CREATE_TRACE_CHUNK: u32 = 19;
const CLOSE_TRACE_CHUNK: u32 = 20;
const TRACE_CHUNK_EXISTS: u32 = 21;
const GET_CONFIGURATION: u32 = 22;
/// Commands that LTTng does not have. Their numbers are far from those of LTTng.
const DATA: u32 = 0x424b_0001;
const INDEX: u32 = 0x424b_0002;
const COMPLETE: u32 = 0x424b_0003;
const GET_TIME: u32 = 0x424b_0004;
const REPORT_CLOCKS: u32 = 0x424b_0005;

fn name_of(number: u32) -> &'static str {
    match number {
        ADD_STREAM => "ADD_STREAM",
        CREATE_SESSION => "CREATE_SESSION",
        START_DATA => "START_DATA",
        VERSION => "VERSION",
        SEND_METADATA => "SEND_METADATA",
        CLOSE_STREAM => "CLOSE_STREAM",
        DATA_PENDING => "DATA_PENDING",
        QUIESCENT_CONTROL => "QUIESCENT_CONTROL",
        BEGIN_DATA_PENDING => "BEGIN_DATA_PENDING",
        END_DATA_PENDING => "END_DATA_PENDING",
        SEND_INDEX => "SEND_INDEX",
        STREAMS_SENT => "STREAMS_SENT",
        RESET_METADATA => "RESET_METADATA",
        ROTATE_STREAMS => "ROTATE_STREAMS",
        CREATE_TRACE_CHUNK => "CREATE_TRACE_CHUNK",
        CLOSE_TRACE_CHUNK => "CLOSE_TRACE_CHUNK",
        TRACE_CHUNK_EXISTS => "TRACE_CHUNK_EXISTS",
        GET_CONFIGURATION => "GET_CONFIGURATION",
        DATA => "DATA",
        INDEX => "INDEX",
        COMPLETE => "COMPLETE",
        GET_TIME => "GET_TIME",
        REPORT_CLOCKS => "REPORT_CLOCKS",
        _ => "command",
    }
}

impl Command {
    /// Decodes the first command in `bytes`, and returns it with its size in bytes; `None` if it is
    /// incomplete. `minor` is the minor version in force.
    pub fn decode(bytes: &[u8], minor: u32) -> Result<Option<(Command, usize)>, Fault> {
        let Some(header) = bytes.get(..HEADER_SIZE) else { return Ok(None) };
        let mut fields = Fields::new("command", header, 8);
        let (declared, number) = (fields.u64()?, fields.u32()?);
        let message = name_of(number);
        let (max, permitted) = match number {
            SEND_METADATA | ROTATE_STREAMS | DATA => (FIELDS_BYTES_MAX, "up to 16 MiB"),
            _ => (SMALL_BYTES_MAX, "up to 64 KiB"),
        };
        if declared > max {
            let reason = Reason::Size { declared, permitted };
            return Err(Fault { message, offset: 8, reason });
        }
        let size = HEADER_SIZE + declared as usize;
        let Some(bytes) = bytes.get(..size) else { return Ok(None) };
        let mut fields = Fields::new(message, bytes, HEADER_SIZE);
        let command = decode_fields(number, minor, &mut fields)?;
        if !matches!(command, Command::Unknown(_)) {
            fields.end()?;
        }
        Ok(Some((command, size)))
    }

    /// Appends the command to `out`, in the layouts of version 2.13.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + HEADER_SIZE, 0);
        let number = self.encode_fields(out);
        let size = (out.len() - start - HEADER_SIZE) as u64;
        for (at, bytes) in [(8, &size.to_be_bytes()[..]), (16, &number.to_be_bytes())] {
            if let Some(field) = out.get_mut(start + at..start + at + bytes.len()) {
                field.copy_from_slice(bytes);
            }
        }
    }

    /// Returns the command with which a producer begins.
    pub fn version() -> Command {
        Command::Version { major: MAJOR, minor: MINOR }
    }

    /// Returns the kind of the command's reply.
    pub fn kind(&self) -> CommandKind {
        match self {
            Command::Version { .. } => CommandKind::Version,
            Command::GetConfiguration => CommandKind::GetConfiguration,
            Command::CreateSession(_) => CommandKind::CreateSession,
            Command::AddStream(_) => CommandKind::AddStream,
            Command::CloseChunk { .. } => CommandKind::CloseChunk,
            Command::ChunkExists { .. } => CommandKind::ChunkExists,
            Command::SendMetadata { .. }
            | Command::Data(_)
            | Command::Index(_)
            | Command::Complete { .. }
            | Command::ReportClocks { .. } => CommandKind::Silent,
            Command::GetTime => CommandKind::GetTime,
            _ => CommandKind::Other,
        }
    }

    fn encode_fields(&self, out: &mut Vec<u8>) -> u32 {
        let sequence = |last: &Option<u64>| last.unwrap_or(NO_SEQUENCE);
        match self {
            Command::Version { major, minor } => {
                out.put_u32(*major);
                out.put_u32(*minor);
                VERSION
            }
            Command::GetConfiguration => {
                out.put_u64(0);
                GET_CONFIGURATION
            }
            Command::CreateSession(session) => {
                session.encode(out);
                CREATE_SESSION
            }
            Command::AddStream(stream) => {
                out.put_u32(text_size(&stream.name));
                out.put_u32(text_size(&stream.path));
                out.put_u64(stream.file_bytes);
                out.put_u64(stream.file_count);
                out.put_u64(stream.chunk);
                out.put_text(&stream.name);
                out.put_text(&stream.path);
                ADD_STREAM
            }
            Command::StreamsSent => STREAMS_SENT,
            Command::SendMetadata { stream, padding, bytes } => {
                out.put_u64(*stream);
                out.put_u32(*padding);
                out.extend_from_slice(bytes);
                SEND_METADATA
            }
            Command::ResetMetadata { stream, version } => {
                out.put_u64(*stream);
                out.put_u64(*version);
                RESET_METADATA
            }
            Command::SendIndex(index) => {
                index.encode(out);
                SEND_INDEX
            }
            Command::CloseStream { stream, last } => {
                out.put_u64(*stream);
                out.put_u64(sequence(last));
                CLOSE_STREAM
            }
            Command::DataPending { stream, last } => {
                out.put_u64(*stream);
                out.put_u64(sequence(last));
                DATA_PENDING
            }
            Command::QuiescentControl { stream } => {
                out.put_u64(*stream);
                QUIESCENT_CONTROL
            }
            Command::BeginDataPending { session } => {
                out.put_u64(*session);
                BEGIN_DATA_PENDING
            }
            Command::EndDataPending { session } => {
                out.put_u64(*session);
                END_DATA_PENDING
            }
            Command::RotateStreams(rotation) => {
                rotation.encode(out);
                ROTATE_STREAMS
            }
            Command::CreateChunk(chunk) => {
                out.put_u64(chunk.id);
                out.put_u64(chunk.created_s);
                out.put_u32(chunk.name.as_deref().map_or(0, text_size));
                if let Some(name) = &chunk.name {
                    out.put_text(name);
                }
                CREATE_TRACE_CHUNK
            }
            Command::CloseChunk { id, closed_s, action } => {
                out.put_u64(*id);
                out.put_u64(*closed_s);
                out.put_u8(action.is_some().into());
                out.put_u32(action.map_or(0, ChunkAction::number));
                CLOSE_TRACE_CHUNK
            }
            Command::ChunkExists { id } => {
                out.put_u64(*id);
                TRACE_CHUNK_EXISTS
            }
            Command::StartData => START_DATA,
            Command::Data(bytes) => {
                out.extend_from_slice(bytes);
                DATA
            }
            Command::Index(index) => {
                index.encode(out);
                INDEX
            }
            Command::Complete { until_ns } => {
                out.put_u64(*until_ns);
                COMPLETE
            }
            Command::GetTime => GET_TIME,
            Command::ReportClocks { boot: Uuid(boot), measurement } => {
                out.extend_from_slice(boot);
                out.put_measurement(measurement);
                REPORT_CLOCKS
            }
            Command::Unknown(number) => *number,
        }
    }
}

fn decode_fields(number: u32, minor: u32, fields: &mut Fields<'_>) -> Result<Command, Fault> {
    let sequence = |value: u64| (value != NO_SEQUENCE).then_some(value);
    let is_older = |since: u32| minor < since;
    Ok(match number {
        VERSION => Command::Version { major: fields.u32()?, minor: fields.u32()? },
        GET_CONFIGURATION if !is_older(12) => {
            fields.u64()?;
            Command::GetConfiguration
        }
        CREATE_SESSION if is_older(11) => Command::CreateSession(CreateSession {
            name: fields.name(NAME_SIZE_MAX)?,
            host: fields.name(64)?,
            live_timer_us: fields.u32()?,
            is_snapshot: fields.u32()? != 0,
            ..CreateSession::default()
        }),
        CREATE_SESSION => Command::CreateSession(CreateSession::decode(fields)?),
        ADD_STREAM if is_older(11) => {
            let (name, path) = (fields.name(CHANNEL_SIZE_MAX)?, fields.path(PATH_SIZE_MAX)?);
            let (file_bytes, file_count) = (fields.u64()?, fields.u64()?);
            Command::AddStream(AddStream { name, path, file_bytes, file_count, chunk: 0 })
        }
        ADD_STREAM => {
            let name_size = fields.length(CHANNEL_SIZE_MAX, "up to 264")?;
            let path_size = fields.length(PATH_SIZE_MAX, "up to 4096")?;
            let (file_bytes, file_count) = (fields.u64()?, fields.u64()?);
            let chunk = fields.u64()?;
            let (name, path) = (fields.name(name_size)?, fields.path(path_size)?);
            Command::AddStream(AddStream { name, path, file_bytes, file_count, chunk })
        }
        STREAMS_SENT => Command::StreamsSent,
        SEND_METADATA => {
            let (stream, padding) = (fields.u64()?, fields.u32()?);
            if u64::from(padding) > FIELDS_BYTES_MAX {
                return Err(fields.fault(Reason::Value(padding.into())));
            }
            let bytes = fields.take(fields.remaining())?.to_vec();
            Command::SendMetadata { stream, padding, bytes }
        }
        RESET_METADATA => Command::ResetMetadata { stream: fields.u64()?, version: fields.u64()? },
        SEND_INDEX => Command::SendIndex(Index::decode(fields, minor)?),
        CLOSE_STREAM => {
            Command::CloseStream { stream: fields.u64()?, last: sequence(fields.u64()?) }
        }
        DATA_PENDING => {
            Command::DataPending { stream: fields.u64()?, last: sequence(fields.u64()?) }
        }
        QUIESCENT_CONTROL => Command::QuiescentControl { stream: fields.u64()? },
        BEGIN_DATA_PENDING => Command::BeginDataPending { session: fields.u64()? },
        END_DATA_PENDING => Command::EndDataPending { session: fields.u64()? },
        ROTATE_STREAMS if !is_older(11) => Command::RotateStreams(Rotation::decode(fields)?),
        CREATE_TRACE_CHUNK if !is_older(11) => {
            let (id, created_s) = (fields.u64()?, fields.u64()?);
            let size = fields.length(NAME_SIZE_MAX, "up to 255")?;
            let name = if size > 1 { Some(fields.name(size)?) } else { None };
            fields.take(fields.remaining().min(usize::from(size == 1)))?;
            Command::CreateChunk(CreateChunk { id, created_s, name })
        }
        CLOSE_TRACE_CHUNK if !is_older(11) => {
            let (id, closed_s) = (fields.u64()?, fields.u64()?);
            let (has_action, action) = (fields.u8()? != 0, fields.u32()?);
            let action = match (has_action, action) {
                (false, _) => None,
                (true, 0) => Some(ChunkAction::Complete),
                (true, 1) => Some(ChunkAction::Keep),
                (true, 2) => Some(ChunkAction::Delete),
                (true, other) => return Err(fields.fault(Reason::Value(other.into()))),
            };
            Command::CloseChunk { id, closed_s, action }
        }
        TRACE_CHUNK_EXISTS if !is_older(11) => Command::ChunkExists { id: fields.u64()? },
        START_DATA => Command::StartData,
        DATA => Command::Data(fields.take(fields.remaining())?.to_vec()),
        INDEX => Command::Index(Index::decode(fields, MINOR)?),
        COMPLETE => Command::Complete { until_ns: fields.u64()? },
        GET_TIME => Command::GetTime,
        REPORT_CLOCKS => {
            let (boot, measurement) = (Uuid(fields.bytes16()?), fields.measurement()?);
            Command::ReportClocks { boot, measurement }
        }
        other => Command::Unknown(other),
    })
}

impl ChunkAction {
    fn number(self) -> u32 {
        match self {
            ChunkAction::Complete => 0,
            ChunkAction::Keep => 1,
            ChunkAction::Delete => 2,
        }
    }
}

impl CreateSession {
    fn decode(fields: &mut Fields<'_>) -> Result<CreateSession, Fault> {
        let name_size = fields.length(NAME_SIZE_MAX, "up to 255")?;
        let host_size = fields.length(HOST_SIZE_MAX, "up to 256")?;
        let path_size = fields.length(PATH_SIZE_MAX, "up to 4096")?;
        let mut session = CreateSession {
            live_timer_us: fields.u32()?,
            is_snapshot: fields.u8()? != 0,
            has_time_in_name: fields.u8()? != 0,
            producer: fields.bytes16()?,
            id: fields.u64()?,
            created_s: fields.u64()?,
            ..CreateSession::default()
        };
        let has_chunk = fields.u8()? != 0;
        let chunk = fields.u64()?;
        session.chunk = has_chunk.then_some(chunk);
        session.name = fields.name(name_size)?;
        session.host = fields.name(host_size)?;
        session.base_path = fields.path(path_size)?;
        Ok(session)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(text_size(&self.name));
        out.put_u32(text_size(&self.host));
        out.put_u32(text_size(&self.base_path));
        out.put_u32(self.live_timer_us);
        out.put_u8(self.is_snapshot.into());
        out.put_u8(self.has_time_in_name.into());
        out.extend_from_slice(&self.producer);
        out.put_u64(self.id);
        out.put_u64(self.created_s);
        out.put_u8(self.chunk.is_some().into());
        out.put_u64(self.chunk.unwrap_or(0));
        out.put_text(&self.name);
        out.put_text(&self.host);
        out.put_text(&self.base_path);
    }
}

impl Rotation {
    /// Size of a position in bytes.
    const POSITION: usize = 16;

    /// LTTng's structure is accidentally not packed, so its size depends on the producer's
    /// architecture: 20 bytes on 64-bit machines, 16 on 32-bit x86, 13 if packed. The chunk's id is
    /// in its last 8 bytes.
    fn decode(fields: &mut Fields<'_>) -> Result<Rotation, Fault> {
        let size = fields.remaining();
        let declared = fields.u32()?;
        let count = usize::try_from(declared).unwrap_or(usize::MAX);
        let positions = count.checked_mul(Rotation::POSITION);
        let header = positions.and_then(|positions| size.checked_sub(positions));
        let Some(header @ (13 | 16 | 20)) = header else {
            let permitted = "the number of positions in the command";
            return Err(fields.fault(Reason::Size { declared: declared.into(), permitted }));
        };
        let has_chunk = fields.u8()? != 0;
        fields.take(header - 13)?;
        let chunk = fields.u64()?;
        let mut positions = Vec::with_capacity(count);
        for _ in 0..count {
            positions.push((fields.u64()?, fields.u64()?));
        }
        Ok(Rotation { chunk: has_chunk.then_some(chunk), positions })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u32(u32::try_from(self.positions.len()).unwrap_or(u32::MAX));
        out.put_u8(self.chunk.is_some().into());
        out.extend_from_slice(&[0; 7]);
        out.put_u64(self.chunk.unwrap_or(0));
        for (stream, position) in &self.positions {
            out.put_u64(*stream);
            out.put_u64(*position);
        }
    }
}
