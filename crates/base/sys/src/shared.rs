//! Memory that two processes share through a sealed file. No access by its creator ends with a
//! signal, whatever the other process does. The creator reads only pages that exist. The other
//! process can remove none: it can neither shrink the file nor, once the file is
//! [sealed](SharedMemory::seal), punch holes into it. [`SharedMemory::create_sparse`] does not give
//! this guarantee.
//!
//! # Pages allocated on first write
//!
//! [`SharedMemory::create`] allocates all pages. [`SharedMemory::create_lazy`] allocates the first
//! pages, and the kernel allocates each other page on its first write. The allocation can fail for
//! these causes:
//!
//! | Cause | The kernel's reaction to the fault (`shmem_fault`) |
//! |---|---|
//! | outside of the file | SIGBUS. The file is sealed against shrinking. |
//! | its file system is full | SIGBUS. The kernel's own mount, which memfds are on, has no limit of size. |
//! | strict accounting of memory (`vm.overcommit_memory` is 2) | SIGBUS: each page is accounted on its first write. All pages are allocated in advance then. |
//! | the limit of the writer's cgroup | The OOM killer of the cgroup, as for any other page of the program. It counts as the program's memory. |
//! | no memory at all | The OOM killer, as above. |
//! | a bad page, or one that cannot be read from swap | SIGBUS, as for any page. |
//!
//! So a writer receives no signal that it would not receive for its own memory. A reader calls
//! [`SharedMemory::is_allocated`] first: reading a hole would allocate it, on the reader's account.
//!
//! The other process may write any byte at any time. So the only references into the memory are to
//! atomics. All other bytes are copied out before they are examined, or written to a file
//! unexamined.

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// Smallest page size of all supported processors in bytes. Holes in a shared file start and end at
/// multiples of this size.
pub const PAGE_SIZE: usize = 4096;

/// Mapping of shared memory, unmapped on drop.
#[derive(Debug)]
pub struct SharedMemory {
    start: NonNull<u8>,
    size: usize,
}

// SAFETY: the value owns the mapping, which does not belong to a thread.
#[expect(unsafe_code)]
unsafe impl Send for SharedMemory {}
// SAFETY: all access is through atomics or by copies that allow for concurrent writes.
#[expect(unsafe_code)]
unsafe impl Sync for SharedMemory {}

/// Seals that fix the size of a shared file. Seals are never removed.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

impl SharedMemory {
    /// Creates `size` bytes of zeros in a file that can be passed to another process. `/proc` shows
    /// `name` for the file. Allocates all memory now, and fails if there is not enough.
    pub fn create(name: &CStr, size: usize) -> io::Result<(File, SharedMemory)> {
        let file = SharedMemory::sized(name, size)?;
        allocate(file.as_fd(), size as u64)?;
        SharedMemory::create_in(file)
    }

    /// Creates memory like [`create`](Self::create), but allocates only the first `fixed` bytes
    /// now. Each further page is allocated on its first write. If the kernel accounts memory
    /// strictly, allocates all bytes now.
    pub fn create_lazy(name: &CStr, size: usize, fixed: usize) -> io::Result<(File, SharedMemory)> {
        let file = SharedMemory::sized(name, size)?;
        allocate(file.as_fd(), allocated_at_least(size, fixed))?;
        SharedMemory::create_in(file)
    }

    /// Creates memory like [`create`](Self::create), but allocates nothing in advance. Meant for
    /// memory that is mostly unused: if the system runs out of memory, an access ends the process.
    pub fn create_sparse(name: &CStr, size: usize) -> io::Result<(File, SharedMemory)> {
        SharedMemory::create_in(SharedMemory::sized(name, size)?)
    }

    fn create_in(file: File) -> io::Result<(File, SharedMemory)> {
        seal(file.as_fd(), SEALS)?;
        let memory = SharedMemory::map(file.as_fd())?;
        Ok((file, memory))
    }

    fn sized(name: &CStr, size: usize) -> io::Result<File> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(rustix::fs::memfd_create(name, flags)?);
        check_file_size_limit(size as u64)?;
        file.set_len(size as u64)?;
        Ok(file)
    }

    /// Maps a shared file that another process has created. Fails unless the file is sealed against
    /// resizing.
    pub fn map(file: BorrowedFd<'_>) -> io::Result<SharedMemory> {
        SharedMemory::map_for(file, libc::PROT_READ | libc::PROT_WRITE)
    }

    /// Maps a shared file that another process has created, for reading only. Fails unless the file
    /// is sealed against resizing. A write to the mapping ends with a signal.
    pub fn map_to_read(file: BorrowedFd<'_>) -> io::Result<SharedMemory> {
        SharedMemory::map_for(file, libc::PROT_READ)
    }

    fn map_for(file: BorrowedFd<'_>, protection: i32) -> io::Result<SharedMemory> {
        let size = usize::try_from(sealed_size(file)?).ok().filter(|size| *size > 0);
        let size = size.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        #[expect(unsafe_code)]
        let start = unsafe {
            let flags = libc::MAP_SHARED;
            libc::mmap(std::ptr::null_mut(), size, protection, flags, file.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidData)?;
        let memory = SharedMemory { start, size };
        // Without huge pages a written byte costs one page instead of two megabytes.
        memory.advise(0..size, libc::MADV_NOHUGEPAGE);
        Ok(memory)
    }

    /// Maps a part of an object of the kernel, which no process can resize or punch holes into.
    pub(crate) fn map_part(
        object: BorrowedFd<'_>,
        part: Range<usize>,
        is_writable: bool,
    ) -> io::Result<SharedMemory> {
        let size = part.len();
        let offset = libc::off_t::try_from(part.start).map_err(|_| io::ErrorKind::InvalidInput)?;
        let protection = libc::PROT_READ | if is_writable { libc::PROT_WRITE } else { 0 };
        // SAFETY: a new mapping, at an address that the kernel chooses.
        #[expect(unsafe_code)]
        let start = unsafe {
            let flags = libc::MAP_SHARED;
            libc::mmap(std::ptr::null_mut(), size, protection, flags, object.as_raw_fd(), offset)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(SharedMemory { start, size })
    }

    /// Excludes a byte range from core dumps. A dump would make the kernel allocate the range's
    /// holes.
    pub fn keep_from_dumps(&self, range: Range<usize>) {
        self.advise(range, libc::MADV_DONTDUMP);
    }

    /// Passes advice about a byte range to the kernel. Returns false if the range is invalid or the
    /// kernel does not support the advice.
    fn advise(&self, range: Range<usize>, advice: i32) -> bool {
        if range.start >= range.end || range.end > self.size {
            return false;
        }
        // SAFETY: the range is within the mapping, which this value owns; no advice used in this
        // module changes the contents.
        #[expect(unsafe_code)]
        unsafe {
            let start = self.start.as_ptr().add(range.start).cast();
            libc::madvise(start, range.end - range.start, advice) == 0
        }
    }

    /// Excludes the memory from child processes. A child must not use its copy of this object,
    /// since the mapping does not exist there. Returns false if the kernel refuses.
    pub fn keep_from_children(&self) -> bool {
        self.advise(0..self.size, libc::MADV_DONTFORK)
    }

    /// Seals `file`, which must be the file of this memory, against new writable mappings, against
    /// punching holes, and against further seals. Fills holes in the first `fixed` bytes, or in all
    /// bytes if the kernel accounts memory strictly. The file's creator calls this after the other
    /// writer has mapped the file, and before the creator reads any byte. After an error, as with
    /// kernels before Linux 5.1, reads may raise a signal.
    pub fn seal(&self, file: BorrowedFd<'_>, fixed: usize) -> io::Result<()> {
        seal(file, SealFlags::FUTURE_WRITE)?;
        // Fills holes that were punched before the seal.
        allocate(file, allocated_at_least(self.size, fixed))?;
        seal(file, SealFlags::SEAL)
    }

    /// Returns true if a byte range of `file` has no holes. An allocated page counts as a hole
    /// until it is written. The range stays allocated if the file is [sealed](Self::seal).
    pub fn is_allocated(file: BorrowedFd<'_>, range: Range<usize>) -> bool {
        let hole = rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(range.start as u64));
        range.is_empty() || hole.is_ok_and(|hole| hole >= range.end as u64)
    }

    /// Returns the amount of memory that the kernel has allocated for `file`, in bytes.
    pub fn allocated_size(file: BorrowedFd<'_>) -> io::Result<u64> {
        Ok(rustix::fs::fstat(file)?.st_blocks.cast_unsigned().saturating_mul(512))
    }

    /// Returns the size of the mapping in bytes. It never changes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the start address, for accesses that no method offers. Such code must stay within
    /// [`SharedMemory::size`], and must not make references into the memory.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the word at byte `offset`, which must be a multiple of 8.
    ///
    /// # Panics
    ///
    /// If the word is not within the memory, or not aligned.
    #[inline]
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset < self.size && self.size - offset >= 8);
        // SAFETY: within the mapping, which is aligned to a page and lives as long as `self`; other
        // processes may write to an atomic at any time.
        #[expect(unsafe_code)]
        unsafe {
            AtomicU64::from_ptr(self.start.as_ptr().add(offset).cast())
        }
    }

    /// Copies bytes out of the memory. Other processes may be writing these bytes.
    ///
    /// # Panics
    ///
    /// If the range is not within the memory.
    pub fn copy_out(&self, offset: usize, into: &mut [u8]) {
        assert!(offset <= self.size && self.size - offset >= into.len());
        // SAFETY: source and destination have that many bytes, and they do not overlap, since no
        // references into the mapping exist.
        #[expect(unsafe_code)]
        unsafe {
            let shared = self.start.as_ptr().add(offset);
            copy_racing(Direction::Out, shared, into.as_mut_ptr(), into.len());
        }
    }

    /// Appends the bytes of the range `place` to `to`. Other processes may be writing these bytes.
    ///
    /// # Panics
    ///
    /// If the range is not within the memory.
    pub fn append_to(&self, place: Range<usize>, to: &mut Vec<u8>) {
        self.check(&place);
        to.reserve(place.len());
        // SAFETY: as for `copy_out`; `to` has room for that many more bytes, and all of them are
        // written.
        #[expect(unsafe_code)]
        unsafe {
            let shared = self.start.as_ptr().add(place.start);
            copy_racing(Direction::Out, shared, to.as_mut_ptr().add(to.len()), place.len());
            to.set_len(to.len() + place.len());
        }
    }

    /// Writes pieces to a file, one after the other, starting at `offset`. Shared pieces are not
    /// copied first: if another process writes to them meanwhile, the file gets a mix of old and
    /// new bytes. After an error, some of the bytes may have been written.
    ///
    /// # Panics
    ///
    /// If a piece is not within the memory.
    pub fn write_to<'p>(
        &self,
        file: BorrowedFd<'_>,
        mut offset: u64,
        pieces: impl Iterator<Item = Piece<'p>>,
    ) -> io::Result<()> {
        let vectors = pieces.map(|piece| match piece {
            Piece::Own(bytes) => iovec(bytes.as_ptr(), bytes.len()),
            Piece::Shared(place) => {
                self.check(&place);
                // SAFETY: within the mapping.
                #[expect(unsafe_code)]
                let start = unsafe { self.start.as_ptr().add(place.start) };
                iovec(start, place.len())
            }
        });
        let mut vectors: Vec<libc::iovec> = vectors.collect();
        let mut left = &mut vectors[..];
        while let [first, ..] = &mut *left {
            if first.iov_len == 0 {
                left = &mut left[1..];
                continue;
            }
            let at = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
            let count = left.len().min(VECTORS_MAX) as libc::c_int;
            // SAFETY: the vectors are borrowed for `'p`, or within the mapping. The kernel only
            // reads from them, so concurrent writes do not matter, and there are `count` of them.
            #[expect(unsafe_code)]
            let written = unsafe { libc::pwritev(file.as_raw_fd(), left.as_ptr(), count, at) };
            let mut written = match usize::try_from(written) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => written,
                Err(_) => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => continue,
                    error => return Err(error),
                },
            };
            offset += written as u64;
            while let [first, ..] = &mut *left
                && written > 0
            {
                let done = written.min(first.iov_len);
                first.iov_base = first.iov_base.wrapping_byte_add(done);
                first.iov_len -= done;
                written -= done;
                if first.iov_len == 0 {
                    left = &mut left[1..];
                }
            }
        }
        Ok(())
    }

    fn check(&self, place: &Range<usize>) {
        assert!(place.start <= place.end && place.end <= self.size);
    }

    /// Copies bytes into the memory. Other processes may be reading these bytes.
    ///
    /// # Panics
    ///
    /// If the range is not within the memory.
    pub fn copy_in(&self, offset: usize, from: &[u8]) {
        assert!(offset <= self.size && self.size - offset >= from.len());
        // SAFETY: as for `copy_out`.
        #[expect(unsafe_code)]
        unsafe {
            let shared = self.start.as_ptr().add(offset);
            copy_racing(Direction::In, shared, from.as_ptr().cast_mut(), from.len());
        }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and no reference outlives `self`.
        #[expect(unsafe_code)]
        unsafe {
            libc::munmap(self.start.as_ptr().cast(), self.size);
        }
    }
}

/// Piece of the bytes that [`SharedMemory::write_to`] writes to a file.
#[derive(Clone, Debug)]
pub enum Piece<'p> {
    /// Bytes in the private memory of this process.
    Own(&'p [u8]),
    /// Byte range of the shared memory.
    Shared(Range<usize>),
}

/// Maximum number of pieces in one write, which is the kernel's limit (`IOV_MAX`).
const VECTORS_MAX: usize = 1024;

fn iovec(start: *const u8, size: usize) -> libc::iovec {
    libc::iovec { iov_base: start.cast_mut().cast(), iov_len: size }
}

/// Direction of a copy between shared and private memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Out,
    In,
}

/// Copies bytes between shared and private memory. Other processes may access the shared bytes at
/// the same time. Uses assembly, for which such a race is defined.
///
/// # Safety
///
/// Both ranges have `size` mapped bytes, and they do not overlap. The source is readable, the
/// destination writable.
#[cfg(all(target_arch = "x86_64", not(thread_sanitizer)))]
#[expect(unsafe_code)]
unsafe fn copy_racing(direction: Direction, shared: *mut u8, own: *mut u8, size: usize) {
    let (from, into) = if direction == Direction::Out { (shared, own) } else { (own, shared) };
    // SAFETY: by the caller's promise; the direction flag is clear, as the ABI requires.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") size => _,
            inout("rsi") from => _,
            inout("rdi") into => _,
            options(nostack, preserves_flags),
        );
    }
}

#[cfg(all(not(target_arch = "x86_64"), not(thread_sanitizer)))]
use copy_by_words as copy_racing;

/// Copies without assembly, for builds with the thread sanitizer. The sanitizer checks whether
/// accesses to atomic words order the copies. It does not see assembly, and does not report races
/// between atomics.
///
/// # Safety
///
/// As for the version in assembly. In addition, no thread may write to the shared bytes meanwhile,
/// or read them if this copy writes them; the sanitizer reports such accesses.
#[cfg(thread_sanitizer)]
#[expect(unsafe_code)]
unsafe fn copy_racing(direction: Direction, shared: *mut u8, own: *mut u8, size: usize) {
    let (from, into) = if direction == Direction::Out { (shared, own) } else { (own, shared) };
    // SAFETY: by the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, into, size) }
}

/// Copies like the version in assembly, but by atomic words. Unaligned ends are copied by smaller
/// atomics.
///
/// # Safety
///
/// As for the version in assembly.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[expect(unsafe_code)]
unsafe fn copy_by_words(direction: Direction, shared: *mut u8, own: *mut u8, size: usize) {
    use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering::Relaxed};
    let mut at = 0;
    macro_rules! copy {
        ($atomic:ty, $word:ty) => {{
            // SAFETY: by the caller's promise, within both ranges; the shared address is aligned.
            unsafe {
                let shared = <$atomic>::from_ptr(shared.add(at).cast());
                let own = own.add(at).cast::<$word>();
                match direction {
                    Direction::Out => own.write_unaligned(shared.load(Relaxed)),
                    Direction::In => shared.store(own.read_unaligned(), Relaxed),
                }
            }
            at += size_of::<$word>();
        }};
    }
    while at < size {
        // The largest size that the shared address is aligned to, and that remains.
        let alignment = (shared.addr() + at).trailing_zeros();
        match alignment.min((size - at).ilog2()) {
            0 => copy!(AtomicU8, u8),
            1 => copy!(AtomicU16, u16),
            2 => copy!(AtomicU32, u32),
            _ => copy!(AtomicU64, u64),
        }
    }
}

/// Creates a file of `size` zero bytes that cannot be resized, and adds `seals` to it.
pub(crate) fn sized_and_sealed(name: &CStr, size: usize, seals: SealFlags) -> io::Result<File> {
    let file = SharedMemory::sized(name, size)?;
    seal(file.as_fd(), SEALS | seals)?;
    Ok(file)
}

/// Fails if a file of this size would exceed `RLIMIT_FSIZE`. The limit applies to memory files too:
/// the kernel would send `SIGXFSZ`, which ends the program.
pub(crate) fn check_file_size_limit(size: u64) -> io::Result<()> {
    // SAFETY: the kernel writes only to the structure passed to it.
    #[expect(unsafe_code)]
    let limit = unsafe {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        match libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) {
            0 => limit.rlim_cur,
            _ => libc::RLIM_INFINITY,
        }
    };
    if limit == libc::RLIM_INFINITY || size <= limit {
        return Ok(());
    }
    let why = format!("RLIMIT_FSIZE (ulimit -f) is {limit} bytes, and {size} are needed");
    Err(io::Error::new(io::ErrorKind::FileTooLarge, why))
}

/// Returns the size in bytes of a shared file that another process has created. Fails unless the
/// file is sealed against resizing. Reads of such a file never wait for another process.
pub fn sealed_size(file: BorrowedFd<'_>) -> io::Result<u64> {
    if !rustix::fs::fcntl_get_seals(file)?.contains(SEALS) {
        let why = "shared memory is not sealed, so that its size could change";
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(rustix::fs::fstat(file)?.st_size.cast_unsigned())
}

/// Seals a shared file against new writable mappings and against punching holes, unless the file
/// has that seal already. Fills holes that the file's creator may have left in the first `fixed`
/// bytes, or in all bytes if the kernel accounts memory strictly. Fails if the file has more than
/// `size_max` bytes, or is not sealed against resizing.
pub fn seal_shared(file: BorrowedFd<'_>, size_max: usize, fixed: usize) -> io::Result<()> {
    let size = usize::try_from(sealed_size(file)?).unwrap_or(usize::MAX);
    if size > size_max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    if !rustix::fs::fcntl_get_seals(file)?.contains(SealFlags::FUTURE_WRITE) {
        seal(file, SealFlags::FUTURE_WRITE)?;
    }
    allocate(file, allocated_at_least(size, fixed))
}

/// Returns true if the kernel limits the committed memory (`vm.overcommit_memory` is 2), so that
/// the first write to a page of a shared file may fail. Returns true also if the accounting mode
/// cannot be determined.
pub fn is_accounting_strict() -> bool {
    let mode = std::fs::read_to_string("/proc/sys/vm/overcommit_memory");
    !mode.is_ok_and(|mode| matches!(mode.trim(), "0" | "1"))
}

/// Returns how many bytes of a file must be allocated before the first write.
fn allocated_at_least(size: usize, fixed: usize) -> u64 {
    if is_accounting_strict() { size as u64 } else { fixed.min(size) as u64 }
}

/// Allocates the first `size` bytes of a file.
pub(crate) fn allocate(file: BorrowedFd<'_>, size: u64) -> io::Result<()> {
    let all = || rustix::fs::fallocate(file, FallocateFlags::empty(), 0, size);
    Ok(rustix::io::retry_on_intr(all)?)
}

fn seal(file: BorrowedFd<'_>, seals: SealFlags) -> io::Result<()> {
    Ok(rustix::fs::fcntl_add_seals(file, seals)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn two_mappings_see_the_same() {
        let (file, ours) = SharedMemory::create(c"test", 8192).unwrap();
        let theirs = SharedMemory::map(file.as_fd()).unwrap();
        ours.copy_in(5000, b"hello");
        let mut found = [0; 5];
        theirs.copy_out(5000, &mut found);
        assert_eq!(&found, b"hello");
        theirs.word(8184).store(u64::MAX, Relaxed);
        assert_eq!(ours.word(8184).load(Relaxed), u64::MAX);
        let mut nothing = [];
        ours.copy_out(8192, &mut nothing);
    }

    /// Both copy functions copy exactly the requested bytes for every alignment of source and
    /// destination.
    #[test]
    fn copies_are_exact() {
        let bytes: Vec<u8> = (0..64).collect();
        for (shared_at, own_at, size) in (0..8)
            .flat_map(|one| (0..8).flat_map(move |two| (0..40).map(move |size| (one, two, size))))
        {
            for (copy, what) in [
                (copy_racing as unsafe fn(Direction, *mut u8, *mut u8, usize), "racing"),
                (copy_by_words, "by words"),
            ] {
                for way in [Direction::Out, Direction::In] {
                    let mut shared: Vec<u64> = vec![0; 8];
                    let mut own = [0u8; 64];
                    let shared: *mut u8 = shared.as_mut_ptr().cast();
                    // SAFETY: both ranges have 64 bytes, of which at most 47 are used.
                    #[expect(unsafe_code)]
                    let found = unsafe {
                        match way {
                            Direction::Out => shared.copy_from(bytes.as_ptr(), 64),
                            Direction::In => own.copy_from_slice(&bytes),
                        }
                        copy(way, shared.add(shared_at), own.as_mut_ptr().add(own_at), size);
                        match way {
                            Direction::Out => own.to_vec(),
                            Direction::In => std::slice::from_raw_parts(shared, 64).to_vec(),
                        }
                    };
                    let (from, into) = match way {
                        Direction::Out => (shared_at, own_at),
                        Direction::In => (own_at, shared_at),
                    };
                    let mut expected = vec![0; 64];
                    expected[into..into + size].copy_from_slice(&bytes[from..from + size]);
                    assert_eq!(found, expected, "{what} {way:?} {shared_at} {own_at} {size}");
                }
            }
        }
    }

    #[test]
    fn pieces_are_written_in_order() {
        use std::os::unix::fs::FileExt;
        let (_file, memory) = SharedMemory::create(c"test", 8192).unwrap();
        let shared: Vec<u8> = (0..8192).map(|at| (at % 251) as u8).collect();
        memory.copy_in(0, &shared);
        let file = SharedMemory::sized(c"file", 0).unwrap();
        // More pieces than one write may have, some of them empty.
        let places = (0..3000).map(|at| at..at + at % 7);
        let pieces = places.clone().flat_map(|place| [Piece::Own(b"|"), Piece::Shared(place)]);
        memory.write_to(file.as_fd(), 5, pieces).unwrap();
        let mut expected = vec![0; 5];
        let mut appended = Vec::new();
        for place in places {
            expected.push(b'|');
            expected.extend_from_slice(&shared[place.clone()]);
            appended.push(b'|');
            memory.append_to(place, &mut appended);
        }
        let mut found = vec![1; expected.len()];
        file.read_exact_at(&mut found, 0).unwrap();
        assert_eq!(file.metadata().unwrap().len(), expected.len() as u64);
        assert!(found == expected && found[5..] == appended);
        let outside = || memory.write_to(file.as_fd(), 0, [Piece::Shared(8000..8193)].into_iter());
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(outside)).is_err());
        // A file that accepts no bytes.
        let full = File::options().write(true).open("/dev/full").unwrap();
        let refused = memory.write_to(full.as_fd(), 0, [Piece::Own(b"x")].into_iter());
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn its_size_cannot_change() {
        let (file, memory) = SharedMemory::create(c"test", 4096).unwrap();
        assert!(file.set_len(0).is_err());
        assert!(file.set_len(8192).is_err());
        assert_eq!(memory.size(), 4096);
    }

    /// Tries to punch out the second page twice: through the file and through the mapping. Returns
    /// true for each attempt that succeeds.
    fn punch(file: &File, memory: &SharedMemory) -> [bool; 2] {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: the page is within the mapping, and no reference into it exists.
        #[expect(unsafe_code)]
        unsafe {
            let page = memory.start().as_ptr().add(4096).cast();
            [
                libc::fallocate(file.as_raw_fd(), mode, 4096, 4096) == 0,
                libc::madvise(page, 4096, libc::MADV_REMOVE) == 0,
            ]
        }
    }

    /// All pages are allocated when the memory is created. After the seal a writer cannot remove
    /// them.
    #[test]
    fn pages_stay_once_it_is_sealed() {
        use std::os::unix::fs::MetadataExt;
        let (file, ours) = SharedMemory::create(c"test", 16384).unwrap();
        let pages = || file.metadata().unwrap().blocks() * 512 / 4096;
        assert_eq!(pages(), 4);
        let theirs = SharedMemory::map(file.as_fd()).unwrap();
        theirs.word(8192).store(7, Relaxed);
        assert_eq!(punch(&file, &theirs), [true; 2]);
        assert_eq!(pages(), 3);
        ours.seal(file.as_fd(), 16384).unwrap();
        assert_eq!(pages(), 4, "holes from before are filled");
        assert_eq!(punch(&file, &theirs), [false; 2]);
        assert_eq!(punch(&file, &ours), [false; 2]);
        assert_eq!(pages(), 4);
        assert!(SharedMemory::map(file.as_fd()).is_err(), "nobody else can write");
        theirs.word(8).store(9, Relaxed);
        assert_eq!([8, 8192].map(|at| ours.word(at).load(Relaxed)), [9, 7]);
        assert!(ours.seal(file.as_fd(), 16384).is_err(), "sealed for good");
    }

    /// Pages are allocated on their first write, and holes are recognised. After the seal no
    /// process can punch new holes.
    #[test]
    fn l11_pages_come_when_they_are_written() {
        let (file, ours) = SharedMemory::create_lazy(c"test", 1 << 20, 4096).unwrap();
        let size = || SharedMemory::allocated_size(file.as_fd()).unwrap();
        if is_accounting_strict() {
            assert_eq!(size(), 1 << 20);
            return;
        }
        assert_eq!(size(), 4096);
        let theirs = SharedMemory::map(file.as_fd()).unwrap();
        theirs.word(40960).store(7, Relaxed);
        theirs.copy_in(8192 - 2, b"four");
        let is_there = |range| SharedMemory::is_allocated(file.as_fd(), range);
        assert!(is_there(4096..12288) && is_there(40960..45056) && is_there(5000..5000));
        assert!(!is_there(4096..12289) && !is_there(40959..45056) && !is_there(0..1 << 20));
        assert_eq!(size(), 4 * 4096);
        assert_eq!(punch(&file, &theirs), [true; 2]);
        ours.seal(file.as_fd(), 4096).unwrap();
        assert_eq!(punch(&file, &theirs), [false; 2]);
        assert!(!is_there(4096..8192) && is_there(8192..12288));
        // The seal does not affect writes through an existing mapping.
        theirs.copy_in(4096, b"more");
        assert!(is_there(4096..8192));
    }

    /// [`SharedMemory::seal`] fails if the receiver has forbidden further seals (`F_SEAL_SEAL`), so
    /// the creator notices that its own seal is missing.
    #[test]
    fn seals_of_others_are_noticed() {
        let (file, ours) = SharedMemory::create(c"test", 8192).unwrap();
        seal(file.as_fd(), SealFlags::SEAL).unwrap();
        assert!(ours.seal(file.as_fd(), 8192).is_err());
    }

    /// Memory that the kernel cannot allocate is an error at creation, not a signal later.
    #[cfg(feature = "testing")]
    #[test]
    fn memory_that_cannot_be_had_is_an_error() {
        use crate::testing::{Call, Fork, in_child, refuse};
        let found = in_child(Fork::Raw, |[without, with]: &[AtomicU64; 2]| {
            let is_made = || u64::from(SharedMemory::create(c"test", 8192).is_ok());
            without.store(is_made() + 1, Relaxed);
            with.store(if refuse(Call::Fallocate) { is_made() + 1 } else { 0 }, Relaxed);
        });
        assert_eq!(found, Ok([2, 1]));
    }

    #[test]
    fn what_is_not_sealed_is_refused() {
        let path = std::env::temp_dir().join(format!("blkkin-sys-{}", std::process::id()));
        let file = File::create_new(&path).unwrap();
        file.set_len(4096).unwrap();
        std::fs::remove_file(path).unwrap();
        assert!(SharedMemory::map(file.as_fd()).is_err());
    }

    #[test]
    #[should_panic = "assertion failed"]
    fn a_place_outside_is_refused() {
        let (_file, memory) = SharedMemory::create(c"test", 4096).unwrap();
        memory.copy_out(4090, &mut [0; 7]);
    }
}
