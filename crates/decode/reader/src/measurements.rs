//! Measurements of clocks in the directories of a trace, by which its times are corrected.

use crate::error::{Problem, ProblemKind};
use crate::trace::Trace;
use blkkin_ctf::clock_offsets::{FILE, FILE_SIZE_MAX, Measurements};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Corrects the times of a trace from now on by the measurements in its directories, if there are
/// any. Returns the problems of their files. Does nothing for a live trace.
pub(crate) fn align(trace: &Trace) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut measurements: Option<Measurements> = None;
    for file in files_of(trace) {
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
        let clock = trace.schema().clocks.first();
        let correction = clock.and_then(|clock| measurements.correction(clock));
        trace.alignment().set(correction.map(Arc::new));
    }
    problems
}

/// Returns the total size of a trace's files with measurements, by which growth is noticed.
pub(crate) fn size_of(trace: &Trace) -> u64 {
    let files = files_of(trace);
    files.iter().filter_map(|file| fs::symlink_metadata(file).ok()).map(|it| it.len()).sum()
}

fn files_of(trace: &Trace) -> BTreeSet<PathBuf> {
    if trace.data.is_live {
        return BTreeSet::new();
    }
    let files = trace.streams.iter().flat_map(|stream| &stream.files);
    let directories = files.filter_map(|part| part.file.path().parent()).chain([&*trace.path]);
    directories.map(|directory| directory.join(FILE)).collect()
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
