//! The C library's heap. Start at [`share_heaps`].

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
