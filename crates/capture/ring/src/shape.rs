//! How large a set of rings is and where its parts are: the page that the memory starts with.
//!
//! ```text
//! 0   magic "blkring" and a NUL      32  size of a sub-buffer, u64
//! 8   version, u32                   40  sub-buffers of a ring, u64
//! 12  mode, u32: 0 discard, 1 over-  48  UUID of the trace, 16 bytes
//!     write                          64  id of the stream class, u64
//! 16  rings, u64                     72  position that the rings start at, u64
//! 24  size of a packet header, u64   128 SLEEPING, u64
//! 80  bytes of the largest event,     256 DOZING, u64
//!     u32; 0: the default
//! ```
//!
//! All words are little-endian. Written by the daemon before anybody else has the memory; a traced
//! program reads it once, and refuses what it does not know.

use crate::event_layout::{COPIED, TOO_LARGE};
use crate::packet;
use std::fmt;
use std::ops::Range;

/// What happens to events that find the ring full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They are dropped, and counted.
    Discard,
    /// They take the place of the oldest ones: a flight recorder.
    Overwrite,
}

/// The sizes of a set of rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rings: one for each processor, and one more.
    pub rings: usize,
    /// Bytes of a sub-buffer: a power of two.
    pub subbuffer_size: usize,
    /// Sub-buffers of a ring: a power of two, at least 2, or 4 if they are overwritten.
    pub subbuffer_count: usize,
    /// What happens when they are full.
    pub mode: Mode,
    /// UUID of the trace, for packet headers.
    pub uuid: [u8; 16],
    /// Id of the stream class, for packet headers.
    pub stream: u32,
    /// Bytes of the largest event, whose strings are shortened to that; 0 for [`EVENT_SIZE_DEFAULT`].
    pub event_size: u32,
    /// Microseconds that a writer waits for room where the ring is full, before the event is lost;
    /// [`WAIT_FOREVER`] for as long as anybody reads.
    pub wait_us: u32,
    /// Where positions start: a multiple of a ring's size. 0, but in tests of what happens when
    /// positions wrap.
    pub start: u64,
}

/// Why no set of rings can have such a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeError {
    /// There must be at least 2 rings, and at most [`RINGS_MAX`].
    Rings(u64),
    /// A sub-buffer's size must be a power of two within bounds.
    SubbufferSize(u64),
    /// The number of sub-buffers must be a power of two within bounds.
    SubbufferCount(u64),
    /// Positions must start at a multiple of a ring's size.
    Start(u64),
    /// The memory is smaller than its header says, or has none.
    Memory(usize),
    /// The memory does not start as it should: another version, or something else.
    Unknown,
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShapeError::Rings(count) => write!(f, "{count} rings, not 2 to {RINGS_MAX}"),
            ShapeError::SubbufferSize(size) => write!(
                f,
                "sub-buffers of {size} bytes; the size must be a power of two from \
                 {SUBBUFFER_SIZE_MIN} to {SUBBUFFER_SIZE_MAX}"
            ),
            ShapeError::SubbufferCount(count) => write!(
                f,
                "{count} sub-buffers; their number must be a power of two from 2 (4 to be \
                 overwritten) to {SUBBUFFER_COUNT_MAX}"
            ),
            ShapeError::Start(start) => {
                write!(f, "positions start at {start}, which is no multiple of a ring's size")
            }
            ShapeError::Memory(size) => write!(f, "{size} bytes are too few for these rings"),
            ShapeError::Unknown => f.write_str("not a set of rings, or one of another version"),
        }
    }
}

impl std::error::Error for ShapeError {}

/// Waiting without an end of its own.
pub const WAIT_FOREVER: u32 = u32::MAX;
/// Processors that Linux can have, and the ring for others.
pub const RINGS_MAX: usize = 8193;
/// Bytes of the largest event, where nothing else is chosen.
pub const EVENT_SIZE_DEFAULT: usize = 64 << 10;
/// Smallest sub-buffer: a page.
pub const SUBBUFFER_SIZE_MIN: usize = 4096;
/// Largest sub-buffer: packet sizes are in bits and 32 bits must do for those who read them so.
pub const SUBBUFFER_SIZE_MAX: usize = 256 << 20;
const _: () = assert!(TOO_LARGE > SUBBUFFER_SIZE_MAX);
/// Most sub-buffers.
pub const SUBBUFFER_COUNT_MAX: usize = 1 << 16;

/// Bytes at the start of the memory that say all of it.
#[cfg(not(loom))]
pub const SHAPE_SIZE: usize = 88;
#[cfg(not(loom))]
const MAGIC: u64 = u64::from_le_bytes(*b"blkring\0");
#[cfg(not(loom))]
const VERSION: u64 = 2;
pub(crate) const PAGE: usize = 4096;
/// Bytes between the controls of two rings: two cache lines for writers, two for the reader,
/// because processors fetch lines in pairs.
pub(crate) const CONTROL_SIZE: usize = 256;

/// Where in the set header the reader says that it sleeps.
#[cfg(not(loom))]
pub(crate) const SLEEPING: usize = 128;
/// Where it says that it comes by itself, but not soon; away from the line that each event looks at.
#[cfg(not(loom))]
pub(crate) const DOZING: usize = 256;

/// The smallest that does in both modes.
impl Default for Shape {
    fn default() -> Shape {
        let (subbuffer_size, subbuffer_count) = (SUBBUFFER_SIZE_MIN, 4);
        let (mode, uuid, stream, start) = (Mode::Discard, [0; 16], 0, 0);
        let event_size = 0;
        let (rings, wait_us) = (2, 0);
        Shape {
            rings,
            subbuffer_size,
            subbuffer_count,
            mode,
            uuid,
            stream,
            event_size,
            wait_us,
            start,
        }
    }
}

impl Shape {
    /// Checks it.
    pub fn check(&self) -> Result<(), ShapeError> {
        let sizes = SUBBUFFER_SIZE_MIN..=SUBBUFFER_SIZE_MAX;
        if !(2..=RINGS_MAX).contains(&self.rings) {
            return Err(ShapeError::Rings(self.rings as u64));
        }
        if !self.subbuffer_size.is_power_of_two() || !sizes.contains(&self.subbuffer_size) {
            return Err(ShapeError::SubbufferSize(self.subbuffer_size as u64));
        }
        // Of an overwritten ring, the sub-buffer behind the one that is being written cannot be read,
        // nor is that one whole; with two there would be nothing left.
        let count_min = if self.mode == Mode::Overwrite { 4 } else { 2 };
        let counts = count_min..=SUBBUFFER_COUNT_MAX;
        if !self.subbuffer_count.is_power_of_two() || !counts.contains(&self.subbuffer_count) {
            return Err(ShapeError::SubbufferCount(self.subbuffer_count as u64));
        }
        if !self.start.is_multiple_of(self.ring_size() as u64) {
            return Err(ShapeError::Start(self.start));
        }
        match self.data_start().checked_add(self.rings.saturating_mul(self.ring_size())) {
            Some(size) if isize::try_from(size).is_ok() => Ok(()),
            _ => Err(ShapeError::Memory(usize::MAX)),
        }
    }

    /// Bytes of data of a ring.
    pub fn ring_size(&self) -> usize {
        self.subbuffer_size.saturating_mul(self.subbuffer_count)
    }

    /// Bytes of the largest event that is recorded, with its header: what is chosen, if a sub-buffer has room for it.
    pub fn event_size_max(&self) -> usize {
        let chosen = match self.event_size {
            0 => EVENT_SIZE_DEFAULT,
            chosen => chosen as usize,
        };
        // Events never reach the very end.
        let room = self.subbuffer_size.saturating_sub(packet::SIZE + 1) / COPIED * COPIED;
        chosen.min(room)
    }

    /// Bytes of the whole set.
    pub fn memory_size(&self) -> usize {
        self.data_start() + self.rings * self.ring_size()
    }

    /// Where in the memory a ring's data are.
    pub fn data_of(&self, ring: usize) -> Range<usize> {
        let start = self.data_start() + ring * self.ring_size();
        start..start + self.ring_size()
    }

    fn data_start(&self) -> usize {
        (PAGE + self.rings * CONTROL_SIZE).next_multiple_of(PAGE)
    }

    pub(crate) fn control_of(&self, ring: usize) -> usize {
        PAGE + ring * CONTROL_SIZE
    }

    /// Returns the first bytes of the memory.
    #[cfg(not(loom))]
    pub(crate) fn to_bytes(self) -> [u8; SHAPE_SIZE] {
        let mut page = [0; SHAPE_SIZE];
        let mode = match self.mode {
            Mode::Discard => 0,
            Mode::Overwrite => 1,
        };
        for (index, word) in [
            MAGIC,
            VERSION | mode << 32,
            self.rings as u64,
            packet::SIZE as u64,
            self.subbuffer_size as u64,
            self.subbuffer_count as u64,
        ]
        .into_iter()
        .enumerate()
        {
            page[8 * index..][..8].copy_from_slice(&word.to_le_bytes());
        }
        page[48..64].copy_from_slice(&self.uuid);
        page[64..72].copy_from_slice(&u64::from(self.stream).to_le_bytes());
        page[72..80].copy_from_slice(&self.start.to_le_bytes());
        page[80..84].copy_from_slice(&self.event_size.to_le_bytes());
        page[84..88].copy_from_slice(&self.wait_us.to_le_bytes());
        page
    }

    /// What memory of that size says by its first bytes.
    #[cfg(not(loom))]
    pub fn of_memory(page: &[u8; SHAPE_SIZE], size: usize) -> Result<Shape, ShapeError> {
        let word = |index: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&page[8 * index..8 * index + 8]);
            u64::from_le_bytes(bytes)
        };
        let mode = match word(1) >> 32 {
            0 => Mode::Discard,
            1 => Mode::Overwrite,
            _ => return Err(ShapeError::Unknown),
        };
        if (word(0), word(1) & 0xffff_ffff, word(3)) != (MAGIC, VERSION, packet::SIZE as u64) {
            return Err(ShapeError::Unknown);
        }
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&page[48..64]);
        let shape = Shape {
            rings: usize::try_from(word(2)).map_err(|_| ShapeError::Rings(word(2)))?,
            subbuffer_size: usize::try_from(word(4))
                .map_err(|_| ShapeError::SubbufferSize(word(4)))?,
            subbuffer_count: usize::try_from(word(5))
                .map_err(|_| ShapeError::SubbufferCount(word(5)))?,
            mode,
            uuid,
            stream: u32::try_from(word(8)).map_err(|_| ShapeError::Unknown)?,
            event_size: word(10) as u32,
            wait_us: (word(10) >> 32) as u32,
            start: word(9),
        };
        shape.check()?;
        if size < shape.memory_size() {
            return Err(ShapeError::Memory(size));
        }
        Ok(shape)
    }
}
