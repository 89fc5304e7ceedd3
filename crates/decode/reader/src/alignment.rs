//! Correction of times by offsets of clocks that a relay has measured, so that events of several
//! machines are comparable. Without it, times are those that were recorded.

use crate::error::{Problem, ProblemKind};
use crate::trace::Trace;
use blkkin_ctf::clock::TimeScale;
use blkkin_ctf::clock_offsets::{Correction, FILE, FILE_SIZE_MAX, Offsets};
use parking_lot::RwLock;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Whether times are corrected by the offsets of clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Times {
    /// Times are those that the machine's clock has shown.
    #[default]
    Recorded,
    /// Times are those that the relay's clock has shown, as far as the offsets are known.
    Aligned,
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

    pub(crate) fn set(&self, correction: Option<Correction>) {
        *self.0.write() = correction.map(Arc::new);
    }
}

/// Conversion between cycles of a trace's clock and nanoseconds, with the correction.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    recorded: TimeScale,
    correction: Option<Arc<Correction>>,
}

impl Scale {
    pub(crate) fn new(recorded: TimeScale, alignment: &Alignment) -> Scale {
        Scale { recorded, correction: alignment.correction() }
    }

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
    /// Corrects the trace's times from now on by the offsets in its directories, if there are any.
    /// Returns the problems of their files. Does nothing for a live trace.
    pub fn align(&self) -> Vec<Problem> {
        if self.data.is_live {
            return Vec::new();
        }
        let files = self.streams.iter().flat_map(|stream| &stream.files);
        let parents = files.filter_map(|part| part.file.path().parent());
        let directories: BTreeSet<&Path> = parents.chain([&*self.path]).collect();
        let mut problems = Vec::new();
        let mut offsets: Option<Offsets> = None;
        for directory in directories {
            match read(&directory.join(FILE)) {
                Ok(None) => {}
                Ok(Some(more)) => match &mut offsets {
                    Some(offsets) => offsets.merge(more),
                    none => *none = Some(more),
                },
                Err(problem) => problems.push(problem),
            }
        }
        if let Some(offsets) = offsets {
            self.align_by(&offsets);
        }
        problems
    }

    /// Corrects the trace's times from now on. Streams with other clocks are not corrected.
    fn align_by(&self, offsets: &Offsets) {
        let clock = self.schema().clocks.first();
        self.data.alignment.set(clock.and_then(|clock| offsets.correction(clock)));
    }
}

/// Reads a file of offsets; `None` if it does not exist, as for traces that no relay has received.
fn read(path: &Path) -> Result<Option<Offsets>, Problem> {
    let size = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => metadata.len(),
        _ => return Ok(None),
    };
    if size > FILE_SIZE_MAX {
        let kind = ProblemKind::Data(format!("larger than {} MiB", FILE_SIZE_MAX >> 20));
        return Err(Problem::new(path, None, kind));
    }
    let text = fs::read(path).map_err(|error| Problem::io(path, "read", &error))?;
    Offsets::parse(&text).map(Some).map_err(|line| {
        let kind = ProblemKind::Data(format!("line {line} is no offset of a clock"));
        Problem::new(path, None, kind)
    })
}
