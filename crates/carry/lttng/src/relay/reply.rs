//! Replies of the control connection. They have no header: the command decides the layout.

use super::command::{CommandKind, code};
use crate::fault::{Fault, Reason};
use crate::wire::{Fields, PutFields, text_size};

/// Reply to a [`Command`](super::Command).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Version of the relay.
    Version {
        /// Major version.
        major: u32,
        /// Minor version.
        minor: u32,
    },
    /// Bits of [`abilities`](super::abilities).
    Configuration(u64),
    /// Result of creating a session.
    Session(Created),
    /// Result of adding a stream.
    Stream {
        /// Handle of the stream, unique at the relay.
        handle: u64,
        /// A code of [`code`].
        code: u32,
    },
    /// A code of [`code`], or a flag of the pending commands.
    Code(u32),
    /// Result of closing a chunk.
    ChunkClosed {
        /// A code of [`code`].
        code: u32,
        /// Path of the chunk at the relay.
        path: String,
    },
    /// Present time of the relay, in nanoseconds since 1970.
    Time(u64),
    /// State of a chunk.
    ChunkExists {
        /// A code of [`code`].
        code: u32,
        /// True while the chunk is being written.
        exists: bool,
    },
}

/// Result of creating a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// Handle of the session.
    pub handle: u64,
    /// A code of [`code`].
    pub code: u32,
    /// Path of the session at the relay. `None` before version 2.11.
    pub path: Option<String>,
}

/// Maximum size of a path in a reply, in bytes.
const PATH_SIZE_MAX: usize = 4096;

impl Reply {
    /// Appends the reply to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        // A producer waits forever for a path without bytes, so each path has its NUL.
        let put_path = |out: &mut Vec<u8>, path: &str| {
            let path = path.get(..path.floor_char_boundary(PATH_SIZE_MAX - 1)).unwrap_or_default();
            out.put_u32(text_size(path));
            out.put_text(path);
        };
        match self {
            Reply::Version { major, minor } => {
                out.put_u32(*major);
                out.put_u32(*minor);
            }
            Reply::Configuration(flags) => {
                out.put_u32(code::OK);
                out.put_u64(*flags);
            }
            Reply::Session(Created { handle, code, path }) => {
                out.put_u64(*handle);
                out.put_u32(*code);
                if let Some(path) = path {
                    put_path(out, path);
                }
            }
            Reply::Stream { handle, code } => {
                out.put_u64(*handle);
                out.put_u32(*code);
            }
            Reply::Code(code) => out.put_u32(*code),
            Reply::Time(ns) => out.put_u64(*ns),
            Reply::ChunkClosed { code, path } => {
                out.put_u32(*code);
                put_path(out, path);
            }
            Reply::ChunkExists { code, exists } => {
                out.put_u32(*code);
                out.put_u8((*exists).into());
            }
        }
    }

    /// Decodes the reply to a command of version 2.11 or later, and returns it with its size in
    /// bytes; `None` if it is incomplete. There is no reply to `SEND_METADATA`.
    pub fn decode(kind: CommandKind, bytes: &[u8]) -> Result<Option<(Reply, usize)>, Fault> {
        let mut fields = Fields::new("reply", bytes, 0);
        match decode_fields(kind, &mut fields) {
            Ok(reply) => Ok(Some((reply, bytes.len() - fields.remaining()))),
            Err(Fault { reason: Reason::Short, .. }) => Ok(None),
            Err(fault) => Err(fault),
        }
    }
}

fn decode_fields(kind: CommandKind, fields: &mut Fields<'_>) -> Result<Reply, Fault> {
    let path = |fields: &mut Fields<'_>| {
        let size = fields.length(PATH_SIZE_MAX, "up to 4096")?;
        Ok(fields.string(size)?.to_owned())
    };
    Ok(match kind {
        CommandKind::Version => Reply::Version { major: fields.u32()?, minor: fields.u32()? },
        CommandKind::GetConfiguration => match fields.u32()? {
            code::OK => Reply::Configuration(fields.u64()?),
            other => {
                fields.u64()?;
                Reply::Code(other)
            }
        },
        CommandKind::CreateSession => {
            let (handle, code) = (fields.u64()?, fields.u32()?);
            // A relay that refuses a session may close the connection without a path.
            let path = if code == code::OK { Some(path(fields)?) } else { None };
            Reply::Session(Created { handle, code, path })
        }
        CommandKind::AddStream => Reply::Stream { handle: fields.u64()?, code: fields.u32()? },
        CommandKind::CloseChunk => Reply::ChunkClosed { code: fields.u32()?, path: path(fields)? },
        CommandKind::ChunkExists => {
            Reply::ChunkExists { code: fields.u32()?, exists: fields.u8()? != 0 }
        }
        CommandKind::GetTime => Reply::Time(fields.u64()?),
        CommandKind::Other | CommandKind::Silent => Reply::Code(fields.u32()?),
    })
}
