//! Sizes of a channel's rings: defaults, limits that a session states, and the shape that follows
//! from them.

use crate::quota::{Account, Quota, memory_total};
use crate::rings::{charge_min, online_processors};
use blkkin_control::{Channel, Mode, Purpose, Retention};
use blkkin_ring::{SUBBUFFER_COUNT_MAX, SUBBUFFER_SIZE_MAX, SUBBUFFER_SIZE_MIN, Shape};

/// Default size of a sub-buffer in bytes.
///
/// A ring of [`SUBBUFFER_COUNT`] sub-buffers holds a burst of 400,000 events of 80 bytes from one
/// processor until the agent drains the ring. Pages are allocated when an event is written to them.
const SUBBUFFER_SIZE: u64 = 512 << 10;
/// Default number of sub-buffers of a ring whose unused pages take no memory.
const SUBBUFFER_COUNT: u32 = 64;
/// Default number of sub-buffers of a ring whose pages all take memory: in overwrite mode, which
/// uses all pages after a while, and under strict memory accounting, where all pages are allocated
/// in advance. Also the minimum for a ring of a snapshot session.
const SUBBUFFER_COUNT_FILLED: u32 = 4;

/// Maximum size of a ring of a snapshot session, unless the user states a size.
///
/// It is the size of a recording session's ring. With events of 40 bytes it holds what a processor
/// records in 14 minutes at 1,000 events a second, in 8 seconds at 100,000 and in 80 milliseconds
/// at 10 million. More of it would help little at high rates, and a snapshot copies all of it.
const FLIGHT_RING_SIZE_MAX: u64 = SUBBUFFER_SIZE * SUBBUFFER_COUNT as u64;
/// Divisor of the memory that a program may use: of the machine, or of the program's control group.
/// The rings that a program gets without a stated size take at most a 64th of it, because they
/// count as memory of the program, which has to work as it does without a recording.
const FLIGHT_MEMORY_PART: u64 = 64;
/// Divisor of the half of a user's quota that larger rings may use: one program takes at most an
/// eighth of what is left of it. The other half remains for rings of the minimum size, so that
/// early programs leave enough for many later ones.
const FLIGHT_QUOTA_PART: u64 = 8;

/// Minimum number of sub-buffers into which a ring of a stated size is divided, where pages permit.
/// A snapshot cannot contain the two sub-buffers that writers may be about to overwrite.
const SUBBUFFERS_OF_MEMORY: u64 = 16;

/// Default sizes of the kernel's channels: the memory of their rings is allocated at once.
const KERNEL_SUBBUFFER_SIZE: u64 = 256 << 10;
const KERNEL_SUBBUFFER_COUNT: u32 = 16;

/// Sets values for the sizes that the command has omitted. The number of sub-buffers stays `None`
/// if it is chosen for each program: see [`shape_for`].
pub(crate) fn fill_in_sizes(
    channel: &mut Channel,
    is_kernel: bool,
    purpose: Purpose,
    retention: Retention,
) {
    if is_kernel {
        channel.subbuffer_size.get_or_insert(KERNEL_SUBBUFFER_SIZE);
        channel.subbuffer_count.get_or_insert(KERNEL_SUBBUFFER_COUNT);
    } else if let Some(memory) = retention.memory {
        divide(channel, memory);
    }
    channel.subbuffer_size.get_or_insert(SUBBUFFER_SIZE);
    let is_strict = blkkin_sys::is_accounting_strict();
    let is_overwriting = channel.mode == Mode::Overwrite;
    if !(purpose == Purpose::Snapshot && is_overwriting && !is_strict) {
        channel.subbuffer_count.get_or_insert(match is_overwriting || is_strict {
            true => SUBBUFFER_COUNT_FILLED,
            false => SUBBUFFER_COUNT,
        });
    }
    let own = shape_of(channel, 0, [0; 16]).event_size_max();
    channel.event_size.get_or_insert(own as u32);
}

/// Sets the omitted sizes of a channel, so that the rings of one program have at most `memory`
/// bytes. Sizes are powers of two, so that they may have less.
fn divide(channel: &mut Channel, memory: u64) {
    let ring = power_of_two_within(memory / ring_count() as u64);
    let size = channel.subbuffer_size.unwrap_or_else(|| match channel.subbuffer_count {
        Some(count) => ring / u64::from(count.max(1)),
        None => {
            let size = (ring / SUBBUFFERS_OF_MEMORY).min(SUBBUFFER_SIZE);
            size.max(ring / SUBBUFFER_COUNT_MAX as u64).max(SUBBUFFER_SIZE_MIN as u64)
        }
    });
    channel.subbuffer_size = Some(size);
    let count = u32::try_from(ring / size.max(1)).unwrap_or(u32::MAX);
    channel.subbuffer_count.get_or_insert(count);
}

/// Returns the minimum and the maximum size of the rings of one program that a session may state.
pub(crate) fn memory_bounds() -> (u64, u64) {
    let smallest = SUBBUFFER_SIZE_MIN as u64 * u64::from(SUBBUFFER_COUNT_FILLED);
    let largest = (SUBBUFFER_SIZE_MAX as u64).saturating_mul(SUBBUFFER_COUNT_MAX as u64);
    let all = |ring: u64| ring.saturating_mul(ring_count() as u64);
    (all(smallest), all(largest))
}

/// Returns the largest power of two that is at most `number`; 0 for 0.
pub(crate) fn power_of_two_within(number: u64) -> u64 {
    number.checked_ilog2().map_or(0, |bits| 1 << bits)
}

/// Returns the number of rings: one for each processor, and an additional one, which processors
/// without a ring share.
fn ring_count() -> usize {
    online_processors().last().map_or(1, |last| last + 1) + 1
}

/// Returns the maximum size of a ring whose number of sub-buffers is chosen for each program.
fn ring_size_max(subbuffer_size: u64) -> u64 {
    FLIGHT_RING_SIZE_MAX.max(subbuffer_size.saturating_mul(SUBBUFFER_COUNT_FILLED.into()))
}

/// Returns the shape of a channel's rings: their number, sizes and mode. If the number of
/// sub-buffers is chosen for each program, the shape has the largest number.
pub(crate) fn shape_of(channel: &Channel, stream: u32, uuid: [u8; 16]) -> Shape {
    let mode = match channel.mode {
        Mode::Discard => blkkin_ring::Mode::Discard,
        Mode::Overwrite => blkkin_ring::Mode::Overwrite,
    };
    let size = channel.subbuffer_size.unwrap_or(SUBBUFFER_SIZE);
    let largest = || power_of_two_within(ring_size_max(size) / size.max(1)) as u32;
    Shape {
        rings: ring_count(),
        subbuffer_size: size as usize,
        subbuffer_count: channel.subbuffer_count.unwrap_or_else(largest) as usize,
        mode,
        uuid,
        stream,
        event_size: channel.event_size.unwrap_or(0),
        wait_us: channel.wait_us,
        start: 0,
    }
}

/// Returns the shape of one program's rings for a channel. If the channel has no number of
/// sub-buffers, the number follows from the memory limit of the program's control group
/// (`memory_limit`), the machine's memory, and what is left of the user's quota.
pub(crate) fn shape_for(
    channel: &Channel,
    stream: u32,
    account: &Account,
    memory_limit: impl FnOnce() -> Option<u64>,
) -> Shape {
    let mut shape = shape_of(channel, stream, [0; 16]);
    if channel.subbuffer_count.is_some() {
        return shape;
    }
    let memory = memory_limit().unwrap_or(u64::MAX).min(memory_total());
    let (limit, left) = account.limit_and_left(Quota::RingBytes);
    let spare = left.saturating_sub(limit / 2) / FLIGHT_QUOTA_PART;
    let ring = (memory / FLIGHT_MEMORY_PART).min(spare) / shape.rings as u64;
    let count = power_of_two_within(ring / shape.subbuffer_size as u64) as usize;
    let (smallest, largest) = (SUBBUFFER_COUNT_FILLED as usize, shape.subbuffer_count);
    shape.subbuffer_count = count.clamp(smallest, largest);
    while shape.subbuffer_count > smallest && !account.has(Quota::RingBytes, charge_min(&shape)) {
        shape.subbuffer_count /= 2;
    }
    shape
}

/// Returns whether rings of `shape` may have been made for a channel whose largest shape is `own`.
pub(crate) fn is_shape_of(channel: &Channel, own: &Shape, shape: &Shape) -> bool {
    let has_count = match channel.subbuffer_count {
        Some(_) => shape.subbuffer_count == own.subbuffer_count,
        None => shape.subbuffer_count <= own.subbuffer_count,
    };
    has_count && (shape.subbuffer_size, shape.mode) == (own.subbuffer_size, own.mode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quota::{Accounts, Limits};
    use std::sync::Arc;

    fn overwriting(memory: Option<u64>, sizes: (Option<u64>, Option<u32>)) -> Channel {
        let named = Channel::named("c");
        let (subbuffer_size, subbuffer_count) = sizes;
        let mode = Mode::Overwrite;
        let mut channel = Channel { mode, subbuffer_size, subbuffer_count, ..named };
        let retention = Retention { keep_ms: None, memory };
        fill_in_sizes(&mut channel, false, Purpose::Snapshot, retention);
        channel
    }

    fn account(ring_bytes: u64) -> Arc<Account> {
        Accounts::new(Limits { ring_bytes, ..Limits::default() }, None).of(7)
    }

    #[test]
    fn a_stated_memory_is_divided_among_the_rings() {
        let rings = ring_count() as u64;
        for memory in (14..40).flat_map(|bits| [rings << bits, (rings << bits) + (1 << bits)]) {
            let shape = shape_of(&overwriting(Some(memory), (None, None)), 0, [0; 16]);
            shape.check().unwrap();
            let all = rings * shape.ring_size() as u64;
            assert!(all <= memory && all > memory / 4, "{memory}: {shape:?}");
        }
        let memory = Some(rings << 20);
        let sizes = |stated| {
            let channel = overwriting(memory, stated);
            (channel.subbuffer_size, channel.subbuffer_count)
        };
        assert_eq!(sizes((None, None)), (Some(64 << 10), Some(16)));
        assert_eq!(sizes((Some(4096), None)), (Some(4096), Some(256)));
        assert_eq!(sizes((None, Some(8))), (Some(128 << 10), Some(8)));
        assert_eq!(sizes((Some(4096), Some(4))), (Some(4096), Some(4)));
        // The user states a size that is impossible within the memory.
        let impossible = shape_of(&overwriting(memory, (Some(1 << 20), None)), 0, [0; 16]);
        assert!(impossible.check().is_err());
    }

    #[test]
    fn rings_without_a_stated_size_fit_into_memory_and_quota() {
        if blkkin_sys::is_accounting_strict() {
            return;
        }
        let channel = overwriting(None, (None, None));
        assert_eq!((channel.subbuffer_size, channel.subbuffer_count), (Some(SUBBUFFER_SIZE), None));
        let count = |account: &Account, limit| {
            let shape = shape_for(&channel, 0, account, || limit);
            shape.check().unwrap();
            assert!(is_shape_of(&channel, &shape_of(&channel, 0, [0; 16]), &shape));
            shape.subbuffer_count as u64
        };
        let rings = ring_count() as u64;
        let rich = account(1 << 50);
        let largest = count(&rich, None);
        assert!((4..=64).contains(&largest), "{largest}");
        let ring = largest * SUBBUFFER_SIZE;
        assert!(largest == 4 || rings * ring <= memory_total() / 64, "{largest}");
        // The control group permits less, or less than the minimum.
        let group = 64 * rings * 8 * SUBBUFFER_SIZE;
        assert_eq!(count(&rich, Some(group)), largest.min(8));
        assert_eq!(count(&rich, Some(1)), 4);
        // The upper half of the quota is for larger rings, an eighth of it for one program.
        let limit = 2 * 8 * rings * 8 * SUBBUFFER_SIZE;
        let poor = account(limit);
        assert_eq!(count(&poor, None), largest.min(8));
        let _used = poor.reserve(Quota::RingBytes, limit / 2).unwrap();
        assert_eq!(count(&poor, None), 4);
    }

    #[test]
    fn rings_of_another_size_are_forged() {
        let channel = overwriting(Some((ring_count() as u64) << 20), (None, None));
        let own = shape_of(&channel, 0, [0; 16]);
        assert!(is_shape_of(&channel, &own, &own));
        let smaller = Shape { subbuffer_count: own.subbuffer_count / 2, ..own };
        assert!(!is_shape_of(&channel, &own, &smaller));
        let channel = overwriting(None, (None, None));
        let own = shape_of(&channel, 0, [0; 16]);
        let larger = Shape { subbuffer_count: own.subbuffer_count * 2, ..own };
        assert!(!is_shape_of(&channel, &own, &larger));
    }
}
