//! Shared memory of a set of rings. Words are loaded and stored atomically; bytes are copied. The
//! crate's documentation lists the words.

use std::sync::atomic::Ordering;

/// A word of a ring's control block; its discriminant is its offset in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// Position at which the next event is written.
    Write = 0,
    /// Time of the ring's last event, or a later time, by the ring's clock.
    LastTime = 8,
    /// Number of events that were discarded because the ring was full.
    Lost = 16,
    /// Process and thread that hold the ring's lock, and in the upper bits the number of times it
    /// was locked. The lower 44 bits are 0 if the lock is free.
    Owner = 24,
    /// Number of events that were larger than a sub-buffer, could lock no ring, or lost each lock
    /// to a takeover. In the last two cases, an event is counted at the first of the rings that it
    /// may use.
    Unplaced = 32,
    /// Number of events with a shortened string; only the sum over all rings has a meaning.
    Cut = 40,
    /// Last restart of the ring: its position, plus the index of the sub-buffer before it. Events
    /// in that sub-buffer may be unread. 0 before the first restart, and once a sub-buffer is begun
    /// in order after the reader has passed the restart.
    Restart = 48,
    /// Number of recorded events, for display only. May be off by one for each time that a writer
    /// was preempted, interrupted or killed between publishing an event and counting it.
    Recorded = 56,
    /// Position before which events may be overwritten.
    Read = 128,
    /// Position before which events have been written to a file or dropped, or are being written.
    Next = 136,
    /// Size of the file before the write that `Next` announces, in bytes.
    SizeBefore = 144,
    /// Size of the file after the write that `Next` announces, in bytes.
    SizeAfter = 152,
    /// Number of events discarded in the rings that this ring replaced.
    Before = 160,
    /// Number of this ring's discarded events that do not belong to the current recording.
    Forgotten = 168,
    /// Flag: not 0 if the agent must discard the contents of the rings that this ring replaced.
    First = 176,
    /// Number of events in `Lost` and `Unplaced` that the reader's process has added to its totals.
    Counted = 184,
}

#[cfg(not(loom))]
mod real {
    use super::{RINGS_DUMPED_MAX, Word};
    use crate::shape::{DESCRIPTION, PAGE, SHAPE_SIZE, Shape, ShapeError};
    use blkkin_sys::{PAGE_SIZE, Piece, SharedMemory};
    use std::ffi::CStr;
    use std::fs::File;
    use std::io;
    use std::ops::Range;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    #[cfg(target_arch = "x86_64")]
    use std::ptr::NonNull;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex, PoisonError};

    /// Shared memory of a set of rings, accessed by words and bytes. A reader also tracks the
    /// allocated pages.
    #[derive(Debug)]
    pub struct Cells(SharedMemory, Option<AllocatedPages>);

    /// Pages that are known to be allocated, so that a reader can avoid holes.
    #[derive(Debug)]
    struct AllocatedPages {
        file: Arc<OwnedFd>,
        /// Bitmap of the pages known to be allocated, up to the highest of them.
        pages: Mutex<Vec<u64>>,
    }

    impl AllocatedPages {
        fn has(&self, range: Range<usize>) -> bool {
            let pages = range.start / PAGE_SIZE..range.end.div_ceil(PAGE_SIZE);
            let mut known = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
            let is_known =
                |page: usize| known.get(page / 64).is_some_and(|word| word >> (page % 64) & 1 != 0);
            let Some(first) = pages.clone().find(|page| !is_known(*page)) else { return true };
            let unknown = first * PAGE_SIZE..range.end;
            if !SharedMemory::is_allocated(self.file.as_fd(), unknown) {
                return false;
            }
            let words = known.len().max(pages.end.div_ceil(64));
            known.resize(words, 0);
            (first..pages.end).for_each(|page| known[page / 64] |= 1 << (page % 64));
            true
        }
    }

    impl Cells {
        /// Wraps the mapped memory of a set of rings.
        pub fn new(memory: SharedMemory) -> Cells {
            Cells(memory, None)
        }

        /// Wraps the memory for a reader. The reader treats holes of the memory's `file` as invalid
        /// data: a hole has no event, and reading a hole would allocate it.
        #[must_use]
        pub fn without_holes(self, file: Arc<OwnedFd>) -> Cells {
            Cells(self.0, Some(AllocatedPages { file, pages: Mutex::default() }))
        }

        /// Returns true if a range has no holes, or if the cells were not made by
        /// [`without_holes`](Self::without_holes).
        pub(crate) fn can_read(&self, range: Range<usize>) -> bool {
            self.1.as_ref().is_none_or(|allocated| allocated.has(range))
        }

        /// Returns the number of allocated bytes; the memory's size if the cells were not made by
        /// [`without_holes`](Self::without_holes), or if the kernel returns an error.
        pub fn allocated_size(&self) -> u64 {
            let size = self.1.as_ref().map(|one| SharedMemory::allocated_size(one.file.as_fd()));
            size.and_then(Result::ok).unwrap_or(self.size() as u64)
        }

        /// Excludes the rings' data from core dumps, except the two sub-buffers that a ring uses
        /// while its reader keeps up. Excludes those too if there are more than `RINGS_DUMPED_MAX`
        /// rings.
        pub fn limit_dump(&self, shape: &Shape) {
            // A ring that is dumped in part adds two mappings.
            if shape.rings > RINGS_DUMPED_MAX {
                return self.0.keep_from_dumps(shape.data_of(0).start..self.size());
            }
            for ring in 0..shape.rings {
                let data = shape.data_of(ring);
                self.0.keep_from_dumps(data.start + 2 * shape.subbuffer_size..data.end);
            }
        }

        /// Excludes all of the memory from core dumps.
        pub fn exclude_from_dump(&self) {
            self.0.keep_from_dumps(0..self.size());
        }

        /// Creates and [prepares](Cells::prepare) memory for a set of rings. Returns it with the
        /// file by which it is shared; `name` is shown in `/proc`. Pages of data are allocated when
        /// they are written; see [`SharedMemory::create_lazy`].
        pub fn create(name: &CStr, shape: &Shape) -> io::Result<(File, Cells)> {
            let wrong = |error: ShapeError| io::Error::new(io::ErrorKind::InvalidInput, error);
            shape.check().map_err(wrong)?;
            let fixed = shape.data_of(0).start;
            let (file, memory) = SharedMemory::create_lazy(name, shape.memory_size(), fixed)?;
            let cells = Cells::new(memory);
            cells.prepare(shape).map_err(wrong)?;
            Ok((file, cells))
        }

        /// Writes the header page and the start positions of a set of rings into memory that is all
        /// zeros. Called by the agent.
        pub fn prepare(&self, shape: &Shape) -> Result<(), ShapeError> {
            shape.check()?;
            if self.size() < shape.memory_size() {
                return Err(ShapeError::Memory(self.size()));
            }
            self.copy_in(0, &shape.to_bytes());
            for ring in 0..shape.rings {
                let control = shape.control_of(ring);
                self.store(control, Word::Write, shape.start, Ordering::Relaxed);
                self.store(control, Word::Read, shape.start, Ordering::Relaxed);
            }
            Ok(())
        }

        /// Writes a description of the rings into the header page, for a reader that finds only the
        /// memory, after a crash. Called by the agent. Returns false, and writes nothing, if the
        /// description does not fit [`DESCRIPTION`].
        pub fn describe(&self, description: &[u8]) -> bool {
            let fits = description.len() <= DESCRIPTION.len();
            if fits {
                self.copy_in(DESCRIPTION.start, description);
            }
            fits
        }

        /// Seals the file, so that reading cannot raise a signal even if the traced program tries
        /// to punch holes into it; see [`SharedMemory::seal`]. Called by the agent once the program
        /// has mapped `file` or has ended.
        pub fn seal(&self, file: BorrowedFd<'_>, shape: &Shape) -> io::Result<()> {
            self.0.seal(file, shape.data_of(0).start)
        }

        /// Reads the shape from the memory, and checks it, because any writer may have changed it.
        pub fn shape(&self) -> Result<Shape, ShapeError> {
            if self.size() < PAGE {
                return Err(ShapeError::Memory(self.size()));
            }
            let mut header = [0; SHAPE_SIZE];
            self.copy_out(0, &mut header);
            Shape::of_memory(&header, self.size())
        }

        pub(crate) fn size(&self) -> usize {
            self.0.size()
        }

        /// Returns the start address of the memory, which the assembler code of restartable
        /// sequences accesses directly.
        #[cfg(target_arch = "x86_64")]
        pub(crate) fn start(&self) -> NonNull<u8> {
            self.0.start()
        }

        #[inline]
        pub(crate) fn word(&self, control: usize, word: Word) -> &AtomicU64 {
            self.0.word(control + word as usize)
        }

        /// Loads a word that no other thread can change at this time. For restartable sequences a
        /// change is possible, but makes the sequence fail.
        #[inline]
        pub(crate) fn load_own(&self, control: usize, word: Word) -> u64 {
            // Relaxed: the word was stored on this processor, or acquired with the ring's lock.
            self.word(control, word).load(Ordering::Relaxed)
        }

        /// Copies bytes into the memory; concurrent readers may see any of them.
        pub(crate) fn copy_in(&self, at: usize, bytes: &[u8]) {
            self.0.copy_in(at, bytes);
        }

        /// Copies bytes out of the memory; they may change meanwhile.
        pub(crate) fn copy_out(&self, at: usize, into: &mut [u8]) {
            self.0.copy_out(at, into);
        }

        /// Appends bytes of the memory to a vector; they may change meanwhile.
        pub(crate) fn append_to(&self, place: Range<usize>, to: &mut Vec<u8>) {
            self.0.append_to(place, to);
        }

        /// Writes events to a file, after a reader has [consumed them in
        /// place](crate::Reader::take_in_place); see [`SharedMemory::write_to`].
        pub fn write_to<'p>(
            &self,
            file: BorrowedFd<'_>,
            offset: u64,
            pieces: impl Iterator<Item = Piece<'p>>,
        ) -> io::Result<()> {
            self.0.write_to(file, offset, pieces)
        }

        pub(crate) fn flag(&self, at: usize, order: Ordering) -> u64 {
            self.0.word(at).load(order)
        }

        pub(crate) fn set_flag(&self, at: usize, value: u64, order: Ordering) -> u64 {
            self.0.word(at).swap(value, order)
        }
    }
}

/// Maximum number of rings for which core dumps include the sub-buffers in use; with more rings,
/// dumps exclude all data.
#[cfg(not(loom))]
const RINGS_DUMPED_MAX: usize = 257;

/// Memory of rings in loom models. Words are loom's atomics, and bytes are loom cells: loom reports
/// a data race for each access to bytes that no atomic word orders.
#[cfg(loom)]
mod model {
    use super::Word;
    use crate::shape::Shape;
    use loom::cell::UnsafeCell;
    use loom::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering;

    const WORDS: [Word; 16] = [
        Word::Write,
        Word::LastTime,
        Word::Lost,
        Word::Owner,
        Word::Unplaced,
        Word::Cut,
        Word::Restart,
        Word::Read,
        Word::Next,
        Word::SizeBefore,
        Word::SizeAfter,
        Word::Before,
        Word::Forgotten,
        Word::First,
        Word::Counted,
        Word::Recorded,
    ];

    /// Size of a loom cell, in bytes.
    const PART: usize = 4;

    /// Memory of a set of rings in a model, accessed by words and bytes.
    #[derive(Debug)]
    pub struct Cells {
        controls: Vec<[AtomicU64; 16]>,
        control_start: usize,
        control_size: usize,
        data: Vec<UnsafeCell<[u8; PART]>>,
        data_start: usize,
    }

    // Parts are only accessed through `copy_in` and `copy_out`, whose accesses loom checks.
    #[expect(unsafe_code)]
    // SAFETY: loom reports accesses that race, and runs one thread at a time.
    unsafe impl Sync for Cells {}

    impl Cells {
        /// Creates the memory of a set of rings in its initial state.
        pub fn new(shape: &Shape) -> Cells {
            let control = |_| [0; 16].map(|_| AtomicU64::new(shape.start));
            let cells = Cells {
                controls: (0..shape.rings).map(control).collect(),
                control_start: shape.control_of(0),
                control_size: shape.control_of(1) - shape.control_of(0),
                data: (0..shape.rings * shape.ring_size() / PART)
                    .map(|_| UnsafeCell::new([0; PART]))
                    .collect(),
                data_start: shape.data_of(0).start,
            };
            for control in &cells.controls {
                for (word, cell) in WORDS.iter().zip(control) {
                    if !matches!(word, Word::Write | Word::Read) {
                        cell.store(0, Ordering::Relaxed);
                    }
                }
            }
            cells
        }

        pub(crate) fn word(&self, control: usize, word: Word) -> &AtomicU64 {
            let index = WORDS.iter().position(|one| *one == word).unwrap();
            &self.controls[(control - self.control_start) / self.control_size][index]
        }

        /// Loads a word without an atomic access; loom reports a concurrent change. (With an atomic
        /// load, loom would accept a concurrent store by another thread.)
        pub(crate) fn load_own(&self, control: usize, word: Word) -> u64 {
            // SAFETY: loom checks that no thread writes.
            #[expect(unsafe_code)]
            unsafe {
                self.word(control, word).unsync_load()
            }
        }

        pub(crate) fn can_read(&self, _: std::ops::Range<usize>) -> bool {
            true
        }

        pub(crate) fn copy_in(&self, at: usize, bytes: &[u8]) {
            for (index, part) in bytes.chunks(PART).enumerate() {
                let cell = &self.data[(at - self.data_start) / PART + index];
                // SAFETY: loom has checked that no other thread accesses the cell now.
                #[expect(unsafe_code)]
                cell.with_mut(|cell| unsafe { (&mut *cell)[..part.len()].copy_from_slice(part) });
            }
        }

        pub(crate) fn copy_out(&self, at: usize, into: &mut [u8]) {
            for (index, part) in into.chunks_mut(PART).enumerate() {
                let cell = &self.data[(at - self.data_start) / PART + index];
                let length = part.len();
                // SAFETY: as above.
                #[expect(unsafe_code)]
                cell.with(|cell| unsafe { part.copy_from_slice(&(&*cell)[..length]) });
            }
        }

        pub(crate) fn append_to(&self, place: std::ops::Range<usize>, to: &mut Vec<u8>) {
            let start = to.len();
            to.resize(start + place.len(), 0);
            self.copy_out(place.start, &mut to[start..]);
        }
    }
}

#[cfg(loom)]
pub use model::Cells;
#[cfg(not(loom))]
pub use real::Cells;

impl Cells {
    #[inline]
    pub(crate) fn load(&self, control: usize, word: Word, order: Ordering) -> u64 {
        self.word(control, word).load(order)
    }

    #[inline]
    pub(crate) fn store(&self, control: usize, word: Word, value: u64, order: Ordering) {
        self.word(control, word).store(value, order);
    }
}
