//! Options that divide a session's trace into chunks, for `session create` and `record`.

use crate::values;
use blkkin_control::{Hook, Rotation};

/// Options that divide the trace into chunks.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Chunks")]
pub(crate) struct RotationArgs {
    /// Divide the trace into chunks, which are closed on command only
    ///
    /// A chunk is a directory below the output directory, complete and readable alone; the output
    /// directory stands for all chunks. The chunk that is being written contains a file
    /// `.recording`. All other options of this group imply this one.
    #[arg(long)]
    rotate: bool,

    /// Close a chunk when it has this size; K, M and G may be used. Checked after each write
    ///
    /// [default with --total: an eighth of it]
    #[arg(long, value_name = "SIZE", value_parser = values::bytes)]
    size: Option<u64>,

    /// Close a chunk when its first event was written this long ago, such as 30s, 10min or 1h
    #[arg(long, value_name = "TIME", value_parser = values::retention)]
    age: Option<u64>,

    /// Keep at most this many chunks, the one that is being written included; the oldest is removed
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(2..))]
    files: Option<u32>,

    /// Keep at most this much in all chunks together; the oldest is removed
    #[arg(long, value_name = "SIZE", value_parser = values::bytes)]
    total: Option<u64>,

    /// Names of chunks: conversions of strftime, and {host}, {session} and {seq}
    ///
    /// The time is that of the chunk's opening. A number is appended to a name that is taken, so
    /// nothing is overwritten. [default: {session}-%Y%m%d-%H%M%S-{seq}]
    #[arg(long, value_name = "PATTERN")]
    name_pattern: Option<String>,

    /// Shell command to run for each closed chunk; "$1" and $BLKKIN_CHUNK are its directory
    ///
    /// A process of the session's owner runs it in the output directory, one chunk after the other.
    /// The command may compress the chunk, move it away or remove it. Failures are logged by the
    /// agent, and counted in `blkkin session list NAME`.
    #[arg(long, value_name = "COMMAND")]
    on_chunk: Option<String>,

    /// Time after which that command is ended
    #[arg(
        long,
        value_name = "TIME",
        value_parser = values::retention,
        default_value = "10min",
        requires = "on_chunk"
    )]
    on_chunk_timeout: u64,
}

impl RotationArgs {
    /// Returns the rotation that the options state; `None` if the trace is not divided.
    pub(crate) fn rotation(&self) -> Option<Rotation> {
        let hook = self.on_chunk.clone();
        let rotation = Rotation {
            size: self.size,
            age_ms: self.age,
            files: self.files,
            total: self.total,
            name_pattern: self.name_pattern.clone(),
            hook: hook.map(|command| Hook { command, timeout_ms: self.on_chunk_timeout }),
        };
        (self.rotate || rotation != Rotation::default()).then_some(rotation)
    }
}
