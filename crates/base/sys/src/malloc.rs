//! Tuning of glibc's allocator: the number of arenas ([`share_heaps`]), separate mappings for large
//! blocks ([`keep_large_blocks_apart`]), and the return of free memory ([`trim_heaps`]).

/// Limits the number of malloc arenas, which new threads then share. Call it while the program has
/// a single thread. By default each thread has its own arena, up to eight for each processor, and
/// memory freed to one arena is not available to the others. A program whose threads pass large
/// objects to each other then needs half as much memory again. Has no effect with C libraries other
/// than glibc.
pub fn share_heaps(count: u16) {
    #[cfg(target_env = "gnu")]
    // SAFETY: `mallopt` ignores values that it does not accept, and locks the heap while it changes
    // the setting.
    #[expect(unsafe_code)]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, count.max(1).into());
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = count;
}

/// Makes malloc allocate blocks of at least `bytes` bytes by `mmap` and unmap them when they are
/// freed. Meant for programs whose large blocks have different lifetimes: in an arena, such blocks
/// leave holes that no other block fits. (glibc starts with such a threshold, but raises it when
/// the first large block is freed.)
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

/// Returns free heap memory to the system. Takes milliseconds. Call it when the program is about to
/// allocate blocks of other sizes, or to allocate on other threads.
pub fn trim_heaps() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `malloc_trim` locks each heap while it searches for free pages.
    #[expect(unsafe_code)]
    unsafe {
        libc::malloc_trim(0);
    }
}
