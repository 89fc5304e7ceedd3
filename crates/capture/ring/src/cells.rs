//! The memory of a set of rings: words that are read and written as a whole, and bytes that are
//! copied. What each word means is in the crate's first comment.

use std::sync::atomic::Ordering;

/// A word of a ring's control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// Position of the next event.
    Write = 0,
    /// When the last event happened.
    LastTime = 8,
    /// Events that found the ring full.
    Lost = 16,
    /// Thread that holds the ring; 0 if none does.
    Owner = 24,
    /// Events that found no ring to write to.
    Unplaced = 32,
    /// Events of which a string was shortened; the sum over all rings counts.
    Cut = 40,
    /// The last time that sub-buffers were begun from the ring's start before the others were read:
    /// position, and index of the sub-buffer that was left; 0 if there was none.
    Restart = 48,
    /// Events that were recorded, give or take one for each time that a thread was interrupted between the
    /// instruction that publishes an event and the one that counts it. A number to be shown.
    Recorded = 56,
    /// The reader needs nothing before this position.
    Read = 128,
    /// The reader is about to write, or has written, what comes before this position …
    Next = 136,
    /// … to a file that had this size before …
    SizeBefore = 144,
    /// … and has this one then.
    SizeAfter = 152,
    /// Events that were discarded in the ring before this one.
    Before = 160,
    /// Events that were discarded in this ring, of which nobody is to be told.
    Forgotten = 168,
    /// Whether nothing is wanted any more that is in the rings before this one.
    First = 176,
    /// Events of `Lost` and `Unplaced` that a reader's process has counted for good.
    Counted = 184,
}

#[cfg(not(loom))]
mod real {
    use super::{RINGS_DUMPED_MAX, Word};
    use crate::shape::{PAGE, SHAPE_SIZE, Shape, ShapeError};
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

    /// Shared memory, by words and bytes.
    #[derive(Debug)]
    pub struct Cells(SharedMemory, Option<AllocatedPages>);

    /// Which pages of the memory are known to be there.
    #[derive(Debug)]
    struct AllocatedPages {
        file: Arc<OwnedFd>,
        /// A bit for each page, up to the last one that was found.
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
        /// What `memory` holds.
        pub fn new(memory: SharedMemory) -> Cells {
            Cells(memory, None)
        }

        /// The same for a reader, which takes what lies in holes of `file`, the memory's, for nonsense: no
        /// event is there, and to read it would allocate it.
        #[must_use]
        pub fn without_holes(self, file: Arc<OwnedFd>) -> Cells {
            Cells(self.0, Some(AllocatedPages { file, pages: Mutex::default() }))
        }

        /// Whether a part can be read without allocating it.
        pub(crate) fn can_read(&self, range: Range<usize>) -> bool {
            self.1.as_ref().is_none_or(|allocated| allocated.has(range))
        }

        /// Bytes of the memory that were allocated so far, for a [reader](Self::without_holes).
        pub fn allocated_size(&self) -> u64 {
            let size = self.1.as_ref().map(|one| SharedMemory::allocated_size(one.file.as_fd()));
            size.and_then(Result::ok).unwrap_or(self.size() as u64)
        }

        /// Keeps all from core dumps but control words and what rings use as long as they are read in time.
        pub fn dump_little(&self, shape: &Shape) {
            // Each ring that is dumped in part makes two mappings more.
            if shape.rings > RINGS_DUMPED_MAX {
                return self.0.keep_from_dumps(shape.data_of(0).start..self.size());
            }
            for ring in 0..shape.rings {
                let data = shape.data_of(ring);
                self.0.keep_from_dumps(data.start + 2 * shape.subbuffer_size..data.end);
            }
        }

        /// Keeps all of it from core dumps.
        pub fn dump_nothing(&self) {
            self.0.keep_from_dumps(0..self.size());
        }

        /// Memory for a set of rings, [prepared](Cells::prepare), and the file to pass it on by; `name` is what
        /// `/proc` shows. Pages of data come when they are written; see [`SharedMemory::create_lazy`].
        pub fn create(name: &CStr, shape: &Shape) -> io::Result<(File, Cells)> {
            let wrong = |error: ShapeError| io::Error::new(io::ErrorKind::InvalidInput, error);
            shape.check().map_err(wrong)?;
            let fixed = shape.data_of(0).start;
            let (file, memory) = SharedMemory::create_lazy(name, shape.memory_size(), fixed)?;
            let cells = Cells::new(memory);
            cells.prepare(shape).map_err(wrong)?;
            Ok((file, cells))
        }

        /// Prepares memory for a set of rings, as the daemon does.
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

        /// Makes sure that reading cannot end with a signal, whatever the traced program does; see
        /// [`SharedMemory::seal`]. To be called by the daemon when the program has mapped `file`.
        pub fn seal(&self, file: BorrowedFd<'_>, shape: &Shape) -> io::Result<()> {
            self.0.seal(file, shape.data_of(0).start)
        }

        /// What the memory says of itself: from whoever could write to it.
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

        /// For the restartable sequences, which must address memory themselves.
        #[cfg(target_arch = "x86_64")]
        pub(crate) fn start(&self) -> NonNull<u8> {
            self.0.start()
        }

        #[inline]
        pub(crate) fn word(&self, control: usize, word: Word) -> &AtomicU64 {
            self.0.word(control + word as usize)
        }

        /// A word that nobody but the caller changes now.
        #[inline]
        pub(crate) fn load_own(&self, control: usize, word: Word) -> u64 {
            // Relaxed: the caller's own stores, or ones that it has taken over with an acquire.
            self.word(control, word).load(Ordering::Relaxed)
        }

        /// Copies bytes in; concurrent readers may see any of them.
        pub(crate) fn copy_in(&self, at: usize, bytes: &[u8]) {
            self.0.copy_in(at, bytes);
        }

        /// Copies bytes out, which may be changing.
        pub(crate) fn copy_out(&self, at: usize, into: &mut [u8]) {
            self.0.copy_out(at, into);
        }

        /// The same, behind what is there.
        pub(crate) fn append_to(&self, place: Range<usize>, to: &mut Vec<u8>) {
            self.0.append_to(place, to);
        }

        /// Writes what a reader has [taken](crate::Reader::take_in_place) to a file; see
        /// [`SharedMemory::write_to`].
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

/// Most rings of which parts are dumped.
#[cfg(not(loom))]
const RINGS_DUMPED_MAX: usize = 257;

/// Memory for models: words are loom's, and bytes are cells that report any access that no word
/// puts in order.
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

    /// Bytes that are looked at together.
    const PART: usize = 4;

    /// Memory, by words and bytes.
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
        /// What a set of rings starts with.
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

        /// Loom reports it if somebody else may be changing the word. (As a load like others it would
        /// hide that earlier loads by others depend on the store that follows.)
        pub(crate) fn load_own(&self, control: usize, word: Word) -> u64 {
            // SAFETY: loom checks that nobody writes.
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
                // SAFETY: loom has checked that nobody else accesses it now.
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
