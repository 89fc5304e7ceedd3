//! Totals of a reading, and its progress while it runs.

use crate::error::Problem;
use crate::loss::{Loss, LossKind};
use std::collections::HashSet;
use std::sync::atomic::AtomicU64;

/// Progress of a reading, updated while it runs.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes of packets started so far.
    pub bytes: AtomicU64,
    /// Events delivered so far.
    pub events: AtomicU64,
}

/// Totals of a reading.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Number of events delivered.
    pub events: u64,
    /// Number of events discarded by the tracer.
    pub events_lost: u64,
    /// Number of losses with an unknown number of events.
    pub events_lost_unknown: u64,
    /// Number of missing packets.
    pub packets_lost: u64,
    /// Number of losses with an unknown number of packets.
    pub packets_lost_unknown: u64,
    /// Problems found while reading.
    pub problems: Vec<Problem>,
}

impl Stats {
    /// Adds the totals of another part of the reading.
    pub fn add(&mut self, other: Stats) {
        self.events += other.events;
        self.events_lost = self.events_lost.saturating_add(other.events_lost);
        self.events_lost_unknown += other.events_lost_unknown;
        self.packets_lost = self.packets_lost.saturating_add(other.packets_lost);
        self.packets_lost_unknown += other.packets_lost_unknown;
        self.problems.extend(other.problems);
    }

    /// Drops repeated problems.
    pub(crate) fn deduplicate_problems(&mut self) {
        let mut known = HashSet::new();
        self.problems.retain(|problem| known.insert(problem.to_string()));
    }

    pub(crate) fn add_loss(&mut self, loss: &Loss) {
        match (loss.kind, loss.count) {
            (LossKind::Events, Some(count)) => {
                self.events_lost = self.events_lost.saturating_add(count);
            }
            (LossKind::Events, None) => self.events_lost_unknown += 1,
            (LossKind::Packets, Some(count)) => {
                self.packets_lost = self.packets_lost.saturating_add(count);
            }
            (LossKind::Packets, None) => self.packets_lost_unknown += 1,
        }
    }
}
