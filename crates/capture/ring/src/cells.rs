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
}

#[cfg(not(loom))]
mod real {
    use super::Word;
    use crate::{Shape, ShapeError};
    use blkkin_sys::{Piece, SharedMemory};
    use std::ffi::CStr;
    use std::fs::File;
    use std::io;
    use std::ops::Range;
    #[cfg(target_arch = "x86_64")]
    use std::ptr::NonNull;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Shared memory, by words and bytes.
    #[derive(Debug)]
    pub struct Cells(SharedMemory);

    impl Cells {
        /// What `memory` holds.
        pub fn new(memory: SharedMemory) -> Cells {
            Cells(memory)
        }

        /// Memory for a set of rings, [prepared](Cells::prepare), and the file to pass it on by; `name` is what
        /// `/proc` shows.
        pub fn create(name: &CStr, shape: &Shape) -> io::Result<(File, Cells)> {
            let wrong = |error: ShapeError| io::Error::new(io::ErrorKind::InvalidInput, error);
            shape.check().map_err(wrong)?;
            let (file, memory) = SharedMemory::create(name, shape.memory_size())?;
            let cells = Cells(memory);
            cells.prepare(shape).map_err(wrong)?;
            Ok((file, cells))
        }

        /// Makes sure that reading cannot end with a signal, whatever the traced program does; see
        /// [`SharedMemory::seal`]. To be called by the daemon when the program has mapped `file`.
        pub fn seal(&self, file: std::os::fd::BorrowedFd<'_>) -> io::Result<()> {
            self.0.seal(file)
        }

        /// What the memory says of itself: from whoever could write to it.
        pub fn shape(&self) -> Result<Shape, ShapeError> {
            Shape::read(self)
        }

        pub(crate) fn size(&self) -> usize {
            self.0.size()
        }

        /// For the restartable sequences, which must address memory themselves.
        #[cfg(target_arch = "x86_64")]
        pub(crate) fn start(&self) -> NonNull<u8> {
            self.0.start()
        }

        pub(crate) fn provide(&self, range: Range<usize>) {
            self.0.provide(range);
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
            file: std::os::fd::BorrowedFd<'_>,
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

/// Memory for models: words are loom's, and bytes are cells that report any access that no word
/// puts in order.
#[cfg(loom)]
mod model {
    use super::Word;
    use crate::shape::Shape;
    use loom::cell::UnsafeCell;
    use loom::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering;

    const WORDS: [Word; 12] = [
        Word::Write,
        Word::LastTime,
        Word::Lost,
        Word::Owner,
        Word::Unplaced,
        Word::Read,
        Word::Next,
        Word::SizeBefore,
        Word::SizeAfter,
        Word::Before,
        Word::Forgotten,
        Word::First,
    ];

    /// Bytes that are looked at together.
    const PART: usize = 4;

    /// Memory, by words and bytes.
    #[derive(Debug)]
    pub struct Cells {
        controls: Vec<[AtomicU64; 12]>,
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
            let control = |_| [0; 12].map(|_| AtomicU64::new(shape.start));
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
