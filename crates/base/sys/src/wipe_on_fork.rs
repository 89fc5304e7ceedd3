//! Memory that the kernel zeroes in child processes. By a load from such memory a library detects a
//! fork. It detects even a fork by the bare system call, which the C library does not notice.

use crate::errno;
use std::sync::atomic::AtomicU64;

/// Size of a whole page in bytes, so that no other memory is wiped. On processors with several page
/// sizes, this is the largest.
#[cfg(target_arch = "x86_64")]
const SIZE: usize = 4096;
#[cfg(not(target_arch = "x86_64"))]
const SIZE: usize = 65536;

/// Array of all words of a page.
pub type Words = [AtomicU64; SIZE / 8];

/// Type whose values may be replaced by all zeros at any time.
///
/// # Safety
///
/// All zeros must be a valid value of the type, and may replace any other value.
#[expect(unsafe_code)]
pub unsafe trait AllZeros: Sync {}

// SAFETY: 0 is a valid number.
#[expect(unsafe_code)]
unsafe impl AllZeros for AtomicU64 {}
// SAFETY: an array of zeroed items is a zeroed array.
#[expect(unsafe_code)]
unsafe impl<T: AllZeros, const COUNT: usize> AllZeros for [T; COUNT] {}

/// Memory that starts as zeros. Once it is [armed](Self::arm), the kernel zeroes it in each child
/// process that does not share its parent's memory. Meant for a `static`, which lives as long as
/// the program or library.
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
    /// Makes a page of zeros. It is not armed yet.
    pub const fn new() -> WipedOnFork {
        WipedOnFork { value: [const { AtomicU64::new(0) }; SIZE / 8] }
    }

    /// Returns the first `WORDS` words of the page.
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
    /// Wraps a value, which must be all zeros. A `static` with another initial value is not in
    /// memory that the kernel can wipe.
    pub const fn of(value: T) -> WipedOnFork<T> {
        WipedOnFork { value }
    }

    /// Returns the wrapped value. If the memory was [armed](Self::arm) before a fork, the value is
    /// all zeros in the child until the child sets it.
    #[inline(always)]
    pub const fn get(&self) -> &T {
        &self.value
    }

    /// Makes the kernel wipe the memory in child processes from now on. Returns false if the kernel
    /// cannot do that: before Linux 4.14, or if its pages are larger than the memory's alignment.
    /// The memory should then stay zero. May be called repeatedly.
    pub fn arm(&'static self) -> bool {
        // SAFETY: this reads a value that the kernel passed to the process at its start.
        #[expect(unsafe_code, reason = "a call of the C library")]
        let page_size = unsafe { libc::getauxval(libc::AT_PAGESZ) };
        if page_size == 0 || page_size as usize > SIZE {
            return false;
        }
        let address = std::ptr::from_ref(self).cast_mut().cast::<libc::c_void>();
        let size = size_of::<Self>();
        // SAFETY: the memory is whole pages, belongs to this object alone, and is never freed. Its
        // only change is to zeros in a child, which is a valid value.
        #[expect(unsafe_code, reason = "a system call")]
        let result =
            errno::preserve(|| unsafe { libc::madvise(address, size, libc::MADV_WIPEONFORK) });
        result == 0
    }
}
