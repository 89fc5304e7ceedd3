//! Latency from just before an event is recorded until it can be read from the trace's file. Each
//! event contains the time at which it was recorded. The kernel notifies a [`Watcher`] whenever a
//! file has grown, and the watcher reads the new part. Events before the watcher's start, such as
//! the first event of the trace, have no latency.

use super::fixed_rate::{Pace, Place, done};
use crate::bench::goal::Goal;
use crate::bench::recipe::{Output, Recipe, find_metadata};
use crate::bench::recording::{HEADER_SIZE, packet_sizes};
use crate::bench::report::Report;
use crate::measure::{Table, monotonic_ns, percentile};
use crate::tools::at;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Cases, each with a rate in events a second and a duration in seconds.
const RATES: [(u64, u64); 4] = [(1, 12), (10, 10), (100, 6), (1000, 4)];
const RATES_QUICK: [(u64, u64); 4] = [(1, 4), (10, 2), (100, 2), (1000, 1)];

/// Size in bytes of an event: its header and an integer of 8 bytes. `NUMBER_AT` is the offset of
/// the integer.
const EVENT_SIZE: usize = 18;
const NUMBER_AT: usize = 10;

/// Time that the agent has to begin a trace, and to write the last event of a program.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn measure(
    report: &mut Report,
    place: &Place<'_>,
    is_quick: bool,
) -> Result<(), String> {
    let mut table =
        Table::new(&["until an event can be read, µs", "events", "median", "p90", "p99", "max"]);
    let mut goals = Vec::new();
    for (rate, seconds) in if is_quick { RATES_QUICK } else { RATES } {
        let mut latencies = watch(place, rate, seconds)?;
        latencies.sort_by(f64::total_cmp);
        let figures = [50, 90, 99, 100].map(|percent| percentile(&latencies, percent));
        let mut cells = vec![format!("{rate} a second"), latencies.len().to_string()];
        cells.extend(figures.map(|ns| format!("{:.0}", ns / 1e3)));
        table.row(cells);
        let [median, p90, p99, max] = figures;
        report.row(json!({
            "table": "latency",
            "rate": rate,
            "events": latencies.len(),
            "latency_ns_median": median,
            "latency_ns_p90": p90,
            "latency_ns_p99": p99,
            "latency_ns_max": max,
        }));
        let what = format!("until an event can be read, p99, {rate} a second");
        goals.push(Goal::at_most(0.3, " ms", what).limit(2.0).measured(Some(p99 / 1e6)));
    }
    report.say(table.render());
    goals.into_iter().for_each(|goal| report.goal(goal));
    Ok(())
}

/// Records events at a rate. Returns the latency in nanoseconds of each event after the watcher's
/// start. Fails if the watcher has missed an event.
fn watch(place: &Place<'_>, rate: u64, seconds: u64) -> Result<Vec<f64>, String> {
    let files = Output::below(place.folder, "latency")?;
    let output = files.0.join("session");
    let session = place.agent.session(&Recipe {
        output: &output,
        is_snapshot: false,
        channel: &[],
        event: "bench:time",
        contexts: &[],
    })?;
    let program = place.paced(&Pace { kind: "time", rate, seconds, threads: 1 })?;
    let trace = wait_for_trace(&output)?;
    let mut watcher = Watcher::new(&trace)?;
    let tried = watcher.until_end(program)?;
    session.stop()?;
    session.destroy()?;
    let seen = watcher.seen;
    if seen != tried {
        return Err(format!("of {tried} events {seen} were seen in {}", trace.display()));
    }
    Ok(watcher.latencies)
}

fn wait_for_trace(output: &Path) -> Result<PathBuf, String> {
    let start = Instant::now();
    loop {
        match find_metadata(output) {
            Err(_) if start.elapsed() < PATIENCE => sleep(Duration::from_millis(1)),
            found => return found,
        }
    }
}

/// Reader of the growing files of a trace.
struct Watcher {
    folder: PathBuf,
    inotify: Inotify,
    /// Open files by name, each with the number of bytes that were read.
    files: BTreeMap<OsString, (File, u64)>,
    /// Number of events that were read, including those without a latency.
    seen: u64,
    latencies: Vec<f64>,
}

impl Watcher {
    fn new(folder: &Path) -> Result<Watcher, String> {
        let failed = |error| format!("{}: cannot be watched: {error}", folder.display());
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK).map_err(failed)?;
        inotify.add_watch(folder, AddWatchFlags::IN_MODIFY).map_err(failed)?;
        let (folder, files) = (folder.to_owned(), BTreeMap::new());
        let mut watcher = Watcher { folder, inotify, files, seen: 0, latencies: Vec::new() };
        watcher.read_files()?;
        watcher.latencies.clear();
        Ok(watcher)
    }

    /// Reads until the program has ended and all its events were read, at most for [`PATIENCE`]
    /// after its end. Returns the number of events that the program tried to record.
    fn until_end(&mut self, mut program: Child) -> Result<u64, String> {
        while program.try_wait().map_err(|error| format!("paced program: {error}"))?.is_none() {
            self.read_what_comes(Duration::from_millis(100))?;
        }
        let tried = done(program)?.events_tried;
        let end = Instant::now() + PATIENCE;
        while self.seen < tried && Instant::now() < end {
            self.read_what_comes(Duration::from_millis(10))?;
        }
        Ok(tried)
    }

    fn read_what_comes(&mut self, patience: Duration) -> Result<(), String> {
        let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::ZERO);
        let mut descriptors = [PollFd::new(self.inotify.as_fd(), PollFlags::POLLIN)];
        poll(&mut descriptors, timeout).map_err(|error| format!("poll: {error}"))?;
        // The content of the notifications does not matter, as all files are checked.
        let _ = self.inotify.read_events();
        self.read_files()
    }

    fn read_files(&mut self) -> Result<(), String> {
        let now_ns = monotonic_ns();
        for entry in fs::read_dir(&self.folder).map_err(at(&self.folder))? {
            let entry = entry.map_err(at(&self.folder))?;
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            if is_file && entry.file_name() != "metadata" {
                self.read_file(entry.file_name(), now_ns)?;
            }
        }
        Ok(())
    }

    fn read_file(&mut self, name: OsString, now_ns: u64) -> Result<(), String> {
        let path = self.folder.join(&name);
        if !self.files.contains_key(&name) && !name.as_encoded_bytes().starts_with(b".") {
            let file = File::open(&path).map_err(at(&path))?;
            self.files.insert(name.clone(), (file, 0));
        }
        let Some((file, position)) = self.files.get_mut(&name) else { return Ok(()) };
        let size = file.metadata().map_err(at(&path))?.len().saturating_sub(*position);
        let mut bytes = vec![0; size as usize];
        file.read_exact_at(&mut bytes, *position).map_err(at(&path))?;
        let (read, times) = times_of(&bytes);
        *position += read as u64;
        self.seen += times.len() as u64;
        self.latencies.extend(times.iter().map(|&time| now_ns.saturating_sub(time) as f64));
        Ok(())
    }
}

/// Returns the total size in bytes of the complete packets in `bytes`, and the times in their
/// events.
fn times_of(bytes: &[u8]) -> (usize, Vec<u64>) {
    let (mut position, mut times) = (0, Vec::new());
    while let Some((content_size, packet_size)) = bytes.get(position..).and_then(packet_sizes) {
        let events = &bytes[position + HEADER_SIZE..position + content_size];
        for event in events.chunks_exact(EVENT_SIZE) {
            let number = &event[NUMBER_AT..];
            times.push(number.iter().rev().fold(0, |time, &byte| time << 8 | u64::from(byte)));
        }
        position += packet_size;
    }
    (position, times)
}

#[cfg(test)]
mod tests {
    use super::times_of;
    use crate::bench::recording::tests::packet_of;

    #[test]
    fn times_are_read_from_whole_packets() {
        let event = |time: u64| [&[7; 10][..], &time.to_le_bytes()].concat();
        let first = packet_of(&[event(1 << 40), event(5)].concat());
        let second = packet_of(&event(9));
        let bytes = [first.clone(), second.clone()].concat();
        assert_eq!(times_of(&bytes), (bytes.len(), vec![1 << 40, 5, 9]));
        assert_eq!(times_of(&bytes[..bytes.len() - 1]), (first.len(), vec![1 << 40, 5]));
        assert_eq!(times_of(&[]), (0, vec![]));
    }
}
