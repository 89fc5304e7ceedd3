//! Event types of the recorded system calls: names, and names of the arguments in tracefs.

use crate::recording::Call;
use blkkin_trace::{EventType, registry};

macro_rules! calls {
    ($($constant:ident $name:literal $($field:ident)*;)*) => {
        $(
            pub(crate) static $constant: Call<{ ["ret", $(stringify!($field)),*].len() + 1 }> =
                Call::new(
                    concat!("syscall:", $name),
                    &[$(stringify!($field),)* "ret", "duration"],
                );
        )*

        /// All event types of this module.
        static ALL: &[&EventType] = &[$($constant.event()),*];
    };
}

calls! {
    OPENAT "openat" dfd filename flags mode;
    CREAT "creat" pathname mode;
    SOCKET "socket" family type protocol;
    SOCKETPAIR "socketpair" family type protocol usockvec;
    PIPE2 "pipe2" fildes flags;
    ACCEPT "accept" fd upeer_sockaddr upeer_addrlen;
    ACCEPT4 "accept4" fd upeer_sockaddr upeer_addrlen flags;
    CONNECT "connect" fd uservaddr addrlen;
    BIND "bind" fd umyaddr addrlen;
    READ "read" fd buf count;
    PREAD64 "pread64" fd buf count pos;
    READV "readv" fd vec vlen;
    PREADV "preadv" fd vec vlen pos_l pos_h;
    PREADV2 "preadv2" fd vec vlen pos_l pos_h flags;
    RECVFROM "recvfrom" fd ubuf size flags addr addr_len;
    RECVMSG "recvmsg" fd msg flags;
    RECVMMSG "recvmmsg" fd mmsg vlen flags timeout;
    WRITE "write" fd buf count;
    PWRITE64 "pwrite64" fd buf count pos;
    WRITEV "writev" fd vec vlen;
    PWRITEV "pwritev" fd vec vlen pos_l pos_h;
    PWRITEV2 "pwritev2" fd vec vlen pos_l pos_h flags;
    SENDTO "sendto" fd buff len flags addr addr_len;
    SENDMSG "sendmsg" fd msg flags;
    SENDMMSG "sendmmsg" fd mmsg vlen flags;
    LSEEK "lseek" fd offset whence;
    CLOSE "close" fd;
    CLOSE_RANGE "close_range" fd max_fd flags;
    DUP "dup" fildes;
    DUP2 "dup2" oldfd newfd;
    DUP3 "dup3" oldfd newfd flags;
    FCNTL "fcntl" fd cmd arg;
    FSYNC "fsync" fd;
    FDATASYNC "fdatasync" fd;
    SYNCFS "syncfs" fd;
    SYNC_FILE_RANGE "sync_file_range" fd offset nbytes flags;
    MMAP "mmap" addr len prot flags fd off;
    SENDFILE64 "sendfile64" out_fd in_fd offset count;
    COPY_FILE_RANGE "copy_file_range" fd_in off_in fd_out off_out len flags;
    SPLICE "splice" fd_in off_in fd_out off_out len flags;
    TEE "tee" fdin fdout len flags;
    UNLINK "unlink" pathname;
    UNLINKAT "unlinkat" dfd pathname flag;
    RMDIR "rmdir" pathname;
    RENAME "rename" oldname newname;
    RENAMEAT "renameat" olddfd oldname newdfd newname;
    RENAMEAT2 "renameat2" olddfd oldname newdfd newname flags;
    TRUNCATE "truncate" path length;
    FTRUNCATE "ftruncate" fd length;
    FALLOCATE "fallocate" fd mode offset len;
    EVENTFD2 "eventfd2" count flags;
    EPOLL_CREATE "epoll_create" size;
    EPOLL_CREATE1 "epoll_create1" flags;
    MEMFD_CREATE "memfd_create" uname flags;
    TIMERFD_CREATE "timerfd_create" clockid flags;
    SIGNALFD4 "signalfd4" ufd user_mask sizemask flags;
    INOTIFY_INIT1 "inotify_init1" flags;
    CHDIR "chdir" filename;
    FCHDIR "fchdir" fd;
}

/// Returns true if a channel wants events of any of the types. They need not be registered.
pub(crate) fn has_wanted() -> bool {
    ALL.iter().any(|event| registry::is_wanted(event))
}
