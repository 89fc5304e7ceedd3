//! Functions that create, copy and close descriptors.

use super::replace::{replace, replace_if, syscall};
use libc::{c_char, c_int, c_uint, sigset_t};

/// Returns the argument of `fcntl` as the kernel uses it: 0 if the command has none, so that the
/// register's contents are undefined, and without the upper half for integers.
#[inline(always)]
fn argument_of(command: c_int, argument: usize) -> u64 {
    match command {
        libc::F_GETFD
        | libc::F_GETFL
        | libc::F_GETOWN
        | GET_SIGNAL
        | libc::F_GETLEASE
        | libc::F_GETPIPE_SZ
        | libc::F_GET_SEALS => 0,
        libc::F_DUPFD
        | libc::F_DUPFD_CLOEXEC
        | libc::F_SETFD
        | libc::F_SETFL
        | libc::F_SETOWN
        | SET_SIGNAL
        | libc::F_SETLEASE
        | libc::F_SETPIPE_SZ
        | libc::F_ADD_SEALS
        | libc::F_NOTIFY => u64::from(argument as u32),
        _ => argument as u64,
    }
}

/// `F_SETSIG`.
const SET_SIGNAL: c_int = 10;
/// `F_GETSIG`.
const GET_SIGNAL: c_int = 11;

/// Copies a descriptor as `dup2` does, for processors without that system call.
///
/// # Safety
///
/// The same as for `dup2`.
unsafe fn dup2_raw(from: c_int, to: c_int) -> libc::c_long {
    // SAFETY: plain integers are passed.
    unsafe {
        match from == to {
            true if syscall!(SYS_fcntl, from, libc::F_GETFD) < 0 => -1,
            true => libc::c_long::from(to),
            false => syscall!(SYS_dup3, from, to, 0),
        }
    }
}

replace! {
    in super;

    fn [close __close](fd: c_int) -> c_int;
    raw syscall!(SYS_close, fd);
    record CLOSE |outcome| [fd];

    fn [close_range](first: c_uint, last: c_uint, flags: c_int) -> c_int;
    raw syscall!(SYS_close_range, first, last, flags);
    record CLOSE_RANGE |outcome| [first.cast_signed(), last.cast_signed(), Flags::of(flags)];

    fn [closefrom](first: c_int) -> ();
    raw syscall!(SYS_close_range, first.max(0), c_uint::MAX, 0);
    record CLOSE_RANGE |outcome| [first.max(0), -1i32, Flags(0)];

    fn [dup](fd: c_int) -> c_int;
    raw syscall!(SYS_dup, fd);
    record DUP |outcome| [fd.cast_unsigned()];

    fn [dup2 __dup2](from: c_int, to: c_int) -> c_int;
    raw dup2_raw(from, to);
    record DUP2 |outcome| [from, to];

    fn [dup3](from: c_int, to: c_int, flags: c_int) -> c_int;
    raw syscall!(SYS_dup3, from, to, flags);
    record DUP3 |outcome| [from, to, Flags::of(flags)];

    fn [fcntl fcntl64 __fcntl](fd: c_int, command: c_int, argument: usize) -> c_int;
    raw syscall!(SYS_fcntl, fd, command, argument);
    record FCNTL |outcome| [fd, command.cast_unsigned(), argument_of(command, argument)];

    fn [pipe __pipe](pair: *mut c_int) -> c_int;
    raw syscall!(SYS_pipe2, pair, 0);
    record PIPE2 |outcome| [Descriptors::returned(pair, outcome), Flags(0)];

    fn [pipe2](pair: *mut c_int, flags: c_int) -> c_int;
    raw syscall!(SYS_pipe2, pair, flags);
    record PIPE2 |outcome| [Descriptors::returned(pair, outcome), Flags::of(flags)];

    fn [eventfd](count: c_uint, flags: c_int) -> c_int;
    raw syscall!(SYS_eventfd2, count, flags);
    record EVENTFD2 |outcome| [count, Flags::of(flags)];

    fn [epoll_create](size: c_int) -> c_int;
    raw syscall!(SYS_epoll_create1, 0);
    record EPOLL_CREATE |outcome| [size];

    fn [epoll_create1](flags: c_int) -> c_int;
    raw syscall!(SYS_epoll_create1, flags);
    record EPOLL_CREATE1 |outcome| [Flags::of(flags)];

    fn [memfd_create](name: *const c_char, flags: c_uint) -> c_int;
    raw syscall!(SYS_memfd_create, name, flags);
    record MEMFD_CREATE |outcome| [Path::of_success(name, outcome), Flags(flags)];

    fn [timerfd_create](clock: c_int, flags: c_int) -> c_int;
    raw syscall!(SYS_timerfd_create, clock, flags);
    record TIMERFD_CREATE |outcome| [clock, Flags::of(flags)];

    fn [signalfd](fd: c_int, mask: *const sigset_t, flags: c_int) -> c_int;
    raw syscall!(SYS_signalfd4, fd, mask, SIGNALS_SIZE, flags);
    record SIGNALFD4 |outcome| [fd, Pointer::of(mask), SIGNALS_SIZE, Flags::of(flags)];

    fn [inotify_init1](flags: c_int) -> c_int;
    raw syscall!(SYS_inotify_init1, flags);
    record INOTIFY_INIT1 |outcome| [Flags::of(flags)];
}

/// Size of the kernel's signal mask, in bytes.
const SIGNALS_SIZE: usize = 8;
