//! Where events go: a slot for each channel of a session, with the rings that the node's daemon has
//! given for it, or none.

use crate::span;
use blkkin_ring::{Slot, StillUsed, Writer};
use std::time::Duration;

/// Most channels at a time. A bit in each event's type stands for one.
pub const CHANNELS_MAX: usize = 63;

static SLOTS: [Slot; CHANNELS_MAX] = [const { Slot::new() }; CHANNELS_MAX];

/// A channel's slot.
#[inline(always)]
pub(crate) fn slot(channel: usize) -> &'static Slot {
    // A bit of an event's type is below 63; the remainder tells the compiler.
    &SLOTS[channel % CHANNELS_MAX]
}

/// Gives a channel its rings; gives them back if it has some already, or there is no such channel.
pub fn attach(channel: usize, writer: Box<Writer>) -> Result<(), Box<Writer>> {
    match SLOTS.get(channel) {
        Some(slot) => {
            span::follow(writer.clock());
            slot.put(writer)
        }
        None => Err(writer),
    }
}

/// Takes a channel's rings away, when no thread uses them any more.
pub fn detach(channel: usize, patience: Duration) -> Result<Option<Box<Writer>>, StillUsed> {
    match SLOTS.get(channel) {
        Some(slot) => slot.take(patience),
        None => Ok(None),
    }
}
