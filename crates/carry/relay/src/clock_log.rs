//! Measurements of a producer's clocks against the relay's: for viewers, and in a file beside each
//! trace.

use crate::chunk::Chunk;
use blkkin_ctf::clock_offsets::{FILE, FILE_SIZE_MAX, Measurement, Measurements};
use blkkin_ctf::schema::Uuid;
use blkkin_lttng::viewer::MEASUREMENTS_MAX;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Instant, SystemTime};

/// Measurements of one producer's clocks.
#[derive(Debug)]
pub(crate) struct ClockLog {
    /// The last measurements.
    kept: Measurements,
    /// Number of all measurements.
    count: u64,
    begun: Instant,
}

/// Maximum number of measurements that are kept: those of a week of constant sending.
const KEPT_MAX: usize = 65_536;
/// Number of the last measurements with which a file begins, and number of those before, some of
/// all. They concern events that have waited at the producer.
const LAST_IN_FILE: usize = 64;
const EARLIER_IN_FILE: usize = 192;
/// Number of measurements that are taken at once, and each second afterwards.
const BURST: u64 = 1024;
const RATE: u64 = 2;

impl Default for ClockLog {
    fn default() -> ClockLog {
        let kept = Measurements { boot: Uuid([0; 16]), list: Vec::new() };
        ClockLog { kept, count: 0, begun: Instant::now() }
    }
}

impl ClockLog {
    /// Adds a measurement. Returns false if it is ignored: it is not later than the last one, there
    /// are too many, or the machine was booted since the last one.
    pub(crate) fn add(&mut self, boot: Uuid, measurement: Measurement) -> bool {
        let is_next = match self.kept.list.last() {
            None => true,
            Some(last) => boot == self.kept.boot && measurement.monotonic_ns > last.monotonic_ns,
        };
        if !is_next || self.count >= BURST + RATE * self.begun.elapsed().as_secs() {
            return false;
        }
        self.kept.boot = boot;
        self.kept.extend(&[measurement], KEPT_MAX);
        self.count += 1;
        true
    }

    /// Returns the number of all measurements.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns measurements that are kept, as many as a viewer gets, after the first `known` of
    /// all, and the number of the first one.
    pub(crate) fn after(&self, known: u64) -> (u64, Measurements) {
        let Measurements { boot, list } = &self.kept;
        let forgotten = self.count - list.len() as u64;
        let first = known.clamp(forgotten, self.count);
        let after = list.iter().skip((first - forgotten) as usize);
        let list = after.take(MEASUREMENTS_MAX as usize).copied().collect();
        (first, Measurements { boot: *boot, list })
    }

    /// Returns the measurements with which a file begins.
    fn first_in_file(&self) -> Measurements {
        let Measurements { boot, list } = &self.kept;
        let (earlier, last) = list.split_at(list.len().saturating_sub(LAST_IN_FILE));
        let step = earlier.len().div_ceil(EARLIER_IN_FILE).max(1);
        let list = earlier.iter().step_by(step).chain(last).copied().collect();
        Measurements { boot: *boot, list }
    }

    /// Appends the last measurement to the file of a trace, whose path is below the chunk's
    /// directory; the last ones, if the file is new or `is_behind`. Lines are written whole or not
    /// at all. A file that is too large for readers does not grow.
    pub(crate) fn append_to(&self, chunk: &Chunk, path: &str, is_behind: bool) -> io::Result<()> {
        let Some(last) = self.kept.list.last() else { return Ok(()) };
        let open = |directory: &Path| {
            OpenOptions::new().append(true).create(true).open(directory.join(FILE))
        };
        let mut file = chunk.open_in(path, open)?;
        let size = file.metadata()?.len();
        let text = match size {
            0 => self.first_in_file().text(),
            _ if is_behind => self.first_in_file().list.iter().map(Measurement::line).collect(),
            _ => last.line(),
        };
        if size + text.len() as u64 > FILE_SIZE_MAX {
            return Ok(());
        }
        let written = file.write_all(text.as_bytes());
        if written.is_err() {
            file.set_len(size)?;
        }
        written
    }
}

/// Returns the present time in nanoseconds since 1970.
pub(crate) fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}
