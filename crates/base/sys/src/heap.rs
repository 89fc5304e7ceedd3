//! The C library's heap: how many there are ([`share_heaps`]), what is not in them ([`keep_large_blocks_apart`]), and
//! what of them is not needed ([`trim_heaps`]).

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

/// Has what is as large as this come from the system and go back there when it is freed, for a program of which large
/// things live for different times: within heaps, holes are left between them that fit nothing. (The C library begins
/// so, and then learns from the first large thing that is freed to keep those of its size.)
pub fn keep_large_blocks_apart(bytes: u32) {
    #[cfg(target_env = "gnu")]
    // SAFETY: as in `share_heaps`.
    #[expect(unsafe_code)]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, bytes.try_into().unwrap_or(i32::MAX));
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = bytes;
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
