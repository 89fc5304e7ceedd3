//! Clocks that are cheap to read: two of the system's, and the processor's time-stamp counter.

#[cfg(target_arch = "x86_64")]
use crate::errno;

/// Returns the present time of `CLOCK_MONOTONIC` in nanoseconds.
#[inline]
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes only to the `timespec` passed to it.
    #[expect(unsafe_code)]
    unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time);
    }
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the present time of `CLOCK_BOOTTIME` in nanoseconds. Unlike `CLOCK_MONOTONIC`, this
/// clock runs while the machine is suspended.
pub fn boottime_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes only to the `timespec` passed to it.
    #[expect(unsafe_code)]
    unsafe {
        libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time);
    }
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the identity of this boot, a UUID as text: the clocks of two processes have the same
/// zero if they have read the same identity. Returns `None` if the system does not tell.
pub fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim_end().to_owned())
}

/// Reads the processor's time-stamp counter (`rdtsc`). Returns 0 on other processors than x86-64.
#[inline(always)]
pub fn tsc() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has the instruction. (A thread may disable it for itself,
        // by `PR_SET_TSC`; callers have checked `tsc_is_steady`.)
        #[expect(unsafe_code)]
        unsafe {
            std::arch::x86_64::_rdtsc()
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// Reads the time-stamp counter after all earlier loads have completed. A time from [`tsc`] may
/// precede an event of another processor that this thread has already observed.
#[inline]
pub fn tsc_after_loads() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code)]
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
    tsc()
}

/// Returns true if the time-stamp counter runs at a constant rate in all power states, and this
/// thread may read the counter. Without an answer of the kernel, assumes that the thread may.
pub fn tsc_is_steady() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let mut mode: i32 = 0;
        // SAFETY: the call writes only to the integer passed to it.
        #[expect(unsafe_code)]
        let result = errno::preserve(|| unsafe { libc::prctl(libc::PR_GET_TSC, &mut mode) });
        let may_read = result != 0 || mode == libc::PR_TSC_ENABLE;
        let leaf = 0x8000_0007;
        let is_steady = std::arch::x86_64::__cpuid(0x8000_0000).eax >= leaf
            && std::arch::x86_64::__cpuid(leaf).edx & 1 << 8 != 0;
        may_read && is_steady
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on() {
        let (first, first_ns) = (tsc(), monotonic_ns());
        let (second, second_ns) = (tsc(), monotonic_ns());
        assert!(second >= first || !tsc_is_steady());
        assert!(second_ns >= first_ns && first_ns > 0);
        assert!(boottime_ns() >= second_ns);
    }
}
