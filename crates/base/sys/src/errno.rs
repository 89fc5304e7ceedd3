//! System calls that leave the host's `errno` alone, because they may come between its own system
//! call and its look at the result, and always do so in a signal handler.

/// Does `calls`, and puts `errno` back to what it was.
pub(crate) fn kept<T>(calls: impl FnOnce() -> T) -> T {
    // SAFETY: the C library gives a pointer that is valid for this thread's life.
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
