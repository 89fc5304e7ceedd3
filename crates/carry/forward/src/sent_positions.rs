//! Positions up to which the packets of each stream were sent, shared by the thread that sends them
//! and the one that drops packets for which there is no room.

use crate::positions::{Position, Positions};
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
    positions: HashMap<String, Position>,
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
            sent.raise(stream, position);
        }
        sent.is_complete = true;
    }
}

impl SentPackets {
    pub(crate) fn of(&self, stream: &str) -> Position {
        self.positions.get(stream).copied().unwrap_or_default()
    }

    /// Notes that all packets before a position were sent. What was sent over an earlier connection
    /// counts, too, since the relay may have it.
    pub(crate) fn raise(&mut self, stream: &str, position: Position) {
        if self.of(stream).packets <= position.packets {
            self.set(stream, position);
        }
    }

    /// Sets a position anew, because packets before it were removed and others follow there.
    pub(crate) fn set(&mut self, stream: &str, position: Position) {
        match self.positions.get_mut(stream) {
            Some(known) => *known = position,
            None => drop(self.positions.insert(stream.to_owned(), position)),
        }
    }

    pub(crate) fn remove(&mut self, stream: &str) {
        self.positions.remove(stream);
    }
}
