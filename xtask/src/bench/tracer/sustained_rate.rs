//! Maximum rate at which annotations are written to a disk without loss. Two threads record at a
//! steady rate, and the agent writes. If the wanted rate is too high, lower rates are tried. The
//! agent's times show the cause: its own work, or waiting for a processor until the rings were
//! full.

use super::fixed_rate::{Pace, Place, done};
use crate::bench::goal::Goal;
use crate::bench::recipe::{Output, Recipe, find_metadata};
use crate::bench::report::Report;
use crate::bench::{blkkin, lttng::KEYVAL_STRING, recording};
use crate::measure::Table;
use crate::process::Process;
use crate::tools::at;
use serde_json::json;
use std::fs;

const WANTED: u64 = 5_000_000;

/// Rates to try in events a second, in descending order.
const RATES: [u64; 6] = [WANTED, 4_000_000, 3_000_000, 2_000_000, 1_000_000, 500_000];

/// Number of recording threads: one for each of two processors.
const THREADS: u64 = 2;

/// Maximum ratio of the actual duration to the planned one. Beyond it, the program has missed its
/// rate.
const LATE_MAX: f64 = 1.1;

pub(super) fn measure(
    report: &mut Report,
    place: &Place<'_>,
    is_quick: bool,
) -> Result<(), String> {
    let seconds = if is_quick { 1 } else { 5 };
    let mut table = Table::new(&[
        "annotations to a disk",
        "rate reached",
        "tried",
        "recorded",
        "lost",
        "MB/s",
        "agent, user",
        "agent, system",
        "agent, waiting",
    ]);
    let mut reached = None;
    for rate in RATES {
        let tried = try_rate(place, rate, seconds)?;
        let per_second = |sum: f64| sum / tried.seconds;
        table.row(vec![
            format!("{rate} a second"),
            format!("{:.0} a second", per_second(tried.events as f64)),
            tried.events.to_string(),
            tried.recorded.to_string(),
            tried.lost.to_string(),
            format!("{:.0}", per_second(tried.bytes as f64) / 1e6),
            format!("{:.0} %", 100.0 * per_second(tried.user_seconds)),
            format!("{:.0} %", 100.0 * per_second(tried.system_seconds)),
            format!("{:.0} %", 100.0 * per_second(tried.wait_seconds)),
        ]);
        report.row(json!({
            "table": "sustained",
            "rate": rate,
            "seconds": tried.seconds,
            "events_tried": tried.events,
            "events_recorded": tried.recorded,
            "events_lost": tried.lost,
            "bytes": tried.bytes,
            "agent_user_seconds": tried.user_seconds,
            "agent_system_seconds": tried.system_seconds,
            "agent_wait_seconds": tried.wait_seconds,
        }));
        if tried.lost == 0 && tried.seconds < LATE_MAX * seconds as f64 {
            reached = Some(rate as f64);
            break;
        }
    }
    report.say(table.render());
    let what = "annotations a second to a disk, none lost";
    report.goal(Goal::at_least(WANTED as f64, "/s", what).measured(reached));
    Ok(())
}

struct Tried {
    seconds: f64,
    events: u64,
    recorded: u64,
    lost: u64,
    bytes: u64,
    user_seconds: f64,
    system_seconds: f64,
    wait_seconds: f64,
}

fn try_rate(place: &Place<'_>, rate: u64, seconds: u64) -> Result<Tried, String> {
    let place_of_files = Output::below(place.folder, "sustained")?;
    let output = place_of_files.0.join("session");
    let session = place.agent.session(&Recipe {
        output: &output,
        is_snapshot: false,
        channel: &[],
        event: KEYVAL_STRING,
        contexts: &[],
    })?;
    let agent = Process(place.agent.id());
    let ((user, system), wait) = (agent.cpu_seconds()?, agent.wait_seconds()?);
    let program = place.paced(&Pace { kind: "annotation", rate, seconds, threads: THREADS })?;
    let done = done(program)?;
    session.stop()?;
    let ((user_after, system_after), wait_after) = (agent.cpu_seconds()?, agent.wait_seconds()?);
    session.destroy()?;
    let trace = find_metadata(&output)?;
    let recorded = blkkin::count(place.blkkin, &trace, None)?;
    let lost = recording::discarded(&trace)?;
    if recorded + lost != done.events_tried {
        let tried = done.events_tried;
        return Err(format!("of {tried} annotations {recorded} are recorded, {lost} lost"));
    }
    let mut bytes = 0;
    for entry in fs::read_dir(&trace).map_err(at(&trace))? {
        let file = entry.and_then(|entry| entry.metadata()).map_err(at(&trace))?;
        bytes += if file.is_file() { file.len() } else { 0 };
    }
    Ok(Tried {
        seconds: done.seconds,
        events: done.events_tried,
        recorded,
        lost,
        bytes,
        user_seconds: user_after - user,
        system_seconds: system_after - system,
        wait_seconds: wait_after - wait,
    })
}
