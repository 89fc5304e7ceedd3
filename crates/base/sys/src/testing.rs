//! Test support for hostile conditions: forks, signals at any instruction, and failing system
//! calls. [`traced`] runs a program under strace, which makes a chosen call fail or kills the
//! program in it. Also has [random numbers](Random), temporary [directories](Scratch) and a report
//! of [skipped](skip) tests. Not for production code.
//!
//! Closures passed to [`in_child`], [`in_sharing_child`] and [`stack_used`], and the handler of
//! [`while_interrupted`], run in a child of a process with threads, or in a signal handler. If such
//! a closure allocates or locks, the test may hang or fail.

mod guest;
mod maps;
mod mounts;
mod random;
mod scratch;
mod signals;
mod stack;
mod stopped;
mod strace;

pub use guest::{GuestFiles, guest_kernel, guest_obstacle};
pub use maps::mapped_files;
pub use mounts::{Mounted, unmount};
pub use random::Random;
pub use scratch::{Scratch, is_installed, skip};
pub use signals::{Signal, signal};
pub use stack::stack_used;
pub use stopped::Stopped;
pub use strace::{
    Fault, answers_behind_syncs, deadline, env_number, figure, most_calls, own_test, points,
    run_on_two_threads, sample, traced,
};

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::SeqCst};

/// Method by which a child process is forked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// The C library's `fork`, which runs the registered fork handlers.
    Library,
    /// The bare system call, which runs no fork handlers.
    Raw,
}

/// System call that [`refuse`] can make fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `getrandom`, the source of the kernel's random numbers.
    Getrandom,
    /// `madvise`, used by [`crate::WipedOnFork::arm`] among others.
    Madvise,
    /// `fallocate`, which allocates the blocks or pages of a file.
    Fallocate,
}

/// Time in seconds after which a child of [`in_child`] is killed.
const CHILD_SECONDS_MAX: u32 = 60;

/// Runs `body` in a child process, with words of memory that both processes share. Returns the
/// values of the words at the child's end. Fails if the child does not end normally.
pub fn in_child<const WORDS: usize>(
    fork: Fork,
    body: impl FnOnce(&[AtomicU64; WORDS]),
) -> Result<[u64; WORDS], String> {
    let size = WORDS * size_of::<u64>();
    // SAFETY: a new mapping, at an address that the kernel chooses.
    #[expect(unsafe_code, reason = "a system call")]
    let memory = unsafe {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        libc::mmap(std::ptr::null_mut(), size, protection, flags | libc::MAP_ANONYMOUS, -1, 0)
    };
    if memory == libc::MAP_FAILED {
        return Err(format!("mmap: {}", std::io::Error::last_os_error()));
    }
    // SAFETY: the mapping is large enough, aligned to a page, zeroed, and lives until the end.
    #[expect(unsafe_code, reason = "memory that two processes share")]
    let words: &[AtomicU64; WORDS] = unsafe { &*memory.cast() };
    // SAFETY: the child runs `body` and ends without returning; the module's comment states what
    // `body` may do.
    #[expect(unsafe_code, reason = "system calls")]
    let child = unsafe {
        let child = match fork {
            Fork::Library => libc::fork(),
            Fork::Raw => libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as libc::pid_t,
        };
        if child == 0 {
            libc::alarm(CHILD_SECONDS_MAX);
            body(words);
            // Ends all threads of the child. After `refuse_all` or `confine`, only `exit` of this
            // thread is permitted.
            let end = if REFUSES_ALL.load(SeqCst) { libc::SYS_exit } else { libc::SYS_exit_group };
            libc::syscall(end, 0);
        }
        child
    };
    let mut status = 0;
    // SAFETY: the pointer refers to a live integer.
    #[expect(unsafe_code, reason = "a system call")]
    while child > 0 && unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 {
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return Err("the child is gone".to_owned());
        }
    }
    let found = std::array::from_fn(|index| words[index].load(SeqCst));
    // SAFETY: the words are not used after this.
    #[expect(unsafe_code, reason = "a system call")]
    unsafe {
        libc::munmap(memory, size);
    }
    match (child, status) {
        (1.., 0) => Ok(found),
        (1.., status) => Err(format!("the child ended with status {status:#x}")),
        _ => Err("cannot fork".to_owned()),
    }
}

/// Runs `body` in a child that shares memory and thread pointer with this thread, which waits for
/// the child as after `vfork`. The child has a stack of its own. Returns true if the child was made
/// and ended normally.
pub fn in_sharing_child(body: &dyn Fn()) -> bool {
    extern "C" fn run(body: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the pointer is the one passed below, and its owner waits for this function to
        // end.
        #[expect(unsafe_code, reason = "a pointer through the C library")]
        let body = unsafe { &*body.cast::<&dyn Fn()>() };
        body();
        0
    }
    const STACK_SIZE: usize = 256 << 10;
    // SAFETY: a new mapping, at an address that the kernel chooses. The child's stack starts at the
    // mapping's end, and is freed after the child has ended. `body` outlives the child.
    #[expect(unsafe_code, reason = "system calls")]
    unsafe {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
        let flags = flags | libc::MAP_ANONYMOUS;
        let stack = libc::mmap(std::ptr::null_mut(), STACK_SIZE, protection, flags, -1, 0);
        if stack == libc::MAP_FAILED {
            return false;
        }
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let argument = (&raw const body).cast_mut().cast();
        let child = libc::clone(run, stack.byte_add(STACK_SIZE), flags, argument);
        let mut status = -1;
        let has_ended = child > 0 && libc::waitpid(child, &raw mut status, 0) == child;
        libc::munmap(stack, STACK_SIZE);
        has_ended && status == 0
    }
}

/// Makes a system call fail with `ENOSYS` from now on, for the calling thread and its children.
/// Cannot be undone, so call it in a child. Returns false on failure.
pub fn refuse(call: Call) -> bool {
    let number = match call {
        Call::Getrandom => libc::SYS_getrandom,
        Call::Madvise => libc::SYS_madvise,
        Call::Fallocate => libc::SYS_fallocate,
    };
    let mut program = [
        // The number of the system call is the first field of the filter's input.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, number as u32, 1),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32, 0),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
    ];
    install(&mut program)
}

/// Makes an instruction of a seccomp filter from an operation, its value, and the number of
/// instructions to skip if a comparison fails.
fn step(code: u32, value: u32, otherwise: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: otherwise, k: value }
}

/// Installs a seccomp filter for the calling thread. Returns false on failure.
fn install(program: &mut [libc::sock_filter]) -> bool {
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the kernel copies the filter, whose length is that of the program.
    #[expect(unsafe_code, reason = "system calls")]
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
    }
}

/// Restricts the calling thread to the same system calls as [`refuse_all`]; other calls kill the
/// thread. Unlike the strict mode that [`refuse_all`] sets, this filter leaves the time-stamp
/// counter accessible. Returns false on failure.
pub fn confine() -> bool {
    let permitted = [libc::SYS_read, libc::SYS_write, libc::SYS_exit, libc::SYS_rt_sigreturn];
    let mut program = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0)];
    for call in permitted {
        program.push(step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call as u32, 1));
        program.push(step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0));
    }
    program.push(step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_KILL_THREAD, 0));
    REFUSES_ALL.store(true, SeqCst);
    install(&mut program)
}

/// Makes the kernel kill the calling thread on any system call other than read, write, exit, and
/// return from a signal handler. The restriction is permanent, so call it in a child. Returns false
/// on failure.
pub fn refuse_all() -> bool {
    REFUSES_ALL.store(true, SeqCst);
    // SAFETY: this call takes no pointer.
    #[expect(unsafe_code, reason = "a system call")]
    unsafe {
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT) == 0
    }
}

/// Set once [`refuse_all`] or [`confine`] was called in this process.
static REFUSES_ALL: AtomicBool = AtomicBool::new(false);

/// Function that the signal handler calls; null if none is set.
static HANDLER: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn handle(_: libc::c_int) {
    let handler = HANDLER.load(SeqCst);
    if !handler.is_null() {
        // SAFETY: the stored pointer was made from a function of this type.
        #[expect(unsafe_code, reason = "a function as an atomic pointer")]
        let handler = unsafe { std::mem::transmute::<*mut (), fn()>(handler) };
        handler();
    }
}

/// The two signals of [`while_interrupted`]. The handler of each can be interrupted by the other
/// signal, but no deeper.
const SIGNALS: [libc::c_int; 2] = [libc::SIGUSR1, libc::SIGUSR2];

/// Runs `body` on this thread while signals interrupt it again and again, at any instruction. The
/// handler of each signal calls `handler`, and may itself be interrupted by the other signal. Only
/// one such test may run at a time.
pub fn while_interrupted(handler: fn(), body: impl FnOnce()) -> Result<(), String> {
    HANDLER.store(handler as *mut (), SeqCst);
    // SAFETY: all fields of the structure may be zero; the handler is a function of the right type.
    #[expect(unsafe_code, reason = "a system call")]
    let installed = SIGNALS.iter().all(|signal| unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(*signal, &raw const action, std::ptr::null_mut()) == 0
    });
    if !installed {
        return Err(format!("sigaction: {}", std::io::Error::last_os_error()));
    }
    // SAFETY: these calls take no pointers.
    #[expect(unsafe_code, reason = "system calls")]
    let (process, thread) = unsafe { (libc::getpid(), libc::syscall(libc::SYS_gettid)) };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for signal in SIGNALS.iter().cycle() {
                if done.load(SeqCst) {
                    break;
                }
                // SAFETY: this call takes no pointers; the thread lives until `done` is set.
                #[expect(unsafe_code, reason = "a system call")]
                unsafe {
                    libc::syscall(libc::SYS_tgkill, process, thread, *signal);
                }
                // Pauses, because otherwise the thread would run only the handler.
                for _ in 0..100 {
                    std::hint::spin_loop();
                }
            }
        });
        // Guard that sets the flag, also if `body` panics.
        let _done = SetOnDrop(&done);
        body();
    });
    Ok(())
}

/// Guard that sets a flag when it is dropped.
struct SetOnDrop<'d>(&'d AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Makes a system call with invalid arguments. Returns its error number; 0 if the call succeeded.
pub fn error_of(call: i64) -> i32 {
    let nonsense = -1 as libc::c_long;
    // SAFETY: the addresses, descriptors and flags are invalid, which the kernel checks.
    #[expect(unsafe_code, reason = "a system call")]
    let result =
        unsafe { libc::syscall(call, nonsense, nonsense, nonsense, nonsense, nonsense, nonsense) };
    match result {
        -1 => std::io::Error::last_os_error().raw_os_error().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WipedOnFork;
    use std::sync::atomic::Ordering::Relaxed;

    /// An armed page is wiped in a child process, whatever the method of forking. Pages that are
    /// not armed, and pages of the parent process, keep their values.
    #[test]
    fn words_are_wiped_in_children() {
        static ARMED: WipedOnFork = WipedOnFork::new();
        static PLAIN: WipedOnFork = WipedOnFork::new();
        assert!(ARMED.arm(), "a kernel with MADV_WIPEONFORK");
        let [armed] = ARMED.words();
        let [plain] = PLAIN.words();
        armed.store(7, Relaxed);
        plain.store(8, Relaxed);
        for fork in [Fork::Library, Fork::Raw] {
            let found = in_child(fork, |[one, two, three, grandchild]| {
                one.store(armed.load(Relaxed) + 1, Relaxed);
                two.store(plain.load(Relaxed) + 1, Relaxed);
                // The child's children get zeros too.
                armed.store(9, Relaxed);
                let found = in_child(fork, |[found]| found.store(armed.load(Relaxed) + 1, Relaxed));
                grandchild.store(found.map_or(99, |[found]| found), Relaxed);
                three.store(armed.load(Relaxed), Relaxed);
            });
            assert_eq!(found, Ok([1, 9, 9, 1]), "{fork:?}");
            assert_eq!(armed.load(Relaxed), 7);
        }
    }

    #[test]
    fn calls_are_refused() {
        let found = in_child(Fork::Raw, |[random, armed]: &[AtomicU64; 2]| {
            static PAGE: WipedOnFork = WipedOnFork::new();
            let refused = refuse(Call::Getrandom) && refuse(Call::Madvise);
            random.store(u64::from(refused && crate::random_words::<1>().is_none()), Relaxed);
            armed.store(u64::from(refused && !PAGE.arm()), Relaxed);
        });
        assert_eq!(found, Ok([1, 1]));
        let killed = in_child(Fork::Raw, |_: &[AtomicU64; 1]| {
            refuse_all();
            crate::random_words::<1>();
        });
        assert!(killed.is_err(), "{killed:?}");
    }

    /// [`random_words`](crate::random_words) leaves `errno` unchanged even if its system call
    /// fails: the host program may be about to check `errno`.
    #[test]
    fn errno_is_kept() {
        let found = in_child(Fork::Raw, |[found]| {
            refuse(Call::Getrandom);
            // SAFETY: this fails: there is no such file descriptor.
            #[expect(unsafe_code)]
            unsafe {
                libc::close(-1);
            }
            let failed = crate::random_words::<1>().is_none();
            let errno = std::io::Error::last_os_error().raw_os_error();
            found.store(u64::from(failed && errno == Some(libc::EBADF)), Relaxed);
        });
        assert_eq!(found, Ok([1]));
    }
}
