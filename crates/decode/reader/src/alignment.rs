//! Correction of times by measurements of clocks that a relay has stored, so that events of several
//! machines are comparable. Without it, times are those that were recorded.

use crate::error::{Problem, ProblemKind};
use crate::trace::Trace;
use blkkin_ctf::clock::TimeScale;
use blkkin_ctf::clock_offsets::{Correction, FILE, FILE_SIZE_MAX, Measurements};
use parking_lot::RwLock;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
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

impl Trace {
    /// Corrects the trace's times from now on by the measurements in its directories, if there are
    /// any. Returns the problems of their files. Does nothing for a live trace.
    pub(crate) fn align(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut measurements: Option<Measurements> = None;
        for file in self.measurement_files() {
            match read(&file) {
                Ok(None) => {}
                Ok(Some(more)) => match &mut measurements {
                    Some(measurements) => measurements.merge(more),
                    none => *none = Some(more),
                },
                Err(problem) => problems.push(problem),
            }
        }
        if let Some(measurements) = measurements {
            // Streams with other clocks are not corrected.
            let clock = self.schema().clocks.first();
            let correction = clock.and_then(|clock| measurements.correction(clock));
            self.data.alignment.set(correction.map(Arc::new));
        }
        problems
    }

    /// Returns the total size of the files with measurements, by which they are known to have grown.
    pub(crate) fn measurements_size(&self) -> u64 {
        let files = self.measurement_files();
        files.iter().filter_map(|file| fs::symlink_metadata(file).ok()).map(|it| it.len()).sum()
    }

    fn measurement_files(&self) -> BTreeSet<PathBuf> {
        if self.data.is_live {
            return BTreeSet::new();
        }
        let files = self.streams.iter().flat_map(|stream| &stream.files);
        let directories = files.filter_map(|part| part.file.path().parent()).chain([&*self.path]);
        directories.map(|directory| directory.join(FILE)).collect()
    }
}

/// Reads a file of measurements; `None` if it does not exist, as for traces that no relay has
/// received.
fn read(path: &Path) -> Result<Option<Measurements>, Problem> {
    let size = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => metadata.len(),
        _ => return Ok(None),
    };
    if size > FILE_SIZE_MAX {
        let kind = ProblemKind::Data(format!("larger than {} MiB", FILE_SIZE_MAX >> 20));
        return Err(Problem::new(path, None, kind));
    }
    let text = fs::read(path).map_err(|error| Problem::io(path, "read", &error))?;
    Measurements::parse(&text).map(Some).map_err(|line| {
        let kind = ProblemKind::Data(format!("line {line} is not a measurement of a clock"));
        Problem::new(path, None, kind)
    })
}
