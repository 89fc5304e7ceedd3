//! Where events go: a slot for each channel of a session, with the rings that the node's daemon has
//! given for it, or none.

use crate::moment;
use blkkin_ring::{Slot, StillUsed, Writer, rooms};
use blkkin_sys::WipedOnFork;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// Most channels at a time. Two bits in each event's type stand for one.
pub const CHANNELS_MAX: usize = 31;

/// Children find them empty, whoever made them, so that they do not write to the rings of their parents.
/// What a child inherits of those stays mapped: a signal handler that forks may have interrupted somebody
/// who uses it.
static SLOTS: WipedOnFork<[Slot; SLOTS_SIZE]> =
    WipedOnFork::of([const { Slot::new() }; SLOTS_SIZE]);

/// One more than are used, so that a remainder says of every bit which one is meant.
const SLOTS_SIZE: usize = CHANNELS_MAX + 1;
const _: () = assert!(SLOTS_SIZE.is_power_of_two());

/// Bytes of the largest event of each channel.
static EVENT_SIZES: [AtomicUsize; SLOTS_SIZE] = [const { AtomicUsize::new(0) }; SLOTS_SIZE];

/// Has children find no writers. False if the kernel cannot do that.
pub(crate) fn prepare() -> bool {
    rooms::prepare() && SLOTS.arm()
}

/// Bytes of the largest event of a channel. At the moment of a change it may be that of the rings before.
pub(crate) fn event_size_max(channel: usize) -> usize {
    EVENT_SIZES[channel % SLOTS_SIZE].load(Ordering::Relaxed)
}

/// Makes room for the largest events of rings that a channel is about to get.
fn expect_events(channel: usize, writer: &Writer) {
    let size = writer.event_size_max();
    rooms::provide(size);
    EVENT_SIZES[channel % SLOTS_SIZE].store(size, Ordering::Relaxed);
}

/// A channel's slot.
#[inline(always)]
pub(crate) fn slot(channel: usize) -> &'static Slot {
    &SLOTS.get()[channel % SLOTS_SIZE]
}

/// The same, if there is such a channel.
fn find_slot(channel: usize) -> Option<&'static Slot> {
    (channel < CHANNELS_MAX).then(|| slot(channel))
}

/// Gives a channel its rings; gives them back if it has some already, or there is no such channel.
pub fn attach(channel: usize, writer: Box<Writer>) -> Result<(), Box<Writer>> {
    match find_slot(channel) {
        Some(slot) => {
            let clock = writer.clock();
            expect_events(channel, &writer);
            slot.put(writer)?;
            moment::set_clock(clock);
            Ok(())
        }
        None => Err(writer),
    }
}

/// Takes a channel's rings away, when no thread uses them any more.
pub fn detach(channel: usize, patience: Duration) -> Result<Option<Box<Writer>>, StillUsed> {
    match find_slot(channel) {
        Some(slot) => slot.take(patience),
        None => Ok(None),
    }
}

/// Channels that have had contexts, those that have had none, and those that are not to be used any more:
/// a bit for each.
static WITH_CONTEXTS: AtomicU32 = AtomicU32::new(0);
static PLAIN: AtomicU32 = AtomicU32::new(0);
static SPENT: AtomicU32 = AtomicU32::new(0);

/// Gives rings to a channel that has none; its number. To be called by one thread only.
///
/// A thread that was stopped may record an event into a channel long after it saw that it is wanted there.
/// It must not come among events that have something else before their fields. So channels with contexts
/// and those without never take each other's places.
pub(crate) fn attach_somewhere(mut writer: Box<Writer>, has_contexts: bool) -> Option<usize> {
    let (same, others) = match has_contexts {
        true => (&WITH_CONTEXTS, &PLAIN),
        false => (&PLAIN, &WITH_CONTEXTS),
    };
    let unfit = others.load(Ordering::Relaxed) | SPENT.load(Ordering::Relaxed);
    // From both ends, so that either finds places that it had before.
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

/// Gives other rings to a channel: each event goes to one of them. False, and nothing has changed, if the
/// channel has none. The old ones are let go.
pub(crate) fn replace(channel: usize, writer: Box<Writer>) -> bool {
    expect_events(channel, &writer);
    find_slot(channel).is_some_and(|slot| slot.replace(writer, PATIENCE).is_ok())
}

/// How long threads have to finish with rings that are taken away.
const PATIENCE: Duration = Duration::from_secs(1);

/// Takes a channel's rings away. If a thread may still go by what the channel was to record, its place is
/// not used again.
pub(crate) fn detach_for_good(channel: usize, is_unused: bool) {
    if !is_unused {
        SPENT.fetch_or(1 << channel, Ordering::Relaxed);
    }
    drop(detach(channel, PATIENCE));
}
