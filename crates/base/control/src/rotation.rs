//! Rotation of a session's trace: its division into chunks, and what the agent reports of them.

use crate::encoding::{Flag, Number, Optional, RecordForm};
use crate::limits::{HOOK_SIZE_MAX, MESSAGE_SIZE_MAX, NAME_SIZE_MAX};
use crate::text::{Letters, NAME, Path, Text};
use std::path::PathBuf;

const PATTERN: Text = Text::new(Letters::FileName, NAME_SIZE_MAX);
const COMMAND: Text = Text::new(Letters::Lines, HOOK_SIZE_MAX);
const MESSAGE: Text = Text::new(Letters::Lines, MESSAGE_SIZE_MAX);

record! {
    /// Rotation of a session's trace. Each chunk is a directory below the session's output, which
    /// is readable alone.
    #[derive(Default)]
    pub struct Rotation {
        /// Size in bytes at which a chunk is closed; `None` for no limit.
        pub size: Option<u64> = Optional(Number),
        /// Time in milliseconds after a chunk's first event at which the chunk is closed; `None`
        /// for no limit.
        pub age_ms: Option<u64> = Optional(Number),
        /// Maximum number of chunks, of which the last one is being written. The oldest chunk is
        /// removed. `None` for no limit.
        pub files: Option<u32> = Optional(Number),
        /// Maximum size in bytes of all chunks together. The oldest chunk is removed. `None` for no
        /// limit.
        pub total: Option<u64> = Optional(Number),
        /// Pattern of the chunks' names; `None` for the agent's default.
        pub name_pattern: Option<String> = Optional(PATTERN),
        /// Command to run for each closed chunk. The agent stores it, and a process of the user
        /// runs it.
        pub hook: Option<Hook> = Optional(RecordForm),
    }
}

impl Rotation {
    /// Returns whether closed chunks are removed, or handed to a command that may do so.
    pub fn takes_chunks_away(&self) -> bool {
        self.files.is_some() || self.total.is_some() || self.hook.is_some()
    }
}

record! {
    /// Command that a process of the session's owner runs for each closed chunk.
    pub struct Hook {
        /// Text of the command for the shell.
        pub command: String = COMMAND,
        /// Time in milliseconds after which the command is ended.
        pub timeout_ms: u64 = Number,
    }
}

record! {
    /// Rotation of the session with a name.
    pub struct SessionRotation {
        /// Name of the session.
        pub session: String = NAME,
        /// Rotation of the session's trace.
        pub rotation: Rotation = RecordForm,
    }
}

record! {
    /// Report that the command for a closed chunk has ended.
    pub struct HookReport {
        /// Name of the session.
        pub session: String = NAME,
        /// Number of the session ([`Chunks::number`]).
        pub number: u64 = Number,
        /// Number of the chunk ([`Chunk::sequence`]).
        pub sequence: u64 = Number,
        /// Reason of the command's failure; `None` if it has succeeded.
        pub failure: Option<String> = Optional(MESSAGE),
    }
}

record! {
    /// Summary of a session's chunks.
    pub struct Chunks {
        /// Name of the session.
        pub session: String = NAME,
        /// Number of the session. The agent gives no other session this number.
        pub number: u64 = Number,
        /// Set if the session has been destroyed.
        pub is_destroyed: bool = Flag,
        /// Rotation of the session's trace.
        pub rotation: Rotation = RecordForm,
        /// Number of the session's chunks that are not removed.
        pub count: u64 = Number,
        /// Size of these chunks in bytes.
        pub bytes: u64 = Number,
        /// Number of chunks that were removed because of a limit.
        pub removed: u64 = Number,
        /// Size of the removed chunks in bytes.
        pub removed_bytes: u64 = Number,
        /// Number of chunks for which the command has failed.
        pub hook_failures: u64 = Number,
    }
}

record! {
    /// A chunk of a session's trace.
    pub struct Chunk {
        /// Number of the chunk in its session, from 1 on.
        pub sequence: u64 = Number,
        /// Directory of the chunk.
        pub path: PathBuf = Path,
        /// Size of the chunk's files in bytes, as far as the agent has counted them.
        pub bytes: u64 = Number,
        /// Set once nothing is written to the chunk any longer.
        pub is_closed: bool = Flag,
        /// Set once the command for the chunk has ended.
        pub is_handled: bool = Flag,
    }
}
