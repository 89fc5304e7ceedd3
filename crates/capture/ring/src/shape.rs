//! Shape of a set of rings: sizes, offsets, and the header page that stores them.
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
//! 84  wait for room in a full ring,   264 REGISTERED, u64
//!     microseconds, u32; 0: none,
//!     2^32 - 1: no time limit         512 description of the rings for readers of
//!                                         a crashed machine's memory, up to the
//!                                         page's end; writers ignore it
//! ```
//!
//! All words are little-endian. The agent writes the page before it shares the memory; later only
//! the three flags change. A traced program reads the shape once, and refuses an unknown version.

use crate::event_layout::{COPIED, TOO_LARGE};
use crate::packet;
use std::fmt;
use std::ops::Range;

/// Policy for events that find the ring full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// New events are discarded and counted.
    Discard,
    /// New events overwrite the oldest ones, as in a flight recorder.
    Overwrite,
}

/// Sizes and options of a set of rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of rings: one for each processor, and an additional one.
    pub rings: usize,
    /// Size of a sub-buffer in bytes: a power of two.
    pub subbuffer_size: usize,
    /// Number of sub-buffers of a ring: a power of two, at least 2, or 4 in overwrite mode.
    pub subbuffer_count: usize,
    /// Policy for a full ring.
    pub mode: Mode,
    /// UUID of the trace, for packet headers.
    pub uuid: [u8; 16],
    /// Id of the stream class, for packet headers.
    pub stream: u32,
    /// Maximum size of an event, in bytes; the strings of larger events are shortened. 0 for
    /// [`EVENT_SIZE_DEFAULT`].
    pub event_size: u32,
    /// Maximum time in microseconds that a writer waits for room in a full ring before the event is
    /// lost; 0 for no wait, [`WAIT_FOREVER`] to wait as long as a reader reads.
    pub wait_us: u32,
    /// Position at which all rings start: a multiple of a ring's size. Not 0 only in tests, to let
    /// positions wrap.
    pub start: u64,
}

/// Reason why a shape is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeError {
    /// The number of rings is less than 2 or more than [`RINGS_MAX`].
    Rings(u64),
    /// The size of a sub-buffer is no power of two, or out of bounds.
    SubbufferSize(u64),
    /// The number of sub-buffers is no power of two, or out of bounds.
    SubbufferCount(u64),
    /// The first position is no multiple of a ring's size.
    Start(u64),
    /// The memory is smaller than a header page, or than its shape requires; its size in bytes.
    /// `usize::MAX` if the rings exceed the address space.
    Memory(usize),
    /// The memory has an unknown version, or is no set of rings.
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

/// Value of [`Shape::wait_us`] that means no time limit.
pub const WAIT_FOREVER: u32 = u32::MAX;
/// Maximum number of rings: one for each of the 8192 processors that Linux supports, and the
/// additional ring.
pub const RINGS_MAX: usize = 8193;
/// Default maximum size of an event, in bytes.
pub const EVENT_SIZE_DEFAULT: usize = 64 << 10;
/// Minimum size of a sub-buffer, in bytes: a page.
pub const SUBBUFFER_SIZE_MIN: usize = 4096;
/// Maximum size of a sub-buffer, in bytes. Packet sizes are in bits, and some readers store them in
/// 32 bits.
pub const SUBBUFFER_SIZE_MAX: usize = 256 << 20;
const _: () = assert!(TOO_LARGE > SUBBUFFER_SIZE_MAX);
/// Maximum number of sub-buffers of a ring.
pub const SUBBUFFER_COUNT_MAX: usize = 1 << 16;

/// Size of the encoded shape at the start of the header page, in bytes.
#[cfg(not(loom))]
pub const SHAPE_SIZE: usize = 88;
#[cfg(not(loom))]
const MAGIC: u64 = u64::from_le_bytes(*b"blkring\0");
#[cfg(not(loom))]
const VERSION: u64 = 2;
/// Place of the [description](crate::Cells::describe) in the header page.
#[cfg(not(loom))]
pub const DESCRIPTION: Range<usize> = 512..PAGE;
pub(crate) const PAGE: usize = 4096;
/// Distance between the controls of two successive rings, in bytes: two cache lines for writers and
/// two for the reader, because processors prefetch lines in pairs.
pub const CONTROL_SIZE: usize = 256;

/// Offset of the reader's flag `SLEEPING` in the set header, in bytes.
#[cfg(not(loom))]
pub const SLEEPING: usize = 128;
/// Offset of the reader's flag `DOZING`, in bytes. The flag is on another cache line than
/// `SLEEPING`, which each event loads.
#[cfg(not(loom))]
pub(crate) const DOZING: usize = 256;
/// Offset of the writers' flag `REGISTERED`, in bytes.
#[cfg(not(loom))]
pub(crate) const REGISTERED: usize = 264;

/// The smallest shape that is valid in both modes.
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
    /// Checks the number of rings, the sizes and the start position against their limits.
    pub fn check(&self) -> Result<(), ShapeError> {
        let sizes = SUBBUFFER_SIZE_MIN..=SUBBUFFER_SIZE_MAX;
        if !(2..=RINGS_MAX).contains(&self.rings) {
            return Err(ShapeError::Rings(self.rings as u64));
        }
        if !self.subbuffer_size.is_power_of_two() || !sizes.contains(&self.subbuffer_size) {
            return Err(ShapeError::SubbufferSize(self.subbuffer_size as u64));
        }
        // In overwrite mode, a reader cannot read the sub-buffer after the current one, because a
        // writer may be about to begin it. With two sub-buffers only the current one would be
        // readable.
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

    /// Returns the size of a ring's data, in bytes.
    pub fn ring_size(&self) -> usize {
        self.subbuffer_size.saturating_mul(self.subbuffer_count)
    }

    /// Returns the maximum size in bytes of an event with its header: the configured size, or less
    /// if a sub-buffer has less room.
    pub fn event_size_max(&self) -> usize {
        let chosen = match self.event_size {
            0 => EVENT_SIZE_DEFAULT,
            chosen => chosen as usize,
        };
        // An event never reaches the last byte of a sub-buffer.
        let room = self.subbuffer_size.saturating_sub(packet::SIZE + 1) / COPIED * COPIED;
        chosen.min(room)
    }

    /// Returns the size of the whole set of rings, in bytes.
    pub fn memory_size(&self) -> usize {
        self.data_start() + self.rings * self.ring_size()
    }

    /// Returns the byte range of a ring's data in the memory.
    pub fn data_of(&self, ring: usize) -> Range<usize> {
        let start = self.data_start() + ring * self.ring_size();
        start..start + self.ring_size()
    }

    fn data_start(&self) -> usize {
        (PAGE + self.rings * CONTROL_SIZE).next_multiple_of(PAGE)
    }

    /// Returns the offset of a ring's control in the memory.
    pub fn control_of(&self, ring: usize) -> usize {
        PAGE + ring * CONTROL_SIZE
    }

    /// Encodes the shape for the header page.
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

    /// Decodes and checks the shape in the header page of a memory of `size` bytes.
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
