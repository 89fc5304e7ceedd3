//! Totals of a reading, and its progress while it runs.

use crate::error::Problem;
use crate::loss::{Loss, LossKind};
use std::collections::HashSet;
use std::sync::atomic::AtomicU64;

/// Counters of a reading's progress, updated while it runs.
#[derive(Debug, Default)]
pub struct Progress {
    /// Total size of all packets started so far, in bytes.
    pub bytes: AtomicU64,
    /// Number of whole events delivered to the consumer, or only counted for it, so far.
    pub events: AtomicU64,
}

/// Totals of a reading that has ended, or of a part of it.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Number of whole events delivered to the consumer, or only counted for it.
    pub events: u64,
    /// Number of events discarded by the tracer.
    pub events_lost: u64,
    /// Number of losses for which the number of lost events is unknown.
    pub events_lost_unknown: u64,
    /// Number of packets that were overwritten or deleted.
    pub packets_lost: u64,
    /// Number of losses for which the number of lost packets is unknown.
    pub packets_lost_unknown: u64,
    /// Problems found in the traces while reading.
    pub problems: Vec<Problem>,
}

impl Stats {
    /// Adds `other`, the totals of another part of the same reading.
    pub fn add(&mut self, other: Stats) {
        self.events += other.events;
        self.events_lost = self.events_lost.saturating_add(other.events_lost);
        self.events_lost_unknown += other.events_lost_unknown;
        self.packets_lost = self.packets_lost.saturating_add(other.packets_lost);
        self.packets_lost_unknown += other.packets_lost_unknown;
        self.problems.extend(other.problems);
    }

    /// Removes repetitions of the same problem.
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
