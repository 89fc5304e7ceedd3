//! Memory that a child process finds zeroed, by which a library notices a fork at the cost of a
//! load: also one that was a bare system call, of which the C library knows nothing.

use crate::errno;
use std::sync::atomic::AtomicU64;

/// A whole page, on processors that have several sizes the largest, so that nobody else's memory is
/// wiped with it.
#[cfg(target_arch = "x86_64")]
const SIZE: usize = 4096;
#[cfg(not(target_arch = "x86_64"))]
const SIZE: usize = 65536;

/// Words that are 0 at first, and in a child process again once they are [armed](Self::arm).
/// To be a `static`: this memory is part of the program's or library's own, and goes with it.
#[derive(Debug)]
#[cfg_attr(target_arch = "x86_64", repr(C, align(4096)))]
#[cfg_attr(not(target_arch = "x86_64"), repr(C, align(65536)))]
pub struct WipedOnFork {
    words: [AtomicU64; SIZE / 8],
}

const _: () = assert!(size_of::<WipedOnFork>() == SIZE && align_of::<WipedOnFork>() == SIZE);

impl Default for WipedOnFork {
    fn default() -> WipedOnFork {
        WipedOnFork::new()
    }
}

impl WipedOnFork {
    /// All zero.
    pub const fn new() -> WipedOnFork {
        WipedOnFork { words: [const { AtomicU64::new(0) }; SIZE / 8] }
    }

    /// The first words of it.
    #[inline(always)]
    pub const fn words<const WORDS: usize>(&self) -> &[AtomicU64; WORDS] {
        const { assert!(WORDS <= SIZE / 8) };
        match self.words.first_chunk() {
            Some(words) => words,
            None => unreachable!(),
        }
    }

    /// Has the words wiped in children from now on. False if the kernel cannot do that (before
    /// Linux 4.14): then nothing should be kept in them. May be called again at any time.
    pub fn arm(&'static self) -> bool {
        // SAFETY: this reads a value that the kernel gave to the process when it started.
        #[expect(unsafe_code, reason = "a call of the C library")]
        let page_size = unsafe { libc::getauxval(libc::AT_PAGESZ) };
        if page_size == 0 || page_size as usize > SIZE {
            return false;
        }
        let address = std::ptr::from_ref(self).cast_mut().cast::<libc::c_void>();
        // SAFETY: the memory is whole pages, is this object's alone, and is never freed. All that
        // happens to it is that a child finds zeros, a value that atomic words may have.
        #[expect(unsafe_code, reason = "a system call")]
        let result = errno::kept(|| unsafe { libc::madvise(address, SIZE, libc::MADV_WIPEONFORK) });
        result == 0
    }
}
