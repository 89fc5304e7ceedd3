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
    fn threads_have_names() {
        let named = std::thread::Builder::new().name("of this name".to_owned());
        let name = named.spawn(thread_name).unwrap().join().unwrap();
        assert_eq!(&name, b"of this name\0\0\0\0");
    }
}
