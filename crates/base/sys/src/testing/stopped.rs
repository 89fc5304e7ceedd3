//! A thread of another process, stopped by ptrace, as an observer outside of the program sees it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A thread that is stopped until this is dropped.
#[derive(Debug)]
pub struct Stopped {
    thread: libc::pid_t,
    memory: File,
}

impl Stopped {
    /// Stops a thread of another process. Fails if the caller may not trace the process.
    pub fn new(thread: u32) -> io::Result<Stopped> {
        let memory = File::open(format!("/proc/{thread}/mem"))?;
        let thread = libc::pid_t::try_from(thread).map_err(io::Error::other)?;
        trace(libc::PTRACE_SEIZE, thread, 0, std::ptr::null_mut())?;
        let stopped = Stopped { thread, memory };
        trace(libc::PTRACE_INTERRUPT, thread, 0, std::ptr::null_mut())?;
        let mut status = 0;
        // SAFETY: the pointer refers to a live integer.
        #[expect(unsafe_code, reason = "a system call")]
        let ended = unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL) };
        match ended == thread && libc::WIFSTOPPED(status) {
            true => Ok(stopped),
            false => Err(io::Error::other(format!("not stopped: {status:#x}"))),
        }
    }

    /// Returns the thread pointer.
    #[cfg(target_arch = "x86_64")]
    pub fn thread_pointer(&self) -> io::Result<u64> {
        // SAFETY: all zeros is a valid value of the structure.
        #[expect(unsafe_code)]
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        trace(libc::PTRACE_GETREGS, self.thread, 0, (&raw mut registers).cast())?;
        Ok(registers.fs_base)
    }

    /// Returns words of the thread's memory.
    pub fn words<const WORDS: usize>(&self, address: u64) -> io::Result<[u64; WORDS]> {
        let mut words = [0; WORDS];
        for (index, word) in words.iter_mut().enumerate() {
            let mut bytes = [0; 8];
            self.memory.read_exact_at(&mut bytes, address.wrapping_add(8 * index as u64))?;
            *word = u64::from_ne_bytes(bytes);
        }
        Ok(words)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = trace(libc::PTRACE_DETACH, self.thread, 0, std::ptr::null_mut());
    }
}

fn trace(
    request: libc::c_uint,
    thread: libc::pid_t,
    address: usize,
    data: *mut libc::c_void,
) -> io::Result<()> {
    // SAFETY: the caller passes null, or a pointer to the structure that the request fills.
    #[expect(unsafe_code, reason = "a system call")]
    match unsafe { libc::ptrace(request, thread, address, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
