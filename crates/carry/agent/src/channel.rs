//! Sizes of a channel's rings: defaults, and the shape that follows from them.

use crate::rings::online_processors;
use blkkin_control::{Channel, Mode};
use blkkin_ring::Shape;

/// Default size of a sub-buffer in bytes.
///
/// A ring of [`SUBBUFFER_COUNT`] sub-buffers holds a burst of 400,000 events of 80 bytes from one
/// processor until the agent drains the ring. Pages are allocated when an event is written to them.
const SUBBUFFER_SIZE: u64 = 512 << 10;
/// Default number of sub-buffers of a ring whose unused pages take no memory.
const SUBBUFFER_COUNT: u32 = 64;
/// Default number of sub-buffers of a ring whose pages all take memory: in overwrite mode, which
/// uses all pages after a while, and under strict memory accounting, where all pages are allocated
/// in advance.
const SUBBUFFER_COUNT_FILLED: u32 = 4;

/// Default sizes of the kernel's channels: the memory of their rings is allocated at once.
const KERNEL_SUBBUFFER_SIZE: u64 = 256 << 10;
const KERNEL_SUBBUFFER_COUNT: u32 = 16;

/// Sets default values for the sizes that the command has omitted.
pub(crate) fn fill_in_sizes(channel: &mut Channel, is_kernel: bool) {
    if is_kernel {
        channel.subbuffer_size.get_or_insert(KERNEL_SUBBUFFER_SIZE);
        channel.subbuffer_count.get_or_insert(KERNEL_SUBBUFFER_COUNT);
    }
    channel.subbuffer_size.get_or_insert(SUBBUFFER_SIZE);
    channel.subbuffer_count.get_or_insert_with(|| {
        match channel.mode == Mode::Overwrite || blkkin_sys::is_accounting_strict() {
            true => SUBBUFFER_COUNT_FILLED,
            false => SUBBUFFER_COUNT,
        }
    });
    let own = shape_of(channel, 0, [0; 16]).event_size_max();
    channel.event_size.get_or_insert(own as u32);
}

/// Returns the shape of a channel's rings: their number, sizes and mode.
pub(crate) fn shape_of(channel: &Channel, stream: u32, uuid: [u8; 16]) -> Shape {
    let mode = match channel.mode {
        Mode::Discard => blkkin_ring::Mode::Discard,
        Mode::Overwrite => blkkin_ring::Mode::Overwrite,
    };
    Shape {
        // Each processor has a ring. One more ring is shared by processors without a ring.
        rings: online_processors().last().map_or(1, |last| last + 1) + 1,
        subbuffer_size: channel.subbuffer_size.unwrap_or(SUBBUFFER_SIZE) as usize,
        subbuffer_count: channel.subbuffer_count.unwrap_or(SUBBUFFER_COUNT_FILLED) as usize,
        mode,
        uuid,
        stream,
        event_size: channel.event_size.unwrap_or(0),
        wait_us: channel.wait_us,
        start: 0,
    }
}
