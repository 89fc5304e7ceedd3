//! Measurement of the offset of this machine's clocks from the relay's.
//!
//! The relay's time was read between the moment of the question and that of the reply. So the
//! middle of both is off by half the time between them at most, however long the ways are.
//!
//! Each connection has a session of its own at the relay, which is told the earlier measurements,
//! too. So an event that is sent twice, over two connections, has the same corrected time.

use crate::connection::Connection;
use blkkin_ctf::clock_offsets::{self, Measurement, Offsets};
use blkkin_ctf::schema::Uuid;
use blkkin_lttng::relay::{ClockReadings, Command, Reply};
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Measurements of this machine's clocks.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    /// Identity of the boot; `None` if the system does not tell it, so that nothing is measured.
    boot: Option<Uuid>,
    /// Last measurements in their order.
    measurements: VecDeque<Measurement>,
    /// Time of the last measurement of this process, and their number.
    measured: Option<Instant>,
    count: u32,
    /// File that keeps the measurements for the next process; `None` for no file.
    file: Option<PathBuf>,
}

/// Maximum time between two measurements while packets are sent. Crystals drift by up to 0.1 ms a
/// second from each other; the drift is measured, too, and changes slowly.
const INTERVAL_MAX: Duration = Duration::from_secs(10);
/// Number of questions in a measurement, of which the quickest counts.
const QUESTIONS: usize = 3;
/// Maximum number of measurements that are told to the next session.
const MEASUREMENTS_MAX: usize = 64;

impl Clocks {
    /// Makes a schedule that begins with a measurement. If the measurements are kept in a
    /// directory, goes on with those that an earlier process has put there since the last boot.
    pub(crate) fn new(directory: Option<&Path>) -> Clocks {
        let boot = blkkin_sys::boot_id().and_then(|text| text.parse().ok());
        let file = directory.map(|directory| directory.join(clock_offsets::FILE));
        let text = file.as_ref().and_then(|file| fs::read(file).ok());
        let offsets = text.and_then(|text| Offsets::parse(&text).ok());
        let earlier = offsets.filter(|offsets| Some(offsets.boot) == boot);
        let measurements = earlier.map(|earlier| earlier.measurements.into()).unwrap_or_default();
        Clocks { boot, measurements, file, ..Clocks::default() }
    }

    /// Tells the measurements so far to a new session of the relay, and adds one.
    pub(crate) fn begin(&mut self, connection: &mut Connection) -> io::Result<()> {
        let Some(boot) = self.boot.filter(|_| connection.takes_clocks()) else { return Ok(()) };
        for one in &self.measurements {
            connection.queue(&report(boot, *one))?;
        }
        self.measured = None;
        self.measure(connection)
    }

    /// Adds a measurement, if one is due.
    pub(crate) fn measure(&mut self, connection: &mut Connection) -> io::Result<()> {
        let Some(boot) = self.boot.filter(|_| connection.takes_clocks()) else { return Ok(()) };
        // The first ones follow each other soon, so that the drift becomes known.
        let interval = Duration::from_secs(1 << self.count.min(10)).min(INTERVAL_MAX);
        if self.measured.is_some_and(|measured| measured.elapsed() < interval) {
            return Ok(());
        }
        self.count = if self.measured.is_none() { 0 } else { self.count + 1 };
        self.measured = Some(Instant::now());
        let mut best = ask(connection)?;
        for _ in 1..QUESTIONS {
            let other = ask(connection)?;
            best = if other.error_ns < best.error_ns { other } else { best };
        }
        if self.measurements.len() >= MEASUREMENTS_MAX {
            self.measurements.pop_front();
        }
        self.measurements.push_back(best);
        self.save(boot);
        connection.queue(&report(boot, best))
    }

    /// Keeps the measurements. If that fails, the next process begins without them.
    fn save(&self, boot: Uuid) {
        let Some(file) = &self.file else { return };
        let measurements = self.measurements.iter().copied().collect();
        let new = file.with_extension("new");
        let written = fs::write(&new, Offsets { boot, measurements }.text());
        let _ = written.and_then(|()| fs::rename(&new, file));
    }
}

fn report(boot: Uuid, measurement: Measurement) -> Command {
    let Measurement { monotonic_ns, tsc, reference_ns, error_ns } = measurement;
    let Uuid(boot) = boot;
    let readings = ClockReadings { boot, monotonic_ns, tsc, relay_ns: reference_ns, error_ns };
    Command::ReportClocks(readings)
}

fn ask(connection: &mut Connection) -> io::Result<Measurement> {
    connection.flush()?;
    let before = (blkkin_sys::monotonic_ns(), blkkin_sys::tsc());
    let reply = connection.call(&Command::GetTime)?;
    let after = (blkkin_sys::monotonic_ns(), blkkin_sys::tsc());
    let Reply::Time(reference_ns) = reply else {
        return Err(io::Error::other("the relay does not answer with its time"));
    };
    let error_ns = (after.0 - before.0).div_ceil(2);
    // The counter may begin anew in a virtual machine that is moved.
    let tsc = before.1 + after.1.saturating_sub(before.1) / 2;
    Ok(Measurement { monotonic_ns: before.0 + error_ns, tsc, reference_ns, error_ns })
}
