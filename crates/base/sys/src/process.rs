//! Properties of the process and of the calling thread, blocking of signals, hooks for forks, and
//! protection of the library from being unloaded.

use crate::errno;

/// Returns true if the process has more rights than its user, as a set-user-id program has. The
/// environment is then chosen by that user and must not be trusted.
pub fn is_privileged() -> bool {
    // SAFETY: this reads a value that the kernel passed to the process at its start.
    #[expect(unsafe_code)]
    unsafe {
        libc::getauxval(libc::AT_SECURE) != 0
    }
}

/// Ignores SIGQUIT (`Ctrl-\`) in this process, and in programs that it starts and that do not
/// handle it themselves.
pub fn ignore_quit_signal() {
    // SAFETY: ignoring a signal runs no code.
    #[expect(unsafe_code)]
    unsafe {
        libc::signal(libc::SIGQUIT, libc::SIG_IGN);
    }
}

/// Runs `work` with all signals blocked in this thread. Threads that `work` starts inherit the
/// blocked signals for their whole lifetime.
pub fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    /// Guard that restores the thread's signal mask, also on panic.
    struct Restore(libc::sigset_t);
    impl Drop for Restore {
        fn drop(&mut self) {
            // SAFETY: the C library has filled the set.
            #[expect(unsafe_code)]
            unsafe {
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut());
            }
        }
    }
    // SAFETY: all zeros is a valid set; both sets are filled before they are used.
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

/// Returns true if this thread can safely start another thread. Two conditions must hold. The
/// thread is not in a signal handler, since the interrupted code may hold the C library's locks.
/// And the C library made the process; a child of `vfork` or of the bare system call is not safe.
/// Takes up to 65 system calls.
///
/// A handler blocks its own signal, so no handler runs if no signal with a handler is blocked. A
/// handler with `SA_NODEFER` does not block its signal, and could run at any time; no such handler
/// may be installed. A handler with `SA_RESETHAND` is no longer installed while it runs, so the
/// signals of crash handlers must not be blocked at all. Running on the signal stack counts as
/// running in a handler.
pub fn may_start_thread() -> bool {
    const CRASH_SIGNALS: [libc::c_int; 7] = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGILL,
        libc::SIGFPE,
        libc::SIGABRT,
        libc::SIGTRAP,
        libc::SIGSYS,
    ];
    if !crate::threads::has_own_thread_pointer() {
        return false;
    }
    // SAFETY: all zeros is a valid value of each structure; the kernel and the C library write only
    // the structures passed to them.
    #[expect(unsafe_code)]
    errno::preserve(|| unsafe {
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
            // The call fails for the signals that the C library reserves.
            let is_known = libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0;
            let is_blocked = libc::sigismember(&raw const blocked, signal) == 1;
            let has_handler = is_known
                && action.sa_sigaction != libc::SIG_DFL
                && action.sa_sigaction != libc::SIG_IGN;
            let may_nest = has_handler && action.sa_flags & libc::SA_NODEFER != 0;
            !may_nest && !(is_blocked && (has_handler || CRASH_SIGNALS.contains(&signal)))
        })
    })
}

/// Returns true if seccomp restricts this thread's system calls, or if that is unknown. Takes one
/// system call.
pub fn has_seccomp() -> bool {
    // SAFETY: plain integers are passed.
    #[expect(unsafe_code)]
    errno::preserve(|| unsafe {
        match libc::prctl(libc::PR_GET_SECCOMP) {
            // A kernel without seccomp returns `EINVAL`, a filter another error.
            -1 => *libc::__errno_location() != libc::EINVAL,
            mode => mode != 0,
        }
    })
}

/// Returns the number of seccomp filters of this thread; `None` if unknown. Makes one system call
/// if the thread has no filters.
pub fn seccomp_filters() -> Option<u64> {
    match has_seccomp() {
        false => Some(0),
        true => seccomp_filters_in(&std::fs::read_to_string("/proc/thread-self/status").ok()?),
    }
}

/// Parses the number of seccomp filters from a thread's `status` file in `/proc`. Returns `None` if
/// the file shows that seccomp is on but not the number (before Linux 5.9). Strict mode, which
/// permits four system calls, counts as one filter.
pub fn seccomp_filters_in(status: &str) -> Option<u64> {
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse::<u64>().ok()
    };
    match number("Seccomp:") {
        // The kernel has no seccomp, or the thread no filters.
        None | Some(0) => Some(0),
        // Linux before 5.9 does not show the number.
        Some(_) => number("Seccomp_filters:").map(|filters| filters.max(1)),
    }
}

/// Registers `hook` to run in each child of the C library's `fork`, on the child's only thread.
/// Returns false on failure.
pub fn in_forked_children(hook: extern "C" fn()) -> bool {
    // SAFETY: the function exists as long as its library, and the C library drops the registration
    // when it unloads the library. The binding's type is an unsafe function; a safe function is
    // valid too.
    #[expect(unsafe_code)]
    unsafe {
        libc::pthread_atfork(None, None, Some(hook)) == 0
    }
}

/// Returns the name of this thread: up to 15 bytes, padded with NULs. Takes one system call.
pub fn thread_name() -> [u8; 16] {
    let mut name = [0u8; 16];
    // SAFETY: the kernel writes at most 16 bytes.
    #[expect(unsafe_code)]
    errno::preserve(|| unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) });
    name
}

/// Keeps the library that contains `code` loaded until the process ends, because a thread executes
/// code of the library. The program's own code always stays loaded.
pub fn keep_loaded(code: fn()) {
    // SAFETY: all zeros is a valid value of the structure. The call fills it with a name that ends
    // with a NUL and lives as long as the library, which is loaded because its code runs here.
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
            // SAFETY: the handler calls only async-signal-safe functions; the disposition is
            // restored.
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
        // A new thread, where the test harness has blocked no signals.
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
