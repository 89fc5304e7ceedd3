//! The current thread: its identity, its CPU, and its restartable sequences.

use crate::errno;
use crate::wake::membarrier;
use crate::wipe_on_fork::WipedOnFork;
use std::cell::Cell;
use std::sync::atomic::Ordering::Relaxed;

/// Returns the kernel's id of this thread. Makes system calls on first use in each thread and
/// process, and on each use if the id cannot be cached.
///
/// A child of `vfork` shares memory and thread pointer with the thread that made it. If that thread
/// has called this function before, the child gets the parent thread's id instead of its own.
pub fn thread_id() -> u32 {
    process_and_thread().1
}

/// Returns the kernel's ids of this process and this thread. In children of `vfork`, both ids have
/// the restriction that [`thread_id`] documents.
pub fn process_and_thread() -> (u32, u32) {
    /// Process id of the cached ids. It is wiped in a child, so that the child does not reuse its
    /// parent's ids.
    static PROCESS: WipedOnFork = WipedOnFork::new();
    thread_local! {
        /// Cached process id and thread id of this thread. The variable has no destructor, so it
        /// can be used until the thread ends.
        static CACHED_IDS: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
    }
    let [process] = PROCESS.words();
    let current = process.load(Relaxed);
    let (known, id) = CACHED_IDS.get();
    if current != 0 && known == current {
        return (known as u32, id);
    }
    // SAFETY: both calls have no arguments, and cannot fail.
    #[expect(unsafe_code)]
    let (own_process, id) = unsafe { (libc::getpid() as u64, libc::syscall(libc::SYS_gettid)) };
    // No ids are cached if the process id cannot be wiped on fork, or in a child that runs in its
    // parent's memory.
    let is_known = current == own_process || current == 0;
    if is_known && has_own_thread_pointer() && PROCESS.arm() {
        process.store(own_process, Relaxed);
        CACHED_IDS.set((own_process, id as u32));
    }
    (own_process as u32, id as u32)
}

/// Returns true if the C library made this thread and so gave it its own thread-local variables. A
/// child of `vfork` uses the thread-local variables of its parent. The test relies on glibc, which
/// registers each thread's list of robust mutexes with the kernel; no child inherits the
/// registration. Always returns true with other C libraries.
pub(crate) fn has_own_thread_pointer() -> bool {
    if !cfg!(target_env = "gnu") {
        // Other C libraries register later, or never.
        return true;
    }
    let (mut list, mut size) = (std::ptr::null_mut::<libc::c_void>(), 0usize);
    // SAFETY: the kernel writes a pointer and a size to variables of these types.
    #[expect(unsafe_code)]
    let result = errno::preserve(|| unsafe {
        let own: libc::c_long = 0;
        libc::syscall(libc::SYS_get_robust_list, own, &raw mut list, &raw mut size)
    });
    result == 0 && !list.is_null()
}

/// Returns the effective user id of this process.
pub fn user_id() -> u32 {
    // SAFETY: has no arguments, and cannot fail.
    #[expect(unsafe_code)]
    unsafe {
        libc::geteuid()
    }
}

/// Returns true if process `process` has a thread with this id, or if the kernel refuses the check.
/// Takes one system call.
pub fn thread_exists(process: u32, thread: u32) -> bool {
    // SAFETY: signal 0 sends nothing; the call only checks whether it could be sent.
    #[expect(unsafe_code)]
    errno::preserve(|| unsafe {
        let (process, thread, none) = (process as libc::c_long, thread as libc::c_long, 0);
        libc::syscall(libc::SYS_tgkill, process, thread, none as libc::c_long) == 0
            || *libc::__errno_location() != libc::ESRCH
    })
}

/// Returns true if this thread has left the stack frame that contains the address `variable`, for
/// instance by a `longjmp` out of a signal handler. `own` is the address of a variable of the
/// caller. Returns false if the answer is unknown. Takes one system call.
///
/// May be wrong for a thread that switches stacks within a signal handler, by itself or with
/// `SS_AUTODISARM`.
pub fn has_left_frame(variable: usize, own: usize) -> bool {
    // SAFETY: all fields may be zero; the kernel writes only to the structure passed to it.
    #[expect(unsafe_code)]
    let (result, stack) = errno::preserve(|| unsafe {
        let mut stack: libc::stack_t = std::mem::zeroed();
        (libc::sigaltstack(std::ptr::null(), &raw mut stack), stack)
    });
    if result != 0 {
        return false;
    }
    let is_on_signal_stack = |address: usize| {
        let has_one = stack.ss_flags & libc::SS_DISABLE == 0;
        has_one && address.wrapping_sub(stack.ss_sp.addr()) < stack.ss_size
    };
    match (is_on_signal_stack(own), is_on_signal_stack(variable)) {
        // Both are on one stack, which grows downwards.
        (false, false) | (true, true) => variable <= own,
        // The handler that ran on the signal stack has been left.
        (false, true) => true,
        (true, false) => false,
    }
}

/// Returns the number of the CPU that this thread runs on; 0 if it is unknown. The thread may have
/// moved by the time of the return.
pub fn current_cpu() -> usize {
    // SAFETY: has no arguments.
    #[expect(unsafe_code)]
    let cpu = unsafe { libc::sched_getcpu() };
    usize::try_from(cpu).unwrap_or(0)
}

/// Calls each function of the C library that only recording uses, so that the dynamic linker has
/// resolved it before the first event. In a program that links the static library, these functions
/// are otherwise resolved at their first call. That takes 2 to 3 KiB of stack more than the call
/// itself: too much for a signal handler on a stack of 8 KiB, where the kernel already uses up to
/// 3.5 KiB.
pub fn find_functions_of_recording() {
    current_cpu();
    has_left_frame(0, 0);
}

/// Returns the offset of glibc's area for restartable sequences from the thread pointer; `None` if
/// glibc has not registered an area with the kernel.
pub fn rseq_offset() -> Option<isize> {
    // SAFETY: both names end with a NUL. In glibc they are an `unsigned int` and a `ptrdiff_t`,
    // which it sets before any other code runs, and never changes.
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

/// Aborts the restartable sequences that threads of this process are executing, which then start
/// again. Returns false if the kernel cannot do that (before Linux 5.10).
pub fn restart_sequences() -> bool {
    // MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, and its registration.
    const RESTART: libc::c_int = 1 << 7;
    const REGISTER: libc::c_int = 1 << 8;
    membarrier(RESTART) || (membarrier(REGISTER) && membarrier(RESTART))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_owns_the_process() {
        use std::os::unix::fs::MetadataExt;
        assert_eq!(user_id(), std::fs::metadata("/proc/self").unwrap().uid());
    }

    #[test]
    fn threads_are_there_until_they_end() {
        let process = std::process::id();
        assert!(thread_exists(process, thread_id()));
        assert!(!thread_exists(1, thread_id()), "of another process");
        assert_eq!(thread_id(), thread_id());
        let other = std::thread::spawn(thread_id).join().unwrap();
        // The kernel may remove the thread with a short delay.
        let gone = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            !thread_exists(process, other)
        });
        assert!(gone);
    }

    #[cfg(feature = "testing")]
    #[test]
    fn a_child_has_an_id_of_its_own() {
        use crate::testing::{Fork, in_child};
        use std::sync::atomic::AtomicU64;
        let own = thread_id();
        for fork in [Fork::Library, Fork::Raw] {
            let [id, exists] = in_child(fork, |[id, exists]: &[AtomicU64; 2]| {
                id.store(thread_id().into(), Relaxed);
                let own = thread_id();
                exists.store(thread_exists(std::process::id(), own).into(), Relaxed);
            })
            .unwrap();
            assert_ne!(id, u64::from(own), "{fork:?}");
            assert_eq!(exists, 1, "{fork:?}");
        }
    }

    /// A child that shares its parent's memory and thread pointer does not change the parent's
    /// cached ids, even if the parent has never read its ids.
    #[cfg(feature = "testing")]
    #[test]
    fn a_child_that_shares_memory_leaves_its_parents_id_alone() {
        use crate::testing::{Fork, in_child, in_sharing_child};
        use std::sync::atomic::AtomicU64;
        for fork in [Fork::Library, Fork::Raw] {
            let [own, childs, later] = in_child(fork, |[own, childs, later]: &[AtomicU64; 3]| {
                // The cached process id is wiped in this child, so no ids are cached yet.
                let shared = || childs.store(thread_id().into(), Relaxed);
                let ended = in_sharing_child(&shared);
                later.store(thread_id().into(), Relaxed);
                own.store(if ended { std::process::id().into() } else { 0 }, Relaxed);
            })
            .unwrap();
            assert_eq!(later, own, "{fork:?}");
            assert_ne!(childs, own, "{fork:?}");
        }
    }
}
