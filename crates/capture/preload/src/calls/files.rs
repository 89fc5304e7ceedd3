//! Functions of open files: positions, synchronisation, sizes, mappings.

use super::replace::{replace, replace_if, syscall};
use crate::next::NextDefinition;
use crate::recording::ErrorNumber;
use libc::{MAP_ANONYMOUS, c_int, c_uint, c_void, off_t, size_t};

replace! {
    in super;

    fn [lseek lseek64 __lseek](fd: c_int, offset: off_t, whence: c_int) -> off_t;
    raw syscall!(SYS_lseek, fd, offset, whence);
    record LSEEK |outcome| [fd, offset, whence.cast_unsigned()];

    fn [fsync](fd: c_int) -> c_int;
    raw syscall!(SYS_fsync, fd);
    record FSYNC |outcome| [fd];

    fn [fdatasync](fd: c_int) -> c_int;
    raw syscall!(SYS_fdatasync, fd);
    record FDATASYNC |outcome| [fd];

    fn [syncfs](fd: c_int) -> c_int;
    raw syscall!(SYS_syncfs, fd);
    record SYNCFS |outcome| [fd];

    fn [sync_file_range](fd: c_int, offset: off_t, count: off_t, flags: c_uint) -> c_int;
    raw syscall!(SYS_sync_file_range, fd, offset, count, flags);
    record SYNC_FILE_RANGE |outcome| [fd, offset, count, Flags(flags)];

    fn [ftruncate ftruncate64](fd: c_int, length: off_t) -> c_int;
    raw syscall!(SYS_ftruncate, fd, length);
    record FTRUNCATE |outcome| [fd, length];

    fn [fallocate fallocate64](fd: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int;
    raw syscall!(SYS_fallocate, fd, mode, offset, length);
    record FALLOCATE |outcome| [fd, mode, offset, length];

    fn [posix_fallocate posix_fallocate64](fd: c_int, offset: off_t, length: off_t) -> ErrorNumber;
    raw syscall!(SYS_fallocate, fd, 0, offset, length);
    record FALLOCATE |outcome| [fd, 0i32, offset, length];

    fn [fchdir](fd: c_int) -> c_int;
    raw syscall!(SYS_fchdir, fd);
    record FCHDIR |outcome| [fd];
}

/// Defines both names of `mmap`, which is recorded for files only.
macro_rules! mappings {
    ($($name:ident)*) => {
        $(replace_if! {
            in super;
            fn $name(
                address: *mut c_void,
                length: size_t,
                protection: c_int,
                flags: c_int,
                fd: c_int,
                offset: off_t,
            ) -> *mut c_void;
            if flags & MAP_ANONYMOUS == 0;
            raw syscall!(SYS_mmap, address, length, protection, flags, fd, offset);
            record MMAP |outcome| [
                address.addr(),
                length,
                protection as u64,
                WideFlags(flags as u64),
                u64::from(fd.cast_unsigned()),
                offset.cast_unsigned(),
            ];
        })*

        /// Pointers to the next definitions of `mmap`.
        pub(super) static MAPPINGS: &[&NextDefinition] = &[$(&$name::NEXT),*];
    };
}

mappings!(mmap mmap64);
