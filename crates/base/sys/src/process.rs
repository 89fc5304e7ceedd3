//! What a library has to know of the process that it is in, and where it can hook into its life.

use crate::errno;

/// Whether the process has rights that its user has not, as one of a set-user-id program: its
/// environment is then that user's, and not to be believed.
pub fn is_privileged() -> bool {
    // SAFETY: this reads a value that the kernel gave to the process when it started.
    #[expect(unsafe_code)]
    unsafe {
        libc::getauxval(libc::AT_SECURE) != 0
    }
}

/// Does `work` while no signal interrupts this thread. A thread that it makes gets none, ever.
pub fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    /// Restores the thread's mask, whatever happens.
    struct Restore(libc::sigset_t);
    impl Drop for Restore {
        fn drop(&mut self) {
            // SAFETY: the set is one that the C library has filled.
            #[expect(unsafe_code)]
            unsafe {
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut());
            }
        }
    }
    // SAFETY: all zeros is a set; both are filled before they are used.
    #[expect(unsafe_code)]
    let _restore = unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        Restore(before)
    };
    work()
}

/// Whether this thread can start another one: it is surely in no signal handler, where the C library's locks
/// may be held by the code below, and it is in a process that the C library knows, unlike a child of `vfork`
/// or of the bare system call. Some 70 system calls.
///
/// A handler blocks its own signal, so none runs if no signal is blocked that has a handler. A handler that
/// does not (`SA_NODEFER`) could run at any time. One with `SA_RESETHAND` is not there any more while it runs,
/// so signals that crash handlers are for may not be blocked at all. What also counts is the signal stack.
pub fn may_start_thread() -> bool {
    const OF_CRASHES: [libc::c_int; 7] = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGILL,
        libc::SIGFPE,
        libc::SIGABRT,
        libc::SIGTRAP,
        libc::SIGSYS,
    ];
    if !crate::threads::has_thread_pointer_of_its_own() {
        return false;
    }
    // SAFETY: all zeros is a value of each structure; the kernel and the C library write those that they are
    // given, and change nothing else.
    #[expect(unsafe_code)]
    errno::kept(|| unsafe {
        let mut stack: libc::stack_t = std::mem::zeroed();
        let mut blocked: libc::sigset_t = std::mem::zeroed();
        if libc::sigaltstack(std::ptr::null(), &raw mut stack) != 0
            || stack.ss_flags & libc::SS_ONSTACK != 0
            || libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut blocked) != 0
        {
            return false;
        }
        (1..=libc::SIGRTMAX()).all(|signal| {
            let mut action: libc::sigaction = std::mem::zeroed();
            // Fails for those that the C library keeps for itself.
            let is_known = libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0;
            let is_blocked = libc::sigismember(&raw const blocked, signal) == 1;
            let has_handler = is_known
                && action.sa_sigaction != libc::SIG_DFL
                && action.sa_sigaction != libc::SIG_IGN;
            let is_open = has_handler && action.sa_flags & libc::SA_NODEFER != 0;
            !is_open && !(is_blocked && (has_handler || OF_CRASHES.contains(&signal)))
        })
    })
}

/// Whether seccomp restricts this thread, as far as is known. One system call.
pub fn has_seccomp() -> bool {
    // SAFETY: plain integers are passed.
    #[expect(unsafe_code)]
    errno::kept(|| unsafe {
        match libc::prctl(libc::PR_GET_SECCOMP) {
            // A kernel without it says `EINVAL`, and a filter something else.
            -1 => *libc::__errno_location() != libc::EINVAL,
            mode => mode != 0,
        }
    })
}

/// How many seccomp filters this thread has; `None` if that cannot be known. Nearly always it has none, and
/// this is one system call.
pub fn seccomp_filters() -> Option<u64> {
    match has_seccomp() {
        false => Some(0),
        true => seccomp_filters_in(&std::fs::read_to_string("/proc/thread-self/status").ok()?),
    }
}

/// How many seccomp filters a thread has, by its `status` in `/proc`; a mode that leaves four system calls
/// counts as one.
pub fn seccomp_filters_in(status: &str) -> Option<u64> {
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse::<u64>().ok()
    };
    match number("Seccomp:") {
        // A kernel without it.
        None | Some(0) => Some(0),
        // Before Linux 5.9 the number is not known.
        Some(_) => number("Seccomp_filters:").map(|filters| filters.max(1)),
    }
}

/// Has `hook` called in each child that the C library's `fork` makes, on its only thread. False if that
/// cannot be had.
pub fn in_forked_children(hook: extern "C" fn()) -> bool {
    // SAFETY: the function lives as long as the library that it is in, with which the C library forgets
    // it. The binding asks for an unsafe one; any other will do.
    #[expect(unsafe_code)]
    unsafe {
        libc::pthread_atfork(None, None, Some(hook)) == 0
    }
}

/// The name of this thread: up to 15 bytes, and NULs. A system call.
pub fn thread_name() -> [u8; 16] {
    let mut name = [0u8; 16];
    // SAFETY: the kernel writes at most 16 bytes.
    #[expect(unsafe_code)]
    errno::kept(|| unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) });
    name
}

/// Has the library with this code stay loaded until the process ends, because a thread runs in it.
/// The program's own code does anyway.
pub fn keep_loaded(code: fn()) {
    // SAFETY: all zeros is a value of the structure, which the call fills, with a name that ends with a
    // NUL and lives as long as the library, which is loaded: this code may be called.
    #[expect(unsafe_code)]
    unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(code as *const libc::c_void, &raw mut found) != 0
            && !found.dli_fname.is_null()
        {
            let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
            libc::dlopen(found.dli_fname, flags);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_is_an_ordinary_program() {
        assert!(!is_privileged());
    }

    #[test]
    fn threads_made_without_signals_get_none() {
        let blocked = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = status.lines().find(|line| line.starts_with("SigBlk:")).unwrap().to_owned();
            u64::from_str_radix(line[7..].trim(), 16).unwrap()
        };
        let before = blocked();
        let thread = without_signals(|| std::thread::spawn(blocked)).join().unwrap();
        let usual =
            1u64 << (libc::SIGTERM - 1) | 1 << (libc::SIGUSR1 - 1) | 1 << (libc::SIGPROF - 1);
        assert_eq!(thread & usual, usual);
        assert_eq!(blocked(), before);
    }

    #[test]
    fn threads_are_not_started_in_signal_handlers() {
        use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
        static FOUND: AtomicU32 = AtomicU32::new(0);
        extern "C" fn handle(_: libc::c_int) {
            FOUND.store(1 + u32::from(may_start_thread()), SeqCst);
        }
        let check = |signal, flags| {
            let before = may_start_thread();
            FOUND.store(0, SeqCst);
            // SAFETY: the handler does what handlers may; the disposition is put back.
            #[expect(unsafe_code)]
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                let mut old: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handle as extern "C" fn(libc::c_int) as usize;
                action.sa_flags = flags;
                assert_eq!(libc::sigaction(signal, &raw const action, &raw mut old), 0);
                assert_eq!(libc::raise(signal), 0);
                let meanwhile = may_start_thread();
                assert_eq!(libc::sigaction(signal, &raw const old, std::ptr::null_mut()), 0);
                (before, FOUND.load(SeqCst), meanwhile, may_start_thread())
            }
        };
        // On a thread, where no harness has blocked anything.
        std::thread::spawn(move || {
            assert_eq!(check(libc::SIGUSR2, 0), (true, 1, true, true));
            assert_eq!(check(libc::SIGUSR2, libc::SA_NODEFER), (true, 1, false, true));
            assert_eq!(check(libc::SIGTRAP, libc::SA_RESETHAND), (true, 1, true, true));
            without_signals(|| assert!(!may_start_thread()));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn filters_are_counted() {
        assert_eq!(seccomp_filters(), Some(0));
        let check = |text: &str, expected| assert_eq!(seccomp_filters_in(text), expected, "{text}");
        check("Name:\tx\n", Some(0));
        check("Seccomp:\t0\nSeccomp_filters:\t0\n", Some(0));
        check("Seccomp:\t1\nSeccomp_filters:\t0\n", Some(1));
        check("Seccomp:\t2\nSeccomp_filters:\t3\n", Some(3));
        check("Seccomp:\t2\n", None);
    }

    #[test]
    fn threads_have_names() {
        let named = std::thread::Builder::new().name("of this name".to_owned());
        let name = named.spawn(thread_name).unwrap().join().unwrap();
        assert_eq!(&name, b"of this name\0\0\0\0");
    }
}
