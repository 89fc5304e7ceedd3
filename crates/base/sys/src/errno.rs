//! Preserves `errno` across system calls. In a signal handler, such calls may run between a system
//! call of the host program and its check of `errno`.

/// Runs `calls` and then restores the previous value of `errno`.
pub(crate) fn preserve<T>(calls: impl FnOnce() -> T) -> T {
    // SAFETY: the C library returns a pointer that is valid for the lifetime of this thread.
    #[expect(unsafe_code, reason = "the C library's thread-local variable")]
    let (errno, before) = unsafe {
        let errno = libc::__errno_location();
        (errno, errno.read())
    };
    let result = calls();
    // SAFETY: as above; `calls` ran on this thread.
    #[expect(unsafe_code, reason = "the C library's thread-local variable")]
    unsafe {
        errno.write(before);
    }
    result
}
