//! Readings of a producer's clocks beside the relay's: for viewers, and in a file beside each
//! trace.

use crate::chunk::Chunk;
use blkkin_ctf::clock_offsets::{FILE, Measurement, Offsets};
use blkkin_ctf::schema::Uuid;
use blkkin_lttng::relay::ClockReadings;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::time::SystemTime;

/// Readings of one producer's clocks.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    readings: Vec<ClockReadings>,
    /// Number of all readings, with those that were thinned out.
    count: u64,
}

/// Maximum number of readings that are kept for viewers. If there are more, every second one of the
/// older ones is forgotten. Files have all of them.
const READINGS_MAX: usize = 4096;
/// Number of last readings of which none is forgotten.
const KEPT: usize = 256;

impl Clocks {
    /// Adds readings. Returns false if they are of another boot than those before.
    pub(crate) fn add(&mut self, readings: ClockReadings) -> bool {
        if self.readings.first().is_some_and(|first| first.boot != readings.boot) {
            return false;
        }
        if self.readings.len() >= READINGS_MAX {
            let thinned = self.readings.len() - KEPT;
            let mut number = 0;
            self.readings.retain(|_| {
                number += 1;
                number > thinned || number % 2 == 1
            });
        }
        self.readings.push(readings);
        self.count += 1;
        true
    }

    /// Returns all readings.
    pub(crate) fn readings(&self) -> &[ClockReadings] {
        &self.readings
    }

    /// Returns the number of readings that were added.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Appends readings to the file of a trace, whose path is below the chunk's directory; all
    /// there are, if the file is new. A line is written whole or not at all.
    pub(crate) fn append_to(
        &self,
        chunk: &Chunk,
        path: &str,
        added: Option<&ClockReadings>,
    ) -> io::Result<()> {
        let Some(first) = self.readings.first() else { return Ok(()) };
        let open = |directory: &Path| {
            OpenOptions::new().append(true).create(true).open(directory.join(FILE))
        };
        let mut file = chunk.open_in(path, open)?;
        let size = file.metadata()?.len();
        let text = if size == 0 {
            let measurements = self.readings.iter().map(measurement).collect();
            Offsets { boot: Uuid(first.boot), measurements }.text()
        } else {
            added.map(|added| measurement(added).line()).unwrap_or_default()
        };
        let written = file.write_all(text.as_bytes());
        if written.is_err() {
            file.set_len(size)?;
        }
        written
    }
}

fn measurement(readings: &ClockReadings) -> Measurement {
    let ClockReadings { monotonic_ns, tsc, relay_ns, error_ns, .. } = *readings;
    Measurement { monotonic_ns, tsc, reference_ns: relay_ns, error_ns }
}

/// Returns the present time in nanoseconds since 1970.
pub(crate) fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}
