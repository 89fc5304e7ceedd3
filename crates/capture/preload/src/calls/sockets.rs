//! Functions of sockets.

use super::replace::{replace, replace_if, syscall};
use libc::{
    c_int, c_uint, c_void, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec,
};

/// Aborts the program if a checked function would write behind the end of its buffer.
fn check(count: size_t, size: size_t) {
    if count > size {
        // SAFETY: ends the process.
        unsafe { libc::abort() };
    }
}

const NO_ADDRESS: *mut sockaddr = std::ptr::null_mut();
const NO_SIZE: *mut socklen_t = std::ptr::null_mut();

/// Returns a size as the kernel declares it: a signed number.
#[inline(always)]
fn signed(size: socklen_t) -> i32 {
    size.cast_signed()
}

replace! {
    in super;

    fn [socket](family: c_int, kind: c_int, protocol: c_int) -> c_int;
    raw syscall!(SYS_socket, family, kind, protocol);
    record SOCKET |outcome| [family, kind, protocol];

    fn [socketpair](family: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int;
    raw syscall!(SYS_socketpair, family, kind, protocol, pair);
    record SOCKETPAIR |outcome| [family, kind, protocol, Descriptors::returned(pair, outcome)];

    fn [accept](fd: c_int, address: *mut sockaddr, size: *mut socklen_t) -> c_int;
    raw syscall!(SYS_accept, fd, address, size);
    record ACCEPT |outcome| [fd, Address::returned(address, size, outcome), Pointer::of(size)];

    fn [accept4](fd: c_int, address: *mut sockaddr, size: *mut socklen_t, flags: c_int) -> c_int;
    raw syscall!(SYS_accept4, fd, address, size, flags);
    record ACCEPT4 |outcome| [
        fd,
        Address::returned(address, size, outcome),
        Pointer::of(size),
        Flags::of(flags),
    ];

    fn [connect __connect](fd: c_int, address: *const sockaddr, size: socklen_t) -> c_int;
    raw syscall!(SYS_connect, fd, address, size);
    record CONNECT |outcome| [fd, Address::passed(address, size, outcome), signed(size)];

    fn [bind](fd: c_int, address: *const sockaddr, size: socklen_t) -> c_int;
    raw syscall!(SYS_bind, fd, address, size);
    record BIND |outcome| [fd, Address::passed(address, size, outcome), signed(size)];

    fn [recv](fd: c_int, buf: *mut c_void, count: size_t, flags: c_int) -> ssize_t;
    raw syscall!(SYS_recvfrom, fd, buf, count, flags, NO_ADDRESS, NO_SIZE);
    record RECVFROM |outcome| [
        fd,
        Pointer::of(buf),
        count,
        Flags::of(flags),
        Address::returned(NO_ADDRESS, NO_SIZE, outcome),
        Pointer::of(NO_SIZE),
    ];

    fn [__recv_chk](
        fd: c_int,
        buf: *mut c_void,
        count: size_t,
        size: size_t,
        flags: c_int,
    ) -> ssize_t;
    raw {
        check(count, size);
        syscall!(SYS_recvfrom, fd, buf, count, flags, NO_ADDRESS, NO_SIZE)
    };
    record RECVFROM |outcome| [
        fd,
        Pointer::of(buf),
        count,
        Flags::of(flags),
        Address::returned(NO_ADDRESS, NO_SIZE, outcome),
        Pointer::of(NO_SIZE),
    ];

    fn [recvfrom](
        fd: c_int,
        buf: *mut c_void,
        count: size_t,
        flags: c_int,
        address: *mut sockaddr,
        address_size: *mut socklen_t,
    ) -> ssize_t;
    raw syscall!(SYS_recvfrom, fd, buf, count, flags, address, address_size);
    record RECVFROM |outcome| [
        fd,
        Pointer::of(buf),
        count,
        Flags::of(flags),
        Address::returned(address, address_size, outcome),
        Pointer::of(address_size),
    ];

    fn [__recvfrom_chk](
        fd: c_int,
        buf: *mut c_void,
        count: size_t,
        size: size_t,
        flags: c_int,
        address: *mut sockaddr,
        address_size: *mut socklen_t,
    ) -> ssize_t;
    raw {
        check(count, size);
        syscall!(SYS_recvfrom, fd, buf, count, flags, address, address_size)
    };
    record RECVFROM |outcome| [
        fd,
        Pointer::of(buf),
        count,
        Flags::of(flags),
        Address::returned(address, address_size, outcome),
        Pointer::of(address_size),
    ];

    fn [recvmsg](fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    raw syscall!(SYS_recvmsg, fd, message, flags);
    record RECVMSG |outcome| [fd, Pointer::of(message), Flags::of(flags)];

    fn [recvmmsg](
        fd: c_int,
        messages: *mut mmsghdr,
        count: c_uint,
        flags: c_int,
        timeout: *mut timespec,
    ) -> c_int;
    raw syscall!(SYS_recvmmsg, fd, messages, count, flags, timeout);
    record RECVMMSG |outcome| [
        fd,
        Pointer::of(messages),
        count,
        Flags::of(flags),
        Pointer::of(timeout),
    ];

    fn [send __send](fd: c_int, buf: *const c_void, count: size_t, flags: c_int) -> ssize_t;
    raw syscall!(SYS_sendto, fd, buf, count, flags, NO_ADDRESS, 0);
    record SENDTO |outcome| [
        fd,
        Pointer::of(buf),
        count,
        Flags::of(flags),
        Address::passed(NO_ADDRESS, 0, outcome),
        0i32,
    ];

    fn [sendto](
        fd: c_int,
        buf: *const c_void,
        count: size_t,
        flags: c_int,
        address: *const sockaddr,
        address_size: socklen_t,
    ) -> ssize_t;
    raw syscall!(SYS_sendto, fd, buf, count, flags, address, address_size);
    record SENDTO |outcome| [
        fd,
        Pointer::of(buf),
        count,
        Flags::of(flags),
        Address::passed(address, address_size, outcome),
        signed(address_size),
    ];

    fn [sendmsg](fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    raw syscall!(SYS_sendmsg, fd, message, flags);
    record SENDMSG |outcome| [fd, Pointer::of(message), Flags::of(flags)];

    fn [sendmmsg](fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    raw syscall!(SYS_sendmmsg, fd, messages, count, flags);
    record SENDMMSG |outcome| [fd, Pointer::of(messages), count, Flags::of(flags)];
}
