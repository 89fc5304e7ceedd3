//! Requests to disks, as they are shown.

use std::sync::Arc;

/// Request that a disk has completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskRequest {
    /// Time at which the request was queued, in nanoseconds from the clock's origin. If that is not
    /// known, the time at which it was issued to the disk.
    pub time_ns: i64,
    /// Name of the disk, or its number in the kernel if it has no name.
    pub device: Arc<str>,
    /// Operation, such as `read`, or its number in the kernel if it has no name.
    pub operation: Arc<str>,
    /// First sector, of 512 bytes.
    pub sector: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Nanoseconds from the moment at which the request was queued until it was issued to the disk.
    pub queued_ns: u64,
    /// Nanoseconds from then until it completed.
    pub served_ns: u64,
    /// Status of the kernel's block layer, which is 0 for success.
    pub error: i32,
    /// Name of the process that has queued the request; empty if unknown.
    pub program: Arc<str>,
    /// Id of this process; 0 if no chosen process is known to have queued the request.
    pub pid: u32,
    /// Id of the thread that has queued the request.
    pub tid: u32,
    /// State of the thread when it queued the request.
    pub cause: DiskCause,
}

impl DiskRequest {
    /// Returns the time from the queueing to the completion in nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        self.queued_ns.saturating_add(self.served_ns)
    }
}

/// State of a thread when it queued a request to a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskCause {
    /// It made this system call. If the request belongs to no operation, neither does the call, or
    /// the call was not recorded.
    Call(Arc<str>),
    /// It made this system call, which ended before the request completed.
    EndedCall(Arc<str>),
    /// It ran its program, so it needed a page of a mapped file or of swapped memory.
    Fault,
    /// It is a thread of the kernel, or a worker of io_uring.
    KernelThread,
    /// Nothing is known of it.
    Unknown,
}
