//! Functions that open, remove, rename and shorten files by their paths.

use super::replace::{replace, replace_if, syscall};
use libc::{AT_FDCWD, AT_REMOVEDIR, O_CREAT, O_TMPFILE, O_TRUNC, O_WRONLY, c_char, c_int, c_uint};
use libc::{mode_t, off_t};

/// Returns the mode that a call with these flags has; 0 if the program need not pass a mode, and
/// the argument is undefined.
#[inline(always)]
fn mode_for(flags: c_int, mode: mode_t) -> u32 {
    let has_mode = flags & O_CREAT != 0 || flags & O_TMPFILE == O_TMPFILE;
    if has_mode { mode } else { 0 }
}

const CREATE: c_int = O_CREAT | O_WRONLY | O_TRUNC;

// Where a function and its system call differ, the event is that of the system call which the C
// library makes.
replace! {
    in super;

    fn [open open64 __open __open64](path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    raw syscall!(SYS_openat, AT_FDCWD, path, flags, mode_for(flags, mode));
    record OPENAT |outcome| [
        AT_FDCWD,
        Path::passed(path, outcome),
        Flags::of(flags),
        mode_for(flags, mode),
    ];

    fn [__open_2 __open64_2](path: *const c_char, flags: c_int) -> c_int;
    raw syscall!(SYS_openat, AT_FDCWD, path, flags, 0);
    record OPENAT |outcome| [AT_FDCWD, Path::passed(path, outcome), Flags::of(flags), 0u32];

    fn [openat openat64](dirfd: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    raw syscall!(SYS_openat, dirfd, path, flags, mode_for(flags, mode));
    record OPENAT |outcome| [
        dirfd,
        Path::passed(path, outcome),
        Flags::of(flags),
        mode_for(flags, mode),
    ];

    fn [__openat_2 __openat64_2](dirfd: c_int, path: *const c_char, flags: c_int) -> c_int;
    raw syscall!(SYS_openat, dirfd, path, flags, 0);
    record OPENAT |outcome| [dirfd, Path::passed(path, outcome), Flags::of(flags), 0u32];

    fn [creat creat64](path: *const c_char, mode: mode_t) -> c_int;
    raw syscall!(SYS_openat, AT_FDCWD, path, CREATE, mode);
    record CREAT |outcome| [Path::passed(path, outcome), mode];

    fn [unlink](path: *const c_char) -> c_int;
    raw syscall!(SYS_unlinkat, AT_FDCWD, path, 0);
    record UNLINK |outcome| [Path::passed(path, outcome)];

    fn [unlinkat](dirfd: c_int, path: *const c_char, flags: c_int) -> c_int;
    raw syscall!(SYS_unlinkat, dirfd, path, flags);
    record UNLINKAT |outcome| [dirfd, Path::passed(path, outcome), flags];

    fn [rmdir](path: *const c_char) -> c_int;
    raw syscall!(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
    record RMDIR |outcome| [Path::passed(path, outcome)];

    fn [rename](from: *const c_char, to: *const c_char) -> c_int;
    raw syscall!(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    record RENAME |outcome| [Path::passed(from, outcome), Path::of_success(to, outcome)];

    fn [renameat](
        from_dirfd: c_int,
        from: *const c_char,
        to_dirfd: c_int,
        to: *const c_char,
    ) -> c_int;
    raw syscall!(SYS_renameat2, from_dirfd, from, to_dirfd, to, 0);
    record RENAMEAT |outcome| [
        from_dirfd,
        Path::passed(from, outcome),
        to_dirfd,
        Path::of_success(to, outcome),
    ];

    fn [renameat2](
        from_dirfd: c_int,
        from: *const c_char,
        to_dirfd: c_int,
        to: *const c_char,
        flags: c_uint,
    ) -> c_int;
    raw syscall!(SYS_renameat2, from_dirfd, from, to_dirfd, to, flags);
    record RENAMEAT2 |outcome| [
        from_dirfd,
        Path::passed(from, outcome),
        to_dirfd,
        Path::of_success(to, outcome),
        Flags(flags),
    ];

    fn [truncate truncate64](path: *const c_char, length: off_t) -> c_int;
    raw syscall!(SYS_truncate, path, length);
    record TRUNCATE |outcome| [Path::passed(path, outcome), length];

    fn [chdir](path: *const c_char) -> c_int;
    raw syscall!(SYS_chdir, path);
    record CHDIR |outcome| [Path::passed(path, outcome)];
}
