//! Positions up to which the packets of each stream were sent, shared by the thread that sends them
//! and the one that drops packets for which there is no room.

use crate::positions::Positions;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Positions of streams after the last packet that was sent, by the stream's path below the
/// directory. A packet is read and removed only while these are locked, so that each is either sent
/// or dropped.
#[derive(Debug, Default)]
pub struct SentPositions(Mutex<SentPackets>);

/// The positions, while they are locked.
#[derive(Debug, Default)]
pub(crate) struct SentPackets {
    packets: HashMap<String, u64>,
    /// Set once the positions contain what was acknowledged before this process has started.
    pub(crate) is_complete: bool,
}

impl SentPositions {
    pub(crate) fn lock(&self) -> MutexGuard<'_, SentPackets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what a relay has acknowledged.
    pub(crate) fn begin_with(&self, acknowledged: &Positions) {
        let mut sent = self.lock();
        for (stream, position) in acknowledged.all() {
            sent.raise(stream, position.packets);
        }
        sent.is_complete = true;
    }
}

impl SentPackets {
    pub(crate) fn of(&self, stream: &str) -> u64 {
        self.packets.get(stream).copied().unwrap_or_default()
    }

    /// Notes that all packets before a position were sent. What was sent over an earlier connection
    /// counts, too, since the relay may have it.
    pub(crate) fn raise(&mut self, stream: &str, packets: u64) {
        match self.packets.get_mut(stream) {
            Some(position) => *position = (*position).max(packets),
            None => drop(self.packets.insert(stream.to_owned(), packets)),
        }
    }

    /// Notes that packets after a position were removed, so that others follow there.
    pub(crate) fn rewind(&mut self, stream: &str, packets: u64) {
        let position = self.packets.get_mut(stream);
        position.into_iter().for_each(|position| *position = packets.min(*position));
    }

    pub(crate) fn remove(&mut self, stream: &str) {
        self.packets.remove(stream);
    }
}
