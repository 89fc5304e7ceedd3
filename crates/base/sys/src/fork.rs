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

/// Words of such memory.
pub type Words = [AtomicU64; SIZE / 8];

/// What may find itself to be nothing but zeros at any time.
///
/// # Safety
///
/// All zeros is a value of the type, and may come in place of any other.
#[expect(unsafe_code)]
pub unsafe trait AllZeros: Sync {}

// SAFETY: 0 is a number like any other.
#[expect(unsafe_code)]
unsafe impl AllZeros for AtomicU64 {}
// SAFETY: what holds for all items holds for the array.
#[expect(unsafe_code)]
unsafe impl<T: AllZeros, const COUNT: usize> AllZeros for [T; COUNT] {}

/// Memory that is all zeros at first, and in a child process again once it is [armed](Self::arm).
/// To be a `static`: it is part of the program's or library's own memory, and goes with it.
#[derive(Debug)]
#[cfg_attr(target_arch = "x86_64", repr(C, align(4096)))]
#[cfg_attr(not(target_arch = "x86_64"), repr(C, align(65536)))]
pub struct WipedOnFork<T = Words> {
    value: T,
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
        WipedOnFork { value: [const { AtomicU64::new(0) }; SIZE / 8] }
    }

    /// The first words of it.
    #[inline(always)]
    pub const fn words<const WORDS: usize>(&self) -> &[AtomicU64; WORDS] {
        const { assert!(WORDS <= SIZE / 8) };
        match self.value.first_chunk() {
            Some(words) => words,
            None => unreachable!(),
        }
    }
}

impl<T: AllZeros> WipedOnFork<T> {
    /// Holds a value, which is all zeros: only such memory is of a kind that can be wiped.
    pub const fn of(value: T) -> WipedOnFork<T> {
        WipedOnFork { value }
    }

    /// What it holds.
    #[inline(always)]
    pub const fn get(&self) -> &T {
        &self.value
    }

    /// Has the memory wiped in children from now on. False if the kernel cannot do that (before
    /// Linux 4.14): then nothing should be kept in it. May be called again at any time.
    pub fn arm(&'static self) -> bool {
        // SAFETY: this reads a value that the kernel gave to the process when it started.
        #[expect(unsafe_code, reason = "a call of the C library")]
        let page_size = unsafe { libc::getauxval(libc::AT_PAGESZ) };
        if page_size == 0 || page_size as usize > SIZE {
            return false;
        }
        let address = std::ptr::from_ref(self).cast_mut().cast::<libc::c_void>();
        let size = size_of::<Self>();
        // SAFETY: the memory is whole pages, is this object's alone, and is never freed. All that
        // happens to it is that a child finds zeros, which it may be.
        #[expect(unsafe_code, reason = "a system call")]
        let result = errno::kept(|| unsafe { libc::madvise(address, size, libc::MADV_WIPEONFORK) });
        result == 0
    }
}
