//! Measurements of a producer's clocks against the relay's: for viewers, and in a file beside each
//! trace.

use crate::chunk::Chunk;
use blkkin_ctf::clock_offsets::{FILE, FILE_SIZE_MAX, Measurement, Measurements};
use blkkin_ctf::schema::Uuid;
use blkkin_lttng::viewer::MEASUREMENTS_MAX;
use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Instant, SystemTime};

/// Measurements of one producer's clocks.
#[derive(Debug)]
pub(crate) struct ClockLog {
    boot: Uuid,
    /// The last measurements.
    kept: VecDeque<Measurement>,
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
        let (boot, kept) = (Uuid([0; 16]), VecDeque::new());
        ClockLog { boot, kept, count: 0, begun: Instant::now() }
    }
}

impl ClockLog {
    /// Adds a measurement. Returns false if it is ignored: it is not later than the last one, there
    /// are too many, or the machine was booted since the last one.
    pub(crate) fn add(&mut self, boot: Uuid, measurement: Measurement) -> bool {
        let is_next = match self.kept.back() {
            None => true,
            Some(last) => boot == self.boot && measurement.monotonic_ns > last.monotonic_ns,
        };
        if !is_next || self.count >= BURST + RATE * self.begun.elapsed().as_secs() {
            return false;
        }
        if self.kept.back().is_some_and(|last| measurement.tsc < last.tsc) {
            // The counter has begun anew; what was measured before says nothing of it.
            self.kept.clear();
        }
        if self.kept.len() >= KEPT_MAX {
            self.kept.pop_front();
        }
        self.boot = boot;
        self.kept.push_back(measurement);
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
        let forgotten = self.count - self.kept.len() as u64;
        let first = known.clamp(forgotten, self.count);
        let after = self.kept.iter().skip((first - forgotten) as usize);
        let list = after.take(MEASUREMENTS_MAX as usize).copied().collect();
        (first, Measurements { boot: self.boot, list })
    }

    /// Returns the measurements with which a file begins.
    fn first_in_file(&self) -> Measurements {
        let earlier = self.kept.len().saturating_sub(LAST_IN_FILE);
        let step = earlier.div_ceil(EARLIER_IN_FILE).max(1);
        let some = self.kept.range(..earlier).step_by(step);
        let list = some.chain(self.kept.range(earlier..)).copied().collect();
        Measurements { boot: self.boot, list }
    }

    /// Appends the last measurement to the file of a trace, whose path is below the chunk's
    /// directory; the last ones, if the file is new or `is_behind`. Lines are written whole or not
    /// at all. A file that is too large for readers does not grow.
    pub(crate) fn append_to(&self, chunk: &Chunk, path: &str, is_behind: bool) -> io::Result<()> {
        let Some(last) = self.kept.back() else { return Ok(()) };
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
