//! Page of a program's own memory that another process can write to. The page is a `static` with a
//! sealed memfd mapped over it. Its address stays valid as long as the program or library is
//! loaded. Reading the page costs a plain load and needs no thread.

use crate::shared::{allocate, sized_and_sealed};
use rustix::fs::SealFlags;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::AtomicU64;

/// Page size of the processor in bytes; the largest one on processors with several page sizes.
#[cfg(target_arch = "x86_64")]
const SIZE: usize = 4096;
#[cfg(not(target_arch = "x86_64"))]
const SIZE: usize = 65536;

/// Size of a shared page in bytes.
pub const SHARED_PAGE_SIZE: usize = SIZE;

/// Page of zeroed words that can be [shared](Self::share) with another process. Meant for a
/// `static`.
#[derive(Debug)]
#[cfg_attr(target_arch = "x86_64", repr(C, align(4096)))]
#[cfg_attr(not(target_arch = "x86_64"), repr(C, align(65536)))]
pub struct SharedPage([AtomicU64; SIZE / 8]);

impl Default for SharedPage {
    fn default() -> SharedPage {
        SharedPage::new()
    }
}

impl SharedPage {
    /// Makes a page of zeros that is private to this process.
    pub const fn new() -> SharedPage {
        SharedPage([const { AtomicU64::new(0) }; SIZE / 8])
    }

    /// Returns the first `WORDS` words of the page.
    #[inline(always)]
    pub const fn words<const WORDS: usize>(&self) -> &[AtomicU64; WORDS] {
        const { assert!(WORDS <= SIZE / 8) };
        match self.0.first_chunk() {
            Some(words) => words,
            None => unreachable!(),
        }
    }

    /// Maps a new file of zeros over the page and returns the file. A process that opens the file
    /// and writes to it changes the page, also in children made by a later `fork`. The file cannot
    /// be resized. Its memory is allocated now; otherwise a later access could end the program if
    /// the system ran out of memory.
    pub fn share(&'static self, name: &CStr) -> io::Result<File> {
        let file = sized_and_sealed(name, SIZE, SealFlags::empty())?;
        allocate(file.as_fd(), SIZE as u64)?;
        let address = std::ptr::from_ref(self).cast_mut().cast::<libc::c_void>();
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_FIXED);
        // SAFETY: replaces whole pages, which belong to this object alone and are never freed, by
        // memory that stays readable and writable as long. All words are atomics, for which any
        // value is valid.
        #[expect(unsafe_code)]
        let mapped = unsafe { libc::mmap(address, SIZE, protection, flags, file.as_raw_fd(), 0) };
        match mapped == libc::MAP_FAILED {
            true => Err(io::Error::last_os_error()),
            false => Ok(file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SharedMemory;
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn writes_to_the_file_are_seen_in_the_page() {
        static PAGE: SharedPage = SharedPage::new();
        let [first, second] = PAGE.words();
        assert_eq!(first.load(Relaxed), 0);
        for value in 1..3u64 {
            // Each call makes another file.
            let file = PAGE.share(c"page").unwrap();
            assert_eq!(SharedMemory::allocated_size(file.as_fd()).unwrap(), SIZE as u64);
            assert_eq!(second.load(Relaxed), 0);
            first.store(value, Relaxed);
            let mut bytes = [0; 8];
            file.read_exact_at(&mut bytes, 0).unwrap();
            assert_eq!(u64::from_ne_bytes(bytes), value);
            file.write_all_at(&7u64.to_ne_bytes(), 8).unwrap();
            assert_eq!(second.load(Relaxed), 7);
            assert!(file.set_len(0).is_err() && file.set_len(1 << 20).is_err());
        }
    }
}
