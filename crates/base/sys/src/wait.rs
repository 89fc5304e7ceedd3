//! Waits for any of several descriptors, or for a duration.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Maximum number of descriptors in a call of [`wait`].
const WAITED_MAX: usize = 64;

/// Waits until a descriptor is readable, its peer has closed, or `time` has passed. For a
/// descriptor whose flag is set, the wait ends also when it is writable. A signal ends the wait
/// too. Descriptors beyond the 64th are ignored.
pub fn wait(descriptors: &[(BorrowedFd<'_>, bool)], time: Option<Duration>) -> io::Result<()> {
    let mut polled = Vec::with_capacity(descriptors.len().min(WAITED_MAX));
    for (descriptor, also_write) in descriptors.iter().take(WAITED_MAX) {
        let write = if *also_write { PollFlags::OUT } else { PollFlags::empty() };
        polled.push(PollFd::from_borrowed_fd(*descriptor, PollFlags::IN | write));
    }
    let time = time.map(|time| Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    });
    match poll(&mut polled, time.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Sleeps for this many nanoseconds, or until a signal arrives. May be called anywhere, even in
/// signal handlers: it preserves `errno`, and is no cancellation point.
pub fn sleep_ns(time_ns: u64) {
    let time = libc::timespec {
        tv_sec: (time_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (time_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the kernel reads a live structure.
    #[expect(unsafe_code)]
    crate::errno::preserve(|| unsafe {
        libc::syscall(libc::SYS_nanosleep, &raw const time, std::ptr::null_mut::<libc::timespec>());
    });
}

#[cfg(test)]
mod tests {
    use super::wait;
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    #[test]
    fn waits_until_there_is_something() {
        let (reads, mut writes) = std::io::pipe().unwrap();
        let (short, long) = (Duration::from_millis(20), Duration::from_secs(60));
        let start = Instant::now();
        wait(&[(reads.as_fd(), false)], Some(short)).unwrap();
        assert!(start.elapsed() >= short);
        wait(&[(reads.as_fd(), false), (writes.as_fd(), true)], Some(long)).unwrap();
        writes.write_all(b"x").unwrap();
        wait(&[(reads.as_fd(), false)], Some(long)).unwrap();
        wait(&[(reads.as_fd(), false)], None).unwrap();
        assert!(start.elapsed() < long);
    }
}
