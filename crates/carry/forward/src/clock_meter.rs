//! Measurement of this machine's clocks against the relay's.
//!
//! The relay's time was read between the moment of the question and that of the reply. So the
//! middle of both is off by half the time between them at most, however long the ways are.
//!
//! Each connection has a session of its own at the relay, which gets the earlier measurements, too.
//! So an event that is sent twice, over two connections, has the same corrected time.

use crate::connection::Connection;
use blkkin_ctf::clock_offsets::{self, Measurement, Measurements};
use blkkin_ctf::schema::Uuid;
use blkkin_lttng::relay::{Command, Reply};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Schedule and results of the measurements.
#[derive(Debug, Default)]
pub(crate) struct ClockMeter {
    /// Last measurements; `None` if the system does not tell the boot, so that nothing is measured.
    kept: Option<Measurements>,
    /// Time of the last measurement on this connection.
    measured: Option<Instant>,
    /// Number of measurements on this connection after the first one.
    count: u32,
    /// File that keeps the measurements for the next process; `None` for no file.
    file: Option<PathBuf>,
}

/// Maximum time between two measurements while packets are sent. Crystals drift by up to 0.1 ms a
/// second from each other; the drift is measured, too, and changes slowly.
const INTERVAL_MAX: Duration = Duration::from_secs(10);
/// Number of questions in a measurement, of which the quickest counts.
const QUESTIONS: usize = 3;
/// Maximum number of measurements that a new session gets.
const KEPT_MAX: usize = 512;

impl ClockMeter {
    /// Makes a meter. If the measurements are kept in a directory, it begins with those that an
    /// earlier process of this boot has left there.
    pub(crate) fn new(directory: Option<&Path>) -> ClockMeter {
        let file = directory.map(|directory| directory.join(clock_offsets::FILE));
        let text = file.as_ref().and_then(|file| fs::read(file).ok());
        let earlier = text.and_then(|text| Measurements::parse(&text).ok());
        let boot: Option<Uuid> = blkkin_sys::boot_id().and_then(|text| text.parse().ok());
        let kept = boot.map(|boot| {
            let earlier = earlier.filter(|earlier| earlier.boot == boot);
            earlier.unwrap_or(Measurements { boot, list: Vec::new() })
        });
        ClockMeter { kept, file, ..ClockMeter::default() }
    }

    /// Sends the measurements so far to a new session of the relay, and adds one.
    pub(crate) fn begin(&mut self, connection: &mut Connection) -> io::Result<()> {
        if let Some(Measurements { boot, list }) = &self.kept
            && connection.takes_clocks()
        {
            for &measurement in list {
                connection.queue(&Command::ReportClocks { boot: *boot, measurement })?;
            }
        }
        (self.measured, self.count) = (None, 0);
        self.measure(connection)
    }

    /// Adds a measurement, if one is due.
    pub(crate) fn measure(&mut self, connection: &mut Connection) -> io::Result<()> {
        let Some(kept) = &mut self.kept else { return Ok(()) };
        if !connection.takes_clocks() {
            return Ok(());
        }
        if let Some(measured) = self.measured {
            // The first ones follow each other soon, so that the drift becomes known.
            let interval = Duration::from_secs(1 << self.count.min(10)).min(INTERVAL_MAX);
            if measured.elapsed() < interval {
                return Ok(());
            }
            self.count += 1;
        }
        self.measured = Some(Instant::now());
        let answers: io::Result<Vec<_>> = (0..QUESTIONS).map(|_| ask(connection)).collect();
        let best = answers?.into_iter().min_by_key(|one| one.error_ns);
        let Some(measurement) = best else { return Ok(()) };
        kept.extend(&[measurement], KEPT_MAX);
        self.file.iter().for_each(|file| save(kept, file));
        connection.queue(&Command::ReportClocks { boot: kept.boot, measurement })
    }
}

/// Keeps the measurements in a file. If that fails, the next process begins without them.
fn save(kept: &Measurements, file: &Path) {
    let new = file.with_extension("new");
    let written = fs::write(&new, kept.text());
    let _ = written.and_then(|()| fs::rename(&new, file));
}

fn ask(connection: &mut Connection) -> io::Result<Measurement> {
    // The replies to queued commands would be part of the round trip.
    connection.flush()?;
    // The counter is read within the time that gives the error, so that the error holds for it,
    // too, if this thread is interrupted.
    let begun_ns = blkkin_sys::monotonic_ns();
    let begun = blkkin_sys::tsc();
    let reply = connection.call(&Command::GetTime)?;
    let ended = blkkin_sys::tsc();
    let ended_ns = blkkin_sys::monotonic_ns();
    let Reply::Time(reference_ns) = reply else {
        return Err(io::Error::other("the relay does not answer with its time"));
    };
    let error_ns = (ended_ns - begun_ns).div_ceil(2);
    let monotonic_ns = begun_ns + error_ns;
    // Live migration of a virtual machine may reset the counter.
    let tsc = begun + ended.saturating_sub(begun) / 2;
    Ok(Measurement { monotonic_ns, tsc, reference_ns, error_ns })
}
