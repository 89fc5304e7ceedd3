//! The C library's heap: how many there are ([`share_heaps`]), and what of them is not needed ([`trim_heaps`]).

/// Has all threads that start from now on share so many heaps; for a program that has no other thread yet. Each has one
/// of its own else, up to eight for each processor, and what one of them has given back is of no use to the others: a
/// program whose threads hand large things to each other takes half as much again. C libraries that have only one heap
/// are left alone.
pub fn share_heaps(count: u16) {
    #[cfg(target_env = "gnu")]
    // SAFETY: `mallopt` does nothing with a number that it does not like, and locks the heap while it sets it.
    #[expect(unsafe_code)]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, count.max(1).into());
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = count;
}

/// Gives the system what has been freed and is kept for later. It takes milliseconds; for who knows that what comes next
/// needs other sizes, on other threads.
pub fn trim_heaps() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `malloc_trim` locks each heap while it looks for pages that nothing is in.
    #[expect(unsafe_code)]
    unsafe {
        libc::malloc_trim(0);
    }
}
