//! Increments a counter without a locked instruction. The counter must belong to one thread, whose
//! signal handlers may interrupt an addition at any point.

use std::sync::atomic::AtomicU64;
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
use std::sync::atomic::Ordering::Relaxed;

/// Adds to `counter` and returns the counter's old value. The addition is atomic for this thread
/// and its signal handlers only. If another thread changes the counter at the same time, one of the
/// two changes may be lost, and both calls may return the same value.
#[inline(always)]
pub fn add_on_own_thread(counter: &AtomicU64, addend: u64) -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let mut value = addend;
        // SAFETY: the pointer is that of a live, aligned word that may be changed through a shared
        // reference. To other processors the instruction is a load and a store of the whole word,
        // like relaxed atomic operations. A signal is delivered before or after it, never within.
        #[expect(unsafe_code, reason = "no intrinsic adds without the lock prefix")]
        unsafe {
            std::arch::asm!(
                "xadd qword ptr [{counter}], {value}",
                counter = in(reg) counter.as_ptr(),
                value = inout(reg) value,
                options(nostack),
            );
        }
        value
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    counter.fetch_add(addend, Relaxed)
}

#[cfg(test)]
mod tests {
    use super::add_on_own_thread;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn adds_as_an_atomic_does() {
        let check = |value: u64, addend: u64, expected: u64| {
            let counter = AtomicU64::new(value);
            assert_eq!(add_on_own_thread(&counter, addend), value);
            assert_eq!(counter.into_inner(), expected);
        };
        check(0, 1, 1);
        check(41, 1, 42);
        check(u64::MAX, 1, 0);
        check(5, u64::MAX, 4);
        check(7, 0, 7);
    }
}
