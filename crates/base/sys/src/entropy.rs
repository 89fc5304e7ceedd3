//! Random numbers from `getrandom` without waiting, and values that are unique to a thread and
//! moment.

use crate::errno;

/// Returns random words from `getrandom`. Returns `None` if the kernel's random pool is not
/// initialised yet, or if the system call is unknown or forbidden. Never waits.
pub fn random_words<const WORDS: usize>() -> Option<[u64; WORDS]> {
    let mut words = [0u64; WORDS];
    let size = size_of_val(&words);
    // SAFETY: the kernel writes at most `size` bytes to `words`, for which any value is valid.
    #[expect(unsafe_code, reason = "a system call")]
    let filled = errno::preserve(|| unsafe {
        libc::syscall(libc::SYS_getrandom, words.as_mut_ptr(), size, libc::GRND_NONBLOCK)
    });
    (usize::try_from(filled) == Ok(size)).then_some(words)
}

/// Returns process id, thread id, nanoseconds since 1970 and nanoseconds since boot. Together they
/// identify a thread and a moment. An unavailable time is 0.
pub fn moment_identity() -> [u64; 4] {
    // SAFETY: these calls take no pointers.
    #[expect(unsafe_code, reason = "system calls")]
    let (process, thread) =
        errno::preserve(|| unsafe { (libc::getpid(), libc::syscall(libc::SYS_gettid)) });
    [
        u64::from(process.unsigned_abs()),
        thread.unsigned_abs(),
        clock(libc::CLOCK_REALTIME),
        clock(libc::CLOCK_MONOTONIC),
    ]
}

fn clock(which: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer refers to a live structure of the right type.
    #[expect(unsafe_code, reason = "a system call")]
    errno::preserve(|| unsafe { libc::clock_gettime(which, &raw mut time) });
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::{moment_identity, random_words};

    #[test]
    fn random_words_differ() {
        let [one, two] = random_words::<2>().expect("a kernel with getrandom");
        let [three] = random_words::<1>().expect("a kernel with getrandom");
        assert!(one != two && two != three && one != three, "{one} {two} {three}");
    }

    #[test]
    fn whereabouts_are_this_thread_and_now() {
        let [process, thread, _, uptime] = moment_identity();
        assert_eq!(process, u64::from(std::process::id()));
        let elsewhere = std::thread::spawn(moment_identity).join().expect("no panic");
        assert_eq!(process, elsewhere[0]);
        assert_ne!(thread, elsewhere[1]);
        let since_1970 = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_nanos() as u64;
        assert!(since_1970.abs_diff(elsewhere[2]) < 60_000_000_000, "{since_1970} {elsewhere:?}");
        assert!(0 < uptime && uptime <= elsewhere[3], "{uptime} {elsewhere:?}");
    }
}
