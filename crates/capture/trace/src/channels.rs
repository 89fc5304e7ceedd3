//! The slots of the program's channels. A slot is empty, or has a writer for the rings that the
//! agent provided.

use crate::timestamp;
use blkkin_ring::{Slot, Writer, WriterInUse, large_event_memory};
use blkkin_sys::WipedOnFork;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// Maximum number of channels at a time. Each channel has two bits in every event type.
pub const CHANNELS_MAX: usize = 31;

/// Slots by channel number. Forked children find the slots empty, so that they do not write to
/// their parents' rings. The parent's mappings remain in the child, because a signal handler that
/// forks may have interrupted a thread that uses them.
static SLOTS: WipedOnFork<[Slot; SLOTS_SIZE]> =
    WipedOnFork::of([const { Slot::new() }; SLOTS_SIZE]);

/// Number of slots: a power of two, one more than channels. Any channel number modulo this number
/// is a valid index.
const SLOTS_SIZE: usize = CHANNELS_MAX + 1;
const _: () = assert!(SLOTS_SIZE.is_power_of_two());

/// Maximum size of an event of each channel, in bytes.
static EVENT_SIZES: [AtomicUsize; SLOTS_SIZE] = [const { AtomicUsize::new(0) }; SLOTS_SIZE];

/// Registers with the kernel the slots, and the bitmaps of the preallocated buffers for large
/// events. The kernel clears both in forked children. Returns false if it cannot do that.
pub(crate) fn prepare() -> bool {
    large_event_memory::prepare() && SLOTS.arm()
}

/// Returns the maximum size in bytes of a channel's events. While rings are being replaced, this
/// may be the size for the old or the new rings.
pub(crate) fn event_size_max(channel: usize) -> usize {
    EVENT_SIZES[channel % SLOTS_SIZE].load(Ordering::Relaxed)
}

/// Allocates buffers for the largest events of the rings that are about to be attached to a
/// channel, and stores the maximum size of these events.
fn prepare_rooms(channel: usize, writer: &Writer) {
    let size = writer.event_size_max();
    large_event_memory::provide(size);
    EVENT_SIZES[channel % SLOTS_SIZE].store(size, Ordering::Relaxed);
}

/// Returns a channel's slot, which is empty if no rings are attached.
#[inline(always)]
pub(crate) fn slot(channel: usize) -> &'static Slot {
    &SLOTS.get()[channel % SLOTS_SIZE]
}

/// Returns the slot of a channel; `None` if the channel's number is too high.
fn find_slot(channel: usize) -> Option<&'static Slot> {
    (channel < CHANNELS_MAX).then(|| slot(channel))
}

/// Attaches rings to a channel. Returns the rings as an error if the channel does not exist, has
/// rings already, or is unusable since a [`detach`] failed.
pub fn attach(channel: usize, writer: Box<Writer>) -> Result<(), Box<Writer>> {
    match find_slot(channel) {
        // The size of an occupied channel's events must not change.
        Some(slot) if slot.is_empty() => {
            let clock = writer.clock();
            prepare_rooms(channel, &writer);
            slot.put(writer)?;
            timestamp::set_clock(clock);
            Ok(())
        }
        _ => Err(writer),
    }
}

/// Detaches a channel's rings and returns them, once no thread uses them any more; `None` if the
/// channel has no rings. Fails if a thread still uses the rings after `patience`. The rings then
/// stay mapped, and the channel is unusable.
pub fn detach(channel: usize, patience: Duration) -> Result<Option<Box<Writer>>, WriterInUse> {
    match find_slot(channel) {
        Some(slot) => slot.take(patience),
        None => Ok(None),
    }
}

/// Bitmap of the channel numbers that were used with contexts. `WITHOUT_CONTEXTS` has the numbers
/// used without contexts, and `RETIRED` the numbers that are never reused.
static WITH_CONTEXTS: AtomicU32 = AtomicU32::new(0);
static WITHOUT_CONTEXTS: AtomicU32 = AtomicU32::new(0);
static RETIRED: AtomicU32 = AtomicU32::new(0);

/// Attaches rings to a free channel and returns its number; `None` if no suitable channel is free.
/// Only one thread may call this.
///
/// A thread may match an event with a channel, be suspended, and record the event much later. The
/// channel may have other rings by then, whose events have other context fields. So a number that
/// was used with contexts is reused only with contexts, and a number without contexts only without.
pub(crate) fn attach_to_free_slot(mut writer: Box<Writer>, has_contexts: bool) -> Option<usize> {
    let (same, others) = match has_contexts {
        true => (&WITH_CONTEXTS, &WITHOUT_CONTEXTS),
        false => (&WITHOUT_CONTEXTS, &WITH_CONTEXTS),
    };
    let unfit = others.load(Ordering::Relaxed) | RETIRED.load(Ordering::Relaxed);
    // The searches with and without contexts start at opposite ends, so that each finds the numbers
    // that it used before.
    for step in 0..CHANNELS_MAX {
        let channel = if has_contexts { CHANNELS_MAX - 1 - step } else { step };
        if unfit >> channel & 1 != 0 {
            continue;
        }
        match attach(channel, writer) {
            Ok(()) => {
                same.fetch_or(1 << channel, Ordering::Relaxed);
                return Some(channel);
            }
            Err(back) => writer = back,
        }
    }
    None
}

/// Replaces a channel's rings, and unmaps the old ones unless a thread still uses them after
/// [`PATIENCE`]. Each event is recorded into the old rings or the new ones, never into both.
/// Returns false, and attaches no rings, if the channel has none.
pub(crate) fn replace(channel: usize, writer: Box<Writer>) -> bool {
    prepare_rooms(channel, &writer);
    find_slot(channel).is_some_and(|slot| slot.replace(writer, PATIENCE).is_ok())
}

/// How long [`replace`] and [`detach_permanently`] wait for threads that still use the rings.
const PATIENCE: Duration = Duration::from_secs(1);

/// Detaches a channel's rings, and unmaps them unless a thread still uses them after [`PATIENCE`].
/// `is_unused` is true if no thread uses the channel's former rules any more. Otherwise the
/// channel's number is never reused.
pub(crate) fn detach_permanently(channel: usize, is_unused: bool) {
    if !is_unused {
        RETIRED.fetch_or(1 << channel, Ordering::Relaxed);
    }
    drop(detach(channel, PATIENCE));
}
