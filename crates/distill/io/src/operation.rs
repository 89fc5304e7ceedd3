//! I/O operations: the result of a [`crate::Tracker`].

use crate::disk_request::DiskRequest;
use std::sync::Arc;

/// I/O operation of a program: one system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Start of the call, in nanoseconds from the clock's origin.
    pub time_ns: i64,
    /// Duration of the call in nanoseconds.
    pub duration_ns: u64,
    /// Effect of the call.
    pub kind: OperationKind,
    /// Name of the system call, such as `pread64`.
    pub call: &'static str,
    /// Name of the process (its `comm`); empty if unknown.
    pub program: Arc<str>,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Descriptor that the call uses: the new one of `Open` and `Socket`, the listening one of
    /// `Accept`, the input of `Copy`, and the first one of `close_range`. `None` if the call has no
    /// descriptor or failed to open one.
    pub fd: Option<i32>,
    /// Second descriptor: the new one of `Accept` and `Duplicate`, the output of `Copy`, and the
    /// last one of `close_range`.
    pub second_fd: Option<i32>,
    /// Path of the file, or address of the peer, or `socket:FAMILY` for a socket that is neither
    /// connected nor bound; `None` if unknown.
    pub path: Option<Arc<str>>,
    /// Second path: the new name of `Rename`, the output of `Copy`.
    pub second_path: Option<Arc<str>>,
    /// Requested count: bytes, or entries of `SubmitUring`.
    pub asked: Option<u64>,
    /// Count that was done: bytes, or entries of `SubmitUring`.
    pub done: Option<u64>,
    /// Offset in the file from the call's arguments, or the new offset of `Seek`.
    pub offset: Option<u64>,
    /// Offset in the file from earlier calls: the file position at which a `Read` or `Write`
    /// without an explicit offset started. It is a guess if untraced programs share the open file.
    pub position: Option<u64>,
    /// False if `path`, `second_path` or `position` follows from state that is older than the last
    /// loss of events ([`crate::Tracker::lost`]), so it may be wrong.
    pub is_certain: bool,
    /// Return value of the call, or its `errno`.
    pub result: Result<i64, i32>,
    /// Requests to disks that the call has queued and that completed before it ended, in the order
    /// of their queueing. Empty if they are not recorded.
    pub disk: Vec<DiskRequest>,
}

impl Operation {
    /// Returns the end of the call in nanoseconds from the clock's origin.
    pub fn end_ns(&self) -> i64 {
        self.time_ns.saturating_add_unsigned(self.duration_ns)
    }

    /// Returns the number of transferred bytes; 0 for kinds that transfer no data.
    pub fn bytes(&self) -> u64 {
        if self.kind.is_transfer() { self.done.unwrap_or(0) } else { 0 }
    }
}

/// Effect of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OperationKind {
    /// Opens or creates a file.
    Open,
    /// Creates a socket or a pair of sockets.
    Socket,
    /// Accepts a connection.
    Accept,
    /// Connects a socket.
    Connect,
    /// Binds a socket to an address.
    Bind,
    /// Reads or receives data.
    Read,
    /// Writes or sends data.
    Write,
    /// Sets the file position.
    Seek,
    /// Closes descriptors.
    Close,
    /// Duplicates a descriptor.
    Duplicate,
    /// Makes a file durable.
    Sync,
    /// Maps a file into memory.
    Map,
    /// Moves data from one descriptor to another.
    Copy,
    /// Removes a name.
    Unlink,
    /// Renames a file.
    Rename,
    /// Changes a file's size.
    Truncate,
    /// Allocates or releases a file's space.
    Allocate,
    /// Creates an io_uring instance.
    SetupUring,
    /// Submits entries to an io_uring instance, or waits for their completion.
    SubmitUring,
}

impl OperationKind {
    /// Returns the kind's name in output.
    pub fn word(self) -> &'static str {
        match self {
            OperationKind::Open => "open",
            OperationKind::Socket => "socket",
            OperationKind::Accept => "accept",
            OperationKind::Connect => "connect",
            OperationKind::Bind => "bind",
            OperationKind::Read => "read",
            OperationKind::Write => "write",
            OperationKind::Seek => "seek",
            OperationKind::Close => "close",
            OperationKind::Duplicate => "dup",
            OperationKind::Sync => "sync",
            OperationKind::Map => "map",
            OperationKind::Copy => "copy",
            OperationKind::Unlink => "unlink",
            OperationKind::Rename => "rename",
            OperationKind::Truncate => "truncate",
            OperationKind::Allocate => "allocate",
            OperationKind::SetupUring => "uring",
            OperationKind::SubmitUring => "submit",
        }
    }

    /// Returns true for kinds that transfer bytes.
    pub fn is_transfer(self) -> bool {
        matches!(self, OperationKind::Read | OperationKind::Write | OperationKind::Copy)
    }
}
