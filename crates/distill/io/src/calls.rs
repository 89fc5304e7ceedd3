//! The table of system calls: effect of each call, and the meaning of its arguments.

use crate::operation::OperationKind;
use crate::values::{
    ADDRESS, ARGUMENT, COMMAND, COUNT, DESCRIPTORS, DIRFD, DIRFD2, FAMILY, FD, FD2, FLAGS, OFFSET,
    PATH, PATH2, POINTER, POINTER2, Slot, WHENCE,
};

/// System call that does I/O or changes the state of a process.
#[derive(Debug)]
pub(crate) struct Call {
    /// Name without `sys_`.
    pub(crate) name: &'static str,
    pub(crate) action: Action,
    /// Arguments with a meaning: name in tracefs, and slot.
    pub(crate) fields: &'static [(&'static str, Slot)],
}

/// Effect of a system call on the state of its process, and the kind of its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Open,
    Socket,
    /// Creates two sockets.
    SocketPair,
    /// Creates two ends of a pipe; no operation.
    Pipe,
    Accept,
    Connect,
    Bind,
    /// Reads or writes; the result is a number of bytes.
    Transfer(OperationKind),
    /// Receives or sends several messages; the result is their number.
    Messages(OperationKind),
    Seek,
    Close,
    CloseRange,
    Duplicate,
    Fcntl,
    /// Has a descriptor or path, and no effect on the state.
    Plain(OperationKind),
    Map,
    Copy,
    Rename,
    SetupUring,
    SubmitUring,
    /// Creates a descriptor with this path; no operation.
    Create(&'static str),
    ChangeDirectory,
    /// Changes the working directory to that of a descriptor.
    ChangeToDescriptor,
}

const READ: Action = Action::Transfer(OperationKind::Read);
const WRITE: Action = Action::Transfer(OperationKind::Write);
const SYNC: Action = Action::Plain(OperationKind::Sync);
const UNLINK: Action = Action::Plain(OperationKind::Unlink);
const TRUNCATE: Action = Action::Plain(OperationKind::Truncate);

const fn call(name: &'static str, action: Action, fields: &'static [(&'static str, Slot)]) -> Call {
    Call { name, action, fields }
}

/// The known system calls. The flags that open a file close-on-exec have the same value for all
/// calls that accept such flags.
static CALLS: [Call; 66] = [
    call("open", Action::Open, &[("filename", PATH), ("flags", FLAGS)]),
    call("openat", Action::Open, &[("dfd", DIRFD), ("filename", PATH), ("flags", FLAGS)]),
    // The flags of `openat2` are in memory; an event may have them as a further field.
    call("openat2", Action::Open, &[("dfd", DIRFD), ("filename", PATH), ("flags", FLAGS)]),
    call("creat", Action::Open, &[("pathname", PATH)]),
    call("socket", Action::Socket, &[("family", FAMILY), ("type", FLAGS)]),
    call("socketpair", Action::SocketPair, &[("type", FLAGS), ("usockvec", DESCRIPTORS)]),
    call("pipe", Action::Pipe, &[("fildes", DESCRIPTORS)]),
    call("pipe2", Action::Pipe, &[("fildes", DESCRIPTORS), ("flags", FLAGS)]),
    call("accept", Action::Accept, &[("fd", FD), ("upeer_sockaddr", ADDRESS)]),
    call("accept4", Action::Accept, &[("fd", FD), ("upeer_sockaddr", ADDRESS), ("flags", FLAGS)]),
    call("connect", Action::Connect, &[("fd", FD), ("uservaddr", ADDRESS)]),
    call("bind", Action::Bind, &[("fd", FD), ("umyaddr", ADDRESS)]),
    call("read", READ, &[("fd", FD), ("count", COUNT)]),
    call("pread64", READ, &[("fd", FD), ("count", COUNT), ("pos", OFFSET)]),
    call("readv", READ, &[("fd", FD)]),
    // On 64-bit machines, `pos_l` is the whole offset.
    call("preadv", READ, &[("fd", FD), ("pos_l", OFFSET)]),
    call("preadv2", READ, &[("fd", FD), ("pos_l", OFFSET)]),
    call("recvfrom", READ, &[("fd", FD), ("size", COUNT), ("addr", ADDRESS)]),
    call("recvmsg", READ, &[("fd", FD)]),
    call("recvmmsg", Action::Messages(OperationKind::Read), &[("fd", FD)]),
    call("write", WRITE, &[("fd", FD), ("count", COUNT)]),
    call("pwrite64", WRITE, &[("fd", FD), ("count", COUNT), ("pos", OFFSET)]),
    call("writev", WRITE, &[("fd", FD)]),
    call("pwritev", WRITE, &[("fd", FD), ("pos_l", OFFSET)]),
    call("pwritev2", WRITE, &[("fd", FD), ("pos_l", OFFSET)]),
    call("sendto", WRITE, &[("fd", FD), ("len", COUNT), ("addr", ADDRESS)]),
    call("sendmsg", WRITE, &[("fd", FD)]),
    call("sendmmsg", Action::Messages(OperationKind::Write), &[("fd", FD)]),
    call("lseek", Action::Seek, &[("fd", FD), ("offset", OFFSET), ("whence", WHENCE)]),
    call("close", Action::Close, &[("fd", FD)]),
    call("close_range", Action::CloseRange, &[("fd", FD), ("max_fd", FD2), ("flags", FLAGS)]),
    call("dup", Action::Duplicate, &[("fildes", FD)]),
    call("dup2", Action::Duplicate, &[("oldfd", FD), ("newfd", FD2)]),
    call("dup3", Action::Duplicate, &[("oldfd", FD), ("newfd", FD2), ("flags", FLAGS)]),
    call("fcntl", Action::Fcntl, &[("fd", FD), ("cmd", COMMAND), ("arg", ARGUMENT)]),
    call("fsync", SYNC, &[("fd", FD)]),
    call("fdatasync", SYNC, &[("fd", FD)]),
    call("syncfs", SYNC, &[("fd", FD)]),
    call("sync_file_range", SYNC, &[("fd", FD), ("offset", OFFSET), ("nbytes", COUNT)]),
    call("mmap", Action::Map, &[("fd", FD), ("len", COUNT), ("off", OFFSET), ("flags", FLAGS)]),
    call(
        "sendfile64",
        Action::Copy,
        &[("in_fd", FD), ("out_fd", FD2), ("count", COUNT), ("offset", POINTER)],
    ),
    call(
        "sendfile",
        Action::Copy,
        &[("in_fd", FD), ("out_fd", FD2), ("count", COUNT), ("offset", POINTER)],
    ),
    call(
        "copy_file_range",
        Action::Copy,
        &[
            ("fd_in", FD),
            ("fd_out", FD2),
            ("len", COUNT),
            ("off_in", POINTER),
            ("off_out", POINTER2),
        ],
    ),
    call(
        "splice",
        Action::Copy,
        &[
            ("fd_in", FD),
            ("fd_out", FD2),
            ("len", COUNT),
            ("off_in", POINTER),
            ("off_out", POINTER2),
        ],
    ),
    call("tee", Action::Copy, &[("fdin", FD), ("fdout", FD2), ("len", COUNT)]),
    call("unlink", UNLINK, &[("pathname", PATH)]),
    call("unlinkat", UNLINK, &[("dfd", DIRFD), ("pathname", PATH)]),
    call("rmdir", UNLINK, &[("pathname", PATH)]),
    call("rename", Action::Rename, &[("oldname", PATH), ("newname", PATH2)]),
    call(
        "renameat",
        Action::Rename,
        &[("olddfd", DIRFD), ("oldname", PATH), ("newdfd", DIRFD2), ("newname", PATH2)],
    ),
    call(
        "renameat2",
        Action::Rename,
        &[("olddfd", DIRFD), ("oldname", PATH), ("newdfd", DIRFD2), ("newname", PATH2)],
    ),
    call("truncate", TRUNCATE, &[("path", PATH), ("length", OFFSET)]),
    call("ftruncate", TRUNCATE, &[("fd", FD), ("length", OFFSET)]),
    call(
        "fallocate",
        Action::Plain(OperationKind::Allocate),
        &[("fd", FD), ("offset", OFFSET), ("len", COUNT)],
    ),
    call("io_uring_setup", Action::SetupUring, &[("entries", COUNT)]),
    call("io_uring_enter", Action::SubmitUring, &[("fd", FD), ("to_submit", COUNT)]),
    call("eventfd", Action::Create("anon_inode:[eventfd]"), &[]),
    call("eventfd2", Action::Create("anon_inode:[eventfd]"), &[("flags", FLAGS)]),
    call("epoll_create", Action::Create("anon_inode:[eventpoll]"), &[]),
    call("epoll_create1", Action::Create("anon_inode:[eventpoll]"), &[("flags", FLAGS)]),
    call("memfd_create", Action::Create("/memfd:"), &[("uname", PATH), ("flags", FLAGS)]),
    call("timerfd_create", Action::Create("anon_inode:[timerfd]"), &[("flags", FLAGS)]),
    call("signalfd4", Action::Create("anon_inode:[signalfd]"), &[("flags", FLAGS)]),
    call("inotify_init1", Action::Create("anon_inode:inotify"), &[("flags", FLAGS)]),
    call("chdir", Action::ChangeDirectory, &[("filename", PATH)]),
    call("fchdir", Action::ChangeToDescriptor, &[("fd", FD)]),
];

/// Returns the entry of a system call; `None` for calls that do no I/O.
pub(crate) fn find(name: &str) -> Option<&'static Call> {
    CALLS.iter().find(|call| call.name == name)
}

/// Returns the names of all system calls that a [`crate::Tracker`] understands. Not every kernel
/// has all of them.
pub fn call_names() -> impl Iterator<Item = &'static str> {
    CALLS.iter().map(|call| call.name)
}
