//! Memory of the rings and of the other maps that programs of one stream share.

use crate::error::Error;
use crate::ring_code::RingCode;
use crate::syscall_code;
use blkkin_ring::{Cells, Clock, Mode, Shape, Writer};
use blkkin_sys::bpf::{KernelWaker, Map};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

/// Default size of a sub-buffer, in bytes.
const SUBBUFFER_SIZE: usize = 256 << 10;
/// Default size of a ring, in bytes, on machines with few processors.
const RING_SIZE: usize = 4 << 20;
/// Minimum of the default size.
const RING_SIZE_MIN: usize = 2 * SUBBUFFER_SIZE_MIN;
/// Maximum size of all rings, in bytes. The kernel refuses programs whose pointers reach further
/// than 512 MiB.
const RINGS_SIZE_MAX: usize = 256 << 20;
/// Number of unused bytes after the rings. The kernel's verifier does not know that events end
/// within a ring, and demands that the largest event fits after the last position.
const SLACK: usize = 128 << 10;

/// Size of the rings, and the identity of their packets.
#[derive(Clone, Copy, Debug)]
pub struct RingOptions {
    /// Size of a ring in bytes, a power of two; `None` for the default. There is a ring for each
    /// processor, and those of [`contexts`](Self::contexts).
    pub ring_size: Option<usize>,
    /// Size of a sub-buffer in bytes, a power of two; `None` for the default.
    pub subbuffer_size: Option<usize>,
    /// UUID of the trace, for packets.
    pub uuid: [u8; 16],
    /// Id of the stream class, for packets.
    pub stream: u32,
    /// Contexts of the kernel in which the programs run.
    pub contexts: Contexts,
    /// Set for a further ring, the last one, in which this process itself can record.
    pub has_own_ring: bool,
}

/// Contexts of the kernel in which programs record. A program that interrupts another one needs a
/// ring that is not in use: one of the rings that all processors share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contexts {
    /// Threads only, so that no program interrupts another one.
    Threads,
    /// Threads, and all kinds of interrupts: soft interrupts, hardware interrupts, and interrupts
    /// that cannot be masked. Interrupts of different kinds can each own a ring at the same time.
    All,
}

impl Contexts {
    /// Returns the number of shared rings. A set has at least two rings.
    fn shared_rings(self, processors: usize) -> usize {
        match self {
            Contexts::Threads => usize::from(processors == 1),
            Contexts::All => 3,
        }
    }
}

/// Rings into which programs in the kernel record events, in memory that a reader can map.
#[derive(Debug)]
pub struct KernelRings {
    block: Map,
    /// Times at which the threads' system calls began.
    begin_times: Map,
    waker: KernelWaker,
    cells: Cells,
    shape: Shape,
    /// Number of rings that belong to a processor: the first ones.
    processors: usize,
    /// Number of rings that all processors share: the next ones.
    shared: usize,
}

impl KernelRings {
    /// Creates empty rings for all processors that the machine may have. The kernel allocates their
    /// memory now.
    pub fn create(options: &RingOptions) -> Result<KernelRings, Error> {
        let map = |name: &'static str| move |error| Error::Map(name, error);
        let processors = possible_processors().map_err(|error| Error::Map("rings", error))?;
        let shared = options.contexts.shared_rings(processors);
        let rings = processors + shared + usize::from(options.has_own_ring);
        let (shape, block) = create(options, rings)?;
        let cells = Cells::new(block.memory().map_err(map("rings"))?);
        cells.prepare(&shape).map_err(|error| Error::Map("rings", io::Error::other(error)))?;
        let waker = KernelWaker::new("blkkin_waker").map_err(map("waker"))?;
        let begin_times = syscall_code::begin_times()?;
        Ok(KernelRings { block, begin_times, waker, cells, shape, processors, shared })
    }

    /// Returns a writer for the ring of this process, which wakes the reader by `eventfd`: only
    /// [`Writer::record_in_last_ring`] may be used.
    pub(crate) fn writer(&self, eventfd: RawFd) -> Result<Writer, Error> {
        let failed = |error| Error::Map("rings", error);
        let cells = Cells::new(self.block.memory().map_err(failed)?);
        let writer = Writer::new(cells, Clock::Monotonic).map_err(io::Error::other);
        Ok(writer.map_err(failed)?.with_eventfd(eventfd))
    }

    /// Returns the number of processors that the machine may have.
    pub(crate) fn processors(&self) -> usize {
        self.processors
    }

    /// Returns the descriptor of the rings' memory, which another process can map.
    pub fn memory(&self) -> BorrowedFd<'_> {
        self.block.as_fd()
    }

    /// Returns the channel by which programs wake a reader that sleeps.
    pub fn waker(&self) -> &KernelWaker {
        &self.waker
    }

    pub(crate) fn cells(&self) -> &Cells {
        &self.cells
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the generator of the code that writes into the rings.
    pub(crate) fn code(&self) -> RingCode<'_> {
        RingCode {
            shape: &self.shape,
            processors: self.processors,
            shared: self.shared,
            block: self.block.as_fd().as_raw_fd(),
            waker: self.waker.map().as_fd().as_raw_fd(),
            redaction: None,
        }
    }

    /// Returns the descriptor of the map of begin times, for programs.
    pub(crate) fn begin_times(&self) -> i32 {
        self.begin_times.as_fd().as_raw_fd()
    }
}

/// Creates the memory of `rings` rings. Without a selected size, the rings are smaller on machines
/// with many processors, and with kernels before Linux 6.0, which refuse maps of more than about
/// 4 MiB.
fn create(options: &RingOptions, rings: usize) -> Result<(Shape, Map), Error> {
    let failed = |error| Error::Map("rings", error);
    let block = |shape: &Shape| Map::block("blkkin_rings", shape.memory_size() + SLACK);
    if let Some(size) = options.ring_size {
        let shape = shape_of(options, rings, size.next_power_of_two())?;
        let block = block(&shape).map_err(failed)?;
        return Ok((shape, block));
    }
    let mut size = RING_SIZE;
    while size * rings > RINGS_SIZE_MAX && size > RING_SIZE_MIN {
        size /= 2;
    }
    loop {
        let shape = shape_of(options, rings, size)?;
        match block(&shape) {
            Ok(block) => return Ok((shape, block)),
            Err(error) if is_too_large(&error) && size > RING_SIZE_MIN => size /= 2,
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Returns true for the error of a map that exceeds the kernel's maximum size.
fn is_too_large(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::TOOBIG.raw_os_error())
}

/// Returns the shape of `rings` rings of `ring_size` bytes.
fn shape_of(options: &RingOptions, rings: usize, ring_size: usize) -> Result<Shape, Error> {
    if ring_size.saturating_mul(rings) > 2 * RINGS_SIZE_MAX - SLACK - (2 << 20) {
        let message = format!(
            "{rings} rings of {ring_size} bytes are more than {} MiB in all",
            (2 * RINGS_SIZE_MAX) >> 20
        );
        let error = io::Error::new(io::ErrorKind::InvalidInput, message);
        return Err(Error::Map("rings", error));
    }
    let usual = || SUBBUFFER_SIZE.min(ring_size / 2).max(SUBBUFFER_SIZE_MIN);
    let subbuffer_size = options.subbuffer_size.unwrap_or_else(usual);
    if subbuffer_size < SUBBUFFER_SIZE_MIN {
        let message = format!("sub-buffers of the kernel have at least {SUBBUFFER_SIZE_MIN} bytes");
        return Err(Error::Map("rings", io::Error::new(io::ErrorKind::InvalidInput, message)));
    }
    let shape = Shape {
        rings,
        subbuffer_size,
        subbuffer_count: (ring_size / subbuffer_size).max(2),
        mode: Mode::Discard,
        uuid: options.uuid,
        stream: options.stream,
        ..Shape::default()
    };
    shape.check().map_err(|error| Error::Map("rings", io::Error::other(error)))?;
    Ok(shape)
}

/// Minimum size of a sub-buffer, in bytes: several events with the longest paths have room.
const SUBBUFFER_SIZE_MIN: usize = 64 << 10;

/// Returns the number of processors that the machine may have, as the highest number plus 1.
fn possible_processors() -> io::Result<usize> {
    let text = fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let last = text.trim().rsplit([',', '-']).next().and_then(|last| last.parse::<usize>().ok());
    let count = last.and_then(|last| last.checked_add(1)).filter(|count| *count <= 8192);
    count.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}
