//! LTTng-UST as a candidate of the tracer bench. Each run has a session of its own, except in
//! [`Mode::Off`]. Start at [`LttngUst`].

use super::candidate::{Delivery, Run, Tracer};
use super::case::{Case, Kind, KindRole, Mode};
use super::program;
use super::recorded::{
    Event, KEYVAL_STRING, SUB_BUFFERS, delivery, large_sub_buffer_size, warm_ups,
};
use crate::bench::c::{Source, compile};
use crate::bench::lttng::{self, Daemon};
use crate::bench::recipe::{Output, Recipe, find_metadata};
use crate::tools::at;
use std::fs;
use std::path::{Path, PathBuf};

/// Size in bytes of one CPU's buffer with LTTng's default options for programs: 4 sub-buffers of
/// 512 KiB.
const BUFFER_SIZE: u64 = 2 << 20;

/// Size of the compact header of LTTng's events, in bytes. An event after a pause has the extended
/// header of 14 bytes.
const HEADER_SIZE: u64 = 6;

/// LTTng-UST as a tracer, with its program and its session daemon.
pub(super) struct LttngUst {
    daemon: Daemon,
    program: PathBuf,
    /// Path of the program `blkkin`, by which events are counted.
    blkkin: String,
    output: Output,
}

impl LttngUst {
    /// Builds the program into `folder`, and starts the session daemon.
    pub(super) fn new(folder: &Path, blkkin: &str) -> Result<LttngUst, String> {
        let program = folder.join("lttng-ust");
        let source = Source {
            folders: &["", "lttng", "tracer", "tracer/lttng"].map(Path::new),
            files: &["tracer/harness.c", "tracer/lttng/program.c", "tracer/lttng/blkin.c"],
            libraries: &lttng::LIBRARIES,
        };
        compile(&program, &source)?;
        let output = Output::in_memory("lttng")?;
        Ok(LttngUst { daemon: Daemon::start()?, program, blkkin: blkkin.to_owned(), output })
    }

    /// Runs the program in a session that records its events. Returns the cost, and the numbers of
    /// events by outcome.
    fn record(&self, case: &Case) -> Result<Run, String> {
        let event = event_of(case.kind)?;
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
        let warm_ups = warm_ups(case.kind, &event, buffer_size);
        let cost = program::run(&mut lttng::traced(&self.program), case, warm_ups)?;
        session.stop()?;
        if case.mode == Mode::Overwrite {
            session.snapshot()?;
        }
        session.destroy()?;
        let trace = find_metadata(&output)?;
        let delivery = delivery(&self.blkkin, case, &event, cost.events_tried, &trace)?;
        fs::remove_dir_all(&output).map_err(at(&output))?;
        Ok(Run { cost, delivery })
    }
}

impl Tracer for LttngUst {
    fn name(&self) -> &'static str {
        "LTTng-UST"
    }

    fn records(&self, kind: &Kind) -> bool {
        kind.what == KindRole::Floor || event_of(kind).is_ok()
    }

    fn run(&self, case: &Case) -> Result<Run, String> {
        if case.mode != Mode::Off {
            return self.record(case);
        }
        let cost = program::run(&mut lttng::traced(&self.program), case, 0)?;
        Ok(Run { cost, delivery: Delivery::default() })
    }
}

/// Returns the event that the program records for a kind of operation.
fn event_of(kind: &Kind) -> Result<Event, String> {
    let annotation = Event { name: KEYVAL_STRING, size: HEADER_SIZE + 65, number: None };
    match kind.name {
        "one" => Ok(Event { name: "bench:one", size: HEADER_SIZE + 4, number: Some("number") }),
        "annotation" => Ok(Event { number: Some("port_no"), ..annotation }),
        "blkin-annotation" | "blkin-span" => Ok(annotation),
        name => Err(format!("there is no event for {name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tracer::recorded::tests::check_large_buffers;

    #[test]
    fn large_buffers_hold_a_run() {
        check_large_buffers(|kind| event_of(kind).ok(), 84);
    }
}
