//! Functions that read and write files and other descriptors.

use super::replace::{replace, replace_if, syscall};
use libc::{c_int, c_uint, c_void, iovec, off_t, size_t, ssize_t};

/// Returns both halves of an offset, as the C library passes them to `preadv` and the like.
#[inline(always)]
fn halves(offset: off_t) -> (u64, u64) {
    (offset.cast_unsigned(), offset.cast_unsigned() >> 32)
}

/// Aborts the program if a checked function would write behind the end of its buffer.
fn check(count: size_t, size: size_t) {
    if count > size {
        // SAFETY: ends the process.
        unsafe { libc::abort() };
    }
}

replace! {
    in super;

    fn [read __read](fd: c_int, buf: *mut c_void, count: size_t) -> ssize_t;
    raw syscall!(SYS_read, fd, buf, count);
    record READ |outcome| [fd, Pointer::of(buf), count];

    fn [__read_chk](fd: c_int, buf: *mut c_void, count: size_t, size: size_t) -> ssize_t;
    raw {
        check(count, size);
        syscall!(SYS_read, fd, buf, count)
    };
    record READ |outcome| [fd, Pointer::of(buf), count];

    fn [write __write](fd: c_int, buf: *const c_void, count: size_t) -> ssize_t;
    raw syscall!(SYS_write, fd, buf, count);
    record WRITE |outcome| [fd, Pointer::of(buf), count];

    fn [pread pread64 __pread64](fd: c_int, buf: *mut c_void, count: size_t, pos: off_t) -> ssize_t;
    raw syscall!(SYS_pread64, fd, buf, count, pos);
    record PREAD64 |outcome| [fd, Pointer::of(buf), count, pos];

    fn [__pread_chk __pread64_chk](
        fd: c_int,
        buf: *mut c_void,
        count: size_t,
        pos: off_t,
        size: size_t,
    ) -> ssize_t;
    raw {
        check(count, size);
        syscall!(SYS_pread64, fd, buf, count, pos)
    };
    record PREAD64 |outcome| [fd, Pointer::of(buf), count, pos];

    fn [pwrite pwrite64 __pwrite64](
        fd: c_int,
        buf: *const c_void,
        count: size_t,
        pos: off_t,
    ) -> ssize_t;
    raw syscall!(SYS_pwrite64, fd, buf, count, pos);
    record PWRITE64 |outcome| [fd, Pointer::of(buf), count, pos];

    fn [readv](fd: c_int, vec: *const iovec, vlen: c_int) -> ssize_t;
    raw syscall!(SYS_readv, fd, vec, vlen);
    record READV |outcome| [wide(fd), Pointer::of(vec), wide(vlen)];

    fn [writev](fd: c_int, vec: *const iovec, vlen: c_int) -> ssize_t;
    raw syscall!(SYS_writev, fd, vec, vlen);
    record WRITEV |outcome| [wide(fd), Pointer::of(vec), wide(vlen)];

    fn [preadv preadv64](fd: c_int, vec: *const iovec, vlen: c_int, pos: off_t) -> ssize_t;
    raw syscall!(SYS_preadv, fd, vec, vlen, halves(pos).0, halves(pos).1);
    record PREADV |outcome| [wide(fd), Pointer::of(vec), wide(vlen), halves(pos).0, halves(pos).1];

    fn [pwritev pwritev64](fd: c_int, vec: *const iovec, vlen: c_int, pos: off_t) -> ssize_t;
    raw syscall!(SYS_pwritev, fd, vec, vlen, halves(pos).0, halves(pos).1);
    record PWRITEV |outcome| [wide(fd), Pointer::of(vec), wide(vlen), halves(pos).0, halves(pos).1];

    fn [preadv2 preadv64v2](
        fd: c_int,
        vec: *const iovec,
        vlen: c_int,
        pos: off_t,
        flags: c_int,
    ) -> ssize_t;
    raw syscall!(SYS_preadv2, fd, vec, vlen, halves(pos).0, halves(pos).1, flags);
    record PREADV2 |outcome| [
        wide(fd),
        Pointer::of(vec),
        wide(vlen),
        halves(pos).0,
        halves(pos).1,
        Flags::of(flags),
    ];

    fn [pwritev2 pwritev64v2](
        fd: c_int,
        vec: *const iovec,
        vlen: c_int,
        pos: off_t,
        flags: c_int,
    ) -> ssize_t;
    raw syscall!(SYS_pwritev2, fd, vec, vlen, halves(pos).0, halves(pos).1, flags);
    record PWRITEV2 |outcome| [
        wide(fd),
        Pointer::of(vec),
        wide(vlen),
        halves(pos).0,
        halves(pos).1,
        Flags::of(flags),
    ];

    fn [sendfile sendfile64](
        out_fd: c_int,
        in_fd: c_int,
        offset: *mut off_t,
        count: size_t,
    ) -> ssize_t;
    raw syscall!(SYS_sendfile, out_fd, in_fd, offset, count);
    record SENDFILE64 |outcome| [out_fd, in_fd, Pointer::of(offset), count];

    fn [copy_file_range](
        fd_in: c_int,
        off_in: *mut off_t,
        fd_out: c_int,
        off_out: *mut off_t,
        len: size_t,
        flags: c_uint,
    ) -> ssize_t;
    raw syscall!(SYS_copy_file_range, fd_in, off_in, fd_out, off_out, len, flags);
    record COPY_FILE_RANGE |outcome| [
        fd_in,
        Pointer::of(off_in),
        fd_out,
        Pointer::of(off_out),
        len,
        Flags(flags),
    ];

    fn [splice](
        fd_in: c_int,
        off_in: *mut off_t,
        fd_out: c_int,
        off_out: *mut off_t,
        len: size_t,
        flags: c_uint,
    ) -> ssize_t;
    raw syscall!(SYS_splice, fd_in, off_in, fd_out, off_out, len, flags);
    record SPLICE |outcome| [
        fd_in,
        Pointer::of(off_in),
        fd_out,
        Pointer::of(off_out),
        len,
        Flags(flags),
    ];

    fn [tee](fd_in: c_int, fd_out: c_int, len: size_t, flags: c_uint) -> ssize_t;
    raw syscall!(SYS_tee, fd_in, fd_out, len, flags);
    record TEE |outcome| [fd_in, fd_out, len, Flags(flags)];
}

/// Returns an argument as the kernel declares it for vectors: an unsigned number of 64 bits.
#[inline(always)]
fn wide(number: c_int) -> u64 {
    number as u64
}
