//! Correction of times by measurements of clocks that a relay has stored, so that events of several
//! machines are comparable. Without it, times are those that were recorded.

use blkkin_ctf::clock::TimeScale;
use blkkin_ctf::clock_offsets::Correction;
use parking_lot::RwLock;
use std::sync::Arc;

/// Clock by which a reader gives times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeBase {
    /// The machine's clock, as it was recorded.
    #[default]
    Recorded,
    /// The relay's clock, as far as the machine's was measured against it.
    Relay,
}

/// Present correction of a trace's clock, which changes while a live trace is read. Clones refer to
/// the same.
#[derive(Clone, Debug, Default)]
pub struct Alignment(Arc<RwLock<Option<Arc<Correction>>>>);

impl From<Correction> for Alignment {
    fn from(correction: Correction) -> Alignment {
        Alignment(Arc::new(RwLock::new(Some(Arc::new(correction)))))
    }
}

impl Alignment {
    /// Returns the present correction; `None` if times are not corrected.
    pub fn correction(&self) -> Option<Arc<Correction>> {
        self.0.read().clone()
    }

    pub(crate) fn set(&self, correction: Option<Arc<Correction>>) {
        *self.0.write() = correction;
    }
}

/// Conversion between cycles of a trace's clock and nanoseconds, with the correction.
#[derive(Clone, Debug)]
pub(crate) struct CorrectedScale {
    pub(crate) recorded: TimeScale,
    pub(crate) correction: Option<Arc<Correction>>,
}

impl CorrectedScale {
    /// Converts a clock reading to nanoseconds from the clock's origin; saturates.
    #[inline]
    pub(crate) fn ns(&self, cycles: u64) -> i64 {
        let ns = self.recorded.ns(cycles);
        match &self.correction {
            None => ns,
            Some(correction) => correction.correct(ns),
        }
    }

    /// Returns about the last clock reading at or before `ns`; saturates.
    pub(crate) fn cycles(&self, ns: i64) -> u64 {
        match &self.correction {
            None => self.recorded.cycles(ns),
            Some(correction) => self.recorded.cycles(correction.uncorrect(ns)),
        }
    }
}
