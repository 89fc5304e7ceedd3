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
    /// The last measurements, as many as a viewer gets.
    kept: VecDeque<Measurement>,
    /// Number of all measurements.
    count: u64,
    begun: Instant,
    /// Set after a file could not be written, so that one line is logged.
    pub(crate) is_failing: bool,
}

/// Number of the last measurements with which a file begins. Those before do not concern the events
/// of a trace that begins now.
const FIRST_IN_FILE: usize = 64;
/// Number of measurements that are taken at once, and each second afterwards.
const BURST: u64 = 128;
const RATE: u64 = 2;

impl Default for ClockLog {
    fn default() -> ClockLog {
        let (boot, kept) = (Uuid([0; 16]), VecDeque::new());
        ClockLog { boot, kept, count: 0, begun: Instant::now(), is_failing: false }
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
        if self.kept.len() >= MEASUREMENTS_MAX as usize {
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

    /// Returns the measurements that are kept, after the first `known` of all, and the number of
    /// the first one.
    pub(crate) fn after(&self, known: u64) -> (u64, Measurements) {
        let forgotten = self.count - self.kept.len() as u64;
        let first = known.clamp(forgotten, self.count);
        let list = self.kept.iter().skip((first - forgotten) as usize).copied().collect();
        (first, Measurements { boot: self.boot, list })
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
        let all = Measurements {
            list: self
                .kept
                .range(self.kept.len().saturating_sub(FIRST_IN_FILE)..)
                .copied()
                .collect(),
            boot: self.boot,
        };
        let text = match size {
            0 => all.text(),
            _ if is_behind => all.list.iter().map(Measurement::line).collect(),
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
