//! Measurements of the clocks of a session's producer, and the corrections that follow from them.

use blkkin_ctf::clock_offsets::{Correction, Measurements};
use blkkin_ctf::schema::{Clock, Uuid};
use blkkin_lttng::viewer::MEASUREMENTS_MAX;
use std::sync::Arc;

/// Measurements of a producer's clocks.
#[derive(Debug)]
pub(super) struct ProducerClocks {
    /// The last measurements.
    measurements: Measurements,
    /// Number of all measurements that the relay has had.
    count: u64,
    /// Corrections of the clocks that traces have: most traces of a session have the same.
    corrections: Vec<(Clock, Option<Arc<Correction>>)>,
    has_more: bool,
}

/// Maximum number of measurements that are kept, as at the relay.
const KEPT_MAX: usize = 65_536;
/// Maximum number of different clocks whose corrections are shared.
const CLOCKS_MAX: usize = 16;

impl Default for ProducerClocks {
    fn default() -> ProducerClocks {
        let measurements = Measurements { boot: Uuid([0; 16]), list: Vec::new() };
        ProducerClocks { measurements, count: 0, corrections: Vec::new(), has_more: false }
    }
}

impl ProducerClocks {
    /// Returns the number of measurements that need not be requested again.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Adds measurements of a reply, the first of which has this number.
    pub(super) fn add(&mut self, first: u64, more: Measurements) {
        let Measurements { boot, list } = more;
        if list.is_empty() {
            self.has_more = false;
            return;
        }
        if self.measurements.boot != boot {
            self.measurements = Measurements { boot, list: Vec::new() };
        }
        self.count = first.saturating_add(list.len() as u64);
        self.has_more = list.len() >= MEASUREMENTS_MAX as usize;
        self.measurements.extend(&list, KEPT_MAX);
        self.corrections.clear();
    }

    /// Returns whether the last reply was full, so that the relay may have more.
    pub(super) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Returns the correction of a clock; `None` if it was not measured.
    pub(super) fn correction(&mut self, clock: &Clock) -> Option<Arc<Correction>> {
        if let Some((_, known)) = self.corrections.iter().find(|(known, _)| known == clock) {
            return known.clone();
        }
        let correction = self.measurements.correction(clock).map(Arc::new);
        if self.corrections.len() < CLOCKS_MAX {
            self.corrections.push((clock.clone(), correction.clone()));
        }
        correction
    }
}
