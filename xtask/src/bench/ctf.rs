//! `cargo xtask bench ctf`: `blkkin view` compared with `babeltrace2`, on a trace of LTTng-UST.
//!
//! First the outputs of both must be equal, byte for byte. Then the bench measures speed (whole
//! machine and one CPU), start-up time, text of a trace with large packets, and time and memory by
//! the size of the trace. Traces are kept below `target/bench`; remove that folder to record them
//! again.

use super::goal::Goal;
use super::options::Options;
use super::recording::Recording;
use super::report::Report;
use super::{blkkin, large_packets, lttng, sizes};
use crate::measure::{
    self, Candidate, Measured, find, interleave, memory_bytes_per_second, show_bytes, speed_up,
};
use crate::tools::{at, target_dir};
use serde_json::json;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

const EVENTS: u64 = 2_000_000;
const EVENTS_QUICK: u64 = 200_000;

// Goals for speed-ups (×), memory (MiB) and start-up time (ms).
const COUNT_SPEED_UP_MIN: f64 = 30.0;
const TEXT_SPEED_UP_MIN: f64 = 20.0;
const JSON_TIMES_TEXT_MAX: f64 = 1.5;
const TWO_CORES_SPEED_UP_MIN: f64 = 1.7;
const LARGEST_RSS_MIB_MAX: f64 = 64.0;
const START_MS_MAX: f64 = 10.0;

/// Number of packets in each stream of the trace with large packets; each packet has 8 MiB.
const LARGE_PACKETS: u64 = 6;
const LARGE_PACKETS_QUICK: u64 = 2;

const MB: u64 = 1_000_000;

/// Maximum size in bytes of traces that babeltrace2 also reads. Larger traces are measured once
/// instead of three times.
const BABELTRACE_SIZE_MAX: u64 = 100 * MB;

// Names of the candidates.
const BT_COUNT: &str = "babeltrace2 -o dummy";
const BT_TEXT: &str = "babeltrace2";
const COUNT: &str = "blkkin view --count";
const TEXT: &str = "blkkin view";
const JSON: &str = "blkkin view --json";
const COUNT_ONE_CORE: &str = "blkkin view --count, one core";
const TEXT_ONE_CORE: &str = "blkkin view, one core";
const JSON_ONE_CORE: &str = "blkkin view --json, one core";
const TEXT_TWICE: &str = "blkkin view, twice, a core each";

pub(super) fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let events = if options.quick { EVENTS_QUICK } else { EVENTS };
    let runs = if options.quick { 3 } else { 11 };
    let blkkin = blkkin::build()?;
    let folder = target_dir().join(format!("bench/ctf-{events}"));
    let trace = recorded_trace(events, &folder, report)?;
    let recording = Recording::open(&trace)?;
    check_recording(&recording, events)?;
    report.say(format!("trace: {} ({events} events)", trace.display()));

    check_count(&blkkin, &trace, events)?;
    check_agreement(&blkkin, &trace, events)?;
    report.say(format!("blkkin and babeltrace2 print the same {events} lines\n"));

    let speed = interleave(&speed_candidates(&blkkin, &trace), 1, runs)?;
    report.measured("speed", &speed, events);

    let one = folder.join("one-event");
    sizes::one_event(&recording, &one)?;
    let candidates = [
        Candidate::new(BT_COUNT, &["babeltrace2", "-o", "dummy", &one.to_string_lossy()], None),
        Candidate::new(
            COUNT,
            &[&blkkin, "view", "--count", &one.to_string_lossy()],
            Some(BT_COUNT),
        ),
    ];
    let start = interleave(&candidates, 2, 4 * runs)?;
    report.measured("start-up", &start, 1);

    let large = folder.join("large-packets");
    let packets = if options.quick { LARGE_PACKETS_QUICK } else { LARGE_PACKETS };
    let large_events = large_packets::write(packets, &large)?.events;
    check_count(&blkkin, &large, large_events)?;
    check_agreement(&blkkin, &large, large_events)?;
    let large = interleave(&text_candidates(&blkkin, &large), 1, runs)?;
    report.measured("packets of 8 MiB, half of the events of one integer", &large, large_events);

    let largest = measure_sizes(options, report, &recording, &blkkin, &folder)?;
    let bandwidth = memory_bytes_per_second();
    let trace_bytes = recording.packets().map(|packet| packet.range.len() as u64).sum::<u64>();
    report_bandwidth(report, &speed, trace_bytes, bandwidth);
    report_two_cores(report, &speed);

    let times = |slow: &str, fast: &str| speed_up(&speed, fast, slow);
    let large_times = |slow: &str, fast: &str| speed_up(&large, fast, slow);
    let rss_mib = largest.rss_bytes_max as f64 / f64::from(1 << 20);
    let rss = format!("peak RSS at {}", show_size(largest.bytes));
    let start_ms = find(&start, COUNT).map(|one| one.wall_median().as_secs_f64() * 1e3);
    let at_least = |wanted, what| Goal::at_least(wanted, "x", what);
    let two_cores = |what| at_least(TWO_CORES_SPEED_UP_MIN, what);
    for (goal, reached) in [
        (at_least(COUNT_SPEED_UP_MIN, "count, speed"), times(BT_COUNT, COUNT)),
        (at_least(TEXT_SPEED_UP_MIN, "text, speed"), times(BT_TEXT, TEXT)),
        (Goal::at_most(JSON_TIMES_TEXT_MAX, "x", "JSON, time beside text"), times(JSON, TEXT)),
        (two_cores("count, two cores beside one"), times(COUNT_ONE_CORE, COUNT)),
        (two_cores("text, two cores beside one"), times(TEXT_ONE_CORE, TEXT)),
        (two_cores("JSON, two cores beside one"), times(JSON_ONE_CORE, JSON)),
        (at_least(TEXT_SPEED_UP_MIN, "text of large packets, speed"), large_times(BT_TEXT, TEXT)),
        (
            two_cores("text of large packets, two cores beside one"),
            large_times(TEXT_ONE_CORE, TEXT),
        ),
        (Goal::at_most(LARGEST_RSS_MIB_MAX, " MiB", rss), Some(rss_mib)),
        (Goal::at_most(START_MS_MAX, " ms", "start-up"), start_ms),
    ] {
        report.goal(goal.measured(reached));
    }
    Ok(())
}

/// Returns the folder of the trace that an earlier run has recorded, or records a new trace.
fn recorded_trace(events: u64, folder: &Path, report: &Report) -> Result<PathBuf, String> {
    let trace = folder.join("recorded");
    if !trace.join("metadata").is_file() {
        report.say(format!("recording {events} events with LTTng-UST"));
        let partial = folder.join("partial");
        for old in [folder, &partial] {
            if old.exists() {
                fs::remove_dir_all(old).map_err(at(old))?;
            }
        }
        let made = lttng::record(events, &partial)?;
        fs::rename(&made, &trace).map_err(at(&trace))?;
    }
    Ok(trace)
}

/// Checks that the recording has `events` events, and that no event was dropped.
fn check_recording(recording: &Recording, events: u64) -> Result<(), String> {
    if recording.discarded() > 0 {
        return Err(format!("LTTng dropped {} events", recording.discarded()));
    }
    let found = recording.events();
    if found == events { Ok(()) } else { Err(format!("{found} of {events} events are recorded")) }
}

/// Checks that `blkkin view --count` prints `events`.
fn check_count(blkkin: &str, trace: &Path, events: u64) -> Result<(), String> {
    match blkkin::count(blkkin, trace, None)? {
        counted if counted == events => Ok(()),
        counted => Err(format!("`blkkin view --count` says {counted}, not {events}, of {trace:?}")),
    }
}

/// Checks that babeltrace2 and `blkkin view` print the same text, one line for each event.
fn check_agreement(blkkin: &str, trace: &Path, events: u64) -> Result<(), String> {
    let (mut left, left_output) = start(Command::new("babeltrace2").arg(trace))?;
    let (mut right, right_output) = start(Command::new(blkkin).arg("view").arg(trace))?;
    let compared = compare_lines(BufReader::new(left_output), BufReader::new(right_output));
    // One program may still be writing after the other has ended early.
    for child in [&mut left, &mut right] {
        if compared.is_err() {
            let _ = child.kill();
        }
        let status = child.wait().map_err(|error| error.to_string())?;
        if compared.is_ok() && !status.success() {
            return Err(format!("a program that prints the trace ended with {status}"));
        }
    }
    match compared? {
        lines if lines == events => Ok(()),
        lines => Err(format!("{lines} lines are printed for {events} events")),
    }
}

fn start(command: &mut Command) -> Result<(Child, ChildStdout), String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {command:?}: {error}"))?;
    let output = child.stdout.take().ok_or("no output")?;
    Ok((child, output))
}

/// Compares two streams line by line. Returns the number of lines; fails at the first difference.
fn compare_lines(mut left: impl BufRead, mut right: impl BufRead) -> Result<u64, String> {
    let (mut left_line, mut right_line) = (Vec::new(), Vec::new());
    let mut lines = 0;
    loop {
        left_line.clear();
        right_line.clear();
        left.read_until(b'\n', &mut left_line)
            .and_then(|_| right.read_until(b'\n', &mut right_line))
            .map_err(|error| error.to_string())?;
        if left_line != right_line {
            return Err(format!(
                "babeltrace2 and blkkin differ in line {}:\n  {}\n  {}",
                lines + 1,
                String::from_utf8_lossy(&left_line).trim_end(),
                String::from_utf8_lossy(&right_line).trim_end()
            ));
        }
        if left_line.is_empty() {
            return Ok(lines);
        }
        lines += 1;
    }
}

/// Shell script that runs two processes at the same time, each pinned to a core. Both print the
/// whole trace.
const TWICE: &str = "taskset -c 0 \"$1\" view \"$2\" & taskset -c 1 \"$1\" view \"$2\"; wait $!";

fn speed_candidates(blkkin: &str, trace: &Path) -> Vec<Candidate> {
    let trace = &*trace.to_string_lossy();
    let one_core = |name, arguments: &[&str], baseline| {
        let command = [&["taskset", "-c", "0", blkkin, "view"], arguments].concat();
        Candidate::new(name, &command, Some(baseline))
    };
    vec![
        Candidate::new(BT_COUNT, &["babeltrace2", "-o", "dummy", trace], None),
        Candidate::new(COUNT, &[blkkin, "view", "--count", trace], Some(BT_COUNT)),
        one_core(COUNT_ONE_CORE, &["--count", trace], COUNT),
        Candidate::new(BT_TEXT, &["babeltrace2", trace], None),
        Candidate::new(TEXT, &[blkkin, "view", trace], Some(BT_TEXT)),
        one_core(TEXT_ONE_CORE, &[trace], TEXT),
        Candidate::new(JSON, &[blkkin, "view", "--json", trace], Some(TEXT)),
        one_core(JSON_ONE_CORE, &["--json", trace], JSON),
        Candidate::new(TEXT_TWICE, &["sh", "-c", TWICE, "sh", blkkin, trace], Some(TEXT_ONE_CORE)),
    ]
}

/// Returns the candidates that print a trace as text.
fn text_candidates(blkkin: &str, trace: &Path) -> Vec<Candidate> {
    let trace = &*trace.to_string_lossy();
    vec![
        Candidate::new(BT_TEXT, &["babeltrace2", trace], None),
        Candidate::new(TEXT, &[blkkin, "view", trace], Some(BT_TEXT)),
        Candidate::new(TEXT_ONE_CORE, &["taskset", "-c", "0", blkkin, "view", trace], Some(TEXT)),
    ]
}

/// Wanted size of the largest measured trace, and peak memory of `blkkin view` for this trace.
struct Largest {
    bytes: u64,
    rss_bytes_max: u64,
}

/// Measures time and memory for traces of different sizes. Returns the figures of the largest
/// trace.
fn measure_sizes(
    options: &Options,
    report: &mut Report,
    recording: &Recording,
    blkkin: &str,
    folder: &Path,
) -> Result<Largest, String> {
    let mut wanted = vec![MB, 10 * MB, 100 * MB];
    if !options.quick {
        wanted.push(1000 * MB);
    }
    if options.full {
        wanted.push(10_000 * MB);
    }
    let mut largest = Largest { bytes: 0, rss_bytes_max: 0 };
    for size in wanted {
        let trace = folder.join(show_size(size).replace(' ', "-"));
        let made = sizes::repeat(recording, size, &trace)?;
        check_count(blkkin, &trace, made.events)?;
        let path = &*trace.to_string_lossy();
        let mut candidates = vec![
            Candidate::new(COUNT, &[blkkin, "view", "--count", path], None),
            Candidate::new(TEXT, &[blkkin, "view", path], None),
        ];
        if size <= BABELTRACE_SIZE_MAX {
            candidates.push(Candidate::new(BT_COUNT, &["babeltrace2", "-o", "dummy", path], None));
        }
        let runs = if size <= BABELTRACE_SIZE_MAX { 3 } else { 1 };
        let measured = interleave(&candidates, 1, runs)?;
        let title = format!("{} ({} events)", show_bytes(made.bytes), made.events);
        report.measured(&title, &measured, made.events);
        let rss = |name| find(&measured, name).map_or(0, Measured::rss_bytes_max);
        largest = Largest { bytes: size, rss_bytes_max: rss(COUNT).max(rss(TEXT)) };
    }
    Ok(largest)
}

fn show_size(bytes: u64) -> String {
    match bytes / MB {
        mb if mb >= 1000 => format!("{} GB", mb / 1000),
        mb => format!("{mb} MB"),
    }
}

/// Reports the bandwidth of counting events, and for comparison that of reading memory.
fn report_bandwidth(report: &mut Report, speed: &[Measured], bytes: u64, memory: f64) {
    let Some(count) = find(speed, COUNT) else { return };
    let own = bytes as f64 / count.wall_median().as_secs_f64();
    report.row(json!({
        "table": "bandwidth",
        "memory_bytes_per_second": memory,
        "count_bytes_per_second": own,
    }));
    let mut table = measure::Table::new(&["bandwidth", "GB/s"]);
    table.row(vec!["memory, read by one core".to_owned(), format!("{:.2}", memory / 1e9)]);
    table.row(vec![format!("{COUNT}, all cores"), format!("{:.2}", own / 1e9)]);
    report.say(table.render());
}

/// Reports the speed-up by a thread on each CPU, and for comparison that by two processes. On two
/// CPUs, the latter is the most that the machine permits. It is less than 2 if virtual CPUs share a
/// physical core.
fn report_two_cores(report: &mut Report, speed: &[Measured]) {
    let Some(twice) = speed_up(speed, TEXT_TWICE, TEXT_ONE_CORE).map(|times| 2.0 * times) else {
        return;
    };
    let Some(threads) = speed_up(speed, TEXT, TEXT_ONE_CORE) else { return };
    report.row(json!({"table": "two cores", "programs": twice, "threads": threads}));
    let mut table = measure::Table::new(&["two cores beside one", ""]);
    table.row(vec!["two programs".to_owned(), format!("{twice:.2}x")]);
    table.row(vec![format!("{TEXT}, two threads"), format!("{threads:.2}x")]);
    report.say(table.render());
}

#[cfg(test)]
mod tests {
    use super::{MB, compare_lines, show_size};

    #[test]
    fn streams_are_compared() {
        fn check(left: &str, right: &str, expected: Result<u64, &str>) {
            let found = compare_lines(left.as_bytes(), right.as_bytes());
            match (found, expected) {
                (Err(found), Err(start)) => assert!(found.contains(start), "{found}"),
                (found, expected) => assert_eq!(found, expected.map_err(str::to_owned)),
            }
        }
        check("", "", Ok(0));
        check("a\nb\n", "a\nb\n", Ok(2));
        check("a\nb\n", "a\nc\n", Err("differ in line 2"));
        check("a\nb\n", "a\n", Err("differ in line 2"));
        check("", "a\n", Err("differ in line 1"));
    }

    #[test]
    fn sizes_are_shown() {
        assert_eq!(show_size(MB), "1 MB");
        assert_eq!(show_size(10_000 * MB), "10 GB");
    }
}
