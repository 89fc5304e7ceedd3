//! Channels: a slot for each channel of a session, with the rings that the agent provided, or
//! empty.

use crate::moment;
use blkkin_ring::{Slot, StillUsed, Writer, rooms};
use blkkin_sys::WipedOnFork;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// Maximum number of channels at a time. Each has two bits in every event type.
pub const CHANNELS_MAX: usize = 31;

/// Forked children find the slots empty, so that they do not write to the rings of their parents.
/// The parent's mappings remain in the child: a signal handler that forks may have interrupted a
/// thread that uses them.
static SLOTS: WipedOnFork<[Slot; SLOTS_SIZE]> =
    WipedOnFork::of([const { Slot::new() }; SLOTS_SIZE]);

/// One more than is used, a power of two, so that every index modulo the size names a slot.
const SLOTS_SIZE: usize = CHANNELS_MAX + 1;
const _: () = assert!(SLOTS_SIZE.is_power_of_two());

/// Bytes of the largest event of each channel.
static EVENT_SIZES: [AtomicUsize; SLOTS_SIZE] = [const { AtomicUsize::new(0) }; SLOTS_SIZE];

/// Makes slots and rooms empty in forked children. Returns false if the kernel cannot do that.
pub(crate) fn prepare() -> bool {
    rooms::prepare() && SLOTS.arm()
}

/// Bytes of a channel's largest event. While rings are replaced this may be the value of the old
/// rings.
pub(crate) fn event_size_max(channel: usize) -> usize {
    EVENT_SIZES[channel % SLOTS_SIZE].load(Ordering::Relaxed)
}

/// Prepares memory for the largest events of rings that a channel is about to get.
fn prepare_rooms(channel: usize, writer: &Writer) {
    let size = writer.event_size_max();
    rooms::provide(size);
    EVENT_SIZES[channel % SLOTS_SIZE].store(size, Ordering::Relaxed);
}

/// Returns a channel's slot.
#[inline(always)]
pub(crate) fn slot(channel: usize) -> &'static Slot {
    &SLOTS.get()[channel % SLOTS_SIZE]
}

/// Returns a channel's slot; `None` if the number is too high.
fn find_slot(channel: usize) -> Option<&'static Slot> {
    (channel < CHANNELS_MAX).then(|| slot(channel))
}

/// Attaches rings to a channel. Returns them if the channel has rings already or does not exist.
pub fn attach(channel: usize, writer: Box<Writer>) -> Result<(), Box<Writer>> {
    match find_slot(channel) {
        Some(slot) => {
            let clock = writer.clock();
            prepare_rooms(channel, &writer);
            slot.put(writer)?;
            moment::set_clock(clock);
            Ok(())
        }
        None => Err(writer),
    }
}

/// Detaches a channel's rings, once no thread uses them any more.
pub fn detach(channel: usize, patience: Duration) -> Result<Option<Box<Writer>>, StillUsed> {
    match find_slot(channel) {
        Some(slot) => slot.take(patience),
        None => Ok(None),
    }
}

/// Bitmaps of channel numbers: those that were used with contexts, those that were used without,
/// and those that must not be used again.
static WITH_CONTEXTS: AtomicU32 = AtomicU32::new(0);
static WITHOUT_CONTEXTS: AtomicU32 = AtomicU32::new(0);
static RETIRED: AtomicU32 = AtomicU32::new(0);

/// Attaches rings to a free channel and returns its number. Only one thread may call this.
///
/// A thread that was stopped may record an event into a channel long after it saw that the channel
/// wants it. That event must not get among events with other contexts before their fields. So a
/// number that was used with contexts is never reused without them, or the other way round.
pub(crate) fn attach_to_free_slot(mut writer: Box<Writer>, has_contexts: bool) -> Option<usize> {
    let (same, others) = match has_contexts {
        true => (&WITH_CONTEXTS, &WITHOUT_CONTEXTS),
        false => (&WITHOUT_CONTEXTS, &WITH_CONTEXTS),
    };
    let unfit = others.load(Ordering::Relaxed) | RETIRED.load(Ordering::Relaxed);
    // The two kinds search from opposite ends, so that each finds the numbers that it used before.
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

/// Replaces a channel's rings; each event goes to one of the two. Returns false, and changes
/// nothing, if the channel has no rings. The old rings are unmapped.
pub(crate) fn replace(channel: usize, writer: Box<Writer>) -> bool {
    prepare_rooms(channel, &writer);
    find_slot(channel).is_some_and(|slot| slot.replace(writer, PATIENCE).is_ok())
}

/// How long threads have to finish with detached rings.
const PATIENCE: Duration = Duration::from_secs(1);

/// Detaches a channel's rings. If a thread may still use the channel's former rules, the number is
/// not used again.
pub(crate) fn detach_permanently(channel: usize, is_unused: bool) {
    if !is_unused {
        RETIRED.fetch_or(1 << channel, Ordering::Relaxed);
    }
    drop(detach(channel, PATIENCE));
}
