//! LTTng-UST as a candidate of the tracer bench: a session for each run, and what became of its
//! events. Start at [`LttngUst`].

use super::{Case, Delivery, Kind, Mode, Run, Tracer, program};
use crate::at;
use crate::bench::lttng::{self, Daemon, KEYVAL_STRING, Recipe};
use crate::bench::{blkkin, recording};
use std::fs;
use std::path::{Path, PathBuf};

/// LTTng's default for programs: 4 sub-buffers of 512 KiB for each processor.
const BUFFER_SIZE: u64 = 2 << 20;

/// Of large buffers.
const SUB_BUFFERS: u64 = 16;

/// Files here are in memory.
const MEMORY: &str = "/dev/shm";

/// The tracer. Its daemon stops when this is dropped.
pub(super) struct LttngUst {
    daemon: Daemon,
    program: PathBuf,
    /// To count events with.
    blkkin: String,
    output: Output,
}

impl LttngUst {
    /// Builds the program into `folder`, and starts the daemon.
    pub(super) fn new(folder: &Path, blkkin: String) -> Result<LttngUst, String> {
        let program = folder.join("lttng-ust");
        lttng::compile(
            &program,
            &["", "lttng", "tracer", "tracer/lttng"],
            &["tracer/harness.c", "tracer/lttng/program.c", "tracer/lttng/blkin.c"],
        )?;
        let output = Output::new()?;
        Ok(LttngUst { daemon: Daemon::start()?, program, blkkin, output })
    }

    /// Runs the program while its events are recorded.
    fn record(&self, case: &Case) -> Result<Run, String> {
        let event = Event::of(case.kind);
        let mut buffer_size = BUFFER_SIZE;
        let mut channel = Vec::new();
        if case.mode == Mode::Large {
            let sub_buffer_size = large_sub_buffer_size(case, &event);
            buffer_size = SUB_BUFFERS * sub_buffer_size;
            channel.push(format!("--subbuf-size={sub_buffer_size}"));
            channel.push(format!("--num-subbuf={SUB_BUFFERS}"));
        }
        let output = self.output.0.join("session");
        let session = self.daemon.session(&Recipe {
            output: &output,
            is_snapshot: case.mode == Mode::Overwrite,
            channel: &channel.iter().map(String::as_str).collect::<Vec<_>>(),
            event: event.name,
            contexts: &[],
        })?;
        // So many that each page is written to.
        let warm_ups = buffer_size.div_ceil(event.size * case.kind.events);
        let cost = program::run(&mut lttng::traced(&self.program), case, warm_ups)?;
        session.stop()?;
        if case.mode == Mode::Overwrite {
            session.snapshot()?;
        }
        session.destroy()?;
        let delivery = self.delivery(case, &event, cost.events_tried, &output)?;
        fs::remove_dir_all(&output).map_err(at(&output))?;
        Ok(Run { cost, delivery })
    }

    /// Counts events, and sees to it that none has vanished.
    fn delivery(
        &self,
        case: &Case,
        event: &Event,
        tried: u64,
        output: &Path,
    ) -> Result<Delivery, String> {
        let trace = lttng::find_metadata(output)?;
        let recorded = blkkin::count(&self.blkkin, &trace, None)?;
        let lost = recording::discarded(&trace)?;
        let delivery = account(case.mode, tried, recorded, lost).ok_or_else(|| {
            format!("{case:?}: of {tried} events {recorded} are recorded, {lost} lost")
        })?;
        // With one thread and no loss those in memory must be the last ones that it recorded.
        if let (Mode::Overwrite, 1, 0, Some(number)) = (case.mode, case.threads, lost, event.number)
        {
            let count = |filter: String| blkkin::count(&self.blkkin, &trace, Some(&filter));
            let in_memory = count(format!("{number} >= 0"))?;
            let oldest = case.operations.saturating_sub(in_memory);
            let last = count(format!("{number} >= {oldest}"))?;
            if in_memory == 0 || last != in_memory {
                return Err(format!("{case:?}: of {in_memory} events only {last} are the last"));
            }
        }
        Ok(delivery)
    }
}

impl Tracer for LttngUst {
    fn name(&self) -> &'static str {
        "LTTng-UST"
    }

    fn records(&self, _: &Kind) -> bool {
        true
    }

    fn run(&self, case: &Case) -> Result<Run, String> {
        if case.mode != Mode::Off {
            return self.record(case);
        }
        let cost = program::run(&mut lttng::traced(&self.program), case, 0)?;
        Ok(Run { cost, delivery: Delivery::default() })
    }
}

/// A power of two, as LTTng wants it; so many of them hold all that a run records.
fn large_sub_buffer_size(case: &Case, event: &Event) -> u64 {
    let size = case.operations * case.kind.events * event.size;
    size.div_ceil(SUB_BUFFERS).next_power_of_two()
}

/// What became of all events that were tried, or `None` if there are some of which that is not known.
fn account(mode: Mode, tried: u64, recorded: u64, lost: u64) -> Option<Delivery> {
    let overwritten = tried.checked_sub(recorded.checked_add(lost)?)?;
    let is_known = overwritten == 0 || mode == Mode::Overwrite;
    is_known.then_some(Delivery { tried, recorded, overwritten, lost })
}

/// What is recorded of a kind.
struct Event {
    name: &'static str,
    /// In bytes, with its header of 6.
    size: u64,
    /// The field that has the operation's number, which is below 0 for warm-ups.
    number: Option<&'static str>,
}

impl Event {
    fn of(kind: &Kind) -> Event {
        let annotation = Event { name: KEYVAL_STRING, size: 71, number: None };
        match kind.name {
            "one" => Event { name: "bench:one", size: 10, number: Some("number") },
            "annotation" => Event { number: Some("port_no"), ..annotation },
            _ => annotation,
        }
    }
}

/// Where sessions write to. Removed when dropped.
struct Output(PathBuf);

impl Output {
    fn new() -> Result<Output, String> {
        let folder = Path::new(MEMORY).join(format!("blkkin-bench-{}", std::process::id()));
        fs::create_dir(&folder).map_err(at(&folder))?;
        Ok(Output(folder))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // It is memory that nobody else would give back.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tracer::{EVENTS, EVENTS_QUICK, cases};

    #[test]
    fn every_event_is_accounted_for() {
        fn check(mode: Mode, counts: [u64; 3], overwritten: Option<u64>) {
            let [tried, recorded, lost] = counts;
            let expected =
                overwritten.map(|overwritten| Delivery { tried, recorded, overwritten, lost });
            assert_eq!(account(mode, tried, recorded, lost), expected, "{mode:?} {counts:?}");
        }
        check(Mode::Discard, [10, 10, 0], Some(0));
        check(Mode::Discard, [10, 7, 3], Some(0));
        check(Mode::Large, [10, 7, 2], None);
        check(Mode::Large, [10, 7, 4], None);
        check(Mode::Overwrite, [10, 7, 2], Some(1));
        check(Mode::Overwrite, [10, 11, 0], None);
        check(Mode::Overwrite, [10, 1, u64::MAX], None);
    }

    /// With room for the headers of packets, and for the event that did not fit into the one before.
    #[test]
    fn large_buffers_hold_a_run() {
        for case in [EVENTS, EVENTS_QUICK].into_iter().flat_map(cases) {
            let event = Event::of(case.kind);
            let room = large_sub_buffer_size(&case, &event) - 84 - event.size;
            let bytes = case.operations * case.kind.events * event.size;
            assert!(SUB_BUFFERS * room >= bytes, "{case:?}");
        }
    }
}
