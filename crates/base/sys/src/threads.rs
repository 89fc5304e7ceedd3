//! Which thread this is, and where it runs.

/// The kernel's id of this thread. A system call.
pub fn thread_id() -> u32 {
    // SAFETY: has no arguments, and cannot fail.
    #[expect(unsafe_code)]
    let id = unsafe { libc::syscall(libc::SYS_gettid) };
    id as u32
}

/// Whether this process has a thread of that id. A system call.
pub fn thread_exists(id: u32) -> bool {
    // SAFETY: signal 0 is none; the call only looks whether it could be sent.
    #[expect(unsafe_code)]
    let result = unsafe {
        libc::syscall(libc::SYS_tgkill, libc::getpid(), id as libc::c_long, 0 as libc::c_long)
    };
    result == 0
}

/// The processor that this thread runs on, or did a moment ago.
pub fn current_cpu() -> usize {
    // SAFETY: has no arguments.
    #[expect(unsafe_code)]
    let cpu = unsafe { libc::sched_getcpu() };
    usize::try_from(cpu).unwrap_or(0)
}

/// How far from the thread pointer the C library keeps each thread's area for restartable sequences;
/// `None` if it has registered none with the kernel.
pub fn rseq_offset() -> Option<isize> {
    // SAFETY: both names end with a NUL. What the C library calls so are an `unsigned int` and a
    // `ptrdiff_t`, which it sets before any other code runs, and never changes.
    #[expect(unsafe_code)]
    unsafe {
        let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<u32>();
        let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<isize>();
        match (size.as_ref(), offset.as_ref()) {
            (Some(size), Some(offset)) if *size > 0 => Some(*offset),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_there_until_they_end() {
        assert!(thread_exists(thread_id()));
        let other = std::thread::spawn(thread_id).join().unwrap();
        // It may take the kernel a moment.
        let gone = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            !thread_exists(other)
        });
        assert!(gone);
    }
}
