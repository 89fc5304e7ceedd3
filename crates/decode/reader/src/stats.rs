//! Totals of a reading, and its progress while it runs.

use crate::error::Problem;
use crate::loss::{Loss, LossKind};
use std::collections::HashSet;
use std::sync::atomic::AtomicU64;

/// How far a reading is, for whoever wants to show it.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes of packets read.
    pub bytes: AtomicU64,
    /// Events passed on.
    pub events: AtomicU64,
}

/// What came of a reading.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Events passed on.
    pub events: u64,
    /// Events that the tracer discarded.
    pub events_lost: u64,
    /// Places where it discarded events but does not say how many.
    pub events_lost_unknown: u64,
    /// Packets that are missing.
    pub packets_lost: u64,
    /// Places where an unknown number of packets is missing.
    pub packets_lost_unknown: u64,
    /// What could not be read.
    pub problems: Vec<Problem>,
}

impl Stats {
    /// Adds what came of another part.
    pub fn add(&mut self, other: Stats) {
        self.events += other.events;
        self.events_lost = self.events_lost.saturating_add(other.events_lost);
        self.events_lost_unknown += other.events_lost_unknown;
        self.packets_lost = self.packets_lost.saturating_add(other.packets_lost);
        self.packets_lost_unknown += other.packets_lost_unknown;
        self.problems.extend(other.problems);
    }

    /// Drops problems that were found more than once.
    pub(crate) fn drop_repeated_problems(&mut self) {
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
