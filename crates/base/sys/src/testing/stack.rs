//! Measures how much stack a function needs. The function runs on an alternate signal stack that
//! was filled with a known value before.

use std::cell::UnsafeCell;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::SeqCst};

const PAINT: u8 = 0xa5;
/// Size of the inaccessible memory below the stack, in bytes.
const GUARD: usize = 64 << 10;

static BODY: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
static ENTRY: AtomicUsize = AtomicUsize::new(0);

extern "C" fn handle(_: libc::c_int) {
    let here = UnsafeCell::new(0u8);
    ENTRY.store(here.get().addr(), SeqCst);
    // SAFETY: the stored pointer was made from a function of this type.
    #[expect(unsafe_code, reason = "a function as an atomic pointer")]
    let body = unsafe { std::mem::transmute::<*mut (), fn()>(BODY.load(SeqCst)) };
    body();
}

/// Runs `body` in a signal handler of this thread, on an alternate stack of `size` bytes. Returns
/// the number of bytes of stack that `body` has used. Only one call may run at a time. A body that
/// needs more than `size` bytes ends the process with SIGSEGV.
pub fn stack_used(size: usize, body: fn()) -> io::Result<usize> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping. Its lower part is made inaccessible; its upper part is painted, and is
    // the alternate stack until that is disabled. All structures may be zero.
    #[expect(unsafe_code, reason = "system calls, and memory of their own")]
    unsafe {
        let memory = libc::mmap(ptr::null_mut(), GUARD + size, protection, flags, -1, 0);
        if memory == libc::MAP_FAILED || libc::mprotect(memory, GUARD, libc::PROT_NONE) != 0 {
            return Err(io::Error::last_os_error());
        }
        let bottom = memory.cast::<u8>().add(GUARD);
        bottom.write_bytes(PAINT, size);
        let stack = libc::stack_t { ss_sp: bottom.cast(), ss_flags: 0, ss_size: size };
        let mut before: libc::stack_t = std::mem::zeroed();
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut action_before: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_ONSTACK;
        BODY.store(body as *mut (), SeqCst);
        let is_set = libc::sigaltstack(&raw const stack, &raw mut before) == 0
            && libc::sigaction(libc::SIGUSR1, &raw const action, &raw mut action_before) == 0;
        if !is_set {
            return Err(io::Error::last_os_error());
        }
        libc::raise(libc::SIGUSR1);
        libc::sigaction(libc::SIGUSR1, &raw const action_before, ptr::null_mut());
        libc::sigaltstack(&raw const before, ptr::null_mut());
        let painted = (0..size).take_while(|at| bottom.add(*at).read() == PAINT).count();
        let used = ENTRY.load(SeqCst).saturating_sub(bottom.addr() + painted);
        libc::munmap(memory, GUARD + size);
        Ok(used)
    }
}

#[cfg(test)]
mod tests {
    use super::stack_used;

    #[test]
    fn use_is_measured() {
        #[inline(never)]
        fn small() {
            std::hint::black_box([1u8; 64]);
        }
        #[inline(never)]
        fn large() {
            std::hint::black_box([1u8; 10_000]);
        }
        let (small, large) = (stack_used(65536, small).unwrap(), stack_used(65536, large).unwrap());
        assert!((10_000..20_000).contains(&large), "{large}");
        assert!(small < 2000, "{small}");
    }
}
