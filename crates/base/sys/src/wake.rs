//! Wakes another process. While that process is awake, the waking side only loads a flag.
//!
//! A sleeper announces in shared memory that it is about to sleep, and then checks for work. A
//! producer stores work in shared memory, and then checks for a sleeper. Each side must perform its
//! two steps in order. Otherwise the sleeper may miss the work while the producer misses the
//! sleeper. Processors need a barrier between the two steps. The sleeper issues a [barrier for
//! all](barrier_for_all), which covers both sides.

use crate::errno;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// Command `MEMBARRIER_CMD_GLOBAL_EXPEDITED` of `membarrier`.
const BARRIER: libc::c_int = 1 << 1;
/// Command `MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED` of `membarrier`.
const REGISTER: libc::c_int = 1 << 2;

pub(crate) fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: plain integers are passed.
    #[expect(unsafe_code)]
    let result = errno::preserve(|| unsafe {
        libc::syscall(libc::SYS_membarrier, command, 0 as libc::c_int, 0 as libc::c_int)
    });
    result == 0
}

/// Registers this process's threads for every later [`barrier_for_all`]. Returns false if the
/// kernel refuses the command or lacks it (before Linux 4.16). The first registration may take some
/// milliseconds.
pub fn register_for_barriers() -> bool {
    membarrier(REGISTER)
}

/// Issues a full memory barrier on each CPU that runs a thread of a
/// [registered](register_for_barriers) process. Such a thread's stores before the barrier are
/// visible to the caller afterwards, in their order. The caller's earlier stores are visible to
/// such a thread's loads after the barrier. Returns false, without a barrier, if the kernel does
/// not support it.
pub fn barrier_for_all() -> bool {
    membarrier(BARRIER)
}

/// Eventfd by which this process wakes another process. Only the descriptor's number is stored,
/// since the host program may close the descriptor.
#[derive(Debug)]
pub struct Waker {
    /// Descriptor number of the eventfd; -1 without an eventfd, or once [`Waker::wake`] has failed.
    fd: AtomicI32,
    /// Device and inode of the eventfd, if any. (All anonymous-inode files share one inode, but of
    /// these only eventfds accept a write of eight bytes.)
    file: Option<(u64, u64)>,
}

impl Waker {
    /// Makes a waker for the eventfd with descriptor number `fd`, which the caller still owns.
    pub fn new(fd: i32) -> Waker {
        Waker { fd: AtomicI32::new(fd), file: file_of(fd) }
    }

    /// Makes a waker that wakes no process.
    pub const fn none() -> Waker {
        Waker { fd: AtomicI32::new(-1), file: None }
    }

    /// Wakes the other process. Signal handlers may call this function. Returns false without an
    /// eventfd, or if the host program has closed the descriptor, even if a file other than an
    /// eventfd has the number now. Later calls then have no effect.
    pub fn wake(&self) -> bool {
        let fd = self.fd.load(Relaxed);
        if fd < 0 {
            return false;
        }
        let one = 1u64;
        // SAFETY: passes a pointer to eight live bytes.
        #[expect(unsafe_code)]
        let is_woken = self.file.is_some()
            && file_of(fd) == self.file
            && errno::preserve(|| unsafe {
                // The C library's `write` is a cancellation point, and may be interposed.
                libc::syscall(libc::SYS_write, fd, &raw const one, size_of_val(&one)) == 8
                    // The counter is full, so its reader is awake or will be woken.
                    || *libc::__errno_location() == libc::EAGAIN
            });
        if !is_woken {
            self.fd.store(-1, Relaxed);
        }
        is_woken
    }
}

fn file_of(fd: i32) -> Option<(u64, u64)> {
    // SAFETY: all fields may be zero; the kernel writes only to the structure passed to it.
    #[expect(unsafe_code)]
    errno::preserve(|| unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        (libc::fstat(fd, &raw mut status) == 0).then_some((status.st_dev, status.st_ino))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Seek, Write};
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    fn eventfd() -> File {
        // SAFETY: the descriptor is new, and has no other owner.
        #[expect(unsafe_code)]
        unsafe {
            File::from(OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_NONBLOCK)))
        }
    }

    fn count(mut eventfd: &File) -> u64 {
        let mut bytes = [0; 8];
        eventfd.read_exact(&mut bytes).map_or(0, |()| u64::from_le_bytes(bytes))
    }

    #[test]
    fn who_is_woken_has_an_event() {
        let eventfd = eventfd();
        let waker = Waker::new(eventfd.as_raw_fd());
        assert!(waker.wake() && waker.wake());
        assert_eq!(count(&eventfd), 2);
        // A full counter is no failure.
        (&eventfd).write_all(&(u64::MAX - 1).to_le_bytes()).unwrap();
        assert!(waker.wake());
        assert_eq!(count(&eventfd), u64::MAX - 1);
        assert!(waker.wake());
    }

    /// The waker does not write to another file that has received its descriptor's number. Daemons
    /// cause this: they close all descriptors and then open files of their own.
    #[test]
    fn a_descriptor_that_became_another_files_is_left_alone() {
        let eventfd = eventfd();
        let waker = Waker::new(eventfd.as_raw_fd());
        let path = std::env::temp_dir().join(format!("blkkin-sys-wake-{}", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        // SAFETY: replaces a descriptor that this test owns.
        #[expect(unsafe_code)]
        unsafe {
            assert!(libc::dup2(file.as_raw_fd(), eventfd.as_raw_fd()) >= 0);
        }
        assert!(!waker.wake());
        assert_eq!(file.metadata().unwrap().len(), 0);
        assert_eq!((&file).stream_position().unwrap(), 0);
        assert!(!waker.wake());
    }

    #[test]
    fn who_is_gone_is_not_woken_and_errno_stays() {
        // SAFETY: fails, as there is no such directory.
        #[expect(unsafe_code)]
        unsafe {
            libc::chdir(c"/nowhere/at/all".as_ptr());
        }
        for waker in [Waker::none(), Waker::new(-1), Waker::new(1_000_000)] {
            assert!(!waker.wake());
            assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOENT));
        }
    }

    #[test]
    fn the_kernel_knows_barriers() {
        assert!(register_for_barriers());
        assert!(register_for_barriers());
        assert!(barrier_for_all());
    }
}
